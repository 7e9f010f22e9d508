# Need F5: ordinary triggers do not fire for replicated rows, and neither does the guard: a subscriber stores the
# rows that the publisher has accepted. With ENABLE ALWAYS the guard also applies on the subscriber.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $publisher = start_node('publisher', allows_streaming => 'logical');
my $subscriber = start_node('subscriber', allows_streaming => 'logical');
foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE r (k int);
		SELECT dedup_create('r_seen', $prototype);
		SELECT dedup_guard('r', 'r_seen', ARRAY['k']);
	});
}

# The guard's triggers have names that nobody needs to know.
my $enable_always = q{
	DO $$ DECLARE t record; BEGIN
		FOR t IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'r'::regclass AND NOT tgisinternal LOOP
			EXECUTE format('ALTER TABLE r ENABLE ALWAYS TRIGGER %I', t.tgname);
		END LOOP;
	END $$};

sub count_rows { return $_[0]->safe_psql('postgres', 'SELECT count(*), count(DISTINCT k) FROM r') }

# by hand, as replication does
$publisher->safe_psql(
	'postgres', qq{
	INSERT INTO r VALUES (1);
	SET session_replication_role = replica;
	INSERT INTO r VALUES (1);
	RESET session_replication_role;
	BEGIN;
	$enable_always;
	SET LOCAL session_replication_role = replica;
	INSERT INTO r VALUES (1), (2);
	ROLLBACK;
});
is(count_rows($publisher), '2|1', 'a replica session is not guarded');
is( $publisher->safe_psql(
		'postgres', qq{
		BEGIN;
		$enable_always;
		SET LOCAL session_replication_role = replica;
		WITH i AS (INSERT INTO r VALUES (1), (2) RETURNING k) SELECT array_agg(k) FROM i;
		ROLLBACK}),
	'{2}', 'with ENABLE ALWAYS it is');
$publisher->safe_psql('postgres', 'TRUNCATE r; TRUNCATE r_seen');

# two nodes
$publisher->safe_psql(
	'postgres', q{
	INSERT INTO r SELECT k FROM generate_series(1, 100) k;
	CREATE PUBLICATION p FOR TABLE r});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's');
$publisher->safe_psql(
	'postgres', q{
	INSERT INTO r SELECT k FROM generate_series(1, 200) k;
	BEGIN; INSERT INTO r SELECT k FROM generate_series(201, 300) k; ROLLBACK;
	INSERT INTO r SELECT k FROM generate_series(201, 210) k});
$publisher->wait_for_catchup('s');
is(count_rows($publisher), '210|210', 'the publisher is guarded');
is(count_rows($subscriber), count_rows($publisher), 'the subscriber has the same rows');
is(seen($subscriber, 'r_seen', 1, 300), 0, 'its filter knows none of them');

# what the publisher did not guard comes through
$publisher->safe_psql('postgres', q{SET session_replication_role = replica; INSERT INTO r VALUES (1), (1)});
$publisher->wait_for_catchup('s');
is(count_rows($subscriber), '212|210', 'it takes what it is sent');

# ENABLE ALWAYS: from now on its filter learns, and guards
$subscriber->safe_psql('postgres', $enable_always);
$publisher->safe_psql('postgres', q{INSERT INTO r SELECT k FROM generate_series(301, 400) k});
$publisher->wait_for_catchup('s');
is(seen($subscriber, 'r_seen', 301, 400), 100, 'ENABLE ALWAYS: its filter knows replicated keys');
$publisher->safe_psql('postgres', q{SET session_replication_role = replica; INSERT INTO r SELECT k FROM generate_series(391, 410) k});
$publisher->wait_for_catchup('s');
is(count_rows($subscriber), '322|320', 'and refuses replicated duplicates');
is($subscriber->safe_psql('postgres', q{SELECT skipped FROM dedup_stats('r_seen')}), 10, 'which it counts');
is( $subscriber->safe_psql('postgres',
		'WITH i AS (INSERT INTO r VALUES (400), (500) RETURNING k) SELECT array_agg(k) FROM i'),
	'{500}', 'and its own sessions are guarded by the same filter');
$subscriber->stop;
$publisher->stop;

done_testing();
