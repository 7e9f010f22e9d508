# pg_partman moves rows out of the default partition by deleting them into a temporary table
# and inserting them again, in one transaction a batch. A guard keeps them all. The statements
# of partition_data_async of release 5.3 and later, which commits in between, are run by hand:
# they need the guard to be off, as docs/recipes.md says.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('partman');
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_partman' AND default_version LIKE '4.%'}) eq '0')
{
	$node->stop;
	plan skip_all => 'pg_partman 4 is not installed';
}

foreach my $mode ('skip', 'reject', 'mark')
{
	$node->safe_psql('postgres', "CREATE DATABASE $mode");
	$node->safe_psql(
		$mode, qq{
		CREATE EXTENSION streamdedup;
		CREATE SCHEMA partman;
		CREATE EXTENSION pg_partman SCHEMA partman;
		CREATE TABLE ev (id bigint, at timestamptz NOT NULL, is_duplicate boolean) PARTITION BY RANGE (at);
		SELECT partman.create_parent('public.ev', 'at', 'native', 'daily', p_premake => 1);
		SELECT dedup_create('ev_seen', dedup_filter(100000, 0.000001, 42));
		SELECT dedup_guard('ev', 'ev_seen', '{id}', '$mode');
		INSERT INTO ev SELECT i, now() + interval '20 days' + (i % 3) * interval '1 day' FROM generate_series(1, 300) i;
		INSERT INTO ev SELECT i, now() FROM generate_series(301, 400) i});
	is($node->safe_psql($mode, 'SELECT count(*) > 0 FROM ev_default'), 't', "$mode: rows are in the default partition");
	$node->safe_psql($mode, q{CALL partman.partition_data_proc('public.ev')});
	is($node->safe_psql($mode, 'SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE is_duplicate) FROM ev'),
		'400|400|0', "$mode: no row is lost, doubled or marked");
	is($node->safe_psql($mode, 'SELECT count(*) FROM ev_default'), '0', "$mode: they have moved");
	is($node->safe_psql($mode, q{SELECT new, skipped, rejected, marked FROM dedup_stats('ev_seen')}), '400|0|0|0',
		"$mode: nothing was refused");

	$node->safe_psql(
		$mode, q{
		CREATE TABLE aside (LIKE ev INCLUDING INDEXES);
		INSERT INTO ev SELECT i, now() + interval '50 days' FROM generate_series(501, 510) i});
	my $unguard = "SELECT dedup_unguard('ev')";
	my $guard = "SELECT dedup_guard('ev', 'ev_seen', '{id}', '$mode')";
	my ($away, $back) = map { "WITH d AS (DELETE FROM $_->[0] RETURNING *) INSERT INTO $_->[1] SELECT * FROM d" }
		['ev_default', 'aside'], ['aside', 'ev_later'];
	my $later = q{SELECT format('CREATE TABLE ev_later PARTITION OF ev FOR VALUES FROM (%L) TO (%L)', now() + interval '40 days', now() + interval '60 days') \gexec};
	like(messages($node, $mode, "BEGIN;\n$away;\nCOMMIT;\n$later\nBEGIN;\n$back;\nROLLBACK"),
		{ skip => qr/^$/, reject => qr/ERROR:  23505/, mark => qr/^$/ }->{$mode}, "$mode: with the guard");
	is($node->safe_psql($mode, "BEGIN;\n" . ($mode eq 'reject' ? '' : "$back;\n") . 'SELECT count(*), count(*) FILTER (WHERE is_duplicate) FROM ev_later'),
		{ skip => '0|0', reject => '0|0', mark => '10|10' }->{$mode}, "$mode: rows that are moved in two transactions are duplicates");
	$node->safe_psql($mode, "$unguard;\n$back;\n$guard");
	is($node->safe_psql($mode, 'SELECT count(*), count(*) FILTER (WHERE is_duplicate) FROM ev_later'),
		'10|0', "$mode: moved in two transactions without the guard");
	is(sqlstate($node, $mode, q{INSERT INTO ev SELECT 501, now() + interval '50 days'}), $mode eq 'reject' ? '23505' : '',
		"$mode: guarded again");
	is($node->safe_psql($mode, 'SELECT count(*), count(*) FILTER (WHERE is_duplicate) FROM ev_later'),
		$mode eq 'mark' ? '11|1' : '10|0', "$mode: the keys are known still");
}
$node->stop;

done_testing();
