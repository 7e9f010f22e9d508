# Compares the tables of docs/ that list methods with the server's data about its methods. reference.pl compares
# those of the reference.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('main');
my %text;

# A page of docs, or the part of it from a line of text on, up to the next heading.
sub page
{
	my ($name, $from) = @_;
	if (!defined $text{$name})
	{
		open my $in, '<', "$FindBin::Bin/../../docs/$name.md" or die "$name.md: $!";
		local $/ = undef;
		$text{$name} = <$in>;
	}
	return $text{$name} if !defined $from;
	my ($part) = $text{$name} =~ /^(\Q$from\E.*?)(?=^#|\z)/ms;
	return $part;
}

# The rows of the table under a line of text that begins like this, as lists of cells.
sub table
{
	my ($name, $from) = @_;
	my ($rows) = page($name, $from) =~ /^\|[-|]+\|\n((?:\|.*\n)+)/m;
	return map { [ map { s/^\s+|\s+$//gr } split /\|/, s/^\|//r, -1 ] } split /\n/, $rows;
}

# What the first cell of a row names: "method", or "method option=value", of each.
sub named
{
	my ($cell) = @_;
	my @names;
	while ($cell =~ /`(\w+)`(?: `(\w+=\w+)`)?/g)
	{
		push @names, defined $2 ? "$1 $2" : $1;
	}
	return @names;
}

# The rows by what they name.
sub by_name
{
	my %rows;
	foreach my $row (@_)
	{
		$rows{$_} = $row foreach named($row->[0]);
	}
	return \%rows;
}

sub lines { return split /\n/, $node->safe_psql('postgres', $_[0]) }

# All methods, and the code of each.
my (undef, undef, $hint) = $node->psql('postgres', q{SELECT dedup_method('none', '1MB')});
my ($list) = $hint =~ /The methods are: (.*)\.$/m;
my @methods = split /, /, $list;
cmp_ok(scalar @methods, '>', 20, 'the hint names the methods');
my (%code, %grows);
foreach my $method (@methods)
{
	my (undef, $code, $refused) = $node->psql('postgres', "SELECT get_byte(dedup_method('$method', '64kB')::bytea, 2)");
	$grows{$method} = 1 if $refused =~ /takes no amount of memory/;
	$code = $node->safe_psql('postgres', "SELECT get_byte(dedup_method('$method', NULL)::bytea, 2)") if $grows{$method};
	$code{$method} = $code;
}
is_deeply([ keys %grows ], [ lines('SELECT method FROM dedup_advise(NULL)') ], 'advice without a number names the one that grows');

# What advice says of those that answer whether a key was seen, at 0.01, or at the least rate
# above that which the method keeps; and bits a key at 0.01, of several numbers of keys. Those of
# filters that grow are measured with numbers of keys in steps of a tenth over two doublings.
my %advice;
foreach my $line (
	lines(
		q{
	SELECT method, options, min(bits) || ' ' || max(bits), CASE WHEN fpr = 0.01 THEN missed END, "cannot"
	FROM (SELECT DISTINCT ON (method, options) * FROM (
			SELECT *, regexp_replace(prototype, '^.*[ '']fpr=[^ '']* ?([^'']*)''\)$', '\1') AS options
			FROM unnest('{0.01,0.3}'::float8[]) fpr, dedup_advise(1000000, fpr)) x
		ORDER BY method, options, fpr) y, unnest('{100000,1000000,10000000}'::bigint[]) n,
		LATERAL (SELECT 8.0 * (bytes_full - 64) / s.keys AS bits
			FROM dedup_stats(dedup_method(method, NULL, 'fpr=0.01 keys=' || n || ' ' || options)) s) z
	WHERE prototype LIKE '%keys=%'
	GROUP BY method, options, fpr, missed, "cannot"
	UNION ALL
	SELECT method, '', (SELECT min(bits) || ' ' || max(bits)
		FROM (SELECT round(10000 * 1.1 ^ i)::int AS n FROM generate_series(0, 15) i) sizes,
			LATERAL (SELECT 8.0 * (bytes - 64) / n AS bits
				FROM dedup_stats((SELECT dedup_agg(k) FROM generate_series(1, n) k))) measured), missed, "cannot"
	FROM dedup_advise(NULL)}))
{
	my ($method, $options, $bits, $missed, $cannot) = split /\|/, $line, -1;
	$advice{ $options ne '' ? "$method $options" : $method } = {
		method => $method,
		bits => [ split / /, $bits ],
		missed => $missed,
		cannot => { map { $_ => 1 } split /, /, $cannot }
	};
}
my %sets = map { s/\|$//r =~ s/\|/ /r => 1 }
  lines(q{SELECT method, regexp_replace(prototype, '^.*[ '']fpr=[^ '']* ?([^'']*)''\)$', '\1') FROM dedup_advise(100000, 0.01, false)});
my %rated = map { $_->{method} => 1 } values %advice;
is_deeply([ sort keys %rated, lines(q{SELECT s.method FROM unnest(ARRAY['} . join(q{','}, grep { !$grows{$_} } @methods) . q{']) m,
		dedup_stats(dedup_method(m, '64kB')) s WHERE s.fpr IS NULL}) ], [ sort @methods ], 'advice names all that have a rate');

# The table of methods.
my $rows = by_name(table('methods', 'The methods differ in what happens to the keys:'));
is_deeply([ sort keys %$rows ], [ sort keys %advice ], 'docs/methods.md: the methods of its table are those of dedup_advise');
foreach my $name (sort keys %advice)
{
	my $said = $advice{$name};
	my ($names, $promise, $bits, $back, $merge) = @{ $rows->{$name} || next };
	my $least = 0.99 * $said->{bits}[0];
	my $most = 1.01 * $said->{bits}[1];
	# A cell of several methods has one number, or one of each.
	my %number;
	@number{ named($names) } = ($bits =~ /,/) ? split(/, /, $bits) : ($bits) x named($names);
	if ($grows{$name})
	{
		# Those of filters that grow are bounds: what is measured is between them, and comes near both.
		my ($from, $to) = $bits =~ /^(\d+) to (\d+)$/;
		my ($fewest, $greatest) = @{ $said->{bits} };
		ok($fewest >= $from - 0.5 && $fewest <= 1.1 * $from, "$name: at least $from bits a key, $fewest");
		ok($greatest <= $to + 0.5 && $greatest >= $to / 1.1, "$name: at most $to bits a key, $greatest");
	}
	else
	{
		ok($number{$name} >= $least && $number{$name} <= $most, "$name: $number{$name} bits a key, $least to $most");
	}
	is($promise =~ /never missed|^the same$/ ? 1 : 0, ($sets{$name} || $promise eq 'the same') ? 1 : 0, "$name: never missed");
	if ($said->{missed} ne '' && $promise =~ /([\d.]+) %/)
	{
		cmp_ok(abs($1 - 100 * $said->{missed}), '<=', 0.5, "$name: $1 % missed");
	}
	is($back, $said->{cannot}{'take a key back'} ? '' : 'yes', "$name: takes back");
	is($merge =~ /cannot be merged/ ? 1 : 0, $said->{cannot}{merge} ? 1 : 0, "$name: can be merged");
	is($merge =~ /^all/ ? 1 : 0, $said->{cannot}{merge} || $said->{cannot}{'merge without loss when full'} ? 0 : 1,
		"$name: a merge keeps all");
}

# The other tables: none is left out that belongs there.
sub none_left_out
{
	my ($rows, $what, @names) = @_;
	my $have = by_name(@$rows);
	is_deeply([ grep { !$have->{$_} } @names ], [], $what);
	is_deeply([ grep { !defined $code{ (split / /)[0] } } keys %$have ], [], "$what: no other");
	return;
}
none_left_out([ table('methods-in-depth', '### What a merge keeps') ],
	'docs/methods-in-depth.md: what merges keep', grep { !$advice{$_}{cannot}{merge} } sort keys %advice);
none_left_out([ table('methods-in-depth', '### What a parallel plan changes') ], 'docs/methods-in-depth.md: what a parallel plan changes', @methods);
none_left_out([ table('benchmarks', '### Every method') ], 'docs/benchmarks.md: every method', sort keys %rated);
my ($merged) = page('distributed') =~ /What the merge is worth.*?:\n\n(\|.*?)\n\n/s;
my %no_method = map { $_ => 1 } qw(dedup_stats approx_count_distinct strict=on conservative=on);
is_deeply([ grep { !$no_method{$_} && !defined $code{$_} } $merged =~ /`([^`]+)`/g ],
	[], 'docs/distributed.md: what the merge is worth names methods that there are');
my %chance = map { $_->{method} => 1 } grep { $_->{cannot}{'promise a window'} } values %advice;
is_deeply([ grep { $merged !~ /`$_`/ && !$chance{$_} } @methods ], [], '... and all that do not drop keys by chance');

# The stored format.
my ($codes) = page('operations') =~ /\| method: (.*?) \|/;
is($codes, join(', ', map { "$code{$_} $_" } sort { $code{$a} <=> $code{$b} } @methods), 'docs/operations.md: the number of each method');

done_testing();
