/*
 * Rows that a plan node reads ahead, so that the cache misses of their keys overlap. They are
 * in slots of the input's kind, which hold on to a few of its buffers rather than copy.
 */
#ifndef STREAMDEDUP_PG_ROW_BATCH_HPP
#define STREAMDEDUP_PG_ROW_BATCH_HPP

#include "pg/pg.hpp"

extern "C" {
#include "executor/executor.h"
#include "storage/bufmgr.h"
}

/* Rows at most. */
static constexpr int BATCH = 32;

/* So many pages the rows of a batch may hold on to; those on further ones are copied. */
static constexpr int BATCH_PAGES = 8;

struct RowBatch
{
	TupleTableSlot *slots[BATCH]; /* made when they are first used, in order */
	Buffer page;                  /* of the last row */
	int pages;
};

/* To be called before the first row of a batch is kept. */
static inline void
StartBatch(RowBatch *batch)
{
	batch->page = InvalidBuffer;
	batch->pages = 0;
}

/* Keeps a row that `input` has returned, on one of so many pages or as a copy. */
static inline void
KeepRow(RowBatch *batch, int i, TupleTableSlot *row, PlanState *input, int most_pages = BATCH_PAGES)
{
	if (unlikely(batch->slots[i] == NULL))
		batch->slots[i] =
			ExecInitExtraTupleSlot(input->state, ExecGetResultType(input), row->tts_ops);
	ExecCopySlot(batch->slots[i], row);
	/* Wide rows have a page each, of which a temporary table has few in memory. */
	if (TTS_IS_BUFFERTUPLE(batch->slots[i]))
	{
		Buffer buffer = ((BufferHeapTupleTableSlot *) batch->slots[i])->buffer;

		if (buffer != batch->page)
		{
			batch->page = buffer;
			batch->pages++;
		}
		if (batch->pages > most_pages)
			ExecMaterializeSlot(batch->slots[i]);
	}
}

/* Lets go of the rows of the last batch. */
static inline void
DropRows(RowBatch *batch)
{
	for (int i = 0; i < BATCH && batch->slots[i] != NULL; i++)
		ExecClearTuple(batch->slots[i]);
}

#endif /* STREAMDEDUP_PG_ROW_BATCH_HPP */
