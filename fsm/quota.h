/* Bytes that the checkpoints of a tenant take, and the limits that an operator gave it.
 *
 * Flow     the sums follow every checkpoint from its request to the removal of its folder. Under a
 *          limit, a checkpoint after which its job goes on is refused when it does not fit
 *          (TENANT_OVER_QUOTA). The leader then lets the checkpoints go that would expire first
 *          (expire_over_quota), until the largest refused one fits. A checkpoint that stops a job,
 *          moves it, takes nodes from it or comes before the end of its walltime is never refused.
 * Shapes   tenants are numbered 0 .. fsm_tenant_count()-1. The last of FSM_TENANTS_MAX stands for
 *          all later tenants and has no limits. The sums are computed again when a snapshot is
 *          read.
 * Units    bytes as a restore reads them: bytes that two checkpoints share count in both. A sum
 *          wraps around beyond 2^64, as its parts do.
 * Absent   folders of jobs that have left: they are among the undeleted ones. Folders of failed
 *          attempts: they go one timeout after their end.
 */
#ifndef CKPT_FSM_QUOTA_H
#define CKPT_FSM_QUOTA_H

#include "fsm/fsm.h"

enum {
    FSM_QUOTA_WANTED_MS = 600000, /* room is made for a refused checkpoint for so long */
    FSM_QUOTA_BATCH_MAX = 64      /* checkpoints that a command lets go */
};

struct fsm_quota {
    FSM_TENANT_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_TENANT_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint64_t stored_bytes;  /* of COMPLETE checkpoints with a folder */
    uint64_t leaving_bytes; /* the expired ones among them */
    uint64_t running_bytes; /* expected size of active ones */
};

/* NULL: no such tenant; else its id. */
const char *fsm_tenant_quota(const struct fsm *fsm, uint32_t i, struct fsm_quota *ret_quota);
void fsm_tenant_spec_to_message(const char *tenant, const struct fsm_quota *quota,
                                Ckpt__V1__TenantSpec *ret_message);
/* The bytes of the tenant's largest checkpoint that was refused lately; 0: none was. */
uint64_t fsm_quota_wanted(const struct fsm_quota *quota, uint64_t now_ms);
/* The bytes that have to go, beside those of expired checkpoints; 0: none, or no limit. */
uint64_t fsm_quota_excess(const struct fsm_quota *quota, uint64_t now_ms);
/* True: a checkpoint after which the job goes on would be refused. *ret_quota is its tenant's (NULL
 * allowed). */
bool fsm_quota_refuses(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       struct fsm_quota *ret_quota);

/* The checkpoints that a tenant may lose before their time, in the order of expiry. The caller sets
 * tenant and zeros the rest. Each step looks at visits_max records at most; true: it was the last
 * step. Entries may be applied between steps: the state judges each checkpoint again before it lets
 * it go. */
struct fsm_quota_scan {
    uint32_t tenant;
    uint64_t after_id;
    size_t count;
    struct {
        uint64_t expires_at_ms; /* UINT64_MAX: not by its age */
        uint64_t id, bytes;
    } first[FSM_QUOTA_BATCH_MAX];
};
bool fsm_quota_step(const struct fsm *fsm, struct fsm_quota_scan *scan, size_t visits_max);

#endif
