# pg_partman beside guards of each kind and mode: create_parent, partition_data_proc,
# maintenance, retention, undo_partition_proc. No row may be lost, none may be there twice.
#
# partition_data_proc moves rows out of the default partition: it deletes them into a temporary
# table, makes the partition and inserts them again, a transaction for each partition.
# undo_partition_proc moves rows to another table by one statement and commits after it. The
# statements of partition_data_async of release 5.3 and later, which commits between DELETE and
# INSERT, are run by hand: under an approximate guard that keeps keys they need the guard to be
# off, as docs/recipes-servers.md says.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('partman', settings => ['fsync = off']);
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_partman' AND default_version LIKE '4.%'}) eq '0')
{
	$node->stop;
	plan skip_all => 'pg_partman 4 is not installed';
}

my ($db, $kind, $mode);

sub query { return $node->safe_psql($db, $_[0]) }

sub guard
{
	my ($table, $filter) = @_;
	my $option = { approximate => '', forgetting => ", on_delete => 'forget'", exact => ', exact => true' }->{$kind};
	return "SELECT dedup_guard('$table', '$filter', '{id}', '$mode'$option)";
}

# Returns what happens to a row: its SQLSTATE if it raises one, else how many rows it adds and how many of these are
# marked. The change is rolled back.
sub fate
{
	my ($table, $id, $at) = @_;
	my ($rc, $said, $error) = $node->psql($db,
		"\\set VERBOSITY sqlstate\nBEGIN; WITH i AS (INSERT INTO $table VALUES ($id, $at) RETURNING *) SELECT count(*), count(*) FILTER (WHERE is_duplicate) FROM i;\nROLLBACK;");
	return $error =~ /ERROR:  (\w+)/ ? $1 : $said;
}
sub refused { return { skip => '0|0', reject => '23505', mark => '1|1' }->{$mode} }

# Checks that each of some rows exists once, and none is marked.
sub rows_are_there
{
	my ($table, $count, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(query("SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE is_duplicate) FROM $table"), "$count|$count|0", "$db: $what");
}

foreach my $case (map { my $k = $_; map { [ $k, $_ ] } 'skip', 'reject', 'mark' } 'approximate', 'forgetting', 'exact')
{
	($kind, $mode) = @$case;
	$db = "${kind}_$mode";
	my $frees = $kind ne 'approximate';
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	query(qq{
		CREATE EXTENSION streamdedup;
		CREATE SCHEMA partman;
		CREATE EXTENSION pg_partman SCHEMA partman;
		CREATE TABLE ev (id bigint, at timestamptz NOT NULL, is_duplicate boolean) PARTITION BY RANGE (at);
		CREATE INDEX ON ev (id);
		SELECT partman.create_parent('public.ev', 'at', 'native', 'daily', p_premake => 1, p_start_partition => (now() - interval '9 days')::text);
		SELECT dedup_create('ev_seen', dedup_filter(100000, 0.000001, 42));
		@{[ guard('ev', 'ev_seen') ]};
		INSERT INTO ev SELECT i, now() + interval '20 days' + (i % 3) * interval '1 day' FROM generate_series(1, 300) i;
		INSERT INTO ev SELECT i, now() FROM generate_series(301, 400) i});
	is(query('SELECT count(*) > 0 FROM ev_default'), 't', "$db: rows are in the default partition");
	is(fate('ev', 1, 'now()'), refused(), "$db: a duplicate of one of them is refused");
	query(q{CALL partman.partition_data_proc('public.ev', p_wait => 0)});
	rows_are_there('ev', 400, 'all rows are there after partition_data_proc');
	is(query('SELECT count(*) FROM ev_default'), '0', "$db: none is in the default partition");
	# keys that are forgotten are new again
	is(query(q{SELECT new, skipped, rejected, marked FROM dedup_stats('ev_seen')}),
		($kind eq 'forgetting' ? '700' : '400') . '|0|' . ($mode eq 'reject' ? 1 : 0) . '|0',
		"$db: nothing was refused but the duplicate");
	is(fate('ev', 2, 'now()'), refused(), "$db: a duplicate of a row that has moved is refused");

	# maintenance
	my $before = query('SELECT partitions_guarded FROM dedup_guards');
	query(q{UPDATE partman.part_config SET premake = 4; SELECT partman.run_maintenance('public.ev')});
	is(query("SELECT partitions_guarded > $before, partitions_unguarded, problem FROM dedup_guards"), 't|0|', "$db: the partitions that maintenance makes are guarded");
	query(q{INSERT INTO ev SELECT 500 + i, (SELECT max(at) FROM ev) + i * interval '1 day' FROM generate_series(1, 3) i});
	is(query('SELECT count(*) FROM ev_default'), '0', "$db: rows go into them");
	is(fate('ev', 3, '(SELECT max(at) FROM ev)'), refused(), "$db: and are refused there");

	# retention
	query(qq{
		INSERT INTO ev SELECT i, now() - interval '8 days' FROM generate_series(601, 610) i;
		INSERT INTO ev SELECT i, now() - interval '5 days' FROM generate_series(701, 710) i;
		UPDATE partman.part_config SET retention = '6 days', retention_keep_table = true;
		SELECT partman.run_maintenance('public.ev')});
	rows_are_there('ev', 413, 'retention has taken one partition with rows off');
	is(query(q{SELECT sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s WHERE id BETWEEN 601 AND 610', c.oid::regclass), true, true, '')))[1]::text::int)
			FROM pg_class c WHERE relname LIKE 'ev\_p%' AND relkind = 'r' AND NOT relispartition}), '10', "$db: and has kept its rows");
	is(fate('ev', 601, 'now()'), $kind eq 'exact' ? '1|0' : refused(), "$db: their keys");
	query(q{
		UPDATE partman.part_config SET retention = '3 days', retention_keep_table = false;
		SELECT partman.run_maintenance('public.ev')});
	rows_are_there('ev', 403, 'retention has dropped another one');
	is(fate('ev', 701, 'now()'), $kind eq 'exact' ? '1|0' : refused(), "$db: the keys of its rows");

	# moved in two transactions
	query(q{
		CREATE TABLE aside (LIKE ev INCLUDING INDEXES);
		INSERT INTO ev SELECT i, now() + interval '50 days' FROM generate_series(801, 810) i});
	my ($away, $back) = map { "WITH d AS (DELETE FROM $_->[0] RETURNING *) INSERT INTO $_->[1] SELECT * FROM d" }
		['ev_default', 'aside'], ['aside', 'ev_later'];
	my $later = q{SELECT format('CREATE TABLE ev_later PARTITION OF ev FOR VALUES FROM (%L) TO (%L)', now() + interval '40 days', now() + interval '60 days') \gexec};
	my $rows_later = 'SELECT count(*), count(*) FILTER (WHERE is_duplicate) FROM ev_later';
	like(messages($node, $db, "BEGIN;\n$away;\nCOMMIT;\n$later\nBEGIN;\n$back;\nROLLBACK"),
		$mode eq 'reject' && !$frees ? qr/ERROR:  23505/ : qr/^$/, "$db: rows are moved in two transactions");
	is(query("BEGIN;\n" . ($mode eq 'reject' && !$frees ? '' : "$back;\n") . $rows_later),
		$frees ? '10|0' : $mode eq 'mark' ? '10|10' : '0|0', "$db: and are duplicates only if the guard keeps keys");
	query($frees ? $back : "SELECT dedup_unguard('ev'); $back; " . guard('ev', 'ev_seen'));
	is(query($rows_later), '10|0', "$db: moved, without the guard if it keeps keys");
	is(fate('ev', 801, q{now() + interval '50 days'}), refused(), "$db: and guarded");

	# back to one table, which has a guard, too
	my $filter = 'ev_seen';
	if ($kind eq 'exact')
	{
		$filter = 'flat_seen';
		query(q{SELECT dedup_create('flat_seen', dedup_filter(100000, 0.000001, 43))});
	}
	query("CREATE TABLE flat (id bigint, at timestamptz NOT NULL, is_duplicate boolean); CREATE INDEX ON flat (id); @{[ guard('flat', $filter) ]};"
		  . q{CREATE TABLE old_rows AS SELECT * FROM ev});
	# the partition that was made by hand has not a name of pg_partman's
	query(q{ALTER TABLE ev_later RENAME TO ev_p2000_01_01});
	query(q{CALL partman.undo_partition_proc('public.ev', p_interval => '12 hours', p_wait => 0, p_target_table => 'public.flat', p_keep_table => } . ($mode eq 'skip' ? 'false)' : 'true)'));
	rows_are_there('flat', 413, 'all rows are there after undo_partition_proc');
	is(query('SELECT count(*) FROM (SELECT * FROM old_rows EXCEPT ALL SELECT * FROM flat) x'), '0', "$db: as they were");
	is(query('SELECT count(*) FROM ev'), '0', "$db: and nowhere else");
	is(fate('flat', 1, 'now()'), refused(), "$db: a duplicate of a row that was moved to another table is refused");
	is(query("SELECT count(*) FROM dedup_check('$filter')"), '0', "$db: the filter is whole");
}
$node->stop;

done_testing();
