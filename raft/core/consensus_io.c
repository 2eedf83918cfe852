/* libraft's struct raft_io over our log, vote store and transport. See consensus_internal.h.
 *
 * Flow     libraft calls; appends go to the log and come back by append_done(); sends are encoded
 *          at once and their callbacks run when libraft's own call has ended. Truncation and
 *          appends keep their order in the log's queue.
 * Errors   send() never fails (libraft frees twice when it does); a failed disk ends the member.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

static struct consensus *of_io(struct raft_io *io)
{
    return io->impl;
}

/* ---- completions that libraft must not see inside its own calls ---- */

static struct deferred *deferred_new(struct consensus *consensus, enum deferred_kind kind)
{
    struct deferred *deferred = check_calloc(1, sizeof(*deferred));

    deferred->kind = kind;
    list_push_back(&consensus->deferred, &deferred->node);
    return deferred;
}

void core_defer_send(struct consensus *consensus, struct raft_io_send *send, raft_io_send_cb sent,
                     int status)
{
    struct deferred *deferred = deferred_new(consensus, DEFERRED_SEND);

    CHECK(send != NULL);
    deferred->send = send;
    deferred->sent = sent;
    deferred->status = status;
}

void core_deferred_run(struct consensus *consensus)
{
    while (!list_empty(&consensus->deferred)) {
        struct deferred *deferred = LIST_ITEM(consensus->deferred.next, struct deferred, node);
        list_remove(&deferred->node);
        if (deferred->kind == DEFERRED_SEND) {
            if (deferred->sent != NULL)
                deferred->sent(deferred->send, deferred->status);
        } else {
            bool closed = consensus->closed_core;
            struct err err;
            struct raft_snapshot *token = closed ? NULL : core_snapshot_token(consensus, &err);
            /* A snapshot that is there and cannot be read makes another one due; where there is
             * none nothing is wrong. */
            if (token == NULL && !closed && consensus->snapshot.index != 0)
                transfer_unreadable(&consensus->transfer, &err);
            deferred->got(deferred->get, token, token == NULL ? RAFT_NOTFOUND : 0);
            if (token == NULL && !consensus->closed_core)
                core_installs_expire(consensus);
        }
        free(deferred);
    }
}

/* ---- sending ---- */

/* The limit of this peer; 0: a free place. */
static struct send_limit *limit_find(struct consensus *consensus, uint64_t peer)
{
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (consensus->limits[i].peer == peer)
            return &consensus->limits[i];
    return NULL;
}

/* While libraft probes it forgets what it sent, so one frame is enough; in the pipeline it believes
 * everything was sent, and is corrected when its call has ended. */
static int append_send(struct consensus *consensus, const struct raft_message *message)
{
    const struct raft_append_entries *append = &message->append_entries;
    unsigned place = core_server_place(consensus, message->server_id), sent = 0;
    struct frame_message frame = {.type = FRAME_APPEND, .core = *message};
    size_t room = transport_room(&consensus->transport, message->server_id);
    struct send_limit *limit;
    bool probing;

    CHECK(place < consensus->raft.configuration.n);
    if (!transport_connected(&consensus->transport, message->server_id))
        return RAFT_NOCONNECTION;
    core_note_fill(consensus, message->server_id, FRAME_APPEND, &frame.note);
    if (append->n_entries == 0)
        return transport_send(&consensus->transport, message->server_id, &frame)
                   ? 0
                   : RAFT_NOCONNECTION;
    if (limit_find(consensus, message->server_id) != NULL)
        return 0; /* would leave a gap; sent again after the correction */
    probing = consensus->raft.leader_state.progress[place].state == PROGRESS_PROBE;
    while (sent < append->n_entries && room > 0 && (sent == 0 || !probing)) {
        struct raft_append_entries *part = &frame.core.append_entries;
        part->entries = append->entries + sent;
        part->n_entries = frame_entries_that_fit(append, sent);
        part->prev_log_index = append->prev_log_index + sent;
        part->prev_log_term = sent == 0 ? append->prev_log_term : append->entries[sent - 1].term;
        if (!transport_send(&consensus->transport, message->server_id, &frame))
            break;
        sent += part->n_entries;
        frame.note.told = false;
        room = transport_room(&consensus->transport, message->server_id);
    }
    if (sent < append->n_entries && !probing) {
        limit = limit_find(consensus, 0);
        CHECK(limit != NULL);
        *limit = (struct send_limit){message->server_id, append->prev_log_index + sent + 1};
        consensus->limited = true;
    }
    return 0;
}

struct install {
    struct consensus *consensus;
    struct raft_io_send *send;
    raft_io_send_cb sent;
};

/* A stream of an older term may end inside libraft's call (transfer_send()), so libraft is told
 * when that is over. */
static void install_sent(void *data, int status)
{
    struct install *install = data;
    struct consensus *consensus = install->consensus;

    core_enter(consensus);
    core_defer_send(consensus, install->send, install->sent, status == 0 ? 0 : RAFT_NOCONNECTION);
    free(install);
    core_leave(consensus);
}

static int install_send(struct consensus *consensus, const struct raft_message *message,
                        struct raft_io_send *send, raft_io_send_cb sent)
{
    struct snapshot_name name = {message->install_snapshot.last_index,
                                 message->install_snapshot.last_term};
    struct install *install = check_alloc(sizeof(*install));

    *install = (struct install){consensus, send, sent};
    if (transfer_send(&consensus->transfer, message->server_id, &name,
                      message->install_snapshot.term, install_sent, install) == 0)
        return 0;
    free(install);
    return -1;
}

static int plain_send(struct consensus *consensus, enum frame_type type,
                      const struct raft_message *message)
{
    struct frame_message frame = {.type = type, .core = *message};

    core_note_fill(consensus, message->server_id, type, &frame.note);
    return transport_send(&consensus->transport, message->server_id, &frame) ? 0
                                                                             : RAFT_NOCONNECTION;
}

/* S15: with a refusal goes what is certain in spite of it: every leader has what is committed here,
 * and this one what its messages have compared (S1). A leader whose snapshot we have installed, or
 * had no need of, but who never heard so, would otherwise wait for its timeout. */
static void commit_report(struct consensus *consensus, const struct raft_message *refusal)
{
    struct raft_message report = *refusal;
    const struct raft *raft = &consensus->raft;
    const struct safety *safety = &consensus->safety;
    uint64_t certain = raft->commit_index;

    if (safety->verified_term == raft->current_term && safety->verified_index > certain)
        certain = safety->verified_index;
    if (certain > raft->last_stored)
        certain = raft->last_stored;
    if (!safety_rule(15) || safety_installing(raft) || certain == 0)
        return;
    report.append_entries_result.rejected = 0;
    report.append_entries_result.last_log_index = certain;
    (void)plain_send(consensus, FRAME_APPEND_RESULT,
                     &report); /* comes again with the next refusal */
}

/* The status is always 0: libraft frees a message twice whose send failed. What cannot be sent
 * counts as lost, which its callback is told afterwards. */
static int io_send(struct raft_io *io, struct raft_io_send *req, const struct raft_message *message,
                   raft_io_send_cb cb)
{
    struct consensus *consensus = of_io(io);
    struct raft_message copy = *message;
    int status = 0;

    if (consensus->failure.code != ERR_NONE || consensus->closing ||
        !safety_send(&consensus->safety, &copy)) {
        core_defer_send(consensus, req, cb, 0);
        return 0;
    }
    transport_dial_cold(&consensus->transport, copy.server_id);
    switch (copy.type) {
    case RAFT_IO_APPEND_ENTRIES:
        status = append_send(consensus, &copy);
        break;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        status = plain_send(consensus, FRAME_APPEND_RESULT, &copy);
        if (copy.append_entries_result.rejected != 0)
            commit_report(consensus, &copy);
        break;
    case RAFT_IO_REQUEST_VOTE:
        status = plain_send(consensus, FRAME_VOTE, &copy);
        break;
    case RAFT_IO_REQUEST_VOTE_RESULT:
        status = plain_send(consensus, FRAME_VOTE_RESULT, &copy);
        break;
    case RAFT_IO_INSTALL_SNAPSHOT:
        if (install_send(consensus, &copy, req, cb) == 0)
            return 0;
        status = RAFT_NOCONNECTION;
        break;
    default:
        CHECK_UNREACHABLE("message type; raft_transfer is never used");
    }
    core_defer_send(consensus, req, cb, status);
    return 0;
}

/* ---- log ---- */

struct append {
    struct consensus *consensus;
    struct raft_io_append *request;
    raft_io_append_cb done;
};

/* After the core was closed this only lets libraft free its memory: status 0 takes the path without
 * truncation. */
static void append_done(void *data)
{
    struct append *append = data;
    struct consensus *consensus = append->consensus;
    struct raft_io_append *request = append->request;
    raft_io_append_cb done = append->done;
    /* S16: libraft takes up the change that was stored just now, though a newer one is in the log,
     * and may find it committed already. */
    bool changes = consensus->raft.configuration_uncommitted_index != 0;

    free(append);
    core_enter(consensus);
    done(request, 0);
    if (!consensus->closed_core && !consensus->failed) {
        if (changes || consensus->raft.configuration_uncommitted_index != 0)
            membership_settle(&consensus->safety.membership);
        safety_replay(&consensus->safety);
    }
    core_leave(consensus);
}

static int io_append(struct raft_io *io, struct raft_io_append *req,
                     const struct raft_entry entries[], unsigned n, raft_io_append_cb cb)
{
    struct consensus *consensus = of_io(io);
    struct append *append = check_alloc(sizeof(*append));

    /* libraft appends at the end of its log, so the first of n entries lies n before the end. */
    *append = (struct append){consensus, req, cb};
    wal_append(&consensus->wal, raft_last_index(&consensus->raft) - n + 1, entries, n, append_done,
               append);
    return 0;
}

static int io_truncate(struct raft_io *io, raft_index index)
{
    wal_truncate(&of_io(io)->wal, index);
    return 0;
}

void core_wal_failed(void *context, const struct err *err)
{
    struct consensus *consensus = context;

    core_fail(consensus, err);
    core_report_failure(consensus);
}

/* ---- term and vote ---- */

/* A failure is not returned: libraft would free what it has not allocated (convertToCandidate
 * leaves half a follower). It is told to the program, which exits; until then nothing is sent,
 * written or applied any more. */
static int vote_write(struct consensus *consensus, uint64_t term, uint64_t voted_for)
{
    uint64_t begun_us = core_now_us(consensus);
    struct err err;

    if (consensus->failed)
        return 0;
    if (vote_save(&consensus->vote, term, voted_for, &err) == 0) {
        consensus->vote_write_us = core_now_us(consensus) - begun_us;
        return 0;
    }
    core_fail(consensus, &err);
    core_report_failure(consensus);
    return 0;
}

static int io_set_term(struct raft_io *io, raft_term term)
{
    return vote_write(of_io(io), term, 0);
}

static int io_set_vote(struct raft_io *io, raft_id server_id)
{
    struct consensus *consensus = of_io(io);

    return vote_write(consensus, consensus->vote.term, server_id);
}

/* ---- the rest ---- */

static int io_init(struct raft_io *io, raft_id id, const char *address)
{
    (void)io;
    (void)id;
    (void)address;
    return 0;
}

/* Everything that libraft still waits for comes back before its memory goes. */
static void io_close(struct raft_io *io, raft_io_close_cb cb)
{
    struct consensus *consensus = of_io(io);

    consensus->closed_core = true;
    if (consensus->wal_opened)
        wal_close(&consensus->wal);
    consensus->wal_opened = false;
    transfer_close(&consensus->transfer);
    if (consensus->put != NULL) {
        struct raft_io_snapshot_put *put = consensus->put;
        consensus->put = NULL;
        consensus->put_done(put, RAFT_CANCELED);
        raft_free(consensus->put_bufs);
        consensus->put_bufs = NULL;
    }
    core_deferred_run(consensus);
    cb(io);
}

static int io_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick, raft_io_recv_cb recv)
{
    struct consensus *consensus = of_io(io);

    (void)msecs;
    consensus->tick = tick;
    consensus->safety.receive = recv;
    return 0;
}

static int io_bootstrap(struct raft_io *io, const struct raft_configuration *conf)
{
    (void)io;
    (void)conf;
    return RAFT_INVALID; /* consensus_open() does it, with the identity last */
}

/* The file is opened when libraft's call is over, for its callback must not run inside. */
static int io_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *req,
                           raft_io_snapshot_get_cb cb)
{
    struct deferred *deferred = deferred_new(of_io(io), DEFERRED_GET);

    deferred->get = req;
    deferred->got = cb;
    return 0;
}

static raft_time io_time(struct raft_io *io)
{
    return core_now_ms(of_io(io));
}

/* libraft draws only its election timeout, from once to twice the configured one: for candidates,
 * and for followers until they know a leader (S21). The first half is enough to keep few members
 * apart, whose pre-votes collide at the cost of one more try. */
static int io_random(struct raft_io *io, int min, int max)
{
    const struct random_ops *random = of_io(io)->config.random;
    uint32_t value;

    CHECK(min <= max);
    random->fill(random->context, &value, sizeof(value));
    return min + (int)(value % (uint32_t)((max - min) / 2 + 1));
}

void core_io_init(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    consensus->io = (struct raft_io){
        .version = 1,
        .impl = consensus,
        .init = io_init,
        .close = io_close,
        .load = core_io_load,
        .start = io_start,
        .bootstrap = io_bootstrap,
        .recover = io_bootstrap,
        .set_term = io_set_term,
        .set_vote = io_set_vote,
        .send = io_send,
        .append = io_append,
        .truncate = io_truncate,
        .snapshot_put = core_io_snapshot_put,
        .snapshot_get = io_snapshot_get,
        .time = io_time,
        .random = io_random,
    };
}
