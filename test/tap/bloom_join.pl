# A Bloom join of two servers: the filter of the near side's keys travels to the far
# server as a parameter, and only the rows that it lets through travel back. The result
# is that of the plain join.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use TwoServers;
use Test::More;

my ($near, $far) = two_servers();

# 100,000 rows on the far server, of which 1,000 have a partner among the 1,000 wanted
# here: too many for a filter of so few keys to stay exact.
my $columns = 'k bigint, t text, u uuid, d date, n numeric, c text COLLATE "C"';
$far->safe_psql(
	'postgres', qq{
	CREATE TABLE clicks ($columns);
	INSERT INTO clicks SELECT k, 'user ' || k, md5(k::text)::uuid, date '2000-01-01' + k, k / 4.0, 'u' || k
		FROM generate_series(1, 100000) k;
	ANALYZE clicks;
});
connect_servers($near, 'plain', $far, 'postgres', '');
$near->safe_psql(
	'postgres', qq{
	CREATE FOREIGN TABLE clicks ($columns) SERVER far;
	CREATE FOREIGN TABLE plain_clicks ($columns) SERVER plain OPTIONS (table_name 'clicks');
	CREATE TABLE users ($columns, wanted boolean);
	INSERT INTO users SELECT k, 'user ' || k, md5(k::text)::uuid, date '2000-01-01' + k, k / 4.0, 'u' || k, k <= 100000
		FROM generate_series(100, 200000, 100) k;
	ANALYZE users;
});
my $rate = 0.01;

# The filter of the users wanted, by some columns.
sub filter_of { return "(SELECT dedup_agg(dedup_filter(1000, $rate), $_[0]) FROM users WHERE wanted)" }

# the filter is a parameter of the query that the far server runs

my $plain = 'SELECT * FROM clicks c JOIN users u USING (k) WHERE u.wanted';
my $bloom = "$plain AND dedup_contains(" . filter_of('k') . ', c.k)';
is(remote_sql($near, $plain), 'SELECT k, t, u, d, n, c FROM public.clicks', 'a plain join fetches the table');
is(remote_sql($near, $bloom),
	'SELECT k, t, u, d, n, c FROM public.clicks WHERE (public.dedup_contains($1::public.dedup_filter, k))',
	'with a filter it is asked over there');

# rows that travel: all of them, or the partners and those taken for one

is(scanned_rows($near, 'c', $plain), 100_000, 'rows of a plain join');
my $others = 99_000 * $rate;
my $rows = scanned_rows($near, 'c', $bloom);
cmp_ok($rows, '>=', 1000, 'rows with a filter: the partners');
cmp_ok($rows, '<=', 1000 + $others + 4 * sqrt($others), '... and at most one in a hundred of the others');
isnt($rows, 1000, '... for it is past its exact form');
note("rows moved: 100000 without a filter, $rows with");

# the far server counts as many

SKIP:
{
	skip 'pg_stat_statements is not there', 2 unless has_extension($far, 'pg_stat_statements');
	$far->append_conf('postgresql.conf', q{shared_preload_libraries = 'pg_stat_statements'});
	$far->restart;
	$far->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
	for my $query ([ $plain, 100_000 ], [ $bloom, $rows ])
	{
		$far->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
		$near->safe_psql('postgres', $query->[0]);
		is($far->safe_psql('postgres', q{SELECT sum(rows) FROM pg_stat_statements WHERE query LIKE 'FETCH%'}),
			$query->[1], 'the far server counts as many rows fetched');
	}
}

# the result is that of the plain join, for each type of key

for my $key ('k', 't', 'u', 'd', 'n', 'c', 'k, t', 't, c', 'd, n, c')
{
	my $asked = join(', ', map { "c.$_" } split(/, /, $key));
	my $join = "SELECT c.* FROM clicks c JOIN users u USING ($key) WHERE u.wanted";
	my $with = "$join AND dedup_contains(" . filter_of($key) . ", $asked)";
	like(remote_sql($near, $with), qr/WHERE \(public\.dedup_contains\(\$1::public\.dedup_filter, \Q$key\E\)\)/,
		"key $key: asked over there");
	is( $near->safe_psql('postgres', "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY k)) FROM ($with) x"),
		$near->safe_psql('postgres', "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY k)) FROM ($join) x"),
		'... the same result');
}

# in other places

like(remote_sql($near, 'SELECT count(*) FROM clicks c WHERE dedup_contains(' . filter_of('k') . ', c.k)'),
	qr/^SELECT count\(\*\) FROM public\.clicks WHERE \(public\.dedup_contains\(/, 'together with an aggregate');
like(remote_sql($near, 'DELETE FROM clicks c WHERE dedup_contains(' . filter_of('k') . ', c.k)'),
	qr/^DELETE FROM public\.clicks WHERE \(public\.dedup_contains\(/, 'DELETE');
like(remote_sql($near, "UPDATE clicks c SET t = 'seen' WHERE dedup_contains(" . filter_of('k') . ', c.k)'),
	qr/^UPDATE public\.clicks SET t = 'seen'(::text)? WHERE \(\(?public\.dedup_contains\(/, 'UPDATE');
is( $near->safe_psql('postgres', 'SELECT count(*) FROM clicks c WHERE EXISTS (SELECT FROM users u WHERE u.k = c.k AND u.wanted)
		AND dedup_contains(' . filter_of('k') . ', c.k)'), 1000, 'EXISTS');
like(remote_sql($near, 'SELECT count(*) FROM clicks c WHERE dedup_contains(' . filter_of('t, t') . ', VARIADIC ARRAY[c.t, c.t])'),
	qr/dedup_contains\(\$1::public\.dedup_filter, VARIADIC ARRAY\[t, t\]\)/, 'VARIADIC');
is( $near->safe_psql('postgres', q{SELECT count(*) FROM clicks c WHERE dedup_contains(
		(SELECT dedup_agg(dedup_filter(1000), t, 7, 'x') FROM users WHERE wanted AND k % 1000 = 0), t, 7, 'x')}),
	100, 'constants in the key');
my $new = 'SELECT count(*) FROM clicks c WHERE is_new((SELECT dedup_agg(dedup_filter(1000), k) FROM users WHERE wanted AND k % 1000 = 0), k)';
like(remote_sql($near, $new), qr/public\.is_new\(\$1::public\.dedup_filter, k\)/, 'is_new of a value');
is($near->safe_psql('postgres', $new), 99_900, '... answers there');
is( remote_sql($near, 'EXECUTE p (dedup_filter(10))',
		'SET plan_cache_mode = force_generic_plan; PREPARE p (dedup_filter) AS SELECT count(*) FROM clicks WHERE dedup_contains($1, k);'),
	'SELECT count(*) FROM public.clicks WHERE (public.dedup_contains($1::public.dedup_filter, k))',
	'a parameter of a generic plan');
like(remote_sql($near, 'SELECT count(*) FROM clicks WHERE dedup_contains(dedup_add(dedup_filter(10), 1), k)'),
	qr/public\.dedup_contains\('[A-Za-z0-9+\/=]+'::public\.dedup_filter, k\)/, 'a constant is part of the text');
is( $near->safe_psql('postgres', 'SELECT count(*) FROM clicks WHERE dedup_contains((SELECT dedup_agg(k) FROM users WHERE k < 0), k)'),
	0, 'no filter, no row');

# where the filter is of a table in FROM, or a column needs what is not known to be the
# same over there, the rows travel first; and without the option

$near->safe_psql('postgres', 'CREATE TABLE filters AS SELECT dedup_agg(dedup_filter(1000), k) AS f FROM users WHERE wanted');
my $fetch = qr/^SELECT [a-z, ]+ FROM public\.clicks$/;
like(remote_sql($near, 'SELECT * FROM filters, clicks c WHERE dedup_contains(f, c.k)'), $fetch, 'not from a table in FROM');
like(remote_sql($near, 'SELECT * FROM clicks c WHERE dedup_contains((SELECT f FROM filters), c.k)'),
	qr/dedup_contains/, '... but from a sub-select');
like(remote_sql($near, 'SELECT * FROM clicks c WHERE dedup_contains((SELECT f FROM filters), c.t COLLATE "C")'),
	$fetch, 'not in another collation');
like(remote_sql($near, "SELECT * FROM plain_clicks c WHERE dedup_contains((SELECT f FROM filters), c.k)"),
	$fetch, 'not without the option extensions');
$near->safe_psql('postgres', q{SELECT dedup_create('seen', dedup_filter(1000))});
like(remote_sql($near, q{SELECT * FROM clicks c WHERE is_new('seen', c.k)}), $fetch, 'a live filter is asked here');

# the estimates of the far server make no difference

$near->safe_psql('postgres', q{ALTER SERVER far OPTIONS (ADD use_remote_estimate 'true')});
like(remote_sql($near, $bloom), qr/dedup_contains\(\$1::public\.dedup_filter, k\)/, 'with use_remote_estimate');
is($near->safe_psql('postgres', "SELECT count(*) FROM ($bloom) x"), 1000, '... the same result');

# names are sent with the schema that the extension has here

$near->safe_psql('postgres', 'CREATE SCHEMA ext; ALTER EXTENSION streamdedup SET SCHEMA ext');
my ($rc, $out, $err) = $near->psql('postgres', 'SET search_path = public, ext;' . $bloom);
like($err, qr/schema "ext" does not exist/, 'another schema on one side is an error');
$far->safe_psql('postgres', 'CREATE SCHEMA ext; ALTER EXTENSION streamdedup SET SCHEMA ext');
is($near->safe_psql('postgres', "SET search_path = public, ext; SELECT count(*) FROM ($bloom) x"),
	1000, '... and works with the same on both');

$near->stop;
$far->stop;
done_testing();
