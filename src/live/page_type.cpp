/*
 * Input and output of dedup_page; page_type.hpp describes the format. The text form is base64; the
 * binary form is the bytes themselves. All input is checked before it is used.
 */
#include "core/live_method.hpp"
#include "live/page_type.hpp"
#include "pg/base64.hpp"

extern "C" {
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
}

using dedup::LoadDouble;
using dedup::LoadU32;
using dedup::LoadU64;
using dedup::StoreDouble;
using dedup::StoreU32;
using dedup::StoreU64;
using namespace dedup::live;

static constexpr uint8_t MAGIC = 0xDA;
static constexpr uint8_t FORMAT = 2;
static constexpr uint8_t PARAMETERS = 0; /* the kinds */
static constexpr uint8_t PAGE = 1;
static constexpr uint8_t COVERS = 2;
static constexpr size_t PARAMETERS_BYTES = 88;
static constexpr uint32 FORGETS = 1; /* of the flags */
static constexpr uint32 RENEWS = 2;
static constexpr int HASH_SHIFT = 4;
static constexpr uint32 HASH_MASK = 0xf << HASH_SHIFT;
static constexpr size_t PAGE_HEAD_BYTES = 64;
static constexpr size_t ENTRY_BYTES = 16;
static constexpr size_t LINES_BYTES = kBodyBytes;
static constexpr uint32 MAX_DUMPED_ENTRIES = 10000000;

/* The places of the fields, as in page_type.hpp. Fields of both kinds: */
static constexpr size_t MAGIC_AT = 0;
static constexpr size_t FORMAT_AT = 1;
static constexpr size_t KIND_AT = 2;
static constexpr size_t LAYOUT_AT = 3;
static constexpr size_t FLAGS_AT = 4;
static constexpr size_t CHECKSUM_AT = 8;
static constexpr size_t CHECKED_AT = 16; /* the bytes behind the checksum */
static constexpr size_t PAGES_AT = 16;
static constexpr size_t LEVEL_AT = 20;
static constexpr size_t METHOD_AT = 21;
static constexpr size_t ZERO_AT = 22;
static constexpr size_t SEED_AT = 24;
static constexpr size_t GENERATION_AT = 32;
static constexpr size_t TTL_AT = 40;

/* Fields of parameters: */
static constexpr size_t KEYS_AT = 48;
static constexpr size_t FPR_AT = 56;
static constexpr size_t PROTOTYPE_KEYS_AT = 64;
static constexpr size_t PROTOTYPE_FPR_AT = 72;
static constexpr size_t PARAMETERS_ZERO_AT = 80;

/* Fields of a page: */
static constexpr size_t BLOCK_AT = 48;
static constexpr size_t CLOCK_AT = 52;
static constexpr size_t ENTRIES_AT = 56; /* the number of entries */
static constexpr size_t EARLY_AT = 60;

/* Fields of an entry of a page: */
static constexpr size_t ENTRY_GENERATION_AT = 8;
static constexpr size_t ENTRY_ZERO_AT = 12;

static uint64
ChecksumOf(const uint8_t *bytes, size_t size)
{
	static const uint8_t zero[CHECKED_AT - CHECKSUM_AT] = {};
	uint64 head = dedup::Xxh3(bytes, CHECKSUM_AT, 0);

	head = dedup::Xxh3(zero, sizeof zero, head);
	return dedup::Xxh3(bytes + CHECKED_AT, size - CHECKED_AT, head);
}

/* Returns why these bytes are not a valid dedup_page, or null. */
static const char *
FlawOf(const uint8_t *bytes, size_t size)
{
	unsigned slot_bytes;

	if (size < PAGE_HEAD_BYTES || bytes[MAGIC_AT] != MAGIC)
		return "It is not a dedup_page.";
	slot_bytes = LayoutOfByte(bytes[LAYOUT_AT]).slot_bytes;
	if (bytes[KIND_AT] > COVERS || slot_bytes < kMinSlotBytes || slot_bytes > kMaxSlotBytes)
		return "Its header is not valid.";
	if (bytes[KIND_AT] == PARAMETERS ? size != PARAMETERS_BYTES
		: bytes[KIND_AT] == COVERS
			? size != PAGE_HEAD_BYTES
			: LoadU32(bytes + ENTRIES_AT) > MAX_DUMPED_ENTRIES ||
				  (size != PAGE_HEAD_BYTES + ENTRY_BYTES * LoadU32(bytes + ENTRIES_AT) &&
				   size !=
					   PAGE_HEAD_BYTES + ENTRY_BYTES * LoadU32(bytes + ENTRIES_AT) + LINES_BYTES))
		return "Its size does not agree with its header.";
	if (LoadU64(bytes + CHECKSUM_AT) != ChecksumOf(bytes, size))
		return "Its checksum does not match its contents.";
	return NULL;
}

static void
CheckBytes(const struct varlena *value, int sqlstate)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);
	size_t size = VARSIZE_ANY_EXHDR(value);
	const char *flaw;

	if (size >= 2 && bytes[MAGIC_AT] == MAGIC && bytes[FORMAT_AT] != FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dedup_page format %u is not supported", bytes[FORMAT_AT]),
				 errdetail("This version of streamdedup reads and writes format %u.", FORMAT),
				 bytes[FORMAT_AT] < FORMAT
					 ? errhint(
						   "Make the filter again with dedup_create() and fill it from its table.")
					 : errhint("Update streamdedup.")));
	flaw = FlawOf(bytes, size);
	if (flaw != NULL)
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("invalid dedup_page value of %zu bytes", (size_t) VARSIZE_ANY_EXHDR(value)),
				 errdetail("%s", flaw),
				 errhint("Only the unchanged output of a live filter can be read back.")));
}

static struct varlena *
Allocate(size_t size)
{
	struct varlena *value = (struct varlena *) palloc0(VARHDRSZ + size);

	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

/* ---- the common start of all kinds ------------------------------------------- */

static void
WriteHead(const LiveParameters &parameters, uint8_t kind, uint8_t *bytes)
{
	bytes[MAGIC_AT] = MAGIC;
	bytes[FORMAT_AT] = FORMAT;
	bytes[KIND_AT] = kind;
	bytes[LAYOUT_AT] = LayoutByte(parameters.geometry.layout);
	StoreU32(bytes + FLAGS_AT, (parameters.forgets ? FORGETS : 0) |
								   (parameters.renew ? RENEWS : 0) |
								   (uint32) parameters.shape.hash << HASH_SHIFT);
	StoreU32(bytes + PAGES_AT, parameters.geometry.pages);
	StoreU64(bytes + SEED_AT, parameters.shape.seed);
	StoreU64(bytes + GENERATION_AT, (uint64) parameters.generation);
	StoreU64(bytes + TTL_AT, (uint64) parameters.ttl);
}

/* Returns the number of the keys' hash. */
static uint32
HashOf(const uint8_t *bytes)
{
	return (LoadU32(bytes + FLAGS_AT) & HASH_MASK) >> HASH_SHIFT;
}

/*
 * Returns whether these bytes belong to a filter that grows, and are a page or the row that says
 * that the filter covers its table.
 */
static bool
IsOfGrowingPage(const uint8_t *bytes)
{
	return LayoutOfByte(bytes[LAYOUT_AT]).grows && bytes[KIND_AT] != PARAMETERS;
}

/* Raises 0A000 for values of later versions. */
static void
RequireKnown(const uint8_t *bytes)
{
	if (HashOf(bytes) >= dedup::kHashCount)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("hash function number %u of a live filter is not supported", HashOf(bytes)),
				 errhint("Update streamdedup.")));
	if (bytes[LEVEL_AT] > (IsOfGrowingPage(bytes) ? kMostLevels : 0))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("level %u of a live filter is not supported", bytes[LEVEL_AT]),
						errhint("Update streamdedup.")));
}

/* Reads the fields that WriteHead() wrote. Returns false if no filter can have them. */
static bool
ReadHead(const uint8_t *bytes, LiveParameters *parameters)
{
	const uint32 flags = LoadU32(bytes + FLAGS_AT);
	const uint32 hash = HashOf(bytes);

	if (hash >= dedup::kHashCount || (bytes[LEVEL_AT] != 0 && !IsOfGrowingPage(bytes)))
		return false;
	*parameters = LiveParameters{};
	parameters->geometry.layout = LayoutOfByte(bytes[LAYOUT_AT]);
	parameters->geometry.pages = IsOfGrowingPage(bytes) ? 0 : LoadU32(bytes + PAGES_AT);
	parameters->forgets = (flags & FORGETS) != 0;
	parameters->renew = (flags & RENEWS) != 0;
	parameters->geometry.forgets = parameters->forgets && !parameters->geometry.layout.grows;
	parameters->generation = (int64) LoadU64(bytes + GENERATION_AT);
	parameters->ttl = (int64) LoadU64(bytes + TTL_AT);
	if ((flags & ~(FORGETS | RENEWS | HASH_MASK)) != 0 ||
		(parameters->renew && parameters->ttl == 0) || bytes[ZERO_AT] != 0 ||
		bytes[ZERO_AT + 1] != 0 || parameters->geometry.pages > kMaxPages ||
		(parameters->geometry.pages == 0) != parameters->geometry.layout.grows ||
		(parameters->ttl != 0) != parameters->geometry.layout.timed ||
		(parameters->ttl == 0) != (parameters->generation == 0) || parameters->ttl < 0 ||
		parameters->generation < 0)
		return false;
	return MakeShape(parameters->geometry.pages, parameters->geometry.layout,
					 (uint64) parameters->generation, LoadU64(bytes + SEED_AT), (uint8_t) hash,
					 &parameters->shape);
}

/* Describes a length of time. */
static char *
DescribeTime(int64 microseconds)
{
	Interval interval = {};

	interval.day = (int32) (microseconds / USECS_PER_DAY);
	interval.time = microseconds % USECS_PER_DAY;
	return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)));
}

/*
 * Describes the keys without the properties that only live filters have: the exact ttl, and whether
 * they forget.
 */
static char *
DescribeKeys(const dedup::Shape &shape)
{
	const LineLayout layout = LayoutOf(shape);

	return psprintf("seed " INT64_FORMAT ", hash %s, %s, slots of %u %s", (int64) shape.seed,
					dedup::kHashNames[shape.hash],
					PagesOf(shape) == 0 ? "as many pages as it needs"
										: psprintf("%u pages", PagesOf(shape)),
					layout.slot_bytes == 1 ? layout.slot_bits() : layout.slot_bytes,
					layout.slot_bytes == 1 ? "bits" : "bytes");
}

char *
DescribeShape(const dedup::Shape &shape)
{
	const uint64 generation = GenerationLength(shape);

	return psprintf("%s and %s%s", DescribeKeys(shape),
					generation == 0 ? "no ttl" : "generations of ",
					generation == 0 ? "" : DescribeTime((int64) generation));
}

static char *
DescribeLive(const LiveParameters &parameters)
{
	return psprintf("a %s with %s and %s%s",
					parameters.ttl != 0  ? "window of time"
					: parameters.forgets ? "window of keys"
										 : "set",
					DescribeKeys(parameters.shape), parameters.ttl == 0 ? "no ttl" : "ttl ",
					parameters.ttl == 0 ? "" : DescribeTime(parameters.ttl));
}

/* ---- parameters --------------------------------------------------------------- */

struct varlena *
EncodeParameters(const LiveParameters &parameters)
{
	struct varlena *value = Allocate(PARAMETERS_BYTES);
	uint8_t *bytes = (uint8_t *) VARDATA(value);

	WriteHead(parameters, PARAMETERS, bytes);
	bytes[METHOD_AT] = parameters.prototype_method;
	StoreU64(bytes + KEYS_AT, parameters.shape.keys);
	StoreDouble(bytes + FPR_AT, parameters.shape.fpr);
	StoreU64(bytes + PROTOTYPE_KEYS_AT, parameters.prototype_keys);
	StoreDouble(bytes + PROTOTYPE_FPR_AT, parameters.prototype_fpr);
	StoreU64(bytes + CHECKSUM_AT, ChecksumOf(bytes, PARAMETERS_BYTES));
	return value;
}

/* Reads parameters whose bytes were checked. Returns false if no filter can have them. */
static bool
ReadParameters(const uint8_t *bytes, LiveParameters *parameters)
{
	if (bytes[KIND_AT] != PARAMETERS || !ReadHead(bytes, parameters))
		return false;
	parameters->prototype_method = bytes[METHOD_AT];
	parameters->shape.keys = LoadU64(bytes + KEYS_AT);
	parameters->shape.fpr = LoadDouble(bytes + FPR_AT);
	parameters->prototype_keys = LoadU64(bytes + PROTOTYPE_KEYS_AT);
	parameters->prototype_fpr = LoadDouble(bytes + PROTOTYPE_FPR_AT);
	return (parameters->shape.keys >= 1) != parameters->geometry.layout.grows &&
		   parameters->shape.keys <= dedup::kMaxKeys && parameters->shape.fpr >= dedup::kMinFpr &&
		   parameters->shape.fpr <= dedup::kMaxFpr && LoadU64(bytes + PARAMETERS_ZERO_AT) == 0;
}

bool
TryDecodeParameters(const struct varlena *value, LiveParameters *parameters)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);
	const size_t size = VARSIZE_ANY_EXHDR(value);

	return size >= 2 && bytes[FORMAT_AT] == FORMAT && FlawOf(bytes, size) == NULL &&
		   ReadParameters(bytes, parameters);
}

void
DecodeParameters(const struct varlena *value, LiveParameters *parameters)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);

	CheckBytes(value, ERRCODE_DATA_CORRUPTED);
	if (bytes[KIND_AT] != PARAMETERS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("dedup_page value holds a page where a filter's parameters belong")));
	RequireKnown(bytes);
	if (!ReadParameters(bytes, parameters))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("dedup_page value holds parameters that no filter can have")));
}

/* ---- pages --------------------------------------------------------------------- */

struct varlena *
EncodePage(const LiveParameters &parameters, const DumpedPage &page)
{
	size_t size =
		PAGE_HEAD_BYTES + ENTRY_BYTES * page.count + (page.lines != NULL ? LINES_BYTES : 0);
	struct varlena *value;
	uint8_t *bytes;
	uint8_t *to;

	if (page.count > MAX_DUMPED_ENTRIES)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("page %u holds too many keys to be dumped", page.block),
						errhint("Make a larger filter.")));
	value = Allocate(size);
	bytes = (uint8_t *) VARDATA(value);
	to = bytes + PAGE_HEAD_BYTES;
	WriteHead(parameters, PAGE, bytes);
	if (parameters.geometry.layout.grows)
	{
		StoreU32(bytes + PAGES_AT, page.pages);
		bytes[LEVEL_AT] = (uint8_t) page.level;
	}
	StoreU32(bytes + BLOCK_AT, page.block);
	StoreU32(bytes + CLOCK_AT, page.clock);
	StoreU32(bytes + ENTRIES_AT, page.count);
	StoreU32(bytes + EARLY_AT, page.early);
	for (uint32 i = 0; i < page.count; i++, to += ENTRY_BYTES)
	{
		StoreU64(to, page.entries[i].rest | (uint64) page.entries[i].line << kRestBits);
		StoreU32(to + ENTRY_GENERATION_AT, page.entries[i].generation);
		StoreU32(to + ENTRY_ZERO_AT, 0);
	}
	if (page.lines != NULL)
		memcpy(to, page.lines, LINES_BYTES);
	StoreU64(bytes + CHECKSUM_AT, ChecksumOf(bytes, size));
	return value;
}

struct varlena *
EncodeCovers(const LiveParameters &parameters, uint32 pages, uint32 from)
{
	struct varlena *value = Allocate(PAGE_HEAD_BYTES);
	uint8_t *bytes = (uint8_t *) VARDATA(value);

	WriteHead(parameters, COVERS, bytes);
	if (parameters.geometry.layout.grows)
		StoreU32(bytes + PAGES_AT, pages);
	StoreU32(bytes + BLOCK_AT, CoversRow(parameters));
	StoreU32(bytes + CLOCK_AT, from);
	StoreU64(bytes + CHECKSUM_AT, ChecksumOf(bytes, PAGE_HEAD_BYTES));
	return value;
}

[[noreturn]] static void
ReportImpossibleKeys(void)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("dedup_page value holds keys that no page can have")));
	pg_unreachable();
}

/*
 * Returns whether a key has the same place and fingerprint, and is kept as long, in both filters.
 */
static bool
MeanTheSame(const LiveParameters &a, const LiveParameters &b)
{
	return a.shape.seed == b.shape.seed && a.shape.hash == b.shape.hash &&
		   a.shape.bytes == b.shape.bytes && a.shape.detail == b.shape.detail && a.ttl == b.ttl &&
		   a.forgets == b.forgets;
}

void
DecodePage(const struct varlena *value, const LiveParameters &parameters, const char *filter,
		   DumpedPage *page)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);
	size_t size = VARSIZE_ANY_EXHDR(value);
	const uint8_t *from = bytes + PAGE_HEAD_BYTES;
	LineLayout layout = parameters.geometry.layout;
	LiveParameters origin;
	DumpedEntry *entries;
	bool good;

	CheckBytes(value, ERRCODE_DATA_CORRUPTED);
	if (bytes[KIND_AT] == PARAMETERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("dedup_page value holds the parameters of a filter where a page belongs")));
	RequireKnown(bytes);
	if (!ReadHead(bytes, &origin))
		ReportImpossibleKeys();
	if (!MeanTheSame(origin, parameters))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("page of another filter does not fit live filter \"%s\"", filter),
				 errdetail("The page is of %s; the filter is %s.", DescribeLive(origin),
						   DescribeLive(parameters)),
				 errhint(
					 "Load the pages into a filter that was made with the same prototype, seed and "
					 "ttl. dedup_create() takes a random seed unless the prototype gives one.")));
	page->covers = bytes[KIND_AT] == COVERS;
	page->block = LoadU32(bytes + BLOCK_AT);
	page->clock = LoadU32(bytes + CLOCK_AT);
	page->count = LoadU32(bytes + ENTRIES_AT);
	page->early = LoadU32(bytes + EARLY_AT);
	page->level = layout.level = bytes[LEVEL_AT];
	page->pages = LoadU32(bytes + PAGES_AT);
	entries = (DumpedEntry *) palloc(sizeof(DumpedEntry) * (page->count + 1));
	good = bytes[METHOD_AT] == 0 && (layout.timed || page->clock == 0) &&
		   (page->covers ? page->block == CoversRow(parameters) && page->count == 0 &&
							   page->early == 0 && page->level == 0 &&
							   (!layout.grows || (page->pages >= 1 && page->pages <= kMostPages))
			: layout.grows ? page->early == 0 && page->pages >= 1 && page->pages <= kMostPages &&
								 CanBePage(page->block, page->level, page->pages)
						   : page->block < parameters.geometry.pages);
	for (uint32 i = 0; i < page->count; i++, from += ENTRY_BYTES)
	{
		uint64 word = LoadU64(from);

		entries[i].rest = word & dedup::LowMask(kRestBits);
		entries[i].line = (uint32) (word >> kRestBits);
		entries[i].generation = LoadU32(from + ENTRY_GENERATION_AT);
		if (entries[i].line >= kLines || (!layout.timed && entries[i].generation != 0) ||
			(layout.grows && !HasBits(page->block, page->level, PageBits(entries[i].rest))))
			good = false;
	}
	page->entries = entries;
	page->lines = NULL;
	if (size > PAGE_HEAD_BYTES + ENTRY_BYTES * page->count)
	{
		page->lines = from;
		for (unsigned line = 0; line < kLines; line++)
			if (!IsValidLine(from + line * dedup::kLineBytes, layout))
				good = false;
	}
	if (!good)
		ReportImpossibleKeys();
}

/* ---- the type's functions ---------------------------------------------------- */

/*
 * dedup_page_in(cstring) returns dedup_page
 */
DEDUP_FUNCTION(dedup_page_in)
{
	/*
	 * This never raises a soft error: a COPY that leaves pages out would restore a filter without
	 * some of its keys.
	 */
	struct varlena *value = DecodeBase64(PG_GETARG_CSTRING(0), MaxAllocSize, "dedup_page",
										 "Values of this type are written by live filters and read "
										 "back by them only; make a filter with dedup_create().",
										 NULL);

	CheckBytes(value, ERRCODE_INVALID_TEXT_REPRESENTATION);
	PG_RETURN_POINTER(value);
}

/*
 * dedup_page_out(dedup_page) returns cstring
 */
DEDUP_FUNCTION(dedup_page_out)
{
	PG_RETURN_CSTRING(EncodeBase64(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0)), "dedup_page"));
}

/*
 * dedup_page_recv(internal) returns dedup_page
 */
DEDUP_FUNCTION(dedup_page_recv)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int size = message->len - message->cursor;
	struct varlena *value = Allocate((size_t) size);

	memcpy(VARDATA(value), pq_getmsgbytes(message, size), (size_t) size);
	CheckBytes(value, ERRCODE_INVALID_BINARY_REPRESENTATION);
	PG_RETURN_POINTER(value);
}

/*
 * dedup_page_send(dedup_page) returns bytea
 */
DEDUP_FUNCTION(dedup_page_send)
{
	PG_RETURN_POINTER(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0)));
}
