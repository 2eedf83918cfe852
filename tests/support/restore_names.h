/* The effects of a restore's step as text: "SAY:IN_LINE", "WAIT:500", "OVER:RESTORED". */
#ifndef CKPT_TESTS_SUPPORT_RESTORE_NAMES_H
#define CKPT_TESTS_SUPPORT_RESTORE_NAMES_H

#include <inttypes.h>
#include <stdio.h>

#include "src/agent/job/restore_step.h"

static inline const char *restore_effect_name(const struct restore_effect *effect)
{
    static const char *const names[] = {
#define N(name) [RESTORE_DO_##name] = #name
        N(WAIT),       N(ASK),         N(NAME),     N(PREPARE),    N(READ),       N(DROP),
        N(LOOK_LATER), N(LOOK),        N(LOOK_END), N(SWEEP),      N(HURRY),      N(COUNT_COPY),
        N(WARN),       N(COPY_FAILED), N(TELL),     N(TELL_ALONE), N(SAY_AWAITS), N(SAY),
        N(FOUND),      N(WANT),        N(LEAVE),    N(OVER),
#undef N
    };
    static const char *const sayings[] = {
#define N(name) [SAYS_##name] = "SAY:" #name
        N(REFUSAL), N(UNREGISTERED), N(LEADERLESS), N(OWNER_UNKNOWN), N(BEGIN), N(ANOTHER),
        N(OTHERS),  N(IN_LINE),      N(AWAY),       N(READING)
#undef N
    };
    static const char *const overs[] = {
#define N(name) [OVER_##name] = "OVER:" #name
        N(RESTORED),     N(SCRATCH),         N(JOINED),
        N(ALONE),        N(REFUSED),         N(RUN_ENDED),
        N(UNREGISTERED), N(NOBODYS),         N(UNOWNED),
        N(STRANGER),     N(PROFILE_UNKNOWN), N(PROFILE_OTHER),
        N(BESIDE),       N(BEGUN_GONE),      N(MODE_OTHER),
        N(UNWRITABLE),   N(UNREADABLE),      N(NO_SHARD),
        N(TOO_MANY),     N(INCOMPLETE)
#undef N
    };

    if (effect->kind == RESTORE_DO_SAY)
        return sayings[effect->says];
    return effect->kind == RESTORE_DO_OVER ? overs[effect->over] : names[effect->kind];
}

/* Returns its length. */
static inline size_t restore_effect_text(const struct restore_effect *effect, char *text,
                                         size_t size)
{
    int length = snprintf(text, size, "%s", restore_effect_name(effect));

    if (effect->kind == RESTORE_DO_WAIT)
        length += snprintf(text + length, size - (size_t)length, ":%" PRIu64, effect->delay_ms);
    if (effect->number != 0)
        length += snprintf(text + length, size - (size_t)length, ":%" PRIu64, effect->number);
    return (size_t)length;
}

#endif
