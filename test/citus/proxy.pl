# usage: perl proxy.pl COUNTER FROM TO...
#
# Passes on what comes through the Unix sockets FROM to the Unix sockets TO, in pairs, and back.
# The file COUNTER holds how many bytes passed, both ways together, as a decimal number.

use strict;
use warnings;
use Errno qw(EAGAIN EINTR);
use IO::Select;
use IO::Socket::UNIX;
use Socket qw(SOMAXCONN);

$SIG{PIPE} = 'IGNORE';
my $counter_name = shift;
open my $counter, '+>', $counter_name or die "$counter_name: $!";
my ($total, %to, %peer, %waiting, %ended) = (0);
my ($readers, $writers) = (IO::Select->new, IO::Select->new);
while (my ($from, $to) = splice @ARGV, 0, 2)
{
	my $listener = IO::Socket::UNIX->new(Local => $from, Listen => SOMAXCONN) or die "$from: $!";
	chmod 0777, $from;
	$to{$listener} = $to;
	$readers->add($listener);
}
count(0);

sub count
{
	$total += shift;
	seek $counter, 0, 0;
	syswrite $counter, sprintf("%20d\n", $total);
	sysseek $counter, 0, 0;
}

sub drop
{
	my @ends = grep { defined } $_[0], $peer{$_[0]};
	for my $end (@ends)
	{
		$readers->remove($end);
		$writers->remove($end);
		delete @$_{$end} for \%peer, \%waiting, \%ended;
		close $end;
	}
}

sub put
{
	my $end = shift;
	my $done = syswrite $end, $waiting{$end};
	if (!defined $done && !$!{EAGAIN} && !$!{EINTR})
	{
		drop($end);
		return;
	}
	substr($waiting{$end}, 0, $done || 0) = '';
	if ($waiting{$end} ne '')
	{
		$writers->add($end);
		$readers->remove($peer{$end});
		return;
	}
	$writers->remove($end);
	if ($ended{$end}) { drop($end); }
	else { $readers->add($peer{$end}); }
}

while (my ($readable, $writable) = IO::Select->select($readers, $writers))
{
	for my $end (@$readable)
	{
		if (my $to = $to{$end})
		{
			my $client = $end->accept or next;
			my $server = IO::Socket::UNIX->new(Peer => $to) or do { close $client; next };
			($peer{$client}, $peer{$server}) = ($server, $client);
			for ($client, $server)
			{
				$_->blocking(0);
				$waiting{$_} = '';
				$readers->add($_);
			}
			next;
		}
		my $other = $peer{$end} or next;
		my $got = sysread $end, my $bytes, 1 << 16;
		next if !defined $got && ($!{EAGAIN} || $!{EINTR});
		if (!$got)
		{
			$ended{$other} = 1;
			$readers->remove($end);
			drop($end) if $waiting{$other} eq '';
			next;
		}
		count($got);
		$waiting{$other} .= $bytes;
		put($other);
	}
	for my $end (@$writable)
	{
		put($end) if exists $waiting{$end};
	}
}
