# The part of torture.pl that has the steps of transactions.

use strict;
use warnings;
use Time::HiRes qw(sleep time);

our ($sessions, $psql, $tx, $step, $me, $next_id, $next_u, $next_v, %rows, @effects, @savepoints, $shared_keys);
our (%growing_steps, @growing_step_names);

# Each of these is one step of a transaction. A step that failed leaves its SQLSTATE in
# $psql->{error}.
our %steps = (
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
our @step_names = (
	@growing_step_names,
	('single') x 6, ('several') x 6, ('partition') x 2, ('copy') x 3, ('on_conflict') x 3,
	('left_out') x 2, ('fails') x 2, ('exceptions') x 2, ('functions') x 3, ('move') x 4, ('rekey') x 2,
	'exchange', 'forget', ('delete') x 3, ('again') x 4, ('replace') x 2, 'aside', ('family') x 2, ('cascade') x 2,
	'truncate', 'tablespace', ('views') x 4, ('own_single') x 4, ('own_several') x 2, ('own_delete') x 2, ('own_change') x 2,
	'own_again', ('shared_single') x 6, ('shared_delete') x 3, ('shared_again') x 3, ('shared_move') x 2, ('savepoint') x 6, ('release') x 2, ('rollback_to') x 3);

# Only keys that are forgotten with their rows, and taken again, at all levels of savepoints.
our @forgetting_step_names = (('own_single') x 6, ('own_several') x 5, ('own_delete') x 4, ('own_change') x 3, ('own_again') x 2,
	('shared_single') x 2, 'shared_delete', 'shared_again', 'shared_move', ('savepoint') x 5, ('release') x 2, ('rollback_to') x 3);

1;
