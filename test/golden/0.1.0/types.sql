-- Keys of every type with canonical bytes: for fill_values.sql and ask_values.sql.
CREATE TYPE golden_mood AS ENUM ('sad', 'glad');
CREATE DOMAIN golden_number AS int;
CREATE TABLE typed (id int GENERATED ALWAYS AS IDENTITY, key text);
INSERT INTO typed (key) VALUES ('5::smallint'), ('-6'), ('7000000000::bigint'), ('8::golden_number'),
	('''text''::text'), ('''größer''::text'), ('''varying''::varchar'), ('''blank ''::char(9)'), ('''name''::name'), ('''''::text'),
	('''a1b2c3d4-0000-4000-8000-123456789abc''::uuid'), ('true'), ('''x''::"char"'), ('''\x00ff''::bytea'), ('repeat(''long'', 1000)'),
	('date ''2025-03-01'''), ('timestamp ''2025-03-01 12:34:56.789'''), ('timestamptz ''2025-03-01 12:34:56.789+00'''),
	('time ''12:34:56'''), ('interval ''1 mon 2 days 3 sec'''), ('date ''infinity'''),
	('1.5::real'), ('2.25::float8'), ('0::float8'), ('''NaN''::float8'), ('''glad''::golden_mood'),
	('inet ''192.168.1.1'''), ('cidr ''10.0.0.0/8'''), ('inet ''::1'''), ('macaddr ''08:00:2b:01:02:03'''), ('''0/16B3748''::pg_lsn'),
	('ARRAY[1, 2, 3]'), ('ARRAY[''a'', NULL, ''b'']'), ('ROW(1, ''a''::text)'), ('1, ''a''::text, date ''2025-03-01''');
