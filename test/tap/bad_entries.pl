# An entry names a tag that its page does not have, in a page whose checksum is right. Settling the page raises
# XX001, even if another entry of the same key is read first.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

# Numbers of 64 bits.
no warnings 'portable';

my $node = start_node('main', checksums => 0, settings => ['max_prepared_transactions = 4']);
my $data = $node->data_dir;

# The term of a word of a page in its checksum, as core/page_sum.hpp has it.
sub term
{
	my ($place, $word) = @_;
	my $mixed = $word ^ $word >> 32;
	{
		use integer;
		$mixed += ($place + 1) * 0x9e3779b97f4a7c15;
		$mixed *= 0xbf58476d1ce4e5b9;
	}
	$mixed ^= $mixed >> 29;
	{
		use integer;
		$mixed *= 0x94d049bb133111eb;
	}
	return $mixed >> 32;
}

# One page, all of whose tags are in use. All but the last two have committed for all.
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('f', dedup_filter(100, 1e-6, 42));
	DO $$ BEGIN
		FOR k IN 3..16 LOOP
			PERFORM is_new('f', k);
			COMMIT;
		END LOOP;
	END $$;
	BEGIN; SELECT is_new('f', 1); PREPARE TRANSACTION 'a';
	BEGIN; SELECT is_new('f', 2); PREPARE TRANSACTION 'b';
	CHECKPOINT;
});
my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('f')");
$node->stop;

# The last entry of a committed transaction comes a second time, behind it, under a tag that is not there.
my $page;
open my $file, '+<:raw', "$data/$path" or die "$path: $!";
sysread($file, $page, 8192) == 8192 or die 'no page';
my @words = unpack 'Q<*', $page;
my $epoch = ord(substr $page, 30, 1);
my $sum = unpack 'L<', substr($page, 20, 4);
my $bad = 20;
my $added = 0;
for my $from (reverse 8 * 5 .. 8 * 25 - 1)
{
	my ($tag, $its_epoch) = ($words[$from] & 255, $words[$from] >> 8 & 15);
	my ($to) = grep { ($words[$_] >> 8 & 15) != $epoch } $from + 1 .. ($from | 7);
	next if $its_epoch != $epoch || $tag == 0 || $tag > 14 || !defined $to;
	my $word = $words[$from] & ~255 | $bad;
	$sum += term($to, $word) - term($to, $words[$to]);
	$words[$to] = $word;
	$added++;
	last;
}
is($added, 1, 'an entry without a transaction');
$page = pack 'Q<*', @words;
substr $page, 20, 4, pack 'L<', $sum & 0xffffffff;
sysseek $file, 0, 0 or die;
syswrite $file, $page or die;
close $file;

$node->start;
my ($code, $out, $error) = $node->psql('postgres', q{\set VERBOSITY verbose
SELECT is_new('f', 100)});
like($error, qr/XX001: invalid page in block 0 .*An entry has no transaction/s, 'who settles the page');
is($node->safe_psql('postgres', q{SELECT 1}), '1', 'the server goes on');
like($node->safe_psql('postgres', q{SELECT problem FROM dedup_check('f')}), qr/An entry has no transaction/, 'dedup_check');
$node->stop;
done_testing();
