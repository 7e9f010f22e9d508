# How the library is loaded into a session, and the effect of a setting that was made before.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
configure($node);
$node->start;
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');

# Of each EXPLAIN among the statements, what counts.
my $explain = 'EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT a) FROM t';
my $load = 'SELECT dedup_filter(10) IS NULL';

sub plans
{
	my ($dbname, $sql, %params) = @_;
	my ($rc, $stdout, $stderr) = $node->psql($dbname, $sql, %params);
	return join(' ', map { /approx_count_distinct/ ? 'approximate' : 'exact' } grep { /Output: .*count/ } split(/\n/, $stdout));
}

sub said
{
	my ($dbname, $sql, %params) = @_;
	my ($rc, $stdout, $stderr) = $node->psql($dbname, $sql, %params);
	return $stderr;
}

# CREATE EXTENSION gives the line that loads it, and the line works.
$node->safe_psql('postgres', 'CREATE DATABASE "Some ""db"');
my $said = said('Some "db', 'CREATE EXTENSION streamdedup; CREATE TABLE t (a int)');
like($said, qr/NOTICE:  streamdedup is not preloaded/, 'CREATE EXTENSION says that the library is not preloaded');
my ($line) = $said =~ /(ALTER DATABASE .*;)/;
is($line, 'ALTER DATABASE "Some ""db" SET session_preload_libraries = \'streamdedup\';', 'and gives the line');
is(plans('Some "db', "SET streamdedup.approximate_distinct = on; $explain"), 'exact', 'before it, a SET has no effect');
$node->safe_psql('Some "db', $line);
is(plans('Some "db', "SET streamdedup.approximate_distinct = on; $explain"), 'approximate', 'after it, a SET has');
is(said('Some "db', 'DROP EXTENSION streamdedup; CREATE EXTENSION streamdedup'), '', 'and nothing more is said');

# It keeps what is there, and is said if and when the extension is there to stay.
$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('postgres', q{ALTER DATABASE d SET session_preload_libraries = 'auto_explain', 'pg_stat_statements'});
my $keeps = qr/ALTER DATABASE d SET session_preload_libraries = 'auto_explain', 'pg_stat_statements', 'streamdedup';/;
is(said('d', 'BEGIN; CREATE EXTENSION streamdedup; ROLLBACK'), '', 'rolled back');
is(said('d', 'BEGIN; SAVEPOINT p; CREATE EXTENSION streamdedup; ROLLBACK TO p; COMMIT'), '', 'rolled back to a savepoint');
is(said('d', 'SET client_min_messages = warning; CREATE EXTENSION streamdedup; DROP EXTENSION streamdedup'), '',
	'by those who want no notices it is not heard');
like(said('d', 'BEGIN; CREATE EXTENSION streamdedup; COMMIT'), $keeps, 'other libraries are kept');
like(said('d', q{DROP EXTENSION streamdedup; ALTER DATABASE d RESET session_preload_libraries;
	ALTER DATABASE d SET session_preload_libraries = 'auto_explain', 'pg_stat_statements'; CREATE EXTENSION streamdedup}),
	$keeps, 'set in the same session');
$node->safe_psql('postgres', 'ALTER DATABASE d RESET session_preload_libraries');
is(said('d', q{DROP EXTENSION streamdedup; ALTER DATABASE d SET session_preload_libraries = '$libdir/streamdedup.so';
	CREATE EXTENSION streamdedup}), '', 'named by its path, in the same session');
$node->safe_psql('postgres', 'ALTER DATABASE d RESET session_preload_libraries');

# In the database d nothing is preloaded from here on.
$node->safe_psql('d', 'CREATE TABLE t (a int); CREATE ROLE someone LOGIN; GRANT SELECT ON t TO someone');

# A setting waits for the library.
is(plans('d', "SET streamdedup.approximate_distinct = on; $explain; $load; $explain"), 'exact approximate',
	'a SET takes effect with the library');
is( plans('d', qq{
	SET plan_cache_mode = force_generic_plan;
	PREPARE p AS SELECT count(DISTINCT a) FROM t;
	SET streamdedup.approximate_distinct = on;
	EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p;
	EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p;
	$load;
	EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p}),
	'exact exact approximate', 'for statements that were prepared, too');
is(plans('d', "BEGIN; SET LOCAL streamdedup.approximate_distinct = on; $load; $explain; COMMIT; $explain"),
	'approximate exact', 'SET LOCAL');
is(plans('d', "SET streamdedup.approximate_distinct = on; BEGIN; SET streamdedup.approximate_distinct = off; $load; $explain; ROLLBACK; $explain"),
	'exact approximate', 'a stack of them');

# In a function that did not ask for it, even if the library comes there.
$node->safe_psql(
	'd', qq{
	CREATE FUNCTION loads() RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER AS \$\$
	BEGIN PERFORM dedup_filter(10); RETURN QUERY EXECUTE '$explain'; END \$\$;
	CREATE FUNCTION asks() RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET streamdedup.approximate_distinct = on AS \$\$
	BEGIN PERFORM dedup_filter(10); RETURN QUERY EXECUTE '$explain'; END \$\$});
is(plans('d', "SET streamdedup.approximate_distinct = on; SELECT loads(); SELECT loads(); $explain"),
	'exact exact approximate', 'SECURITY DEFINER, the setting from outside');
is(plans('d', 'SELECT asks(); SELECT asks()'), 'exact approximate', 'its own SET clause counts once the library is there');

# The function that loads and sets, for anybody.
my @someone = (extra_params => [ '-U', 'someone' ]);
is(plans('d', "$explain; SELECT dedup_approximate_distinct(true); $explain; SELECT dedup_approximate_distinct(false); $explain", @someone),
	'exact approximate exact', 'dedup_approximate_distinct() by an ordinary user');
is(plans('d', "BEGIN; SELECT dedup_approximate_distinct(true, true); $explain; COMMIT; $explain", @someone),
	'approximate exact', 'and for a transaction');

# Settings of a database and of a role, without the library and with it.
$node->safe_psql('d', 'ALTER DATABASE d SET streamdedup.approximate_distinct = on');
is(plans('d', "$explain; $load; $explain", @someone), 'exact approximate', 'ALTER DATABASE SET without the library, then with it');
$node->safe_psql('d', q{ALTER DATABASE d SET session_preload_libraries = 'streamdedup'});
is(plans('d', $explain, @someone), 'approximate', 'ALTER DATABASE SET with the library preloaded');
$node->safe_psql('d', 'ALTER ROLE someone SET streamdedup.approximate_distinct = off', @someone);
is(plans('d', $explain, @someone), 'exact', 'ALTER ROLE SET by the role itself');
$node->safe_psql('d', 'ALTER ROLE someone RESET ALL; ALTER DATABASE d RESET ALL');
$node->safe_psql('d', q{ALTER ROLE someone SET session_preload_libraries = 'streamdedup'});
$node->safe_psql('d', 'ALTER ROLE someone SET streamdedup.approximate_distinct = on', @someone);
is(plans('d', $explain, @someone), 'approximate', 'both by ALTER ROLE');
is(plans('d', "$load; $explain"), 'exact', 'other roles are as they were');
$node->safe_psql('d', 'ALTER ROLE someone RESET ALL');

# Wrong names and values: said when the library comes, refused when it is there.
like(said('d', "SET streamdedup.aproximate_distinct = on; $load"),
	qr/WARNING:.*(?:invalid|unrecognized) configuration parameter.*"streamdedup\.aproximate_distinct"/, 'a misspelt name, before');
SKIP:
{
	skip 'any name is taken before 15', 1 if $version < 150000;
	like(said('d', "$load; SET streamdedup.aproximate_distinct = on"),
		qr/ERROR:  invalid configuration parameter name "streamdedup\.aproximate_distinct"/, 'and after');
}
like(said('d', "SET streamdedup.distinct_fpr = 5; $load"),
	qr/WARNING:  5 is outside the valid range for parameter "streamdedup\.distinct_fpr"/, 'a value out of range, before');
is($node->safe_psql('d', "SET streamdedup.distinct_fpr = 5; SET streamdedup.distinct_memory = '1kB'; SET streamdedup.approximate_distinct = maybe; $load;
	SELECT current_setting('streamdedup.distinct_fpr'), current_setting('streamdedup.distinct_memory'), current_setting('streamdedup.approximate_distinct')"),
	"f\n0.001|-1|off", 'and the defaults hold');

# Preloaded by the server, with the setting in its file; a database without the extension.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'streamdedup'\nstreamdedup.approximate_distinct = on");
$node->restart;
is(plans('d', $explain, @someone), 'approximate', 'shared_preload_libraries');
$node->safe_psql('postgres', 'CREATE DATABASE without');
$node->safe_psql('without', 'CREATE TABLE t (a int); INSERT INTO t VALUES (1), (1)');
is(plans('without', $explain), 'exact', 'a database without the extension is exact');
is($node->safe_psql('without', 'SELECT count(DISTINCT a) FROM t'), '1', 'and works');
is(said('without', 'CREATE EXTENSION streamdedup'), '', 'nothing to say');
is(plans('without', $explain), 'approximate', 'with it, approximate');
my $other = live_session($node);
$other->query('CREATE TABLE t (a int); CREATE EXTENSION streamdedup; SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT count(DISTINCT a) FROM t');
like($other->query('EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p'), qr/approx_count_distinct/, 'a prepared statement');
$node->safe_psql('postgres', 'DROP EXTENSION streamdedup');
like($other->query('EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p'), qr/count\(DISTINCT/, 'after another session has dropped the extension');
is($other->query('EXECUTE p'), '0', 'and runs');
$node->safe_psql('postgres', 'CREATE EXTENSION streamdedup');
like($other->query('EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p'), qr/approx_count_distinct/, 'and has made it again');
$other->quit;

# Workers have the setting, but the functions that they run are exact: a worker does not know where
# in its leader's statement it is.
my $force = $version >= 160000 ? 'debug_parallel_query' : 'force_parallel_mode';
$node->safe_psql(
	'd', q{
	CREATE FUNCTION counts() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
		'BEGIN RETURN (SELECT count(DISTINCT i) FROM generate_series(1, 100000) i); END'});
is( $node->safe_psql(
		'd', qq{
		SET $force = on;
		SELECT current_setting('streamdedup.approximate_distinct'), counts() <> 100000;
		SET streamdedup.approximate_distinct = off;
		SELECT current_setting('streamdedup.approximate_distinct'), counts() <> 100000;}),
	"on|f\noff|f", 'in parallel workers');
$node->stop;

done_testing();
