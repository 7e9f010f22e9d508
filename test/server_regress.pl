#!/usr/bin/perl
# Compares the outputs of two runs of the server's regression suite, and the differences
# with those that are listed.
#
# usage: server_regress.pl [--write] VARIANT BASE RESULTS SCHEDULE LISTS
#
# LISTS/TEST.diff has the differences of TEST: for each a line that says in which variants
# it is seen, of what kind it is, and why it is right,
#
#   # forced batched: plan: the sort gives way to the filter
#
# and below it the hunk, as diff -U3 gives it, but without line numbers, which differ
# between minor versions. The kinds are
#
#   plan     another plan, or our node's name
#   row      another of the rows that DISTINCT ON may choose from, and what follows from it
#   order    the same rows in another order: below it stands the statement instead of a
#            hunk, and it need not be seen, since the order of a parallel plan varies
#   context  another CONTEXT of an error in PL/pgSQL
#   count    an estimated count(DISTINCT)
#
# Exits with 1, and shows the hunks, if one is not listed, not explained, or gone.

use strict;
use warnings;
use File::Temp ();

my $write = @ARGV && $ARGV[0] eq '--write' ? shift @ARGV : '';
@ARGV == 5 or die "usage: server_regress.pl [--write] VARIANT BASE RESULTS SCHEDULE LISTS\n";
my ($variant, $base, $results, $schedule, $lists) = @ARGV;
my $head = qr/^# ([a-z ]+): (?:(plan|row|order|context|count): \S|(TODO))/;

sub lines_of
{
	my ($path) = @_;
	open(my $file, '<', $path) or die "$path: $!\n";
	my @lines = <$file>;
	return @lines;
}

# The tests that must have run, and those whose outcome the suite itself ignores.
my (%tests, %ignored);
for (lines_of($schedule))
{
	$tests{$_} = 1 for /^test:(.*)/ ? split(' ', $1) : ();
	$ignored{$_} = 1 for /^ignore:(.*)/ ? split(' ', $1) : ();
}
delete @tests{keys %ignored};

# The tables of results in an output: numbers of the first line of rows and of the line
# behind the last.
sub tables_of
{
	my ($lines) = @_;
	my ($start, @tables);
	for my $i (1 .. $#$lines)
	{
		if (!defined $start)
		{
			$start = $i + 1
				if $lines->[$i] =~ /^-+(\+-+)*$/ && $lines->[$i - 1] =~ /^ / && $lines->[$i - 1] !~ /QUERY PLAN/;
		}
		elsif ($lines->[$i] =~ /^\(\d+ rows?\)$/)
		{
			push @tables, [$start, $i];
			$start = undef;
		}
		elsif ($lines->[$i] =~ /^\S/) { $start = undef }
	}
	return @tables;
}

# The statement whose table of results starts in a line: back to what ends another.
sub statement_before
{
	my ($lines, $start) = @_;
	my $end = $start - 3;
	my $first = $end;
	$first-- while $first > 0 && $lines->[$first - 1] !~ /;\s*$|^\s*$|^--|^\(\d+ rows?\)$/;
	return join('', @$lines[$first .. $end]);
}

# Gives equal sets of rows the order that they have in the base; returns the statements.
sub undo_order
{
	my ($old, $new) = @_;
	my @old = tables_of($old);
	my @new = tables_of($new);
	my (@statements, %met);
	return () if @old != @new;
	for my $i (0 .. $#old)
	{
		my @rows = @$old[$old[$i][0] .. $old[$i][1] - 1];
		my @other = @$new[$new[$i][0] .. $new[$i][1] - 1];
		next if "@rows" eq "@other" || join('', sort @rows) ne join('', sort @other);
		my $statement = statement_before($new, $new[$i][0]);
		push @statements, $statement if !$met{$statement}++;
		@$new[$new[$i][0] .. $new[$i][1] - 1] = @rows;
	}
	return @statements;
}

# The hunks between two outputs, and the statements with rows in another order.
sub hunks_of
{
	my ($test) = @_;
	my @old = lines_of("$base/$test.out");
	my @new = lines_of("$results/$test.out");
	my @hunks = undo_order(\@old, \@new);
	my $started = '';
	my ($ordered, $path) = File::Temp::tempfile(UNLINK => 1);
	print $ordered @new;
	close($ordered) or die;
	open(my $diff, '-|', 'diff', '-U3', "$base/$test.out", $path) or die "diff: $!\n";
	while (<$diff>)
	{
		if (/^@@/)
		{
			push @hunks, '';
			$started = 1;
		}
		elsif ($started) { $hunks[-1] .= $_ }
	}
	close($diff);
	die "diff of $test failed\n" if ($? >> 8) > 1;
	return @hunks;
}

# What is listed: [heads, hunk] each.
sub listed
{
	my ($test) = @_;
	my @entries;
	return () if !-e "$lists/$test.diff";
	for (lines_of("$lists/$test.diff"))
	{
		if (/^# / && (!@entries || $entries[-1][1] ne '')) { push @entries, [$_, ''] }
		elsif (/^# ?/) { $entries[-1][0] .= $_ }
		else { $entries[-1][1] .= $_ }
	}
	return @entries;
}

my ($found, $wrong) = (0, 0);
my %kinds = (plan => 0, row => 0, order => 0, context => 0, count => 0);
for my $test (sort keys %tests)
{
	for my $path ("$base/$test.out", "$results/$test.out")
	{
		next if -e $path;
		print "$variant: $test has not run: no $path\n";
		$wrong++;
	}
	next if !-e "$base/$test.out" || !-e "$results/$test.out";

	my @hunks = hunks_of($test);
	my @entries = listed($test);
	my @expected = grep { $_->[0] =~ $head && " $1 " =~ / $variant / } @entries;
	$found += @hunks;

	if ($write)
	{
		# Known hunks keep their place; new ones go to the end.
		for my $entry (@entries)
		{
			my ($names, $rest) = $entry->[0] =~ /^# ([a-z ]+)(:.*)/s or die "$test: $entry->[0]";
			my ($at) = grep { $hunks[$_] eq $entry->[1] } 0 .. $#hunks;
			my @names = grep { $_ ne $variant } split(' ', $names);
			if (defined $at)
			{
				push @names, $variant;
				splice(@hunks, $at, 1);
			}
			$entry->[0] = @names ? '# ' . join(' ', @names) . $rest : '';
		}
		@entries = grep { $_->[0] ne '' } @entries;
		push @entries, ["# $variant: TODO\n", $_] for @hunks;
		if (@entries)
		{
			mkdir $_ for $lists =~ m{^(.*)/[^/]*$}, $lists;
			open(my $list, '>', "$lists/$test.diff") or die "$lists/$test.diff: $!\n";
			print $list $_->[0], $_->[1] for @entries;
			close($list) or die;
		}
		else { unlink "$lists/$test.diff" }
		next;
	}

	for my $entry (@entries)
	{
		next if $entry->[0] =~ $head && !$3;
		print "$variant: $test: not explained: $entry->[0]";
		$wrong++;
	}
	for my $hunk (@hunks)
	{
		my ($at) = grep { $expected[$_][1] eq $hunk } 0 .. $#expected;
		if (defined $at)
		{
			my ($entry) = splice(@expected, $at, 1);
			$kinds{$2}++ if $entry->[0] =~ $head && $2;
			next;
		}
		print "$variant: $test: not listed:\n$hunk";
		$wrong++;
	}
	for my $entry (@expected)
	{
		next if $entry->[0] =~ $head && ($2 // '') eq 'order';
		print "$variant: $test: listed, but not seen:\n$entry->[0]$entry->[1]";
		$wrong++;
	}
}

if ($write)
{
	print "$variant: $found differences written\n";
	exit 0;
}
printf "%s: %d tests, %d differences: %d in plans, %d in the choice of rows, %d in their order, %d in the context of errors, %d in counts, %s\n",
	$variant, scalar(keys %tests), $found, @kinds{qw(plan row order context count)}, $wrong ? "$wrong WRONG" : 'all as listed';
exit($wrong ? 1 : 0);
