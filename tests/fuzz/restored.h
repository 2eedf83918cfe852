/* What a state that was read from a snapshot has to survive, for the targets that read one. */
#ifndef CKPT_TESTS_FUZZ_RESTORED_H
#define CKPT_TESTS_FUZZ_RESTORED_H

#include "tests/unit/fsm/random_line.h"

enum { RESTORED_LINES = 16 };

/* Random commands and a time jump, out of which it comes with its invariants. */
static inline void restored_goes_on(struct script *script, uint64_t dice)
{
    struct fsm_summary summary;
    char line[512];

    fsm_get_summary(script->fsm, &summary);
    script->index = summary.applied_index;
    script->now_ms = summary.now_ms;
    script->request_number = UINT32_MAX; /* those of before are known */
    for (int i = 0; i < RESTORED_LINES; i++) {
        random_line(script, &dice, line, sizeof(line));
        script_run(script, "%s", line);
    }
    script->now_ms += 100000000;
    script_run(script, "tick");
}

#endif
