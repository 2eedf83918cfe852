/* The log on the file system of this host: what it holds is on blocks that were written before, so
 * that a synced write depends on nothing that the file system has to note (I5). */
#include "tests/support/test.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "raft/log/folder.h"
#include "raft/log/wal.h"
#include "raft/uv_io.h"

static void failed(void *context, const struct err *err)
{
    (void)context;
    fail_msg("%s", err->text);
}

/* -1: this file system does not tell. */
static int unwritten_extents(const char *path)
{
    enum { EXTENTS = 64 };
    struct fiemap *map = calloc(1, sizeof(*map) + EXTENTS * sizeof(struct fiemap_extent));
    int fd = open(path, O_RDONLY), count = 0;

    assert_non_null(map);
    assert_true(fd >= 0);
    map->fm_length = FIEMAP_MAX_OFFSET;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = EXTENTS;
    if (ioctl(fd, FS_IOC_FIEMAP, map) != 0)
        count = -1;
    for (unsigned i = 0; count >= 0 && i < map->fm_mapped_extents; i++)
        count += (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0;
    close(fd);
    free(map);
    return count;
}

static void the_log_is_on_blocks_that_were_written(void **state)
{
    char folder_path[] = "/var/tmp/ckpt-uv-disk-XXXXXX", path[sizeof(folder_path) + 32];
    char command[sizeof(folder_path) + 8];
    struct folder folder = {0};
    struct disk_ops disk;
    struct wal wal;
    struct err err;
    int unwritten;

    (void)state;
    assert_non_null(mkdtemp(folder_path));
    disk_uv_ops(NULL, &disk);
    assert_int_equal(
        folder_open(&folder, &disk, folder_path, &(struct folder_owner){"c", 1}, true, &err), 0);
    folder.segment_bytes = 1 << 20;
    assert_int_equal(wal_open(&wal, &folder, NULL, failed, NULL, &err), 0);
    assert_int_equal(wal_reset_now(&wal, 1, &err), 0);
    snprintf(path, sizeof(path), "%s/wal-%016d", folder_path, 1);
    unwritten = unwritten_extents(path);
    wal_close(&wal);
    folder_close(&folder);
    snprintf(command, sizeof(command), "rm -r %s", folder_path);
    assert_int_equal(system(command), 0);
    if (unwritten < 0)
        skip(); /* tmpfs and NFS keep no such list */
    assert_int_equal(unwritten, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_is_on_blocks_that_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
