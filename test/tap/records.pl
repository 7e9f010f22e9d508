# Recovery can end behind any WAL record: of a split of a page that has a long chain, and of the
# division of a long chain. A copy of the server recovers to behind each of them, one after the
# other. While it stands there its readers see all keys; then it is promoted, and takes more.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use File::Find qw(find);
use LiveFilter;
use PostgreSQL::Test::Utils qw(run_command);
use Test::More;
use Time::HiRes ();

my $node = start_node(
	'main',
	allows_streaming => 1,
	has_archiving => 1,
	extra => ['--wal-segsize=1'],
	settings => ['synchronous_commit = on', 'full_page_writes = off']);

# Adds keys one by one, `$step` in a transaction.
$node->safe_psql(
	'postgres', q{
	CREATE PROCEDURE add_keys(filter regclass, from_key int, to_key int, step int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR k IN from_key .. to_key LOOP
			PERFORM is_new(filter, k);
			IF k % step = 0 THEN COMMIT; END IF;
		END LOOP;
	END $$;
	SELECT dedup_create('split', dedup_filter(fpr => 0.0001, seed => 42)), dedup_create('fan', dedup_filter(500, 0.0001, 42));
});

sub value { return $node->safe_psql('postgres', $_[0]) }

# An old snapshot: nothing is settled, so pages run out of tags.
my $old = live_session($node);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');

# What is there before: a page that is about to split, and one that is about to get a fan.
my %before = (split => 690, fan => 390);
value(q{CALL add_keys('split', 1, 240, 4); CALL add_keys('split', 241, 690, 2); CALL add_keys('fan', 1, 390, 2)});
is(value(q{SELECT splits FROM dedup_stats('split')}), 0, 'not split yet');
cmp_ok(value(q{SELECT overflow_pages FROM dedup_stats('split')}), '>', 3, 'a chain with a fan');
is(value(q{SELECT overflow_pages FROM dedup_stats('fan')}), 2, 'a chain without one');
value('CHECKPOINT');
$node->backup('before');

my $start = value('SELECT pg_current_wal_insert_lsn()');
for (my $k = $before{split} + 2; value(q{SELECT splits FROM dedup_stats('split')}) == 0; $k += 2)
{
	value(sprintf q{CALL add_keys('split', %d, %d, 2)}, $k - 1, $k);
}
value(q{CALL add_keys('fan', 391, 540, 2)});
my $end = value('SELECT pg_current_wal_insert_lsn()');
cmp_ok(value(q{SELECT overflow_pages FROM dedup_stats('fan')}), '>', 3, 'a chain with a fan');
value('SELECT pg_switch_wal()');
my %file = map { $_ => value("SELECT pg_relation_filenode('$_')") } keys %before;

# The records that change more than one page of a filter: each of them is a step of the two.
my ($dump, $errors) = run_command(
	[ 'pg_waldump', '--rmgr=Generic', "--start=$start", "--end=$end", '--path=' . $node->data_dir . '/pg_wal' ]);
is($errors, '', 'pg_waldump');
$old->query('COMMIT');
$node->stop;

my @records;
foreach my $line (split /\n/, $dump)
{
	my ($lsn) = $line =~ m{lsn: ([0-9A-F]+/[0-9A-F]+)} or next;
	my ($filter) = grep { $line =~ m{rel \d+/\d+/$file{$_} } } keys %file;
	my $pages = () = $line =~ m{blkref #}g;
	push @records, { lsn => $lsn, filter => $filter, pages => $pages } if $filter && $pages > 1;
}
my $count = @records;
cmp_ok(scalar(grep { $_->{filter} eq 'split' } @records), '>=', 5, "a split of several records");
cmp_ok(scalar(grep { $_->{filter} eq 'fan' } @records), '>=', 5, "a division of several records, $count in all");

# A copy that recovers to behind a record. Afterwards only the files that have changed become again
# what they were.
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'before', has_restoring => 1, standby => 0);
my $data = $copy->data_dir;
my $kept = $copy->backup_dir . '/kept';
mkdir $copy->backup_dir;
system('cp', '-a', $data, $kept) == 0 or die 'cp';
my %state;
sub state_of { return join ' ', (Time::HiRes::stat($_[0]))[ 7, 9, 10 ] }
find({ no_chdir => 1, wanted => sub { $state{ substr $_, length $data } = state_of($_) if -f } }, $data);
sub take_back
{
	find(
		{
			no_chdir => 1,
			wanted => sub {
				my $name = substr $_, length $data;
				return if !-f || state_of($_) eq ($state{$name} // '');
				unlink $_ or die "$_: $!";
			}
		},
		$data);
	foreach my $name (keys %state)
	{
		next if -f "$data$name";
		copy("$kept$name", "$data$name") or die "$name: $!";
		chmod 0600, "$data$name";
		$state{$name} = state_of("$data$name");
	}
	return;
}

foreach my $i (0 .. $#records)
{
	my ($lsn, $filter) = @{ $records[$i] }{qw(lsn filter)};
	my $what = sprintf 'record %d of %d, of %s', $i + 1, $count, $filter;
	take_back();
	$copy->append_conf('postgresql.conf',
		"recovery_target_lsn = '$lsn'\nrecovery_target_inclusive = on\nrecovery_target_action = pause\nhot_standby = on\nfsync = off\n");
	$copy->start;
	$copy->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'});
	is( $copy->safe_psql('postgres',
			q{SELECT count(*) FILTER (WHERE dedup_seen('split', k)), count(*) FILTER (WHERE k <= 390 AND dedup_seen('fan', k)) FROM generate_series(1, 690) k}),
		'690|390', "$what: readers see all keys");
	$copy->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is( $copy->safe_psql(
			'postgres', q{
			SELECT * FROM dedup_check('split') UNION ALL SELECT * FROM dedup_check('fan');
			SELECT count(*) FILTER (WHERE is_new('split', k)), count(*) FILTER (WHERE k <= 390 AND is_new('fan', k)) FROM generate_series(1, 690) k;
			SELECT count(*) FILTER (WHERE is_new('split', k) AND is_new('fan', k)) FROM generate_series(10001, 11200) k;
			SELECT * FROM dedup_check('split') UNION ALL SELECT * FROM dedup_check('fan');
			VACUUM split, fan;
			SELECT * FROM dedup_check('split') UNION ALL SELECT * FROM dedup_check('fan');
			SELECT count(*) FILTER (WHERE dedup_seen('split', k)), count(*) FILTER (WHERE (k > 10000 OR k <= 390) AND dedup_seen('fan', k))
			FROM (SELECT generate_series(1, 690) UNION ALL SELECT generate_series(10001, 11200)) k(k);
			SELECT splits > 0 FROM dedup_stats('split')}),
		"0|0\n1200\n1890|1590\nt", "$what: and it goes on");
	$copy->stop('immediate');
}

done_testing();
