-- What both demonstrations start with: the extension, and places to write down
-- what was found.

\set ON_ERROR_STOP on
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
SET timezone = 'UTC';
-- Compiling expressions would add the same to every time measured.
SET jit = off;

CREATE EXTENSION streamdedup;

-- One line of the report. truly_new and wrong_* are null in a line that is
-- the exact answer itself.
CREATE UNLOGGED TABLE demo_line (
	part int, line int, how text, kept bigint, truly_new bigint,
	false_positives bigint, false_negatives bigint, bytes bigint, seconds float8);

-- Promises that did not hold.
CREATE UNLOGGED TABLE demo_broken (what text);

CREATE FUNCTION demo_number(n numeric) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT to_char(n, 'FM999,999,999,999') $$;

-- How often something that happens at the given rate may happen in n tries
-- before it is more than chance: five standard deviations above the mean.
CREATE FUNCTION demo_at_most(rate float8, n bigint) RETURNS float8 LANGUAGE sql IMMUTABLE
	AS $$ SELECT rate * n + 5 * sqrt(rate * n) $$;
