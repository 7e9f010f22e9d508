# A pooler in transaction mode: a setting that one client makes for the session applies to the next client of the
# same server connection. dedup_approximate_distinct(true, is_local => true) ends with the transaction. Two clients
# share a connection by hand; if PgBouncer is installed, they also share one through it.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp qw(tempdir);
use IPC::Run ();
use LiveFilter;
use Test::More;

my $node = start_node('pooled');
$node->safe_psql('postgres',
	'CREATE TABLE clicks AS SELECT g % 5000 AS k FROM generate_series(1, 20000) g; ANALYZE clicks');

my $plan = 'EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT k) FROM clicks';

# $client->(SQL...): a client connects, sends each string as one query, and leaves. Returns
# all that came back. All clients get the same server connection.
sub shared_by
{
	my ($how, $client) = @_;
	my $ask = sub { return $client->(@_) =~ /approx_count_distinct/ ? 'approximate' : 'exact' };
	my $pid = 'SELECT pg_backend_pid()';

	is($client->($pid), $client->($pid), "$how: two clients have one server connection");
	is($ask->($plan), 'exact', "$how: nobody has asked for approximate answers");

	$client->('SELECT dedup_approximate_distinct(true)');
	is($ask->($plan), 'approximate', "$how: the setting leaks to the next client");
	$client->('SELECT dedup_approximate_distinct(false)');
	is($ask->($plan), 'exact', "$how: until somebody takes it back");

	my @local = ('BEGIN', 'SELECT dedup_approximate_distinct(true, is_local => true)', $plan);
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		is($ask->(@local, $end), 'approximate', "$how: is_local holds in its transaction");
		is($ask->($plan), 'exact', "$how: it does not leak after $end");
		is($client->('SELECT count(DISTINCT k) FROM clicks'), "5000\n", "$how: the next client counts exactly");
	}
	is($ask->(@local, 'SELECT 1 / 0', 'COMMIT'), 'approximate', "$how: in a transaction that fails");
	is($ask->($plan), 'exact', "$how: it does not leak after an error");
	return;
}

my $connection = live_session($node);
shared_by('by hand', sub { return join('', map { $connection->query($_) . "\n" } @_) });
$connection->quit;

SKIP:
{
	my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } (split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin');
	skip 'PgBouncer is not installed', 1 if !$pgbouncer;

	# Its socket, its configuration and its log are in a folder of their own, and it listens
	# nowhere else.
	my $folder = tempdir('pooled.XXXXXX', TMPDIR => 1, CLEANUP => 1);
	my ($host, $port) = ($node->host, $node->port);
	my $user = $node->safe_psql('postgres', 'SELECT current_user');
	open my $config, '>', "$folder/pgbouncer.ini" or die "$folder: $!";
	print $config <<"INI";
[databases]
postgres = host=$host port=$port dbname=postgres user=$user
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $folder
auth_type = any
pool_mode = transaction
default_pool_size = 1
logfile = $folder/log
INI
	close $config;

	my ($in, $out) = ('', '');
	my $pooler = IPC::Run::start([ $pgbouncer, "$folder/pgbouncer.ini" ], '<', \$in, '>&', \$out);
	my $client = sub {
		my $answer = '';
		IPC::Run::run([ 'psql', '-XAtq', '-h', $folder, '-p', 6432, '-U', $user, '-d', 'postgres', map { ('-c', $_) } @_ ],
			'<', \'', '>', \$answer, '2>', \my $errors);
		return $answer;
	};
	my $up = 0;
	for (1 .. 100)
	{
		$up = $client->('SELECT 1') eq "1\n" and last;
		select(undef, undef, undef, 0.1);
	}
	ok($up, 'PgBouncer runs') or diag($out);
	shared_by('PgBouncer', $client) if $up;
	$pooler->signal('INT');
	$pooler->finish;
}

done_testing();
