/* Reads complete checkpoints again. See scrubber.h. One look: on_timer() asks the state for a
 * batch, scrub_next() reads one after the other, part by part, and finish_look() proposes what came
 * of them. */
#include "src/broker/keep/scrubber.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/keep/errand.h"
#include "src/dest/sha256.h"

#define RESULT(name) CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_##name

enum { SCRUBBER_PATH_BYTES = 4096, SCRUBBER_NUMBER_BYTES = 24 };

struct scrubber {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct errand errand;
    uint32_t target_slot; /* where its worker reads */
    bool proposing;
    uint64_t after; /* the checkpoints up to this one were looked at; 0: none in this round */
    uint64_t ids[SCRUBBER_BATCH_MAX]; /* of this look, still to do */
    size_t id_count, id_next;
    uint32_t part; /* of the one at id_next, which is read now */
    Ckpt__Log__V1__CheckpointVerified items[SCRUBBER_BATCH_MAX];
    char details[SCRUBBER_BATCH_MAX][FSM_DETAIL_BYTES];
    size_t item_count;
    uint64_t refused_until_ms[FSM_TARGETS_MAX]; /* by slot: this member cannot read it */
    uint64_t hang_ids[FSM_TARGETS_MAX]; /* of a worker that could not be killed there; 0: none */
};

static void scrub_next(struct scrubber *scrubber);

static void rest_awhile(struct scrubber *scrubber)
{
    if (scrubber->serving)
        scrubber->broker->clock.timer_start(scrubber->timer, (uint64_t)SCRUBBER_INTERVAL_MS * 1000);
}

/* ---- what was found ---- */

static void on_proposed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct scrubber *scrubber = data;

    (void)failed; /* they are due as before, and reading them again is harmless */
    (void)outcome;
    scrubber->proposing = false;
    rest_awhile(scrubber);
}

/* A look that found nothing to be said writes nothing. */
static void finish_look(struct scrubber *scrubber)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__CheckpointsVerified verified = CKPT__LOG__V1__CHECKPOINTS_VERIFIED__INIT;
    Ckpt__Log__V1__CheckpointVerified *items[SCRUBBER_BATCH_MAX];

    if (scrubber->item_count == 0) {
        rest_awhile(scrubber);
        return;
    }
    for (size_t i = 0; i < scrubber->item_count; i++)
        items[i] = &scrubber->items[i];
    verified.n_items = scrubber->item_count;
    verified.items = items;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_VERIFIED;
    command.checkpoints_verified = &verified;
    scrubber->proposing = true;
    replica_propose(scrubber->broker->replica, &command, on_proposed, scrubber);
}

/* Ends the checkpoint at id_next. The text of a path may hold any bytes, a message only
 * characters; the end of a long text is the cause. */
static void note_result(struct scrubber *scrubber, Ckpt__V1__VerifyResult result, const char *text)
{
    Ckpt__Log__V1__CheckpointVerified *item = &scrubber->items[scrubber->item_count];
    char *detail = scrubber->details[scrubber->item_count++];
    size_t length = strlen(text);
    char part[SCRUBBER_NUMBER_BYTES] = "";
    size_t room;

    CHECK(scrubber->item_count <= SCRUBBER_BATCH_MAX);
    if (text[0] != '\0')
        snprintf(part, sizeof(part), "part %" PRIu32 ": ", scrubber->part);
    room = FSM_DETAIL_BYTES - strlen(part) - 1;
    if (length <= room)
        snprintf(detail, FSM_DETAIL_BYTES, "%s%s", part, text);
    else
        snprintf(detail, FSM_DETAIL_BYTES, "%s...%s", part, text + length - (room - 3));
    for (char *c = detail; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    ckpt__log__v1__checkpoint_verified__init(item);
    item->checkpoint_id = scrubber->ids[scrubber->id_next++];
    item->result = result;
    item->detail = detail;
    scrubber->part = 0;
}

/* What is missing may lie on a file system that is not mounted here. */
static void take_result(struct scrubber *scrubber, const struct worker_result *result)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(
        replica_fsm(scrubber->broker->replica), scrubber->ids[scrubber->id_next]);

    if (checkpoint == NULL) {
        scrubber->id_next++;
        scrubber->part = 0;
    } else if (result->timed_out || result->unkillable) {
        if (result->unkillable)
            scrubber->hang_ids[scrubber->target_slot] = result->hang_id;
        note_result(scrubber, RESULT(UNREADABLE), result->error);
    } else if (result->exit_code == WORKER_EXIT_OK) {
        if (++scrubber->part == checkpoint->shard_count)
            note_result(scrubber, RESULT(WHOLE), "");
    } else if (result->exit_code == WORKER_EXIT_CORRUPT) {
        note_result(scrubber, RESULT(DAMAGED), result->error);
    } else if (result->exit_code == WORKER_EXIT_UNAVAILABLE ||
               result->exit_code == WORKER_EXIT_NOT_FOUND) {
        scrubber->refused_until_ms[scrubber->target_slot] =
            broker_monotonic_ms(scrubber->broker) + SCRUBBER_REFUSED_MS;
        note_result(scrubber, RESULT(ELSEWHERE), "");
    } else {
        note_result(scrubber, RESULT(UNREADABLE), result->error);
    }
}

/* ---- one part after the other ---- */

static void on_read(void *data, const struct worker_result *result)
{
    struct scrubber *scrubber = data;

    if (result->cancelled || !scrubber->serving)
        return;
    take_result(scrubber, result);
    scrub_next(scrubber);
}

static bool start_worker(struct scrubber *scrubber, const struct fsm_checkpoint *checkpoint,
                         const char *path)
{
    const struct fsm *fsm = replica_fsm(scrubber->broker->replica);
    char part[PART_NAME_BYTES], manifest[SHA256_HEX_BYTES], rate[SCRUBBER_NUMBER_BYTES];
    struct err err;

    CHECK(scrubber->part < checkpoint->shard_count);
    part_name_format(scrubber->part, part);
    sha256_format(checkpoint->shards[scrubber->part].manifest_sha256, manifest);
    snprintf(rate, sizeof(rate), "%" PRIu64, fsm_policy(fsm)->scrub_bytes_per_s);
    scrubber->target_slot = checkpoint->target_slot;
    if (errand_start(
            &scrubber->errand, scrubber->broker->loop,
            &(struct worker_task){
                .arguments =
                    (const char *const[]){"verify", "--prefix",
                                          fsm_target_at(fsm, checkpoint->target_slot)->prefix,
                                          "--path", path, "--part", part, "--manifest-sha256",
                                          manifest, "--rate", rate, NULL},
                .deadline_ms = fsm_verify_part_ms(fsm, checkpoint, scrubber->part),
                .done = on_read,
                .data = scrubber},
            &err) == 0)
        return true;
    log_warning("scrub_failed", "error=\"%s\"", err.text);
    return false;
}

/* The state may have moved on since they were listed. False: nothing is read, and the next one is
 * looked at. */
static bool scrub_one(struct scrubber *scrubber)
{
    const struct fsm *fsm = replica_fsm(scrubber->broker->replica);
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(fsm, scrubber->ids[scrubber->id_next]);
    const struct fsm_target *target =
        checkpoint == NULL ? NULL : fsm_target_find_slot(fsm, checkpoint->target_slot);
    char path[SCRUBBER_PATH_BYTES];

    /* collected meanwhile, it may lie at a target that was removed since */
    if (target == NULL || fsm_checkpoint_path(fsm, checkpoint, path, sizeof(path)) == 0 ||
        !target->available || worker_hangs(scrubber->hang_ids[checkpoint->target_slot])) {
        scrubber->id_next++;
        scrubber->part = 0;
        return false;
    }
    if (broker_monotonic_ms(scrubber->broker) <
        scrubber->refused_until_ms[checkpoint->target_slot]) {
        note_result(scrubber, RESULT(ELSEWHERE), "");
        return false;
    }
    if (start_worker(scrubber, checkpoint, path))
        return true;
    scrubber->id_next++;
    scrubber->part = 0;
    return false;
}

static void scrub_next(struct scrubber *scrubber)
{
    CHECK(!errand_runs(&scrubber->errand));
    while (scrubber->id_next < scrubber->id_count)
        if (scrub_one(scrubber))
            return;
    finish_look(scrubber);
}

static void on_timer(void *data)
{
    struct scrubber *scrubber = data;
    const struct fsm *fsm = replica_fsm(scrubber->broker->replica);

    if (!scrubber->serving)
        return;
    if (errand_runs(&scrubber->errand) || scrubber->proposing ||
        fsm_verification_count(fsm) >= SCRUBBER_GIVEN_MAX) {
        rest_awhile(scrubber);
        return;
    }
    scrubber->id_count =
        fsm_verify_due(fsm, replica_state_ms(scrubber->broker->replica), SCRUBBER_VISITS,
                       &scrubber->after, scrubber->ids, SCRUBBER_BATCH_MAX);
    scrubber->id_next = 0;
    scrubber->part = 0;
    scrubber->item_count = 0;
    scrub_next(scrubber);
}

/* ---- life ---- */

/* What another member could not read this one may. */
static void on_serving(void *context)
{
    struct scrubber *scrubber = context;

    scrubber->serving = true;
    scrubber->after = 0;
    memset(scrubber->refused_until_ms, 0, sizeof(scrubber->refused_until_ms));
    rest_awhile(scrubber);
}

static void on_not_serving(void *context)
{
    struct scrubber *scrubber = context;

    scrubber->serving = false;
    scrubber->broker->clock.timer_stop(scrubber->timer);
    errand_cancel(&scrubber->errand);
}

struct scrubber *scrubber_new(struct broker *broker)
{
    struct scrubber *scrubber = check_calloc(1, sizeof(*scrubber));

    scrubber->broker = broker;
    scrubber->timer = broker->clock.timer_new(broker->clock.context, on_timer, scrubber);
    scrubber->observer = (struct replica_observer){
        .context = scrubber, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &scrubber->observer);
    return scrubber;
}

void scrubber_free(struct scrubber *scrubber)
{
    if (scrubber == NULL)
        return;
    scrubber->broker->clock.timer_free(scrubber->timer);
    errand_close(&scrubber->errand);
    free(scrubber);
}
