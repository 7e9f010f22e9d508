#!/usr/bin/perl
# Kills a server at random while sessions work on guarded tables, and compares what is
# left with what they were told. See torture.sh, which runs it.
#
# usage: torture.pl SECONDS [SESSIONS]
#
# Beside each other: sessions (one process and one psql each) and a session that does
# maintenance. A round ends with the death of the server (pg_ctl stop -m immediate) or
# of the server process of one of the sessions (SIGKILL, after which the server restarts
# itself). Then, with nobody else there, everything is compared:
#
#   clicks   a partitioned table, guarded by the filter "seen", which never forgets.
#            Each session knows what rows it has put there, moved, and deleted, by the
#            transactions that were acknowledged; the table "done" says how those ended
#            that were not. The rows of the table must be these, exactly.
#   history  every key that was taken, by trigger, in the transaction of the row, and
#            every key that dedup_forget() took out. The filter must have seen the keys
#            whose last entry here is "taken", and no others, but for its rate of false
#            positives; each row that was refused must have a twin here. A DELETE makes no
#            entry: the key of a deleted row stays seen.
#   views    a second table, whose filter "recent" forgets: the promise of the window.
#   single, strict  partitioned tables with an exact guard, which leaves duplicates out, or
#            is a unique constraint. Never have two of their rows one key, which anybody
#            can see at any time. Some keys are used by one session only, so it can say of
#            each statement whether it is refused; for the others there must have been a row
#            somewhere. A partition is detached, filled by hand, and attached again.
#   freed    one with a guard whose rows free their keys, which diverts duplicates. The same
#            holds for it; its filter has seen the keys of its rows, and no others; and each
#            row that was sent to it is there or in its side table, and never in both.
#
#            In one round of three there are only these three tables, and the sessions compare their own
#            keys after each transaction.
#
#   grown, grown_recent  a set and a window that grow, see torture/growing.pl. An odd TORTURE_SEED
#            makes the set of "clicks" grow, too, and one with its second bit that of "freed".
#
# The sessions check the rule for deleted rows at once. A key that a session has taken
# stays taken until this session forgets the key, so each session can predict the answer
# for its own keys: the key of a row that this transaction has deleted must get in, once
# for each deleted row; every other key that the session has taken must be refused.
#
# Random numbers begin with TORTURE_SEED, which is printed; the timing of processes makes
# each run another one all the same.

use strict;
use warnings;
use Fcntl qw(:seek);
use IO::Handle;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);
use FindBin;

our ($sessions, $seed, $top, $psql, $tx, $isolation);
(my $seconds, $sessions) = @ARGV;
die "usage: torture.pl SECONDS [SESSIONS]\n" if !$seconds || $seconds =~ /\D/;
$sessions ||= 4;

$seed = $ENV{TORTURE_SEED} || int(time * 1000) % 2**31;
srand($seed);

$top = "$ENV{TMPDIR}/torture.$$";
our $data = "$top/data";
our $server_log = "$top/server.log";
mkdir $top or die "$top: $!\n";
delete $ENV{PGOPTIONS};
@ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PGAPPNAME)} = ($top, 5432, 'torture', 'postgres', 'torture');

# Keys of a generation, after which everything is emptied; the capacities and rates of
# the two filters; how much of a window may be missed.
our $generation_rounds = 25;
our $keys_a_round = 20_000;
my $seen_rate = 1e-7;
my $window = 2000;
my $window_rate = 1e-6;
my $window_missed = 0.001;

our $in_parent = $$;
our @children;
my $violations = 0;
our %figures;

require "$FindBin::Bin/torture/$_.pl" foreach 'server', 'growing', 'session', 'steps';
our ($log, $own_keys, $shared_keys, $first_own);
our (@growing_tables, @growing_filters, @growing_work);

# ---- maintenance ----------------------------------------------------------

# What must never give a row, at any time.
my $exact_twice = join(' UNION ALL ',
	map { "SELECT '$_', k FROM $_ GROUP BY k HAVING count(*) > 1" } 'single', 'strict', 'freed');

# Takes a partition out, puts rows into it, and attaches it again: an error while there
# are duplicates, which are deleted then.
sub detach_and_attach
{
	my ($session, $table) = @_;
	my $part = "${table}3";
	my $attach = "ALTER TABLE $table ATTACH PARTITION $part FOR VALUES IN (3)";
	$session->ask("SET lock_timeout = '2s'");
	$session->ask("ALTER TABLE $table DETACH PARTITION $part" . (rand() < 0.5 ? ' CONCURRENTLY' : ''));
	return if $session->{error} eq 'gone';
	my @keys = map { int rand $shared_keys } 0 .. rand 5;
	note("W 0 $table $_") foreach @keys;
	$session->ask("INSERT INTO $part SELECT -1, k, 3 FROM unnest(ARRAY[@{[ join(', ', @keys) ]}]) k");
	return if $session->{error} eq 'gone';
	for (1 .. 20)
	{
		sleep rand 0.05;
		$session->ask("ALTER TABLE $table DETACH PARTITION $part FINALIZE") if $session->{error} =~ /^(55|57014)/;
		$session->ask($attach);
		note("F partitions attached") if !$session->{error};
		# there, or gone, or it is attached already
		last if $session->{error} =~ /^(|gone|42809)$/;
		note("F partitions with duplicates") if $session->{error} eq '23505';
		note("X 0 ATTACH: SQLSTATE $session->{error}") if $session->{error} !~ /^(23505|55P03|40P01|55000)$/;
		next if $session->{error} ne '23505';
		$session->ask("DELETE FROM $part a USING $part b WHERE a.k = b.k AND a.ctid < b.ctid");
		$session->ask("DELETE FROM $part p USING $table t WHERE p.k = t.k");
		last if $session->{error} eq 'gone';
	}
	return;
}

# Whatever else goes on in a database.
sub maintenance
{
	srand($seed + 1000);
	open $log, '>>', "$top/session.0" or die;
	$log->autoflush(1);
	my @work = (
		@growing_work,
		'CHECKPOINT', 'VACUUM seen', 'VACUUM recent', 'VACUUM FREEZE seen', 'VACUUM clicks', 'VACUUM FREEZE recent',
		"SELECT * FROM dedup_stats('seen')", "SELECT count(*) FROM dedup_check('seen')",
		"SELECT octet_length(dedup_snapshot('recent')::bytea)", 'ANALYZE clicks', 'COPY seen TO STDOUT',
		"SELECT count(*) FROM generate_series(1, 1000) k WHERE dedup_seen('seen', k)",
		'ALTER TABLE seen SET TABLESPACE aside', 'ALTER TABLE seen SET TABLESPACE pg_default',
		'ALTER TABLE recent SET TABLESPACE aside', 'ALTER TABLE recent SET TABLESPACE pg_default',
		'REINDEX TABLE clicks0', 'REINDEX TABLE clicks3', 'REINDEX TABLE CONCURRENTLY clicks1');
	# While an old snapshot is there no entry can be folded, so tags run out.
	my $old_snapshot = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM freed; SELECT pg_sleep(random() * 4); COMMIT';
	my @forgetting_work = (($old_snapshot) x 3, 'CHECKPOINT', 'VACUUM freed', map { ("VACUUM $_", "VACUUM FREEZE $_", "SELECT count(*) FROM dedup_check('$_')") } 'freed_keys', 'single_keys');
	push @work, $old_snapshot;
	while (1)
	{
		my ($round, undef, $kind) = read_round();
		exit 0 if $round eq 'end';
		exit 1 if getppid() != $in_parent;
		my $work = $kind eq 'forgetting' ? \@forgetting_work : \@work;
		my $session = $round eq '' ? undef : Psql->connect;
		while ($session && (read_round())[0] eq $round)
		{
			foreach my $twice ($session->ask($exact_twice))
			{
				note("X 0 two rows of one key: $twice");
			}
			last if $session->{error} eq 'gone';
			if (rand() < 0.3)
			{
				detach_and_attach($session, exact_table());
				last if $session->{error} eq 'gone';
			}
			if (rand() < 0.1)
			{
				copy_growing($session);
				last if $session->{error} eq 'gone';
			}
			my $sql = $work->[ rand @$work ];
			# what a copy writes is of no interest here
			$session->ask($sql =~ /^COPY (\w+) TO STDOUT$/ ? "\\copy $1 TO /dev/null" : $sql);
			last if $session->{error} eq 'gone';
			sleep rand 0.5;
		}
		$session->close if $session;
		sleep 0.05;
	}
}

# ---- the comparison -------------------------------------------------------

my (%log_offset, %effects_of, %acknowledged, %refused, %refused_views, %was_there, %refused_exact);

sub read_logs
{
	foreach my $n (0 .. $sessions)
	{
		open my $file, '<', "$top/session.$n" or next;
		seek $file, $log_offset{$n} || 0, SEEK_SET;
		while (my $line = <$file>)
		{
			chomp $line;
			my ($what, $number, $rest) = split / /, $line, 3;
			if ($what eq 'T') { $effects_of{$number} = $rest || '' }
			elsif ($what eq 'A') { $acknowledged{$number} = $rest; $figures{ $rest eq 'c' ? 'committed' : 'rolled back' }++ }
			elsif ($what eq 'R') { my ($k, $by) = split / /, $rest; $refused{$k} = "$by of $number"; $figures{refused}++ }
			elsif ($what eq 'W') { $was_there{$rest} = 1 }
			elsif ($what eq 'N') { $refused_exact{$rest} = $number; $figures{'refused by exact guards'}++ }
			elsif ($what eq 'V') { $refused_views{$rest}++; $figures{'refused views'}++ }
			elsif ($what eq 'G') { $figures{'inserted again'}++ }
			elsif ($what eq 'F') { $figures{"$number $rest"}++ }
			elsif ($what eq 'E') { $figures{errors}++; $figures{deadlocks}++ if $number eq '40P01' }
			elsif ($what eq 'X') { violation("session $n: $rest") }
		}
		$log_offset{$n} = tell $file;
	}
	return;
}

sub violation
{
	my ($what) = @_;
	$violations++;
	print "VIOLATION: $what\n" if $violations <= 50;
	return;
}

sub few
{
	my @few = @_;
	return join(', ', @few > 10 ? (@few[ 0 .. 9 ], '...') : @few);
}

# More of these than a rate allows, in so many trials.
sub allowed
{
	my ($trials, $rate) = @_;
	return int($trials * $rate + 4 * sqrt($trials * $rate));
}

sub compare
{
	my ($session) = @_;

	# What is prepared is ended either way.
	foreach my $gid ($session->ask('SELECT gid FROM pg_prepared_xacts'))
	{
		my $how = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';
		$session->ask("$how PREPARED '$gid'");
		violation("$how PREPARED after the restart failed with $session->{error}") if $session->{error};
		$figures{'prepared across a crash'}++;
	}
	read_logs();

	# Transactions: acknowledged ones ended as was said.
	my %done = map { $_ => 1 } $session->ask('SELECT tx FROM done');
	foreach my $number (keys %acknowledged)
	{
		my $committed = $acknowledged{$number} eq 'c';
		violation("transaction $number was acknowledged and is lost") if $committed && !$done{$number};
		violation("transaction $number was rolled back and is there") if !$committed && $done{$number};
	}

	# Rows: those of the transactions that are there, and no others.
	my (%expected, %expected_views, %expected_own);
	foreach my $number (sort { $a <=> $b } grep { $done{$_} } keys %effects_of)
	{
		foreach my $effect (split /;/, $effects_of{$number})
		{
			my ($what, $id, @row) = split /,/, $effect, -1;
			if ($what eq '=') { $expected_own{"$id|$row[0]"} = $row[1] }
			elsif ($what eq 'v') { $expected_views{"$id|$number"} = 1 }
			elsif ($what eq '-') { delete $expected{$id} }
			else { $expected{$id} = join('|', @row) }
		}
	}
	my (@extra, @other, @alone, $found);
	foreach my $line ($session->ask('SELECT id, k, part, n, p FROM clicks'))
	{
		my ($id, $row) = split /\|/, $line, 2;
		$found++;
		my $expected = delete $expected{$id};
		if (!defined $expected) { push @extra, $id }
		elsif ($expected ne $row) { push @other, "$id is $row and not $expected" }
	}
	violation(scalar(keys %expected) . ' rows are lost: ' . few(sort keys %expected)) if %expected;
	violation(scalar(@extra) . ' rows are there that nobody put there, or twice: ' . few(@extra)) if @extra;
	violation(scalar(@other) . ' rows differ: ' . few(@other)) if @other;
	@extra = grep { !delete $expected_views{$_} } $session->ask('SELECT k, tx FROM views');
	violation(scalar(keys %expected_views) . ' views are lost: ' . few(sort keys %expected_views)) if %expected_views;
	violation(scalar(@extra) . ' views are there that nobody put there, or twice: ' . few(@extra)) if @extra;
	$figures{'rows compared'} += $found || 0;
	$figures{'most rows'} = $found if $found && $found > ($figures{'most rows'} || 0);

	# Exact guards.
	delete @expected_own{ grep { !$expected_own{$_} } keys %expected_own };
	foreach my $table ('single', 'strict', 'freed')
	{
		foreach my $line ($session->ask("SELECT k, id FROM $table WHERE k >= $first_own"))
		{
			my ($k, $id) = split /\|/, $line;
			my $own = delete $expected_own{"$table|$k"} || 0;
			violation("$table has the row $id, and not $own, with the key $k") if $own != $id;
			$figures{'rows of one session each'}++;
		}
	}
	violation(scalar(keys %expected_own) . ' rows of one session each are lost: ' . few(%expected_own)) if %expected_own;
	@alone = grep { !$was_there{$_} } keys %refused_exact;
	violation(scalar(@alone) . ' keys were refused by exact or forgetting guards without a twin: ' . few(map { "$_ by $refused_exact{$_}" } @alone)) if @alone;
	foreach my $twice ($session->ask($exact_twice))
	{
		violation("two rows of one key: $twice");
	}

	my @both = $session->ask('SELECT id FROM freed JOIN freed_refused r USING (id)');
	violation(scalar(@both) . ' rows are in a table and were diverted: ' . few(@both)) if @both;
	$figures{'rows diverted'} += $session->value('SELECT count(*) FROM freed_refused') || 0;
	my @differ = $session->ask("SELECT k, dedup_seen('freed_keys', k) FROM (SELECT generate_series(0, $shared_keys) k
		UNION ALL SELECT $first_own * s + k FROM generate_series(1, $sessions) s, generate_series(0, $own_keys) k) x
		WHERE dedup_seen('freed_keys', k) <> EXISTS (SELECT FROM freed WHERE freed.k = x.k)");
	violation(scalar(@differ) . ' keys are seen and not in the table, or the other way round: ' . few(@differ)) if @differ;

	# Keys.
	my @twice = $session->ask('SELECT k FROM clicks GROUP BY k HAVING count(*) > 1');
	violation(scalar(@twice) . ' keys came in twice: ' . few(@twice)) if @twice;
	$session->ask('TRUNCATE taken');
	$session->ask('INSERT INTO taken SELECT DISTINCT ON (k) k, taken FROM history ORDER BY k, seq DESC');
	$session->ask('ANALYZE taken');
	my @missed = $session->ask("SELECT k FROM taken WHERE taken AND NOT dedup_seen('seen', k)");
	violation(scalar(@missed) . ' keys of committed rows are new: ' . few(@missed)) if @missed;
	my $highest = 1 + $keys_a_round * $generation_rounds;
	my @false = $session->ask(
		"SELECT k FROM generate_series(1, $highest) k WHERE dedup_seen('seen', k)
		AND NOT EXISTS (SELECT FROM taken t WHERE t.k = k.k AND t.taken)");
	my $absent = $session->value("SELECT $highest - count(*) FROM taken WHERE taken");
	violation(scalar(@false) . " of $absent keys without a row are duplicates: " . few(@false))
	  if @false > allowed($absent, $seen_rate);
	$figures{'keys compared'} += $highest;
	$figures{'false positives'} += @false;
	my %ever = map { $_ => 1 } $session->ask('SELECT DISTINCT k FROM history WHERE taken');
	@alone = grep { !$ever{$_} } keys %refused;
	violation(scalar(@alone) . ' keys were refused without a twin: ' . few(map { "$_ by $refused{$_}" } @alone))
	  if @alone > allowed(scalar(keys %ever), $seen_rate);
	$figures{'refused without a twin'} += @alone;

	# The window: of the last keys, which were seen; what came in again too early; and
	# keys that never came in.
	my $recent = int($window * 0.9);
	my ($last, $forgotten) = split /\|/,
	  $session->value("SELECT count(*), count(*) FILTER (WHERE NOT dedup_seen('recent', k))
		FROM (SELECT k FROM views ORDER BY seq DESC LIMIT $recent) x");
	violation("$forgotten of the last $last keys of a window of $window are forgotten")
	  if $forgotten > allowed($last, $window_missed);
	$figures{'window keys compared'} += $last;
	$figures{'forgotten within the window'} += $forgotten;
	my $early = $session->value("SELECT count(*) FROM (SELECT n - lag(n) OVER (PARTITION BY k ORDER BY n) AS distance
		FROM (SELECT k, row_number() OVER (ORDER BY seq) AS n FROM views) x) y WHERE distance < $recent");
	my $sent_again = 0;
	$sent_again += $_ foreach values %refused_views;
	violation("$early keys came in again within the window, $sent_again were refused")
	  if $early > allowed($early + $sent_again, $window_missed);
	$figures{'came in again within the window'} += $early;
	my %ever_viewed = map { $_ => 1 } $session->ask('SELECT DISTINCT k FROM views');
	@alone = grep { !$ever_viewed{$_} } keys %refused_views;
	violation(scalar(@alone) . ' views were refused without a twin: ' . few(@alone))
	  if @alone > allowed(scalar(keys %ever_viewed), $window_rate);
	$figures{'refused without a twin'} += @alone;

	compare_growing($session);

	# Pages.
	foreach my $filter (@growing_filters, 'seen', 'recent', 'single_keys', 'strict_keys', 'freed_keys')
	{
		my @bad = $session->ask("SELECT * FROM dedup_check('$filter')");
		violation("dedup_check('$filter'): " . few(@bad)) if @bad;
		violation("dedup_check('$filter') failed with $session->{error}") if $session->{error};
		$figures{'pages checked'} += $session->value("SELECT pg_relation_size('$filter') / current_setting('block_size')::int");
	}
	violation("the comparison failed with $session->{error}") if $session->{error};
	return;
}

# Everything empty; the sessions are told by the number of the generation.
sub next_generation
{
	my ($session) = @_;
	# A partition that a killed session has left detached is not truncated with its table.
	$session->ask('TRUNCATE clicks, parents, views, history, done, seen, recent, single, single3, strict, strict3, single_keys, strict_keys, freed, freed_refused, ' . join(', ', @growing_tables));
	violation("TRUNCATE failed with $session->{error}") if $session->{error};
	%effects_of = %acknowledged = %refused = %refused_views = %was_there = %refused_exact = ();
	return;
}

sub check_log
{
	my $text = slurp($server_log);
	foreach my $bad ($text =~ /^(.*(?:PANIC|TRAP|inconsistent page found|XX001|invalid page).*)$/mg)
	{
		violation("server log: $bad");
	}
	rename $server_log, "$server_log.1";
	return;
}

# ---- the course of it -----------------------------------------------------

sub tell_sessions
{
	my ($text) = @_;
	open my $file, '>', "$top/round.new" or die;
	print $file $text;
	close $file;
	rename "$top/round.new", "$top/round" or die;
	return;
}

sub end_children
{
	return if $$ != $in_parent;
	foreach my $child (@children)
	{
		kill 'TERM', $child;
		waitpid $child, 0;
	}
	@children = ();
	return;
}

sub give_up
{
	my ($what, $detail) = @_;
	if ($$ != $in_parent)
	{
		exit 1;
	}
	print "VIOLATION: $what\n$detail\n";
	exit 1;
}

END
{
	my $rc = $?;
	if ($$ == $in_parent)
	{
		end_children();
		system("pg_ctl -D $data -m immediate -w -t 60 stop > /dev/null 2>&1") if -e "$data/postmaster.pid";
		if ($rc != 0 || $violations)
		{
			print "the end of the server's log:\n", (map { "$_\n" } grep { defined } (split /\n/, slurp($server_log))[ -30 .. -1 ]);
		}
		system('rm', '-rf', $top);
	}
	$? = $rc;
}
$SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { exit 130 };

$| = 1;
print "torture: $seconds seconds, $sessions sessions, TORTURE_SEED=$seed\n";
make_server();
my $control = connect_to_server();
my $capacity = $keys_a_round * $generation_rounds;
foreach my $sql (
	'CREATE EXTENSION streamdedup',
	q{CREATE TABLESPACE aside LOCATION ''},
	'CREATE TABLE parents (id bigint PRIMARY KEY)',
	q{CREATE TABLE clicks (id bigint, k bigint, part int, n int, v text CHECK (v <> 'bad'), u bigint,
		p bigint REFERENCES parents ON DELETE CASCADE) PARTITION BY LIST (part)},
	(map { "CREATE TABLE clicks$_ PARTITION OF clicks FOR VALUES IN ($_)" } 0 .. 2 + $sessions),
	'CREATE UNIQUE INDEX ON clicks (u, part)',
	'CREATE INDEX ON clicks (p)',
	'CREATE INDEX ON clicks (id)',
	'CREATE TABLE views (seq bigserial, k bigint, tx bigint)',
	(map { my $table = $_; (
		"CREATE TABLE $table (id bigint, k bigint, part int) PARTITION BY LIST (part)",
		(map { "CREATE TABLE $table$_ PARTITION OF $table FOR VALUES IN ($_)" } 0 .. 3),
		"CREATE INDEX ON $table (k)",
		# few keys, so that one line and entry serves many of them
		$table eq 'freed' && $seed & 2 ? "SELECT dedup_create('freed_keys', fpr => 1e-9)"
		: "SELECT dedup_create('${table}_keys', dedup_filter(2000, @{[ $table eq 'freed' ? 1e-9 : 0.5 ]}, $seed))") } 'single', 'strict', 'freed'),
	growing_setup(),
	'CREATE TABLE done (tx bigint PRIMARY KEY)',
	'CREATE TABLE history (seq bigserial, k bigint, taken boolean DEFAULT true)',
	'CREATE UNLOGGED TABLE taken (k bigint PRIMARY KEY, taken boolean)',
	"SELECT dedup_create('seen', " . ($seed & 1 ? "dedup_filter(fpr => $seen_rate, seed => $seed))" : "dedup_filter($capacity, $seen_rate, $seed))"),
	"SELECT dedup_create('recent', dedup_window($window, $window_rate, $seed))",
	q{SET client_min_messages = error},
	q{SELECT dedup_guard('clicks', 'seen', ARRAY['k'])},
	q{SELECT dedup_guard('views', 'recent', ARRAY['k'])},
	q{SELECT dedup_guard('single', 'single_keys', ARRAY['k'], exact => true)},
	q{SELECT dedup_guard('strict', 'strict_keys', ARRAY['k'], 'reject', exact => true)},
	q{SELECT dedup_guard('freed', 'freed_keys', ARRAY['k'], 'divert', on_delete => 'forget')},
	q{CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO public.history (k) VALUES (NEW.k); RETURN NULL; END $$},
	q{CREATE TRIGGER remember_new AFTER INSERT ON clicks FOR EACH ROW EXECUTE FUNCTION remember()},
	q{CREATE TRIGGER remember_changed AFTER UPDATE ON clicks FOR EACH ROW WHEN (OLD.k <> NEW.k) EXECUTE FUNCTION remember()},
	q{CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$},
	q{CREATE TRIGGER "~~leave_out" BEFORE INSERT ON clicks FOR EACH ROW WHEN (NEW.v = 'leave out') EXECUTE FUNCTION leave_out()})
{
	$control->ask($sql);
	give_up("setting up failed with $control->{error}", $sql) if $control->{error};
}
$control->close;

foreach my $n (1 .. $sessions, 0)
{
	my $child = fork;
	die "fork: $!\n" if !defined $child;
	if ($child == 0)
	{
		@children = ();
		$SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { POSIX::_exit(1) };
		if ($n) { session($n) }
		else { maintenance() }
	}
	push @children, $child;
}

my $round = 0;
my $generation_now = 1;
my $end = time + $seconds;
while (time < $end)
{
	$round++;
	my $kind = rand() < 1 / 3 ? 'forgetting' : 'all';
	$figures{"rounds of $kind steps"}++;
	tell_sessions("$round $generation_now $kind");
	my $length = 1 + rand 5;
	$length = $end - time if $length > $end - time;
	sleep $length if $length > 0;

	# The end of a round: nobody may come back before the comparison.
	my $way = rand();
	if ($way < 0.5)
	{
		tell_sessions('');
		run_quietly("pg_ctl -D $data -m immediate -w -t 60 stop")
		  or give_up('the server does not stop', slurp("$top/command.log"));
		$figures{'stopped immediately'}++;
		check_log();
		start_server();
	}
	else
	{
		my $victim = slurp("$top/pid." . (1 + int(rand $sessions)));
		tell_sessions('');
		if ($victim && kill_backend($victim))
		{
			$figures{'server processes killed'}++;
		}
		else
		{
			# it has gone already: the round ends by itself
			$figures{'ended in peace'}++;
		}
	}
	# The sessions see the end of their round, or of the server, and are gone.
	my $session;
	for (1 .. 1200)
	{
		$session = Psql->connect;
		last if $session && ($session->value(q{SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}) // 1) eq '0';
		$session->close if $session;
		undef $session;
		sleep 0.1;
	}
	give_up('the server or a session does not come to an end', slurp($server_log)) if !$session;

	if (rand() < 0.4)
	{
		my $stops = rand() < 0.6;
		$session->close;
		my $vacuums = vacuum_between($stops);
		if ($stops)
		{
			run_quietly("pg_ctl -D $data -m immediate -w -t 60 stop")
			  or give_up('the server does not stop', slurp("$top/command.log"));
			$figures{'growing: stopped in VACUUM'}++;
			check_log();
			start_server();
		}
		waitpid $vacuums, 0;
		$session = connect_to_server();
	}
	compare($session);
	if ($round % $generation_rounds == 0)
	{
		$generation_now++;
		next_generation($session);
	}
	$session->close;
	printf "round %d: %d rows at most, %d transactions, %d violations\n",
	  $round, $figures{'most rows'} || 0, $figures{committed} || 0, $violations
	  if $round % 25 == 0;
	last if $violations > 20;
}
check_log();
tell_sessions('end');
end_children();

my $final = connect_to_server();
printf "  %-32s %d\n", 'rounds', $round;
printf "  %-32s %d\n", $_, $figures{$_} foreach sort keys %figures;
foreach my $filter ('seen', 'recent', @growing_filters)
{
	print "  $filter: ", $final->value(qq{SELECT format('%s keys, %s bytes, %s overflow pages, %s in flight, rate now %s',
		count, bytes, overflow_pages, in_flight, fpr_now) FROM dedup_stats('$filter')}), "\n";
}
$final->close;
print $violations ? "torture: $violations violations\n" : "torture: no violation\n";
exit($violations ? 1 : 0);
