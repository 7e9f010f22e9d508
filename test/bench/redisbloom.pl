# Drives Redis with RedisBloom and PostgreSQL, each over a Unix socket in its own protocol, and
# prints what redisbloom.sh says.
#
# usage: redisbloom.pl SOCKET PID KEYS PROTOTYPE (socket and process of Redis)

use strict;
use warnings;
use IO::Socket::UNIX;
use Time::HiRes 'time';

use constant {
	BATCH => 100,    # keys in one BF.MADD or dedup_new_keys
	CHUNK => 100_000,    # keys of one turn
	PIPELINE => 32,    # batches that are on their way at once
	SAMPLE => 200,    # batches that are added to a variable, each of which copies the filter
	FRESH => 1_000_000,    # keys that were never added
	FIRST_FRESH => 1_000_000_000,
	LEAST => 10_000 };

my ($redis_socket, $redis_pid, $keys, $prototype) = @ARGV;
$keys >= LEAST && $keys % BATCH == 0 or die "KEYS must be a multiple of 100, at least 10000\n";
$| = 1;

sub dial
{
	my ($path) = @_;
	return IO::Socket::UNIX->new(Peer => $path) || die "$path: $!\n";
}

sub send_all
{
	my ($socket, $bytes) = @_;
	for (my $sent = 0; $sent < length $bytes;)
	{
		$sent += syswrite($socket, $bytes, length($bytes) - $sent, $sent) // die "write: $!\n";
	}
}

# Appends what has arrived to the buffer.
sub receive
{
	my ($socket, $buffer) = @_;
	sysread($socket, $$buffer, 1 << 16, length $$buffer) or die "the server closed the connection\n";
}

# Seconds of CPU that the process has used.
sub cpu
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/schedstat" or return 0;
	return (split ' ', <$file>)[0] / 1e9;
}

# ---- Redis

my $redis = dial($redis_socket);

# The reply to one command: a string, a number, or a list of replies.
sub redis_reply
{
	my ($buffer) = @_;
	receive($redis, $buffer) until $$buffer =~ /^(.)(.*?)\r\n/s;
	my ($kind, $text) = ($1, $2);
	substr($$buffer, 0, length($text) + 3, '');
	die "Redis: $text\n" if $kind eq '-';
	return [ map { redis_reply($buffer) } 1 .. $text ] if $kind eq '*';
	return $text;
}

sub redis_message { return join '', '*' . @_ . "\r\n", map { '$' . length($_) . "\r\n$_\r\n" } @_ }

sub redis_size
{
	my ($name) = @_;
	send_all($redis, redis_message('BF.INFO', $name));
	my $buffer = '';
	my %info = @{ redis_reply(\$buffer) };
	return $info{Size};
}

# The replies to BATCH keys are as many numbers, each 0 or 1. Returns how many are 1.
use constant HEAD => '*' . BATCH . "\r\n";
use constant REPLY => length(HEAD) + BATCH * length ":0\r\n";

sub redis_batches
{
	my ($depth, @messages) = @_;
	my $ones = 0;
	while (@messages)
	{
		my @sent = splice @messages, 0, $depth;
		my $replies = '';
		send_all($redis, join '', @sent);
		receive($redis, \$replies) while length $replies < @sent * REPLY && $replies !~ /-/;
		length $replies == @sent * REPLY && $replies !~ /-/ or die "Redis: $replies\n";
		$ones += () = $replies =~ /:1/g;
	}
	return $ones;
}

# ---- PostgreSQL

my $pg = dial("$ENV{PGHOST}/.s.PGSQL.$ENV{PGPORT}");

sub pg_message
{
	my ($kind, $body) = @_;
	return $kind . pack('N', length($body) + 4) . $body;
}

# Sends bytes, and returns the messages of the answer, as kind and body.
sub pg_messages
{
	my ($bytes) = @_;
	my ($buffer, @messages) = ('');
	send_all($pg, $bytes);
	while (1)
	{
		receive($pg, \$buffer) until length $buffer >= 5 && length $buffer > unpack 'xN', $buffer;
		my ($kind, $length) = unpack 'aN', $buffer;
		my $body = substr $buffer, 5, $length - 4;
		substr($buffer, 0, $length + 1, '');
		die 'PostgreSQL: ' . $body =~ tr/\0/ /r . "\n" if $kind eq 'E';
		return @messages if $kind eq 'Z';
		push @messages, [ $kind, $body ];
	}
}

my $startup = pack('N', 3 << 16) . join("\0", 'user', $ENV{PGUSER}, 'database', $ENV{PGDATABASE},
	'options', '-c client_min_messages=error -c max_parallel_workers_per_gather=0 -c jit=off -c synchronize_seqscans=off', '', '');
my ($key_data) = grep { $_->[0] eq 'K' } pg_messages(pack('N', length($startup) + 4) . $startup);
my $pg_pid = unpack 'N', $key_data->[1];

# The columns of the query's first row.
sub pg_row
{
	my ($query) = @_;
	my ($row) = grep { $_->[0] eq 'D' } pg_messages(pg_message('Q', "$query\0"));
	return $row ? unpack 'x2 (N/a*)*', $row->[1] : ();
}

pg_messages(pg_message('P', "$_->[0]\0$_->[1]\0\0\0") . pg_message('S', ''))
	for [ live => 'SELECT dedup_new_keys(\'live\', $1::bigint[])' ],
	[ unlogged => 'SELECT dedup_new_keys(\'unlogged\', $1::bigint[])' ],
	[ seen => 'SELECT k FROM unnest($1::bigint[]) k WHERE dedup_seen(\'live\', k)' ];

# One call of a prepared statement with an array of keys. All values are in binary.
sub pg_call
{
	my ($statement, @batch) = @_;
	my $array = pack 'N5 (Nq>)*', 1, 0, 20, scalar @batch, 1, map { (8, $_) } @batch;
	return pg_message('B', "\0$statement\0" . pack 'n3 N/a* n2', 1, 1, 1, $array, 1, 1)
		. pg_message('E', "\0\0\0\0\0") . pg_message('S', '');
}

# Returns how many rows came. An answer ends with the number of rows and "ready"; no key of
# this program looks like that.
sub pg_batches
{
	my $rows = 0;
	for my $message (@_)
	{
		my $answer = '';
		send_all($pg, $message);
		receive($pg, \$answer) until substr($answer, -6) =~ /^Z\0\0\0\x05/;
		$answer =~ /SELECT (\d+)\0Z.....$/s or die 'PostgreSQL: ' . $answer =~ tr/\0/ /r . "\n";
		$rows += $1;
	}
	return $rows;
}

# ---- What takes turns

# Name, process, how to make a message of keys, how to send messages.
my @sides = (
	{   name => 'RedisBloom', pid => $redis_pid,
		message => sub { redis_message('BF.MADD', 'one', @_) }, run => sub { redis_batches(1, @_) } },
	{   name => 'RedisBloom, pipelined', pid => $redis_pid,
		message => sub { redis_message('BF.MADD', 'piped', @_) }, run => sub { redis_batches(PIPELINE, @_) } },
	{   name => 'live filter', pid => $pg_pid, message => sub { pg_call('live', @_) }, run => \&pg_batches },
	{   name => 'live filter, unlogged', pid => $pg_pid, message => sub { pg_call('unlogged', @_) }, run => \&pg_batches });
my @askers = (
	{   name => 'RedisBloom', pid => $redis_pid,
		message => sub { redis_message('BF.MEXISTS', 'one', @_) }, run => sub { redis_batches(1, @_) } },
	{   name => 'live filter', pid => $pg_pid, message => sub { pg_call('seen', @_) }, run => \&pg_batches });

# Passes the keys from the first to the last to the side, and adds to what it has taken.
sub turn
{
	my ($side, $first, $last) = @_;
	my @messages;
	for (my $key = $first; $key <= $last; $key += BATCH)
	{
		push @messages, $side->{message}->($key .. $key + BATCH - 1);
	}
	my ($cpu, $began) = (cpu($side->{pid}), time);
	my $count = $side->{run}->(@messages);
	$side->{wall} += time - $began;
	$side->{cpu} += cpu($side->{pid}) - $cpu;
	$side->{keys} += $last - $first + 1;
	$side->{count} += $count;
}

# What a side has taken since the last call: keys, seconds, seconds of CPU, answers.
sub taken { return delete @{ $_[0] }{qw(keys wall cpu count)} }

# Sizes in steps of 1.25, and the powers of ten.
my (%decade, @sizes);
for (my $size = LEAST; $size <= $keys; $size *= 10) { $decade{$size} = 1 }
for (my $size = LEAST; $size < $keys; $size *= 1.25) { push @sizes, BATCH * int($size / BATCH) }
my %every = map { $_ => 1 } @sizes, keys %decade, $keys;
$decade{$keys} = 1;

my (@bytes, @rates, @adds, @asks);
my ($added, $turns) = (0, 0);
for my $size (sort { $a <=> $b } keys %every)
{
	while ($added < $size)
	{
		my $last = $added + CHUNK < $size ? $added + CHUNK : $size;
		turn($_, $added + 1, $last) for $turns++ % 2 ? reverse @sides : @sides;
		$added = $last;
	}

	my ($cpu, $began) = (cpu($pg_pid), time);
	my ($value_bytes) = pg_row("SELECT bytes FROM dedup_stats((SELECT dedup_agg($prototype, k) FROM (SELECT k FROM key LIMIT $size) s))");
	my @aggregate = ('dedup_agg', $size, time - $began, cpu($pg_pid) - $cpu);
	push @bytes, [ $size, redis_size('one') / $size, $value_bytes / $size ];
	next if !$decade{$size};

	push @adds, map { [ $size, $_->{name}, taken($_) ] } @sides;
	push @adds, [ $size, @aggregate ];
	pg_row('TRUNCATE value');
	pg_row("INSERT INTO value SELECT dedup_agg($prototype, k) FROM (SELECT k FROM key LIMIT $size) s");
	my ($seconds) = pg_row("SELECT add_batches($size, " . SAMPLE . ')');
	push @adds, [ $size, 'dedup_add_all to a variable', SAMPLE * BATCH, $seconds ];

	for (my $key = 1; $key < FRESH; $key += CHUNK)
	{
		turn($_, FIRST_FRESH + $key, FIRST_FRESH + $key + CHUNK - 1) for $turns++ % 2 ? reverse @askers : @askers;
	}
	my @asked = map { [ $size, $_->{name}, taken($_) ] } @askers;
	($cpu, $began) = (cpu($pg_pid), time);
	my ($found) = pg_row('SELECT count(*) FILTER (WHERE dedup_contains(f, k)) FROM value, '
		. 'generate_series(' . (FIRST_FRESH + 1) . '::bigint, ' . (FIRST_FRESH + FRESH) . ') k');
	push @asked, [ $size, 'dedup_contains', FRESH, time - $began, cpu($pg_pid) - $cpu, $found ];
	push @rates, [ $size, map { $_->[5] / FRESH } @asked[ 0, 2, 1 ] ];
	push @asks, @asked;
}

# ---- The tables

my ($live_bytes) = pg_row("SELECT bytes FROM dedup_stats('live')");
printf "\nbytes a key: BF.INFO, and dedup_stats of dedup_agg(%s, key)\n", $prototype;
printf "%10s %12s %12s %8s\n", 'keys', 'RedisBloom', 'value', 'times';
printf "%10d %12.3f %12.3f %8.2f\n", @$_, $_->[2] / $_->[1] for grep { $decade{ $_->[0] } } @bytes;
my $steps = @bytes;
printf "over %d sizes in steps of 1.25: RedisBloom least %.3f, mean %.3f, most %.3f; value %.3f, %.3f, %.3f\n", $steps,
	map { my $column = $_; my @sorted = sort { $a <=> $b } map { $_->[$column] } @bytes;
		my $sum = 0; $sum += $_ for @sorted; ($sorted[0], $sum / $steps, $sorted[-1]) } 1, 2;
printf "the live filter, made for %d keys: %.3f at that number\n", $keys, $live_bytes / $keys;

printf "\nmeasured false-positive rate, %d fresh keys (standard error 0.01 %% at 1 %%)\n", FRESH;
printf "%10s %12s %12s %12s\n", 'keys', 'RedisBloom', 'value', 'live filter';
printf "%10d %11.4f%% %11.4f%% %11.4f%%\n", $_->[0], map { 100 * $_ } @$_[ 1 .. 3 ] for @rates;

sub speeds
{
	my ($title, @rows) = @_;
	printf "\n%s\n%10s  %-28s %16s %18s\n", $title, 'keys', '', 'thousand keys/s', 'server CPU us/key';
	printf "%10d  %-28s %16.0f %18s\n", @$_[ 0, 1 ], $_->[2] / $_->[3] / 1000,
		defined $_->[4] ? sprintf('%.3f', $_->[4] / $_->[2] * 1e6) : '' for @rows;
}
speeds('adding: in batches of ' . BATCH . ' since the size before (pipelined: ' . PIPELINE . ' batches at once); by dedup_agg, '
		. 'all keys; to a variable, ' . SAMPLE . ' batches at this size', @adds);
speeds('asking for ' . FRESH . ' fresh keys: in batches of ' . BATCH . '; by dedup_contains, in one query', @asks);
