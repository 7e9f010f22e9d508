-- One comparison, the shortest times.
\pset format aligned
\pset tuples_only off
\echo
\echo :comparison :type :rows rows
SELECT what, work_mem, round(min(wall)::numeric, 2) AS "wall s", round(min(cpu)::numeric, 2) AS "CPU s",
	round((min(wall) * 1e9 / :rows)::numeric) AS "wall ns/row", round((min(cpu) * 1e9 / :rows)::numeric) AS "CPU ns/row",
	round((min(wall) / first_value(min(wall)) OVER (ORDER BY min(n)))::numeric, 2) AS "wall / first",
	round((min(cpu) / first_value(min(cpu)) OVER (ORDER BY min(n)))::numeric, 2) AS "CPU / first",
	round((max(temp) / 1e6)::numeric) AS "temp MB", min(answer) AS answer
FROM run WHERE comparison = :'comparison' AND type = :'type' GROUP BY what, work_mem ORDER BY min(n);
