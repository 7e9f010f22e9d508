# The keys that a load has added: they are on a standby, survive a crash if the load has committed, and are gone if
# not. wal_consistency_checking = all compares every replayed page with that of the primary. Also tests the first
# statement of a session, which has not loaded the library, under an exact guard.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LiveFilter;
use Test::More;

my $prototype = filter_sql();
my $node = start_node(
	'primary',
	allows_streaming => 1,
	settings => [ 'wal_consistency_checking = all', 'wal_keep_size = 1GB', 'max_prepared_transactions = 10' ]);
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# t1 is loaded into an empty filter, t2 into one with keys, t3 into one that overflows; what
# o1 to o3 have is the same, but the load is open, or prepared, when the server crashes
$node->safe_psql('postgres', qq{
	CREATE FUNCTION make(prefix text, n int) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		EXECUTE format('CREATE TABLE %1\$s%2\$s AS SELECT k FROM generate_series(1, 20000) k', prefix, n);
		EXECUTE format('CREATE INDEX ON %1\$s%2\$s (k)', prefix, n);
		PERFORM dedup_create(format('f%s%s', prefix, n),
			CASE n WHEN 3 THEN dedup_filter(2000, 0.01, 42) ELSE $prototype END);
	END \$\$;
	SELECT make(prefix, n) FROM unnest('{t,o,p}'::text[]) prefix, generate_series(1, 3) n;
	SELECT count(is_new('ft2', k)), count(is_new('fo2', k)), count(is_new('fp2', k)) FROM generate_series(15001, 16000) k});
my $guard = sub {
	my $prefix = shift;
	return join "\n", map { "SELECT dedup_guard('$prefix$_', 'f$prefix$_', '{k}', exact => true);" } 1 .. 3;
};
$node->safe_psql('postgres', $guard->('t'));
$node->safe_psql('postgres', "BEGIN; " . $guard->('p') . " PREPARE TRANSACTION 'loads'");
my $open = live_session($node);
$open->query('BEGIN; ' . $guard->('o'));

$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(seen($standby, "ft$_", 1, 20000), 20000, "standby: the keys of table $_") foreach 1 .. 3;
is(seen($standby, "fo$_", 1, 20000), $_ == 2 ? 1000 : 0, "standby: the open load of table $_") foreach 1 .. 3;

$node->stop('immediate');
$node->start;
is(seen($node, "ft$_", 1, 20000), 20000, "crash: the keys of table $_") foreach 1 .. 3;
is(seen($node, "fo$_", 1, 20000), $_ == 2 ? 1000 : 0, "crash: the open load of table $_") foreach 1 .. 3;
is(seen($node, "fp$_", 1, 20000), $_ == 2 ? 1000 : 0, "crash: the prepared load of table $_") foreach 1 .. 3;
$node->safe_psql('postgres', "COMMIT PREPARED 'loads'; " . $guard->('o') . ' VACUUM');
foreach my $prefix ('t', 'o', 'p')
{
	is(seen($node, "f$prefix$_", 1, 20000), 20000, "afterwards: the keys of table $prefix$_") foreach 1 .. 3;
	is($node->safe_psql('postgres', "SELECT count(*) FROM dedup_check('f$prefix$_')"), 0, "no bad page of f$prefix$_")
	  foreach 1 .. 3;
}
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(seen($standby, "fp3", 1, 20000), 20000, 'standby: a load that was prepared');

# the first statement of a session
$node->safe_psql('postgres', qq{
	SELECT dedup_create('pf', $prototype);
	CREATE TABLE parent (k int, d int, m bool) PARTITION BY RANGE (d);
	CREATE INDEX ON parent (k);
	CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (10);
	SELECT dedup_guard('parent', 'pf', '{k}', 'mark', exact => true);
	INSERT INTO parent VALUES (1, 1);
	CREATE TABLE other (m bool, d int, k int);
	INSERT INTO other VALUES (NULL, 11, 2), (true, 11, 1), (false, 11, 1)});
my $attach = 'ALTER TABLE parent ATTACH PARTITION other FOR VALUES FROM (10) TO (20)';
like(messages($node, 'postgres', $attach), qr/ERROR:  23505: could not load the keys of table "other".*Key \(k\)=\(1\) is duplicated/s,
	'ATTACH of a duplicate');
$node->safe_psql('postgres', 'DELETE FROM other WHERE NOT m');
is(messages($node, 'postgres', $attach), '', 'ATTACH');
is(seen($node, 'pf', 2, 2), 1, 'its key');
my ($out, $err);
$node->psql('postgres', 'ALTER TABLE parent DETACH PARTITION other', stderr => \$err);
like($err, qr/NOTICE:  table "other" is not guarded any more/, 'DETACH');
$node->psql('postgres', 'INSERT INTO other VALUES (NULL, 12, 1)');
like(messages($node, 'postgres', "DO \$\$ BEGIN $attach; END \$\$"), qr/ERROR:  23505/, 'ATTACH of one that took a duplicate meanwhile');
$standby->stop;
$node->stop;
done_testing();
