/* What the owner of a job is told of it later. See kept.h. */
#include "src/agent/durable/kept.h"

#include <stdio.h>
#include <string.h>

#include "src/agent/run/words.h"
#include "src/base/check.h"

void kept_verified(struct ledger_entry *entry, uint64_t size_bytes, uint64_t at_ms)
{
    char part[PART_NAME_BYTES];

    CHECK(entry->checkpoint_id != 0);
    entry->last_checkpoint = entry->checkpoint_id;
    entry->last_at_ms = at_ms;
    entry->last_bytes = size_bytes;
    snprintf(entry->last_path, sizeof(entry->last_path), "%.*s/%s",
             (int)(sizeof(entry->last_path) - PART_NAME_BYTES - 1), entry->path,
             part_name_format(entry->attempt_part, part));
}

void kept_failed(struct ledger_entry *entry, Ckpt__V1__Reason reason, const char *detail,
                 uint64_t now_ms)
{
    char text[WORDS_BYTES];

    CHECK(entry->checkpoint_id != 0);
    words_enum(&ckpt__v1__reason__descriptor, (int)reason, text);
    snprintf(entry->failed_text, sizeof(entry->failed_text), "%s%s%s", text,
             detail[0] != '\0' ? ": " : "", detail);
    for (char *at = entry->failed_text; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?'; /* protocol texts are UTF-8 */
    entry->failed_checkpoint = entry->checkpoint_id;
    entry->failed_attempt = entry->attempt;
    entry->failed_at_ms = now_ms;
}

void kept_restored(struct ledger_entry *entry, uint64_t checkpoint_id, const char *path,
                   uint64_t at_ms)
{
    if (checkpoint_id == 0)
        return;
    CHECK(entry->allocation_id[0] != '\0');
    if (checkpoint_id != entry->last_checkpoint)
        entry->last_bytes = 0;
    entry->last_checkpoint = checkpoint_id;
    entry->last_at_ms = at_ms;
    snprintf(entry->last_path, sizeof(entry->last_path), "%s", path == NULL ? "" : path);
}

void kept_copy_begin(struct ledger_entry *entry, uint64_t size_bytes, const char *manifest_sha256)
{
    struct ledger_copy *copy;

    CHECK(entry->checkpoint_id != 0);
    CHECK(entry->work_dir[0] == '/');
    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    CHECK(kept_copy_making(entry) == NULL);
    if (entry->copy_count == LEDGER_COPIES_MAX ||
        kept_copy_find(entry, entry->checkpoint_id, entry->attempt_part) != NULL)
        return;
    copy = &entry->copies[entry->copy_count];
    *copy = (struct ledger_copy){.checkpoint_id = entry->checkpoint_id,
                                 .part = entry->attempt_part,
                                 .state = COPY_MAKING,
                                 .uid = entry->uid,
                                 .gid = entry->gid,
                                 .size_bytes = size_bytes};
    snprintf(copy->manifest_sha256, sizeof(copy->manifest_sha256), "%s", manifest_sha256);
    memcpy(copy->work_dir, entry->memory[0] != '\0' ? entry->memory : entry->work_dir,
           sizeof(copy->work_dir));
    entry->copy_count++;
}

struct ledger_copy *kept_copy_making(struct ledger_entry *entry)
{
    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (entry->copies[i].state == COPY_MAKING)
            return &entry->copies[i];
    return NULL;
}

struct ledger_copy *kept_copy_find(struct ledger_entry *entry, uint64_t checkpoint_id,
                                   uint32_t part)
{
    CHECK(checkpoint_id != 0);
    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (entry->copies[i].checkpoint_id == checkpoint_id && entry->copies[i].part == part)
            return &entry->copies[i];
    return NULL;
}

void kept_copy_remove(struct ledger_entry *entry, struct ledger_copy *copy)
{
    uint32_t at = (uint32_t)(copy - entry->copies);

    CHECK(at < entry->copy_count);
    CHECK(entry->copies[at].state == COPY_GOING);
    for (uint32_t i = at; i + 1 < entry->copy_count; i++)
        entry->copies[i] = entry->copies[i + 1];
    entry->copy_count--;
    entry->copies[entry->copy_count] = (struct ledger_copy){.checkpoint_id = 0};
}
