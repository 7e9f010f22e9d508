# Tables with a column of type dedup_filter: under REPLICA IDENTITY FULL a subscriber finds
# the row to change by its columns' equality, and dump and restore bring back indexes over
# such a column.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $publisher = start_node('publisher', allows_streaming => 'logical');
my $subscriber = start_node('subscriber', allows_streaming => 'logical');

# The small filters are in their rows, the large ones out of line.
foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql(
		'postgres', q{
		CREATE TABLE days (day date, f dedup_filter, note text);
		CREATE TABLE only_filters (f dedup_filter);
		CREATE TABLE others (k int PRIMARY KEY);
		ALTER TABLE days REPLICA IDENTITY FULL;
		ALTER TABLE only_filters REPLICA IDENTITY FULL;
	});
}
# From 16 on a subscriber may find the row by an index.
$subscriber->safe_psql('postgres', 'CREATE INDEX ON days USING hash (f)');
$publisher->safe_psql(
	'postgres', q{
	INSERT INTO days SELECT '2025-01-01'::date + d, (SELECT dedup_agg(dedup_filter(100000), d * i) FROM generate_series(1, (10 ^ d)::int) i), 'first'
		FROM generate_series(0, 5) d;
	INSERT INTO days VALUES ('2025-02-01', NULL, 'first'), ('2025-02-02', dedup_filter(1), 'first');
	INSERT INTO days SELECT * FROM days WHERE day = '2025-01-02';
	INSERT INTO only_filters SELECT f FROM days;
	CREATE PUBLICATION p FOR TABLE days, only_filters, others;
});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's');

sub contents
{
	my ($node) = @_;
	return $node->safe_psql(
		'postgres', q{
		SELECT 'd', day, md5(f::bytea), note FROM days UNION ALL SELECT 'f', NULL, md5(f::bytea), NULL FROM only_filters
		UNION ALL SELECT 'o', NULL, k::text, NULL FROM others ORDER BY 1, 2, 3, 4});
}

sub replicates
{
	my ($what, $sql) = @_;
	my $before = contents($publisher);
	$publisher->safe_psql('postgres', $sql);
	my $after = contents($publisher);
	isnt($after, $before, "$what: there is something to replicate");
	$publisher->wait_for_catchup('s');
	is(contents($subscriber), $after, "$what: it arrived");
	return;
}

is(contents($subscriber), contents($publisher), 'the first copy');
replicates('INSERT', q{INSERT INTO days SELECT '2025-03-01', dedup_agg(i), 'later' FROM generate_series(1, 50) i});
replicates('UPDATE of a small filter', q{UPDATE days SET note = 'updated' WHERE day = '2025-01-01'});
replicates('UPDATE of a filter out of line', q{UPDATE days SET note = 'updated' WHERE day = '2025-01-06'});
replicates('UPDATE of the filters', q{UPDATE days SET f = dedup_add(f, -1) WHERE day BETWEEN '2025-01-02' AND '2025-01-05'});
# A server that looks for the NULL in a hash index does not find the row, whatever the type.
$subscriber->safe_psql('postgres', 'DROP INDEX days_f_idx');
replicates('UPDATE of a NULL', q{UPDATE days SET f = dedup_filter(10) WHERE f IS NULL});
$subscriber->safe_psql('postgres', 'CREATE INDEX ON days USING hash (f)');
replicates('UPDATE of the only column', q{UPDATE only_filters SET f = f || dedup_add(dedup_filter(100000), 77) WHERE dedup_count(f) > 100});
replicates('DELETE of one of two equal rows',
	q{DELETE FROM days WHERE ctid = (SELECT max(ctid) FROM days WHERE day = '2025-01-02')});
replicates('DELETE by a filter', q{DELETE FROM only_filters WHERE f = dedup_filter(1)});
replicates('DELETE', q{DELETE FROM days WHERE day > '2025-01-03'});
replicates('another table', q{INSERT INTO others VALUES (1)});
is($subscriber->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_subscription WHERE subname = 's' AND relid IS NULL AND pid IS NOT NULL}), '1',
	'the subscription goes on');
unlike(PostgreSQL::Test::Utils::slurp_file($subscriber->logfile), qr/ERROR|equality operator/, 'and never stopped');
$subscriber->stop;

# dump and restore
$publisher->safe_psql(
	'postgres', q{
	CREATE TABLE keyed (f dedup_filter PRIMARY KEY, n int);
	CREATE INDEX keyed_hash ON keyed USING hash (f);
	CREATE INDEX keyed_where ON keyed (n) WHERE f <> dedup_filter(1);
	INSERT INTO keyed SELECT dedup_add(dedup_filter(100), i), i FROM generate_series(1, 100) i;
	CREATE MATERIALIZED VIEW distinct_days AS SELECT DISTINCT * FROM days;
	CREATE TABLE parted (f dedup_filter) PARTITION BY RANGE (f);
	CREATE TABLE parted1 PARTITION OF parted DEFAULT;
	INSERT INTO parted SELECT f FROM keyed;
	CREATE TRIGGER t BEFORE UPDATE ON keyed FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
		EXECUTE FUNCTION suppress_redundant_updates_trigger();
});
my $dump = $publisher->basedir . '/dump.sql';
$publisher->command_ok([ 'pg_dump', '-d', $publisher->connstr('postgres'), '-f', $dump, '--no-publications' ], 'dump');
$publisher->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$publisher->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $publisher->connstr('restored'), '-f', $dump ], 'restore');
my $count = q{
	SET enable_seqscan = off;
	SELECT (SELECT count(*) FROM keyed), (SELECT n FROM keyed WHERE f = dedup_add(dedup_filter(100), 42)),
		(SELECT count(*) FROM distinct_days), (SELECT count(DISTINCT f) FROM parted),
		(SELECT count(*) FROM pg_index WHERE indrelid = 'keyed'::regclass AND indisvalid)};
is($publisher->safe_psql('restored', $count), $publisher->safe_psql('postgres', $count), 'all is restored');
is(sqlstate($publisher, 'restored', 'INSERT INTO keyed SELECT dedup_add(dedup_filter(100), 42), 1'), '23505', 'and the key is one');
$publisher->stop;

done_testing();
