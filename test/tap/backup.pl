# Physical backups keep live filters: pg_basebackup while transactions are open and keys are being added, and a copy
# of a stopped server's files.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $node = start_node('main', allows_streaming => 1);
workload($node, 'w', 0);
$node->safe_psql('postgres', "SELECT dedup_create('f', $prototype)");
is(new_among($node, 'f', 1, 5000), 5000, 'keys');
my $open = live_session($node);
$open->query(q{BEGIN; SELECT count(is_new('f', k)) FROM generate_series(5001, 6000) k});

# keys come in all the time that the backup is made
my $busy = live_session($node);
$busy->send(
	q{DO $$ BEGIN
		FOR k IN 10001 .. 13000 LOOP
			PERFORM is_new('f', k);
			IF k % 4 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$});
$node->backup('online');
$busy->wait;
$open->query('COMMIT');

my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'online');
$copy->start;
is(seen($copy, 'f', 1, 5000), 5000, 'committed before the backup');
is(seen($copy, 'f', 5001, 6000), 0, 'open at its end');
# a prefix of what came in
my $last = $copy->safe_psql('postgres', q{SELECT max(k) FROM generate_series(10001, 13000) k WHERE dedup_seen('f', k)}) || 10000;
is($copy->safe_psql('postgres',
		"SELECT count(*) FROM generate_series(10001, $last) k WHERE dedup_seen('f', k) = (k % 4 = 0)"),
	0, 'what came in meanwhile: all that was committed by then and nothing else');
is(workload_holds($copy, 'w'), '', 'and everything else');
no_bad_pages($copy, $_, $_) foreach 'f', 'w';
is(new_among($copy, 'f', 5001, 6000), 1000, 'it takes keys');
workload($copy, 'w', 1);
is(workload_holds($copy, 'w'), '', 'of every kind');
$copy->stop;

is(seen($node, 'f', 1, 6000), 6000, 'the original has its keys');
$node->stop;
$node->backup_fs_cold('cold');
my $cold = PostgreSQL::Test::Cluster->new('cold');
$cold->init_from_backup($node, 'cold');
$cold->start;
is(seen($cold, 'f', 1, 6000), 6000, 'so has a copy of its files');
is(workload_holds($cold, 'w'), '', 'and everything else');
no_bad_pages($cold, $_, $_) foreach 'f', 'w';
$cold->stop;

done_testing();
