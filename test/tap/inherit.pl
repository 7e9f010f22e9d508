# Tables that inherit from a guarded table: made and attached in sessions that have not loaded
# the library, in dumps, and in pg_upgrade.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('main');
my $dir = $node->basedir;

$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA "In Herit";
	SELECT dedup_create('f', dedup_filter(10000, 1e-6, 42)), dedup_create('e', dedup_filter(10000, 1e-6, 42));
	CREATE TABLE a (k int, v text);
	CREATE TABLE "In Herit".x (k int, v text);
	CREATE INDEX ON "In Herit".x (k);
	SELECT dedup_guard('a', 'f', '{k}', "where" => 'k > 0');
	SELECT dedup_guard('"In Herit".x', 'e', '{k}', exact => true);
	SELECT dedup_create('g', dedup_filter(10000, 1e-6, 42));
	CREATE TABLE d (k int);
	SELECT dedup_guard('d', 'g', '{k}', 'divert', on_delete => 'forget')});

# Each psql is a session of its own, whose first statement this is.
$node->safe_psql('postgres', 'CREATE TABLE a1 (v text, extra int) INHERITS (a)');
$node->safe_psql('postgres', q{SET search_path = ''; CREATE TABLE public.a2 () INHERITS (public.a1)});
$node->safe_psql('postgres', 'CREATE TABLE a3 (gone int, v text, k int); ALTER TABLE a3 DROP COLUMN gone');
$node->safe_psql('postgres', 'ALTER TABLE a3 INHERIT a');
$node->safe_psql('postgres', 'CREATE SCHEMA s CREATE TABLE a4 () INHERITS (public.a)');
$node->safe_psql('postgres', 'CREATE TABLE x1 () INHERITS ("In Herit".x)');
$node->safe_psql('postgres', 'CREATE TABLE x2 (LIKE "In Herit".x INCLUDING ALL)');
$node->safe_psql('postgres', 'INSERT INTO x2 SELECT k FROM generate_series(100, 120) k');
$node->safe_psql('postgres', 'ALTER TABLE x2 INHERIT "In Herit".x');
$node->safe_psql('postgres', 'CREATE TABLE d1 (note text) INHERITS (d)');
my $guards = q{d|g|2|0| a|f|5|0| "In Herit".x|e|3|0|};
sub guards
{
	my ($on, $dbname) = @_;
	return $on->safe_psql($dbname,
		q{SELECT string_agg(concat_ws('|', "table", filter, partitions_guarded, partitions_unguarded, coalesce(problem, '')), ' ' ORDER BY filter::text DESC) FROM dedup_guards});
}
is(guards($node, 'postgres'), $guards, 'all of them are guarded');
$node->safe_psql('postgres', q{
	INSERT INTO a1 (k) SELECT generate_series(1, 10);
	INSERT INTO a2 (k) VALUES (20), (-1), (-1);
	INSERT INTO a3 (k) SELECT generate_series(21, 30);
	INSERT INTO s.a4 (k) VALUES (31);
	INSERT INTO x1 (k) SELECT generate_series(1, 10);
	INSERT INTO "In Herit".x (k) SELECT generate_series(11, 20);
	DELETE FROM x1 WHERE k = 1;
	INSERT INTO d1 VALUES (1, 'first'), (1, 'again'), (2, 'other'), (3, 'gone');
	DELETE FROM d WHERE k = 3});

# What the guards let in, in transactions that end in ROLLBACK.
sub guards_hold
{
	my ($on, $dbname, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(guards($on, $dbname), $guards, "$what: the guards");
	# a1 has rows, so a duplicate cannot be left out of its child
	my %tried = (a => '0, 32', a1 => '0, 32', a3 => '0, 32', 's.a4' => '0, 32', '"In Herit".x' => '0, 121', x1 => '0, 121', x2 => '0, 121');
	my $let = "SELECT string_agg(k::text, ' ' ORDER BY k) FROM i; ROLLBACK;";
	is( $on->safe_psql($dbname,
			join('', map { "BEGIN; WITH i AS (INSERT INTO $_ (k) SELECT k FROM generate_series($tried{$_}) k" . (/x\d/ ? ' WHERE k NOT BETWEEN 11 AND 20' : '') . " RETURNING k) $let" } sort keys %tried)),
		join("\n", (join(' ', 0, 1, 21 .. 99, 121)) x 1, (join(' ', 0, 11 .. 19, 32)) x 4, (join(' ', 0, 1, 21 .. 99, 121)) x 2),
		"$what: what lands");
	is($on->safe_psql($dbname, q{BEGIN; DELETE FROM d WHERE k = 1; INSERT INTO d1 VALUES (1, 'new'), (2, 'no'), (3, 'new');
			SELECT string_agg(k || note, ' ' ORDER BY k) FROM d1; SELECT string_agg(concat_ws(' ', refused_by, k, rest), ', ' ORDER BY rest->>'note') FROM d_refused; ROLLBACK}),
		qq{1new 2other 3new\nd1 1 {"note": "again"}, d1 2 {"note": "no"}}, "$what: a forgetting guard of a child");
	is(sqlstate($on, $dbname, 'INSERT INTO x1 (k) VALUES (11)'), '55000', "$what: a row of the parent");
	is(sqlstate($on, $dbname, 'SELECT dedup_unguard(\'a2\')'), '42809', "$what: a clone");
	return;
}
guards_hold($node, 'postgres', 'before');

# ---- dumps

sub run_ok
{
	my ($what, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $log = '';
	ok(IPC::Run::run(\@command, '>&', \$log), $what) or diag($log);
	is($log =~ /(?:ERROR|WARNING|NOTICE):.*/ ? $& : '', '', "$what: nothing is said");
	return;
}
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach qw(plain single parallel alone);
run_ok('pg_dump', 'pg_dump', '-f', "$dir/plain.sql", 'postgres');
run_ok('pg_dump -Fd', 'pg_dump', '-Fd', '-f', "$dir/folder", 'postgres');
run_ok('psql', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'plain', '-f', "$dir/plain.sql");
guards_hold($node, 'plain', 'psql');
run_ok('psql -1', 'psql', '-XAtq1', '-v', 'ON_ERROR_STOP=1', '-d', 'single', '-f', "$dir/plain.sql");
is(guards($node, 'single'), $guards, 'psql -1: the guards');
run_ok('pg_restore', 'pg_restore', '-e', '-j', '2', '-d', 'parallel', "$dir/folder");
guards_hold($node, 'parallel', 'pg_restore -j');

# A child alone, below a parent that is guarded already: it has the guard before the dump
# makes it.
run_ok('pg_restore without the child', 'pg_restore', '-e', '-d', 'alone', "$dir/folder");
$node->safe_psql('alone', 'DROP TABLE s.a4');
my ($out, $err) = ('', '');
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	IPC::Run::run([ 'pg_restore', '-d', 'alone', '-t', 'a4', '-n', 's', "$dir/folder" ], '>', \$out, '2>', \$err);
}
is($err, '', 'a child alone');
guards_hold($node, 'alone', 'a child alone');

# pg_dump -t has the child's triggers and index, too.
run_ok('pg_dump -t', 'pg_dump', '-t', 's.a4', '-f', "$dir/a4.sql", 'postgres');
$node->safe_psql('alone', 'DROP TABLE s.a4');
($out, $err) = ('', '');
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	IPC::Run::run([ 'psql', '-XAtq', '-d', 'alone', '-f', "$dir/a4.sql" ], '>', \$out, '2>', \$err);
}
is(join(' ', $err =~ /ERROR:  .*?"([^"]*)".* already exists/g), 'a4_dedup_guard ~dedup_guard ~dedup_guard_delete', 'what is there already');
guards_hold($node, 'alone', 'a child alone with its guard');

# ---- pg_upgrade, to the same version

my $old = start_node('old');
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
{
	local $ENV{PGHOST} = $old->host;
	local $ENV{PGPORT} = $old->port;
	$old->safe_psql('postgres', 'DROP EXTENSION streamdedup');
	ok(IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'postgres', '-f', "$dir/plain.sql" ]), 'psql');
}
$old->stop;
my $bin = $node->config_data('--bindir');
SKIP:
{
	skip 'no pg_upgrade', 1 if !-x "$bin/pg_upgrade";
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
	$new->stop;
}

# ---- and out again

$node->safe_psql('postgres', 'ALTER TABLE a3 NO INHERIT a');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'a3'::regclass}), 0, 'NO INHERIT');
$node->safe_psql('postgres', q{SELECT dedup_unguard('a'), dedup_unguard('"In Herit".x'), dedup_unguard('d')});
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_trigger WHERE tgname ~ '^~dedup_guard'}), 0, 'dedup_unguard');

done_testing();
