# Need C4: check-then-insert races, with many sessions at once. Two deliveries of one key are never both stored, and
# none is refused unless the other one was stored.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('main', settings => [ 'synchronous_commit = off', 'shared_buffers = 64MB' ]);
my $dir = $node->basedir;
$node->safe_psql(
	'postgres', q{
	CREATE TABLE u (k int, client int);
	SELECT dedup_create('u_seen', dedup_filter(100000, 1e-9, 42));
	SELECT dedup_guard('u', 'u_seen', ARRAY['k'])});

# 8 clients, 100,000 inserts of 10,000 keys, one by one and in batches, a quarter of the
# transactions rolled back.
my %scripts = (
	single => q{
		\set k random(1, 10000)
		INSERT INTO u VALUES (:k, :client_id);
	},
	rolled_back => q{
		\set k random(1, 10000)
		BEGIN;
		INSERT INTO u VALUES (:k, :client_id);
		ROLLBACK;
	},
	batch => q{
		INSERT INTO u SELECT DISTINCT (random() * 9999)::int + 1 AS k, :client_id FROM generate_series(1, 100) ORDER BY k;
	});
foreach my $name (keys %scripts)
{
	open my $file, '>', "$dir/$name.sql" or die;
	print $file $scripts{$name};
	close $file;
}
$node->command_checks_all(
	[
		'pgbench', '-n', '-c', '8', '-j', '2', '-t', '1250', '-f', "$dir/single.sql\@60",
		'-f', "$dir/rolled_back.sql\@30", '-f', "$dir/batch.sql\@10", '-d', $node->connstr('postgres')
	],
	0,
	[qr{actually processed: 10000/10000}],
	[qr{^((?!ERROR|aborted).)*$}s],
	'8 clients');
my ($rows, $keys) = split /\|/, $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT k) FROM u');
is($rows, $keys, 'no key came in twice');
is( $node->safe_psql('postgres', q{SELECT "new" FROM dedup_stats('u_seen')}),
	$rows, 'as many keys were new as there are rows');

# Whatever has not come in is new, and what has is not.
is( $node->safe_psql('postgres',
		'WITH i AS (INSERT INTO u SELECT generate_series(1, 10000), -1 RETURNING 1) SELECT count(*) FROM i'),
	10000 - $rows, 'the keys that are missing go in');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT k) FROM u'), '10000|10000', 'exactly one row for each key');
is($node->safe_psql('postgres', q{SELECT in_flight FROM dedup_stats('u_seen')}), 0, 'nothing is in flight any more');
no_bad_pages($node, 'u_seen', 'after all that');
$node->stop;

done_testing();
