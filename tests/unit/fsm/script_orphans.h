/* The verbs of a script that are about checkpoints without a record. Part of script.h, which
 * includes it below what they need. */
#ifndef CKPT_TESTS_UNIT_FSM_SCRIPT_ORPHANS_H
#define CKPT_TESTS_UNIT_FSM_SCRIPT_ORPHANS_H

/* scan TARGET [end] */
static inline enum fsm_status script_scan(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__ScanTarget scan = CKPT__LOG__V1__SCAN_TARGET__INIT;

    scan.target_id = script_text(script_word(script, 1));
    scan.end = script_flag(script, "end");
    SCRIPT_BODY(SCAN_TARGET, scan_target, &scan);
    return script_apply(script, command);
}

/* orphans TARGET [size=N] [owner=NAME] [job=NAME] ID... */
static inline enum fsm_status script_orphans(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__RemoveOrphans remove = CKPT__LOG__V1__REMOVE_ORPHANS__INIT;
    Ckpt__V1__Orphan items[SCRIPT_WORDS_MAX], *pointers[SCRIPT_WORDS_MAX];

    for (size_t i = 2; i < script->word_count; i++) {
        Ckpt__V1__Orphan *item = &items[remove.n_orphans];

        if (strchr(script->words[i], '=') != NULL)
            continue;
        ckpt__v1__orphan__init(item);
        item->checkpoint_id = script_checkpoint(script, script->words[i]);
        item->target_id = script_text(script_word(script, 1));
        item->allocation_id = script_text(script_value(script, "job", "gone"));
        item->tenant = item->project = script_text("physics");
        item->owner = script_text(script_value(script, "owner", "alice"));
        item->size_bytes = script_number(script, "size", 1000);
        pointers[remove.n_orphans++] = item;
    }
    remove.orphans = pointers;
    SCRIPT_BODY(REMOVE_ORPHANS, remove_orphans, &remove);
    return script_apply(script, command);
}

static inline enum fsm_status script_adopt(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__AdoptCluster adopt = CKPT__LOG__V1__ADOPT_CLUSTER__INIT;

    SCRIPT_BODY(ADOPT_CLUSTER, adopt_cluster, &adopt);
    return script_apply(script, command);
}

/* pause [for=MS] [by=NAME] [reason=WORD]; pause resume [by=NAME] */
static inline enum fsm_status script_pause(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__PauseCluster pause = CKPT__LOG__V1__PAUSE_CLUSTER__INIT;

    pause.by = script_text(script_value(script, "by", "ann"));
    pause.reason = script_text(script_value(script, "reason", "repair"));
    pause.duration_ms = script_number(script, "for", 0);
    pause.resume = strcmp(script_word(script, 1), "resume") == 0;
    SCRIPT_BODY(PAUSE_CLUSTER, pause_cluster, &pause);
    return script_apply(script, command);
}

#endif
