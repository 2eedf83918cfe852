/* Feature levels: what a build adds to the one before, and when a cluster takes it.
 *
 * Flow     fields, commands and values that came later have their level as an option in the .proto
 *          files, and rules of the state machine ask fsm_level(). All members apply the same rules,
 *          so what is new waits for the cluster's level, which rises by command
 *          (Policy.feature_level).
 * Errors   FEATURE_LEVEL refuses a proposal. An entry or a snapshot that a newer build wrote is
 *          told from damage: the member stops until it has another program.
 */
#ifndef CKPT_FSM_LEVEL_H
#define CKPT_FSM_LEVEL_H

#include <stdint.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "fsm/message_level.h"
#include "fsm/status.h"

struct fsm;
struct fsm_outcome;

/* The cluster's, from FSM_LEVEL_FIRST. */
uint32_t fsm_level(const struct fsm *fsm);
/* The level that a command sets; 0: none. */
uint32_t fsm_level_asked(const Ckpt__Log__V1__Command *command);
/* Refuses what the cluster's level does not know: FEATURE_LEVEL with the level that it needs, and
 * the field. The proposer calls it last; apply does not. */
enum fsm_status fsm_validate_level(const struct fsm *fsm, const Ckpt__Log__V1__Command *command,
                                   struct fsm_outcome *ret_outcome);
/* Fields above the level become as they are in a policy of an earlier build. */
void fsm_policy_lower(Ckpt__V1__Policy *policy, uint32_t level);
/* The index of an entry that holds what this build does not know: the state is not the cluster's
 * from there on, and the member must stop. 0: there was none. */
uint64_t fsm_newer_index(const struct fsm *fsm);

#endif
