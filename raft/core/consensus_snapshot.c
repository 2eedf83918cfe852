/* libraft's struct raft_fsm: applying entries, taking and installing snapshots. See
 * consensus_internal.h.
 *
 * Flow     take:    libraft asks -> written in slices -> job syncs and renames -> libraft and the
 *          log drop old entries.
 *          install: a stream has arrived and verified -> libraft is asked as soon as it is free
 *          -> job renames and loads a new state -> the log is replaced -> restore() puts the new
 *          state in the old one's place -> job frees the old one.
 * Shapes   one snapshot in work at a time, of either kind.
 * Errors   a failed own snapshot leaves no file, is told in the status and tried again later; a
 *          failed installation ends the member.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

static struct consensus *of_fsm(struct raft_fsm *fsm)
{
    return fsm->data;
}

/* ---- apply ---- */

/* Proposals are in the order of the log, so the entry is the first one or none. An entry of a
 * former leader has no tag here. */
static void *tag_take(struct consensus *consensus, uint64_t index)
{
    struct proposal *proposal;

    if (list_empty(&consensus->proposals))
        return NULL;
    proposal = LIST_ITEM(consensus->proposals.next, struct proposal, node);
    CHECK(proposal->request.index >= index);
    if (proposal->request.index != index)
        return NULL;
    list_remove(&proposal->node);
    consensus->proposal_count--;
    proposal->applied = true; /* libraft's callback frees it */
    return proposal->tag;
}

/* libraft applies what is committed before it answers the leader for what it has stored: the
 * answer, which the commit of the next entries waits for, would be late by the whole work of the
 * state machine. So it only notes the entry here, and the state machine gets it when libraft's call
 * is over, before anything else is settled. libraft holds the bytes: it gives up entries only below
 * a snapshot, and none is begun or adopted before core_apply_noted(). */
static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buf, void **result)
{
    struct consensus *consensus = of_fsm(fsm);
    uint64_t index = consensus->raft.last_applied + 1;
    struct noted *noted;

    consensus->bytes_since_snapshot += buf->len;
    *result = NULL;
    if (consensus->failure.code != ERR_NONE)
        return 0; /* nobody is told any more; its tag is dropped */
    noted = check_alloc(sizeof(*noted));
    *noted = (struct noted){.index = index,
                            .term = safety_term_of(&consensus->raft, index),
                            .bytes = buf->base,
                            .length = buf->len,
                            .tag = tag_take(consensus, index)};
    CHECK(noted->term != 0);
    list_init(&noted->node);
    list_push_back(&consensus->noted, &noted->node);
    if (consensus->depth == 0)
        core_apply_noted(consensus); /* nothing settles behind this call */
    return 0;                        /* anything else stops libraft for ever */
}

void core_apply_noted(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    while (!list_empty(&consensus->noted)) {
        struct noted *noted = LIST_ITEM(consensus->noted.next, struct noted, node);

        list_remove(&noted->node);
        consensus->hooks.apply(consensus->hooks.context, noted->index, noted->term, noted->bytes,
                               noted->length, noted->tag);
        free(noted);
    }
}

/* ---- take ---- */

uint64_t core_snapshot_after_bytes(const struct consensus *consensus)
{
    uint64_t min = consensus->config.snapshot_after_bytes;

    return consensus->snapshot_bytes < min ? min : consensus->snapshot_bytes;
}

uint64_t core_snapshot_after_entries(const struct consensus *consensus)
{
    uint64_t times = core_snapshot_after_bytes(consensus) / consensus->config.snapshot_after_bytes;
    uint64_t entries = consensus->config.snapshot_after_entries;

    return times > UINT32_MAX / entries ? UINT32_MAX : times * entries;
}

/* A member gets our snapshot, or has it and is installing it: it will need the log after it. */
static bool receiver_waits(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    for (unsigned i = 0; core_is_leader(consensus) && i < raft->configuration.n; i++)
        if (raft->leader_state.progress[i].state == PROGRESS_SNAPSHOT)
            return true;
    return false;
}

/* So much log is kept for it, and no more, since the log is not endless: a transfer takes the
 * longer the larger the state is, and the log grows meanwhile. Twice what is due, but four times
 * what is due of a small state. */
static uint64_t threshold_held(uint64_t due, uint64_t configured)
{
    uint64_t min = (CORE_SNAPSHOT_HELD - 1) * configured;

    return due + (due < min ? min : due);
}

static bool may_take(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    if (consensus->closing || consensus->failed || take_running(&consensus->take) ||
        consensus->keep_running || consensus->received_waiting || consensus->transfer.in_held)
        return false;
    /* Committed by the others, and still on its way to our own disk: libraft counts what is stored
     * by looking at each entry, and a compacted one stops the count for ever (found by the
     * simulated changes of members). */
    if (raft->last_applied > safety_last_stored(&consensus->safety))
        return false;
    /* libraft would store a configuration that may still be rolled back (C12, C13). */
    if (raft->configuration_uncommitted_index != 0)
        return false;
    if (!consensus->transfer.unreadable && receiver_waits(consensus) &&
        consensus->bytes_since_snapshot < threshold_held(core_snapshot_after_bytes(consensus),
                                                         consensus->config.snapshot_after_bytes) &&
        raft->last_applied - raft->log.snapshot.last_index <
            threshold_held(core_snapshot_after_entries(consensus),
                           consensus->config.snapshot_after_entries))
        return false;
    return consensus->snapshot_failed_us == 0 ||
           core_now_us(consensus) - consensus->snapshot_failed_us >
               UINT64_C(1000) * CORE_SNAPSHOT_RETRY_MS;
}

/* Entries kept in memory behind a snapshot for members that are a little late. */
static unsigned trailing_entries(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;
    uint64_t bytes = 0, max = consensus->config.snapshot_after_entries;
    unsigned count = 0;

    if (max > CORE_TRAILING_ENTRIES_MAX)
        max = CORE_TRAILING_ENTRIES_MAX;
    while (count < max) {
        const struct raft_entry *entry = safety_entry(raft, raft->last_applied - count);
        if (entry == NULL || bytes + entry->buf.len > CORE_TRAILING_BYTES_MAX)
            break;
        bytes += entry->buf.len;
        count++;
    }
    return count;
}

static void take_failed(struct consensus *consensus, const struct err *err)
{
    consensus->snapshot_failures_total++;
    consensus->snapshot_failed_us = core_now_us(consensus);
    consensus->snapshot_err = *err;
}

/* One that cannot end would only fill the disk for a while, at the cost of the log. */
static bool take_has_room(struct consensus *consensus)
{
    const struct folder *folder = &consensus->folder;
    uint64_t free_bytes = folder->disk->free_bytes(folder->disk->context, folder->path);
    struct err err;

    if (free_bytes >= consensus->snapshot_file_bytes)
        return true;
    err_set(&err, ERR_FULL,
            "a snapshot is due and needs about %" PRIu64 " MB, %s has %" PRIu64
            " MB free: the log cannot be cut before there is room; free space there",
            consensus->snapshot_file_bytes / 1000000, folder->path, free_bytes / 1000000);
    take_failed(consensus, &err);
    return false;
}

/* Ends an own snapshot in libraft's eyes; err NULL: it is kept. */
static void take_finish(struct consensus *consensus, const struct err *err)
{
    struct raft_io_snapshot_put *put = consensus->put;

    CHECK(put != NULL);
    snapshot_meta_close(&consensus->taking);
    consensus->put = NULL;
    if (err != NULL) {
        take_failed(consensus, err);
        consensus->bytes_since_snapshot += consensus->bytes_before_take; /* it is still due */
    }
    core_enter(consensus);
    consensus->put_done(put, err == NULL ? 0 : RAFT_IOERR);
    core_leave(consensus);
}

struct counted_reader {
    const struct consensus_reader *from;
    uint64_t bytes;
};

static int counted_read(void *context, void *bytes, size_t length, struct err *err)
{
    struct counted_reader *counted = context;

    counted->bytes += length;
    return counted->from->read(counted->from->context, bytes, length, err);
}

static int state_load(void *context, const struct consensus_reader *reader, struct err *err)
{
    struct consensus *consensus = context;
    struct counted_reader counted = {reader, 0};
    const struct consensus_reader counting = {&counted, counted_read};

    CHECK(consensus->loaded == NULL);
    if (consensus->hooks.snapshot_load(consensus->hooks.context, &counting, &consensus->loaded,
                                       err) != 0)
        return -1;
    consensus->loaded_bytes = counted.bytes;
    return 0;
}

static int load_work(struct consensus *consensus, const struct snapshot_name *name, struct err *err)
{
    char path[FOLDER_PATH_BYTES];

    snapshot_path(&consensus->folder, name->index, name->term, path);
    return snapshot_read(&consensus->folder, path, state_load, consensus, err);
}

int core_snapshot_load(struct consensus *consensus, struct err *err)
{
    CHECK(consensus != NULL);
    return load_work(consensus, &consensus->snapshot, err);
}

static void keep_work(struct disk_job *job)
{
    struct consensus *consensus =
        (struct consensus *)(void *)((char *)job - offsetof(struct consensus, keep_job));

    const struct disk_ops *disk = consensus->folder.disk;
    const char *temporary = consensus->keep_installs ? TRANSFER_FILE : TAKE_FILE;
    char path[FOLDER_PATH_BYTES];

    consensus->keep_status =
        snapshot_keep_work(&consensus->folder, temporary, consensus->keeping.index,
                           consensus->keeping.term, &consensus->keep_err);
    if (consensus->keep_status == 0 && consensus->keep_installs)
        consensus->keep_status = load_work(consensus, &consensus->keeping, &consensus->keep_err);
    if (consensus->keep_status != 0)
        (void)disk->unlink(disk->context, folder_path(&consensus->folder, temporary, path), NULL);
}

/* The log begins anew behind the snapshot, durably: only now may libraft count it as its own. */
static void install_done(void *data)
{
    struct consensus *consensus = data;
    struct raft_io_snapshot_put *put = consensus->put;

    transfer_in_release(&consensus->transfer);
    if (consensus->closed_core)
        return; /* io_close() answers libraft */
    CHECK(put != NULL);
    consensus->put = NULL;
    consensus->put_bufs = NULL; /* libraft's again */
    consensus->bytes_since_snapshot = 0;
    core_enter(consensus);
    consensus->put_done(put, 0);
    safety_replay(&consensus->safety);
    core_leave(consensus);
}

static void keep_done(struct disk_job *job)
{
    struct consensus *consensus =
        (struct consensus *)(void *)((char *)job - offsetof(struct consensus, keep_job));
    uint64_t index = consensus->keeping.index, trailing = consensus->raft.snapshot.trailing;
    uint64_t before = index > trailing ? index - trailing + 1 : 1;

    consensus->keep_running = false;
    if (consensus->failed)
        return;
    if (consensus->keep_status != 0) {
        if (consensus->keep_installs) {
            core_fail(consensus, &consensus->keep_err);
            core_report_failure(consensus);
        } else {
            take_finish(consensus, &consensus->keep_err);
        }
        return;
    }
    consensus->snapshot_previous_index = consensus->snapshot.index;
    consensus->snapshot = consensus->keeping;
    consensus->snapshot_count++;
    consensus->transfer.unreadable = false;
    consensus->snapshot_ms_last = (core_now_us(consensus) - consensus->snapshot_begun_us) / 1000;
    if (consensus->keep_installs) {
        /* Snapshot first, log afterwards: a crash between the two leaves a log that log_reconcile()
         * knows to be replaced. */
        wal_reset(&consensus->wal, index + 1, install_done, consensus);
        return;
    }
    consensus->snapshot_failed_us = 0;
    /* On disk the log also reaches back to the snapshot before, in case this one rots. */
    if (before > consensus->snapshot_previous_index + 1)
        before = consensus->snapshot_previous_index + 1;
    wal_drop_before(&consensus->wal, before);
    take_finish(consensus, NULL);
}

static void keep_start(struct consensus *consensus, uint64_t index, uint64_t term, bool installs)
{
    CHECK(!consensus->keep_running);
    consensus->keep_running = true;
    consensus->keep_installs = installs;
    consensus->keeping = (struct snapshot_name){index, term};
    consensus->keep_job.work = keep_work;
    consensus->keep_job.done = keep_done;
    consensus->folder.disk->submit(consensus->folder.disk->context, &consensus->keep_job);
}

static void take_ended(void *context, int status, const struct err *err)
{
    struct consensus *consensus = context;

    if (consensus->failed)
        return;
    if (status != 0) {
        take_finish(consensus, err);
        return;
    }
    consensus->snapshot_file_bytes = consensus->take.slices.file_bytes;
    consensus->snapshot_bytes = consensus->take.content_bytes;
    keep_start(consensus, consensus->taking.index, consensus->taking.term, false);
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n_bufs)
{
    struct consensus *consensus = of_fsm(fsm);
    const struct raft_snapshot *pending = &consensus->raft.snapshot.pending;

    core_apply_noted(consensus);
    if (!may_take(consensus) || !take_has_room(consensus))
        return RAFT_BUSY;
    consensus->taking.index = pending->index;
    consensus->taking.term = pending->term;
    consensus->taking.configuration_index = pending->configuration_index;
    if (snapshot_configuration_copy(&pending->configuration, &consensus->taking.configuration) != 0)
        return RAFT_BUSY;
    consensus->raft.snapshot.trailing = trailing_entries(consensus);
    consensus->snapshot_begun_us = core_now_us(consensus);
    take_begin(&consensus->take, &consensus->folder, &consensus->hooks, &consensus->taking,
               take_ended, consensus);
    consensus->bytes_before_take = consensus->bytes_since_snapshot;
    consensus->bytes_since_snapshot = 0;
    *n_bufs = 1;
    *bufs = raft_calloc(1, sizeof(**bufs));
    CHECK(*bufs != NULL);
    return 0;
}

static int fsm_snapshot_finalize(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n_bufs)
{
    (void)fsm;
    raft_free(*bufs);
    *bufs = NULL;
    *n_bufs = 0;
    return 0;
}

/* ---- install ---- */

static void discard_work(struct disk_job *job)
{
    struct consensus *consensus =
        (struct consensus *)(void *)((char *)job - offsetof(struct consensus, discard_job));

    consensus->hooks.snapshot_discard(consensus->hooks.context, consensus->discarded);
    consensus->discard_worked = true;
}

static void discard_done(struct disk_job *job)
{
    struct consensus *consensus =
        (struct consensus *)(void *)((char *)job - offsetof(struct consensus, discard_job));

    consensus->discarded = NULL;
    core_snapshot_deliver(consensus);
}

/* Freeing a large state takes as long as many heartbeats. */
static void discard_start(struct consensus *consensus, void *state)
{
    CHECK(consensus->discarded == NULL);
    consensus->discarded = state;
    consensus->discard_worked = false;
    consensus->discard_job.work = discard_work;
    consensus->discard_job.done = discard_done;
    consensus->folder.disk->submit(consensus->folder.disk->context, &consensus->discard_job);
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
    struct consensus *consensus = of_fsm(fsm);
    void *before;

    core_apply_noted(consensus);
    CHECK(consensus->loaded != NULL);
    before = consensus->hooks.snapshot_adopt(consensus->hooks.context, consensus->loaded);
    consensus->loaded = NULL;
    consensus->snapshot_bytes = consensus->loaded_bytes;
    if (!consensus->core_started) /* nobody waits for this loop yet */
        consensus->hooks.snapshot_discard(consensus->hooks.context, before);
    else
        discard_start(consensus, before);
    raft_free(buf->base);
    return 0;
}

int core_io_snapshot_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *req,
                         const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
    struct consensus *consensus = io->impl;

    CHECK(req != NULL);
    CHECK(snapshot != NULL);
    (void)trailing;
    CHECK(consensus->put == NULL);
    consensus->put = req;
    consensus->put_done = cb;
    if (snapshot == &consensus->raft.snapshot.pending)
        return 0; /* the child is at it */
    consensus->put_bufs = snapshot->bufs;
    if (consensus->safety.install_term != 0)
        ((struct raft_snapshot *)(uintptr_t)snapshot)->term = consensus->safety.install_term;
    consensus->snapshot_begun_us = core_now_us(consensus);
    keep_start(consensus, snapshot->index, snapshot->term, true);
    return 0;
}

void core_snapshot_received(void *context, uint64_t from, uint64_t term,
                            struct snapshot_meta *take_meta)
{
    struct consensus *consensus = context;

    CHECK(take_meta != NULL);
    CHECK(!consensus->received_waiting);
    consensus->received = *take_meta;
    consensus->received_from = from;
    consensus->received_term = term;
    consensus->received_waiting = true;
    core_snapshot_deliver(consensus);
}

/* libraft ignores an InstallSnapshot without a word while it takes one itself, so it waits here for
 * its turn. */
void core_snapshot_deliver(struct consensus *consensus)
{
    struct raft_message message = {.type = RAFT_IO_INSTALL_SNAPSHOT};
    struct raft_install_snapshot *install = &message.install_snapshot;

    if (!consensus->received_waiting || consensus->failed || consensus->closing ||
        consensus->raft.snapshot.pending.term != 0 || consensus->raft.snapshot.put.data != NULL ||
        consensus->keep_running || take_running(&consensus->take) || consensus->discarded != NULL)
        return;
    consensus->received_waiting = false;
    message.server_id = consensus->received_from;
    message.server_address = core_member_name(consensus, consensus->received_from);
    install->term = consensus->received_term;
    install->last_index = consensus->received.index;
    install->last_term = consensus->received.term;
    install->conf = consensus->received.configuration;
    install->conf_index = consensus->received.configuration_index;
    install->data.len = sizeof(uint64_t);
    install->data.base = raft_calloc(1, sizeof(uint64_t));
    CHECK(install->data.base != NULL);
    core_enter(consensus);
    safety_receive(&consensus->safety, &message);
    if (consensus->put == NULL)
        transfer_in_release(&consensus->transfer); /* not needed, or of an old term */
    core_leave(consensus);
}

void core_fsm_init(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    consensus->fsm = (struct raft_fsm){
        .version = 2,
        .data = consensus,
        .apply = fsm_apply,
        .snapshot = fsm_snapshot,
        .restore = fsm_restore,
        .snapshot_finalize = fsm_snapshot_finalize,
    };
}

void core_fsm_close(struct consensus *consensus)
{
    slices_close(&consensus->take.slices);
    if (consensus->loaded != NULL)
        consensus->hooks.snapshot_discard(consensus->hooks.context, consensus->loaded);
    if (consensus->discarded != NULL && !consensus->discard_worked)
        consensus->hooks.snapshot_discard(consensus->hooks.context, consensus->discarded);
}
