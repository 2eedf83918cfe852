/* Writers that share a storage system: each as fast as it can inject, together no faster than the
 * storage (max-min fair).
 *
 * Flow     storage_begin / storage_end when a write starts or stops, storage_advance before either;
 *          storage_next_s tells when the first one is done.
 * Shapes   rates are found anew whenever a writer comes or goes, in proportion to how many there
 *          are; between these they do not change.
 * Units    bytes, bytes per second, seconds.
 * Errors   none: a writer that was not begun, or time that runs backwards, is a bug.
 * Absent   reads: a restart reads at its own limit (engine_read_s()).
 */
#ifndef CKPT_WHATIF_STORAGE_H
#define CKPT_WHATIF_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A write that is under way; a job has one at a time. */
struct storage_writer {
    uint32_t job;
    double left_bytes;        /* at struct storage's at_s */
    double limit_bytes_per_s; /* what its nodes can inject */
    double rate_bytes_per_s;  /* what it gets now */
};

/* The storage and who writes to it; storage_free() gives the writers' memory back. */
struct storage {
    double capacity_bytes_per_s; /* infinite: unlimited */
    bool down;                   /* writers keep their places and get nothing */
    double at_s;                 /* how far writes were followed */
    double injected_bytes_per_s; /* sum of the limits */
    size_t count, room;          /* of writers, and for how many there is memory */
    struct storage_writer *writers;
};

void storage_init(struct storage *storage, double capacity_bytes_per_s);
void storage_free(struct storage *storage);
/* What is written until now_s, which never falls. To be called before a writer comes or goes and
 * before the storage goes down or up. */
void storage_advance(struct storage *storage, double now_s);
/* A write of so many bytes begins at the present instant, and all rates change. */
void storage_begin(struct storage *storage, uint32_t job, double bytes, double limit_bytes_per_s);
/* It is done, or given up: what others get grows. */
void storage_end(struct storage *storage, uint32_t job);
/* Writes stand still while it is down and go on where they were. */
void storage_set_down(struct storage *storage, bool down);
/* When the first write is done, and whose; infinite when none will be. */
double storage_next_s(const struct storage *storage, uint32_t *ret_job);

#endif
