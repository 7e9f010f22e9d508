-- nulls_not_distinct: NULL in a key equals NULL. A server before 15 has no such indexes, and no such guards.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

CREATE TABLE nulls (id int, a int, b text);
CREATE INDEX ON nulls USING hash (a);
SELECT dedup_create('nulls_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_create('nulls_exact', dedup_filter(1, 0.5, 1));
SELECT dedup_guard('nulls', 'nulls_exact', '{a}', exact => true, nulls_not_distinct => NULL);
SELECT dedup_guard('nulls', 'nulls_seen', '{a}', nulls_not_distinct => true);
SELECT current_setting('server_version_num')::int < 150000 AS too_old \gset
\if :too_old
DROP TABLE nulls, nulls_seen, nulls_exact;
\quit
\endif
SELECT dedup_unguard('nulls');
SELECT dedup_guard('nulls', 'nulls_exact', '{a}', exact => true, nulls_not_distinct => true);
CREATE INDEX nulls_partial ON nulls (a) WHERE a IS NOT NULL;
SELECT dedup_guard('nulls', 'nulls_exact', '{a}', exact => true, nulls_not_distinct => true);
CREATE INDEX nulls_both ON nulls (lower(b) DESC, a NULLS FIRST) INCLUDE (id);
INSERT INTO nulls VALUES (1, NULL, NULL), (2, NULL, 'x'), (3, 1, NULL), (4, NULL, NULL);
SELECT dedup_guard('nulls', 'nulls_exact', '{a,lower(b)}', 'reject', exact => true, nulls_not_distinct => true);
DELETE FROM nulls WHERE id = 4;
SELECT dedup_guard('nulls', 'nulls_exact', '{a,lower(b)}', 'reject', exact => true, nulls_not_distinct => true);
INSERT INTO nulls VALUES (5, NULL, NULL);
INSERT INTO nulls VALUES (5, NULL, 'X');
INSERT INTO nulls VALUES (5, 1, NULL);
INSERT INTO nulls VALUES (5, 1, ''), (6, 0, NULL), (7, 0, 'x'), (8, NULL, 'null');
UPDATE nulls SET a = NULL WHERE id = 7;
UPDATE nulls SET b = NULL WHERE id = 7;
UPDATE nulls SET a = NULL, b = 'y' WHERE id = 7;
DELETE FROM nulls WHERE id = 1;
INSERT INTO nulls VALUES (9, NULL, NULL), (10, NULL, NULL);
INSERT INTO nulls VALUES (9, NULL, NULL);
SELECT dedup_rebuild('nulls_exact');
SELECT columns, on_duplicate, exact, "where", nulls_not_distinct, problem FROM dedup_guards WHERE "table" = 'nulls'::regclass;
SELECT dedup_unguard('nulls');
\pset format unaligned
SELECT dedup_guard('nulls', 'nulls_seen', '{a,lower(b)}', nulls_not_distinct => true);
\pset format aligned
SELECT dedup_unguard('nulls');
SELECT dedup_guard('nulls', 'nulls_seen', '{a,lower(b)}', nulls_not_distinct => true, load => true);
INSERT INTO nulls VALUES (11, NULL, NULL), (12, 1, NULL), (13, NULL, 'X'), (14, 2, NULL), (15, 2, NULL), (16, NULL, 'new'), (17, NULL, 'NEW') RETURNING id;
UPDATE nulls SET a = NULL WHERE id = 14 RETURNING id;
BEGIN;
DELETE FROM nulls WHERE a IS NULL AND b IS NULL;
INSERT INTO nulls VALUES (18, NULL, NULL), (19, NULL, NULL) RETURNING id;
COMMIT;
DROP TABLE nulls, nulls_seen, nulls_exact;

-- What is diverted is brought back by the same rule.
CREATE TABLE e (k numeric, c text);
SELECT dedup_create('e_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('e', 'e_seen', '{k,lower(c)}', 'divert', "where" => 'c IS DISTINCT FROM ''any''', nulls_not_distinct => true);
SELECT columns, on_duplicate, exact, "where", nulls_not_distinct, side_table, problem FROM dedup_guards WHERE "table" = 'e'::regclass;
INSERT INTO e VALUES (NULL, 'n'), (NULL, 'N'), (NULL, 'N'), (2, NULL), (2.0, NULL), (NULL, 'any'), (NULL, 'any');
TABLE e ORDER BY k, c;
SELECT k, c FROM e_refused ORDER BY k, c;
SELECT dedup_readmit('e');
DELETE FROM e WHERE k IS NULL;
SELECT dedup_readmit('e');
TABLE e ORDER BY k, c;
SELECT k, c FROM e_refused ORDER BY k, c;
DROP TABLE e, e_seen, e_refused;
