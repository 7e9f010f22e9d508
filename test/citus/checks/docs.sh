# The blocks of docs/distributed.md that need Citus print what the page shows.

PGOPTIONS='-c citus.shard_count=16' perl "$here/page.pl" "$here/distributed.md"
