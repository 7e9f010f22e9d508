# Every relative link of README.md, CHANGELOG.md and docs/*.md leads to a file, and its anchor
# to a heading; every page of docs is linked from README.md. Needs no server.

use strict;
use warnings;
use Encode qw(decode);
use File::Basename qw(dirname);
use File::Spec;
use FindBin;
use Test::More;

my $top = File::Spec->rel2abs("$FindBin::Bin/../..");
my %text;

# The text of a file without its blocks of code; undef if there is no such file.
sub text_of
{
	my ($file) = @_;
	return $text{$file} if exists $text{$file};
	open(my $in, '<', $file) or return $text{$file} = undef;
	local $/;
	my $text = decode('UTF-8', <$in>);
	$text =~ s/^```.*?^```$//msg;
	return $text{$file} = $text;
}

# The anchors of a file's headings, as GitHub makes them: lower case, only letters, digits,
# underscores, hyphens and blanks, which become hyphens; a heading that repeats is numbered.
sub anchors_of
{
	my ($file) = @_;
	my (%anchors, %times);
	foreach my $heading (text_of($file) =~ /^#+\s+(.*?)\s*$/mg)
	{
		my $anchor = lc $heading;
		$anchor =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
		$anchor =~ s/[^\w\- ]//g;
		$anchor =~ tr/ /-/;
		my $time = $times{$anchor}++;
		$anchors{ $time ? "$anchor-$time" : $anchor } = 1;
	}
	return \%anchors;
}

# The links of a file: not those within code.
sub links_of
{
	my ($file) = @_;
	my $text = text_of($file);
	$text =~ s/(`+).+?\1/code/sg;
	return $text =~ /\]\(([^)\s]+)\)/g;
}

my @pages = ("$top/README.md", "$top/CHANGELOG.md", glob "$top/docs/*.md");
my (@broken, %linked);
my $links = 0;
foreach my $page (@pages)
{
	foreach my $link (links_of($page))
	{
		next if $link =~ m{^[a-z]+:};
		$links++;
		my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $target = $path eq '' ? $page : dirname($page) . "/$path";
		my $shown = File::Spec->abs2rel($page, $top) . ": $link";
		$linked{ File::Spec->abs2rel($target, $top) } = 1 if $page eq "$top/README.md";
		if (!-e $target)
		{
			push @broken, "$shown: no such file";
		}
		elsif (defined $anchor && !anchors_of($target)->{$anchor})
		{
			push @broken, "$shown: no such heading";
		}
	}
}
cmp_ok($links, '>', 80, 'links were found');
is(join("\n", @broken), '', 'every link leads somewhere');
is(join(' ', grep { !$linked{$_} } map { File::Spec->abs2rel($_, $top) } glob "$top/docs/*.md"),
	'', 'README links every page');

done_testing();
