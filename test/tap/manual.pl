# Runs the blocks of README.md and docs/*.md and compares what they print with the page.
# ManualPage.pm says what a page looks like.
#
# MANUAL_PAGES='guards README' runs these pages only.
#
# `mydb` in a block is the database of its section. "host=NAME.example dbname=…" and "host
# 'NAME.example', dbname '…'" are the same database on the server NAME.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Basename qw(basename);
use IPC::Run ();
use LiveFilter;
use ManualPage;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $top = "$FindBin::Bin/../..";
my (%nodes, %missing);    # servers; why extensions and Python modules cannot be used here

# What a block of Django's needs around it: in a project this is its settings.
my $django = <<'PY';
import os, django
from django.conf import settings
settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': os.environ['PGDATABASE']}},
	DEFAULT_AUTO_FIELD='django.db.models.BigAutoField', USE_TZ=True)
django.setup()
PY

# The server of a block, started when it is first needed. Databases are copies of one of its
# databases, which has the extension.
sub node_of
{
	my ($where) = @_;
	return $nodes{$where} if $nodes{$where};
	my $node = start_node($where, allows_streaming => 'logical',
		settings => [ q{timezone = 'UTC'}, q{lc_messages = 'C'}, 'max_prepared_transactions = 10' ]);
	$node->safe_psql('postgres', 'CREATE DATABASE with_extension');
	$node->safe_psql('with_extension', 'SET client_min_messages = warning; CREATE EXTENSION streamdedup');
	return $nodes{$where} = $node;
}

# ---- databases of sections --------------------------------------------------------------

# The database of the blocks that run now: its name, and its servers.
my ($database, %servers_of_database);
my $databases = 0;

# Removes the database, and what its blocks have left on the servers outside of databases:
# subscriptions with their slots, and roles.
sub close_database
{
	foreach my $where (sort { $b cmp $a } keys %servers_of_database)
	{
		my $node = node_of($where);
		$node->safe_psql($database, qq{SELECT format('DROP SUBSCRIPTION %I', subname) FROM pg_subscription
			WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \\gexec}) if $where eq 'subscriber';
		my ($rc, $stdout, $stderr) = $node->psql('postgres', qq{DROP DATABASE $database WITH (FORCE);
			SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE oid >= 16384 \\gexec}, on_error_stop => 0);
		diag("after $database: $stderr") if $stderr ne '';
	}
	undef $database;
	%servers_of_database = ();
	return;
}

# Makes the database of blocks on their servers. Blocks that create the extension start
# without it.
sub open_database
{
	my @blocks = @_;
	my $without = grep { $_->{text} =~ /CREATE EXTENSION streamdedup\b/ } @blocks;
	$database = 'manual_' . ++$databases;
	%servers_of_database = (publisher => 1, map { $_->{where} => 1 } @blocks);
	foreach my $where (sort keys %servers_of_database)
	{
		node_of($where)->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE " . ($without ? 'template1' : 'with_extension'));
	}
	return;
}

# ---- what is missing here ---------------------------------------------------------------

# Why an extension cannot be created here; empty if it can.
sub missing_extension
{
	my ($name) = @_;
	return $missing{$name} if defined $missing{$name};
	my $node = node_of('publisher');
	my $reason = '';
	if ($node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$name'") eq '0')
	{
		$reason = "no extension $name";
	}
	elsif ($name =~ /^(?:citus|timescaledb)$/ && $node->safe_psql('postgres', 'SHOW shared_preload_libraries') !~ /\b$name\b/)
	{
		$reason = "$name is not preloaded";
	}
	return $missing{$name} = $reason;
}

# Why blocks cannot be run: for the first extension that they create and is missing.
sub missing_for
{
	my @names = map { $_->{language} eq 'sql' ? $_->{text} =~ /CREATE EXTENSION (?:IF NOT EXISTS )?(\w+)/g : () } @_;
	my ($reason) = grep { $_ ne '' } map { missing_extension($_) } @names;
	return $reason || '';
}

sub missing_module
{
	my ($block) = @_;
	my $program = ManualPage::program($block);
	my %modules = map { $_ => 1 } map { split /, */ } $program =~ /^(?:import|from) (\w+(?:, *\w+)*)/mg, $program =~ /postgresql\+(\w+):/g;
	# Django's own back end imports it.
	$modules{psycopg2} = 1 if $modules{django};
	my $import = 'import ' . (join(', ', sort keys %modules) || 'sys');
	my $output;
	return $missing{$import} if defined $missing{$import};
	return $missing{$import} = eval { IPC::Run::run([ 'python3', '-c', $import ], '>&', \$output) } ? '' : "python3 cannot $import";
}

sub missing_of_block
{
	my ($block) = @_;
	my ($reason) = grep { $_ ne '' } map { missing_extension($_) } @{ $block->{needs} || [] };
	return $reason if $reason;
	return $block->{language} eq 'python' ? missing_module($block) : '';
}

# ---- running blocks ---------------------------------------------------------------------

# Waits until the subscriptions of the database have everything.
sub replicated
{
	my $subscriber = $servers_of_database{subscriber} ? $nodes{subscriber} : return;
	my @subscriptions = split /\n/, $subscriber->safe_psql($database,
		q{SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())});
	return unless @subscriptions;
	$subscriber->poll_query_until($database, q{SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's'))})
	  or die 'the tables are not copied';
	$nodes{publisher}->wait_for_catchup($_) foreach @subscriptions;
	return;
}

# The connection to the server of an example, as libpq reads it or as options of a foreign server.
sub connection
{
	my ($where, $quoted) = @_;
	my $node = node_of($where);
	return sprintf(q{host '%s', port '%s', dbname '%s'}, $node->host, $node->port, $database) if $quoted;
	return sprintf('host=%s port=%s dbname=%s', $node->host, $node->port, $database);
}

# Runs a program and returns what it prints.
sub output_of
{
	my ($input, @command) = @_;
	my $output = '';
	eval { IPC::Run::run(\@command, '<', \$input, '>&', \$output, IPC::Run::timeout(120)); 1 } or $output .= "\nFATAL: $@";
	return $output;
}

sub run_sql
{
	my ($block) = @_;
	my $sql = ManualPage::marked($block);
	$sql =~ s/\bmydb\b/$database/g;
	$sql =~ s/host=(\w+)\.example dbname=\w+/connection($1)/ge;
	$sql =~ s/host '(\w+)\.example', dbname '\w+'/connection($1, 'quoted')/ge;
	replicated();
	my $output = output_of($sql, 'psql', '-X', '-d', node_of($block->{where})->connstr($database), '-f', '-');
	$output =~ s/\b$database\b/mydb/g;
	return $output;
}

sub run_python
{
	my ($block) = @_;
	my $node = node_of($block->{where});
	my $program = ManualPage::program($block);
	$program = $django . $program if $program =~ /^from django/m;
	local @ENV{qw(PGHOST PGPORT PGDATABASE PYTHONWARNINGS)} = ($node->host, $node->port, $database, 'ignore');
	return output_of($program, 'python3', '-');
}

# ---- pages ------------------------------------------------------------------------------

# Runs the sections of a page. Returns a list for each section: the section and the results of
# its blocks.
sub run_page
{
	my ($page) = @_;
	my $blocks_of = sub { return grep { $ManualPage::runs{ $_->{language} } && $_->{word} ne 'synopsis' } map { @{ $_->{blocks} } } @_ };
	my $open = sub {
		my ($section) = @_;
		my $reason = missing_for(grep { !defined $_->{not_run} } $blocks_of->($section));
		open_database($blocks_of->($page->{one_database} ? @{ $page->{sections} } : $section)) if $reason eq '' && !defined $database;
		return $reason;
	};
	my %runner = (open => $open, missing => \&missing_of_block, sql => \&run_sql, python => \&run_python);
	my @sections;
	foreach my $section (@{ $page->{sections} })
	{
		push @sections, [ $section, ManualPage::run_section($section, \%runner) ];
		close_database() if defined $database && !$page->{one_database};
	}
	close_database() if defined $database;
	return @sections;
}

# The test itself: of these blocks, those with "wrong" in their first line are found wrong, and
# no other.
sub test_the_test
{
	my $page = ManualPage::parse(do { local $/ = undef; <DATA> });
	is(join("\n", @{ $page->{faults} }), '', 'the page of this test: its form');
	my $blocks = 0;
	foreach (run_page($page))
	{
		my (undef, @results) = @$_;
		foreach my $result (@results)
		{
			my ($claim) = $result->{block}{text} =~ /^(?:--|#) (.*)/;
		  SKIP:
			{
				skip "the test itself: $claim: $result->{reason}", 1 if $result->{state} eq 'skipped';
				my $wrong = $result->{wrong} ne '' ? 1 : 0;
				is($wrong, $claim =~ /wrong/ ? 1 : 0, "the test itself: $claim") or diag $result->{wrong};
				$blocks++;
			}
		}
	}
	cmp_ok($blocks, '>', 15, 'the test itself: blocks were found');
	return;
}

my %file = map { basename($_, '.md') => $_ } "$top/README.md", glob "$top/docs/*.md";
my @names = split /[ ,]+/, $ENV{MANUAL_PAGES} || join ' ', 'README', sort grep { $_ ne 'README' } keys %file;
my @counts;

test_the_test();
foreach my $name (@names)
{
	$file{$name} or BAIL_OUT("there is no page $name");
	my $page = ManualPage::parse(slurp_file($file{$name}));
	my %count = map { $_ => 0 } 'run', 'skipped', 'not run', 'with a result';
	my $sections = 0;

	is(join("\n", @{ $page->{faults} }), '', "$name: its form");
	foreach (run_page($page))
	{
		my ($section, @results) = @$_;
		foreach my $result (@results)
		{
			my ($block, $state) = @$result{qw(block state)};
			my $test = "$name: $section->{title} (line $block->{line})";
			$count{$state}++ if !$block->{hidden};
			$count{'with a result'}++ if $state eq 'run' && (defined $block->{prints} || @{ $block->{raised} || [] });
			ok($result->{wrong} eq '', $test) or diag $result->{wrong} if $state eq 'run';
			note("$test is not run: $result->{reason}") if $state eq 'not run';
		  SKIP:
			{
				skip "$test: $result->{reason}", 1 if $state eq 'skipped';
			}
		}

		# Each recipe shows a result.
		next if $name !~ /^recipes/ || !grep { $_->{state} ne 'shown' } @results;
		$sections++;
		ok((grep { defined $_->{block}{prints} || @{ $_->{block}{raised} || [] } } @results), "$name: $section->{title}: shows a result");
	}
	cmp_ok($sections, '>', 3, "$name: recipes were found") if $name =~ /^recipes/;
	push @counts, sprintf '%-17s %3d run, %3d of them with a result, %d skipped, %d not run', $name, @count{ 'run', 'with a result', 'skipped', 'not run' };
}
diag join "\n", 'blocks of the manual:', @counts;

$_->stop('immediate') foreach reverse map { $nodes{$_} } sort keys %nodes;
done_testing();

__DATA__
<!-- one database -->
<!-- run
-- rows that the blocks take for granted
CREATE TABLE t (i int PRIMARY KEY, other text);
INSERT INTO t VALUES (1, 'one'), (2, 'two');
-->

```sql
-- what is printed is shown
SELECT count(*) FROM t;
```

```text
 count
-------
     2
(1 row)
```

```sql
-- wrong: another number is shown
SELECT count(*) FROM t;
```

```text
 count
-------
     3
(1 row)
```

```sql
-- wrong: a line is missing
SELECT count(*) FROM t;
```

```text
 count
-------
     2
```

```sql
-- an error in a statement of two lines
INSERT INTO t
VALUES (1);
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
-- DETAIL:  Key (i)=(1) already exists.
```

```sql
-- an error whose comment is wrapped, and what else is printed
SELECT count(*) FROM t;
INSERT INTO t VALUES (1);
-- ERROR:  duplicate key value violates
--         unique constraint "t_pkey"
-- DETAIL:  Key (i)=(1) already exists.

SELECT max(i) FROM t;
```

```text
 count
-------
     2
(1 row)

 max
-----
   2
(1 row)
```

```sql
-- an error at a place of a statement
SELECT no_such_column FROM t;
-- ERROR:  column "no_such_column" does not exist
```

```sql
-- wrong: another error
INSERT INTO t VALUES (1);
-- ERROR:  duplicate key value violates unique constraint "u_pkey"
-- DETAIL:  Key (i)=(1) already exists.
```

```sql
-- wrong: the DETAIL is not shown
INSERT INTO t VALUES (1);
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
```

```sql
-- wrong: the error belongs to the other statement
INSERT INTO t VALUES (1);
SELECT 1;
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
-- DETAIL:  Key (i)=(1) already exists.
```

```sql
-- wrong: the statement succeeds
INSERT INTO t VALUES (3);
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
-- DETAIL:  Key (i)=(3) already exists.
```

```sql
-- wrong: an error that is not shown, beside one that is
INSERT INTO t VALUES (1);
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
-- DETAIL:  Key (i)=(1) already exists.

SELECT 1/0;
```

```sql
-- a notice is shown
DROP TABLE IF EXISTS no_such_table;
-- NOTICE:  table "no_such_table" does not exist, skipping
```

```sql
-- a notice need not be shown
DROP TABLE IF EXISTS no_such_table;
```

```sql
-- wrong: a warning is not shown
DO $$ BEGIN RAISE WARNING 'look out'; END $$;
```

```sql
-- a warning is shown, and the statement's result
CREATE FUNCTION warns() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'look out' USING HINT = 'Look.'; RETURN 1; END $$;
SELECT warns();
-- WARNING:  look out
-- HINT:  Look.
```

```text
CREATE FUNCTION
 warns
-------
     1
(1 row)
```

```sql
-- rows of COPY, and the error at their end
COPY t (i) FROM STDIN;
7
1
\.
-- ERROR:  duplicate key value violates unique constraint "t_pkey"
-- DETAIL:  Key (i)=(1) already exists.

SELECT count(*) FROM t;
```

```text
 count
-------
     3
(1 row)
```

```sql
-- wrong: no such command of psql
\no_such_command
```

<!-- run
-- wrong: an error of hidden SQL
SELECT 1/0;
-->

```python
# a program's output
print(6 * 7)
```

```text
42
```

```python
# wrong: an exception
raise ValueError
```
