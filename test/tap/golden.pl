# Each version reads what every version before it has written: filters that are values, dumps with
# live filters and guards, and the files of live filters. test/golden/make.sh writes the files of a
# version.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use PostgreSQL::Test::Utils qw(slurp_file system_or_bail);
use Test::More;

my $golden = "$FindBin::Bin/../golden";
my @versions = map { m{([^/]+)$} } grep { -d } glob "$golden/*";
cmp_ok(scalar @versions, '>', 0, "versions: @versions");

my $node = start_node('main');

# Runs psql with a file, up to the first error. Returns what it prints.
sub run_file
{
	my ($dbname, @arguments) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGOPTIONS} = '-c client_min_messages=error';
	my $ok = IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $dbname, @arguments ], '>', \$out, '2>', \$err);
	ok($ok, "$dbname: @arguments") or diag($err);
	return $out;
}

# Compares line by line, so that a failure names the line.
sub same_lines
{
	my ($got, $file, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @got = split /\n/, $got;
	my @expected = split /\n/, slurp_file($file);
	cmp_ok(scalar @expected, '>', 20, "$what: there are answers");
	is_deeply(\@got, \@expected, $what);
	return;
}

foreach my $version (@versions)
{
	my $folder = "$golden/$version";

	# ---- values

	$node->safe_psql('postgres', qq{CREATE DATABASE "values $version" TEMPLATE template0});
	run_file(
		"values $version",
		'-c', 'CREATE EXTENSION streamdedup',
		'-f', "$folder/types.sql",
		'-c', 'CREATE TABLE value (name text PRIMARY KEY, prototype text, filter dedup_filter)',
		'-c', "\\copy value FROM '$folder/values.tsv'");
	same_lines(run_file("values $version", '-f', "$folder/ask_values.sql"), "$folder/values.out", "$version: values");

	# ---- a dump

	$node->safe_psql('postgres', qq{CREATE DATABASE "$_ $version" TEMPLATE template0}) foreach 'dump', 'pages';
	run_file("dump $version", '-f', "$folder/dump.sql");
	same_lines(run_file("dump $version", '-f', "$folder/ask_objects.sql"), "$folder/objects.out", "$version: a dump");

	# ---- files

	# Like all files of the server, they are for processors with the byte order of the one that
	# wrote them. The file pg_control has its version, below 65536, at byte 8.
	if ($node->safe_psql('postgres', q{SELECT get_byte(pg_read_binary_file('global/pg_control', 8, 1), 0)}) == 0)
	{
		$node->safe_psql('postgres', qq{DROP DATABASE "pages $version"});
		note("$version: its files are little-endian, this server is not");
		next;
	}

	# The same objects, with files in place of what the dump has in them.
	run_file("pages $version", '-f', "$folder/dump.sql");
	my $filters = $node->safe_psql("pages $version", q{
		SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c JOIN pg_am a ON a.oid = c.relam AND a.amname = 'streamdedup'
		WHERE c.relkind = 'r' AND c.relpersistence = 'p'});
	my $into = $node->basedir . "/$version";
	mkdir $into or die;
	system_or_bail('tar', '-C', $into, '-xzf', "$folder/pages.tar.gz");
	my %path = map { $_ => $node->safe_psql("pages $version", "SELECT pg_relation_filepath('$_')") } split /, /, $filters;
	is_deeply([ sort keys %path ], [ sort map { m{([^/]+)$} } glob "$into/pages/*" ], "$version: a file for each filter");

	# The transactions that the pages name must have happened here, too: with the same end.
	my ($lsn) = slurp_file("$folder/pages.txt") =~ /^wal (\S+)/m;
	my (@aborted, $last);
	foreach (split /\n/, slurp_file("$folder/pages.txt"))
	{
		push @aborted, $1 if /^aborted (\d+)/;
		$last = $1 if /^(?:committed|aborted) (\d+)/;
	}
	cmp_ok($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '<', $aborted[0], "$version: the transactions are still to come");
	$node->safe_psql(
		'postgres', qq{DO \$\$
		DECLARE
			x bigint := 0;
		BEGIN
			WHILE x < $last LOOP
				x := pg_current_xact_id()::text::bigint;
				IF x = ANY('{@{[ join ',', @aborted ]}}') THEN
					ROLLBACK;
				ELSE
					COMMIT;
				END IF;
			END LOOP;
		END \$\$});
	# And the end of the WAL must be behind what the pages say.
	while ($node->safe_psql('postgres', "SELECT pg_current_wal_lsn() <= '$lsn'") eq 't')
	{
		$node->safe_psql('postgres', 'CREATE TABLE moves_on (); DROP TABLE moves_on; SELECT pg_switch_wal()');
	}

	my $checksums = $node->safe_psql('postgres', 'SHOW data_checksums');
	$node->stop;
	system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir) if $checksums eq 'on';
	foreach my $filter (keys %path)
	{
		system_or_bail('cp', "$into/pages/$filter", $node->data_dir . "/$path{$filter}");
	}
	$node->start;
	same_lines(run_file("pages $version", '-f', "$folder/ask_pages.sql"), "$folder/pages.out", "$version: files");
	same_lines(run_file("pages $version", '-f', "$folder/ask_objects.sql"), "$folder/objects.out", "$version: files");

	# The pages can be changed, and settled.
	run_file("pages $version", '-c', "VACUUM (FREEZE) $filters");
	same_lines(run_file("pages $version", '-f', "$folder/ask_objects.sql"), "$folder/objects.out", "$version: files after VACUUM");
}

$node->stop;
done_testing();
