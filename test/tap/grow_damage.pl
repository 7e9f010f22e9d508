# A damaged page of a live filter that grows, of every kind: dedup_check() names it, and no other
# one, and a key that was added is found or is an error, never new. And a chain that leads where it
# must not, in a page whose checksum is right: each use is an error, and ends.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $seed = 14;
srand($seed);
my $node = start_node('main', checksums => 0);
my $data = $node->data_dir;
# damage.pl has the page of counters
my %kinds = (main => 1, overflow => 2, free => 4, root => 5, map => 6, fan => 7);
my $keys = 20000;

# The blocks of a file by the kind that their headers say.
sub blocks_of
{
	my ($path) = @_;
	my (%blocks, $page);
	open my $file, '<:raw', "$data/$path" or die "$path: $!";
	for (my $block = 0; sysread($file, $page, 8192) == 8192; $block++)
	{
		push @{ $blocks{ ord(substr($page, 29, 1)) } }, $block;
	}
	close $file;
	return \%blocks;
}

sub damage
{
	my ($path, $block) = @_;
	my $at = $block * 8192 + 64 + int(rand(8128));
	my $byte;
	open my $file, '+<:raw', "$data/$path" or die "$path: $!";
	sysseek $file, $at, 0 or die;
	sysread($file, $byte, 1) == 1 or die "block $block of $path is not there";
	sysseek $file, $at, 0 or die;
	syswrite $file, chr(ord($byte) ^ (1 + int(rand(255)))) or die;
	close $file;
	return;
}

# A word's term of a page's checksum (core/page_sum.hpp).
sub multiply { use integer; return $_[0] * $_[1] }
sub add { use integer; return $_[0] + $_[1] }
sub term
{
	no warnings qw(portable);
	my ($place, $word) = @_;
	$word = multiply(add($word ^ $word >> 32, multiply($place + 1, 0x9e3779b97f4a7c15)), 0xbf58476d1ce4e5b9);
	return multiply($word ^ $word >> 29, 0x94d049bb133111eb) >> 32;
}

# Gives a page some numbers, u32, from a place on, and the checksum that it should have.
sub forge
{
	my ($path, $block, $at, @numbers) = @_;
	my $page;
	open my $file, '+<:raw', "$data/$path" or die "$path: $!";
	sysseek $file, $block * 8192, 0 or die;
	sysread($file, $page, 8192) == 8192 or die "block $block of $path is not there";
	my @words = unpack 'Q<*', $page;
	substr($page, $at, 4 * @numbers) = pack 'V*', @numbers;
	my @changed = unpack 'Q<*', $page;
	my $sum = unpack 'V', substr($page, 20, 4);
	foreach my $place (3 .. $#words)
	{
		$sum += term($place, $changed[$place]) - term($place, $words[$place]) if $changed[$place] != $words[$place];
	}
	substr($page, 20, 4) = pack 'V', $sum & 0xffffffff;
	sysseek $file, $block * 8192, 0 or die;
	syswrite $file, $page or die;
	close $file;
	return;
}

# Keys in lines, and chains of one transaction. VACUUM settles those of one filter, and gives no
# page back beside a reader: they stay free.
my $filters = '{' . join(',', map { "d_$_" } sort keys %kinds) . '}';
# One filter cannot have many pages: its chains are long.
foreach my $kind (sort keys %kinds)
{
	my $fpr = $kind eq 'fan' ? 1e-9 : 0.0001;
	$node->safe_psql(
		'postgres', qq{
		SELECT dedup_create('d_$kind', dedup_filter(fpr => $fpr, seed => 42));
		SELECT count(is_new('d_$kind', k)) FROM generate_series(1, $keys / 2) k;
		VACUUM d_$kind;
	});
}
$node->safe_psql('postgres',
	qq{SELECT count(is_new(f, k)) FROM generate_series($keys / 2 + 1, $keys) k, unnest('$filters'::regclass[]) f});
$node->safe_psql('postgres', qq{SELECT count(is_new('d_fan', k)) FROM generate_series($keys + 1, 4 * $keys) k});
my $reader = live_session($node, 'postgres');
$reader->query(q{BEGIN; SELECT dedup_seen('d_free', 1)});
$node->safe_psql('postgres', 'VACUUM d_free');
$reader->query('COMMIT');
$reader->quit;
no_bad_pages($node, "d_$_", "$_ before") foreach sort keys %kinds;
my %path = map { $_ => $node->safe_psql('postgres', "SELECT pg_relation_filepath('d_$_')") } keys %kinds;
$node->stop;

my %damaged;
foreach my $kind (sort keys %kinds)
{
	my $blocks = blocks_of($path{$kind})->{ $kinds{$kind} } || [];
	next unless @$blocks;
	$damaged{$kind} = $blocks->[ int(rand(@$blocks)) ];
	damage($path{$kind}, $damaged{$kind});
}
is(join(' ', sort keys %damaged), join(' ', sort keys %kinds), 'there are pages of every kind');
$node->start;

foreach my $kind (sort keys %damaged)
{
	is($node->safe_psql('postgres', "SELECT DISTINCT block FROM dedup_check('d_$kind')"),
		$damaged{$kind}, "dedup_check() names the page: $kind");
	is( $node->safe_psql(
			'postgres', qq{
			CREATE TEMP TABLE lost (k int);
			DO \$\$ BEGIN
				FOR i IN 1 .. $keys BY 7 LOOP
					BEGIN
						IF NOT dedup_seen('d_$kind', i) THEN INSERT INTO lost VALUES (i); END IF;
					EXCEPTION WHEN data_corrupted THEN NULL;
					END;
				END LOOP; END \$\$;
			SELECT count(*) FROM lost}),
		0, "no key is lost: $kind");
}

# Chains that lead where they must not. There is a fan, and leaves that it names.
my %leads = (
	'a fan to itself' => sub { my ($path, $fan) = @_; forge($path, $fan, 64, ($fan) x 1024) },
	'a fan to its main page' => sub { my ($path, $fan, $main) = @_; forge($path, $fan, 64, ($main) x 1024) },
	'a fan to another part' => sub { my ($path, $fan, $main, @leaves) = @_; forge($path, $fan, 64, ($leaves[0]) x 1024) },
	'a leaf to itself' => sub { my ($path, $fan, $main, @leaves) = @_; forge($path, $leaves[0], 36, $leaves[0]) },
	'a leaf to its fan' => sub { my ($path, $fan, $main, @leaves) = @_; forge($path, $leaves[0], 36, $fan) },
	'a main page to itself' => sub { my ($path, $fan, $main) = @_; forge($path, $main, 36, $main) });
my @cases = sort keys %leads;
foreach my $i (0 .. $#cases)
{
	$node->safe_psql('postgres',
		"SELECT dedup_create('e_$i', dedup_filter(fpr => 1e-9, seed => 42)); SELECT count(is_new('e_$i', k)) FROM generate_series(1, $keys) k");
	$path{"e_$i"} = $node->safe_psql('postgres', "SELECT pg_relation_filepath('e_$i')");
}
$node->stop;
foreach my $i (0 .. $#cases)
{
	my $blocks = blocks_of($path{"e_$i"});
	my ($page, $main);
	my $fan = $blocks->{ $kinds{fan} }[0];
	open my $file, '<:raw', "$data/" . $path{"e_$i"} or die;
	sysseek $file, $fan * 8192, 0 or die;
	sysread($file, $page, 8192) == 8192 or die;
	my @leaves = grep { $_ != 0 } unpack 'V1024', substr($page, 64);
	# The main page that leads to it
	foreach my $block (@{ $blocks->{ $kinds{main} } })
	{
		sysseek $file, $block * 8192, 0 or die;
		sysread($file, $page, 8192) == 8192 or die;
		$main = $block if unpack('V', substr($page, 36, 4)) == $fan;
	}
	close $file;
	$leads{ $cases[$i] }($path{"e_$i"}, $fan, $main, @leaves);
}
$node->start;
foreach my $i (0 .. $#cases)
{
	foreach my $use (
		"VACUUM e_$i",
		"SELECT count(is_new('e_$i', k)) FROM generate_series(30001, 60000) k",
		"SELECT count(*) FROM dedup_new_keys('e_$i', ARRAY(SELECT generate_series(30001, 60000)))",
		"COPY e_$i TO '/dev/null'")
	{
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$use", timeout => 60);
		like($err, qr/ERROR:  XX001: invalid page(?!.*checksum)/s, "$cases[$i]: $use");
	}
	isnt($node->safe_psql('postgres', "SELECT count(*) FROM dedup_check('e_$i')"), '0', "$cases[$i]: dedup_check()");
}
$node->stop;

done_testing();
