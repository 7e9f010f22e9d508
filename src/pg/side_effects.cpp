/* Side effects of queries; see side_effects.hpp. */
#include "pg/side_effects.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "optimizer/optimizer.h"
}

/* Returns whether a query in the tree locks rows or changes data. */
static bool
LocksOrWrites(Node *node, void *context)
{
	const Walker walker = AsWalker(LocksOrWrites);

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query *query = (Query *) node;

		return query->commandType != CMD_SELECT || query->rowMarks != NIL ||
			   query_tree_walker(query, walker, context, 0);
	}
	return expression_tree_walker(node, walker, context);
}

bool
HasSideEffects(Node *node)
{
	return contain_volatile_functions(node) || LocksOrWrites(node, NULL);
}
