/* The folder of a job without a cluster: what is found in it, and its one writer (S4-007). */
#include "src/agent/alone/alone_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/posix/posix.h"
#include "tests/support/test.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 600 };

static char root[NAME_BYTES], told[TEXT_BYTES];
static struct alone_checkpoint found[ALONE_CHECKPOINTS_MAX];
static size_t count;

static int make_folder(void **state)
{
    (void)state;
    told[0] = '\0';
    snprintf(root, sizeof(root), "/tmp/test-alone-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char command[NAME_BYTES + 16];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static void note_damaged(void *data, const char *text)
{
    (void)data;
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s;", text);
}

static void folder_read(void)
{
    struct err err;

    assert_int_equal(alone_folder_read(root, found, &count, note_damaged, NULL, &err), 0);
}

static const char *path_of(const char *id, const char *more)
{
    static char path[2 * NAME_BYTES + 64];

    snprintf(path, sizeof(path), "%s/" ALONE_PLACE "/%s%s", root, id, more);
    return path;
}

/* As the worker of an agent does. */
static struct destination_summary shard_put(const char *id)
{
    char source[NAME_BYTES + 8], path[2 * NAME_BYTES + 64];
    struct destination_place place = {.prefix = root, .path = path, .part = "part-0000"};
    const struct destination_how how = {.read_back = SAMPLE_NEVER};
    struct destination_summary summary;
    struct err err;
    FILE *file;

    snprintf(source, sizeof(source), "%s/src", root);
    (void)mkdir(source, 0700);
    snprintf(path, sizeof(path), "%s/n", source);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(id, file);
    fclose(file);
    snprintf(path, sizeof(path), "%s", path_of(id, ""));
    assert_int_equal(posix_put(&place, source, &how, &summary, &err), 0);
    return summary;
}

static void damage(const char *path, off_t at)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "?", 1, at), 1);
    close(fd);
}

static void a_new_folder_has_none(void **state)
{
    char part[ALONE_PATH_BYTES], label[LABEL_MAX_BYTES + 1];

    (void)state;
    folder_read();
    assert_uint_equal(count, 0);
    assert_uint_equal(alone_folder_count(root).whole + alone_folder_count(root).damaged, 0);
    assert_uint_equal(alone_folder_epoch(root), 0);
    assert_false(alone_folder_newest(root, part, label));
}

static void what_was_put_is_found_by_rising_id_with_its_hash_and_note(void **state)
{
    struct alone_checkpoint noted = {.taken_ms = 1234567, .label = "step-7"};
    char part[ALONE_PATH_BYTES], label[LABEL_MAX_BYTES + 1];
    struct destination_summary last;
    struct err err;

    (void)state;
    (void)shard_put("1-10");
    (void)shard_put("1-9");
    last = shard_put("2-1");
    assert_int_equal(mkdir(path_of("not-one", ""), 0700), 0);
    assert_int_equal(alone_note_write(path_of("1-10", ""), &noted, &err), 0);
    folder_read();
    assert_uint_equal(count, 3);
    assert_uint_equal(found[0].id, checkpoint_id_make(1, 9));
    assert_uint_equal(found[1].id, checkpoint_id_make(1, 10));
    assert_uint_equal(found[1].taken_ms, 1234567);
    assert_string_equal(found[1].label, "step-7");
    assert_uint_equal(found[2].id, checkpoint_id_make(2, 1));
    assert_uint_equal(found[2].size_bytes, 3);
    assert_string_equal(found[2].manifest_sha256, last.manifest_sha256);
    assert_true(found[2].taken_ms > 1234567); /* of its MANIFEST */
    assert_string_equal(told, "");
    assert_true(alone_folder_newest(root, part, label));
    assert_string_equal(part, path_of("2-1", "/part-0000"));
}

/* Nothing wraps round to numbers that are lower than those that lie there: the name is refused. */
static void the_last_epoch_is_refused_by_name(void **state)
{
    uint64_t epoch = 0;
    struct err err = {0};

    (void)state;
    assert_int_equal(alone_folder_next_epoch(root, 0, &epoch, &err), 0);
    assert_uint_equal(epoch, 1);
    (void)shard_put("16777214-1");
    assert_int_equal(alone_folder_next_epoch(root, 3, &epoch, &err), 0);
    assert_uint_equal(epoch, 16777215);
    assert_uint_equal(run_epoch(checkpoint_id_make(epoch, 1)), epoch);
    assert_int_equal(alone_folder_next_epoch(root, epoch, &epoch, &err), -1);
    assert_contains(err.text, "another --work-dir begins a new one");
    assert_int_equal(mkdir(path_of("16777215-1", ""), 0700), 0); /* of an attempt that failed */
    assert_int_equal(alone_folder_next_epoch(root, 3, &epoch, &err), -1);
    assert_contains(err.text, "/16777215-1 has the highest number");
    assert_contains(err.text, "move it out");
    assert_int_equal(mkdir(path_of("16777216-1", ""), 0700), 0); /* no number of ours */
    assert_int_equal(alone_folder_next_epoch(root, 3, &epoch, &err), -1);
    assert_contains(err.text, "/16777215-1 has");
    assert_uint_equal(epoch, 16777215);
}

static void failed_attempts_hide_no_checkpoint(void **state)
{
    char name[32];

    (void)state;
    (void)shard_put("1-1");
    for (int i = 2; i <= ALONE_CHECKPOINTS_MAX + 1; i++) {
        snprintf(name, sizeof(name), "1-%d", i);
        assert_int_equal(mkdir(path_of(name, ""), 0700), 0);
    }
    folder_read();
    assert_uint_equal(count, 1);
    assert_uint_equal(found[0].id, checkpoint_id_make(1, 1));
    assert_false(found[0].damaged);
}

static void file_put(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fclose(file);
}

/* Whatever else is in one may be a copy that somebody is bringing back. */
static void only_the_marks_of_failed_attempts_are_tidied_away(void **state)
{
    static const char *const kept[] = {"1-4", "1-5", "1-6", "not-one"};

    (void)state;
    alone_folder_tidy(root); /* of a job that has taken none yet */
    (void)shard_put("1-1");
    assert_int_equal(mkdir(path_of("1-2", ""), 0700), 0);
    assert_int_equal(mkdir(path_of("1-3", ""), 0700), 0);
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++)
        assert_int_equal(mkdir(path_of(kept[i], ""), 0700), 0);
    file_put(path_of("1-3", "/.cluster.0123456789abcdef"));
    file_put(path_of("1-4", "/.cluster.0123456789abcdef"));
    file_put(path_of("1-4", "/state"));
    file_put(path_of("1-5", "/.cluster.0123456789abcdef"));
    assert_int_equal(mkdir(path_of("1-5", "/part-0000"), 0700), 0);
    file_put(path_of("1-6", "/.cluster.other"));
    alone_folder_tidy(root);
    assert_int_equal(access(path_of("1-2", ""), F_OK), -1);
    assert_int_equal(access(path_of("1-3", ""), F_OK), -1);
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++)
        assert_int_equal(access(path_of(kept[i], ""), F_OK), 0);
    assert_int_equal(access(path_of("1-4", "/.cluster.0123456789abcdef"), F_OK), 0);
    folder_read();
    assert_uint_equal(count, 1);
    assert_false(found[0].damaged);
}

static void damaged_ones_are_known_as_such_and_failed_ones_are_none(void **state)
{
    const struct alone_checkpoint noted = {.taken_ms = 7};
    char part[ALONE_PATH_BYTES], label[LABEL_MAX_BYTES + 1];
    struct err err;

    (void)state;
    (void)shard_put("1-1");
    (void)shard_put("1-2");
    damage(path_of("1-2", "/part-0000/MANIFEST"), 5);
    (void)shard_put("1-3");
    assert_int_equal(alone_note_write(path_of("1-3", ""), &noted, &err), 0);
    assert_int_equal(unlink(path_of("1-3", "/part-0000/MANIFEST")), 0);
    assert_int_equal(mkdir(path_of("5-4", ""), 0700), 0);
    folder_read();
    assert_uint_equal(count, 3);
    assert_false(found[0].damaged);
    assert_true(found[1].damaged);
    assert_true(found[2].damaged);
    assert_contains(told, "1-2");
    assert_contains(told, "1-3");
    assert_null(strstr(told, "5-4"));
    assert_uint_equal(alone_folder_count(root).whole, 1);
    assert_uint_equal(alone_folder_count(root).damaged, 2);
    assert_uint_equal(alone_folder_epoch(root), 5); /* ids are above all that lies there */
    assert_true(alone_folder_newest(root, part, label));
    assert_string_equal(part, path_of("1-1", "/part-0000"));
}

/* Each hash of its MANIFEST may be right, and its files other ones. */
static void damage_that_a_start_found_is_remembered_with_label_and_instant(void **state)
{
    struct alone_checkpoint noted = {.taken_ms = 99, .label = "step-7", .damaged = true};
    char part[ALONE_PATH_BYTES], label[LABEL_MAX_BYTES + 1];
    struct err err;

    (void)state;
    (void)shard_put("1-1");
    (void)shard_put("1-2");
    assert_int_equal(alone_note_write(path_of("1-2", ""), &noted, &err), 0);
    folder_read();
    assert_true(found[1].damaged && !found[0].damaged);
    assert_uint_equal(found[1].taken_ms, 99);
    assert_string_equal(found[1].label, "step-7");
    assert_contains(told, "1-2 was found so at a start before");
    assert_true(alone_folder_newest(root, part, label));
    assert_string_equal(part, path_of("1-1", "/part-0000"));
    noted.label[0] = '\0';
    assert_int_equal(alone_note_write(path_of("1-2", ""), &noted, &err), 0);
    folder_read();
    assert_true(found[1].damaged);
    assert_string_equal(found[1].label, "");
}

static void a_torn_note_counts_as_none(void **state)
{
    FILE *file;

    (void)state;
    (void)shard_put("1-1");
    file = fopen(path_of("1-1", "/" ALONE_NOTE), "w");
    assert_non_null(file);
    fputs("taken_ms=77\nlabel=a b/c", file);
    fclose(file);
    folder_read();
    assert_uint_equal(found[0].taken_ms, 77);
    assert_string_equal(found[0].label, "a");
    file = fopen(path_of("1-1", "/" ALONE_NOTE), "w");
    assert_non_null(file);
    fclose(file);
    folder_read();
    assert_true(found[0].taken_ms > 77);
    assert_string_equal(found[0].label, "");
}

static void lock_note(const char *text, char ret_before[TEXT_BYTES])
{
    char path[NAME_BYTES + 32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/" ALONE_LOCK, root);
    file = fopen(path, "r");
    assert_non_null(file);
    ret_before[fread(ret_before, 1, TEXT_BYTES - 1, file)] = '\0';
    fclose(file);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Its number there is no process here; the kernel tells the number here, where it has one. */
static void refused_as_of_a_container(pid_t child)
{
    char text[TEXT_BYTES], changed[TEXT_BYTES + 64], here[128];
    struct err err = {0};
    char *at;

    lock_note("", text);
    at = strstr(text, "\nnamespace=");
    assert_non_null(at);
    *at = '\0';
    assert_non_null(strstr(text, "\nboot="));
    snprintf(changed, sizeof(changed), "pid 1 on a-container%s\nnamespace=4026500000\n",
             strstr(text, "\nboot="));
    lock_note(changed, text);
    assert_int_equal(alone_folder_lock(root, &err), -1);
    snprintf(here, sizeof(here),
             "pid 1 on a-container, in another PID namespace (a container), "
             "pid %d here;",
             (int)child);
    assert_contains(err.text, here);
    lock_note("", text);
    assert_int_equal(alone_folder_lock(root, &err), -1);
    snprintf(here, sizeof(here), ": pid %d; wait", (int)child);
    assert_contains(err.text, here);
}

/* The other one is a process: the kernel's lock is of one. */
static void a_second_writer_is_refused_with_the_pid_of_the_first(void **state)
{
    int ends[2], fd;
    char pid[32], ready;
    struct err err = {0};
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        if (alone_folder_lock(root, NULL) >= 0 && write(ends[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    assert_int_equal(alone_folder_lock(root, &err), -1);
    assert_int_equal(err.code, ERR_LOCKED);
    snprintf(pid, sizeof(pid), "pid %d on ", (int)child);
    assert_contains(err.text, pid);
    assert_contains(err.text, "--dir");
    refused_as_of_a_container(child);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    fd = alone_folder_lock(root, &err);
    assert_true(fd >= 0);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* It would begin from what is not its own, and have that removed. */
static void another_command_is_refused_until_it_is_meant(void **state)
{
    char shell[] = "bash", own[] = "out.sh", other[] = "other.sh", both[] = "bash out.sh";
    char *const first[] = {shell, own, NULL}, *const second[] = {shell, other, NULL};
    char *const joined[] = {both, NULL};
    const struct alone_line line = {"/home/me", first}, another = {"/home/me", second};
    struct err err = {0};

    (void)state;
    assert_int_equal(alone_folder_claim(root, &another, false, &err), 0);
    assert_int_equal(alone_folder_claim(root, &line, false, &err), 0); /* there is none yet */
    (void)shard_put("1-1");
    assert_int_equal(alone_folder_claim(root, &line, false, &err), 0);
    assert_int_equal(alone_folder_claim(root, &another, false, &err), -1);
    assert_contains(err.text, "by another command: bash out.sh, in /home/me, and this one is bash "
                              "other.sh, in /home/me;");
    assert_contains(err.text, "--replace");
    assert_int_equal(alone_folder_claim(root, &(struct alone_line){"/", first}, false, &err), -1);
    assert_int_equal(
        alone_folder_claim(root, &(struct alone_line){"/home/me", joined}, false, &err), -1);
    assert_int_equal(alone_folder_claim(root, &line, false, &err), 0);
    assert_int_equal(alone_folder_claim(root, &another, true, &err), 0);
    assert_int_equal(alone_folder_claim(root, &line, false, &err), -1);
}

/* A later start of another program would go on from checkpoints that are not its own. */
static void a_folder_that_takes_no_note_of_the_command_is_refused(void **state)
{
    char shell[] = "bash";
    char *const command[] = {shell, NULL};
    const struct alone_line line = {"/home/me", command};
    const struct rlimit none = {0, RLIM_INFINITY};
    struct rlimit before;
    struct err err = {0};
    int result;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    result = alone_folder_claim(root, &line, false, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, -1);
    assert_int_equal(err.code, ERR_IO);
    assert_contains(err.text, "/" ALONE_LINE ": File too large; nothing is started without");
    assert_contains(err.text, "--dir");
    assert_int_equal(alone_folder_claim(root, &line, false, &err), 0);
}

static void a_folder_that_takes_no_lock_is_refused_with_its_name(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(alone_folder_lock("/proc", &err), -1);
    assert_contains(err.text, "/proc/" ALONE_LOCK);
    assert_contains(err.text, "--dir");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_new_folder_has_none),
        TEST(what_was_put_is_found_by_rising_id_with_its_hash_and_note),
        TEST(the_last_epoch_is_refused_by_name),
        TEST(failed_attempts_hide_no_checkpoint),
        TEST(only_the_marks_of_failed_attempts_are_tidied_away),
        TEST(damaged_ones_are_known_as_such_and_failed_ones_are_none),
        TEST(damage_that_a_start_found_is_remembered_with_label_and_instant),
        TEST(a_torn_note_counts_as_none),
        TEST(a_second_writer_is_refused_with_the_pid_of_the_first),
        TEST(another_command_is_refused_until_it_is_meant),
        TEST(a_folder_that_takes_no_note_of_the_command_is_refused),
        TEST(a_folder_that_takes_no_lock_is_refused_with_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
