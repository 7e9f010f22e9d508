-- Objects of every kind that a database can have of the extension, for answers.sql and goes_on.sql.
SET client_min_messages = warning;

-- Filters of every method, with few keys (exact) and with many, in a column.
CREATE TABLE value (method text, keys int, filter dedup_filter);
INSERT INTO value
SELECT m.method, n.keys, f.filter
FROM unnest('{blocked_bloom,bloom,counting_bloom,cuckoo,quotient,recent,ring,fifo,a2,b_dbf,apbf,lru,fp_lru,sbf,rsbf,sqf,dsqf,qht,qhtd,qqht,qqhtd,exaloglog,count_min}'::text[])
		m(method),
	unnest('{0,20,5000}'::int[]) n(keys),
	LATERAL (SELECT dedup_agg(dedup_method(m.method, '64kB', '', 7), k) AS filter
		FROM generate_series(1, n.keys) k) f;
INSERT INTO value
SELECT 'infini', n.keys, f.filter
FROM unnest('{0,20,5000}'::int[]) n(keys),
	LATERAL (SELECT dedup_agg(dedup_filter(seed => 7), k) AS filter FROM generate_series(1, n.keys) k) f;

-- What depends on functions of the extension.
CREATE VIEW seen_by AS SELECT method, keys, dedup_contains(filter, 17) AS seen FROM value
	WHERE keys > 0 AND method NOT IN ('exaloglog', 'count_min');
CREATE TABLE defaults (f dedup_filter DEFAULT dedup_filter(100), CHECK (NOT dedup_contains(f, 'no'::text)));
CREATE MATERIALIZED VIEW merged AS
	SELECT dedup_merge_agg(filter) AS filter FROM value WHERE method = 'blocked_bloom';

-- Live filters of every kind.
SELECT dedup_create('live_set', dedup_filter(10000, 0.001)),
	dedup_create('live_grows'),
	dedup_create('live_grows_day', ttl => '1 day'),
	dedup_create('live_window', dedup_window(10000, 0.001)),
	dedup_create('live_day', dedup_window(10000, 0.001), ttl => '1 day'),
	dedup_create('live_renewed', dedup_window(10000, 0.001), ttl => '1 day', renew => true),
	dedup_create('live_unlogged', dedup_filter(10000), unlogged => true);
CREATE TABLE live (name text);
INSERT INTO live VALUES ('live_set'), ('live_grows'), ('live_grows_day'), ('live_window'), ('live_day'), ('live_renewed'), ('live_unlogged');
CREATE FUNCTION first_time(k bigint) RETURNS boolean LANGUAGE sql
	AS $$ SELECT is_new('live_set'::regclass, k) $$;
SELECT count(*) FROM live, LATERAL dedup_new_keys(name::regclass, ARRAY(SELECT generate_series(1, 3000))) k;

-- Guards of every kind.
CREATE TABLE skips (k bigint, deleted boolean);
CREATE TABLE rejects (k bigint);
CREATE TABLE marks (k bigint, is_duplicate boolean);
CREATE TABLE diverts (k bigint);
CREATE TABLE forgets (k bigint);
CREATE TABLE expressions (email text);
CREATE TABLE exacts (k bigint NOT NULL, at date NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE exacts_1 PARTITION OF exacts FOR VALUES FROM ('2025-01-01') TO ('2025-02-01');
CREATE TABLE exacts_2 PARTITION OF exacts FOR VALUES FROM ('2025-02-01') TO ('2025-03-01');
CREATE INDEX ON exacts (k);
CREATE TABLE parent (k bigint);
CREATE TABLE child () INHERITS (parent);
SELECT dedup_guard('skips', dedup_create('skips_seen'), '{k}', "where" => 'NOT deleted'),
	dedup_guard('rejects', dedup_create('rejects_seen'), '{k}', 'reject'),
	dedup_guard('marks', dedup_create('marks_seen'), '{k}', 'mark'),
	dedup_guard('diverts', dedup_create('diverts_seen'), '{k}', 'divert'),
	dedup_guard('forgets', dedup_create('forgets_seen'), '{k}', on_delete => 'forget'),
	dedup_guard('expressions', dedup_create('expressions_seen'), '{lower(email)}', nulls_not_distinct => true),
	dedup_guard('exacts', dedup_create('exacts_seen'), '{k}', 'reject', exact => true),
	dedup_guard('parent', dedup_create('parent_seen'), '{k}');
INSERT INTO skips VALUES (1, false), (1, false), (1, true);
INSERT INTO rejects VALUES (1);
INSERT INTO marks VALUES (1), (1);
INSERT INTO diverts VALUES (1), (1);
INSERT INTO forgets VALUES (1), (2);
DELETE FROM forgets WHERE k = 2;
INSERT INTO expressions VALUES ('a@b'), ('A@B'), (NULL), (NULL);
INSERT INTO exacts SELECT i, '2025-01-01'::date + i % 59 FROM generate_series(1, 1000) i;
INSERT INTO child VALUES (1);
INSERT INTO parent VALUES (1), (2);
