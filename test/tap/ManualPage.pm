# Reads a page of the manual, runs its blocks, and judges what they print.
#
#   ```sql, ```python      A block that is run, as a session of its own. A second word names its
#                          server: publisher (the default), subscriber, far.
#   ```text                What the block before it prints, exactly. Prose between is allowed.
#   ```sql synopsis        A signature or a schematic form. Is not run.
#   ```text listing        A drawing or a file. No block prints it.
#   <!-- run               SQL that is run here and not shown, up to a line -->. "run python" and
#                          "run subscriber" name the language and the server.
#   <!-- not run: WHY -->  The next block is not run.
#   <!-- needs: NAME -->   The next block needs these extensions, and is skipped without them.
#   <!-- one database -->  Before the first section: all sections share one database. Otherwise a
#                          section (## and what is before the first ##) has one of its own.
#   <!-- one program -->   Before the first section: each Python block continues those before it.
#
# A statement of SQL raises exactly the messages in the comment lines directly below it that begin
# with "-- ERROR:", "-- WARNING:" or "-- NOTICE:". DETAIL and HINT must be there, too; white space
# does not matter. A block prints no other ERROR and, unless a ```text block shows what it prints,
# no other WARNING.
package ManualPage;

use strict;
use warnings;

our %runs = map { $_ => 1 } qw(sql python);
our %shown = map { $_ => 1 } qw(sh yaml java c cpp conf json);
my %server = map { $_ => 1 } qw(publisher subscriber far);

my $severity = qr/ERROR|FATAL|WARNING|NOTICE|INFO/;
my $field = qr/DETAIL|HINT|CONTEXT/;
my $ignored = qr/LINE \d+|QUERY/;

# Returns the page as a hash: one_database, one_program, sections with title and blocks, and
# faults, the violations of the rules above.
sub parse
{
	my ($text) = @_;
	my @sections = ({ title => 'beginning', blocks => [] });
	my $page = { sections => \@sections, faults => [] };
	my ($block, $note, $line);
	my $fault = sub { push @{ $page->{faults} }, "line $line: $_[0]" };

	foreach (split /\n/, $text)
	{
		$line++;
		if ($block)
		{
			if ($block->{hidden} ? /^-->\s*$/ : /^```\s*$/)
			{
				place($block, $sections[-1], $fault);
				undef $block;
			}
			else
			{
				$block->{text} .= "$_\n";
			}
		}
		elsif (/^\s*(?:```|~~~)/)
		{
			$block = { language => '', word => '', line => $line, text => '', %{ $note || {} } };
			undef $note;
			if (/^```(\w+)(?: (\w+))?\s*$/)
			{
				@$block{qw(language word)} = ($1, $2 || '');
			}
			else
			{
				$fault->('a block starts with ``` and its language, at the margin');
			}
		}
		elsif (/^<!-- run(?: (sql|python))?(?: (\w+))?\s*$/)
		{
			$block = { language => $1 || 'sql', word => $2 || '', line => $line, text => '', hidden => 1, %{ $note || {} } };
			undef $note;
		}
		elsif (/^<!-- not run: (.*\S)\s*-->\s*$/)
		{
			$note->{not_run} = $1;
		}
		elsif (/^<!-- needs: (.*\S)\s*-->\s*$/)
		{
			$note->{needs} = [ split /[ ,]+/, $1 ];
		}
		elsif (/^<!-- one (database|program) -->\s*$/)
		{
			$page->{"one_$1"} = 1;
			$fault->("\"one $1\" stands before the first section") if @sections > 1 || @{ $sections[0]{blocks} };
		}
		elsif (/^\s*<!--\s*(?:run|not run|needs|one)\b/)
		{
			$fault->('this comment is not understood');
		}
		elsif (/^## +(.*\S)/)
		{
			push @sections, { title => $1, blocks => [] };
		}

		if ($note && !$block && /\S/ && !/^<!--/)
		{
			$fault->('no block follows "not run" or "needs"');
			undef $note;
		}
	}
	$fault->('a block without an end') if $block;
	$fault->('no block follows "not run" or "needs"') if $note;

	my @programs = $page->{one_program} ? grep { $_->{language} eq 'python' && !$_->{not_run} } map { @{ $_->{blocks} } } @sections : ();
	my $before = '';
	foreach my $program (@programs)
	{
		$program->{before} = $before;
		$before .= $program->{text};
	}
	return $page;
}

# Adds a block to its section. A text block belongs to the block before it.
sub place
{
	my ($block, $section, $fault) = @_;
	my ($language, $word) = @$block{qw(language word)};
	my $last = $section->{blocks}[-1];

	if ($language eq 'text')
	{
		return if $word eq 'listing' || $block->{not_run};
		return $fault->("\"$word\" after ```text is not understood") if $word ne '';
		return $fault->('no block prints this')
		  if !$last || $last->{hidden} || !$runs{ $last->{language} } || $last->{word} eq 'synopsis' || defined $last->{prints};
		$last->{prints} = $block->{text};
		return;
	}
	if (!$runs{$language})
	{
		$fault->("\"$language\" is not a known language") if $language ne '' && !$shown{$language};
	}
	elsif ($word ne '' && !$server{$word} && !($word eq 'synopsis' && $language eq 'sql'))
	{
		$fault->("\"$word\" is not a server");
	}
	$block->{where} = $server{$word} ? $word : 'publisher';
	if ($language eq 'sql' && $word ne 'synopsis' && !$block->{hidden})
	{
		$block->{raised} = raised($block->{text}, $fault);
	}
	push @{ $section->{blocks} }, $block;
	return;
}

# Splits lines into messages: those that begin with a severity or with DETAIL, HINT or CONTEXT.
# A line that begins otherwise continues the message before it. White space is one blank.
sub messages
{
	my @messages;
	foreach my $text (@_)
	{
		if ($text =~ /^(?:$severity|$field):/ || !@messages)
		{
			push @messages, $text;
		}
		else
		{
			$messages[-1] .= " $text";
		}
	}
	s/\s+/ /g, s/^ | $//g foreach @messages;
	return @messages;
}

# The messages that comments show: the line where their statement ends, and the messages.
sub raised
{
	my ($sql, $fault) = @_;
	my @lines = split /\n/, $sql;
	my @raised;
	for (my $i = 0; $i < @lines; $i++)
	{
		next unless $lines[$i] =~ /^\s*--\s*(?:$severity|$field):/;
		my $end = $i;
		my @comments;
		if ($i == 0 || $lines[ $i - 1 ] !~ /\S/ || $lines[ $i - 1 ] =~ /^\s*--/ || $lines[$i] !~ /^\s*--\s*$severity:/)
		{
			$fault->("\"$lines[$i]\" is not directly below a statement");
		}
		while ($i < @lines && $lines[$i] =~ /^\s*--\s*(.*)/)
		{
			push @comments, $1;
			$i++;
		}
		push @raised, { line => $end, messages => [ messages(@comments) ] };
	}
	return \@raised;
}

# The SQL of a block for psql -f -. psql says at which line a message is raised, and a mark in
# the place of the first comment line shows where the messages of its statement end.
sub marked
{
	my ($block) = @_;
	my @lines = split /\n/, $block->{text}, -1;
	$lines[ $_->{line} ] = "\\warn mark:$_->{line}" foreach @{ $block->{raised} || [] };
	return join "\n", @lines;
}

# The program of a Python block. What the blocks before it print is dropped.
sub program
{
	my ($block) = @_;
	return $block->{text} if !defined $block->{before};
	return "import os, sys\nsys.stdout = open(os.devnull, 'w')\n$block->{before}\nsys.stdout = sys.__stdout__\n$block->{text}";
}

# Output without what depends on the terminal or the server. From 18 on EXPLAIN ANALYZE shows fractions of
# rows, so the plan's heading is in another place.
sub plain
{
	my ($output) = @_;
	$output =~ s/^psql:<stdin>:\d+: //mg;
	$output =~ s/\brows=\d+\K\.00\b//g;
	$output =~ s/^ +QUERY PLAN *\n-+$/QUERY PLAN/mg;
	$output =~ s/[ \t\r]+$//mg;
	$output =~ s/\n+\z/\n/;
	return $output eq "\n" ? '' : $output;
}

# Takes the messages of the statement that ends at the line out of the output, up to its mark.
sub take_messages
{
	my ($output, $line) = @_;
	my (@kept, @taken, $error, $open, $dropped);
	my $done = $output !~ /^mark:$line$/m;
	foreach my $text (split /\n/, $output)
	{
		if ($done)
		{
			push @kept, $text;
		}
		elsif ($text eq "mark:$line")
		{
			$done = 1;
		}
		elsif ($text =~ /^psql:<stdin>:$line: (($severity):.*)/)
		{
			push @taken, $1;
			($error, $open, $dropped) = ($2 eq 'ERROR', 1, 0);
		}
		elsif ($open && $text =~ /^$field:/)
		{
			push @taken, $text;
			$dropped = 0;
		}
		elsif ($open && ($text =~ /^$ignored:/ || $text =~ /^ +\^$/))
		{
			$dropped = 1;
		}
		elsif ($open && $error && $text !~ /^psql:<stdin>:/)
		{
			# An error ends its statement, so whatever follows is a part of it.
			$taken[-1] .= " $text" if !$dropped;
		}
		else
		{
			push @kept, $text;
			$open = 0;
		}
	}
	return (join("\n", @kept, ''), messages(@taken));
}

# Leaves out the messages that a comment need not show: CONTEXT, NOTICE and INFO, unless it
# shows one of the kind.
sub relevant
{
	my ($shown, @messages) = @_;
	my (@relevant, $out);
	foreach my $message (@messages)
	{
		my ($kind) = $message =~ /^(\w+):/;
		my $as_shown = grep { /^$kind:/ } @$shown;
		$out = !$as_shown && $kind =~ /^(?:NOTICE|INFO)$/ if $kind =~ /^$severity$/;
		push @relevant, $message if !$out && ($kind ne 'CONTEXT' || $as_shown);
	}
	return @relevant;
}

# Why the output of a block is not what the page shows; empty if it is.
sub judge
{
	my ($block, $output) = @_;
	my $all = $output;
	$all =~ s/^mark:\d+\n//mg;
	my $rest = $output;
	my @wrong;

	foreach my $raised (@{ $block->{raised} || [] })
	{
		($rest, my @messages) = take_messages($rest, $raised->{line});
		my $shown = join "\n", @{ $raised->{messages} };
		my $printed = join "\n", relevant($raised->{messages}, @messages);
		push @wrong, "the statement that ends at line " . ($block->{line} + $raised->{line}) . " raises:\n$printed\nThe page shows:\n$shown\n"
		  if $printed ne $shown;
	}
	$_ = plain($_) foreach $all, $rest;
	if (defined $block->{prints})
	{
		my $prints = plain($block->{prints});
		push @wrong, "the block prints:\n$all" . "The page shows:\n$prints" if $prints ne $all && $prints ne $rest;
	}
	elsif ($rest =~ /^(?:ERROR|FATAL|error|Traceback)\b/m || !$block->{hidden} && $rest =~ /^WARNING\b/m)
	{
		push @wrong, "the page does not show what the block prints:\n$rest";
	}
	return join '', @wrong;
}

# Runs a section. The runner is a hash of functions: open gets the section and missing a block;
# both return why it cannot be run, or an empty string. sql and python get a block and return
# its output. Returns a hash for each block: block, state, and reason or wrong.
sub run_section
{
	my ($section, $runner) = @_;
	my @blocks = @{ $section->{blocks} };
	my $closed;
	my @results;
	foreach my $block (@blocks)
	{
		my $result = { block => $block };
		push @results, $result;
		if (!$runs{ $block->{language} } || $block->{word} eq 'synopsis')
		{
			$result->{state} = 'shown';
		}
		elsif (defined $block->{not_run})
		{
			@$result{qw(state reason)} = ('not run', $block->{not_run});
		}
		else
		{
			$closed = $runner->{open}->($section) if !defined $closed;
			my $reason = $closed || $runner->{missing}->($block);
			@$result{qw(state reason)} = ('skipped', $reason);
			next if $reason ne '';
			@$result{qw(state wrong)} = ('run', judge($block, $runner->{ $block->{language} }->($block)));
		}
	}
	return @results;
}

1;
