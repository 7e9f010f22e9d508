# A damaged page of a live filter that grows, of every kind: dedup_check() names it, and no other
# one, and a key that was added is found or is an error, never new.

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
$node->stop;

done_testing();
