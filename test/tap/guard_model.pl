# Guards of each kind, mode and option against a model, by random statements with fixed seeds.
#
# The table is partitioned on several levels, with partitions of other attribute numbers that
# come and go. The model here says before each statement what it will say and which rows there
# will be. The statements run in one session after another, with nobody beside them.
#
# What the kinds promise:
#
#   exact       a key is taken if a row has it
#   keeping     a key is taken from the first row on that landed with it; a row that this
#               transaction has deleted can come again once
#   forgetting  a key is taken until the row that has it goes
#
# A row has no key if it does not fulfil the predicate, if it has no time under a guard by times
# or, unless NULLs are equal, if an element is NULL. Filters of exact guards are so small that
# they mostly answer "perhaps seen", the others so large that they are never wrong.
#
# A few seeds; GUARD_MODEL_RUNS multiplies them, and GUARD_MODEL_SEED begins elsewhere.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Oracle;
use Test::More;

my $runs = $ENV{GUARD_MODEL_RUNS} || 1;
my $first_seed = $ENV{GUARD_MODEL_SEED} || 1;
my $statements = 240;

my $node = start_node('main', settings => ['fsync = off']);
my $server_version = $node->safe_psql('postgres', 'SHOW server_version_num');

# ---- rows and keys --------------------------------------------------------------

# The case: kind, mode, and which options the guard has.
my ($kind, $mode, %option);

# Rows by id: {k, l, part, d, at, dup, detached}. Partitions by name: attached or detached. Keys
# that the filter has; deleted rows of this statement and of this transaction that can come
# again, and truncated ones; those of detached partitions, by name, which count when one of them
# would be refused; ids of diverted rows. A transaction or savepoint keeps copies.
my (%rows, %parts, %seen, %gone, %truncated, %left, %refused, @kept, $next_id);

# The partitions: of a range that is hash-partitioned below, of ranges, one with other
# attribute numbers, and the default one, all by `part`.
my %bounds = (
	a => [ 0, 10 ],
	b => [ 10, 20 ],
	c => [ 20, 30 ],
	d => [ 30, 40 ]);

# Hours in which two rows with a key are duplicates if the guard goes by times.
my $ttl = 5;

sub part_of
{
	my ($part) = @_;
	foreach my $name (keys %bounds)
	{
		return $name if $part >= $bounds{$name}[0] && $part < $bounds{$name}[1] && $parts{$name} eq 'attached';
	}
	return 'rest';
}

# A row's key as an error shows it.
sub key_of
{
	my ($row) = @_;
	my ($k, $l) = @$row{qw(k l)};
	return undef if $option{where} && ($row->{d} // 0);
	return undef if !$option{nulls} && !(defined $k && defined $l);
	return undef if $option{at} && !defined $row->{at};
	if ($option{elements})
	{
		$k %= 10 if defined $k;
		$l = lc $l if defined $l;
	}
	return ($k // 'null') . ', ' . ($l // 'null');
}

# Whether two rows are near enough in time to be duplicates.
sub is_near { return !$option{at} || abs($_[0]{at} - $_[1]{at}) < $ttl }

# Whether a row is a duplicate, but for the row with an id.
sub is_taken
{
	my ($row, $but) = @_;
	my $key = key_of($row);
	return 0 if !defined $key;
	if ($kind ne 'exact')
	{
		return 0 if !$seen{$key} || $gone{$key} || $truncated{$key};
		foreach my $name (grep { $parts{$_} eq 'detached' } keys %left)
		{
			my $keys = delete $left{$name};
			$truncated{$_} += $keys->{$_} foreach keys %$keys;
		}
		return !$truncated{$key};
	}
	foreach my $id (keys %rows)
	{
		my $other = $rows{$id};
		next if (defined $but && $id == $but) || $other->{detached} || $other->{dup};
		my $taken = key_of($other);
		return 1 if defined $taken && $taken eq $key && is_near($row, $other);
	}
	return 0;
}

# A row's key counts from now on.
sub take
{
	my $key = key_of($_[0]);
	return if !defined $key;
	$seen{$key} = 1;
	foreach (\%gone, \%truncated)
	{
		next if !$_->{$key};
		delete $_->{$key} if !--$_->{$key};
		last;
	}
	return;
}

# A row goes, or its key does.
sub give_up
{
	my ($row, $where) = @_;
	my $key = key_of($row);
	($where || \%gone)->{$key}++ if defined $key && !$row->{dup};
	return;
}

sub end_statement
{
	return if $kind ne 'forgetting';
	delete @seen{ keys %gone };
	%gone = ();
	return;
}

sub end_transaction
{
	%gone = %truncated = %left = ();
	return;
}

sub keep
{
	push @kept, [ { map { $_ => { %{ $rows{$_} } } } keys %rows }, {%parts}, {%seen}, {%gone}, {%truncated}, {%refused}, { map { $_ => { %{ $left{$_} } } } keys %left } ];
	return;
}

sub go_back
{
	my ($old_rows, $old_parts, $old_seen, $old_gone, $old_truncated, $old_refused, $old_left) = @{ $kept[-1] };
	%rows = map { $_ => { %{ $old_rows->{$_} } } } keys %$old_rows;
	%parts = %$old_parts;
	%seen = %$old_seen;
	%gone = %$old_gone;
	%truncated = %$old_truncated;
	%refused = %$old_refused;
	%left = map { $_ => { %{ $old_left->{$_} } } } keys %$old_left;
	return;
}

# ---- SQL --------------------------------------------------------------------------

my @columns = qw(id k l part d at);
my $columns = join ', ', @columns;

sub all_rows
{
	my $said = '';
	foreach my $id (sort { $a <=> $b } grep { !$rows{$_}{detached} } keys %rows)
	{
		my $row = $rows{$id};
		$said .= join('|', $id, $row->{k} // '', $row->{l} // '', $row->{part}, defined $row->{d} ? $row->{d} ? 't' : 'f' : '', $row->{at} // '',
			$row->{dup} ? 't' : $mode eq 'mark' ? 'f' : '') . "\n";
	}
	$said .= join(',', sort { $a <=> $b } keys %refused) . "\n" if $mode eq 'divert';
	return $said;
}

# What shows them.
sub show_rows
{
	return "SELECT id, k, l, part, d, (extract(epoch FROM at - base()) / 3600)::int, is_dup FROM t ORDER BY id"
	  . ($mode eq 'divert' ? ";\nSELECT string_agg(id::text, ',' ORDER BY id) FROM t_refused" : '');
}

my $error_columns;
sub error_of { return "error 23505 Key ($error_columns)=(" . key_of($_[0]) . ") already exists.\n" }

sub sql_of
{
	my ($name, $value) = @_;
	return 'NULL' if !defined $value;
	return "base() + interval '$value hours'" if $name eq 'at';
	return $value ? 'true' : 'false' if $name eq 'd';
	return $name eq 'l' ? "'$value'" : $value;
}

sub values_of
{
	my ($id, $row) = @_;
	return '(' . join(', ', map { sql_of($_, $_ eq 'id' ? $id : $row->{$_}) } @columns) . ')';
}

sub set_of { my ($row) = @_; return join(', ', map { "$_ = " . sql_of($_, $row->{$_}) } grep { $_ ne 'id' } @columns); }

sub random_row
{
	return {
		k => chance(0.93) ? random(16) : undef,
		l => chance(0.93) ? any('x', 'x', 'y', 'X') : undef,
		part => random(50),
		d => any(0, 0, 0, 1, undef),
		at => chance(0.93) ? random(24) - 20 : undef,
		dup => 0
	};
}

# ---- statements --------------------------------------------------------------------

# Inserts rows into the model. Returns what the statement says with RETURNING id.
sub insert_into_model
{
	my (@inserted) = @_;
	keep();
	my $said = '';
	my $id = $next_id;
	$next_id += @inserted;
	foreach my $row (@inserted)
	{
		$id++;
		if (is_taken($row))
		{
			if ($mode eq 'reject')
			{
				go_back();
				pop @kept;
				return error_of($row);
			}
			$refused{$id} = 1 if $mode eq 'divert';
			next if $mode ne 'mark';
			$row->{dup} = 1;
		}
		else
		{
			take($row);
		}
		$rows{$id} = $row;
		$said .= "$id\n";
	}
	pop @kept;
	return $said;
}

# Gives a row other columns. Returns what the statement says.
sub update_model
{
	my ($id, $new) = @_;
	my $row = $rows{$id};
	my $same = (key_of($row) // 'none') eq (key_of($new) // 'none');
	$same &&= ($row->{at} // 'none') eq ($new->{at} // 'none') if $option{at};
	# where keys go with their rows, a marked row has none of its own
	if (!$same && !($kind eq 'forgetting' && $row->{dup}))
	{
		# a marked row is judged by its key only where a row is not looked for
		return error_of($new) if !($kind eq 'exact' && $row->{dup}) && is_taken($new, $id);
		take($new);
		give_up($row);
	}
	@$row{qw(k l part d at)} = @$new{qw(k l part d at)};
	return '';
}

# A statement and what it says.
sub model_statement
{
	my @ids = sort { $a <=> $b } grep { !$rows{$_}{detached} } keys %rows;
	my $id = @ids ? any(@ids) : 0;
	my $row = $rows{$id};
	my $what = random(100);
	if ($what < 27 || !$row)
	{
		my @inserted = map { random_row() } 0 .. (chance(0.5) ? 0 : random(5));
		my $at = $next_id;
		my $values = join(', ', map { values_of(++$at, $_) } @inserted);
		return ("INSERT INTO t ($columns) VALUES $values RETURNING id", insert_into_model(@inserted));
	}
	if ($what < 31)
	{
		my @inserted = map { random_row() } 0 .. random(5);
		$_->{at} = 0 foreach @inserted;
		my $at = $next_id;
		my $lines = join('', map { join("\t", ++$at, $_->{k} // '\N', $_->{l} // '\N', $_->{part}, $_->{d} // '\N') . "\n" } @inserted);
		my $said = insert_into_model(@inserted);
		return ("COPY t (id, k, l, part, d) FROM STDIN;\n$lines\\.\n", $said =~ /^error/ ? $said : '');
	}
	if ($what < 35)
	{
		# straight into a partition
		my $inserted = random_row();
		my $name = part_of($inserted->{part});
		return ("INSERT INTO t_$name ($columns) VALUES " . values_of($next_id + 1, $inserted) . ' RETURNING id', insert_into_model($inserted));
	}
	if ($what < 50)
	{
		# another key or time, in or out of the predicate, and perhaps to another partition
		my $new = random_row();
		foreach (qw(k l part d at)) { $new->{$_} = $row->{$_} if chance(0.5) }
		my $said = update_model($id, $new);
		return ('UPDATE t SET ' . set_of($new) . " WHERE id = $id", $said);
	}
	if ($what < 55 && $server_version >= 150000)
	{
		my $new = random_row();
		my $matches = chance(0.5);
		my $delete = chance(0.3);
		my $sql = 'MERGE INTO t USING (VALUES ' . values_of($matches ? $id : $next_id + 1, $new) . ") s ($columns) ON t.id = s.id WHEN MATCHED THEN "
		  . ($delete ? 'DELETE' : 'UPDATE SET ' . set_of($new)) . " WHEN NOT MATCHED THEN INSERT ($columns) VALUES (" . join(', ', map { "s.$_" } @columns) . ')';
		# of no type if all are NULL
		$sql =~ s/\bs\.$_\b/s.$_\::int/g foreach 'k';
		$sql =~ s/\bs\.d\b/s.d::boolean/g;
		$sql =~ s/\bs\.at\b/s.at::timestamptz/g;
		my $said = '';
		if (!$matches) { $said = insert_into_model($new) }
		elsif ($delete) { give_up(delete $rows{$id}) }
		else { $said = update_model($id, $new) }
		return ($sql, $said =~ /^error/ ? $said : '');
	}
	if ($what < 62)
	{
		# to other partitions
		my $by = 1 + random(49);
		my $some = 2 + random(4);
		foreach (grep { $_ % $some == 0 } @ids) { $rows{$_}{part} = ($rows{$_}{part} + $by) % 50 }
		return ("UPDATE t SET part = (part + $by) % 50 WHERE id % $some = 0", '');
	}
	if ($what < 68)
	{
		give_up(delete $rows{$id});
		return ("DELETE FROM t WHERE id = $id RETURNING id", "$id\n");
	}
	if ($what < 75)
	{
		my $some = 2 + random(4);
		give_up($_) foreach delete @rows{ grep { $_ % $some == 0 } @ids };
		return ("DELETE FROM t WHERE id % $some = 0", '');
	}
	if ($what < 80)
	{
		# the same rows under other ids
		my $some = 2 + random(4);
		my $add = 100_000 + 1000 * ++$next_id;
		my @again = grep { $_ % $some == 0 } @ids;
		my @old = delete @rows{@again};
		give_up($_) foreach @old;
		foreach my $i (0 .. $#again)
		{
			my $moved = { %{ $old[$i] }, dup => 0 };
			if (is_taken($moved))
			{
				# of two rows that were marked, or a marked one and its first
				$refused{ $again[$i] + $add } = 1 if $mode eq 'divert';
				next if $mode ne 'mark';
				$moved->{dup} = 1;
			}
			else
			{
				take($moved);
			}
			$rows{ $again[$i] + $add } = $moved;
		}
		return ("WITH x AS (DELETE FROM t WHERE id % $some = 0 RETURNING *) INSERT INTO t ($columns) SELECT id + $add, k, l, part, d, at FROM x ORDER BY id", '');
	}
	if ($what < 85 && $mode eq 'mark')
	{
		my $new = chance(0.5) ? 1 : 0;
		my $sql = 'UPDATE t SET is_dup = ' . ($new ? 'true' : 'false') . " WHERE id = $id";
		return ($sql, error_of($row)) if $kind ne 'keeping' && !$new && $row->{dup} && is_taken($row, $id);
		give_up($row) if $kind eq 'forgetting' && $new;
		take($row) if $kind eq 'forgetting' && !$new && $row->{dup};
		$row->{dup} = $new;
		return ($sql, '');
	}
	if ($what == 85)
	{
		my $filter_too = $kind ne 'forgetting' && chance(0.5);
		give_up($_, \%truncated) foreach delete @rows{@ids};
		%seen = %gone = %truncated = %left = () if $filter_too || $kind eq 'forgetting';
		return ('TRUNCATE t' . ($filter_too ? ', f' : ''), '');
	}
	if ($what < 88)
	{
		my ($name) = any(grep { $parts{$_} eq 'attached' } sort keys %parts);
		give_up($_, \%truncated) foreach delete @rows{ grep { part_of($rows{$_}{part}) eq $name } @ids };
		return ("TRUNCATE t_$name", '');
	}
	my $name = any('b', 'c', 'd');
	if ($parts{$name} eq 'attached' && $what < 94)
	{
		my @inside = grep { part_of($rows{$_}{part}) eq $name } @ids;
		$parts{$name} = 'detached';
		$left{$name} = {};
		give_up($rows{$_}, $left{$name}) foreach @inside;
		$rows{$_}{detached} = $name foreach @inside;
		return ("ALTER TABLE t DETACH PARTITION t_$name", '');
	}
	# rows that went to the default partition meanwhile would be in the way
	if ($parts{$name} eq 'detached' && !grep { part_of($rows{$_}{part}) eq 'rest' && $rows{$_}{part} >= $bounds{$name}[0] && $rows{$_}{part} < $bounds{$name}[1] } @ids)
	{
		my $sql = "ALTER TABLE t ATTACH PARTITION t_$name FOR VALUES FROM ($bounds{$name}[0]) TO ($bounds{$name}[1])";
		my @inside = sort { $a <=> $b } grep { ($rows{$_}{detached} // '') eq $name } keys %rows;
		keep();
		foreach my $detached ($kind eq 'exact' ? @inside : ())
		{
			if (!$rows{$detached}{dup} && is_taken($rows{$detached}, $detached))
			{
				go_back();
				pop @kept;
				return ($sql, "error 23505 Key ... is duplicated.\n");
			}
			delete $rows{$detached}{detached};
		}
		pop @kept;
		$parts{$name} = 'attached';
		delete $rows{$_}{detached} foreach @inside;
		return ($sql, '');
	}
	if ($parts{$name} eq 'detached' && $what < 97)
	{
		delete @rows{ grep { ($rows{$_}{detached} // '') eq $name } keys %rows };
		return ("TRUNCATE t_$name", '');
	}
	return ("UPDATE t SET l = l WHERE id = $id", '');
}

# ---- runs ---------------------------------------------------------------------------

my $session = "SET client_min_messages = error; SET search_path = parted, public;\n";

# A script and what each statement says, with the rows that there are after it.
sub model_statements
{
	my (@sql, @said);
	%rows = %seen = %gone = %truncated = %left = %refused = @kept = ();
	%parts = map { $_ => 'attached' } 'a', 'b', 'c', 'd', 'rest';
	$next_id = 0;
	my $step = sub {
		my ($sql, $said) = @_;
		end_statement();
		push @sql, $sql, show_rows();
		push @said, $said, all_rows();
		return;
	};
	while (@sql < 2 * $statements)
	{
		$step->("\\c -\n$session" . any('VACUUM t', 'VACUUM f', 'ANALYZE t', 'SELECT'), '') if chance(0.05);
		if (chance(0.4))
		{
			$step->(model_statement());
			end_transaction();
			next;
		}
		@kept = ();
		keep();
		$step->("\\set ON_ERROR_ROLLBACK on\nBEGIN ISOLATION LEVEL " . any('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'), '');
		for (0 .. random(12))
		{
			if (chance(0.2))
			{
				keep();
				$step->('SAVEPOINT s' . (@kept - 1), '');
			}
			elsif (@kept > 1 && chance(0.25))
			{
				go_back();
				$step->('ROLLBACK TO s' . (@kept - 1), '');
			}
			elsif (@kept > 1 && chance(0.1))
			{
				$step->('RELEASE s' . (@kept - 1), '');
				pop @kept;
			}
			else
			{
				$step->(model_statement());
			}
		}
		if (chance(0.7))
		{
			$step->('COMMIT', '');
		}
		else
		{
			@kept = $kept[0];
			go_back();
			$step->('ROLLBACK', '');
		}
		end_transaction();
	}
	return (\@sql, \@said);
}

sub against_model
{
	my ($seed, @options) = @_;
	my $name = join(' ', $kind, $mode, @options) . ", seed $seed";
	%option = map { $_ => 1 } @options;
	seed_random($seed);
	$error_columns = $option{elements} ? '(k % 10), lower(l)' : 'k, l';
	my ($sql, $expected) = model_statements();
	$node->safe_psql('postgres', 'SET client_min_messages = warning; DROP SCHEMA IF EXISTS parted CASCADE; CREATE SCHEMA parted');
	my $key = $option{elements} ? q{ARRAY['k % 10', 'lower(l)']} : q{'{k, l}'};
	my $index = $option{elements} ? 'lower(l), (k % 10)' : 'l, k';
	my $filter = $kind eq 'exact' ? 'dedup_filter(1000, 0.5, $seed)' : "dedup_filter(100000, 0.0000001, $seed)";
	my $with = ($kind eq 'exact' ? ', exact => true' : '') . ($kind eq 'forgetting' ? ", on_delete => 'forget'" : '')
	  . ($option{where} ? ', "where" => \'d IS NOT TRUE\'' : '') . ($option{nulls} ? ', nulls_not_distinct => true' : '') . ($option{at} ? ", at => 'at'" : '');
	$filter =~ s/\$seed/$seed/;
	$filter .= ", ttl => '$ttl hours'" if $option{at};
	my @said = run_statements(
		$node, $session . "
		CREATE FUNCTION base() RETURNS timestamptz IMMUTABLE LANGUAGE sql AS 'SELECT ''@{[ $node->safe_psql('postgres', q(SELECT date_trunc('hour', now()))) ]}''::timestamptz';
		CREATE TABLE t (gone int, id int, l text, k int, part int, is_dup boolean, at timestamptz DEFAULT base(), d boolean) PARTITION BY RANGE (part);
		ALTER TABLE t DROP COLUMN gone;
		CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY HASH (k);
		CREATE TABLE t_a0 PARTITION OF t_a FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE t_a1 PARTITION OF t_a FOR VALUES WITH (MODULUS 2, REMAINDER 1);
		CREATE TABLE t_b PARTITION OF t FOR VALUES FROM (10) TO (20) PARTITION BY LIST (l);
		CREATE TABLE t_bx PARTITION OF t_b FOR VALUES IN ('x');
		CREATE TABLE t_by PARTITION OF t_b DEFAULT;
		CREATE TABLE t_c (is_dup boolean, x int, k int, at timestamptz DEFAULT base(), y int, id int, d boolean, part int, l text);
		ALTER TABLE t_c DROP COLUMN x, DROP COLUMN y;
		ALTER TABLE t ATTACH PARTITION t_c FOR VALUES FROM (20) TO (30);
		CREATE TABLE t_d PARTITION OF t FOR VALUES FROM (30) TO (40);
		CREATE TABLE t_rest PARTITION OF t DEFAULT;
		CREATE INDEX ON t ($index)" . ($option{where} && $seed % 2 ? ' WHERE d IS NOT TRUE' : '') . ";
		SELECT FROM dedup_create('f', $filter);
		SELECT FROM dedup_guard('t', 'f', $key, '" . ($mode eq 'mark' ? 'mark:is_dup' : $mode) . "'$with);", @$sql);
	my %errors;
	foreach my $i (0 .. $#$sql)
	{
		$errors{$1}++ if $expected->[$i] =~ /^error (\w+)/;
		# it says which, of several perhaps
		$said[$i] =~ s/Key .* is duplicated/Key ... is duplicated/;
		next if $said[$i] eq $expected->[$i];
		fail("$name: as the model says");
		diag("the guard:\n$said[$i]the model:\n$expected->[$i]after:\n" . transaction_of($i, @$sql));
		return;
	}
	my $marked = grep { /\|t$/m } @said;
	my $taken = $kind eq 'exact' ? 0 : keys %seen;
	pass("$name: as the model says (" . join(', ', (map { "$errors{$_} of $_" } sort keys %errors), "$marked times marked rows, $next_id rows, $taken keys") . ')');
	is($node->safe_psql('postgres', "SELECT count(*) FROM dedup_check('parted.f')"), '0', 'and its filter is whole');
	return;
}

my @all_options = ('where', 'elements', $server_version >= 150000 ? 'nulls' : ());
my @kinds = ('exact', 'keeping', 'forgetting');
my @modes = ('skip', 'reject', 'mark', 'divert');
foreach my $seed (map { $first_seed + 4 * $_ } 0 .. $runs - 1)
{
	foreach my $case (map { my $k = $_; map { [ $k, $_ ] } @modes } @kinds)
	{
		($kind, $mode) = @$case;
		against_model($seed);
		against_model($seed + 1, @all_options);
		against_model($seed + 2, $all_options[ $seed % @all_options ]);
		against_model($seed + 3, 'at', $seed % 8 == 1 ? @all_options : ()) if $kind eq 'exact';
	}
}

$node->stop;
done_testing();
