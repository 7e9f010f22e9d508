# Two-phase commit: the keys of a prepared transaction are in flight until a third
# session ends it, across restarts and crashes.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $node = start_node('main', settings => ['max_prepared_transactions = 10']);
$node->safe_psql(
	'postgres', qq{
	SELECT dedup_create('f', $prototype);
	CREATE TABLE t (k int, u int UNIQUE);
	SELECT dedup_create('t_seen', $prototype);
	SET client_min_messages = error;
	SELECT dedup_guard('t', 't_seen', ARRAY['k']);
	INSERT INTO t VALUES (0, 0);
});

# The keys 1 to 100 of transaction n, some of them in subtransactions of either end; rows
# that land and one that does not.
sub prepare
{
	my ($n) = @_;
	$node->safe_psql(
		'postgres', qq{
		BEGIN;
		SELECT count(is_new('f', $n, k)) FROM generate_series(1, 100) k;
		SAVEPOINT p;
		SELECT count(is_new('f', $n, k)) FROM generate_series(101, 200) k;
		ROLLBACK TO p;
		SAVEPOINT q;
		SELECT count(is_new('f', $n, k)) FROM generate_series(201, 300) k;
		RELEASE q;
		INSERT INTO t VALUES ($n * 100, $n);
		INSERT INTO t VALUES ($n * 100 + 1, 0) ON CONFLICT DO NOTHING;
		PREPARE TRANSACTION 'p$n';
	});
	return;
}

sub seen_of
{
	my ($n) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FILTER (WHERE dedup_seen('f', $n, k)) FROM generate_series(1, 300) k");
}

sub new_of
{
	my ($n) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FILTER (WHERE is_new('f', $n, k)) FROM generate_series(1, 300) k");
}

my $held = q{SET lock_timeout = '100ms'; SELECT is_new('f', %d, %d)};
sub is_held { return sqlstate($node, 'postgres', sprintf($held, @_)) eq '55P03' }

prepare($_) foreach 1 .. 6;
is(seen_of(1), 0, 'prepared keys are not seen');
ok(is_held(1, 1), 'but held');
ok(is_held(1, 250), 'those of a released savepoint too');
is($node->safe_psql('postgres', "SELECT is_new('f', 1, 150)"), 't', 'those of a rolled back one are not');

# a row that did not land gave its key back before the transaction was prepared
is( $node->safe_psql('postgres',
		q{SET lock_timeout = '10s'; WITH i AS (INSERT INTO t VALUES (101, 101) RETURNING 1) SELECT count(*) FROM i}),
	1, 'the key of a row that did not land is not held');

# ends before a restart, waking who waits
foreach my $end ([ 1, 'COMMIT', 'f' ], [ 2, 'ROLLBACK', 't' ])
{
	my ($n, $how, $new) = @$end;
	my $waiting = live_session($node);
	$waiting->send("SELECT is_new('f', $n, 1)");
	ok($waiting->waits, "a session waits for what is prepared");
	$node->safe_psql('postgres', "$how PREPARED 'p$n'");
	is($waiting->wait, $new, "$how PREPARED wakes it");
	$waiting->quit;
}
is(seen_of(1), 201, 'COMMIT PREPARED keeps the keys');
is(new_of(2), 299, 'ROLLBACK PREPARED does not');

# across a clean restart and a crash
foreach my $stop ([ 'fast', 3, 4 ], [ 'immediate', 5, 6 ])
{
	my ($mode, $committed, $rolled_back) = @$stop;
	$node->safe_psql('postgres', 'CHECKPOINT') if $mode eq 'immediate';
	$node->stop($mode);
	$node->start;
	ok(is_held($_, 1), "after stop -m $mode the keys of p$_ are held") foreach $committed, $rolled_back;
	ok(is_held($committed, 250), 'those of its subtransaction too');
	is(seen_of($committed), 0, 'and not seen');

	my $waiting = live_session($node);
	$waiting->send("SELECT is_new('f', $committed, 1)");
	ok($waiting->waits, "a session waits for what is prepared");
	$node->safe_psql('postgres', "COMMIT PREPARED 'p$committed'; ROLLBACK PREPARED 'p$rolled_back'");
	is($waiting->wait, 'f', 'and is told that it is a duplicate');
	$waiting->quit;
	is(seen_of($committed), 200, 'COMMIT PREPARED keeps the keys');
	is(new_of($rolled_back), 300, 'ROLLBACK PREPARED does not');
	is($node->safe_psql('postgres', "SELECT k FROM t WHERE u IN ($committed, $rolled_back) ORDER BY k"),
		$committed * 100, 'and the rows are those of the committed one');
	is( $node->safe_psql('postgres',
			"WITH i AS (INSERT INTO t VALUES ($committed * 100, 1000 + $committed), ($rolled_back * 100, 1000 + $rolled_back) RETURNING k) SELECT k FROM i"),
		$rolled_back * 100, 'a retry of the rolled back row goes in');
}

# prepared in vain: VACUUM FREEZE does not fold what is undecided
prepare(7);
$node->safe_psql('postgres', 'VACUUM FREEZE f');
ok(is_held(7, 1), 'VACUUM FREEZE leaves prepared keys in flight');
cmp_ok(
	$node->safe_psql('postgres',
		q{SELECT age(relfrozenxid) - (SELECT age(transaction) FROM pg_prepared_xacts) FROM pg_class WHERE relname = 'f'}),
	'>=', 0, 'and relfrozenxid does not pass their transaction');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p7'");
is(new_of(7), 300, 'whose end they follow');
no_bad_pages($node, $_, $_) foreach 'f', 't_seen';
$node->stop;

done_testing();
