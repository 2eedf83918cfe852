/* Writers that share a storage system: each as fast as it can inject, together no faster than the
 * storage (max-min fair).
 *
 * Flow     storage_begin / storage_end when a write starts or stops, storage_advance before either;
 *          storage_next_s tells when the first one is done.
 * Units    bytes, bytes per second, seconds.
 */
#ifndef CKPT_WHATIF_STORAGE_H
#define CKPT_WHATIF_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage_writer {
    uint32_t job;
    double left_bytes;
    double limit_bytes_per_s;
    double rate_bytes_per_s;
};

struct storage {
    double capacity_bytes_per_s; /* infinite: unlimited */
    bool down;
    double at_s;
    double injected_bytes_per_s; /* sum of the limits */
    size_t count, room;
    struct storage_writer *writers;
};

void storage_init(struct storage *storage, double capacity_bytes_per_s);
void storage_free(struct storage *storage);
void storage_advance(struct storage *storage, double now_s);
void storage_begin(struct storage *storage, uint32_t job, double bytes, double limit_bytes_per_s);
void storage_end(struct storage *storage, uint32_t job);
void storage_set_down(struct storage *storage, bool down);
/* When the first write is done, and whose; infinite when none will be. */
double storage_next_s(const struct storage *storage, uint32_t *ret_job);

#endif
