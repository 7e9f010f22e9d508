# Compares the server with test/format/reader.py, which was written only from docs/format.md. Both write the same
# bytes for the same keys, give the same answers and counts, and refuse the same damaged bytes. All numbers on the
# page are compared with both.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run ();
use LiveFilter;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $output;
plan skip_all => 'python3 cannot import xxhash'
  unless eval { IPC::Run::run([ 'python3', '-c', 'import xxhash' ], '>&', \$output) };

my $node = start_node('main', settings => [q{timezone = 'America/St_Johns'}, 'client_min_messages = error']);
my $folder = PostgreSQL::Test::Utils::tempdir();
chmod 0755, $folder;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Some types, and special values: v('first, second', i, other) is one of the first for small i.
sql(q{
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
	CREATE TABLE filters (number int PRIMARY KEY, name text, types text, empty dedup_filter, made_by text, f dedup_filter);
	CREATE TABLE merges (a int, b int, f dedup_filter);
	CREATE TABLE sketches (number int, count bigint);
	CREATE FUNCTION special(value text[], i int, other anyelement) RETURNS anyelement LANGUAGE plpgsql AS $$
	DECLARE result other%TYPE := value[i];
	BEGIN RETURN CASE WHEN i <= cardinality(value) THEN result ELSE other END; END $$;

	-- Every other key has a hash that starts with five bits of 0: these crowd a few lines of a table of infini.
	CREATE TABLE crowd AS SELECT row_number() OVER (ORDER BY key)::int AS number, key FROM generate_series(1, 50000) key
		WHERE get_byte(dedup_add(dedup_filter(1), key)::bytea, 67) < 8;
	ALTER TABLE crowd ADD PRIMARY KEY (number);
	CREATE FUNCTION crowded(i int) RETURNS bigint LANGUAGE sql
		AS 'SELECT CASE i % 2 WHEN 0 THEN 1000000 + i ELSE (SELECT key FROM crowd WHERE number = i / 2 + 1) END';
});

# ---- filters ----------------------------------------------------------------------------

my (@statements, @names);

# A filter of $keys keys, which are expressions of i; its number. The probes are $present of
# these keys and $absent others.
sub filter
{
	my ($prototype, $types, $expression, $keys, $present, $absent) = @_;
	my $number = @names;
	my $name = "$number: $keys keys ($types) in $prototype";
	push @names, $name;
	# What dedup_filter got, for Filter.make.
	my $made_by = 'NULL';
	if ($prototype =~ /^dedup_filter\((.*)\)$/)
	{
		my ($capacity, $fpr, $seed) = split /, */, $1;
		$made_by = sprintf "'%s %s %s'", $capacity || 'NULL', $fpr || 0.01, $seed || 0;
	}
	my $step = $present < $keys ? int($keys / $present) : 1;
	push @statements, qq{
		INSERT INTO filters SELECT $number, \$n\$$name\$n\$, '$types', $prototype, $made_by, coalesce(f, $prototype)
			FROM (SELECT dedup_agg($prototype, $expression ORDER BY i) AS f FROM generate_series(1, $keys) i) s;
		COPY (SELECT $expression FROM generate_series(1, $keys) i ORDER BY i) TO '$folder/$number.keys';
	};
	push @statements, qq{
		COPY (SELECT $expression, dedup_contains(f, $expression) FROM filters, LATERAL (
				SELECT generate_series(1, $keys, $step) UNION ALL SELECT generate_series($keys + 1, $keys + $absent)) s(i)
			WHERE number = $number) TO '$folder/$number.probes';
	} if $prototype !~ /exaloglog/;
	# The same keys one by one.
	push @statements, qq{
		DO \$\$
		DECLARE f dedup_filter := $prototype;
		BEGIN
			FOR i IN 1..$keys LOOP f := dedup_add(f, $expression); END LOOP;
			ASSERT f = (SELECT filters.f FROM filters WHERE number = $number), 'dedup_add and dedup_agg differ';
		END \$\$;
	} if $keys <= 1000;
	return $number;
}

my $sketch = q{dedup_method('exaloglog', '14kB')};
my @sizes = (
	[ 'dedup_filter(1000)' => 0, 1, 3, 160, 161, 5000 ],
	[ 'dedup_filter(5000, 0.001, 42)' => 511, 512, 513, 5000 ],
	[ 'dedup_filter(50000, 0.05, -7)' => 50000 ],
	[ 'dedup_filter(1, 0.5)' => 8, 9 ],
	[ 'dedup_filter(200, 0.5, 9223372036854775807)' => 5000 ],
	[ 'dedup_filter(4000, 0.00009, -1)' => 0, 3, 513, 5000 ],
	[ 'dedup_filter(5000, 1e-9, 5)' => 5000 ],
	[ q{dedup_method('blocked_bloom', '4kB', 'k=16 hash=sip', 3)} => 512, 513 ],
	[ q{dedup_method('bloom', '40kB', 'k=32 fpr=0.1', -3)} => 5000 ],
	[ $sketch => 0, 1, 3, 1792, 1793, 5000, 200000 ],
	[ q{dedup_method('exaloglog', '56', '', 11)} => 7, 8, 20000 ],
	[ q{dedup_method('exaloglog', NULL, 'error=0.03 hash=sip', -11)} => 5000 ],
	[ q{dedup_method('exaloglog', '300kB')} => 20000 ],
	[ 'dedup_filter()' => 0, 1, 3, 511, 512, 513, 514, 5000, 10000 ],
	[ 'dedup_filter(NULL, 0.5, -1)' => 5000 ],
	[ 'dedup_filter(NULL, 0.001, 7)' => 512, 513, 5000 ],
	[ 'dedup_filter(NULL, 1e-6)' => 513, 5000 ],
	[ 'dedup_filter(NULL, 1e-9, 9223372036854775807)' => 513, 5000 ],
	[ q{dedup_method('infini', NULL, 'fpr=0.02 hash=sip', 3)} => 3, 2000 ]);
my %sized;
foreach my $size (@sizes)
{
	my ($prototype, @keys) = @$size;
	$sized{"$prototype $_"} = filter($prototype, 'bigint', 'i::bigint', $_, 1000, 5000) foreach @keys;
}

# Repeats, also when a filter has as many keys as its form or its table takes.
filter($_->[0], 'bigint', "($_->[1])::bigint", $_->[2], 1000, 1000) foreach (
	[ 'dedup_filter(1000)', 'i % 160', 1000 ],
	[ $sketch, 'i % 1792', 3600 ],
	[ 'dedup_filter()', 'i % 512', 1500 ],
	[ 'dedup_filter()', 'i % 513', 1500 ],
	[ 'dedup_filter()', 'i * i % 3001', 9000 ],
	[ 'dedup_filter(NULL, 1e-6)', 'i * 7919 % 2000', 5000 ]);

filter($_, 'bigint', 'crowded(i)', 3000, 1000, 1000) foreach 'dedup_filter()', 'dedup_filter(NULL, 1e-6)';

# Keys of each type.
my @types = (
	[ 'boolean', 'i % 2 = 0' ],
	[ 'smallint', '(i % 65536 - 32768)::smallint' ],
	[ 'integer', 'i * CASE i % 2 WHEN 0 THEN 1 ELSE -1 END' ],
	[ 'bigint', q~special('{-9223372036854775808,9223372036854775807,0,-1}', i, i * -922337203685::bigint)~ ],
	[ 'real', q~special('{NaN,-NaN,Infinity,-Infinity,-0,0,1e-45,3.4e38}', i, (i / 7.0)::real)~ ],
	[ 'double precision', q~special('{NaN,Infinity,-Infinity,-0,0,5e-324,1.7976931348623157e308}', i, (i / 7.0)::float8)~ ],
	[ 'numeric', q~special('{NaN,Infinity,-Infinity,0,0.000,-0.0,100,1e131071,-1e-16383,0.00010}', i,
		(i - 10) * 1000000000000::numeric ^ (i % 5) / 2::numeric ^ (i % 7))~ ],
	[ 'text', q~special(array['', ' ', E'\t\n\\\\N', E'\\\\', 'NULL', '{"', 'Zürich', 'ﬃ'], i, repeat(chr(960 + i % 5000), i % 300) || i)~ ],
	[ 'varchar', q{('x' || i)::varchar(8)} ],
	[ 'char', q{rpad('a' || i, 12)::char(12)} ],
	[ 'name', q{('name ' || i)::name} ],
	[ '"char"', q{chr(32 + i % 90)::"char"} ],
	[ 'bytea', q{substring(decode(repeat(md5(i::text), 20), 'hex') FOR i % 310)} ],
	[ 'uuid', 'md5(i::text)::uuid' ],
	[ 'macaddr', q{substring(md5(i::text) FOR 12)::macaddr} ],
	[ 'macaddr8', q{substring(md5(i::text) FOR 16)::macaddr8} ],
	[ 'date', q~special('{infinity,-infinity,4713-01-01 BC,0001-12-31 BC,0001-01-01,5874897-12-31,1900-02-28}', i, date '1500-01-01' + i % 1000000)~ ],
	[ 'time', q~special('{00:00,24:00,23:59:59.999999}', i, time '00:00' + i * interval '3.7 seconds')~ ],
	[ 'timetz', q~special('{00:00+00,24:00-15:59,12:30:00.5+05:30,01:02:03+00:00:01}', i, (time '00:00' + i * interval '3.7 seconds')::timetz)~ ],
	[ 'timestamp', q~special('{infinity,-infinity,4713-01-01 00:00 BC,294276-12-31 23:59:59.999999}', i, timestamp '1969-12-31 23:59' + i * interval '7777.000001 seconds')~ ],
	[ 'timestamptz', q~special('{infinity,-infinity,4713-01-02 00:00+00 BC,294276-12-31 23:59:59.999999+00,1800-01-01 00:00+00}', i,
		timestamptz '1969-12-31 23:59+00' + i * interval '77777.000001 seconds')~ ],
	[ 'interval', q~special('{1 mon,30 days,720:00:00,-1 mon 1 day -00:00:00.000001,178000000 years}', i,
		make_interval(i % 5, i % 17 - 8, 0, i - 50, 0, 0, i * 1234.567 - 90000))~ ],
	[ 'inet', q~special('{::,0.0.0.0/0,::ffff:1.2.3.4,fe80::1/10}', i, set_masklen('10.0.0.0'::inet + i, i % 33))~ ],
	[ 'cidr', q~special('{::/0,2001:db8::/32}', i, network(set_masklen('10.0.0.0'::inet + i * 77, 8 + i % 25)))~ ],
	[ 'pg_lsn', q{('0/0'::pg_lsn + i * 12345678901::numeric)} ],
	[ 'xid8', q~special('{18446744073709551615,9223372036854775808}', i, i::text::xid8)~ ],
	[ 'oid', q~special('{4294967295}', i, i::oid)~ ],
	[ 'tid', q{('(' || i * 100 || ',' || i % 200 || ')')::tid} ],
	[ 'text', q{(enum_range(NULL::mood))[1 + i % 3]} ],
	[ 'integer', 'i::positive' ],
	[ 'jsonb', q~special(array['null', 'true', 'false', '""', '0', '-0.0', '1.50', '[]', '{}', '[[]]', '[{}]', '{"": {}}', '[null, [1e3, "\u00fc\n\""]]',
			'{"ü": 1, "zz": [2, {"b": false, "a": 1, "a": 2}], "z": 3}', '"12345678901234567890.10"', '12345678901234567890.10'], i,
		jsonb_build_object('id', i, 'tags', jsonb_build_array(i / 4.0, 'x' || i, NULL), 'x' || i, i % 2 = 0))~ ],
	[ 'integer[]', q~special(array['{}', '{NULL}', '[0:1]={1,2}', '[-5:-4][2:2]={{1},{2}}', '{{{1,2},{3,4}},{{5,6},{7,8}}}'], i, array[i, NULL, -i])~ ],
	[ 'text[]', q~array['a b', 'x' || i, NULL, 'NULL', '', '{"\\,}', repeat('ü', i % 10)]~ ],
	[ 'row(integer,text,numeric)', q~ROW(i, special(array['', '","', '(\\)', NULL, 'a b'], i, 'x' || i), NULLIF(i % 9, 3) * 1.10)~ ],
	[ 'int4range', q~special('{empty,"(,)","[3,3]","(,5]"}', i, int4range(i, 2 * i))~ ],
	[ 'numrange', q~special('{"(,2.50]","[0,1)"}', i, numrange(i / 4.0, i, '(]'))~ ],
	[ 'daterange', q~special('{"[2000-01-01,infinity]"}', i, daterange('2024-01-01', date '2024-01-01' + i))~ ],
	[ 'tstzrange', q{tstzrange('2024-01-01', timestamptz '2024-01-01' + i * interval '1 hour', '[]')} ],
	[ 'int8multirange', q{int8multirange(int8range(i, i + 3), int8range(i + 5, NULL))} ],
	[ 'bigint;text', q{i::bigint, 'x' || i} ],
	[ 'uuid;date;boolean', q{md5(i::text)::uuid, date '2024-01-01' + i % 366, NULLIF(i % 3, 1) = 0} ],
	[ 'bigint', 'NULLIF(i, 7)::bigint' ]);
foreach my $type (@types)
{
	my ($types, $expression) = @$type;
	filter('dedup_filter(1000, 0.001, -99)', $types, $expression, 200, 200, 200);
}
my $users = filter($sketch, 'text', q{'user ' || i}, 3000, 1, 1);
filter('dedup_filter()', 'text', q{'user ' || i}, 3000, 1000, 5000);
filter(q{dedup_method('infini', NULL, 'hash=sip')}, 'bigint;text', q{i::bigint, 'x' || i}, 300, 300, 300);


# What approx_count_distinct says of the same keys.
my $sketches = join ', ', map { $sized{$_} } grep { /^\Q$sketch\E/ } keys %sized;
push @statements, qq{
	INSERT INTO sketches
		SELECT number, approx_count_distinct(i::bigint) FROM filters, LATERAL generate_series(1, substring(name FROM ': (\\d+) keys')::int) i
			WHERE number IN ($sketches) GROUP BY number
		UNION ALL SELECT $users, approx_count_distinct('user ' || i) FROM generate_series(1, 3000) i;
};

# Merges. The other filter has multiples of 3.
sub merge
{
	my ($prototype, $keys, $other_prototype, $other_keys) = @_;
	my ($a, $b) = ($sized{"$prototype $keys"}, filter($other_prototype, 'bigint', '(3 * i)::bigint', $other_keys, 300, 300));
	push @statements, "INSERT INTO merges SELECT $a, $b, dedup_merge(a.f, b.f) FROM filters a, filters b WHERE a.number = $a AND b.number = $b;";
	return;
}
my $large = q{dedup_method('exaloglog', '300kB')};
merge('dedup_filter(1000)', 3, 'dedup_filter(1000)', 100);
merge('dedup_filter(1000)', 160, 'dedup_filter(1000)', 100);
merge('dedup_filter(1000)', 5000, 'dedup_filter(1000)', 100);
merge('dedup_filter(4000, 0.00009, -1)', 5000, 'dedup_filter(4000, 0.00009, -1)', 4000);
merge($sketch, 3, $sketch, 300);
merge($sketch, 1792, $sketch, 1700);
merge($sketch, 5000, $large, 1000);
merge($sketch, 1793, $large, 5000);
merge($sketch, 3, $large, 40000);
merge('dedup_filter()', 3, 'dedup_filter()', 300);
merge('dedup_filter()', 512, 'dedup_filter()', 512);

# A table that the server merged: only read.
my $merged = @names;
push @names, 'merged tables';
push @statements, qq{
	INSERT INTO filters SELECT $merged, 'merged tables', 'bigint', empty, NULL, (
			SELECT dedup_merge_agg(f) FROM (
				SELECT dedup_agg(dedup_filter(), i) AS f FROM generate_series(1, 9000) i GROUP BY i % 3) s)
		FROM filters WHERE number = $sized{'dedup_filter() 0'};
	COPY (SELECT i::bigint, dedup_contains(f, i::bigint) FROM filters, generate_series(1, 14000) i WHERE number = $merged)
		TO '$folder/$merged.probes';
};

sql("BEGIN; @statements COMMIT;");
sql(qq{
	COPY (SELECT number, name, types, empty, made_by, f, encode(f::bytea, 'hex'), dedup_count(f), (dedup_stats(f)).fpr_now
		FROM filters ORDER BY number) TO '$folder/filters';
	COPY (SELECT f FROM filters ORDER BY number) TO '$folder/images' (FORMAT binary);
	COPY (SELECT * FROM merges) TO '$folder/merges';
	COPY (SELECT * FROM sketches) TO '$folder/sketches';
	COPY (SELECT keys, fpr, dedup_filter(keys, fpr) FROM unnest('{0.3,0.01,0.0001,0.00009,1e-9}'::float8[]) fpr, LATERAL (
			SELECT DISTINCT floor(1.7 ^ n)::bigint FROM generate_series(0, 30) n UNION SELECT generate_series(21000, 30000, 1500)) s(keys))
		TO '$folder/sizes';
});

# ---- what the reader says ---------------------------------------------------------------

my $exit = eval { IPC::Run::run([ 'python3', '-B', "$top/test/format/check.py", $folder, "$top/docs/format.md" ], '>', \$output); 1 }
  ? $? : 'not started';
is($exit, 0, 'check.py runs to its end');
foreach my $line (split /\n/, $output)
{
	my ($ok, $name, $wrong) = split /\t/, $line;
	ok($ok eq 'ok', $name) or diag $wrong;
}

# ---- what the server says of the reader's filters and of the page -----------------------

sql(qq{
	CREATE TABLE written (number int, f dedup_filter);
	COPY written FROM '$folder/written';
	CREATE TABLE images (position serial, f dedup_filter);
	COPY images (f) FROM '$folder/written.bin' (FORMAT binary);
	CREATE TABLE mutants (image bytea, verdict text);
	COPY mutants FROM '$folder/mutants';
	CREATE TABLE sketches_merged (a bytea, b bytea, merged bytea);
	COPY sketches_merged FROM '$folder/sketches_merged';
	CREATE TABLE claims (line int, expression text, value text, said text);
	COPY claims (line, expression, value) FROM '$folder/claims';
});
is(sql('SELECT count(*) FROM filters JOIN written w USING (number) WHERE filters.f = w.f AND dedup_count(filters.f) = dedup_count(w.f)'),
	scalar @names, 'the server accepts what the reader wrote, and the bytes are its own');
is(sql('SELECT count(*) FROM filters JOIN images ON position = number + 1 WHERE filters.f = images.f'),
	scalar @names, 'also in binary form');
my @few = map { $sized{$_} } ('dedup_filter(1000) 5000', 'dedup_filter(4000, 0.00009, -1) 513', 'dedup_filter() 5000');
foreach my $number (@few)
{
	sql("CREATE TABLE answers$number (key bigint, answer boolean); COPY answers$number FROM '$folder/$number.probes'");
	is(sql("SELECT count(*) FILTER (WHERE dedup_contains(f, key) = answer) - count(*) FROM written, answers$number WHERE number = $number"),
		0, "the server answers through the reader's filter as through its own: $names[$number]");
}

# Count and answers of bytes that are similar to a filter, or the error code.
sql(q{
	CREATE FUNCTION verdict(image bytea) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE f dedup_filter := image::dedup_filter;
	BEGIN
		RETURN dedup_count(f) || ' ' || CASE WHEN get_byte(image, 2) = 22 THEN ''
			ELSE (SELECT string_agg(dedup_contains(f, i)::int::text, '' ORDER BY i) FROM generate_series(1, 20) i) END;
	END $$;
	CREATE FUNCTION verdict_or_error(image bytea) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN RETURN verdict(image); EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
	CREATE FUNCTION error_of_text(image bytea) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN PERFORM replace(encode(image, 'base64'), E'\n', '')::dedup_filter; RETURN NULL; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
	CREATE FUNCTION value_of(expression text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE value text;
	BEGIN EXECUTE format('SELECT (%s)::text', expression) INTO value; RETURN value; END $$;
});
is(sql(q{SELECT encode(substring(image FOR 60), 'hex'), length(image), verdict, said FROM (SELECT *, verdict_or_error(image) AS said FROM mutants) s
	WHERE verdict IS DISTINCT FROM said LIMIT 10}), '', 'the server says the same of bytes that are similar to a filter');
is(sql(q{SELECT encode(substring(image FOR 60), 'hex'), length(image), verdict, said FROM (SELECT *, error_of_text(image) AS said FROM mutants) s
	WHERE CASE verdict WHEN '22P03' THEN '22P02' WHEN '0A000' THEN verdict END IS DISTINCT FROM said LIMIT 10}), '', 'also in text form');
is(sql(q{SELECT count(*), count(*) FILTER (WHERE dedup_merge(a::dedup_filter, b::dedup_filter)::bytea = merged) FROM sketches_merged}),
	'60|60', 'the server merges sketches as the reader does');
cmp_ok(sql('SELECT count(*) FROM claims'), '>', 170, 'claims of the page were found');
is(sql(q{UPDATE claims SET said = value_of(expression); SELECT * FROM claims WHERE value IS DISTINCT FROM said}),
	'', 'the server says what the page says');

$node->stop('immediate');
done_testing();
