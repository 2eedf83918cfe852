/* Streams that clients keep open: one watches the events of the cluster, the others take a backup
 * and look at the events now and then, of any member.
 *
 * Flow     watch: every event once and in order, over all leaders, equal to what the state of the
 *          first member that applied it said (docs: resume after the last sequence seen). Backup:
 *          what arrived whole is read back as a restore would do, and its state is the one that
 *          everybody had at that index (I12). Look: a watch that does not follow; one that ends
 *          well has told every event that was acknowledged, with anything, before it was asked for
 *          (I7).
 * Shapes   one of each at a time; they begin again behind a pause when they end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/backup/backup.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/rpc/follow.h"
#include "tests/sim/world_internal.h"

enum {
    WATCH_AGAIN_MS = 200,
    BACKUP_EVERY_US = 8 * SECOND_US, /* at most */
    BACKUP_TIMEOUT_MS = 8000,
    LOOK_EVERY_US = SECOND_US / 4, /* at most */
    LOOK_TIMEOUT_MS = 2000
};

struct world_streams {
    struct world *world;
    struct clock_ops clock;
    struct clock_timer *again;
    struct rpc_follow *follow;
    struct rpc_client_call *watch, *backup, *look;
    uint64_t seen;                /* sequence of the last event */
    uint64_t look_due, look_seen; /* what the look has to tell at least, and has told */
    struct rpc_channel *channels[WORLD_MEMBERS_MAX];
    struct buf file;
};

static void send_last(struct rpc_client_call *call, const ProtobufCMessage *message)
{
    struct buf bytes;

    buf_init(&bytes);
    protobuf_c_message_pack(message,
                            buf_extend(&bytes, protobuf_c_message_get_packed_size(message)));
    (void)rpc_client_call_send(call, bytes.bytes, bytes.length);
    rpc_client_call_half_close(call);
    buf_close(&bytes);
}

/* ---- the watch ---- */

uint64_t streams_event_hash(const Ckpt__V1__Event *event, bool measures)
{
    Ckpt__V1__Event told = *event;
    uint8_t bytes[2048];
    size_t length;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (!measures)
        told.size_bytes = told.duration_ms = told.storage_micro_usd_per_month = 0;
    length = ckpt__v1__event__get_packed_size(&told);
    CHECK(length <= sizeof(bytes));
    ckpt__v1__event__pack(&told, bytes);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash | 1;
}

static void watch_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                          size_t length)
{
    struct world_streams *streams = data;
    struct world *world = streams->world;
    Ckpt__V1__Event *event = ckpt__v1__event__unpack(NULL, length, bytes);

    (void)call;
    CHECK(event != NULL);
    if (event->gap)
        world_violation(world, "WATCH", "a gap before event %" PRIu64, event->sequence);
    if (event->sequence != streams->seen + 1)
        world_violation(world, "WATCH", "event %" PRIu64 " after %" PRIu64, event->sequence,
                        streams->seen);
    if (!state_checks_event_is(world, event))
        world_violation(world, "WATCH", "event %" PRIu64 " of %s is told otherwise",
                        event->sequence, event->allocation_id);
    streams->seen = event->sequence;
    world->counts.watched++;
    ckpt__v1__event__free_unpacked(event, NULL);
}

static void watch_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct world_streams *streams = data;
    uint64_t delay_ms = 0;

    (void)call;
    streams->watch = NULL;
    if (end->status == RPC_INTERNAL || end->status == RPC_UNKNOWN ||
        end->status == RPC_INVALID_ARGUMENT)
        world_violation(streams->world, "API", "Watch ends with %s: %s",
                        rpc_status_name(end->status), end->message);
    (void)rpc_follow_result(streams->follow, end, &delay_ms);
    streams->clock.timer_start(streams->again, 1000 * (WATCH_AGAIN_MS + delay_ms));
}

static void watch_begin(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = watch_message,
                                                        .on_end = watch_end};
    struct world_streams *streams = data;
    Ckpt__V1__WatchRequest request = CKPT__V1__WATCH_REQUEST__INIT;

    if (streams->world->phase != WORLD_CHAOS)
        return;
    request.after_sequence = streams->seen;
    request.follow = !sim_chance(streams->world->sim, 8);
    streams->watch = rpc_channel_open(rpc_follow_channel(streams->follow),
                                      "/ckpt.v1.BrokerService/Watch", 0, false, &handlers, streams);
    send_last(streams->watch, &request.base);
}

/* ---- backups ---- */

struct piece {
    const struct buf *file;
    size_t at;
};

static int piece_read(void *context, void *bytes, size_t length, size_t *ret_length,
                      struct err *err)
{
    struct piece *piece = context;

    (void)err;
    *ret_length =
        piece->file->length - piece->at < length ? piece->file->length - piece->at : length;
    memcpy(bytes, piece->file->bytes + piece->at, *ret_length);
    piece->at += *ret_length;
    return 0;
}

static int content_read(void *context, void *bytes, size_t length)
{
    struct err err;

    return backup_reader_read(context, bytes, length, &err);
}

static void backup_check(struct world_streams *streams)
{
    struct world *world = streams->world;
    struct piece piece = {&streams->file, 0};
    const struct backup_source source = {&piece, "backup", piece_read};
    struct backup_reader *reader = NULL;
    struct fsm *fsm = fsm_new();
    struct fsm_summary summary;
    struct err err = {ERR_NONE, ""};
    char text[256] = "";

    if (backup_reader_open(&source, &reader, &err) != 0 ||
        fsm_snapshot_read(fsm, content_read, reader, text, sizeof(text)) != 0 ||
        backup_reader_finish(reader, &err) != 0)
        world_violation(world, "I12", "a backup that came whole is refused: %s%s", err.text, text);
    fsm_get_summary(fsm, &summary);
    if (backup_reader_header(reader)->index != summary.applied_index ||
        backup_reader_header(reader)->state_hash != summary.state_hash)
        world_violation(world, "I12", "a backup of index %" PRIu64 " says index %" PRIu64,
                        summary.applied_index, backup_reader_header(reader)->index);
    if (!state_checks_hash_is(world, summary.applied_index, summary.state_hash))
        world_violation(world, "I12", "a backup has another state at index %" PRIu64,
                        summary.applied_index);
    world->counts.backups++;
    backup_reader_free(reader);
    fsm_free(fsm);
}

static void backup_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                           size_t length)
{
    struct world_streams *streams = data;
    Ckpt__V1__BackupChunk *chunk = ckpt__v1__backup_chunk__unpack(NULL, length, bytes);

    (void)call;
    CHECK(chunk != NULL);
    buf_append(&streams->file, chunk->data.data, chunk->data.len);
    ckpt__v1__backup_chunk__free_unpacked(chunk, NULL);
}

static void backup_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct world_streams *streams = data;

    (void)call;
    streams->backup = NULL;
    if (end->status == RPC_OK)
        backup_check(streams);
    else if ((end->status == RPC_INTERNAL &&
              strstr(end->message, "BACKUP_FAILED") == NULL) || /* the member's disk */
             end->status == RPC_UNKNOWN ||
             end->status == RPC_INVALID_ARGUMENT)
        world_violation(streams->world, "API", "Backup ends with %s: %s",
                        rpc_status_name(end->status), end->message);
}

static struct rpc_channel *channel_to(struct world_streams *streams, unsigned member)
{
    char address[32];

    snprintf(address, sizeof(address), "member%u:7443", member + 1);
    if (streams->channels[member] == NULL)
        streams->channels[member] =
            rpc_channel_new(&streams->world->scheduler_loops[0].uv, address, NULL);
    return streams->channels[member];
}

static void backup_begin(struct world_streams *streams, unsigned member)
{
    static const struct rpc_client_handlers handlers = {.on_message = backup_message,
                                                        .on_end = backup_end};
    Ckpt__V1__BackupRequest request = CKPT__V1__BACKUP_REQUEST__INIT;

    streams->file.length = 0;
    request.linearizable = sim_chance(streams->world->sim, 2);
    streams->backup =
        rpc_channel_open(channel_to(streams, member), "/ckpt.v1.OperatorService/Backup",
                         BACKUP_TIMEOUT_MS, true, &handlers, streams);
    send_last(streams->backup, &request.base);
}

static void backup_due(void *data)
{
    struct world_streams *streams = data;
    struct world *world = streams->world;
    unsigned before;

    if (world->phase != WORLD_CHAOS)
        return;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, BACKUP_EVERY_US), backup_due,
              streams);
    if (streams->backup != NULL)
        return;
    before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);
    backup_begin(streams, (unsigned)sim_random(world->sim, world->options.replicas));
    sim_leave(world->sim, before);
}

/* ---- looks ---- */

static void look_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct world_streams *streams = data;
    Ckpt__V1__Event *event = ckpt__v1__event__unpack(NULL, length, bytes);

    (void)call;
    CHECK(event != NULL);
    streams->look_seen = event->sequence;
    ckpt__v1__event__free_unpacked(event, NULL);
}

static void look_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct world_streams *streams = data;

    (void)call;
    streams->look = NULL;
    if (end->status == RPC_OK && streams->look_seen < streams->look_due)
        world_violation(streams->world, "I7",
                        "a watch ends well behind event %" PRIu64 "; event %" PRIu64
                        " was acknowledged before it was asked for",
                        streams->look_seen, streams->look_due);
}

static void look_begin(struct world_streams *streams, unsigned member)
{
    static const struct rpc_client_handlers handlers = {.on_message = look_message,
                                                        .on_end = look_end};
    Ckpt__V1__WatchRequest request = CKPT__V1__WATCH_REQUEST__INIT;
    struct world *world = streams->world;

    streams->look_due = state_checks_events_by(world, history_acknowledged(world));
    streams->look_seen = streams->look_due == 0 ? 0 : streams->look_due - 1;
    request.after_sequence = streams->look_seen;
    streams->look = rpc_channel_open(channel_to(streams, member), "/ckpt.v1.BrokerService/Watch",
                                     LOOK_TIMEOUT_MS, false, &handlers, streams);
    send_last(streams->look, &request.base);
}

static void look_due(void *data)
{
    struct world_streams *streams = data;
    struct world *world = streams->world;
    unsigned before;

    if (world->phase != WORLD_CHAOS)
        return;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, LOOK_EVERY_US), look_due,
              streams);
    if (streams->look != NULL)
        return;
    before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);
    look_begin(streams, (unsigned)sim_random(world->sim, world->options.replicas));
    sim_leave(world->sim, before);
}

/* ---- life ---- */

void streams_start(struct world *world)
{
    struct world_streams *streams;
    unsigned before;
    struct err err;

    if (!world->options.streams)
        return;
    before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);
    streams = check_calloc(1, sizeof(*streams));
    streams->world = world;
    buf_init(&streams->file);
    sim_node_clock(world->sim, WORLD_SCHEDULER_NODE, &streams->clock);
    streams->again = streams->clock.timer_new(streams->clock.context, watch_begin, streams);
    CHECK(rpc_follow_new(&world->scheduler_loops[0].uv, world->endpoints, NULL, &streams->follow,
                         &err) == 0);
    world->streams = streams;
    streams->clock.timer_start(streams->again, SECOND_US);
    sim_leave(world->sim, before);
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, BACKUP_EVERY_US), backup_due,
              streams);
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, LOOK_EVERY_US), look_due,
              streams);
}

void streams_close(struct world *world)
{
    struct world_streams *streams = world->streams;

    if (streams == NULL)
        return;
    if (streams->watch != NULL)
        rpc_client_call_cancel(streams->watch);
    if (streams->backup != NULL)
        rpc_client_call_cancel(streams->backup);
    if (streams->look != NULL)
        rpc_client_call_cancel(streams->look);
    streams->clock.timer_free(streams->again);
    rpc_follow_free(streams->follow);
    for (unsigned i = 0; i < WORLD_MEMBERS_MAX; i++)
        if (streams->channels[i] != NULL)
            rpc_channel_free(streams->channels[i]);
    buf_close(&streams->file);
    free(streams);
}
