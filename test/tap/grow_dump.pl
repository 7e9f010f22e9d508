# Live filters that grow, as dumps, values and files: what a dump holds is all that was committed
# when it began, each key once, whatever splits meanwhile. VACUUM moves pages and gives others back,
# also beside readers and on a standby.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $node = start_node('main', allows_streaming => 1);
my $dir = $node->basedir;

sub value
{
	my ($sql, $dbname) = @_;
	return $node->safe_psql($dbname || 'postgres', $sql);
}

sub run_node
{
	my (@command) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $err = '';
	return IPC::Run::run(\@command, '2>', \$err) ? $err : "failed: $err";
}

# ---- pg_dump | psql of every kind ---------------------------------------------------------

value(
	q{
	SELECT dedup_create('set5', dedup_filter(fpr => 0.0001, seed => 42));
	SELECT dedup_create('set4', dedup_filter(fpr => 0.01, seed => 43));
	SELECT dedup_create('timed', dedup_filter(fpr => 0.0001, seed => 44), '1 day', renew => true);
	SELECT dedup_create('unlogged', unlogged => true);
	SELECT dedup_create('empty');
	SELECT count(is_new(f, k)) FROM generate_series(1, 20000) k, unnest('{set5,set4,timed,unlogged}'::regclass[]) f;
	BEGIN;
	SELECT count(is_new('set5', k)) FROM generate_series(20001, 30000) k;
	ROLLBACK;
	CREATE TABLE guarded (k int);
	CREATE INDEX ON guarded (k);
	SELECT dedup_create('guard');
	SELECT dedup_guard('guarded', 'guard', '{k}', exact => true);
	INSERT INTO guarded SELECT generate_series(1, 5000);
});
value('CREATE DATABASE restored TEMPLATE template0');
is(run_node('pg_dump', '-f', "$dir/all.sql", 'postgres'), '', 'pg_dump');
is(run_node('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'restored', '-o', '/dev/null', '-f', "$dir/all.sql"),
	'', 'psql');
foreach my $filter ('set5', 'set4', 'timed', 'unlogged')
{
	is(seen($node, $filter, 1, 20000, 'restored'), 20000, "$filter: its keys");
	cmp_ok(seen($node, $filter, 20001, 40000, 'restored'), '<=', 40, "$filter: no others");
	no_bad_pages($node, $filter, "$filter restored", 'restored');
	is(value("SELECT count FROM dedup_stats('$filter')", 'restored'), 20000, "$filter: each once");
	value("COPY $filter TO '$dir/$filter.txt'");
}
is(seen($node, 'empty', 1, 1000, 'restored'), 0, 'the empty one');
is(value(q{SELECT splits FROM dedup_stats('empty')}, 'restored'), 0, 'has one page');
value('INSERT INTO guarded SELECT generate_series(1, 6000)', 'restored');
is(value('SELECT count(*), count(DISTINCT k) FROM guarded', 'restored'),
	'6000|6000', 'an exact guard covers its table after a restore');

# A database made from it has the same filters.
value('CREATE DATABASE copied TEMPLATE restored');
is(seen($node, 'set5', 1, 20000, 'copied'), 20000, 'CREATE DATABASE ... TEMPLATE');
no_bad_pages($node, 'set5', 'in the copy', 'copied');
value($_) foreach 'DROP DATABASE copied', 'DROP DATABASE restored';

# Into a filter that has more pages, or fewer, already; the rows in any order.
my @rows = split(/^/, slurp_file("$dir/set5.txt"));
open(my $file, '>', "$dir/reversed.txt") or die $!;
print $file reverse @rows;
close $file;
foreach my $before (1, 5000, 60000)
{
	value(
		qq{
		TRUNCATE set5;
		BEGIN; SELECT count(is_new('set5', -k)) FROM generate_series(1, $before) k; ROLLBACK;
		COPY set5 FROM '$dir/reversed.txt';
	});
	is(seen($node, 'set5', 1, 20000), 20000, "restored into a filter that had $before keys");
	is(seen($node, 'set5', -60000, 0) + seen($node, 'set5', 20001, 60000), 0, 'no others');
	is(value(q{SELECT count FROM dedup_stats('set5')}), 20000, 'each once');
	no_bad_pages($node, 'set5', 'after that');
}

# ---- dumps of a filter that is being filled ---------------------------------------------------

value(q{SELECT dedup_create('busy', dedup_filter(fpr => 0.0001, seed => 45)),
	dedup_create('taken', dedup_filter(fpr => 0.0001, seed => 45)); CREATE TABLE progress (n int)});
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $ignored = '';
	my $writer = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', 'postgres', '-c', q{DO $$ BEGIN
			FOR i IN 1 .. 30000 LOOP
				PERFORM is_new('busy', i);
				IF i % 20 = 0 THEN INSERT INTO progress VALUES (i); COMMIT; END IF;
			END LOOP; END $$}
		],
		'>&', \$ignored);
	my $whole = 0;
	my $last = 0;
	for my $round (1 .. 200)
	{
		my $from = value('SELECT coalesce(max(n), 0) FROM progress');
		next if $from < 30000 && $from < $last + 2000;
		$last = $from;
		value("COPY busy TO '$dir/busy.txt'");
		my $to = value('SELECT coalesce(max(n), 0) FROM progress');
		value("TRUNCATE taken; COPY taken FROM '$dir/busy.txt'");
		my $missed = $from - seen($node, 'taken', 1, $from);
		my $beyond = seen($node, 'taken', $to + 41, 40000);
		my $count = value(q{SELECT count FROM dedup_stats('taken')});
		my $known = seen($node, 'taken', 1, $to + 40);
		ok($missed == 0 && $beyond == 0 && $count == $known, "a dump after $from keys")
		  or diag("missed $missed, beyond $beyond, holds $count, knows $known");
		last if $from >= 30000;
	}
	$writer->finish;
	is(seen($node, 'busy', 1, 30000), 30000, 'the filter itself');
	no_bad_pages($node, $_, "$_ after the dumps") foreach 'busy', 'taken';
}

# ---- a few rows of a dump ---------------------------------------------------------------------

# A row says how many pages its filter had, which need not be true: pages without keys take no
# room. Rows of several dumps of one filter, as it grew, call for more and more pages.
value(
	qq{
	SELECT dedup_create(f, dedup_filter(fpr => 0.0001, seed => 47)) FROM unnest('{large,part,parts}'::text[]) f;
	SELECT count(is_new('large', k)) FROM generate_series(1, 5) k;
	COPY large TO '$dir/few.txt';
	SELECT count(*) FROM dedup_new_keys('large', (SELECT array_agg(k) FROM generate_series(1, 400000) k));
	VACUUM large;
	COPY large TO '$dir/many.txt';
});
cmp_ok(value(q{SELECT splits FROM dedup_stats('large')}), '>', 500, 'a filter of many pages');
my @many = split /^/, slurp_file("$dir/many.txt");
# the pages 5 and 70: as many keys of each
my @chosen = map { my $page = $_; grep { /^$page\t/ } @many } 5, 70;
is(scalar(@chosen), 2, 'two rows of it');
open my $some, q{>}, "$dir/part.txt" or die;
print $some @chosen;
close $some;
open $some, q{>}, "$dir/parts.txt" or die;
print $some slurp_file("$dir/few.txt"), $chosen[1];
close $some;
foreach my $filter ('part', 'parts')
{
	value("COPY $filter FROM '$dir/$filter.txt'");
	cmp_ok(value("SELECT bytes / 8192 FROM dedup_stats('$filter')"), '<', 120, "$filter: a small file");
	cmp_ok(value("SELECT splits FROM dedup_stats('$filter')"), '>', 500, "$filter: of as many pages");
	no_bad_pages($node, $filter, $filter);
}
is(seen($node, 'parts', 1, 5), 5, 'the keys of the first dump');
is(value(q{SELECT count(*) FROM generate_series(1, 400000) k WHERE dedup_seen('part', k) AND NOT dedup_seen('large', k)}),
	0, 'the keys of the rows');
cmp_ok(value(q{SELECT count(*) FROM generate_series(1, 400000) k WHERE dedup_seen('part', k)}), '>', 600, 'all of them');
is(value(q{SELECT count(*) FROM part}), 2, 'and no other row');
# batches and single keys put keys into pages that have no block yet; so does a load by a dump
is(value(q{SELECT count(*) FROM dedup_new_keys('part', (SELECT array_agg(k) FROM generate_series(500001, 503000) k))}),
	3000, 'batches');
is(new_among($node, 'part', 503001, 506000), 3000, 'single keys');
is(seen($node, 'part', 500001, 506000), 6000, 'are there');
no_bad_pages($node, 'part', 'part, with more keys');
value(q{SET wal_consistency_checking = 'generic'; VACUUM part});
is(seen($node, 'part', 500001, 506000), 6000, 'after VACUUM, too');
value("CREATE TABLE copied AS SELECT * FROM part; TRUNCATE part");
value("COPY copied TO '$dir/again.txt'; COPY part FROM '$dir/again.txt'");
is(seen($node, 'part', 500001, 506000), 6000, 'and after another dump');
no_bad_pages($node, 'part', 'part, restored again');

# ---- VACUUM ---------------------------------------------------------------------------------------

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;

# One transaction leaves pages of chains everywhere.
value(q{SELECT dedup_create('packed', dedup_filter(fpr => 0.0001, seed => 46))});
is(new_among($node, 'packed', 1, 60000), 60000, 'keys in one transaction');
my $size = q{SELECT bytes / 8192 FROM dedup_stats('packed')};
# with the page of counters, the root and the map
my $pages = q{SELECT splits + 1 + 3 + overflow_pages FROM dedup_stats('packed')};
cmp_ok(value(q{SELECT overflow_pages FROM dedup_stats('packed')}), '>', 50, 'chains take room');

# Nothing moves while others use the filter. They know where its pages were.
my $reader = live_session($node, 'postgres');
$reader->query(q{BEGIN; SELECT count(*) FILTER (WHERE dedup_seen('packed', k)) FROM generate_series(1, 60000) k});
value('VACUUM packed');
cmp_ok(value($size), '>', value($pages), 'not while somebody reads');
$reader->query('COMMIT');
# what moves is the same on the standby
value(q{SET wal_consistency_checking = 'generic'; VACUUM packed});
is(value($size), value($pages), 'all free pages are given back');
like($reader->query(q{SELECT count(*) FILTER (WHERE dedup_seen('packed', k)) FROM generate_series(1, 60000) k}),
	qr/^60000$/m, 'who knew where the pages were finds them');
no_bad_pages($node, 'packed', 'packed');
is(new_among($node, 'packed', 1, 70000), 10000, 'it goes on growing');
no_bad_pages($node, 'packed', 'and is whole');
value(q{SET wal_consistency_checking = 'generic'; VACUUM FULL packed});
is(value($size), value($pages), 'VACUUM FULL');
is(seen($node, 'packed', 1, 70000), 70000, 'keeps all keys');
$reader->quit;

# ---- the standby -----------------------------------------------------------------------------------

$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
is(seen($standby, 'packed', 1, 70000), 70000, 'the standby finds them');
no_bad_pages($standby, $_, "$_ on the standby") foreach 'packed', 'busy';
$node->stop;
$standby->promote;
is(new_among($standby, 'packed', 60001, 90000), 20000, 'and goes on after it is promoted');
no_bad_pages($standby, 'packed', 'packed after that');
$standby->stop;

done_testing();
