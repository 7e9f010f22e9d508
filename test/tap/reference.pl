# docs/reference.md and docs/reference-live.md, against the extension's own objects.
#
# Every object of the extension has its place: a function under a heading that is its signature,
# or in a row of "Not for direct use". So have the arguments and result columns of functions, the
# columns of views, settings, methods and their options. What the pages say of these is true:
# names, types, defaults, volatility, ranges. Nothing is there that the extension does not have.
#
# Last, the test itself: without any one of the lines that it reads it finds a fault.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use ManualPage;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my @pages = ('reference', 'reference-live');

# ---- what the server has ----------------------------------------------------------------

my $node = start_node('main');

sub rows { return map { [ split /\t/, $_, -1 ] } split /\n/, $node->safe_psql('postgres', "\\pset fieldsep '\\t'\n$_[0]") }

# From 17 on the types that the server makes for others are members, too: arrays and rows.
my $members = q{pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'streamdedup')
	AND (classid <> 'pg_type'::regclass
		OR objid NOT IN (SELECT typarray FROM pg_type UNION ALL SELECT reltype FROM pg_class WHERE relkind <> 'c'))};

# Types by the names that the pages use, and arguments without quotes and casts.
sub plain_types
{
	my ($text) = @_;
	$text =~ s/double precision/float8/g;
	$text =~ s/timestamp with time zone/timestamptz/g;
	$text =~ s/ DEFAULT (\S+?)::\w+(?: \w+)*/ DEFAULT $1/g;
	$text =~ s/"//g;
	return $text;
}

# Functions and aggregates by their signatures.
my %function;
foreach my $row (
	rows(
		qq{SELECT proname, pg_get_function_arguments(p.oid), pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid),
		CASE provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
		proisstrict, CASE proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END
	FROM pg_proc p JOIN (SELECT objid FROM $members AND classid = 'pg_proc'::regclass) d ON p.oid = objid}))
{
	my ($name, $arguments, $identity, $result, $volatile, $strict, $parallel) = map { plain_types($_) } @$row;
	my @columns = $arguments =~ /\bOUT (\w+)/g;
	s/(?:^|, )OUT .*// foreach $arguments, $identity;
	$function{"$name($arguments) → " . lc $result} = {
		name => $name,
		identity => "$name($identity)",
		columns => \@columns,
		names => [ map { /^(?:VARIADIC )?(\w+) / ? $1 : () } split /, /, $arguments ],
		attributes => [ $volatile, $strict eq 't' ? 'STRICT' : (), "PARALLEL $parallel" ]
	};
}
cmp_ok(scalar keys %function, '>', 100, 'functions were found');

# The other members, and the columns of views.
my @objects = rows(
	qq{SELECT type, coalesce(name, substring(identity, '^[^(]*\\.(.*?)\\(')), identity
	FROM $members AND classid <> 'pg_proc'::regclass} =~ s/FROM pg_depend/FROM pg_depend, pg_identify_object(classid, objid, 0)/r);
my %view = map { $_->[0] => [ split / /, $_->[1] ] } rows(
	qq{SELECT relname, (SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = objid AND attnum > 0)
	FROM $members AND classid = 'pg_class'::regclass AND relkind = 'v'} =~ s/FROM pg_depend/FROM pg_depend JOIN pg_class c ON c.oid = objid/r);
cmp_ok(scalar keys %view, '>=', 3, 'views were found');

my %setting = map { my ($name, @facts) = @$_; ($name => \@facts) } rows(
	q{LOAD 'streamdedup'; SELECT name, replace(vartype, 'bool', 'boolean'), boot_val, min_val, max_val, context
	FROM pg_settings WHERE name LIKE 'streamdedup.%'});
cmp_ok(scalar keys %setting, '>=', 5, 'settings were found');

# The values that each option of each method takes, as the server says them in a HINT.
my %option = map { ("$_->[0] $_->[1]" => $_->[2]) } rows(
	q{CREATE FUNCTION pg_temp.hint(method text, options text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		hint text;
	BEGIN
		PERFORM dedup_method(method, '64kB', options);
		RETURN 'none';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		RETURN hint;
	END $$;
	SELECT method, option, substring(pg_temp.hint(method, option || '=none') FROM ' takes (.*)\.$')
	FROM regexp_split_to_table(substring(pg_temp.hint('none', '') FROM ': (.*)\.$'), ', ') method,
		regexp_split_to_table(substring(pg_temp.hint(method, 'none=1') FROM ': (.*)\.$'), ', ') option});
my %method = map { (split / /)[0] => 1 } keys %option;
cmp_ok(scalar keys %method, '>', 20, 'methods were found');

# Those whose filters answer whether a key was added.
my %answers = map { $_->[0] => 1 } rows(
	q{CREATE FUNCTION pg_temp.answers(method text) RETURNS boolean LANGUAGE plpgsql AS $$
	DECLARE
		filter dedup_filter;
	BEGIN
		BEGIN
			filter := dedup_method(method, '64kB');
		EXCEPTION WHEN invalid_parameter_value THEN
			filter := dedup_method(method, NULL);
		END;
		RETURN dedup_contains(filter, 1) IS NOT NULL;
	EXCEPTION WHEN feature_not_supported THEN
		RETURN false;
	END $$;
	SELECT m FROM regexp_split_to_table('} . join(' ', keys %method) . q{', ' ') m WHERE pg_temp.answers(m)});
$node->stop('immediate');

# ---- what the pages have ----------------------------------------------------------------

# The headings of a page, each with its level, its text, and the tables in the text up to the next
# heading of its level or above. The text before the first ### of a ## belongs to all of them.
sub sections_of
{
	my ($text) = @_;
	my (@sections, $in_block);
	foreach my $line (split /\n/, $text)
	{
		$in_block = !$in_block if $line =~ /^```/;
		if (!$in_block && $line =~ /^(##+) (.*\S)/)
		{
			my ($level, $title) = (length $1, $2);
			my ($above) = grep { $_->{level} == 2 } reverse @sections;
			push @sections, { level => $level, title => $title, text => '', above => $level > 2 ? $above : undef };
		}
		next if !@sections;
		my $last = $sections[-1];
		$last->{text} .= "$line\n";
		my ($parent) = grep { $_->{level} == 3 } reverse @sections;
		$parent->{text} .= "$line\n" if $last->{level} > 3;
	}
	return @sections;
}

# The rows of all tables of a text under a first heading, as lists of cells.
sub table_rows
{
	my ($text, $first) = @_;
	my @rows;
	while ($text =~ /^\| $first \|.*\n\|[-|]+\|\n((?:\|.*\n)+)/mg)
	{
		push @rows, map { [ map { s/^\s+|\s+$//gr } split /(?<!\\)\|/, s/^\|//r, -1 ] } split /\n/, $1;
	}
	return @rows;
}

# The names in code of first cells whose second cell says something.
sub named
{
	my ($text, $first) = @_;
	return map { $_->[0] =~ /`([^`]+)`/g } grep { $_->[1] =~ /\w/ } table_rows($text, $first);
}

# GitHub's anchor of a heading.
sub anchor
{
	my ($anchor) = lc $_[0];
	utf8::decode($anchor);
	$anchor =~ s/[^\w\- ]//g;
	$anchor =~ tr/ /-/;
	return $anchor;
}

# The signatures that a heading is short for: without an argument in brackets, and with each type
# of an argument. The operator of the same function, if the heading has one.
sub signatures
{
	my ($title) = @_;
	my ($name, $list, $result) = $title =~ /^(\w+)\((.*?)\)(?: OVER \(…\))? → ([\w ]+)(?:, \w+ \S+ \w+)?$/ or return;
	my @lists = $list =~ /^\[(.*,)\] (.*)$/ ? ("$1 $2", $2) : ($list);
	my @all;
	foreach my $arguments (@lists)
	{
		my @done = ('');
		foreach my $argument (split /, /, $arguments)
		{
			my @forms = $argument eq 'name' ? ('name text', 'name regclass') : split / \| /, $argument;
			@done = map { my $form = $_; map { $_ eq '' ? $form : "$_, $form" } @done } @forms;
		}
		push @all, map { plain_types("$name($_) → $result") } @done;
	}
	return @all;
}

# A range of numbers, as a pair.
sub range
{
	my ($from, $to) = $_[0] =~ /([\d.e^-]+) to ([\d.e^-]+)/ or return;
	return map { /^(\d+)\^(\d+)$/ ? $1**$2 : $_ + 0 } $from, $to;
}

# Whether the page says of an option what the server says.
sub same_values
{
	my ($shown, $true) = @_;
	my @range = range($true);
	$shown =~ s/`//g;
	return $shown eq $true if !@range;
	return ($true =~ /multiple of 8/ ? 1 : 0) == ($shown =~ /multiple of 8/ ? 1 : 0) && "@range" eq join ' ', range($shown);
}

# ---- the comparison ---------------------------------------------------------------------

# The lists of two hashes' differences.
sub differences
{
	my ($what, $shown, $true) = @_;
	return ((map { "$what $_ is missing" } grep { !$shown->{$_} } sort keys %$true),
		(map { "$what $_ does not exist" } grep { !$true->{$_} } sort keys %$shown));
}

# Arguments, columns and attributes of the functions of a heading.
sub faults_of_functions
{
	my ($section, $text_of, @functions) = @_;
	my ($title, $text) = @$section{qw(title text)};
	my @faults;
	# An argument that the section has in common with others is described once.
	my $common = $title =~ /\(name text/ ? '' : $section->{above}{text};
	my %argument = map { $_ => 1 } named($text . $common, 'argument');
	my %column = map { $_ => 1 } named($text, 'column');
	my %has = map { $_ => 1 } map { @{ $_->{attributes} } } @functions;
	my ($attributes) = $text =~ /^Attributes: (.*?)\./m;
	my %shown = map { $_ => 1 } ($attributes || '') =~ /\b(IMMUTABLE|STABLE|VOLATILE|STRICT|PARALLEL \w+)/g;

	foreach my $function (@functions)
	{
		push @faults, map { "$title: argument $_ is missing" } grep { !$argument{$_} } @{ $function->{names} };
		push @faults, map { "$title: column $_ is missing" } grep { !$column{$_} } @{ $function->{columns} };
	}
	my %true = map { $_ => 1 } map { @{ $_->{columns} } } @functions;
	push @faults, map { "$title: column $_ does not exist" } grep { !$true{$_} } sort keys %column;
	%true = map { $_ => 1 } map { @{ $_->{names} } } @functions;
	push @faults, map { "$title: argument $_ does not exist" } grep { !$true{$_} } named($text, 'argument');
	push @faults, differences("$title: attribute", \%shown, \%has);
	push @faults, "$title: no sentence says what it returns or does" if $text !~ /^### .*\n\n\[?[A-Z]/;
	return @faults;
}

# The sections of a page, and its blocks of SQL whose result is shown. Those of the unchanged pages
# are kept.
my %read;

sub read_page
{
	my ($text, $keep) = @_;
	return $read{$text} if $read{$text};
	my @blocks = grep { $_->{language} eq 'sql' && defined $_->{prints} } map { @{ $_->{blocks} } } @{ ManualPage::parse($text)->{sections} };
	my $page = { sections => [ sections_of($text) ], run => join "\n", map { $_->{text} } @blocks };
	$read{$text} = $page if $keep;
	return $page;
}

# What is wrong with the two pages.
sub faults
{
	my %text = @_;
	my %page = map { $_ => read_page($text{$_}) } @pages;
	my @faults;
	my (%documented, %operator, %setting_shown, %view_shown, %section_of);
	my $all = join "\n", map { $text{$_} } @pages;

	foreach my $page (@pages)
	{
		my @sections = @{ $page{$page}{sections} };
		my ($contents) = map { $_->{text} } grep { $_->{title} eq 'Contents' } @sections;
		my %linked;
		$linked{$_}++ foreach ($contents || '') =~ /\]\(#([^)]+)\)/g;
		push @faults, "$page.md: its last section is not \"Where to go next\"" if $sections[-1]{title} ne 'Where to go next';
		my %anchors = map { anchor($_->{title}) => 1 } @sections;
		push @faults, map { "$page.md: the contents link $_, which is not there" } grep { !$anchors{$_} } sort keys %linked;
		foreach my $section (@sections)
		{
			my ($title, $text) = @$section{qw(title text)};
			$section_of{$title} = $section;
			my $times = $linked{ anchor($title) } || 0;
			push @faults, "$title: linked $times times in the contents"
			  if $times != 1 && $section->{level} < 4 && $title !~ /^(?:Contents|Where to go next)$/;
			my @functions;
			foreach my $signature (signatures($title))
			{
				push @faults, "$signature is twice in headings" if $documented{$signature}++;
				push @functions, $function{$signature} if $function{$signature};
			}
			push @faults, faults_of_functions($section, \%text, @functions) if @functions;
			$operator{$1} = 1 if $title =~ /→ \w+, \w+ (\S+) \w+$/;
			$operator{$_} = 1 foreach $title =~ /^Equality and order: (.*)/ ? split(/, /, $1) : ();
			if ($title =~ /^(streamdedup\.\w+) \((\w+), default ([^,)]+)(?:, (.*))?\)$/)
			{
				my ($name, @shown) = ($1, $2, $3, $4 || '');
				my ($who) = $text =~ /(Any user|Only\s+superusers)\s+may\s+set\s+it/;
				push @faults, "$title: who may set it is missing" if !$who;
				$setting_shown{$name} = [ @shown, ($who || '') eq 'Any user' ? 'user' : 'superuser' ];
			}
			$view_shown{$title} = $text if $text =~ /^### \w+\n\nA view /;
		}
	}

	# Functions.
	my %internal;
	$internal{$_}++ foreach map { plain_types($_) } named($section_of{'Not for direct use'}{text} || '', 'function');
	push @faults, map { "$_ is twice in \"Not for direct use\"" } grep { $internal{$_} > 1 } keys %internal;
	my %public = map { $_ => 1 } grep { !$internal{ $function{$_}{identity} } } keys %function;
	push @faults, differences('function', \%documented, \%public);
	push @faults, differences('function', \%internal, { map { $_->{identity} => 1 } grep { $internal{ $_->{identity} } } values %function });

	# Each has an example.
	my $run = join "\n", map { $_->{run} } values %page;
	push @faults, map { "no example of $_ shows a result" } grep { $run !~ /\b$_\(/ } map { $function{$_}{name} } sort keys %public;
	push @faults, map { "no example of $_ shows a result" } grep { $run !~ /\b\Q$_\E\b(?!\()/ } sort keys %view, keys %setting;

	# The other objects.
	my %other = map { $_->[0] => 1 } grep { $_->[1] =~ /\w/ } table_rows($section_of{'Not for direct use'}{text} || '', 'other object');
	my ($casts) = grep { /^The type dedup_filter\b/ } keys %section_of;
	my %cast = map { $_ => 1 } named(defined $casts ? $section_of{$casts}{text} : '', 'cast');
	my ($order) = map { $section_of{$_}{text} } grep { /^Equality and order/ } keys %section_of;
	my (%casts_true, %operators_true, %others_true);
	foreach my $object (@objects)
	{
		my ($type, $name, $identity) = @$object;
		if ($type eq 'cast')
		{
			my ($from, $to) = $identity =~ /^\((?:\w+\.)?(\w+) AS (?:\w+\.)?(\w+)\)$/;
			$casts_true{"${from}::$to"} = 1;
		}
		elsif ($type eq 'operator')
		{
			$operators_true{$name} = 1;
		}
		elsif ($type eq 'view')
		{
			push @faults, "view $name is missing" if !exists $view_shown{$name};
		}
		elsif ($type =~ /^operator (?:class|family)$/ && ($order || '') =~ /`$name`/ && $identity =~ /USING (\w+)$/ && $order =~ /operator class for\s+btree\s+and\s+one\s+for\s+hash/)
		{
			next;
		}
		elsif (!grep { /^The $type $name\b/ } keys %section_of)
		{
			# A family comes with its class.
			$type =~ s/family/class/;
			$others_true{"$type `$name`"} = 1;
		}
	}
	push @faults, differences('', \%other, \%others_true);
	push @faults, differences('cast', \%cast, \%casts_true);
	push @faults, differences('operator', \%operator, \%operators_true);

	# Views.
	foreach my $name (sort keys %view_shown)
	{
		my $text = $view_shown{$name};
		my %column = map { $_ => 1 } named($text, 'column');
		my %true = map { $_ => 1 } @{ $view{$name} || [] };
		foreach my $linked ($text =~ /^\| all columns of \[[^\]]*\]\(#([^)]+)\)/m)
		{
			$column{$_} = 1 foreach map { named($section_of{$_}{text}, 'column') } grep { anchor($_) eq $linked } keys %section_of;
		}
		delete $column{dedup_stats};
		push @faults, differences("$name: column", \%column, \%true);
	}
	push @faults, differences('view', { map { $_ => 1 } keys %view_shown }, { map { $_ => 1 } keys %view });

	# Settings.
	push @faults, differences('setting', \%setting_shown, \%setting);
	foreach my $name (grep { $setting_shown{$_} } sort keys %setting)
	{
		my ($type, $default, $min, $max, $context) = @{ $setting{$name} };
		my ($type_shown, $default_shown, $range_shown, $context_shown) = @{ $setting_shown{$name} };
		push @faults, "$name: $type, default $default, for $context"
		  if "$type $default $context" ne "$type_shown $default_shown $context_shown";
		push @faults, "$name: $min to $max" if $type eq 'real' && join(' ', range($range_shown)) ne join(' ', $min + 0, $max + 0);
	}

	# Methods and options.
	my %method_shown;
	$method_shown{$_}++ foreach named($all, 'method');
	push @faults, differences('method', \%method_shown, \%method);
	my %option_shown;
	foreach my $row (table_rows($all, 'option'))
	{
		my ($options, $methods, $values, $default, $meaning) = @$row;
		my @of = $methods =~ /`(\w+)`/g;
		if ($methods eq 'all')
		{
			@of = keys %method;
		}
		elsif ($methods =~ /^(?:all that answer|the same, but not)/)
		{
			my %out = map { $_ => 1 } @of;
			@of = grep { !$out{$_} } keys %answers;
		}
		foreach my $method (@of)
		{
			foreach my $name (map { "$method $_" } $options =~ /`(\w+)`/g)
			{
				push @faults, "option $name is twice there" if $option_shown{$name}++;
				push @faults, "option $name takes $option{$name}" if $option{$name} && !same_values($values, $option{$name});
				push @faults, "option $name: no default or meaning" if $default !~ /\w/ || $meaning !~ /\w/;
			}
		}
	}
	push @faults, differences('option', \%option_shown, \%option);
	return @faults;
}

my %text = map { $_ => slurp_file("$FindBin::Bin/../../docs/$_.md") } @pages;
read_page($_, 'keep') foreach values %text;
is(join("\n", faults(%text)), '', 'the reference has every object, and no other');

# The test itself: without a heading, a line of attributes, or a row of one of its tables; with
# another default in a heading, and with other values of an option.
my ($changes, @unnoticed) = (0);
foreach my $page (@pages)
{
	my $table = '';
	my $contents = 0;
	my @lines = split /^/m, $text{$page};
	foreach my $i (0 .. $#lines)
	{
		my $line = $lines[$i];
		my @instead;
		$table = $line =~ /^\| ([\w ]+?) \|/ ? $1 : '' if $line =~ /^\|/ && $lines[ $i - 1 ] !~ /^\|/;
		$contents = $1 eq 'Contents' if $line =~ /^## (.*)/;
		if ($line =~ /^\|/ && $table =~ /^(?:argument|column|method|option|function|other object|cast)$/)
		{
			push @instead, '';
			push @instead, $line =~ s/^(\|[^|]*\|[^|]*\|)[^|]*/$1 7 to 9 /r if $table eq 'option' && $line =~ /^\| `/;
		}
		elsif ($line =~ /^### / || $line =~ /^Attributes: / || $contents && $line =~ /\]\(#/)
		{
			push @instead, '';
			push @instead, $line =~ s/default \K[^ ,)]+/other/ir if $line =~ /^### .*default /i;
		}
		foreach my $other (@instead)
		{
			$changes++;
			my $changed = join '', @lines[ 0 .. $i - 1 ], $other, @lines[ $i + 1 .. $#lines ];
			push @unnoticed, "$page.md, line " . ($i + 1) . ": $line" . ($other && "instead: $other") if !faults(%text, $page => $changed);
		}
	}
}
cmp_ok($changes, '>', 400, 'the test itself: lines were removed and changed');
is(join('', @unnoticed), '', 'the test itself: each of them is missed');

done_testing();
