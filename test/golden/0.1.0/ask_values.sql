-- What the filters of values.tsv must answer, in every later version. A version whose answer
-- changes on purpose, such as a text of dedup_stats(), changes this query and values.out by hand.
SET client_min_messages = error;
SET extra_float_digits = 0;

-- What a call returns, or the error that it raises.
CREATE FUNCTION answer(query text, filter dedup_filter) RETURNS text STRICT LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE query INTO answer USING filter;
	RETURN answer;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- What each filter is.
SELECT name, s.method, s.keys, s.fpr, s.seed, s.exact, s.count, s.overfull, s.bytes, s.parameters
FROM value, dedup_stats(filter) s ORDER BY name COLLATE "C";

-- What it has: of the keys 1 to 600 that were added (20 of an exact one), of 3,000 others, and which.
SELECT name, answer('SELECT count(*) FROM generate_series(1, 600) k WHERE dedup_contains($1, k)', filter) AS added,
	answer('SELECT count(*) FROM generate_series(10001, 13000) k WHERE dedup_contains($1, k)', filter) AS others,
	answer('SELECT md5(string_agg(dedup_contains($1, k)::int::text, '''' ORDER BY k)) FROM generate_series(1, 13000) k', filter) AS which,
	answer('SELECT sum(dedup_frequency($1, k)) FROM generate_series(1, 600) k', filter) AS frequencies
FROM value ORDER BY name COLLATE "C";

-- How it goes on: a key is added, a key is forgotten, and a filter that is made now is merged into it.
SELECT name, answer('SELECT dedup_contains(dedup_add($1, -1), -1)', filter) AS takes,
	answer('SELECT dedup_count(dedup_add($1, -1))', filter) AS counts,
	answer('SELECT dedup_contains(dedup_forget($1, 1), 1)', filter) AS still,
	answer('SELECT dedup_count(dedup_merge($1, ' || more || '))', filter) AS merged,
	answer('SELECT count(*) FROM (SELECT dedup_merge($1, ' || more || ') AS f OFFSET 0) m, generate_series(10001, 10200) k WHERE dedup_contains(m.f, k)', filter) AS has
FROM (SELECT *, replace('(SELECT dedup_agg(PROTOTYPE, k ORDER BY k) FROM generate_series(10001, 10200) k)', 'PROTOTYPE', prototype) AS more FROM value) v
ORDER BY name COLLATE "C";

-- Each spelling of its bytes.
SELECT name, dedup_filter_send(filter) = filter::bytea AS binary,
	filter::bytea::dedup_filter::text = filter::text AS back
FROM value ORDER BY name COLLATE "C";

-- The hashes of keys of every type.
SELECT t.key, answer(format('SELECT dedup_contains($1, %s)', t.key), v.filter) AS seen,
	answer(format('SELECT dedup_hash($1, %s)', t.key), v.filter) AS hash, v.name
FROM typed t, value v WHERE v.name LIKE 'types%' ORDER BY v.name, t.id;
