# The blocks of docs/*.md that need Citus print what the page shows. Those of citus.md use
# the tables of tables.sql; every other page makes its tables, in a database of its own.

export PGOPTIONS='-c citus.shard_count=16'
perl "$here/page.pl" "$here/docs/citus.md"
for page in "$here"/docs/*.md; do
	name=$(basename "$page" .md)
	if [ "$name" = citus ] || ! grep -q '^<!-- needs: citus -->' "$page"; then
		continue
	fi
	export PGDATABASE=docs_${name//-/_}
	for node in "$COORDINATOR" "$ONE" "$TWO"; do
		createdb -h "$node" --maintenance-db=postgres "$PGDATABASE"
	done
	join_workers
	perl "$here/page.pl" "$page"
done
