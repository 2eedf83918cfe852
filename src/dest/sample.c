/* Which chunks are read back. See sample.h. */
#include "src/dest/sample.h"

#include <string.h>
#include <sys/random.h>

#include "src/base/check.h"
#include "src/dest/manifest.h"

/* Steele, Lea and Flood's SplitMix64. */
uint64_t sample_mix(uint64_t number)
{
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

void sample_draw(struct sample *sample, const struct manifest *manifest)
{
    size_t nth;

    CHECK(getrandom(&sample->seed, sizeof(sample->seed), 0) == (ssize_t)sizeof(sample->seed));
    sample->file = SIZE_MAX;
    if (sample->policy != SAMPLE_SAMPLED || manifest->file_count == 0)
        return;
    if (manifest->size_bytes <= MANIFEST_CHUNK_BYTES)
        sample->policy = SAMPLE_ALWAYS;
    nth = (size_t)(sample->seed % manifest->file_count);
    for (size_t i = 0; i < manifest->count && sample->file == SIZE_MAX; i++)
        if (!manifest->entries[i].is_directory && nth-- == 0)
            sample->file = i;
}

bool sample_takes(const struct sample *sample, size_t file, size_t chunk, size_t chunk_count)
{
    if (sample->policy != SAMPLE_SAMPLED)
        return sample->policy == SAMPLE_ALWAYS;
    if (file == sample->file && chunk_count == 0)
        return true;
    if (chunk_count > 0 && (chunk == 0 || chunk + 1 == chunk_count))
        return true;
    return sample_mix(sample_mix(sample->seed ^ file) ^ chunk) % SAMPLE_ONE_OF == 0;
}

bool sample_parse(const char *word, enum sample_policy *ret_policy)
{
    static const char *const words[] = {
        [SAMPLE_SAMPLED] = "sampled", [SAMPLE_NEVER] = "never", [SAMPLE_ALWAYS] = "always"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], word) == 0) {
            *ret_policy = (enum sample_policy)i;
            return true;
        }
    }
    return false;
}
