# Exact guards against UNIQUE indexes, by random statements with fixed seeds. guard_model.pl has
# another oracle, which knows partitions, modes and the other guards.
#
# A table with an exact guard in mode reject, and one with a UNIQUE index of the same elements
# and the same predicate, are given the same statements. After each of them both must have
# said the same (SQLSTATE, DETAIL, what RETURNING gave) and must have the same rows. Each runs
# with nobody beside it and by sequential scans only, so both process their rows in the
# same order; a BEFORE trigger that does nothing makes the UNIQUE one's COPY insert row by
# row, as the guard's does. Every second run has triggers, before the guard's and after it,
# that change keys, leave rows out, and insert rows themselves.
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

$node->stop;
done_testing();
