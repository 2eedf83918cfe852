/* The table of commands: help, completion and dispatch all read it. */
#ifndef CKPT_CLI_COMMANDS_H
#define CKPT_CLI_COMMANDS_H

#include "src/cli/cli.h"

extern const struct command commands[]; /* ends with name NULL */

/* Before the table is read: adds the options that follow from a message. */
void commands_complete(void);

/* words[1] may be NULL. Sets how many words the name took. NULL: no such command. */
const struct command *command_find(const char *const words[2], size_t *ret_words);

/* Of two words, of which this is the first one. */
bool command_is_of(const struct command *command, const char *group);
bool command_is_group(const char *word);

enum cli_exit command_help(struct cli *cli);
enum cli_exit command_completion(struct cli *cli);
/* Help of one command; when it is NULL of all, or of those of a group. */
void help_print(FILE *stream, const struct command *command, const char *group);

enum cli_exit command_status(struct cli *cli);
enum cli_exit command_debug_check(struct cli *cli);
enum cli_exit command_debug_bundle(struct cli *cli);
enum cli_exit command_jobs(struct cli *cli);
enum cli_exit command_top(struct cli *cli);
enum cli_exit command_node(struct cli *cli);
enum cli_exit command_node_disable(struct cli *cli);
enum cli_exit command_job(struct cli *cli);
enum cli_exit command_register(struct cli *cli);
enum cli_exit command_update(struct cli *cli);
enum cli_exit command_end(struct cli *cli);
enum cli_exit command_restart(struct cli *cli);
enum cli_exit command_migrate(struct cli *cli);
enum cli_exit command_checkpoints(struct cli *cli);
enum cli_exit command_checkpoint(struct cli *cli);
enum cli_exit command_restart_point(struct cli *cli);
enum cli_exit command_request(struct cli *cli);
enum cli_exit command_hint(struct cli *cli);
enum cli_exit command_cancel(struct cli *cli);
enum cli_exit command_explain(struct cli *cli);
enum cli_exit command_undeleted(struct cli *cli);
enum cli_exit command_gc_plan(struct cli *cli);
enum cli_exit command_scrub(struct cli *cli);
enum cli_exit command_gc_run(struct cli *cli);
enum cli_exit command_gc_orphans(struct cli *cli);
enum cli_exit command_gc_run_orphans(struct cli *cli);
enum cli_exit command_checkpoint_pin(struct cli *cli);
enum cli_exit command_checkpoint_unpin(struct cli *cli);
enum cli_exit command_checkpoint_reject(struct cli *cli);
enum cli_exit command_losses(struct cli *cli);
enum cli_exit command_calibration(struct cli *cli);
enum cli_exit command_audit_list(struct cli *cli);
enum cli_exit command_audit_verify(struct cli *cli);
enum cli_exit command_audit_export(struct cli *cli);
enum cli_exit command_history(struct cli *cli);
enum cli_exit command_whatif(struct cli *cli);
enum cli_exit command_events(struct cli *cli);
enum cli_exit command_preempt(struct cli *cli);
enum cli_exit command_preemptions(struct cli *cli);
enum cli_exit command_tenants(struct cli *cli);
enum cli_exit command_tenant_put(struct cli *cli);
enum cli_exit command_targets(struct cli *cli);
enum cli_exit command_target_put(struct cli *cli);
enum cli_exit command_target_remove(struct cli *cli);
enum cli_exit command_target_drain(struct cli *cli);
enum cli_exit command_nodes(struct cli *cli);
enum cli_exit command_node_drain(struct cli *cli);
enum cli_exit command_node_undrain(struct cli *cli);
enum cli_exit command_node_remove(struct cli *cli);
enum cli_exit command_node_down(struct cli *cli);
enum cli_exit command_placement(struct cli *cli);
enum cli_exit command_queue_report(struct cli *cli);
enum cli_exit command_queue_clear(struct cli *cli);
enum cli_exit command_cluster_adopt(struct cli *cli);
enum cli_exit command_cluster_pause(struct cli *cli);
enum cli_exit command_cluster_resume(struct cli *cli);
enum cli_exit command_policy_get(struct cli *cli);
enum cli_exit command_policy_set(struct cli *cli);
enum cli_exit command_upgrade_status(struct cli *cli);
enum cli_exit command_upgrade_plan(struct cli *cli);
enum cli_exit command_upgrade_canary(struct cli *cli);
enum cli_exit command_upgrade_finalize(struct cli *cli);
enum cli_exit command_restart_member(struct cli *cli);
enum cli_exit command_drill_plan(struct cli *cli);
enum cli_exit command_drill_run(struct cli *cli);
enum cli_exit command_drill_list(struct cli *cli);
enum cli_exit command_drill_report(struct cli *cli);
enum cli_exit command_transfer(struct cli *cli);
enum cli_exit command_member_list(struct cli *cli);
enum cli_exit command_member_add(struct cli *cli);
enum cli_exit command_member_promote(struct cli *cli);
enum cli_exit command_member_remove(struct cli *cli);
enum cli_exit command_member_replace(struct cli *cli);
enum cli_exit command_backup_save(struct cli *cli);
enum cli_exit command_backup_inspect(struct cli *cli);
enum cli_exit command_backup_verify(struct cli *cli);
enum cli_exit command_profile_list(struct cli *cli);
enum cli_exit command_profile_show(struct cli *cli);
enum cli_exit command_profile_check(struct cli *cli);
enum cli_exit command_try(struct cli *cli);
enum cli_exit command_dev(struct cli *cli);
enum cli_exit command_version(struct cli *cli);
enum cli_exit command_tls_init(struct cli *cli);
enum cli_exit command_tls_issue(struct cli *cli);
enum cli_exit command_tls_show(struct cli *cli);
enum cli_exit command_tls_revoke(struct cli *cli);
enum cli_exit command_tls_revoked(struct cli *cli);

#endif
