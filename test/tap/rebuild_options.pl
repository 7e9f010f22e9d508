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
use LiveFilter;
use Test::More;

my $rebuilds = 6 * ($ENV{REBUILD_RUNS} || 1);
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
	rebuild_beside_sessions(
		$node, $table,
		commands => [ map { "CALL work('$table', $_, $exact)" } 1 .. $sessions ],
		rebuilds => $rebuilds,
		sizes => \@sizes,
		tables => "${table}_child, ${table}_other");
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

# ---- while a rebuild waits -----------------------------------------------------------

# Starts a rebuild, which waits for a session that uses the filter; then others work.
my $asks = live_session($node);
my $rebuilder = live_session($node);
my $blocked = live_session($node);

sub rebuild_beside
{
	my ($filter, $work, $work_that_waits) = @_;
	$asks->query("BEGIN; SELECT dedup_seen('$filter', 'none')");
	$rebuilder->send("SELECT dedup_rebuild('$filter')");
	ok($rebuilder->waits, "$filter: the rebuild waits");
	$node->safe_psql('postgres', $work);
	if ($work_that_waits)
	{
		$blocked->send($work_that_waits);
		ok($blocked->waits, "$filter: some work waits");
	}
	$asks->query('COMMIT');
	is($rebuilder->wait, '', "$filter: rebuilt");
	is($blocked->wait, '', "$filter: the work that waited is done") if $work_that_waits;
	return;
}

foreach my $table ('t', 'f')
{
	my $exact = $table eq 't' ? 'true' : 'false';
	$node->safe_psql('postgres', qq{
		CREATE TABLE ${table}_leaves () INHERITS ($table);
		INSERT INTO ${table}_leaves SELECT 2000000 + i, 'leaves-k' || i, false, now() FROM generate_series(1, 100) i;
		INSERT INTO ${table}_child SELECT 2000000 + i, 'turns-k' || i, i % 2 = 0, now() FROM generate_series(1, 100) i;
	});
	rebuild_beside("${table}_seen", qq{
		SET client_min_messages = error;
		CREATE TABLE ${table}_new (more text) INHERITS ($table);
		INSERT INTO ${table}_new SELECT 2000000 + i, 'new-k' || i, false, now() FROM generate_series(1, 100) i;
		DELETE FROM ${table}_new WHERE id > 2000050;
		CREATE TABLE ${table}_attached (LIKE $table);
		INSERT INTO ${table}_attached SELECT 2000000 + i, 'attached-k' || i, false, now() FROM generate_series(1, 100) i;
		CREATE INDEX ON ${table}_attached (lower(k));
		ALTER TABLE ${table}_attached INHERIT $table;
		UPDATE $table SET deleted = NOT deleted WHERE k LIKE 'turns-%';
	}, "SET client_min_messages = error; ALTER TABLE ${table}_leaves NO INHERIT $table");
	# An exact guard's filter keeps keys of rows that have gone.
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE k ~ '^(new|attached|turns)-' AND dedup_seen('${table}_seen', lower(k)) <> NOT deleted AND NOT ($exact AND deleted)"),
		'0', "$table: the keys of new tables and of rows that entered or left the predicate");
	is($node->safe_psql('postgres', "SELECT count(*) FROM generate_series(51, 100) i WHERE dedup_seen('${table}_seen', 'new-k' || i)"), '0', "$table: and no other")
	  if $table eq 'f';
	check($table, $exact, 'beside tables that come and go');
}

# In a window of time a key has the generation of the newest row that is left.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE y (id int, k text, at timestamptz);
	INSERT INTO y VALUES (1, 'older stays', now() - interval '6 days'), (2, 'older stays', now()),
		(3, 'newer stays', now() - interval '6 days'), (4, 'newer stays', now()),
		(5, 'both go', now() - interval '3 days'), (6, 'both go', now()),
		(7, 'newer comes', now() - interval '6 days'), (8, 'no time goes', NULL),
		(9, 'one without time stays', NULL), (10, 'one without time stays', NULL),
		(11, 'of the future goes', now() + interval '9 days'), (12, 'of the future goes', now() - interval '6 days'),
		(13, 'too old goes', now() - interval '60 days'), (14, 'too old goes', now()),
		(15, 'moves', now()), (16, 'goes and comes', now() - interval '1 day');
	SET client_min_messages = error;
	SELECT dedup_create('y_seen', dedup_window(3000, 1e-6, 42), '7 days');
	SELECT dedup_guard('y', 'y_seen', '{k}', load => true, at => 'at', on_delete => 'forget');
});
rebuild_beside('y_seen', q{
	DELETE FROM y WHERE id IN (2, 3, 5, 6, 8, 10, 11, 13, 16);
	SET session_replication_role = replica;
	INSERT INTO y VALUES (20, 'newer comes', now()), (21, 'too old comes', now() - interval '60 days'), (22, 'without time comes', NULL), (16, 'goes and comes', now() - interval '6 days');
	UPDATE y SET k = 'moved' WHERE k = 'moves';
});
is($node->safe_psql('postgres', q{SELECT string_agg(k, ', ' ORDER BY k) FROM (VALUES ('older stays'), ('newer stays'), ('both go'), ('newer comes'), ('no time goes'), ('one without time stays'),
		('of the future goes'), ('too old goes'), ('moves'), ('moved'), ('too old comes'), ('without time comes'), ('goes and comes')) v(k) WHERE dedup_seen('y_seen', k)}),
	'goes and comes, moved, newer comes, newer stays, of the future goes, older stays, one without time stays, too old goes, without time comes', 'keys of rows that are left');
is($node->safe_psql('postgres', q{SET client_min_messages = error; SELECT string_agg(k, ', ' ORDER BY k) FROM (SELECT DISTINCT k FROM y) y WHERE NOT is_new_at('y_seen', now() + interval '4 days', k)}),
	'moved, newer comes, newer stays, one without time stays, too old goes, without time comes', 'and four days on');
no_bad_pages($node, 'y_seen', 'y');

done_testing();
