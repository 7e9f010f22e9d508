# A crash: pg_ctl stop -m immediate in the middle of transactions, their pages on disk
# already. Committed keys are duplicates afterwards and all others are new.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();

# With wal_level = minimal what a transaction does to a relation that it has made is not
# logged at all.
foreach my $wal_level ('minimal', 'replica')
{
	my $node = start_node("crash_$wal_level",
		settings => [ "wal_level = $wal_level", 'max_wal_senders = 0', 'wal_skip_threshold = 0' ]);

	$node->safe_psql(
		'postgres', qq{
		SELECT dedup_create('f', $prototype);
		CREATE TABLE t (k int);
		SELECT dedup_create('t_seen', $prototype);
		SELECT dedup_guard('t', 't_seen', ARRAY['k']);
	});
	is(new_among($node, 'f', 1, 1000), 1000, "$wal_level: keys are new");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT generate_series(1, 100)');

	# in flight, with subtransactions that have ended either way
	my $open = live_session($node);
	is( $open->query(
			q{BEGIN;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(1001, 2000) k;
			SAVEPOINT p;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(2001, 2100) k;
			ROLLBACK TO p;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(2101, 2200) k;
			RELEASE p;
			SELECT dedup_forget('f', 1);
			INSERT INTO t SELECT generate_series(101, 200);}),
		"1000\n100\n100\nt",
		"$wal_level: a transaction is open");
	my $rolled_back = live_session($node);
	$rolled_back->query(
		q{BEGIN; SELECT count(is_new('f', k)) FROM generate_series(2201, 2300) k; ROLLBACK});

	$node->safe_psql('postgres', 'CHECKPOINT');

	# after the checkpoint: committed, forgotten, made, and in flight again
	is(new_among($node, 'f', 3001, 4000), 1000, "$wal_level: keys after the checkpoint");
	$node->safe_psql(
		'postgres', qq{
		SELECT dedup_forget('f', 2);
		SELECT count(*) FROM dedup_new_keys('f', (SELECT array_agg(k) FROM generate_series(4001, 5000) k));
		BEGIN;
		SELECT dedup_create('made', $prototype);
		SELECT count(is_new('made', k)) FROM generate_series(1, 1000) k;
		SAVEPOINT p;
		SELECT count(is_new('made', k)) FROM generate_series(1001, 2000) k;
		ROLLBACK TO p;
		COMMIT;
	});
	my $counted = q{SELECT new FROM dedup_stats('made')};
	is($node->safe_psql('postgres', $counted), 1000, "$wal_level: keys of the new filter are counted");
	my $second = live_session($node);
	is( $second->query(
			qq{BEGIN;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(5001, 5500) k;
			SELECT count(*) FROM dedup_new_keys('f', ARRAY(SELECT k FROM generate_series(4901, 6000) k));
			SELECT dedup_create('unmade', $prototype)}),
		"500\n500\nunmade",
		"$wal_level: a second one is open");
	# so that the log has what the open ones wrote
	$node->safe_psql('postgres', "SELECT is_new('f', 9999)");

	$node->stop('immediate');
	$_->quit foreach $open, $second, $rolled_back;
	$node->start;

	is(seen($node, 'f', 1, 1), 1, "$wal_level: forgotten in an open transaction: still there");
	is(seen($node, 'f', 2, 2), 0, "$wal_level: forgotten in a committed one: gone");
	is(seen($node, 'f', 3, 1000), 998, "$wal_level: committed before the checkpoint");
	is(seen($node, 'f', 1001, 2300), 0, "$wal_level: in flight at the checkpoint");
	is(seen($node, 'f', 3001, 5000), 2000, "$wal_level: committed after it");
	is(seen($node, 'f', 5001, 6000), 0, "$wal_level: in flight at the crash");
	is(seen($node, 'made', 1, 2000), 1000, "$wal_level: keys of the transaction that made the filter");
	# What is not logged is synced at the commit, counters included.
	is($node->safe_psql('postgres', $counted), 1000, "$wal_level: its keys are still counted")
	  if $wal_level eq 'minimal';
	is(sqlstate($node, 'postgres', "SELECT dedup_seen('unmade', 1)"),
		'42P01', "$wal_level: a filter of an open transaction does not exist");
	no_bad_pages($node, $_, "$wal_level, $_ after the crash") foreach 'f', 'made', 't_seen';

	# the retry is not taken for a duplicate
	is(new_among($node, 'f', 1001, 2300), 1300, "$wal_level: lost keys are new");
	is(new_among($node, 'f', 1, 6000), 1 + 700 + 1000, "$wal_level: so are those that never came, and no other");
	is($node->safe_psql('postgres',
			'WITH i AS (INSERT INTO t SELECT generate_series(1, 200) RETURNING 1) SELECT count(*) FROM i'),
		100, "$wal_level: the rows that were lost go in");

	# once more, without a checkpoint in between
	$node->stop('immediate');
	$node->start;
	is(new_among($node, 'f', 1, 6000), 0, "$wal_level: nothing is new after a second crash");
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT k) FROM t'),
		'200|200', "$wal_level: one row for each key");
	no_bad_pages($node, 'f', "$wal_level, after the second crash");

	# and after a clean restart
	$node->restart;
	is(new_among($node, 'f', 1, 6000), 0, "$wal_level: nothing is new after a restart");
	$node->stop;
}

# A backend that is killed takes the others with it and recovers; its keys are new.
my $node = start_node('killed', settings => [ 'restart_after_crash = on' ]);
workload($node, 'w', 0);
$node->safe_psql('postgres', "SELECT dedup_create('f', $prototype)");
my $killed = live_session($node);
$killed->query(q{BEGIN; SELECT count(is_new('f', k)) FROM generate_series(1, 1000) k});
$node->safe_psql('postgres', 'CHECKPOINT');
kill 'KILL', $killed->{pid};
$killed->quit;
$node->wait_for_log(qr/all server processes terminated; reinitializing/);
$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('the server did not come back');
is(new_among($node, 'f', 1, 1000), 1000, 'keys of a killed backend are new');
is(workload_holds($node, 'w'), '', 'all others answer as before');
no_bad_pages($node, $_, "$_ after a killed backend") foreach 'f', 'w';
$node->stop;

done_testing();
