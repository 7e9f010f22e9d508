-- One comparison: the shortest times and the medians.
\pset format aligned
\pset tuples_only off
\echo
\echo :comparison :type :rows rows
WITH figure AS (
	SELECT min(n) AS n, what, work_mem, min(wall) AS wall, percentile_cont(0.5) WITHIN GROUP (ORDER BY wall) AS median_wall,
		min(cpu) AS cpu, percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS median_cpu, max(temp) AS temp, min(answer) AS answer
	FROM run WHERE comparison = :'comparison' AND type = :'type' GROUP BY what, work_mem)
SELECT what, work_mem, round(wall::numeric, 3) AS "wall s", round(median_wall::numeric, 3) AS "median wall s",
	round(cpu::numeric, 3) AS "CPU s", round(median_cpu::numeric, 3) AS "median CPU s",
	round((wall * 1e9 / :rows)::numeric) AS "wall ns/row", round((median_wall * 1e9 / :rows)::numeric) AS "median wall ns/row",
	round((wall / first_value(wall) OVER (ORDER BY n))::numeric, 2) AS "wall / first",
	round((median_wall / first_value(median_wall) OVER (ORDER BY n))::numeric, 2) AS "median wall / first",
	round((temp / 1e6)::numeric) AS "temp MB", answer
FROM figure ORDER BY n;
