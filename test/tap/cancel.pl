# Calls on large filters that are cancelled: the remaining filters are complete. Each call runs with several
# timeouts, so it is cancelled at several of its pauses, or not at all. The checks do not depend on which.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $node = start_node('cancel');

# Exact filters of both orders, full ones of several methods, and an array of keys.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE filters (name text PRIMARY KEY, f dedup_filter, g dedup_filter);
	INSERT INTO filters
	SELECT 'exact set', dedup_agg(dedup_filter(10000000), k), dedup_agg(dedup_filter(10000000), k + 40000)
	FROM generate_series(1, 120000) k;
	INSERT INTO filters
	SELECT 'exact window', dedup_agg(dedup_window(10000000), k), dedup_agg(dedup_window(10000000), k + 40000)
	FROM generate_series(1, 120000) k;
	CREATE TABLE key_lists (keys int[]);
	INSERT INTO key_lists SELECT array_agg(k) FROM generate_series(1000001, 1040000) k;

	DO $$
	DECLARE
		method text;
	BEGIN
		FOREACH method IN ARRAY ARRAY['blocked_bloom', 'recent', 'quotient', 'a2', 'lru'] LOOP
			EXECUTE format(
				'INSERT INTO filters SELECT %1$L, dedup_agg(%2$s, k), dedup_agg(%2$s, k + 50000)
				FROM generate_series(1, 100000) k',
				method,
				format('dedup_method(%L, %L)', method, CASE method WHEN 'quotient' THEN '4MB' ELSE '700kB' END));
		END LOOP;
	END $$;

	-- Runs a call on a variable, and says how that ended. If it was cancelled the variable
	-- has the bytes that it had, and takes keys; if not, those that the call gives.
	CREATE FUNCTION run(which text, call text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		f dedup_filter;
		g dedup_filter;
		keys int[];
		before bytea;
		given bytea;
		cancelled bool := false;
	BEGIN
		SELECT t.f, t.g INTO f, g FROM filters t WHERE name = which;
		SELECT l.keys INTO keys FROM key_lists l;
		f := dedup_add(f, 0);
		before := f::bytea;
		BEGIN
			CASE call
				WHEN 'merge' THEN f := dedup_merge(f, g);
				WHEN 'with itself' THEN f := f || f;
				WHEN 'add' THEN
					f := dedup_add(f, -1);
				WHEN 'add twice' THEN
					f := dedup_add(dedup_add(f, -1), -2);
				WHEN 'add all' THEN f := dedup_add_all(f, keys);
				WHEN 'text' THEN f := f::text::dedup_filter;
			END CASE;
		EXCEPTION WHEN query_canceled THEN
			cancelled := true;
		END;
		IF cancelled AND f::bytea <> before THEN
			RAISE EXCEPTION 'the variable was changed';
		END IF;
		-- It is a filter, which takes keys and finds them.
		given := f::bytea;
		f := dedup_add(f, -3);
		IF NOT dedup_contains(f, -3) OR (SELECT count(*) FROM dedup_stats(given::dedup_filter)) <> 1 THEN
			RAISE EXCEPTION 'the variable is no whole filter';
		END IF;
		RETURN CASE WHEN cancelled THEN 'cancelled' ELSE md5(given) END;
	END $$;
});

# Runs it with some timeouts and without one. Returns how often it was cancelled within, and
# what was wrong: an error that is no timeout's, or another result than without one.
sub cancel_ever_later
{
	my ($sql) = @_;
	my ($rc, $stdout, $stderr) = $node->psql(
		'postgres',
		join('', map { "SET statement_timeout = $_; $sql;\n" } (1, 2, 3, 5, 7, 10, 15, 25, 0)),
		on_error_stop => 0);
	my @results = split /\n/, $stdout;
	my $whole = $results[-1] // '';
	my @wrong = grep { $_ ne 'cancelled' && $_ ne $whole } @results;
	# of a timeout that fires while it is being disarmed the server says that the user has cancelled
	push @wrong, grep { /ERROR|FATAL/ && !/canceling statement due to (statement timeout|user request)/ }
	  split /\n/, $stderr;
	push @wrong, 'it did not end' if $whole eq '' || $whole eq 'cancelled';
	return (scalar(grep { $_ eq 'cancelled' } @results), join("\n", @wrong));
}

my %calls = (
	'exact set' => [ 'merge', 'with itself', 'add', 'add all', 'text' ],
	'exact window' => [ 'merge', 'add all' ],
	'blocked_bloom' => [ 'merge', 'add twice', 'text' ],
	'recent' => [ 'merge', 'add all' ],
	'quotient' => [ 'add', 'add all' ],
	'a2' => ['add all'],
	'lru' => [ 'merge', 'text' ]);

foreach my $which (sort keys %calls)
{
	foreach my $call (@{ $calls{$which} })
	{
		my ($cancelled, $wrong) = cancel_ever_later("SELECT run('$which', '$call')");
		is($wrong, '', "$which, $call");
		note("cancelled $cancelled times");
	}
}

# What a call site keeps of a filter is all of it or nothing: the index over a window's hashes
# is made in the first call, and a cancelled one leaves none that answers wrongly.
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION ask(f dedup_filter, key int) RETURNS bool LANGUAGE plpgsql AS
		$$ BEGIN RETURN dedup_contains(f, key); END $$;
	CREATE FUNCTION ask_both() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		f dedup_filter;
		g dedup_filter;
		cancelled bool := false;
		answers text;
	BEGIN
		SELECT t.f, t.g INTO f, g FROM filters t WHERE name = 'exact window';
		f := (f::bytea)::dedup_filter;
		g := (g::bytea)::dedup_filter;
		BEGIN
			answers := concat(ask(f, 1), ask(g, 1), ask(f, 150000), ask(g, 150000));
		EXCEPTION WHEN query_canceled THEN
			cancelled := true;
		END;
		answers := concat(ask(f, 1), ask(g, 1), ask(f, 150000), ask(g, 150000));
		IF answers <> 'tfft' THEN
			RAISE EXCEPTION 'wrong answers: %', answers;
		END IF;
		RETURN CASE WHEN cancelled THEN 'cancelled' ELSE answers END;
	END $$;
});
my ($cancelled, $wrong) = cancel_ever_later('SELECT ask_both()');
is($wrong, '', 'an index that a call site keeps');
note("cancelled $cancelled times");

# Filters of the table were never touched.
is( $node->safe_psql(
		'postgres', q{
		SELECT string_agg(name, ', ') FROM filters
		WHERE NOT (SELECT bool_and(dedup_contains(f, k)) FROM generate_series(99001, 100000) k)}),
	'', 'the stored filters are whole');

done_testing();
