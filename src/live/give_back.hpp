/* Gives free pages of a live filter back to the operating system (give_back.cpp). */
#ifndef STREAMDEDUP_LIVE_GIVE_BACK_HPP
#define STREAMDEDUP_LIVE_GIVE_BACK_HPP

#include "live/live.hpp"

/* Blocks that were free when they were checked, in order. */
struct FreeBlocks
{
	BlockNumber *block;
	BlockNumber count;
};

/* Returns whether a page that is not one of the fixed ones is unused. */
extern bool IsFreePage(const LiveFilter &filter, BlockNumber block);

/*
 * Gives free pages at the end of the file back, if no other session uses the filter at the moment.
 * If the filter grows, its last pages are first moved to the free blocks. Returns the file's
 * length.
 */
extern BlockNumber GiveBackFree(const LiveFilter &filter, const FreeBlocks &free_blocks);

#endif /* STREAMDEDUP_LIVE_GIVE_BACK_HPP */
