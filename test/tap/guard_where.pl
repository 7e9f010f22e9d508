# Guards with expressions, a predicate, and NULLs that are equal, in dumps: with functions,
# operators and types of other schemas, odd names, partitions with other column numbers,
# restored into other databases, in parallel, and by pg_upgrade's way of ATTACH. Then under
# logical replication, and after a crash.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('main', allows_streaming => 'logical');
my $dir = $node->basedir;

$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA "Other schema";
	CREATE SCHEMA shop;
	CREATE FUNCTION "Other schema"."Fold it"(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.lower($1)';
	CREATE FUNCTION "Other schema".hidden(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 OPERATOR(pg_catalog.=) $2';
	CREATE OPERATOR "Other schema".=== (LEFTARG = text, RIGHTARG = text, FUNCTION = "Other schema".hidden);
	CREATE TYPE "Other schema".kind AS ENUM ('a b', 'other');
	CREATE DOMAIN "Other schema".code AS text;
	SET search_path = shop, "Other schema", public;
	CREATE TABLE "Two words" (id int, "user" text, "select" kind, code code, deleted_at date, is_dup boolean, part int) PARTITION BY LIST (part);
	CREATE TABLE part_1 (gone int, is_dup boolean, part int, code code, deleted_at date, "select" kind, "user" text, id int);
	ALTER TABLE part_1 DROP COLUMN gone;
	ALTER TABLE "Two words" ATTACH PARTITION part_1 FOR VALUES IN (1);
	CREATE TABLE part_2 PARTITION OF "Two words" FOR VALUES IN (2);
	CREATE INDEX ON "Two words" ("Fold it"("user"), ((code || 'x')) COLLATE "C", "select");
	CREATE TABLE plain (id int, "user" text, "select" kind, code code, deleted_at date, is_dup boolean, part int);
	SELECT dedup_create('exact_seen', dedup_filter(10000, 0.01, 42));
	SELECT dedup_create('plain_seen', dedup_filter(10000, 1e-6, 42));
	SELECT dedup_guard('"Two words"', 'exact_seen', ARRAY['"Fold it"("user")', '(code || ''x'') COLLATE "C"', 'select'], 'mark', exact => true,
		"where" => 'deleted_at IS NULL AND "user" === "user" OR "select" = ''other'' OR id < 0', nulls_not_distinct => true);
	SELECT dedup_guard('plain', 'plain_seen', ARRAY['"Fold it"("user")', '(code || ''x'') COLLATE "C"', 'select'], 'mark',
		"where" => 'deleted_at IS NULL AND "user" === "user" OR "select" = ''other'' OR id < 0', nulls_not_distinct => true);
});

my $rows = q{SELECT g, (ARRAY['Ann', 'ann', 'Bob', NULL])[1 + g % 4], (ARRAY['a b', 'other', NULL])[1 + g % 3]::"Other schema".kind, (ARRAY['x', NULL])[1 + g % 2],
	CASE WHEN g % 5 = 0 THEN '2026-01-01'::date END, NULL::boolean, 1 + g % 2 FROM generate_series(1, 200) g};
$node->safe_psql('postgres', qq{INSERT INTO shop.$_ $rows}) foreach ('"Two words"', 'plain');

# What must be true of the rows of a table: one of each key that counts is not marked.
my $where = q{(deleted_at IS NULL AND "user" IS NOT NULL OR "select" = 'other' OR id < 0)};
sub as_said
{
	my ($on, $dbname, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $table ('"Two words"', 'plain')
	{
		is( $on->safe_psql($dbname, qq{SELECT count(*) FROM (SELECT 1 FROM shop.$table WHERE $where IS TRUE
			GROUP BY lower("user"), code, "select" HAVING count(*) FILTER (WHERE NOT is_dup) <> 1) s}),
			'0', "$what: $table: one row of each key");
		is($on->safe_psql($dbname, qq{SELECT count(*) FROM shop.$table WHERE $where IS NOT TRUE AND is_dup}), '0', "$what: $table: others are not marked");
		is( $on->safe_psql($dbname, qq{BEGIN; INSERT INTO shop.$table $rows RETURNING is_dup; ROLLBACK}) =~ tr/t/t/,
			$on->safe_psql($dbname, qq{SELECT count(*) FROM ($rows) s (id, "user", "select", code, deleted_at) WHERE $where}), "$what: $table: rows that come again");
		is($on->safe_psql($dbname, qq{BEGIN; INSERT INTO shop.$table VALUES (-1, 'new', NULL, NULL, NULL, NULL, 1), (-2, 'NEW', NULL, NULL, NULL, NULL, 2) RETURNING is_dup; ROLLBACK}), "f\nt", "$what: $table: a new key");
	}
	return;
}
as_said($node, 'postgres', 'before');
my $shown = $node->safe_psql('postgres', 'SELECT "table", filter, columns, "where", on_duplicate, exact, nulls_not_distinct, partitions_guarded, problem FROM dedup_guards ORDER BY 1');
like($shown, qr/OPERATOR\("Other schema"\.===\)/, 'the view names the operator');

# ---- dumps

$node->run_log([ 'pg_dump', '-Fc', '-f', "$dir/dump.c", $node->connstr('postgres') ]);
$node->run_log([ 'pg_dump', '-f', "$dir/dump.sql", $node->connstr('postgres') ]);
$node->run_log([ 'pg_dump', '-Fd', '-j2', '-f', "$dir/dump.d", $node->connstr('postgres') ]);
my %restore = (
	plain => [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.sql" ],
	custom => [ 'pg_restore', '-e', "$dir/dump.c" ],
	parallel => [ 'pg_restore', '-e', '-j2', "$dir/dump.d" ]);
foreach my $how (sort keys %restore)
{
	$node->safe_psql('postgres', "CREATE DATABASE d_$how TEMPLATE template0");
	# The role's path leads elsewhere.
	$node->safe_psql('postgres', qq{ALTER DATABASE d_$how SET search_path = pg_catalog, "Other schema"});
	my @command = @{ $restore{$how} };
	$node->command_ok([ $command[0], '-d', $node->connstr("d_$how"), @command[ 1 .. $#command ] ], "$how: restored");
	$node->safe_psql('postgres', qq{ALTER DATABASE d_$how RESET search_path});
	is($node->safe_psql("d_$how", 'SELECT "table", filter, columns, "where", on_duplicate, exact, nulls_not_distinct, partitions_guarded, problem FROM dedup_guards ORDER BY 1'),
		$shown, "$how: the guards are shown alike");
	as_said($node, "d_$how", $how);
}
$node->run_log([ 'pg_dump', '-f', "$dir/again.sql", $node->connstr('d_plain') ]);
my ($first, $second) = map { my $text = slurp_file("$dir/$_.sql"); $text =~ s/^\\(un)?restrict .*$//mg; $text } ('dump', 'again');
is($second, $first, 'a dump of the restored database is the same');

# ---- a crash

$node->safe_psql('postgres', 'INSERT INTO shop.plain VALUES (-3, \'kept\', NULL, NULL, NULL, NULL, 1)');
$node->stop('immediate');
$node->start;
as_said($node, 'postgres', 'after a crash');
is($node->safe_psql('postgres', 'INSERT INTO shop.plain VALUES (-4, \'Kept\', NULL, NULL, NULL, NULL, 1) RETURNING is_dup'), 't', 'a row from before the crash');

# ---- logical replication

# The subscriber's tables are guarded: exact in mode reject, which hears of rows without triggers, and approximate with triggers that always fire.
my $subscriber = start_node('subscriber');
foreach my $on ($node, $subscriber)
{
	$on->safe_psql('postgres', 'CREATE TABLE ' . join(';CREATE TABLE ', map { "$_ (id int PRIMARY KEY, k text, live boolean)" } ('by_index', 'by_trigger')));
}
$subscriber->safe_psql(
	'postgres', q{
	CREATE INDEX ON by_index (upper(k)) WHERE live;
	SELECT dedup_create('by_index_seen', dedup_filter(1000, 0.5, 42));
	SELECT dedup_create('by_trigger_seen', dedup_filter(1000, 1e-6, 42));
	SELECT dedup_guard('by_index', 'by_index_seen', ARRAY['upper(k)'], 'reject', exact => true, "where" => 'live');
	SELECT dedup_guard('by_trigger', 'by_trigger_seen', ARRAY['upper(k)'], "where" => 'live');
	ALTER TABLE by_trigger ENABLE ALWAYS TRIGGER "~dedup_guard", ENABLE ALWAYS TRIGGER "~dedup_guard_delete";
});
$node->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE by_index, by_trigger');
$subscriber->safe_psql('postgres', sprintf(q{CREATE SUBSCRIPTION s CONNECTION '%s dbname=postgres' PUBLICATION p}, $node->connstr));
$subscriber->wait_for_subscription_sync($node, 's');
$node->safe_psql(
	'postgres', q{
	INSERT INTO by_index VALUES (1, 'a', true), (2, 'A', false), (3, 'b', NULL);
	INSERT INTO by_trigger VALUES (1, 'a', true), (2, 'A', false), (3, 'A', true), (4, 'b', NULL);
	UPDATE by_index SET live = NOT live WHERE id = 1;
	UPDATE by_index SET live = NOT live WHERE id = 2;
	UPDATE by_trigger SET live = true WHERE id = 4;
});
$node->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT string_agg(id || k || coalesce(live::text, \'-\'), \' \' ORDER BY id) FROM by_index'), '1afalse 2Atrue 3b-', 'rows that land without a trigger');
is($subscriber->safe_psql('postgres', 'SELECT string_agg(id || k || live, \' \' ORDER BY id) FROM by_trigger'), '1atrue 2Afalse 4btrue', 'rows that the triggers see');
is(sqlstate($subscriber, 'postgres', q{INSERT INTO by_index VALUES (10, 'a', true)}), '23505', 'a key that was brought in by replication');
is($subscriber->safe_psql('postgres', q{INSERT INTO by_index VALUES (10, 'B', true) RETURNING id}), '10', 'one that counts for nobody');
is($subscriber->safe_psql('postgres', q{INSERT INTO by_trigger VALUES (11, 'B', true) RETURNING id}), '', 'the same for the triggers');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');

done_testing();
