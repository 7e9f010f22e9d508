# Diverting guards under concurrent sessions: every row that was inserted and committed is in
# exactly one place, the table, the side table, or among those that were deleted; a rolled-back row
# is nowhere; no key has two rows; and in the end dedup_readmit() leaves no key without its row.
#
# The filter of the approximate guard is so small that it refuses many new rows.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(append_to_file);
use Test::More;

my $node = start_node('main', settings => [ 'fsync = off', 'deadlock_timeout = 100ms' ]);

# What is called for each way to write; the tables are partitioned, one side table too.
my %guards = (
	approximate => q{'divert'},
	exact       => q{'divert:e_bin', exact => true});
$node->safe_psql(
	'postgres', q{
	CREATE TABLE e_bin (id int, k int, v text, refused_at timestamptz, refused_by regclass, rest jsonb) PARTITION BY HASH (id);
	CREATE TABLE e_bin0 PARTITION OF e_bin FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE e_bin1 (v text, rest jsonb, gone int, refused_by regclass, id int, k int UNIQUE DEFERRABLE, refused_at timestamptz);
	ALTER TABLE e_bin1 DROP COLUMN gone, DROP CONSTRAINT e_bin1_k_key;
	ALTER TABLE e_bin ATTACH PARTITION e_bin1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
});
foreach my $kind (sort keys %guards)
{
	my $t = substr($kind, 0, 1);
	$node->safe_psql(
		'postgres', qq{
		CREATE SEQUENCE ${t}_ids;
		CREATE TABLE ${t}_tried (id int, k int);
		CREATE TABLE ${t}_deleted (id int, k int);
		CREATE TABLE $t (id int, k int, v text) PARTITION BY LIST (v);
		CREATE TABLE ${t}0 PARTITION OF $t FOR VALUES IN ('0');
		CREATE TABLE ${t}1 (k int, gone int, v text, id int);
		ALTER TABLE ${t}1 DROP COLUMN gone;
		ALTER TABLE $t ATTACH PARTITION ${t}1 FOR VALUES IN ('1');
		CREATE INDEX ON $t (k);
		SELECT dedup_create('f_$t', dedup_filter(60, 0.2, 42));
		SELECT dedup_guard('$t', 'f_$t', '{k}', $guards{$kind});
	});
}

# Ascending keys, so that nobody waits in a circle.
sub script
{
	my ($name, $text) = @_;
	my $file = $node->basedir . "/$name.sql";
	append_to_file($file, $text);
	return $file;
}

sub insert_sql
{
	my ($t, $from) = @_;
	return "WITH a AS (INSERT INTO ${t}_tried SELECT nextval('${t}_ids'), i FROM generate_series($from, $from + :n) i RETURNING *)\n"
	  . "	INSERT INTO $t SELECT id, k, (id % 2)::text FROM a;\n";
}

sub scripts_of
{
	my ($t) = @_;
	my $one = insert_sql($t, ':k');
	my $two = insert_sql($t, ':k + :n');
	return (
		script("${t}_write", <<"PGBENCH") . '@30',
\\set k random(1, 400)
\\set n random(0, 4)
\\set what random(1, 6)
BEGIN;
$one
SAVEPOINT s;
$two
\\if :what = 1
ROLLBACK;
\\elif :what < 4
ROLLBACK TO s;
COMMIT;
\\else
COMMIT;
\\endif
PGBENCH
		script("${t}_delete", <<"PGBENCH") . '@6',
\\set k random(1, 400)
WITH d AS (DELETE FROM $t WHERE k = :k RETURNING id, k) INSERT INTO ${t}_deleted SELECT * FROM d;
PGBENCH
		script("${t}_readmit", <<"PGBENCH") . '@1');
SELECT dedup_readmit('$t');
PGBENCH
}

foreach my $kind (sort keys %guards)
{
	my $t = substr($kind, 0, 1);
	my $bin = $t eq 'e' ? 'e_bin' : 'a_refused';
	my @scripts = map { ('-f', $_) } scripts_of($t);
	$node->command_ok(
		[ 'pgbench', '-n', '-c', '5', '-t', '150', '--random-seed=7', '--max-tries=20', @scripts, $node->connstr('postgres') ],
		"$kind: all sessions do their work");

	my $places = "SELECT id, k FROM $t UNION ALL SELECT id, k FROM $bin UNION ALL SELECT id, k FROM ${t}_deleted";
	my $check = sub {
		my ($when) = @_;
		is($node->safe_psql('postgres', "SELECT count(*) FROM ($places) p FULL JOIN ${t}_tried t USING (id, k) WHERE p.* IS NULL OR t.* IS NULL"),
			'0', "$kind, $when: rows are as they were inserted");
		is($node->safe_psql('postgres', "SELECT count(*) - count(DISTINCT id), count(*) - (SELECT count(*) FROM ${t}_tried) FROM ($places) p"),
			'0|0', "$kind, $when: each is in one place");
		is($node->safe_psql('postgres', "SELECT count(*) - count(DISTINCT k) FROM $t"), '0', "$kind, $when: no key has two rows");
	};
	$check->('after the writers');
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM $bin"), '>', 100, "$kind: rows were refused");
	$node->safe_psql('postgres', "SELECT dedup_readmit('$t')");
	$check->('after readmission');
	is($node->safe_psql('postgres', "SELECT count(*) FROM $bin WHERE k NOT IN (SELECT k FROM $t)"), '0', "$kind: no refused row whose key has no row");
	is($node->safe_psql('postgres', "SELECT dedup_readmit('$t')"), '0', "$kind: and nothing is left to do");
	is($node->safe_psql('postgres', "SELECT DISTINCT refused_by FROM $bin WHERE rest IS NULL"), $t, "$kind: by whom");
}
done_testing();
