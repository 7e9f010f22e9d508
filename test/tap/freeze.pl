# Old transactions: after VACUUM FREEZE of everything and truncation of the commit log, the server does not know any
# more how a transaction ended. So a filter must have settled its entries before. Committed keys are duplicates
# afterwards, and aborted ones are new.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $node = start_node('main', settings => ['max_prepared_transactions = 10']);
my $pg_xact = $node->data_dir . '/pg_xact';

# Transaction ids go on from the start of a segment of the commit log: nothing to write
# for those that are left out.
sub jump_to
{
	my ($segment) = @_;
	$node->stop;
	$node->command_ok([ 'pg_resetwal', '-x', $segment * 1024 * 1024, '-D', $node->data_dir ],
		"transaction ids go on in segment $segment");
	$node->start;
	return;
}

sub freeze_all
{
	$node->command_ok([ 'vacuumdb', '--all', '--freeze', '--quiet' ], 'VACUUM FREEZE of everything');
	return;
}

sub frozen_to
{
	my ($relation) = @_;
	return $node->safe_psql('postgres', "SELECT relfrozenxid::text::bigint FROM pg_class WHERE relname = '$relation'");
}

# the oldest database decides, even if nobody may connect to it
$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');

# Keys of every fate, and none of them is looked at again before the commit log is gone.
workload($node, 'w', 0);
$node->safe_psql(
	'postgres', qq{
	SELECT dedup_create('f', $prototype);
	SELECT count(is_new('f', k)) FROM generate_series(1, 1000) k;
	BEGIN; SELECT count(is_new('f', k)) FROM generate_series(1001, 2000) k; ROLLBACK;
	BEGIN;
	SELECT count(is_new('f', k)) FROM generate_series(2001, 2500) k;
	SAVEPOINT p;
	SELECT count(is_new('f', k)) FROM generate_series(2501, 3000) k;
	ROLLBACK TO p;
	SAVEPOINT q;
	SELECT count(is_new('f', k)) FROM generate_series(3001, 3500) k;
	RELEASE q;
	COMMIT;
	BEGIN; SELECT count(is_new('f', k)) FROM generate_series(3501, 4000) k; PREPARE TRANSACTION 'committed';
	BEGIN; SELECT count(is_new('f', k)) FROM generate_series(4001, 4500) k; PREPARE TRANSACTION 'rolled back';
	COMMIT PREPARED 'committed';
	ROLLBACK PREPARED 'rolled back';
});
my $open = live_session($node);
$open->query(q{BEGIN; SELECT count(is_new('f', k)) FROM generate_series(5001, 6000) k});
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop('immediate');
$open->quit;
$node->start;
jump_to(3);
$node->safe_psql(
	'postgres', q{
	SELECT count(is_new('f', k)) FROM generate_series(6001, 7000) k;
	BEGIN; SELECT count(is_new('f', k)) FROM generate_series(7001, 8000) k; ROLLBACK});

# A transaction that is still open holds the cutoff, and with it the commit log.
$open = live_session($node);
my $xid = $open->query(q{BEGIN; SELECT count(is_new('f', k)) FROM generate_series(8001, 8100) k; SELECT pg_current_xact_id()});
$xid =~ s/.*\n//;
$node->safe_psql('postgres', 'VACUUM FREEZE f');
cmp_ok(frozen_to('f'), '<=', $xid, 'relfrozenxid does not pass an open transaction');
is($open->query(q{SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(8001, 8100) k}),
	0, 'whose keys are its own still');
$open->query('ROLLBACK');
$open->quit;

ok(-e "$pg_xact/0000", 'the commit log of all that is there');
freeze_all();
ok(!-e "$pg_xact/0000", 'and then it is gone');
cmp_ok(frozen_to($_), '>=', 3 * 1024 * 1024, "relfrozenxid of $_ has passed it") foreach 'f', 'w';

sub keys_are_right
{
	my ($when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(seen($node, 'f', 1, 1000), 1000, "$when: committed");
	is(seen($node, 'f', 1001, 2000), 0, "$when: rolled back");
	is(seen($node, 'f', 2001, 2500), 500, "$when: committed beside savepoints");
	is(seen($node, 'f', 2501, 3000), 0, "$when: rolled back to a savepoint");
	is(seen($node, 'f', 3001, 3500), 500, "$when: of a released savepoint");
	is(seen($node, 'f', 3501, 4000), 500, "$when: COMMIT PREPARED");
	is(seen($node, 'f', 4001, 4500), 0, "$when: ROLLBACK PREPARED");
	is(seen($node, 'f', 5001, 6000), 0, "$when: in flight at a crash");
	is(seen($node, 'f', 6001, 7000), 1000, "$when: committed later");
	is(seen($node, 'f', 7001, 8100), 0, "$when: rolled back later");
	is(workload_holds($node, 'w'), '', "$when: and everything else");
	no_bad_pages($node, $_, "$_, $when") foreach 'f', 'w';
	return;
}
keys_are_right('frozen');

# once more, from pages that VACUUM has settled, and through VACUUM FULL and a crash
jump_to(5);
workload($node, 'w', 1);
freeze_all();
ok(!-e "$pg_xact/0003", 'the commit log is gone again');
keys_are_right('frozen twice');
$node->safe_psql('postgres', 'VACUUM FULL f; VACUUM FULL w; VACUUM (FULL, FREEZE) f');
keys_are_right('after VACUUM FULL');
$node->stop('immediate');
$node->start;
keys_are_right('after a crash');
is(new_among($node, 'f', 1, 8100), 1000 + 500 + 500 + 500 + 1000 + 1100, 'and those that are not there can be added');
is(new_among($node, 'f', 1, 8100), 0, 'once');
$node->stop;

done_testing();
