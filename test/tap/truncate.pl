# TRUNCATE empties a filter, when and if its transaction commits.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();

foreach my $wal_level ('minimal', 'replica')
{
	my $node = start_node("truncate_$wal_level",
		settings => [ "wal_level = $wal_level", 'max_wal_senders = 0', 'wal_skip_threshold = 0' ]);
	$node->safe_psql('postgres', "SELECT dedup_create('f', $prototype)");
	my $stats = q{SELECT keys, fpr, ttl FROM dedup_stats('f')};
	my $parameters = $node->safe_psql('postgres', $stats);
	new_among($node, 'f', 1, 1000);

	# rolled back, with keys of its own
	is( $node->safe_psql(
			'postgres', q{
			BEGIN;
			TRUNCATE f;
			SELECT count(*) FILTER (WHERE dedup_seen('f', k)) FROM generate_series(1, 1000) k;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(501, 1500) k;
			SELECT count(*) FILTER (WHERE is_new('f', k)) FROM generate_series(501, 1500) k;
			ROLLBACK;}),
		"0\n1000\n0", "$wal_level: within the transaction it is empty, and takes keys");
	is(seen($node, 'f', 1, 1000), 1000, "$wal_level: rolled back, the old keys are there");
	is(seen($node, 'f', 1001, 1500), 0, "$wal_level: and not those of the transaction");

	# rolled back to a savepoint
	is( $node->safe_psql(
			'postgres', q{
			BEGIN;
			SELECT is_new('f', 2001);
			SAVEPOINT p;
			TRUNCATE f;
			SELECT is_new('f', 2001), is_new('f', 2002);
			ROLLBACK TO p;
			SELECT is_new('f', 2001), is_new('f', 2003), is_new('f', 1);
			COMMIT;}),
		"t\nt|t\nf|t|f", "$wal_level: rolled back to a savepoint");
	is($node->safe_psql('postgres', q{SELECT k, dedup_seen('f', k) FROM generate_series(2001, 2003) k}),
		"2001|t\n2002|f\n2003|t", "$wal_level: and committed");

	# a crash while it is truncated
	my $open = live_session($node);
	is($open->query(q{BEGIN; TRUNCATE f; SELECT count(is_new('f', k)) FROM generate_series(1, 500) k}),
		500, "$wal_level: a transaction is open");
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->stop('immediate');
	$open->quit;
	$node->start;
	is(seen($node, 'f', 1, 1000), 1000, "$wal_level: a crash, the old keys are there");
	no_bad_pages($node, 'f', "$wal_level: after the crash");

	# a crash after it was truncated and filled
	$node->safe_psql(
		'postgres', q{
		BEGIN;
		TRUNCATE f;
		SELECT count(is_new('f', k)) FROM generate_series(5001, 6000) k;
		COMMIT;
		SELECT count(is_new('f', k)) FROM generate_series(6001, 7000) k;
	});
	$node->stop('immediate');
	$node->start;
	is(seen($node, 'f', 1, 2003), 0, "$wal_level: committed, the old keys are gone");
	is(seen($node, 'f', 5001, 7000), 2000, "$wal_level: and those that came after are there");
	is($node->safe_psql('postgres', $stats), $parameters, "$wal_level: parameters as before");
	no_bad_pages($node, 'f', "$wal_level: emptied");

	# truncated and nothing else
	$node->safe_psql('postgres', 'TRUNCATE f');
	is($node->safe_psql('postgres', $stats), $parameters, "$wal_level: parameters of an empty one");
	is(seen($node, 'f', 5001, 7000), 0, "$wal_level: empty");
	no_bad_pages($node, 'f', "$wal_level: an empty one");
	is(new_among($node, 'f', 1, 1000), 1000, "$wal_level: takes keys");
	$node->stop;
}

done_testing();
