# The data that pictures of docs/ are drawn from and that comes from the extension: test/bench/sizes.sql and
# growth.sql print what is in test/bench/data. test/pictures.py checks the pictures.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run ();
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $bench = "$FindBin::Bin/../bench";
my $node = start_node('main');

foreach my $name ('sizes', 'growth')
{
	my ($printed, $errors);
	IPC::Run::run([ 'psql', '-X', '-d', $node->connstr('postgres'), '-f', "$bench/$name.sql" ],
		'<', \'', '>', \$printed, '2>', \$errors);
	is($errors, '', "$name.sql raises no error");
	is($printed, slurp_file("$bench/data/$name.tsv"), "$name.tsv is what $name.sql prints");
}

$node->stop;
done_testing();
