# The part of torture.pl that starts the server and speaks to it, by psql.

use strict;
use warnings;
use IO::Handle;
use IPC::Open2;
use Time::HiRes qw(sleep time);

our ($top, $data, $server_log);

sub run_quietly
{
	my ($command) = @_;
	return system("$command > $top/command.log 2>&1") == 0;
}

sub slurp
{
	my ($path) = @_;
	open my $file, '<', $path or return '';
	local $/;
	return scalar <$file>;
}

sub start_server
{
	# One round in four compares each page that recovery writes.
	my $consistency = rand() < 0.25 ? '-c wal_consistency_checking=all' : '';
	run_quietly("pg_ctl -D $data -l $server_log -w -t 120 -o '$consistency' start")
	  or give_up('the server does not start', slurp("$top/command.log"));
	return;
}

sub make_server
{
	run_quietly("initdb -D $data -A trust -N -U torture -E UTF8 --locale=C")
	  or die slurp("$top/command.log");
	open my $conf, '>>', "$data/postgresql.conf" or die;
	print $conf <<"CONF";
listen_addresses = ''
unix_socket_directories = '$top'
fsync = off
shared_buffers = 16MB
max_connections = 30
max_prepared_transactions = 20
checkpoint_timeout = 30s
max_wal_size = 64MB
min_wal_size = 32MB
autovacuum_naptime = 2s
deadlock_timeout = 20ms
allow_in_place_tablespaces = on
restart_after_crash = on
log_min_messages = log
log_line_prefix = '%m [%p] %e '
log_min_error_statement = panic
log_checkpoints = off
CONF
	close $conf;
	start_server();
	return;
}

# The server process of a session: one of ours, as the folder that it works in tells.
sub kill_backend
{
	my ($pid) = @_;
	my $where = readlink("/proc/$pid/cwd") || '';
	return 0 if $where ne $data;
	return kill('KILL', $pid);
}

# ---- psql -----------------------------------------------------------------

package Psql;

# A session, or nothing if the server does not take it.
sub connect
{
	my ($class) = @_;
	my $self = bless { asked => 0 }, $class;
	$self->{process} = IPC::Open2::open2($self->{out}, $self->{in},
		'exec psql -XAtq -v VERBOSITY=sqlstate -f - 2>&1');
	$self->{pid} = $self->value('SELECT pg_backend_pid()');
	return $self if defined $self->{pid} && $self->{pid} =~ /^\d+$/;
	$self->close;
	return;
}

# The lines of the answer to one statement; the SQLSTATE is in {error}, "gone" if the
# server is.
sub ask
{
	my ($self, $sql) = @_;
	my @lines;
	my $mark = '==' . ++$self->{asked};
	$self->{error} = '';
	local $SIG{PIPE} = 'IGNORE';
	my ($in, $out) = @$self{qw(in out)};
	# after the data of a COPY psql takes no lone semicolon
	print $in $sql, $sql =~ /^\\\.\n\z/m ? '' : "\n;\n", "\\echo $mark :ERROR :SQLSTATE\n";
	$in->flush;
	while (1)
	{
		my $line;
		my $alarmed = 0;
		{
			local $SIG{ALRM} = sub { $alarmed = 1; die "alarm\n" };
			alarm 120;
			eval { $line = <$out>; alarm 0; 1 } or alarm 0;
		}
		if ($alarmed || !defined $line)
		{
			$self->{hung} = $alarmed;
			$self->{error} = 'gone';
			return;
		}
		chomp $line;
		if ($line =~ /^$mark (true|false) ?(\w*)$/)
		{
			# psql does not always notice at once that its connection is gone
			$self->{error} = $1 eq 'false' ? '' : $2 =~ /^(|57P.*|08.*)$/ ? 'gone' : $2;
			return @lines;
		}
		push @lines, $line if $line !~ /^(psql:<stdin>|ERROR:|WARNING:|NOTICE:|LOCATION:)/;
	}
}

sub value
{
	my ($self, $sql) = @_;
	return ($self->ask($sql))[0];
}

sub close
{
	my ($self) = @_;
	local $SIG{PIPE} = 'IGNORE';
	close $self->{in};
	close $self->{out};
	waitpid $self->{process}, 0;
	return;
}

package main;

sub connect_to_server
{
	for (1 .. 600)
	{
		my $psql = Psql->connect;
		return $psql if $psql;
		sleep 0.1;
	}
	give_up('the server takes no connections', slurp($server_log));
}

1;
