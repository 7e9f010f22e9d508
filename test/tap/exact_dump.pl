# Exact guards in dumps, on a standby, after its promotion, and in pg_upgrade: a duplicate is refused wherever its
# row is, and a new row is inserted. If a filter was restored without its keys, every row raises an error that names
# the statement which loads them. (exact_cover.pl tests which filter covers which table; this file tests the guards.)

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
	settings => [ 'max_prepared_transactions = 10', 'wal_consistency_checking = all' ]);
my $dir = $node->basedir;

# In each mode: keys 1 to 300 in three partitions, of which those to 30 were deleted: the
# filter has their keys. Rows that were marked, and one of 41 that has moved.
my %modes = (skip => 'skip', reject => 'reject', mark => 'mark:is_dup');
foreach my $mode (sort keys %modes)
{
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE t_$mode (k int, part int, is_dup boolean) PARTITION BY LIST (part);
		CREATE TABLE t_${mode}_1 PARTITION OF t_$mode FOR VALUES IN (0);
		CREATE TABLE t_${mode}_2 (is_dup boolean, part int, gone int, k int);
		ALTER TABLE t_${mode}_2 DROP COLUMN gone;
		ALTER TABLE t_$mode ATTACH PARTITION t_${mode}_2 FOR VALUES IN (1);
		CREATE TABLE t_${mode}_3 PARTITION OF t_$mode DEFAULT;
		CREATE INDEX ON t_$mode (k);
		SELECT dedup_create('f_$mode', dedup_filter(10000, 0.01, 42));
		SELECT dedup_guard('t_$mode', 'f_$mode', '{k}', '$modes{$mode}', exact => true);
		INSERT INTO t_$mode SELECT k, k % 3 FROM generate_series(1, 300) k;
		DELETE FROM t_$mode WHERE k <= 30;
		UPDATE t_$mode SET part = 2 WHERE k = 41;
	});
}
$node->safe_psql('postgres', 'INSERT INTO t_mark SELECT k, 1 FROM generate_series(31, 40) k');

# What a guard lets in, in transactions that end in ROLLBACK.
sub guards_hold
{
	my ($where, $dbname, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $tried = 'SELECT k, (k + 1) % 3 FROM generate_series(1, 350) k';
	is( $where->safe_psql($dbname, "BEGIN; WITH i AS (INSERT INTO t_skip $tried RETURNING k) SELECT count(*), max(k), count(*) FILTER (WHERE k > 30 AND k <= 300) FROM i; ROLLBACK"),
		'80|350|0', "$what: skip");
	is( $where->safe_psql($dbname, "BEGIN; WITH i AS (INSERT INTO t_mark $tried RETURNING *) SELECT count(*), count(*) FILTER (WHERE is_dup), count(*) FILTER (WHERE is_dup AND k > 30 AND k <= 300) FROM i; ROLLBACK"),
		'350|270|270', "$what: mark");
	my $said = messages($where, $dbname, 'INSERT INTO t_reject VALUES (41, 1)');
	like($said, qr/ERROR:  23505: duplicate key value violates unique constraint.*Key \(k\)=\(41\) already exists/s, "$what: reject");
	is(sqlstate($where, $dbname, 'BEGIN; INSERT INTO t_reject SELECT k, 0 FROM generate_series(1, 30) k; INSERT INTO t_reject VALUES (301, 1); ROLLBACK'),
		'', "$what: reject, keys without a row");
	is(sqlstate($where, $dbname, 'UPDATE t_skip SET k = 299 WHERE k = 41'), '23505', "$what: an update");
	return;
}
guards_hold($node, 'postgres', 'before');

# ---- dumps

sub run_node
{
	my ($on, @command) = @_;
	local $ENV{PGHOST} = $on->host;
	local $ENV{PGPORT} = $on->port;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	return ($ok, $err);
}

sub ok_node
{
	my ($what, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($ok, $err) = run_node($node, @command);
	ok($ok && $err !~ /ERROR/, $what) or diag($err);
	return;
}

my $databases = 0;
sub fresh_database
{
	my $name = 'db' . ++$databases;
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	return $name;
}

sub psql_file { return ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $_[0], '-f', $_[1]) }

my $db = fresh_database();
ok_node('pg_dump', 'pg_dump', '-f', "$dir/plain.sql", 'postgres');
ok_node('psql', psql_file($db, "$dir/plain.sql"));
guards_hold($node, $db, 'a plain dump');

# what is restored can be dumped and restored again
my $again = fresh_database();
ok_node('pg_dump of the restored', 'pg_dump', '-Fc', '-f', "$dir/again.dump", $db);
ok_node('pg_restore', 'pg_restore', '-e', '-d', $again, "$dir/again.dump");
guards_hold($node, $again, 'a dump of that, -Fc');

$db = fresh_database();
ok_node('pg_dump -Fd', 'pg_dump', '-Fd', '-f', "$dir/folder", 'postgres');
ok_node('pg_restore -j', 'pg_restore', '-e', '-j', '2', '-d', $db, "$dir/folder");
guards_hold($node, $db, '-Fd -j 2');

# The filters' data left out, or the schema first and the tables' rows alone: then no row
# may land unseen.
sub must_be_loaded
{
	my ($dbname, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $mode (sort keys %modes)
	{
		my $said = messages($node, $dbname, "INSERT INTO t_$mode VALUES (1000, 1)");
		like($said, qr/ERROR:  55000:.*HINT:.*(SELECT public\.dedup_rebuild\('public\.f_$mode'\);)/s, "$what: $mode says what to do");
		my ($statement) = $said =~ /(SELECT public\.dedup_rebuild\('[^']*'\);)/;
		is(sqlstate($node, $dbname, $statement || 'SELECT 1 / 0'), '', "$what: which loads the keys");
	}
	guards_hold($node, $dbname, "$what, loaded");
	return;
}

$db = fresh_database();
ok_node('pg_dump --exclude-table-data', 'pg_dump', '--exclude-table-data=f_*', '-f', "$dir/nodata.sql", 'postgres');
ok_node('psql', psql_file($db, "$dir/nodata.sql"));
must_be_loaded($db, '--exclude-table-data');

$db = fresh_database();
ok_node('pg_dump --schema-only', 'pg_dump', '--schema-only', '-f', "$dir/schema.sql", 'postgres');
ok_node('psql', psql_file($db, "$dir/schema.sql"));
ok_node('pg_dump of the rows',
	'pg_dump', '--data-only', '--disable-triggers', '-t', 't_*', '-f', "$dir/rows.sql", 'postgres');
ok_node('psql', psql_file($db, "$dir/rows.sql"));
must_be_loaded($db, 'schema first, then the rows');

$db = fresh_database();
ok_node('psql', psql_file($db, "$dir/schema.sql"));
ok_node('pg_dump --data-only', 'pg_dump', '--data-only', '--disable-triggers', '-f', "$dir/data.sql", 'postgres');
ok_node('psql', psql_file($db, "$dir/data.sql"));
guards_hold($node, $db, 'schema first, then all data');

# ---- a standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
# since then: rows and keys, in flight at the end, and in a prepared transaction
$node->safe_psql(
	'postgres', q{
	INSERT INTO t_skip VALUES (1, 0);
	DELETE FROM t_skip WHERE k = 1;
	BEGIN; INSERT INTO t_reject VALUES (400, 0); DELETE FROM t_reject WHERE k = 299; PREPARE TRANSACTION 'p';
});
my $open = live_session($node);
$open->query('BEGIN');
$open->query("INSERT INTO t_$_ VALUES (310, 0)") foreach 'skip', 'reject', 'mark';
$open->query('DELETE FROM t_reject WHERE k = 298');
$node->safe_psql('postgres', 'INSERT INTO t_skip VALUES (500, 0); CHECKPOINT');
$node->wait_for_catchup($standby);
is(sqlstate($standby, 'postgres', 'INSERT INTO t_skip VALUES (2, 0)'), '25006', 'a standby takes no rows');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM dedup_guards WHERE exact}), 3, 'but shows its guards');

# ---- pg_upgrade, of a copy: the same version to the same

SKIP:
{
	my $bin = qx(pg_config --bindir);
	chomp $bin;
	skip 'no pg_upgrade', 1 if !-x "$bin/pg_upgrade";
	my $old = PostgreSQL::Test::Cluster->new('old');
	$old->init_from_backup($node, 'base');
	$old->start;
	$old->stop;
	my $new = PostgreSQL::Test::Cluster->new('new');
	$new->init;
	chdir $PostgreSQL::Test::Utils::tmp_check or die;
	my $log = '';
	my $upgraded = IPC::Run::run(
		[
			"$bin/pg_upgrade", '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin,
			'-s', $new->host, '-p', $old->port, '-P', $new->port
		],
		'>&', \$log);
	ok($upgraded, 'pg_upgrade') or diag($log);
	skip 'not upgraded', 1 if !$upgraded;
	configure($new);
	$new->start;
	guards_hold($new, 'postgres', 'pg_upgrade');
	no_bad_pages($new, "f_$_", "f_$_, pg_upgrade") foreach sort keys %modes;
	$new->stop;
}

# ---- promotion

$node->stop('immediate');
$open->quit;
$standby->promote;
guards_hold($standby, 'postgres', 'promoted');
is(sqlstate($standby, 'postgres', "SET lock_timeout = '100ms'; INSERT INTO t_reject VALUES (400, 1)"), '55P03', 'a prepared row is waited for');
is(sqlstate($standby, 'postgres', "SET lock_timeout = '100ms'; INSERT INTO t_reject VALUES (299, 1)"), '55P03', 'and a prepared deletion');
$standby->safe_psql('postgres', "COMMIT PREPARED 'p'");
is(sqlstate($standby, 'postgres', 'INSERT INTO t_reject VALUES (400, 1)'), '23505', 'the row is a twin then');
is(sqlstate($standby, 'postgres', 'INSERT INTO t_reject VALUES (299, 1)'), '', 'and the deleted one is none');
is(sqlstate($standby, 'postgres', 'INSERT INTO t_reject VALUES (298, 1)'), '23505', 'a deletion in flight has not happened');
is(sqlstate($standby, 'postgres', 'INSERT INTO t_reject VALUES (310, 1)'), '', 'nor an insertion');
is($standby->safe_psql('postgres', 'INSERT INTO t_skip VALUES (500, 1), (1, 1), (310, 1) RETURNING k'), "1\n310", 'a committed row was followed');
no_bad_pages($standby, "f_$_", "f_$_, promoted") foreach sort keys %modes;
unlike(PostgreSQL::Test::Utils::slurp_file($standby->logfile),
	qr/inconsistent page found|PANIC/, 'every page was replayed as it was written');
$standby->stop;

done_testing();
