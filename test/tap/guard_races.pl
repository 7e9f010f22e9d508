# Sessions that write beside each other under guards of each kind and mode, at random over few
# keys. Triggers write down when a key came into the table and when it left it, in the same
# transaction; the server says when that committed. Of this history must be true:
#
#   - An exact guard, and one that forgets: of two rows with a key one left, committed, before
#     the other's transaction committed. At no time two rows had it.
#   - A guard that keeps keys: a key came once, or again in a transaction that it left in before.
#   - A row that was refused had a witness: a row with its key that was there at some time while
#     the statement ran; or, where keys are kept, before. Not where keys are forgotten: one may
#     stay taken that two transactions had in hand at once.
#
# GUARD_RACES_RUNS multiplies the runs, and GUARD_RACES_SEED begins with other numbers. What
# happens depends on the timing, too.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $runs = $ENV{GUARD_RACES_RUNS} || 1;
my $first_seed = $ENV{GUARD_RACES_SEED} || 1;
my $sessions = 4;
my $steps = 200;

my $node = start_node('main', settings => [ 'fsync = off', 'track_commit_timestamp = on', "deadlock_timeout = '20ms'" ]);
my $server_version = $node->safe_psql('postgres', 'SHOW server_version_num');

$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA race;
	SET search_path = race, public;
	CREATE TABLE history (n bigserial, xid xid8 DEFAULT pg_current_xact_id(), at timestamptz DEFAULT clock_timestamp(), id int, key text, time timestamptz, comes boolean);
	CREATE TABLE refused (xid xid8 DEFAULT pg_current_xact_id(), started timestamptz, ended timestamptz DEFAULT clock_timestamp(), id int, key text, time timestamptz);
	CREATE TABLE settings ("where" boolean, elements boolean, nulls boolean, at boolean);
	CREATE SEQUENCE ids;

	-- The key of a row as the guard has it, or NULL. And whether two rows are near enough in time.
	CREATE FUNCTION is_near(a timestamptz, b timestamptz) RETURNS boolean LANGUAGE sql AS $$
		SELECT NOT at OR greatest(a - b, b - a) < interval '5 hours' FROM settings
	$$;
	CREATE FUNCTION key_of(k int, l text, d boolean, dup boolean, moment timestamptz) RETURNS text LANGUAGE sql AS $$
		SELECT CASE
			WHEN dup OR ("where" AND d) OR (at AND moment IS NULL) THEN NULL
			WHEN nulls THEN coalesce(x::text, 'null') || ',' || coalesce(y, 'null')
			ELSE x::text || ',' || y END
		FROM settings, LATERAL (SELECT CASE WHEN elements THEN k % 10 ELSE k END, CASE WHEN elements THEN lower(l) ELSE l END) e (x, y)
	$$;

	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		before text;
		after text;
	BEGIN
		IF TG_OP <> 'INSERT' THEN before := key_of(OLD.k, OLD.l, OLD.d, OLD.is_dup, OLD.at); END IF;
		IF TG_OP <> 'DELETE' THEN after := key_of(NEW.k, NEW.l, NEW.d, NEW.is_dup, NEW.at); END IF;
		IF before IS NOT DISTINCT FROM after AND OLD.at IS NOT DISTINCT FROM NEW.at THEN RETURN NULL; END IF;
		IF before IS NOT NULL THEN INSERT INTO history (id, key, time, comes) VALUES (OLD.id, before, OLD.at, false); END IF;
		IF after IS NOT NULL THEN INSERT INTO history (id, key, time, comes) VALUES (NEW.id, after, NEW.at, true); END IF;
		RETURN NULL;
	END $$;

	-- One statement, or a row that is deleted and inserted again. What is refused is written down.
	CREATE PROCEDURE step(mode text) LANGUAGE plpgsql AS $$
	DECLARE
		what float8 := random();
		new t_row;
		one int;
		landed int;
		started timestamptz := clock_timestamp();
	BEGIN
		new := (CASE WHEN random() < 0.95 THEN floor(random() * 15) END, CASE WHEN random() < 0.95 THEN (ARRAY['x', 'x', 'X'])[1 + floor(random() * 3)] END,
			random() < 0.15, floor(random() * 30), NULL, CASE WHEN random() < 0.95 THEN date_trunc('hour', now()) + floor(random() * 24 - 20) * interval '1 hour' END);
		SELECT id INTO one FROM t ORDER BY random() LIMIT 1;
		IF what < 0.45 THEN
			new.id := nextval('ids');
			INSERT INTO t (id, k, l, d, part, at) VALUES (new.id, new.k, new.l, new.d, new.part, new.at);
			GET DIAGNOSTICS landed = ROW_COUNT;
			IF landed = 0 THEN
				INSERT INTO refused (started, id, key, time) VALUES (started, new.id, key_of(new.k, new.l, new.d, false, new.at), new.at);
			END IF;
		ELSIF what < 0.5 THEN
			INSERT INTO t (id, k, l, d, part, at) SELECT nextval('ids'), new.k + g, new.l, new.d, new.part, new.at FROM generate_series(0, 3) g;
		ELSIF what < 0.6 THEN
			UPDATE t SET k = new.k, l = new.l, part = new.part WHERE id = one;
		ELSIF what < 0.63 THEN
			UPDATE t SET d = NOT d WHERE id = one;
		ELSIF what < 0.66 THEN
			UPDATE t SET at = new.at WHERE id = one;
		ELSIF what < 0.75 THEN
			UPDATE t SET part = new.part WHERE id = one;
		ELSIF what < 0.8 AND mode = 'exact mark' THEN
			UPDATE t SET is_dup = NOT is_dup WHERE id = one;
		ELSIF what < 0.85 THEN
			WITH x AS (DELETE FROM t WHERE id = one RETURNING *) INSERT INTO t (id, k, l, d, part, at) SELECT nextval('ids'), k, l, d, new.part, at FROM x;
		ELSIF what < 0.9 THEN
			DELETE FROM t WHERE id % 7 = one % 7 AND id > one - 20;
		ELSE
			DELETE FROM t WHERE id = one;
		END IF;
	EXCEPTION WHEN unique_violation THEN
		-- what an UPDATE has met in the row, and which of several rows was refused, is not known
		IF what < 0.45 THEN
			INSERT INTO refused (started, id, key, time) VALUES (started, new.id, key_of(new.k, new.l, new.d, false, new.at), new.at);
		END IF;
	WHEN serialization_failure OR deadlock_detected THEN
		NULL;
	END $$;

	CREATE PROCEDURE work(seed float8, steps int, mode text) LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM setseed(seed);
		FOR i IN 1 .. steps LOOP
			IF random() < 0.1 THEN
				-- some that are undone, and what was refused then with them
				BEGIN
					CALL step(mode);
					CALL step(mode);
					IF random() < 0.5 THEN RAISE EXCEPTION 'undone' USING ERRCODE = 'U0000'; END IF;
				EXCEPTION WHEN SQLSTATE 'U0000' THEN NULL;
				END;
			ELSE
				CALL step(mode);
			END IF;
			IF random() < 0.5 THEN
				PERFORM set_config('default_transaction_isolation', (ARRAY['read committed', 'read committed', 'repeatable read'])[1 + floor(random() * 3)], false);
				IF random() < 0.8 THEN COMMIT; ELSE ROLLBACK; END IF;
			END IF;
		END LOOP;
		COMMIT;
	END $$;
	} =~ s/\bt_row\b/race.new_row/r =~ s/(CREATE SEQUENCE ids;)/$1 CREATE TYPE new_row AS (k int, l text, d boolean, part int, id int, at timestamptz);/r);

# What is wrong with the history, or nothing.
my $times = q{
	CREATE TEMP TABLE lives AS
	SELECT c.id, c.key, c.time, c.n, c.at AS came, pg_xact_commit_timestamp(c.xid::xid) AS from_time, g.xid AS xid_gone, g.at AS went,
		CASE WHEN g.xid IS NULL THEN 'infinity' ELSE pg_xact_commit_timestamp(g.xid::xid) END AS to_time
	FROM history c LEFT JOIN LATERAL (SELECT * FROM history g WHERE g.id = c.id AND g.key = c.key AND g.time IS NOT DISTINCT FROM c.time AND NOT g.comes AND g.n > c.n ORDER BY g.n LIMIT 1) g ON true
	WHERE c.comes;
};
my %wrong = (
	twice => q{SELECT count(*) FROM (SELECT id, key_of(k, l, d, is_dup, at) AS key, at FROM t) a JOIN (SELECT id, key_of(k, l, d, is_dup, at) AS key, at FROM t) b USING (key)
		WHERE a.id < b.id AND is_near(a.at, b.at)},
	overlaps => q{SELECT count(*) FROM lives a JOIN lives b USING (key) WHERE a.n < b.n AND a.from_time < b.to_time AND b.from_time < a.to_time
		AND is_near(a.time, b.time)},
	again => q{SELECT count(*) FROM (SELECT sum(greatest(balance, 0)) AS times FROM
		(SELECT key, sum(CASE WHEN comes THEN 1 ELSE -1 END) AS balance FROM history GROUP BY key, xid) x GROUP BY key) y WHERE times > 1},
	'no witness' => q{SELECT count(*) FROM refused r WHERE r.key IS NULL OR NOT EXISTS (SELECT FROM lives l WHERE l.key = r.key AND is_near(l.time, r.time) AND l.came <= r.ended
		AND (l.xid_gone IS NULL OR (l.xid_gone = r.xid AND l.went >= r.started) OR (l.xid_gone <> r.xid AND l.to_time >= r.started)))},
	'never there' => q{SELECT count(*) FROM refused r WHERE r.key IS NULL OR NOT EXISTS (SELECT FROM lives l WHERE l.key = r.key AND l.came <= r.ended)});

sub race
{
	my ($kind, $mode, $seed, @options) = @_;
	my $name = join(' ', $kind, $mode, @options) . ", seed $seed";
	my %option = map { $_ => 1 } @options;
	my $elements = $option{elements};
	my $with = { exact => ', exact => true', keeping => '', forgetting => ", on_delete => 'forget'" }->{$kind}
	  . ($option{where} ? ', "where" => \'NOT d\'' : '') . ($option{nulls} ? ', nulls_not_distinct => true' : '') . ($option{at} ? ", at => 'at'" : '');
	my $filter = $kind eq 'exact' ? "dedup_filter(1000, 0.5, $seed)" : "dedup_filter(100000, 0.0000001, $seed)";
	$filter .= ", ttl => '5 hours'" if $option{at};
	$node->safe_psql(
		'postgres', qq{
		SET client_min_messages = error;
		SET search_path = race, public;
		DROP TABLE IF EXISTS t, f;
		CREATE TABLE t (id int, k int, l text, d boolean NOT NULL, part int, is_dup boolean NOT NULL DEFAULT false, at timestamptz) PARTITION BY RANGE (part);
		CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
		CREATE TABLE t2 (part int, gone int, is_dup boolean NOT NULL DEFAULT false, d boolean NOT NULL, l text, at timestamptz, k int, id int);
		ALTER TABLE t2 DROP COLUMN gone;
		ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20);
		CREATE TABLE t3 PARTITION OF t DEFAULT;
		CREATE INDEX ON t (} . ($elements ? '(k % 10), lower(l)' : 'k, l') . qq{);
		CREATE INDEX ON t (id);
		CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
		TRUNCATE history, refused, settings;
		INSERT INTO settings VALUES (@{[ join(', ', map { $option{$_} ? 'true' : 'false' } 'where', 'elements', 'nulls', 'at') ]});
		SELECT dedup_create('f', $filter);
		SELECT dedup_guard('t', 'f', @{[ $elements ? q(ARRAY['k % 10', 'lower(l)']) : q('{k, l}') ]}, '@{[ $mode eq 'mark' ? 'mark:is_dup' : $mode ]}'$with);
	});
	my @psql;
	my @out = ('') x ($sessions + 1);
	foreach my $i (0 .. $sessions)
	{
		my $work = 'CALL work(' . (($seed * 7 + $i) % 100) / 100 . ", $steps, '$kind $mode')";
		my @commands = $i < $sessions ? $work : map { ("VACUUM $_", 'SELECT pg_sleep(0.01)') } ('t', 'f') x 5;
		push @psql, IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . " options='-csearch_path=race,public -cclient_min_messages=error'", map { ('-c', $_) } @commands ],
			'<', \undef, '>', \my $nothing, '2>', \$out[$i]);
	}
	$_->finish foreach @psql;
	is(join('', @out), '', "$name: all sessions have come to their end");
	my @checks = $kind eq 'keeping' ? ('again', 'never there') : ('twice', 'overlaps', $kind eq 'exact' ? 'no witness' : ());
	push @checks, 'twice' if $kind eq 'keeping';
	my $said = $node->safe_psql('postgres', "SET search_path = race, public; $times" . join(';', map { $wrong{$_} } @checks)
		  . "; SELECT count(*) FROM dedup_check('f'); SELECT count(*) > 0 FROM history");
	is($said, "0\n" x (@checks + 1) . 't', "$name: " . join(', ', map { "none $_" } @checks) . ', filter whole');
	diag("$name: " . $node->safe_psql('postgres', 'SET search_path = race, public; SELECT count(*) FILTER (WHERE comes), count(*) FILTER (WHERE NOT comes), (SELECT count(*) FROM refused), (SELECT count(*) FROM t) FROM history')
		  . ' came, went, refused, are there');
	return;
}

my @all_options = ('where', 'elements', $server_version >= 150000 ? 'nulls' : ());
foreach my $seed (map { $first_seed + $_ } 0 .. $runs - 1)
{
	foreach my $kind ('exact', 'keeping', 'forgetting')
	{
		foreach my $mode ('skip', 'reject', 'mark')
		{
			race($kind, $mode, $seed, $mode eq 'reject' || $seed % 2 == 0 ? @all_options : $all_options[ $seed % @all_options ]);
			race($kind, $mode, $seed, 'at', $mode eq 'skip' ? @all_options : ()) if $kind eq 'exact';
		}
	}
}

$node->stop;
done_testing();
