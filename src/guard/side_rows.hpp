/*
 * Reads the rows of side tables as rows of the guarded table (side_rows.cpp).
 *
 * The value of a column is that of the key in `rest` with the column's name. If there is none, it
 * is that of the side table's column of that name; else it is the default. So it does not matter
 * with which columns of the two tables a row was written, as long as the columns still have the
 * same names.
 */
#ifndef STREAMDEDUP_GUARD_SIDE_ROWS_HPP
#define STREAMDEDUP_GUARD_SIDE_ROWS_HPP

#include "guard/divert.hpp"

extern "C" {
#include "nodes/bitmapset.h"
}

/* A column of the guarded table. */
struct ReturnedColumn
{
	Form_pg_attribute column; /* NULL: no value is inserted into it */
	bool used;                /* the guard uses it */
	FmgrInfo input;
	Oid typioparam;
};

/* A column of one of the side table's tables, and how its values are converted. */
struct SideSource
{
	AttrNumber attnum; /* 0: there is none */
	bool convert;      /* by its text */
	FmgrInfo output;
};

/* One of the tables of which the side table consists. */
struct SideLeaf
{
	Relation rel;
	TupleTableSlot *slot;
	SideSource *from;  /* for each column of the guarded table */
	AttrNumber at;     /* refused_at */
	AttrNumber by;     /* refused_by */
	AttrNumber rest;   /* or 0 */
	Bitmapset *others; /* columns that the guarded table does not have */
};

struct SideRows
{
	Relation table; /* the guarded table */
	ReturnedColumn *columns;
	TupleTableSlot *row; /* a row of the guarded table, for a row that is read */
	Bitmapset *defaults; /* the columns of that row, from 0, that have no value */
	SideLeaf *leaves;
	int leaf_count;
};

/*
 * Opens the tables of which a side table consists. Locks them, except the side table itself, which
 * is locked already. The clause is that of the guard of `table`.
 */
extern void OpenSideRows(SideRows *rows, Relation table, const GuardClause &clause);
extern void CloseSideRows(const SideRows &rows);

/*
 * Sets `row` and `defaults` from the row in the slot of one of the tables: the columns that the
 * guard uses, or all columns. Allocates in the current memory context. Runs functions of types,
 * which may be a user's code.
 */
extern void ReadSideRow(SideRows *rows, SideLeaf *leaf, bool all);

#endif /* STREAMDEDUP_GUARD_SIDE_ROWS_HPP */
