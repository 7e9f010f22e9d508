# Random programs of nested savepoints that add and forget keys, compared with a simple model: a stack of sets of
# keys. Two writers have keys of their own in the same few pages. The model predicts every answer, what other
# sessions see when a transaction has ended, what old snapshots see, and what is left after a crash. Pages of filters
# that grow split meanwhile. FORGET_MODEL_SEED and FORGET_MODEL_ROUNDS run others.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $seed = $ENV{FORGET_MODEL_SEED} // 1;
my $rounds = $ENV{FORGET_MODEL_ROUNDS} // 25;
srand $seed;
note "seed $seed";

# Keys of a writer: many operations meet on each of the first, the others fill the page.
my $hot = 12;
my $all = 90;

my $node = start_node('forget_model', allows_streaming => 1, settings => ['max_prepared_transactions = 4']);
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('forget_model_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = -1");
$standby->start;
my %shapes = (
	set => 'dedup_filter(400, 1e-6, 42)',
	window => 'dedup_window(400, 1e-6, 42)',
	timed => q{dedup_window(400, 1e-6, 42), ttl => '1 day'},
	growing => 'dedup_filter(NULL, 1e-6, 42)',
	growing_timed => q{dedup_filter(NULL, 1e-6, 42), ttl => '1 day'});

sub key_of
{
	my ($writer) = @_;
	my $k = int(rand(5)) ? int(rand($hot)) : int(rand($all));
	return 1000 * $writer->{number} + $k;
}

# Some statements of a writer: what they say is compared with the model.
sub statements
{
	my ($writer, $filter) = @_;
	my (@sql, @expected);
	my $stack = $writer->{stack};
	foreach (0 .. int(rand(8)))
	{
		my $what = int(rand(16));
		my $top = $stack->[-1];
		my $k = key_of($writer);
		if ($what < 5)
		{
			push @sql, "SELECT is_new('$filter', $k)";
			push @expected, $top->{$k} ? 'f' : 't';
			$top->{$k} = 1;
		}
		elsif ($what < 9)
		{
			push @sql, "SELECT dedup_forget('$filter', $k)";
			push @expected, $top->{$k} ? 't' : 'f';
			delete $top->{$k};
		}
		elsif ($what < 10)
		{
			push @sql, "SELECT dedup_seen('$filter', $k)";
			push @expected, $top->{$k} ? 't' : 'f';
		}
		elsif ($what < 11)
		{
			my @keys = map { key_of($writer) } 1 .. 3;
			push @sql, "SELECT count(*) FROM dedup_new_keys('$filter', ARRAY[" . join(',', @keys) . '])';
			my $new = 0;
			foreach (@keys)
			{
				$new++ unless $top->{$_};
				$top->{$_} = 1;
			}
			push @expected, $new;
		}
		elsif ($what < 14)
		{
			push @sql, 'SAVEPOINT p' . scalar(@$stack);
			push @$stack, {%$top};
		}
		elsif (@$stack > 1)
		{
			# to this savepoint or one around it
			my $depth = 1 + int(rand(@$stack - 1));
			if ($what == 14)
			{
				push @sql, "ROLLBACK TO p$depth";
				$#$stack = $depth - 1;
				push @$stack, { %{ $stack->[-1] } };
			}
			else
			{
				push @sql, "RELEASE p$depth";
				$#$stack = $depth - 1;
				$stack->[-1] = $top;
			}
		}
	}
	return (\@sql, \@expected);
}

# Ends a writer's transaction in one way or another.
sub finish
{
	my ($writer) = @_;
	my $session = $writer->{session};
	my $commits = int(rand(4));
	if (int(rand(4)) == 0)
	{
		$session->query("PREPARE TRANSACTION 'p$writer->{number}'");
		$session->query(($commits ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$writer->{number}'");
	}
	else
	{
		$session->query($commits ? 'COMMIT' : 'ROLLBACK');
	}
	$writer->{committed} = $writer->{stack}[-1] if $commits;
	$writer->{stack} = undef;
	return;
}

sub begin
{
	my ($writer) = @_;
	$writer->{session}->query('BEGIN');
	$writer->{stack} = [ { %{ $writer->{committed} } } ];
	return;
}

# The keys that are there, of all that can be.
sub keys_by
{
	my ($expression) = @_;
	return "SELECT coalesce(string_agg(k::text, ' ' ORDER BY k), '') FROM generate_series(1, 2) w, "
	  . "LATERAL generate_series(1000 * w, 1000 * w + $all) k WHERE $expression";
}

sub keys_of { return join(' ', sort { $a <=> $b } map { keys %$_ } @_) }

foreach my $shape (sort keys %shapes)
{
	my $filter = "f_$shape";
	$node->safe_psql('postgres', "SELECT dedup_create('$filter', $shapes{$shape})");
	my @writers =
	  map { { number => $_, session => live_session($node), committed => {}, stack => undef } } 1, 2;
	my $reader = live_session($node);
	my ($old, $old_keys);
	my ($wrong, $answers, $looks, $too_old) = (0, 0, 0, 0);
	my $others = 3_000_000;
	my $differ = sub {
		my ($what, $got, $expected) = @_;
		return if $got eq $expected || $wrong++ > 3;
		diag "$shape: $what: got\n$got\nexpected\n$expected";
	};

	foreach my $round (1 .. $rounds)
	{
		foreach my $step (0 .. 5 + int(rand(20)))
		{
			my $writer = $writers[ int(rand(2)) ];
			begin($writer) unless $writer->{stack};
			my ($sql, $expected) = statements($writer, $filter);
			my $got = $writer->{session}->query(join(";\n", @$sql, 'SELECT 1'));
			push @$expected, 1;
			$answers += @$expected;
			$differ->(join("; ", @$sql), $got, join("\n", @$expected));
			if (int(rand(12)) == 0)
			{
				my $seen = int(rand(2)) ? "dedup_seen('$filter', k)" : "dedup_contains((SELECT dedup_snapshot('$filter')), k)";
				$differ->('the writer itself',
					$writer->{session}->query(keys_by("$seen AND k / 1000 = $writer->{number}")),
					keys_of($writer->{stack}[-1]));
				$looks++;
			}
			finish($writer) if int(rand(6)) == 0;
			if (int(rand(20)) == 0)
			{
				# what others see of open transactions: what was committed before
				$differ->('another session', $reader->query(keys_by("dedup_seen('$filter', k)")),
					keys_of(map { $_->{committed} } @writers));
				$looks++;
			}
			$node->safe_psql('postgres', "VACUUM $filter") if int(rand(25)) == 0;
			if ($shape =~ /growing/ && $others < 3_030_000 && int(rand(5)) == 0)
			{
				$differ->('other keys', new_among($node, $filter, $others + 1, $others + 700), 700);
				$others += 700;
			}
			if (!$old && int(rand(12)) == 0)
			{
				# on a standby, too, which does not hold the primary back
				my $where = int(rand(6)) ? $node : $standby;
				if ($where == $standby)
				{
					# the log of what has committed may not have left the buffers yet
					$node->safe_psql('postgres', "SELECT is_new('$filter', 1000000 + $round * 100 + $step)");
					$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
				}
				$old = live_session($where);
				$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
				$old_keys = keys_of(map { $_->{committed} } @writers);
			}
			elsif ($old && int(rand(15)) == 0)
			{
				my $got = $old->query(keys_by("dedup_contains((SELECT dedup_snapshot('$filter')), k)"));
				if ($got =~ /^40001/) { $too_old++ }
				else { $differ->('an old snapshot', $got, $old_keys) }
				$looks++;
				$old->quit;
				$old = undef;
			}
		}
		foreach my $writer (@writers)
		{
			finish($writer) if $writer->{stack};
		}
		$differ->('at the end', $reader->query(keys_by("dedup_seen('$filter', k)")),
			keys_of(map { $_->{committed} } @writers));
	}
	is($wrong, 0, "$shape: $answers answers and $looks looks are those of the model");
	note("$too_old snapshots of a standby were too old");
	is(seen($node, $filter, 3_000_001, $others), $others - 3_000_000,
		"$shape: none of the other keys is missing, which made pages split")
	  if $shape =~ /growing/;
	no_bad_pages($node, $filter, $shape);

	# a crash in the middle
	begin($_) foreach @writers;
	foreach (1 .. 12)
	{
		my $writer = $writers[ $_ % 2 ];
		my ($sql) = statements($writer, $filter);
		$writer->{session}->query(join(";\n", @$sql, 'SELECT 1'));
	}
	$node->safe_psql('postgres', 'CHECKPOINT') if int(rand(2));
	$node->stop('immediate');
	$_->quit foreach $reader, ($old ? $old : ()), map { $_->{session} } @writers;
	$node->start;
	is($node->safe_psql('postgres', keys_by("dedup_seen('$filter', k)")),
		keys_of(map { $_->{committed} } @writers), "$shape: after a crash, what had been committed");
	no_bad_pages($node, $filter, "$shape, after a crash");
}

# More transactions than a page has tags for, none of which can be settled: forgetting always
# finds room. Rolled back it changes nothing.
my $old = live_session($node);
foreach my $shape (sort keys %shapes)
{
	my $filter = "t_$shape";
	$node->safe_psql('postgres', "SELECT dedup_create('$filter', $shapes{$shape})");
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql(
		'postgres', "DO \$\$ BEGIN
			FOR k IN 1 .. 400 LOOP
				PERFORM is_new('$filter', k);
				COMMIT;
			END LOOP;
		END \$\$");
	my $forgotten = "SELECT count(*) FILTER (WHERE dedup_forget('$filter', k)) FROM generate_series(1, 400) k";
	is($node->safe_psql('postgres', "BEGIN; $forgotten; ROLLBACK"), 400, "$shape: forgets beyond the tags of a page");
	is(seen($node, $filter, 1, 400), 400, "$shape: which was rolled back");
	my $snapshot = "SELECT count(*) FROM generate_series(1, 400) k, "
	  . "(SELECT dedup_snapshot('$filter') s OFFSET 0) _ WHERE dedup_contains(s, k)";
	is( $node->safe_psql(
			'postgres', "BEGIN;
			DO \$\$ BEGIN
				FOR k IN 401 .. 600 LOOP
					BEGIN
						PERFORM is_new('$filter', k);
					EXCEPTION WHEN OTHERS THEN
						RAISE;
					END;
				END LOOP;
				FOR k IN 1 .. 600 LOOP
					BEGIN
						PERFORM dedup_forget('$filter', k);
						IF k % 2 = 0 THEN
							RAISE EXCEPTION 'again';
						END IF;
					EXCEPTION WHEN raise_exception THEN
						NULL;
					END;
				END LOOP;
			END \$\$;
			SELECT count(*), count(*) FILTER (WHERE k % 2 = 0) FROM generate_series(1, 600) k WHERE dedup_seen('$filter', k);
			$forgotten;
			SELECT count(*) FROM generate_series(1, 600) k WHERE dedup_seen('$filter', k);
			COMMIT"),
		"300|300\n200\n100", "$shape: as many subtransactions");
	is(seen($node, $filter, 1, 600), 100, "$shape: and committed");
	is($old->query($snapshot), 0, "$shape: an old snapshot sees none of the keys");
	$old->query('ROLLBACK');
	no_bad_pages($node, $filter, "$shape, beyond its tags");
	$node->safe_psql('postgres', "VACUUM $filter");
	is($node->safe_psql('postgres', "SELECT count, in_flight, overflow_pages FROM dedup_stats('$filter')"),
		'100|0|0', "$shape: VACUUM leaves the keys that are there");
}

# A session that does not wait sees a key all the time while others forget it and add it again, however they end.
$node->safe_psql('postgres', "SELECT dedup_create('again', dedup_filter(1000000, 1e-6, 42)); SELECT is_new('again', 1)");
$old->send(
	"DO \$\$ BEGIN
		FOR i IN 1 .. 5000 LOOP
			PERFORM dedup_forget('again', 1);
			PERFORM is_new('again', 1);
			IF i % 2 = 0 THEN
				ROLLBACK;
			END IF;
			COMMIT;
		END LOOP;
	END \$\$");
is( $node->safe_psql(
		'postgres', "SELECT count(*) FILTER (WHERE NOT dedup_seen('again', 1)) FROM generate_series(1, 300000)"),
	0, 'a key that others forget and add again is always seen');
$old->wait;

$standby->stop;
$node->stop;
done_testing();
