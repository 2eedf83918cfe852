/* Which chunks are read back before a shard gets its name, and by a verify of a sample. Large files
 * that a put writes to a file system are read by smaller places instead (spots.h).
 *
 * Shapes   never: none. always: all. sampled: one chunk of SAMPLE_ONE_OF, by a seed that is drawn
 *          for each reading, and the first and the last one of each file of several chunks; a file
 *          without chunks counts as one. At least one file is in each sample, and all of a shard
 *          that is no larger than a chunk. The same seed takes the same chunks.
 */
#ifndef CKPT_DEST_SAMPLE_H
#define CKPT_DEST_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLE_ONE_OF = 16 };
enum sample_policy { SAMPLE_SAMPLED, SAMPLE_NEVER, SAMPLE_ALWAYS };

/* The seed is of no secret: it keeps a fault that hits the same place each time from staying
 * outside of every sample. */
struct sample {
    enum sample_policy policy;
    uint64_t seed;
    size_t file; /* that is in it whatever the seed says of it */
};

struct manifest;

/* The seed, and what follows from it: once for each reading, by the policy that is set. */
void sample_draw(struct sample *sample, const struct manifest *manifest);
/* file: its number in the manifest; chunk_count as in its entry. */
bool sample_takes(const struct sample *sample, size_t file, size_t chunk, size_t chunk_count);
/* Each bit of the result depends on each bit of the number. */
uint64_t sample_mix(uint64_t number);
/* By its word; false: there is no such policy. */
bool sample_parse(const char *word, enum sample_policy *ret_policy);

#endif
