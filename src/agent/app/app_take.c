/* The way in which an application is asked, as its ckpt-run and its registration say. See
 * app_stream.h. */
#include <stdio.h>
#include <string.h>

#include "src/agent/app/app_stream.h"
#include "src/ask/ask.h"
#include "src/base/check.h"

/* A tool of its ckpt-run may come to save it: as the policy says, and without a broker's word as it
 * was at the start before. Such a tool saves the processes of one node. */
static void take_outside(struct app_stream *stream, const struct restore_word *word)
{
    struct ledger_entry *entry = &stream->allocation->entry;
    const char *outside = stream->hello->outside;
    const struct ask_ops *ask = outside[0] == '\0' ? NULL : ask_find(outside);
    bool allowed = word->epoch == 0 ? strcmp(entry->outside, outside) == 0
                                    : word->transparent && word->places == 1;

    if (entry->way_open != WAY_SOUGHT || ask == NULL || !ask->served || !allowed)
        outside = "";
    snprintf(entry->outside, sizeof(entry->outside), "%s", outside);
}

/* The first profile stands for none; where it was registered, a ckpt-run that names another is
 * refused before. Without a word of a broker, and of ckpt-run, it is as it was at the start
 * before. */
void app_stream_take_profile(struct app_stream *stream, const struct restore_word *word)
{
    struct ledger_entry *entry = &stream->allocation->entry;
    const char *registered = word->profile, *named = stream->hello->profile;

    if (registered[0] != '\0' && strcmp(registered, ask_name("")) != 0 &&
        ask_find(registered) != NULL)
        named = registered;
    if (named[0] == '\0' && registered[0] == '\0' && entry->profile[0] != '\0' &&
        ask_find(entry->profile) != NULL && entry->way_open != WAY_OUTSIDE) {
        take_outside(stream, word);
        return;
    }
    snprintf(entry->profile, sizeof(entry->profile), "%s", ask_name(named));
    entry->way_open = named[0] != '\0' || word->profile_named ? WAY_NAMED
                      : stream->hello->finds_way              ? WAY_SOUGHT
                                                              : WAY_OPEN;
    take_outside(stream, word);
}
