# Live filters that grow, under crashes and on a standby: at any moment, no committed key is missing, and no other
# key is there. All of it runs with wal_consistency_checking = generic, which compares every replayed page with that
# of the primary.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

# Rates at which no false positive disturbs.
my $grows = 'dedup_filter(NULL, 1e-6, 42)';
my $primary = start_node(
	'primary',
	allows_streaming => 1,
	settings => [
		'wal_consistency_checking = generic', 'wal_keep_size = 2GB', 'max_prepared_transactions = 10',
		'shared_buffers = 2MB'
	]);

# What has been committed: the table is written by the transaction that adds the keys.
$primary->safe_psql(
	'postgres', qq{
	CREATE TABLE keys (filter text, k int);
	SELECT dedup_create('set', $grows);
	SELECT dedup_create('span', $grows, '1 day');
	CREATE FUNCTION add(filter text, first int, last int) RETURNS bigint LANGUAGE sql AS \$\$
		WITH added AS (INSERT INTO keys SELECT filter, i FROM generate_series(first, last) i WHERE is_new(filter, i) RETURNING 1)
		SELECT count(*) FROM added
	\$\$;
	-- single keys, savepoints, batches, and now and then a rollback, for ever
	CREATE PROCEDURE go_on(filter text, first int) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 0 .. 1000000 LOOP
			PERFORM add(filter, first + i * 200, first + i * 200 + 49);
			INSERT INTO keys SELECT filter, n
				FROM dedup_new_keys(filter, ARRAY(SELECT generate_series(first + i * 200 + 50, first + i * 200 + 149))) n;
			BEGIN
				PERFORM add(filter, first + i * 200 + 150, first + i * 200 + 199);
				IF i % 3 = 0 THEN RAISE EXCEPTION 'undone'; END IF;
			EXCEPTION WHEN raise_exception THEN
				NULL;
			END;
			IF i % 7 = 6 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END \$\$;
});

# The keys that a filter is wrong about, of those that were committed and of all up to a number.
sub wrong
{
	my ($node, $filter) = @_;
	return $node->safe_psql('postgres', qq{
		SELECT 'missing', k FROM keys WHERE filter = '$filter' AND NOT dedup_seen('$filter', k)
		UNION ALL
		SELECT 'there', i FROM generate_series(1, (SELECT max(k) FROM keys)) i
		WHERE dedup_seen('$filter', i) AND NOT EXISTS (SELECT FROM keys WHERE filter = '$filter' AND k = i)
		ORDER BY 1, 2 LIMIT 5});
}

# ---- a standby ----------------------------------------------------------------------------

$primary->safe_psql('postgres', "SELECT add('set', 1, 2000)");
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on");
$standby->start;

# A session there that knows the map as it was, while the primary goes on.
my $reader = live_session($standby);
is($reader->query("SELECT count(*) FILTER (WHERE dedup_seen('set', k)) FROM keys"), 2000, 'the standby sees the keys');
my $growing = live_session($primary);
my $prepared = live_session($primary);
$prepared->query("BEGIN; SELECT add('set', -3000, -1); PREPARE TRANSACTION 'prepared'");
$growing->query("BEGIN; SELECT add('set', 2001, 4000); SAVEPOINT s; SELECT add('set', 4001, 5000); ROLLBACK TO s");
foreach my $round (1 .. 10)
{
	$primary->safe_psql('postgres', "SELECT add('set', 10000 * $round + 1, 10000 * $round + 2000)");
	is($reader->query("SELECT k FROM keys WHERE NOT dedup_seen('set', k) LIMIT 5"),
		'', "round $round: the standby misses no key");
}
$growing->query('COMMIT');
$primary->safe_psql('postgres', 'VACUUM');
$primary->wait_for_catchup($standby);
is(wrong($standby, 'set'), '', 'the standby answers as it should');
is($reader->query("SELECT k FROM keys WHERE NOT dedup_seen('set', k) LIMIT 5"), '', 'so does the session that was there');
no_bad_pages($standby, 'set', 'the standby');
is($standby->safe_psql('postgres', "SELECT count(*) FILTER (WHERE dedup_seen('set', k)) FROM generate_series(-3000, -1) k"),
	0, 'prepared keys are not seen');
workload($primary, 'works', 0, $grows);
$primary->wait_for_catchup($standby);
is(workload_holds($standby, 'works'), '', 'nor does it miss anything of all that can happen to keys');

# ---- crashes ----------------------------------------------------------------------------------

foreach my $crash (1 .. 3)
{
	my @sessions = map { live_session($primary) } 1 .. 3;
	$sessions[0]->send("CALL go_on('set', $crash * 10000000 + 1)");
	$sessions[1]->send("CALL go_on('set', $crash * 10000000 + 101)");
	$sessions[2]->send("CALL go_on('span', $crash * 10000000 + 1)");
	$primary->poll_query_until('postgres', "SELECT count(*) > 4000 FROM keys WHERE k > $crash * 10000000")
	  or BAIL_OUT('no keys are added');
	$primary->safe_psql('postgres', 'CHECKPOINT') if $crash == 2;
	$primary->stop('immediate');
	$_->quit foreach @sessions;
	$primary->start;
	foreach my $filter ('set', 'span')
	{
		is($primary->safe_psql('postgres', "SELECT k FROM keys WHERE filter = '$filter' AND NOT dedup_seen('$filter', k) LIMIT 5"),
			'', "crash $crash: no committed key of $filter is missing");
		no_bad_pages($primary, $filter, "$filter after crash $crash");
	}
	is($primary->safe_psql('postgres', qq{
			SELECT count(*) FROM generate_series($crash * 10000000 + 1, $crash * 10000000 + 30000) i
			WHERE dedup_seen('set', i) AND NOT EXISTS (SELECT FROM keys WHERE filter = 'set' AND k = i)}),
		0, "crash $crash: no other one is there");
}
is(workload_holds($primary, 'works'), '', 'all else is as it was');
workload($primary, 'works', 1);
is(workload_holds($primary, 'works'), '', 'and goes on');
no_bad_pages($primary, 'works', 'works');

# ---- a promotion ---------------------------------------------------------------------------

$growing->quit;
$growing = live_session($primary);
$growing->send("CALL go_on('set', 50000001)");
$primary->poll_query_until('postgres', 'SELECT count(*) > 3000 FROM keys WHERE k > 50000000');
$primary->stop('immediate');
$growing->quit;
$standby->promote;
is($standby->safe_psql('postgres', "SELECT filter, k FROM keys WHERE NOT dedup_seen(filter, k) LIMIT 5"),
	'', 'promoted: no committed key is missing');
is($standby->safe_psql('postgres', "SELECT add('set', 60000001, 60010000)"), 10000, 'it goes on to grow');
is($reader->query("SELECT filter, k FROM keys WHERE NOT dedup_seen(filter, k) LIMIT 5"),
	'', 'for the session from before, too');
is(sqlstate($standby, 'postgres', "SET lock_timeout = '100ms'; SELECT is_new('set', -1500)"),
	'55P03', 'what is prepared is waited for');
$standby->safe_psql('postgres', "COMMIT PREPARED 'prepared'");
is(new_among($standby, 'set', -3000, -1), 0, 'and is there');
workload($standby, 'works', 2);
is(workload_holds($standby, 'works'), '', 'all that can happen to keys');
no_bad_pages($standby, $_, "$_ on the new primary") foreach 'set', 'span', 'works';
unlike(PostgreSQL::Test::Utils::slurp_file($_->logfile),
	qr/inconsistent page found|PANIC/, 'every page was replayed as it was written')
  foreach $primary, $standby;
$_->quit foreach $reader, $prepared;
$standby->stop;

done_testing();
