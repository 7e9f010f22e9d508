/* dedup_count and dedup_stats: the contents of a filter in numbers. */
#include "value/datum.hpp"

using dedup::Header;
using dedup::Reading;

/*
 * dedup_count(filter dedup_filter) returns bigint
 *
 * Returns the estimated number of distinct keys that the filter holds. It is exact while the filter
 * is, else estimated from the bits that are set. For a window, these are the keys that it still
 * remembers.
 */
DEDUP_FUNCTION(dedup_count)
{
	FilterRef filter = GetFilter(PG_GETARG_DATUM(0));

	PG_RETURN_INT64((int64) std::llround(dedup::Read(filter.image, filter.header).count));
}

/*
 * dedup_stats(filter dedup_filter) returns record
 *
 * For methods without a rate, keys, fpr, fill and fpr_now are NULL. For filters that grow, keys and
 * fill are NULL, bytes_full is the size of the largest such filter, and overfull is true if the
 * filter has reached that size and holds more keys than it can hold at its rate. For methods that
 * count, the parameters also show the number of sights, by how much a frequency may be too high
 * now, and whether a counter (or, in an exact filter, the number of sights) has reached its
 * maximum.
 */
DEDUP_FUNCTION(dedup_stats)
{
	FilterRef filter = GetFilter(PG_GETARG_DATUM(0));
	const Header &header = filter.header;
	Reading reading = dedup::Read(filter.image, header);
	TupleDesc desc;
	char parameters[256];
	Datum values[12];
	bool isnull[12] = {};
	const bool has_keys = header.method->has_rate() && header.method->growth == NULL;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	dedup::DescribeParameters(header.shape, parameters, sizeof parameters);
	values[0] = CStringGetTextDatum(header.method->name);
	isnull[1] = isnull[6] = !has_keys;
	isnull[2] = isnull[7] = !header.method->has_rate();
	values[1] = Int64GetDatum((int64) header.shape.keys);
	values[2] = Float8GetDatum(header.shape.fpr);
	values[3] = Int64GetDatum((int64) header.shape.seed);
	values[4] = BoolGetDatum(header.exact());
	values[5] = Int64GetDatum((int64) std::llround(reading.count));
	values[6] = Float8GetDatum(!has_keys ? 0 : reading.count / (double) header.shape.keys);
	values[7] = Float8GetDatum(reading.fpr);
	values[8] = BoolGetDatum(dedup::Overfull(header, reading));
	values[9] = Int64GetDatum((int64) (VARHDRSZ + dedup::CanonicalBytes(header)));
	values[10] = Int64GetDatum((int64) (VARHDRSZ + dedup::kHeaderBytes + header.shape.bytes));
	if (header.counted())
	{
		uint64 total = dedup::TotalOf(filter.image, header);
		double error =
			header.exact() ? 0 : std::floor(header.method->epsilon(header.shape) * (double) total);
		size_t used = std::strlen(parameters);

		snprintf(parameters + used, sizeof parameters - used, " total=%llu error=%.0f saturated=%s",
				 (unsigned long long) total, error,
				 (header.exact() ? total >= dedup::kMaxCount : header.counters.state != 0) ? "on"
																						   : "off");
	}
	values[11] = CStringGetTextDatum(parameters);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}
