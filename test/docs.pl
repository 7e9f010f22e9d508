#!/usr/bin/perl
# Compares the documentation with the tree.
#
# usage: test/docs.pl
#
# Prints each link to a file or section that does not exist, and each function that
# docs/architecture.md or CONTRIBUTING.md names in a file ("`Function` in `folder/file.cpp`",
# relative to src) where it is not. Exits non-zero if there is one.

use strict;
use warnings;
use File::Basename qw(dirname);

chdir dirname(__FILE__) . '/..' or die "docs.pl: $!\n";
my $wrong = 0;

sub complain
{
	print "@_\n";
	$wrong++;
}

sub text_of
{
	my ($file) = @_;
	open my $in, '<', $file or die "docs.pl: $file: $!\n";
	local $/ = undef;
	return scalar <$in>;
}

# The names by which a page's sections can be linked to, as GitHub makes them.
sub anchors_of
{
	my ($text) = @_;
	my %anchors;
	$text =~ s/^```.*?^```//gms;
	while ($text =~ /^#+ +(.*)$/gm)
	{
		my $anchor = lc $1;
		$anchor =~ s/[^\w\- \x80-\xff]//g;
		$anchor =~ s/→|…|×|–|“|”//g;
		$anchor =~ tr/ /-/;
		$anchors{$anchor} = 1;
	}
	return \%anchors;
}

my @pages = grep { -f } ('README.md', 'CONTRIBUTING.md', glob('docs/*.md'));
my $links = 0;
foreach my $page (@pages)
{
	my $text = text_of($page);
	$text =~ s/^```.*?^```//gms;
	while ($text =~ /\]\(([^)\s]+)\)/g)
	{
		my ($file, $anchor) = split /#/, $1, 2;
		next if $file =~ /^[a-z]+:/;
		my $target = $file eq '' ? $page : dirname($page) . "/$file";
		$links++;
		if (!-e $target)
		{
			complain("$page: there is no $file");
		}
		elsif (defined $anchor && $target =~ /\.md$/ && !anchors_of(text_of($target))->{$anchor})
		{
			complain("$page: $target has no section #$anchor");
		}
	}
}

# A list of names is "`A`, `B` and `C` in `file`".
my $names = 0;
foreach my $page ('docs/architecture.md', 'CONTRIBUTING.md')
{
	my $text = text_of($page);
	$text =~ s/\s+/ /g;
	while ($text =~ /((?:`\w+`(?:, | and )?)+) in `([\w.\/]+)`/g)
	{
		my ($list, $file) = ($1, "src/$2");
		if (!-f $file)
		{
			complain("$page: there is no $file");
			next;
		}
		my $code = text_of($file);
		while ($list =~ /`(\w+)`/g)
		{
			$names++;
			complain("$page: $1 is not in $file") if $code !~ /\b$1\b/;
		}
	}
	# Other files of src, by their paths alone.
	while ($text =~ /`((?:core|pg|value|query|live|guard)\/[\w.\/]+\.[ch]pp)`/g)
	{
		complain("$page: there is no src/$1") if !-f "src/$1";
	}
}
print "$links links and $names names, $wrong wrong\n";
exit($wrong ? 1 : 0);
