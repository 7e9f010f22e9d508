-- Whether a filter covers the table of its exact guard: what makes it so, how long it lasts, and what ends it. A
-- filter that covers its table has one more row, of kind 2, in a dump.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA exact_cover;
SET search_path = exact_cover, public;
CREATE FUNCTION covers(filter regclass) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	covers boolean;
BEGIN
	EXECUTE format('SELECT count(*) = 1 FROM %s WHERE get_byte(dedup_page_send(page), 2) = 2', filter) INTO covers;
	RETURN covers;
END $$;
CREATE FUNCTION u32(b bytea, at int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT get_byte(b, at) + get_byte(b, at + 1) * 256 + get_byte(b, at + 2) * 65536 + get_byte(b, at + 3)::bigint * 16777216';
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
CREATE INDEX ON t (k);
\set QUIET off

-- ---- who says so ----

SELECT covers('f');
SELECT dedup_guard('t', 'f', '{k}', exact => true);
SELECT covers('f');
INSERT INTO t VALUES (1), (2);

-- its row: the block behind the pages, and nothing but what says whose page it is
SELECT block = u32(b, 16) AS behind, length(b) AS bytes, u32(b, 48) = block AS says_block,
	encode(substr(b, 53), 'hex') AS rest, get_byte(b, 1) AS format, get_byte(b, 20) || ' ' || get_byte(b, 21) AS zeros
FROM (SELECT block, dedup_page_send(page) AS b FROM f) x WHERE get_byte(b, 2) = 2;
-- frozen: worked out from the description in src/live/page_type.hpp by another program, with libxxhash
SELECT page::text = '2gICBAAAAACoJAnpVdZjH6gAAAAAAAAAKgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAqAAAAAAAAAAAAAAAAAAAAA==' AS frozen
FROM f WHERE get_byte(dedup_page_send(page), 2) = 2;
SELECT count(*) FROM f;
-- by its place, and in scans that go the other way
SELECT block = max(block) OVER () FROM f WHERE ctid = (SELECT ctid FROM f ORDER BY block DESC LIMIT 1);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT get_byte(dedup_page_send(page), 2) FROM f;
FETCH LAST c;
FETCH PRIOR c;
FETCH NEXT c;
FETCH NEXT c;
ROLLBACK;

-- a guard that is not exact says nothing
CREATE TABLE plain (k int);
SELECT dedup_create('p', dedup_filter(1000, 0.01, 42));
SELECT dedup_guard('plain', 'p', '{k}');
SELECT covers('p');

SELECT dedup_unguard('t');
SELECT covers('f');

-- ---- transactions and savepoints ----

BEGIN;
SELECT dedup_guard('t', 'f', '{k}', exact => true);
SELECT covers('f');
ROLLBACK;
SELECT covers('f');

BEGIN;
SAVEPOINT a;
SELECT dedup_guard('t', 'f', '{k}', exact => true);
SELECT covers('f');
ROLLBACK TO a;
SELECT covers('f');
SAVEPOINT b;
SELECT dedup_guard('t', 'f', '{k}', exact => true);
RELEASE b;
SELECT covers('f');
COMMIT;
SELECT covers('f');

-- a change of the mode that does not come to pass
BEGIN;
SELECT dedup_unguard('t');
SELECT covers('f');
SELECT dedup_guard('t', 'f', '{k}', 'reject', exact => true);
SELECT covers('f');
ROLLBACK;
SELECT covers('f');

-- one in a savepoint: what was before it holds, at each level
BEGIN;
SELECT dedup_unguard('t');
SAVEPOINT a;
SELECT dedup_guard('t', 'f', '{k}', 'reject', exact => true);
SAVEPOINT b;
SELECT dedup_unguard('t');
SELECT covers('f');
ROLLBACK TO b;
SELECT covers('f');
ROLLBACK TO a;
SELECT covers('f');
ROLLBACK;
SELECT covers('f');

-- more levels than are kept: never more than is true
BEGIN;
SAVEPOINT a;
SELECT dedup_unguard('t') \gset
SAVEPOINT b;
SELECT dedup_guard('t', 'f', '{k}', exact => true) \gset
SAVEPOINT c;
SELECT dedup_unguard('t') \gset
SAVEPOINT d;
SELECT dedup_guard('t', 'f', '{k}', exact => true) \gset
SAVEPOINT e;
SELECT dedup_unguard('t') \gset
SELECT covers('f');
ROLLBACK TO e;
SELECT covers('f');
ROLLBACK TO d;
SELECT covers('f');
ROLLBACK TO c;
SELECT covers('f');
ROLLBACK TO b;
SELECT covers('f');
ROLLBACK TO a;
SELECT covers('f');
ROLLBACK;
SELECT covers('f');
-- so the guard has to be made anew
SELECT dedup_unguard('t'), dedup_guard('t', 'f', '{k}', exact => true);
SELECT covers('f');

-- ---- VACUUM, and other files ----

VACUUM f;
VACUUM (FREEZE) f;
SELECT covers('f');
VACUUM FULL f;
SELECT covers('f');
ALTER TABLE f RENAME TO ff;
SELECT covers('ff');
ALTER TABLE ff RENAME TO f;
SELECT * FROM dedup_check('f');

-- ---- dedup_forget ----

SELECT dedup_forget('f', 1);
SELECT dedup_seen('f', 1), covers('f');
-- nothing to forget, and nothing lost
SELECT dedup_forget('f', NULL::int), covers('f');
ALTER TABLE t DISABLE TRIGGER "~dedup_guard";
BEGIN;
SELECT dedup_forget('f', 1), dedup_forget('f', 2);
SELECT covers('f');
ROLLBACK;
SELECT dedup_seen('f', 1), covers('f');
SELECT dedup_forget('f', 1);
SELECT dedup_seen('f', 1), covers('f');
ALTER TABLE t ENABLE TRIGGER "~dedup_guard";
-- the filter covers nothing any more, so the guard lets nothing in that it could spoil
SELECT dedup_forget('f', 2);
SELECT "table", filter, problem FROM dedup_guards WHERE filter = 'f'::regclass;
SELECT dedup_unguard('t');

-- ---- TRUNCATE ----

TRUNCATE t, f;
SELECT covers('f');
SELECT dedup_guard('t', 'f', '{k}', exact => true);
INSERT INTO t VALUES (1);

-- the table alone: its keys stay
SET client_min_messages = error;
BEGIN;
TRUNCATE t;
SELECT covers('f');
ROLLBACK;
RESET client_min_messages;
-- the filter alone
TRUNCATE f;
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
TRUNCATE f;
SELECT covers('f');
ALTER TABLE t DISABLE TRIGGER USER;
TRUNCATE f;
ALTER TABLE t ENABLE TRIGGER USER;
-- whoever has locked the table has not emptied it
BEGIN;
LOCK TABLE t;
TRUNCATE f;
ROLLBACK;
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
BEGIN;
LOCK TABLE t;
TRUNCATE f;
SELECT covers('f');
COMMIT;
SELECT covers('f'), dedup_seen('f', 1);
-- nor does one table more help
CREATE TABLE other (k int);
TRUNCATE f, other;

-- both, in any order, in sessions that have the library and in others
TRUNCATE t, f;
SELECT covers('f'), dedup_seen('f', 1);
INSERT INTO t VALUES (1);
TRUNCATE f, t;
SELECT covers('f'), dedup_seen('f', 1);
INSERT INTO t VALUES (1);
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
TRUNCATE t, f;
SELECT covers('f'), dedup_seen('f', 1);
INSERT INTO t VALUES (1);
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
TRUNCATE f, t;
SELECT covers('f'), dedup_seen('f', 1);
INSERT INTO t VALUES (1);
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
BEGIN;
TRUNCATE f, t;
INSERT INTO t VALUES (1), (2);
SELECT covers('f'), dedup_seen('f', 1);
TRUNCATE t, f;
SELECT covers('f'), dedup_seen('f', 1);
INSERT INTO t VALUES (3);
SAVEPOINT a;
TRUNCATE f;
ROLLBACK TO a;
TRUNCATE f, t;
SELECT covers('f'), dedup_seen('f', 3);
ROLLBACK TO a;
SELECT covers('f'), dedup_seen('f', 3);
COMMIT;
SELECT covers('f'), count(*) FROM t;

-- rolled back
BEGIN;
TRUNCATE f, t;
ROLLBACK;
SELECT covers('f'), dedup_seen('f', 3);
-- what says so in a savepoint says so again behind it
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
BEGIN;
TRUNCATE f, t;
SAVEPOINT a;
INSERT INTO t VALUES (4);
ROLLBACK TO a;
SELECT covers('f'), dedup_seen('f', 4);
INSERT INTO t VALUES (5);
COMMIT;
SELECT covers('f'), dedup_seen('f', 5);

-- also what is found out only then, since the session has just loaded the library
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
BEGIN;
TRUNCATE t, f;
SELECT covers('f');
SAVEPOINT a;
SELECT dedup_forget('f', 5);
ROLLBACK TO a;
SELECT covers('f');
SELECT dedup_forget('f', 5);
ROLLBACK;
SELECT covers('f'), dedup_seen('f', 5);

-- without the guard it is a filter as any
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
BEGIN;
TRUNCATE t, f;
SELECT dedup_unguard('t');
COMMIT;
SELECT covers('f');
BEGIN;
SELECT dedup_guard('t', 'f', '{k}', exact => true);
TRUNCATE t, f;
SAVEPOINT a;
SELECT dedup_unguard('t');
SELECT covers('f');
ROLLBACK TO a;
SELECT covers('f');
COMMIT;
SELECT covers('f');

-- one after the other: the table first
SET client_min_messages = error;
BEGIN;
TRUNCATE t;
TRUNCATE f;
SELECT covers('f');
COMMIT;
SELECT covers('f');
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
SET client_min_messages = error;
BEGIN;
TRUNCATE t;
TRUNCATE f;
INSERT INTO t VALUES (6);
COMMIT;
SELECT covers('f'), dedup_seen('f', 6);
RESET client_min_messages;

-- in place: what this transaction has made
BEGIN;
CREATE TABLE made (k int);
CREATE INDEX ON made (k);
SELECT dedup_create('m', dedup_filter(1000, 0.01, 42));
SELECT dedup_guard('made', 'm', '{k}', exact => true);
INSERT INTO made VALUES (1);
TRUNCATE made, m;
SELECT covers('m'), dedup_seen('m', 1);
INSERT INTO made VALUES (1);
TRUNCATE m, made;
SELECT covers('m'), dedup_seen('m', 1);
INSERT INTO made VALUES (1);
SAVEPOINT a;
TRUNCATE m;
ROLLBACK TO a;
COMMIT;
SELECT covers('m'), dedup_seen('m', 1);
DROP TABLE made;

-- partitions
CREATE TABLE parts (k int, p int) PARTITION BY LIST (p);
CREATE INDEX ON parts (k);
CREATE TABLE p1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF parts FOR VALUES IN (2) PARTITION BY LIST (k);
CREATE TABLE p21 PARTITION OF p2 FOR VALUES IN (1, 2);
SELECT dedup_create('g', dedup_filter(1000, 0.01, 42));
SELECT dedup_guard('parts', 'g', '{k}', exact => true);
INSERT INTO parts VALUES (1, 1), (2, 2);
TRUNCATE g;
TRUNCATE p1, g;
TRUNCATE p1, p21, g;
TRUNCATE g, parts;
SELECT covers('g'), dedup_seen('g', 1);
INSERT INTO parts VALUES (1, 1), (2, 2);
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
TRUNCATE g;
TRUNCATE p1, g;
TRUNCATE parts, g;
SELECT covers('g'), dedup_seen('g', 1);
INSERT INTO parts VALUES (1, 1), (2, 2);
SELECT count(*), covers('g') FROM parts;

-- by a foreign key
CREATE TABLE target (k int PRIMARY KEY);
ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES target NOT VALID;
TRUNCATE target, f CASCADE;
SELECT covers('f'), count(*) FROM t;
ALTER TABLE t DROP CONSTRAINT t_k_fkey;

-- ---- logged and unlogged ----

ALTER TABLE f SET UNLOGGED;
CREATE UNLOGGED TABLE u (k int);
CREATE INDEX ON u (k);
SELECT dedup_create('fu', dedup_filter(1000, 0.01, 42), unlogged => true);
SELECT dedup_guard('u', 'fu', '{k}', exact => true);
SELECT covers('fu');
\set QUIET on \c - \set QUIET off
SET search_path = exact_cover, public;
ALTER TABLE u SET LOGGED;
ALTER TABLE fu SET LOGGED;
-- this loses the rows in a crash, and no key
SET client_min_messages = error;
ALTER TABLE t SET UNLOGGED;
ALTER TABLE t SET LOGGED;
RESET client_min_messages;
SELECT covers('f'), covers('fu');

-- ---- COPY, as a dump ----

INSERT INTO t VALUES (1), (2), (3);
COPY f TO PROGRAM 'cat > exact_cover.txt';
COPY (SELECT * FROM f WHERE get_byte(dedup_page_send(page), 2) = 1) TO PROGRAM 'cat > exact_cover_old.txt';
COPY f TO PROGRAM 'cat > exact_cover.bin' (FORMAT binary);
SELECT dedup_create('r', dedup_filter(100000, 1e-6, 42));
COPY r FROM PROGRAM 'cat exact_cover.txt';
SELECT covers('r'), dedup_seen('r', 3), dedup_seen('r', 4);
TRUNCATE r;
BEGIN;
COPY r FROM PROGRAM 'cat exact_cover.bin' (FORMAT binary);
SELECT covers('r');
ROLLBACK;
SELECT covers('r');
COPY r FROM PROGRAM 'cat exact_cover_old.txt';
SELECT covers('r'), dedup_seen('r', 3), dedup_seen('r', 4);
-- into a filter of another seed, at another place, twice, damaged
SELECT dedup_create('s', dedup_filter(100000, 1e-6, 43));
\set VERBOSITY terse
COPY s FROM PROGRAM 'tail -n 1 exact_cover.txt';
TRUNCATE r;
COPY r FROM PROGRAM 'tail -n 1 exact_cover.txt | sed "s/^[0-9]*/5/"';
COPY r FROM PROGRAM 'sed -n "1s/^[0-9]*/168/p" exact_cover.txt';
COPY r FROM PROGRAM 'tail -n 1 exact_cover.txt; tail -n 1 exact_cover.txt';
SELECT covers('r');
\set VERBOSITY default
CREATE TABLE bytes AS SELECT dedup_page_send(page) AS b FROM f WHERE get_byte(dedup_page_send(page), 2) = 2;
CREATE FUNCTION damaged(at int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE b bytea := (SELECT x.b FROM bytes x);
BEGIN
	PERFORM replace(encode(set_byte(b, at, 255 - get_byte(b, at)), 'base64'), E'\n', '')::dedup_page;
	RETURN 'accepted';
EXCEPTION WHEN invalid_text_representation THEN RETURN 'refused';
	WHEN feature_not_supported THEN RETURN SQLERRM;
END $$;
SELECT damaged(i), count(*) FROM generate_series(0, 63) i GROUP BY damaged(i) ORDER BY damaged(i) COLLATE "C";

-- a snapshot that is older sees what was
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT covers('f');
SELECT dedup_unguard('t');
SELECT covers('f');
ROLLBACK;

-- values know nothing of it
SELECT dedup_create('snap', dedup_filter(100000, 1e-6, 42));
SELECT dedup_load('snap', dedup_snapshot('f')), covers('snap');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA exact_cover CASCADE;
