# Need F6: settings that are kept in tables are missing from a dump. A live filter's definition and its contents are
# part of the relation, which pg_dump writes anyway.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('main');
my $dir = $node->basedir;
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('a', dedup_window(12345, 0.002), '7 days');
	SELECT count(is_new('a', k)) FROM generate_series(1, 1000) k;
	SELECT dedup_create('b', dedup_filter(777, 0.03));
	SELECT dedup_create('c', dedup_window(54321), unlogged => true)});
my $stats = q{SELECT f, keys, fpr, ttl FROM unnest('{a,b,c}'::text[]) f, dedup_stats(f) ORDER BY f};
my $settings = "a|12345|0.002|7 days\nb|777|0.03|\nc|54321|0.01|";
is($node->safe_psql('postgres', $stats), $settings, 'settings');

foreach my $options ([], ['--schema-only'], ['-Fc'], [ '-t', 'a', '-t', 'b', '-t', 'c' ])
{
	my $what = join(' ', 'pg_dump', @$options);
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS restored');
	$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
	$node->safe_psql('restored', 'CREATE EXTENSION streamdedup') if grep { $_ eq '-t' } @$options;
	$node->command_ok([ 'pg_dump', @$options, '-f', "$dir/dump", '-d', $node->connstr('postgres') ], $what);
	$node->command_ok(
		[
			(grep { $_ eq '-Fc' } @$options)
			? ('pg_restore', '-e', '-d', $node->connstr('restored'), "$dir/dump")
			: ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', "$dir/dump")
		],
		"restored from $what");
	is($node->safe_psql('restored', $stats), $settings, "settings after $what");
	is( $node->safe_psql('restored', q{SELECT relname, relpersistence FROM pg_class WHERE relname IN ('a', 'c') ORDER BY 1}),
		"a|p\nc|u", "logged or not as before, after $what");
	is(seen($node, 'a', 1, 1000, 'restored'), $what =~ /schema/ ? 0 : 1000, "contents after $what");
}
$node->stop;

done_testing();
