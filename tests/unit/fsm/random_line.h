/* Random script lines: plausible commands over a few names, with a share of nonsense. The same
 * state gives the same lines. */
#ifndef CKPT_TESTS_FSM_RANDOM_LINE_H
#define CKPT_TESTS_FSM_RANDOM_LINE_H

#include "fsm/pause.h"
#include "fsm/restart.h"
#include "tests/unit/fsm/script.h"

enum { RANDOM_JOBS = 12, RANDOM_NODES = 8 };

static inline uint64_t random_draw(uint64_t *state, uint64_t below)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* A checkpoint that exists, mostly an active one. */
static inline const struct fsm_checkpoint *random_checkpoint(const struct script *script,
                                                             uint64_t *state)
{
    const struct fsm_checkpoint *chosen = NULL;
    const struct fsm_checkpoint *at = NULL;
    uint64_t weight = 0;

    while ((at = fsm_checkpoint_next(script->fsm, at == NULL ? 0 : at->id)) != NULL) {
        uint64_t mine = fsm_checkpoint_state_active(at->state) ? 30 : 1;

        weight += mine;
        if (random_draw(state, weight) < mine)
            chosen = at;
    }
    return chosen;
}

static inline void random_nodes(uint64_t *state, char *ret_text, size_t size)
{
    uint64_t first = random_draw(state, 8 * RANDOM_NODES);
    uint64_t base = first / RANDOM_NODES == 7 ? RANDOM_NODES : 0; /* seldom named, and so removed */
    uint64_t count = 1 + random_draw(state, 3);
    size_t length = 0;

    ret_text[0] = '\0';
    for (uint64_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(ret_text + length, size - length, "%sn%" PRIu64,
                                   i == 0 ? "" : ",", base + (first + i) % RANDOM_NODES);
}

/* A report about a checkpoint by one of its nodes, usually of the current attempt and in order. */
static inline void random_report(struct script *script, uint64_t *state, char *line, size_t size)
{
    static const char *const kinds[] = {
        "started barrier", "started",           "shard_verified", "shard_verified",  "barrier",
        "shard_verified",  "checkpoint_failed", "responsive",     "stopped_writing", "deferred"};
    static const char *const reasons[] = {"write_failed", "no_handler", "agent_lost_attempt",
                                          "checkpoint_timeout", "application_refused"};
    const struct fsm_checkpoint *checkpoint = random_checkpoint(script, state);
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const struct fsm_node *node;
    char kind[32];
    uint64_t sequence;
    uint32_t slot;
    char *flag;

    strcpy(kind, kinds[random_draw(state, 10)]);
    flag = strchr(kind, ' ');
    if (flag != NULL)
        *flag++ = '\0';
    if (checkpoint == NULL) {
        snprintf(line, size, "node n%" PRIu64 " ready", random_draw(state, RANDOM_NODES));
        return;
    }
    slot = checkpoint->shards[random_draw(state, checkpoint->shard_count)].node_slot;
    node = fsm_node_find_slot(script->fsm, slot);
    sequence = node != NULL ? node->last_report_sequence : 0; /* one that was removed reports too */
    snprintf(line, size,
             "report %s %s %s ckpt=%s attempt=%u reason=%s size=%d write=%" PRIu64 " stall=%" PRIu64
             " deferral=%" PRIu64 " seq=%" PRIu64 " label=%" PRIu64 " ranks=%" PRIu64
             " step=%" PRIu64 " numbers=%" PRIu64 " all=%" PRIu64 " %s",
             fsm_node_name(script->fsm, slot), kind,
             fsm_allocation_at(script->fsm, checkpoint->allocation_slot)->id,
             checkpoint_id_format(checkpoint->id, id),
             checkpoint->attempt - (random_draw(state, 10) == 0), reasons[random_draw(state, 5)],
             random_draw(state, 20) == 0 ? 0 : 1000, random_draw(state, 90000),
             random_draw(state, 3) * 700, random_draw(state, 500000),
             sequence + (random_draw(state, 10) != 0) -
                 (random_draw(state, 20) == 0 && sequence > 0),
             (uint64_t)(random_draw(state, 10) == 0), random_draw(state, 300),
             random_draw(state, 3), random_draw(state, 3),
             random_draw(state, 10) == 0 ? random_draw(state, 3) : 0, flag == NULL ? "" : flag);
}

/* What the nodes of a job say of their copies: mostly of what they wrote. */
static inline bool random_copy(struct script *script, uint64_t *state, char *line, size_t size)
{
    const struct fsm_checkpoint *any = NULL, *at = NULL;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t part, seen = 0;

    while ((at = fsm_checkpoint_next(script->fsm, at == NULL ? 0 : at->id)) != NULL)
        if (at->shards[0].verified && random_draw(state, ++seen) == 0)
            any = at;
    if (any == NULL)
        return false;
    part = random_draw(state, any->shard_count);
    snprintf(
        line, size, "report %s %s %s ckpt=%s part=%" PRIu64 " %s",
        fsm_node_name(script->fsm, any->shards[random_draw(state, 4) == 0 ? 0 : part].node_slot),
        random_draw(state, 4) == 0 ? "copy_dropped why=ENOSPC" : "copy_kept",
        fsm_allocation_at(script->fsm, any->allocation_slot)->id, checkpoint_id_format(any->id, id),
        part + (random_draw(state, 20) == 0), random_draw(state, 10) == 0 ? "sha=00" : "");
    return true;
}

static inline void random_application(uint64_t *state, char *line, size_t size)
{
    static const char *const kinds[] = {"terminated",
                                        "terminated",
                                        "terminated",
                                        "application_exited",
                                        "application_exited restart",
                                        "application_started",
                                        "walltime_killed",
                                        "restored restored=1-1",
                                        "restart_damaged restored=1-2"};
    uint64_t kind = random_draw(state, 9);
    char copy[64];
    char *flag;

    strcpy(copy, kinds[kind]);
    flag = strchr(copy, ' ');
    if (flag != NULL)
        *flag++ = '\0';
    snprintf(line, size, "report n%" PRIu64 " %s j%" PRIu64 " status=%d %s %s%" PRIu64,
             random_draw(state, RANDOM_NODES), copy, random_draw(state, RANDOM_JOBS),
             (int)random_draw(state, 2), flag == NULL ? "" : flag,
             *state % 3 == 0 ? "run=1-" : "no", 1 + *state % 3000);
}

static inline void random_register(uint64_t *state, char *line, size_t size)
{
    static const char *const strategies[] = {"auto", "auto", "auto", "manual", "none"};
    static const char *const requeues[] = {"never", "on_node_failure", "always"};
    static const char *const kinds[] = {"unspecified", "hpc",         "ml",
                                        "service",     "interactive", "sensitive"};
    static const char *const targets[8] = {"other",   "third",   "third",   "scratch",
                                           "scratch", "scratch", "scratch", "scratch"};
    static const char *const restores[] = {"unspecified", "own", "all", "path"};
    static const char *const on_hangs[] = {"unspecified", "tell", "restart"};
    char nodes[128], continues[32] = "";

    random_nodes(state, nodes, sizeof(nodes));
    if (random_draw(state, 2) == 0)
        snprintf(continues, sizeof(continues), "continues=j%" PRIu64,
                 random_draw(state, RANDOM_JOBS));
    snprintf(line, size,
             "register j%" PRIu64 " nodes=%s gpus=%d class=%d strategy=%s requeue=%s "
             "walltime=%d target=%s %s min=%d %s kind=%s restore=%s on_hang=%s %s %s "
             "first_period=%d starting",
             random_draw(state, RANDOM_JOBS), nodes, (int)random_draw(state, 9),
             (int)random_draw(state, 11), strategies[random_draw(state, 5)],
             requeues[random_draw(state, 3)], (int)(random_draw(state, 3) * 400000),
             targets[random_draw(state, 8)], random_draw(state, 8) == 0 ? "sensitive" : "",
             (int)random_draw(state, 2), random_draw(state, 3) == 0 ? "borrowed home=hpc" : "",
             kinds[random_draw(state, 24) % 6 * (random_draw(state, 2))],
             restores[random_draw(state, 4)], on_hangs[random_draw(state, 3)], continues,
             random_draw(state, 4) == 0 ? "profile=file attributes=checkpoint_exit_code=85" : "",
             (int)(random_draw(state, 3) * 70000));
}

/* A job that waits for its restart, on its old nodes or on others; false: none waits. */
static inline bool random_choice(const struct script *script, uint64_t *state, char *line,
                                 size_t size)
{
    for (uint32_t slot = 0; slot < fsm_allocation_slots(script->fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(script->fsm, slot);
        uint64_t first = random_draw(state, RANDOM_NODES);
        size_t length;

        if (job != NULL && job->restart_choice[0] != '\0' && job->node_count > 0 &&
            job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING &&
            random_draw(state, 4) == 0) {
            snprintf(line, size, "choose %s absent=%s", job->id,
                     fsm_node_name(script->fsm, job->nodes[0].node_slot));
            return true;
        }
        if (job == NULL || !fsm_restart_awaited(script->fsm, job) || random_draw(state, 3) == 0)
            continue;
        length = (size_t)snprintf(line, size, "choose %s nodes=", job->id);
        for (uint32_t i = 0; i < job->node_count && length < size; i++)
            length += (size_t)snprintf(line + length, size - length, "%s%s%" PRIu64,
                                       i == 0 ? "" : ",", "n", (first + i) % RANDOM_NODES);
        return true;
    }
    return false;
}

/* A job that runs is told HUNG, or steps again; false: none does. */
static inline bool random_hang(const struct script *script, uint64_t *state, char *line,
                               size_t size)
{
    for (uint32_t slot = 0; slot < fsm_allocation_slots(script->fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(script->fsm, slot);

        if (job == NULL || random_draw(state, 3) == 0 || fsm_level(script->fsm) < 2 ||
            job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING)
            continue;
        if (job->hung_since_ms != 0)
            snprintf(line, size, "hang %s", job->id);
        else
            snprintf(line, size, "hang %s quiet=%" PRIu64 " gap=%" PRIu64, job->id,
                     (random_draw(state, 3) + 1) * 300000, random_draw(state, 40000));
        return true;
    }
    return false;
}

/* A job that goes on, under a new id, from the checkpoints of one that has stopped; false: none
 * has any, or it is not its turn. */
static inline bool random_continue(const struct script *script, uint64_t *state, char *line,
                                   size_t size)
{
    for (uint32_t slot = 0; slot < fsm_allocation_slots(script->fsm); slot++) {
        const struct fsm_allocation *old = fsm_allocation_find_slot(script->fsm, slot);
        const struct fsm_checkpoint *point =
            old == NULL ? NULL : fsm_restart_point(script->fsm, old->id, 0);
        uint64_t first = random_draw(state, RANDOM_NODES);
        size_t length;

        if (point == NULL || random_draw(state, 3) == 0 ||
            old->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING)
            continue;
        length = (size_t)snprintf(line, size,
                                  "register j%" PRIu64 " continues=%s starting %s gpus=%u nodes=",
                                  random_draw(state, RANDOM_JOBS), old->id,
                                  old->sensitive ? "sensitive" : "", (unsigned)first);
        for (uint32_t i = 0; i < point->shard_count && length < size; i++)
            length += (size_t)snprintf(line + length, size - length, "%sn%" PRIu64,
                                       i == 0 ? "" : ",", (first + i) % RANDOM_NODES);
        return true;
    }
    return false;
}

static inline void random_grant(struct script *script, uint64_t *state, char *line, size_t size)
{
    uint64_t ids[8];
    size_t count = fsm_grantable(script->fsm, ids, 8);
    char id[CHECKPOINT_ID_TEXT_BYTES];

    if (count == 0)
        snprintf(line, size, "after %" PRIu64, random_draw(state, 3000));
    else
        snprintf(line, size, "grant %s bytes=%" PRIu64 " timeout=%" PRIu64 " %s",
                 checkpoint_id_format(ids[random_draw(state, count)], id),
                 UINT64_C(1) + random_draw(state, 4000000000), random_draw(state, 60000),
                 random_draw(state, 4) == 0 ? "bypass" : "");
}

/* What a node that is to remove a folder, or another one, says of it; false: none is to. */
static inline bool random_removal(struct script *script, uint64_t *state, char *line, size_t size)
{
    const struct fsm_undeleted *at;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    for (uint32_t place = 0; (at = fsm_undeleted_next(script->fsm, place)) != NULL;
         place = at->place + 1) {
        if (!at->given || random_draw(state, 2) == 0)
            continue;
        snprintf(line, size, "report %s %s %s ckpt=%s attempt=%u size=%" PRIu64 " why=EBUSY",
                 random_draw(state, 8) == 0 ? "n1" : fsm_node_name(script->fsm, at->node_slot),
                 random_draw(state, 3) == 0 ? "collected" : "collect_failed", at->allocation_id,
                 checkpoint_id_format(at->checkpoint_id, id), at->attempts + 1,
                 random_draw(state, 1000));
        return true;
    }
    return false;
}

static inline void random_collected(struct script *script, uint64_t *state, char *line, size_t size)
{
    const struct fsm_checkpoint *any = random_checkpoint(script, state);
    uint64_t ids[4];
    size_t count = fsm_collectable(script->fsm, 0, ids, 4);
    char id[CHECKPOINT_ID_TEXT_BYTES];

    if (any != NULL && random_draw(state, 6) == 0) {
        snprintf(line, size, random_draw(state, 2) == 0 ? "expire %s" : "pin %s%s",
                 checkpoint_id_format(any->id, id), random_draw(state, 2) == 0 ? " undo" : "");
        return;
    }
    if (any != NULL && random_draw(state, 8) == 0) {
        snprintf(line, size, "over_quota %s", checkpoint_id_format(any->id, id));
        return;
    }
    if (random_draw(state, 8) == 0) {
        snprintf(line, size, "tenant %s max=%" PRIu64 " keep=%" PRIu64 " retention=%" PRIu64 " %s",
                 random_draw(state, 8) ? "physics" : "biology",
                 random_draw(state, 3) ? UINT64_C(1000000000000) : random_draw(state, 9000),
                 random_draw(state, 4), 1000 * random_draw(state, 99),
                 random_draw(state, 2) ? "zeros=28" : "");
        return;
    }
    if (random_draw(state, 8) == 0) {
        snprintf(line, size, "orphans %s size=%" PRIu64 " 1-%" PRIu64 " %s",
                 random_draw(state, 2) == 0 ? "scratch" : "other", random_draw(state, 1000),
                 1 + random_draw(state, 40),
                 any == NULL ? "1-9" : checkpoint_id_format(any->id, id));
        return;
    }
    if (random_draw(state, 8) == 0) {
        snprintf(line, size, "scan %s%s", random_draw(state, 2) == 0 ? "scratch" : "other",
                 random_draw(state, 3) == 0 ? " end" : "");
        return;
    }
    if (random_draw(state, 3) == 0 && random_removal(script, state, line, size))
        return;
    if (count > 0 && random_draw(state, 4) != 0)
        snprintf(line, size, "collected %s%s%s", random_draw(state, 2) == 0 ? "failed=" : "",
                 checkpoint_id_format(ids[random_draw(state, count)], id),
                 random_draw(state, 2) == 0 ? " elsewhere" : "");
    else
        snprintf(line, size, "collected %s",
                 any == NULL ? "1-99" : checkpoint_id_format(any->id, id));
}

/* What a node that is to read a part again says of it, or another one; false: none is to. */
static inline bool random_verification(struct script *script, uint64_t *state, char *line,
                                       size_t size)
{
    static const char *const kinds[] = {"verified",       "verified",       "verified",
                                        "verify_damaged", "verify_missing", "verify_failed"};
    char id[CHECKPOINT_ID_TEXT_BYTES];

    for (uint32_t slot = 0; slot < fsm_node_slots(script->fsm); slot++) {
        const struct fsm_verification *read;

        if (fsm_verifications_on_node(script->fsm, slot, &read, 1) == 0 ||
            random_draw(state, 2) == 0)
            continue;
        snprintf(line, size, "report %s %s j1 ckpt=%s attempt=%u part=%u why=EIO",
                 random_draw(state, 8) == 0 ? "n1" : fsm_node_name(script->fsm, slot),
                 kinds[random_draw(state, 6)], checkpoint_id_format(read->checkpoint_id, id),
                 fsm_verify_attempt(script->fsm, read), read->part);
        return true;
    }
    return false;
}

static inline void random_verify(struct script *script, uint64_t *state, char *line, size_t size)
{
    static const char *const results[] = {"whole",     "elsewhere", "elsewhere", "elsewhere",
                                          "elsewhere", "damaged",   "unreadable"};
    const struct fsm_checkpoint *any = random_checkpoint(script, state);
    char id[CHECKPOINT_ID_TEXT_BYTES] = "1-99";
    uint64_t after = 0, due;

    if (random_draw(state, 2) == 0 && random_verification(script, state, line, size))
        return;
    if (any != NULL)
        checkpoint_id_format(any->id, id);
    if (random_draw(state, 2) == 0)
        snprintf(line, size, "verify %s", id);
    else if (fsm_verify_due(script->fsm, 0, 1000, &after, &due, 1) == 1)
        snprintf(line, size, "verified %s %s why=EIO", checkpoint_id_format(due, id),
                 results[random_draw(state, 7)]);
    else
        snprintf(line, size, "verified %s elsewhere", id);
}

/* One on which nothing runs: down, and the next time it is gone; or another one, and it is
 * refused. */
static inline void random_remove(struct script *script, uint64_t *state, char *line, size_t size)
{
    uint64_t first = random_draw(state, 2 * RANDOM_NODES);
    char name[16];

    for (uint64_t i = 0; i < 2 * RANDOM_NODES; i++) {
        const struct fsm_node *node;

        snprintf(name, sizeof(name), "n%" PRIu64, (first + i) % (2 * RANDOM_NODES));
        node = fsm_node_find(script->fsm, name);
        if (node != NULL && node->allocation_count == 0 && random_draw(state, 4) != 0) {
            bool silent = node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN ||
                          node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST ||
                          node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED;
            uint64_t word =
                *state >> 32; /* without a draw of its own: the walks stay as they are */

            snprintf(line, size,
                     !silent ? word % 2 ? "node %s down" : "node %s down%s evidence=seen"
                     : random_draw(state, 3) == 0 && fsm_level(script->fsm) >= 2 ? "node_off %s%s"
                                                                                 : "remove_node %s",
                     name,
                     fsm_level(script->fsm) < 2 ? ""
                     : word % 3 == 0            ? " witness=bmc"
                     : word % 3 == 1            ? " witness=scheduler"
                                                : "");
            return;
        }
    }
    snprintf(line, size, "remove_node %s", name);
}

/* The ways of a drain are drawn without a draw of their own: the walks stay as they are. */
static inline void random_drain(struct script *script, uint64_t *state, char *line, size_t size)
{
    static const char *const ways[] = {"urgent",         "move",    "next",
                                       "deadline=60000", "disable", "move deadline=1000"};
    uint64_t node = random_draw(state, RANDOM_NODES), way = *state >> 32;

    snprintf(line, size, "drain n%" PRIu64 " %s", node,
             !random_draw(state, 2)       ? "undo"
             : fsm_level(script->fsm) < 2 ? "urgent"
                                          : ways[way % 6]);
}

/* long: one line for each kind of command. */
static inline void random_rare(struct script *script, uint64_t *state, char *line, size_t size)
{
    static const char *const roles[] = {"learner", "voter", "removed"};
    static const char *const states[] = {"ready", "ready", "degraded", "down"};
    const struct fsm_checkpoint *any = random_checkpoint(script, state);
    char nodes[128];
    char id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t job = random_draw(state, RANDOM_JOBS);
    uint64_t which = random_draw(state, 16);

    random_nodes(state, nodes, sizeof(nodes));
    if (which < 3)
        snprintf(line, size, "target %s %s %s%" PRIu64 "%s",
                 random_draw(state, 2) ? "scratch" : "other", which == 0 ? "down" : "up",
                 random_draw(state, 2) ? "measured=" : "unmeasured=",
                 random_draw(state, 4) ? 1 + random_draw(state, 8000000000) : 0,
                 random_draw(state, 4) ? "" : " forget");
    else if (which == 3)
        snprintf(
            line, size, "put %s domain=%s write=%" PRIu64 " %s=/%s %s",
            random_draw(state, 2) ? "scratch" : "third",
            random_draw(state, 2)
                ? "d0"
                : "d1 tier=nvme read=1000 restores=2 failover=other pool=open assured=2 law=CH",
            UINT64_C(1) + random_draw(state, 10000000000),
            random_draw(state, 3) ? "prefix" : "cost=7 unsaid",
            random_draw(state, 4) ? "scratch" : "moved",
            random_draw(state, 3) ? random_draw(state, 2) ? "keep" : ""
                                  : "keep read=5000000000 restores=1");
    else if (which == 15 && random_draw(state, 4) != 0)
        random_remove(script, state, line, size);
    else if (which == 15 && random_draw(state, 8) != 0)
        snprintf(line, size, "%s %s", random_draw(state, 2) ? "remove_target" : "drain_target",
                 random_draw(state, 3)   ? "third"
                 : random_draw(state, 2) ? "other"
                                         : "scratch");
    else if (which == 5 && random_draw(state, 16) == 0)
        snprintf(line, size, "epoch %" PRIu64, 2 + random_draw(state, 12));
    else if (which < 6)
        snprintf(line, size, "%s %d", which == 4 ? "leader" : "member",
                 random_draw(state, 2) ? 1 : 2);
    else if (which == 6)
        snprintf(line, size, "queue %s queued=100 waiting%s", random_draw(state, 2) ? "hpc" : "ml",
                 random_draw(state, 4) == 0 ? " withdrawn" : "");
    else if (which == 7)
        snprintf(line, size,
                 "node n%" PRIu64 " %s boot=b%" PRIu64 " machine=m%" PRIu64 " domain=d%d %s",
                 random_draw(state, RANDOM_NODES), states[random_draw(state, 4)],
                 random_draw(state, 30) / 29, random_draw(state, 2), (int)random_draw(state, 2),
                 random_draw(state, 2) ? "" : "os=debian-12");
    else if (which == 8)
        random_drain(script, state, line, size);
    else if (which == 9) /* node_gpus without a draw of its own: the walks stay as they are */
        snprintf(line, size,
                 "policy keep=%" PRIu64 " retention=%" PRIu64 " attempts=%" PRIu64
                 " discarded=%" PRIu64 " release=%" PRIu64 " node_gpus=%" PRIu64,
                 2 + random_draw(state, 3), 1 + random_draw(state, 100000),
                 1 + random_draw(state, 3), 1 + random_draw(state, 100000),
                 1 + random_draw(state, 2) * 40000, fsm_level(script->fsm) >= 2 ? *state % 12 : 0);
    else if (which == 10)
        snprintf(line, size, "update j%" PRIu64 " %s=%s walltime=%" PRIu64 " %s %s %s", job,
                 random_draw(state, 4) ? "nodes" : "not", nodes, random_draw(state, 2) * 900000,
                 random_draw(state, 3) == 0 ? "force" : "",
                 random_draw(state, 4) == 0 ? "zeros=48" : "",
                 random_draw(state, 2) == 0 ? "target=other" : "");
    else if (which == 11)
        snprintf(line, size, "end j%" PRIu64 " %s %s", job, random_draw(state, 2) ? "failed" : "",
                 random_draw(state, 2) ? "node_failure" : "");
    else if (which == 12)
        snprintf(line, size, "cancel %s", any == NULL ? "1-9" : checkpoint_id_format(any->id, id));
    else if (which == 13)
        snprintf(line, size, "role %" PRIu64 " %s name=m%" PRIu64, 1 + random_draw(state, 80),
                 roles[random_draw(state, 3)], random_draw(state, 9));
    else if (which == 14)
        snprintf(line, size, "learned failures=%" PRIu64 " kills=%" PRIu64 " hazard=%" PRIu64,
                 random_draw(state, 3), random_draw(state, 2), random_draw(state, 1000000));
    else /* without a draw of their own: the walks stay as they are */
        snprintf(line, size, "%s",
                 fsm_level(script->fsm) < 2 || *state % 3 == 0 ? "init"
                 : *state % 3 == 1                             ? "audit_shipped all"
                 : *state % 2 == 0                             ? "revoke 0a1b by=ann"
                                   : "audit_calls denied count=3 by=mallory");
}

static inline void random_preempt(uint64_t *state, char *line, size_t size)
{
    static const char *const reasons[] = {"priority", "priority", "priority", "reclaim",
                                          "sensitive"};
    const char *reason = reasons[random_draw(state, 5)];
    char useful[128];

    random_nodes(state, useful, sizeof(useful));
    snprintf(line, size,
             "preempt class=%" PRIu64 " need=%" PRIu64 " gpus=%" PRIu64 " value=%" PRIu64
             " reason=%s %s%s %s %s",
             reason[0] == 's' ? 10 : random_draw(state, 11), 1 + random_draw(state, 4),
             random_draw(state, 3) == 0 ? random_draw(state, 20) : 0,
             random_draw(state, 3) == 0 ? random_draw(state, 4000000) : 0, reason,
             random_draw(state, 3) == 0 ? "useful=" : "unused=", useful,
             reason[0] == 'r' || random_draw(state, 4) == 0 ? "home=hpc" : "",
             random_draw(state, 3) == 0 ? "forced" : "");
}

/* A part of one that is to start would read what it begins from, or does no more. */
static inline bool random_read(const struct script *script, uint64_t *state,
                               const struct fsm_allocation *allocation, char *line, size_t size)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const char *node = fsm_node_name(
        script->fsm, allocation->nodes[random_draw(state, allocation->node_count)].node_slot);

    /* a restored one may be of no epoch, which has no text */
    if (allocation->restart_id >> CHECKPOINT_SEQUENCE_BITS == 0 || random_draw(state, 4) == 0)
        return false;
    snprintf(line, size, "report %s %s %s restored=%s", node,
             random_draw(state, 4) == 0   ? "read_ended"
             : random_draw(state, 6) == 0 ? "restored"
                                          : "read_wanted",
             allocation->id, checkpoint_id_format(allocation->restart_id, id));
    return true;
}

/* Drills of all kinds, with what members say of them. False: not at this level. */
static inline bool random_drill(const struct script *script, uint64_t *state, char *line,
                                size_t size)
{
    static const char *const kinds[] = {"leader-kill", "leader-hang", "member-loss",
                                        "storage-outage", "restore"};
    const Ckpt__V1__Drill *open = fsm_drill_open(script->fsm);
    uint64_t kind = random_draw(state, 5);
    int member = (int)random_draw(state, 3) + 1, run = (int)random_draw(state, 2) + 1;

    if (fsm_level(script->fsm) < 2)
        return false;
    if (open == NULL)
        snprintf(line, size, "drill %s member=%d duration=%d %s job=%s", kinds[kind], member,
                 2000 + (int)random_draw(state, 9000), kind == 3 ? "target=scratch" : "",
                 random_draw(state, 2) == 0 ? "" : "j1");
    else if (random_draw(state, 3) == 0)
        snprintf(line, size, "role %d voter name=n%d", member, member);
    else if (random_draw(state, 2) == 0)
        snprintf(line, size, "probe %" PRIu64 " member=%d run=%d", open->drill_id, member, run);
    else
        snprintf(line, size, "tell %" PRIu64 " member=%d run=%d probes=%d %s %s", open->drill_id,
                 member, run, (int)random_draw(state, 3),
                 random_draw(state, 8) == 0 ? "other_state" : "fault", "backup");
    return true;
}

/* The application of a part of one that is to start. False: it is none, or stays that for now. */
static inline bool random_start(const struct script *script, uint64_t *state, uint64_t job,
                                char *line, size_t size)
{
    const struct fsm_allocation *allocation;
    char id[32];

    snprintf(id, sizeof(id), "j%" PRIu64, job);
    allocation = fsm_allocation_find(script->fsm, id);
    if (allocation == NULL ||
        allocation->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
        random_draw(state, 4) == 0)
        return false;
    if (random_read(script, state, allocation, line, size))
        return true;
    snprintf(line, size,
             random_draw(state, 4) == 0 ? "running %s %s" : "report %s application_started %s",
             fsm_node_name(script->fsm,
                           allocation->nodes[random_draw(state, allocation->node_count)].node_slot),
             id);
    return true;
}

/* Rare, and soon over: most commands are of no use meanwhile. */
static inline bool random_pause(const struct script *script, uint64_t *state, char *line,
                                size_t size)
{
    bool paused = fsm_pause(script->fsm) != NULL;

    if (fsm_level(script->fsm) < 2 || random_draw(state, paused ? 4 : 1200) != 0)
        return false;
    if (paused && random_draw(state, 3) != 0)
        snprintf(line, size, "pause resume by=bob");
    else
        snprintf(line, size, "pause for=%" PRIu64, random_draw(state, 3) * 9000);
    return true;
}

static inline void random_line(struct script *script, uint64_t *state, char *line, size_t size)
{
    static const char *const purposes[] = {"periodic", "proactive", "walltime", "preempt"};
    static const char *const afters[] = {"continue", "continue", "stop", "kill", "migrate"};
    uint64_t job = random_draw(state, RANDOM_JOBS);
    uint64_t which = random_draw(state, 100);

    if (fsm_passive_since_ms(script->fsm) != 0 && random_draw(state, 20) == 0) {
        snprintf(line, size, "adopt");
        return;
    }
    if (random_pause(script, state, line, size) || random_start(script, state, job, line, size))
        return;
    if (which < 8 && (random_draw(state, 3) != 0 || !random_continue(script, state, line, size))) {
        random_register(state, line, size);
        if (fsm_level(script->fsm) >= 2 && random_draw(state, 6) == 0)
            snprintf(line + strlen(line), size - strlen(line), " broker=manual");
    } else if (which < 8)
        return;
    else if (which < 20)
        snprintf(line, size,
                 "decide j%" PRIu64 " j%" PRIu64 " purpose=%s recompute=%" PRIu64 " inputs=%" PRIu64
                 " basis=%" PRIu64 " hazard=%" PRIu64 " age=40000 size=900 write=30000 waste=9000",
                 job, random_draw(state, RANDOM_JOBS), purposes[random_draw(state, 16) / 5],
                 random_draw(state, 1000), random_draw(state, 3), random_draw(state, 40),
                 random_draw(state, 1000) * 1000003);
    else if (which < 32)
        random_grant(script, state, line, size);
    else if (which < 62) {
        if (random_draw(state, 6) != 0 || !random_copy(script, state, line, size))
            random_report(script, state, line, size);
    } else if (which < 70)
        random_application(state, line, size);
    else if (which < 72)
        snprintf(line, size, "request j%" PRIu64 " after=%s", job, afters[random_draw(state, 5)]);
    else if (which < 75)
        random_preempt(state, line, size);
    else if (which < 76 && random_draw(state, 3) == 0 && random_hang(script, state, line, size))
        return;
    else if (which < 76)
        snprintf(line, size, "migrate j%" PRIu64, job);
    else if (which < 80 && random_draw(state, 2) == 0 && random_choice(script, state, line, size))
        return;
    else if (which < 80)
        snprintf(line, size, "restart j%" PRIu64 " id=restart-%" PRIu64, job,
                 random_draw(state, 400));
    else if (which < 82)
        random_verify(script, state, line, size);
    else if (which < 84)
        random_collected(script, state, line, size);
    else if (which < 86 && random_drill(script, state, line, size))
        return;
    else if (which < 90)
        random_rare(script, state, line, size);
    else if (which < 95)
        snprintf(line, size, "tick");
    else
        snprintf(line, size, "after %" PRIu64, random_draw(state, 20000));
}

#endif
