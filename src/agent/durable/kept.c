/* What the owner of a job is told of it later. See kept.h. */
#include "src/agent/durable/kept.h"

#include <stdio.h>

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
