/* put of an application that writes on after it has said done: what is published is of one
 * moment, or nothing is. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { WRITE_AFTER_US = 250000, RATE_BYTES_PER_S = 100000 /* 0.7 s for a.bin */ };

static void write_in_place(const char *path)
{
    int fd = open(path, O_RDWR);

    assert_int_equal(pwrite(fd, "F", 1, 0), 1);
    close(fd);
}

static void append_to(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND);

    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void cut(const char *path)
{
    assert_int_equal(truncate(path, 1), 0);
}

static void rename_over(const char *path)
{
    char other[512];

    snprintf(other, sizeof(other), "%s.new", path);
    close(open(other, O_WRONLY | O_CREAT, 0600));
    append_to(other);
    assert_int_equal(rename(other, path), 0);
}

static void create_beside(const char *path)
{
    char other[512];

    snprintf(other, sizeof(other), "%s.new", path);
    close(open(other, O_WRONLY | O_CREAT, 0600));
}

static void remove_it(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static const struct {
    void (*act)(const char *path);
    const char *how;
} writings[] = {{write_in_place, "0-first was written after"},
                {append_to, "0-first was written"},
                {cut, "0-first was written"},
                {rename_over, "0-first was written"},
                {create_beside, "0-first.new came"},
                {remove_it, "0-first went away"}};

static int put_slowly(struct folders *folders)
{
    char rate[16];

    snprintf(rate, sizeof(rate), "%d", RATE_BYTES_PER_S);
    return verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--source", folders->source, "--rate", rate, NULL);
}

/* All of it was copied whole, and still the copy is of no one moment (S3-006). */
static void what_is_written_while_the_rest_is_copied_is_noticed(void **state)
{
    struct folders *folders = *state;

    for (size_t i = 0; i < sizeof(writings) / sizeof(writings[0]); i++) {
        char path[512];
        int status;
        pid_t child;

        write_text(folders->source, "0-first", "first");
        snprintf(path, sizeof(path), "%s/0-first", folders->source);
        child = fork();
        if (child == 0) {
            usleep(WRITE_AFTER_US);
            writings[i].act(path);
            _exit(0);
        }
        assert_int_equal(put_slowly(folders), WORKER_EXIT_CORRUPT);
        assert_contains(folders->errors, writings[i].how);
        assert_contains(folders->errors, "before it says done");
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_false(exists(folders->path, "n1"));
        assert_uint_equal(count_hidden(folders->path), 0);
        (void)unlink(strcat(path, ".new"));
    }
    write_text(folders->source, "0-first", "first");
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
}

enum { TOP = 0, BOTTOM = 69000, PUTS = 20 };

static void count_in(const char *path, uint8_t number)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || pwrite(fd, &number, 1, TOP) != 1 || pwrite(fd, &number, 1, BOTTOM) != 1)
        _exit(1);
    close(fd);
}

static uint8_t byte_of(const char *path, off_t at)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDONLY);

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    close(fd);
    return byte;
}

/* What is taken in spite of it was of one moment: the writer had a pause. */
static void what_is_written_while_it_is_read_is_noticed(void **state)
{
    struct folders *folders = *state;
    unsigned noticed = 0;
    char path[512];
    pid_t child;

    snprintf(path, sizeof(path), "%s/a.bin", folders->source);
    count_in(path, 0);
    child = fork();
    for (unsigned number = 1; child == 0 && number < 10000; number++) {
        count_in(path, (uint8_t)number);
        usleep(1000);
    }
    for (int i = 0; i < PUTS; i++) {
        if (put_n1(folders) == WORKER_EXIT_CORRUPT) {
            assert_contains(folders->errors, "a.bin was written after");
            noticed++;
            continue;
        }
        uint8_t ahead =
            byte_of(in_shard(folders, "a.bin"), TOP) - byte_of(in_shard(folders, "a.bin"), BOTTOM);
        assert_true(ahead <= 1);
    }
    assert_true(noticed > 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_written_while_the_rest_is_copied_is_noticed),
        T(what_is_written_while_it_is_read_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
