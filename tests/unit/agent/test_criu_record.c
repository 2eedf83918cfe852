/* The record beside an image of criu: taken of real processes, read again, and what is made ready
 * before a restore. S3-004, S3-066. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/transparent/record.h"
#include "src/base/check.h"

static char folder[] = "/tmp/test_record_XXXXXX";
static char written[64], only_read[64], output[64];
static int folder_fd = -1;
static struct err err;
static struct utsname system_here;

static void make_file(const char *path, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    close(fd);
}

static uint64_t size_of(const char *path)
{
    struct stat stat_of;

    assert_int_equal(stat(path, &stat_of), 0);
    return (uint64_t)stat_of.st_size;
}

static void write_text(const char *text)
{
    int fd = openat(folder_fd, RECORD_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* A child with these files open, and its output in one. */
static pid_t start_program(const char *also)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        CHECK(open(written, O_WRONLY | O_APPEND) >= 0 && open(only_read, O_RDONLY) >= 0);
        CHECK(dup2(open(output, O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO);
        CHECK(also == NULL || open(also, O_WRONLY | O_CREAT, 0600) >= 0);
        CHECK(write(ready[1], "", 1) == 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_program(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void it_says_what_the_image_needs_and_is_read_again(void **state)
{
    pid_t pid = start_program(NULL);
    struct record record, again;
    struct criu_inherited inherited[RECORD_STREAMS];
    size_t inherited_count;
    bool found = false;

    (void)state;
    assert_int_equal(record_take(pid, pid, 40101, &record, &err), 0);
    assert_uint_equal(record.pid_count, 1);
    assert_int_equal(record.pids[0], pid);
    for (size_t i = 0; i < record.file_count; i++) {
        assert_string_not_equal(record.files[i].path, only_read);
        assert_string_not_equal(record.files[i].path, output); /* a stream of ckpt-run */
        if (strcmp(record.files[i].path, written) == 0)
            found = record.files[i].bytes == 100;
    }
    assert_true(found);
    (void)unlinkat(folder_fd, RECORD_NAME, 0);
    assert_int_equal(record_write(&record, folder_fd, &err), 0);
    assert_int_equal(record_write(&record, folder_fd, &err), -1); /* never over another one */
    assert_int_equal(record_read(folder_fd, &again, &err), 0);
    assert_uint_equal(again.version, 40101);
    assert_int_equal(uname(&system_here), 0);
    assert_string_equal(again.machine, system_here.machine);
    assert_string_equal(again.kernel, system_here.release);
    assert_uint_equal(again.file_count, record.file_count);
    assert_string_equal(again.streams[1], output + 1);
    inherited_count = record_inherit(&again, inherited);
    assert_true(inherited_count >= 1);
    found = false;
    for (size_t i = 0; i < inherited_count; i++)
        found = found || (inherited[i].fd == 1 && strcmp(inherited[i].key, output + 1) == 0);
    assert_true(found);
    record_free(&record);
    record_free(&again);
    end_program(pid);
}

static void a_name_that_cannot_be_recorded_is_refused(void **state)
{
    char path[80];
    struct record record;
    pid_t pid;

    (void)state;
    snprintf(path, sizeof(path), "%s/a\nb", folder);
    pid = start_program(path);
    assert_int_equal(record_take(pid, pid, 40101, &record, &err), -1);
    assert_contains(err.text, "line feed in its name");
    assert_null(strchr(err.text, '\n'));
    end_program(pid);
    assert_int_equal(record_take(pid, pid, 40101, &record, &err), -1);
    assert_contains(err.text, "has ended");
}

/* Restored on another node, after another boot: the owner is told what differs, and nothing of the
 * files is touched for a machine that cannot run it. */
static void an_image_of_another_system_is_told(void **state)
{
    char text[256];
    struct record record;

    (void)state;
    make_file(written, 100);
    snprintf(text, sizeof(text),
             "criu 40101\nmachine riscv64\nkernel 5.4.0-x\npid 4194305\nfile 50 %s\n", written);
    write_text(text);
    assert_int_equal(record_read(folder_fd, &record, &err), 0);
    assert_int_equal(record_prepare(&record, 0, &err), -1);
    assert_contains(err.text, "of a machine of the kind riscv64, and this node is ");
    assert_uint_equal(size_of(written), 100);
    (void)err_set(&err, ERR_REFUSED, "no memory");
    assert_int_equal(record_wrap(&record, 40101, &err), -1);
    assert_contains(err.text, "no memory; its image is of the kernel 5.4.0-x, and this node has ");
    assert_int_equal(err.code, ERR_REFUSED);
    record_free(&record);
    write_text("criu 40102\npid 4194305\n"); /* of a release that did not write that */
    assert_int_equal(record_read(folder_fd, &record, &err), 0);
    assert_int_equal(record_prepare(&record, 0, &err), 0);
    (void)err_set(&err, ERR_REFUSED, "no memory");
    assert_int_equal(record_wrap(&record, 40102, &err), -1);
    assert_string_equal(err.text, "no memory");
    assert_int_equal(record_wrap(&record, 31701, &err), -1);
    assert_contains(err.text, "no memory; its image is of criu 4.1, and this node has an older");
    record_free(&record);
}

static void damaged_ones_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "criu 40101\n",                     /* no process */
        "pid 77\n",                         /* of no release */
        "criu 40101\npid 1\n",              /* never a job's */
        "criu 40101\npid 77\nfile -1 /a\n", /* no length */
        "criu 40101\npid 77\nfile 7 a\n",   /* no path */
        "criu 40101\npid 77\nfile 99999999999999999999 /a\n",
        "criu 40101\npid 77\nstream 3 pipe:[1]\n", /* there are three */
        "criu 40101\npid 77\nsocket 1 x\n",
        "criu x\npid 77\n",
    };
    struct record record;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        write_text(texts[i]);
        assert_int_equal(record_read(folder_fd, &record, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
    }
    (void)unlinkat(folder_fd, RECORD_NAME, 0);
    assert_int_equal(record_read(folder_fd, &record, &err), -1);
}

static int prepare(const char *text)
{
    struct record record;
    int result;

    write_text(text);
    assert_int_equal(record_read(folder_fd, &record, &err), 0);
    result = record_prepare(&record, 200, &err);
    record_free(&record);
    return result;
}

static void files_get_their_lengths_and_pids_are_free(void **state)
{
    char text[256];
    pid_t pid = start_program(NULL), gone = start_program(NULL);

    (void)state;
    end_program(gone);
    make_file(written, 150);
    snprintf(text, sizeof(text), "criu 40101\npid %d\nfile 100 %s\n", (int)gone, written);
    assert_int_equal(prepare(text), 0);
    assert_uint_equal(size_of(written), 100);
    snprintf(text, sizeof(text), "criu 40101\npid %d\nfile 101 %s\n", (int)gone, written);
    assert_int_equal(prepare(text), -1);
    assert_contains(err.text, "it had written 101 bytes");
    assert_contains(err.text, "which has 100 now: bring the file back");
    assert_uint_equal(size_of(written), 100);
    snprintf(text, sizeof(text), "criu 40101\npid %d\nfile 1 %s\n", (int)gone, folder);
    assert_int_equal(prepare(text), -1);
    snprintf(text, sizeof(text), "criu 40101\npid %d\nfile 1 %s/gone\n", (int)gone, folder);
    assert_int_equal(prepare(text), -1);
    assert_contains(err.text, "cannot be opened here");
    make_file(written, 150);
    snprintf(text, sizeof(text), "criu 40101\npid %d\nfile 100 %s\n", (int)pid, written);
    assert_int_equal(prepare(text), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_uint_equal(size_of(written), 150); /* nothing is cut before all numbers are free */
    end_program(pid);
}

static int open_site(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(written, sizeof(written), "%s/written", folder);
    snprintf(only_read, sizeof(only_read), "%s/read", folder);
    snprintf(output, sizeof(output), "%s/output", folder);
    make_file(written, 100);
    make_file(only_read, 50);
    make_file(output, 7);
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder_fd >= 0 ? 0 : -1;
}

static int close_site(void **state)
{
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", folder);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_the_image_needs_and_is_read_again),
        cmocka_unit_test(a_name_that_cannot_be_recorded_is_refused),
        cmocka_unit_test(an_image_of_another_system_is_told),
        cmocka_unit_test(damaged_ones_are_refused),
        cmocka_unit_test(files_get_their_lengths_and_pids_are_free),
    };

    return cmocka_run_group_tests(tests, open_site, close_site);
}
