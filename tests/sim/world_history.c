/* What clients saw, and whether one order of all of it explains it: linearizability (I6, I7).
 *
 * Flow     every registration, update and linearizable read of a job is an operation on the job's
 *          register; each write writes a value of its own. At the end each register is checked by
 *          zones (Gibbons and Korach 1997, exact for registers whose writes are all different): a
 *          value's operations span from the earliest end to the latest begin; values whose zones
 *          point forward may not overlap, and none that points backward may lie inside of one that
 *          points forward. Beside that, the log indexes that the answers carry must agree with real
 *          time over all registers.
 * Shapes   operations are kept to the end of the run. A write without an end may take effect at any
 *          time or never: it counts only when its value was read.
 * Source   P. Gibbons, E. Korach, Testing Shared Memories, SIAM J. Comput. 26 (1997), section 4
 *          (the atomic case with a read mapping).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

struct operation {
    uint32_t job;
    bool write;
    bool ended;
    bool forgotten;
    uint64_t value;      /* 0: the job was not there */
    uint64_t begin, end; /* world's steps: no two events have the same */
    uint64_t index;
};

struct history {
    struct operation *operations;
    size_t count, capacity;
    uint64_t acknowledged;
    uint64_t tick;
};

struct zone {
    uint64_t value;
    uint64_t min_end, max_begin;
    uint64_t write_begin;
    bool written;
    bool read;
};

void history_init(struct world *world)
{
    world->history = check_calloc(1, sizeof(*world->history));
}

void history_close(struct world *world)
{
    free(world->history->operations);
    free(world->history);
}

uint64_t history_acknowledged(const struct world *world)
{
    return world->history->acknowledged;
}

size_t history_begin(struct world *world, unsigned job, bool write, uint64_t value)
{
    struct history *history = world->history;

    if (history->count == history->capacity) {
        history->capacity = history->capacity == 0 ? 1024 : history->capacity * 2;
        history->operations =
            check_realloc(history->operations, history->capacity, sizeof(*history->operations));
    }
    history->operations[history->count] = (struct operation){
        .job = job, .write = write, .value = value, .begin = ++history->tick, .end = UINT64_MAX};
    return history->count++;
}

void history_end(struct world *world, size_t number, uint64_t value, uint64_t index)
{
    struct history *history = world->history;
    struct operation *operation = &history->operations[number];

    CHECK(!operation->ended && !operation->forgotten);
    operation->ended = true;
    operation->end = ++history->tick;
    operation->index = index;
    if (!operation->write)
        operation->value = value;
    if (index == 0 && (operation->write || value != 0))
        world_violation(world, "I7", "an answer about %s carries no index",
                        world->jobs[operation->job].id);
    if (index > history->acknowledged)
        history->acknowledged = index;
}

void history_answered(struct world *world, uint64_t known, uint64_t index, bool write,
                      const char *what)
{
    struct history *history = world->history;

    if (write ? index <= known : index < known)
        world_violation(world, "I7",
                        "%s is answered at index %" PRIu64 ", and %" PRIu64
                        " was acknowledged before it was asked for",
                        what, index, known);
    if (index > history->acknowledged)
        history->acknowledged = index;
}

void history_forget(struct world *world, size_t number)
{
    world->history->operations[number].forgotten = true;
}

/* ---- real time and log indexes ---- */

static const struct history *sorted_history;

static int compare_ends(const void *a, const void *b)
{
    const struct operation *x = &sorted_history->operations[*(const uint32_t *)a];
    const struct operation *y = &sorted_history->operations[*(const uint32_t *)b];

    return x->end < y->end ? -1 : x->end > y->end;
}

/* What begins after something has ended has no smaller index; a write has a greater one. Operations
 * are in the order of their begin. */
static void indexes_check(struct world *world)
{
    struct history *history = world->history;
    uint32_t *by_end = check_calloc(history->count, sizeof(*by_end));
    uint64_t seen = 0;
    size_t at = 0;

    for (uint32_t i = 0; i < history->count; i++)
        by_end[i] = i;
    sorted_history = history;
    qsort(by_end, history->count, sizeof(*by_end), compare_ends);
    for (size_t i = 0; i < history->count; i++) {
        const struct operation *operation = &history->operations[i];
        for (; at < history->count; at++) {
            const struct operation *before = &history->operations[by_end[at]];
            if (!before->ended || before->end > operation->begin)
                break;
            if (before->index > seen)
                seen = before->index;
        }
        if (operation->ended && operation->index != 0 &&
            (operation->write ? operation->index <= seen : operation->index < seen))
            world_violation(world, "I7",
                            "%s of %s at index %" PRIu64 " began after index %" PRIu64 " was known",
                            operation->write ? "write" : "read", world->jobs[operation->job].id,
                            operation->index, seen);
    }
    free(by_end);
}

/* ---- zones ---- */

static struct zone *zone_of(struct zone *zones, size_t *count, uint64_t value)
{
    for (size_t i = 0; i < *count; i++)
        if (zones[i].value == value)
            return &zones[i];
    zones[*count] = (struct zone){.value = value, .min_end = UINT64_MAX};
    return &zones[(*count)++];
}

static void zone_add(struct zone *zone, const struct operation *operation)
{
    if (operation->write) {
        zone->written = true;
        zone->write_begin = operation->begin;
    } else {
        zone->read = true;
    }
    if (operation->end < zone->min_end)
        zone->min_end = operation->end;
    if (operation->begin > zone->max_begin)
        zone->max_begin = operation->begin;
}

static bool forward(const struct zone *zone)
{
    return zone->min_end < zone->max_begin;
}

/* Zones that point forward overlap, or one that points backward lies inside of a: with either end
 * of b named by its role both are the same comparison. */
static void zones_compare(struct world *world, unsigned job, const struct zone *a,
                          const struct zone *b)
{
    if (forward(a) && a->min_end < b->max_begin && b->min_end < a->max_begin)
        world_violation(world, "I7", "%s: no order explains values %" PRIu64 " and %" PRIu64,
                        world->jobs[job].id, a->value, b->value);
}

static void register_check(struct world *world, unsigned job, struct zone *zones)
{
    struct history *history = world->history;
    size_t count = 0;

    /* Before everything the register held 0: the job was not there. */
    zone_add(zone_of(zones, &count, 0), &(struct operation){.write = true, .begin = 0, .end = 0});
    for (size_t i = 0; i < history->count; i++) {
        const struct operation *operation = &history->operations[i];
        if (operation->job != job || operation->forgotten ||
            (!operation->write && !operation->ended))
            continue;
        zone_add(zone_of(zones, &count, operation->value), operation);
    }
    for (size_t i = 0; i < count; i++) {
        if (!zones[i].written)
            world_violation(world, "I7", "%s: value %" PRIu64 " was read, nobody wrote it",
                            world->jobs[job].id, zones[i].value);
        if (zones[i].read && zones[i].min_end < zones[i].write_begin)
            world_violation(world, "I7", "%s: value %" PRIu64 " was read before it was written",
                            world->jobs[job].id, zones[i].value);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (i != j && zones[i].min_end != UINT64_MAX && zones[j].min_end != UINT64_MAX)
                zones_compare(world, job, &zones[i], &zones[j]);
}

void history_check(struct world *world)
{
    struct zone *zones = check_calloc(world->history->count + 1, sizeof(*zones));

    indexes_check(world);
    for (unsigned job = 0; job < world->job_count; job++)
        register_check(world, job, zones);
    free(zones);
}
