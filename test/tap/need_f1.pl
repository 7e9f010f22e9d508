# Need F1: a restore runs with an empty search_path, and COPY fires triggers. No name may be looked up without its
# schema: not that of the extension, which is in a schema of its own, nor of the filter, nor columns that need
# quoting.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('main');
my $dir = $node->basedir;
my $tables = q{"Odd ""schema"};
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'home', 'moved', 'archive';
$node->safe_psql(
	'home', qq{
	SET search_path = '';
	CREATE SCHEMA ext;
	CREATE EXTENSION streamdedup SCHEMA ext;
	CREATE SCHEMA $tables;
	SET search_path = $tables, ext;
	SELECT dedup_create('"the ""Filter"""', dedup_filter(100000, 1e-6, 42));
	SET search_path = '';
	CREATE TABLE $tables."T'able" ("Key, a" text, k int, keys ext.dedup_filter);
	SELECT ext.dedup_guard('$tables."T''able"', '$tables."the ""Filter"""', ARRAY['Key, a', 'k']);
	INSERT INTO $tables."T'able"
		SELECT 'a' || k % 50, k % 200, ext.dedup_add(ext.dedup_filter(1000), k) FROM pg_catalog.generate_series(1, 300) k;
	-- a schema's and a filter's new names are known to the guard
	ALTER TABLE $tables."the ""Filter""" RENAME TO "seen before";
	CREATE SCHEMA filters;
	ALTER TABLE $tables."seen before" SET SCHEMA filters;
});

my $contents = qq{SELECT count(*), count(DISTINCT ("Key, a", k)), md5(string_agg(keys::text, ',' ORDER BY "Key, a", k)) FROM $tables."T'able"};
my $before = $node->safe_psql('home', $contents);
like($before, qr/^200\|200\|/, 'the guard works with an empty search_path');

# How many of the rows sent again, and of as many new ones, go in.
sub sent_again
{
	my ($dbname) = @_;
	return $node->safe_psql(
		$dbname, qq{
		SET search_path = '';
		BEGIN;
		WITH i AS (INSERT INTO $tables."T'able" ("Key, a", k)
			SELECT 'a' || k % 50, k FROM pg_catalog.generate_series(0, 399) k RETURNING 1) SELECT pg_catalog.count(*) FROM i;
		ROLLBACK});
}
is(sent_again('home'), 200, 'known rows are left out, new ones are not');

$node->command_ok([ 'pg_dump', '-f', "$dir/home.sql", '-d', $node->connstr('home') ], 'pg_dump');
$node->command_ok(
	[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/home.sql", '-d', $node->connstr('moved') ],
	'psql -v ON_ERROR_STOP=1');
is($node->safe_psql('moved', $contents), $before, 'the same rows, and filters byte for byte');
is(sent_again('moved'), 200, 'and the guard knows them');
is($node->safe_psql('moved', q{SELECT * FROM ext.dedup_check('filters."seen before"')}), '', 'no bad page');

$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/home.dump", '-d', $node->connstr('home') ], 'pg_dump -Fc');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('archive'), "$dir/home.dump" ], 'pg_restore');
is($node->safe_psql('archive', $contents), $before, 'the same rows, and filters byte for byte');
is(sent_again('archive'), 200, 'and the guard knows them');

# Data only, into a table whose filter knows the keys: an error that says what to do, and
# no row is lost without a word.
$node->command_ok([ 'pg_dump', '--data-only', '-f', "$dir/data.sql", '-d', $node->connstr('home') ], 'pg_dump --data-only');
$node->safe_psql('moved', qq{TRUNCATE $tables."T'able"});
$node->command_fails_like(
	[ 'psql', '-XAtq', '-1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", '-d', $node->connstr('moved') ],
	qr/HINT:.*--disable-triggers/,
	'data only, into a filter that knows the keys');
$node->safe_psql('moved', 'TRUNCATE filters."seen before"');
$node->command_fails_like(
	[ 'psql', '-XAtq', '-1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", '-d', $node->connstr('moved') ],
	qr/HINT:.*--disable-triggers/,
	'data only, into an empty filter with its guard on');
$node->command_ok(
	[ 'pg_dump', '--data-only', '--disable-triggers', '-f', "$dir/data.sql", '-d', $node->connstr('home') ],
	'pg_dump --data-only --disable-triggers');
$node->command_ok(
	[ 'psql', '-XAtq', '-1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", '-d', $node->connstr('moved') ],
	'data only, with --disable-triggers');
is($node->safe_psql('moved', $contents), $before, 'the same rows, and filters byte for byte');
is(sent_again('moved'), 200, 'and the guard knows them');
$node->stop;

done_testing();
