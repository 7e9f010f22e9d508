# Deleted rows may be inserted again, also if there are more than work_mem holds: random
# operations of one session on a guarded table, compared with a model. deleted_rows.pl has
# the rule, and more kinds of operations.
#
# Here a statement takes many keys of 20,000 at once. Every key has at most one row, and
# the state is: part_of, of the keys with a row; seen; rights.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use DeletedRows;
use LiveFilter;
use Test::More;

srand($ENV{DELETED_ROWS_SEED} || 20261129);
my $many = 20_000;
my $node = start_node('main', settings => ['work_mem = 64kB']);
my $psql = live_session($node);
my ($state, $committed, @savepoints);    # a savepoint is a copy of the state
my $operations;

sub copy { my ($s) = @_; return { map { $_ => { %{ $s->{$_} } } } keys %$s } }

sub insert_many
{
	my ($s, $part, @keys) = @_;
	my $landed = 0;
	foreach my $k (@keys)
	{
		next if $s->{seen}{$k} && !$s->{rights}{$k};
		take_key($s, $k);
		$s->{part_of}{$k} = $part // $k % 3;
		$landed++;
	}
	return $landed;
}

sub delete_many
{
	my ($s, @keys) = @_;
	@keys = grep { defined delete $s->{part_of}{$_} } @keys;
	leave_key($s, $_) foreach @keys;
	return scalar @keys;
}

sub operation
{
	my ($s) = @_;
	my $modulus = among(1, 1, 2, 3, 7);
	my $rest = int(rand $modulus);
	my @keys = grep { $_ % $modulus == $rest } 1 .. $many;
	my @there = grep { exists $s->{part_of}{$_} } @keys;
	my $where = "k % $modulus = $rest";
	my $source = "FROM generate_series(1, $many) k WHERE $where";
	my $part = int(rand 3);
	my $what = rand();
	return [ "DELETE FROM a WHERE $where", delete_many($s, @keys), '' ] if $what < 0.35;
	return [ insert_sql('a') . " SELECT k, k, k % 3, NULL, NULL, 'plain' $source", insert_many($s, undef, @keys), '' ]
	  if $what < 0.65;
	# each key twice: the second one is refused
	return [
		insert_sql('a') . " SELECT k, k, $part, NULL, NULL, 'plain' FROM (SELECT k $source) x, generate_series(1, 2)",
		insert_many($s, $part, @keys), '' ]
	  if $what < 0.75;
	if ($what < 0.87)
	{
		delete_many($s, @keys);
		return [
			"WITH d AS (DELETE FROM a WHERE $where RETURNING k) " . insert_sql('a') . " SELECT k, k, $part, NULL, NULL, 'plain' FROM d",
			insert_many($s, $part, @there), '' ];
	}
	if ($what < 0.93)
	{
		$s->{part_of}{$_} = $part foreach @there;
		return [ "UPDATE a SET part = $part WHERE $where", scalar @there, '' ];
	}
	delete_many($s, grep { $s->{part_of}{$_} == $part } keys %{ $s->{part_of} });
	return [ "TRUNCATE a$part", 0, '' ];
}

sub transaction
{
	$state = copy($committed);
	@savepoints = ();
	expect('BEGIN', 0);
	for (1 .. 3 + int(rand 8))
	{
		my $what = rand();
		if ($what < 0.15)
		{
			push @savepoints, copy($state);
			expect('SAVEPOINT s' . @savepoints, 0);
		}
		elsif ($what < 0.3 && @savepoints)
		{
			expect('ROLLBACK TO s' . @savepoints, 0);
			$state = copy($savepoints[-1]);
		}
		elsif ($what < 0.35 && @savepoints)
		{
			expect('RELEASE s' . @savepoints, 0);
			pop @savepoints;
		}
		else
		{
			expect(@{ operation($state) });
			$operations++;
		}
	}
	my $commits = rand() < 0.7;
	expect($commits ? 'COMMIT' : 'ROLLBACK', 0);
	$committed = $state if $commits;
	$committed->{rights} = {};
	# the table fills itself again
	if (keys %{ $committed->{part_of} } < $many / 3)
	{
		expect("SELECT '# forgot', count(dedup_forget('f', k)) FROM generate_series(1, $many) k", 1, '', "# forgot|$many");
		expect('TRUNCATE a', 0);
		expect(insert_sql('a') . " SELECT k, k, k % 3, NULL, NULL, 'plain' FROM generate_series(1, $many) k", $many);
		$committed = { map { $_ => {} } qw(part_of seen added rights) };
		insert_many($committed, undef, 1 .. $many);
	}
	my ($rows, $sum, $squares, $parts) = (0) x 4;
	while (my ($k, $part) = each %{ $committed->{part_of} })
	{
		$rows++;
		$sum += $k;
		$squares += $k * $k;
		$parts += $part * $k;
	}
	send_line(q{SELECT '# rows', count(*), coalesce(sum(k), 0), coalesce(sum(k::bigint * k), 0), coalesce(sum(part * k), 0) FROM a;
	SELECT '# seen', count(*), sum(k) FROM generate_series(1, } . "$many) k WHERE dedup_seen('f', k);");
	must_print("# rows|$rows|$sum|$squares|$parts");
	my @seen = keys %{ $committed->{seen} };
	$sum = 0;
	$sum += $_ foreach @seen;
	must_print('# seen|' . @seen . "|$sum");
	return;
}

$psql->query(
	qq{
	SET client_min_messages = error;
	SELECT dedup_create('f', ${\filter_sql()});
	CREATE TABLE a (id int, k int, part int, u int, p int, v text, UNIQUE (u, part)) PARTITION BY LIST (part);
	CREATE TABLE a0 PARTITION OF a FOR VALUES IN (0);
	CREATE TABLE a1 PARTITION OF a FOR VALUES IN (1);
	CREATE TABLE a2 PARTITION OF a FOR VALUES IN (2);
	SELECT dedup_guard('a', 'f', '{k}')});
start_script();
$committed = { map { $_ => {} } qw(part_of seen added rights) };
expect(insert_sql('a') . " SELECT k, k, k % 3, NULL, NULL, 'plain' FROM generate_series(1, $many) k", $many);
insert_many($committed, undef, 1 .. $many);
my $differs = run_script($psql);
is($differs, undef, "$many rows");
$operations = 0;
for my $number (1 .. 8)
{
	start_script();
	transaction();
	$differs = run_script($psql);
	if (defined $differs)
	{
		diag("transaction $number:\n$differs");
		last;
	}
}
ok(!defined $differs, "more deleted rows than work_mem holds: $operations operations");

$psql->quit;
my @complaints = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /^.*(?:leak|PANIC|TRAP).*$/mg;
is(join("\n", @complaints), '', 'the server has nothing to complain of');

done_testing();
