# Diverting guards in dumps, on a subscriber, and after a crash.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run ();
use LiveFilter;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('main', allows_streaming => 'logical');

# ---- dumps: the side table is there before the trigger that names it

$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA "a schema";
	CREATE TABLE t (k int, v text);
	CREATE TABLE a (k int, v text);
	CREATE TABLE p (k int, day int) PARTITION BY LIST (day);
	CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
	CREATE TABLE p2 (day int, k int);
	ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
	CREATE INDEX ON p (k);
	SELECT dedup_create('f', dedup_filter(1000, 1e-9, 42)), dedup_create('g', dedup_filter(1000, 1e-9, 42)), dedup_create('h', dedup_filter(1000, 1e-9, 42));
	SELECT dedup_guard('t', 'f', '{k}', 'divert:"a schema"."zz bin"');
	SELECT dedup_guard('a', 'g', '{k}', 'divert');
	SELECT dedup_guard('p', 'h', '{k}', 'divert', exact => true);
	SELECT is_new('f', 3);
	INSERT INTO t VALUES (1, 'a'), (1, 'b'), (3, 'c');
	ALTER TABLE t ADD n numeric;
	INSERT INTO t VALUES (1, 'd', 1.50);
	INSERT INTO a VALUES (1, 'a'), (1, 'b');
	INSERT INTO p VALUES (1, 1), (1, 2);
	ALTER TABLE t RENAME TO renamed;
	ALTER TABLE "a schema"."zz bin" RENAME TO "other bin";
	ALTER TABLE "a schema"."other bin" SET SCHEMA public;
});
my $refused = q{SELECT k, v, refused_by, rest FROM "other bin" ORDER BY v};
my $guards = q{SELECT "table", on_duplicate, problem FROM dedup_guards ORDER BY "table"::text COLLATE "C"};

sub restored
{
	my ($dbname, @options) = @_;
	local ($ENV{PGHOST}, $ENV{PGPORT}) = ($node->host, $node->port);
	my ($out, $err) = ('', '');
	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	my $dump = $node->basedir . "/$dbname.dump";
	IPC::Run::run([ 'pg_dump', @options, '-f', $dump, 'postgres' ], '2>', \$err) or die $err;
	my @restore = grep({ $_ eq '-Fc' } @options) ? ('pg_restore', '-e', '-d', $dbname, $dump) : ('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $dbname, '-f', $dump);
	ok(IPC::Run::run(\@restore, '>', \$out, '2>', \$err), "$dbname: restored") or diag($err);
	unlike($err, qr/WARNING|ERROR/, "$dbname: quietly");
	is($node->safe_psql($dbname, $guards), $node->safe_psql('postgres', $guards), "$dbname: the guards");
	is($node->safe_psql($dbname, $refused), $node->safe_psql('postgres', $refused), "$dbname: the refused rows");
	$node->safe_psql($dbname, q{INSERT INTO renamed VALUES (1, 'new', 2), (4, 'lands', 3); INSERT INTO a VALUES (1, 'new'); INSERT INTO p VALUES (1, 1)});
	is($node->safe_psql($dbname, q{SELECT (SELECT count(*) FROM renamed), (SELECT rest FROM "other bin" WHERE v = 'new'), (SELECT count(*) FROM a_refused), (SELECT count(*) FROM p_refused)}),
		'2|{"n": "2"}|2|2', "$dbname: rows are refused as before");
	is($node->safe_psql($dbname, q{SELECT dedup_readmit('renamed')}), '1', "$dbname: and come back");
	return;
}
is($node->safe_psql('postgres', $guards), "a|divert:a_refused|\np|divert:p_refused|\nrenamed|divert:\"other bin\"|", 'before');
restored('plain');
restored('custom', '-Fc');


# ---- a crash: a committed refusal is there, another is not

$node->safe_psql('postgres', q{INSERT INTO a VALUES (1, 'committed')});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{SELECT v FROM a_refused ORDER BY v}), "b\ncommitted", 'after a crash');

# ---- logical replication: what the publisher has inserted is refused here, and not lost

my $subscriber = start_node('subscriber');
$node->safe_psql('postgres', q{CREATE TABLE r (k int PRIMARY KEY, v text); CREATE PUBLICATION r FOR TABLE r; INSERT INTO r VALUES (1, 'copied')});
$subscriber->safe_psql(
	'postgres', q{
	CREATE TABLE r (k int PRIMARY KEY, v text);
	SELECT dedup_create('f', dedup_filter(1000, 1e-9, 42));
	SELECT dedup_guard('r', 'f', '{k}', 'divert');
	ALTER TABLE r ENABLE ALWAYS TRIGGER "~dedup_guard";
	ALTER TABLE r ENABLE ALWAYS TRIGGER "~dedup_guard_delete";
	SELECT is_new('f', 1), is_new('f', 2);
});
my $from = $node->connstr('postgres');
$from =~ s/'/''/g;
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION r CONNECTION '$from' PUBLICATION r");
$subscriber->wait_for_subscription_sync($node, 'r') if $subscriber->can('wait_for_subscription_sync');
$subscriber->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')});
$node->safe_psql('postgres', q{INSERT INTO r VALUES (2, 'applied'), (3, 'lands')});
$node->wait_for_catchup('r');
is($subscriber->safe_psql('postgres', q{SELECT k, v FROM r ORDER BY k}), '3|lands', 'subscriber: what lands');
is($subscriber->safe_psql('postgres', q{SELECT k, v, refused_by FROM r_refused ORDER BY k}), "1|copied|r\n2|applied|r", 'subscriber: what is refused');
$subscriber->safe_psql('postgres', q{CREATE INDEX ON r_refused (k)});
$node->safe_psql('postgres', q{DELETE FROM r WHERE k = 2; INSERT INTO r VALUES (2, 'again')});
$node->wait_for_catchup('r');
is($subscriber->safe_psql('postgres', q{SELECT k, v FROM r_refused ORDER BY k, v}), "1|copied\n2|again\n2|applied", 'subscriber: into a table with an index');
is($subscriber->safe_psql('postgres', q{SELECT dedup_readmit('r')}), '2', 'subscriber: brought back');
$node->stop;
$subscriber->stop;
done_testing();
