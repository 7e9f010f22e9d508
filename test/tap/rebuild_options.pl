# dedup_rebuild() again and again, while sessions write, under guards with everything at once:
# times, a predicate, an expression, NULL as a value, tables that inherit; one guard is exact, one
# forgets and diverts. The table itself is the oracle: before each statement on keys of its own a
# session looks which rows it has, and knows so what becomes of the statement.
#
# REBUILD_RUNS multiplies the rebuilds.
#
# Then: tables that become children, and cease to be, while a rebuild is under way; and whose
# rows have come and gone, entered and left the predicate meanwhile.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run ();
use LiveFilter;
use Test::More;

my $rebuilds = 8 * ($ENV{REBUILD_RUNS} || 1);
my $sessions = 3;
my @sizes = ('dedup_window(30000, 1e-6)', 'dedup_window(9000, 1e-4)');

my $node = start_node('main', settings => ['deadlock_timeout = 100ms']);

# ---- what the sessions do ----------------------------------------------------

# Keys of session s are "s-1" to "s-60", in letters of both cases; shared ones "x-1" to "x-40", and
# NULL. A window lasts 7 days. Times are exact ones anywhere in 40 days for the exact guard. For the
# one that forgets they are in the window by far, or out of it.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE control (done boolean);
	INSERT INTO control VALUES (false);
	CREATE FUNCTION some_time(exact boolean) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
		SELECT now() - CASE WHEN exact THEN interval '40 days' * random()
			WHEN random() < 0.7 THEN interval '3 days' * random() ELSE interval '20 days' + interval '20 days' * random() END $$;
	CREATE FUNCTION some_case(k text) RETURNS text LANGUAGE sql VOLATILE AS $$
		SELECT CASE WHEN random() < 0.5 THEN k ELSE upper(k) END $$;
	-- whether a row of a table, other than one, keeps another one out
	CREATE FUNCTION is_taken(t regclass, key text, moment timestamptz, exact boolean, self int DEFAULT -1) RETURNS boolean LANGUAGE plpgsql AS $$
	DECLARE
		taken boolean;
	BEGIN
		EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE lower(k) = lower($1) AND NOT deleted AND id <> $4 AND
			CASE WHEN $3 THEN at > $2 - interval ''7 days'' AND at < $2 + interval ''7 days''
				ELSE at > now() - interval ''10 days'' AND $2 > now() - interval ''10 days'' END)', t)
			USING key, moment, exact, self INTO taken;
		RETURN taken;
	END $$;
	CREATE SEQUENCE ids;
	CREATE PROCEDURE work(t regclass, s int, exact boolean) LANGUAGE plpgsql AS $$
	DECLARE
		key text;
		moment timestamptz;
		landed int;
		op int;
		i int := 0;
		r record;
		into_table text;
	BEGIN
		PERFORM setseed(s / 100.0);
		WHILE i < 50 OR NOT (SELECT done FROM control) LOOP
			i := i + 1;
			key := some_case(s || '-k' || 1 + floor(random() * 60));
			moment := some_time(exact);
			into_table := t || CASE WHEN random() < 0.4 THEN '_child' ELSE '_other' END;
			op := floor(random() * 9);
			r := NULL;
			EXECUTE format('SELECT * FROM %s WHERE k LIKE $1 OR k LIKE upper($1) ORDER BY random() LIMIT 1', t) USING s || '-k%' INTO r;
			IF op < 3 THEN
				landed := (NOT is_taken(t, key, moment, exact))::int;
				EXECUTE format('INSERT INTO %s VALUES (nextval(''ids''), $1, false, $2)', into_table) USING key, moment;
				-- a table with a divert guard has kept it elsewhere
				IF is_taken(t, key, moment, true) <> true AND moment > now() - interval '5 days' THEN
					RAISE EXCEPTION 'key % of session %: nothing landed', key, s;
				END IF;
				EXECUTE format('SELECT count(*) FROM %s WHERE id = currval(''ids'')', t) INTO op;
				IF op <> landed THEN
					RAISE EXCEPTION 'key % at % of session %: % rows landed', key, moment, s, op;
				END IF;
			ELSIF op = 3 AND r.id IS NOT NULL THEN
				EXECUTE format('DELETE FROM %s WHERE id = $1', t) USING r.id;
			ELSIF op = 4 AND r.id IS NOT NULL THEN
				-- out of the predicate, or back into it
				IF NOT r.deleted OR NOT is_taken(t, r.k, r.at, exact) THEN
					EXECUTE format('UPDATE %s SET deleted = NOT deleted WHERE id = $1', t) USING r.id;
				END IF;
			ELSIF op = 5 AND r.id IS NOT NULL THEN
				IF r.deleted OR NOT is_taken(t, key, r.at, exact) THEN
					EXECUTE format('UPDATE %s SET k = $2 WHERE id = $1', t) USING r.id, key;
				END IF;
			ELSIF op = 6 AND r.id IS NOT NULL AND exact THEN
				IF r.deleted OR NOT is_taken(t, r.k, moment, exact, r.id) THEN
					EXECUTE format('UPDATE %s SET at = $2 WHERE id = $1', t) USING r.id, moment;
				END IF;
			ELSIF op = 7 THEN
				EXECUTE format('INSERT INTO %s VALUES (nextval(''ids''), $1, false, $2)', into_table)
					USING CASE WHEN random() < 0.9 THEN some_case('x-k' || 1 + floor(random() * 40)) END, moment;
			ELSIF op = 8 THEN
				EXECUTE format('DELETE FROM %s WHERE lower(k) IS NOT DISTINCT FROM $1', t)
					USING CASE WHEN random() < 0.9 THEN 'x-k' || 1 + floor(random() * 40) END;
			END IF;
			IF i % 3 = 0 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END $$;
});

# Runs the sessions on a table until the filter was rebuilt often enough.
sub work_beside_rebuilds
{
	my ($table, $exact) = @_;
	my (@working, @said);
	$node->safe_psql('postgres', 'UPDATE control SET done = false');
	foreach my $s (1 .. $sessions)
	{
		push @said, '';
		push @working,
		  IPC::Run::start(
			[ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', "CALL work('$table', $s, $exact)" ],
			'<', \undef, '>', \my $out, '2>', \$said[-1]);
	}
	foreach my $i (1 .. $rebuilds)
	{
		is(messages($node, 'postgres', "SET client_min_messages = error; SELECT dedup_rebuild('${table}_seen', $sizes[$i % 2])"),
			'', "$table: rebuild $i");
		$node->safe_psql('postgres', "VACUUM ${table}_child, ${table}_other") if $i % 3 == 0;
	}
	$node->safe_psql('postgres', 'UPDATE control SET done = true');
	$_->finish foreach @working;
	is($said[$_], '', "$table: session $_ had no error") foreach 0 .. $#said;
	return;
}

# What must hold when nobody works any more.
sub check
{
	my ($table, $exact, $what) = @_;
	$what = $what ? "$table, $what" : $table;
	my $near = $exact eq 'true' ? q{a.at > b.at - interval '7 days' AND a.at < b.at + interval '7 days'}
	  : q{least(a.at, b.at) > now() - interval '10 days'};
	is($node->safe_psql('postgres', "SELECT a.k FROM $table a JOIN $table b ON a.id < b.id AND lower(a.k) IS NOT DISTINCT FROM lower(b.k) AND NOT a.deleted AND NOT b.deleted AND $near"),
		'', "$what: no duplicate");
	is($node->safe_psql('postgres', "SELECT k FROM $table WHERE NOT deleted AND k IS NOT NULL AND at > now() - interval '5 days' AND NOT dedup_seen('${table}_seen', lower(k))"),
		'', "$what: no key is missing");
	is($node->safe_psql('postgres', "BEGIN; WITH again AS (INSERT INTO ${table}_child SELECT 0, k, deleted, at FROM $table WHERE NOT deleted AND ($exact OR at > now() - interval '5 days') RETURNING k) SELECT count(*) FROM again; ROLLBACK"),
		'0', "$what: each key is refused");
	is($node->safe_psql('postgres', qq{
		CREATE TEMP TABLE others AS SELECT 's-k' || i AS k, now() - interval '1 day' * j AS at FROM generate_series(0, 0) j, generate_series(1, 10) i
			UNION ALL SELECT s || '-k' || i, now() - interval '1 day' * j FROM (VALUES (1), (2), (3)) v(s), generate_series(1, 60) i, generate_series(0, 3) j
			UNION ALL SELECT 'x-k' || i, now() - interval '1 day' * j FROM generate_series(1, 40) i, generate_series(0, 3) j;
		DELETE FROM others WHERE is_taken('$table', k, at, $exact);
		DELETE FROM others o USING others p WHERE o.k = p.k AND o.at < p.at;
		BEGIN;
		WITH landed AS (INSERT INTO ${table}_child SELECT 0, k, false, at FROM others RETURNING k)
			SELECT k FROM others WHERE k NOT IN (SELECT k FROM landed);
		ROLLBACK}),
		'', "$what: each other key lands");
	no_bad_pages($node, "${table}_seen", $what);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_temp_%'"), '0', "$what: nothing is left behind");
	return;
}

my $columns = 'id int, k text, deleted boolean, at timestamptz';

# ---- exact --------------------------------------------------------------------

$node->safe_psql(
	'postgres', qq{
	CREATE TABLE t ($columns);
	CREATE TABLE t_child (CHECK (true)) INHERITS (t);
	CREATE TABLE t_other (note text) INHERITS (t);
	CREATE INDEX ON t_other (lower(k));
	CREATE INDEX ON t (lower(k));
	CREATE INDEX ON t_child (lower(k));
	INSERT INTO t_other SELECT 1000000 + i, 'old-k' || i, i % 2 = 0, now() - interval '40 days' * (i / 5000.0) FROM generate_series(1, 5000) i;
	SELECT dedup_create('t_seen', dedup_window(30000, 1e-6, 42), '7 days');
	SELECT dedup_guard('t', 't_seen', ARRAY['lower(k)'], exact => true, at => 'at', "where" => 'NOT deleted', nulls_not_distinct => true);
});
work_beside_rebuilds('t', 'true');
check('t', 'true');

# ---- forgetting, diverting ----------------------------------------------------------

$node->safe_psql(
	'postgres', qq{
	CREATE TABLE f ($columns);
	CREATE TABLE f_child (CHECK (true)) INHERITS (f);
	CREATE TABLE f_other (note text) INHERITS (f);
	INSERT INTO f_other SELECT 1000000 + i, 'old-k' || i, i % 2 = 0, now() - interval '40 days' * (i / 5000.0) FROM generate_series(1, 5000) i;
	SELECT dedup_create('f_seen', dedup_window(30000, 1e-6, 42), '7 days');
	SELECT dedup_guard('f', 'f_seen', ARRAY['lower(k)'], 'divert', load => true, at => 'at', "where" => 'NOT deleted', nulls_not_distinct => true, on_delete => 'forget');
});
work_beside_rebuilds('f', 'false');
check('f', 'false');

done_testing();
