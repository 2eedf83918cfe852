/* What the owner of a job is told of it later. See kept.h. */
#include "src/agent/durable/kept.h"

#include <stdio.h>

#include "src/agent/job/allocation.h"
#include "src/agent/run/words.h"
#include "src/base/text.h"

static uint64_t wall_ms(const struct allocation *allocation)
{
    const struct clock_ops *clock = &allocation->agent->clock;

    return clock->wall_ms(clock->context);
}

void kept_verified(struct allocation *allocation, uint64_t asked_at_us, uint64_t size_bytes)
{
    struct ledger_entry *entry = &allocation->entry;
    uint64_t now_us = agent_now_us(allocation->agent);

    entry->last_checkpoint = allocation->attempt.checkpoint_id;
    entry->last_at_ms = asked_at_us == 0 || asked_at_us > now_us
                            ? 0
                            : wall_ms(allocation) - (now_us - asked_at_us) / 1000;
    entry->last_bytes = size_bytes;
    text_copy(entry->last_path, sizeof(entry->last_path), allocation->attempt.path);
}

void kept_failed(struct allocation *allocation)
{
    const struct attempt_outcome *outcome = &allocation->attempt.outcome;
    struct ledger_entry *entry = &allocation->entry;
    char reason[WORDS_BYTES];

    words_enum(&ckpt__v1__reason__descriptor, (int)outcome->reason, reason);
    snprintf(entry->failed_text, sizeof(entry->failed_text), "%s%s%s", reason,
             outcome->detail[0] != '\0' ? ": " : "", outcome->detail);
    for (char *at = entry->failed_text; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?'; /* protocol texts are UTF-8 */
    entry->failed_checkpoint = allocation->attempt.checkpoint_id;
    entry->failed_attempt = allocation->attempt.attempt;
    entry->failed_at_ms = wall_ms(allocation);
}

void kept_restored(struct allocation *allocation, const struct restore_result *result)
{
    struct ledger_entry *entry = &allocation->entry;

    if (result->checkpoint_id == 0)
        return;
    if (result->checkpoint_id != entry->last_checkpoint)
        entry->last_bytes = 0;
    entry->last_checkpoint = result->checkpoint_id;
    entry->last_at_ms = result->snapshot_at_ms;
    text_copy(entry->last_path, sizeof(entry->last_path), result->path == NULL ? "" : result->path);
}
