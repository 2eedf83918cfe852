/* Max-min fair sharing. See storage.h.
 *
 * Source   Bertsekas, Gallager: Data Networks (max-min flow control): what a writer cannot use is
 *          shared among the others.
 */
#include "src/whatif/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

void storage_init(struct storage *storage, double capacity_bytes_per_s)
{
    memset(storage, 0, sizeof(*storage));
    storage->capacity_bytes_per_s = capacity_bytes_per_s;
}

void storage_free(struct storage *storage)
{
    free(storage->writers);
    memset(storage, 0, sizeof(*storage));
}

/* The level up to which everybody gets what he asks for: raised until the capacity is used. */
static double fair_level(const struct storage *storage)
{
    double left = storage->capacity_bytes_per_s, level = 0;
    size_t unsatisfied = storage->count;

    while (unsatisfied > 0) {
        double share = left / (double)unsatisfied, satisfied = 0;
        size_t still = 0;
        level = share;
        for (size_t i = 0; i < storage->count; i++) {
            if (storage->writers[i].limit_bytes_per_s <= share)
                satisfied += storage->writers[i].limit_bytes_per_s;
            else
                still++;
        }
        if (still == unsatisfied)
            break;
        unsatisfied = still;
        left = storage->capacity_bytes_per_s - satisfied;
    }
    return level;
}

/* The usual case is that there is enough for all: then nobody's level is looked for. */
static void share_bandwidth(struct storage *storage)
{
    bool enough = storage->injected_bytes_per_s <= storage->capacity_bytes_per_s;
    double level = enough || storage->down ? INFINITY : fair_level(storage);

    for (size_t i = 0; i < storage->count; i++) {
        struct storage_writer *writer = &storage->writers[i];
        writer->rate_bytes_per_s = storage->down ? 0 : fmin(writer->limit_bytes_per_s, level);
    }
}

void storage_advance(struct storage *storage, double now_s)
{
    double seconds = now_s - storage->at_s;

    CHECK(seconds >= 0);
    for (size_t i = 0; i < storage->count; i++) {
        struct storage_writer *writer = &storage->writers[i];
        writer->left_bytes = fmax(writer->left_bytes - seconds * writer->rate_bytes_per_s, 0);
    }
    storage->at_s = now_s;
}

void storage_begin(struct storage *storage, uint32_t job, double bytes, double limit_bytes_per_s)
{
    if (storage->count == storage->room) {
        storage->room = storage->room == 0 ? 64 : storage->room * 2;
        storage->writers =
            check_realloc(storage->writers, storage->room, sizeof(*storage->writers));
    }
    storage->writers[storage->count++] = (struct storage_writer){
        .job = job, .left_bytes = bytes, .limit_bytes_per_s = limit_bytes_per_s};
    storage->injected_bytes_per_s += limit_bytes_per_s;
    share_bandwidth(storage);
}

void storage_end(struct storage *storage, uint32_t job)
{
    size_t i = 0;

    while (i < storage->count && storage->writers[i].job != job)
        i++;
    CHECK(i < storage->count);
    storage->writers[i] = storage->writers[--storage->count];
    /* summed up again: taking one limit away would leave the rounding errors of a long run */
    storage->injected_bytes_per_s = 0;
    for (i = 0; i < storage->count; i++)
        storage->injected_bytes_per_s += storage->writers[i].limit_bytes_per_s;
    share_bandwidth(storage);
}

void storage_set_down(struct storage *storage, bool down)
{
    storage->down = down;
    share_bandwidth(storage);
}

double storage_next_s(const struct storage *storage, uint32_t *ret_job)
{
    double first_s = INFINITY;

    for (size_t i = 0; i < storage->count; i++) {
        const struct storage_writer *writer = &storage->writers[i];
        double at_s = writer->rate_bytes_per_s > 0
                          ? storage->at_s + writer->left_bytes / writer->rate_bytes_per_s
                          : INFINITY;
        if (at_s < first_s) {
            first_s = at_s;
            *ret_job = writer->job;
        }
    }
    return first_s;
}
