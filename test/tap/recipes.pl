# Runs docs/recipes.md: the blocks of each recipe in order, in a database of its own, and
# compares what they print with the page. Runs README's first two examples, too, and the
# sections of docs/guards.md that show a result.
#
# A block that starts with ```sql is run by psql, on the server that a second word names
# (publisher, subscriber; else the first one), and one that starts with ```python by Python. A
# block that starts with ```text and follows one of these is exactly what it prints. A block
# without one must print no WARNING and no ERROR. Blocks of other languages are not run.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run ();
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $top = "$FindBin::Bin/../..";
my %run_by = (sql => \&run_sql, python => \&run_python);
my %shown = map { $_ => 1 } qw(yaml java);

# What a block of Django's needs around it: in a project this is its settings.
my $django = <<'PY';
import os, django
from django.conf import settings
settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': os.environ['PGDATABASE']}},
	DEFAULT_AUTO_FIELD='django.db.models.BigAutoField', USE_TZ=True)
django.setup()
PY

# The sections of a page: title, and blocks with language, second word, text, line, and what
# they print.
sub sections
{
	my ($file, $loose) = @_;
	my ($block, @sections, $line);
	foreach (split /\n/, slurp_file($file))
	{
		$line++;
		if ($block && /^```$/)
		{
			my $before = @sections ? $sections[-1]{blocks}[-1] : undef;
			if ($block->{language} eq 'text')
			{
				$before && $run_by{ $before->{language} } && !defined $before->{prints}
				  or BAIL_OUT("$file:$block->{line}: no block that prints this");
				$before->{prints} = $block->{text};
			}
			elsif (@sections)
			{
				push @{ $sections[-1]{blocks} }, $block;
			}
			undef $block;
		}
		elsif ($block)
		{
			$block->{text} .= "$_\n";
		}
		elsif (/^\s*```/)
		{
			/^```(\w+)(?: (publisher|subscriber))?$/ || $loose && /^```()()$/ or BAIL_OUT("$file:$line: not a start of a block");
			$block = { language => $1, where => $2 || 'publisher', line => $line, text => '' };
		}
		elsif (/^## (.*)/)
		{
			push @sections, { title => $1, blocks => [] };
		}
	}
	$block and BAIL_OUT("$file:$block->{line}: a block without an end");
	return @sections;
}

my %nodes;

# The server of a block, started when it is first needed.
sub node_of
{
	my ($where) = @_;
	$nodes{$where} ||= start_node($where, allows_streaming => 'logical');
	return $nodes{$where};
}

# Output without what depends on the terminal.
sub plain
{
	my ($output) = @_;
	$output =~ s/[ \t]+$//mg;
	$output =~ s/\n+\z/\n/;
	return $output;
}

# Waits until the subscriptions of the database have everything.
sub replicated
{
	my ($database) = @_;
	my $subscriber = $nodes{subscriber} or return;
	return if $subscriber->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE datname = '$database'") eq '0';
	my @subscriptions = split /\n/, $subscriber->safe_psql($database,
		q{SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())});
	return unless @subscriptions;
	$subscriber->poll_query_until($database, q{SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's'))})
	  or die 'the tables are not copied';
	$nodes{publisher}->wait_for_catchup($_) foreach @subscriptions;
	return;
}

sub run_sql
{
	my ($block, $database) = @_;
	my $sql = $block->{text};
	my $output;
	if ($sql =~ /host=publisher\.example/)
	{
		my $connection = $nodes{publisher}->connstr($database);
		$connection =~ s/'/''/g;
		$sql =~ s/host=publisher\.example dbname=\w+/$connection/g;
	}
	replicated($database);
	IPC::Run::run([ 'psql', '-X', '-d', node_of($block->{where})->connstr($database) ], '<', \$sql, '>&', \$output);
	return $output;
}

sub run_python
{
	my ($block, $database) = @_;
	my $node = node_of('publisher');
	my $program = $block->{text};
	my $output;
	$program = $django . $program if $program =~ /^from django/m;
	local @ENV{qw(PGHOST PGPORT PGDATABASE PYTHONWARNINGS)} = ($node->host, $node->port, $database, 'ignore');
	IPC::Run::run([ 'python3', '-' ], '<', \$program, '>&', \$output);
	return $output;
}

# Why a recipe or block cannot be run here; empty if it can.
sub missing_extension
{
	my ($recipe) = @_;
	foreach my $block (@{ $recipe->{blocks} })
	{
		while ($block->{language} eq 'sql' && $block->{text} =~ /CREATE EXTENSION (\w+)/g)
		{
			return "no extension $1"
			  if node_of('publisher')->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$1'") eq '0';
		}
	}
	return '';
}

sub missing_module
{
	my ($block) = @_;
	return '' if $block->{language} ne 'python';
	my %modules = map { $_ => 1 } $block->{text} =~ /^(?:import|from) (\w+)/mg, $block->{text} =~ /postgresql\+(\w+):/g;
	# Django's own back end imports it.
	$modules{psycopg2} = 1 if $modules{django};
	my $import = 'import ' . join(', ', sort keys %modules);
	my $output;
	return '' if eval { IPC::Run::run([ 'python3', '-c', $import ], '>&', \$output) };
	return "python3 cannot $import";
}

my @recipes = sections("$top/docs/recipes.md");
cmp_ok(scalar @recipes, '>', 15, 'recipes were found');
push @recipes, grep { grep { defined $_->{prints} } @{ $_->{blocks} } } sections("$top/docs/guards.md", 'loose');
my $number = 0;
foreach my $recipe (@recipes)
{
	my $database = 'recipe_' . ++$number;
	my ($ran, $title) = (0, $recipe->{title});
	my $missing = missing_extension($recipe);
	my %where = (publisher => 1, map { $_->{where} => 1 } @{ $recipe->{blocks} });

	# Whatever can be run here: each recipe has a block whose result is shown.
	ok((grep { defined $_->{prints} } @{ $recipe->{blocks} }), "$title: shows a result");
	foreach my $where (grep { $missing eq '' } sort keys %where)
	{
		my $node = node_of($where);
		$node->safe_psql('postgres', "CREATE DATABASE $database");
		$node->safe_psql($database, 'SET client_min_messages = warning; CREATE EXTENSION streamdedup');
	}
	foreach my $block (@{ $recipe->{blocks} })
	{
		my $name = "$title (line $block->{line})";
		my $run = $run_by{ $block->{language} };
		if (!$run)
		{
			ok($shown{ $block->{language} }, "$name: known language $block->{language}");
			next;
		}
	  SKIP:
		{
			my $reason = $missing || missing_module($block);
			skip $reason, 1 if $reason ne '';
			my $output = plain($run->($block, $database));
			if (defined $block->{prints})
			{
				is($output, plain($block->{prints}), $name);
			}
			else
			{
				unlike($output, qr/^(?:WARNING|ERROR|FATAL|Traceback)/m, $name);
			}
		}
	}
}

# README: its first two examples.
my ($unique, $rest) = slurp_file("$top/README.md") =~ /```sql\n(.*?)```/sg;
my $node = node_of('publisher');

# A unique key across partitions. The comment says what the last statement raises.
$node->safe_psql('postgres', 'CREATE DATABASE readme_unique');
my ($rc, $stdout, $stderr) = $node->psql('readme_unique', $unique);
my ($message) = $unique =~ /^-- (ERROR:.*\S)/ms;
$message =~ s/^-- //mg;
like($stderr, qr/\Q$message\E\z/, 'README: the second row with the key is the error that its comment shows');
is($node->safe_psql('readme_unique', 'SELECT * FROM orders'), '1|2025-03-31', 'README: the first row is there');

# The rest; some days have no filter yet.
$node->safe_psql('postgres', 'CREATE DATABASE readme');
$node->safe_psql('readme', q{
	CREATE EXTENSION streamdedup;
	CREATE TABLE clicks (user_id bigint, ad_id bigint, at timestamptz);
	INSERT INTO clicks SELECT u, 1, current_date + time '00:01' FROM generate_series(1, 10) u});
($rc, $stdout, $stderr) = $node->psql('readme', $rest, on_error_stop => 1);
is($rc, 0, 'README: its example runs') or diag $stderr;
is(join(' ', sort { $a <=> $b } grep { /^\d+$/ } split /\n/, $stdout), join(' ', 1 .. 10),
	'README: without filters of the days before, all users are new');

$_->stop('immediate') foreach reverse map { $nodes{$_} } sort keys %nodes;
done_testing();
