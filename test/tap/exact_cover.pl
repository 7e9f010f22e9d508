# The state whether a filter covers its table must be exact: after crashes, on a standby and after its promotion, for
# prepared transactions, with old transaction ids, and in a dump that is restored in any way. A damaged page raises
# an error, and never claims that the filter covers its table.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(system_or_bail);
use Test::More;

my $exact = filter_sql();
my $node = start_node('main', checksums => 0, allows_streaming => 1,
	settings => ['max_prepared_transactions = 10', 'hot_standby_feedback = off']);
my $dir = $node->basedir;

# What the filter says, as a dump has it.
sub covers
{
	my ($where, $filter, $dbname) = @_;
	return $where->safe_psql($dbname || 'postgres',
		"SELECT count(*) FROM $filter WHERE get_byte(dedup_page_send(page), 2) = 2");
}

sub said
{
	my ($filter, $expected, $what, $where, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(covers($where || $node, $filter, $dbname), $expected, $what);
}

sub make
{
	my ($table, $filter) = @_;
	return qq{
		CREATE TABLE $table (k int);
		CREATE INDEX ON $table (k);
		SELECT dedup_create('$filter', $exact);
	};
}

sub guard { return "SELECT dedup_guard('$_[0]', '$_[1]', '{k}', exact => true);" }

# ---- crashes ----------------------------------------------------------------------------

$node->safe_psql('postgres', make('a', 'fa') . guard('a', 'fa') . make('b', 'fb') . make('c', 'fc') . guard('c', 'fc'));
$node->safe_psql('postgres', 'INSERT INTO a SELECT k FROM generate_series(1, 1000) k; CHECKPOINT');
$node->safe_psql('postgres', "BEGIN; SELECT dedup_unguard('c'); COMMIT; INSERT INTO a SELECT k FROM generate_series(1001, 2000) k");
$node->safe_psql('postgres', make('d', 'fd') . guard('d', 'fd') . 'INSERT INTO d VALUES (1)');
my $session = live_session($node);
$session->query('BEGIN;' . guard('b', 'fb'));
$session->query("SAVEPOINT a; SELECT dedup_unguard('d')");
# the log has it, and the page too
$node->safe_psql('postgres', 'CHECKPOINT; CREATE TABLE log_is_written (k int)');
$node->stop('immediate');
$session->quit;
$node->start;
said('fa', 1, 'covers after a crash');
said('fb', 0, 'what was not committed does not, though its page was written');
said('fc', 0, 'given up before the crash');
said('fd', 1, 'given up by nobody');
no_bad_pages($node, $_, "$_ after a crash") for qw(fa fb fc fd);
$node->safe_psql('postgres', "$_") for guard('b', 'fb'), 'VACUUM fa, fb, fc, fd';
$node->stop('immediate');
$node->start;
said('fb', 1, 'said anew behind what was left of it');
said('fa', 1, 'settled');
said('fc', 0, 'settled, given up');

# both were emptied, by a session without the library and one with it
for my $statement ('TRUNCATE a, fa', 'TRUNCATE fa, a', "SELECT dedup_seen('fa', 1); TRUNCATE a, fa")
{
	$node->safe_psql('postgres', 'INSERT INTO a VALUES (1), (2)');
	$node->safe_psql('postgres', $statement);
	$node->stop('immediate');
	$node->start;
	is(covers($node, 'fa') . seen($node, 'fa', 1, 2) . $node->safe_psql('postgres', 'SELECT count(*) FROM a'),
		'100', "after a crash behind: $statement");
}

# an unlogged one is empty then, and covers nothing
$node->safe_psql(
	'postgres', qq{
	CREATE UNLOGGED TABLE u (k int);
	CREATE INDEX ON u (k);
	SELECT dedup_create('fu', $exact, unlogged => true);
} . guard('u', 'fu'));
said('fu', 1, 'an unlogged filter covers its unlogged table');
$node->stop('immediate');
$node->start;
said('fu', 0, 'an unlogged filter covers nothing after a crash');

# ---- prepared transactions --------------------------------------------------------------

$node->safe_psql('postgres', make("p$_", "fp$_")) for 1 .. 4;
$node->safe_psql('postgres', guard("p$_", "fp$_")) for 3, 4;
$node->safe_psql('postgres', 'BEGIN;' . guard("p$_", "fp$_") . "PREPARE TRANSACTION 'p$_'") for 1, 2;
$node->safe_psql('postgres', "BEGIN; SELECT dedup_unguard('p$_'); PREPARE TRANSACTION 'p$_'") for 3, 4;
$node->safe_psql('postgres', 'BEGIN; TRUNCATE a, fa; PREPARE TRANSACTION \'truncated\'');
is(join(' ', map { covers($node, "fp$_") } 1 .. 4), '0 0 1 1', 'prepared');
$node->stop('immediate');
$node->start;
is(join(' ', map { covers($node, "fp$_") } 1 .. 4), '0 0 1 1', 'prepared, after a crash');
for my $end ("COMMIT PREPARED 'p1'", "ROLLBACK PREPARED 'p2'", "COMMIT PREPARED 'p3'", "ROLLBACK PREPARED 'p4'", "COMMIT PREPARED 'truncated'")
{
	$node->safe_psql('postgres', $end);
}
is(join(' ', map { covers($node, "fp$_") } 1 .. 4), '1 0 0 1', 'ended');
said('fa', 1, 'truncated by a prepared transaction');

# ---- a standby --------------------------------------------------------------------------

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;

sub caught_up
{
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS written (k int); INSERT INTO written VALUES (1)');
	$node->wait_for_catchup($standby, 'replay', $lsn);
	return;
}
caught_up();
is(join(' ', map { covers($standby, $_) } qw(fa fb fc fp1 fp2)), '1 1 0 1 0', 'in a copy of the files');
$node->safe_psql('postgres', make('s', 'fs') . guard('s', 'fs') . "SELECT dedup_unguard('b')");
caught_up();
is(join(' ', map { covers($standby, $_) } qw(fs fb)), '1 0', 'followed');
is( $standby->safe_psql('postgres', q{SELECT count(*), count(refused), count(problem) FROM dedup_guards WHERE filter = 'fs'::regclass}),
	'1|1|0', 'the view on a standby');
is($standby->safe_psql('postgres', q{SELECT checked_found, checked_not_found FROM dedup_stats('fs')}), '0|0', 'dedup_stats on a standby');
is($standby->safe_psql('postgres', q{SELECT problem FROM dedup_guards WHERE filter = 'fu'::regclass}),
	'its filter: cannot query unlogged live filter "fu" during recovery', 'an unlogged filter on a standby');

# A snapshot that is older than what the primary has settled: no answer, and not a wrong one.
# The row that it sees and the filter does not have went before the guard was made.
$node->safe_psql('postgres', make('o', 'fo') . 'INSERT INTO o VALUES (1)');
# With room on the pages of the catalogs: if the commands below had the server prune one of them,
# that would end the session on the standby, which may still see the rows.
$node->safe_psql('postgres', 'VACUUM');
caught_up();
my $old = live_session($standby);
$old->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM o");
$node->safe_psql('postgres', 'DELETE FROM o');
$node->safe_psql('postgres', guard('o', 'fo'));
is($old->query('SELECT count(*) FROM fo'), '0', 'the old snapshot does not see it');
$node->safe_psql('postgres', 'VACUUM fo');
caught_up();
is($old->query('SELECT count(*) FROM fo'), '40001', 'settled since: a snapshot too old');
$old->quit;
said('fo', 1, 'a new snapshot', $standby);

# promoted with a transaction under way on the primary
$session = live_session($node);
$session->query("BEGIN; SELECT dedup_unguard('s'); SAVEPOINT a;" . guard('s', 'fs') . 'ROLLBACK TO a');
caught_up();
$node->stop('immediate');
$session->quit;
$standby->promote;
said('fs', 1, 'promoted: what was under way has not happened', $standby);
said('fb', 0, 'promoted', $standby);
no_bad_pages($standby, $_, "$_ after promotion") for qw(fa fb fs);
$standby->safe_psql('postgres', "SELECT dedup_unguard('s'); " . guard('s', 'fs'));
said('fs', 1, 'promoted, and said anew', $standby);
$standby->stop('immediate');
$node->start;

# ---- old transactions -------------------------------------------------------------------

$node->safe_psql('postgres', make('v', 'fv') . guard('v', 'fv'));
my $sql = q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'fv'};
$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS ids (k int)');
$node->safe_psql('postgres', 'INSERT INTO ids VALUES (1)') for 1 .. 20;
$session = live_session($node);
$session->query("BEGIN; SELECT dedup_unguard('v')");
$node->safe_psql('postgres', 'INSERT INTO ids VALUES (1)') for 1 .. 20;
$node->safe_psql('postgres', 'VACUUM (FREEZE, SKIP_LOCKED) fv');
$session->query('ROLLBACK');
$session->quit;
$node->safe_psql('postgres', 'VACUUM fv');
cmp_ok($node->safe_psql('postgres', $sql), '<=', 3, 'VACUUM leaves no transaction in it');
said('fv', 1, 'frozen');
$node->safe_psql('postgres', 'VACUUM FULL fv');
said('fv', 1, 'copied by VACUUM FULL');

# ---- dumps ------------------------------------------------------------------------------

sub run_node
{
	my (@command) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	return ok($ok && $err !~ /ERROR/, join(' ', @command[0 .. 1])) || diag($err);
}

# "middle" comes between the filters of two tables, so that either is loaded first
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', 'CREATE EXTENSION streamdedup;'
	  . make('middle', 'zz') . guard('middle', 'zz') . make('more', 'aa') . guard('more', 'aa')
	  . 'INSERT INTO middle SELECT k FROM generate_series(1, 1000) k; INSERT INTO more SELECT k FROM generate_series(1, 1000) k;');

my $databases = 0;
sub restored
{
	my ($what, $expected, @steps) = @_;
	my $name = 'db' . ++$databases;
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	for my $step (@steps)
	{
		my ($dump, $restore) = @$step;
		run_node('pg_dump', @$dump, '-f', "$dir/$name.dump", 'source');
		run_node(@$restore, '-d', $name, (grep { $_ eq 'psql' } @$restore) ? ('-f') : (), "$dir/$name.dump");
	}
	is(join(' ', map { covers($node, $_, $name) } qw(aa zz)), $expected, $what);
	is(join(' ', map { $node->safe_psql($name, "SELECT count(*) FROM $_") } qw(middle more)), '1000 1000', "rows: $what")
	  if $what !~ /empty/;
	return $name;
}
my @psql = ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1');

my $whole = restored('pg_dump | psql', '1 1', [ [], [@psql] ]);
is(seen($node, 'aa', 1, 1000, $whole), 1000, 'its keys');
is($node->safe_psql($whole, q{SELECT count(*), count(problem) FROM dedup_guards}), '2|0', 'its guards');
restored('pg_restore', '1 1', [ ['-Fc'], ['pg_restore'] ]);
restored('pg_restore -j 2', '1 1', [ ['-Fc'], [ 'pg_restore', '-j', '2' ] ]);
restored('without the data of one filter', '0 1', [ [ '--exclude-table-data', 'aa' ], [@psql] ]);
restored('without the data of the tables, which are empty', '1 1', [ [ '--exclude-table-data', 'm*' ], [@psql] ]);
restored('schema first, then data with --disable-triggers', '1 1', [ ['--schema-only'], [@psql] ],
	[ [ '--data-only', '--disable-triggers' ], [@psql] ]);
restored('schema first, then the data of the tables alone', '0 0', [ ['--schema-only'], [@psql] ],
	[ [ '--data-only', '--disable-triggers', '-t', 'm*' ], [@psql] ]);
restored('schema first, then that of the filters, of tables that are empty', '1 1', [ ['--schema-only'], [@psql] ],
	[ [ '--data-only', '--disable-triggers', '-t', 'aa', '-t', 'zz' ], [@psql] ]);
restored('schema alone, all empty', '0 0', [ ['--schema-only'], [@psql] ]);

# a dump whose snapshot is older than the guard
$node->safe_psql('source', "SELECT dedup_unguard('more')");
my $dumping = live_session($node, 'source');
my $snapshot = $dumping->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()');
$node->safe_psql('source', guard('more', 'aa'));
restored('a snapshot of before the guard', '0 1', [ [ "--snapshot=$snapshot" ], [@psql] ]);
$dumping->quit;

# ---- damage -----------------------------------------------------------------------------

my $block = $node->safe_psql('postgres', q{SELECT max(block) FROM fv});
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('fv')});
$node->stop;
my $good;
open my $file, '+<:raw', $path or die;
sysseek $file, $block * 8192, 0;
sysread($file, $good, 8192) == 8192 or die;
my @wrong;
# the words, unused ones too, and what is settled
for my $change ([ 192, 1 ], [ 193, 0xff ], [ 200, 5 ], [ 224, 1 ], [ 228, 1 ], [ 56, 1 ])
{
	my ($at, $mask) = @$change;
	my $bad = $good;
	substr($bad, $at, 1) = chr(ord(substr($bad, $at, 1)) ^ $mask);
	sysseek $file, $block * 8192, 0;
	syswrite $file, $bad;
	$node->start;
	my $state = sqlstate($node, 'postgres', 'SELECT count(*) FROM fv');
	my $check = $node->safe_psql('postgres', q{SELECT string_agg(block::text, ' ') FROM dedup_check('fv')});
	my $shown = $node->safe_psql('postgres', q{SELECT count(refused) || ' ' || count(problem) FROM dedup_guards WHERE filter = 'fv'::regclass});
	push @wrong, "byte $at: $state, $check, $shown" if $state ne 'XX001' || $check ne $block || $shown ne '0 1';
	$node->stop;
}
is(join("\n", @wrong), '', 'damaged words are an error');
sysseek $file, $block * 8192, 0;
syswrite $file, $good;
close $file;
$node->start;
said('fv', 1, 'mended');

$node->stop;
done_testing();
