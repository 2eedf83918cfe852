/* Joins consensus, state machine and callers. See replica.h.
 *
 * Flow     replica_propose: validate, stamp, pack behind the last batch -> (next turn of the loop)
 *          replica_flush: the first batch becomes a log entry, up to REPLICA_ENTRIES_IN_FLIGHT at a
 *          time, so that commands collect while entries are on their way -> replica_apply: the
 *          state machine applies the entry, each outcome goes to the command's done(). A new
 *          leader's first entry is its own: ClusterInit while uninitialised, NewEpoch after a
 *          restore or recovery, LeaderElected, MemberFacts; when that is applied it serves, and
 *          what has collected since the election is proposed.
 * Shapes   batches wait in a queue, then are in flight as the tags of their entries (batch.h). One
 *          timer with zero delay starts the flush: never from inside a callback of consensus.
 */
#include "src/broker/replica/replica.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/replica/batch.h"
#include "src/broker/replica/replica_internal.h"
#include "src/broker/replica/replica_stream.h"

enum {
    REPLICA_RETRY_US = 100000,       /* of the first entry when the log takes none (disk low) */
    REPLICA_TRANSFER_STEP_US = 2000, /* between two looks whether a hand-over can go on */
    REPLICA_SPARE_BATCHES = REPLICA_ENTRIES_IN_FLIGHT + 1
};

/* A read that waits until this member serves; then it goes to consensus_read(), which asks a
 * majority. */
struct replica_read {
    struct list node;
    struct replica *replica;
    replica_done_fn *done;
    void *data;
};

/* What callers are told when a command or a hand-over ends without an outcome. The code decides
 * what they may believe (replica.h, Errors), the text is for people. */
static const struct err replica_not_leader = {ERR_UNAVAILABLE, "this member is not the leader"};
static const struct err replica_lost = {
    ERR_TIMEOUT, "leadership was lost before the command was known to be committed"};
static const struct err replica_kept = {
    ERR_REFUSED, "no other member took over in time; this one goes on leading"};
static const struct err replica_elsewhere = {
    ERR_REFUSED, "leadership was lost, and it did not come to the member that was asked"};
static const struct err replica_left = {ERR_TIMEOUT, "leadership was lost, to whom is not known"};
static const struct err replica_full = {ERR_FULL, "too many commands wait for the log"};

/* ---- batches ---- */

/* Batches are used again, with the memory that they have. */
static struct batch *replica_take_batch(struct replica *replica)
{
    struct batch *batch;

    if (list_empty(&replica->spare))
        return batch_new();
    batch = LIST_ITEM(replica->spare.next, struct batch, node);
    list_remove(&batch->node);
    replica->spare_count--;
    return batch;
}

static void replica_give_batch(struct replica *replica, struct batch *batch)
{
    if (replica->spare_count == REPLICA_SPARE_BATCHES) {
        batch_free(batch);
        return;
    }
    batch_clear(batch);
    list_push_back(&replica->spare, &batch->node);
    replica->spare_count++;
}

static void replica_free_batches(struct replica *replica)
{
    while (!list_empty(&replica->spare))
        batch_free(LIST_ITEM(replica->spare.next, struct batch, node));
}

/* Ends a batch without an outcome. */
static void replica_fail_batch(struct replica *replica, struct batch *batch,
                               const struct err *failed)
{
    list_remove(&batch->node);
    if (!batch->first) {
        CHECK(replica->waiting_count >= batch->count);
        replica->waiting_count -= batch->count;
    }
    batch_fail(batch, failed);
    replica_give_batch(replica, batch);
}

/* The flush runs on a timer, never from inside a callback of consensus: there a proposal could be
 * answered before its caller is ready. */
static void replica_schedule(struct replica *replica, uint64_t delay_us)
{
    if (replica->closing || replica->flush_scheduled)
        return;
    replica->flush_scheduled = delay_us == 0; /* a retry gives way to new work */
    replica->clock.timer_start(replica->flush_timer, delay_us);
}

/* I10: what this member has become is compared by each that applies the entry. */
static void replica_vouch(const struct replica *replica, struct batch *batch)
{
    const struct replica_hash *newest;

    if (replica->hash_count == 0)
        return;
    newest = &replica->hashes[(replica->hash_count - 1) % REPLICA_HASHES];
    fsm_entry_check_put(buf_extend(&batch->bytes, FSM_ENTRY_CHECK_BYTES), newest->index,
                        newest->hash);
}

/* Makes the batch the tag of one log entry. A batch that raft does not take stays the caller's. */
static int replica_send_batch(struct replica *replica, struct batch *batch, struct err *err)
{
    CHECK(batch->count > 0 && batch->bytes.length > 0);
    replica_vouch(replica, batch);
    batch->proposed_us = replica_now_us(replica);
    replica->in_flight_count++;
    if (consensus_propose(replica->consensus, batch->bytes.bytes, batch->bytes.length, batch,
                          err) != 0) {
        replica->in_flight_count--;
        return -1;
    }
    replica->stats.entries_total++;
    replica->stats.commands_total += batch->count;
    if (batch->count > replica->stats.batch_max)
        replica->stats.batch_max = batch->count;
    return 0;
}

/* ---- leadership ---- */

/* The leader's own entry. A log that takes no entries (the disk is low) is asked again after
 * REPLICA_RETRY_US, as long as this member leads. */
static void replica_propose_first(struct replica *replica)
{
    struct consensus_status raft;
    struct batch_first first = {.now_ms = replica_state_ms(replica),
                                .fsm = replica->fsm,
                                .cluster_id = replica->cluster_id,
                                .member_id = replica->member_id,
                                .term = replica->term,
                                .initial = replica->initial,
                                .facts = replica->facts,
                                .level = level_of_all(replica)};
    struct batch *batch = replica_take_batch(replica);
    struct err err;

    consensus_get_status(replica->consensus, &raft);
    first.epoch_min = raft.epoch_min;
    batch_fill_first(batch, &first);
    if (replica_send_batch(replica, batch, &err) == 0) {
        replica->first_proposed = true;
    } else {
        replica_give_batch(replica, batch);
        replica_schedule(replica, REPLICA_RETRY_US);
    }
}

static void read_done(void *data, int status, const struct err *err)
{
    struct replica_read *read = data;

    read->done(read->data, status == 0 ? NULL : err, NULL);
    free(read);
}

/* Each once in a leadership; those that act hear it when the cluster is adopted. */
static void replica_tell_serving(struct replica *replica)
{
    bool passive = fsm_passive_since_ms(replica->fsm) != 0;

    for (struct list *node = replica->observers.next; node != &replica->observers;
         node = node->next) {
        struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);

        if (observer->told || (observer->acts && passive))
            continue;
        observer->told = true;
        if (observer->serving != NULL)
            observer->serving(observer->context);
    }
}

/* The first entry of this leadership is applied, and with it everything before: the duties begin,
 * then what has collected since the election is proposed. */
static void replica_start_serving(struct replica *replica)
{
    CHECK(replica->leading && !replica->serving);
    replica->serving = true;
    replica_tell_serving(replica);
    replica_schedule(replica, 0);
}

/* The place is free before the caller is told: the caller may ask for another hand-over at once. */
static void transfer_end(struct replica *replica, const struct err *failed)
{
    struct replica_transfer ended = replica->transfer;

    replica->transfer = (struct replica_transfer){0};
    if (ended.done != NULL)
        ended.done(ended.data, failed, NULL);
}

/* What is in flight ends first, but on a disk that hangs it does not end here: its outcome comes
 * from the next leader. */
static bool transfer_may_ask(const struct replica *replica)
{
    struct consensus_status status;

    if (replica->in_flight_count == 0)
        return true;
    consensus_get_status(replica->consensus, &status);
    return status.log_write_ms >= REPLICA_LOG_HANGS_MS;
}

/* One look at the hand-over. false: there is none (any more), proposals may go on. */
static bool transfer_step(struct replica *replica)
{
    struct replica_transfer *transfer = &replica->transfer;
    struct err err;

    if (transfer->done == NULL)
        return false;
    if (replica_now_us(replica) >= transfer->until_us) {
        transfer_end(replica, &replica_kept);
        return false;
    }
    /* Not possible as long as no voter has caught up: asked again at the next look. */
    if (!transfer->asked && transfer_may_ask(replica)) {
        if (consensus_transfer(replica->consensus, transfer->member_id, &err) == 0) {
            transfer->asked = true;
            transfer->until_us = replica_now_us(replica) + REPLICA_TRANSFER_MS * UINT64_C(1000);
        } else if (err.code == ERR_REFUSED) {
            transfer_end(replica, &err);
            return false;
        }
    }
    replica_schedule(replica, REPLICA_TRANSFER_STEP_US);
    return true;
}

/* This member leads no more: what has come of a hand-over. */
static void transfer_settle(struct replica *replica)
{
    const struct replica_transfer *transfer = &replica->transfer;
    uint64_t now_us = replica_now_us(replica), leader_id = replica->leader_id;
    bool meant = leader_id != replica->member_id &&
                 (transfer->member_id == 0 || transfer->member_id == leader_id);

    if (transfer->done == NULL || replica->leading)
        return;
    if (leader_id == 0 && now_us < transfer->until_us && !replica->closing)
        replica_schedule(replica, transfer->until_us - now_us);
    else if (leader_id == 0 || replica->closing)
        transfer_end(replica, &replica_left);
    else
        transfer_end(replica, meant ? NULL : &replica_elsewhere);
}

/* Leadership is gone: what was never proposed certainly did not happen; entries in flight are told
 * by replica_dropped(). */
static void replica_stop_leading(struct replica *replica)
{
    struct list *node;

    replica->leading = false;
    replica->first_proposed = false;
    if (replica->serving) {
        replica->serving = false;
        for (node = replica->observers.next; node != &replica->observers; node = node->next) {
            struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);
            if (observer->told && observer->not_serving != NULL)
                observer->not_serving(observer->context);
            observer->told = false;
        }
    }
    while (!list_empty(&replica->queued))
        replica_fail_batch(replica, LIST_ITEM(replica->queued.next, struct batch, node),
                           &replica_not_leader);
    while (!list_empty(&replica->reads)) {
        struct replica_read *read = LIST_ITEM(replica->reads.next, struct replica_read, node);
        list_remove(&read->node);
        read_done(read, -1, &replica_not_leader);
    }
    replica->transfer.until_us = replica_now_us(replica) + REPLICA_TRANSFER_MS * UINT64_C(1000);
    transfer_settle(replica);
}

/* The order matters: duties stop before anybody is told of the new role, the clocks are compared
 * before the first stamp of a new leader, and a new leadership begins last. */
static void replica_role_changed(void *context, enum consensus_role role, uint64_t term,
                                 uint64_t leader_id)
{
    struct replica *replica = context;

    if (leader_id != replica->leader_id) {
        replica->leader_id = leader_id;
        replica->stats.leader_since_ms = leader_id == 0 ? 0 : replica_wall_ms(replica);
    }
    if (replica->leading && (role != CONSENSUS_LEADER || term != replica->term))
        replica_stop_leading(replica);
    (void)replica_clock_look(replica); /* before the first stamp of a new leader */
    transfer_settle(replica);
    for (struct list *node = replica->observers.next; node != &replica->observers;
         node = node->next) {
        struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);
        if (observer->role_changed != NULL)
            observer->role_changed(observer->context, role, term, leader_id);
    }
    if (role == CONSENSUS_LEADER && !replica->leading && !replica->closing) {
        replica->leading = true;
        replica->term = term;
        replica_schedule(replica, 0);
    }
}

/* ---- proposing ---- */

/* A batch that raft refuses at this point was not proposed, so that its callers are told that it
 * certainly was not applied. */
static void replica_send_queued(struct replica *replica)
{
    while (replica->serving && !list_empty(&replica->queued) &&
           replica->in_flight_count < REPLICA_ENTRIES_IN_FLIGHT) {
        struct batch *batch = LIST_ITEM(replica->queued.next, struct batch, node);
        struct err err;

        list_remove(&batch->node);
        if (replica_send_batch(replica, batch, &err) != 0)
            replica_fail_batch(replica, batch, &err);
    }
}

/* One turn: the own entry first, then reads, then a hand-over, and commands only while there is no
 * hand-over: they would keep it from ever finding nothing in flight. */
static void replica_flush(void *data)
{
    struct replica *replica = data;

    replica->flush_scheduled = false;
    transfer_settle(replica);
    if (!replica->leading || replica->closing)
        return;
    if (!replica->first_proposed)
        replica_propose_first(replica);
    if (!replica->serving)
        return;
    while (!list_empty(&replica->reads)) {
        struct replica_read *read = LIST_ITEM(replica->reads.next, struct replica_read, node);
        list_remove(&read->node);
        consensus_read(replica->consensus, read_done, read);
    }
    if (transfer_step(replica))
        return;
    replica_send_queued(replica);
}

/* The last queued batch when `size` more bytes fit, else a new one behind it. */
static struct batch *replica_open_batch(struct replica *replica, size_t size)
{
    struct batch *batch;

    if (!list_empty(&replica->queued)) {
        batch = LIST_ITEM(replica->queued.previous, struct batch, node);
        if (batch_fits(batch, size))
            return batch;
    }
    batch = replica_take_batch(replica);
    list_push_back(&replica->queued, &batch->node);
    return batch;
}

/* A command that the rules refuse gets its outcome here and never enters the log:
 * fsm_validate_packed() looks at the command alone, and every member would refuse it the same
 * way. */
void replica_propose(struct replica *replica, Ckpt__Log__V1__Command *command,
                     replica_done_fn *done, void *data)
{
    struct fsm_outcome outcome;
    const struct err *failed = NULL;
    struct batch *batch;
    size_t size;

    if (!replica->leading || replica->closing)
        failed = &replica_not_leader;
    else if (replica->waiting_count >= REPLICA_WAITING_MAX)
        failed = &replica_full;
    if (failed != NULL) {
        if (done != NULL)
            done(data, failed, NULL);
        return;
    }
    command->now_ms = replica_state_ms(replica);
    memset(&outcome, 0, offsetof(struct fsm_outcome, victims));
    size = ckpt__log__v1__command__get_packed_size(command);
    outcome.status = fsm_validate_packed(command, size, &outcome);
    if (outcome.status == FSM_OK)
        outcome.status = fsm_validate_new(command, &outcome);
    if (outcome.status == FSM_OK)
        outcome.status = level_check(replica, command, &outcome);
    if (outcome.status == FSM_FEATURE_LEVEL && !replica->serving) {
        if (done != NULL) /* of a state that is behind: the level may be in what follows */
            done(data, &replica_not_leader, NULL);
        return;
    }
    if (outcome.status == FSM_OK && size > FSM_COMMAND_MAX_BYTES) {
        outcome.status = FSM_TOO_LARGE;
        outcome.current = size;
        outcome.limit = FSM_COMMAND_MAX_BYTES;
    }
    if (outcome.status != FSM_OK) {
        if (done != NULL)
            done(data, NULL, &outcome);
        return;
    }
    batch = replica_open_batch(replica, size);
    batch_append(batch, command, size, done, data);
    replica->waiting_count++;
    /* Many come in one turn of the loop: the disks and the other members need not wait for the last
     * of them. */
    if (batch->count >= REPLICA_ENTRY_EARLY && replica->serving && replica->transfer.done == NULL &&
        !consensus_in_call(replica->consensus))
        replica_send_queued(replica);
    replica_schedule(replica, 0);
}

void replica_transfer(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                      void *data)
{
    static const struct err busy = {ERR_REFUSED, "a transfer of leadership is on its way already"};

    CHECK(done != NULL);
    if (!replica->serving || replica->closing) {
        done(data, &replica_not_leader, NULL);
        return;
    }
    if (replica->transfer.done != NULL) {
        done(data, &busy, NULL);
        return;
    }
    replica->transfer.done = done;
    replica->transfer.data = data;
    replica->transfer.member_id = member_id;
    replica->transfer.until_us = replica_now_us(replica) + REPLICA_CATCH_UP_MS * UINT64_C(1000);
    replica_schedule(replica, 0);
}

void replica_read(struct replica *replica, replica_done_fn *done, void *data)
{
    struct replica_read *read;

    CHECK(done != NULL);
    if (!replica->leading || replica->closing) {
        done(data, &replica_not_leader, NULL);
        return;
    }
    read = check_calloc(1, sizeof(*read));
    read->replica = replica;
    read->done = done;
    read->data = data;
    list_push_back(&replica->reads, &read->node);
    replica_schedule(replica, 0);
}

/* ---- applying ---- */

static void replica_outcome(void *context, size_t command_index, const struct fsm_outcome *outcome)
{
    batch_outcome(context, command_index, outcome);
}

/* Bucket i counts entries that took less than 2^i microseconds (replica.h). */
static void replica_record_latency(struct replica *replica, uint64_t us)
{
    size_t bucket = 0;

    while (bucket < REPLICA_LATENCY_BUCKETS - 1 && us >> bucket != 0)
        bucket++;
    replica->stats.commit_us[bucket]++;
    replica->stats.commit_us_total += us;
    if (us > replica->stats.commit_us_max)
        replica->stats.commit_us_max = us;
}

/* Runs on every member after each entry and after an adopted snapshot. The hash is kept first: an
 * observer may ask for it. */
static void replica_after_apply(struct replica *replica)
{
    struct fsm_summary summary;

    fsm_get_summary(replica->fsm, &summary);
    replica->hashes[replica->hash_count++ % REPLICA_HASHES] =
        (struct replica_hash){summary.applied_index, summary.state_hash};
    replica->applied_at_us = replica_now_us(replica);
    for (struct list *node = replica->observers.next; node != &replica->observers;
         node = node->next) {
        struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);
        if (observer->applied != NULL)
            observer->applied(observer->context);
    }
    if (replica->passive && fsm_passive_since_ms(replica->fsm) == 0 && replica->serving)
        replica_tell_serving(replica);
    replica->passive = fsm_passive_since_ms(replica->fsm) != 0;
}

/* The newest first: a leader proposes but a few entries ahead. */
static const struct replica_hash *replica_hash_at(const struct replica *replica, uint64_t index)
{
    size_t kept = replica->hash_count < REPLICA_HASHES ? replica->hash_count : REPLICA_HASHES;

    for (size_t i = 1; i <= kept; i++) {
        const struct replica_hash *hash =
            &replica->hashes[(replica->hash_count - i) % REPLICA_HASHES];
        if (hash->index <= index)
            return hash->index == index ? hash : NULL;
    }
    return NULL;
}

/* I10: a member whose state is not the leader's stops before it serves anybody. Not what the log
 * had when this process began: it was compared then, or the state is made anew from it now; a
 * leader that had gone wrong would keep everyone from ever starting. */
static void replica_compare(struct replica *replica, uint64_t entry_index, uint64_t term,
                            const uint8_t *bytes, size_t length)
{
    const struct replica_hash *own;
    uint64_t index, hash;
    struct err err;

    if (entry_index <= replica->replayed_index || !fsm_entry_check(bytes, length, &index, &hash))
        return;
    own = replica_hash_at(replica, index);
    if (own == NULL || own->hash == hash)
        return;
    err_set(&err, ERR_CORRUPT,
            "%s: the state of log index %" PRIu64 " has hash %016" PRIx64 " here and %016" PRIx64
            " on the leader of term %" PRIu64 " (entry %" PRIu64
            "): this member serves no more; replace it, or the leader when all others stop with "
            "the same hash (RUNBOOK, Member with corrupt data)",
            replica->data_dir, index, own->hash, hash, term, entry_index);
    replica->fatal(replica->fatal_context, &err);
}

/* Outcomes are told while the state machine works through the entry, so that a caller sees the
 * state as its own command left it. Then the batch is free again, the observers look at the whole
 * entry, and if it was the leader's own one, serving begins. */
static void replica_apply(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                          size_t length, void *tag)
{
    struct replica *replica = context;
    struct batch *batch = tag;
    bool first = false;

    replica_compare(replica, index, term, bytes, length);
    fsm_apply_entry(replica->fsm, &(struct fsm_entry){index, term, bytes, length},
                    batch == NULL ? NULL : replica_outcome, batch);
    if (fsm_newer_index(replica->fsm) != 0) {
        level_newer_entry(replica);
        return;
    }
    if (batch != NULL) {
        first = batch->first;
        CHECK(replica->in_flight_count > 0);
        replica->in_flight_count--;
        if (!first) {
            CHECK(replica->waiting_count >= batch->count);
            replica->waiting_count -= batch->count;
        }
        replica_record_latency(replica, replica_now_us(replica) - batch->proposed_us);
        for (size_t i = 0; i < batch->count; i++)
            CHECK(batch->waiters[i].done == NULL);
        replica_give_batch(replica, batch);
    }
    replica_after_apply(replica);
    if (first && replica->leading && !replica->serving && term == replica->term)
        replica_start_serving(replica);
    else if (replica->serving && !list_empty(&replica->queued))
        replica_schedule(replica, 0);
}

/* Raft gives an entry back that it will not apply under this leadership. Another leader may have it
 * in its log, so that the callers are told that nothing is known. */
static void replica_dropped(void *context, void *tag)
{
    struct replica *replica = context;
    struct batch *batch = tag;

    CHECK(batch != NULL && replica->in_flight_count > 0);
    replica->in_flight_count--;
    replica->stats.dropped_total += batch->first ? 0 : batch->count;
    if (batch->first)
        replica->first_proposed = false;
    replica_fail_batch(replica, batch, &replica_lost);
}

/* ---- snapshots: the state machine's stream through consensus ---- */

static void *replica_snapshot_begin(void *context)
{
    struct replica *replica = context;

    return fsm_snapshot_begin(replica->fsm);
}

static int replica_snapshot_next(void *context, void *snapshot, size_t bytes,
                                 const struct consensus_writer *writer, bool *ret_done,
                                 struct err *err)
{
    struct replica_stream stream = {.writer = writer, .err = err};

    (void)context;
    return fsm_snapshot_next(snapshot, bytes, stream_write, &stream, ret_done);
}

static void replica_snapshot_end(void *context, void *snapshot)
{
    (void)context;
    fsm_snapshot_end(snapshot);
}

/* Off the loop: nothing of the replica is touched. */
static int replica_snapshot_load(void *context, const struct consensus_reader *reader,
                                 void **ret_state, struct err *err)
{
    struct replica_stream stream = {.reader = reader, .err = err};
    char text[ERR_TEXT_BYTES / 2] = "";
    bool newer;

    (void)context;
    err->text[0] = '\0';
    *ret_state = fsm_snapshot_load(stream_read, &stream, text, sizeof(text), &newer);
    if (*ret_state != NULL)
        return 0;
    if (newer)
        return level_newer_snapshot(err, text);
    if (err->text[0] == '\0')
        return err_set(err, ERR_CORRUPT, "snapshot of the state does not decode: %s", text);
    return err_wrap(err, "reading the snapshot of the state");
}

/* The state that was loaded off the loop and the present one trade places: the object that
 * everybody has a pointer to stays the same. The old content goes back to consensus, to be freed by
 * replica_snapshot_discard(). */
static void *replica_snapshot_adopt(void *context, void *take_state)
{
    struct replica *replica = context;

    fsm_swap(replica->fsm, take_state);
    replica->stats.snapshots_read++;
    replica->hash_count = 0; /* the state before it may have been another one */
    replica_after_apply(replica);
    return take_state;
}

static void replica_snapshot_discard(void *context, void *take_state)
{
    (void)context;
    fsm_free(take_state);
}

/* ---- members ---- */

static void replica_members_changed(void *context)
{
    struct replica *replica = context;

    for (struct list *node = replica->observers.next; node != &replica->observers;
         node = node->next) {
        struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);
        if (observer->members_changed != NULL)
            observer->members_changed(observer->context);
    }
}

static void replica_fatal(void *context, const struct err *err)
{
    struct replica *replica = context;

    replica->fatal(replica->fatal_context, err);
}

/* ---- life ---- */

/* What the log holds when the process begins is never compared with the leader's hashes
 * (replica_compare): until its end is known, that is every entry. */
int replica_open(const struct consensus_config *config, const Ckpt__Log__V1__ClusterInit *initial,
                 void (*fatal)(void *context, const struct err *err), void *context,
                 struct replica **ret_replica, struct err *err)
{
    struct replica *replica = check_calloc(1, sizeof(*replica));
    const struct consensus_hooks hooks = {.context = replica,
                                          .apply = replica_apply,
                                          .dropped = replica_dropped,
                                          .role_changed = replica_role_changed,
                                          .snapshot_begin = replica_snapshot_begin,
                                          .snapshot_next = replica_snapshot_next,
                                          .snapshot_end = replica_snapshot_end,
                                          .snapshot_load = replica_snapshot_load,
                                          .snapshot_adopt = replica_snapshot_adopt,
                                          .snapshot_discard = replica_snapshot_discard,
                                          .fatal = replica_fatal,
                                          .members_changed = replica_members_changed,
                                          .note = replica_clock_note,
                                          .noted = replica_clock_noted};
    struct consensus_config own = *config;
    struct consensus_status status;

    CHECK(fatal != NULL);
    level_own(&own.build);
    list_init(&replica->observers);
    list_init(&replica->queued);
    list_init(&replica->spare);
    list_init(&replica->reads);
    replica->clock = *config->clock;
    replica->member_id = config->member_id;
    snprintf(replica->cluster_id, sizeof(replica->cluster_id), "%s", config->cluster_id);
    replica->initial = initial;
    replica->fatal = fatal;
    replica->fatal_context = context;
    replica->data_dir = config->data_dir;
    replica->replayed_index = UINT64_MAX;
    replica->fsm = fsm_new();
    replica->flush_timer = replica->clock.timer_new(replica->clock.context, replica_flush, replica);
    if (consensus_open(&own, &hooks, &replica->consensus, err) != 0) {
        replica->clock.timer_free(replica->flush_timer);
        fsm_free(replica->fsm);
        free(replica);
        return -1;
    }
    consensus_get_status(replica->consensus, &status);
    replica->replayed_index = status.last_index;
    *ret_replica = replica;
    return 0;
}

/* Consensus is closed: every proposal was answered by then, and the owner may free what it gave to
 * replica_open(). */
static void replica_closed(void *context)
{
    struct replica *replica = context;
    void (*closed)(void *) = replica->closed;
    void *closed_context = replica->closed_context;

    CHECK(replica->in_flight_count == 0 && replica->waiting_count == 0);
    replica->clock.timer_free(replica->flush_timer);
    replica_free_batches(replica);
    fsm_free(replica->fsm);
    free(replica);
    if (closed != NULL)
        closed(closed_context);
}

void replica_close(struct replica *replica, void (*closed)(void *context), void *context)
{
    CHECK(!replica->closing);
    replica->closing = true;
    replica->closed = closed;
    replica->closed_context = context;
    replica->clock.timer_stop(replica->flush_timer);
    replica_stop_leading(replica);
    consensus_close(replica->consensus, replica_closed, replica);
}

void replica_abandon(struct replica *replica)
{
    CHECK(!replica->closing);
    replica->closing = true;
    replica_stop_leading(replica);
    consensus_abandon(replica->consensus);
    replica_closed(replica);
}

void replica_set_facts(struct replica *replica, const Ckpt__Log__V1__MemberFacts *facts)
{
    replica->facts = facts;
}

void replica_observe(struct replica *replica, struct replica_observer *observer)
{
    list_push_back(&replica->observers, &observer->node);
}
