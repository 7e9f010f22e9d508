/* dedup_advise: the methods that fit, the best first. */
#include "value/datum.hpp"

extern "C" {
#include "utils/float.h"
}

using dedup::Method;
using dedup::PlanStatus;
using dedup::Remembers;
using dedup::Request;
using dedup::Shape;

namespace
{

/* The properties that the user requests of a filter. */
struct Wish
{
	uint64 keys; /* 0: not given */
	double fpr;
	bool any_kind; /* sets and windows */
	bool forget;
	bool any_sight;
	bool first_sight;
	bool deletes;
	bool merges;
};

struct Advice
{
	const Method *method;
	const char *options; /* beside keys and fpr */
	const char *promise;
	const char *why; /* NULL: the method is only here for its paper */
	Shape shape;
	uint64 bytes; /* of its body for this many keys */
	double bits_per_key;
	double fpr; /* the expected rate: for sets, with this many keys; else in the steady state */
	double missed;
};

/* There are at most two rows for a method: with its usual options, and its variant. */
struct Advised
{
	Wish wish;
	int rows;
	Advice row[2 * dedup::kMethodCount];
};

/* The most misses of a window whose promise counts. */
constexpr double PROMISED = 0.001;

/* The rate of a filter may be above the requested one by this share. */
constexpr double ROUNDING = 0.01;

} /* namespace */

/* Returns the function that makes this filter without a method's name, or NULL. */
static const char *
MadeBy(const Advice &advice, const Wish &wish)
{
	if (advice.options[0] != '\0')
		return NULL;
	if (advice.method == (wish.keys > 0 ? &dedup::FilterMethod(wish.fpr) : &dedup::GrowingMethod()))
		return "dedup_filter()";
	if (advice.method == &dedup::WindowMethod())
		return "dedup_window()";
	return NULL;
}

/*
 * The order is: sets, then windows with a promise, then filters that forget by chance. After all of
 * these, in the same order, come the methods that are here for their papers.
 */
static int
Rank(const Advice &advice)
{
	const int kind = !advice.method->forgets(advice.shape) ? 0 : advice.missed <= PROMISED ? 1 : 2;

	return advice.why != NULL ? kind : kind + 3;
}

static bool
Better(const Advice &left, const Advice &right, const Wish &wish)
{
	const bool left_is_usual = MadeBy(left, wish) != NULL;

	if (Rank(left) != Rank(right))
		return Rank(left) < Rank(right);
	if (wish.merges && left.method->merge_keeps_all != right.method->merge_keeps_all)
		return left.method->merge_keeps_all;
	if (left_is_usual != (MadeBy(right, wish) != NULL))
		return left_is_usual;
	return left.bytes < right.bytes;
}

/* Returns the reason to choose this filter, in a few words. */
static const char *
Why(const Advice &advice, const Wish &wish)
{
	const char *function = MadeBy(advice, wish);

	if (advice.why == NULL)
		return "only to compare with its paper";
	return function == NULL ? advice.why : psprintf("made by %s: %s", function, advice.why);
}

/* Rounds a figure to three digits. */
static Datum
Figure(double value)
{
	return Float8GetDatum(strtod(psprintf("%.3g", value), NULL));
}

/* Returns the most bits a key that a growing filter has: just after it has grown. */
static double
MostBits(const Shape &shape)
{
	const dedup::Growth &growth = *dedup::MethodByCode(shape.method)->growth;
	uint64 keys = growth.exact_hashes + 1;
	double most = 0;

	for (;;)
	{
		const uint32 bytes = growth.bytes_for(shape, keys);

		most = Max(most, 8.0 * bytes / (double) keys);
		if (bytes == shape.bytes)
			return most;
		keys = growth.limit(shape, growth.start(bytes)) + 1;
	}
}

/*
 * Sets the size of a filter that grows, and its rate. Returns false if the filter would not keep
 * that rate.
 */
static bool
FitsGrowing(const Wish &wish, Advice *advice)
{
	const Shape &shape = advice->shape;
	const dedup::Growth &growth = *advice->method->growth;
	const uint64 most = growth.most_keys(shape);

	if (wish.keys > most)
		return false;
	advice->bytes =
		wish.keys <= growth.exact_hashes ? 8 * wish.keys : growth.bytes_for(shape, wish.keys);
	advice->bits_per_key =
		wish.keys > 0 ? 8.0 * advice->bytes / (double) wish.keys : MostBits(shape);
	advice->fpr = advice->method->expected_fpr(shape, (double) (wish.keys > 0 ? wish.keys : most));
	return advice->fpr <= wish.fpr;
}

/*
 * Returns whether the method with these options has the requested properties, and fills the advice.
 */
static bool
Fits(const Method *method, bool variant, const Wish &wish, Advice *advice)
{
	Request request;
	Remembers remembers;

	if (!method->has_rate() || (wish.keys == 0 && method->growth == NULL))
		return false;
	advice->method = method;
	advice->options = variant ? method->variant : "";
	advice->promise = variant ? method->variant_promise : method->promise;
	advice->why = variant ? method->variant_why : method->why;
	request.keys = method->growth != NULL ? 0 : wish.keys;
	request.fpr = wish.fpr;
	if (dedup::ParseOptions(*method, advice->options, std::strlen(advice->options),
							&request.options)
			.status != dedup::OptionStatus::kOk)
		elog(ERROR, "method %s does not know its own options \"%s\"", method->name,
			 advice->options);
	if (dedup::PlanFilter(*method, request, 0, &advice->shape) != PlanStatus::kOk)
		return false;
	if (method->growth != NULL)
	{
		if (!FitsGrowing(wish, advice))
			return false;
	}
	else
	{
		advice->bytes = advice->shape.bytes;
		advice->bits_per_key = 8.0 * advice->bytes / (double) wish.keys;
		/* Some published methods do not keep every rate. */
		advice->fpr = method->forgets(advice->shape)
						  ? dedup::SteadyFpr(*method, advice->shape)
						  : method->expected_fpr(advice->shape, (double) wish.keys);
		if (advice->fpr > wish.fpr * (1 + ROUNDING))
			return false;
	}
	advice->missed = method->missed(advice->shape);
	remembers = method->remembers(advice->shape);
	if (!wish.any_kind && wish.forget != (remembers != Remembers::kAll))
		return false;
	if (!wish.any_sight &&
		remembers != (wish.first_sight ? Remembers::kFirstSeen : Remembers::kLastSeen))
		return false;
	if (wish.deletes && !method->can_forget(advice->shape))
		return false;
	return !wish.merges || method->merge != NULL;
}

/* Lists what the filter cannot do: "forget keys, merge". */
static const char *
Cannot(const Advice &advice)
{
	StringInfoData text;
	const Method &method = *advice.method;
	bool forgets = method.forgets(advice.shape);

	initStringInfo(&text);
	if (advice.missed > PROMISED)
		appendStringInfoString(&text, ", promise a window");
	if (!method.can_forget(advice.shape))
		appendStringInfoString(&text, ", take a key back");
	if (method.merge == NULL)
		appendStringInfoString(&text, ", merge");
	else if (!method.merge_keeps_all)
		appendStringInfoString(&text, forgets ? ", merge without loss when full"
											  : ", merge when both are nearly full");
	else if (forgets)
		appendStringInfoString(&text, ", keep its rate through a merge");
	return text.len == 0 ? "" : text.data + 2;
}

static bool
FlagArgument(FunctionCallInfo fcinfo, int place)
{
	return !PG_ARGISNULL(place) && PG_GETARG_BOOL(place);
}

static Wish
GetWish(FunctionCallInfo fcinfo)
{
	Wish wish;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("rate must not be null")));
	if (!PG_ARGISNULL(0))
		CheckKeys(PG_GETARG_INT64(0));
	CheckRate(PG_GETARG_FLOAT8(1));
	wish.keys = PG_ARGISNULL(0) ? 0 : (uint64) PG_GETARG_INT64(0);
	wish.fpr = PG_GETARG_FLOAT8(1);
	wish.any_kind = PG_ARGISNULL(2);
	wish.forget = FlagArgument(fcinfo, 2);
	wish.any_sight = PG_ARGISNULL(3);
	wish.first_sight = FlagArgument(fcinfo, 3);
	wish.deletes = FlagArgument(fcinfo, 4);
	wish.merges = FlagArgument(fcinfo, 5);
	return wish;
}

/* Raises an error if no method without a number of keys has the requested properties. */
static void
RequireNumber(const Wish &wish)
{
	const bool window = (!wish.any_kind && wish.forget) || !wish.any_sight;

	ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					window ? errmsg("a window needs a number of keys")
						   : errmsg("a filter that can forget a key needs a number of keys"),
					window ? errhint("Give the number of keys that the filter must remember.")
						   : errhint("Give the most keys that the filter must hold at one time.")));
}

/* Returns all that fit, the best first. */
static Advised *
Advise(const Wish &wish)
{
	Advised *advised = (Advised *) palloc0(sizeof(Advised));

	advised->wish = wish;
	for (const Method *method : dedup::kMethods)
		for (int variant = 0; variant <= (method->variant != NULL ? 1 : 0); variant++)
		{
			Advice advice;
			int place;

			if (!Fits(method, variant == 1, wish, &advice))
				continue;
			for (place = advised->rows++; place > 0; place--)
			{
				if (!Better(advice, advised->row[place - 1], wish))
					break;
				advised->row[place] = advised->row[place - 1];
			}
			advised->row[place] = advice;
		}
	if (advised->rows == 0 && wish.keys == 0)
		RequireNumber(wish);
	return advised;
}

/* Makes a row of the result. */
static Datum
AdviceRow(TupleDesc desc, const Advice &advice, const Wish &wish)
{
	const Shape &shape = advice.shape;
	const Method &method = *advice.method;
	char parameters[128];
	Datum values[12];
	bool isnull[12] = {};
	int n = 0;

	method.describe(shape, parameters, sizeof parameters);
	values[n++] = CStringGetTextDatum(method.name);
	values[n++] = CStringGetTextDatum(Why(advice, wish));
	values[n++] = CStringGetTextDatum(advice.promise);
	isnull[n] = wish.keys == 0;
	values[n++] = Int64GetDatum((int64) (advice.bytes + dedup::kHeaderBytes + VARHDRSZ));
	values[n++] = Figure(advice.bits_per_key);
	values[n++] = Figure(advice.fpr);
	values[n++] = Figure(advice.missed);
	values[n++] = CStringGetTextDatum(method.cost);
	values[n++] = CStringGetTextDatum(Cannot(advice));
	values[n++] = CStringGetTextDatum(method.merging);
	values[n++] = CStringGetTextDatum(parameters);
	values[n++] = CStringGetTextDatum(
		psprintf("dedup_method('%s', NULL, '%sfpr=%s%s%s')", method.name,
				 shape.keys > 0 ? psprintf("keys=" UINT64_FORMAT " ", shape.keys) : "",
				 float8out_internal(shape.fpr), advice.options[0] != '\0' ? " " : "",
				 advice.options));
	Assert(n == lengthof(values));
	return HeapTupleGetDatum(heap_form_tuple(desc, values, isnull));
}

/*
 * dedup_advise(keys bigint, fpr float8, forget boolean, first_sight boolean, deletes boolean,
 * merges boolean) returns setof record
 *
 * Returns a row for each method that reports whether a key was seen, with its usual options, if it
 * can hold `keys` keys (1 to 2^40) at a rate of `fpr` (1e-9 to 0.5). Methods that never forget come
 * first, then windows, then methods that forget by chance, and last the methods that are here for
 * their papers. Within each of these, the filter that dedup_filter() or dedup_window() makes is
 * first, then the smallest. With `merges`, methods whose merge loses nothing come first. `forget`
 * selects one kind (NULL: both), `first_sight` the windows by first or by last sight, `deletes` the
 * methods that support dedup_forget, `merges` the methods that can be merged.
 *
 * If `keys` is NULL, the only row is the filter that grows. Its bytes are NULL, and bits_per_key
 * and expected_fpr are its maximum. Raises 22004 if that filter does not have the requested
 * properties.
 */
DEDUP_FUNCTION(dedup_advise)
{
	FuncCallContext *context;
	Advised *advised;

	if (SRF_IS_FIRSTCALL())
	{
		Wish wish = GetWish(fcinfo);
		MemoryContext old;

		context = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &context->tuple_desc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		context->user_fctx = Advise(wish);
		MemoryContextSwitchTo(old);
	}
	context = SRF_PERCALL_SETUP();
	advised = (Advised *) context->user_fctx;
	if (context->call_cntr < (uint64) advised->rows)
	{
		/*
		 * This is not an argument of the macro, which counts the call before it evaluates the
		 * argument.
		 */
		Datum row = AdviceRow(context->tuple_desc, advised->row[context->call_cntr], advised->wish);

		SRF_RETURN_NEXT(context, row);
	}
	SRF_RETURN_DONE(context);
}
