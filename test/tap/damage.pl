# A damaged page, without data checksums, raises XX001 in every function that reads it, and never causes a wrong
# answer. Bytes of every kind of region are changed in the files of a stopped server.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(system_or_bail);
use Test::More;

my $seed = 12;
srand($seed);
my $node = start_node('main', checksums => 0, settings => ['max_prepared_transactions = 4', 'shared_buffers = 64MB']);
my $data = $node->data_dir;

# Changes a byte of a block, for good: to any other value.
sub damage
{
	my ($path, $block, $offset, $mask) = @_;
	my $byte;
	open my $file, '+<:raw', "$data/$path" or die "$path: $!";
	sysseek $file, $block * 8192 + $offset, 0 or die;
	sysread($file, $byte, 1) == 1 or die "block $block of $path is not there";
	sysseek $file, $block * 8192 + $offset, 0 or die;
	syswrite $file, chr(ord($byte) ^ ($mask || 1 + int(rand(255)))) or die;
	close $file;
	return;
}

# A whole page. With other bytes, writes them and returns what was there before.
sub page
{
	my ($path, $block, $bytes) = @_;
	my $was;
	open my $file, '+<:raw', "$data/$path" or die "$path: $!";
	sysseek $file, $block * 8192, 0 or die;
	sysread($file, $was, 8192) == 8192 or die;
	if (defined $bytes)
	{
		sysseek $file, $block * 8192, 0 or die;
		syswrite($file, $bytes) == 8192 or die;
	}
	close $file;
	return $was;
}

sub path { return $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_[0]')") }

# The answers of a function of a key, key by key: how many keys that were added are not
# found ("lost"), and which blocks were reported. Runs in a session of its own.
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION asked(filter text, query text, n int, OUT lost bigint, OUT blocks text) LANGUAGE plpgsql AS $$
	DECLARE
		said text;
		code text;
		answer boolean;
		bad int[] := '{}';
	BEGIN
		lost := 0;
		FOR k IN 1..n LOOP
			BEGIN
				EXECUTE query INTO answer USING filter, k;
				lost := lost + (NOT coalesce(answer, false))::int;
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
				bad := bad || CASE WHEN code = 'XX001' THEN coalesce(substring(said FROM 'block (\d+)')::int, -1) ELSE -2 END;
			END;
		END LOOP;
		blocks := (SELECT string_agg(b::text, ' ' ORDER BY b) FROM (SELECT DISTINCT unnest(bad) AS b) s);
	END $$;
});

# ---- main pages, each damaged once ------------------------------------------------------

# Keys in lines, keys in flight or not yet folded, tags, generations.
my $keys = 9000;
my %made = (
	set => 'dedup_filter(170000, 0.01, 42)',
	timed => q{dedup_window(100000, 0.001, 42), '7 days'},
	written => 'dedup_filter(170000, 0.01, 42)',
	guarding => 'dedup_filter(170000, 0.01, 42)');
my %pages;
foreach my $filter (sort keys %made)
{
	$node->safe_psql(
		'postgres', qq{
		SELECT dedup_create('$filter', $made{$filter});
		SELECT count(is_new('$filter', k)) FROM generate_series(1, $keys - 1000) k;
		VACUUM $filter;
		SELECT count(is_new('$filter', k)) FROM generate_series($keys - 999, $keys - 500) k;
		SELECT count(is_new('$filter', k)) FROM generate_series($keys - 499, $keys) k;
	});
	$pages{$filter} = $node->safe_psql('postgres',
		"SELECT pg_relation_size('$filter') / 8192 - 1 - overflow_pages FROM dedup_stats('$filter')");
	cmp_ok($pages{$filter}, '>=', 70, "$filter has $pages{$filter} main pages");
}
$node->safe_psql(
	'postgres', q{
	CREATE TABLE clicks (k int);
	SELECT dedup_guard('clicks', 'guarding', '{k}');
	SELECT dedup_create('healthy', dedup_filter(1000, 0.01, 42));
	SELECT is_new('healthy', 1);
	SELECT dedup_create('unlogged', dedup_filter(1000, 0.01, 42), unlogged => true);
	SELECT is_new('unlogged', 1);
});

# ---- pages of counters: a small filter for each word ----------------------------------

my @words = (0 .. 9);
$node->safe_psql('postgres',
	join('', map { "SELECT dedup_create('counted$_', dedup_window(100, 0.01, 42), '7 days'); SELECT is_new('counted$_', 1);\n" } @words));

# ---- overflow pages, in a chain and free ------------------------------------------------

$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('chained', dedup_filter(30000, 0.01, 42));
	SELECT count(is_new('chained', k)) FROM generate_series(1, 30000) k;
	SELECT dedup_create('freed', dedup_filter(1000, 0.01, 42));
	BEGIN;
	SELECT count(is_new('freed', k)) FROM generate_series(1, 3000) k;
	ROLLBACK;
	SELECT is_new('freed', 1);
	SELECT dedup_create(name, dedup_filter(30000, 0.01, seed)) FROM (VALUES ('swapped', 42), ('mixed', 42), ('foreign', 43), ('cut', 42)) f(name, seed);
	SELECT count(is_new('swapped', k)), count(is_new('mixed', k)), count(is_new('foreign', k)), count(is_new('cut', k)) FROM generate_series(1, 2000) k;
	SELECT dedup_create('torn', dedup_filter(1000, 0.01, 42));
	SELECT is_new('torn', 1);
	SELECT dedup_create('hollow', dedup_filter(1000, 0.01, 42)), dedup_create('lined', dedup_filter(1000, 0.01, 42)), dedup_create('forged', dedup_filter(1000, 0.01, 42));
	SELECT is_new('hollow', 1), (SELECT count(is_new('lined', k) AND is_new('forged', k)) FROM generate_series(1, 300) k);
	VACUUM lined, forged;
});
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('lost', dedup_filter(1000, 0.01, 42));
	SELECT count(is_new('lost', k)) FROM generate_series(1, 100) k;
	CHECKPOINT;
});
my $early = page(path('lost'), 0);
$node->safe_psql('postgres', q{SELECT count(is_new('lost', k)) FROM generate_series(101, 5000) k});
my $lost_pages = $node->safe_psql('postgres', q{SELECT overflow_pages FROM dedup_stats('lost')});
cmp_ok($lost_pages, '>', 3, "$lost_pages overflow pages that will be lost");
is($node->safe_psql('postgres', q{SELECT pg_relation_size('lost') / 8192}), 2 + $lost_pages, 'after one main page and the counters');
my $first_overflow = $node->safe_psql('postgres',
	q{SELECT pg_relation_size('chained') / 8192 - overflow_pages FROM dedup_stats('chained')});
my $overflow = $node->safe_psql('postgres', q{SELECT overflow_pages FROM dedup_stats('chained')});
cmp_ok($overflow, '>', 10, "$overflow overflow pages");
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT (dedup_check(oid::regclass)).* FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'streamdedup') AND relkind = 'r') p"),
	'0', 'all is well before');

my %path = map { $_ => path($_) } keys %made, 'chained', 'freed', 'torn', 'hollow', 'lined', 'forged', 'swapped', 'mixed', 'foreign', 'cut', 'lost', 'unlogged', 'healthy', map { "counted$_" } @words;
$node->stop;

# Whole pages: two that have changed places, one of another filter, one from before its chain, a file that was cut off.
page($path{swapped}, 1, page($path{swapped}, 0, page($path{swapped}, 1)));
page($path{mixed}, 0, page($path{foreign}, 0));
page($path{lost}, 0, $early);
truncate "$data/$path{cut}", 8192 or die;

# A page whose checksum is right, but whose header says that it has no keys in its lines. One word
# has changed, so the checksum changes by the difference of its terms.
sub term
{
	my ($place, $word) = @_;
	my $times = sub { use integer; return $_[0] * $_[1] };
	my $plus = sub { use integer; return $_[0] + $_[1] };
	my $x = $plus->($word ^ $word >> 32, $times->($place + 1, 0x9E3779B97F4A7C15));
	$x = $times->($x, 0xbf58476d1ce4e5b9) & ~0;
	$x = $times->($x ^ $x >> 29, 0x94d049bb133111eb) & ~0;
	return $x >> 32;
}
my $forged = page($path{forged}, 0);
my $word = unpack('Q<', substr($forged, 8, 8)) >> 16;
substr($forged, 12, 2, pack('v', 1600));
substr($forged, 20, 4, pack('V', (unpack('V', substr($forged, 20, 4)) - term(1, $word) + term(1, unpack('Q<', substr($forged, 8, 8)) >> 16)) & 0xffffffff));
page($path{forged}, 0, $forged);

# Regions of a main page, from the header of the server on: its LSN and its data checksum
# have tests of their own. The server itself refuses some changes of its header.
my @regions = ([10, 20], [20, 24], [24, 64], [64, 320], [320, 1600], [1600, 8192], [1600, 8192]);
my $flips = 0;
foreach my $filter (sort keys %made)
{
	for my $block (0 .. $pages{$filter} - 1)
	{
		my ($from, $to) = @{ $regions[ $block % @regions ] };
		damage($path{$filter}, $block, $from + int(rand($to - $from)));
		$flips++;
	}
}
damage($path{"counted$_"}, 1, 64 + $_ * 8 + int(rand(8))) foreach @words;
damage($path{chained}, $_, 24 + int(rand(8192 - 24))) foreach $first_overflow .. $first_overflow + $overflow - 1;
# the kind of a free page's: then it is never used again; an LSN in the future; what does not count
damage($path{freed}, 5, 4000);
damage($path{torn}, 0, 3, 0x40);
# where the hole begins that a page has in place of its empty lines, and that it has none
is(unpack('v', substr(page($path{hollow}, 0), 12, 2)), 1600, 'a page without keys in its lines has a hole');
is(unpack('v', substr(page($path{lined}, 0), 12, 2)), 8192, 'a page with some has none');
damage($path{$_}, 0, 12, 0x40), damage($path{$_}, 0, 13, 0x26) foreach 'hollow', 'lined';
damage($path{healthy}, 0, 8);
damage($path{healthy}, 0, 4, 1);
damage($path{healthy}, 1, 8000);
damage($path{unlogged}, 0, 3, 0x40);
$node->start;

# ---- asking, by whoever meets the page first, and by whoever does next -----------------

sub meets
{
	my ($what, $filter, $query) = @_;
	my ($lost, $blocks) =
	  split /\|/, $node->safe_psql('postgres', "SELECT * FROM asked('$filter', \$q\$$query\$q\$, $keys)");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($lost, 0, "$what: no wrong answer");
	is($blocks, join(' ', 0 .. $pages{$filter} - 1), "$what: XX001 for every page");
	return;
}
foreach my $pass ('first', 'again, from memory')
{
	meets("dedup_seen, $pass", 'set', 'SELECT dedup_seen($1, $2)');
	meets("dedup_seen, $pass", 'timed', 'SELECT dedup_seen($1, $2)');
}
meets('is_new', 'written', 'SELECT NOT is_new($1, $2)');
meets('dedup_new_keys', 'written', 'SELECT NOT EXISTS (SELECT dedup_new_keys($1, ARRAY[$2]))');
meets('a guarded INSERT', 'guarding', 'WITH i AS (INSERT INTO clicks SELECT $2 WHERE $1 IS NOT NULL RETURNING 1) SELECT NOT EXISTS (SELECT FROM i)');
is($node->safe_psql('postgres', 'SELECT count(*) FROM clicks'), 0, 'no duplicate row');
meets('is_new_at', 'timed', 'SELECT NOT is_new_at($1, now(), $2)');
meets('dedup_forget', 'written', 'SELECT dedup_forget($1, $2)');

foreach my $filter ('set', 'timed')
{
	foreach my $query (
		"SELECT count(*) FROM $filter", "COPY $filter TO STDOUT", "SELECT dedup_snapshot('$filter')",
		"SELECT * FROM dedup_stats('$filter')", "VACUUM $filter", "VACUUM FULL $filter",
		"SELECT is_new('$filter', 'other')")
	{
		is(sqlstate($node, 'postgres', $query), 'XX001', $query);
	}
}
foreach my $filter (sort keys %made)
{
	is($node->safe_psql('postgres', "SELECT string_agg(block::text, ' ' ORDER BY block) FROM dedup_check('$filter')"),
		join(' ', 0 .. $pages{$filter} - 1), "dedup_check names all pages of $filter");
}
is($node->safe_psql('postgres', q{SELECT name FROM dedup_filters WHERE problem !~ '^invalid page in block'}),
	'', 'dedup_filters goes on');
like($node->safe_psql('postgres', q{SELECT count, problem FROM dedup_filters WHERE name = 'healthy'::regclass}),
	qr/^1\|$/, 'and shows the others');

# read by somebody who does not look: for the next one it is as fresh from disk
$node->restart;
is($node->safe_psql('postgres', q{SELECT count(*) > 70 FROM dedup_check('set')}), 't', 'dedup_check first');
meets('dedup_seen, after dedup_check', 'set', 'SELECT dedup_seen($1, $2)');

# ---- counters ------------------------------------------------------------------------------

foreach my $word (@words)
{
	is(sqlstate($node, 'postgres', "SELECT * FROM dedup_stats('counted$word')"), 'XX001', "word $word of the counters");
	is(sqlstate($node, 'postgres', "SELECT is_new('counted$word', 2)"), 'XX001', 'is_new asks for the time');
	like($node->safe_psql('postgres', "SELECT * FROM dedup_check('counted$word')"), qr/^1\|/, 'dedup_check');
}

# ---- overflow pages --------------------------------------------------------------------------

my ($lost, $blocks) = split /\|/,
  $node->safe_psql('postgres', q{SELECT * FROM asked('chained', 'SELECT dedup_seen($1, $2)', 30000)});
is($lost, 0, 'chains: no wrong answer');
cmp_ok(scalar(() = $blocks =~ /\d+/g), '>', 5, 'and XX001');
unlike($blocks, qr/-/, 'and nothing else');
is(sqlstate($node, 'postgres', 'VACUUM chained'), 'XX001', 'VACUUM meets it');
$node->safe_psql(
	'postgres', q{
	BEGIN;
	SELECT count(is_new('freed', k)) FROM generate_series(1, 3000) k;
	ROLLBACK;
	VACUUM freed;
});
is($node->safe_psql('postgres', q{SELECT dedup_seen('freed', 1), (SELECT count(*) FROM dedup_check('freed'))}),
	't|1', 'a damaged free page is not used, and not missed; dedup_check names it');

# ---- whole pages --------------------------------------------------------------------------------

foreach my $whole ([ 'swapped', '0 1' ], [ 'mixed', '0' ])
{
	my ($filter, $bad) = @$whole;
	is($node->safe_psql('postgres', qq{SELECT * FROM asked('$filter', 'SELECT dedup_seen(\$1, \$2)', 2000)}), "0|$bad", "$filter: XX001");
	is($node->safe_psql('postgres', "SELECT string_agg(block::text, ' ' ORDER BY block) FROM dedup_check('$filter')"), $bad, "dedup_check of $filter");
}
# Asking does not show that overflow pages are lost with the link to them, but dedup_check does.
is($node->safe_psql('postgres', q{SELECT lost BETWEEN 4000 AND 4900, blocks FROM asked('lost', 'SELECT dedup_seen($1, $2)', 5000)}), 't|', 'lost: its keys are forgotten');
is($node->safe_psql('postgres', q{SELECT string_agg(block::text, ' ' ORDER BY block), min(problem), max(problem) FROM dedup_check('lost')}),
	join(' ', 2 .. 1 + $lost_pages) . '|It is in no chain.|It is in no chain.', 'dedup_check names the pages that are lost');
# The manual says so: what was cut off is empty.
is($node->safe_psql('postgres', q{SELECT lost BETWEEN 500 AND 1999, blocks FROM asked('cut', 'SELECT dedup_seen($1, $2)', 2000)}), 't|', 'cut: its first page is there');

# ---- what is not in the checksum ---------------------------------------------------------------

is(sqlstate($node, 'postgres', q{SELECT dedup_seen('torn', 1)}), 'XX001', 'an LSN behind the end of the WAL');
foreach my $filter ('hollow', 'lined')
{
	is(sqlstate($node, 'postgres', "SELECT $_"), 'XX001', "the hole of $filter: $_")
	  foreach "dedup_seen('$filter', 1)", "is_new('$filter', 1)";
	like($node->safe_psql('postgres', "SELECT * FROM dedup_check('$filter')"), qr/^0\|/, 'dedup_check');
}
is($node->safe_psql('postgres', "SELECT * FROM dedup_check('forged')"), '0|Its header says of bytes that are in use that they are not.',
	'a hole in place of lines that have keys');
is($node->safe_psql('postgres', q{SELECT dedup_seen('healthy', 1), is_new('healthy', 1), count(*) FROM dedup_check('healthy')}),
	't|f|0', 'an older LSN, the data checksum and unused slots of the counters do not count');
is($node->safe_psql('postgres', q{SELECT dedup_seen('unlogged', 1), count(*) FROM dedup_check('unlogged')}),
	't|0', 'nor does the LSN of an unlogged filter');

# ---- the way out ----------------------------------------------------------------------------

$node->safe_psql('postgres', 'TRUNCATE set, timed, written, guarding, chained, torn, hollow, lined, forged, swapped, mixed, lost');
is($node->safe_psql('postgres', "SELECT count(*) FROM dedup_filters WHERE problem IS NOT NULL"), scalar(@words), 'TRUNCATE mends');
is(new_among($node, 'set', 1, 1000), 1000, 'and it takes keys');
note("$flips pages damaged, seed $seed");

# ---- a page that is whole, and names transactions that the server does not know ---------------

# As after a mistaken pg_resetwal: the server begins again with the ids that were used last.
$node->safe_psql(
	'postgres', q{
	DROP TABLE clicks;
	SELECT dedup_create('ahead', dedup_filter(1000, 0.01, 42));
});
my $next = $node->safe_psql('postgres', 'VACUUM FREEZE; SELECT pg_current_xact_id()') + 1;
$node->safe_psql('postgres', q{SELECT is_new('ahead', 1)});
$node->stop;
system_or_bail('pg_resetwal', '-f', '-x', $next, $node->data_dir);
$node->start;
like(messages($node, 'postgres', q{SET statement_timeout = '20s'; SELECT * FROM (SELECT dedup_seen('ahead', 1)) s}),
	qr/XX001: invalid page in block 0 of live filter "ahead".*names a transaction that cannot exist/s, 'an impossible transaction: dedup_seen');
foreach my $query ("SELECT is_new('ahead', 1)", "SELECT dedup_stats('ahead')", 'SELECT * FROM ahead', 'VACUUM ahead')
{
	is(sqlstate($node, 'postgres', "SET statement_timeout = '20s'; $query"), 'XX001', "the same: $query");
}
like($node->safe_psql('postgres', q{SELECT * FROM dedup_check('ahead')}), qr/^0\|.*cannot exist/, 'dedup_check names it');
$node->stop;

done_testing();
