# Guards whose deleted rows free their keys. The filter must have exactly the keys of the table. Random transactions
# of two sessions with savepoints, on partitions, and crashes in the middle of them; prepared transactions; a
# standby; a dump; a subscriber; sessions that have not loaded the library. GUARD_FORGET_SEED and GUARD_FORGET_ROUNDS
# run others.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $seed = $ENV{GUARD_FORGET_SEED} // 1;
my $rounds = $ENV{GUARD_FORGET_ROUNDS} // 2;
srand $seed;
note "seed $seed";

my $keys = 60;
my $node = start_node(
	'guard_forget',
	allows_streaming => 'logical',
	settings => [ 'max_prepared_transactions = 4', 'deadlock_timeout = 100ms', 'max_wal_senders = 8' ]);
my $tables = q{
	CREATE TABLE t (k int, at int, v text) PARTITION BY RANGE (at);
	CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
	CREATE TABLE t2 (v text, gone int, k int, at int);
	ALTER TABLE t2 DROP COLUMN gone;
	ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20);
	SELECT dedup_create('seen', dedup_filter(500, 1e-7, 42));
};
$node->safe_psql('postgres', $tables . q{SELECT dedup_guard('t', 'seen', '{k}', on_delete => 'forget')});

# Where table and filter differ; or a key has two rows.
my $differences = "SELECT k, count(t.k), dedup_seen('seen', k) FROM generate_series(1, $keys) k "
  . 'LEFT JOIN t USING (k) GROUP BY k HAVING count(t.k) > 1 OR (count(t.k) = 1) <> dedup_seen(\'seen\', k) ORDER BY k';

sub agree
{
	my ($server, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($server->safe_psql('postgres', $differences), '', "$what: the filter has the keys of the table");
}

sub statement
{
	my $k = 1 + int(rand($keys));
	my $other = 1 + int(rand($keys));
	my $at = int(rand(20));
	my @all = (
		"INSERT INTO t VALUES ($k, $at)",
		"INSERT INTO t VALUES ($k, $at)",
		"INSERT INTO t SELECT k, $at FROM generate_series($k, $k + 3) k WHERE k <= $keys",
		"DELETE FROM t WHERE k = $k",
		"DELETE FROM t WHERE k BETWEEN $k AND $k + 3",
		"UPDATE t SET at = $at WHERE k BETWEEN $k AND $k + 5",
		"UPDATE t SET v = 'x' WHERE k = $k",
		"DO \$\$ BEGIN UPDATE t SET k = $other, at = $at WHERE k = $k; EXCEPTION WHEN unique_violation THEN NULL; END \$\$",
		"WITH d AS (DELETE FROM t WHERE k BETWEEN $k AND $k + 3 RETURNING *) INSERT INTO t SELECT k, $at FROM d WHERE k <> $other",
		"DO \$\$ BEGIN DELETE FROM t WHERE k = $k; INSERT INTO t VALUES ($k, $at); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$",
		"DO \$\$ BEGIN DELETE FROM t WHERE k = $k; INSERT INTO t VALUES ($k, $at); EXCEPTION WHEN division_by_zero THEN NULL; END \$\$",
		"MERGE INTO t USING (VALUES ($k)) s (k) ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, $at)",
		'SAVEPOINT p', 'SAVEPOINT p', 'ROLLBACK TO p', 'ROLLBACK TO p', 'RELEASE p');
	@all = grep { !/^MERGE/ } @all if $node->pg_version < 15;
	return $all[ int(rand(@all)) ];
}

# A transaction of one session. A deadlock or an unknown savepoint ends it.
sub transaction
{
	my ($open) = @_;
	my @sql = ('BEGIN', 'SAVEPOINT p', map { statement() } 1 .. 2 + int(rand(8)));
	push @sql, (int(rand(3)) ? 'COMMIT' : 'ROLLBACK') unless $open;
	return join(";\n", @sql);
}

foreach my $round (1 .. $rounds)
{
	my @sessions = map { live_session($node) } 1 .. 2;
	foreach (1 .. 20)
	{
		$_->send(transaction()) foreach @sessions;
		$_->wait foreach @sessions;
		$node->safe_psql('postgres', 'TRUNCATE t') unless int(rand(20));
		$node->safe_psql('postgres', 'VACUUM seen') unless int(rand(10));
	}
	agree($node, "round $round");
	$sessions[0]->query(transaction(1));
	$node->safe_psql('postgres', 'CHECKPOINT') if $round % 2;
	$sessions[1]->send(transaction(1));
	# so that the log has what the open ones wrote
	$node->safe_psql('postgres', "SELECT is_new('seen', 100000 + $round)");
	$node->stop('immediate');
	$_->quit foreach @sessions;
	$node->start;
	agree($node, "round $round, after a crash");
	no_bad_pages($node, 'seen', "round $round, after a crash");
}

# prepared transactions, over a restart
$node->safe_psql(
	'postgres', q{
	TRUNCATE t;
	INSERT INTO t SELECT k, k % 20 FROM generate_series(1, 20) k;
	BEGIN; DELETE FROM t WHERE k <= 5; INSERT INTO t VALUES (5, 1), (30, 1); PREPARE TRANSACTION 'commits';
	BEGIN; DELETE FROM t WHERE k BETWEEN 6 AND 9; UPDATE t SET k = 40 WHERE k = 10; PREPARE TRANSACTION 'rolls back';
});
$node->restart;
my $waiting = live_session($node);
$waiting->send('INSERT INTO t VALUES (1, 1) RETURNING k');
ok($waiting->waits, 'a row waits for the prepared transaction that has deleted its key');
$node->safe_psql('postgres', "COMMIT PREPARED 'commits'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'rolls back'");
is($waiting->wait, '1', 'and lands');
$waiting->quit;
is($node->safe_psql('postgres', 'SELECT string_agg(k::text, \' \' ORDER BY k) FROM t'),
	'1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 30', 'rows of both');
agree($node, 'prepared transactions');

# a standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('guard_forget_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'DELETE FROM t WHERE k <= 7; UPDATE t SET k = 50 WHERE k = 8; INSERT INTO t VALUES (2, 2)');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
agree($standby, 'a standby');
$standby->promote;
$standby->safe_psql('postgres', 'DELETE FROM t WHERE k > 15; INSERT INTO t VALUES (16, 2)');
agree($standby, 'a promoted standby');
$standby->stop;

# a dump, in which a transaction that forgets is not seen
my $open = live_session($node);
$open->query('BEGIN; DELETE FROM t WHERE k BETWEEN 10 AND 14; INSERT INTO t VALUES (11, 1)');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$open->query('COMMIT');
$open->quit;
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xqf', $dump, '-v', 'ON_ERROR_STOP=1', $node->connstr('restored') ], 'restored');
is($node->safe_psql('restored', $differences), '', 'restored: the filter has the keys of the table');
is( $node->safe_psql(
		'restored', q{
		SELECT on_delete, problem FROM dedup_guards;
		DELETE FROM t WHERE k = 12;
		INSERT INTO t VALUES (12, 1), (13, 2), (12, 3);
		SELECT count(*) FROM t WHERE k IN (12, 13)}),
	"forget|\n2", 'the restored guard forgets');
is($node->safe_psql('restored', $differences), '', 'and its filter has the keys of the table');

# a subscriber whose triggers fire
my $subscriber = start_node('guard_forget_subscriber');
$subscriber->safe_psql(
	'postgres', $tables . q{
	SELECT dedup_guard('t', 'seen', '{k}', on_delete => 'forget');
	ALTER TABLE t ENABLE ALWAYS TRIGGER "~dedup_guard_truncate";
	DO $$
	DECLARE
		p regclass;
		name text;
	BEGIN
		FOREACH p IN ARRAY '{t,t1,t2}'::regclass[] LOOP
			FOREACH name IN ARRAY '{~dedup_guard,~dedup_guard_delete,~dedup_guard_forget}'::text[] LOOP
				EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p, name);
			END LOOP;
		END LOOP;
	END $$;
});
$node->safe_psql('postgres',
	'TRUNCATE t; ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t1 REPLICA IDENTITY FULL; ALTER TABLE t2 REPLICA IDENTITY FULL; '
	  . 'CREATE PUBLICATION p FOR TABLE t');
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION p WITH (copy_data = false)");
$node->safe_psql(
	'postgres', q{
	INSERT INTO t SELECT k, k % 20 FROM generate_series(1, 20) k;
	DELETE FROM t WHERE k <= 4;
	INSERT INTO t VALUES (1, 15);
	UPDATE t SET at = (at + 10) % 20 WHERE k BETWEEN 5 AND 9;
	UPDATE t SET k = k + 30 WHERE k BETWEEN 10 AND 12;
	BEGIN;
	DELETE FROM t WHERE k = 13;
	INSERT INTO t VALUES (13, 1);
	COMMIT;
});
$node->wait_for_catchup('s');
is( $subscriber->safe_psql('postgres', 'SELECT k, at FROM t ORDER BY 1'),
	$node->safe_psql('postgres', 'SELECT k, at FROM t ORDER BY 1'),
	'a subscriber has the rows of the publisher');
agree($subscriber, 'a subscriber');
agree($node, 'its publisher');
$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t VALUES (14, 1)');
$node->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT k FROM t'), '14', 'TRUNCATE arrives');
agree($subscriber, 'a subscriber, after TRUNCATE');
$subscriber->stop;

# sessions that have not loaded the library say that keys stay
$node->safe_psql('postgres', 'INSERT INTO t SELECT k, k % 20 FROM generate_series(20, 40) k');
foreach my $sql (
	'TRUNCATE t1',
	'ALTER TABLE t DETACH PARTITION t1',
	($node->pg_version >= 14 ? 'ALTER TABLE t DETACH PARTITION t1 CONCURRENTLY' : ()),
	'DROP TABLE t1')
{
	my ($rc, $stdout, $stderr) = $node->psql('postgres', $sql =~ /CONCURRENTLY/ ? $sql : "BEGIN; $sql; COMMIT");
	like(
		$stderr,
		qr/NOTICE:  live filter "seen" still has the keys of the rows of table "t1"\n.*\nHINT:  .*dedup_rebuild\('public.seen'\)/,
		"$sql, in a session that has not loaded the library");
	# for the next one
	$node->safe_psql('postgres', 'ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (10)') if $sql =~ /DETACH/;
	$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t SELECT k, k % 20 FROM generate_series(20, 40) k')
	  unless $sql =~ /^DROP/;
}
my ($rc, $stdout, $stderr) = $node->psql('postgres', 'DROP TABLE t2, t');
unlike($stderr, qr/still has the keys/, 'DROP of the whole table says nothing');

$node->stop;
done_testing();
