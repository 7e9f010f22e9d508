-- What growing_live.sh needs. In each pair of filters one grows and one is made for its keys.
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;

-- Seconds of CPU that this backend has used.
CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql
	AS $$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;

-- Scattered keys.
CREATE FUNCTION keys_of(first bigint, last bigint) RETURNS bigint[] LANGUAGE sql
	AS 'SELECT ARRAY(SELECT hashint8extended(i, 7) FROM generate_series($1, $2) i)';

-- Adds keys as one batch for each so many keys, or one transaction each.
CREATE PROCEDURE add_keys(filter text, first bigint, last bigint, batch bigint) LANGUAGE plpgsql AS $$
DECLARE
	at bigint := first;
	k bigint;
BEGIN
	WHILE at <= last LOOP
		IF batch > 1 THEN
			PERFORM count(*) FROM dedup_new_keys(filter::regclass, keys_of(at, least(at + batch - 1, last)));
		ELSE
			PERFORM is_new(filter::regclass, hashint8extended(at, 7));
		END IF;
		COMMIT;
		at := at + batch;
	END LOOP;
END $$;

-- CPU and WAL of the last of these.
CREATE TABLE added (filter text, batch bigint, round int, images boolean, cpu float8, wal numeric);
CREATE PROCEDURE measure(what text, filter text, first bigint, last bigint, batch bigint, round int) LANGUAGE plpgsql AS $$
DECLARE
	cpu_before float8 := cpu();
	wal_before pg_lsn := pg_current_wal_insert_lsn();
BEGIN
	CALL add_keys(filter, first, last, batch);
	INSERT INTO added VALUES (what, batch, round, current_setting('full_page_writes') = 'on', cpu() - cpu_before,
		pg_current_wal_insert_lsn() - wal_before);
END $$;
