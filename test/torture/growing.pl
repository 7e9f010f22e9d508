# The part of torture.pl about filters that grow. All begin empty, and so does each generation.
#
#   grown         a set, by function. Each key that is new to it gets a row of grown_rows in the same
#                 transaction; a key that is forgotten has its row marked. So the keys of the rows
#                 that are not marked are seen, each has one such row, and no others are seen.
#   crowded       the same, in a set made for 50 keys: its chain is divided (crowded_rows).
#   grown_recent  a window of time, in the same way with grown_views: each key is seen for the ttl
#                 from its row's time and not for more than 8/7 of it.
#   copy          what COPY, dedup_load() or pg_dump takes out of "grown" while it grows has the keys
#                 of the rows that were there when that began, each once; and what pg_dump takes
#                 out of "grown_recent" those of the window.
#
# Between rounds VACUUM has the filters for itself and moves pages, and the server is stopped
# in the middle of that, too.

use strict;
use warnings;
use Time::HiRes qw(sleep time);

our ($psql, $tx, $isolation, $top, $seed, $sessions, $in_parent, %figures);

# The set's rate is kept up to a billion keys; with these few it is far lower. So in one run of a
# hundred thousand or so two of them cannot be told apart.
my $grown_fpr = 1e-7;
my $grown_rate = 1e-6;
my $grown_keys = 400_000;
my $grown_ttl = 20;
# The sets, and the keys that each may get.
my %grown_sets = (grown => $grown_keys, crowded => 60_000);

sub growing_setup
{
	return (
		(map { ("CREATE TABLE ${_}_rows (k bigint, tx bigint, gone boolean DEFAULT false)", "CREATE INDEX ON ${_}_rows (k)") } sort keys %grown_sets),
		'CREATE TABLE grown_views (k bigint, tx bigint, earliest timestamptz, latest timestamptz)',
		'CREATE INDEX ON grown_views (k)',
		"SELECT dedup_create('grown', dedup_filter(fpr => $grown_fpr, seed => $seed))",
		"SELECT dedup_create('crowded', dedup_filter(50, 1e-9, $seed))",
		"SELECT dedup_create('copy', dedup_filter(fpr => $grown_fpr, seed => $seed))",
		"SELECT dedup_create('grown_recent', ttl => '$grown_ttl seconds')",
		'CREATE TABLE dumped (k bigint)',
		'CREATE DATABASE restored');
}

our @growing_tables = ('grown', 'crowded', 'grown_recent', 'copy', 'grown_rows', 'crowded_rows', 'grown_views');
our @growing_filters = ('grown', 'crowded', 'grown_recent');

# ---- steps of a session

sub grown_set { return rand() < 0.3 ? 'crowded' : 'grown' }
sub grown_from { return int rand $grown_sets{ $_[0] } }

# Nothing is refused that has no row. Others see a row as soon as its key counts as committed.
sub expect_grown_twins
{
	my ($set, $keys) = @_;
	return if $psql->{error} || $isolation ne 'READ COMMITTED';
	my $alone = $psql->value("SELECT count(*) FROM $keys k WHERE NOT EXISTS (SELECT FROM ${set}_rows r WHERE r.k = k.k)");
	note("X $tx $alone keys of $keys were refused by $set without a twin")
	  if !$psql->{error} && defined $alone && $alone > 0;
	return;
}

our %growing_steps = (
	grow_batch => sub {
		my $set = grown_set();
		my $from = grown_from($set);
		my $keys = "generate_series($from, " . ($from + int(rand() < 0.3 ? rand 5000 : rand 300)) . ')';
		$psql->ask("INSERT INTO ${set}_rows SELECT k, $tx FROM dedup_new_keys('$set', ARRAY(SELECT ${keys}::bigint)) k");
		expect_grown_twins($set, $keys);
	},
	grow_single => sub {
		my $set = grown_set();
		my $from = grown_from($set);
		my $keys = "generate_series($from, " . ($from + int rand 40) . ')';
		$psql->ask("INSERT INTO ${set}_rows SELECT k, $tx FROM $keys k WHERE is_new('$set', k::bigint)");
		expect_grown_twins($set, $keys);
	},
	grow_forget => sub {
		my $set = grown_set();
		my $from = grown_from($set);
		my ($marked, $forgotten) = split /\|/, $psql->value(
			"WITH m AS (UPDATE ${set}_rows SET gone = true WHERE k BETWEEN $from AND $from + 20 AND NOT gone RETURNING k)
			SELECT count(*), count(*) FILTER (WHERE dedup_forget('$set', k)) FROM m") // return;
		note("X $tx of $marked keys of rows from $from only $forgotten could be forgotten in $set")
		  if !$psql->{error} && $marked != $forgotten;
	},
	grow_views => sub {
		my $from = int(time * 500) % 100_000 - int rand 3000;
		my $keys = "generate_series($from, " . ($from + int rand 1500) . ')';
		$psql->ask("INSERT INTO grown_views SELECT k, $tx, statement_timestamp(), clock_timestamp() FROM "
			  . (rand() < 0.5 ? "dedup_new_keys('grown_recent', ARRAY(SELECT ${keys}::bigint)) k"
				: "$keys k WHERE is_new('grown_recent', k::bigint)"));
	});
our @growing_step_names = (('grow_batch') x 6, ('grow_single') x 4, ('grow_forget') x 2, ('grow_views') x 5);

# ---- maintenance

our @growing_work = (
	'VACUUM grown', 'VACUUM grown', 'VACUUM crowded', 'VACUUM grown_recent', 'COPY crowded TO STDOUT', "SELECT count(*) FROM dedup_check('crowded')", 'VACUUM FREEZE grown', 'COPY grown TO STDOUT',
	"SELECT * FROM dedup_stats('grown')", "SELECT count(*) FROM dedup_check('grown')",
	"SELECT octet_length(dedup_snapshot('grown_recent')::bytea)",
	'ALTER TABLE grown SET TABLESPACE aside', 'ALTER TABLE grown SET TABLESPACE pg_default');

# Takes the keys out of the set while it grows. A key that is not in the copy must not have had
# a row all the time; and the copy has no key twice.
sub copy_growing
{
	my ($session) = @_;
	my $way = ('COPY', 'dedup_load()', 'pg_dump')[ rand 3 ];
	my $in_copy = 'copy';
	my $reader = $session;
	$session->ask('TRUNCATE dumped, copy');
	# one snapshot for both
	my ($live, $all) = split /\|/, $session->value(
		q{WITH a AS (SELECT k, gone FROM grown_rows), i AS (INSERT INTO dumped SELECT k FROM a WHERE NOT gone)
		SELECT count(*) FILTER (WHERE NOT gone), count(*) FROM a}) // return;
	return if $session->{error};
	if ($way eq 'COPY')
	{
		my $file = "$top/copy.data";
		$session->ask("\\copy grown TO '$file'");
		$session->ask("\\copy copy FROM '$file'") if !$session->{error};
	}
	elsif ($way eq 'dedup_load()')
	{
		$session->ask("SELECT dedup_load('copy', dedup_snapshot('grown'))");
	}
	else
	{
		$session->ask("\\copy (SELECT k, max(earliest) FROM grown_views GROUP BY k) TO '$top/viewed.data'");
		system("(psql -Xq -d restored -c 'CREATE EXTENSION IF NOT EXISTS streamdedup' -c 'DROP TABLE IF EXISTS grown, grown_recent'
			pg_dump -t grown -t grown_recent postgres | psql -Xq -v ON_ERROR_STOP=1 -d restored) > $top/dump.log 2>&1");
		my $failed = slurp("$top/dump.log") =~ /error:|ERROR/ ? $& : $? ;
		$session->ask('SELECT 1');
		return if $session->{error};
		if ($failed)
		{
			(my $text = slurp("$top/dump.log")) =~ s/\s+/ /g;
			# a table that is locked at this moment for another tablespace, or the like
			note("X 0 pg_dump or psql failed: $text");
			return;
		}
		$in_copy = 'grown';
		local $ENV{PGDATABASE} = 'restored';
		$reader = Psql->connect or return;
	}
	if ($session->{error})
	{
		note("X 0 $way: SQLSTATE $session->{error}") if $session->{error} ne 'gone';
		return;
	}
	if ($way eq 'pg_dump')
	{
		$session->ask("\\copy dumped TO '$top/dumped.data'");
		$reader->ask('CREATE TEMPORARY TABLE dumped (k bigint)');
		$reader->ask("\\copy dumped FROM '$top/dumped.data'");
		$reader->ask('CREATE TEMPORARY TABLE viewed (k bigint, earliest timestamptz)');
		$reader->ask("\\copy viewed FROM '$top/viewed.data'");
		my @unseen = $reader->ask("SELECT k FROM viewed WHERE NOT dedup_seen('grown_recent', k)
			AND earliest + interval '$grown_ttl seconds' > clock_timestamp()");
		note("X 0 pg_dump has lost @{[ scalar @unseen ]} keys of the window: " . few(@unseen)) if @unseen;
		my @bad_window = $reader->ask("SELECT * FROM dedup_check('grown_recent')");
		note('X 0 dedup_check of the window that pg_dump took: ' . few(@bad_window)) if @bad_window;
	}
	my @missing = $reader->ask("SELECT k FROM dumped WHERE NOT dedup_seen('$in_copy', k)");
	my $count = $reader->value("SELECT count FROM dedup_stats('$in_copy')");
	my @bad = $reader->ask("SELECT * FROM dedup_check('$in_copy')");
	my $reader_error = $reader->{error};
	$reader->close if $reader != $session;
	return if $reader_error;
	my $now = $session->value('SELECT count(*) FROM grown_rows');
	my $marked = $session->value('SELECT count(*) FROM dumped d WHERE NOT EXISTS (SELECT FROM grown_rows r WHERE r.k = d.k AND NOT gone)');
	my @lost = @missing ? $session->ask("SELECT k FROM unnest(ARRAY[@{[ join(', ', @missing) ]}]::bigint[]) k
		WHERE k IN (SELECT k FROM grown_rows GROUP BY k HAVING bool_and(NOT gone))") : ();
	return if $session->{error} || !defined $now || !defined $marked || !defined $count;
	note("X 0 $way has lost @{[ scalar @lost ]} keys: " . few(@lost)) if @lost;
	# A value has less of a key than an entry: dedup_load() adds an entry for each that it may be
	# where a line is full.
	note("X 0 $way has $count keys; $live keys had rows before, $marked were forgotten meanwhile, and " . ($now - $all) . ' rows are new')
	  if ($count > $live + $now - $all && $way ne 'dedup_load()') || $count < $live - $marked;
	note("X 0 dedup_check of what $way took: " . few(@bad)) if @bad;
	note("F copies by $way");
	return;
}

# ---- between rounds

# VACUUM while nobody else is there: so it moves pages. Overflow pages that a transaction has
# left when it aborted are the free ones. Until the server is stopped, if it is.
sub vacuum_between
{
	my ($stops) = @_;
	my $child = fork // die "fork: $!\n";
	if ($child == 0)
	{
		@main::children = ();
		my $session = Psql->connect or POSIX::_exit(0);
		for (1 .. $stops ? 1000 : 2)
		{
			last if getppid() != $in_parent;
			# begin-and-abort makes overflow pages in the midst of the file
			my $from = 1_000_000 + int rand 1e9;
			$session->ask('BEGIN');
			$session->ask("SELECT count(*) FROM dedup_new_keys('$_', ARRAY(SELECT generate_series($from, $from + 2000 + random() * 10000)::bigint))")
			  foreach @main::growing_filters;
			$session->ask('ROLLBACK');
			$session->ask("VACUUM $_") foreach @main::growing_filters;
			last if $session->{error};
		}
		$session->close;
		POSIX::_exit(0);
	}
	sleep rand 1.5 if $stops;
	return $child;
}

sub compare_set
{
	my ($session, $set) = @_;
	my @twice = $session->ask("SELECT k FROM ${set}_rows WHERE NOT gone GROUP BY k HAVING count(*) > 1");
	violation(scalar(@twice) . " keys came into $set twice: " . few(@twice)) if @twice;
	my @missed = $session->ask("SELECT k FROM ${set}_rows WHERE NOT gone AND NOT dedup_seen('$set', k)");
	violation(scalar(@missed) . " keys of rows are new to $set: " . few(@missed)) if @missed;
	my $absent = "FROM generate_series(-100000, $grown_sets{$set} + 5000) k WHERE NOT EXISTS (SELECT FROM ${set}_rows r WHERE r.k = k.k AND NOT gone)";
	my @false = $session->ask("SELECT k $absent AND dedup_seen('$set', k)");
	my $trials = $session->value("SELECT count(*) $absent");
	violation(scalar(@false) . " of $trials keys without a row are duplicates in $set: " . few(@false))
	  if @false > allowed($trials, $grown_rate);
	$figures{'growing: keys compared'} += $trials;
	my $stats = $session->value("SELECT (SELECT count(*) FROM ${set}_rows WHERE NOT gone), count, coalesce(splits, 0), in_flight, overflow_pages FROM dedup_stats('$set')");
	return violation("dedup_stats('$set') failed with $session->{error}") if !defined $stats;
	my ($rows, $count, $splits, $in_flight, $overflow) = split /\|/, $stats;
	violation("$set has $count keys for $rows rows, and $in_flight in flight") if $count != $rows;
	$figures{'growing: most rows'} = $rows if $rows > ($figures{'growing: most rows'} || 0);
	$figures{'growing: most splits'} = $splits if $splits > ($figures{'growing: most splits'} || 0);
	$figures{'growing: rows compared'} += $rows;
	$figures{"growing: most overflow pages of $set"} = $overflow if $overflow > ($figures{"growing: most overflow pages of $set"} || 0);
	return;
}

sub compare_growing
{
	my ($session) = @_;
	compare_set($session, $_) foreach sort keys %grown_sets;

	# The window. What has expired before the look is not seen.
	my @early = $session->ask("SELECT k FROM (SELECT k, earliest, latest, lag(earliest) OVER (PARTITION BY k ORDER BY earliest) AS last
		FROM grown_views) x WHERE latest < last + interval '$grown_ttl seconds'");
	violation(scalar(@early) . ' keys came into grown_recent again within the ttl: ' . few(@early)) if @early;
	my $last = "(SELECT k, max(earliest) AS earliest, max(latest) AS latest FROM grown_views GROUP BY k) x";
	my ($begin) = $session->value('SELECT clock_timestamp()');
	my @unseen = $session->ask("SELECT k, earliest, clock_timestamp() FROM $last WHERE NOT dedup_seen('grown_recent', k)
		AND earliest + interval '$grown_ttl seconds' > clock_timestamp()");
	violation(scalar(@unseen) . ' keys of the window are new to grown_recent: ' . few(@unseen)) if @unseen;
	my $expired = "$last WHERE latest + 8 / 7.0 * interval '$grown_ttl seconds' < timestamptz '$begin'";
	my @late = $session->ask("SELECT k FROM $expired AND dedup_seen('grown_recent', k)");
	my $expired_keys = $session->value("SELECT count(*) FROM $expired");
	violation(scalar(@late) . " of $expired_keys keys have not expired in grown_recent: " . few(@late))
	  if @late > allowed($expired_keys, 0.0001);
	$figures{'growing: expired keys compared'} += $expired_keys;
	$figures{'growing: window keys compared'} += $session->value("SELECT count(*) FROM $last WHERE earliest + interval '$grown_ttl seconds' > timestamptz '$begin'");
	my $splits = $session->value(q{SELECT splits FROM dedup_stats('grown_recent')});
	$figures{'growing: most splits of the window'} = $splits if $splits > ($figures{'growing: most splits of the window'} || 0);
	return;
}

1;
