/* Records of changes by clients: the command's subject is looked at before it is applied and behind
 * that. See fsm/audit.h. */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/level.h"

/* The command's subject before it. NULL: no record will be made. */
/* A prober asks for fifty changes a second while a drill lasts. They change nothing of anybody's,
 * and would push all other records out of the state; the drill's own beginning has a record. */
static bool is_recorded(const fsm_command *command, const struct fsm_command_info *info)
{
    return info->from_client && command->body_case != CKPT__LOG__V1__COMMAND__BODY_PROBE_DRILL;
}

struct audit_view *fsm_audit_begin(struct fsm *fsm, const fsm_command *command,
                                   const struct fsm_command_info *info)
{
    struct audit_subject subject;
    struct audit_view *view;

    CHECK(command != NULL && info != NULL);
    if (!is_recorded(command, info) || fsm_level(fsm) < AUDIT_LEVEL)
        return NULL;
    view = fsm_arena_take(&fsm->arena, sizeof(*view));
    subject = audit_subject_of(command);
    audit_view_take(fsm, &subject, true, view);
    return view;
}

/* Its effects elsewhere. */
static void add_outcome(struct audit_text *text, const fsm_command *command,
                        const struct audit_subject *subject, const struct fsm_outcome *outcome)
{
    CHECK(outcome->status == FSM_OK);
    if (outcome->checkpoint_id != 0 && subject->kind != AUDIT_CHECKPOINT) {
        audit_text_name(text, "checkpoint");
        audit_text_checkpoint(text, outcome->checkpoint_id);
    }
    for (uint32_t i = 0; i < outcome->victim_count; i++) {
        audit_text_name(text, "victim");
        audit_text_add(text, outcome->victims[i].allocation_id);
    }
    if (command->body_case != CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS)
        return;
    for (size_t i = 0; i < command->remove_orphans->n_orphans; i++) {
        audit_text_name(text, "removed");
        audit_text_checkpoint(text, command->remove_orphans->orphans[i]->checkpoint_id);
    }
}

/* A command that is too long for a record, by its texts. */
static void add_long(struct fsm *fsm, const fsm_command *command, struct audit_entry *entry,
                     struct audit_text *fresh)
{
    struct audit_subject subject = audit_subject_of(command);
    struct audit_text name, asked, made;

    CHECK(entry->packed == NULL);
    audit_subject_text(&subject, 0, &name);
    audit_asked_text(command, &asked);
    if (entry->subject == NULL)
        entry->subject = name.text;
    entry->asked = asked.text;
    if (entry->is_new) {
        audit_new_text(command, &made);
        audit_text_add(&made, made.used > 0 && fresh->used > 0 ? ", " : "");
        audit_text_add(&made, fresh->text);
        entry->is = made.text;
        entry->is_new = false;
    }
    audit_add(fsm, entry);
}

/* The command was taken. */
void fsm_audit_end(struct fsm *fsm, const fsm_command *command,
                   const struct fsm_packed_command *packed, const struct audit_view *was,
                   const struct fsm_outcome *outcome)
{
    struct audit_subject subject = audit_subject_of(command);
    struct audit_entry entry = {.kind = CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_CHANGE,
                                .is_new = !was->is_there,
                                .caller = fsm->caller,
                                .command = fsm->command_name,
                                .request_id = fsm->command_request_id};
    struct audit_text name, old, fresh;
    struct audit_view is;

    CHECK(was != NULL && outcome->status == FSM_OK);
    audit_text_start(&old);
    audit_text_start(&fresh);
    if (was->is_there) {
        audit_view_take(fsm, &subject, false, &is);
        audit_view_compare(was, &is, &old, &fresh);
    }
    add_outcome(&fresh, command, &subject, outcome);
    entry.was = old.text;
    entry.is = fresh.text;
    if (subject.kind == AUDIT_NOTHING && outcome->preemption_id != 0) {
        audit_subject_text(&subject, outcome->preemption_id, &name);
        entry.subject = name.text;
    }
    if (packed->length > AUDIT_COMMAND_BYTES) {
        add_long(fsm, command, &entry, &fresh);
        return;
    }
    entry.packed = packed;
    audit_add(fsm, &entry);
}
