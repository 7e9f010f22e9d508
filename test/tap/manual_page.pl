# ManualPage.pm, with which manual.pl reads the pages of the manual: which blocks it finds, the faults that it finds
# in a page, and what it finds wrong in an output. Needs no server.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use ManualPage;
use Test::More;

# Pages are written with ' in the place of `.
sub page
{
	my ($text) = @_;
	$text =~ s/'''/```/g;
	return ManualPage::parse($text);
}

# ---- a page without faults --------------------------------------------------------------

my $page = page(<<'MD');
# Title

'''sql
SELECT 1;
'''

## First
<!-- run
CREATE TABLE t (i int);
-->

'''sql subscriber
SELECT 2;
'''

Prose.

'''text
2
'''
<!-- run python far
import os
-->

## Second one

'''sql synopsis
f(a int)
'''

<!-- not run: no such program -->
'''sql
SELECT 3;
'''

'''text
3
'''

<!-- needs: citus, hll -->

'''python
print(4)
'''

'''yaml
a: b
'''

'''text listing
a drawing
'''
MD
is(join("\n", @{ $page->{faults} }), '', 'a page without faults');
is(join(', ', map { "$_->{title}: " . @{ $_->{blocks} } } @{ $page->{sections} }), 'beginning: 1, First: 3, Second one: 4', 'its sections');

sub shown
{
	my ($block) = @_;
	my @words = grep { defined } $block->{language}, $block->{word}, $block->{where}, $block->{hidden} && 'hidden', $block->{not_run},
	  @{ $block->{needs} || [] }, $block->{prints} && "prints $block->{prints}";
	return join('|', map { s/\n//gr } "line $block->{line}", @words, $block->{text});
}

is_deeply(
	[ map { shown($_) } map { @{ $_->{blocks} } } @{ $page->{sections} } ],
	[
		'line 3|sql||publisher|SELECT 1;',
		'line 8|sql||publisher|hidden|CREATE TABLE t (i int);',
		'line 12|sql|subscriber|subscriber|prints 2|SELECT 2;',
		'line 21|python|far|far|hidden|import os',
		'line 27|sql|synopsis|publisher|f(a int)',
		'line 32|sql||publisher|no such program|prints 3|SELECT 3;',
		'line 42|python||publisher|citus|hll|print(4)',
		'line 46|yaml||publisher|a: b'
	],
	'its blocks');

my $opened = 0;
my %runner = (
	open => sub { $opened++; return $_[0]{title} eq 'First' ? 'closed' : '' },
	missing => sub { return $_[0]{needs} ? "no $_[0]{needs}[0]" : '' },
	sql => sub { return "ran $_[0]{text}" },
	python => sub { die });
is_deeply(
	[ map { join ' ', $_->{state}, grep { defined } @$_{qw(reason wrong)} } map { ManualPage::run_section($_, \%runner) } @{ $page->{sections} } ],
	[ 'run  ', 'skipped closed', 'skipped closed', 'skipped closed', 'shown', 'not run no such program', 'skipped no citus', 'shown' ],
	'which blocks are run');
is($opened, 3, 'each section with blocks to run is opened once');

my $programs = page(<<'MD');
<!-- one program -->
'''python
a = 1
'''
## Next
'''python
print(a)
'''
MD
is(join("\n", @{ $programs->{faults} }), '', 'one program: no faults');
like(ManualPage::program($programs->{sections}[1]{blocks}[0]), qr/devnull.*^a = 1\n.*__stdout__.*^print\(a\)\n/ms,
	'one program: a block continues those before it');

# ---- faults -----------------------------------------------------------------------------

foreach (
	[ "'''\na\n'''\n", 'line 1: a block starts with ``` and its language, at the margin' ],
	[ "- item\n  '''sql\n'''\n", 'line 2: a block starts with ``` and its language, at the margin' ],
	[ "~~~sql\n'''\n", 'line 1: a block starts with ``` and its language, at the margin' ],
	[ "'''sql\nSELECT 1;\n", 'line 2: a block without an end' ],
	[ "<!-- run\nSELECT 1;\n", 'line 2: a block without an end' ],
	[ "'''cobol\n'''\n", 'line 2: "cobol" is not a known language' ],
	[ "'''sql subscribr\n'''\n", 'line 2: "subscribr" is not a server' ],
	[ "'''python synopsis\n'''\n", 'line 2: "synopsis" is not a server' ],
	[ "'''text\na\n'''\n", 'line 3: no block prints this' ],
	[ "'''sql\n'''\n'''text\n'''\n'''text\n'''\n", 'line 6: no block prints this' ],
	[ "'''sql\n'''\n## Next\n'''text\n'''\n", 'line 5: no block prints this' ],
	[ "'''sql synopsis\n'''\n'''text\n'''\n", 'line 4: no block prints this' ],
	[ "'''sql\n'''\n'''sh\n'''\n'''text\n'''\n", 'line 6: no block prints this' ],
	[ "'''sql\n'''\n<!-- run\n-->\n'''text\n'''\n", 'line 6: no block prints this' ],
	[ "'''sql\n'''\n'''text output\n'''\n", 'line 4: "output" after ```text is not understood' ],
	[ "<!-- not run: reason -->\nProse.\n", 'line 2: no block follows "not run" or "needs"' ],
	[ "<!-- needs: citus -->\n", 'line 1: no block follows "not run" or "needs"' ],
	[ "<!-- not run -->\n'''sql\n'''\n", 'line 1: this comment is not understood' ],
	[ "<!-- run: SELECT 1; -->\n", 'line 1: this comment is not understood' ],
	[ "## First\n<!-- one database -->\n", 'line 2: "one database" stands before the first section' ],
	[ "'''sql\nSELECT 1;\n\n-- ERROR:  a\n'''\n", 'line 5: "-- ERROR:  a" is not directly below a statement' ],
	[ "'''sql\nSELECT 1;\n-- so:\n-- ERROR:  a\n'''\n", 'line 5: "-- ERROR:  a" is not directly below a statement' ],
	[ "'''sql\nSELECT 1;\n-- DETAIL:  a\n'''\n", 'line 4: "-- DETAIL:  a" is not directly below a statement' ])
{
	my ($text, $fault) = @$_;
	is(join("\n", @{ page($text)->{faults} }), $fault, "a fault: $fault");
}

# ---- outputs ----------------------------------------------------------------------------

# Whether the block of a page is found right with this output of psql.
sub right
{
	my ($text, $output) = @_;
	my $block = page($text)->{sections}[0]{blocks}[0];
	return ManualPage::judge($block, $output) eq '';
}

my $shows = "'''sql\nSELECT 1;\n'''\n'''text\n a\n---\n 1\n(1 row)\n\n'''\n";
ok(right($shows, " a \n---\n 1\n(1 row)\n\n"), 'the output that is shown is right');
ok(!right($shows, " a \n---\n 2\n(1 row)\n\n"), 'another value is wrong');
ok(!right($shows, ''), 'no output is wrong');
ok(!right($shows, " a \n---\n 1\n(1 row)\n\nERROR:  b\n"), 'an error after it is wrong');

my $plan = "'''sql\nSELECT 1;\n'''\n'''text\n      QUERY PLAN\n----------------------\n A (actual rows=1 loops=1)\n'''\n";
my $heading = "  QUERY PLAN \n------------\n";
ok(right($plan, "$heading A (actual rows=1 loops=1)\n\n"), 'the place of the heading of a plan does not matter');
ok(right($plan, "$heading A (actual rows=1.00 loops=1)\n\n"), 'a number of rows may have .00');
ok(!right($plan, "$heading A (actual rows=$_ loops=1)\n\n"), "$_ rows are wrong") foreach qw(1.50 2 2.00);

my $plain = "'''sql\nSELECT 1;\n'''\n";
ok(right($plain, " a \n---\n 1\n(1 row)\n\n"), 'a block without a result may print rows');
ok(right($plain, "psql:<stdin>:1: NOTICE:  a\n"), 'a block without a result may print a NOTICE');
ok(!right($plain, "psql:<stdin>:1: $_:  a\n"), "a block without a result prints no $_") foreach qw(WARNING ERROR FATAL);

my $raises = "'''sql\nSELECT\n1;\n-- ERROR:  one\n-- HINT:  two\n--   lines\n\nSELECT 2;\n'''\n";
my $block = page($raises)->{sections}[0]{blocks}[0];
is(ManualPage::marked($block), "SELECT\n1;\n\\warn mark:2\n-- HINT:  two\n--   lines\n\nSELECT 2;\n", 'a mark ends the messages of a statement');
my ($error, $hint, $rest) = ("psql:<stdin>:2: ERROR:  one\n", "HINT:  two lines\n", "mark:2\n b \n---\n 2\n(1 row)\n\n");
ok(right($raises, "$error$hint$rest"), 'the error that is shown is right');
ok(right($raises, "${error}LINE 1: SELECT\n        ^\n${hint}CONTEXT:  three\n$rest"), 'LINE and CONTEXT need not be shown');
ok(right($raises, "psql:<stdin>:2: NOTICE:  three\n$error$hint$rest"), 'a NOTICE need not be shown');
ok(!right($raises, "psql:<stdin>:2: WARNING:  three\n$error$hint$rest"), 'a WARNING must be shown');
ok(!right($raises, "$error$rest"), 'the HINT must be raised');
ok(!right($raises, "$error${hint}DETAIL:  three\n$rest"), 'a DETAIL must be shown');
ok(!right($raises, "psql:<stdin>:2: ERROR:  another\n$hint$rest"), 'another error is wrong');
ok(!right($raises, "psql:<stdin>:1: ERROR:  one\n$hint$rest"), 'an error of another line is wrong');
ok(!right($raises, $rest), 'no error is wrong');
ok(!right($raises, "$error$hint${rest}psql:<stdin>:6: ERROR:  one\nHINT:  two lines\n"), 'the same error again, of another statement, is wrong');

my $both = "$raises'''text\n b\n---\n 2\n(1 row)\n'''\n";
ok(right($both, "$error$hint$rest"), 'a result need not repeat the error that a comment shows');
ok(!right($both, "$error$hint" . ($rest =~ s/2\n\(/3\n(/r)), 'another result is wrong beside an error');
$both =~ s/text\n/text\nERROR:  one\nHINT:  two lines\n/;
ok(right($both, "$error$hint$rest"), 'a result may repeat the error');

done_testing();
