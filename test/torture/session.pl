# The part of torture.pl that is a session: what it knows of its rows and keys, and its transactions.

use strict;
use warnings;
use IO::Handle;
use Time::HiRes qw(sleep time);

our ($top, $seed, $sessions, $in_parent, $generation_rounds, $keys_a_round, $psql, $tx, $isolation);
our (%steps, @step_names, @forgetting_step_names);

# What the parent tells the sessions: the number of the round and of the generation, and what
# steps the round has, or that this is the end. No file: nobody may work.
sub read_round
{
	my ($round, $generation, $kind) = split ' ', slurp("$top/round");
	return ($round || '', $generation || 0, $kind || '');
}

our ($me, $log, $next_id, $next_tx, $next_u, $next_v, $generation);
our (%rows, @ids);				# committed rows of this session: id => [k, part, n, p]
our (%taken, @gone);				# keys that it has taken; and those of them without a row
our %own;						# and its own rows under exact guards: table => { k => id }
our $kind;						# of this round
my $unknown;					# the transaction that was not answered, and its effects

# The transaction: what it has done, in order; a savepoint is a length of this list.
#   ['+', id, k, part, n, p]  ['u', id, k, part, n, p]  ['-', id]: rows of clicks
#   ['v', k]: row of views  ['k', k]: took a key  ['f', k]: forgot one
#   ['d', k]: deleted a row with this key, which may come in again
#   ['a', k]: it has come in again
#   ['=', table, k, id]: the row with this key of one's own in a table with an exact guard
our ($step, @effects, @savepoints);

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

our ($low, $high);				# keys of this round

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
our $own_keys = 40;
our $shared_keys = 200;
our $first_own = 1_000_000;
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
sub some_table { return rand() < ($kind eq 'forgetting' ? 0.2 : 0.7) ? exact_table() : 'freed' }

# Between transactions the filter of "freed" has seen exactly those keys of one's own that have rows.
sub expect_freed
{
	my @differ = $psql->ask("SELECT k, dedup_seen('freed_keys', k) FROM generate_series($first_own * $me, $first_own * $me + $own_keys - 1) k
		WHERE dedup_seen('freed_keys', k) <> EXISTS (SELECT FROM freed WHERE freed.k = k.k)");
	return if $psql->{error};
	note("X $tx the row and the filter differ: $_") foreach @differ;
	return;
}

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
		my $names = $kind eq 'forgetting' ? \@forgetting_step_names : \@step_names;
		$step = $names->[ rand @$names ];
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
	expect_freed() if $kind eq 'forgetting';
	return $psql->{error} ne 'gone';
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
		(my ($round, $of), $kind) = read_round();
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

1;
