/* See storage_watch.h. */
#include "src/broker/health/storage_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/drill/drills.h"
#include "src/broker/explain/translate.h"
#include "src/broker/keep/errand.h"
#include "src/dest/worker.h"

enum { STORAGE_DETAIL_BYTES = 512, STORAGE_TROUBLE_BYTES = 128 };

struct probe;

enum witness { WITNESS_PROBE, WITNESS_SYSTEM, WITNESS_COUNT };

struct watched_target {
    uint64_t made; /* of whom all this is: the slot may be another target's later */
    struct hysteresis evidence[WITNESS_COUNT];
    char trouble
        [STORAGE_TROUBLE_BYTES]; /* what the storage system says; "": nothing, or it is well */
    struct probe *probe;         /* NULL: none runs */
    uint64_t hang_id;            /* of the last one while it hangs in the kernel, else 0 */
    bool proposing;
    bool probed;
    uint64_t duration_ms; /* of the last probe */
    char detail[STORAGE_DETAIL_BYTES];
    Ckpt__V1__Reason reason; /* of the last probe, when it failed */
    uint64_t reason_count;   /* so many probes in a row failed for it */
};

struct storage_watch {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct watched_target targets[FSM_TARGETS_MAX]; /* by slot */
};

/* Lives until the worker is done, which may be after the watch was freed. */
struct probe {
    struct storage_watch *watch; /* NULL: its result is not wanted any more */
    uint32_t slot;
    struct worker *worker;
};

struct availability_proposal {
    struct storage_watch *watch;
    uint32_t slot;
};

enum hysteresis_verdict hysteresis_sample(struct hysteresis *hysteresis, bool success,
                                          bool available, uint64_t failures_down,
                                          uint64_t successes_up)
{
    if (success) {
        hysteresis->successes++;
        hysteresis->failures = 0;
    } else {
        hysteresis->failures++;
        hysteresis->successes = 0;
    }
    if (available && hysteresis->failures >= failures_down && hysteresis->failures > 0)
        return HYSTERESIS_DOWN;
    if (!available && hysteresis->successes >= successes_up && hysteresis->successes > 0)
        return HYSTERESIS_UP;
    return HYSTERESIS_KEEP;
}

/* ---- whose a slot is ---- */

/* The answer to a proposal is still to come. */
static void forget_target(struct watched_target *watched)
{
    if (watched->probe != NULL) {
        struct probe *probe = watched->probe;

        probe->watch = NULL;
        watched->probe = NULL;
        worker_cancel(probe->worker);
    }
    *watched = (struct watched_target){.proposing = watched->proposing};
}

static struct watched_target *watched_of(struct storage_watch *watch,
                                         const struct fsm_target *target)
{
    struct watched_target *watched = &watch->targets[target->slot];

    if (watched->made != target->made) {
        forget_target(watched);
        watched->made = target->made;
    }
    return watched;
}

/* ---- verdicts ---- */

static void on_proposed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct availability_proposal *proposal = data;

    (void)failed; /* the evidence stays: the next sample proposes again */
    (void)outcome;
    proposal->watch->targets[proposal->slot].proposing = false;
    free(proposal);
}

/* One at a time for a target: each carries its availability, and none may bring back an earlier
 * one. */
static void propose_target(struct storage_watch *watch, const struct fsm_target *target,
                           Ckpt__Log__V1__TargetAvailability *change)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    struct availability_proposal *proposal = check_alloc(sizeof(*proposal));

    CHECK(!watch->targets[target->slot].proposing);
    *proposal = (struct availability_proposal){.watch = watch, .slot = target->slot};
    watch->targets[target->slot].proposing = true;
    change->target_id = translate_text(target->id);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY;
    command.target_availability = change;
    replica_propose(watch->broker->replica, &command, on_proposed, proposal);
}

/* The change is logged when it is proposed: an operator sees what the broker believes, and why. */
static void propose_availability(struct storage_watch *watch, const struct fsm_target *target,
                                 bool available, enum witness witness)
{
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;
    struct watched_target *watched = watched_of(watch, target);
    bool system = witness == WITNESS_SYSTEM;
    char word[FSM_WORD_BYTES];

    if (watched->proposing)
        return;
    if (available)
        log_info("storage_available", "target=%s", target->id);
    else
        log_warning("storage_unavailable", "target=%s prefix=%s reason=%s detail=\"%s\"",
                    target->id, target->prefix,
                    system
                        ? "storage_system_down"
                        : fsm_enum_word(&ckpt__v1__reason__descriptor, (int)watched->reason, word),
                    system ? watched->trouble : watched->detail);
    change.available = available;
    if (!available)
        change.reason = system ? CKPT__V1__REASON__REASON_STORAGE_SYSTEM_DOWN : watched->reason;
    propose_target(watch, target, &change);
}

/* The command carries the availability as it is, since one command has both. */
bool storage_watch_measured(struct storage_watch *watch, uint32_t slot, uint64_t bytes_per_s)
{
    const struct fsm_target *target;
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    CHECK(slot < FSM_TARGETS_MAX);
    if (watch == NULL || !watch->serving || watch->targets[slot].proposing)
        return false;
    target = fsm_target_find_slot(replica_fsm(watch->broker->replica), slot);
    if (target == NULL)
        return false;
    change.available = target->available;
    change.reason = target->reason;
    change.write_bytes_per_s = bytes_per_s;
    change.forget_measured = bytes_per_s == 0;
    propose_target(watch, target, &change);
    return true;
}

/* Of the others whoever speaks, and the probe in any case, must have seen it well as often as it
 * takes. */
static bool others_agree(const struct watched_target *watched, enum witness witness,
                         uint64_t successes_up)
{
    for (int other = 0; other < WITNESS_COUNT; other++) {
        const struct hysteresis *evidence = &watched->evidence[other];
        bool speaks = evidence->failures > 0 || evidence->successes > 0 || other == WITNESS_PROBE;

        if (other != (int)witness && speaks && evidence->successes < successes_up)
            return false;
    }
    return true;
}

/* An outage that goes on for another reason wants another hand: keys that expire while the network
 * is being mended. What the storage system says stays said. */
static bool reason_changed(const struct watched_target *watched, const struct fsm_target *target,
                           const struct config_storage_watch *limits)
{
    return !target->available && watched->reason_count >= limits->failures_down &&
           target->reason != watched->reason &&
           target->reason != CKPT__V1__REASON__REASON_STORAGE_SYSTEM_DOWN;
}

/* Either witness declares a target down; up needs those that speak to agree. A verdict that could
 * not be proposed repeats with the next sample. */
static void take_sample(struct storage_watch *watch, uint32_t slot, enum witness witness,
                        bool success)
{
    const struct config_storage_watch *limits = &watch->broker->config->storage_watch;
    const struct fsm_target *target =
        fsm_target_find_slot(replica_fsm(watch->broker->replica), slot);
    struct watched_target *watched;
    enum hysteresis_verdict verdict;

    if (target == NULL)
        return;
    if (witness == WITNESS_PROBE)
        metrics_add(watch->broker->metrics, METRIC_PROBES, target->id, success ? "ok" : "failed",
                    1);
    watched = watched_of(watch, target);
    verdict = hysteresis_sample(&watched->evidence[witness], success, target->available,
                                limits->failures_down, limits->successes_up);
    if (verdict == HYSTERESIS_UP && !others_agree(watched, witness, limits->successes_up))
        verdict = HYSTERESIS_KEEP;
    if (verdict != HYSTERESIS_KEEP)
        propose_availability(watch, target, verdict == HYSTERESIS_UP, witness);
    else if (witness == WITNESS_PROBE && !success && reason_changed(watched, target, limits))
        propose_availability(watch, target, false, witness);
}

/* ---- what the storage system says ---- */

void storage_watch_told(struct storage_watch *watch, uint32_t slot, const char *trouble)
{
    const struct fsm_target *target;

    CHECK(slot < FSM_TARGETS_MAX);
    if (watch == NULL || !watch->serving)
        return;
    target = fsm_target_find_slot(replica_fsm(watch->broker->replica), slot);
    if (target == NULL)
        return;
    snprintf(watched_of(watch, target)->trouble, STORAGE_TROUBLE_BYTES, "%s", trouble);
    take_sample(watch, slot, WITNESS_SYSTEM, trouble[0] == '\0');
}

/* Silence is no evidence: neither for the target nor against it. */
void storage_watch_untold(struct storage_watch *watch, uint32_t slot)
{
    CHECK(slot < FSM_TARGETS_MAX);
    if (watch == NULL)
        return;
    watch->targets[slot].evidence[WITNESS_SYSTEM] = (struct hysteresis){0};
    watch->targets[slot].trouble[0] = '\0';
}

/* ---- probes ---- */

static void keep_reason(struct watched_target *watched, const char *cause)
{
    int reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;

    (void)fsm_enum_parse(&ckpt__v1__reason__descriptor, cause, &reason);
    watched->reason_count = watched->reason == (Ckpt__V1__Reason)reason ? watched->reason_count : 0;
    watched->reason = (Ckpt__V1__Reason)reason;
    watched->reason_count++;
}

/* The text that Status shows: what to look at, not only that it failed. */
static void keep_detail(struct watched_target *watched, const struct worker_result *result)
{
    watched->probed = true;
    watched->duration_ms = result->duration_ms;
    if (result->unkillable)
        snprintf(watched->detail, sizeof(watched->detail),
                 "the probe hangs in the kernel and cannot be killed; not repeated until it ends");
    else if (result->timed_out)
        snprintf(watched->detail, sizeof(watched->detail), "no answer within %" PRIu64 " ms",
                 result->duration_ms);
    else if (result->exit_code != 0)
        snprintf(watched->detail, sizeof(watched->detail), "%s",
                 result->error[0] != '\0' ? result->error : "the probe failed");
    else
        snprintf(watched->detail, sizeof(watched->detail), "ok");
}

/* Late answers are for nobody: of a watch that is gone, or of a target that was removed. */
static void on_probed(void *data, const struct worker_result *result)
{
    struct probe *probe = data;
    struct storage_watch *watch = probe->watch;
    const struct fsm_target *target;
    uint32_t slot = probe->slot;

    free(probe);
    if (watch == NULL)
        return;
    target = fsm_target_find_slot(replica_fsm(watch->broker->replica), slot);
    watch->targets[slot].probe = NULL;
    if (target == NULL || target->made != watch->targets[slot].made)
        return; /* the one that was probed was removed */
    watch->targets[slot].hang_id = result->hang_id;
    if (result->cancelled || !watch->serving)
        return;
    keep_detail(&watch->targets[slot], result);
    if (result->exit_code != 0 || result->timed_out || result->unkillable)
        keep_reason(&watch->targets[slot], result->cause);
    metrics_observe(watch->broker->metrics, METRIC_PROBE_DURATION,
                    (double)result->duration_ms / 1e3);
    metrics_set(watch->broker->metrics, METRIC_PROBE_LAST, target->id, NULL,
                (double)result->duration_ms / 1e3);
    take_sample(watch, slot, WITNESS_PROBE,
                result->exit_code == 0 && !result->timed_out && !result->unkillable);
}

/* A worker that cannot even be started is a failure of the probe: the same shortage would keep
 * checkpoints from being written. */
static void start_probe(struct storage_watch *watch, const struct fsm_target *target)
{
    struct watched_target *watched = watched_of(watch, target);
    struct probe *probe = check_calloc(1, sizeof(*probe));
    struct errand_claim claim;
    struct err err;

    errand_claim(replica_fsm(watch->broker->replica), &claim);
    probe->watch = watch;
    probe->slot = target->slot;
    watched->probe = probe;
    if (worker_start(watch->broker->loop,
                     &(struct worker_task){
                         .arguments = (const char *const[]){"probe", "--prefix", target->prefix,
                                                            "--cluster", claim.claim,
                                                            "--cluster-id", claim.cluster_id, NULL},
                         .deadline_ms = watch->broker->config->storage_watch.timeout_ms,
                         .done = on_probed,
                         .data = probe},
                     &probe->worker, &err) == 0)
        return;
    watched->probe = NULL;
    free(probe);
    watched->probed = true;
    watched->duration_ms = 0;
    snprintf(watched->detail, sizeof(watched->detail), "cannot start the probe: %.400s", err.text);
    keep_reason(watched, "");
    take_sample(watch, target->slot, WITNESS_PROBE, false);
}

/* A probe that hangs in the kernel counts as a failure every interval, and no second one is sent
 * after it. */
static void look_at(struct storage_watch *watch, const struct fsm_target *target)
{
    struct watched_target *watched = watched_of(watch, target);

    if (watched->probe != NULL)
        return;
    if (drills_target_fails(watch->broker->drills, target->id)) {
        watched->probed = true;
        snprintf(watched->detail, sizeof(watched->detail), "a drill: ckptctl drill list");
        keep_reason(watched, "");
        take_sample(watch, target->slot, WITNESS_PROBE, false);
        return;
    }
    if (watched->hang_id != 0 && worker_hangs(watched->hang_id)) {
        keep_reason(watched, "storage_hangs");
        take_sample(watch, target->slot, WITNESS_PROBE, false);
        return;
    }
    watched->hang_id = 0;
    start_probe(watch, target);
}

static void on_timer(void *data)
{
    struct storage_watch *watch = data;
    const struct fsm *fsm = replica_fsm(watch->broker->replica);

    if (!watch->serving)
        return;
    watch->broker->clock.timer_start(watch->timer,
                                     watch->broker->config->storage_watch.interval_ms * 1000);
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm) && watch->serving; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        CHECK(slot < FSM_TARGETS_MAX);
        if (target != NULL)
            look_at(watch, target);
        else
            forget_target(&watch->targets[slot]);
    }
}

bool storage_watch_last_probe(const struct storage_watch *watch, const char *target_id,
                              const char **ret_detail, uint64_t *ret_duration_ms)
{
    const struct fsm_target *target;
    const struct watched_target *watched;

    if (watch == NULL)
        return false;
    target = fsm_target_find(replica_fsm(watch->broker->replica), target_id);
    if (target == NULL)
        return false;
    watched = &watch->targets[target->slot];
    if (watched->made != target->made)
        return false;
    *ret_detail = watched->trouble[0] != '\0' ? watched->trouble : watched->detail;
    *ret_duration_ms = watched->duration_ms;
    return watched->probed || watched->trouble[0] != '\0';
}

/* ---- life ---- */

/* Evidence of an earlier leadership is old; the texts stay for people. */
static void on_serving(void *context)
{
    struct storage_watch *watch = context;

    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++)
        memset(watch->targets[slot].evidence, 0, sizeof(watch->targets[slot].evidence));
    watch->serving = true;
    watch->broker->clock.timer_start(watch->timer, 0);
}

/* `forget`: the watch is going, and the answers find nobody. */
static void cancel_probes(struct storage_watch *watch, bool forget)
{
    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++) {
        struct probe *probe = watch->targets[slot].probe;

        if (probe == NULL)
            continue;
        if (forget)
            probe->watch = NULL;
        worker_cancel(probe->worker);
    }
}

static void on_not_serving(void *context)
{
    struct storage_watch *watch = context;

    watch->serving = false;
    watch->broker->clock.timer_stop(watch->timer);
    cancel_probes(watch, false);
}

struct storage_watch *storage_watch_new(struct broker *broker)
{
    struct storage_watch *watch = check_calloc(1, sizeof(*watch));

    watch->broker = broker;
    watch->timer = broker->clock.timer_new(broker->clock.context, on_timer, watch);
    watch->observer = (struct replica_observer){
        .context = watch, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &watch->observer);
    return watch;
}

void storage_watch_free(struct storage_watch *watch)
{
    if (watch == NULL)
        return;
    watch->broker->clock.timer_free(watch->timer);
    cancel_probes(watch, true);
    free(watch);
}
