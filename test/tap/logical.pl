# Logical replication into a guarded, partitioned table, ENABLE ALWAYS. A row that moves to
# another partition arrives as DELETE and INSERT if it moved on the publisher already, and
# as an UPDATE that the subscriber turns into those two if its own partitions ask for it.
# Neither loses the row, neither doubles it.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $publisher = start_node('publisher', allows_streaming => 'logical');
my $subscriber = start_node('subscriber', allows_streaming => 'logical');

# Partitioned on the subscriber. On the publisher "leaf" is too, and published by partition;
# "root" is too, and published as the parent; "plain" is not.
my @tables = ('leaf', 'root', 'plain');
foreach my $node ($publisher, $subscriber)
{
	foreach my $table (@tables)
	{
		if ($table eq 'plain' && $node == $publisher)
		{
			$node->safe_psql('postgres', 'CREATE TABLE plain (k int, part int, v text)');
		}
		else
		{
			$node->safe_psql(
				'postgres', qq{
				CREATE TABLE $table (k int, part int, v text) PARTITION BY LIST (part);
				CREATE TABLE ${table}1 PARTITION OF $table FOR VALUES IN (1);
				CREATE TABLE ${table}2 PARTITION OF $table FOR VALUES IN (2);
				ALTER TABLE ${table}1 REPLICA IDENTITY FULL;
				ALTER TABLE ${table}2 REPLICA IDENTITY FULL;
			});
		}
		$node->safe_psql('postgres', "ALTER TABLE $table REPLICA IDENTITY FULL");
	}
}
$publisher->safe_psql('postgres',
	"INSERT INTO $_ SELECT k, 1, 'first' FROM generate_series(1, 100) k") foreach @tables;
foreach my $table (@tables)
{
	$subscriber->safe_psql(
		'postgres', qq{
		SELECT dedup_create('${table}_seen', $prototype);
		SELECT dedup_guard('$table', '${table}_seen', ARRAY['k']);
		DO \$\$ DECLARE t record; BEGIN
			FOR t IN SELECT tgname, tgrelid::regclass AS on FROM pg_trigger
				WHERE tgrelid IN ('$table'::regclass, '${table}1'::regclass, '${table}2'::regclass) AND NOT tgisinternal
				ORDER BY tgrelid LOOP
				EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.on, t.tgname);
			END LOOP;
		END \$\$});
}
$publisher->safe_psql(
	'postgres', q{
	CREATE PUBLICATION p_leaf FOR TABLE leaf;
	CREATE PUBLICATION p_plain FOR TABLE plain;
	CREATE PUBLICATION p_root FOR TABLE root WITH (publish_via_partition_root = true)});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s_$_ CONNECTION '$connection' PUBLICATION p_$_") foreach @tables;
$subscriber->wait_for_subscription_sync($publisher, "s_$_") foreach @tables;

sub rows
{
	my ($table) = @_;
	return $subscriber->safe_psql('postgres',
		"SELECT part, count(*), count(DISTINCT k), string_agg(DISTINCT v, ',' ORDER BY v) FROM $table GROUP BY part ORDER BY part");
}

foreach my $table (@tables)
{
	my $catch_up = sub {
		my ($sql) = @_;
		$publisher->safe_psql('postgres', $sql);
		$publisher->wait_for_catchup("s_$table");
	};

	is(rows($table), '1|100|100|first', "$table: the first copy");
	is(seen($subscriber, "${table}_seen", 1, 100), 100, "$table: taught the filter");

	$catch_up->("INSERT INTO $table SELECT k, 2, 'again' FROM generate_series(91, 110) k");
	is(rows($table), "1|100|100|first\n2|10|10|again", "$table: duplicates are left out, in any partition");
	is($subscriber->safe_psql('postgres', "SELECT skipped FROM dedup_stats('${table}_seen')"), 10, "$table: and counted");
	$publisher->safe_psql('postgres', "DELETE FROM $table WHERE v = 'again' AND k <= 100");

	$catch_up->("UPDATE $table SET part = 2, v = 'moved' WHERE k <= 20");
	is(rows($table), "1|80|80|first\n2|30|30|again,moved", "$table: rows that move are not lost");
	$catch_up->("UPDATE $table SET part = 3 - part WHERE k <= 40");
	is(rows($table), "1|80|80|first,moved\n2|30|30|again,first", "$table: nor are those that move to and fro");
	$catch_up->("UPDATE $table SET part = 2, v = 'alone' WHERE k = 1");
	is(rows($table), "1|79|79|first,moved\n2|31|31|again,alone,first", "$table: nor one alone");

	$catch_up->("UPDATE $table SET k = k + 1000, part = 2, v = 'changed' WHERE k BETWEEN 41 AND 45");
	is(rows($table), "1|74|74|first,moved\n2|36|36|again,alone,changed,first", "$table: new keys that move land");
	is(seen($subscriber, "${table}_seen", 1041, 1045), 5, "$table: and are known");

	$catch_up->("UPDATE $table SET v = 'updated' WHERE part = 1");
	is(rows($table), "1|74|74|updated\n2|36|36|again,alone,changed,first", "$table: rows that stay are updated");
	$catch_up->("DELETE FROM $table WHERE part = 2");
	is(rows($table), '1|74|74|updated', "$table: and deleted");
	# deleted and inserted again, truncated and loaded again, once and twice, in one transaction
	$catch_up->("INSERT INTO $table SELECT k, 1, 'old' FROM generate_series(3001, 3010) k");
	$catch_up->("BEGIN; DELETE FROM $table WHERE k > 3000;
		INSERT INTO $table SELECT k, 2, 'new' FROM generate_series(3001, 3010) k; COMMIT");
	is(rows($table), "1|74|74|updated\n2|10|10|new", "$table: rows deleted and inserted again are kept");
	$catch_up->("BEGIN; TRUNCATE $table; INSERT INTO $table SELECT k, 1, 'load' FROM generate_series(3001, 3010) k;
		INSERT INTO $table VALUES (3001, 2, 'dup'), (5000, 2, 'load'); COMMIT");
	is(rows($table), "1|10|10|load\n2|1|1|load", "$table: as are those loaded again after TRUNCATE, and no others");
	$catch_up->("BEGIN; TRUNCATE $table; INSERT INTO $table SELECT k, 1, 'first' FROM generate_series(3001, 3010) k;
		TRUNCATE $table; INSERT INTO $table SELECT k, 1, 'second' FROM generate_series(3001, 3010) k; COMMIT");
	is(rows($table), "1|10|10|second", "$table: after TRUNCATE twice, too");
	$catch_up->("DELETE FROM $table");

	$catch_up->("INSERT INTO $table VALUES (2000, 2, 'last')");
	is(rows($table), '2|1|1|last', "$table: replication goes on");
	no_bad_pages($subscriber, "${table}_seen", $table);
}
$subscriber->stop;
$publisher->stop;

done_testing();
