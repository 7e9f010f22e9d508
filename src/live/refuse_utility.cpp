/*
 * Refuses indexes, and constraints with an index, on live filters before the server looks at the
 * columns.
 *
 * The hooks of refuse.cpp come later. The column `page` has no operator class, and a user may name
 * a column that is not there. Then the server's error would come first, with a hint that leads
 * nowhere. This hook does not help in the command that loads the library.
 */
#include "live/refuse.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
}

static ProcessUtility_hook_type previous_utility = NULL;

/*
 * Returns the name of a live filter that the user owns, or NULL for any other relation. Other users
 * get the server's error. The name is looked up without a lock: at worst the server's error comes.
 */
static const char *
OwnFilter(const RangeVar *relation)
{
	const Oid relid = RangeVarGetRelid(relation, NoLock, true);

	if (OidIsValid(relid) && IsLiveRelationId(relid) && OWNS_RELATION(relid, GetUserId()))
		return get_rel_name(relid);
	return NULL;
}

/*
 * Returns whether the statement adds a constraint that has an index. CREATE TABLE ... LIKE adds the
 * CHECK constraint of a live filter to another one, which is allowed.
 */
static bool
AddsIndexedConstraint(const AlterTableStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);

		if (command->subtype == AT_AddConstraint && command->def != NULL &&
			IsA(command->def, Constraint))
		{
			const ConstrType type = ((const Constraint *) command->def)->contype;

			if (type == CONSTR_PRIMARY || type == CONSTR_UNIQUE || type == CONSTR_EXCLUSION)
				return true;
		}
	}
	return false;
}

static void
RefuseUtility(const Node *statement)
{
	const char *filter;

	if (IsA(statement, IndexStmt) &&
		(filter = OwnFilter(((const IndexStmt *) statement)->relation)) != NULL)
	{
		/* CREATE TABLE makes the index of a constraint by a statement of its own. */
		if (((const IndexStmt *) statement)->isconstraint)
			RefuseConstraintOn(filter);
		RefuseIndexOn(filter);
	}
	if (IsA(statement, AlterTableStmt) &&
		AddsIndexedConstraint((const AlterTableStmt *) statement) &&
		(filter = OwnFilter(((const AlterTableStmt *) statement)->relation)) != NULL)
		RefuseConstraintOn(filter);
}

static void
LiveUtility(PlannedStmt *statement, const char *text,
			READ_ONLY_TREE_PARAMETER ProcessUtilityContext context, ParamListInfo parameters,
			QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	RefuseUtility(statement->utilityStmt);
	if (previous_utility != NULL)
		previous_utility(statement, text, READ_ONLY_TREE context, parameters, environment, receiver,
						 completion);
	else
		standard_ProcessUtility(statement, text, READ_ONLY_TREE context, parameters, environment,
								receiver, completion);
}

void
InitLiveUtility(void)
{
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = LiveUtility;
}
