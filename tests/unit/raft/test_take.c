/* Own snapshots on a disk without room for them. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

/* A disk of which only what is written as an own snapshot fills the rest. */
static int (*open_real)(void *context, const char *path, enum disk_open_mode mode,
                        struct disk_file **ret_file, struct err *err);
static int (*write_real)(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                         struct err *err);
static const struct disk_file *take_file;
static bool take_full;

static int open_noted(void *context, const char *path, enum disk_open_mode mode,
                      struct disk_file **ret_file, struct err *err)
{
    int status = open_real(context, path, mode, ret_file, err);

    if (status == 0 && strstr(path, "tmp-snapshot-take") != NULL)
        take_file = *ret_file;
    return status;
}

static int write_full(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                      struct err *err)
{
    if (take_full && file == take_file && offset > 0)
        return err_set(err, ERR_FULL, "no space left on device");
    return write_real(file, offset, bytes, length, err);
}

/* It gives back what it had taken, says why, and is tried again as soon as there is room: it was
 * due by bytes. */
static void a_snapshot_that_fills_the_disk_is_removed_and_taken_later(void **state)
{
    struct cluster *cluster = cluster_new(36, 1);
    struct disk_ops *disk = &cluster->nodes[0].disk;
    const struct consensus *consensus;
    struct consensus_status status;

    (void)state;
    cluster->config.snapshot_after_entries = 1000000;
    cluster->config.snapshot_after_bytes = 8192;
    cluster->nodes[0].ballast_bytes = 3000000; /* of log is what the second one is due after */
    cluster->entry_bytes_max = 60000;
    cluster_start(cluster, 0, true);
    cluster_kill(cluster, 0);
    open_real = disk->open;
    write_real = disk->write;
    disk->open = open_noted;
    disk->write = write_full;
    take_full = true;
    cluster_start(cluster, 0, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    consensus = cluster->nodes[0].consensus;
    while (consensus->snapshot_failures_total == 0) {
        (void)cluster_propose(cluster);
        cluster_run(cluster, 1000);
    }
    assert_true(sim_file_name(cluster->sim, 0, "tmp-snapshot-take", 0) == NULL);
    consensus_get_status(consensus, &status);
    assert_true(strstr(status.snapshot_error, "no space left") != NULL);
    assert_true(consensus->bytes_since_snapshot >= core_snapshot_after_bytes(consensus));
    take_full = false;
    cluster_run(cluster, 60 * SECOND_US);
    assert_true(cluster_propose(cluster));
    cluster_run(cluster, SECOND_US);
    assert_int_equal(consensus->snapshot_count, 1);
    assert_true(consensus->snapshot_file_bytes > 0);
    /* The next one is not even begun without room for as much. */
    sim_disk_set_free(cluster->sim, 0, consensus->snapshot_file_bytes - 1);
    take_file = NULL;
    for (unsigned i = 0; i < 1000 && consensus->snapshot_failures_total == 1; i++) {
        (void)cluster_propose(cluster);
        cluster_run(cluster, 1000);
    }
    consensus_get_status(consensus, &status);
    assert_true(strstr(status.snapshot_error, "a snapshot is due and needs about") != NULL);
    assert_true(take_file == NULL);
    sim_disk_set_free(cluster->sim, 0, UINT64_C(1) << 30);
    cluster_run(cluster, 60 * SECOND_US);
    assert_true(cluster_propose(cluster));
    cluster_run(cluster, SECOND_US);
    assert_int_equal(consensus->snapshot_count, 2);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_that_fills_the_disk_is_removed_and_taken_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
