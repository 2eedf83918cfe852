/* See history.h. */
#include "src/broker/explain/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum {
    SEGMENT_WORDS = 1 << 16, /* 512 KiB */
    HISTORY_TIME_MAX_S = 1000000000,
    CHANGED_MAX = EVAL_COLUMN_COUNT
};

struct cycle {
    uint64_t now_ms;
    uint64_t head; /* of the ring when it began */
    struct eval_policy policy;
};

enum {
    RECORD_LENGTH_MAX = (1 << 12) - 1,
    RECORD_FLAGS_MAX = (1 << 10) - 1,
    RECORD_VERDICTS = 1 << 4,
    RECORD_INPUTS = 18
};

/* What a run was, where it differs from the next one; the changed columns follow. A million of them are made in a cycle when
 * something of every job changes. */
struct record {
    uint64_t older : 52;
    uint64_t before_last : 12; /* cycles of the run; more are not kept anyway */
    uint32_t last_cycle;
    uint32_t flags : 10;
    uint32_t verdict : 4;
    uint32_t changed : RECORD_INPUTS; /* bits of EVAL_INPUT_* */
};
enum { RECORD_WORDS = sizeof(struct record) / sizeof(uint64_t) };
_Static_assert(sizeof(struct record) == 2 * sizeof(uint64_t), "two words");
_Static_assert((int)HISTORY_CYCLES <= (int)RECORD_LENGTH_MAX, "as long as a run is kept");
_Static_assert((int)EVAL_VERDICT_COUNT <= (int)RECORD_VERDICTS, "every verdict");
_Static_assert((int)EVAL_FLAG_DOUBTED * 2 <= (int)RECORD_FLAGS_MAX + 1, "every flag");
_Static_assert((int)EVAL_INPUT_COUNT <= (int)RECORD_INPUTS, "a bit for each input");

struct history {
    uint64_t **segments;
    size_t segment_count;
    uint64_t head; /* in words, ever rising; the place is its remainder */
    struct cycle *cycles;
    uint32_t last_cycle;
};

struct history *history_new(uint64_t bytes_max)
{
    struct history *history = check_calloc(1, sizeof(*history));

    history->segment_count = bytes_max / (SEGMENT_WORDS * sizeof(uint64_t));
    if (history->segment_count == 0)
        history->segment_count = 1;
    history->segments = check_calloc(history->segment_count, sizeof(*history->segments));
    history->cycles =
        check_alloc(HISTORY_CYCLES * sizeof(*history->cycles)); /* filled as they come */
    return history;
}

void history_clear(struct history *history)
{
    for (size_t i = 0; i < history->segment_count; i++) {
        free(history->segments[i]);
        history->segments[i] = NULL;
    }
    history->head = 0;
    history->last_cycle = 0;
}

void history_free(struct history *history)
{
    if (history == NULL)
        return;
    history_clear(history);
    free(history->segments);
    free(history->cycles);
    free(history);
}

/* ---- cycles ----------------------------------------------------------------------------------------------------------- */

static uint64_t capacity_words(const struct history *history)
{
    return (uint64_t)history->segment_count * SEGMENT_WORDS;
}

static const struct cycle *cycle_of(const struct history *history, uint32_t cycle)
{
    CHECK(cycle >= history_oldest_cycle(history) && cycle <= history->last_cycle && cycle > 0);
    return &history->cycles[cycle % HISTORY_CYCLES];
}

void history_cycle(struct history *history, uint64_t now_ms, const struct eval_policy *policy)
{
    CHECK(history->last_cycle < UINT32_MAX);
    history->last_cycle++;
    history->cycles[history->last_cycle % HISTORY_CYCLES] =
        (struct cycle){.now_ms = now_ms, .head = history->head, .policy = *policy};
}

uint32_t history_last_cycle(const struct history *history)
{
    return history->last_cycle;
}

uint32_t history_oldest_cycle(const struct history *history)
{
    return history->last_cycle > HISTORY_CYCLES ? history->last_cycle - HISTORY_CYCLES + 1 : 1;
}

uint64_t history_cycle_ms(const struct history *history, uint32_t cycle)
{
    return cycle_of(history, cycle)->now_ms;
}

uint32_t history_kept(const struct history *history)
{
    uint32_t low = history_oldest_cycle(history), high = history->last_cycle + 1;

    if (history->last_cycle == 0)
        return 0;
    while (low < high) { /* the first cycle of which every record is there */
        uint32_t middle = low + (high - low) / 2;

        if (cycle_of(history, middle)->head + capacity_words(history) >= history->head)
            high = middle;
        else
            low = middle + 1;
    }
    if (low > history_oldest_cycle(history))
        low--; /* its records say what was in the one before */
    return history->last_cycle - low + 1;
}

const struct eval_policy *history_policy(const struct history *history, uint32_t cycle)
{
    return &cycle_of(history, cycle)->policy;
}

uint32_t history_cycle_at(const struct history *history, uint64_t at_ms)
{
    uint32_t low = history_oldest_cycle(history), high = history->last_cycle + 1;

    if (history->last_cycle == 0 || history_cycle_ms(history, low) > at_ms)
        return 0;
    while (high - low > 1) { /* low began in time, high did not */
        uint32_t middle = low + (high - low) / 2;

        if (history_cycle_ms(history, middle) <= at_ms)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- what time alone does to a row ------------------------------------------------------------------------------------ */

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Of a time that the view holds in whole milliseconds as seconds. */
static bool is_time(double seconds)
{
    return seconds >= 0 && seconds < HISTORY_TIME_MAX_S &&
           same_bits((double)llround(seconds * 1e3) / 1e3, seconds);
}

static double later_age(double age_s, int64_t by_ms)
{
    int64_t ms;

    if (!is_time(age_s))
        return age_s;
    ms = llround(age_s * 1e3) + by_ms;
    return (double)(ms > 0 ? ms : 0) / 1e3;
}

/* It stops at 0, and from there the way back is not known: a run ends where it is reached. */
static double later_walltime(double left_s, int64_t by_ms)
{
    int64_t ms;

    if (!is_time(left_s) || left_s == 0)
        return left_s;
    ms = llround(left_s * 1e3) - by_ms;
    return (double)(ms > 0 ? ms : 0) / 1e3;
}

static bool only_time_passed(const struct eval_view *before, size_t i, const struct eval_view *now,
                             size_t k, int64_t by_ms, bool *ret_walltime)
{
    double left_s = later_walltime(before->walltime_left_s[i], by_ms);

    *ret_walltime = same_bits(left_s, now->walltime_left_s[k]) &&
                    (left_s > 0 || before->walltime_left_s[i] == 0);
    return same_bits(later_age(before->age_s[i], by_ms), now->age_s[k]);
}

static uint64_t bit(enum eval_input input)
{
    return UINT64_C(1) << input;
}

/* Which inputs something else than time changed. */
static uint64_t changes(struct history_sample before, struct history_sample now, int64_t by_ms)
{
    uint64_t changed = 0;
    bool walltime;
    bool age = only_time_passed(before.view, before.i, now.view, now.i, by_ms, &walltime);

#define X(column)                                                                                  \
    if (!same_bits(before.view->column[before.i], now.view->column[now.i]))                        \
        changed |= bit(EVAL_INPUT_##column);
    EVAL_VIEW_COLUMNS(X)
#undef X
    changed = age ? changed & ~bit(EVAL_INPUT_age_s) : changed | bit(EVAL_INPUT_age_s);
    changed = walltime ? changed & ~bit(EVAL_INPUT_walltime_left_s)
                       : changed | bit(EVAL_INPUT_walltime_left_s);
    if (before.view->flags[before.i] != now.view->flags[now.i])
        changed |= bit(EVAL_INPUT_FLAGS);
    return changed;
}

/* ---- records ---------------------------------------------------------------------------------------------------------- */

static uint64_t *place(const struct history *history, uint64_t at)
{
    uint64_t *segment = history->segments[at / SEGMENT_WORDS % history->segment_count];

    CHECK(segment != NULL);
    return segment + at % SEGMENT_WORDS;
}

/* Room for so many words, within one segment; what was there is forgotten. */
static uint64_t take_words(struct history *history, size_t words)
{
    uint64_t left = SEGMENT_WORDS - history->head % SEGMENT_WORDS, at;
    uint64_t **segment;

    CHECK(words <= RECORD_WORDS + CHANGED_MAX);
    if (left < words)
        history->head += left;
    at = history->head;
    segment = &history->segments[at / SEGMENT_WORDS % history->segment_count];
    if (*segment == NULL)
        *segment = check_calloc(SEGMENT_WORDS, sizeof(uint64_t));
    history->head += words;
    return at;
}

/* NULL: overwritten, or there is none. */
static const uint64_t *record_at(const struct history *history, uint64_t older,
                                 struct record *ret_record)
{
    const uint64_t *words;

    if (older == 0 || older - 1 + capacity_words(history) < history->head)
        return NULL;
    words = place(history, older - 1);
    memcpy(ret_record, words, sizeof(*ret_record));
    return words + RECORD_WORDS;
}

static void close_run(struct history *history, struct history_row *row,
                      struct history_sample before, uint64_t changed)
{
    uint32_t length = row->last_cycle - row->first_cycle;
    struct record record = {.older = row->older,
                            .before_last = length < RECORD_LENGTH_MAX ? length : RECORD_LENGTH_MAX,
                            .last_cycle = row->last_cycle,
                            .flags = before.view->flags[before.i] & RECORD_FLAGS_MAX,
                            .verdict = before.verdict,
                            .changed = (uint32_t)changed};
    size_t numbers = (size_t)__builtin_popcountll(changed & ~bit(EVAL_INPUT_FLAGS)),
           count = RECORD_WORDS;
    uint64_t at = take_words(history, RECORD_WORDS + numbers);
    uint64_t *words = place(history, at);

    memcpy(words, &record, sizeof(record));
#define X(column)                                                                                  \
    if ((changed & bit(EVAL_INPUT_##column)) != 0)                                                 \
        memcpy(&words[count++], &before.view->column[before.i], sizeof(uint64_t));
    EVAL_VIEW_COLUMNS(X)
#undef X
    CHECK(count == RECORD_WORDS + numbers);
    CHECK(record.flags == before.view->flags[before.i] && record.older == row->older);
    row->older = at + 1;
}

void history_note(struct history *history, struct history_row *row, struct history_sample before,
                  struct history_sample now)
{
    uint32_t cycle = history->last_cycle;
    uint64_t changed;

    CHECK(cycle > 0);
    if (row->first_cycle == 0 || row->last_cycle < history_oldest_cycle(history)) {
        *row = (struct history_row){.first_cycle = cycle, .last_cycle = cycle};
        return;
    }
    CHECK(row->last_cycle < cycle);
    changed = changes(
        before, now,
        (int64_t)(history_cycle_ms(history, cycle) - history_cycle_ms(history, row->last_cycle)));
    if (changed != 0 || before.verdict != now.verdict || row->last_cycle + 1 != cycle) {
        close_run(history, row, before, changed);
        row->first_cycle = cycle;
    }
    row->last_cycle = cycle;
}

void history_turn(struct history *history, struct history_row *row, struct history_sample noted)
{
    uint32_t cycle = history->last_cycle;

    CHECK(row->last_cycle == cycle && cycle > 0);
    if (row->first_cycle == cycle)
        return;                  /* a run of its own: its verdict is not written down yet */
    row->last_cycle = cycle - 1; /* only time went on, or the run would not have */
    close_run(history, row, noted, 0);
    row->first_cycle = row->last_cycle = cycle;
}

/* ---- walking back ----------------------------------------------------------------------------------------------------- */

static uint32_t kept_from(const struct history *history, uint32_t first_cycle)
{
    uint32_t oldest = history_oldest_cycle(history);

    return first_cycle > oldest ? first_cycle : oldest;
}

void history_newest(const struct history *history, const struct history_row *row,
                    struct history_sample now, struct history_run *run)
{
    struct eval_view view = run->view;

    CHECK(row->first_cycle > 0 && view.capacity >= 1);
    CHECK(now.i < now.view->capacity);
    view.count = 1;
#define X(column) view.column[0] = now.view->column[now.i];
    EVAL_VIEW_COLUMNS(X)
#undef X
    view.flags[0] = now.view->flags[now.i];
    *run = (struct history_run){.view = view,
                                .cycle = row->last_cycle,
                                .first_cycle = kept_from(history, row->first_cycle),
                                .last_cycle = row->last_cycle,
                                .verdict = now.verdict,
                                .older = row->older};
}

static void pass_time(const struct history *history, struct history_run *run, uint32_t cycle)
{
    int64_t by_ms =
        (int64_t)(history_cycle_ms(history, cycle) - history_cycle_ms(history, run->cycle));

    run->view.age_s[0] = later_age(run->view.age_s[0], by_ms);
    run->view.walltime_left_s[0] = later_walltime(run->view.walltime_left_s[0], by_ms);
    run->cycle = cycle;
}

void history_move(const struct history *history, struct history_run *run, uint32_t cycle)
{
    CHECK(cycle >= run->first_cycle && cycle <= run->last_cycle);
    pass_time(history, run, cycle);
}

bool history_older(const struct history *history, struct history_run *run, uint64_t *ret_changed)
{
    struct record record;
    const uint64_t *numbers = record_at(history, run->older, &record);
    size_t at = 0;

    if (numbers == NULL || record.last_cycle < history_oldest_cycle(history))
        return false;
    pass_time(history, run, record.last_cycle);
#define X(column)                                                                                  \
    if ((record.changed & bit(EVAL_INPUT_##column)) != 0)                                          \
        memcpy(&run->view.column[0], &numbers[at++], sizeof(uint64_t));
    EVAL_VIEW_COLUMNS(X)
#undef X
    run->view.flags[0] = record.flags;
    run->verdict = (uint8_t)record.verdict;
    run->first_cycle = kept_from(history, record.last_cycle - record.before_last);
    run->last_cycle = record.last_cycle;
    run->older = record.older;
    *ret_changed = record.changed;
    return true;
}
