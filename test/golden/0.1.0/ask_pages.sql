-- What only the files of the filters say: counters, and how the filters are stored.
SELECT name, s.new, s.duplicate, s.skipped, s.rejected, s.marked, s.too_old, s.renewed, s.since > '2025-01-01', s.level, s.splits,
	s.overflow_pages, s.bytes
FROM dedup_filters s WHERE s.logged ORDER BY name::text COLLATE "C";
