# Exact guards against two oracles, by random statements with fixed seeds.
#
# First: a table with an exact guard in mode reject, and one with a UNIQUE index that is
# else the same, with the same expressions and predicate, are given the same statements. After each of them both must have said
# the same (SQLSTATE, DETAIL, what RETURNING gave) and must have the same rows. Each runs
# with nobody beside it and by sequential scans only, so both process their rows in the
# same order; a BEFORE trigger that does nothing makes the UNIQUE one's COPY insert row by
# row, as the guard's does. Every second run has triggers, before the guard's and after it,
# that change keys, leave rows out, and insert rows themselves.
#
# Second: partitioned tables with guards of each mode, against a model here, which says
# before each statement what will come of it.
#
# A few seeds; EXACT_ORACLE_RUNS multiplies them, and EXACT_ORACLE_SEED begins elsewhere.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Oracle;
use Test::More;

my $runs = $ENV{EXACT_ORACLE_RUNS} || 1;
my $first_seed = $ENV{EXACT_ORACLE_SEED} || 1;
my $statements = 400;

my $node = start_node('main', settings => ['fsync = off']);
my $server_version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $has_icu = $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") > 0;
my $has_citext = $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'");

# ---- beside a UNIQUE constraint ---------------------------------------------

my $next_id;

# A key's columns as SQL. Types differ in what they call equal. `elements` are what the key
# consists of, if not of the columns; `guard` are further arguments of dedup_guard(), `nulls`
# and `where` what UNIQUE says for them.
my @kinds = (
	{
		name => 'int',
		columns => 'k int',
		key => ['k'],
		any => sub { return random(25) < 1 ? 'NULL' : random(40) },
		next => 'k = k + 1',
		far => 'k = k + 100',
	},
	{
		name => 'int, text and NULLs',
		columns => 'k int, l text',
		key => [ 'k', 'l' ],
		any => sub { return (chance(0.9) ? random(12) : 'NULL') . ', ' . (chance(0.9) ? "'" . any('a', 'b', 'A', '') . "'" : 'NULL') },
		next => 'k = k + 1',
		far => 'k = k + 100',
	},
	{
		name => 'numeric',
		columns => 'k numeric',
		key => ['k'],
		any => sub { return random(40) . any('', '.0', '.00', '.5') },
		next => 'k = k + 1.0',
		far => 'k = k + 100',
	},
	{
		name => 'expressions',
		columns => 'k text, l text',
		key => [ 'k', 'l' ],
		elements => [ 'lower(k)', "l || '!'" ],
		any => sub { return "'" . any('a' .. 'e', 'A' .. 'E') . any('x', 'X') . "', " . (chance(0.9) ? "'" . any('a', 'b') . "'" : 'NULL') },
		next => 'k = upper(k)',
		far => "k = k || 'z'",
	},
	{
		name => 'jsonb',
		columns => 'k jsonb',
		key => ['k'],
		elements => ["k->>'id'"],
		any => sub { return chance(0.9) ? q('{"id":) . any(random(30), '"' . random(30) . '"', random(30) . ',"x":' . random(9)) . q(}') : any('NULL', q('{}')) },
		next => q(k = jsonb_build_object('id', (k->>'id')::int + 1)),
		far => q(k = jsonb_build_object('id', (k->>'id')::int + 100)),
	},
	{
		name => 'days',
		columns => 'k timestamptz, l int',
		key => [ 'k', 'l' ],
		elements => [ "date_trunc('day', k AT TIME ZONE 'UTC')", 'l' ],
		any => sub { return "'2026-01-" . (10 + random(12)) . ' ' . any('00:00', '12:30', '23:59:59') . "+00', " . (chance(0.95) ? random(2) : 'NULL') },
		next => q(k = k + interval '1 day'),
		far => q(k = k + interval '100 days'),
	},
	{
		name => 'a predicate',
		columns => 'k int, d boolean',
		key => [ 'k', 'd' ],
		elements => ['k'],
		any => sub { return random(25) . ', ' . any('NULL', 'false', 'false', 'true') },
		where => 'd IS NOT TRUE',
		next => 'k = k + 1',
		far => 'd = NOT coalesce(d, false)',
	},
	{
		name => 'a predicate with OR',
		columns => 'k int, d text',
		key => [ 'k', 'd' ],
		elements => ['k % 20'],
		any => sub { return random(35) . ', ' . (chance(0.8) ? "'" . any('in', 'out', 'x') . "'" : 'NULL') },
		where => "d = 'in' OR k > 10 OR d IS NULL",
		next => 'k = k + 1',
		far => "d = CASE d WHEN 'in' THEN 'out' ELSE 'in' END",
	});
push @kinds,
  {
	name => 'NULLS NOT DISTINCT',
	columns => 'k int, l text',
	key => [ 'k', 'l' ],
	any => sub { return (chance(0.8) ? random(12) : 'NULL') . ', ' . (chance(0.6) ? "'" . any('a', 'b', '') . "'" : 'NULL') },
	guard => ', nulls_not_distinct => true',
	nulls => 'NULLS NOT DISTINCT',
	next => 'k = k + 1',
	far => 'k = k + 100',
  },
  {
	name => 'all options',
	columns => 'k text, l int, d boolean',
	key => [ 'k', 'l', 'd' ],
	elements => [ 'lower(k)', 'l % 3' ],
	any => sub { return (chance(0.8) ? "'" . any('a' .. 'e', 'A' .. 'E') . "'" : 'NULL') . ', ' . (chance(0.7) ? random(9) : 'NULL') . ', ' . any('NULL', 'false', 'true') },
	where => 'NOT d OR l IS NULL',
	guard => ', nulls_not_distinct => true',
	nulls => 'NULLS NOT DISTINCT',
	next => 'k = upper(k)',
	far => 'd = NOT coalesce(d, false)',
  } if $server_version >= 150000;
push @kinds,
  {
	name => 'text that ignores case',
	setup => "CREATE COLLATION IF NOT EXISTS public.same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
	columns => 'k text COLLATE public.same',
	key => ['k'],
	any => sub { return "'" . any('a' .. 'e', 'A' .. 'E') . any('x', 'X', 'y') . "'" },
	next => "k = upper(k)",
	far => "k = k || 'z'",
  } if $has_icu;
push @kinds,
  {
	name => 'citext',
	setup => 'CREATE EXTENSION IF NOT EXISTS citext SCHEMA public',
	columns => 'k citext',
	key => ['k'],
	any => sub { return "'" . any('a' .. 'e', 'A' .. 'E') . any('x', 'X', 'y') . "'" },
	next => "k = upper(k::text)",
	far => "k = k || 'z'",
  } if $has_citext;

sub row_of
{
	my ($kind) = @_;
	my $v = chance(0.7) ? 'r' : any('early', 'late', 'next', 'out', 'r');
	return '(' . ++$next_id . ', ' . $kind->{any}->() . ', ' . (chance(0.2) ? random(30) : $next_id + 1000) . ", '$v')";
}

sub statement_of
{
	my ($kind) = @_;
	my $key = join(', ', @{ $kind->{key} });
	my $columns = "id, $key, u, v";
	my $some = 'id % ' . (2 + random(6)) . ' = ' . random(2);
	my $one = 'id = ' . ($next_id - random(60));
	my $set = @{ $kind->{key} } == 1 ? "$key = " : "($key) = ROW(";
	my $set_end = @{ $kind->{key} } == 1 ? '' : ')';
	my $new = $set . $kind->{any}->() . $set_end;
	my $what = random(100);
	return 'INSERT INTO t VALUES ' . row_of($kind) . ' RETURNING id' if $what < 25;
	return 'INSERT INTO t VALUES ' . join(', ', map { row_of($kind) } 0 .. random(4)) . ' RETURNING id' if $what < 35;
	if ($what < 40)
	{
		my $delta = 10_000 + ($next_id += 1) * 100;
		return "INSERT INTO t SELECT id + $delta, $key, u + $delta, 's' FROM t WHERE $some ORDER BY id LIMIT 2 RETURNING id";
	}
	return "UPDATE t SET $new WHERE $one RETURNING id" if $what < 52;
	return "UPDATE t SET $kind->{next} WHERE $some" if $what < 56;
	return "UPDATE t SET $kind->{far} WHERE $some" if $what < 59;
	return "UPDATE t SET v = v || 'u', u = u + 500 WHERE $one" if $what < 62;
	return "UPDATE t SET k = k" if $what < 63;
	return "DELETE FROM t WHERE $one RETURNING id" if $what < 73;
	return "DELETE FROM t WHERE $some" if $what < 79;
	return 'TRUNCATE t' if $what < 80;
	return 'INSERT INTO t VALUES ' . join(', ', map { row_of($kind) } 0 .. random(3)) . ' ON CONFLICT (u) DO NOTHING RETURNING id'
	  if $what < 84;
	return "INSERT INTO t VALUES @{[ row_of($kind) ]} ON CONFLICT (u) DO UPDATE SET "
	  . any("v = 'c'", $new, "$set" . join(', ', map { "excluded.$_" } @{ $kind->{key} }) . $set_end)
	  . ' RETURNING id, v' if $what < 88;
	return "WITH d AS (DELETE FROM t WHERE $some RETURNING *) INSERT INTO t SELECT id + 100000, $key, u + 100000, v FROM d" if $what < 91;
	# two rows exchange their keys: a duplicate on the way
	return "UPDATE t SET $set" . join(', ', map { "o.$_" } @{ $kind->{key} }) . "$set_end FROM t o WHERE t.id = "
	  . ($next_id - random(40)) . ' AND o.id = ' . ($next_id - random(40)) if $what < 93;
	if ($what < 97)
	{
		return 'COPY t FROM STDIN;' . "\n"
		  . join('', map { my $row = row_of($kind); $row =~ s/^\(|\)$//g; $row =~ s/'//g; $row =~ s/NULL/\\N/g; join("\t", split(/, /, $row, -1)) . "\n" } 0 .. random(4))
		  . "\\.\n";
	}
	return "DELETE FROM t WHERE $some" if $server_version < 150000;
	my $source = join(', ', map { $kind->{columns} =~ /\b$_ (int|numeric|jsonb|timestamptz|boolean)/ ? "s.$_\::$1" : "s.$_" } @{ $kind->{key} });
	return "MERGE INTO t USING (VALUES @{[ join(', ', map { row_of($kind) } 0 .. random(2)) ]}) s ($columns) ON t.id = s.id - " . random(30)
	  . ' WHEN MATCHED AND t.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, '
	  . any('u = s.u', "$set" . $source . $set_end)
	  . " WHEN NOT MATCHED THEN INSERT VALUES (s.id, "
	  . $source . ', s.u, s.v)';
}

my $plain_plans = join '', map { "SET enable_$_ = off;\n" } 'indexscan', 'indexonlyscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'hashagg';

sub beside_unique
{
	my ($kind, $seed) = @_;
	seed_random($seed);
	$next_id = 0;
	my @elements = @{ $kind->{elements} || $kind->{key} };
	my $names = join(', ', map { "\$e\$$_\$e\$" } @elements);
	my $index = '(' . join(', ', map { /^\w+$/ ? $_ : "($_)" } @elements) . ')';
	my ($where, $options) = ('', $kind->{guard} || '');
	if ($kind->{where})
	{
		$where = "WHERE $kind->{where}";
		$options .= ", \"where\" => \$e\$$kind->{where}\$e\$";
	}
	# the index for the search may have all rows, or those that the guard goes by
	my $some = $seed % 3 ? '' : $where;
	my @statements;
	foreach my $statement (transactions($statements, sub { return statement_of($kind) }))
	{
		push @statements, $statement;
		push @statements, 'SELECT * FROM t ORDER BY id'
		  if $statement !~ /^(BEGIN|SAVEPOINT|RELEASE)/m;
	}
	# A row inside of another one's insertion, or a new key. In both schemas the same.
	(my $next = $kind->{next}) =~ s/\bk\b/NEW.k/g;
	$next =~ s/=/:=/;
	my $triggers = $seed % 2 ? '' : "
		CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS \$\$
		DECLARE r t := NEW;
		BEGIN
			IF NEW.v = 'out' THEN RETURN NULL; END IF;
			IF NEW.v = 'next' THEN $next; END IF;
			IF NEW.v = TG_ARGV[0] THEN
				r.id := NEW.id + 500000; r.u := NULL; r.v := 'in';
				BEGIN
					INSERT INTO t SELECT r.*;
				EXCEPTION WHEN unique_violation THEN NEW.v := 'no';
				END;
			END IF;
			RETURN NEW;
		END \$\$;
		CREATE TRIGGER early BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION more('early');
		CREATE TRIGGER \"~~late\" BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION more('late');
		CREATE TRIGGER \"~~next\" BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.id % 5 = 0) EXECUTE FUNCTION more('never');";
	my $table = "CREATE TABLE t (id int PRIMARY KEY, $kind->{columns}, u int UNIQUE, v text CHECK (length(v) < 8));";
	my $start = "SET client_min_messages = error;\n" . ($kind->{setup} ? "$kind->{setup};\n" : '') . $plain_plans;
	$node->safe_psql('postgres', 'SET client_min_messages = warning; DROP SCHEMA IF EXISTS guarded, plain CASCADE; CREATE SCHEMA guarded; CREATE SCHEMA plain');
	my @guarded = run_statements($node, "$start SET search_path = guarded, public;
		$table $triggers CREATE INDEX ON t $index $some;
		SELECT FROM dedup_create('f', dedup_filter(1000, 0.5, $seed));
		SELECT FROM dedup_guard('t', 'f', ARRAY[$names], 'reject', exact => true$options);", @statements);
	my @unique = run_statements($node, "$start SET search_path = plain, public;
		$table $triggers CREATE UNIQUE INDEX ON t $index @{[ $kind->{nulls} || '' ]} $where;
		CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER nothing BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION nothing();", @statements);
	my %errors;
	foreach my $i (0 .. $#statements)
	{
		$errors{$1}++ if $unique[$i] =~ /^error (\w+)/;
		next if $guarded[$i] eq $unique[$i];
		fail("$kind->{name}, seed $seed: the guard says what UNIQUE says");
		diag("the guard:\n$guarded[$i]UNIQUE:\n$unique[$i]after:\n" . transaction_of($i, @statements));
		return;
	}
	my $errors = join(', ', map { "$errors{$_} of $_" } sort keys %errors);
	pass("$kind->{name}, seed $seed: the guard says what UNIQUE says ($errors)");
	is($node->safe_psql('postgres', "SELECT count(*) FROM dedup_check('guarded.f')"), '0', 'and its filter is whole');
	return;
}

foreach my $run (0 .. 2 * $runs - 1)
{
	beside_unique($_, $first_seed + $run) foreach @kinds;
}

# ---- against a model ----------------------------------------------------------

# The model: rows by id, {k, l, part, dup}; partitions by name, which are attached, detached
# or not there. A transaction or savepoint keeps copies.
my ($mode, %rows, %parts, @kept);

# The partitions: of a range that is hash-partitioned below, of ranges, one with other
# attribute numbers, and the default one, all by `part`.
my %bounds = (
	a => [ 0, 10 ],
	b => [ 10, 20 ],
	c => [ 20, 30 ],
	d => [ 30, 40 ]);

sub part_of
{
	my ($part) = @_;
	foreach my $name (keys %bounds)
	{
		return $name if $part >= $bounds{$name}[0] && $part < $bounds{$name}[1] && $parts{$name} eq 'attached';
	}
	return 'rest';
}

sub key_of
{
	my ($row) = @_;
	return defined $row->{k} && defined $row->{l} ? "$row->{k}, $row->{l}" : undef;
}

# Whether a row that counts, but for some, has the key.
sub is_taken
{
	my ($key, %but) = @_;
	return 0 if !defined $key;
	foreach my $id (keys %rows)
	{
		my $row = $rows{$id};
		next if $but{$id} || $row->{detached} || $row->{dup};
		my $other = key_of($row);
		return 1 if defined $other && $other eq $key;
	}
	return 0;
}

sub copy_of { my %copy = map { $_ => { %{ $_[0]{$_} } } } keys %{ $_[0] }; return \%copy }
sub keep { push @kept, [ copy_of(\%rows), {%parts} ]; return }
sub go_back { %rows = %{ copy_of($kept[-1][0]) }; %parts = %{ $kept[-1][1] }; return }

sub shown
{
	my ($row, $id) = @_;
	return join('|', $id, $row->{k} // '', $row->{l} // '', $row->{part}, $row->{dup} ? 't' : $mode eq 'mark' ? 'f' : '') . "\n";
}

sub all_rows
{
	return join('', map { shown($rows{$_}, $_) } sort { $a <=> $b } grep { !$rows{$_}{detached} } keys %rows);
}

sub error_of { return "error 23505 Key (k, l)=($_[0]) already exists.\n" }
sub sql_of { my ($value) = @_; return !defined $value ? 'NULL' : $value =~ /^\d+$/ ? $value : "'$value'" }

sub random_row
{
	return { k => chance(0.95) ? random(30) : undef, l => chance(0.95) ? any('x', 'y') : undef, part => random(50), dup => 0 };
}

# Inserts rows into the model. Returns what the statement says with RETURNING id.
sub insert_into_model
{
	my (@inserted) = @_;
	keep();
	my $said = '';
	foreach my $row (@inserted)
	{
		my $id = ++$next_id;
		my $key = key_of($row);
		if (is_taken($key))
		{
			next if $mode eq 'skip';
			if ($mode eq 'reject')
			{
				go_back();
				pop @kept;
				return error_of($key);
			}
			$row->{dup} = 1;
		}
		$rows{$id} = $row;
		$said .= "$id\n";
	}
	pop @kept;
	return $said;
}

# A statement and what it says.
sub model_statement
{
	my @ids = sort { $a <=> $b } grep { !$rows{$_}{detached} } keys %rows;
	my $id = @ids ? any(@ids) : 0;
	my $row = $rows{$id};
	my $what = random(100);
	if ($what < 30 || !$row)
	{
		my @inserted = map { random_row() } 0 .. (chance(0.5) ? 0 : random(5));
		my $at = $next_id;
		my $values = join(', ', map { '(' . join(', ', ++$at, sql_of($_->{k}), sql_of($_->{l}), $_->{part}) . ')' } @inserted);
		my $said = insert_into_model(@inserted);
		$next_id = $at;
		return ("INSERT INTO t (id, k, l, part) VALUES $values RETURNING id", $said);
	}
	if ($what < 36)
	{
		my @inserted = map { random_row() } 0 .. random(5);
		my $at = $next_id;
		my $lines = join('', map { join("\t", ++$at, $_->{k} // '\N', $_->{l} // '\N', $_->{part}) . "\n" } @inserted);
		my $said = insert_into_model(@inserted);
		$next_id = $at;
		return ("COPY t (id, k, l, part) FROM STDIN;\n$lines\\.\n", $said =~ /^error/ ? $said : '');
	}
	if ($what < 40)
	{
		# straight into a partition
		my $inserted = random_row();
		my $name = part_of($inserted->{part});
		my $at = $next_id + 1;
		my $sql = "INSERT INTO t_$name (id, k, l, part) VALUES ("
		  . join(', ', $at, sql_of($inserted->{k}), sql_of($inserted->{l}), $inserted->{part}) . ') RETURNING id';
		my $said = insert_into_model($inserted);
		$next_id = $at;
		return ($sql, $said);
	}
	if ($what < 52)
	{
		# another key, and perhaps another partition
		my $new = random_row();
		$new->{part} = $row->{part} if chance(0.5);
		my $sql = "UPDATE t SET k = @{[ sql_of($new->{k}) ]}, l = @{[ sql_of($new->{l}) ]}, part = $new->{part} WHERE id = $id";
		my $key = key_of($new);
		my $same = ($key // 'none') eq (key_of($row) // 'none');
		return ($sql, error_of($key)) if !$row->{dup} && !$same && is_taken($key, $id => 1);
		@$row{qw(k l part)} = @$new{qw(k l part)};
		return ($sql, '');
	}
	if ($what < 62)
	{
		# to other partitions
		my $by = 1 + random(49);
		my $some = 2 + random(4);
		foreach (grep { $_ % $some == 0 } @ids) { $rows{$_}{part} = ($rows{$_}{part} + $by) % 50 }
		return ("UPDATE t SET part = (part + $by) % 50 WHERE id % $some = 0", '');
	}
	if ($what < 70)
	{
		delete $rows{$id};
		return ("DELETE FROM t WHERE id = $id RETURNING id", "$id\n");
	}
	if ($what < 78)
	{
		my $some = 2 + random(4);
		delete @rows{ grep { $_ % $some == 0 } @ids };
		return ("DELETE FROM t WHERE id % $some = 0", '');
	}
	if ($what < 82)
	{
		# the same rows under other ids
		my $some = 2 + random(4);
		my $add = 100_000 + 1000 * ++$next_id;
		my @again = grep { $_ % $some == 0 } @ids;
		my @old = delete @rows{@again};
		# those that stay are marked, those whose keys were freed need not be
		my $at = $next_id;
		foreach my $i (0 .. $#again)
		{
			my $moved = { %{ $old[$i] }, dup => 0 };
			my $key = key_of($moved);
			if (is_taken($key))
			{
				# of two rows that were marked, or a marked one and its first
				next if $mode eq 'skip';
				$moved->{dup} = 1;
			}
			$rows{ $again[$i] + $add } = $moved;
		}
		$next_id = $at;
		return ("WITH d AS (DELETE FROM t WHERE id % $some = 0 RETURNING *) INSERT INTO t (id, k, l, part) SELECT id + $add, k, l, part FROM d ORDER BY id", '');
	}
	if ($what < 86 && $mode eq 'mark')
	{
		my $key = key_of($row);
		my $new = chance(0.5) ? 1 : 0;
		my $sql = 'UPDATE t SET is_dup = ' . ($new ? 'true' : 'false') . " WHERE id = $id";
		return ($sql, error_of($key)) if !$new && $row->{dup} && is_taken($key, $id => 1);
		$row->{dup} = $new;
		return ($sql, '');
	}
	if ($what < 89)
	{
		my ($name) = any(grep { $parts{$_} eq 'attached' } sort keys %parts);
		delete @rows{ grep { part_of($rows{$_}{part}) eq $name } @ids };
		return ("TRUNCATE t_$name", '');
	}
	my $name = any('b', 'c', 'd');
	if ($parts{$name} eq 'attached' && $what < 95)
	{
		my @inside = grep { part_of($rows{$_}{part}) eq $name } @ids;
		$parts{$name} = 'detached';
		$rows{$_}{detached} = $name foreach @inside;
		return ("ALTER TABLE t DETACH PARTITION t_$name", '');
	}
	# rows that went to the default partition meanwhile would be in the way
	if ($parts{$name} eq 'detached' && !grep { part_of($rows{$_}{part}) eq 'rest' && $rows{$_}{part} >= $bounds{$name}[0] && $rows{$_}{part} < $bounds{$name}[1] } @ids)
	{
		my $sql = "ALTER TABLE t ATTACH PARTITION t_$name FOR VALUES FROM ($bounds{$name}[0]) TO ($bounds{$name}[1])";
		my %seen;
		foreach my $detached (grep { ($rows{$_}{detached} // '') eq $name } sort { $a <=> $b } keys %rows)
		{
			my $key = key_of($rows{$detached});
			next if !defined $key || $rows{$detached}{dup};
			return ($sql, "error 23505 Key ... is duplicated.\n") if is_taken($key) || $seen{$key}++;
		}
		$parts{$name} = 'attached';
		delete $rows{$_}{detached} foreach grep { ($rows{$_}{detached} // '') eq $name } keys %rows;
		return ($sql, '');
	}
	if ($parts{$name} eq 'detached' && $what < 97)
	{
		delete @rows{ grep { ($rows{$_}{detached} // '') eq $name } keys %rows };
		return ("TRUNCATE t_$name", '');
	}
	return ("UPDATE t SET l = l WHERE id = $id", '');
}

# A script and what each statement says, with the rows that there are after it.
sub model_statements
{
	my (@sql, @said);
	%rows = ();
	%parts = map { $_ => 'attached' } 'a', 'b', 'c', 'd', 'rest';
	$next_id = 0;
	my $step = sub {
		my ($sql, $said) = @_;
		push @sql, $sql, 'SELECT id, k, l, part, is_dup FROM t ORDER BY id';
		push @said, $said, all_rows();
		return;
	};
	while (@sql < 2 * $statements)
	{
		if (chance(0.4))
		{
			$step->(model_statement());
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
		if (chance(0.7)) { $step->('COMMIT', '') }
		else
		{
			@kept = $kept[0];
			go_back();
			$step->('ROLLBACK', '');
		}
		@kept = ();
	}
	return (\@sql, \@said);
}

sub against_model
{
	my $seed;
	($mode, $seed) = @_;
	seed_random($seed);
	my ($sql, $expected) = model_statements();
	$node->safe_psql('postgres', 'SET client_min_messages = warning; DROP SCHEMA IF EXISTS parted CASCADE; CREATE SCHEMA parted');
	my $on_duplicate = $mode eq 'mark' ? 'mark:is_dup' : $mode;
	my @said = run_statements($node, "SET client_min_messages = error;
		SET search_path = parted, public;
		CREATE TABLE t (gone int, id int, l text, k int, part int, is_dup boolean) PARTITION BY RANGE (part);
		ALTER TABLE t DROP COLUMN gone;
		CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY HASH (k);
		CREATE TABLE t_a0 PARTITION OF t_a FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE t_a1 PARTITION OF t_a FOR VALUES WITH (MODULUS 2, REMAINDER 1);
		CREATE TABLE t_b PARTITION OF t FOR VALUES FROM (10) TO (20) PARTITION BY LIST (l);
		CREATE TABLE t_bx PARTITION OF t_b FOR VALUES IN ('x');
		CREATE TABLE t_by PARTITION OF t_b DEFAULT;
		CREATE TABLE t_c (is_dup boolean, x int, k int, y int, id int, part int, l text);
		ALTER TABLE t_c DROP COLUMN x, DROP COLUMN y;
		ALTER TABLE t ATTACH PARTITION t_c FOR VALUES FROM (20) TO (30);
		CREATE TABLE t_d PARTITION OF t FOR VALUES FROM (30) TO (40);
		CREATE TABLE t_rest PARTITION OF t DEFAULT;
		CREATE INDEX ON t (l, k);
		SELECT FROM dedup_create('f', dedup_filter(1000, 0.5, $seed));
		SELECT FROM dedup_guard('t', 'f', ARRAY['k', 'l'], '$on_duplicate', exact => true);", @$sql);
	my %errors;
	foreach my $i (0 .. $#$sql)
	{
		$errors{$1}++ if $expected->[$i] =~ /^error (\w+)/;
		# it says which, of several perhaps
		$said[$i] =~ s/Key \(k, l\)=\(.*\) is duplicated/Key ... is duplicated/;
		next if $said[$i] eq $expected->[$i];
		fail("$mode, seed $seed: partitions are as the model says");
		diag("the guard:\n$said[$i]the model:\n$expected->[$i]after:\n" . transaction_of($i, @$sql));
		return;
	}
	my $errors = join(', ', map { "$errors{$_} of $_" } sort keys %errors);
	my ($most, $marked) = (0, 0);
	foreach (@said)
	{
		my @rows = /^\d+\|/mg;
		$most = @rows if @rows > $most;
		$marked += /\|t$/m;
	}
	diag("most rows $most, marked $marked");
	pass("$mode, seed $seed: partitions are as the model says ($errors)");
	is($node->safe_psql('postgres', "SELECT count(*) FROM dedup_check('parted.f')"), '0', 'and its filter is whole');
	return;
}

foreach my $run (0 .. 2 * $runs - 1)
{
	against_model($_, $first_seed + $run) foreach 'skip', 'reject', 'mark';
}

$node->stop;
done_testing();
