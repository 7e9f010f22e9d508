# dedup_rebuild() again and again, to a larger and a smaller size in turn, while sessions insert,
# delete and update rows, and one runs VACUUM. Each session has keys of its own, of which it
# knows what must become of each statement, and shares others. No statement may fail, not even
# by a deadlock. Afterwards the filter has the keys of the table and no others.
#
# REBUILD_RUNS multiplies the rebuilds.
#
# Then: a crash in the middle, a standby, and a server that does not log the new file.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $rebuilds = 10 * ($ENV{REBUILD_RUNS} || 1);
my $sessions = 3;
my @sizes = ('dedup_filter(30000, 1e-6)', 'dedup_filter(8000, 0.01)');
# A guard that forgets takes a false positive for a duplicate.
my @sharp = ('dedup_filter(30000, 1e-7)', 'dedup_filter(16000, 1e-7)');

my $node = start_node(
	'main',
	allows_streaming => 1,
	checksums => 0,
	settings => [ 'max_prepared_transactions = 4', 'deadlock_timeout = 100ms' ]);

# ---- what the sessions do ----------------------------------------------------

# Keys of session s are s * 10000 + 1 to 500; shared ones 1 to 200. `forgets`: a key that is
# deleted can come again.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE control (done boolean);
	INSERT INTO control VALUES (false);
	CREATE PROCEDURE work(t regclass, s int) LANGUAGE plpgsql AS $$
	DECLARE
		own boolean[] := array_fill(false, ARRAY[500]);
		k int;
		other int;
		landed int;
		op int;
		i int := 0;
	BEGIN
		PERFORM setseed(s / 100.0);
		WHILE i < 50 OR NOT (SELECT done FROM control) LOOP
			i := i + 1;
			k := 1 + floor(random() * 500);
			op := floor(random() * 8);
			IF i % 4 = 0 THEN
				PERFORM dedup_seen((t || '_seen')::regclass, k);
			END IF;
			IF op < 3 THEN
				EXECUTE format('INSERT INTO %s VALUES ($1)', t) USING s * 10000 + k;
				GET DIAGNOSTICS landed = ROW_COUNT;
				IF landed <> (NOT own[k])::int THEN
					RAISE EXCEPTION 'key % of session %: % rows landed', k, s, landed;
				END IF;
				own[k] := true;
			ELSIF op = 3 THEN
				EXECUTE format('DELETE FROM %s WHERE k = $1', t) USING s * 10000 + k;
				own[k] := false;
			ELSIF op = 4 THEN
				other := 1 + floor(random() * 500);
				IF own[k] AND NOT own[other] THEN
					EXECUTE format('UPDATE %s SET k = $2 WHERE k = $1', t) USING s * 10000 + k, s * 10000 + other;
					GET DIAGNOSTICS landed = ROW_COUNT;
					IF landed <> 1 THEN
						RAISE EXCEPTION 'key % of session % did not become %', k, s, other;
					END IF;
					own[k] := false;
					own[other] := true;
				END IF;
			ELSIF op = 5 THEN
				BEGIN
					EXECUTE format('INSERT INTO %s SELECT i FROM generate_series($1 + 1, $1 + 20) i', t) USING s * 10000 + 1000;
					EXECUTE format('DELETE FROM %s WHERE k BETWEEN $1 + 1 AND $1 + 10', t) USING s * 10000;
					RAISE EXCEPTION 'undo';
				EXCEPTION WHEN raise_exception THEN
					NULL;
				END;
			ELSIF op = 6 THEN
				EXECUTE format('INSERT INTO %s VALUES ($1)', t) USING 1 + floor(random() * 200);
			ELSE
				EXECUTE format('DELETE FROM %s WHERE k = $1', t) USING 1 + floor(random() * 200);
			END IF;
			IF i % 3 = 0 THEN
				ROLLBACK;
				own := array_fill(false, ARRAY[500]);
				FOR k IN EXECUTE format('SELECT k - $1 FROM %s WHERE k BETWEEN $1 + 1 AND $1 + 500', t) USING s * 10000 LOOP
					own[k] := true;
				END LOOP;
			END IF;
			COMMIT;
		END LOOP;
	END $$;
});

# Runs the sessions on a table until the filter was rebuilt often enough.
sub work_beside_rebuilds
{
	my ($table, @sizes) = @_;
	rebuild_beside_sessions(
		$node, $table,
		commands => [ map { "CALL work('$table', $_)" } 1 .. $sessions ],
		rebuilds => $rebuilds,
		sizes => \@sizes,
		tables => "$table");
	return;
}

# What must hold when nobody works any more.
sub check
{
	my ($table) = @_;
	is($node->safe_psql('postgres', "SELECT k FROM $table GROUP BY k HAVING count(*) > 1"), '', "$table: no duplicate");
	is($node->safe_psql('postgres', "SELECT k FROM $table WHERE NOT dedup_seen('${table}_seen', k)"), '', "$table: no key is missing");
	is($node->safe_psql('postgres', "BEGIN; WITH again AS (INSERT INTO $table SELECT k FROM $table RETURNING k) SELECT count(*) FROM again; ROLLBACK"),
		'0', "$table: each key is refused");
	is($node->safe_psql('postgres', qq{
		CREATE TEMP TABLE others AS SELECT k FROM (SELECT s * 10000 + i AS k FROM generate_series(0, $sessions) s, generate_series(1, 500) i) o
			WHERE NOT EXISTS (SELECT FROM $table t WHERE t.k = o.k);
		BEGIN;
		WITH landed AS (INSERT INTO $table SELECT k FROM others RETURNING k)
			SELECT k FROM others WHERE k NOT IN (SELECT k FROM landed);
		ROLLBACK}),
		'', "$table: each other key lands");
	no_bad_pages($node, "${table}_seen", $table);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_temp_%'"), '0', "$table: nothing is left behind");
	return;
}

# ---- an exact guard ------------------------------------------------------------

$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (k int) PARTITION BY RANGE (k);
	CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (20000);
	CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (20000) TO (60000);
	CREATE INDEX ON t (k);
	INSERT INTO t SELECT i FROM generate_series(50001, 60000 - 1) i;
	SELECT dedup_create('t_seen', dedup_filter(30000, 1e-6, 42));
	SELECT dedup_guard('t', 't_seen', '{k}', exact => true);
});
work_beside_rebuilds('t', @sizes);
check('t');

# ---- two tables with forgetting guards under one filter ------------------------------

$node->safe_psql(
	'postgres', q{
	CREATE TABLE f (k int);
	CREATE TABLE g (k int);
	INSERT INTO g SELECT i FROM generate_series(50001, 60000 - 1) i;
	SELECT dedup_create('f_seen', dedup_filter(30000, 1e-6, 42));
	SELECT dedup_guard('f', 'f_seen', '{k}', load => true, on_delete => 'forget');
	SELECT dedup_guard('g', 'f_seen', '{k}', load => true, on_delete => 'forget');
});
work_beside_rebuilds('f', @sharp);
check('f');
is($node->safe_psql('postgres', "SELECT k FROM g WHERE NOT dedup_seen('f_seen', k)"), '', 'g: no key is missing');

# Many keys that come and go while keys are loaded, into pages that overflow and such that do not.
my $asks = live_session($node);
my $rebuilds_one = live_session($node);
foreach my $size ('dedup_filter(500, 1e-6)', 'dedup_filter(100000, 1e-6)')
{
	$node->safe_psql('postgres', 'TRUNCATE f_seen, f, g; INSERT INTO g SELECT i FROM generate_series(1, 6000) i');
	$asks->query("BEGIN; SELECT dedup_seen('f_seen', 1)");
	$rebuilds_one->send("SELECT dedup_rebuild('f_seen', $size)");
	$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $rebuilds_one->{pid}");
	$node->safe_psql('postgres', q{
		DELETE FROM g WHERE k % 3 = 0;
		INSERT INTO g SELECT i FROM generate_series(6001, 8000) i;
		UPDATE g SET k = k + 100000 WHERE k % 3 = 1;
		DELETE FROM g WHERE k % 30 = 2;
	});
	$asks->query('COMMIT');
	unlike($rebuilds_one->wait, qr/ERROR/, "$size: rebuilt beside a change of all keys");
	is($node->safe_psql('postgres', "SELECT count(*) FROM g WHERE NOT dedup_seen('f_seen', k)"), '0', 'no key is missing');
	is($node->safe_psql('postgres', "SELECT count(*) FROM generate_series(1, 8000) i WHERE dedup_seen('f_seen', i) AND NOT EXISTS (SELECT FROM g WHERE k = i)"), '0', 'none is left');
	is($node->safe_psql('postgres', "SELECT new - (SELECT count(*) FROM g) FROM dedup_stats('f_seen')"), '0', 'and the count is right');
	no_bad_pages($node, 'f_seen', $size);
}

# ---- a crash in the middle, and what a standby has -------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

my $keys = $node->safe_psql('postgres', "SELECT keys FROM dedup_stats('t_seen')");
my $open = live_session($node);
my $middle = live_session($node);
$open->query('BEGIN; INSERT INTO t VALUES (501)');
$middle->send("SELECT dedup_rebuild('t_seen', dedup_filter(90000, 1e-6))");
$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $middle->{pid}");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT keys FROM dedup_stats('t_seen')"), $keys, 'after a crash the filter is the old one');
check('t');

$node->safe_psql('postgres', "SELECT dedup_rebuild('t_seen', dedup_filter(70000, 1e-6)); INSERT INTO t VALUES (502)");
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT keys FROM dedup_stats('t_seen')"), '70000', 'the standby has the new size');
is($standby->safe_psql('postgres', "SELECT k FROM t WHERE NOT dedup_seen('t_seen', k)"), '', 'and all keys');
no_bad_pages($standby, 't_seen', 'the standby');
$standby->stop;

# a dump has the new size, and that the filter covers the table

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE again');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('again'), '-f', $dump ], 'restored');
is($node->safe_psql('again', "SELECT keys FROM dedup_stats('t_seen')"), '70000', 'a restored filter has the new size');
is($node->safe_psql('again', "SELECT k FROM t WHERE NOT dedup_seen('t_seen', k)"), '', 'and all keys');
is($node->safe_psql('again', 'INSERT INTO t VALUES (502), (503) RETURNING k'), '503', 'and guards its table');

# a crash just after it

$node->stop('immediate');
$node->start;
check('t');

# ---- damaged pages: of keys, and the last one, of counters -------------------------------

my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "CHECKPOINT; SELECT pg_relation_filepath('t_seen')");
my $page = $node->safe_psql('postgres', 'SELECT min(block) FROM t_seen');
my $counters = $node->safe_psql('postgres', 'SELECT max(block) FROM t_seen');
$node->stop;
open my $damaged, '+<:raw', $file or die $file;
foreach my $block ($page, $counters)
{
	sysseek $damaged, $block * 8192 + 100, 0 or die;
	syswrite $damaged, "\x55\xaa\x55\xaa" x 8 or die;
}
close $damaged;
$node->start;
like($node->safe_psql('postgres', "SELECT string_agg(block::text, ' ' ORDER BY block) FROM dedup_check('t_seen')"),
	qr/^$page $counters$/, 'two pages are damaged');
my ($rc, $out, $said) = $node->psql('postgres', "SELECT dedup_rebuild('t_seen')");
like($said, qr/^psql:<stdin>:1: WARNING:  the counters of live filter "t_seen" start again\nDETAIL:  invalid page in block $counters/, 'the counters are lost');
check('t');
$node->stop;

# ---- a server that does not log new files ----------------------------------------------

my $minimal = start_node('minimal', settings => [ 'wal_level = minimal', 'max_wal_senders = 0' ]);
$minimal->safe_psql(
	'postgres', q{
	CREATE TABLE t (k int);
	CREATE INDEX ON t (k);
	INSERT INTO t SELECT i FROM generate_series(1, 5000) i;
	SELECT dedup_create('t_seen', dedup_filter(30000, 1e-6, 42));
	SELECT dedup_guard('t', 't_seen', '{k}', exact => true);
	DELETE FROM t WHERE k <= 1000;
	SELECT dedup_rebuild('t_seen', dedup_filter(50000, 1e-6));
	INSERT INTO t VALUES (1), (1001);
});
$minimal->stop('immediate');
$minimal->start;
is($minimal->safe_psql('postgres', "SELECT keys FROM dedup_stats('t_seen')"), '50000', 'wal_level = minimal: the filter is the new one');
is($minimal->safe_psql('postgres', "SELECT k FROM t WHERE NOT dedup_seen('t_seen', k)"), '', 'and has all keys');
is(seen($minimal, 't_seen', 2, 1000), '0', 'and no others');
no_bad_pages($minimal, 't_seen', 'wal_level = minimal');
$minimal->stop;

done_testing();
