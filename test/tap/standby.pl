# A streaming standby: it answers as its primary does, from the same pages. Lookups work there and never wait; adding
# raises an error. After its promotion, it knows what was committed. All of it runs with wal_consistency_checking =
# all, which compares every replayed page with that of the primary, and with few buffers, so that pages are evicted
# and read again.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $primary = start_node(
	'primary',
	allows_streaming => 1,
	settings => [ 'wal_consistency_checking = all', 'wal_keep_size = 2GB', 'max_prepared_transactions = 10' ]);

# one before the backup, one after
workload($primary, 'old', 0);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on");
$standby->start;
workload($primary, 'young', 0);
$primary->safe_psql('postgres', 'CHECKPOINT');
workload($primary, $_, 1) foreach 'old', 'young';
$primary->safe_psql(
	'postgres', qq{
	SELECT dedup_create('timed', dedup_window(1000, 1e-6, 42), '1 hour');
	SELECT count(is_new('timed', k)) FROM generate_series(1, 3000) k;
	SELECT count(is_new_at('timed', now() - k * interval '1 minute', 'late', k)) FROM generate_series(1, 100) k;
	SELECT dedup_create('few', dedup_window(1000, 1e-6, 42));
	SELECT count(is_new('few', k)) FROM generate_series(1, 3000) k;
	SELECT dedup_create('emptied', $prototype);
	SELECT count(is_new('emptied', k)) FROM generate_series(1, 1000) k;
	TRUNCATE emptied;
	SELECT count(is_new('emptied', k)) FROM generate_series(1001, 2000) k;
	SELECT dedup_create('forgetful', $prototype, unlogged => true);
	SELECT count(is_new('forgetful', k)) FROM generate_series(1, 100) k;
});

# Transactions in flight: one that goes on, and one that is prepared.
my $open = live_session($primary);
$open->query(
	q{BEGIN; SELECT count(is_new('old', k)) FROM generate_series(-1000, -501) k;
	SELECT count(*) FROM dedup_new_keys('old', ARRAY(SELECT k FROM generate_series(-600, -1) k))});
$primary->safe_psql(
	'postgres', q{
	BEGIN;
	SELECT count(is_new('old', k)) FROM generate_series(-2000, -1001) k;
	PREPARE TRANSACTION 'prepared';
	SELECT is_new('old', -3000);
});
$primary->wait_for_catchup($standby);

is(workload_holds($standby, $_), '', "the standby answers as was said of $_") foreach 'old', 'young';
is(seen($standby, 'old', -3000, -3000), 1, 'a committed key is seen');
no_bad_pages($standby, $_, "$_ on the standby") foreach 'old', 'young', 'timed', 'few', 'emptied';
foreach my $filter ('timed', 'few', 'emptied')
{
	is(seen($standby, $filter, 1, 3000), seen($primary, $filter, 1, 3000), "both answer the same of $filter");
}

# asking never waits, and what is in flight is not seen
is( $standby->safe_psql(
		'postgres', q{
		SET statement_timeout = '60s';
		SELECT count(*) FILTER (WHERE dedup_seen('old', k)) FROM generate_series(-2000, -1) k}),
	0, 'keys in flight are not seen');
is($standby->safe_psql('postgres', "SELECT pg_typeof(dedup_snapshot('old'))"),
	'dedup_filter', 'a snapshot can be taken');
cmp_ok($standby->safe_psql('postgres', "SELECT count FROM dedup_stats('old')"),
	'>', 0, 'dedup_stats works');
cmp_ok($standby->safe_psql('postgres', 'SELECT count(*) FROM dedup_filters'), '>=', 5, 'so does dedup_filters');

# adding is an error that says so
my %changes = (
	is_new => "SELECT is_new('old', 1)",
	'is_new of a new key' => "SELECT is_new('old', -1)",
	is_new_at => "SELECT is_new_at('timed', now(), 1)",
	dedup_new_keys => "SELECT * FROM dedup_new_keys('old', ARRAY[1])",
	dedup_forget => "SELECT dedup_forget('old', 1)",
	dedup_load => "SELECT dedup_load('old', dedup_add($prototype, 1))");
foreach my $change (sort keys %changes)
{
	is(sqlstate($standby, 'postgres', $changes{$change}), '25006', "$change is refused on the standby");
	is(sqlstate($primary, 'postgres', "BEGIN READ ONLY; $changes{$change}"),
		'25006', "$change is refused in a read-only transaction");
}
like(messages($standby, 'postgres', "SELECT is_new('old', 1)"),
	qr/recovery/, 'and the message says why');
isnt(sqlstate($standby, 'postgres', "SELECT dedup_seen('forgetful', 1)"),
	'', 'an unlogged filter cannot be asked there');
is($standby->safe_psql('postgres', q{SELECT name, kind, problem FROM dedup_filters WHERE problem IS NOT NULL}),
	'forgetful||cannot query unlogged live filter "forgetful" during recovery', 'and dedup_filters says so');

# the primary goes on, and goes away
$open->query('COMMIT');
workload($primary, 'old', 2);
$primary->safe_psql('postgres', 'VACUUM FREEZE');
$open->query(q{BEGIN; SELECT count(is_new('young', k)) FROM generate_series(-1000, -1) k});
$primary->safe_psql('postgres', "SELECT is_new('young', -5000)");
$primary->wait_for_catchup($standby);
is(seen($standby, 'old', -1000, -1), 1000, 'committed meanwhile: seen');
is(workload_holds($standby, 'old'), '', 'the standby still answers as was said');
$primary->stop('immediate');
$open->quit;
$standby->promote;

is(new_among($standby, 'young', -1000, -1), 1000, 'promoted: what was in flight is new');
is(new_among($standby, 'old', -1000, -1), 0, 'what was committed is not');
is(sqlstate($standby, 'postgres', "SET lock_timeout = '100ms'; SELECT is_new('old', -2000)"),
	'55P03', 'what is prepared is waited for');
$standby->safe_psql('postgres', "COMMIT PREPARED 'prepared'");
is(new_among($standby, 'old', -2000, -1001), 0, 'and then a duplicate');
is(new_among($standby, 'forgetful', 1, 100), 100, 'the unlogged one starts empty');
workload($standby, $_, 3) foreach 'old', 'young';
is(workload_holds($standby, $_), '', "the new primary answers as was said of $_") foreach 'old', 'young';
no_bad_pages($standby, $_, "$_ on the new primary") foreach 'old', 'young', 'timed', 'few', 'emptied';

unlike(PostgreSQL::Test::Utils::slurp_file($standby->logfile),
	qr/inconsistent page found|PANIC/, 'every page was replayed as it was written');
$standby->stop;

done_testing();
