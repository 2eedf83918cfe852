/* The verbs of a script that are about drills. Part of script.h, which includes it below what they
 * need. */
#ifndef CKPT_TESTS_UNIT_FSM_SCRIPT_DRILLS_H
#define CKPT_TESTS_UNIT_FSM_SCRIPT_DRILLS_H

#include "fsm/drill.h"

static inline Ckpt__V1__DrillKind script_drill_kind(const struct script *script)
{
    const struct fsm_drill_kind *kind = fsm_drill_kind_named(script_word(script, 1));

    return kind == NULL ? CKPT__V1__DRILL_KIND__DRILL_KIND_UNSPECIFIED : kind->kind;
}

/* drill leader-kill [member=1] [duration=] [target=] [job=] [unsupervised] [tolerance=] [builds=]
 * [behind] */
static inline enum fsm_status script_drill(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__StartDrill start = CKPT__LOG__V1__START_DRILL__INIT;

    start.kind = script_drill_kind(script);
    start.member_id = script_number(script, "member", 1);
    start.duration_ms = script_number(script, "duration", 10000);
    start.target_id = script_text(script_value(script, "target", ""));
    start.allocation_id = script_text(script_value(script, "job", ""));
    start.supervised = !script_flag(script, "unsupervised");
    start.tolerance = (uint32_t)script_number(script, "tolerance", 1);
    start.builds = (uint32_t)script_number(script, "builds", 1);
    start.behind = script_flag(script, "behind");
    SCRIPT_BODY(START_DRILL, start_drill, &start);
    return script_apply(script, command);
}

/* probe DRILL member= [run=] */
static inline enum fsm_status script_probe(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__ProbeDrillRequest probe = CKPT__V1__PROBE_DRILL_REQUEST__INIT;

    probe.drill_id = strtoull(script_word(script, 1), NULL, 10);
    probe.member_id = script_number(script, "member", 1);
    probe.run = script_number(script, "run", 1);
    SCRIPT_BODY(PROBE_DRILL, probe_drill, &probe);
    return script_apply(script, command);
}

/* tell DRILL member= [run=] [probes=] [away=] [fault] [backup] [other_state] */
static inline enum fsm_status script_tell(struct script *script, Ckpt__Log__V1__Command *command)
{
    const Ckpt__V1__Drill *open = fsm_drill_open(script->fsm);
    Ckpt__V1__TellDrillRequest told = CKPT__V1__TELL_DRILL_REQUEST__INIT;
    Ckpt__V1__DrillWord word = CKPT__V1__DRILL_WORD__INIT;

    told.drill_id = strtoull(script_word(script, 1), NULL, 10);
    told.member_id = script_number(script, "member", 1);
    word.run = script_number(script, "run", 1);
    word.probes = script_number(script, "probes", 0);
    word.away_ms = script_number(script, "away", 20);
    word.detect_ms = script_number(script, "detect", 0);
    word.elected_ms = script_number(script, "elected", 0);
    word.fault_done = script_flag(script, "fault");
    word.backup_restored = script_flag(script, "backup");
    word.check_hash =
        (open == NULL ? 0 : open->check_hash) + (script_flag(script, "other_state") ? 1 : 0);
    told.word = &word;
    SCRIPT_BODY(TELL_DRILL, tell_drill, &told);
    return script_apply(script, command);
}

#endif
