/* Opening users' paths in a process. The program is its own ckpt-worker: what it does depends on
 * the path's last name. */
#include "src/agent/node/opened.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/look.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"

enum { PATHS = 40, HANG_S = 8, NFS = 0x6969 };

static uv_loop_t loop;
static char folder[64];
static int opened_count, refused_count;
static char why_not[OPENED_WHY_BYTES];
static bool unkillable; /* as what waits for a server in the kernel */

int kill(pid_t pid, int signal)
{
    return unkillable ? 0 : (int)syscall(SYS_kill, pid, signal);
}

static void done(void *data, struct opened *take, const char *why)
{
    (void)data;
    opened_count += take != NULL;
    refused_count += take == NULL;
    if (take == NULL)
        snprintf(why_not, sizeof(why_not), "%s", why);
    opened_close(take);
}

static struct path_open *start(const char *path)
{
    return path_open_start(&loop, OPENED_FOLDER, path, getuid(), done, NULL);
}

static struct path_open *start_name(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return start(path);
}

static int setup(void **state)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    worker_set_program(self);
    snprintf(folder, sizeof(folder), "/tmp/test-opened-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(uv_loop_init(&loop), 0);
    opened_count = refused_count = 0;
    why_not[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0); /* no handle is left */
    return rmdir(folder);
}

static void a_user_may_start_many_jobs_at_once(void **state)
{
    struct path_open *gone = NULL;

    (void)state;
    for (int i = 0; i < PATHS; i++)
        gone = start(folder);
    path_open_detach(gone); /* it waits for its turn */
    assert_int_equal(opened_count + refused_count, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(opened_count, PATHS - 1);
    assert_int_equal(refused_count, 0);
}

static void paths_that_hang_hold_up_those_of_their_user_alone(void **state)
{
    (void)state;
    unkillable = true;
    for (int i = 0; i < PATH_OPENS_PER_USER + 1; i++)
        start_name("hang");
    path_open_start(&loop, OPENED_FOLDER, "/tmp", getuid() + 1, done, NULL);
    while (refused_count == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_contains(why_not, "is not a folder of user"); /* of the other one, at once */
    while (refused_count < PATH_OPENS_PER_USER + 2)
        uv_run(&loop, UV_RUN_ONCE);
    assert_contains(why_not, "8 paths of user");
    unkillable = false; /* the lookers end by themselves */
}

static void a_folder_on_a_network_is_refused(void **state)
{
    (void)state;
    start_name("nfs");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(refused_count, 1);
    assert_contains(why_not, "on NFS");
    assert_contains(why_not, "--work-dir");
    assert_contains(why_not, folder);
}

static void an_agent_without_descriptors_says_so(void **state)
{
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    start(folder);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(refused_count, 1);
    assert_contains(why_not, "too many files open");
}

/* /proc/PID/root leads into mounts that a user makes without anybody's leave, a file system of the
 * user's own below a local one. */
static void a_path_through_a_process_is_refused(void **state)
{
    char path[160];

    (void)state;
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)getpid(), folder);
    start(path);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(refused_count, 1);
    assert_contains(why_not, path);
}

static void what_a_looker_says_is_not_believed_without_its_descriptor(void **state)
{
    (void)state;
    start_name("bare");
    start_name("mute");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(refused_count, 2);
}

static void send_nfs(void)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    char text[128];
    struct iovec part = {text, (size_t)snprintf(text, sizeof(text), "mode=40700 uid=%u type=%x\n",
                                                (unsigned)getuid(), (unsigned)NFS)};
    const struct msghdr message = {.msg_iov = &part,
                                   .msg_iovlen = 1,
                                   .msg_control = control.bytes,
                                   .msg_controllen = sizeof(control.bytes)};
    int fd = STDIN_FILENO;

    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    (void)!sendmsg(STDOUT_FILENO, &message, 0);
}

static int look(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    struct err err;

    if (strcmp(name, "hang") == 0)
        sleep(HANG_S);
    else if (strcmp(name, "nfs") == 0)
        send_nfs();
    else if (strcmp(name, "bare") == 0)
        (void)!write(STDOUT_FILENO, "mode=40700 uid=0 type=ef53\n", 27);
    else if (strcmp(name, "mute") != 0)
        return look_path(path, STDOUT_FILENO, &err);
    return 0;
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_user_may_start_many_jobs_at_once),
        TEST(paths_that_hang_hold_up_those_of_their_user_alone),
        TEST(a_folder_on_a_network_is_refused),
        TEST(an_agent_without_descriptors_says_so),
        TEST(a_path_through_a_process_is_refused),
        TEST(what_a_looker_says_is_not_believed_without_its_descriptor),
    };

    if (argc == 4 && strcmp(argv[1], "look") == 0)
        return look(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
