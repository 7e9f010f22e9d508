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
use IPC::Open2;
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
my $data = "$top/data";
my $server_log = "$top/server.log";
mkdir $top or die "$top: $!\n";
delete $ENV{PGOPTIONS};
@ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PGAPPNAME)} = ($top, 5432, 'torture', 'postgres', 'torture');

# Keys of a generation, after which everything is emptied; the capacities and rates of
# the two filters; how much of a window may be missed.
my $generation_rounds = 25;
my $keys_a_round = 20_000;
my $seen_rate = 1e-7;
my $window = 2000;
my $window_rate = 1e-6;
my $window_missed = 0.001;

our $in_parent = $$;
our @children;
my $violations = 0;
our %figures;

require "$FindBin::Bin/torture/growing.pl";
our (@growing_tables, @growing_filters, %growing_steps, @growing_step_names, @growing_work);

# ---- the server -----------------------------------------------------------

sub run_quietly
{
	my ($command) = @_;
	return system("$command > $top/command.log 2>&1") == 0;
}

sub slurp
{
	my ($path) = @_;
	open my $file, '<', $path or return '';
	local $/;
	return scalar <$file>;
}

sub start_server
{
	# One round in four compares each page that recovery writes.
	my $consistency = rand() < 0.25 ? '-c wal_consistency_checking=all' : '';
	run_quietly("pg_ctl -D $data -l $server_log -w -t 120 -o '$consistency' start")
	  or give_up('the server does not start', slurp("$top/command.log"));
	return;
}

sub make_server
{
	run_quietly("initdb -D $data -A trust -N -U torture -E UTF8 --locale=C")
	  or die slurp("$top/command.log");
	open my $conf, '>>', "$data/postgresql.conf" or die;
	print $conf <<"CONF";
listen_addresses = ''
unix_socket_directories = '$top'
fsync = off
shared_buffers = 16MB
max_connections = 30
max_prepared_transactions = 20
checkpoint_timeout = 30s
max_wal_size = 64MB
min_wal_size = 32MB
autovacuum_naptime = 2s
deadlock_timeout = 20ms
allow_in_place_tablespaces = on
restart_after_crash = on
log_min_messages = log
log_line_prefix = '%m [%p] %e '
log_min_error_statement = panic
log_checkpoints = off
CONF
	close $conf;
	start_server();
	return;
}

# The server process of a session: one of ours, as the folder that it works in tells.
sub kill_backend
{
	my ($pid) = @_;
	my $where = readlink("/proc/$pid/cwd") || '';
	return 0 if $where ne $data;
	return kill('KILL', $pid);
}

# ---- psql -----------------------------------------------------------------

package Psql;

# A session, or nothing if the server does not take it.
sub connect
{
	my ($class) = @_;
	my $self = bless { asked => 0 }, $class;
	$self->{process} = IPC::Open2::open2($self->{out}, $self->{in},
		'exec psql -XAtq -v VERBOSITY=sqlstate -f - 2>&1');
	$self->{pid} = $self->value('SELECT pg_backend_pid()');
	return $self if defined $self->{pid} && $self->{pid} =~ /^\d+$/;
	$self->close;
	return;
}

# The lines of the answer to one statement; the SQLSTATE is in {error}, "gone" if the
# server is.
sub ask
{
	my ($self, $sql) = @_;
	my @lines;
	my $mark = '==' . ++$self->{asked};
	$self->{error} = '';
	local $SIG{PIPE} = 'IGNORE';
	my ($in, $out) = @$self{qw(in out)};
	# after the data of a COPY psql takes no lone semicolon
	print $in $sql, $sql =~ /^\\\.\n\z/m ? '' : "\n;\n", "\\echo $mark :ERROR :SQLSTATE\n";
	$in->flush;
	while (1)
	{
		my $line;
		my $alarmed = 0;
		{
			local $SIG{ALRM} = sub { $alarmed = 1; die "alarm\n" };
			alarm 120;
			eval { $line = <$out>; alarm 0; 1 } or alarm 0;
		}
		if ($alarmed || !defined $line)
		{
			$self->{hung} = $alarmed;
			$self->{error} = 'gone';
			return;
		}
		chomp $line;
		if ($line =~ /^$mark (true|false) ?(\w*)$/)
		{
			# psql does not always notice at once that its connection is gone
			$self->{error} = $1 eq 'false' ? '' : $2 =~ /^(|57P.*|08.*)$/ ? 'gone' : $2;
			return @lines;
		}
		push @lines, $line if $line !~ /^(psql:<stdin>|ERROR:|WARNING:|NOTICE:|LOCATION:)/;
	}
}

sub value
{
	my ($self, $sql) = @_;
	return ($self->ask($sql))[0];
}

sub close
{
	my ($self) = @_;
	local $SIG{PIPE} = 'IGNORE';
	close $self->{in};
	close $self->{out};
	waitpid $self->{process}, 0;
	return;
}

package main;

sub connect_to_server
{
	for (1 .. 600)
	{
		my $psql = Psql->connect;
		return $psql if $psql;
		sleep 0.1;
	}
	give_up('the server takes no connections', slurp($server_log));
}

# ---- a session ------------------------------------------------------------

# What the parent tells the sessions: the number of the round and of the generation, or
# that this is the end. No file: nobody may work.
sub read_round
{
	my ($round, $generation) = split ' ', slurp("$top/round");
	return ($round || '', $generation || 0);
}

my ($me, $log, $next_id, $next_tx, $next_u, $next_v, $generation);
my (%rows, @ids);				# committed rows of this session: id => [k, part, n, p]
my (%taken, @gone);				# keys that it has taken; and those of them without a row
my %own;						# and its own rows under exact guards: table => { k => id }
my $unknown;					# the transaction that was not answered, and its effects

# The transaction: what it has done, in order; a savepoint is a length of this list.
#   ['+', id, k, part, n, p]  ['u', id, k, part, n, p]  ['-', id]: rows of clicks
#   ['v', k]: row of views  ['k', k]: took a key  ['f', k]: forgot one
#   ['d', k]: deleted a row with this key, which may come in again
#   ['a', k]: it has come in again
#   ['=', table, k, id]: the row with this key of one's own in a table with an exact guard
my ($step, @effects, @savepoints);

sub note
{
	my ($line) = @_;
	print $log "$line\n";
	return;
}

# Whether this transaction has taken a key (1) or forgotten it (0); else undefined.
sub own_key
{
	my ($k) = @_;
	foreach my $effect (reverse @effects)
	{
		next if $effect->[0] !~ /[kf]/ || $effect->[1] != $k;
		return 1 if $effect->[0] eq 'k';
		return 0 if $effect->[0] eq 'f';
	}
	return;
}

# Whether the key is seen for certain: this session has taken it.
sub known_key
{
	my ($k) = @_;
	return own_key($k) // $taken{$k};
}

# How many rows with a key this transaction has deleted and not inserted again, by key.
sub deleted_keys
{
	my %deleted;
	foreach my $effect (@effects)
	{
		$deleted{ $effect->[1] }++ if $effect->[0] eq 'd';
		$deleted{ $effect->[1] }-- if $effect->[0] eq 'a';
	}
	delete @deleted{ grep { $deleted{$_} < 1 } keys %deleted };
	return %deleted;
}

sub may_come_again
{
	my ($k) = @_;
	my %deleted = deleted_keys();
	return $deleted{$k};
}

# A row with this key has landed.
sub take_key
{
	my ($k) = @_;
	if (may_come_again($k))
	{
		push @effects, [ 'a', $k ];
		note("G $tx $k");
	}
	elsif (known_key($k))
	{
		note("X $tx the key $k, which was taken, got in by $step");
	}
	push @effects, [ 'k', $k ];
	return;
}

# A row with this key was refused.
sub refuse_key
{
	my ($k) = @_;
	if (may_come_again($k)) { note("X $tx the key $k of a deleted row was refused by $step") }
	elsif (!own_key($k)) { note("R $tx $k $step") }
	return;
}

# Rows of this session are deleted.
sub lose_rows
{
	push @effects, [ 'd', row($_)->[0] ], [ '-', $_ ] foreach @_;
	return;
}

# The state of a row as this transaction sees it.
sub row
{
	my ($id) = @_;
	my $row = $rows{$id};
	foreach my $effect (@effects)
	{
		next if $effect->[0] !~ /[-+u]/ || $effect->[1] != $id;
		$row = $effect->[0] eq '-' ? undef : [ @$effect[ 2 .. 5 ] ];
	}
	return $row;
}

# A row of this session, if one is found at once.
sub random_row
{
	for (1 .. 5)
	{
		my $id = @ids ? $ids[ rand @ids ] : 0;
		return $id if row($id);
	}
	return;
}

sub random_rows
{
	my ($count) = @_;
	my %rows = map { $_ => 1 } grep { defined } map { scalar random_row() } 1 .. $count;
	return sort { $a <=> $b } keys %rows;
}

my ($low, $high);				# keys of this round

# Any of them; or one that other sessions use at this moment, which is new for all; or one
# whose row was deleted.
sub random_key
{
	my $which = rand();
	if ($which < 0.08)
	{
		my %deleted = deleted_keys();
		my @deleted = sort { $a <=> $b } keys %deleted;
		return $deleted[ rand @deleted ] if @deleted;
	}
	return $gone[ rand @gone ] if $which > 0.95 && @gone;
	return $low + int(rand($high - $low)) if rand() < 0.6;
	return $high - $keys_a_round + (int(time * 200) + int(rand 20)) % $keys_a_round;
}

sub new_row
{
	my ($k) = @_;
	return { id => ++$next_id, k => defined $k ? $k : random_key(), part => random_part(), v => 'plain' };
}

# Three partitions are for all, one is for this session only: its own rows are all that a
# TRUNCATE of that partition deletes.
sub own_part { return 2 + $me }
sub random_part { return rand() < 0.25 ? own_part() : int(rand 3) }

sub values_of
{
	return join(
		', ',
		map {
			"($_->{id}, $_->{k}, $_->{part}, 0, '$_->{v}', " . ($_->{u} || 'NULL::bigint') . ', ' . ($_->{p} || 'NULL::bigint') . ')'
		} @_);
}

# What has come of rows that were sent, in this order: those that landed are ours now,
# and those that did not and should have were refused.
sub account
{
	my ($landed, @sent) = @_;
	my %landed = map { $_ => 1 } @$landed;
	foreach my $row (@sent)
	{
		if ($landed{ $row->{id} })
		{
			take_key($row->{k});
			push @effects, [ '+', $row->{id}, $row->{k}, $row->{part}, 0, $row->{p} || '' ];
		}
		elsif (!$row->{may_not_land})
		{
			refuse_key($row->{k});
		}
	}
	return;
}

# Inserts rows and accounts for them.
sub insert_rows
{
	my @sent = @_;
	my @landed = $psql->ask("INSERT INTO clicks VALUES @{[ values_of(@sent) ]} RETURNING id");
	account(\@landed, @sent) if !$psql->{error};
	return;
}

# Gives a row a new key, in place or in another partition. A duplicate is an error; the
# unique index has no say.
sub change_key
{
	my ($id, $new, $to) = @_;
	my ($k, $part, $n, $p) = @{ row($id) };
	my @changed = $psql->ask("UPDATE clicks SET k = $new, part = $to, n = n + 1, u = NULL WHERE id = $id RETURNING id");
	if ($psql->{error} eq '23505')
	{
		refuse_key($new);
	}
	elsif (!$psql->{error})
	{
		note("X $tx row $id is gone") if @changed != 1;
		take_key($new);
		push @effects, [ 'd', $k ], [ 'u', $id, $new, $to, $n + 1, $p ];
	}
	return;
}

sub move_filter
{
	my ($filter) = @_;
	my $where = rand() < 0.5 ? 'aside' : 'pg_default';
	$psql->ask("ALTER TABLE $filter SET TABLESPACE $where");
	return;
}

# Rows that take the place of others: with the same keys, each perhaps twice, in any
# partition. Returns them, and the list (old id, new id, new part) for a statement.
sub successors
{
	my @rows = map { my $row = new_row(row($_)->[0]); $row->{old} = $_; $row } @_;
	push @rows, map { my $row = new_row($_->{k}); $row->{old} = $_->{old}; $row } @rows if rand() < 0.3;
	return (\@rows, join(', ', map { "($_->{old}, $_->{id}, $_->{part})" } @rows));
}

# ---- tables with an exact guard

# Keys that this session alone uses, and those that all do.
my $own_keys = 40;
my $shared_keys = 200;
my $first_own = 1_000_000;
sub own_exact_key { return $first_own * $me + int rand $own_keys }

# The row with a key of this session's own, as this transaction sees it; 0 if there is none.
sub own_exact_row
{
	my ($table, $k) = @_;
	foreach my $effect (reverse @effects)
	{
		return $effect->[3] if $effect->[0] eq '=' && $effect->[1] eq $table && $effect->[2] == $k;
	}
	return $own{$table}{$k} || 0;
}

# Each row that was sent to a table is there, or where it was diverted to.
sub expect_diverted
{
	my ($table, $landed, @ids) = @_;
	return if $table ne 'freed' || $psql->{error};
	my %diverted = map { $_ => 1 } $psql->ask('SELECT id FROM freed_refused WHERE id IN (' . join(', ', @ids) . ')');
	return if $psql->{error};
	foreach my $id (@ids)
	{
		note("X $tx the row $id is nowhere") if !$landed->{$id} && !$diverted{$id};
		note("X $tx the row $id is in the table and was diverted") if $landed->{$id} && $diverted{$id};
	}
	return;
}

# Rows of keys of this session's own, in order. Some of them twice.
sub insert_own
{
	my ($table, @rows) = @_;
	my $values = join(', ', map { "($_->{id}, $_->{k}, $_->{part})" } @rows);
	my @landed = $psql->ask(rand() < 0.7 ? "INSERT INTO $table VALUES $values RETURNING id"
		: "INSERT INTO $table SELECT * FROM (VALUES $values) v(id, k, part) ORDER BY id RETURNING id");
	my %landed = map { $_ => 1 } @landed;
	my (%new, $duplicate);
	foreach my $row (@rows)
	{
		if (own_exact_row($table, $row->{k}) || $new{ $row->{k} }) { $duplicate = $row->{k} }
		else { $new{ $row->{k} } = $row->{id} }
	}
	if ($table eq 'strict')
	{
		expect_error($table, $duplicate, 'insertion');
	}
	return if $psql->{error};
	foreach my $row (@rows)
	{
		my $is_new = ($new{ $row->{k} } || 0) == $row->{id};
		note("X $tx the new key $row->{k} was refused by $table") if $is_new && !$landed{ $row->{id} };
		note("X $tx the key $row->{k} got into $table twice") if !$is_new && $landed{ $row->{id} };
		push @effects, [ '=', $table, $row->{k}, $row->{id} ] if $landed{ $row->{id} };
	}
	expect_diverted($table, \%landed, map { $_->{id} } @rows);
	return;
}

# An error 23505 has to come if a key of one's own is a duplicate, and only then.
sub expect_error
{
	my ($table, $duplicate, $what) = @_;
	note("X $tx the key $duplicate got into $table twice by $what") if $duplicate && !$psql->{error};
	note("X $tx an error in $table without a duplicate by $what") if !$duplicate && $psql->{error} eq '23505';
	return;
}

# A row with a shared key is there, or was, or will have been: W.
sub insert_shared
{
	my ($table) = @_;
	my $k = int rand $shared_keys;
	my $id = ++$next_id;
	my $part = rand() < 0.8 ? int rand 3 : 3;
	my @landed = $psql->ask("INSERT INTO $table VALUES ($id, $k, $part) RETURNING id");
	if (@landed || $psql->{error} eq 'gone') { note("W $tx $table $k") }
	elsif (!$psql->{error} || $psql->{error} eq '23505') { note("N $tx $table $k") }
	expect_diverted($table, { map { $_ => 1 } @landed }, $id);
	return;
}

sub exact_table { return rand() < 0.5 ? 'single' : 'strict' }
sub some_table { return rand() < 0.7 ? exact_table() : 'freed' }

# Each of these is one step of a transaction. A step that failed leaves its SQLSTATE in
# $psql->{error}.
my %steps = (
	single => sub {
		insert_rows(new_row());
	},
	several => sub {
		my @sent = map { new_row() } 1 .. 2 + int(rand 30);
		# one key twice in one statement
		push @sent, new_row($sent[0]{k}) if rand() < 0.3;
		# mostly in key order, as the documentation advises
		@sent = sort { $a->{k} <=> $b->{k} } @sent if rand() < 0.8;
		my @landed = $psql->ask(
			"INSERT INTO clicks SELECT * FROM (VALUES @{[ values_of(@sent) ]}) v(id, k, part, n, v, u, p) RETURNING id");
		account(\@landed, @sent) if !$psql->{error};
	},
	partition => sub {
		my $part = rand() < 0.5 ? 1 : own_part();
		my @sent = sort { $a->{k} <=> $b->{k} } map { my $row = new_row(); $row->{part} = $part; $row } 1 .. 3;
		my @landed = $psql->ask("INSERT INTO clicks$part VALUES @{[ values_of(@sent) ]} RETURNING id");
		account(\@landed, @sent) if !$psql->{error};
	},
	copy => sub {
		my @sent = sort { $a->{k} <=> $b->{k} } map { new_row() } 1 .. 1 + int(rand 20);
		my $lines = join '', map { join("\t", @$_{qw(id k part)}, 0, $_->{v}, '\\N', '\\N') . "\n" } @sent;
		$psql->ask("COPY clicks FROM STDIN;\n$lines\\.\n");
		return if $psql->{error};
		my @landed = $psql->ask('SELECT id FROM clicks WHERE id IN (' . join(', ', map { $_->{id} } @sent) . ')');
		account(\@landed, @sent) if !$psql->{error};
	},
	# some are left out by ON CONFLICT, because u is taken: their keys must not stay
	on_conflict => sub {
		my @sent = map { new_row() } 1 .. 1 + int(rand 5);
		foreach my $row (@sent)
		{
			$row->{u} = rand() < 0.5 ? 1 + int(rand 50) : ++$next_u;
			$row->{may_not_land} = $row->{u} <= 50;
		}
		# the key of the first once more, in a row that lands if the first does not
		if (rand() < 0.3)
		{
			my $again = new_row($sent[0]{k});
			$again->{u} = ++$next_u;
			push @sent, $again;
		}
		my @landed = $psql->ask(
			"INSERT INTO clicks VALUES @{[ values_of(@sent) ]} ON CONFLICT DO NOTHING RETURNING id");
		return if $psql->{error};
		account(\@landed, @sent);
		# the key of a row that did not land goes even if the filter gets another file at once
		move_filter('seen') if rand() < 0.03;
	},
	# a later trigger leaves them out
	left_out => sub {
		my @sent = map { new_row() } 1 .. 2;
		$sent[0]{v} = 'leave out';
		$sent[0]{may_not_land} = 1;
		$sent[1]{k} = $sent[0]{k} if rand() < 0.5;
		insert_rows(@sent);
	},
	# fails in the midst: a CHECK constraint, or a division by zero in the query
	fails => sub {
		my @sent = map { new_row() } 1 .. 1 + int(rand 10);
		$sent[-1]{v} = 'bad' if rand() < 0.5;
		my $last = $sent[-1]{v} eq 'bad' ? 'n' : "n / (CASE WHEN id = $sent[-1]{id} THEN 0 ELSE 1 END)";
		my @landed = $psql->ask(
			"INSERT INTO clicks SELECT id, k, part, $last, v, u, p FROM (VALUES @{[ values_of(@sent) ]}) v(id, k, part, n, v, u, p) RETURNING id");
		# the bad row may have been a duplicate and was left out
		account(\@landed, @sent) if !$psql->{error};
	},
	# subtransactions that fail, many of them
	exceptions => sub {
		my @sent = sort { $a->{k} <=> $b->{k} } map { new_row() } 1 .. 12;
		foreach my $row (@sent)
		{
			next if rand() < 0.5;
			$row->{v} = rand() < 0.5 ? 'bad' : 'raise';
			$row->{may_not_land} = 1;
		}
		my $inserts = join "\n",
		  map {
			"BEGIN INSERT INTO clicks VALUES @{[ values_of($_) ]};"
			  . ($_->{v} eq 'raise' ? " RAISE EXCEPTION 'no';" : '')
			  . " EXCEPTION WHEN check_violation OR raise_exception THEN NULL; END;"
		  } @sent;
		$psql->ask("DO \$\$ BEGIN\n$inserts\nEND \$\$");
		return if $psql->{error};
		my @landed = $psql->ask('SELECT id FROM clicks WHERE id IN (' . join(', ', map { $_->{id} } @sent) . ')');
		account(\@landed, @sent) if !$psql->{error};
	},
	# by function: is_new and a batch
	functions => sub {
		my %keys = map { random_key() => 1 } 1 .. 1 + int(rand 30);
		my @keys = sort { $a <=> $b } keys %keys;
		my $call = @keys > 3 ? "dedup_new_keys('seen', ARRAY[@{[ join(', ', @keys) ]}]::bigint[]) k"
		  : "unnest(ARRAY[@{[ join(', ', @keys) ]}]::bigint[]) k WHERE is_new('seen', k)";
		my @new = $psql->ask("INSERT INTO history (k) SELECT k FROM $call RETURNING k");
		return if $psql->{error};
		my %new = map { $_ => 1 } @new;
		foreach my $k (@keys)
		{
			if ($new{$k})
			{
				note("X $tx the key $k, which was taken, is new by $step") if known_key($k);
				push @effects, [ 'k', $k ];
			}
			elsif (!own_key($k))
			{
				note("R $tx $k $step");
			}
		}
	},
	# to another partition, or to and fro
	move => sub {
		my @sent = random_rows(1 + int(rand 10));
		return if !@sent;
		my $by = 1 + int(rand 2);
		my $own = rand() < 0.25;
		my $part = $own ? own_part() : "(part + $by) % 3";
		my @moved = $psql->ask("UPDATE clicks SET part = $part, n = n + 1 WHERE id IN (@{[ join(', ', @sent) ]}) RETURNING id");
		return if $psql->{error};
		note("X $tx a moved row is gone: @{[ join(', ', @sent) ]} became @moved") if @moved != @sent;
		foreach my $id (@moved)
		{
			my ($k, $old, $n, $p) = @{ row($id) };
			push @effects, [ 'u', $id, $k, $own ? own_part() : ($old + $by) % 3, $n + 1, $p ];
		}
	},
	# with a new key, in place or to another partition
	rekey => sub {
		my $id = random_row();
		return if !defined $id;
		my $new = random_key();
		my ($k, $part) = @{ row($id) };
		change_key($id, $new, rand() < 0.5 ? $part : random_part()) if $new != $k;
	},
	# two rows exchange their keys by way of a third key
	exchange => sub {
		my ($a, $b) = random_rows(2);
		my $between = random_key();
		return if !defined $b;
		my ($k_a, $part_a) = @{ row($a) };
		my ($k_b, $part_b) = @{ row($b) };
		return if $between == $k_a || $between == $k_b;
		($part_a, $part_b) = ($part_b, $part_a) if rand() < 0.3;
		change_key($a, $between, $part_a);
		change_key($b, $k_a, $part_b) if !$psql->{error};
		change_key($a, $k_b, $part_a) if !$psql->{error};
	},
	# the row and its key
	forget => sub {
		my $id = random_row();
		return if !defined $id || !$rows{$id};
		my ($k) = @{ row($id) };
		return if own_key($k) || $rows{$id}[0] != $k;
		$psql->ask("DELETE FROM clicks WHERE id = $id");
		return if $psql->{error};
		my $there = $psql->value("SELECT dedup_forget('seen', $k)");
		return if $psql->{error} || !defined $there;
		note("X $tx the key $k of committed row $id is not there to forget") if $there ne 't';
		$psql->ask("INSERT INTO history (k, taken) VALUES ($k, false)");
		return if $psql->{error};
		lose_rows($id);
		push @effects, [ 'f', $k ];
	},
	delete => sub {
		my @sent = random_rows(1 + int(rand 8));
		return if !@sent;
		my @deleted = $psql->ask("DELETE FROM clicks WHERE id IN (@{[ join(', ', @sent) ]}) RETURNING id");
		return if $psql->{error};
		note("X $tx of the rows @{[ join(', ', @sent) ]} only these could be deleted: @deleted") if @deleted != @sent;
		lose_rows(@sent);
	},
	# the keys of deleted rows, in new rows, some of them twice
	again => sub {
		my %deleted = deleted_keys();
		my @keys = sort { $a <=> $b } keys %deleted;
		@keys = splice @keys, rand @keys, 20 if @keys > 20;
		return if !@keys;
		push @keys, $keys[0] if rand() < 0.3;
		insert_rows(map { new_row($_) } sort { $a <=> $b } @keys);
	},
	# deletes and inserts again in one statement
	replace => sub {
		my @old = random_rows(1 + int(rand 8));
		return if !@old;
		my ($sent, $list) = successors(@old);
		my @landed = $psql->ask(
			"WITH d AS (DELETE FROM clicks WHERE id IN (@{[ join(', ', @old) ]}) RETURNING id, k)
			INSERT INTO clicks SELECT v.new, d.k, v.part, 0, 'plain'
			FROM d JOIN (VALUES $list) v(old, new, part) ON v.old = d.id ORDER BY v.new RETURNING id");
		return if $psql->{error};
		lose_rows(@old);
		account(\@landed, @$sent);
	},
	# the same by way of a temporary table, and again after ROLLBACK TO
	aside => sub {
		my @old = random_rows(1 + int(rand 8));
		return if !@old;
		my ($sent, $list) = successors(@old);
		$psql->ask('CREATE TEMPORARY TABLE kept (id bigint, k bigint)');
		return if $psql->{error};
		$psql->ask(
			"WITH d AS (DELETE FROM clicks WHERE id IN (@{[ join(', ', @old) ]}) RETURNING id, k)
			INSERT INTO kept SELECT * FROM d");
		return if $psql->{error};
		lose_rows(@old);
		for my $last (rand() < 0.4 ? (0, 1) : 1)
		{
			my $before = @effects;
			$psql->ask('SAVEPOINT inner');
			my @landed = $psql->ask(
				"INSERT INTO clicks SELECT v.new, d.k, v.part, 0, 'plain'
				FROM kept d JOIN (VALUES $list) v(old, new, part) ON v.old = d.id ORDER BY v.new RETURNING id");
			return if $psql->{error};
			account(\@landed, @$sent);
			$psql->ask($last ? 'RELEASE inner' : 'ROLLBACK TO inner');
			$#effects = $before - 1 if !$last;
		}
		$psql->ask('DROP TABLE kept');
	},
	# rows with a parent, whose deletion deletes them
	family => sub {
		my @sent = map { new_row() } 1 .. 1 + int(rand 5);
		$_->{p} = $sent[0]{id} foreach @sent;
		$psql->ask("INSERT INTO parents VALUES ($sent[0]{id})");
		insert_rows(sort { $a->{k} <=> $b->{k} } @sent) if !$psql->{error};
	},
	cascade => sub {
		my ($parent) = grep { $_ } map { row($_)->[3] } random_rows(20);
		return if !$parent;
		my @children = grep { my $row = row($_); $row && $row->[3] && $row->[3] == $parent } $parent .. $parent + 4;
		$psql->ask("DELETE FROM parents WHERE id = $parent");
		lose_rows(@children) if !$psql->{error};
	},
	# all rows of the session's own partition, of which some come again by other steps
	truncate => sub {
		my %ids = map { $_ => 1 } keys %rows, map { $_->[1] } grep { $_->[0] eq '+' } @effects;
		my @there = grep { my $row = row($_); $row && $row->[1] == own_part() } sort { $a <=> $b } keys %ids;
		$psql->ask('TRUNCATE clicks' . own_part());
		lose_rows(@there) if !$psql->{error};
	},
	# a filter gets another file: not often, since everybody has to wait
	tablespace => sub {
		return if rand() < 0.8;
		move_filter(rand() < 0.7 ? 'seen' : 'recent');
	},
	# the second table: new keys, recent ones, old ones
	views => sub {
		my @keys;
		for (1 .. 1 + int(rand 25))
		{
			my $kind = rand();
			push @keys, $kind < 0.7 ? ++$next_v * 100 + $me
			  : ($next_v - int(rand($kind < 0.9 ? 200 : 3000))) * 100 + 1 + int(rand $sessions);
		}
		my %keys = map { $_ => 1 } @keys;
		my @sent = sort { $a <=> $b } keys %keys;
		my @landed = $psql->ask(
			"INSERT INTO views (k, tx) VALUES @{[ join(', ', map { qq{($_, $tx)} } @sent) ]} RETURNING k");
		return if $psql->{error};
		my %landed = map { $_ => 1 } @landed;
		foreach my $k (@sent)
		{
			if ($landed{$k})
			{
				push @effects, [ 'k', -$k ], [ 'v', $k ];
			}
			elsif (!own_key(-$k))
			{
				note("V $tx $k");
			}
		}
	},
	own_single => sub {
		insert_own(some_table(), { id => ++$next_id, k => own_exact_key(), part => int rand 3 });
	},
	own_several => sub {
		insert_own(some_table(), map { { id => ++$next_id, k => own_exact_key(), part => int rand 3 } } 0 .. rand 4);
	},
	own_delete => sub {
		my $table = some_table();
		my $k = own_exact_key();
		my $id = own_exact_row($table, $k);
		my @deleted = $psql->ask("DELETE FROM $table WHERE k = $k RETURNING id");
		return if $psql->{error};
		note("X $tx of $table the rows @deleted were deleted for $id, key $k") if "@deleted" ne ($id || '');
		push @effects, [ '=', $table, $k, 0 ];
	},
	# to another key, or partition, or both
	own_change => sub {
		my $table = some_table();
		my ($k, $new) = (own_exact_key(), own_exact_key());
		my $id = own_exact_row($table, $k) or return;
		my $taken = $k != $new && own_exact_row($table, $new) ? $new : undef;
		$psql->ask("UPDATE $table SET k = $new, part = " . (rand() < 0.5 ? 'part' : int rand 3) . " WHERE id = $id");
		expect_error($table, $taken, 'update');
		push @effects, [ '=', $table, $k, 0 ], [ '=', $table, $new, $id ] if !$psql->{error};
	},
	# deleted and inserted again while others wait for it
	own_again => sub {
		my $table = some_table();
		my $k = own_exact_key();
		my $id = own_exact_row($table, $k) or return;
		$psql->ask("DELETE FROM $table WHERE id = $id");
		return if $psql->{error};
		push @effects, [ '=', $table, $k, 0 ];
		insert_own($table, { id => ++$next_id, k => $k, part => int rand 3 });
	},
	shared_single => sub { insert_shared(some_table()) },
	shared_delete => sub {
		my $table = some_table();
		$psql->ask("DELETE FROM $table WHERE k = " . int rand $shared_keys);
	},
	shared_again => sub {
		my $table = some_table();
		my $k = int rand $shared_keys;
		my $part = int rand 3;
		my $id = ++$next_id;
		my @deleted = $psql->ask("DELETE FROM $table WHERE k = $k RETURNING id");
		return if $psql->{error} || !@deleted;
		my @landed = $psql->ask("INSERT INTO $table VALUES ($id, $k, $part) RETURNING id");
		note("W $tx $table $k");
		note("X $tx the key $k of a deleted row was refused by $table")
		  if $psql->{error} eq '23505' || (!$psql->{error} && !@landed);
	},
	shared_move => sub {
		my $table = some_table();
		my $k = int rand $shared_keys;
		my $part = int rand 3;
		$psql->ask("UPDATE $table SET part = $part WHERE k = $k");
		note("X $tx a row that moves is a duplicate in $table") if $psql->{error} eq '23505';
	},
	savepoint => sub {
		push @savepoints, scalar @effects;
		$psql->ask('SAVEPOINT s' . @savepoints);
	},
	release => sub {
		return if !@savepoints;
		$psql->ask('RELEASE s' . @savepoints);
		pop @savepoints;
	},
	rollback_to => sub {
		return if !@savepoints;
		$psql->ask('ROLLBACK TO s' . @savepoints);
		$#effects = $savepoints[-1] - 1;
	},
	%growing_steps,
);
my @step_names = (
	@growing_step_names,
	('single') x 6, ('several') x 6, ('partition') x 2, ('copy') x 3, ('on_conflict') x 3,
	('left_out') x 2, ('fails') x 2, ('exceptions') x 2, ('functions') x 3, ('move') x 4, ('rekey') x 2,
	'exchange', 'forget', ('delete') x 3, ('again') x 4, ('replace') x 2, 'aside', ('family') x 2, ('cascade') x 2,
	'truncate', 'tablespace', ('views') x 4, ('own_single') x 4, ('own_several') x 2, ('own_delete') x 2, ('own_change') x 2,
	'own_again', ('shared_single') x 6, ('shared_delete') x 3, ('shared_again') x 3, ('shared_move') x 2, ('savepoint') x 6, ('release') x 2, ('rollback_to') x 3);

sub apply_effects
{
	foreach my $effect (@_)
	{
		my ($what, $id, @row) = @$effect;
		if ($what eq '+')
		{
			push @ids, $id;
			$rows{$id} = [@row];
		}
		$rows{$id} = [@row] if $what eq 'u';
		delete $rows{$id} if $what eq '-';
		$taken{$id} = 1 if $what eq 'k';
		delete $taken{$id} if $what eq 'f';
		push @gone, $id if $what eq 'd';
		$own{$id}{ $row[0] } = $row[1] if $what eq '=';
	}
	# of late ones only
	splice @ids, 0, @ids - 2000 if @ids > 4000;
	splice @gone, 0, @gone - 500 if @gone > 1000;
	return;
}

# One transaction; false if the server is gone.
sub transaction
{
	$tx = ++$next_tx;
	@effects = @savepoints = ();
	my $level = rand();
	$isolation = $level < 0.8 ? 'READ COMMITTED' : $level < 0.95 ? 'REPEATABLE READ' : 'SERIALIZABLE';
	$psql->ask("BEGIN ISOLATION LEVEL $isolation");
	$psql->ask("INSERT INTO done VALUES ($tx)");
	return 0 if $psql->{error};
	for (0 .. int(rand 7))
	{
		$step = $step_names[ rand @step_names ];
		$steps{$step}->();
		return 0 if $psql->{error} eq 'gone';
		if ($psql->{error})
		{
			note("E $psql->{error}");
			note("X $tx SQLSTATE $psql->{error}") if $psql->{error} =~ /^(XX|42|22(?!012)|0A|58|54)/;
			if (!@savepoints)
			{
				$psql->ask('ROLLBACK');
				return 0 if $psql->{error};
				note("A $tx r");
				return 1;
			}
			$psql->ask('ROLLBACK TO s' . @savepoints);
			return 0 if $psql->{error};
			$#effects = $savepoints[-1] - 1;
		}
	}

	# what it will have done, if it commits
	note("T $tx " . join(';', map { join(',', @$_) } grep { $_->[0] =~ /[-+uv=]/ } @effects));
	$unknown = [ $tx, @effects ];
	my $end = rand();
	my $committed;
	if ($end < 0.65)
	{
		$psql->ask('COMMIT');
		return 0 if $psql->{error} eq 'gone';
		$committed = !$psql->{error};
		note("E $psql->{error}") if $psql->{error};
	}
	elsif ($end < 0.85)
	{
		$psql->ask('ROLLBACK');
		return 0 if $psql->{error};
		$committed = 0;
	}
	elsif ($end < 0.95)
	{
		$psql->ask("PREPARE TRANSACTION '$tx'");
		return 0 if $psql->{error} eq 'gone';
		if ($psql->{error})
		{
			$committed = 0;
		}
		else
		{
			sleep rand 0.02;
			my $how = rand() < 0.6 ? 'COMMIT' : 'ROLLBACK';
			$psql->ask("$how PREPARED '$tx'");
			return 0 if $psql->{error} eq 'gone';
			$committed = $how eq 'COMMIT';
			note("X $tx $how PREPARED failed with $psql->{error}") if $psql->{error};
		}
	}
	else
	{
		# goes without a word
		$psql->close;
		$psql = Psql->connect or return 0;
		note_pid();
		$committed = 0;
	}
	undef $unknown;
	note("A $tx " . ($committed ? 'c' : 'r'));
	apply_effects(@effects) if $committed;
	return 1;
}

sub note_pid
{
	open my $file, '>', "$top/pid.$me" or die;
	print $file $psql->{pid};
	return;
}

sub session
{
	($me) = @_;
	srand($seed + $me);
	open $log, '>>', "$top/session.$me" or die;
	$log->autoflush(1);
	$next_tx = $me * 1_000_000_000;
	$next_id = $me * 1_000_000_000;
	$next_u = 1000 + $me * 10_000_000;
	$next_v = 10_000;
	$generation = 0;
	my $done_round = '';
	while (1)
	{
		my ($round, $of) = read_round();
		exit 0 if $round eq 'end';
		exit 1 if getppid() != $in_parent;
		if ($round eq '' || $round eq $done_round)
		{
			sleep 0.02;
			next;
		}
		$psql = Psql->connect;
		if (!$psql)
		{
			sleep 0.05;
			next;
		}
		note_pid();
		if ($of != $generation)
		{
			$generation = $of;
			%rows = %taken = %own = ();
			@ids = @gone = ();
			undef $unknown;
		}
		if ($unknown)
		{
			my ($number, @done) = @$unknown;
			my $ended = $psql->value("SELECT count(*) FROM done WHERE tx = $number");
			if (!defined $ended) { $psql->close; next; }
			apply_effects(@done) if $ended;
			undef $unknown;
		}
		# most keys are those of this round, some of the rounds before
		my $in_generation = ($round - 1) % $generation_rounds;
		$low = 1 + $keys_a_round * ($in_generation > 1 ? $in_generation - 1 : 0);
		$high = 1 + $keys_a_round * ($in_generation + 1);
		$low = 1 if rand() < 0.1;
		while (transaction())
		{
			last if (read_round())[0] ne $round;
		}
		if ($psql)
		{
			note("X $tx no answer for 120 seconds") if $psql->{hung};
			$psql->close;
		}
		$done_round = $round;
	}
}

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
	while (1)
	{
		my ($round) = read_round();
		exit 0 if $round eq 'end';
		exit 1 if getppid() != $in_parent;
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
			my $work = $work[ rand @work ];
			# what a copy writes is of no interest here
			$session->ask($work =~ /^COPY (\w+) TO STDOUT$/ ? "\\copy $1 TO /dev/null" : $work);
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
# An odd seed makes the set of "clicks" grow, too, and one with its second bit that of "freed".
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
	tell_sessions("$round $generation_now");
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
