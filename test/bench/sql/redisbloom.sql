-- What redisbloom.pl finds on the side of PostgreSQL.
--
-- Variable: keys (how many the filters grow to).

\o /dev/null
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;

CREATE TABLE key (k bigint);
INSERT INTO key SELECT generate_series(1, :keys::bigint);
VACUUM ANALYZE key;

-- The value at the size that is measured.
CREATE TABLE value (f dedup_filter);

-- A growing live filter does not exist, so the live ones are made for all keys.
SELECT dedup_create('live', dedup_filter(:keys, 0.01));
SELECT dedup_create('unlogged', dedup_filter(:keys, 0.01), unlogged => true);

-- Adds arrays of 100 keys to a variable that starts as the value. Returns the seconds of the adds.
CREATE FUNCTION add_batches(first_key bigint, batches int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := (SELECT f FROM value);
	keys bigint[];
	began timestamptz;
	spent float8 := 0;
BEGIN
	-- Fetches the value from its table, which is not to be measured.
	f := dedup_add_all(f, ARRAY[first_key]);
	FOR i IN 0..batches - 1 LOOP
		keys := ARRAY(SELECT first_key + i * 100 + j FROM generate_series(1, 100) j);
		began := clock_timestamp();
		f := dedup_add_all(f, keys);
		spent := spent + extract(epoch FROM clock_timestamp() - began);
	END LOOP;
	RETURN spent;
END
$$;
