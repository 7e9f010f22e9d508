# Logical replication FOR ALL TABLES copies live filters' pages, too. If two servers have equal DDL and random seeds,
# pages mean other keys on the other server: the copy of the filter fails with an error that says why, and loads
# nothing, while the other tables are copied. With equal seeds it works.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $publisher = start_node('publisher', allows_streaming => 'logical');
my $subscriber = start_node('subscriber', allows_streaming => 'logical', settings => ['wal_retrieve_retry_interval = 100ms']);
my $connection = $publisher->connstr . ' dbname=';

# A database on both servers with a filter, which both make by the same statement.
sub replicate
{
	my ($name, $prototype, $only_here, $only_there) = @_;
	foreach my $node ($publisher, $subscriber)
	{
		$node->safe_psql('postgres', "CREATE DATABASE $name");
		$node->safe_psql(
			$name, qq{
			CREATE EXTENSION streamdedup;
			CREATE TABLE before (k int);
			CREATE TABLE zz (k int);
			SELECT dedup_create('seen', $prototype);
			SELECT dedup_create('spare', $prototype);
		});
	}
	$publisher->safe_psql(
		$name, q{
		INSERT INTO before SELECT k FROM generate_series(1, 500) k WHERE is_new('seen', k);
		INSERT INTO zz SELECT k FROM generate_series(501, 1000) k WHERE is_new('seen', k);
	});
	$publisher->safe_psql($name, ($only_there || '') . 'CREATE PUBLICATION p FOR ALL TABLES');
	$subscriber->safe_psql($name, $only_here) if defined $only_here;
	$subscriber->safe_psql($name,
		"CREATE SUBSCRIPTION s_$name CONNECTION '$connection$name' PUBLICATION p");
	return;
}

sub copied
{
	my ($name, $table, $rows) = @_;
	return $subscriber->poll_query_until($name,
		"SELECT count(*) = $rows FROM $table", 't');
}

# Waits until the subscriber's log says so.
sub logged
{
	my ($what) = @_;
	foreach (1 .. 1200)
	{
		return 1 if slurp_file($subscriber->logfile) =~ $what;
		select undef, undef, undef, 0.1;
	}
	return 0;
}

sub state_of
{
	my ($name, $table) = @_;
	return $subscriber->safe_psql($name,
		"SELECT srsubstate FROM pg_subscription_rel WHERE srrelid = '$table'::regclass");
}

# random seeds
replicate('random', 'dedup_filter(100000, 1e-6)');
ok(copied('random', 'before', 500), 'a table that sorts before the filter arrives');
ok(copied('random', 'zz', 500), 'and one that sorts behind it');
ok(logged(qr/ERROR:  page of another filter does not fit live filter "seen"/), 'the copy of the filter fails');
my $log = slurp_file($subscriber->logfile);
my ($there) = $publisher->safe_psql('random', q{SELECT seed FROM dedup_stats('seen')});
my ($here) = $subscriber->safe_psql('random', q{SELECT seed FROM dedup_stats('seen')});
isnt($there, $here, 'the seeds differ');
like($log, qr/DETAIL:  The page is of a set with seed \Q$there\E, .*; the filter is a set with seed \Q$here\E,/,
	'and the message names both');
is(seen($subscriber, 'seen', 1, 1000, 'random'), 0, 'it has loaded no key');
is($subscriber->safe_psql('random', q{SELECT count FROM dedup_stats('seen')}), 0, 'of any kind');
is(state_of('random', 'seen'), 'd', 'and is not said to be there');
no_bad_pages($subscriber, 'seen', 'a copy that failed', 'random');

# once more, into filters that are made with the publisher's seeds
my ($spare) = $publisher->safe_psql('random', q{SELECT seed FROM dedup_stats('spare')});
$subscriber->safe_psql('random', 'DROP SUBSCRIPTION s_random');
$subscriber->safe_psql(
	'random', qq{
	TRUNCATE before, zz;
	DROP TABLE seen, spare;
	SELECT dedup_create('seen', dedup_filter(100000, 1e-6, $there));
	SELECT dedup_create('spare', dedup_filter(100000, 1e-6, $spare))});
$subscriber->safe_psql('random', "CREATE SUBSCRIPTION s_random CONNECTION '${connection}random' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's_random', 'random');
is(seen($subscriber, 'seen', 1, 1000, 'random'), 1000, 'made again with that seed it is copied');

# a seed that both were given
replicate('given', 'dedup_filter(100000, 1e-6, 42)', undef,
	q{CREATE INDEX ON zz (k); SELECT dedup_guard('zz', 'seen', '{k}', exact => true);});
$subscriber->wait_for_subscription_sync($publisher, 's_given', 'given');
is(seen($subscriber, 'seen', 1, 1000, 'given'), 1000, 'with equal seeds all keys are copied');
is(seen($subscriber, 'seen', 1001, 2000, 'given'), 0, 'and no others');
is($subscriber->safe_psql('given', 'SELECT (SELECT count(*) FROM before), (SELECT count(*) FROM zz)'), '500|500', 'and all rows');
no_bad_pages($subscriber, 'seen', 'a copy', 'given');
# tables are not copied at one moment
my $covers = q{SELECT count(*) FROM seen WHERE get_byte(dedup_page_send(page), 2) = 2};
is($publisher->safe_psql('given', $covers) . $subscriber->safe_psql('given', $covers), '10',
	'the copy does not say that it covers its table, as the original does');

# A guard that fires on the subscriber would refuse the rows that come after the filter's
# pages, so these are refused. The guard then teaches the filter the rows' keys.
replicate('guarded', 'dedup_filter(100000, 1e-6, 42)', q{
	SELECT dedup_guard('zz', 'seen', '{k}');
	ALTER TABLE zz ENABLE ALWAYS TRIGGER "~dedup_guard";
	ALTER TABLE zz ENABLE ALWAYS TRIGGER "~dedup_guard_delete";
});
ok(copied('guarded', 'zz', 500), 'all rows arrive in a table with an enabled guard');
ok(logged(qr/ERROR:  cannot restore live filter "seen" while it guards table "zz"/), 'and the copy of the filter fails');
is(seen($subscriber, 'seen', 1, 500, 'guarded'), 0, 'the filter has none of the copied keys');
is(seen($subscriber, 'seen', 501, 1000, 'guarded'), 500, 'but those of the rows');

$subscriber->stop;
$publisher->stop;
done_testing();
