# A filter has exactly the keys of its table, at any time and for each session, although its pages have no free tags.
# Few keys come and go in nested savepoints, so each has entries of many subtransactions. Another session has most of
# the tags of the pages, and an old snapshot keeps committed keys from being visible to all. The table is the model: the
# filter must agree with it after each ROLLBACK TO, RELEASE, COMMIT, ROLLBACK and PREPARE TRANSACTION, and after a
# crash. CROWDED_PAGES_SEED and CROWDED_PAGES_ROUNDS run others.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $seed = $ENV{CROWDED_PAGES_SEED} // 1;
my $rounds = $ENV{CROWDED_PAGES_ROUNDS} // 6;
my $steps = 8;
srand $seed;
note "seed $seed";

my $node = start_node('crowded_pages', settings => ['max_prepared_transactions = 4']);

# The arguments of dedup_create(), how rows get in, and whether their keys stay without them.
my %cases = (
	set => { filter => 'dedup_filter(50, 1e-7, 42)', by => 'skip' },
	rejecting => { filter => 'dedup_filter(2000, 1e-7, 42)', by => 'reject' },
	functions => { filter => 'dedup_filter(50, 1e-7, 42)', by => 'functions' },
	growing => { filter => 'dedup_filter(NULL, 1e-7, 42)', by => 'skip' },
	growing_window => { filter => q{dedup_filter(NULL, 1e-7, 42), ttl => '1 day'}, by => 'functions' },
	window => { filter => q{dedup_window(50, 1e-7, 42), ttl => '1 day'}, by => 'skip' },
	exact => { filter => 'dedup_filter(50, 1e-7, 42)', by => 'exact', keeps => 1 });
my ($name, $case);

# Keys of a writer. The two writers have different ones, so neither waits for the other.
my $keys;

# Where the table and the filter differ, for the keys from $from to $to. A negative key has two rows.
sub differences
{
	my ($from, $to, $seen) = @_;
	$seen ||= "dedup_seen('f_$name', g.k)";
	my $has = "EXISTS (SELECT FROM t_$name t WHERE t.k = g.k)";
	my $wrong = $case->{keeps} ? "$has AND NOT $seen" : "$has <> $seen";
	return "SELECT 'differs: ' || coalesce(string_agg(k::text, ' ' ORDER BY k), '') FROM ("
	  . "SELECT k FROM generate_series($from, $to) g (k) WHERE $wrong "
	  . "UNION ALL SELECT -k FROM t_$name WHERE k BETWEEN $from AND $to GROUP BY k HAVING count(*) > 1) _";
}

sub insert
{
	my ($from, $to) = @_;
	return "INSERT INTO t_$name SELECT k FROM (SELECT k, is_new('f_$name', k) AS new FROM generate_series($from, $to) k OFFSET 0) _ WHERE new"
	  if $case->{by} eq 'functions';
	my $where = $case->{by} eq 'reject' ? "WHERE NOT EXISTS (SELECT FROM t_$name t WHERE t.k = g.k)" : '';
	return "INSERT INTO t_$name SELECT k FROM generate_series($from, $to) g (k) $where";
}

sub delete
{
	my ($from, $to) = @_;
	my $sql = "DELETE FROM t_$name WHERE k BETWEEN $from AND $to";
	return $case->{by} eq 'functions'
	  ? "WITH d AS ($sql RETURNING k) SELECT FROM d WHERE NOT dedup_forget('f_$name', k)"
	  : $sql;
}

# Some statements on keys of a writer.
sub statements
{
	my ($from) = @_;
	my $k = $from + int(rand($keys));
	my $other = $from + int(rand($keys));
	my $to = $k + 3 < $from + $keys ? $k + 3 : $k;
	my @some = ([ insert($k, $k) ], [ insert($k, $to) ], [ &delete($k, $k) ], [ &delete($k, $to) ]);
	# deleted and inserted again by one subtransaction
	push @some, ([ &delete($k, $k), insert($k, $k) ]) x 3;
	push @some, [ "INSERT INTO t_$name SELECT k FROM dedup_new_keys('f_$name', ARRAY[$k, $other, $k]) k" ]
	  if $case->{by} eq 'functions';
	push @some,
	  ["WITH d AS (DELETE FROM t_$name WHERE k = $k RETURNING k) INSERT INTO t_$name SELECT k FROM d"],
	  ["UPDATE t_$name SET k = $other WHERE k = $k AND NOT EXISTS (SELECT FROM t_$name WHERE k = $other)"]
	  if $case->{by} ne 'functions';
	return @{ $some[ int(rand(@some)) ] };
}

# A writer works on in its transaction. A comparison follows each end of a savepoint.
sub work
{
	my ($writer) = @_;
	my @sql;
	my $compare = differences($writer->{from}, $writer->{from} + $keys - 1);
	if (!$writer->{open})
	{
		push @sql, 'BEGIN';
		$writer->{open} = 1;
		$writer->{depth} = 0;
	}
	foreach (0 .. int(rand(6)))
	{
		my $what = int(rand(10));
		if ($what < 2) { push @sql, 'SAVEPOINT p' . ++$writer->{depth} }
		elsif ($what < 5 && $writer->{depth} > 0)
		{
			# the inner one, or one around it
			my $to = $writer->{depth} - (int(rand(3)) ? 0 : int(rand($writer->{depth})));
			push @sql, ($what < 4 ? 'ROLLBACK TO' : 'RELEASE') . " p$to", $compare;
			$writer->{depth} = $what < 4 ? $to : $to - 1;
		}
		else { push @sql, statements($writer->{from}) }
	}
	return join(";\n", @sql, $compare);
}

# Ends a writer's transaction, or prepares it. A prepared one ends the next time.
sub finish
{
	my ($writer) = @_;
	my $sql = int(rand(2)) ? 'COMMIT' : 'ROLLBACK';
	my $compare = differences($writer->{from}, $writer->{from} + $keys - 1);
	$writer->{open} = 0;
	if ($writer->{prepared})
	{
		$writer->{prepared} = 0;
		return "$sql PREPARED 'p$writer->{from}';\n$compare";
	}
	return "$sql;\n$compare" if int(rand(6));
	$writer->{prepared} = 1;
	return "PREPARE TRANSACTION 'p$writer->{from}';\n$compare";
}

foreach (sort keys %cases)
{
	$name = $_;
	$case = $cases{$name};
	$node->safe_psql('postgres',
		"SELECT dedup_create('f_$name', $case->{filter}); CREATE TABLE t_$name (k int); CREATE INDEX ON t_$name (k)");
	$node->safe_psql('postgres', "SELECT dedup_guard('t_$name', 'f_$name', '{k}', "
		  . ($case->{keeps} ? 'exact => true)' : "on_delete => 'forget', on_duplicate => '$case->{by}')"))
	  if $case->{by} ne 'functions';
	my ($others, $old, @writers) = map { live_session($node) } 1 .. 4;
	@writers = map { { session => $writers[$_], from => 1 + 100 * $_, open => 0, prepared => 0 } } 0, 1;
	my ($wrong, $compared) = (0, 0);
	my $ask = sub {
		my ($session, $sql) = @_;
		my $got = $session->query($sql);
		$compared += () = $got =~ /^differs:/mg;
		return if $got !~ /^differs: \S/m && $got !~ /^[0-9A-Z]{5}$/m;
		diag "$name: after\n$sql\ngot\n$got" if $wrong++ < 3;
	};
	foreach my $round (1 .. $rounds)
	{
		$keys = (2, 3, 5, 20)[ int(rand(4)) ];
		# all keys so far get into their lines, since the page is more than half full
		$ask->($others, insert(1000 * $round, 1000 * $round + 100));
		$ask->($others, "VACUUM f_$name");
		# subtransactions that have most of the 16 tags of the page, or also those of some pages of its chain
		my $first = 1000 * $round + 500;
		my $last = $first + 9 + int(rand(6)) + (int(rand(3)) ? 0 : 124 * int(rand(4)));
		$ask->(
			$others,
			"BEGIN; DO \$\$ BEGIN FOR i IN $first .. $last LOOP BEGIN "
			  . insert('i', 'i')
			  . '; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$');
		$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		foreach (1 .. $steps)
		{
			foreach my $writer (@writers)
			{
				$ask->($writer->{session}, work($writer)) if !$writer->{prepared};
				$ask->($writer->{session}, finish($writer)) if int(rand(3));
			}
		}
		$ask->($old, differences(1, 1000 * $round, "dedup_contains((SELECT dedup_snapshot('f_$name')), g.k)"));
		$old->query('ROLLBACK');
		last if $round == $rounds;
		while (my @open = grep { $_->{open} || $_->{prepared} } @writers)
		{
			$ask->($_->{session}, finish($_)) foreach @open;
		}
		$ask->($others, int(rand(2)) ? 'COMMIT' : 'ROLLBACK');
		$ask->($others, differences(1, 1000 * $round + 999));
		# so that the filter is never fuller than it should be
		$ask->($others, &delete(1000 * $round, 1000 * $round + 999));
		$ask->($others, "SELECT dedup_rebuild('f_$name')") if $case->{keeps};
	}
	is($wrong, 0, "$name: the filter agrees with the table");
	cmp_ok($compared, '>', $rounds * $steps, "$name: in $compared comparisons");

	# a crash in the middle of the last round
	$node->safe_psql('postgres', "SELECT is_new('f_$name', 1000000)");
	$node->stop('immediate');
	$_->quit foreach $others, $old, map { $_->{session} } @writers;
	$node->start;
	$node->safe_psql('postgres', finish($_)) foreach grep { $_->{prepared} } @writers;
	is($node->safe_psql('postgres', differences(1, 1000 * $rounds + 999)), 'differs: ', "$name: after a crash");
	no_bad_pages($node, "f_$name", $name);
}

# Keys of an exact guard whose rows come back while an old snapshot exists have many entries. In a snapshot value they
# take one slot each, so it misses none of the others.
my $old = live_session($node);
$node->safe_psql(
	'postgres', q{
	SELECT dedup_create('back_seen', dedup_filter(1000, 1e-7, 42));
	CREATE TABLE back (k int PRIMARY KEY);
	SELECT dedup_guard('back', 'back_seen', '{k}', exact => true);
	INSERT INTO back SELECT generate_series(1, 500);
	VACUUM back_seen;
});
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql(
	'postgres', q{DO $$ BEGIN
		FOR i IN 1 .. 30 LOOP
			DELETE FROM back WHERE k % 5 = 0;
			COMMIT;
			INSERT INTO back SELECT generate_series(5, 500, 5);
			COMMIT;
		END LOOP;
	END $$});
is( $node->safe_psql(
		'postgres', q{SELECT count(*) FILTER (WHERE dedup_contains(s, k))
		FROM (SELECT dedup_snapshot('back_seen') s OFFSET 0) _, generate_series(1, 500) k}),
	500, 'a snapshot value has all keys, however often their rows came back');
$old->quit;

$node->stop;
done_testing();
