# Partial aggregation by hand: two servers hold half of the rows each and build filters, the first server merges
# them, and the result is that of one server with all rows. The bytes are compared if the order of keys does not
# matter, else the answers. The second server has other OIDs, another locale, and shows values in another way.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils;
use TwoServers;
use Test::More;

my ($near, $far) = two_servers(extra => [ '--locale=C', '--encoding=UTF8' ]);

# All methods that can be merged, with their usual options, and what they promise of it, as
# dedup_advise says. bytes: those of one filter over all rows, in any order of merging, which
# docs/methods-in-depth.md says of two. answers: those of one filter, key by key, as of all that never
# forget and are never too full to be merged. kept: below its capacity no more keys are missed
# than ever, and the rate holds, but a window's order is not that of one server. Methods that
# drop keys by chance are compared while they are exact only.
# infini is not exact with so many keys, and two servers give it other bytes: kept.
my @methods = map { [ split /\|/, $_, -1 ] } split /\n/, $near->safe_psql(
	'postgres', q{
	SELECT DISTINCT ON (method, options) method, options, CASE
			WHEN 'promise a window' = ANY (cannot) THEN 'chance'
			WHEN 'keep its rate through a merge' = ANY (cannot) THEN 'kept at a higher rate'
			WHEN forgets OR method = 'infini' OR 'merge when both are nearly full' = ANY (cannot) THEN 'kept'
			WHEN method IN ('blocked_bloom', 'bloom') THEN 'bytes'
			ELSE 'answers' END, missed
	FROM (SELECT method, forgets, missed, place, string_to_array("cannot", ', ') AS cannot,
			regexp_replace(prototype, '^.*[ '']fpr=[^ '']* ?([^'']*)''\)$', '\1') AS options
		FROM unnest('{f,t}'::boolean[]) forgets, unnest('{0.01,0.3}'::float8[]) WITH ORDINALITY rates (fpr, place),
			dedup_advise(8000, fpr, forgets, NULL, false, true)
		WHERE prototype LIKE '%keys=%') x -- filters that grow are below
	ORDER BY method, options, place});
push @methods, [ 'bloom', 'hash=sip', 'bytes', 0 ];
cmp_ok(scalar @methods, '>', 20, 'methods that can be merged');

# Other OIDs for the same types over there: others were made before, and the labels of
# the enum in another order; the row has lost a column.
my $types = q{
	CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
	CREATE TYPE dot AS (x int, c colour);
	CREATE DOMAIN shade AS colour;
	CREATE TYPE colours AS RANGE (subtype = text);
};
$near->safe_psql('postgres', $types);
$types =~ s/'red', 'green', 'blue'/'blue', 'black', 'red', 'white', 'green'/;
$types =~ s/\(x int, c colour\)/(x int, gone text, c colour); ALTER TYPE dot DROP ATTRIBUTE gone/;
$far->safe_psql('postgres', "CREATE TYPE junk AS ENUM ('red'); CREATE TABLE junk_rows (x int); $types");
isnt($near->safe_psql('postgres', q{SELECT 'colour'::regtype::oid}),
	$far->safe_psql('postgres', q{SELECT 'colour'::regtype::oid}), 'the same type has another OID');

# 6,000 keys in 9,000 rows, of which each server has its part: 3,000 keys only here, 2,000
# only there, 1,000 on both.
my $rows = q{
	CREATE TABLE rows (place int, k bigint, t text, c colour);
	INSERT INTO rows SELECT i, k, 'key ' || k, (ARRAY['red', 'green', 'blue'])[1 + k % 3]::colour
	FROM (SELECT i, (i::bigint * 7919 % 9000 * 31) % 6000 AS k FROM generate_series(1, 9000) i) x
};
$near->safe_psql('postgres', "$rows WHERE k < 4000; CREATE TABLE all_rows (LIKE rows)");
$far->safe_psql('postgres', "$rows WHERE k >= 3000");
is($far->safe_psql('postgres', 'SELECT count(DISTINCT k) FROM rows'), 3000, 'keys there');
my $everywhere = $rows;
$everywhere =~ s/rows/all_rows/g;
$near->safe_psql('postgres', "DROP TABLE all_rows; $everywhere");
is($near->safe_psql('postgres', 'SELECT count(DISTINCT k) FROM all_rows'), 6000, 'keys in all');

# The prototypes, the same on both servers, with room for all hashes and with much less;
# each server's filters of them, and its partial states, as a distributed engine has them.
my $values = join(', ', map { "('" . join("', '", @$_) . "')" } @methods);
my $queries = qq{
	CREATE TABLE prototypes AS
	SELECT row_number() OVER () AS method, m || CASE WHEN o <> '' THEN ' ' || o ELSE '' END AS name, p AS promise, missed::float8 AS may_miss, form,
		dedup_method(m, NULL, CASE WHEN m <> 'infini' THEN 'keys=' || keys || ' ' ELSE '' END || o, 5) AS prototype
	FROM (VALUES $values) v(m, o, p, missed), (VALUES ('exact', 100000), ('full', 8000)) w(form, keys)
	WHERE (p <> 'chance' OR form = 'exact') AND (m <> 'infini' OR form = 'full');
	CREATE AGGREGATE partial_agg (prototype dedup_filter, VARIADIC key "any") (
		SFUNC = dedup_agg_trans, STYPE = dedup_filter, PARALLEL = SAFE);
	CREATE AGGREGATE combine_agg (state dedup_filter) (
		SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = dedup_agg_final, PARALLEL = SAFE);
	CREATE VIEW parts AS
		SELECT method, form, dedup_agg(prototype, k, t, c ORDER BY place) AS filter,
			partial_agg(prototype, k, t, c ORDER BY place)::text::dedup_filter AS state
		FROM prototypes, rows GROUP BY method, form;
};
$_->safe_psql('postgres', $queries) for $near, $far;
$near->safe_psql(
	'postgres', q{
	CREATE FOREIGN TABLE far_parts (method bigint, form text, filter dedup_filter, state dedup_filter)
		SERVER far OPTIONS (table_name 'parts');
	CREATE TABLE sides AS SELECT 1 AS side, * FROM parts UNION ALL SELECT 2, * FROM far_parts;
	CREATE TABLE merged AS
		SELECT method, form, dedup_merge_agg(filter ORDER BY side) AS filter,
			dedup_merge_agg(filter ORDER BY side DESC) AS reversed,
			combine_agg(state ORDER BY side) AS combined
		FROM sides GROUP BY method, form;
	CREATE TABLE single AS
		SELECT method, form, dedup_agg(prototype, k, t, c ORDER BY place) AS filter
		FROM prototypes, all_rows GROUP BY method, form;
	CREATE VIEW results AS
		SELECT method, name, promise, may_miss, form, m.filter, reversed, combined, s.filter AS single
		FROM prototypes JOIN merged m USING (method, form) JOIN single s USING (method, form);
});

is($near->safe_psql('postgres', 'SELECT count(DISTINCT side), count(*) FROM sides'),
	'2|' . 2 * $near->safe_psql('postgres', 'SELECT count(*) FROM prototypes'), 'all parts have come');

# Filters that grow: they miss no key of either server, at no more than the sum of their rates.
my $growing = q{CREATE VIEW growing AS SELECT dedup_agg(dedup_filter(seed => 5), k, t, c ORDER BY place) AS filter,
	partial_agg(dedup_filter(seed => 5), k, t, c ORDER BY place)::text::dedup_filter AS state FROM rows};
$_->safe_psql('postgres', $growing) for $near, $far;
is( $near->safe_psql(
		'postgres', q{
	CREATE FOREIGN TABLE far_growing (filter dedup_filter, state dedup_filter) SERVER far OPTIONS (table_name 'growing');
	CREATE TABLE grown AS SELECT dedup_merge_agg(filter) AS merged, combine_agg(state) AS combined, sum((dedup_stats(filter)).fpr_now) AS most
		FROM (TABLE growing UNION ALL TABLE far_growing) sides;
	SELECT bool_and(dedup_contains(merged, k, t, c)), bool_and(dedup_contains(combined, k, t, c)),
		bool_and((dedup_stats(merged)).fpr_now <= most AND (dedup_stats(combined)).fpr_now <= most) FROM grown, all_rows}),
	't|t|t', 'filters that grow miss no key, at no more than the sum of their rates');

# every way of travelling brings the same bytes

my $dir = PostgreSQL::Test::Utils::tempdir();
my $sum = q{SELECT md5(string_agg(filter::bytea::text || state::bytea::text, ',' ORDER BY method, form))};
my $at_home = $far->safe_psql('postgres', "SET bytea_output = hex; $sum FROM parts");
is($near->safe_psql('postgres', "$sum FROM far_parts"), $at_home, 'postgres_fdw brings the bytes that were sent');
for my $format ('binary', 'text', 'csv')
{
	$far->safe_psql('postgres', "COPY (SELECT * FROM parts) TO '$dir/parts' (FORMAT $format)");
	$near->safe_psql('postgres', "CREATE TABLE copied_$format (LIKE far_parts); COPY copied_$format FROM '$dir/parts' (FORMAT $format)");
	is($near->safe_psql('postgres', "$sum FROM copied_$format"), $at_home, "COPY, format $format, does");
}
SKIP:
{
	skip 'dblink is not there', 1 unless has_extension($near, 'dblink');
	$near->safe_psql('postgres', 'CREATE EXTENSION dblink');
	is( $near->safe_psql(
			'postgres', "$sum FROM dblink('far', 'SELECT * FROM parts') AS p(method bigint, form text, filter dedup_filter, state dedup_filter)"),
		$at_home, 'dblink does');
}

# While they are exact, all methods give the answers of one server, and those that do not
# go by order its bytes. Past that each keeps what it promises.

is( $near->safe_psql('postgres', q{SELECT name, form FROM results, dedup_stats(single) s
		WHERE s.exact <> (s.keys IS NOT NULL AND (form = 'exact' OR bytes_full - 64 >= 8 * 6000))}),
	'', 'the forms are what the test means');
is( $near->safe_psql('postgres', q{SELECT name FROM results WHERE form = 'exact'
		AND promise IN ('bytes', 'answers')
		AND (filter::text <> single::text OR reversed::text <> single::text OR combined::text <> single::text)}),
	'', 'exact: the same bytes where order does not matter');
is( $near->safe_psql('postgres', q{SELECT name, form FROM results WHERE promise = 'bytes'
		AND (filter::text <> single::text OR reversed::text <> single::text OR combined::text <> single::text)}),
	'', 'the same bytes of those that OR');
is($near->safe_psql('postgres', q{SELECT count(*) FROM results WHERE promise = 'bytes'}), 6, '... three methods in both forms');
is( $near->safe_psql('postgres', q{SELECT name, dedup_count(filter), dedup_count(combined) FROM results
		WHERE form = 'exact' AND (dedup_count(filter) <> 6000 OR dedup_count(combined) <> 6000)}),
	'', 'exact: every method counts the keys of both');

# of each filter: keys missed of the 6,000, others taken for one of 10,000, and answers
# other than the single server's. Filter by filter, so that each is fetched once.
$near->safe_psql(
	'postgres', q{
	CREATE TABLE keys AS SELECT k, 'key ' || k AS t, (ARRAY['red', 'green', 'blue'])[1 + abs(k) % 3]::colour AS c
		FROM generate_series(-10000, 5999) k;
	CREATE TABLE asked AS
	SELECT name, promise, may_miss, form, way, answers.*, (dedup_stats(f)).fpr_now AS told
	FROM results, LATERAL (VALUES ('filters', filter), ('reversed', reversed), ('states', combined)) v(way, f),
		LATERAL (SELECT count(*) FILTER (WHERE k >= 0 AND NOT seen) AS missed, count(*) FILTER (WHERE k < 0 AND seen) AS wrong,
				count(*) FILTER (WHERE seen <> single_seen) AS other
			FROM (SELECT k, dedup_contains(f, k, t, c) AS seen, dedup_contains(single, k, t, c) AS single_seen FROM keys) x) answers;
});
is( $near->safe_psql('postgres', q{SELECT * FROM asked WHERE form = 'exact' AND (missed > 0 OR wrong > 0 OR other > 0)}),
	'', 'exact: every method answers as one server does');
is($near->safe_psql('postgres', q{SELECT * FROM asked WHERE promise IN ('bytes', 'answers') AND (missed > 0 OR other > 0)}),
	'', 'full: the same answers');
is( $near->safe_psql('postgres', q{SELECT * FROM asked WHERE promise <> 'chance' AND missed > 6000 * may_miss}),
	'', 'full: no key is missed, but of recent and fifo one in a thousand');
is( $near->safe_psql('postgres', q{SELECT * FROM asked WHERE promise = 'kept' AND form = 'full' AND wrong > 10000 * 0.01 + 4 * sqrt(10000 * 0.01)}),
	'', 'full: the rate holds');
is( $near->safe_psql('postgres', q{SELECT * FROM asked WHERE promise = 'kept at a higher rate' AND form = 'full'
		AND abs(wrong - 10000 * told) > 10000 * told * 0.1 + 4 * sqrt(10000 * told)}),
	'', 'full: dedup_stats tells the higher rate, as of a ring');
is($near->safe_psql('postgres', 'SELECT count(*) FROM asked'), 3 * $near->safe_psql('postgres', 'SELECT count(*) FROM prototypes'),
	'all were asked');
note($near->safe_psql('postgres', q{SELECT * FROM asked WHERE form = 'full' ORDER BY 1, 2, 3, 4}));

# Sketches: a sketch merged from both servers' says what one of all rows says, to the byte
# where the order of rows does not matter; and of the truth what it promises. The last of
# each is a query that finds what is wrong with the filter f, over the table sights: how
# often each key came on both servers, n, and together, total.

my $too_low = 'SELECT k FROM sights WHERE dedup_frequency(f, k) < n';
my $too_high = 'SELECT 1 FROM sights HAVING count(*) FILTER (WHERE dedup_frequency(f, k) > n + exp(1) / (16384 / 4 / 5) * total) > 0.01 * count(*)';
my @sketches = (
	[ 'count_min exact', q{dedup_method('count_min', '1MB')}, 'bytes', 'SELECT k FROM sights WHERE dedup_frequency(f, k) <> n' ],
	[ 'count_min', q{dedup_method('count_min', '16kB')}, 'bytes', "$too_low UNION ALL $too_high" ],
	[ 'count_min conservative', q{dedup_method('count_min', '16kB', 'conservative=on')}, 'answers', "$too_low UNION ALL $too_high" ],
	[ 'exaloglog exact', q{dedup_method('exaloglog', '64kB')}, 'bytes', 'SELECT 1 WHERE dedup_count(f) <> 6000' ],
	# four standard errors of HyperLogLog with as many bytes, in registers of six bits
	[ 'exaloglog', q{dedup_method('exaloglog', '4kB')}, 'bytes',
		'SELECT 1 WHERE abs(dedup_count(f) - 6000) > 4 * 1.04 / sqrt(4096 * 8 / 6.0) * 6000' ],
);
$near->safe_psql(
	'postgres', q{
	CREATE FOREIGN TABLE far_rows (k bigint) SERVER far OPTIONS (table_name 'rows');
	CREATE TABLE every_sight AS SELECT k FROM rows UNION ALL SELECT k FROM far_rows;
	CREATE TABLE sights AS SELECT k, count(*) AS n, sum(count(*)) OVER () AS total FROM every_sight GROUP BY k;
});
for my $sketch (@sketches)
{
	my ($name, $prototype, $promise, $wrong) = @$sketch;
	my $view = qq{
		CREATE VIEW sketch AS SELECT dedup_agg($prototype, k) AS f, partial_agg($prototype, k)::text::dedup_filter AS state
		FROM rows};
	$_->safe_psql('postgres', $view) for $near, $far;
	$near->safe_psql(
		'postgres', qq{
		CREATE FOREIGN TABLE far_sketch (f dedup_filter, state dedup_filter) SERVER far OPTIONS (table_name 'sketch');
		CREATE TABLE sketches AS
		SELECT 'filters' AS way, dedup_merge_agg(f) AS f FROM (SELECT f FROM sketch UNION ALL SELECT f FROM far_sketch) x
		UNION ALL SELECT 'reversed', dedup_merge_agg(f) FROM (SELECT f FROM far_sketch UNION ALL SELECT f FROM sketch) x
		UNION ALL SELECT 'states', combine_agg(state) FROM (SELECT state FROM sketch UNION ALL SELECT state FROM far_sketch) x
		UNION ALL SELECT 'single', dedup_agg($prototype, k) FROM every_sight});
	is($near->safe_psql('postgres', "SELECT way, wrong FROM sketches, LATERAL (SELECT count(*) AS wrong FROM ($wrong) x) y WHERE wrong > 0"),
		'', "$name keeps its promise");
	is($near->safe_psql('postgres', q{SELECT count(*), count(DISTINCT f::text) FROM sketches}), '4|1', '... in the same bytes')
	  if $promise eq 'bytes';
	is($near->safe_psql('postgres', q{SELECT DISTINCT exact FROM sketches, dedup_stats(f)}), $name =~ /exact/ ? 't' : 'f',
		'... in the form that is meant');
	$near->safe_psql('postgres', 'DROP TABLE sketches; DROP FOREIGN TABLE far_sketch; DROP VIEW sketch');
	$far->safe_psql('postgres', 'DROP VIEW sketch');
}

# Keys of every portable type, hashed on both servers, and in a database of another
# encoding: the exact filters of both hold the same hashes, and each knows the other's keys.

$far->safe_psql('postgres', q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'});
$far->safe_psql('latin', "CREATE EXTENSION streamdedup; CREATE TYPE moved AS ENUM ('a'); $types");
my @portable = (
	[ 'boolean', 't', 'f' ],
	[ '"char"', 'x' ],
	[ 'smallint', '-1', '300' ],
	[ 'integer', '-70000', '5' ],
	[ 'bigint', '-1', '5000000000' ],
	[ 'real', '-0', 'NaN', '0.1', 'Infinity' ],
	[ 'double precision', '-0', 'NaN', '0.1', '1e300' ],
	[ 'numeric', '2', '2.00', 'NaN', '-123456789012345678901234567890.5', '1e-20' ],
	[ 'text', '', 'key', 'Key ', 'a' x 300 ],
	[ 'varchar(10)', 'key' ],
	[ 'char(10)', 'key' ],
	[ 'name', 'key' ],
	[ 'bytea', '\xDEADBEEF', '\x00' ],
	[ 'uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' ],
	[ 'date', '2024-02-29', 'infinity', '0044-03-15 BC' ],
	[ 'time', '12:34:56.789' ],
	[ 'timetz', '12:34:56+02', '10:34:56+00' ],
	[ 'timestamp', '2024-02-29 12:34:56.789', '-infinity' ],
	[ 'timestamptz', '2024-02-29 12:34:56.789+02', 'infinity' ],
	[ 'interval', '1 mon 2 days 03:04:05', '30 days' ],
	[ 'inet', '10.1.2.3/8', '2001:db8::1' ],
	[ 'cidr', '10.0.0.0/8' ],
	[ 'macaddr', '08:00:2b:01:02:03' ],
	[ 'macaddr8', '08:00:2b:01:02:03:04:05' ],
	[ 'jsonb', '{"a": [1, 2.0, null, true], "b": {"c": "x"}}', '1', '"x"' ],
	[ 'pg_lsn', '16/B374D848' ],
	[ 'xid8', '42' ],
	[ 'tid', '(7,3)' ],
	[ 'int4range', '[1,10)', 'empty', '(,5]' ],
	[ 'numrange', '[1.0,2.50]' ],
	[ 'daterange', '[2024-01-01,2024-02-01)' ],
	[ 'tstzrange', '[2024-01-01 00:00+00,)' ],
	[ 'int4multirange', '{[1,3),[5,9)}' ],
	[ 'int[]', '{1,2,NULL,3}', '{{1,2},{3,4}}' ],
	[ 'text[]', '{a,"b c",NULL}' ],
	[ 'colour', 'red', 'blue' ],
	[ 'colour[]', '{red,green}' ],
	[ 'shade', 'green' ],
	[ 'dot', '(7,red)', '(,blue)' ],
	[ 'dot[]', '{"(7,red)","(8,green)"}' ],
	[ 'colours', '[a,b)' ]);
for my $row (@portable)
{
	my ($type, @keys) = @$row;
	my $keys = 'unnest(ARRAY[' . join(', ', map { "'$_'" } @keys) . "]) v";
	my $filter = $near->safe_psql('postgres', "SELECT dedup_agg(dedup_filter(100), v::$type) FROM $keys");
	is( join(' ', map { $far->safe_psql($_, "SELECT dedup_agg(dedup_filter(100), v::$type)::text = '$filter',
			bool_or(is_new('$filter'::dedup_filter, v::$type)) FROM $keys") } ('postgres', 'latin')),
		't|f t|f', "keys of type $type");
}
my $several = q{SELECT dedup_agg(dedup_filter(100), 1, 'two', 3.0, date '2024-01-01', ROW(1, 'x'::text), 'red'::colour)};
is($far->safe_psql($_, $several), $near->safe_psql('postgres', $several), "a key of several columns, $_") for 'postgres', 'latin';
my $one = $near->safe_psql('postgres', q{SELECT dedup_agg(dedup_filter(100), c) FROM unnest('{red,green}'::colour[]) c});
is($far->safe_psql('postgres', "SELECT string_agg(c::text, ',') FROM unnest(enum_range(NULL::colour)) c WHERE is_new('$one'::dedup_filter, c)"),
	'blue,black,white', 'an enum is its label, not its place');

# Text beyond ASCII is its bytes, so it is another key in another encoding: as it says in
# docs/distributed.md.
my $accent = q{SELECT dedup_agg(dedup_filter(100), chr(233))};
is($far->safe_psql('postgres', $accent), $near->safe_psql('postgres', $accent), 'text beyond ASCII in the same encoding');
isnt($far->safe_psql('latin', $accent), $near->safe_psql('postgres', $accent), 'text beyond ASCII in another one');

# A query on a table of which the far server has a partition: grouped by what it is
# partitioned by, each server aggregates its own.

$near->safe_psql(
	'postgres', q{
	CREATE TABLE parted (k bigint, t text, c colour, server int) PARTITION BY LIST (server);
	CREATE TABLE parted_near PARTITION OF parted FOR VALUES IN (1);
	INSERT INTO parted SELECT k, t, c, 1 FROM rows;
});
$far->safe_psql('postgres', 'CREATE TABLE parted_far AS SELECT k, t, c, 2 AS server FROM rows; ANALYZE parted_far');
$near->safe_psql('postgres',
	q{CREATE FOREIGN TABLE parted_far PARTITION OF parted FOR VALUES IN (2) SERVER far; ANALYZE parted});
my $settings = 'SET enable_partitionwise_aggregate = on;';
my $grouped = 'SELECT server, dedup_agg(dedup_filter(8000), k) AS f FROM parted GROUP BY server';
like(remote_sql($near, $grouped, $settings), qr/^SELECT server, public\.dedup_agg\('[^']+'::public\.dedup_filter, k\) FROM public\.parted_far GROUP BY 1$/,
	'a partition is aggregated where it is');
is($near->safe_psql('postgres', "$settings SELECT dedup_merge_agg(f)::text = (SELECT dedup_agg(dedup_filter(8000), k)::text FROM all_rows) FROM ($grouped) x"),
	't', '... and merged to the filter of all');
is($near->safe_psql('postgres', "$settings SELECT dedup_agg(dedup_filter(8000), k)::text = (SELECT dedup_agg(dedup_filter(8000), k)::text FROM all_rows) FROM parted"),
	't', 'partial aggregates of the executor');

# A count of the whole table, from partial states.

my $count = 'SELECT approx_count_distinct(k) FROM';
is($near->safe_psql('postgres', "$settings $count parted"), $near->safe_psql('postgres', "$count all_rows"),
	'approx_count_distinct of both partitions');
like(remote_sql($near, 'SELECT server, approx_count_distinct(k, t) FROM parted GROUP BY server', $settings),
	qr/^SELECT server, public\.approx_count_distinct\(k, t\) FROM public\.parted_far GROUP BY 1$/, '... is asked over there');

# Without a partitioned table, one aggregate for each server.
my $union = q{SELECT dedup_merge_agg(f)::text = (SELECT dedup_agg(dedup_filter(8000), k)::text FROM all_rows)
	FROM (SELECT dedup_agg(dedup_filter(8000), k) AS f FROM parted_near UNION ALL SELECT dedup_agg(dedup_filter(8000), k) FROM parted_far) x};
like(remote_sql($near, $union), qr/^SELECT public\.dedup_agg\('[^']+'::public\.dedup_filter, k\) FROM public\.parted_far$/,
	'UNION ALL of aggregates: each on its own server');
is($near->safe_psql('postgres', $union), 't', '... the filter of all');

# A live filter of the far server, saved there and loaded here. Its name needs a schema:
# postgres_fdw's sessions have no search path.

$far->safe_psql('postgres', q{
	SELECT dedup_create('seen', dedup_filter(10000, 0.001, 42));
	SELECT count(is_new('seen', k)) FROM rows;
	CREATE VIEW snapshots AS SELECT dedup_snapshot('public.seen') AS f});
$near->safe_psql('postgres', q{
	CREATE FOREIGN TABLE snapshots (f dedup_filter) SERVER far;
	SELECT dedup_create('seen_there', dedup_filter(10000, 0.001, 42));
	SELECT dedup_load('seen_there', (SELECT f FROM snapshots))});
is($near->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE NOT dedup_seen('seen_there', k)) FROM generate_series(3000, 5999) k}),
	0, 'a live filter is loaded from the far server');

$near->stop;
$far->stop;
done_testing();
