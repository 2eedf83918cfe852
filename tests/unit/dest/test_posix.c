/* put, verify, restore, collect, probe and abandon on a real file system, by the command line of
 * ckpt-worker. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

enum { NOBODY = 65534 };

static const char *path_of(const char *folder, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* ---- the way through ---- */

/* S1-044, S2-001, S2-024, S3-006, S3-035, S5-008 */
static void put_verify_and_restore_give_back_the_same_tree(void **state)
{
    struct folders *folders = *state;
    char sha256[SHA256_HEX_BYTES];

    assert_int_equal(chmod(path_of(folders->source, "a.bin"), 0755), 0);
    assert_int_equal(chmod(path_of(folders->source, "sub/empty"), 0500), 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "size_bytes", "70006");
    assert_value(folders, "files", "3");
    assert_value(folders, "reused", "0");
    assert_int_equal(worker_output_get(folders->out, "manifest_sha256", sha256, sizeof(sha256)), 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "manifest_sha256", sha256);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to, "--manifest-sha256", sha256),
                     WORKER_EXIT_OK);
    assert_value(folders, "size_bytes", "70006");
    assert_true(same_trees(folders->source, folders->to));
    assert_uint_equal(count_hidden(folders->path), 0);
    assert_uint_equal(count_hidden(folders->root), 0);
}

static void sha256sum_passes_on_the_manifest_and_the_reported_hash_is_its_own(void **state)
{
    struct folders *folders = *state;
    char command[1024], sha256[SHA256_HEX_BYTES];

    write_text(folders->source, "back\\slash and\nnewline", "x");
    write_text(folders->source, " blanks ", "y");
    write_text(folders->source, "#hash", "z");
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    snprintf(
        command, sizeof(command),
        "cd %s/n1 && test \"$(sha256sum -c --strict --warn MANIFEST 2>&1 | grep -c OK$)\" = 6 && "
        "sha256sum -c --quiet --strict --warn MANIFEST",
        folders->path);
    assert_int_equal(system(command), 0);
    assert_int_equal(worker_output_get(folders->out, "manifest_sha256", sha256, sizeof(sha256)), 0);
    snprintf(command, sizeof(command), "test \"$(sha256sum < %s/n1/MANIFEST)\" = \"%s  -\"",
             folders->path, sha256);
    assert_int_equal(system(command), 0);
}

static void second_put_of_the_same_files_reuses_the_shard(void **state)
{
    struct folders *folders = *state;
    struct stat before, after;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(stat(in_shard(folders, "a.bin"), &before), 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "1");
    assert_value(folders, "size_bytes", "70006");
    assert_int_equal(stat(in_shard(folders, "a.bin"), &after), 0);
    assert_uint_equal(before.st_ino, after.st_ino);
}

/* A later attempt's files are others: nodes must not keep shards of different attempts under one
 * checkpoint. */
static void put_of_other_files_replaces_the_shard(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    write_text(folders->source, "sub/b.txt", "HELLO\n");
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "0");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    assert_uint_equal(count_hidden(folders->path), 0);
}

static void put_replaces_a_damaged_shard_of_the_same_files(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    flip_bit(in_shard(folders, "a.bin"), 12345);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "0");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

static void nodes_put_beside_each_other(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                          "n2", "--source", folders->source),
                     WORKER_EXIT_OK);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_true(exists(folders->path, "n2/MANIFEST"));
}

static void levels_above_are_readable_and_the_allocations_own_are_private(void **state)
{
    struct folders *folders = *state;
    struct stat status;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(stat(path_of(folders->prefix, "t/p"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0755);
    assert_int_equal(stat(path_of(folders->prefix, "t/p/a"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    assert_int_equal(stat(in_shard(folders, "a.bin"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

static void rate_limit_is_kept(void **state)
{
    struct folders *folders = *state;
    struct timespec begin, end;
    double seconds;

    for (int i = 0; i < 3; i++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (i == 2)
            assert_int_equal(VERB("verify", AT_N1, "--rate", "200000"), WORKER_EXIT_OK);
        else
            assert_int_equal(VERB(i ? "restore" : "put", AT_N1, i ? "--to" : "--source",
                                  i ? folders->to : folders->source, "--rate", "200000"),
                             WORKER_EXIT_OK);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        assert_true(seconds >= 0.34); /* 70,006 bytes at 200,000 bytes/s */
    }
}

/* ---- what verify and restore must notice ---- */

static void expect_corrupt(struct folders *folders, const char *word)
{
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_non_null(strstr(folders->errors, word));
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_CORRUPT);
    assert_false(exists(folders->root, "back"));
    assert_uint_equal(count_hidden(folders->root), 0);
}

static void flipped_bit_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    flip_bit(in_shard(folders, "a.bin"), 69999);
    expect_corrupt(folders, "a.bin");
}

static void truncated_file_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(truncate(in_shard(folders, "a.bin"), 69999), 0);
    expect_corrupt(folders, "has 69999 bytes, the manifest says 70000");
}

static void missing_file_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(unlink(in_shard(folders, "nothing")), 0);
    expect_corrupt(folders, "\"nothing\" is missing");
}

static void missing_folder_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(rmdir(in_shard(folders, "sub/empty")), 0);
    expect_corrupt(folders, "\"sub/empty\" is missing");
}

static void extra_file_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    write_text(in_shard(folders, "sub"), "more", "x");
    expect_corrupt(folders, "\"sub/more\" is there but not in the manifest");
}

static void symbolic_link_in_a_shard_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(unlink(in_shard(folders, "nothing")), 0);
    assert_int_equal(symlink("/etc/passwd", in_shard(folders, "nothing")), 0);
    expect_corrupt(folders, "symbolic link");
}

static void tampered_manifest_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    flip_bit(in_shard(folders, "MANIFEST"), 40);
    expect_corrupt(folders, "does not match its own hash");
}

/* S1-092: a folder under the shard's name without a manifest was never a shard of ours */
static void missing_manifest_is_noticed(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(unlink(in_shard(folders, "MANIFEST")), 0);
    expect_corrupt(folders, "has no manifest");
}

/* A shard that is whole, but not the one that was recorded. */
static void another_shard_than_the_recorded_one_is_noticed(void **state)
{
    struct folders *folders = *state;
    char sha256[SHA256_HEX_BYTES];

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "manifest_sha256", sha256, sizeof(sha256)), 0);
    write_text(folders->source, "sub/b.txt", "other\n");
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("verify", AT_N1, "--manifest-sha256", sha256), WORKER_EXIT_CORRUPT);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to, "--manifest-sha256", sha256),
                     WORKER_EXIT_CORRUPT);
}

static void absent_shards_and_checkpoints_are_not_found(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("verify", "--prefix", folders->prefix, "--path",
                          path_of(folders->prefix, "t/p/a/checkpoints/1-43"), "--part", "n1"),
                     WORKER_EXIT_NOT_FOUND);
    assert_int_equal(
        VERB("verify", "--prefix", folders->prefix, "--path", folders->path, "--part", "n9"),
        WORKER_EXIT_NOT_FOUND);
    assert_int_equal(VERB("verify", "--path", folders->path, "--part", "n1"), WORKER_EXIT_OK);
}

/* Who hears that a checkpoint is not there gives it up: where a file system is not mounted none of
 * them is. */
static void nothing_below_the_prefix_is_a_file_system_that_is_not_mounted(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(verify_n1(folders), WORKER_EXIT_UNAVAILABLE);
    assert_non_null(strstr(folders->errors, "mount the file system"));
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(VERB("verify", "--path", folders->path, "--part", "n1"),
                     WORKER_EXIT_NOT_FOUND);
}

/* ---- restore's target ---- */

static void restore_takes_an_empty_or_equal_target_and_refuses_another(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(mkdir(folders->to, 0755), 0);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_value(folders, "reused", "0");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_value(folders, "reused", "1");
    write_text(folders->to, "sub/b.txt", "jello\n");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_REFUSED);
    assert_non_null(strstr(folders->errors, "remove it first"));
    assert_int_equal(VERB("restore", AT_N1, "--to", "relative"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("restore", AT_N1, "--to", path_of(folders->root, "no/parent")),
                     WORKER_EXIT_UNAVAILABLE); /* the checkpoint is there */
}

/* ---- what put refuses ---- */

/* S5-007 */
static void empty_sources_are_refused_as_empty(void **state)
{
    struct folders *folders = *state;
    char empty[256];

    snprintf(empty, sizeof(empty), "%s/sub/empty", folders->source);
    assert_int_equal(VERB("put", AT_N1, "--source", empty), WORKER_EXIT_EMPTY);
    write_text(empty, "zero", "");
    assert_int_equal(VERB("put", AT_N1, "--source", empty), WORKER_EXIT_EMPTY);
    assert_false(exists(folders->path, "n1"));
    assert_int_equal(VERB("put", AT_N1, "--source", path_of(folders->source, "absent")),
                     WORKER_EXIT_NOT_FOUND);
}

static void sources_with_links_devices_or_reserved_names_are_refused(void **state)
{
    struct folders *folders = *state;
    char name[256];

    snprintf(name, sizeof(name), "%s/sub/odd", folders->source);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_non_null(strstr(folders->errors, "\"sub/odd\" is a symbolic link"));
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0644), 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_non_null(strstr(folders->errors, "is a FIFO"));
    assert_int_equal(unlink(name), 0);
    write_text(folders->source, "MANIFEST", "mine");
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_false(exists(folders->path, "n1"));
}

static void paths_outside_the_prefix_are_refused(void **state)
{
    struct folders *folders = *state;
    static const char *const tails[] = {"/../src", "-other/x", "/a/./b", "//a", "", "/"};
    char outside[512];

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        snprintf(outside, sizeof(outside), "%s%s", folders->prefix, tails[i]);
        assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", outside, "--part", "n1",
                              "--source", folders->source),
                         WORKER_EXIT_REFUSED);
        assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", outside),
                         WORKER_EXIT_REFUSED);
    }
    assert_true(exists(folders->source, "a.bin"));
}

static void symbolic_links_below_the_prefix_are_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(mkdir(path_of(folders->root, "elsewhere"), 0755), 0);
    assert_int_equal(symlink("../elsewhere", path_of(folders->prefix, "t")), 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_non_null(strstr(folders->errors, "symbolic link"));
    assert_int_equal(verify_n1(folders), WORKER_EXIT_REFUSED);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_REFUSED);
    assert_false(exists(folders->root, "elsewhere/p"));
}

static void node_names_are_ids(void **state)
{
    static const char *const names[] = {"..", "a/b", ".hidden", "n 1", ""};
    struct folders *folders = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                              names[i], "--source", folders->source),
                         WORKER_EXIT_USAGE);
}

static void wrong_command_lines_are_usage_errors(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(VERB("fetch"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("probe"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("probe", "--prefix"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("probe", "--prefix", "/tmp", "--part", "n1"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("probe", "--prefix", "/tmp", "--prefix", "/tmp"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("probe", "--prefix", "relative"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--rate", "1e9"),
                     WORKER_EXIT_USAGE);
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--threads", "9"),
                     WORKER_EXIT_USAGE);
    assert_contains(folders->errors, "--threads 9 is not 1 to 8");
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--threads", "0"),
                     WORKER_EXIT_USAGE);
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--read-back", "some"),
                     WORKER_EXIT_USAGE);
    assert_contains(folders->errors, "\"some\" is not never, sampled or always");
}

/* ---- an unavailable destination ---- */

/* S1-060, S1-063: an unmounted file system leaves no prefix, and nothing may be written where it
 * should be */
static void missing_prefix_is_unavailable_and_never_created(void **state)
{
    struct folders *folders = *state;

    remove_tree(folders->prefix);
    assert_int_equal(VERB("probe", "--prefix", folders->prefix), WORKER_EXIT_UNAVAILABLE);
    assert_non_null(strstr(folders->errors, "mount the file system"));
    assert_int_equal(put_n1(folders), WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_UNAVAILABLE);
    assert_false(exists(folders->root, "dst"));
}

/* Skips where file systems cannot be mounted. */
static void mount_small(const struct folders *folders, unsigned long flags, const char *options)
{
    if (mount("tmpfs", folders->prefix, "tmpfs", flags, options) != 0) {
        print_message("# SKIP mounting a small file system needs CAP_SYS_ADMIN\n");
        skip();
    }
}

/* S1-060 */
static void read_only_destination_is_unavailable(void **state)
{
    struct folders *folders = *state;
    int probe, put;

    mount_small(folders, MS_RDONLY, "size=1m");
    probe = VERB("probe", "--prefix", folders->prefix);
    put = put_n1(folders);
    assert_int_equal(umount(folders->prefix), 0);
    assert_int_equal(probe, WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(put, WORKER_EXIT_UNAVAILABLE);
    assert_non_null(strstr(folders->errors, "Read-only file system"));
}

/* S1-060, S1-092: no room leaves nothing behind, and a later put succeeds */
static void full_destination_is_unavailable_and_leaves_nothing(void **state)
{
    struct folders *folders = *state;
    char filler[4096] = {0};
    char errors[sizeof(folders->errors)];
    int full, probe, again;
    size_t hidden, pages = 0;
    int fd;

    mount_small(folders, 0, "size=128k");
    fd = open(path_of(folders->prefix, "filler"), O_WRONLY | O_CREAT, 0600);
    while (pages < 22 && write(fd, filler, sizeof(filler)) == (ssize_t)sizeof(filler))
        pages++;
    full = put_n1(folders);
    memcpy(errors, folders->errors, sizeof(errors));
    hidden = count_hidden(folders->path);
    while (write(fd, filler, sizeof(filler)) > 0)
        continue;
    close(fd);
    probe = VERB("probe", "--prefix", folders->prefix);
    unlink(path_of(folders->prefix, "filler"));
    again = put_n1(folders);
    assert_int_equal(umount(folders->prefix), 0);
    assert_int_equal(full, WORKER_EXIT_UNAVAILABLE);
    assert_non_null(strstr(errors, "No space left on device; free space"));
    assert_uint_equal(hidden, 0);
    assert_int_equal(probe, WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(again, WORKER_EXIT_OK);
}

/* ---- probe, abandon, collect ---- */

static void probe_leaves_nothing_and_removes_old_leftovers_of_killed_ones(void **state)
{
    struct folders *folders = *state;
    struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};

    write_text(folders->prefix, ".probe.tmp.0123456789abcdef", "old");
    assert_int_equal(
        utimensat(AT_FDCWD, path_of(folders->prefix, ".probe.tmp.0123456789abcdef"), old, 0), 0);
    write_text(folders->prefix, ".probe.done.0123456789abcdef", "another member's, running");
    write_text(folders->prefix, ".profile", "not ours");
    assert_int_equal(utimensat(AT_FDCWD, path_of(folders->prefix, ".profile"), old, 0), 0);
    assert_int_equal(VERB("probe", "--prefix", folders->prefix), WORKER_EXIT_OK);
    assert_false(exists(folders->prefix, ".probe.tmp.0123456789abcdef"));
    assert_true(exists(folders->prefix, ".probe.done.0123456789abcdef"));
    assert_true(exists(folders->prefix, ".profile"));
    assert_uint_equal(count_hidden(folders->prefix), 2);
}

static void leave_temporary(const struct folders *folders, const char *name)
{
    assert_int_equal(mkdir(path_of(folders->path, name), 0700), 0);
    write_text(path_of(folders->path, name), "half", "half");
}

static void abandon_and_the_next_put_remove_this_nodes_leftovers_only(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(VERB("abandon", AT_N1), WORKER_EXIT_OK); /* nothing there yet */
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    for (int i = 0; i < 2; i++) {
        leave_temporary(folders, ".n1.tmp.0123456789abcdef");
        leave_temporary(folders, ".n1.old.0123456789abcdef");
        if (i == 0) {
            leave_temporary(folders, ".n11.tmp.0123456789abcdef");
            leave_temporary(folders, ".n1.tmp.x.tmp.0123456789abcdef");
        }
        assert_int_equal(i == 0 ? VERB("abandon", AT_N1) : put_n1(folders), WORKER_EXIT_OK);
        assert_uint_equal(count_hidden(folders->path), 2);
        assert_true(exists(folders->path, ".n11.tmp.0123456789abcdef"));
        assert_true(exists(folders->path, ".n1.tmp.x.tmp.0123456789abcdef"));
    }
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

/* The destination was away when it was to be abandoned; the checkpoint is another one by now. */
static void the_next_put_removes_what_could_not_be_abandoned(void **state)
{
    struct folders *folders = *state;
    char other[300], away[300], kept[400];
    static const char left[] = ".n1.tmp.0123456789abcdef", *const others[] = {
                                                               ".n2.tmp.0123456789abcdef", "n1"};

    snprintf(other, sizeof(other), "%s/t/p/a/checkpoints/1-41", folders->prefix);
    assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", other, "--part", "n1",
                          "--source", folders->source),
                     WORKER_EXIT_OK);
    snprintf(kept, sizeof(kept), "%s/%s", other, others[0]);
    assert_int_equal(mkdir(kept, 0700), 0);
    snprintf(kept, sizeof(kept), "%s/%s", other, left);
    assert_int_equal(mkdir(kept, 0700), 0);
    write_text(kept, "half", "half");
    snprintf(away, sizeof(away), "%s.away", folders->prefix);
    assert_int_equal(rename(folders->prefix, away), 0);
    assert_int_equal(VERB("abandon", "--prefix", folders->prefix, "--path", other, "--part", "n1"),
                     WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(rename(away, folders->prefix), 0);
    assert_true(exists(other, left));
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_false(exists(other, left));
    for (size_t i = 0; i < 2; i++)
        assert_true(exists(other, others[i]));
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

/* Idempotent, and the folders that became empty go too, but no other checkpoint */
static void collect_removes_one_checkpoint_again_and_again(void **state)
{
    struct folders *folders = *state;
    char other[300];

    snprintf(other, sizeof(other), "%s/t/p/a/checkpoints/1-43", folders->prefix);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", other, "--part", "n1",
                          "--source", folders->source),
                     WORKER_EXIT_OK);
    leave_temporary(folders, ".n1.tmp.0123456789abcdef");
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_OK);
    assert_value(folders, "removed", "1");
    assert_false(exists(folders->prefix, "t/p/a/checkpoints/1-42"));
    assert_true(exists(other, "n1/MANIFEST"));
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_OK);
    assert_value(folders, "removed", "0");
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", other), WORKER_EXIT_OK);
    assert_false(exists(folders->prefix, "t/p/a"));
    assert_true(exists(folders->prefix, "t/p"));
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", other), WORKER_EXIT_OK);
    assert_value(folders, "removed", "0");
}

/* The empty folder where a file system is to be mounted looks like a tenant's that never wrote. */
static void collect_where_nothing_is_mounted_removes_nothing(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    remove_tree(path_of(folders->prefix, "t"));
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_NOT_FOUND);
    assert_non_null(strstr(folders->errors, "mount the file system that belongs there"));
}

static void collect_never_follows_links_and_never_takes_a_tenants_folder(void **state)
{
    struct folders *folders = *state;
    char linked[300];

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(symlink(folders->source, in_shard(folders, "link")), 0);
    snprintf(linked, sizeof(linked), "%s/t/p/a/checkpoints/1-44", folders->prefix);
    assert_int_equal(symlink(folders->source, linked), 0);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", linked),
                     WORKER_EXIT_REFUSED);
    assert_int_equal(
        VERB("collect", "--prefix", folders->prefix, "--path", path_of(folders->prefix, "t")),
        WORKER_EXIT_REFUSED);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_OK);
    assert_true(exists(folders->source, "a.bin") && exists(folders->source, "sub/b.txt"));
}

/* Root may write anywhere: true in a child that is nobody, to whom the scratch folder belongs. */
static bool in_child_of_nobody(const struct folders *folders, pid_t *ret_child)
{
    char command[128];

    snprintf(command, sizeof(command), "chown -R %d %s", NOBODY, folders->root);
    if (geteuid() == 0)
        assert_int_equal(system(command), 0);
    *ret_child = fork();
    assert_true(*ret_child >= 0);
    return *ret_child == 0 && (geteuid() != 0 || setuid(NOBODY) == 0);
}

/* A restore that was killed had given the folders their modes. */
static int restore_after_a_killed_one(struct folders *folders)
{
    char command[512];

    snprintf(command, sizeof(command),
             "cd %s && mkdir -p .back.tmp.0123456789abcdef/sub && cd .back.tmp.* && "
             "touch sub/file && chmod 0555 sub && chmod 0 .",
             folders->root);
    if (system(command) != 0 || put_n1(folders) != WORKER_EXIT_OK)
        return 1;
    if (VERB("restore", AT_N1, "--to", folders->to) != WORKER_EXIT_OK)
        return 2;
    return count_hidden(folders->root) == 0 ? 0 : 3;
}

static void unwritable_folders_of_the_own_user_are_removed(void **state)
{
    struct folders *folders = *state;
    int status;
    pid_t child;

    if (in_child_of_nobody(folders, &child))
        _exit(restore_after_a_killed_one(folders));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(put_verify_and_restore_give_back_the_same_tree),
        T(sha256sum_passes_on_the_manifest_and_the_reported_hash_is_its_own),
        T(second_put_of_the_same_files_reuses_the_shard),
        T(put_of_other_files_replaces_the_shard),
        T(put_replaces_a_damaged_shard_of_the_same_files),
        T(nodes_put_beside_each_other),
        T(levels_above_are_readable_and_the_allocations_own_are_private),
        T(rate_limit_is_kept),
        T(flipped_bit_is_noticed),
        T(truncated_file_is_noticed),
        T(missing_file_is_noticed),
        T(missing_folder_is_noticed),
        T(extra_file_is_noticed),
        T(symbolic_link_in_a_shard_is_noticed),
        T(tampered_manifest_is_noticed),
        T(missing_manifest_is_noticed),
        T(another_shard_than_the_recorded_one_is_noticed),
        T(absent_shards_and_checkpoints_are_not_found),
        T(nothing_below_the_prefix_is_a_file_system_that_is_not_mounted),
        T(restore_takes_an_empty_or_equal_target_and_refuses_another),
        T(empty_sources_are_refused_as_empty),
        T(sources_with_links_devices_or_reserved_names_are_refused),
        T(paths_outside_the_prefix_are_refused),
        T(symbolic_links_below_the_prefix_are_refused),
        T(node_names_are_ids),
        T(wrong_command_lines_are_usage_errors),
        T(missing_prefix_is_unavailable_and_never_created),
        T(read_only_destination_is_unavailable),
        T(full_destination_is_unavailable_and_leaves_nothing),
        T(probe_leaves_nothing_and_removes_old_leftovers_of_killed_ones),
        T(abandon_and_the_next_put_remove_this_nodes_leftovers_only),
        T(the_next_put_removes_what_could_not_be_abandoned),
        T(collect_removes_one_checkpoint_again_and_again),
        T(collect_where_nothing_is_mounted_removes_nothing),
        T(collect_never_follows_links_and_never_takes_a_tenants_folder),
        T(unwritable_folders_of_the_own_user_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
