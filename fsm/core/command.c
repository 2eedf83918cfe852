/* The table of replicated commands, append only: number (the field in Command), name, handler, who
 * sends it, when it is taken. README.md has the recipe for a new one;
 * tests/unit/fsm/test_commands.c walks this table. */
#include "fsm/core/state.h"

static const struct fsm_command_info commands[] = {
    {10, "cluster_init", fsm_apply_cluster_init, false, true, true, true},
    {11, "member_facts", fsm_apply_member_facts, false, true, true, true},
    {12, "register_allocation", fsm_apply_register, true, false, false, true},
    {13, "update_allocation", fsm_apply_update, true, false, false, true},
    {14, "end_allocation", fsm_apply_end, true, false, false, true},
    {15, "report_queue", fsm_apply_report_queue, true, false, false, true},
    {16, "request_checkpoint", fsm_apply_request_checkpoint, true, false, false, false},
    {17, "cancel_checkpoint", fsm_apply_cancel, true, false, false, true},
    {18, "request_preemption", fsm_apply_preemption, true, false, false, true},
    {19, "request_migration", fsm_apply_migration, true, false, false, false},
    {20, "restart_allocation", fsm_apply_restart, true, false, false, false},
    {21, "decisions", fsm_apply_decisions, false, false, false, false},
    {22, "grants", fsm_apply_grants, false, false, false, true},
    {23, "node_report", fsm_apply_node_report, false, false, false, true},
    {24, "node_seen", fsm_apply_node_seen, false, false, false, true},
    {25, "target_availability", fsm_apply_target_availability, false, false, false, true},
    {26, "put_target", fsm_apply_put_target, true, false, true, true},
    {27, "set_policy", fsm_apply_set_policy, true, false, true, true},
    {28, "tick", fsm_apply_tick, false, true, false, true},
    {29, "leader_elected", fsm_apply_leader_elected, false, true, true, true},
    {30, "checkpoints_collected", fsm_apply_collected, false, false, false, true},
    {31, "drain_node", fsm_apply_drain_node, true, false, false, true},
    {32, "new_epoch", fsm_apply_new_epoch, false, false, true, true},
    {33, "member_role", fsm_apply_member_role, false, true, true, true},
    {34, "set_learned", fsm_apply_set_learned, false, false, false, true},
    {35, "node_running", fsm_apply_node_running, false, false, false, true},
    {36, "remove_target", fsm_apply_remove_target, true, false, true, true},
    {37, "remove_node", fsm_apply_remove_node, true, false, false, true},
    {38, "pin_checkpoint", fsm_apply_pin, true, false, true, true},
    {39, "expire_checkpoints", fsm_apply_expire, true, false, false, false},
    {40, "drain_target", fsm_apply_drain_target, true, false, false, true},
    {41, "verify_checkpoints", fsm_apply_verify, true, false, false, true},
    {42, "checkpoints_verified", fsm_apply_verified, false, false, false, true},
    {43, "put_tenant", fsm_apply_put_tenant, true, false, true, true},
    {44, "expire_over_quota", fsm_apply_expire_over_quota, false, false, false, false},
    {45, "scan_target", fsm_apply_scan_target, false, false, false, true},
    {46, "remove_orphans", fsm_apply_remove_orphans, true, false, false, false},
    {47, "adopt_cluster", fsm_apply_adopt_cluster, true, false, true, true},
    {48, "node_off", fsm_apply_node_off, true, false, false, true},
    {49, "restart_choice", fsm_apply_restart_choice, false, false, false, true},
    {50, "hang", fsm_apply_hang, false, false, false, true},
    {54, "audit_calls", fsm_apply_audit_calls, false, false, true, true},
    {55, "audit_shipped", fsm_apply_audit_shipped, false, false, true, true},
    {56, "revoke_certificate", fsm_apply_revoke_certificate, true, false, true, true},
    {58, "pause_cluster", fsm_apply_pause_cluster, true, false, true, true},
    {60, "start_drill", fsm_apply_start_drill, true, false, false, false},
    {61, "probe_drill", fsm_apply_probe_drill, true, false, false, true},
    {62, "tell_drill", fsm_apply_tell_drill, true, false, false, true},
};

/* For tests and documents, which walk the table. */
const struct fsm_command_info *fsm_command_at(size_t i)
{
    return i < ARRAY_COUNT(commands) ? &commands[i] : NULL;
}

/* By number, with few gaps: a row's place is its number less the gaps below it. */
const struct fsm_command_info *fsm_command_info(uint32_t number)
{
    uint32_t first = commands[0].number;
    size_t i;

    if (number < first)
        return NULL;
    i = number - first < ARRAY_COUNT(commands) ? number - first : ARRAY_COUNT(commands) - 1;
    while (commands[i].number > number)
        i--;
    return commands[i].number == number ? &commands[i] : NULL;
}
