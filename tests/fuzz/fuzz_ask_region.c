/* Any bytes as the memory that an application shares with its agent: whoever maps it can write
 * anything there. A job can be asked or cannot, with a line. An answer that is taken ends within
 * its bounds and could stand in a `done` file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/ckptshm.h"
#include "src/ask/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

enum { RANKS = 3, DETAIL_BYTES = 200 };

static struct ckpt_shm region;
static size_t ranks; /* numbered by a launcher */

static void must(bool sound)
{
    if (!sound)
        __builtin_trap();
}

static size_t rank_count(void *context)
{
    (void)context;
    return ranks;
}

static void rank(void *context, size_t i, struct ask_rank *ret_rank)
{
    (void)context;
    *ret_rank = (struct ask_rank){.number = (uint32_t)(i * CKPT_SHM_SLOTS), .pid = 2};
}

static ssize_t file_read(void *context, const char *name, char *text, size_t size)
{
    (void)context, (void)name, (void)text, (void)size;
    return -1;
}

static int region_read(void *context, size_t offset, void *ret_bytes, size_t length,
                       struct err *err)
{
    (void)context, (void)err;
    must(offset + length <= sizeof(region));
    memcpy(ret_bytes, (const uint8_t *)&region + offset, length);
    return 0;
}

static const struct ask_node node = {
    .rank_count = rank_count, .rank = rank, .file_read = file_read, .region_read = region_read};

static void poll_rank(const struct ask_ops *ask, const struct ask_target *target, size_t i)
{
    struct sentinel sentinel;
    struct err err = {.text = ""};
    char text[SENTINEL_MAX_BYTES];
    struct sentinel again;

    switch (ask->poll(target, "1-42-1", i, &sentinel, &err)) {
    case ASK_FINISHED:
        must(strcmp(sentinel.hint, "1-42-1") == 0);
        if (sentinel.bytes > INT64_MAX || sentinel.saved_at_ms > INT64_MAX)
            return; /* more digits than a file may have */
        must(sentinel_parse(text, sentinel_format(&sentinel, text), &again, &err) == 0);
        must(strcmp(again.status, sentinel.status) == 0 &&
             strcmp(again.label, sentinel.label) == 0);
        return;
    case ASK_WRONG:
        must(err.text[0] != '\0');
        return;
    case ASK_NOTHING_YET:
    case ASK_UNFINISHED:
        return;
    }
}

/* The first byte says how many ranks there are, and where the others lie. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct ask_target target = {.node = &node};
    const struct ask_ops *ask = ask_find("shm");
    char detail[DETAIL_BYTES] = "";
    size_t at;

    if (length == 0)
        return 0;
    ranks = bytes[0] % (RANKS + 1);
    at = (bytes[0] & 0x80) != 0 ? offsetof(struct ckpt_shm, slot) : 0;
    memset(&region, 0, sizeof(region));
    strcpy(region.hint, "1-42-1");
    memcpy((uint8_t *)&region + at, bytes + 1,
           length - 1 < sizeof(region) - at ? length - 1 : sizeof(region) - at);
    if (ask->preflight(ask, &target, detail, sizeof(detail)) != ASK_READY)
        must(detail[0] != '\0' && memchr(detail, '\0', sizeof(detail)) != NULL);
    for (size_t i = 0; i < (ranks == 0 ? 1 : ranks); i++)
        poll_rank(ask, &target, i);
    return 0;
}

/* A rank that is done, one that is asked, one without a NUL. */
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct ckpt_shm_slot slot = {.owner = 1, .request = 2, .done = 3, .bytes = 5};

    if (i > 2 || size < 1 + sizeof(slot))
        return 0;
    strcpy(slot.label, "12");
    strcpy(slot.status, "0");
    if (i == 1)
        slot.request = 3;
    if (i == 2)
        memset(slot.status, 'x', sizeof(slot.status));
    bytes[0] = 0x80 | (uint8_t)i;
    memcpy(bytes + 1, &slot, sizeof(slot));
    return 1 + sizeof(slot);
}
