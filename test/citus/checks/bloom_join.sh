# Bloom joins of tables that are not co-located: which forms run, their plans, and the bytes that
# go between the nodes.

sql() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }
cat > "$TMPDIR/bloom.sql" <<'SQL'
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
SET citus.shard_count = 16;
-- hits are distributed by page, buyers by user_id; one hit in fifty has a buyer who is a vip
CREATE TABLE hits (page int NOT NULL, user_id bigint NOT NULL, referrer text NOT NULL);
CREATE TABLE buyers (user_id bigint PRIMARY KEY, vip boolean NOT NULL, name text NOT NULL);
SELECT create_distributed_table('hits', 'page', colocate_with => 'none') \g /dev/null
SELECT create_distributed_table('buyers', 'user_id', colocate_with => 'none') \g /dev/null
CREATE TABLE plain.hits (LIKE hits);
CREATE TABLE plain.buyers (LIKE buyers);
INSERT INTO plain.hits SELECT i % 500, i::bigint * 31 % 50021, 'https://example.com/article/' || i % 1009 FROM generate_series(1, 200000) i;
INSERT INTO plain.buyers SELECT i, i % 50 = 0, 'name ' || i FROM generate_series(1, 50000) i;
INSERT INTO hits SELECT * FROM plain.hits;
INSERT INTO buyers SELECT * FROM plain.buyers;
ANALYZE hits, buyers, plain.hits, plain.buyers;

CREATE TABLE forms (name text, query text);
INSERT INTO forms VALUES
('one query', 'SELECT count(*), sum(length(referrer)) FROM hits h JOIN buyers b USING (user_id) WHERE b.vip
	AND dedup_contains((SELECT dedup_agg(dedup_filter(2000), user_id) FROM buyers WHERE vip), h.user_id)'),
('one query, without', 'SELECT count(*), sum(length(referrer)) FROM hits h JOIN buyers b USING (user_id) WHERE b.vip'),
('both', 'SELECT count(*), sum(length(referrer))
	FROM (SELECT user_id, referrer FROM hits
		WHERE dedup_contains((SELECT dedup_agg(dedup_filter(2000), user_id) FROM buyers WHERE vip), user_id) OFFSET 0) h
	JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)'),
('both, without', 'SELECT count(*), sum(length(referrer)) FROM (SELECT user_id, referrer FROM hits OFFSET 0) h
	JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)'),
('big', 'SELECT count(*), sum(length(referrer))
	FROM (SELECT user_id, referrer FROM hits
		WHERE dedup_contains((SELECT dedup_agg(dedup_filter(2000), user_id) FROM buyers WHERE vip), user_id) OFFSET 0) h
	JOIN buyers b USING (user_id) WHERE b.vip'),
('big, without', 'SELECT count(*), sum(length(referrer)) FROM (SELECT user_id, referrer FROM hits OFFSET 0) h
	JOIN buyers b USING (user_id) WHERE b.vip'),
('small, without', 'SELECT count(*), sum(length(referrer)) FROM hits h
	JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)'),
('IN', 'SELECT count(*), sum(length(referrer)) FROM hits WHERE user_id IN (SELECT user_id FROM buyers WHERE vip)
	AND dedup_contains((SELECT dedup_agg(dedup_filter(2000), user_id) FROM buyers WHERE vip), user_id)'),
('CTE', 'WITH f AS MATERIALIZED (SELECT dedup_agg(dedup_filter(2000), user_id) AS filter FROM buyers WHERE vip),
	h AS MATERIALIZED (SELECT user_id, referrer FROM hits WHERE dedup_contains((SELECT filter FROM f), user_id)),
	b AS MATERIALIZED (SELECT user_id FROM buyers WHERE vip)
	SELECT count(*), sum(length(referrer)) FROM h JOIN b USING (user_id)'),
('two columns of text', 'SELECT count(*), sum(length(referrer))
	FROM (SELECT user_id, referrer FROM hits
		WHERE dedup_contains((SELECT dedup_merge_agg(dedup_add(dedup_filter(2000), user_id, name)) FROM buyers WHERE vip), user_id, ''name '' || user_id) OFFSET 0) h
	JOIN (SELECT user_id, name FROM buyers WHERE vip OFFSET 0) b ON h.user_id = b.user_id AND ''name '' || h.user_id = b.name');
SELECT expect('the form of one server', query, '0A000 complex joins are only supported when all distributed tables are co-located and joined on their distribution columns') FROM forms WHERE name = 'one query';
SELECT expect('without a filter', query, 'XX000 the query contains a join that requires repartitioning') FROM forms WHERE name = 'one query, without';
SET citus.enable_repartition_joins = on;
SELECT expect('the form of one server, repartitioned', query, '0A000 complex joins are only supported when all distributed tables are co-located and joined on their distribution columns') FROM forms WHERE name = 'one query';
SELECT same('without a filter, repartitioned', query) FROM forms WHERE name = 'one query, without';
RESET citus.enable_repartition_joins;
SELECT same(name, query) FROM forms WHERE name !~ '^one';
SELECT plan_has('the filter drops rows in the scan', query, 'Distributed Subplan.*worker_partial_agg.*Distributed Subplan.*Seq Scan on public.hits_.*Filter: dedup_contains\(\$0') FROM forms WHERE name = 'both';
SELECT plan_has('the other side stays where it is', query, 'Task Count: 16.*Query: SELECT count.*JOIN public.buyers_') FROM forms WHERE name = 'big';

-- joins that need none of this: co-located tables and reference tables
SELECT same('co-located', 'SELECT count(*) FROM clicks c JOIN visits v USING (page) WHERE v.user_id < 100
		AND dedup_contains((SELECT dedup_agg(dedup_filter(1000), page) FROM visits WHERE user_id < 100), c.page)'),
	plan_has('co-located: the filter is asked on the workers', 'SELECT count(*) FROM clicks c JOIN visits v USING (page) WHERE v.user_id < 100
		AND dedup_contains((SELECT dedup_agg(dedup_filter(1000), page) FROM visits WHERE user_id < 100), c.page)', 'Task Count: 16.*Seq Scan on public.clicks_.*Filter: dedup_contains\(\$0'),
	same('a reference table', 'SELECT count(*) FROM clicks c JOIN pages p USING (page) WHERE p.title < ''page 2''
		AND dedup_contains((SELECT dedup_agg(dedup_filter(1000), page) FROM pages WHERE title < ''page 2''), c.page)'),
	plan_has('a reference table: the filter is asked on the workers', 'SELECT count(*) FROM clicks c JOIN pages p USING (page) WHERE p.title < ''page 2''
		AND dedup_contains((SELECT dedup_agg(dedup_filter(1000), page) FROM pages WHERE title < ''page 2''), c.page)', 'Task Count: 16.*Filter: dedup_contains\(\$');
SQL
checks "$TMPDIR/bloom.sql"

# moved FORM: sets BYTES to the bytes between the nodes that the query takes.
moved() {
	local query before
	query=$(sql -c "SELECT query FROM forms WHERE name = '$1'")
	sql -c "$query" > /dev/null
	before=$(bytes_moved)
	sql -c "$query" > /dev/null
	sleep 0.2
	BYTES=$(($(bytes_moved) - before))
	echo "$1: $BYTES bytes"
}
moved 'both, without'; both_without=$BYTES
moved 'both'; both=$BYTES
moved 'big, without'; big_without=$BYTES
moved 'big'; big=$BYTES
moved 'small, without'
moved 'CTE'
[ $((both * 5)) -lt "$both_without" ] || { echo "the filter must save most of $both_without bytes: $both"; exit 1; }
[ $((big * 5)) -lt "$big_without" ] || { echo "the filter must save most of $big_without bytes: $big"; exit 1; }
echo "ok - both sides in subqueries: at most a fifth of the bytes"
echo "ok - the big side in a subquery: at most a fifth of the bytes"
