# An unlogged filter is empty after a crash, as an unlogged table is, and keeps its
# parameters; a clean restart keeps its keys.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('main');
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('u', dedup_window(50000, 0.001, 42), '7 days', true);
	SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42));
});
my $parameters = q{SELECT keys, fpr, ttl FROM dedup_stats('u')};
my $before = $node->safe_psql('postgres', $parameters);
like($before, qr/^50000\|0\.001\|7 days$/, 'parameters');
is($node->safe_psql('postgres', q{SELECT relpersistence FROM pg_class WHERE relname = 'u'}), 'u', 'it is unlogged');

cmp_ok(new_among($node, 'u', 1, 10000), '>=', 9950, 'keys are new');
is(new_among($node, 'u', 1, 10000), 0, 'and then duplicates');
new_among($node, 'f', 1, 10000);
$node->restart;
is(seen($node, 'u', 1, 10000), 10000, 'a clean restart keeps them');
is($node->safe_psql('postgres', $parameters), $before, 'and the parameters');

# a crash, with the pages on disk and not
foreach my $checkpoint ('CHECKPOINT', 'SELECT 1')
{
	$node->safe_psql('postgres', $checkpoint);
	$node->stop('immediate');
	$node->start;
	is(seen($node, 'u', 1, 10000), 0, "a crash after $checkpoint empties it");
	is($node->safe_psql('postgres', $parameters), $before, 'and keeps the parameters');
	no_bad_pages($node, 'u', "after the crash after $checkpoint");
	cmp_ok(new_among($node, 'u', 1, 10000), '>=', 9950, 'keys are new again');
	is(new_among($node, 'u', 1, 10000), 0, 'and then duplicates');
}
is(seen($node, 'f', 1, 10000), 10000, 'the logged one beside it kept all of them');

# made and filled just before the crash, and emptied just before
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('late', dedup_filter(100000, 1e-6, 42), unlogged => true);
	SELECT count(is_new('late', k)) FROM generate_series(1, 1000) k;
	TRUNCATE u;
	SELECT count(is_new('u', k)) FROM generate_series(1, 1000) k;
});
$node->stop('immediate');
$node->start;
is(seen($node, 'late', 1, 1000), 0, 'made just before');
is(seen($node, 'u', 1, 1000), 0, 'emptied just before');
is(new_among($node, 'late', 1, 1000), 1000, 'and it takes keys');
no_bad_pages($node, $_, $_) foreach 'late', 'u';
$node->stop;

done_testing();
