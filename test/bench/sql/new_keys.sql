-- What new_keys.cpp finds.
\o /dev/null
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
SELECT dedup_create('live', dedup_filter(10000000, 0.01));
SELECT dedup_create('unlogged', dedup_filter(10000000, 0.01), unlogged => true);
