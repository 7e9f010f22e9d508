# Starts two servers. The first reaches the second over postgres_fdw.
package TwoServers;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

our @EXPORT = qw(two_servers connect_servers has_extension scanned_rows remote_sql);

# Whether the server could create an extension: contrib has a package of its own with
# some distributions.
sub has_extension
{
	my ($node, $name) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$name'");
}

# Starts near and far; skips the whole test where there is no postgres_fdw. The far one
# shows and reads times, numbers and bytes in other forms, which must not matter.
# Parameters are those of start_node, for the far one.
sub two_servers
{
	my (%params) = @_;
	my $near = start_node('near', settings => ['max_parallel_workers_per_gather = 0']);
	if (!has_extension($near, 'postgres_fdw'))
	{
		$near->stop;
		plan skip_all => 'postgres_fdw is not there';
	}
	push @{ $params{settings} }, 'max_parallel_workers_per_gather = 0', q{timezone = 'Asia/Tokyo'},
	  q{datestyle = 'German, DMY'}, q{intervalstyle = 'sql_standard'}, q{bytea_output = 'escape'},
	  'extra_float_digits = -3';
	my $far = start_node('far', %params);
	$near->safe_psql('postgres', 'CREATE EXTENSION postgres_fdw');
	connect_servers($near, 'far', $far);
	return ($near, $far);
}

# Makes a server of the given name that is a database of the other node. Without its
# option extensions no function of an extension is asked over there.
sub connect_servers
{
	my ($near, $server, $far, $dbname, $options) = @_;
	my $host = $far->host;
	my $port = $far->port;
	$dbname ||= 'postgres';
	$options = q{extensions 'streamdedup'} unless defined $options;
	$options = ", $options" if $options ne '';
	my $user = $far->safe_psql('postgres', 'SELECT current_user');
	$near->safe_psql(
		'postgres', qq{
		CREATE SERVER $server FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname '$dbname'$options);
		CREATE USER MAPPING FOR CURRENT_USER SERVER $server OPTIONS (user '$user');
	});
	return;
}

# How many rows a query's scan of the table with this alias gave to what is above it.
sub scanned_rows
{
	my ($node, $alias, $sql) = @_;
	return $node->safe_psql(
		'postgres', qq{
		CREATE FUNCTION pg_temp.explained(query text) RETURNS jsonb LANGUAGE plpgsql AS \$\$
		DECLARE
			plan jsonb;
		BEGIN
			EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
			RETURN plan;
		END \$\$;
		SELECT (n->>'Actual Rows')::numeric::bigint
		FROM jsonb_path_query(pg_temp.explained(\$q\$$sql\$q\$), 'strict \$.** ? (\@."Alias" == "$alias")') n;
	});
}

# What a query sends to other servers, one line each.
sub remote_sql
{
	my ($node, $sql, $settings) = @_;
	my $plan = $node->safe_psql('postgres', ($settings || '') . "EXPLAIN (VERBOSE, COSTS OFF) $sql");
	return join("\n", $plan =~ /Remote SQL: (.*)$/mg);
}

1;
