# Exact guards by time after a crash, in dumps, on a promoted standby, and after loads that were rolled back. The
# filter must still know that it need not have the keys of rows older than the window. So a late row near one of
# these is refused.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node(
	'main',
	allows_streaming => 1,
	settings => ['wal_consistency_checking = all']);

# 1000 keys a day for 30 days, of which the window of 7 days is loaded, by dedup_guard(). The
# partition of the last 5 days comes row by row: all pages know then that it is day 34.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (k int, at timestamptz) PARTITION BY RANGE (at);
	CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-01-31');
	CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-01-31') TO ('2025-01-01');
	CREATE INDEX ON t (k);
	INSERT INTO t SELECT day * 1000 + i, '2024-01-01'::timestamptz + day * interval '1 day' FROM generate_series(0, 29) day, generate_series(1, 1000) i;
	SELECT dedup_create('f', dedup_window(8000, 1e-6, 42), '7 days');
	SELECT dedup_guard('t', 'f', '{k}', exact => true, at => 'at');
	CREATE TABLE loaded AS SELECT new FROM dedup_stats('f');
	CREATE TABLE attached (LIKE t);
	INSERT INTO attached SELECT -k, '2026-01-01' FROM generate_series(1, 20000) k;
	CREATE INDEX ON attached (k);
});
is($node->safe_psql('postgres', 'TABLE loaded'), 8000, 'the keys of the window were loaded');

# How many rows are let in near those that are there, and how many apart from them. `from`: the
# first day that is tried.
sub let_in
{
	my ($where, $from, $to) = @_;
	return $where->safe_psql(
		'postgres', qq{
		BEGIN;
		SET LOCAL client_min_messages = error;
		WITH i AS (INSERT INTO t SELECT k, at + interval '1 hour' FROM t WHERE at >= '2024-01-01'::timestamptz + interval '$from days' AND at < '2024-01-01'::timestamptz + interval '$to days' AND k % 10 = 0 RETURNING 1)
			SELECT count(*) FROM i;
		WITH i AS (INSERT INTO t SELECT -k, at + interval '1 hour' FROM t WHERE at >= '2024-01-01'::timestamptz + interval '$from days' AND at < '2024-01-01'::timestamptz + interval '$to days' AND k % 10 = 0 RETURNING 1)
			SELECT count(*) = 100 * ($to - $from) FROM i;
		ROLLBACK});
}
is(let_in($node, 0, 30), "0\nt", 'loaded: near rows are refused, others are not');

# a crash, which loses the counters, and the newest generation among them
$node->stop('immediate');
$node->start;
is(let_in($node, 0, 30), "0\nt", 'the same after a crash');

# in order: nearly nothing is looked for
my $before = $node->safe_psql('postgres', q{SELECT checked_not_found FROM dedup_stats('f')});
foreach my $day (30 .. 34)
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT $day * 1000 + i, '2024-01-01'::timestamptz + $day * interval '1 day' FROM generate_series(1, 1000) i");
}
my $searched = $node->safe_psql('postgres', q{SELECT checked_not_found FROM dedup_stats('f')}) - $before;
cmp_ok($searched, '<=', 250, "rows in order: $searched of 5000 were looked for in vain");
$node->safe_psql('postgres', 'VACUUM f');
is(let_in($node, 0, 35), "0\nt", 'rows that came in order');

# a partition far in the future, attached and rolled back: the window is where it was
$node->safe_psql('postgres', q{BEGIN; ALTER TABLE t ATTACH PARTITION attached FOR VALUES FROM ('2026-01-01') TO ('2027-01-01'); ROLLBACK});
is(let_in($node, 20, 35), "0\nt", 'after a load that was rolled back');
$node->safe_psql('postgres', 'VACUUM f');
is(let_in($node, 20, 35), "0\nt", 'and after VACUUM');
$before = $node->safe_psql('postgres', q{SELECT checked_not_found FROM dedup_stats('f')});
$node->safe_psql('postgres', q{INSERT INTO t SELECT -k, at + interval '4 days' FROM t WHERE at = '2024-01-01'::timestamptz + interval '34 days'});
$searched = $node->safe_psql('postgres', q{SELECT checked_not_found FROM dedup_stats('f')}) - $before;
cmp_ok($searched, '<=', 50, "and $searched of 1000 in order were looked for");

# a dump
$node->safe_psql('postgres', 'CREATE DATABASE restored');
my ($out, $err) = ('', '');
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $file = $node->basedir . '/dump.sql';
	ok(IPC::Run::run([ 'pg_dump', '-f', $file, 'postgres' ], '>', \$out, '2>', \$err), 'pg_dump') or diag($err);
	ok(IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'restored', '-f', $file ], '>', \$out, '2>', \$err), 'psql') or diag($err);
}
is( $node->safe_psql(
		'restored', q{
		BEGIN;
		SET LOCAL client_min_messages = error;
		WITH i AS (INSERT INTO t SELECT k, at + interval '1 hour' FROM t WHERE k % 10 = 0 RETURNING 1) SELECT count(*) FROM i;
		WITH i AS (INSERT INTO t SELECT k + 1000000, at + interval '1 hour' FROM t WHERE k > 0 AND k % 10 = 0 RETURNING 1) SELECT count(*) FROM i;
		ROLLBACK}),
	"0\n3500", 'restored: near rows are refused, others are not');

# a standby, promoted
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$standby->promote;
is(let_in($standby, 0, 30), "0\nt", 'a promoted standby');

done_testing();
