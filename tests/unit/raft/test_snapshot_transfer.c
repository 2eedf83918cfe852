/* Snapshots on their way to a member whose disk or connection is slow (L5). */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

/* Two of three members go on until the third one, which is down, needs a snapshot with so large a
 * state. */
static struct cluster *cluster_ahead(uint64_t seed, uint64_t ballast_bytes, unsigned *ret_leader,
                                     unsigned *ret_late)
{
    struct cluster *cluster = cluster_new(seed, 3);

    cluster->config.snapshot_after_entries = 100;    /* and so many stay behind one */
    cluster->config.snapshot_after_bytes = 64 << 20; /* however large the state is */
    for (unsigned i = 0; i < 3; i++) {
        cluster->nodes[i].ballast_bytes = ballast_bytes;
        cluster_start(cluster, i, true);
    }
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    *ret_leader = (unsigned)cluster_leader(cluster);
    *ret_late = (*ret_leader + 1) % 3;
    cluster_kill(cluster, *ret_late);
    for (unsigned i = 0; i < 3; i++) {
        cluster_propose_many(cluster, 150);
        cluster_run(cluster, 5 * SECOND_US);
    }
    return cluster;
}

/* ---- a slow disk ---- */

static struct {
    struct cluster_node *node;
    struct disk_ops disk; /* the real one */
    uint64_t last_us;     /* the last piece's job takes so long */
    const struct disk_file *file;
    uint64_t unsynced_bytes, unsynced_bytes_max;
} slow;

static void submit_late(void *data)
{
    slow.disk.submit(slow.disk.context, data);
}

static void submit_slow(void *context, struct disk_job *job)
{
    struct consensus *consensus = slow.node->consensus;

    if (consensus != NULL && job == &consensus->transfer.in.job &&
        consensus->transfer.in.written_bytes + consensus->transfer.in.chunks[0].length ==
            consensus->transfer.in.size_bytes)
        sim_after(slow.node->cluster->sim, slow.node->number, slow.last_us, submit_late, job);
    else
        slow.disk.submit(context, job);
}

static int open_watched(void *context, const char *path, enum disk_open_mode mode,
                        struct disk_file **ret_file, struct err *err)
{
    int status = slow.disk.open(context, path, mode, ret_file, err);

    if (status == 0 && mode == DISK_OPEN_CREATE && strstr(path, TRANSFER_FILE) != NULL)
        slow.file = *ret_file;
    return status;
}

static int write_watched(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                         struct err *err)
{
    if (file == slow.file)
        slow.unsynced_bytes += length;
    if (slow.unsynced_bytes > slow.unsynced_bytes_max)
        slow.unsynced_bytes_max = slow.unsynced_bytes;
    return slow.disk.write(file, offset, bytes, length, err);
}

static int sync_watched(struct disk_file *file, struct err *err)
{
    if (file == slow.file)
        slow.unsynced_bytes = 0;
    return slow.disk.sync(file, err);
}

static void slow_disk(struct cluster_node *node, uint64_t last_us)
{
    memset(&slow, 0, sizeof(slow));
    slow.node = node;
    slow.disk = node->disk;
    slow.last_us = last_us;
    node->disk.submit = submit_slow;
    node->disk.open = open_watched;
    node->disk.write = write_watched;
    node->disk.sync = sync_watched;
}

/* Longer than TRANSFER_STALL_MS: nothing moves, but the file is good, and another stream of it
 * would take as long. */
static void a_last_piece_that_takes_a_minute_fills_the_member_all_the_same(void **state)
{
    unsigned leader, late;
    struct cluster *cluster = cluster_ahead(31, 3000000, &leader, &late);
    const struct transfer *transfer = &cluster->nodes[leader].consensus->transfer;

    (void)state;
    assert_uint_equal(transfer->stream_last, 0);
    slow_disk(&cluster->nodes[late], 65 * (uint64_t)SECOND_US);
    cluster_start(cluster, late, false);
    cluster_run(cluster, 60 * SECOND_US);
    assert_uint_equal(cluster->nodes[late].restored, 0);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_uint_equal(cluster->nodes[late].restored, 1);
    assert_int_equal(cluster_leader(cluster), (int)leader);
    assert_uint_equal(transfer->stream_last, 1);
    cluster_free(cluster);
}

/* But not for ever: its leader would keep the file open and put its own snapshots off for it. What
 * comes back in the end is good all the same. */
static void a_receiver_whose_disk_hangs_lets_the_stream_end(void **state)
{
    unsigned leader, late;
    struct cluster *cluster = cluster_ahead(34, 3000000, &leader, &late);
    const struct transfer *transfer = &cluster->nodes[leader].consensus->transfer;

    (void)state;
    slow_disk(&cluster->nodes[late], 720 * (uint64_t)SECOND_US);
    cluster_start(cluster, late, false);
    cluster_run(cluster, 590 * (uint64_t)SECOND_US);
    assert_uint_equal(transfer->stream_last, 1);
    cluster_run(cluster, 60 * SECOND_US);
    assert_true(transfer->stream_last > 1);
    assert_uint_equal(cluster->nodes[late].restored, 0);
    cluster_run(cluster, 60 * SECOND_US);
    assert_true(cluster_run_until_equal(cluster, 60 * SECOND_US));
    assert_uint_equal(cluster->nodes[late].restored, 1);
    assert_int_equal(cluster_leader(cluster), (int)leader);
    cluster_free(cluster);
}

/* Or the last piece waits for all of it to reach the disk, and what is written to the log meanwhile
 * does too. */
static void what_arrives_is_synced_in_parts(void **state)
{
    unsigned leader, late;
    struct cluster *cluster = cluster_ahead(32, 13000000, &leader, &late);

    (void)state;
    slow_disk(&cluster->nodes[late], 0);
    cluster_start(cluster, late, false);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    assert_uint_equal(cluster->nodes[late].restored, 1);
    assert_uint_equal(slow.unsynced_bytes, 0);
    assert_uint_equal(slow.unsynced_bytes_max, TRANSFER_SYNC_BYTES);
    cluster_free(cluster);
}

/* ---- a connection that is replaced ---- */

enum { DIALS_MAX = 8 };

/* The late member's connections to the leader. */
static struct dial {
    struct network_events events;
    struct network_stream *stream;
    bool lost; /* it has been told so; the other end has not */
} dials[DIALS_MAX];
static unsigned dial_count;
static bool unread; /* what is sent on the first one from now on is never read */
static const char *dialled_address;
static struct network_ops dial_network; /* the real one */

static void dial_opened(void *data)
{
    const struct dial *dial = data;

    dial->events.opened(dial->events.data);
}

static void dial_received(void *data, const uint8_t *bytes, size_t length)
{
    const struct dial *dial = data;

    if (!dial->lost)
        dial->events.received(dial->events.data, bytes, length);
}

static void dial_closed(void *data, const struct err *err)
{
    const struct dial *dial = data;

    if (!dial->lost)
        dial->events.closed(dial->events.data, err);
}

static struct network_stream *connect_noted(void *context, const char *address,
                                            const struct network_events *events)
{
    struct dial *dial = &dials[dial_count];
    struct network_events own = {
        .data = dial, .opened = dial_opened, .received = dial_received, .closed = dial_closed};

    if (strcmp(address, dialled_address) != 0)
        return dial_network.connect(context, address, events);
    assert_true(dial_count++ < DIALS_MAX);
    dial->events = *events;
    dial->stream = dial_network.connect(context, address, &own);
    return dial->stream;
}

static void send_unread(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    if (unread && stream == dials[0].stream)
        free(take_bytes);
    else
        dial_network.send(stream, take_bytes, length);
}

/* The member finds its connection broken and dials again, and that arrives before the end of the
 * old one, whose acknowledgements nobody reads any more. Both would wait for TRANSFER_STALL_MS. */
static void a_snapshot_begins_again_when_its_receiver_dials_anew(void **state)
{
    static const struct err err = {ERR_UNAVAILABLE, "reset"};
    unsigned leader, late;
    struct cluster *cluster = cluster_ahead(33, 13000000, &leader, &late);
    const struct transfer_out *out = &cluster->nodes[leader].consensus->transfer.out[0];

    (void)state;
    memset(dials, 0, sizeof(dials));
    dial_count = 0;
    dialled_address = cluster->members[leader].address;
    dial_network = cluster->nodes[late].network;
    cluster->nodes[late].network.connect = connect_noted;
    cluster->nodes[late].network.send = send_unread;
    cluster_start(cluster, late, false);
    while (!out->active || out->acknowledged_bytes == 0)
        assert_true(cluster_step(cluster));
    unread = true;
    while (out->sent_bytes - out->acknowledged_bytes < TRANSFER_WINDOW_BYTES ||
           cluster->nodes[late].consensus->transfer.in.written_bytes < out->sent_bytes)
        assert_true(cluster_step(cluster));
    assert_true(out->sent_bytes < out->size_bytes);
    assert_int_equal(dial_count, 1);
    dials[0].lost = true;
    dials[0].events.closed(dials[0].events.data, &err);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    assert_uint_equal(cluster->nodes[late].restored, 1);
    assert_int_equal(cluster_leader(cluster), (int)leader);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_last_piece_that_takes_a_minute_fills_the_member_all_the_same),
        cmocka_unit_test(a_receiver_whose_disk_hangs_lets_the_stream_end),
        cmocka_unit_test(what_arrives_is_synced_in_parts),
        cmocka_unit_test(a_snapshot_begins_again_when_its_receiver_dials_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
