-- Forgetting and diverting guards of tables that inherit.

CREATE SCHEMA guard_children;
SET search_path = guard_children, public;
SET client_min_messages = warning;

-- all triggers of a clone; TRUNCATE is a matter of the table that dedup_guard() was called for

CREATE TABLE p (k int);
CREATE TABLE c1 (note text) INHERITS (p);
CREATE TABLE c2 (k int, more int) INHERITS (p);
SELECT dedup_create('s', dedup_filter(1000, 1e-6));
SELECT dedup_guard('p', 's', '{k}', on_delete => 'forget');
CREATE TABLE c3 () INHERITS (c1);
CREATE FUNCTION triggers() RETURNS TABLE (tab regclass, trigger name) LANGUAGE sql AS $$
	SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'guard_children'::regnamespace AND relam <> (SELECT relam FROM pg_class WHERE oid = 's'::regclass)) AND NOT tgisinternal ORDER BY 1, 2 $$;
SELECT * FROM triggers();
SELECT "table", on_delete, partitions_guarded, partitions_unguarded, problem FROM dedup_guards WHERE "table" = 'p'::regclass;

-- each way to go frees the key, wherever the row was

CREATE FUNCTION seen(VARIADIC keys int[]) RETURNS int[] LANGUAGE sql AS $$ SELECT coalesce(array_agg(k ORDER BY k), '{}') FROM unnest(keys) k WHERE public.dedup_seen('guard_children.s'::regclass, k) $$;
INSERT INTO c1 VALUES (1), (2); INSERT INTO c2 VALUES (3), (4); INSERT INTO c3 VALUES (5), (6);
SELECT seen(1, 2, 3, 4, 5, 6);
DELETE FROM p WHERE k IN (1, 3);
DELETE FROM c3 WHERE k = 5;
UPDATE p SET k = k + 10 WHERE k IN (2, 4);
SELECT seen(1, 2, 3, 4, 5, 6, 12, 14);
INSERT INTO c2 VALUES (1), (2), (3), (5); INSERT INTO p VALUES (4);
SELECT tableoid::regclass, k FROM p ORDER BY k;
BEGIN;
DELETE FROM p WHERE k = 1;
ROLLBACK;
SELECT seen(1);

-- TRUNCATE of a part keeps all keys and says so; of the whole it empties the filter

SET client_min_messages = notice;
TRUNCATE ONLY c1;
TRUNCATE c1;
SELECT seen(6, 1, 2);
TRUNCATE ONLY p;
TRUNCATE c2;
SELECT seen(6, 1, 2, 4);
SELECT dedup_rebuild('s');
SELECT seen(6, 1, 2, 4);
SELECT tableoid::regclass, k FROM p;
INSERT INTO c3 VALUES (5); INSERT INTO p VALUES (1); INSERT INTO c2 VALUES (2);
BEGIN;
TRUNCATE p;
SELECT seen(5, 1, 2);
INSERT INTO c2 VALUES (5);
SELECT seen(5, 1, 2);
ROLLBACK;
SELECT seen(5, 1, 2);
TRUNCATE p;
SELECT seen(5, 1, 2);
-- with keys of another table, it does not
CREATE TABLE other (k int);
SELECT dedup_guard('other', 's', '{k}', on_delete => 'forget');
INSERT INTO other VALUES (100); INSERT INTO c1 VALUES (1); INSERT INTO p VALUES (2);
TRUNCATE p;
SELECT seen(1, 2, 100);
SELECT dedup_rebuild('s');
SELECT seen(1, 2, 100);
SELECT dedup_unguard('other');
DROP TABLE other;

-- NO INHERIT, DROP TABLE

INSERT INTO c1 VALUES (1); INSERT INTO c2 VALUES (2); INSERT INTO c3 VALUES (3);
ALTER TABLE c2 NO INHERIT p;
DROP TABLE c3;
SELECT seen(1, 2, 3);
SELECT * FROM triggers();
DELETE FROM c2;
SELECT seen(2);
ALTER TABLE c2 INHERIT p;
SELECT dedup_rebuild('s');
SELECT seen(1, 2, 3);
SELECT * FROM triggers();
DROP TABLE c1, c2, p;
CREATE TABLE p (k int);
CREATE TABLE c1 (note text) INHERITS (p);
SELECT dedup_guard('p', 's', '{k}', on_delete => 'forget', load => true);
SELECT dedup_unguard('c1');
SELECT dedup_unguard('p');
SELECT * FROM triggers();
DROP TABLE p CASCADE;

-- diverted rows go back where they were to go

CREATE TABLE d (k int, v text);
CREATE TABLE d1 (note text, CHECK (k < 100)) INHERITS (d);
CREATE TABLE d2 (CHECK (k >= 100)) INHERITS (d);
CREATE TABLE d11 (extra int DEFAULT 7) INHERITS (d1);
SELECT dedup_create('ds', dedup_filter(1000, 1e-6));
SELECT dedup_guard('d', 'ds', '{k}', 'divert', on_delete => 'forget');
SELECT bool_and(is_new('ds', k)) FROM unnest('{1,2,3,100,101}'::int[]) k;
INSERT INTO d1 VALUES (1, 'a', 'noted');
INSERT INTO d2 VALUES (100, 'b');
INSERT INTO d11 VALUES (2, 'c', 'deep', 5), (2, 'later', 'deep', 6);
INSERT INTO d VALUES (3, 'd');
INSERT INTO d1 VALUES (50, 'x', 'there'), (50, 'y', 'twice');
SELECT k, v, refused_by, rest FROM d_refused ORDER BY v;
SELECT dedup_readmit('d');
SELECT k, v, refused_by, rest FROM d_refused ORDER BY v;
SELECT tableoid::regclass, k, v FROM d ORDER BY k;
SELECT k, v, note FROM ONLY d1 ORDER BY k;
SELECT * FROM d11;
-- what came back frees its key, and no other
DELETE FROM d WHERE k IN (1, 2);
SELECT k, dedup_seen('ds', k) FROM unnest('{1,2,3,50,100}'::int[]) k;
SELECT dedup_readmit('d1');
SELECT dedup_readmit('d');
SELECT k, v, note FROM d11;

-- the rows of the parent come first; under an exact guard a row stays whose key is in the parent now

INSERT INTO d VALUES (50, 'parent');
DELETE FROM d WHERE k = 50;
SELECT dedup_readmit('d');
SELECT tableoid::regclass, k, v FROM d WHERE k = 50;
CREATE TABLE e (k int, v text);
CREATE TABLE e1 (note text) INHERITS (e);
CREATE INDEX ON e (k);
CREATE INDEX ON e1 (k);
SELECT dedup_create('es', dedup_filter(1000, 1e-6));
SELECT dedup_guard('e', 'es', '{k}', 'divert', exact => true);
INSERT INTO e1 VALUES (1, 'a', 'x'), (1, 'b', 'y'), (2, 'c', 'x'), (2, 'd', 'y');
DELETE FROM e1;
INSERT INTO e VALUES (1, 'parent');
SELECT k, v, refused_by FROM e_refused ORDER BY v;
SELECT dedup_readmit('e');
SELECT k, v, refused_by FROM e_refused ORDER BY v;
SELECT * FROM e1;

-- in a window of time: a row comes back unless one of its key is near; its key counts from its own time on

CREATE TABLE w (k int, at timestamptz);
SELECT dedup_create('ws', dedup_window(1000, 1e-6), '10 days');
SELECT dedup_guard('w', 'ws', '{k}', 'divert', at => 'at', on_delete => 'forget');
INSERT INTO w VALUES (1, now() - interval '30 days'), (2, now() - interval '3 days'), (4, now() - interval '40 days');
SELECT bool_and(is_new_at('ws', now() - interval '8 days', k)) FROM unnest('{1,3,4}'::int[]) k;
INSERT INTO w VALUES (1, now()), (2, now()), (3, now()), (3, now() - interval '1 day'), (4, NULL);
SELECT k, date_trunc('hour', now() - at) AS age FROM w_refused ORDER BY k, at;
SELECT dedup_readmit('w');
SELECT k, now() - at < interval '1 hour' AS now FROM w ORDER BY k, at;
SELECT k FROM w_refused ORDER BY k;
-- four days on, when what the filter had before has gone
SELECT k, is_new_at('ws', now() + interval '4 days', k) FROM unnest('{1,3}'::int[]) k;
SET client_min_messages = warning;
DROP SCHEMA guard_children CASCADE;
