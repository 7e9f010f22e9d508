/*
 * Tables that inherit from a guarded table, not as partitions.
 *
 * The server clones nothing for them. Their guard consists of triggers and an index of their
 * own, which dedup_guard(), our event trigger or another extension has made as copies of the
 * parent's. Such a guard is a clone: that of the table above, like a partition's.
 */
#ifndef STREAMDEDUP_GUARD_INHERIT_HPP
#define STREAMDEDUP_GUARD_INHERIT_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/snapshot.h"
}

/* ---- catalogs (inherit.cpp) ---------------------------------------------------------- */

/* The tables that a table inherits from directly; NIL for a partition. */
extern List *ParentsOf(Oid table);

/*
 * The tables that inherit from a table, at all levels, newest first; not as partitions. As a
 * snapshot shows them, or as the session knows them if it is NULL. None is locked.
 */
extern List *InheritorsOf(Oid table, Snapshot snapshot);

/* Whether a table inherits from another one at this moment, at any level. */
extern bool InheritsFrom(Oid table, Oid from);

/*
 * Whether a table has the guard that a clone of another table's guard would be: the same
 * function, mode, constraint name and options, and the same clause over columns of the same
 * names.
 */
extern bool HasGuardOf(Oid table, Oid other);

/* Whether a table inherits from a guarded one, not as a partition. */
extern bool InheritsGuard(Oid table);

/* The parent whose guard that of a table is a clone of, or InvalidOid. */
extern Oid ParentOfClone(Oid table);

/* The table that dedup_guard() was called for, if `table` has a guard. */
extern Oid UppermostGuarded(Oid table);

/* ---- making and dropping clones (children.cpp) --------------------------------------- */

/* Gives the tables that inherit from a table, which are locked, clones of its guard. */
extern void GuardInheritors(Oid table);

/* The tables below a table that have clones of its guard, which it locks exclusively. */
extern List *LockClones(Oid table);

/* Drops the guards of these tables, as far as they are there. */
extern void DropGuardsOf(const List *tables, Oid function);

/* Why a table, or one below a guarded table, cannot be guarded: a DETAIL, or NULL (request.cpp). */
extern const char *WhyUnguardable(Relation rel);

#endif /* STREAMDEDUP_GUARD_INHERIT_HPP */
