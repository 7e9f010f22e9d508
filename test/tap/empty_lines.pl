# Lines of a main page that have no key yet are a hole, which images of the page in the WAL leave
# out. The hole ends when keys are folded into lines: replay has them then, from the changes and
# from later images.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('empty_lines', checksums => 0, settings => [ 'full_page_writes = on', 'wal_level = replica' ]);

# Bytes of WAL that statements write.
sub wal_of
{
	my ($sql) = @_;
	my $before = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', $sql);
	return $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'::pg_lsn");
}

# Each key in a transaction of its own: so tags run out, and pages are settled.
sub add_alone
{
	my ($from, $to) = @_;
	return
	  "DO 'BEGIN FOR k IN $from .. $to LOOP PERFORM is_new(''f'', k); COMMIT; END LOOP; END'";
}

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

# A filter of one main page. The page of counters is there from the start.
$node->safe_psql('postgres', "SELECT dedup_create('f', dedup_filter(1000, 1e-6, 42))");
is($node->safe_psql('postgres', "SELECT count(is_new('f', k)) FROM generate_series(1, 1) k"), 1, 'a first key');
$node->safe_psql('postgres', 'CHECKPOINT');
my $small = wal_of("SELECT is_new('f', 2)");
cmp_ok($small, '<', 4000, 'the image of a page whose lines are empty has none of them');
crash();
is(seen($node, 'f', 1, 2), 2, 'its keys are there after a crash');
no_bad_pages($node, 'f', 'after a crash');

# Without a checkpoint: replay starts from that image, and makes the changes that fold keys.
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', add_alone(3, 400));
crash();
is(seen($node, 'f', 1, 400), 400, 'keys that were folded into lines are there after a crash');
no_bad_pages($node, 'f', 'after a crash with keys in lines');

# With one: replay starts from an image that has the lines.
$node->safe_psql('postgres', 'CHECKPOINT');
my $large = wal_of("SELECT is_new('f', 401)");
cmp_ok($large, '>', 8000, 'the image of a page with keys in its lines has them');
crash();
is(seen($node, 'f', 1, 401), 401, 'keys in lines are there after a crash');
no_bad_pages($node, 'f', 'after a crash with an image of lines');

# What fills a page as a whole.
$node->safe_psql('postgres', "SELECT dedup_create('g', dedup_filter(1000, 1e-6, 42))");
$node->safe_psql('postgres', "SELECT dedup_load('g', (SELECT dedup_snapshot('f')))");
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', "SELECT is_new('g', 1000)");
crash();
is(seen($node, 'g', 1, 401), 401, 'keys that were loaded are there after a crash');
no_bad_pages($node, 'g', 'after a crash with loaded keys');

$node->stop;
done_testing();
