# Crashes at every stage of a main page's life: with the hole in place of its empty lines, as the
# hole ends, and with keys in lines. Filters of all kinds are at different stages at each crash.
# With images of pages in the WAL, and without: then replay compares what it makes of each change.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('empty_lines_crashes', settings => [ 'wal_level = minimal', 'max_wal_senders = 0' ]);

sub query { return $node->safe_psql('postgres', $_[0]) }

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

# Every filter has the keys from 1 to `have`. Each key comes in a transaction of its own, so
# that tags run out, and pages are settled: first in place, then by folding keys into lines.
query(
	q{
	CREATE TABLE made (name text PRIMARY KEY, have int NOT NULL DEFAULT 0);
	CREATE PROCEDURE more(filter text, n int) LANGUAGE plpgsql AS $$
	DECLARE
		had int := (SELECT have FROM made WHERE name = filter);
	BEGIN
		FOR k IN had + 1 .. had + n LOOP
			PERFORM is_new(filter::regclass, k);
			COMMIT;
		END LOOP;
		UPDATE made SET have = had + n WHERE name = filter;
		COMMIT;
	END $$;
	CREATE PROCEDURE more_for_all(n int) LANGUAGE plpgsql AS $$
	DECLARE
		filter text;
	BEGIN
		FOR filter IN SELECT name FROM made ORDER BY name LOOP
			CALL more(filter, n);
		END LOOP;
	END $$;
	CREATE FUNCTION lost(OUT filter text, OUT key int) RETURNS SETOF record LANGUAGE sql AS $$
		SELECT name, k FROM made, generate_series(1, have) k WHERE NOT dedup_seen(name::regclass, k)
	$$;
	CREATE FUNCTION bad(OUT filter text, OUT block bigint, OUT problem text) RETURNS SETOF record LANGUAGE sql AS $$
		SELECT name, c.block, c.problem FROM made, dedup_check(name::regclass) c
	$$;
});

sub all_is_well
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(query('SELECT * FROM lost()'), '', "no key is lost: $what");
	is(query('SELECT * FROM bad()'), '', "no page is bad: $what");
	return;
}

# From an empty page over one whose tags were freed in place to one with keys in its lines.
my @kinds = (
	'dedup_filter(1000, 0.01, 42)',
	'dedup_filter(1000, 1e-6, 42)',
	'dedup_window(4000, 1e-6, 42)',
	q{dedup_window(4000, 1e-6, 42), '7 days'});
foreach my $images ('on', 'off')
{
	my $consistency = $images eq 'on' ? '' : 'generic';
	$node->append_conf('postgresql.conf', "full_page_writes = $images\nwal_consistency_checking = '$consistency'\n");
	$node->restart;
	query('TRUNCATE made');
	foreach my $stage (0 .. 19)
	{
		my $name = "images_${images}_$stage";
		query("SELECT dedup_create('$name', $kinds[$stage % @kinds]); INSERT INTO made VALUES ('$name')");
		query("CALL more('$name', 9 * $stage)");
	}
	# With wal_level = minimal nothing is logged of what a transaction does to a file that it has made.
	my $same = "images_${images}_same";
	query("BEGIN; SELECT dedup_create('$same', dedup_filter(1000, 1e-6, 42)); SELECT is_new('$same', 1); COMMIT; INSERT INTO made VALUES ('$same', 1)");
	foreach my $n (1, 20, 60)
	{
		query('CHECKPOINT') if $n != 20;
		query("CALL more_for_all($n)");
		crash();
		all_is_well("images $images, $n keys each before the crash");
	}
}

# What writes or clears the lines as a whole of a page that is there, with a hole: and what
# makes copies of such pages.
$node->append_conf('postgresql.conf', "full_page_writes = on\nwal_consistency_checking = 'generic'\n");
$node->restart;
query(
	q{
	TRUNCATE made;
	SELECT dedup_create('source', dedup_filter(1000, 1e-6, 42));
	SELECT count(is_new('source', k)) FROM generate_series(1, 300) k;
});
foreach my $name ('loaded', 'bulk', 'aborted', 'rewritten', 'emptied')
{
	query(
		qq{
		SELECT dedup_create('$name', dedup_filter(1000, 1e-6, 42));
		INSERT INTO made VALUES ('$name');
		BEGIN;
		SELECT is_new('$name', 1000);
		ROLLBACK;
	});
}
query("CALL more('$_', 2)") foreach 'rewritten', 'emptied';
query('CHECKPOINT');
query(
	q{
	SELECT dedup_load('loaded', (SELECT dedup_snapshot('source')));
	SELECT count(*) FROM dedup_new_keys('bulk', ARRAY(SELECT generate_series(1, 300)));
	UPDATE made SET have = 300 WHERE name IN ('loaded', 'bulk');
	BEGIN;
	SELECT dedup_load('aborted', (SELECT dedup_snapshot('source')));
	ROLLBACK;
	TRUNCATE emptied;
	UPDATE made SET have = 0 WHERE name = 'emptied';
});
query('VACUUM FULL rewritten');
query('CALL more_for_all(1)');
crash();
all_is_well('a load, one that is rolled back, VACUUM FULL, TRUNCATE');
is(seen($node, 'aborted', 2, 300), 0, 'what was rolled back is not there');
query('CHECKPOINT');
query('CALL more_for_all(100)');
crash();
all_is_well('and keys in lines after that');

# Databases are copied page by page.
query('CHECKPOINT');
query(q{SELECT dedup_create('young', dedup_filter(1000, 1e-6, 42)); INSERT INTO made VALUES ('young')});
query(q{CALL more('young', 20)});
my @strategies = $node->pg_version >= 15 ? ('WAL_LOG', 'FILE_COPY') : ('');
foreach my $strategy (@strategies)
{
	my $db = lc "copied$strategy";
	$node->safe_psql('template1', "CREATE DATABASE $db TEMPLATE postgres" . ($strategy && " STRATEGY = $strategy"));
	$node->safe_psql($db, 'CALL more_for_all(100)');
}
crash();
foreach my $strategy (@strategies)
{
	my $db = lc "copied$strategy";
	is($node->safe_psql($db, 'SELECT * FROM lost()'), '', "no key is lost in a copy of the database $strategy");
	is($node->safe_psql($db, 'SELECT * FROM bad()'), '', 'no page is bad');
}

$node->stop;
done_testing();
