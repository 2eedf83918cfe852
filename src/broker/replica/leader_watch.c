/* Hands leadership over, and gives it up when nothing else helps. See leader_watch.h. Each look
 * first brings up to date since when something is so (keep_since), then compares how long that is
 * with a limit (for_long), then does at most one thing. */
#include "src/broker/replica/leader_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/replica/state_clock.h"

/* Between two hand-overs for one kind of reason, longer each time. */
struct leader_watch_pause {
    uint64_t asked_ms; /* monotonic: the last one; 0: none */
    uint64_t retry_ms;
};

struct leader_watch {
    struct broker *broker;
    struct clock_timer *timer;
    /* Monotonic; 0: it is not so. */
    uint64_t leading_since_ms, serving_since_ms, preferred_since_ms, clock_off_since_ms;
    uint64_t cycle_ms, cycle_seen_ms; /* the evaluator's last cycle, and when it was new here */
    /* Two: a leader that cannot serve does not wait for what it offered while it could. */
    struct leader_watch_pause offered, needed;
    uint64_t retry_ms; /* of the last hand-over */
    unsigned in_vain;  /* hand-overs since it leads and cannot serve */
    bool handing_over;
};
_Static_assert((int)LEADER_WATCH_ANSWER_MS > (int)REPLICA_CATCH_UP_MS + (int)REPLICA_TRANSFER_MS,
               "by then a hand-over has ended");

/* Keeps the instant since when something is so; 0 when it is not. */
static void keep_since(uint64_t *since_ms, bool is_so, uint64_t now_ms)
{
    if (!is_so)
        *since_ms = 0;
    else if (*since_ms == 0)
        *since_ms = now_ms;
}

static bool for_long(uint64_t since_ms, uint64_t now_ms, uint64_t limit_ms)
{
    return since_ms != 0 && now_ms - since_ms >= limit_ms;
}

/* ---- handing over ---- */

static void handed_over(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct leader_watch *watch = data;

    (void)outcome;
    watch->handing_over = false;
    if (failed != NULL)
        log_warning("transfer_failed", "retry_ms=%" PRIu64 " text=\"%s\"", watch->retry_ms,
                    failed->text);
}

/* Somebody is asked now: the next one not before a while, longer each time. */
static void note_asked(struct leader_watch *watch, struct leader_watch_pause *pause,
                       uint64_t now_ms)
{
    if (pause->asked_ms == 0 || now_ms - pause->asked_ms >= 2 * LEADER_WATCH_RETRY_MAX_MS)
        pause->retry_ms = LEADER_WATCH_RETRY_MS;
    else
        pause->retry_ms = pause->retry_ms * 2 < LEADER_WATCH_RETRY_MAX_MS
                              ? pause->retry_ms * 2
                              : LEADER_WATCH_RETRY_MAX_MS;
    pause->asked_ms = now_ms;
    watch->retry_ms = pause->retry_ms;
}

/* False: not yet. */
static bool hand_over(struct leader_watch *watch, struct leader_watch_pause *pause,
                      uint64_t member_id, const char *why, uint64_t now_ms)
{
    struct replica *replica = watch->broker->replica;
    struct err err;

    if (watch->handing_over || (pause->asked_ms != 0 && now_ms - pause->asked_ms < pause->retry_ms))
        return false;
    note_asked(watch, pause, now_ms);
    log_warning("transfer", "reason=%s member=%" PRIu64 " text=\"another member is asked to lead\"",
                why, member_id);
    if (replica_serving(replica)) {
        watch->handing_over = true;
        replica_transfer(replica, member_id, handed_over, watch);
    } else if (replica_yield(replica, &err) != 0) {
        log_warning("transfer_failed", "retry_ms=%" PRIu64 " text=\"%s\"", watch->retry_ms,
                    err.text);
    }
    return true;
}

/* The last step: this member stops leading although nobody took over. It counts as a hand-over that
 * is needed, so that the next one waits its time. */
static void give_up(struct leader_watch *watch, const char *why, uint64_t now_ms)
{
    struct err err;

    note_asked(watch, &watch->needed, now_ms);
    watch->in_vain = 0;
    log_warning("step_down",
                "reason=%s text=\"nobody took over: this member gives up leading, so that another "
                "one is elected\"",
                why);
    if (replica_step_down(watch->broker->replica, &err) != 0)
        log_warning("step_down_failed", "retry_ms=%" PRIu64 " text=\"%s\"", watch->retry_ms,
                    err.text);
}

/* It leads and cannot serve. */
static void get_rid(struct leader_watch *watch, const char *why, uint64_t now_ms)
{
    if (watch->in_vain >= LEADER_WATCH_VAIN && !watch->handing_over &&
        now_ms - watch->needed.asked_ms >= LEADER_WATCH_ANSWER_MS)
        give_up(watch, why, now_ms);
    else if (hand_over(watch, &watch->needed, 0, why, now_ms))
        watch->in_vain++;
}

/* ---- looking ---- */

/* NULL: none is configured, or it is not fit to lead now. A preferred member that lags would take
 * over and then keep everybody waiting. */
static const struct consensus_peer_status *preferred_of(const struct leader_watch *watch,
                                                        const struct consensus_status *status)
{
    const struct config *config = watch->broker->config;

    if (config->preferred_leader == NULL || config->preferred_leader[0] == '\0')
        return NULL;
    for (size_t i = 0; i < status->peer_count; i++) {
        const struct consensus_peer_status *peer = &status->peers[i];
        if (strcmp(peer->name, config->preferred_leader) == 0)
            return peer->voter && peer->unfit == CONSENSUS_FIT &&
                           broker_peer_reachable(watch->broker, status, peer) &&
                           peer->match_index + LEADER_WATCH_LAG_MAX >= status->last_index
                       ? peer
                       : NULL;
    }
    return NULL;
}

/* A leader whose clock is off goes on when no other voter is well: a wrong clock moves nothing by
 * itself (state_clock.h), no leader does. */
static bool anybody_fit(const struct leader_watch *watch, const struct consensus_status *status)
{
    for (size_t i = 0; i < status->peer_count; i++) {
        const struct consensus_peer_status *peer = &status->peers[i];
        if (peer->voter && peer->unfit == CONSENSUS_FIT &&
            broker_peer_reachable(watch->broker, status, peer) &&
            peer->match_index + LEADER_WATCH_LAG_MAX >= status->last_index)
            return true;
    }
    return false;
}

/* A member whose clock is off becomes reluctant: it leaves elections to the others, on every member
 * and not only on the leader. */
static void look_at_clock(struct leader_watch *watch, uint64_t now_ms)
{
    struct replica *replica = watch->broker->replica;
    bool changed = replica_clock_look(replica);
    struct replica_clock clock;

    replica_clock_get(replica, &clock);
    keep_since(&watch->clock_off_since_ms, clock.off, now_ms);
    if (!changed)
        return;
    replica_set_reluctant(replica, clock.off);
    if (clock.off)
        log_warning("clock_off",
                    "offset_ms=%" PRId64
                    " limit_ms=%d text=\"the wall clock of this member differs "
                    "from the others': it does not come to lead while another can\" next=\"chronyc "
                    "tracking, or timedatectl, on this host\"",
                    clock.offset_ms, STATE_CLOCK_OFF_MS);
    else
        log_info("clock_ok", "offset_ms=%" PRId64, clock.offset_ms);
}

/* The evaluator ended no cycle for LEADER_WATCH_CYCLES intervals. The age of a cycle is counted
 * from when it was seen here, by the monotonic clock: the wall clock may step. */
static bool evaluator_stuck(struct leader_watch *watch, uint64_t now_ms)
{
    const struct broker *broker = watch->broker;
    uint64_t cycle_ms = broker->evaluator == NULL ? 0 : evaluator_last_cycle_ms(broker->evaluator);
    uint64_t limit_ms =
        LEADER_WATCH_CYCLES * fsm_policy(replica_fsm(broker->replica))->evaluation_interval_ms;

    if (limit_ms < LEADER_WATCH_CYCLE_MS)
        limit_ms = LEADER_WATCH_CYCLE_MS;
    if (watch->serving_since_ms == 0 || broker->evaluator == NULL) {
        watch->cycle_seen_ms = 0;
        return false;
    }
    if (watch->cycle_seen_ms == 0 || cycle_ms != watch->cycle_ms) {
        watch->cycle_ms = cycle_ms;
        watch->cycle_seen_ms = now_ms;
    }
    return now_ms - watch->cycle_seen_ms >= limit_ms;
}

/* One look. What cannot wait comes first: a leader that cannot serve, then one whose clock is off,
 * then the preferred one. */
static void look_at(struct leader_watch *watch, uint64_t now_ms)
{
    struct replica *replica = watch->broker->replica;
    const struct consensus_peer_status *preferred;
    struct consensus_status status;
    bool leads, late, stuck;

    look_at_clock(watch, now_ms);
    replica_get_status(replica, &status);
    leads = status.role == CONSENSUS_LEADER;
    keep_since(&watch->leading_since_ms, leads, now_ms);
    keep_since(&watch->serving_since_ms, leads && replica_serving(replica), now_ms);
    preferred = watch->serving_since_ms != 0 ? preferred_of(watch, &status) : NULL;
    keep_since(&watch->preferred_since_ms, preferred != NULL, now_ms);
    stuck = evaluator_stuck(watch, now_ms);
    late = watch->serving_since_ms == 0 &&
           for_long(watch->leading_since_ms, now_ms, LEADER_WATCH_READY_MS);
    if (!leads || (!late && !stuck))
        watch->in_vain = 0;
    if (!leads || status.voter_count <= 1)
        return;
    if (late || stuck)
        get_rid(watch, late ? "not_ready" : "evaluator_stuck", now_ms);
    else if (for_long(watch->clock_off_since_ms, now_ms, LEADER_WATCH_STABLE_MS) &&
             for_long(watch->serving_since_ms, now_ms, LEADER_WATCH_STABLE_MS) &&
             anybody_fit(watch, &status))
        (void)hand_over(watch, &watch->offered, 0, "clock_off", now_ms);
    else if (for_long(watch->preferred_since_ms, now_ms, LEADER_WATCH_STABLE_MS) &&
             for_long(watch->serving_since_ms, now_ms, LEADER_WATCH_STABLE_MS))
        (void)hand_over(watch, &watch->offered, preferred->id, "preferred_leader", now_ms);
}

static void on_timer(void *data)
{
    struct leader_watch *watch = data;

    look_at(watch, broker_monotonic_ms(watch->broker));
    watch->broker->clock.timer_start(watch->timer, LEADER_WATCH_MS * UINT64_C(1000));
}

struct leader_watch *leader_watch_new(struct broker *broker)
{
    struct leader_watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(broker->replica != NULL);
    watch->broker = broker;
    watch->timer = broker->clock.timer_new(broker->clock.context, on_timer, watch);
    broker->clock.timer_start(watch->timer, 0);
    return watch;
}

void leader_watch_free(struct leader_watch *watch)
{
    if (watch == NULL)
        return;
    CHECK(!watch->handing_over);
    watch->broker->clock.timer_free(watch->timer);
    free(watch);
}
