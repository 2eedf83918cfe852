/* The lines of a script that speak for a node: what its agent reports, what runs there, that it is
 * seen. See script.h. */
#ifndef CKPT_TESTS_FSM_SCRIPT_REPORTS_H
#define CKPT_TESTS_FSM_SCRIPT_REPORTS_H

#include "tests/unit/fsm/script_words.h"

#define SCRIPT_BODY_OF(command, name, field, message)                                              \
    ((command)->body_case = CKPT__LOG__V1__COMMAND__BODY_##name, (command)->field = (message))
#define SCRIPT_BODY(name, field, message) SCRIPT_BODY_OF(command, name, field, message)

/* What the line says, else that of the allocation's part on the node: 0 when it has none there. */
static inline uint64_t script_part_run(struct script *script, const char *node_id,
                                       const char *job_id)
{
    const struct fsm_allocation *job = fsm_allocation_find(script->fsm, job_id);
    const char *said = script_value(script, "run", "");

    if (said[0] != '\0')
        return script_checkpoint(script, said); /* epoch-index */
    for (uint32_t i = 0; job != NULL && i < job->node_count; i++)
        if (strcmp(fsm_node_name(script->fsm, job->nodes[i].node_slot), node_id) == 0)
            return job->nodes[i].run;
    return 0;
}

/* "0-3,7": the print of these ranks. */
static inline uint64_t script_ranks(const char *text)
{
    uint64_t print = 0;

    while (*text != '\0') {
        char *end;
        uint32_t first = (uint32_t)strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = (uint32_t)strtoul(end + 1, &end, 10);
        for (uint32_t number = first; number <= last; number++)
            print += rank_print(number);
        text = *end == ',' ? end + 1 : end;
    }
    return print;
}

/* running n1 j1 [seq=N] [boot=b1] [run=1-3] */
static inline enum fsm_status script_running(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__NodeRunning message = CKPT__LOG__V1__NODE_RUNNING__INIT;
    Ckpt__Log__V1__RunningPart item = CKPT__LOG__V1__RUNNING_PART__INIT;
    Ckpt__Log__V1__RunningPart *items[] = {&item};
    const struct fsm_node *node = fsm_node_find(script->fsm, script_word(script, 1));

    message.node_id = script_text(script_word(script, 1));
    message.boot_id = script_text(script_value(script, "boot", node == NULL ? "" : node->boot_id));
    message.report_sequence =
        script_number(script, "seq", node == NULL ? 0 : node->last_report_sequence);
    item.allocation_id = script_text(script_word(script, 2));
    item.run = script_part_run(script, script_word(script, 1), script_word(script, 2));
    message.running = items;
    message.n_running = 1;
    SCRIPT_BODY(NODE_RUNNING, node_running, &message);
    return script_apply(script, command);
}

/* report n1 started j1 ckpt=1-1 attempt=1 [seq=N] size= age= write= stall= deferral= status=
 * restored= restart reason= why= run=1-3 label= ranks= numbers=0-3,7 all= step=
 * barrier mode=own part= sha= told= before= */
static inline enum fsm_status script_report(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    const struct fsm_node *node = fsm_node_find(script->fsm, script_word(script, 1));

    message.node_id = script_text(script_word(script, 1));
    message.report = &report;
    report.sequence =
        script_number(script, "seq", node == NULL ? 1 : node->last_report_sequence + 1);
    report.kind = (Ckpt__V1__ReportKind)script_enum(script, &ckpt__v1__report_kind__descriptor,
                                                    "REPORT_KIND_", "kind", script_word(script, 2));
    report.allocation_id = script_text(script_word(script, 3));
    report.checkpoint_id = script_checkpoint(script, script_value(script, "ckpt", ""));
    report.attempt = (uint32_t)script_number(script, "attempt", report.checkpoint_id != 0);
    report.reason = (Ckpt__V1__Reason)script_reason(script);
    report.detail = script_text(script_value(script, "why", ""));
    report.size_bytes = script_number(script, "size", 5000000000);
    report.manifest_sha256 = script_text(script_value(
        script, "sha", "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"));
    report.exit_status = (int32_t)script_number(script, "status", 0);
    report.write_ms = script_number(script, "write", 0);
    report.stall_ms = script_number(script, "stall", 0);
    report.snapshot_age_ms = script_number(script, "age", 0);
    report.saved_before_ms = script_number(script, "before", 0);
    report.deferral_ms = script_number(script, "deferral", 0);
    report.told_write_ms = script_number(script, "told", 0);
    report.user = (uint32_t)script_number(script, "user", 0);
    report.restored_checkpoint_id = script_checkpoint(script, script_value(script, "restored", ""));
    report.restore = (Ckpt__V1__RestoreMode)script_enum(script, &ckpt__v1__restore_mode__descriptor,
                                                        "RESTORE_MODE_", "mode", "unspecified");
    report.will_restart = script_flag(script, "restart");
    report.end = (Ckpt__V1__ApplicationEnd)script_enum(
        script, &ckpt__v1__application_end__descriptor, "APPLICATION_END_", "end", "unspecified");
    report.label = script_text(script_value(script, "label", ""));
    report.ranks = (uint32_t)script_number(script, "ranks", 1);
    report.rank_print = script_ranks(script_value(script, "numbers", ""));
    report.ranks_all = (uint32_t)script_number(script, "all", 0);
    report.step = script_number(script, "step", 0);
    report.barrier = script_flag(script, "barrier");
    report.run = script_part_run(script, script_word(script, 1), script_word(script, 3));
    report.part = (uint32_t)script_number(script, "part", 0);
    SCRIPT_BODY(NODE_REPORT, node_report, &message);
    return script_apply(script, command);
}

static inline Ckpt__V1__NodeWitness script_witness(struct script *script)
{
    return (Ckpt__V1__NodeWitness)script_enum(script, &ckpt__v1__node_witness__descriptor,
                                              "NODE_WITNESS_", "witness", "unspecified");
}

/* node n1 ready [boot=] [machine=] [os=] [domain=, -: none] [probe=]
 * [witness= evidence=] [heard=ms ago] */
static inline enum fsm_status script_node(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    char state[80];

    snprintf(state, sizeof(state), "state=%s", script_word(script, 2));
    script->words[2] = state;
    seen.node_id = script_text(script_word(script, 1));
    seen.boot_id = script_text(script_value(script, "boot", ""));
    seen.version = script_text("0.1.0");
    seen.machine = script_text(script_value(script, "machine", ""));
    seen.os = script_text(script_value(script, "os", ""));
    seen.domain = script_text(script_value(script, "domain", ""));
    seen.domain_told = seen.domain[0] != '\0';
    seen.witness = script_witness(script);
    seen.evidence = script_text(script_value(script, "evidence", ""));
    seen.probe = script_text(script_value(script, "probe", ""));
    seen.heard_ms = script_number(script, "heard", 0);
    if (strcmp(seen.domain, "-") == 0)
        seen.domain = script_text("");
    seen.state = (Ckpt__Log__V1__NodeState)script_enum(
        script, &ckpt__log__v1__node_state__descriptor, "NODE_STATE_", "state", "");
    SCRIPT_BODY(NODE_SEEN, node_seen, &seen);
    return script_apply(script, command);
}

static inline enum fsm_status script_node_off(struct script *script,
                                              Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__NodeOff off = CKPT__LOG__V1__NODE_OFF__INIT;

    off.node_id = script_text(script_word(script, 1));
    off.witness = script_witness(script);
    off.evidence = script_text(script_value(script, "evidence", ""));
    SCRIPT_BODY(NODE_OFF, node_off, &off);
    return script_apply(script, command);
}

static inline enum fsm_status script_member(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;

    facts.member_id = strtoull(script_word(script, 1), NULL, 10);
    facts.name = script_text(script_value(script, "name", "n1"));
    facts.version = script_text("0.1.0");
    SCRIPT_BODY(MEMBER_FACTS, member_facts, &facts);
    return script_apply(script, command);
}

static inline void script_drill_policy(struct script *script, Ckpt__V1__Policy *policy)
{
    policy->drill_max_age_ms = script_number(script, "drill_max_age", 0);
    policy->drill_window_from_minute = (uint32_t)script_number(script, "drill_from", 0);
    policy->drill_window_minutes = (uint32_t)script_number(script, "drill_minutes", 0);
}

/* At level 1 it would not be proposed. */
static inline Ckpt__V1__OnHang script_on_hang(const struct script *script)
{
    return fsm_level(script->fsm) < 2
               ? CKPT__V1__ON_HANG__ON_HANG_UNSPECIFIED
               : (Ckpt__V1__OnHang)script_enum(script, &ckpt__v1__on_hang__descriptor, "ON_HANG_",
                                               "on_hang", "unspecified");
}

static inline char *script_attributes(const struct script *script)
{
    return script_text(fsm_level(script->fsm) < 2 ? "" : script_value(script, "attributes", ""));
}

/* hang J quiet= gap= | hang J: no rank of it steps, or one does again. since=: of the state in
 * which the leader saw it, else as it is. */
static inline enum fsm_status script_hang(struct script *script, Ckpt__Log__V1__Command *command)
{
    const struct fsm_allocation *job = fsm_allocation_find(script->fsm, script_word(script, 1));
    Ckpt__Log__V1__Hang hang = CKPT__LOG__V1__HANG__INIT;

    hang.allocation_id = script_text(script_word(script, 1));
    hang.quiet_ms = script_number(script, "quiet", 0);
    hang.gap_p99_ms = script_number(script, "gap", 0);
    hang.evidence = script_text(hang.quiet_ms == 0 ? "" : "rank 1 waits");
    hang.state_since_ms = script_number(script, "since", job == NULL ? 0 : job->state_since_ms);
    SCRIPT_BODY(HANG, hang, &hang);
    return script_apply(script, command);
}

static inline enum fsm_status script_drain(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__DrainNode drain = CKPT__LOG__V1__DRAIN_NODE__INIT;

    drain.node_id = script_text(script_word(script, 1));
    drain.urgent = script_flag(script, "urgent");
    drain.undo = script_flag(script, "undo");
    drain.disable = script_flag(script, "disable");
    drain.move = script_flag(script, "move");
    drain.at_next_checkpoint = script_flag(script, "next");
    drain.deadline_ms = script_number(script, "deadline", 0);
    SCRIPT_BODY(DRAIN_NODE, drain_node, &drain);
    return script_apply(script, command);
}

/* choose J nodes= | absent= : the leader's choice, or the end of one. */
static inline enum fsm_status script_choose(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__RestartChoice choice = CKPT__LOG__V1__RESTART_CHOICE__INIT;
    struct script_shares shares;

    choice.allocation_id = script_text(script_word(script, 1));
    choice.absent_node_id = script_text(script_value(script, "absent", ""));
    if (choice.absent_node_id[0] == '\0') {
        script_nodes(script, &shares);
        choice.n_nodes = shares.count;
        choice.nodes = shares.pointers;
    }
    choice.reason = script_text("they wait");
    SCRIPT_BODY(RESTART_CHOICE, restart_choice, &choice);
    return script_apply(script, command);
}

#endif
