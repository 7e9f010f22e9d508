/*
 * Rows that a plan node reads ahead, so that the cache misses of their keys overlap. They are in
 * slots of the input's type, which pin a few of its buffers instead of copying rows.
 */
#ifndef STREAMDEDUP_PG_ROW_BATCH_HPP
#define STREAMDEDUP_PG_ROW_BATCH_HPP

#include "pg/pg.hpp"

extern "C" {
#include "executor/executor.h"
#include "storage/bufmgr.h"
}

/* The most rows of a batch. */
static constexpr int BATCH = 32;

/* The most pages that the rows of a batch may pin. Rows on further pages are copied. */
static constexpr int BATCH_PAGES = 8;

struct RowBatch
{
	TupleTableSlot *slots[BATCH]; /* made at their first use, in order */
	Buffer page;                  /* the page of the last row */
	int pages;
};

/* To be called before the first row of a batch is kept. */
static inline void
StartBatch(RowBatch *batch)
{
	batch->page = InvalidBuffer;
	batch->pages = 0;
}

/*
 * Keeps a row that `input` has returned. It pins its page if the batch has at most `most_pages`
 * pages; else the row is copied.
 */
static inline void
KeepRow(RowBatch *batch, int i, TupleTableSlot *row, PlanState *input, int most_pages = BATCH_PAGES)
{
	if (unlikely(batch->slots[i] == NULL))
		batch->slots[i] =
			ExecInitExtraTupleSlot(input->state, ExecGetResultType(input), row->tts_ops);
	ExecCopySlot(batch->slots[i], row);
	/* Wide rows have a page each, and a temporary table has few pages in memory. */
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

/* Releases the rows of the last batch. */
static inline void
DropRows(RowBatch *batch)
{
	for (int i = 0; i < BATCH && batch->slots[i] != NULL; i++)
		ExecClearTuple(batch->slots[i]);
}

#endif /* STREAMDEDUP_PG_ROW_BATCH_HPP */
