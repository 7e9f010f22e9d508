# usage: page.pl PAGE
#
# Runs the blocks of a page of the manual that need Citus, in their order, each in a session of
# its own, and compares what they print with the page. ManualPage.pm says what a page looks like.
# Numbers that differ from cluster to cluster are not compared. Both extensions must be there, so
# the statements that create them are left out.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Basename qw(basename);
use File::Temp;
use ManualPage;

# The output without the numbers of shards, plans and objects, and without the names of nodes.
# The width of a plan depends on them.
sub steady
{
	my ($output) = @_;
	$output =~ s/_10\d{4}\b/_SHARD/g;
	$output =~ s/Subplan \d+_/Subplan N_/g;
	$output =~ s/'\d+'::oid/'OID'::oid/g;
	$output =~ s/Node: host=\S+ port=\d+ dbname=\S+/Node: NODE/g;
	$output =~ s/^ *QUERY PLAN *\n-+\n/QUERY PLAN\n/mg;
	return $output;
}

# What psql prints for a block, messages included.
sub output_of
{
	my ($block) = @_;
	my $file = File::Temp->new;
	print $file ManualPage::marked($block) =~ s/^CREATE EXTENSION (?:citus|streamdedup);$//mgr;
	close $file;
	return scalar qx(psql -X -f - < $file 2>&1);
}

my ($name) = @ARGV;
open my $in, '<', $name or die "$name: $!\n";
my $page = ManualPage::parse(do { local $/ = undef; <$in> });
die join("\n", "$name:", @{ $page->{faults} }), "\n" if @{ $page->{faults} };

my ($run, $failed) = (0, 0);
foreach my $block (map { @{ $_->{blocks} } } @{ $page->{sections} })
{
	next if $block->{language} ne 'sql' || !grep { $_ eq 'citus' } @{ $block->{needs} || [] };
	$run++;
	$block->{prints} = steady($block->{prints}) if defined $block->{prints};
	my $wrong = ManualPage::judge($block, steady(output_of($block)));
	print $wrong eq '' ? 'ok' : 'not ok', ' - ', basename($name), ", line $block->{line}\n", $wrong;
	$failed++ if $wrong ne '';
}
die "$name: no block needs Citus\n" if !$run;
exit($failed ? 1 : 0);
