/* What storage systems leave for checkpoints. See headroom.h. In the order of the file: what our
 * own checkpoints write, which targets a source speaks for, what is proposed, what a storage system
 * said, and what becomes of it when it falls silent. */
#include "src/broker/decide/headroom.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/health/storage_watch.h"

/* What is known of a target; begun anew when the slot becomes another target's. */
struct measured_target {
    uint64_t rate_at_us; /* 0: none since this member leads */
    uint64_t bytes_per_s;
    uint64_t told_at_us;           /* of its health; 0: nothing */
    uint64_t made;                 /* of whom all this is: of fsm_target */
    uint64_t own[HEADROOM_WINDOW]; /* what checkpoints wrote to it at the last looks */
    uint64_t looks;
};

struct headroom {
    struct broker *broker;
    uint64_t since_us;
    struct measured_target targets[FSM_TARGETS_MAX]; /* by slot */
    char problems[SOURCES_MAX][HEADROOM_PROBLEM_BYTES];
};

static uint64_t now_us(const struct headroom *headroom)
{
    const struct clock_ops *clock = &headroom->broker->clock;

    return clock->monotonic_us(clock->context);
}

bool headroom_differs(uint64_t old_bytes_per_s, uint64_t new_bytes_per_s,
                      uint64_t configured_bytes_per_s)
{
    uint64_t difference = old_bytes_per_s > new_bytes_per_s ? old_bytes_per_s - new_bytes_per_s
                                                            : new_bytes_per_s - old_bytes_per_s;
    double change = (double)old_bytes_per_s * HEADROOM_CHANGE_PPM / 1e6;
    double noise = (double)configured_bytes_per_s * HEADROOM_NOISE_PPM / 1e6;

    if ((old_bytes_per_s == 0) != (new_bytes_per_s == 0))
        return true;
    return difference > 0 && (double)difference >= fmax(change, noise);
}

/* ---- own writes ---- */

/* One sample a second, of the grants of checkpoints that write. */
static void look_at_own(struct headroom *headroom, uint32_t slot)
{
    struct measured_target *measured = &headroom->targets[slot];

    measured->own[measured->looks++ % HEADROOM_WINDOW] =
        fsm_target_writing_rate(replica_fsm(headroom->broker->replica), slot);
}

/* A VMS tells the mean of its last seconds: so must this be, or what has just begun or ended counts
 * as others'. */
static uint64_t own_mean(const struct headroom *headroom, uint32_t slot)
{
    const struct measured_target *measured = &headroom->targets[slot];
    uint64_t count = measured->looks < HEADROOM_WINDOW ? measured->looks : HEADROOM_WINDOW;
    uint64_t mean = 0;

    for (uint64_t i = 0; i < count; i++)
        mean += measured->own[i] / count;
    return mean;
}

/* ---- the targets of a source ---- */

/* The targets that one source speaks for, and their sums. They share what it says is left. */
struct shared_targets {
    const struct fsm_target *items[FSM_TARGETS_MAX];
    size_t count;
    uint64_t own_bytes_per_s, configured_bytes_per_s;
    char missing[ID_MAX_BYTES + 1]; /* a name that no target has */
};

static bool is_among(const struct shared_targets *targets, const struct fsm_target *target)
{
    for (size_t i = 0; i < targets->count; i++) {
        if (targets->items[i] == target)
            return true;
    }
    return false;
}

/* Names of the configuration against the targets of the state: a name twice counts once. */
static void find_targets(const struct headroom *headroom, const struct source_config *config,
                         struct shared_targets *ret_targets)
{
    const struct fsm *fsm = replica_fsm(headroom->broker->replica);
    const char *at = config->targets;
    char name[ID_MAX_BYTES + 1];

    *ret_targets = (struct shared_targets){.count = 0};
    while (source_target_next(&at, name, sizeof(name))) {
        const struct fsm_target *target = fsm_target_find(fsm, name);

        if (target == NULL) {
            memcpy(ret_targets->missing, name, sizeof(name));
        } else if (!is_among(ret_targets, target)) {
            CHECK(ret_targets->count < FSM_TARGETS_MAX);
            ret_targets->items[ret_targets->count++] = target;
            ret_targets->own_bytes_per_s += own_mean(headroom, target->slot);
            ret_targets->configured_bytes_per_s += target->write_bytes_per_s;
        }
    }
}

/* At least one byte per second: 0 would mean that nothing is measured. */
static uint64_t share_of(uint64_t headroom_bytes_per_s, const struct fsm_target *target,
                         const struct shared_targets *targets)
{
    uint64_t share = (uint64_t)((unsigned __int128)headroom_bytes_per_s *
                                target->write_bytes_per_s / targets->configured_bytes_per_s);

    return share > 0 ? share : 1;
}

/* ---- proposals ---- */

/* Proposes a budget when it differs enough to be worth a log entry. Another change of the target
 * may be on its way: then a later look tries again. */
static void offer_budget(struct headroom *headroom, const struct fsm_target *target)
{
    uint64_t bytes_per_s = headroom->targets[target->slot].bytes_per_s;

    if (!headroom_differs(target->measured_bytes_per_s, bytes_per_s, target->write_bytes_per_s) ||
        !storage_watch_measured(headroom->broker->storage_watch, target->slot, bytes_per_s))
        return;
    log_info("storage_bandwidth",
             "target=%s measured_bytes_per_s=%" PRIu64 " was_bytes_per_s=%" PRIu64
             " configured_bytes_per_s=%" PRIu64 " text=\"%s\"",
             target->id, bytes_per_s, target->measured_bytes_per_s, target->write_bytes_per_s,
             bytes_per_s > 0 ? "what its storage system leaves for checkpoints"
                             : "nothing measures it any more: what is configured counts");
}

/* ---- what a VMS said ---- */

static void say_problem(struct headroom *headroom, size_t source,
                        const struct shared_targets *targets, const struct vast_cluster *cluster,
                        uint64_t cap_bytes_per_s)
{
    char *text = headroom->problems[source];

    text[0] = '\0';
    if (targets->missing[0] != '\0')
        snprintf(text, HEADROOM_PROBLEM_BYTES,
                 "its key targets names %s, and no target is called so: see ckptctl targets",
                 targets->missing);
    else if (isnan(cluster->write_bytes_per_s))
        snprintf(text, HEADROOM_PROBLEM_BYTES,
                 "the VMS gives no rate of writes (wr_bw): what is configured counts");
    else if (isnan(cluster->limit_bytes_per_s) && cap_bytes_per_s == 0)
        snprintf(text, HEADROOM_PROBLEM_BYTES,
                 "the VMS does not say what it can write (max_performance.write_bw): set "
                 "write_limit_bytes_per_s; what is configured counts until then");
}

/* Only the leader proposes; a follower notes the problems of its sources and nothing else. */
void headroom_take(struct headroom *headroom, const struct sources *sources, size_t source,
                   const struct vast_cluster *cluster)
{
    const struct source_config *config = sources_config(sources, source);
    struct shared_targets targets;
    struct vast_share share = {.cap_bytes_per_s = config->write_limit_bytes_per_s};
    uint64_t left = 0;

    CHECK(source < SOURCES_MAX);
    find_targets(headroom, config, &targets);
    say_problem(headroom, source, &targets, cluster, config->write_limit_bytes_per_s);
    if (!replica_serving(headroom->broker->replica) || targets.count == 0)
        return;
    share.own_bytes_per_s = targets.own_bytes_per_s;
    share.most_bytes_per_s = targets.configured_bytes_per_s;
    if (cluster->up) /* the rates of one that is not are those of nobody */
        left = vast_headroom(cluster, &share);
    for (size_t i = 0; i < targets.count; i++) {
        const struct fsm_target *target = targets.items[i];
        struct measured_target *measured = &headroom->targets[target->slot];

        measured->told_at_us = now_us(headroom);
        storage_watch_told(headroom->broker->storage_watch, target->slot, cluster->trouble);
        if (left == 0)
            continue;
        measured->rate_at_us = measured->told_at_us;
        measured->bytes_per_s = share_of(left, target, &targets);
        offer_budget(headroom, target);
    }
}

/* ---- time passes ---- */

/* 0: no source names it. */
static uint64_t stale_after_us(const struct sources *sources, const char *target_id)
{
    for (size_t i = 0; i < sources_count(sources); i++) {
        const char *at = sources_config(sources, i)->targets;
        char name[ID_MAX_BYTES + 1];
        struct source_status status;

        while (source_target_next(&at, name, sizeof(name))) {
            if (strcmp(name, target_id) != 0)
                continue;
            sources_status(sources, i, &status);
            return SOURCE_STALE_INTERVALS * status.interval_us;
        }
    }
    return 0;
}

/* Nothing is old before this member had time to hear anything: what an earlier leader measured
 * stays for as long. */
static bool is_old(const struct headroom *headroom, uint64_t at_us, uint64_t limit_us)
{
    uint64_t since_us = at_us > headroom->since_us ? at_us : headroom->since_us;

    return now_us(headroom) - since_us > limit_us;
}

/* Health and bandwidth grow old apart: a source may go on to tell the one without the other. */
static void look_at(struct headroom *headroom, const struct sources *sources,
                    const struct fsm_target *target)
{
    struct measured_target *measured = &headroom->targets[target->slot];
    uint64_t limit_us = stale_after_us(sources, target->id);

    if (measured->told_at_us != 0 && is_old(headroom, measured->told_at_us, limit_us)) {
        measured->told_at_us = 0;
        storage_watch_untold(headroom->broker->storage_watch, target->slot);
    }
    if (is_old(headroom, measured->rate_at_us, limit_us))
        measured->rate_at_us = measured->bytes_per_s = 0;
    else if (measured->rate_at_us == 0)
        return; /* what an earlier leader measured holds until this one had time to */
    offer_budget(headroom, target);
}

void headroom_look(struct headroom *headroom, const struct sources *sources)
{
    const struct fsm *fsm = replica_fsm(headroom->broker->replica);

    if (!replica_serving(headroom->broker->replica))
        return;
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target == NULL)
            continue;
        if (headroom->targets[slot].made != target->made)
            headroom->targets[slot] = (struct measured_target){.made = target->made};
        look_at_own(headroom, slot);
        look_at(headroom, sources, target);
    }
}

const char *headroom_problem(const struct headroom *headroom, size_t source)
{
    CHECK(source < SOURCES_MAX);
    return headroom->problems[source];
}

/* ---- life ---- */

/* Nothing that was told counts any more; what is in the state stays until it is measured anew or
 * grows old. */
void headroom_restart(struct headroom *headroom)
{
    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++)
        storage_watch_untold(headroom->broker->storage_watch, slot);
    memset(headroom->targets, 0, sizeof(headroom->targets));
    memset(headroom->problems, 0, sizeof(headroom->problems));
    headroom->since_us = now_us(headroom);
}

struct headroom *headroom_new(struct broker *broker)
{
    struct headroom *headroom = check_calloc(1, sizeof(*headroom));

    headroom->broker = broker;
    headroom_restart(headroom);
    return headroom;
}

void headroom_free(struct headroom *headroom)
{
    free(headroom);
}
