/* A folder that its user brings as a checkpoint: copied whole, or refused by name. V-014 */
#include "src/dest/folder_copy.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/dest/posix/posix.h"
#include "tests/support/test.h"

enum { HOLE_BYTES = 8 << 20, PATH_BYTES = 256 };
static char from[PATH_BYTES], to[PATH_BYTES];

static const char *in(const char *folder, const char *name)
{
    static char path[2][PATH_BYTES * 2];
    static int turn;

    turn = 1 - turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static void write_at(const char *path, off_t at, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static int make_folders(void **state)
{
    (void)state;
    snprintf(from, sizeof(from), "/tmp/folder-copy-from-XXXXXX");
    snprintf(to, sizeof(to), "/tmp/folder-copy-to-XXXXXX");
    if (mkdtemp(from) == NULL || mkdtemp(to) == NULL)
        return -1;
    if (mkdir(in(from, "deep"), 0700) != 0)
        return -1;
    write_at(in(from, "n"), 0, "41\n", 0640);
    write_at(in(from, "deep/sparse"), HOLE_BYTES, "end\n", 0600);
    return symlink("deep/sparse", in(from, "last"));
}

static int remove_folders(void **state)
{
    char command[PATH_BYTES * 5];

    (void)state;
    snprintf(command, sizeof(command), "chmod -R u+w %s %s; rm -r %s %s", from, to, from, to);
    return system(command);
}

static void a_folder_comes_as_it_is_with_its_holes(void **state)
{
    struct folder_sum seen = {0}, copied = {0};
    char text[64] = "";
    struct stat stat_of;
    struct err err = {0};

    (void)state;
    assert_int_equal(chmod(in(from, "deep"), 0500), 0);
    assert_int_equal(folder_copy_look(from, &seen, &err), 0);
    assert_int_equal(folder_copy(from, to, &copied, &err), 0);
    assert_uint_equal(seen.size_bytes, HOLE_BYTES + 4 + 3);
    assert_uint_equal(seen.file_count, 2);
    assert_memory_equal(&seen, &copied, sizeof(seen));
    assert_int_equal(stat(in(to, "n"), &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0640);
    assert_int_equal(stat(in(to, "deep"), &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0500);
    assert_int_equal(stat(in(to, "last"), &stat_of), 0);
    assert_uint_equal(stat_of.st_size, HOLE_BYTES + 4);
    assert_true(stat_of.st_blocks * 512 < HOLE_BYTES / 8);
    assert_int_equal(readlink(in(to, "last"), text, sizeof(text) - 1), 11);
    assert_string_equal(text, "deep/sparse");
}

static void expect_refused(enum err_code code, const char *said)
{
    struct folder_sum sum;
    struct err err = {0};

    assert_int_equal(folder_copy_look(from, &sum, &err), -1);
    assert_int_equal(err.code, code);
    assert_contains(err.text, said);
    assert_int_equal(folder_copy(from, to, &sum, &err), -1);
}

static void what_no_checkpoint_carries_is_refused_by_name(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", in(from, "door"));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    expect_refused(ERR_REFUSED, "door");
    assert_int_equal(unlink(in(from, "door")), 0);
    assert_int_equal(symlink("/etc/passwd", in(from, "out")), 0);
    expect_refused(ERR_REFUSED, "out");
    assert_int_equal(unlink(in(from, "out")), 0);
    write_at(in(from, "MANIFEST"), 0, "# ckpt-manifest 2\n", 0600);
    expect_refused(ERR_REFUSED, "ckpt-run get CHECKPOINT DIR");
    assert_int_equal(unlink(in(from, "MANIFEST")), 0);
    assert_int_equal(unlink(in(from, "n")) | unlink(in(from, "deep/sparse")), 0);
    expect_refused(ERR_EMPTY, "holds no bytes");
    close(fd);
}

static void a_folder_that_is_not_there_says_so(void **state)
{
    struct folder_sum sum;
    struct err err = {0};

    (void)state;
    assert_int_equal(folder_copy_look(in(from, "none"), &sum, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(folder_copy_look(in(from, "n"), &sum, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(folder_copy(from, in(to, "none"), &sum, &err), -1);
    assert_int_equal(err.code, ERR_IO);
}

/* Nothing is written over: the folder is the attempt's alone. */
static void a_file_that_is_there_already_is_not_touched(void **state)
{
    struct folder_sum sum;
    struct err err = {0};

    (void)state;
    write_at(in(to, "n"), 0, "mine", 0600);
    assert_int_equal(folder_copy(from, to, &sum, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_contains(err.text, "/n: File exists");
}

/* {to}/1-1/part-0000, as a worker puts it; the copy goes to {to}/back. */
static void shard_of_folder(bool compresses, char ret_shard[PATH_BYTES], char ret_back[PATH_BYTES])
{
    char path[PATH_BYTES];
    const struct destination_place place = {.prefix = to, .path = path, .part = "part-0000"};
    const struct destination_how how = {.read_back = SAMPLE_NEVER, .compresses = compresses};
    struct destination_summary summary;
    struct err err;

    snprintf(path, sizeof(path), "%s", in(to, "a/checkpoints/1-1"));
    assert_int_equal(posix_put(&place, from, &how, &summary, &err), 0);
    snprintf(ret_shard, PATH_BYTES, "%s", in(to, "a/checkpoints/1-1/part-0000"));
    snprintf(ret_back, PATH_BYTES, "%s", in(to, "back"));
    assert_int_equal(mkdir(ret_back, 0700), 0);
}

/* S4-007: modes, which a stored shard has in its MANIFEST alone, and no MANIFEST. */
static void a_shard_comes_as_its_program_wrote_it(void **state)
{
    char shard[PATH_BYTES], back[PATH_BYTES];
    struct folder_sum seen = {0}, copied = {0};
    struct stat stat_of;
    struct err err = {0};

    (void)state;
    shard_of_folder(false, shard, back);
    assert_int_equal(folder_copy_look(shard, &seen, &err), 0);
    assert_int_equal(folder_copy(shard, back, &copied, &err), 0);
    assert_uint_equal(seen.size_bytes, HOLE_BYTES + 4 + 3);
    assert_uint_equal(seen.file_count, 2);
    assert_memory_equal(&seen, &copied, sizeof(seen));
    assert_int_equal(stat(in(back, "n"), &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0640);
    assert_int_equal(stat(in(back, "last"), &stat_of), 0);
    assert_int_equal(access(in(back, "MANIFEST"), F_OK), -1);
}

static void expect_shard_refused(const char *shard, const char *back, const char *said)
{
    struct folder_sum sum;
    struct err err = {0};

    assert_int_equal(folder_copy_look(shard, &sum, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_contains(err.text, said);
    assert_contains(err.text, "ckpt-run get CHECKPOINT DIR");
    assert_int_equal(folder_copy(shard, back, &sum, &err), -1);
}

static void a_damaged_shard_is_refused(void **state)
{
    char shard[PATH_BYTES], back[PATH_BYTES];

    (void)state;
    shard_of_folder(false, shard, back);
    write_at(in(shard, "n"), 0, "42\n", 0600);
    expect_shard_refused(shard, back, "not what was written");
    write_at(in(shard, "n"), 0, "41\n", 0600);
    write_at(in(shard, "more"), 0, "x", 0600);
    expect_shard_refused(shard, back, "more");
}

static void a_packed_shard_is_refused(void **state)
{
    char shard[PATH_BYTES], back[PATH_BYTES];

    (void)state;
    shard_of_folder(true, shard, back);
    expect_shard_refused(shard, back, "packed files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_comes_as_it_is_with_its_holes, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(what_no_checkpoint_carries_is_refused_by_name, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_says_so, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(a_file_that_is_there_already_is_not_touched, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(a_shard_comes_as_its_program_wrote_it, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(a_damaged_shard_is_refused, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(a_packed_shard_is_refused, make_folders, remove_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
