/* What a job's user may leave, or do, in a folder that a worker lists, hashes, publishes or
 * removes. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/tree.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define AT_N1 "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

enum { USER = 54321, ROUNDS = 60, NAME_LENGTH = 250, DEPTH = 15 };

static char staged[512], staged_name[192];

static void stage_n1(struct folders *folders)
{
    assert_int_equal(verb(folders, "stage", AT_N1, NULL), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "name", staged_name, sizeof(staged_name)), 0);
    snprintf(staged, sizeof(staged), "%s/%s", folders->path, staged_name);
    write_text(staged, "a.bin", "weights");
}

static int publish_n1(struct folders *folders)
{
    return verb(folders, "publish", AT_N1, "--name", staged_name, NULL);
}

static double now_s(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- sizes and names ---- */

static void write_holes(const char *folder, const char *name, off_t length)
{
    char path[600];

    write_text(folder, name, "x");
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (truncate(path, length) != 0) {
        print_message("skipped: %s takes no file of %lld bytes\n", folder, (long long)length);
        skip();
    }
}

/* It takes no space, and its hashes alone would take all memory. */
static void files_of_holes_without_end_are_refused_at_once(void **state)
{
    struct folders *folders = *state;
    double begin_s = now_s();

    write_holes(folders->source, "holes", (off_t)1 << 60);
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "holes");
    stage_n1(folders);
    write_holes(staged, "holes", (off_t)1 << 60);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_REFUSED);
    for (char name[] = "h0"; name[1] <= '4'; name[1]++) /* and not each, but all together */
        write_holes(staged, name, (off_t)15 << 40);
    write_holes(staged, "holes", 1);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_REFUSED);
    assert_true(now_s() - begin_s < 30);
    assert_int_equal(verb(folders, "abandon", AT_N1, NULL), WORKER_EXIT_OK);
}

/* Paths of nearly 4 KiB, as many as make 256 MiB. */
static void names_without_end_are_refused(void **state)
{
    struct folders *folders = *state;
    char name[NAME_LENGTH + 1];
    int fd = open(folders->source, O_RDONLY | O_DIRECTORY), result = 0;
    char last[16];

    memset(name, 'n', NAME_LENGTH);
    name[NAME_LENGTH] = '\0';
    for (int i = 0; i < DEPTH; i++) {
        int next;

        assert_int_equal(mkdirat(fd, name, 0700), 0);
        next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    for (int i = 0; i < 80000 && result == 0; i++) {
        snprintf(last, sizeof(last), "%d", i);
        result = mknodat(fd, last, S_IFREG | 0600, 0);
    }
    close(fd);
    assert_int_equal(result, 0);
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "names");
}

/* What a killed attempt left: removing it may be cut short, and goes on later. */
static void a_removal_ends_when_its_time_is_over(void **state)
{
    struct folders *folders = *state;
    struct err err = {0};
    char name[32];
    int fd = open(folders->root, O_RDONLY | O_DIRECTORY);

    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "sub/empty/%d", i);
        write_text(folders->source, name, "");
    }
    tree_bound_removal(1);
    assert_int_equal(tree_remove(fd, "src", &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_true(exists(folders->root, "src"));
    tree_bound_removal(0);
    assert_int_equal(tree_remove(fd, "src", &err), 0);
    assert_false(exists(folders->root, "src"));
    assert_int_equal(mkdir(folders->source, 0700), 0);
    close(fd);
}

/* ---- what it closes to itself ---- */

static int give_away(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return lchown(path, USER, USER);
}

/* A verb's user cannot come back: it runs in a child. 0: it was refused, and the application is
 * named as the cause, not the destination. */
static int refused_as_user(struct folders *folders, int (*run)(struct folders *folders))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        bool refused;

        if (setgid(USER) != 0 || setuid(USER) != 0)
            _exit(2);
        refused = run(folders) == WORKER_EXIT_REFUSED &&
                  strstr(folders->out, "cause=application_refused\n") != NULL &&
                  strstr(folders->errors, "its own user") != NULL;
        if (!refused)
            fprintf(stderr, "%s%s", folders->out, folders->errors);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each thing of a folder in turn. */
static void expect_closed_refused(struct folders *folders, const char *folder,
                                  int (*run)(struct folders *folders))
{
    static const char *const closed[] = {"a.bin", "sub"};
    char path[700];

    if (geteuid() != 0) {
        print_message("skipped: needs root to become a user\n");
        skip();
    }
    assert_int_equal(nftw(folders->root, give_away, 16, FTW_PHYS), 0);
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, closed[i]);
        assert_int_equal(chmod(path, 0), 0);
        assert_int_equal(refused_as_user(folders, run), 0);
        assert_int_equal(chmod(path, 0700), 0);
    }
}

/* Its owner would be sent to whoever runs the storage. */
static void what_its_own_user_cannot_read_is_no_fault_of_the_destination(void **state)
{
    struct folders *folders = *state;

    expect_closed_refused(folders, folders->source, put_n1);
}

static void what_its_own_user_cannot_read_is_not_published(void **state)
{
    struct folders *folders = *state;
    char path[700];

    stage_n1(folders);
    snprintf(path, sizeof(path), "%s/sub", staged);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_closed_refused(folders, staged, publish_n1);
}

/* ---- what is no file ---- */

static void make_fifo(const char *path)
{
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/cwd/x");
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_int_equal(rename("/proc/self/cwd/x", path), 0);
}

static void make_link(const char *path)
{
    assert_int_equal(symlink("/etc/passwd", path), 0);
}

static void make_folder_link(const char *path)
{
    assert_int_equal(symlink("/etc", path), 0);
}

/* A worker that waited for one of these would hold up its job. */
static void nothing_waits_for_what_is_no_file(void **state)
{
    struct folders *folders = *state;
    static const struct {
        const char *name;
        void (*make)(const char *path);
    } things[] = {{"fifo", make_fifo},           {"socket", make_socket}, {"link", make_link},
                  {"folder", make_folder_link},  {"MANIFEST", make_fifo}, {"MANIFEST", make_link},
                  {"MANIFEST", make_folder_link}};
    char path[700];

    alarm(60);
    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
        stage_n1(folders);
        assert_int_equal(chdir(staged), 0);
        snprintf(path, sizeof(path), "%s/%s", staged, things[i].name);
        things[i].make(path);
        assert_int_equal(chdir("/"), 0);
        assert_int_not_equal(publish_n1(folders), WORKER_EXIT_OK);
        assert_false(exists(folders->path, "n1"));
        assert_int_equal(verb(folders, "abandon", AT_N1, NULL), WORKER_EXIT_OK);
        assert_int_equal(count_hidden(folders->path), 0);
    }
    (void)alarm(0);
}

/* ---- races ---- */

static char secret[256];

static void try_rename(const char *from, const char *to)
{
    char one[700], other[700];

    snprintf(one, sizeof(one), "%s/%s", staged, from);
    snprintf(other, sizeof(other), "%s/%s", staged, to);
    (void)rename(one, other);
}

static void try_link(const char *to, const char *name, bool hard)
{
    char path[700];

    snprintf(path, sizeof(path), "%s/%s", staged, name);
    if ((hard ? link(to, path) : symlink(to, path)) != 0)
        (void)unlink(path);
}

/* Until it is killed. */
static void swap_for_ever(uint64_t seed)
{
    char file[300], path[700];

    snprintf(file, sizeof(file), "%s/file", secret);
    for (;;) {
        switch (test_random(&seed) % 7) {
        case 0:
            try_rename("sub", "bus");
            try_link(secret, "sub", false);
            break;
        case 1:
            try_link(secret, "sub", false);
            try_rename("bus", "sub");
            break;
        case 2:
            try_link(file, "a.bin", false);
            break;
        case 3:
            try_link(file, "hard", true);
            break;
        case 4:
            snprintf(path, sizeof(path), "%s/fifo", staged);
            if (mkfifo(path, 0600) != 0)
                (void)unlink(path);
            break;
        case 5:
            try_link(secret, "MANIFEST", false);
            break;
        default:
            snprintf(path, sizeof(path), "%s/a.bin", staged);
            (void)unlink(path);
            write_text("/proc/self/cwd", "new", "other weights");
            (void)rename("/proc/self/cwd/new", path);
        }
    }
}

static void expect_secret_whole(void)
{
    char text[16] = "", path[300];
    FILE *file;
    struct stat status;

    snprintf(path, sizeof(path), "%s/file", secret);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "the secret");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

/* Of what was published nothing may come from elsewhere. */
static int look_at(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    char text[16] = "";
    FILE *file;

    (void)status;
    (void)walk;
    assert_int_not_equal(kind, FTW_SL);
    if (kind != FTW_F || status->st_size == 0)
        return 0;
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_not_equal(text, "the secret");
    return 0;
}

/* Names are swapped for links while they are listed, opened, hashed and removed: nothing outside
 * the folder is read into a checkpoint, written or removed. */
static void swapped_names_lead_nowhere(void **state)
{
    struct folders *folders = *state;
    uint64_t seed = test_seed();
    unsigned published = 0;
    char path[700];

    snprintf(secret, sizeof(secret), "%s/secret", folders->root);
    assert_int_equal(mkdir(secret, 0700), 0);
    write_text(secret, "file", "the secret");
    snprintf(path, sizeof(path), "%s/file", secret);
    assert_int_equal(chmod(path, 0600), 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child;

        stage_n1(folders);
        snprintf(path, sizeof(path), "%s/sub", staged);
        assert_int_equal(mkdir(path, 0700), 0);
        write_text(path, "b.bin", "more weights");
        child = fork();
        if (child == 0) {
            if (chdir(folders->root) != 0)
                _exit(1);
            swap_for_ever(seed + (uint64_t)round);
        }
        if (round % 2 == 0) { /* before the second look, or beside all of it */
            usleep(3000);
            (void)kill(child, SIGKILL);
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
        published += publish_n1(folders) == WORKER_EXIT_OK;
        if (round % 4 < 2)
            (void)verb(folders, "abandon", AT_N1, NULL);
        if (round % 2 != 0) {
            (void)kill(child, SIGKILL);
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
        expect_secret_whole();
        if (round % 2 == 0 && exists(folders->path, "n1")) {
            snprintf(path, sizeof(path), "%s/n1", folders->path);
            assert_int_equal(nftw(path, look_at, 16, FTW_PHYS), 0);
        }
        assert_int_equal(
            verb(folders, "collect", "--prefix", folders->prefix, "--path", folders->path, NULL),
            WORKER_EXIT_OK);
        expect_secret_whole();
        assert_false(exists(folders->path, ""));
    }
    print_message("published in %u of %d rounds\n", published, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
        TEST(files_of_holes_without_end_are_refused_at_once),
        TEST(names_without_end_are_refused),
        TEST(a_removal_ends_when_its_time_is_over),
        TEST(what_its_own_user_cannot_read_is_no_fault_of_the_destination),
        TEST(what_its_own_user_cannot_read_is_not_published),
        TEST(nothing_waits_for_what_is_no_file),
        TEST(swapped_names_lead_nowhere),
#undef TEST
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
