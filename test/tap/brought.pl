# The messages about guards that the very first statement of a session raises, which has not loaded the library:
# partitions that are attached and detached, and copies of a table. A restore raises none.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('brought');

# Runs SQL in a session of its own; returns the messages.
sub said
{
	my ($sql, $database) = @_;
	my ($out, $err);

	$node->psql($database // 'postgres', $sql, stdout => \$out, stderr => \$err);
	return $err;
}

$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1));
	CREATE TABLE p (k int, d int) PARTITION BY RANGE (d);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	SELECT dedup_guard('p', 'f', '{k}');
	INSERT INTO p VALUES (1, 1), (2, 1);
	CREATE TABLE q (k int, d int);
	INSERT INTO q VALUES (1, 11), (3, 11), (3, 11);
	CREATE TABLE par (k int);
	CREATE TABLE chi () INHERITS (par)});

my $attach = 'ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (10) TO (20)';
my $detach = 'ALTER TABLE p DETACH PARTITION q';
my $unknown = qr/^psql:<stdin>:1: WARNING:  live filter "f" does not have the keys of 2 rows of table "q"\n/;
my $unguarded = qr/^psql:<stdin>:\d: NOTICE:  table "q" is not guarded any more\n/m;

like(said($attach), $unknown, 'ATTACH');
like(said($detach), $unguarded, 'DETACH');
like(said($attach), $unknown, 'ATTACH of a table that has the index still');
like(said("DO \$\$ BEGIN $detach; END \$\$"), $unguarded, 'DETACH within DO');
like(said("BEGIN;\n$attach;\nCOMMIT"), qr/2 rows of table "q"/, 'ATTACH in a transaction');
is(said("BEGIN;\n$detach;\n$attach;\nCOMMIT") =~ /not guarded any more/ ? 1 : 0, 0,
	'DETACH and ATTACH in one transaction: it is guarded');
like(said("BEGIN;\n$detach;\nCOMMIT"), $unguarded, 'DETACH in a transaction');
is(said("BEGIN;\n$attach;\nROLLBACK") =~ /2 rows/ ? 1 : 0, 1, 'ATTACH that is rolled back');
is(() = said("BEGIN;\n$attach;\n$detach;\nCOMMIT") =~ /not guarded any more/g, 1,
	'DETACH by a later statement of the first transaction: one NOTICE');
$node->safe_psql('postgres', 'CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20) TO (30)');
foreach my $two ("BEGIN;\n$attach;\nCOMMIT;\nBEGIN;\n$detach;\nALTER TABLE p DETACH PARTITION p2;\nCOMMIT",
	"DO \$\$ BEGIN $detach; ALTER TABLE p DETACH PARTITION p2; END \$\$",
	"BEGIN;\n$detach;\n$attach;\n$detach;\nALTER TABLE p DETACH PARTITION p2;\nCOMMIT")
{
	is(join(' ', sort(said($two) =~ /NOTICE:  table "(\w+)" is not guarded any more/g)), 'p2 q', 'DETACH of two tables: one NOTICE each');
	$node->safe_psql('postgres', "$attach; ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (20) TO (30)");
}
# however much else changes with the partition
$node->safe_psql('postgres', join(';', "$detach; CREATE TABLE q3 (k int, d int) PARTITION BY LIST (d)",
	map("CREATE TABLE q3_$_ PARTITION OF q3 FOR VALUES IN ($_)", 30 .. 100), map("CREATE INDEX p2_$_ ON p2 (k) WHERE k > $_", 1 .. 70),
	'ALTER TABLE p ATTACH PARTITION q3 FOR VALUES FROM (30) TO (200)'));
foreach my $table ('q3', 'p2')
{
	like(said("ALTER TABLE p DETACH PARTITION $table"), qr/NOTICE:  table "$table" is not guarded any more/, "DETACH of $table");
}
$node->safe_psql('postgres', 'DROP TABLE p2, q3');
like(said($attach), $unknown, 'ATTACH again');
like(said("$detach CONCURRENTLY"), $unguarded, 'DETACH CONCURRENTLY');
like(said('CREATE TABLE c (LIKE p INCLUDING ALL)'),
	qr/NOTICE:  the guard of the table in LIKE is not copied to table "c"/, 'LIKE');
is( $node->safe_psql(
		'postgres', q{SELECT count(*) FROM pg_index WHERE indrelid = 'c'::regclass}),
	0, 'and the copy has no index');

# The statement in the hint is run as it is.
my ($load) = said($attach) =~ /^HINT: .* run: (SELECT .*;)$/m;
is($node->safe_psql('postgres', "SET search_path = ''; $load"), 1, 'the hint loads the key');
is(said($detach) =~ /WARNING/ ? 1 : 0, 0, 'DETACH does not warn');
is(said($attach), '', 'nothing is unknown then');
is(said("INSERT INTO p VALUES (3, 1)"), '', 'a row that comes again');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p WHERE k = 3'), 2, 'is refused');

# A restore, in one transaction or in many, says nothing; neither do rewrites.
$node->safe_psql('postgres',
	q{SELECT dedup_guard('par', 'f', '{k}'); CREATE TABLE plain (k int); SELECT dedup_guard('plain', 'f', '{k}'); INSERT INTO plain VALUES (5); CREATE TABLE empty (k int); SELECT dedup_guard('empty', 'f', '{k}')}
);
my $dump = $node->basedir . '/brought.sql';
$node->command_ok([ 'pg_dump', '--file', $dump, $node->connstr('postgres') ], 'dumped');
foreach my $options ([], ['--single-transaction'])
{
	my $database = 'copy' . @$options;
	my ($out, $err);

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->command_checks_all([ 'psql', '-qX', @$options, '-f', $dump, $node->connstr($database) ],
		0, [qr/^/], [qr/^(?!.*(WARNING|guard))/s], "restored @$options");
}
is(said('REINDEX TABLE plain; VACUUM FULL plain; ALTER TABLE plain ADD x int DEFAULT random(); TRUNCATE empty; REINDEX TABLE empty'),
	'', 'rewrites');

done_testing();
