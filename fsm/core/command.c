/* The table of replicated commands, append only: number (the field in Command), name, handler, who
 * sends it, when it is taken. README.md has the recipe for a new one;
 * tests/unit/fsm/test_commands.c walks this table. */
#include "fsm/core/state.h"

static const struct fsm_command_info commands[] = {
    {10, "cluster_init", fsm_apply_cluster_init, false, true, true},
    {11, "member_facts", fsm_apply_member_facts, false, true, true},
    {12, "register_allocation", fsm_apply_register, true, false, false},
    {13, "update_allocation", fsm_apply_update, true, false, false},
    {14, "end_allocation", fsm_apply_end, true, false, false},
    {15, "report_queue", fsm_apply_report_queue, true, false, false},
    {16, "request_checkpoint", fsm_apply_request_checkpoint, true, false, false},
    {17, "cancel_checkpoint", fsm_apply_cancel, true, false, false},
    {18, "request_preemption", fsm_apply_preemption, true, false, false},
    {19, "request_migration", fsm_apply_migration, true, false, false},
    {20, "restart_allocation", fsm_apply_restart, true, false, false},
    {21, "decisions", fsm_apply_decisions, false, false, false},
    {22, "grants", fsm_apply_grants, false, false, false},
    {23, "node_report", fsm_apply_node_report, false, false, false},
    {24, "node_seen", fsm_apply_node_seen, false, false, false},
    {25, "target_availability", fsm_apply_target_availability, false, false, false},
    {26, "put_target", fsm_apply_put_target, true, false, true},
    {27, "set_policy", fsm_apply_set_policy, true, false, true},
    {28, "tick", fsm_apply_tick, false, true, false},
    {29, "leader_elected", fsm_apply_leader_elected, false, true, true},
    {30, "checkpoints_collected", fsm_apply_collected, false, false, false},
    {31, "drain_node", fsm_apply_drain_node, true, false, false},
    {32, "new_epoch", fsm_apply_new_epoch, false, false, true},
    {33, "member_role", fsm_apply_member_role, false, true, true},
    {34, "set_learned", fsm_apply_set_learned, false, false, false},
    {35, "node_running", fsm_apply_node_running, false, false, false},
    {36, "remove_target", fsm_apply_remove_target, true, false, true},
    {37, "remove_node", fsm_apply_remove_node, true, false, false},
    {38, "pin_checkpoint", fsm_apply_pin, true, false, true},
    {39, "expire_checkpoints", fsm_apply_expire, true, false, false},
    {40, "drain_target", fsm_apply_drain_target, true, false, false},
    {41, "verify_checkpoints", fsm_apply_verify, true, false, false},
    {42, "checkpoints_verified", fsm_apply_verified, false, false, false},
    {43, "put_tenant", fsm_apply_put_tenant, true, false, true},
    {44, "expire_over_quota", fsm_apply_expire_over_quota, false, false, false},
    {45, "scan_target", fsm_apply_scan_target, false, false, false},
    {46, "remove_orphans", fsm_apply_remove_orphans, true, false, false},
    {47, "adopt_cluster", fsm_apply_adopt_cluster, true, false, true},
    {48, "node_off", fsm_apply_node_off, true, false, false},
    {49, "restart_choice", fsm_apply_restart_choice, false, false, false},
    {50, "hang", fsm_apply_hang, false, false, false},
    {54, "audit_calls", fsm_apply_audit_calls, false, false, true},
    {55, "audit_shipped", fsm_apply_audit_shipped, false, false, true},
    {56, "revoke_certificate", fsm_apply_revoke_certificate, true, false, true},
};

/* For tests and documents, which walk the table. */
const struct fsm_command_info *fsm_command_at(size_t i)
{
    return i < ARRAY_COUNT(commands) ? &commands[i] : NULL;
}

/* A number is its row's place, less the numbers before it that no command has: few, or none. */
const struct fsm_command_info *fsm_command_info(uint32_t number)
{
    size_t place = number - commands[0].number;

    if (number < commands[0].number)
        return NULL;
    if (place >= ARRAY_COUNT(commands))
        place = ARRAY_COUNT(commands) - 1;
    while (commands[place].number > number)
        place--;
    return commands[place].number == number ? &commands[place] : NULL;
}
