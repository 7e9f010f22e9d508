# The common functions of the tests that compare a guard with a model: random numbers, random transactions, and
# scripts whose output is parsed.
package Oracle;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils qw(append_to_file);

our @EXPORT = qw(seed_random random chance any run_statements transaction_of transactions);

# ---- random pieces ---------------------------------------------------------

# The same numbers on every machine.
my $state;
sub seed_random { $state = $_[0] * 7919 + 1; random(1) for 1 .. 10; return; }

sub random
{
	my ($below) = @_;
	$state = ($state * 1103515245 + 12345) % 2**31;
	return int(($state / 2**31) * $below);
}
sub chance { return random(1000) < 1000 * $_[0]; }
sub any { return $_[ random(scalar @_) ]; }

# ---- running scripts -------------------------------------------------------

my $scripts = 0;

# Runs statements one by one in one session. Returns what was said of each: the SQLSTATE
# and the key of an error, or the rows.
sub run_statements
{
	my ($node, $before, @statements) = @_;
	my $file = $node->basedir . '/script' . ++$scripts . '.sql';
	my $script = "\\set VERBOSITY verbose\n$before\n";
	foreach my $i (0 .. $#statements)
	{
		my $end = $statements[$i] =~ /\\\.\n\z/ ? '' : ";\n";
		$script .= "\\echo \@\@$i\n$statements[$i]$end";
	}
	append_to_file($file, $script);
	my $out = '';
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '>&', \$out)
	  or die $out;
	my ($setup, @said) = split /^\@\@\d+\n/m, $out, -1;
	die $setup if $setup =~ /ERROR/;
	foreach (@said)
	{
		next if !/ERROR:  (\w{5}):/;
		my $error = $1;
		$_ = "error $error" . (/^DETAIL:  (Key .*)$/m ? " $1" : '') . "\n";
	}
	return @said;
}

# The statements up to one, from the beginning of its transaction.
sub transaction_of
{
	my ($at, @statements) = @_;
	my $from = $at;
	$from-- while $from > 0 && $statements[$from] !~ /^BEGIN/m && $at - $from < 60;
	return join("\n", @statements[ $from .. $at ]);
}

# So many statements or more: transactions and savepoints around those that `make` makes.
sub transactions
{
	my ($count, $make) = @_;
	my @statements;
	while (@statements < $count)
	{
		if (chance(0.35))
		{
			push @statements, $make->();
			next;
		}
		# mostly only the statement that fails is undone
		my $undo = chance(0.7) ? 'on' : 'off';
		push @statements, "\\set ON_ERROR_ROLLBACK $undo\nBEGIN ISOLATION LEVEL " . any('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
		my $depth = 0;
		for (0 .. random(12))
		{
			if (chance(0.3)) { push @statements, 'SAVEPOINT s' . ++$depth }
			elsif ($depth && chance(0.25)) { push @statements, "ROLLBACK TO s$depth" }
			elsif ($depth && chance(0.1)) { push @statements, 'RELEASE s' . $depth-- }
			else { push @statements, $make->() }
		}
		# so that most transactions end well
		push @statements, "ROLLBACK TO s$depth" if $depth && chance(0.5);
		push @statements, chance(0.7) ? 'COMMIT' : 'ROLLBACK';
	}
	return @statements;
}

1;
