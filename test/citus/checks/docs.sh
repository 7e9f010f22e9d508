# The section on Citus of docs/distributed.md: each block of SQL runs, and a block of text after it
# is its output. The text may leave lines out; numbers of shards and plans may differ. A block that
# raises an error must have a text that says so.

perl - "$here/distributed.md" "$TMPDIR/docs" <<'PERL'
use strict;
use warnings;

my ($page, $out) = @ARGV;
open my $in, '<', $page or die "$page: $!";
my $text = do { local $/; <$in> };
my ($section) = $text =~ /^(## Citus.*?)(?=^## |\z)/ms or die "no section on Citus\n";
mkdir $out;
my ($number, $last) = (0, '');
while ($section =~ /^```(\w*)\n(.*?)^```$/msg)
{
	my ($kind, $block) = ($1, $2);
	if ($kind eq 'sql')
	{
		$last = sprintf '%s/%02d', $out, ++$number;
		open my $sql, '>', "$last.sql" or die $!;
		print $sql $block;
	}
	elsif ($kind eq 'text')
	{
		die "text without SQL before it\n" if $last eq '' || -e "$last.wanted";
		open my $wanted, '>', "$last.wanted" or die $!;
		print $wanted $block;
	}
	$last = '' if $kind eq '';
}
die "only $number blocks of SQL\n" if $number < 10 || @{[glob "$out/*.wanted"]} < 5;
PERL

# one session, as a reader has
{
	echo 'SET client_min_messages = warning; SET citus.shard_count = 16; SET search_path = public;'
	for block in "$TMPDIR"/docs/*.sql; do
		printf '\\o %s\n' "${block%.sql}.out"
		printf '\\echo -- %s\n' "$(basename "$block" .sql)"
		cat "$block"
	done
} > "$TMPDIR/docs.sql"
psql -X -f "$TMPDIR/docs.sql" > "$TMPDIR/docs.errors" 2>&1
# what psql says of errors, to the block that they are in
awk -v dir="$TMPDIR/docs" '/^-- [0-9]+$/ { out = dir "/" $2 ".out"; next }
	out != "" { sub(/^psql:[^ ]*: /, ""); print >> out; close(out) }' "$TMPDIR/docs.errors"

perl - "$TMPDIR"/docs/*.sql <<'PERL'
use strict;
use warnings;

my $failed = 0;
for my $block (@ARGV)
{
	my ($name) = $block =~ m{([^/]+)\.sql$};
	(my $base = $block) =~ s/\.sql$//;
	my ($got, $wanted) = map { lines($_) } "$base.out", "$base.wanted";
	my $next = 0;
	for my $line (@$got)
	{
		$next++ if $next < @$wanted && $line eq $wanted->[$next];
		if ($line =~ /ERROR:|WARNING:/ && !grep { $_ eq $line } @$wanted)
		{
			print "block $name of the page: $line\n", slurp($block);
			$failed = 1;
		}
	}
	if ($next < @$wanted)
	{
		print "block $name of the page lacks: $wanted->[$next]\nof:\n", slurp("$base.out");
		$failed = 1;
	}
	print "ok - block $name of docs/distributed.md\n";
}
exit $failed;

sub slurp
{
	open my $in, '<', shift or return '';
	local $/;
	my $text = <$in>;
	return defined $text ? $text : '';
}

sub lines
{
	my @lines;
	for (split /\n/, slurp(shift))
	{
		s/\s+$//;
		s/_10\d{4}\b/_SHARD/g;
		s/Subplan \d+_/Subplan N_/;
		push @lines, $_ if $_ ne '';
	}
	return \@lines;
}
PERL
