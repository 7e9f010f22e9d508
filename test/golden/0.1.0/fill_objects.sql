-- Live filters of every kind and guards of every kind, with few keys. make.sh writes them into
-- dump.sql and pages.tar.gz, which later versions must read. Each statement is a transaction, if
-- nothing else is said. No filter is overfull: how a page of such a filter is stored may change.
SET client_min_messages = error;
SET timezone = 'UTC';

-- Which keys a filter must have.
CREATE TABLE live (name text PRIMARY KEY, timed boolean);
CREATE TABLE said (name text, k int, seen boolean, PRIMARY KEY (name, k));

SELECT dedup_create('set_12', dedup_filter(1500, 0.01, 41)), dedup_create('set_2', dedup_filter(1200, 0.0005, 42)),
	dedup_create('set_4', dedup_filter(900, 0.000001, 43)), dedup_create('sip', dedup_method('bloom', NULL, 'keys=1200 fpr=0.01 hash=sip', 44)),
	dedup_create('last_keys', dedup_window(1200, 0.001, 45)), dedup_create('chained', dedup_filter(1500, 0.01, 46)),
	dedup_create('grows', dedup_filter(NULL, 0.0001, 47)), dedup_create('grows_12', dedup_filter(NULL, 0.01, 48)),
	dedup_create('no_wal', dedup_filter(500, 0.01, 49), unlogged => true), dedup_create('empty', dedup_filter(500, 0.01, 50));
SELECT dedup_create('day', dedup_window(1200, 0.001, 51), ttl => '1 day'), dedup_create('day_5', dedup_window(800, 0.00001, 52), ttl => '1 day'),
	dedup_create('renewed', dedup_window(1200, 0.001, 53), ttl => '1 day', renew => true),
	dedup_create('grows_day', dedup_filter(NULL, 0.0001, 54), ttl => '1 day'),
	dedup_create('grows_renewed', dedup_filter(NULL, 0.01, 55), ttl => '1 day', renew => true);
INSERT INTO live SELECT unnest('{set_12,set_2,set_4,sip,last_keys,chained,grows,grows_12,no_wal,empty}'::text[]), false;
INSERT INTO live SELECT unnest('{day,day_5,renewed,grows_day,grows_renewed}'::text[]), true;

-- Adds keys to all filters. The time of an event is the minute of its number, from a fixed day on:
-- so the answers do not depend on the clock.
CREATE FUNCTION at(k int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT '2025-01-01 00:00+00'::timestamptz + k * interval '1 minute' $$;
CREATE FUNCTION add(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM CASE WHEN timed THEN is_new_at(name::regclass, at(k), k) ELSE is_new(name::regclass, k) END
	FROM live, generate_series(first, last) k WHERE name <> 'empty';
END $$;

-- Days before: they have expired, at the latest for the last key.
SELECT count(is_new_at(name::regclass, '2024-12-20 00:00+00', k)) FROM live, generate_series(-50, -1) k WHERE timed;
INSERT INTO said SELECT name, k, false FROM live, generate_series(-50, -1) k;
-- Keys in lines, after VACUUM.
SELECT add(1, 600);
-- So many that the filters which grow have split pages.
SELECT count(CASE WHEN timed THEN is_new_at(name::regclass, at(600), k) ELSE is_new(name::regclass, k) END)
FROM live, generate_series(2001, 4000) k WHERE name IN ('grows', 'grows_12', 'grows_day');
INSERT INTO said SELECT name, k, true FROM unnest('{grows,grows_12,grows_day}'::text[]) name, generate_series(2001, 4000) k;
VACUUM (FREEZE) set_12, set_2, set_4, sip, last_keys, chained, grows, grows_12, no_wal, day, day_5, renewed, grows_day, grows_renewed;
INSERT INTO said SELECT name, k, name <> 'empty' FROM live, generate_series(1, 600) k;
-- Keys whose transaction has committed, and one that has not.
SELECT add(601, 640);
INSERT INTO said SELECT name, k, name <> 'empty' FROM live, generate_series(601, 640) k;
BEGIN;
SELECT add(641, 660);
ROLLBACK;
INSERT INTO said SELECT name, k, false FROM live, generate_series(641, 660) k;
BEGIN;
SELECT add(661, 670);
SAVEPOINT s;
SELECT add(671, 680);
ROLLBACK TO s;
SELECT add(681, 690);
COMMIT;
INSERT INTO said SELECT name, k, name <> 'empty' AND k NOT BETWEEN 671 AND 680 FROM live, generate_series(661, 690) k;
-- Keys that are forgotten, from lines and from entries, and some of which the forgetting is rolled
-- back. (A key of a day in the past cannot be: it has expired by the clock.)
SELECT count(dedup_forget(name::regclass, k)) FROM live, unnest('{1,2,3,601,602,603}'::int[]) k WHERE NOT timed;
UPDATE said SET seen = false FROM live WHERE live.name = said.name AND NOT timed AND k IN (1, 2, 3, 601, 602, 603);
BEGIN;
SELECT count(dedup_forget(name::regclass, k)) FROM live, unnest('{4,5,604,605}'::int[]) k WHERE NOT timed;
ROLLBACK;
-- A chain of overflow pages: more keys in one transaction than a page has entries.
SELECT count(is_new('chained', k)) FROM generate_series(701, 1100) k;
INSERT INTO said SELECT 'chained', k, true FROM generate_series(701, 1100) k;

-- Guards. In each table the keys 1 to 3 are taken, 4 is of a row that was deleted, and 5 is new.
CREATE TABLE skips (k bigint, deleted boolean);
CREATE TABLE rejects (k text);
CREATE TABLE marks (k uuid, more int, again boolean);
CREATE TABLE diverts (k bigint, at date);
CREATE TABLE bin (refused_at timestamptz, refused_by regclass, k numeric, rest jsonb);
CREATE TABLE diverts_to_bin (k bigint, more text);
CREATE TABLE forgets (k bigint);
CREATE TABLE expressions (email text, half int);
CREATE TABLE times (k bigint, at timestamptz);
CREATE TABLE parent (k bigint);
CREATE TABLE child (more int) INHERITS (parent);
CREATE TABLE shares_1 (k bigint);
CREATE TABLE shares_2 (k bigint);
SELECT dedup_create(t || '_seen', dedup_filter(1000, 0.01, 60))
FROM unnest('{skips,rejects,marks,diverts,diverts_to_bin,forgets,expressions,parent,shares}'::text[]) t;
SELECT dedup_create('times_seen', dedup_window(1000, 0.001, 61), ttl => '1 day');
SELECT dedup_guard('skips', 'skips_seen', '{k}', "where" => 'NOT deleted'),
	dedup_guard('rejects', 'rejects_seen', '{k}', 'reject'),
	dedup_guard('marks', 'marks_seen', '{k,more}', 'mark:again'),
	dedup_guard('diverts', 'diverts_seen', '{k}', 'divert'),
	dedup_guard('diverts_to_bin', 'diverts_to_bin_seen', '{k}', 'divert:bin'),
	dedup_guard('forgets', 'forgets_seen', '{k}', on_delete => 'forget'),
	dedup_guard('expressions', 'expressions_seen', '{lower(email),half}', nulls_not_distinct => true),
	dedup_guard('times', 'times_seen', '{k}', at => 'at', too_old => 'skip'),
	dedup_guard('parent', 'parent_seen', '{k}'),
	dedup_guard('shares_1', 'shares_seen', '{k}'), dedup_guard('shares_2', 'shares_seen', '{k}');
INSERT INTO skips SELECT k, false FROM generate_series(1, 4) k;
INSERT INTO skips VALUES (1, false), (1, true);
INSERT INTO rejects SELECT 'key ' || k FROM generate_series(1, 4) k;
INSERT INTO marks SELECT ('a1b2c3d4-0000-4000-8000-00000000000' || k)::uuid, k FROM generate_series(1, 4) k;
INSERT INTO diverts SELECT k, '2025-01-01' FROM generate_series(1, 4) k;
INSERT INTO diverts VALUES (1, '2025-01-02');
INSERT INTO diverts_to_bin SELECT k, 'row ' || k FROM generate_series(1, 4) k;
INSERT INTO diverts_to_bin VALUES (2, 'again');
INSERT INTO forgets SELECT k FROM generate_series(1, 4) k;
INSERT INTO expressions SELECT 'Key' || k, NULL FROM generate_series(1, 4) k;
INSERT INTO times SELECT k, at(k) FROM generate_series(1, 4) k;
INSERT INTO times VALUES (1, at(1400));
INSERT INTO parent VALUES (1), (4);
INSERT INTO child VALUES (2), (3);
INSERT INTO shares_1 VALUES (1), (4);
INSERT INTO shares_2 VALUES (2), (3), (1);

-- Exact guards, on partitioned tables.
CREATE FUNCTION partitioned(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (k bigint NOT NULL, at timestamptz NOT NULL, again boolean) PARTITION BY RANGE (at)', name);
	EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name || '_1', name, at(0), at(3));
	EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name || '_2', name, at(3), at(100000));
	EXECUTE format('CREATE INDEX ON %I (k)', name);
END $$;
SELECT partitioned(name) FROM unnest('{exact_skips,exact_rejects,exact_marks,exact_diverts,exact_where,exact_times,exact_grows}'::text[]) name;
SELECT dedup_create(t || '_seen', dedup_filter(1000, 0.01, 70)) FROM unnest('{exact_skips,exact_rejects,exact_marks,exact_diverts,exact_where}'::text[]) t;
SELECT dedup_create('exact_grows_seen', dedup_filter(NULL, 0.0001, 71)), dedup_create('exact_times_seen', dedup_window(1000, 0.001, 72), ttl => '1 day');
SELECT dedup_guard('exact_skips', 'exact_skips_seen', '{k}', exact => true),
	dedup_guard('exact_rejects', 'exact_rejects_seen', '{k}', 'reject', exact => true),
	dedup_guard('exact_marks', 'exact_marks_seen', '{k}', 'mark:again', exact => true),
	dedup_guard('exact_diverts', 'exact_diverts_seen', '{k}', 'divert', exact => true),
	dedup_guard('exact_where', 'exact_where_seen', '{k}', exact => true, "where" => 'again IS NOT TRUE'),
	dedup_guard('exact_times', 'exact_times_seen', '{k}', exact => true, at => 'at'),
	dedup_guard('exact_grows', 'exact_grows_seen', '{k}', 'reject', exact => true);
CREATE FUNCTION fill(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %I SELECT k, at(k) FROM generate_series(1, 4) k', name);
END $$;
SELECT fill(name) FROM unnest('{exact_skips,exact_rejects,exact_marks,exact_diverts,exact_where,exact_times,exact_grows}'::text[]) name;
INSERT INTO exact_skips VALUES (1, at(5));
INSERT INTO exact_marks VALUES (2, at(5));
INSERT INTO exact_diverts VALUES (3, at(5));
INSERT INTO exact_where VALUES (3, at(5), true);
-- A day later the key may come again.
INSERT INTO exact_times VALUES (3, at(2000));

DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT "table"::text FROM dedup_guards LOOP
		EXECUTE format('DELETE FROM %I WHERE %s', name, CASE name WHEN 'rejects' THEN $d$k = 'key 4'$d$
			WHEN 'marks' THEN 'more = 4' WHEN 'expressions' THEN $d$email = 'Key4'$d$ ELSE 'k = 4' END);
	END LOOP;
END $$;
