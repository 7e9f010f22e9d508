# The common functions of deleted_rows.pl and many_deleted_rows.pl: the rule for keys of
# deleted rows, and scripts of psql with the lines that they must print.
#
# In a state of the model, seen has the keys that the filter has seen, added those that this
# transaction has added to it, and rights says for a key how many deleted rows with this key
# may be inserted again.
package DeletedRows;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(take_key see_key leave_key among insert_sql start_script send_line expect must_print run_script);

# ---- the rule -----------------------------------------------------------------

# A row with this key has got in: this uses up one deleted row.
sub take_key
{
	my ($s, $k) = @_;
	$s->{rights}{$k}-- if $s->{rights}{$k};
	see_key($s, $k);
	return;
}

# Returns whether the key is new to the filter.
sub see_key
{
	my ($s, $k) = @_;
	return 0 if $s->{seen}{$k};
	$s->{seen}{$k} = $s->{added}{$k} = 1;
	return 1;
}

sub leave_key
{
	my ($s, $k, $marked) = @_;
	$s->{rights}{$k}++ if defined $k && !$marked;
	return;
}

# ---- statements ---------------------------------------------------------------

sub among { return $_[ rand @_ ] }

sub insert_sql { return "INSERT INTO $_[0] (id, k, part, u, p, v)" }

# ---- scripts ------------------------------------------------------------------

my ($script, @expected);

sub start_script { ($script, @expected) = (''); return }

# A statement whose lines must_print() names. Lines count that begin with "#".
sub send_line { $script .= "$_[0]\n"; return }

# Writes a statement down, and what it must answer.
sub expect
{
	my ($sql, $count, $error, $line) = @_;
	my $number = @expected + 1;
	send_line("$sql;\n\\echo # $number :ROW_COUNT :SQLSTATE");
	push @expected, $line if defined $line;
	push @expected, "# $number " . ($error ? "0 $error" : "$count 00000");
	return;
}

# The script must print these lines, too.
sub must_print { push @expected, @_; return }

# What differs between two lists of lines: the first such line of each, and for lists of
# words only the words that differ.
sub first_difference
{
	my ($got, $expected) = @_;
	foreach my $i (0 .. (@$got > @$expected ? $#$got : $#$expected))
	{
		my ($g, $e) = ($got->[$i] // 'nothing', $expected->[$i] // 'nothing');
		next if $g eq $e;
		my %in_got = map { $_ => 1 } split ' ', $g;
		my %in_expected = map { $_ => 1 } split ' ', $e;
		return "got:      " . join(' ', grep { !$in_expected{$_} || /^#/ } split ' ', $g)
		  . "\nexpected: " . join(' ', grep { !$in_got{$_} || /^#/ } split ' ', $e);
	}
	return;
}

# Runs the script. Returns the script and what differs, or nothing.
sub run_script
{
	my ($psql) = @_;
	my @got = grep { /^#/ } split /\n/, $psql->query($script);
	my $differs = first_difference(\@got, \@expected);
	return defined $differs ? $script . $differs : undef;
}

1;
