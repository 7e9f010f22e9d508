/*
 * Whether a live filter covers its table: see live.hpp. To be written.
 */
#include "live/live.hpp"

bool
LiveCovers(const LiveFilter &filter)
{
	return true;
}

void
SetLiveCovers(const LiveFilter &filter, bool covers)
{
}
