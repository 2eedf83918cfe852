/* The last line of a run. See app_end.h. */
#include "src/agent/app/app_end.h"

#include <stdio.h>

#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/id.h"

/* It has stood still since all was written: the checkpoint is as new as the job. */
static bool holds_all(const struct ledger_entry *entry)
{
    return entry->still == STANDING_STILL && entry->checkpoint_id == entry->last_checkpoint;
}

const char *app_end_text(const struct allocation *allocation, Ckpt__V1__Reason reason,
                         char text[APP_END_BYTES])
{
    const struct ledger_entry *entry = &allocation->entry;
    char why[WORDS_BYTES], id[CHECKPOINT_ID_TEXT_BYTES], at[WORDS_BYTES];

    CHECK(text != NULL);
    words_enum(&ckpt__v1__reason__descriptor, (int)reason, why);
    if (entry->last_checkpoint == 0 || reason == CKPT__V1__REASON__REASON_APPLICATION_EXITED ||
        reason == CKPT__V1__REASON__REASON_ALLOCATION_ENDED)
        snprintf(text, APP_END_BYTES, "%s", why);
    else if (holds_all(entry))
        snprintf(text, APP_END_BYTES, "%s; checkpoint %s holds all of its work", why,
                 checkpoint_id_format(entry->last_checkpoint, id));
    else
        snprintf(text, APP_END_BYTES,
                 "%s; the last checkpoint that was written or restored here is %s, of %s", why,
                 checkpoint_id_format(entry->last_checkpoint, id),
                 words_clock(entry->last_at_ms, at));
    return text;
}
