/* Takes one backup of the state of this member. See backup.h. backup_take() -> take_fire() in the
 * next turn -> a confirmed read, when it is wanted -> start_export(). The header and a snapshot are
 * begun in one go, on the loop, so that they are of one instant; compressing and writing happen off
 * it, slice by slice. */
#include "src/broker/keep/backup.h"

#include <stdlib.h>
#include <string.h>

#include "raft/snap/export.h"
#include "src/backup/backup.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/broker/api/answer.h"
#include "src/broker/broker.h"

struct backup_take {
    struct broker *broker;
    backup_taken_fn *taken; /* NULL: cancelled */
    void *context;
    struct clock_timer *timer; /* zero delay: the start is never inside backup_take() */
    struct export_call *call;
    bool linearizable;
    bool reading; /* replica_read() will come back */
    uint64_t age_ms;
};

/* The room that is asked of the disk follows from it, so that a backup does not fill the disk of
 * the log. */
static uint64_t backup_size_last; /* of this process' last one: what the next will need */

static void take_free(struct backup_take *take)
{
    take->broker->clock.timer_free(take->timer);
    free(take);
}

/* The take is freed before it is told: the taker may begin another one. */
static void take_end(struct backup_take *take, struct export_call *call, uint64_t size_bytes,
                     const struct err *err)
{
    backup_taken_fn *taken = take->taken;
    void *context = take->context;

    take_free(take);
    taken(context, call, size_bytes, err);
}

/* What becomes the file: read on the loop, worked on off it (raft/snap/slices.h). Lives until its
 * release. */
struct backup_content {
    struct fsm_snapshot *snapshot;
    struct backup_writer *writer;
    struct buf ready; /* from the writer, for the file */
};

/* ---- the header ---- */

/* What people want to know of a file without loading it, and what loading compares with its
 * content. */
static void fill_state(const struct fsm *fsm, Ckpt__V1__BackupHeader *header)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    header->cluster_id = (char *)(uintptr_t)summary.cluster_id;
    header->epoch = summary.epoch;
    header->index = summary.applied_index;
    header->term = summary.applied_term;
    header->state_hash = summary.state_hash;
    header->state_now_ms = summary.now_ms;
    header->allocation_count = summary.allocation_count;
    header->running_count =
        summary.allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING] +
        summary.allocations_by_state
            [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP];
    header->checkpoint_count = summary.checkpoint_count;
    header->complete_count =
        summary.checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE];
    header->paused_count =
        summary.checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED];
    for (unsigned state = 0; state < ARRAY_COUNT(summary.checkpoints_by_state); state++)
        if (fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)state))
            header->active_count += summary.checkpoints_by_state[state];
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++)
        header->target_count += fsm_target_find_slot(fsm, slot) != NULL;
    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++)
        header->node_count += fsm_node_find_slot(fsm, slot) != NULL;
    header->request_id_count = summary.past_request_count;
}

static void fill_member(const struct broker *broker, uint64_t id, Ckpt__V1__BackupMember *member)
{
    struct answer_member found = {"", ""};

    ckpt__v1__backup_member__init(member);
    (void)answer_find_member(broker, id, &found);
    member->member_id = id;
    member->name = (char *)(uintptr_t)found.name;
    member->api_address = (char *)(uintptr_t)found.api;
}

/* The members in use, this one first: a restore that brings up a new cluster can be planned from
 * the file. */
static void fill_members(const struct broker *broker, const struct consensus_status *raft,
                         Ckpt__V1__BackupHeader *header, Ckpt__V1__BackupMember *members)
{
    Ckpt__V1__BackupMember *member = &members[header->n_members++];

    fill_member(broker, raft->member_id, member);
    member->raft_address = broker->config->self->raft;
    member->voter = raft->member_role == CONSENSUS_VOTER;
    for (size_t i = 0; i < raft->peer_count; i++) {
        member = &members[header->n_members++];
        fill_member(broker, raft->peers[i].id, member);
        member->raft_address = (char *)(uintptr_t)raft->peers[i].address;
        member->voter = raft->peers[i].voter;
    }
}

/* Says also who took it, when, and how old the state was that it holds. */
static int write_header(const struct backup_take *take, struct backup_writer *writer,
                        struct err *err)
{
    const struct broker *broker = take->broker;
    Ckpt__V1__BackupHeader header = CKPT__V1__BACKUP_HEADER__INIT;
    Ckpt__V1__BackupMember members[CONSENSUS_MEMBERS_MAX + 1];
    Ckpt__V1__BackupMember *pointers[CONSENSUS_MEMBERS_MAX + 1];
    struct consensus_status raft;

    replica_get_status(broker->replica, &raft);
    fill_state(replica_fsm(broker->replica), &header);
    header.incarnation = raft.incarnation;
    header.taken_at_ms = broker_wall_ms(broker);
    header.linearizable = take->linearizable;
    header.age_ms = take->age_ms;
    header.member_id = raft.member_id;
    header.member_name = broker->config->self->name;
    header.version = (char *)(uintptr_t)build_text;
    header.members = pointers;
    fill_members(broker, &raft, &header, members);
    for (size_t i = 0; i < header.n_members; i++)
        pointers[i] = &members[i];
    return backup_writer_begin(writer, &header, err);
}

/* ---- the content ---- */

static int ready_append(void *context, const void *bytes, size_t length, struct err *err)
{
    (void)err;
    buf_append(&((struct backup_content *)context)->ready, bytes, length);
    return 0;
}

static int slice_append(void *context, const void *bytes, size_t length)
{
    buf_append(context, bytes, length);
    return 0;
}

/* On the loop: the next slice of the snapshot. A state that was replaced by a newer one meanwhile
 * ends the backup. */
static int content_fill(void *context, struct buf *slice, bool *ret_last, struct err *err)
{
    struct backup_content *content = context;

    if (fsm_snapshot_next(content->snapshot, SLICE_BYTES, slice_append, slice, ret_last) != 0)
        return err_set(
            err, ERR_UNAVAILABLE,
            "this member received a newer state while it was being backed up; ask again");
    return 0;
}

/* Off the loop: the slice into the file, compressed and counted into the digest. */
static int content_write(void *context, const struct buf *slice, bool last,
                         const struct consensus_writer *file, struct err *err)
{
    struct backup_content *content = context;

    if (backup_writer_put(content->writer, slice->bytes, slice->length, err) != 0 ||
        (last && backup_writer_end(content->writer, err) != 0) ||
        file->write(file->context, content->ready.bytes, content->ready.length, err) != 0)
        return -1;
    buf_clear(&content->ready);
    return 0;
}

static void content_release(void *context)
{
    struct backup_content *content = context;

    fsm_snapshot_end(content->snapshot);
    backup_writer_free(content->writer);
    buf_close(&content->ready);
    free(content);
}

/* The snapshot and the header are of the same applied entry: nothing is applied in between. */
static struct backup_content *content_new(const struct backup_take *take, struct err *err)
{
    struct backup_content *content = check_calloc(1, sizeof(*content));
    const struct backup_sink sink = {content, ready_append};

    buf_init(&content->ready);
    content->writer = backup_writer_new(&sink);
    content->snapshot = fsm_snapshot_begin(replica_fsm_mutable(take->broker->replica));
    if (write_header(take, content->writer, err) == 0)
        return content;
    content_release(content);
    return NULL;
}

/* ---- on the loop ---- */

/* The file is written, or not. */
static void state_exported(void *context, int status, uint64_t size_bytes, const struct err *err)
{
    struct backup_take *take = context;
    struct export_call *call = take->call;

    if (status != 0) {
        export_close(call);
        call = NULL;
    } else {
        backup_size_last = size_bytes;
    }
    take_end(take, call, size_bytes, err);
}

static int start_content(struct backup_take *take, struct err *err)
{
    const struct broker *broker = take->broker;
    struct backup_content *content = content_new(take, err);
    const struct export_request request = {
        .disk = broker->disk,
        .data_dir = broker->config->data_dir,
        .room_bytes = BACKUP_ROOM_BYTES + 2 * backup_size_last,
        .source = {content, content_fill, content_write, content_release},
        .done = state_exported,
        .context = take,
    };

    if (content == NULL)
        return -1;
    if (export_start(&request, &take->call, err) == 0)
        return 0;
    content_release(content);
    return -1;
}

/* A member without a state has nothing to back up: an empty file would look like a cluster that
 * lost everything. */
static void start_export(struct backup_take *take)
{
    struct fsm_summary summary;
    struct consensus_status raft;
    struct err err;

    fsm_get_summary(replica_fsm(take->broker->replica), &summary);
    replica_get_status(take->broker->replica, &raft);
    if (!take->linearizable)
        take->age_ms = raft.state_age_ms;
    if (!summary.initialised) {
        err_set(&err, ERR_EMPTY, "member %s has no state yet: nothing was committed",
                take->broker->config->self->name);
        take_end(take, NULL, 0, &err);
    } else if (start_content(take, &err) != 0) {
        take_end(take, NULL, 0, &err);
    }
}

/* A take that was cancelled while it was read is freed here. */
static void read_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct backup_take *take = data;

    (void)outcome;
    take->reading = false;
    if (take->taken == NULL)
        take_free(take);
    else if (failed != NULL)
        take_end(take, NULL, 0, failed);
    else
        start_export(take);
}

/* Without a confirmed read the state may be old, and the header says how old. */
static void take_fire(void *data)
{
    struct backup_take *take = data;

    if (take->linearizable) {
        take->reading = true;
        replica_read(take->broker->replica, read_done, take);
    } else {
        start_export(take);
    }
}

struct backup_take *backup_take(struct broker *broker, bool linearizable, backup_taken_fn *taken,
                                void *context)
{
    struct backup_take *take = check_calloc(1, sizeof(*take));

    CHECK(taken != NULL && broker->disk != NULL);
    take->broker = broker;
    take->linearizable = linearizable;
    take->taken = taken;
    take->context = context;
    take->timer = broker->clock.timer_new(broker->clock.context, take_fire, take);
    broker->clock.timer_start(take->timer, 0);
    return take;
}

/* While the read is on its way only the mark is set: the replica still holds the take. */
void backup_take_cancel(struct backup_take *take)
{
    if (take->reading) {
        take->taken = NULL;
        return;
    }
    export_close(take->call);
    take_free(take);
}
