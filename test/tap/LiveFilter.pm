# The common functions of the TAP tests of live filters.
package LiveFilter;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use Test::More;

# Servers before 15 call these PostgresNode and TestLib, and can do less.
BEGIN
{
	eval {
		require PostgreSQL::Test::Cluster;
		require PostgreSQL::Test::Utils;
		1;
	} or plan skip_all => 'PostgreSQL::Test::Cluster is not there';
}

our @EXPORT = qw(start_node configure filter_sql sqlstate messages seen new_among no_bad_pages
  workload workload_holds live_session rebuild_beside_sessions);

# The prototype of the filters here: no false positive disturbs.
sub filter_sql { return 'dedup_filter(100000, 1e-6, 42)' }

# Settings under which nothing happens but what the test does.
sub configure
{
	my ($node, @settings) = @_;
	$node->append_conf('postgresql.conf',
		join("\n", 'autovacuum = off', 'checkpoint_timeout = 1h', 'log_statement = none', @settings, ''));
	return;
}

# A new node with the extension. Of the named parameters, settings is for the
# configuration file and the others are init's. Tests that damage pages give checksums => 0: from
# 18 on initdb turns on the server's own data checksums, which would find the damage first.
sub start_node
{
	my ($name, %params) = @_;
	my $settings = delete $params{settings} || [];
	my $checksums = exists $params{checksums} ? delete $params{checksums} : 1;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$params{extra} = ['--no-data-checksums'] if !$checksums && $node->pg_version >= 18;
	$node->init(%params);
	configure($node, @$settings);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION streamdedup');
	return $node;
}

# Runs statements up to the first error; what psql said about that, with its SQLSTATE,
# DETAIL, HINT and CONTEXT. Empty if there was none.
sub messages
{
	my ($node, $dbname, $sql) = @_;
	my ($rc, $stdout, $stderr) =
	  $node->psql($dbname, "\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
	return $rc == 0 ? '' : $stderr;
}

# The same, the SQLSTATE only.
sub sqlstate
{
	my $said = messages(@_);
	return $said =~ /ERROR:\s+([0-9A-Z]{5}):/ ? $1 : $said;
}

# How many of the keys $from to $to the filter has seen; asks only.
sub seen
{
	my ($node, $filter, $from, $to, $dbname) = @_;
	return $node->safe_psql($dbname || 'postgres',
		"SELECT count(*) FILTER (WHERE dedup_seen('$filter'::regclass, k)) FROM generate_series($from, $to) k");
}

# How many of them are new, and remembers them.
sub new_among
{
	my ($node, $filter, $from, $to, $dbname) = @_;
	return $node->safe_psql($dbname || 'postgres',
		"SELECT count(*) FILTER (WHERE is_new('$filter'::regclass, k)) FROM generate_series($from, $to) k");
}

# Every page passes its checks.
sub no_bad_pages
{
	my ($node, $filter, $what, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql($dbname || 'postgres', "SELECT * FROM dedup_check('$filter')"),
		'', "no bad page: $what");
}

# Everything that happens to keys, on a filter of its own: long transactions and short
# ones, savepoints, errors, batches, forgetting, a guarded table, VACUUM. The table
# <filter>_said holds what must be true of each key afterwards. Of the keys from 1 on,
# every 1,000,000 for a run. Without a prototype the filter does not grow.
sub workload
{
	my ($node, $filter, $run, $prototype) = @_;
	my $base = $run * 1_000_000;
	$prototype ||= 'dedup_filter(200000, 1e-6, 42)';
	if ($run == 0)
	{
		$node->safe_psql(
			'postgres', qq{
			SELECT dedup_create('$filter', $prototype);
			CREATE TABLE ${filter}_said (k int, seen boolean);
			CREATE TABLE ${filter}_rows (k int CHECK (k % 10 <> 3));
			SELECT dedup_guard('${filter}_rows', '$filter', ARRAY['k']);
		});
	}
	$node->safe_psql(
		'postgres', qq{
		-- long transactions
		INSERT INTO ${filter}_said SELECT k, is_new('$filter', k) FROM generate_series($base + 1, $base + 2000) k;
		BEGIN;
		SELECT count(is_new('$filter', k)) FROM generate_series($base + 10001, $base + 12000) k;
		ROLLBACK;
		INSERT INTO ${filter}_said SELECT k, false FROM generate_series($base + 10001, $base + 12000) k;
		INSERT INTO ${filter}_said
			SELECT k, true FROM dedup_new_keys('$filter', (SELECT array_agg(k) FROM generate_series($base + 20001, $base + 22000) k)) k;

		-- short ones
		DO \$\$ BEGIN
			FOR k IN $base + 30001 .. $base + 30200 LOOP
				PERFORM is_new('$filter', k);
				IF k % 5 = 0 THEN
					ROLLBACK;
				END IF;
				INSERT INTO ${filter}_said VALUES (k, k % 5 <> 0);
				COMMIT;
			END LOOP;
		END \$\$;

		-- batches: so many that pages have no tag left for the next one; some of them are rolled
		-- back, and 20 of the 120 keys of each were in the one before
		DO \$\$ BEGIN
			FOR b IN 0 .. 99 LOOP
				PERFORM dedup_new_keys('$filter', ARRAY(SELECT $base + 60001 + b * 100 + i FROM generate_series(0, 119) i));
				IF b % 5 = 4 THEN
					ROLLBACK;
				END IF;
				COMMIT;
			END LOOP;
		END \$\$;
		INSERT INTO ${filter}_said SELECT $base + 60001 + i, (b < 100 AND b % 5 <> 4) OR (i % 100 < 20 AND b > 0 AND (b - 1) % 5 <> 4)
			FROM generate_series(0, 10019) i, LATERAL (SELECT i / 100 AS b) x;

		-- subtransactions, nested, with errors
		DO \$\$ BEGIN
			FOR k IN $base + 40001 .. $base + 40200 LOOP
				BEGIN
					PERFORM is_new('$filter', k);
					BEGIN
						PERFORM is_new('$filter', k + 1000);
						IF k % 3 = 0 THEN RAISE EXCEPTION 'inner'; END IF;
					EXCEPTION WHEN OTHERS THEN
						NULL;
					END;
					IF k % 4 = 0 THEN RAISE EXCEPTION 'outer'; END IF;
				EXCEPTION WHEN OTHERS THEN
					NULL;
				END;
				INSERT INTO ${filter}_said VALUES (k, k % 4 <> 0), (k + 1000, k % 4 <> 0 AND k % 3 <> 0);
			END LOOP;
		END \$\$;

		-- a guarded table: rows that land, rows that do not
		INSERT INTO ${filter}_rows SELECT k FROM generate_series($base + 50001, $base + 50500) k WHERE k % 10 <> 3;
		INSERT INTO ${filter}_said SELECT k, k % 10 <> 3 FROM generate_series($base + 50001, $base + 50500) k;
		DO \$\$ BEGIN
			FOR k IN $base + 52001 .. $base + 52100 LOOP
				BEGIN
					INSERT INTO ${filter}_rows VALUES (k);
				EXCEPTION WHEN check_violation THEN
					NULL;
				END;
				INSERT INTO ${filter}_said VALUES (k, k % 10 <> 3);
			END LOOP;
		END \$\$;

		-- forgetting
		SELECT count(dedup_forget('$filter', k)) FROM generate_series($base + 1, $base + 1000, 10) k;
		UPDATE ${filter}_said SET seen = false WHERE k BETWEEN $base + 1 AND $base + 1000 AND (k - $base) % 10 = 1;
		BEGIN;
		SELECT count(dedup_forget('$filter', k)) FROM generate_series($base + 2, $base + 1000, 10) k;
		ROLLBACK;
	});
	$node->safe_psql('postgres', "VACUUM $filter");
	return;
}

# Whether the filter answers as the workload said: nothing if so, else the first keys
# that it is wrong about.
sub workload_holds
{
	my ($node, $filter, $dbname) = @_;
	return $node->safe_psql($dbname || 'postgres',
		"SELECT k, seen FROM ${filter}_said WHERE seen <> dedup_seen('$filter'::regclass, k) ORDER BY k LIMIT 10");
}

# Calls dedup_rebuild() for the filter of a table so many times, in two sizes in turn, while
# sessions run a command each, until the table `control` says that it is done. No session may
# have an error.
sub rebuild_beside_sessions
{
	my ($node, $table, %how) = @_;
	my (@sessions, @said);
	$node->safe_psql('postgres', 'UPDATE control SET done = false');
	foreach my $command (@{ $how{commands} })
	{
		push @said, '';
		push @sessions,
		  IPC::Run::start(
			[ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $command ],
			'<', \undef, '>', \my $out, '2>', \$said[-1]);
	}
	foreach my $i (1 .. $how{rebuilds})
	{
		is(messages($node, 'postgres', "SET client_min_messages = error; SELECT dedup_rebuild('${table}_seen', $how{sizes}[$i % 2])"),
			'', "$table: rebuild $i");
		$node->safe_psql('postgres', "VACUUM $how{tables}") if $i % 3 == 0;
	}
	$node->safe_psql('postgres', 'UPDATE control SET done = true');
	$_->finish foreach @sessions;
	is($said[$_], '', "$table: session $_ had no error") foreach 0 .. $#said;
	return;
}

# A psql that runs on beside the test: query() waits for the answer, send() does not and
# wait() does it later. An error's answer is its SQLSTATE.
sub live_session
{
	my ($node, $dbname) = @_;
	my $self = { in => '', out => '', asked => 0, node => $node, dbname => $dbname || 'postgres' };
	$self->{timer} = IPC::Run::timeout(180);
	$self->{run} = IPC::Run::start(
		[
			'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr($self->{dbname}), '-f', '-'
		],
		'<', \$self->{in}, '>&', \$self->{out}, $self->{timer});
	bless $self, 'LiveFilter::Session';
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

package LiveFilter::Session;

sub send
{
	my ($self, $sql) = @_;
	$self->{asked}++;
	$self->{timer}->start(180);
	$self->{in} .= "$sql\n;\n\\echo answered $self->{asked}\n";
	$self->{run}->pump_nb;
	return;
}

sub wait
{
	my ($self) = @_;
	my $mark = qr/^answered $self->{asked}\r?\n/m;
	$self->{run}->pump until $self->{out} =~ $mark;
	my $answer = $self->{out};
	$answer =~ s/$mark//;
	$answer =~ s/^.*ERROR:\s+(\w{5}).*/$1/m;
	$answer =~ s/\s+\z//;
	$self->{out} = '';
	return $answer;
}

sub query
{
	my ($self, $sql) = @_;
	$self->send($sql);
	return $self->wait;
}

# Returns when the server says that the session waits for a lock; false if it does not
# come to that.
sub waits
{
	my ($self) = @_;
	$self->{run}->pump_nb;
	return $self->{node}->poll_query_until($self->{dbname},
		"SELECT wait_event_type = 'Lock' AND state = 'active' FROM pg_stat_activity WHERE pid = $self->{pid}");
}

# Ends it, whatever the server does.
sub quit
{
	my ($self) = @_;
	$self->{in} .= "\\q\n";
	eval { $self->{run}->finish };
	return;
}

1;
