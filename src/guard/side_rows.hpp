/*
 * Reading the rows of side tables as rows of the guarded table (side_rows.cpp).
 *
 * A value is that of the key in `rest` with the column's name, else that of the column of that
 * name, else the default. So it does not matter by which columns of the two tables a row was
 * written, as long as they are called now what they were called then.
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
	Form_pg_attribute column; /* NULL: nothing is inserted into it */
	bool used;                /* the guard goes by it */
	FmgrInfo input;
	Oid typioparam;
};

/* A column of one of the side table's tables, and what its values become. */
struct SideSource
{
	AttrNumber attnum; /* 0: there is none */
	bool convert;      /* by its text */
	FmgrInfo output;
};

/* One of the tables that the side table consists of. */
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
	TupleTableSlot *row; /* of the guarded table; for one that is read */
	Bitmapset *defaults; /* columns of that row, from 0, that have no value */
	SideLeaf *leaves;
	int leaf_count;
};

/*
 * Opens the tables that a side table consists of, and locks them but for the side table itself,
 * which is locked. The clause is that of the guard of `table`.
 */
extern void OpenSideRows(SideRows *rows, Relation table, const GuardClause &clause);
extern void CloseSideRows(const SideRows &rows);

/*
 * Makes `row` and `defaults` of the row in the slot of one of the tables: of the columns that the
 * guard uses, or of all. What is made is in the current memory. Runs functions of types, which may
 * be a user's code.
 */
extern void ReadSideRow(SideRows *rows, SideLeaf *leaf, bool all);

#endif /* STREAMDEDUP_GUARD_SIDE_ROWS_HPP */
