# Parallel SELECT DISTINCT that is cancelled, or whose workers are terminated: the session goes
# on, the shared memory is freed, and the next answer is whole. Each query runs with several
# timeouts, so it ends at several places, or not at all: what has to hold does not depend on
# which.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node(
	'distinct_parallel',
	settings => [
		"session_preload_libraries = 'streamdedup'",
		'dynamic_shared_memory_type = mmap',
		'max_parallel_workers = 4',
		'max_worker_processes = 8',
		'max_parallel_workers_per_gather = 2',
		'parallel_setup_cost = 0',
		'parallel_tuple_cost = 0',
		'min_parallel_table_scan_size = 0',
		'jit = off',
		'streamdedup.approximate_distinct = on'
	]);

if ($node->safe_psql('postgres', 'SHOW server_version_num') < 150000)
{
	$node->stop;
	plan skip_all => 'no parallel DISTINCT before PostgreSQL 15';
}

my $keys = 300007;
$node->safe_psql('postgres',
	"CREATE TABLE t AS SELECT (i::bigint * 104729) % $keys AS k FROM generate_series(1, 900000) i; ANALYZE t");

# Segments of dynamic shared memory, which are files here.
sub segments
{
	my @files = glob($node->data_dir . '/pg_dynshmem/*');
	return scalar @files;
}

# Whether there are no more segments than before, but for one that the server's statistics may need
# at any time. A process that is about to exit may hold one for a moment.
sub are_freed
{
	my ($before) = @_;
	for (my $tries = 0; $tries < 100; $tries++)
	{
		return 1 if segments() <= $before + 1;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

my $query = 'SELECT count(*) FROM (SELECT DISTINCT k FROM t) d';
like($node->safe_psql('postgres', "EXPLAIN $query"), qr/Parallel Custom Scan \(ApproximateDistinct\)/, 'the plan');
my $before = segments();

# The exact table, and filters (3 MB hold 147,456 hashes exactly, and more than $keys in all).
foreach my $memory ('64MB', '3MB')
{
	my $set = "SET streamdedup.distinct_memory = '$memory';";
	my $timeouts = join '', map { "SET statement_timeout = $_; $query;\n" } (5, 10, 15, 20, 30, 40, 60, 80, 120, 0);
	my ($rc, $stdout, $stderr) = $node->psql('postgres', "$set $timeouts", on_error_stop => 0);
	my @counts = split /\n/, $stdout;
	note('cancelled ' . (10 - @counts) . ' times');
	is(scalar(grep { $_ > $keys || $_ < $keys - 300 } @counts), 0, "$memory: every answer is whole");
	ok(@counts > 0, "$memory: without a timeout it ends");
	my @errors = grep { /ERROR|FATAL|WARNING/ && !/canceling statement due to/ } split /\n/, $stderr;
	is(join("\n", @errors), '', "$memory: no other error");
	ok(are_freed($before), "$memory: the shared memory is freed");
}

# Shared memory that cannot be had: an error of its own code that names the settings. Segments are
# files here, and a file of new processes may have 3 MB at most. The set wants one of 4 MB.
{
	my $postmaster = $node->safe_psql('postgres',
		"VACUUM t; SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)");
	my $limit = sub { system('prlimit', '--pid', $postmaster, "--fsize=$_[0]:unlimited") == 0 or die 'prlimit' };
	$limit->(3 << 20);
	for my $participation ('on', 'off')
	{
		my $error = messages($node, 'postgres', "SET parallel_leader_participation = $participation; $query");
		like($error, qr/ERROR:  53200: could not resize shared memory segment/, 'too little shared memory');
		like($error, qr/HINT:  .*Lower streamdedup.distinct_memory/, 'the hint');
	}
	my $count = $node->safe_psql('postgres', "SET streamdedup.distinct_memory = '2MB'; $query");
	ok($count <= $keys && $count > $keys - 300, 'as much as there is');
	$limit->('unlimited');
	ok(are_freed($before), 'the shared memory is freed');
}

# Workers that are terminated: an error, if one was still at work.
my ($rc, $stdout, $stderr) = $node->psql(
	'postgres', q{
	CREATE FUNCTION ends_workers(k bigint) RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS $$
	BEGIN
		IF k = 7 THEN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker'; END IF;
		RETURN k;
	END $$;
	SELECT count(*) FROM (SELECT DISTINCT ends_workers(k) FROM t) d;
	SELECT 'on';
}, on_error_stop => 0);
like($stderr, qr/terminating (parallel worker|connection|background worker)/, 'a terminated worker ends the query');
like($stdout, qr/^on$/m, 'the session goes on');
ok(are_freed($before), 'the shared memory is freed');
is($node->safe_psql('postgres', $query), $keys, 'the next answer is whole');

$node->stop;
done_testing();
