# Deleted rows may be inserted again: random operations of one session on two guarded
# tables of one filter, compared with a model.
#
# The rule: the key of a row that this transaction has deleted is no duplicate for the
# next row with that key, once for each deleted row.
#
# A state of the model is a hash:
#   rows     id => [table, k, part, u, p, marked]; k, u and p may be undefined
#   seen     the keys that the filter has seen
#   added    the keys that this transaction has added to it
#   rights   key => how many deleted rows with this key may be inserted again
#   kept     [k, part] of the rows in the temporary table "kept"
#   skipped, marked   what dedup_stats() must count
#
# A transaction is written as one script of psql with the lines that it must print, and
# then run (DeletedRows.pm). After each transaction the rows of both tables, the seen keys
# and the counters are compared. many_deleted_rows.pl deletes more rows than work_mem holds.
#
# The random numbers begin with DELETED_ROWS_SEED or a fixed seed.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use DeletedRows;
use LiveFilter;
use Test::More;

srand($ENV{DELETED_ROWS_SEED} || 20261128);
my $transactions = $ENV{DELETED_ROWS_TRANSACTIONS} || 150;    # for each pair of modes
my $highest_key = 250;
my $most_rows = 120;

my $node = start_node('main', settings => [ 'work_mem = 64kB', 'max_prepared_transactions = 5' ]);
my $has_merge = $node->safe_psql('postgres', 'SHOW server_version_num') >= 150000;
my $psql = live_session($node);

# ---- the model --------------------------------------------------------------

my ($state, $committed, @savepoints);    # a savepoint is a copy of the state
my (%mode, $next_id, $operations);

sub copy
{
	my ($s) = @_;
	return { %$s, map { $_ => { %{ $s->{$_} } } } qw(rows seen added rights) };
}

# One row that is sent: [id, k, part, u, p, v]. Returns whether the row lands, or with
# ON CONFLICT DO UPDATE whether a row is inserted or updated. $on_conflict is empty,
# "nothing", or the column that DO UPDATE sets.
sub insert_row
{
	my ($s, $table, $row, $on_conflict) = @_;
	my ($id, $k, $part, $u, $p, $v) = @$row;
	my $duplicate = defined $k && !$s->{rights}{$k} && $s->{seen}{$k};
	if ($duplicate && $mode{$table} ne 'mark')
	{
		die "23505\n" if $mode{$table} eq 'reject';
		$s->{skipped}++;
		return 0;
	}
	return 0 if $v eq 'leave out';
	if ($on_conflict)
	{
		my $rows = $s->{rows};
		my ($other) = grep { my $row = $rows->{$_}; $row->[0] eq $table && $row->[2] == $part && $row->[3] == $u } keys %$rows;
		return 0 if defined $other && $on_conflict eq 'nothing';
		return change_row($s, $other, $on_conflict eq 'k' ? $k : $rows->{$other}[1], $part) if defined $other;
	}
	if ($duplicate) { $s->{marked}++ }
	elsif (defined $k) { take_key($s, $k) }
	$s->{rows}{$id} = [ $table, $k, $part, $u, $p, $duplicate ? 1 : 0 ];
	return 1;
}

sub insert_rows
{
	my ($s, $table, $rows, $on_conflict) = @_;
	my $landed = 0;
	$landed += insert_row($s, $table, $_, $on_conflict) foreach @$rows;
	return $landed;
}

sub delete_rows
{
	my ($s, @ids) = @_;
	foreach my $id (@ids)
	{
		my $row = delete $s->{rows}{$id};
		leave_key($s, $row->[1], $row->[5]);
	}
	return scalar @ids;
}

sub change_row
{
	my ($s, $id, $k, $part) = @_;
	my ($table, $old, undef, $u, $p, $marked) = @{ $s->{rows}{$id} };
	if (($old // 0) != ($k // 0))
	{
		if (defined $k)
		{
			die "23505\n" if $s->{seen}{$k} && !$s->{rights}{$k};
			take_key($s, $k);
		}
		leave_key($s, $old, $marked);
	}
	$s->{rows}{$id} = [ $table, $k, $part, $u, $p, $marked ];
	return 1;
}

sub truncate_rows
{
	my ($s, $table, $part) = @_;
	delete_rows($s, grep { my $row = $s->{rows}{$_}; $row->[0] eq $table && (!defined $part || $row->[2] == $part) } keys %{ $s->{rows} });
	return 0;
}

# ---- random choices -----------------------------------------------------------

sub sql_of { return defined $_[0] ? $_[0] : 'NULL' }

# Any key; rather one whose row was deleted.
sub random_key
{
	my ($s) = @_;
	my @again = sort { $a <=> $b } grep { $s->{rights}{$_} } keys %{ $s->{rights} };
	return among(@again) if @again && rand() < 0.4;
	return 1 + int(rand $highest_key);
}

sub random_table { return rand() < 0.65 ? 'a' : 'b' }
sub random_part { my ($table) = @_; return $table eq 'a' ? int(rand 3) : 0 }

sub new_row
{
	my ($s, $table, $k) = @_;
	my $id = ++$next_id;
	$k = rand() < 0.03 ? undef : random_key($s) if @_ < 3;
	my $p = $table eq 'a' && rand() < 0.2 ? 1 + int(rand 10) : undef;
	return [ $id, $k, random_part($table), $id, $p, 'plain' ];
}

sub random_ids
{
	my ($s, $table, $count) = @_;
	my @ids = sort { $a <=> $b } grep { $s->{rows}{$_}[0] eq $table } keys %{ $s->{rows} };
	my %chosen = map { $_ => 1 } map { @ids ? among(@ids) : () } 1 .. $count;
	return sort { $a <=> $b } keys %chosen;
}

sub values_of
{
	return join(', ', map { '(' . join(', ', (map { sql_of($_) } @$_[ 0 .. 4 ]), "'$_->[5]'") . ')' } @_);
}

# ---- operations -----------------------------------------------------------------
#
# An operation changes the state that it is given and returns its statement and what this
# must answer: [sql, row count], [sql, undef, SQLSTATE], or [sql, row count, '', line]
# where the statement prints a line. It returns nothing if there is nothing to do.

sub statement
{
	my ($s, $sql, $code) = @_;
	my $after = copy($s);
	my $count = eval { $code->($after) };
	if (!defined $count)
	{
		die $@ if $@ ne "23505\n";
		return [ $sql, undef, '23505' ];
	}
	%$s = %$after;
	return [ $sql, $count, '' ];
}

sub in_list { return join(', ', @_) }

my %operations = (
	insert => sub {
		my ($s) = @_;
		my $table = random_table();
		my @rows = map { new_row($s, $table) } 1 .. (rand() < 0.5 ? 1 : 2 + int(rand 10));
		push @rows, new_row($s, $table, $rows[0][1]) if rand() < 0.3;
		among(@rows)->[5] = 'leave out' if rand() < 0.15;
		return statement($s, insert_sql($table) . ' VALUES ' . values_of(@rows), sub { insert_rows($_[0], $table, \@rows) });
	},
	on_conflict => sub {
		my ($s) = @_;
		my $table = random_table();
		my @rows = map { new_row($s, $table) } 1 .. 1 + int(rand 5);
		foreach my $row (@rows)
		{
			my ($other) = random_ids($s, $table, 1);
			@$row[ 2, 3 ] = @{ $s->{rows}{$other} }[ 2, 3 ] if $other && rand() < 0.6;
		}
		push @rows, new_row($s, $table, $rows[0][1]) if rand() < 0.5;
		return statement(
			$s,
			insert_sql($table) . ' VALUES ' . values_of(@rows) . ' ON CONFLICT DO NOTHING',
			sub { insert_rows($_[0], $table, \@rows, 'nothing') });
	},
	upsert => sub {
		my ($s) = @_;
		my $table = random_table();
		my @others = random_ids($s, $table, 3);
		my @rows = map { new_row($s, $table) } 1 .. 1 + int(rand 3) + @others;
		# no row may be updated twice by one statement, so every u is another one
		foreach my $i (0 .. $#others)
		{
			@{ $rows[$i] }[ 2, 3 ] = @{ $s->{rows}{ $others[$i] } }[ 2, 3 ];
			# a marked row keeps a key: without one, a move to another partition takes the mark away
			$rows[$i][1] //= random_key($s);
		}
		my $column = among('k', 'v');
		return statement(
			$s,
			insert_sql($table) . ' VALUES ' . values_of(@rows) . " ON CONFLICT (u, part) DO UPDATE SET $column = excluded.$column",
			sub { insert_rows($_[0], $table, \@rows, $column) });
	},
	merge => sub {
		my ($s) = @_;
		return if !$has_merge;
		my $table = random_table();
		my %rows = map { $_->[1] // 0 => $_ } map { new_row($s, $table) } 1 .. 1 + int(rand 5);
		my @rows = map { $rows{$_} } sort { $a <=> $b } keys %rows;
		return statement(
			$s,
			"MERGE INTO $table USING (VALUES " . values_of(@rows) . ') n(id, k, part, u, p, v) '
			  . "ON $table.id = n.id WHEN NOT MATCHED THEN INSERT (id, k, part, u, p, v) VALUES (n.id, n.k::int, n.part, n.u, n.p::int, n.v)",
			sub { insert_rows($_[0], $table, \@rows) });
	},
	delete => sub {
		my ($s) = @_;
		my $table = random_table();
		my @ids = random_ids($s, $table, 1 + int(rand(rand() < 0.2 ? 60 : 8))) or return;
		my $sql = "DELETE FROM $table WHERE id IN (" . in_list(@ids) . ')';
		$sql = "MERGE INTO $table USING (VALUES " . in_list(map { "($_)" } @ids) . ") v(x) ON id = x WHEN MATCHED THEN DELETE"
		  if $has_merge && rand() < 0.3;
		return statement($s, $sql, sub { delete_rows($_[0], @ids) });
	},
	cascade => sub {
		my ($s) = @_;
		my $p = 1 + int(rand 10);
		my @ids = grep { ($s->{rows}{$_}[4] // 0) == $p } keys %{ $s->{rows} };
		return statement($s, "DELETE FROM parents WHERE id = $p", sub { delete_rows($_[0], @ids); 1 });
	},
	rekey => sub {
		my ($s) = @_;
		my $table = random_table();
		my ($id) = random_ids($s, $table, 1) or return;
		# a marked row keeps a key: without one, a move to another partition takes the mark away
		my $k = rand() < 0.05 && !$s->{rows}{$id}[5] ? undef : random_key($s);
		my $part = rand() < 0.5 ? $s->{rows}{$id}[2] : random_part($table);
		my $set = 'UPDATE SET k = ' . sql_of($k) . ", part = $part";
		my $sql = $has_merge && rand() < 0.3 ? "MERGE INTO $table USING (VALUES ($id)) v(x) ON id = x WHEN MATCHED THEN $set"
		  : $set =~ s/UPDATE/UPDATE $table/r . " WHERE id = $id";
		return statement($s, $sql, sub { change_row($_[0], $id, $k, $part) });
	},
	move => sub {
		my ($s) = @_;
		my @ids = random_ids($s, 'a', 1 + int(rand 10)) or return;
		my $part = random_part('a');
		my $sql = "UPDATE a SET part = $part WHERE id IN (" . in_list(@ids) . ')';
		$sql = 'MERGE INTO a USING (VALUES ' . in_list(map { "($_)" } @ids) . ") v(x) ON id = x WHEN MATCHED THEN UPDATE SET part = $part"
		  if $has_merge && rand() < 0.3;
		return statement(
			$s, $sql,
			sub {
				my ($after) = @_;
				change_row($after, $_, $after->{rows}{$_}[1], $part) foreach @ids;
				return scalar @ids;
			});
	},
	truncate => sub {
		my ($s) = @_;
		my ($name, $table, $part) = @{ among([ 'a', 'a' ], [ 'b', 'b' ], map { [ "a$_", 'a', $_ ] } (0 .. 2) x 2) };
		return statement($s, "TRUNCATE $name", sub { truncate_rows($_[0], $table, $part) });
	},
	# deletes and inserts again in one statement, into the same table or the other one
	replace => sub {
		my ($s) = @_;
		my ($from, $to) = (random_table(), random_table());
		my @ids = random_ids($s, $from, 1 + int(rand 8)) or return;
		# the rows that are not marked come first: a key has one meaning then
		@ids = sort { $s->{rows}{$a}[5] <=> $s->{rows}{$b}[5] || $a <=> $b } @ids;
		my (@rows, @new);
		for (1 .. (rand() < 0.3 ? 2 : 1))
		{
			foreach my $id (@ids)
			{
				my $row = new_row($s, $to, $s->{rows}{$id}[1]);
				$row->[4] = undef;
				push @rows, $row;
				push @new, "($id, $row->[0], $row->[2])";
			}
		}
		# nobody reads the clause; it is run first all the same
		return statement(
			$s,
			"WITH d AS (DELETE FROM $from WHERE id IN (" . in_list(@ids) . ')) ' . insert_sql($to) . ' VALUES ' . values_of(@rows),
			sub { delete_rows($_[0], @ids); insert_rows($_[0], $to, \@rows) })
		  if rand() < 0.3;
		my %keys = map { $_->[1] // '' => 1 } @rows;
		my $order = keys %keys == @rows && rand() < 0.7 ? '' : ' ORDER BY new';
		return statement(
			$s,
			"WITH d AS (DELETE FROM $from WHERE id IN (" . in_list(@ids) . ') RETURNING id, k) '
			  . insert_sql($to)
			  . ' SELECT new, k, v.part, new, NULL, \'plain\' FROM d JOIN (VALUES '
			  . in_list(@new)
			  . ") v(old, new, part) ON old = d.id$order",
			sub { delete_rows($_[0], @ids); insert_rows($_[0], $to, \@rows) });
	},
	# the same as the text of a trigger
	by_trigger => sub {
		my ($s) = @_;
		my $table = random_table();
		my ($id) = random_ids($s, $table, 1) or return;
		my $row = new_row($s, $table, $s->{rows}{$id}[1]);
		$row->[4] = undef;
		return statement(
			$s,
			"INSERT INTO orders VALUES ('$table', $id, $row->[0], $row->[2])",
			sub { delete_rows($_[0], $id); insert_rows($_[0], $table, [$row]); 1 });
	},
	# rows of any transaction wait in a temporary table
	keep => sub {
		my ($s) = @_;
		my $table = random_table();
		my @ids = random_ids($s, $table, 1 + int(rand 5)) or return;
		return statement(
			$s,
			"WITH d AS (DELETE FROM $table WHERE id IN (" . in_list(@ids) . ') RETURNING id, k, part) INSERT INTO kept SELECT * FROM d',
			sub {
				my ($after) = @_;
				my @kept = map { my $row = $after->{rows}{$_}; [ $_, @$row[ 1, 2 ] ] } @ids;
				$after->{kept} = [ @{ $after->{kept} }, @kept ];
				return delete_rows($after, @ids);
			});
	},
	restore => sub {
		my ($s) = @_;
		my $table = random_table();
		my @kept = sort { $a->[0] <=> $b->[0] } @{ $s->{kept} } or return;
		my $base = $next_id + 1;
		my @rows = map { [ ++$next_id, $_->[1], $table eq 'a' ? $_->[2] : 0, $next_id, undef, 'plain' ] } @kept;
		my $part = $table eq 'a' ? 'part' : '0';
		return statement(
			$s,
			insert_sql($table)
			  . " SELECT $base + row_number() OVER w - 1, k, $part, $base + row_number() OVER w - 1, NULL, 'plain' FROM kept WINDOW w AS (ORDER BY id) ORDER BY id",
			sub { insert_rows($_[0], $table, \@rows) });
	},
	empty_kept => sub {
		my ($s) = @_;
		my $count = @{ $s->{kept} };
		return statement($s, 'DELETE FROM kept', sub { $_[0]{kept} = []; $count });
	},
	# neither uses a deleted row nor gives one
	is_new => sub {
		my ($s) = @_;
		my $k = random_key($s);
		my $answer = see_key($s, $k) ? 'true' : 'false';
		return [ "SELECT '# is_new', is_new('f', $k)::text", 1, '', "# is_new|$answer" ];
	},
	new_keys => sub {
		my ($s) = @_;
		my %keys = map { random_key($s) => 1 } 1 .. 5;
		my $new = grep { see_key($s, $_) } keys %keys;
		return [ "SELECT '# new', count(*) FROM dedup_new_keys('f', ARRAY[" . in_list(sort keys %keys) . '])', 1, '', "# new|$new" ];
	},
	# a key that the same transaction has added can be forgotten on its own level only
	forget => sub {
		my ($s) = @_;
		my $k = random_key($s);
		return if $s->{added}{$k};
		my $answer = delete $s->{seen}{$k} ? 'true' : 'false';
		return [ "SELECT '# forgot', dedup_forget('f', $k)::text", 1, '', "# forgot|$answer" ];
	},
	tablespace => sub {
		return [ 'ALTER TABLE f SET TABLESPACE ' . among('aside', 'pg_default'), 0, '' ];
	},
	reindex => sub {
		return [ 'REINDEX TABLE ' . among('a0', 'a1', 'b'), 0, '' ];
	});
my @names = (
	('insert') x 8, ('on_conflict') x 3, ('upsert') x 2, 'merge', ('delete') x 6, ('cascade') x 2, ('rekey') x 5, ('move') x 3,
	('truncate') x 2, ('replace') x 5, ('by_trigger') x 2, ('keep') x 2, ('restore') x 2, 'empty_kept',
	'is_new', 'new_keys', 'forget');

sub operation
{
	my ($s) = @_;
	while (1)
	{
		my $name = keys %{ $s->{rows} } > 2 * $most_rows ? 'delete' : among(@names);
		# these cost more than the others
		$name = among('tablespace', 'tablespace', 'reindex') if rand() < 0.02;
		my $done = $operations{$name}->($s);
		$operations++ if $done;
		return $done if $done;
	}
}

# Some operations in one block of PL/pgSQL, which perhaps fails or is undone.
sub block
{
	my ($s, %how) = @_;
	my $before = copy($s);
	my ($sql, $error) = ('', '');
	for (1 .. 1 + int(rand 4))
	{
		my $done = operation($s);
		$sql .= $done->[0] =~ s/^SELECT/PERFORM/r . ";\n";
		$error = $done->[2] and last;
	}
	my $undone = !$error && rand() < 0.25;
	if ($undone || $error) { %$s = %$before }
	$sql .= "RAISE EXCEPTION 'undo';\n" if $undone;
	return [ "DO \$\$ BEGIN\n${sql}END \$\$", 0, $error ] if !$undone && rand() < 0.5;
	return [ "DO \$\$ BEGIN\n${sql}EXCEPTION WHEN unique_violation OR raise_exception THEN NULL; END \$\$", 0, '' ];
}

# ---- transactions -----------------------------------------------------------------

sub end_transaction
{
	my ($s) = @_;
	my $ended = copy($s);
	$ended->{$_} = {} foreach qw(added rights);
	return $ended;
}

sub transaction
{
	@savepoints = ();
	$state = copy($committed);
	expect('BEGIN', 0);
	for (1 .. 1 + int(rand 12))
	{
		my $what = rand();
		if ($what < 0.12)
		{
			push @savepoints, copy($state);
			expect('SAVEPOINT s' . @savepoints, 0);
		}
		elsif ($what < 0.20 && @savepoints)
		{
			expect('ROLLBACK TO s' . @savepoints, 0);
			$state = copy($savepoints[-1]);
		}
		elsif ($what < 0.24 && @savepoints)
		{
			expect('RELEASE s' . @savepoints, 0);
			pop @savepoints;
		}
		else
		{
			my $done = $what < 0.4 ? block($state) : operation($state);
			# most errors are caught, so that the transaction goes on
			$done = [ "DO \$\$ BEGIN\n$done->[0];\nEXCEPTION WHEN unique_violation THEN NULL; END \$\$", 0, '' ]
			  if $done->[2] && $done->[0] !~ /^DO/ && !@savepoints && rand() < 0.8;
			expect(@$done);
			# the key of a row that did not land goes even if the filter gets another file at once
			expect(@{ $operations{tablespace}->() }) if !$done->[2] && $done->[0] =~ /CONFLICT/ && rand() < 0.15;
			if ($done->[2])
			{
				if (!@savepoints)
				{
					expect('ROLLBACK', 0);
					return;
				}
				expect('ROLLBACK TO s' . @savepoints, 0);
				$state = copy($savepoints[-1]);
			}
		}
	}
	if (rand() < 0.75)
	{
		expect('COMMIT', 0);
		$committed = end_transaction($state);
	}
	else
	{
		expect('ROLLBACK', 0);
	}
	return;
}

# Several transactions in one block: the deleted rows of one give the next nothing.
sub procedure
{
	my $sql = '';
	my $error = '';
	$state = copy($committed);
	for (1 .. 2 + int(rand 6))
	{
		if (rand() < 0.4)
		{
			my $commits = rand() < 0.7;
			$sql .= $commits ? "COMMIT;\n" : "ROLLBACK;\n";
			$committed = end_transaction($state) if $commits;
			$state = copy($committed);
		}
		my $done = operation($state);
		$sql .= $done->[0] =~ s/^SELECT/PERFORM/r . ";\n";
		$error = $done->[2] and last;
	}
	expect("DO \$\$ BEGIN\n${sql}END \$\$", 0, $error);
	$committed = end_transaction($state) if !$error;
	return;
}

# The rows, the seen keys and the counters, as lines.
my $compare = qq{
	SELECT '# rows', string_agg(concat_ws(':', t, id, coalesce(k::text, '-'), part, is_duplicate::int), ' ' ORDER BY id)
	FROM (SELECT 'a' t, id, k, part, is_duplicate FROM a UNION ALL SELECT 'b', id, k, part, is_duplicate FROM b) x;
	SELECT '# seen', string_agg(k::text, ' ' ORDER BY k) FROM generate_series(1, $highest_key) k WHERE dedup_seen('f', k);
	SELECT '# counted', skipped, marked FROM dedup_stats('f');};

sub compare
{
	my $s = $committed;
	send_line($compare);
	must_print('# rows|'
	  . join(' ', map { my ($t, $k, $part, undef, undef, $marked) = @{ $s->{rows}{$_} }; join(':', $t, $_, $k // '-', $part, $marked) }
		  sort { $a <=> $b } keys %{ $s->{rows} }));
	must_print('# seen|' . join(' ', sort { $a <=> $b } grep { $s->{seen}{$_} } keys %{ $s->{seen} }),
		"# counted|$s->{skipped}|$s->{marked}");
	return;
}

sub set_up
{
	my ($mode_a, $mode_b, $prototype) = @_;
	%mode = (a => $mode_a, b => $mode_b);
	$psql->query(
		qq{
		SET client_min_messages = error;
		DROP TABLE IF EXISTS a, b, f, parents, orders, kept;
		SELECT dedup_create('f', $prototype);
		CREATE TABLE parents (id int PRIMARY KEY);
		CREATE TABLE a (id int, k int, part int, u int, p int REFERENCES parents ON DELETE CASCADE, v text,
			is_duplicate boolean DEFAULT false, UNIQUE (u, part)) PARTITION BY LIST (part);
		CREATE TABLE a0 PARTITION OF a FOR VALUES IN (0);
		CREATE TABLE a1 PARTITION OF a FOR VALUES IN (1);
		CREATE TABLE a2 PARTITION OF a FOR VALUES IN (2);
		CREATE TABLE b (id int, k int, part int, u int, p int, v text, is_duplicate boolean DEFAULT false, UNIQUE (u, part));
		CREATE TABLE orders (t text, old int, new int, part int);
		CREATE TEMPORARY TABLE kept (id int, k int, part int);
		SELECT dedup_guard('a', 'f', '{k}', '$mode_a'), dedup_guard('b', 'f', '{k}', '$mode_b');
		CREATE OR REPLACE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER "~~leave_out" BEFORE INSERT ON a FOR EACH ROW WHEN (NEW.v = 'leave out') EXECUTE FUNCTION leave_out();
		CREATE TRIGGER "~~leave_out" BEFORE INSERT ON b FOR EACH ROW WHEN (NEW.v = 'leave out') EXECUTE FUNCTION leave_out();
		CREATE OR REPLACE FUNCTION carry_out() RETURNS trigger LANGUAGE plpgsql AS \$\$
		DECLARE key int;
		BEGIN
			EXECUTE format('DELETE FROM %I WHERE id = %s RETURNING k', NEW.t, NEW.old) INTO key;
			EXECUTE format('INSERT INTO %I (id, k, part, u, v) VALUES (\$1, \$2, \$3, \$1, ''plain'')', NEW.t) USING NEW.new, key, NEW.part;
			RETURN NULL;
		END \$\$;
		CREATE TRIGGER carry_out AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION carry_out();
		-- parents come back by themselves, so that there is always one to delete
		CREATE OR REPLACE FUNCTION come_back() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO parents VALUES (OLD.id); RETURN NULL; END';
		CREATE TRIGGER "~come_back" AFTER DELETE ON parents FOR EACH ROW EXECUTE FUNCTION come_back();
		INSERT INTO parents SELECT generate_series(1, 10)});
	$next_id = 0;
	$committed = { map({ $_ => {} } qw(rows seen added rights)), kept => [], skipped => 0, marked => 0 };
	return;
}

$psql->query("SET allow_in_place_tablespaces = on");
$psql->query("CREATE TABLESPACE aside LOCATION ''");

# The windows are larger than the test, so that no key is forgotten.
my $window = 'dedup_window(100000, 1e-6, 42)';
foreach my $modes (
	[ 'skip', 'skip', filter_sql() ],
	[ 'reject', 'reject', $window ],
	[ 'mark', 'mark', "$window, ttl => '1 day'" ],
	[ 'skip', 'mark', "$window, unlogged => true" ],
	[ 'mark', 'reject', filter_sql() ])
{
	set_up(@$modes);
	my $differs;
	$operations = 0;
	for my $number (1 .. $transactions)
	{
		start_script();
		rand() < 0.15 ? procedure() : transaction();
		compare();
		$differs = run_script($psql);
		if (defined $differs)
		{
			diag("transaction $number:\n$differs");
			last;
		}
	}
	ok(!defined $differs, "modes @$modes[0, 1]: $operations operations");
	$psql->query('ROLLBACK');
}

$psql->quit;
my @complaints = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /^.*(?:leak|PANIC|TRAP).*$/mg;
is(join("\n", @complaints), '', 'the server has nothing to complain of');

done_testing();
