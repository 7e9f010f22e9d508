# pg_dump and pg_restore in every mode: a restored filter has the parameters of the old one and exactly the keys of
# the restored rows. If that is not possible, the restore raises an error instead of losing rows.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $node = start_node('main', settings => ['max_prepared_transactions = 10']);
my $dir = $node->basedir;
my $exact = filter_sql();

sub run_node
{
	my (@command) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	return ($ok, $err);
}

sub ok_node
{
	my ($what, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($ok, $err) = run_node(@command);
	ok($ok && $err !~ /ERROR/, $what) or diag($err);
	return;
}

# Restores a plain dump, stopping at the first error.
sub psql_file { return ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $_[0], '-f', $_[1]) }

my $databases = 0;
sub fresh_database
{
	my $name = 'db' . ++$databases;
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	return $name;
}

# What pg_dump sorts first is not always the filter: one before its table, one behind.
# One has a ttl, one is empty.
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE middle (k int, half int) PARTITION BY LIST (half);
	CREATE TABLE middle0 PARTITION OF middle FOR VALUES IN (0);
	CREATE TABLE middle1 PARTITION OF middle FOR VALUES IN (1);
	SELECT dedup_create('before', $exact);
	SELECT dedup_guard('middle', 'before', ARRAY['k']);
	INSERT INTO middle SELECT k, k % 2 FROM generate_series(1, 1000) k;

	CREATE TABLE more (k int, is_dup boolean);
	SELECT dedup_create('zz', $exact);
	SELECT dedup_guard('more', 'zz', ARRAY['k'], 'mark:is_dup');
	INSERT INTO more SELECT k % 800 + 1 FROM generate_series(0, 999) k;

	SELECT dedup_create('timed', dedup_window(54321, 0.002, 42), '7 days', renew => true);
	SELECT count(is_new('timed', k)) FROM generate_series(1, 1000) k;
	SELECT count(is_new_at('timed', now() - interval '6 days', k)) FROM generate_series(1001, 2000) k;
	SELECT dedup_create('empty', dedup_filter(777, 0.03));
	COMMENT ON TABLE timed IS 'clicks of the last week';

	-- each form of the aggregates
	CREATE VIEW aggregated AS SELECT half, dedup_agg(k) AS growing, dedup_agg('a', k) AS two,
		dedup_agg(dedup_filter(1000), k ORDER BY k) AS sized, dedup_agg(VARIADIC ARRAY[k, half]) FILTER (WHERE k > 7) AS elements,
		approx_count_distinct(DISTINCT k) AS keys, dedup_agg_hashes(dedup_hash(NULL, k)) AS hashes FROM middle GROUP BY half;
	-- a restore fills it, with an empty search path
	CREATE MATERIALIZED VIEW stored AS SELECT * FROM aggregated;
	CREATE VIEW running AS SELECT k, approx_count_distinct(k) OVER (ORDER BY k) AS so_far FROM middle;
	-- what did not come to pass
	BEGIN;
	INSERT INTO middle SELECT k, k % 2 FROM generate_series(1001, 2000) k;
	INSERT INTO more SELECT k FROM generate_series(1001, 2000) k;
	SELECT count(is_new('timed', k)) FROM generate_series(2001, 3000) k;
	ROLLBACK;
});

my $parameters =
  q{SELECT f, keys, fpr, ttl, renew FROM unnest('{before,zz,timed,empty}'::text[]) f, dedup_stats(f) ORDER BY f};
my $before = $node->safe_psql('postgres', $parameters);
my $aggregates = q{SELECT md5(string_agg(a::text, ' ' ORDER BY half)) FROM aggregated a
	UNION ALL SELECT md5(string_agg(r::text, ' ' ORDER BY k)) FROM running r};
my $aggregated = $node->safe_psql('postgres', $aggregates);

# All that a restored database must have. Ends with it changed.
sub check_restored
{
	my ($dbname, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($dbname, $parameters), $before, "$what: parameters");
	is($node->safe_psql($dbname, 'SELECT count(*), count(DISTINCT k) FROM middle'), '1000|1000', "$what: rows");
	is($node->safe_psql($dbname, 'SELECT count(*), count(*) FILTER (WHERE is_dup) FROM more'),
		'1000|200', "$what: marked rows");
	is($node->safe_psql($dbname, $aggregates), $aggregated, "$what: views of aggregates");
	is(seen($node, 'before', 1, 2000, $dbname), 1000, "$what: keys");
	is(seen($node, 'zz', 1, 2000, $dbname), 800, "$what: keys of the marked rows");
	is(seen($node, 'timed', 1, 2000, $dbname), 2000, "$what: keys with a ttl");
	cmp_ok(seen($node, 'timed', 2001, 3000, $dbname), '<=', 10, "$what: and no others");
	is(seen($node, 'empty', 1, 1000, $dbname), 0, "$what: the empty one is empty");
	no_bad_pages($node, $_, "$what: $_", $dbname) foreach 'before', 'zz', 'timed', 'empty';
	guards_work($dbname, $what, 1000, 200);
	is( sqlstate(
			$node, $dbname,
			q{BEGIN; CREATE TABLE once_more (k int); SELECT dedup_guard('once_more', 'timed', '{k}'); SELECT dedup_unguard('middle'); SELECT dedup_guard('middle', 'before', '{k}'); ROLLBACK}
		),
		'', "$what: a restored filter can guard a table");
	return;
}

# New keys go in and known ones do not, before and after.
sub guards_work
{
	my ($dbname, $what, $known, $known_marked) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			$dbname,
			q{WITH i AS (INSERT INTO middle SELECT k, k % 2 FROM generate_series(1, 1100) k RETURNING 1) SELECT count(*) FROM i}),
		1100 - $known, "$what: the guard knows them");
	is( $node->safe_psql($dbname,
			q{WITH i AS (INSERT INTO more SELECT k FROM generate_series(601, 1100) k RETURNING is_dup) SELECT count(*) FILTER (WHERE is_dup) FROM i}),
		$known_marked, "$what: the other guard too");
	return;
}

# Plain, custom, directory, parallel, in sections, clean.
{
	my $db = fresh_database();
	ok_node('pg_dump', 'pg_dump', '-f', "$dir/plain.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/plain.sql"));
	check_restored($db, 'pg_dump | psql');

	# and over what has changed meanwhile
	ok_node('pg_dump --clean', 'pg_dump', '--clean', '--if-exists', '-f', "$dir/clean.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/clean.sql"));
	check_restored($db, 'pg_dump --clean');

	# the dump of a restored database is the dump of the first
	my $again = fresh_database();
	ok_node('psql', psql_file($again, "$dir/plain.sql"));
	ok_node('pg_dump of the restored', 'pg_dump', '-f', "$dir/again.sql", $again);
	my @sorted = map { join('', sort grep { !/^\\(un)?restrict/ } split(/^/, slurp_file("$dir/$_.sql"))) } 'plain', 'again';
	ok($sorted[0] eq $sorted[1], 'it is the same dump');

	$db = fresh_database();
	ok_node('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/custom.dump", 'postgres');
	ok_node('pg_restore', 'pg_restore', '-e', '-d', $db, "$dir/custom.dump");
	check_restored($db, 'pg_restore');

	$db = fresh_database();
	ok_node('pg_restore -1', 'pg_restore', '-e', '-1', '-d', $db, "$dir/custom.dump");
	check_restored($db, 'pg_restore in one transaction');

	$db = fresh_database();
	ok_node('pg_dump -Fd -j 2', 'pg_dump', '-Fd', '-j', '2', '-f', "$dir/directory", 'postgres');
	ok_node('pg_restore -j 2', 'pg_restore', '-e', '-j', '2', '-d', $db, "$dir/directory");
	check_restored($db, 'parallel');

	$db = fresh_database();
	ok_node("pg_restore --section=$_", 'pg_restore', '-e', "--section=$_", '-d', $db, "$dir/custom.dump")
	  foreach 'pre-data', 'data', 'post-data';
	check_restored($db, 'by section');
}

# The schema only: the filters are empty and have their parameters; the guards guard.
# Then data only, which is an error with guards that are on: every row that came after
# its filter would be left out.
{
	my $db = fresh_database();
	ok_node('pg_dump --schema-only', 'pg_dump', '--schema-only', '-f', "$dir/schema.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/schema.sql"));
	is($node->safe_psql($db, $parameters), $before, '--schema-only: parameters');
	is(seen($node, $_, 1, 3000, $db), 0, "--schema-only: $_ is empty") foreach 'before', 'zz', 'timed', 'empty';

	foreach my $dump ([ 'sql', 'plain text' ], [ 'dump', 'archive' ])
	{
		my ($suffix, $what) = @$dump;
		my ($ok, $err);
		my @dump = ('pg_dump', '--data-only', $suffix eq 'dump' ? '-Fc' : '-Fp');
		my @restore = (
			$suffix eq 'dump' ? ('pg_restore', '-e', '-1', '--data-only') : ('psql', '-XAtq', '-1', '-v', 'ON_ERROR_STOP=1'),
			'-d', $db);

		ok_node("pg_dump --data-only, $what", @dump, '-f', "$dir/data.$suffix", 'postgres');
		($ok, $err) = run_node(@restore, ($suffix eq 'dump' ? () : '-f'), "$dir/data.$suffix");
		ok(!$ok, "--data-only with guards that are on is an error, $what");
		like($err, qr/HINT:.*--disable-triggers/, "and the hint says what to do, $what");
		is($node->safe_psql($db, 'SELECT (SELECT count(*) FROM middle), (SELECT count(*) FROM more)'),
			'0|0', "and nothing is half there, $what");

		# The same of each filter alone, whichever comes first.
		foreach my $filter ('before', 'zz')
		{
			ok_node("pg_dump --data-only -t $filter, $what",
				@dump, '-t', $filter, '-f', "$dir/one.$suffix", 'postgres');
			($ok, $err) = run_node(@restore, ($suffix eq 'dump' ? () : '-f'), "$dir/one.$suffix");
			like($err, qr/HINT:.*--disable-triggers/, "the same of $filter alone, $what");
		}
	}

	ok_node('pg_dump --data-only --disable-triggers',
		'pg_dump', '--data-only', '--disable-triggers', '-f', "$dir/data.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/data.sql"));
	check_restored($db, '--data-only --disable-triggers');

	$db = fresh_database();
	ok_node('psql', psql_file($db, "$dir/schema.sql"));
	ok_node('pg_restore --data-only --disable-triggers',
		'pg_restore', '-e', '--data-only', '--disable-triggers', '-d', $db, "$dir/custom.dump");
	check_restored($db, 'pg_restore --data-only --disable-triggers');

	# once more into what has keys now
	my ($ok, $err) = run_node(psql_file($db, "$dir/data.sql"));
	ok(!$ok, 'restoring data into a filter that has keys is an error');
	like($err, qr/ERROR:.*"(before|zz|timed)"/, 'which names the filter');

	# with the schema there and no guard, no flag is needed
	$db = fresh_database();
	ok_node('psql', psql_file($db, "$dir/schema.sql"));
	$node->safe_psql($db, "SELECT dedup_unguard('middle'); SELECT dedup_unguard('more')");
	ok_node('psql', psql_file($db, "$dir/data.sql"));
	$node->safe_psql($db,
		"SELECT dedup_guard('middle', 'before', ARRAY['k']); SELECT dedup_guard('more', 'zz', ARRAY['k'], 'mark:is_dup')");
	check_restored($db, '--data-only without guards');
}

# Some tables only.
{
	my $db = fresh_database();
	$node->safe_psql($db, 'CREATE EXTENSION streamdedup');
	ok_node('pg_dump -t', 'pg_dump', '-t', 'timed', '-f', "$dir/timed.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/timed.sql"));
	is($node->safe_psql($db, q{SELECT keys, fpr, ttl FROM dedup_stats('timed')}),
		'54321|0.002|7 days', '-t timed: parameters');
	is(seen($node, 'timed', 1, 2000, $db), 2000, '-t timed: keys');
	is($node->safe_psql($db, q{SELECT obj_description('timed'::regclass)}),
		'clicks of the last week', '-t timed: comment');
	ok_node('pg_dump -t -t', 'pg_dump', '-t', 'before', '-t', 'middle*', '-f', "$dir/middle.sql", 'postgres');
	ok_node('psql', psql_file($db, "$dir/middle.sql"));
	is(seen($node, 'before', 1, 2000, $db), 1000, '-t before -t middle: keys');
	is( $node->safe_psql(
			$db,
			q{WITH i AS (INSERT INTO middle SELECT k, k % 2 FROM generate_series(1, 1100) k RETURNING 1) SELECT count(*) FROM i}),
		100, '-t before -t middle: the guard knows them');
	ok_node('pg_dump --exclude-table-data',
		'pg_dump', '--exclude-table-data=zz', '--exclude-table-data=before', '-f', "$dir/nodata.sql", 'postgres');
	$db = fresh_database();
	ok_node('psql', psql_file($db, "$dir/nodata.sql"));
	is(seen($node, 'zz', 1, 2000, $db), 0, '--exclude-table-data: an empty filter');
	is($node->safe_psql($db, 'SELECT count(*) FROM more'), 1000, '--exclude-table-data: and all rows');
}

# What cannot work says so: a filter's pages are no rows to insert, and no heap's.
foreach my $flag ('--inserts', '--column-inserts', '--no-table-access-method')
{
	my $db = fresh_database();
	ok_node("pg_dump $flag", 'pg_dump', $flag, '-f', "$dir/wrong.sql", 'postgres');
	my ($ok, $err) = run_node(psql_file($db, "$dir/wrong.sql"));
	ok(!$ok, "restoring a dump made with $flag is an error");
	like($err, $flag =~ /inserts/ ? qr/ERROR:  cannot insert into live filter/ : qr/HINT:.*$flag/,
		"and says what is wrong with $flag");
}

# COPY of a page image that is none, or of another filter.
{
	$node->safe_psql(
		'postgres', qq{
		SELECT dedup_create('other', dedup_filter(5000, 0.001, 1));
		SELECT dedup_create('same', $exact);
		CREATE ROLE writer LOGIN;
		GRANT SELECT, INSERT ON same TO writer;
	});
	my $session = live_session($node);
	$session->query("\\copy before TO '$dir/before.copy'");
	$session->query("BEGIN");
	$session->query("\\copy same FROM '$dir/before.copy'");
	is($session->query(q{SELECT count(*) FILTER (WHERE dedup_seen('same', k)) FROM generate_series(1, 2000) k}),
		1000, 'a filter that is being restored has its keys');
	$session->query('ROLLBACK');
	is(seen($node, 'same', 1, 2000), 0, 'an aborted restore is an empty filter');
	no_bad_pages($node, 'same', 'after an aborted restore');
	is(new_among($node, 'same', 1, 10), 10, 'which takes keys');
	isnt($session->query("\\copy same FROM '$dir/before.copy'"), '', 'one with keys refuses a restore');
	is(seen($node, 'same', 1, 2000), 10, 'and stays as it is');
	$node->safe_psql('postgres', 'TRUNCATE same');
	is($session->query("\\copy same FROM '$dir/before.copy'"), '', 'an emptied one takes it');
	is(seen($node, 'same', 1, 2000), 1000, 'and has the keys');
	$node->safe_psql('postgres', 'TRUNCATE same');
	isnt($session->query("\\copy other FROM '$dir/before.copy'"), '', 'a filter of another shape refuses it');
	is(seen($node, 'other', 1, 2000), 0, 'and stays empty');
	PostgreSQL::Test::Utils::append_to_file("$dir/garbage.copy", "no page\n");
	isnt($session->query("\\copy same FROM '$dir/garbage.copy'"), '', 'a page that is none is an error');
	$session->query('SET ROLE writer');
	is($session->query("\\copy same FROM '$dir/before.copy'"), '42501', 'the owner only may restore');
	is($session->query("SELECT is_new('same', 1)"), 't', 'whoever may INSERT may add, though');
	$session->quit;
	$node->safe_psql('postgres', 'DROP TABLE other, same');
}

# The dump is of its snapshot, whatever commits before it reads the filter.
{
	my $open = live_session($node);
	$open->query(
		q{BEGIN;
		INSERT INTO middle SELECT k, k % 2 FROM generate_series(10001, 10100) k;
		SAVEPOINT p;
		INSERT INTO middle SELECT k, k % 2 FROM generate_series(10101, 10200) k;
		RELEASE p});
	my $dumper = live_session($node);
	my $snapshot = $dumper->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()');
	$open->query('COMMIT');
	$node->safe_psql(
		'postgres', q{
		INSERT INTO middle SELECT k, k % 2 FROM generate_series(10201, 10300) k;
		DO $$ BEGIN
			FOR k IN 10301 .. 10400 LOOP
				BEGIN
					INSERT INTO middle VALUES (k, k % 2);
				EXCEPTION WHEN OTHERS THEN NULL;
				END;
			END LOOP;
		END $$;
		INSERT INTO middle SELECT k, k % 2 FROM generate_series(1, 1000) k;
		VACUUM before;
		VACUUM FREEZE before;
	});
	my $flying = live_session($node);
	$flying->query(q{BEGIN; INSERT INTO middle SELECT k, k % 2 FROM generate_series(10401, 10500) k});

	my $db = fresh_database();
	ok_node('pg_dump --snapshot', 'pg_dump', "--snapshot=$snapshot", '-f', "$dir/snapshot.sql", 'postgres');
	$dumper->query('COMMIT');
	ok_node('psql', psql_file($db, "$dir/snapshot.sql"));
	check_restored($db, 'a dump while others commit');
	is(seen($node, 'before', 10001, 10500, $db), 0, 'it has no key of a row that it has not');
	is( $node->safe_psql(
			$db,
			q{WITH i AS (INSERT INTO middle SELECT k, k % 2 FROM generate_series(10001, 10500) k RETURNING 1) SELECT count(*) FROM i}),
		500, 'so those rows can come again');
	$flying->query('COMMIT');
	is(seen($node, 'before', 10001, 10500), 500, 'while the original has them');

	# forgotten after the snapshot, with the row: the dump has both
	$snapshot = $dumper->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()');
	$node->safe_psql('postgres',
		q{BEGIN; DELETE FROM middle WHERE k <= 10; SELECT dedup_forget('before', k) FROM generate_series(1, 10) k; COMMIT});
	$db = fresh_database();
	ok_node('pg_dump --snapshot', 'pg_dump', "--snapshot=$snapshot", '-f', "$dir/forgotten.sql", 'postgres');
	$dumper->query('COMMIT');
	ok_node('psql', psql_file($db, "$dir/forgotten.sql"));
	is($node->safe_psql($db, 'SELECT count(*) FROM middle WHERE k <= 10'), 10, 'rows deleted since are in the dump');
	is(seen($node, 'before', 1, 10, $db), 10, 'and so are keys forgotten since');
	$_->quit foreach $open, $dumper, $flying;
}

# A transaction is prepared while the dump is made: it is in flight for the dump.
{
	$node->safe_psql('postgres',
		q{BEGIN; INSERT INTO more SELECT k FROM generate_series(20001, 20100) k; PREPARE TRANSACTION 'p'});
	my $db = fresh_database();
	ok_node('pg_dump', 'pg_dump', '-f', "$dir/prepared.sql", 'postgres');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
	ok_node('psql', psql_file($db, "$dir/prepared.sql"));
	is(seen($node, 'zz', 20001, 20100, $db), 0, 'prepared keys are not in the dump');
	is(seen($node, 'zz', 1, 800, $db), 800, 'and all others are');
}

$node->stop;
done_testing();
