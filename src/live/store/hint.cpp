/* Prefetches the pages of keys; see LiveHint in live.hpp. */
#include "live/store/store.hpp"

extern "C" {
#include "storage/buf_internals.h"
}

using namespace dedup::live;

LiveHint
HintOfPage(const LiveFilter &filter, const Address &address)
{
	const BlockNumber block =
		Grows(filter) ? GuessGrownPage(filter, address) : (BlockNumber) address.group;
	const Buffer *recent = RecentBuffer(filter, block);

	if (recent == NULL || *recent <= 0)
		return {};
	return {(const uint8_t *) BufferGetBlock(*recent),
			(const uint8_t *) GetBufferDescriptor(*recent - 1), address};
}

void
FetchHint(const LiveHint &hint)
{
	if (hint.page == NULL)
		return;
	dedup::PrefetchToWrite(hint.buffer);
	PrefetchKey(hint.page, hint.address);
	/* This is the line behind the key's own, where the search continues if that is full. */
	dedup::PrefetchToWrite(hint.page + kMainArea.lines_at +
						   (HomeLine(kMainArea, hint.address.line, hint.address.rest) + 1) *
							   dedup::kLineBytes);
}

void
FindHints(const LiveHint *hints, int count)
{
	for (int i = 0; i < count; i++)
		if (likely(hints[i].page != NULL))
		{
			dedup::PrefetchToWrite(hints[i].page);
			dedup::Prefetch(LineAt(hints[i].page, hints[i].address.line));
		}
}
