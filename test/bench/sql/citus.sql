-- What test/bench/citus.sh measures. With \set rows and users.

SET client_min_messages = warning;
SET citus.shard_count = 16;
CREATE EXTENSION IF NOT EXISTS hll;

-- clicks are distributed by page, buyers by user; a user in fifty is a vip
CREATE TABLE clicks (page int NOT NULL, user_id bigint NOT NULL, referrer text NOT NULL);
CREATE TABLE buyers (user_id bigint PRIMARY KEY, vip boolean NOT NULL, name text NOT NULL);
SELECT create_distributed_table('clicks', 'page', colocate_with => 'none') \g /dev/null
SELECT create_distributed_table('buyers', 'user_id', colocate_with => 'none') \g /dev/null
INSERT INTO clicks SELECT i % 5000, (hashint8extended(i, 1) & 9007199254740991) % :users, 'https://example.com/article/' || i % 1009
FROM generate_series(1, :rows) i;
INSERT INTO buyers SELECT i, i % 50 = 0, 'name ' || i FROM generate_series(0, :users - 1) i;
VACUUM ANALYZE clicks;
VACUUM ANALYZE buyers;
