/* Removes folders that retention gave up. See collector.h. One look: on_timer() asks the state for
 * a batch, next_folder() removes one after the other by workers, finish_look() proposes what came
 * of them. */
#include "src/broker/keep/collector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/keep/errand.h"

enum { COLLECTOR_PATH_BYTES = 4096 };

struct collector {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct errand errand;
    uint64_t checkpoint_id; /* that its worker removes */
    uint32_t target_slot;   /* where that lies */
    bool proposing;
    uint64_t ids[COLLECTOR_BATCH_MAX]; /* of this look, still to do */
    size_t id_count, id_next;
    uint64_t done_ids[COLLECTOR_BATCH_MAX], done_bytes[COLLECTOR_BATCH_MAX];
    size_t done_count;
    Ckpt__Log__V1__CollectFailure failures[COLLECTOR_BATCH_MAX];
    char reasons[COLLECTOR_BATCH_MAX][FSM_UNDELETED_REASON_BYTES];
    size_t failed_count;
    bool passed_over
        [FSM_TARGETS_MAX]; /* by slot: in this look it held a worker up to its deadline */
    uint64_t hang_ids[FSM_TARGETS_MAX]; /* of a worker that could not be killed there; 0: none */
};

static void next_folder(struct collector *collector);

/* Until the next look. */
static void rest_awhile(struct collector *collector)
{
    if (collector->serving)
        collector->broker->clock.timer_start(collector->timer,
                                             (uint64_t)COLLECTOR_INTERVAL_MS * 1000);
}

/* ---- what was removed ---- */

static void on_collected(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct collector *collector = data;

    (void)failed; /* they are listed again, and trying them again is harmless */
    (void)outcome;
    collector->proposing = false;
    rest_awhile(collector);
}

/* One command for the whole look: what was removed, and what could not be, with the reason for
 * people. */
static void propose_collected(struct collector *collector)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__CheckpointsCollected collected = CKPT__LOG__V1__CHECKPOINTS_COLLECTED__INIT;
    Ckpt__Log__V1__CollectFailure *failed[COLLECTOR_BATCH_MAX];

    for (size_t i = 0; i < collector->failed_count; i++)
        failed[i] = &collector->failures[i];
    collected.n_failed = collector->failed_count;
    collected.failed = failed;
    collected.n_checkpoint_ids = collector->done_count;
    collected.checkpoint_ids = collector->done_ids;
    collected.n_removed_bytes = collector->done_count;
    collected.removed_bytes = collector->done_bytes;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_COLLECTED;
    command.checkpoints_collected = &collected;
    collector->proposing = true;
    replica_propose(collector->broker->replica, &command, on_collected, collector);
}

/* A look that removed nothing writes nothing. */
static void finish_look(struct collector *collector)
{
    if (collector->done_count + collector->failed_count > 0)
        propose_collected(collector);
    else
        rest_awhile(collector);
}

/* ---- one folder after the other ---- */

/* The text of a path may hold any bytes, a message only characters. The end of a long text is the
 * cause. */
static void take_failure(struct collector *collector, const struct worker_result *result)
{
    Ckpt__Log__V1__CollectFailure *failure = &collector->failures[collector->failed_count];
    char *reason = collector->reasons[collector->failed_count++];
    size_t length = strlen(result->error);

    ckpt__log__v1__collect_failure__init(failure);
    if (length < FSM_UNDELETED_REASON_BYTES)
        memcpy(reason, result->error, length + 1);
    else
        snprintf(reason, FSM_UNDELETED_REASON_BYTES, "...%s",
                 result->error + length - (FSM_UNDELETED_REASON_BYTES - 4));
    for (char *c = reason; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    failure->checkpoint_id = collector->checkpoint_id;
    failure->reason = reason;
    failure->elsewhere = !result->timed_out && !result->unkillable &&
                         (result->exit_code == WORKER_EXIT_UNAVAILABLE ||
                          result->exit_code == WORKER_EXIT_NOT_FOUND);
    if (!result->timed_out && !result->unkillable)
        return;
    collector->passed_over[collector->target_slot] = true;
    if (result->unkillable)
        collector->hang_ids[collector->target_slot] = result->hang_id;
}

/* There was something of it to be removed, as far as the state knows. */
static bool was_written(const struct collector *collector, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(replica_fsm(collector->broker->replica), checkpoint_id);

    for (uint32_t i = 0; checkpoint != NULL && i < checkpoint->shard_count; i++)
        if (checkpoint->shards[i].verified)
            return true;
    return checkpoint == NULL; /* its job has left since its removal failed */
}

/* Nothing below the prefix is a checkpoint that was never written, or a file system that is not
 * mounted. */
static bool was_removed(const struct collector *collector, const struct worker_result *result)
{
    if (result->timed_out || result->unkillable || result->cancelled)
        return false;
    return result->exit_code == WORKER_EXIT_OK ||
           (result->exit_code == WORKER_EXIT_NOT_FOUND &&
            !was_written(collector, collector->checkpoint_id));
}

static void take_removed(struct collector *collector, const struct worker_result *result)
{
    char bytes[32];

    collector->done_ids[collector->done_count] = collector->checkpoint_id;
    collector->done_bytes[collector->done_count++] =
        worker_output_get(result->output, "bytes", bytes, sizeof(bytes)) == 0
            ? strtoull(bytes, NULL, 10)
            : 0;
}

/* unwiped: of a sensitive job, and gone without having been overwritten. */
static void log_collected(const struct collector *collector, const char *id,
                          const struct worker_result *result)
{
    char wiped[32] = "0", unwiped[32] = "0";

    (void)worker_output_get(result->output, "wiped", wiped, sizeof(wiped));
    (void)worker_output_get(result->output, "unwiped", unwiped, sizeof(unwiped));
    log_info("checkpoint_collected",
             "checkpoint=%s bytes=%" PRIu64 " wiped=%s unwiped=%s duration_ms=%" PRIu64, id,
             collector->done_bytes[collector->done_count - 1], wiped, unwiped, result->duration_ms);
}

/* A worker that was cancelled says nothing about its folder: it is listed again. */
static void on_removed(void *data, const struct worker_result *result)
{
    struct collector *collector = data;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    checkpoint_id_format(collector->checkpoint_id, id);
    if (was_removed(collector, result)) {
        take_removed(collector, result);
        log_collected(collector, id, result);
    } else if (!result->cancelled) {
        take_failure(collector, result);
        log_warning("collect_failed", "checkpoint=%s error=\"%s\"", id, result->error);
    }
    if (collector->serving)
        next_folder(collector);
}

/* The folder of a checkpoint that may be removed now; false: not now. */
static bool folder_of(const struct collector *collector, uint64_t checkpoint_id,
                      uint32_t *ret_target_slot, char *ret_path, size_t size)
{
    const struct fsm *fsm = replica_fsm(collector->broker->replica);
    const struct fsm_target *target;

    if (fsm_pause(fsm) != NULL ||
        fsm_collectable_path(fsm, checkpoint_id, ret_target_slot, ret_path, size) == 0)
        return false;
    target = fsm_target_at(fsm, *ret_target_slot);
    return target->available && !collector->passed_over[*ret_target_slot] &&
           !worker_hangs(collector->hang_ids[*ret_target_slot]);
}

/* What was a sensitive job's is overwritten before it goes, also when its job has left. */
static bool is_sensitive(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);
    const struct fsm_undeleted *undeleted = fsm_undeleted_find(fsm, checkpoint_id);

    if (checkpoint != NULL)
        return fsm_allocation_at(fsm, checkpoint->allocation_slot)->sensitive;
    return undeleted != NULL && undeleted->sensitive;
}

/* False: not now, and the next folder is tried. A target that held a worker up to its deadline is
 * passed over for the rest of the look. */
static bool start_removal(struct collector *collector, uint64_t checkpoint_id)
{
    char path[COLLECTOR_PATH_BYTES];
    const char *prefix;
    struct errand_claim claim;
    struct err err;
    bool wipe = is_sensitive(replica_fsm(collector->broker->replica), checkpoint_id);

    collector->checkpoint_id = checkpoint_id;
    if (!folder_of(collector, checkpoint_id, &collector->target_slot, path, sizeof(path)))
        return false;
    prefix = fsm_target_at(replica_fsm(collector->broker->replica), collector->target_slot)->prefix;
    errand_claim(replica_fsm(collector->broker->replica), &claim);
    if (errand_start(&collector->errand, collector->broker->loop,
                     &(struct worker_task){
                         .arguments = (const char *const[]){"collect", "--prefix", prefix, "--path",
                                                            path, "--cluster", claim.claim,
                                                            "--cluster-id", claim.cluster_id,
                                                            wipe ? "--wipe" : NULL, "yes", NULL},
                         .deadline_ms = COLLECTOR_DEADLINE_MS,
                         .done = on_removed,
                         .data = collector},
                     &err) == 0)
        return true;
    log_warning("collect_failed", "error=\"%s\"", err.text);
    return false;
}

/* One worker at a time: removing is not urgent, and a file system has other things to do. */
static void next_folder(struct collector *collector)
{
    CHECK(!errand_runs(&collector->errand));
    while (collector->id_next < collector->id_count) {
        if (start_removal(collector, collector->ids[collector->id_next++]))
            return;
    }
    finish_look(collector);
}

static void on_timer(void *data)
{
    struct collector *collector = data;

    if (!collector->serving)
        return;
    if (errand_runs(&collector->errand) || collector->proposing) {
        rest_awhile(collector);
        return;
    }
    collector->id_count = fsm_collectable(replica_fsm(collector->broker->replica),
                                          replica_state_ms(collector->broker->replica),
                                          collector->ids, COLLECTOR_BATCH_MAX);
    CHECK(collector->id_count <= COLLECTOR_BATCH_MAX);
    collector->id_next = 0;
    collector->done_count = 0;
    collector->failed_count = 0;
    memset(collector->passed_over, 0, sizeof(collector->passed_over));
    next_folder(collector);
}

/* ---- life ---- */

/* Not at once: a leader that has just been elected has more urgent things to do. */
static void on_serving(void *context)
{
    struct collector *collector = context;

    collector->serving = true;
    rest_awhile(collector);
}

static void on_not_serving(void *context)
{
    struct collector *collector = context;

    collector->serving = false;
    collector->broker->clock.timer_stop(collector->timer);
    errand_cancel(&collector->errand);
}

struct collector *collector_new(struct broker *broker)
{
    struct collector *collector = check_calloc(1, sizeof(*collector));

    collector->broker = broker;
    collector->timer = broker->clock.timer_new(broker->clock.context, on_timer, collector);
    collector->observer = (struct replica_observer){
        .context = collector, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &collector->observer);
    return collector;
}

void collector_free(struct collector *collector)
{
    if (collector == NULL)
        return;
    collector->broker->clock.timer_free(collector->timer);
    errand_close(&collector->errand);
    free(collector);
}
