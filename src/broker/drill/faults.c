/* The faults of drills, a row for each kind. See faults.h. */
#include "src/broker/drill/faults.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fsm/drill.h"
#include "src/base/check.h"

#define KIND(name) CKPT__V1__DRILL_KIND__DRILL_KIND_##name

static bool die_begin(const struct fault_ops *ops, uint64_t on_ms)
{
    (void)on_ms;
    if (ops->die == NULL)
        return false;
    ops->die(ops->context);
    return true;
}

static bool hang_begin(const struct fault_ops *ops, uint64_t on_ms)
{
    if (ops->hang == NULL)
        return false;
    ops->hang(ops->context, on_ms);
    return true;
}

static bool cut_begin(const struct fault_ops *ops, uint64_t on_ms)
{
    (void)on_ms;
    if (ops->cut == NULL)
        return false;
    ops->cut(ops->context, true);
    return true;
}

static void cut_end(const struct fault_ops *ops)
{
    ops->cut(ops->context, false);
}

static const struct fault faults[] = {
    {KIND(LEADER_KILL),
     "the leader's process ends as by SIGKILL, and its supervisor starts it again",
     "no change is taken until the next leader serves: some 10 to 100 ms, up to one election "
     "timeout",
     die_begin, NULL},
    {KIND(LEADER_HANG), "the leader's loop stands still with all connections open",
     "no change is taken for one to two election timeouts", hang_begin, NULL},
    {KIND(MEMBER_LOSS), "a follower is cut off from the other members",
     "nothing, while the others are a majority; one failure less is tolerated meanwhile", cut_begin,
     cut_end},
    {KIND(STORAGE_OUTAGE), "all members take the probes of the target for failed ones",
     "checkpoints bound for it are paused, and go on afterwards; none is written meanwhile", NULL,
     NULL},
    {KIND(RESTORE),
     "the leader restores its last backup in memory, and the newest complete checkpoint is read "
     "again",
     "memory for one more state on its host, and the reads of one checkpoint", NULL, NULL},
};

const struct fault *fault_find(Ckpt__V1__DrillKind kind)
{
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++)
        if (faults[i].kind == kind)
            return &faults[i];
    CHECK_UNREACHABLE("kind of drill");
}

uint64_t fault_on_ms(const Ckpt__V1__Drill *drill)
{
    return drill->duration_ms / 2;
}

/* A leader of a later term is another one, also when it is the same member. Under another leader a
 * follower fails no more either: one member is gone by then, or it leads itself. */
bool fault_is_mine(const Ckpt__V1__Drill *drill, const struct consensus_status *raft)
{
    const struct fsm_drill_kind *kind = fsm_drill_kind(drill->kind);

    CHECK(kind != NULL);
    if (drill->state != CKPT__V1__DRILL_STATE__DRILL_STATE_FAULT ||
        drill->member_id != raft->member_id || drill->term != raft->term)
        return false;
    if (kind->hits == FSM_DRILL_HITS_LEADER)
        return raft->role == CONSENSUS_LEADER;
    return kind->hits == FSM_DRILL_HITS_FOLLOWER && raft->role == CONSENSUS_FOLLOWER;
}

/* ---- of a process ---- */

static void process_die(void *context)
{
    (void)context;
    (void)kill(getpid(), SIGKILL);
    CHECK_UNREACHABLE("the process was killed");
}

static void process_hang(void *context, uint64_t duration_ms)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ms / 1000),
                            .tv_nsec = (long)(duration_ms % 1000) * 1000000};

    (void)context;
    while (nanosleep(&left, &left) != 0)
        ; /* a signal: the rest */
}

void fault_process_ops(struct fault_ops *ret_ops)
{
    memset(ret_ops, 0, sizeof(*ret_ops));
    ret_ops->die = process_die;
    ret_ops->hang = process_hang;
}
