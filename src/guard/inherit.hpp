/*
 * Tables that inherit from a guarded table, not as partitions.
 *
 * The server clones nothing for them. Their guard consists of triggers and an index of their own,
 * which dedup_guard(), our event trigger or another extension has made as copies of the parent's.
 * Such a guard is a clone: it belongs to the guard of the table above, like a partition's.
 */
#ifndef STREAMDEDUP_GUARD_INHERIT_HPP
#define STREAMDEDUP_GUARD_INHERIT_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/snapshot.h"
}

/* ---- catalogs (inherit.cpp) ---------------------------------------------------------- */

/* Returns the tables from which a table inherits directly; NIL for a partition. */
extern List *ParentsOf(Oid table);

/*
 * Returns the tables that inherit from a table, at all levels, the newest first; not partitions.
 * They are those that a snapshot shows or, if it is NULL, those that the session knows. None is
 * locked.
 */
extern List *InheritorsOf(Oid table, Snapshot snapshot);

/* Returns whether a table inherits from another one now, at any level. */
extern bool InheritsFrom(Oid table, Oid from);

/*
 * Returns whether a table has the guard that a clone of another table's guard would be: the same
 * function, mode, constraint name and options, and the same clause over columns of the same names.
 */
extern bool HasGuardOf(Oid table, Oid other);

/* Returns whether a table inherits from a guarded table, not as a partition. */
extern bool InheritsGuard(Oid table);

/* Returns the parent whose guard was cloned for a table, or InvalidOid. */
extern Oid ParentOfClone(Oid table);

/* Returns the table for which dedup_guard() was called, if `table` has a guard. */
extern Oid UppermostGuarded(Oid table);

/* ---- making and dropping clones (children.cpp) --------------------------------------- */

/* Gives the tables that inherit from a table, which are locked, clones of its guard. */
extern void GuardInheritors(Oid table);

/* Locks the tables below a table that have clones of its guard exclusively, and returns them. */
extern List *LockClones(Oid table);

/* Drops the guards of these tables, where they exist. */
extern void DropGuardsOf(const List *tables, Oid function);

/*
 * Returns why a table, or one below a guarded table, cannot be guarded: a DETAIL, or NULL
 * (request.cpp).
 */
extern const char *WhyUnguardable(Relation rel);

#endif /* STREAMDEDUP_GUARD_INHERIT_HPP */
