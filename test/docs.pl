#!/usr/bin/perl
# Compares the documentation with the tree.
#
# usage: test/docs.pl
#
# Prints each link to a file or section that does not exist, each page of docs that README
# does not link, and each function that docs/architecture.md or CONTRIBUTING.md names in a
# file ("`Function` in `folder/file.cpp`", relative to src) where it is not. The last section
# of a page of docs is "Where to go next". SQL lines of blocks have at most 100 columns, and
# "```sql synopsis" names what the extension has. Compiles the example of a method in
# CONTRIBUTING.md with CXX (g++). Each method must have a section in docs/methods*.md or
# docs/sketches.md, and its number in docs/operations.md. A folder of src must include only those below it, live
# filters and guards must not name a method, and only the headers pg/compat*.hpp may ask for the
# server's version. Exits non-zero if anything is wrong.
#
# test/tap/manual.pl runs the blocks of the pages.

use strict;
use warnings;
use Encode qw(decode);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/tap";
use ManualPage;
use Text::Tabs qw(expand);

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

# A page without its blocks of code.
sub prose_of
{
	my $text = decode('UTF-8', text_of($_[0]));
	$text =~ s/^ *```.*?^ *```$//gms;
	return $text;
}

# The anchors of a page's headings, as GitHub makes them: lower case, only letters, digits,
# underscores, hyphens and blanks, which become hyphens; a heading that repeats is numbered.
sub anchors_of
{
	my (%anchors, %times);
	foreach my $heading (prose_of($_[0]) =~ /^#+\s+(.*?)\s*$/mg)
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

my @pages = ('README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', glob('docs/*.md'));
my $links = 0;
my %linked;
foreach my $page (@pages)
{
	my $text = prose_of($page);
	$text =~ s/(`+).+?\1/code/sg;
	while ($text =~ /\]\(([^)\s]+)\)/g)
	{
		my ($file, $anchor) = split /#/, $1, 2;
		next if $file =~ /^[a-z]+:/;
		my $target = $file eq '' ? $page : dirname($page) . "/$file";
		$target =~ s/^\.\///;
		$links++;
		$linked{$target} = 1 if $page eq 'README.md';
		if (!-e $target)
		{
			complain("$page: there is no $file");
		}
		elsif (defined $anchor && $target =~ /\.md$/ && !anchors_of($target)->{$anchor})
		{
			complain("$page: $target has no section #$anchor");
		}
	}
}
complain('README.md has no link to ' . $_) foreach grep { !$linked{$_} } glob('docs/*.md');

# The last section of each page. The page of the benchmarks ends with figures.
foreach my $page (grep { $_ ne 'docs/benchmarks.md' } glob('docs/*.md'))
{
	my @sections = prose_of($page) =~ /^## +(.*\S)/mg;
	complain("$page: the last section is not \"Where to go next\"") if !@sections || $sections[-1] ne 'Where to go next';
}

# Blocks of SQL: their width, and what a synopsis names.
my $install = join '', map { text_of($_) } glob('src/install/*.sql');
my %has = map { $_ => 1 } $install =~ /^CREATE (?:FUNCTION|AGGREGATE|VIEW|TYPE|ACCESS METHOD) (\w+)/mg;
$has{$_} = 1 foreach text_of('src/pg/settings.cpp') =~ /"(streamdedup\.\w+)"/g;
my ($sql_lines, $synopses) = (0, 0);
$Text::Tabs::tabstop = 4;
foreach my $page ('README.md', glob('docs/*.md'))
{
	my $parsed = ManualPage::parse(decode('UTF-8', text_of($page)));
	foreach my $block (grep { $_->{language} eq 'sql' } map { @{ $_->{blocks} } } @{ $parsed->{sections} })
	{
		my $number = $block->{line};
		foreach my $line (split /\n/, $block->{text})
		{
			$number++;
			$sql_lines++;
			my $columns = length expand($line);
			complain("$page:$number: $columns columns of SQL") if $columns > 100;
		}
		next if $block->{word} ne 'synopsis';
		$synopses++;
		my @called = $block->{text} =~ /\b((?:dedup|is_new|approx)\w*)\(/g;
		complain("$page:$block->{line}: the extension has no $_") foreach grep { !$has{$_} } @called;
		complain("$page:$block->{line}: a synopsis of nothing that the extension has")
		  if !@called && !grep { $has{$_} } $block->{text} =~ /\b((?:streamdedup\.)?\w+)/g;
	}
}
complain('no SQL was found') if $sql_lines < 100;

# A list of names is "`A`, `B` and `C` in `file`".
my $names = 0;
my $folders = '(?:core|pg|value|query|live|guard)';
foreach my $page ('docs/architecture.md', 'CONTRIBUTING.md')
{
	my $text = text_of($page);
	$text =~ s/\s+/ /g;
	while ($text =~ /((?:`\w+`(?:, | and )?)+) in `($folders\/[\w.\/]+)`/g)
	{
		my ($list, $file) = ($1, "src/$2");
		next if $file =~ /\/bitmap\./;
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
	while ($text =~ /`($folders\/[\w.\/]+\.[ch]pp)`/g)
	{
		next if $1 =~ /\/bitmap\./;
		complain("$page: there is no src/$1") if !-f "src/$1";
	}
}

# The arrows between the folders of src.
my %below = (
	core => '',
	pg => 'core',
	value => 'core pg',
	query => 'core pg value',
	live => 'core pg value',
	guard => 'core pg live');
my @sources = glob('src/*/*.?pp src/*/*/*.?pp');
foreach my $source (@sources)
{
	my ($folder) = $source =~ m!^src/(\w+)!;
	foreach my $included (text_of($source) =~ m!^#include "(core|pg|value|query|live|guard)/!mg)
	{
		complain("$source includes $included/")
		  if $included ne $folder && $below{$folder} !~ /\b$included\b/;
	}
}

# What differs between servers.
foreach my $source (glob('src/*.cpp'), grep { !m!^src/pg/compat\w*\.hpp$! } @sources)
{
	complain("$source asks for the server's version, which only src/pg/compat*.hpp may do")
	  if text_of($source) =~ /PG_VERSION_NUM|PG_MAJORVERSION|CATALOG_VERSION_NO/;
}

# The methods, by the registry.
my ($list) = text_of('src/core/registry.hpp') =~ /#define DEDUP_METHODS\(X\)(.*?)\n\n/s;
my $headings = join ' ', map { text_of($_) =~ /^## (.*)$/gm } glob('docs/methods*.md'), 'docs/sketches.md';
my $stored = text_of('docs/operations.md');
foreach my $method ($list =~ /X\((\w+)\)/g)
{
	complain("docs/methods*.md, docs/sketches.md: no section about $method") if $headings !~ /\b$method\b/;
	complain("docs/operations.md: no number of $method") if $stored !~ /\b\d+ $method\b/;
	foreach my $source (grep { m!^src/(?:live|guard)/! } @sources)
	{
		complain("$source names the method $method") if text_of($source) =~ /\b${method}(?:::|_line\b|\.hpp)/;
	}
}

# The example: the blocks that begin with the path of a file below src.
my $tree = tempdir(CLEANUP => 1);
my @compiled;
mkdir "$tree/$_" foreach 'src', 'src/core', 'src/core/methods';
foreach my $header (glob('src/core/*.hpp src/core/methods/*.hpp'))
{
	copy($header, "$tree/$header") or die "docs.pl: $header: $!\n";
}
my $contributing = text_of('CONTRIBUTING.md');
while ($contributing =~ /^ *```cpp (src\/\S+)\n(.*?)^ *```$/gms)
{
	my ($file, $code) = ($1, $2);
	$code =~ s/^   //gm;
	open my $out, '>', "$tree/$file" or die "docs.pl: $file: $!\n";
	print $out $code;
	close $out;
	push @compiled, "$tree/$file" if $file =~ /cpp$/;
}
complain('CONTRIBUTING.md: no example was found') if !@compiled;
foreach my $file (@compiled)
{
	system($ENV{CXX} || 'g++', qw(-std=c++20 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -fsyntax-only), $file) == 0
	  or complain('CONTRIBUTING.md: the example does not compile');
}

print "$links links, $names names, $sql_lines lines of SQL and $synopses synopses, $wrong wrong\n";
exit($wrong ? 1 : 0);
