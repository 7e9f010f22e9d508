/*
 * Input and output of dedup_page; see page_type.hpp for the format. Text is base64,
 * binary the bytes themselves. Everything that comes in is checked before it is used.
 */
#include "live/page_type.hpp"
#include "pg/base64.hpp"

extern "C" {
#include "libpq/pqformat.h"
}

using dedup::LoadDouble;
using dedup::LoadU32;
using dedup::LoadU64;
using dedup::StoreDouble;
using dedup::StoreU32;
using dedup::StoreU64;
using namespace dedup::live;

static constexpr uint8_t MAGIC = 0xDA;
static constexpr uint8_t FORMAT = 1;
static constexpr uint8_t PARAMETERS = 0;
static constexpr uint8_t PAGE = 1;
static constexpr size_t PARAMETERS_BYTES = 88;
static constexpr uint32 FORGETS = 1;	/* of the flags */
static constexpr int HASH_SHIFT = 4;
static constexpr uint32 HASH_MASK = 0xf << HASH_SHIFT;
static constexpr size_t PAGE_HEAD_BYTES = 32;
static constexpr size_t ENTRY_BYTES = 16;
static constexpr size_t LINES_BYTES = kLines * dedup::kLineBytes;
static constexpr uint32 MAX_DUMPED_ENTRIES = 10000000;

static uint64
ChecksumOf(const uint8_t *bytes, size_t size)
{
	static const uint8_t zero[8] = {};
	uint64		head = dedup::Xxh3(bytes, 8, 0);

	head = dedup::Xxh3(zero, 8, head);
	return dedup::Xxh3(bytes + 16, size - 16, head);
}

/* What is wrong with bytes that should be a dedup_page; null if nothing. */
static const char *
FlawOf(const uint8_t *bytes, size_t size)
{
	unsigned	slot_bytes;

	if (size < PAGE_HEAD_BYTES || bytes[0] != MAGIC)
		return "It is not a dedup_page.";
	if (bytes[1] != FORMAT)
		return "Its format is not known to this version.";
	slot_bytes = bytes[3] & 0x7f;
	if (bytes[2] > PAGE || slot_bytes < dedup::fifo::kMinSlotBytes ||
		slot_bytes > dedup::fifo::kMaxSlotBytes)
		return "Its header is not valid.";
	if (bytes[2] == PARAMETERS ? size != PARAMETERS_BYTES :
		LoadU32(bytes + 24) > MAX_DUMPED_ENTRIES ||
		(size != PAGE_HEAD_BYTES + ENTRY_BYTES * LoadU32(bytes + 24) &&
		 size != PAGE_HEAD_BYTES + ENTRY_BYTES * LoadU32(bytes + 24) + LINES_BYTES))
		return "Its size does not agree with its header.";
	if (LoadU64(bytes + 8) != ChecksumOf(bytes, size))
		return "Its checksum does not match its contents.";
	return NULL;
}

static void
CheckBytes(const struct varlena *value, int sqlstate)
{
	const char *flaw = FlawOf((const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

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

struct varlena *
EncodeParameters(const LiveParameters &parameters)
{
	struct varlena *value = Allocate(PARAMETERS_BYTES);
	uint8_t    *bytes = (uint8_t *) VARDATA(value);

	bytes[0] = MAGIC;
	bytes[1] = FORMAT;
	bytes[2] = PARAMETERS;
	bytes[3] = LayoutByte(parameters.geometry.layout);
	StoreU32(bytes + 4, (parameters.forgets ? FORGETS : 0) |
			 (uint32) parameters.shape.hash << HASH_SHIFT);
	StoreU32(bytes + 16, parameters.geometry.pages);
	bytes[20] = parameters.prototype_method;
	StoreU64(bytes + 24, parameters.shape.seed);
	StoreU64(bytes + 32, parameters.shape.keys);
	StoreDouble(bytes + 40, parameters.shape.fpr);
	StoreU64(bytes + 48, (uint64) parameters.generation);
	StoreU64(bytes + 56, (uint64) parameters.ttl);
	StoreU64(bytes + 64, parameters.prototype_keys);
	StoreDouble(bytes + 72, parameters.prototype_fpr);
	StoreU64(bytes + 8, ChecksumOf(bytes, PARAMETERS_BYTES));
	return value;
}

void
DecodeParameters(const struct varlena *value, LiveParameters *parameters)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);
	uint32		flags;
	uint32		hash;
	bool		good;

	CheckBytes(value, ERRCODE_DATA_CORRUPTED);
	*parameters = LiveParameters{};
	if (bytes[2] != PARAMETERS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("dedup_page value holds a page where a filter's parameters belong")));
	parameters->geometry.layout.slot_bytes = bytes[3] & 0x7f;
	parameters->geometry.layout.timed = (bytes[3] & 0x80) != 0;
	parameters->geometry.pages = LoadU32(bytes + 16);
	flags = LoadU32(bytes + 4);
	hash = (flags & HASH_MASK) >> HASH_SHIFT;
	if (hash >= dedup::kHashCount)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("hash function number %u of a live filter is not supported", hash),
				 errhint("Update streamdedup.")));
	parameters->forgets = (flags & FORGETS) != 0;
	parameters->geometry.forgets = parameters->forgets;
	parameters->prototype_method = bytes[20];
	parameters->generation = (int64) LoadU64(bytes + 48);
	parameters->ttl = (int64) LoadU64(bytes + 56);
	parameters->prototype_keys = LoadU64(bytes + 64);
	parameters->prototype_fpr = LoadDouble(bytes + 72);

	dedup::Shape &shape = parameters->shape;

	shape.method = dedup::fifo::kMethod.code;
	shape.hash = (uint8_t) hash;
	shape.seed = LoadU64(bytes + 24);
	shape.keys = LoadU64(bytes + 32);
	shape.fpr = LoadDouble(bytes + 40);
	good = (flags & ~(FORGETS | HASH_MASK)) == 0 && parameters->geometry.pages >= 1 &&
		parameters->geometry.pages <= dedup::kMaxBodyBytes / LINES_BYTES &&
		(parameters->ttl != 0) == parameters->geometry.layout.timed &&
		(parameters->ttl == 0) == (parameters->generation == 0) && parameters->ttl >= 0 &&
		parameters->generation >= 0;
	if (good)
	{
		shape.bytes = (uint32) (parameters->geometry.pages * LINES_BYTES);
		shape.detail = parameters->geometry.layout.slot_bytes |
			(uint64) parameters->geometry.layout.timed << dedup::fifo::kTimedBit |
			(uint64) parameters->generation << dedup::fifo::kGenerationShift;
		good = shape.keys >= 1 && shape.keys <= dedup::kMaxKeys &&
			shape.fpr >= dedup::kMinFpr && shape.fpr <= dedup::kMaxFpr &&
			dedup::fifo::kMethod.valid(shape, dedup::Counters{});
	}
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("dedup_page value holds parameters that no filter can have")));
}

struct varlena *
EncodePage(const LiveParameters &parameters, const DumpedPage &page)
{
	size_t		size = PAGE_HEAD_BYTES + ENTRY_BYTES * page.count +
		(page.lines != NULL ? LINES_BYTES : 0);
	struct varlena *value = Allocate(size);
	uint8_t    *bytes = (uint8_t *) VARDATA(value);
	uint8_t    *to = bytes + PAGE_HEAD_BYTES;

	if (page.count > MAX_DUMPED_ENTRIES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("page %u holds too many keys to be dumped", page.block),
				 errhint("Make a larger filter.")));
	bytes[0] = MAGIC;
	bytes[1] = FORMAT;
	bytes[2] = PAGE;
	bytes[3] = LayoutByte(parameters.geometry.layout);
	StoreU32(bytes + 4, page.block);
	StoreU32(bytes + 16, parameters.geometry.pages);
	StoreU32(bytes + 20, page.clock);
	StoreU32(bytes + 24, page.count);
	StoreU32(bytes + 28, page.early);
	for (uint32 i = 0; i < page.count; i++, to += ENTRY_BYTES)
	{
		StoreU64(to, page.entries[i].rest | (uint64) page.entries[i].line << dedup::fifo::kLongBits);
		StoreU32(to + 8, page.entries[i].generation);
		StoreU32(to + 12, 0);
	}
	if (page.lines != NULL)
		memcpy(to, page.lines, LINES_BYTES);
	StoreU64(bytes + 8, ChecksumOf(bytes, size));
	return value;
}

void
DecodePage(const struct varlena *value, const LiveParameters &parameters, DumpedPage *page)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(value);
	size_t		size = VARSIZE_ANY_EXHDR(value);
	const uint8_t *from = bytes + PAGE_HEAD_BYTES;
	DumpedEntry *entries;
	bool		good;

	CheckBytes(value, ERRCODE_DATA_CORRUPTED);
	if (bytes[2] != PAGE || bytes[3] != LayoutByte(parameters.geometry.layout) ||
		LoadU32(bytes + 16) != parameters.geometry.pages ||
		LoadU32(bytes + 4) >= parameters.geometry.pages)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("dedup_page value is not a page of a live filter of this shape"),
				 errhint("Restore the rows of a live filter into one that was made with the same parameters, as pg_dump does.")));
	page->block = LoadU32(bytes + 4);
	page->clock = LoadU32(bytes + 20);
	page->count = LoadU32(bytes + 24);
	page->early = LoadU32(bytes + 28);
	entries = (DumpedEntry *) palloc(sizeof(DumpedEntry) * (page->count + 1));
	good = parameters.geometry.layout.timed || page->clock == 0;
	for (uint32 i = 0; i < page->count; i++, from += ENTRY_BYTES)
	{
		uint64		word = LoadU64(from);

		entries[i].rest = word & dedup::LowMask(dedup::fifo::kLongBits);
		entries[i].line = (uint32) (word >> dedup::fifo::kLongBits);
		entries[i].generation = LoadU32(from + 8);
		if (entries[i].line >= kLines ||
			(!parameters.geometry.layout.timed && entries[i].generation != 0))
			good = false;
	}
	page->entries = entries;
	page->lines = NULL;
	if (size > PAGE_HEAD_BYTES + ENTRY_BYTES * page->count)
	{
		page->lines = from;
		for (unsigned line = 0; line < kLines; line++)
			if (!dedup::fifo::ValidLine(from + line * dedup::kLineBytes, parameters.geometry.layout))
				good = false;
	}
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("dedup_page value holds keys that no page can have")));
}

/* ---- the type's functions ---------------------------------------------------- */

/*
 * dedup_page_in(cstring) returns dedup_page
 */
DEDUP_FUNCTION(dedup_page_in)
{
	/* Never a soft error: a COPY that leaves pages out would restore a forgetful filter. */
	struct varlena *value = DecodeBase64(PG_GETARG_CSTRING(0), MaxAllocSize, "dedup_page",
										 "Values of this type are written by live filters and read back by them only; make a filter with dedup_create().",
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
	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	int			size = message->len - message->cursor;
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
