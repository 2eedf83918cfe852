/* Identity, term and vote, snapshots: the rest of the data folder, on a simulated disk. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "raft/log/vote.h"
#include "raft/snap/snapshot.h"
#include "raft/snap/snapshot_format.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "tests/unit/raft/cluster.h"

struct fixture {
    struct sim *sim;
    struct disk_ops disk;
    struct folder folder;
};

static void fixture_open(struct fixture *f)
{
    struct err err;

    memset(f, 0, sizeof(*f));
    f->sim = sim_new(1);
    sim_node_disk(f->sim, 0, &f->disk);
    assert_int_equal(
        folder_open(&f->folder, &f->disk, "/d", &(struct folder_owner){"c1", 7}, true, &err), 0);
}

static void fixture_close(struct fixture *f)
{
    folder_close(&f->folder);
    sim_free(f->sim);
}

/* ---- identity and lock ---- */

static void a_folder_serves_one_process(void **state)
{
    struct fixture f;
    struct folder second;
    struct err err;

    (void)state;
    fixture_open(&f);
    assert_int_equal(
        folder_open(&second, &f.disk, "/d", &(struct folder_owner){"c1", 7}, true, &err), -1);
    assert_int_equal(err.code, ERR_LOCKED);
    fixture_close(&f);
}

static void another_members_or_clusters_folder_is_refused(void **state)
{
    struct fixture f;
    struct err err;

    (void)state;
    fixture_open(&f);
    assert_false(f.folder.claimed);
    assert_int_equal(folder_claim(&f.folder, &err), 0);
    folder_close(&f.folder);
    assert_int_equal(
        folder_open(&f.folder, &f.disk, "/d", &(struct folder_owner){"c1", 8}, false, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_int_equal(
        folder_open(&f.folder, &f.disk, "/d", &(struct folder_owner){"c2", 7}, false, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_int_equal(
        folder_open(&f.folder, &f.disk, "/d", &(struct folder_owner){"c1", 7}, false, &err), 0);
    assert_true(f.folder.claimed);
    fixture_close(&f);
}

static void a_damaged_identity_is_refused_at_every_byte(void **state)
{
    struct fixture f;
    struct err err;
    size_t length = 0;

    (void)state;
    fixture_open(&f);
    assert_int_equal(folder_claim(&f.folder, &err), 0);
    folder_close(&f.folder);
    (void)sim_file(f.sim, 0, "identity", &length);
    for (size_t i = 0; i < length; i++) {
        sim_file(f.sim, 0, "identity", &length)[i] ^= 1;
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/d", &(struct folder_owner){"c1", 7}, false, &err),
            -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        sim_file(f.sim, 0, "identity", &length)[i] ^= 1;
    }
    sim_free(f.sim);
}

/* ---- term and vote (I8) ---- */

static void a_vote_is_there_after_a_power_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct sim *sim = sim_new(seed);
        struct disk_ops disk;
        struct folder folder;
        struct vote_store vote;
        struct err err;
        uint64_t term = 0, saved_term = 0, saved_vote = 0, next_vote = 0;

        sim_node_disk(sim, 0, &disk);
        assert_int_equal(
            folder_open(&folder, &disk, "/d", &(struct folder_owner){"c", 1}, true, &err), 0);
        assert_int_equal(vote_open(&vote, &folder, true, &err), 0);
        sim_disk_die_after(sim, 0, 1 + sim_random(sim, 30));
        for (;;) {
            next_vote = next_vote == 0 && term > 0 ? 1 + sim_random(sim, 3) : 0;
            if (next_vote == 0)
                term++;
            if (vote_save(&vote, term, next_vote, &err) != 0)
                break;
            saved_term = term;
            saved_vote = next_vote;
        }
        vote_close(&vote);
        folder_close(&folder);
        sim_crash(sim, 0);
        assert_int_equal(
            folder_open(&folder, &disk, "/d", &(struct folder_owner){"c", 1}, true, &err), 0);
        assert_int_equal(vote_open(&vote, &folder, false, &err), 0);
        if (!(vote.term == saved_term && vote.voted_for == saved_vote)) {
            assert_uint_equal(vote.term, term);
            assert_uint_equal(vote.voted_for, next_vote);
        }
        vote_close(&vote);
        folder_close(&folder);
        sim_free(sim);
    }
}

static void one_rotten_copy_of_the_vote_changes_nothing_and_two_are_refused(void **state)
{
    struct fixture f;
    struct vote_store vote;
    struct err err;
    size_t length;

    (void)state;
    fixture_open(&f);
    assert_int_equal(vote_open(&vote, &f.folder, true, &err), 0);
    assert_int_equal(vote_save(&vote, 9, 3, &err), 0);
    for (size_t copy = 0; copy < 2; copy++) {
        vote_close(&vote);
        sim_file(f.sim, 0, "vote", &length)[copy * 4096 + 25] ^= 4;
        assert_int_equal(vote_open(&vote, &f.folder, false, &err), 0);
        assert_uint_equal(vote.term, 9);
        assert_uint_equal(vote.voted_for, 3);
    }
    vote_close(&vote);
    sim_file(f.sim, 0, "vote", &length)[25] ^= 4;
    sim_file(f.sim, 0, "vote", &length)[4096 + 25] ^= 4;
    assert_int_equal(vote_open(&vote, &f.folder, false, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    fixture_close(&f);
}

/* ---- snapshots ---- */

static int file_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct buf *buf = context;

    (void)err;
    buf_append(buf, bytes, length);
    return 0;
}

static int content_write(void *context, const struct consensus_writer *writer, struct err *err)
{
    const uint32_t *count = context;

    for (uint32_t i = 0; i < *count; i++)
        if (writer->write(writer->context, &i, sizeof(i), err) != 0)
            return -1;
    return 0;
}

static int content_read(void *context, const struct consensus_reader *reader, struct err *err)
{
    const uint32_t *count = context;
    uint32_t value;

    for (uint32_t i = 0; i < *count; i++) {
        if (reader->read(reader->context, &value, sizeof(value), err) != 0)
            return -1;
        assert_uint_equal(value, i);
    }
    return 0;
}

static void keep(struct fixture *f, uint64_t index, uint32_t count)
{
    struct snapshot_meta meta = {.index = index, .term = 2, .configuration_index = 1};
    struct buf buf = {0};
    struct consensus_writer raw = {&buf, file_write};
    struct disk_file *file;
    struct err err;
    char path[FOLDER_PATH_BYTES];

    raft_configuration_init(&meta.configuration);
    assert_int_equal(raft_configuration_add(&meta.configuration, 7, "n7", RAFT_VOTER), 0);
    assert_int_equal(snapshot_write(&raw, &meta, content_write, &count, &err), 0);
    folder_path(&f->folder, "tmp-x", path);
    assert_int_equal(f->disk.open(f->disk.context, path, DISK_OPEN_CREATE, &file, &err), 0);
    assert_int_equal(f->disk.write(file, 0, buf.bytes, buf.length, &err), 0);
    f->disk.close(file);
    buf_close(&buf);
    snapshot_meta_close(&meta);
    assert_int_equal(snapshot_keep_work(&f->folder, "tmp-x", index, 2, &err), 0);
}

static void a_snapshot_reads_back_and_the_newest_two_are_kept(void **state)
{
    struct fixture f;
    struct snapshot_name names[8];
    struct snapshot_meta meta;
    struct err err;
    uint32_t size = 200000;
    char path[FOLDER_PATH_BYTES];
    size_t count;

    (void)state;
    fixture_open(&f);
    keep(&f, 10, 5);
    keep(&f, 20, 0);
    keep(&f, 300, size);
    assert_int_equal(snapshot_list(&f.folder, names, 8, &count, &err), 0);
    assert_uint_equal(count, 2);
    assert_uint_equal(names[0].index, 300);
    assert_uint_equal(names[1].index, 20);
    snapshot_path(&f.folder, 300, 2, path);
    assert_int_equal(snapshot_verify(&f.folder, path, &meta, &err), 0);
    assert_uint_equal(meta.configuration.n, 1);
    assert_string_equal(meta.configuration.servers[0].address, "n7");
    snapshot_meta_close(&meta);
    assert_int_equal(snapshot_read(&f.folder, path, content_read, &size, &err), 0);
    size++; /* one more than there is */
    assert_int_equal(snapshot_read(&f.folder, path, content_read, &size, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    fixture_close(&f);
}

static void a_damaged_or_short_snapshot_is_refused_at_every_byte(void **state)
{
    struct fixture f;
    struct err err;
    char path[FOLDER_PATH_BYTES];
    const char *name;
    size_t length = 0;

    (void)state;
    fixture_open(&f);
    keep(&f, 10, 50);
    snapshot_path(&f.folder, 10, 2, path);
    name = sim_file_name(f.sim, 0, "snapshot-", 0);
    (void)sim_file(f.sim, 0, name, &length);
    for (size_t i = 0; i < length; i++) {
        sim_file(f.sim, 0, name, &length)[i] ^= 8;
        assert_int_equal(snapshot_verify(&f.folder, path, NULL, &err), -1);
        sim_file(f.sim, 0, name, &length)[i] ^= 8;
    }
    assert_int_equal(snapshot_verify(&f.folder, path, NULL, &err), 0);
    for (size_t cut = length; cut-- > 0;) {
        struct disk_file *file;
        assert_int_equal(f.disk.open(f.disk.context, path, DISK_OPEN_WRITE, &file, &err), 0);
        assert_int_equal(f.disk.truncate(file, cut, &err), 0);
        f.disk.close(file);
        assert_int_equal(snapshot_verify(&f.folder, path, NULL, &err), -1);
    }
    fixture_close(&f);
}

/* Who wrote it was wrong, not the disk: the sums are right. */
static void a_snapshot_whose_members_are_of_later_is_refused(void **state)
{
    struct snapshot_meta meta = {.index = 10, .term = 2, .configuration_index = 10}, got;
    struct buf buf = {0};
    struct err err;
    size_t length;

    (void)state;
    raft_configuration_init(&meta.configuration);
    assert_int_equal(raft_configuration_add(&meta.configuration, 7, "n7", RAFT_VOTER), 0);
    snapshot_header_encode(&meta, &buf);
    assert_int_equal(snapshot_header_decode(buf.bytes, buf.length, "x", &got, &length, &err), 0);
    snapshot_meta_close(&got);
    buf_close(&buf);
    buf = (struct buf){0};
    meta.configuration_index = 11;
    snapshot_header_encode(&meta, &buf);
    assert_int_equal(snapshot_header_decode(buf.bytes, buf.length, "x", &got, &length, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    buf_close(&buf);
    snapshot_meta_close(&meta);
}

/* ---- the whole member ---- */

enum { SECOND_US = 1000000 };

static struct cluster *one_member_with_snapshots(void)
{
    struct cluster *cluster = cluster_new(3, 1);

    cluster_start(cluster, 0, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    for (int i = 0; i < 350; i++) {
        assert_true(cluster_propose(cluster));
        cluster_run(cluster, 20000);
    }
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    return cluster;
}

static unsigned snapshots_here(struct cluster *cluster)
{
    unsigned count = 0;

    while (sim_file_name(cluster->sim, 0, "snapshot-", count) != NULL)
        count++;
    return count;
}

/* Names sort by index. */
static void rot_snapshot(struct cluster *cluster, unsigned which)
{
    size_t length;
    uint8_t *bytes =
        sim_file(cluster->sim, 0, sim_file_name(cluster->sim, 0, "snapshot-", which), &length);

    bytes[length / 2] ^= 1;
}

static void a_rotten_newest_snapshot_is_replaced_by_the_previous_and_the_log(void **state)
{
    struct cluster *cluster = one_member_with_snapshots();

    (void)state;
    cluster_kill(cluster, 0);
    assert_true(snapshots_here(cluster) >= 2);
    rot_snapshot(cluster, snapshots_here(cluster) - 1);
    cluster_start(cluster, 0, false);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    assert_uint_equal(cluster->nodes[0].state.entries, 350);
    assert_non_null(sim_file_name(cluster->sim, 0, "damaged-", 0));
    cluster_free(cluster);
}

/* Another file that ends where the newest does, as a copied folder may hold. */
static void a_second_snapshot_of_the_same_index_changes_nothing(void **state)
{
    struct cluster *cluster = one_member_with_snapshots();
    const struct disk_ops *disk = &cluster->nodes[0].disk;
    struct disk_file *file;
    struct err err;
    char path[64];
    const char *name;
    uint8_t *bytes, *copy;
    size_t length;

    (void)state;
    cluster_kill(cluster, 0);
    name = sim_file_name(cluster->sim, 0, "snapshot-", snapshots_here(cluster) - 1);
    bytes = sim_file(cluster->sim, 0, name, &length);
    copy = memcpy(check_alloc(length), bytes, length);
    snprintf(path, sizeof(path), "/sim/%.26s%016x", name, 0);
    assert_int_equal(disk->open(disk->context, path, DISK_OPEN_CREATE, &file, &err), 0);
    assert_int_equal(disk->write(file, 0, copy, length, &err), 0);
    disk->close(file);
    free(copy);
    cluster_start(cluster, 0, false);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    assert_uint_equal(cluster->nodes[0].state.entries, 350);
    cluster_free(cluster);
}

/* Without any good snapshot and with a log that no longer begins at 1 the member must not start. */
static void rotten_snapshots_without_a_log_are_refused(void **state)
{
    struct cluster *cluster = one_member_with_snapshots();
    struct err err;

    (void)state;
    cluster_kill(cluster, 0);
    for (unsigned i = 0; i < snapshots_here(cluster); i++)
        rot_snapshot(cluster, i);
    while (sim_file_name(cluster->sim, 0, "wal-", 0) != NULL) {
        char path[64];
        snprintf(path, sizeof(path), "/sim/%s", sim_file_name(cluster->sim, 0, "wal-", 0));
        assert_int_equal(cluster->nodes[0].disk.unlink(cluster->nodes[0].disk.context, path, &err),
                         0);
    }
    assert_int_equal(cluster_try_start(cluster, 0, false, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "new id"));
    cluster_free(cluster);
}

static void bootstrap_and_start_check_what_the_folder_holds(void **state)
{
    struct cluster *cluster = cluster_new(4, 1);
    struct err err;

    (void)state;
    assert_int_equal(cluster_try_start(cluster, 0, false, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    cluster_start(cluster, 0, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_kill(cluster, 0);
    assert_int_equal(cluster_try_start(cluster, 0, true, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    cluster_start(cluster, 0, false);
    cluster_free(cluster);
}

/* A bootstrap that dies anywhere is either whole or can be done again. */
static void bootstrap_may_be_cut_short_anywhere(void **state)
{
    (void)state;
    for (uint64_t operations = 1; operations < 60; operations++) {
        struct cluster *cluster = cluster_new(operations, 1);
        struct err err;

        sim_disk_die_after(cluster->sim, 0, operations);
        if (cluster_try_start(cluster, 0, true, &err) == 0)
            cluster_run(cluster, 3 * SECOND_US); /* it listens before it begins */
        if (cluster->nodes[0].consensus != NULL)
            cluster_kill(cluster, 0);
        else
            sim_crash(cluster->sim, 0);
        sim_disk_die_after(cluster->sim, 0, 0);
        if (cluster_try_start(cluster, 0, false, &err) != 0) {
            if (err.code != ERR_NOT_FOUND)
                fail_msg("operation %u: %s", (unsigned)operations, err.text);
            cluster_start(cluster, 0, true);
        }
        assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
        assert_true(cluster_propose(cluster));
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        cluster_free(cluster);
    }
}

/* What the disk does not read is neither damaged nor absent: the member says where it was, and
 * changes nothing. Returns whether it runs. */
static bool started_beside_a_read_error(struct cluster *cluster, uint64_t reads)
{
    struct err err;
    bool runs;

    sim_disk_fail_read_after(cluster->sim, 0, reads);
    runs = cluster_try_start(cluster, 0, false, &err) == 0;
    if (runs) {
        sim_disk_fail_read_after(cluster->sim, 0, 0);
        return true;
    }
    if (err.code != ERR_DISK || strstr(err.text, "/sim") == NULL)
        fail_msg("read %u: %s: %s", (unsigned)reads, err_code_name(err.code), err.text);
    sim_crash(cluster->sim, 0);
    return false;
}

enum { READS_OF_A_START = 60 };

static void a_read_that_fails_at_a_start_is_told_with_its_place(void **state)
{
    struct cluster *cluster = one_member_with_snapshots();
    unsigned refused = 0;

    (void)state;
    cluster_kill(cluster, 0);
    for (uint64_t reads = 1; reads < READS_OF_A_START; reads++) {
        if (started_beside_a_read_error(cluster, reads))
            cluster_kill(cluster, 0);
        else
            refused++;
    }
    assert_true(refused >= 10);
    assert_null(sim_file_name(cluster->sim, 0, "damaged-", 0));
    cluster_start(cluster, 0, false);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    assert_uint_equal(cluster->nodes[0].state.entries, 350);
    cluster_free(cluster);
}

static void a_member_without_its_vote_is_refused(void **state)
{
    struct cluster *cluster = one_member_with_snapshots();
    struct err err;

    (void)state;
    cluster_kill(cluster, 0);
    sim_file_lose(cluster->sim, 0, "vote");
    assert_int_equal(cluster_try_start(cluster, 0, false, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "new id"));
    cluster_free(cluster);
}

/* A snapshot that rotted, or went away, while its member runs: whom it cannot fill gets another
 * one, which is taken for that. */
static void a_leader_without_a_good_snapshot_takes_another_for_who_needs_it(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct cluster *cluster = cluster_new(6, 3);
        struct consensus_status status;
        const char *name;
        size_t length;
        int leader;

        for (unsigned i = 0; i < 3; i++)
            cluster_start(cluster, i, true);
        assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
        leader = cluster_leader(cluster);
        cluster_kill(cluster, (unsigned)(leader + 1) % 3);
        for (int i = 0; i < 350; i++) {
            assert_true(cluster_propose(cluster));
            cluster_run(cluster, 20000);
        }
        assert_int_equal(cluster_leader(cluster), leader);
        for (unsigned i = 0;
             (name = sim_file_name(cluster->sim, (unsigned)leader, "snapshot-", i)) != NULL;)
            if (lost == 0)
                sim_file(cluster->sim, (unsigned)leader, name, &length)[length / 2] ^= 1, i++;
            else
                sim_file_lose(cluster->sim, (unsigned)leader, name);
        cluster_start(cluster, (unsigned)(leader + 1) % 3, false);
        cluster_run(cluster, SECOND_US);
        consensus_get_status(cluster->nodes[leader].consensus, &status);
        assert_true(status.snapshot_unreadable_total > 0); /* and it says what and where */
        assert_non_null(strstr(status.snapshot_unreadable_error, "/snapshot-"));
        assert_true(lost == 1 || strstr(status.snapshot_unreadable_error, " offset ") != NULL);
        assert_true(cluster_propose(cluster)); /* it is taken behind the next entry */
        assert_true(cluster_run_until_equal(cluster, SECOND_US)); /* and goes to it at once */
        cluster_free(cluster);
    }
}

/* The one that it installs ends before the one that it is to get next, which could not be read: its
 * answer would be that of a member that is still at it, and libraft would leave it alone for 10 s.
 * It is asked again, also while it refuses what it has no place for yet. */
static void a_member_that_installs_one_while_the_next_cannot_be_read_is_asked_again(void **state)
{
    struct cluster *cluster = cluster_new(7, 3);
    const struct consensus *leads, *installs;
    const struct raft_progress *progress;
    struct consensus_status status;
    unsigned leader, late;
    uint64_t taken;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    leader = (unsigned)cluster_leader(cluster);
    late = (leader + 1) % 3;
    leads = cluster->nodes[leader].consensus;
    cluster_kill(cluster, late);
    cluster_propose_many(cluster, 350);
    cluster_run(cluster, SECOND_US);
    cluster_start(cluster, late, false);
    installs = cluster->nodes[late].consensus;
    while (!installs->transfer.in.working) /* its only piece */
        assert_true(cluster_step(cluster));
    sim_disk_set_slowness(cluster->sim, late, 1000000);
    taken = leads->snapshot_count;
    for (unsigned i = 0; i < 100 && leads->snapshot_count == taken; i++) {
        cluster_propose_many(cluster, 10);
        cluster_run(cluster, 10000);
    }
    assert_true(installs->keep_running && leads->snapshot.index > installs->keeping.index);
    sim_disk_fail_read_after(cluster->sim, leader, 1);
    sim_reset_connections(cluster->sim, leader, late);
    while (!leads->transfer.unreadable)
        assert_true(cluster_step(cluster));
    progress = &leads->raft.leader_state.progress[late];
    consensus_get_status(leads, &status);
    assert_int_equal(status.snapshot_unreadable_total, 1);
    assert_non_null(strstr(status.snapshot_unreadable_error, "/snapshot-"));
    assert_non_null(strstr(status.snapshot_unreadable_error, "Input/output error"));
    assert_int_equal(progress->state, PROGRESS_SNAPSHOT);
    assert_true(progress->snapshot_index > installs->keeping.index);
    cluster_run(cluster, SECOND_US);
    assert_true(installs->keep_running); /* and is asked meanwhile */
    sim_disk_set_slowness(cluster->sim, late, 1);
    assert_true(cluster_run_until_equal(cluster, SECOND_US));
    assert_int_equal(cluster_leader(cluster), (int)leader);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_serves_one_process),
        cmocka_unit_test(another_members_or_clusters_folder_is_refused),
        cmocka_unit_test(a_damaged_identity_is_refused_at_every_byte),
        cmocka_unit_test(a_vote_is_there_after_a_power_cut),
        cmocka_unit_test(one_rotten_copy_of_the_vote_changes_nothing_and_two_are_refused),
        cmocka_unit_test(a_snapshot_reads_back_and_the_newest_two_are_kept),
        cmocka_unit_test(a_damaged_or_short_snapshot_is_refused_at_every_byte),
        cmocka_unit_test(a_rotten_newest_snapshot_is_replaced_by_the_previous_and_the_log),
        cmocka_unit_test(a_snapshot_whose_members_are_of_later_is_refused),
        cmocka_unit_test(a_second_snapshot_of_the_same_index_changes_nothing),
        cmocka_unit_test(rotten_snapshots_without_a_log_are_refused),
        cmocka_unit_test(bootstrap_and_start_check_what_the_folder_holds),
        cmocka_unit_test(bootstrap_may_be_cut_short_anywhere),
        cmocka_unit_test(a_read_that_fails_at_a_start_is_told_with_its_place),
        cmocka_unit_test(a_member_without_its_vote_is_refused),
        cmocka_unit_test(a_leader_without_a_good_snapshot_takes_another_for_who_needs_it),
        cmocka_unit_test(a_member_that_installs_one_while_the_next_cannot_be_read_is_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
