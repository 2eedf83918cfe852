/* Duty of the leader: makes room below the limits of tenants.
 *
 * Flow     every QUOTAS_INTERVAL_MS the tenants are asked for what they have too much
 *          (fsm_quota_excess()); for the first one its checkpoints are looked through in steps,
 *          and what would expire first goes by an ExpireOverQuota. The collector deletes it then.
 * Shapes   one tenant at a time, FSM_QUOTA_BATCH_MAX checkpoints in a command; what is left is
 *          found by the next look. A tenant of which nothing may go is left alone for
 *          QUOTAS_NOTHING_MS.
 * Errors   a proposal that is lost is made again: the state judges each one anew.
 * Units    milliseconds of the state's clock.
 */
#ifndef CKPT_BROKER_QUOTAS_H
#define CKPT_BROKER_QUOTAS_H

struct broker;
struct quotas;

enum {
    QUOTAS_INTERVAL_MS = 1000,
    QUOTAS_STEP_MS = 5,    /* between two steps of one look */
    QUOTAS_VISITS = 16384, /* records of a step: about a millisecond */
    QUOTAS_NOTHING_MS = 30000
};

/* On every member, after broker->replica; it rests until this member leads. */
struct quotas *quotas_new(struct broker *broker);
void quotas_free(struct quotas *quotas);

#endif
