/* Three members in one process on a real loop, loopback and disk: elect, commit, fail over, catch
 * up by snapshot; in plain text and over TLS. */
#include "tests/support/tls_site.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raft/core/consensus.h"
#include "raft/log/folder.h"
#include "raft/uv_io.h"
#include "src/base/check.h"
#include "src/net/tls_network.h"
#include "src/net/uv_network.h"

enum { MEMBERS = 3, BALLAST_BYTES = 2000000 };

struct counted {
    uint64_t entries, sum;
};

struct member {
    struct consensus *consensus;
    struct counted taken; /* of the snapshot at work */
    size_t taken_bytes;   /* of its ballast */
    enum consensus_role role;
    uint64_t term, entries, sum;
    bool closed, restored;
    char dir[64];
};

static uv_loop_t loop;
static struct clock_ops clock_table;
static struct random_ops random_table;
static struct disk_ops disk_table;
static struct network_ops network_tables[MEMBERS];
static struct tls_network secure[MEMBERS];
static struct site site;
static struct consensus_member list[MEMBERS];
static struct member members[MEMBERS];
static uint64_t acknowledged, dropped;

/* ---- a clock over the loop ---- */

struct clock_timer {
    uv_timer_t uv;
    void (*fire)(void *data);
    void *data;
};

static uint64_t clock_monotonic(void *context)
{
    struct timespec now;

    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t clock_wall(void *context)
{
    return clock_monotonic(context) / 1000;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct clock_timer *timer = check_calloc(1, sizeof(*timer));

    timer->fire = fire;
    timer->data = data;
    CHECK(uv_timer_init(context, &timer->uv) == 0);
    return timer;
}

static void timer_fire(uv_timer_t *uv)
{
    struct clock_timer *timer = (struct clock_timer *)(void *)uv;

    timer->fire(timer->data);
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    uv_timer_start(&timer->uv, timer_fire, (delay_us + 999) / 1000, 0);
}

static void timer_stop(struct clock_timer *timer)
{
    uv_timer_stop(&timer->uv);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle);
}

static void timer_free(struct clock_timer *timer)
{
    if (timer != NULL)
        uv_close((uv_handle_t *)&timer->uv, timer_closed);
}

static void random_fill(void *context, void *bytes, size_t length)
{
    (void)context;
    CHECK(getrandom(bytes, length, 0) == (ssize_t)length);
}

/* ---- hooks ---- */

static void hook_apply(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                       size_t length, void *tag)
{
    struct member *member = context;

    (void)index;
    (void)term;
    member->entries++;
    for (size_t i = 0; i < length; i++)
        member->sum = (member->sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    if (tag != NULL)
        acknowledged++;
}

static void hook_dropped(void *context, void *tag)
{
    (void)context;
    (void)tag;
    dropped++;
}

static void hook_role(void *context, enum consensus_role role, uint64_t term, uint64_t leader_id)
{
    struct member *member = context;

    (void)leader_id;
    member->role = role;
    member->term = term;
}

static void *hook_begin(void *context)
{
    struct member *member = context;

    member->taken.entries = member->entries;
    member->taken.sum = member->sum;
    member->taken_bytes = 0;
    return context;
}

static int hook_next(void *context, void *snapshot, size_t bytes,
                     const struct consensus_writer *writer, bool *ret_done, struct err *err)
{
    struct member *member = context;
    static uint8_t ballast[BALLAST_BYTES];
    size_t left = sizeof(ballast) - member->taken_bytes, length = left < bytes ? left : bytes;

    (void)snapshot;
    for (size_t i = 0; i < sizeof(ballast); i++)
        ballast[i] = (uint8_t)(i * 2654435761u >> 11);
    if (member->taken_bytes == 0 &&
        writer->write(writer->context, &member->taken, sizeof(member->taken), err) != 0)
        return -1;
    member->taken_bytes += length;
    *ret_done = member->taken_bytes == sizeof(ballast);
    return writer->write(writer->context, ballast, length, err);
}

static void hook_end(void *context, void *snapshot)
{
    (void)context;
    (void)snapshot;
}

static int hook_load(void *context, const struct consensus_reader *reader, void **ret_state,
                     struct err *err)
{
    struct counted counted;
    uint8_t *ballast = check_alloc(BALLAST_BYTES);
    int status = reader->read(reader->context, &counted, sizeof(counted), err);

    (void)context;
    if (status == 0)
        status = reader->read(reader->context, ballast, BALLAST_BYTES, err);
    free(ballast);
    if (status != 0)
        return -1;
    *ret_state = check_alloc(sizeof(counted));
    memcpy(*ret_state, &counted, sizeof(counted));
    return 0;
}

static void *hook_adopt(void *context, void *take_state)
{
    struct member *member = context;
    const struct counted *counted = take_state;

    member->entries = counted->entries;
    member->sum = counted->sum;
    member->restored = true;
    return take_state;
}

static void hook_discard(void *context, void *take_state)
{
    (void)context;
    free(take_state);
}

static void hook_fatal(void *context, const struct err *err)
{
    (void)context;
    fprintf(stderr, "fatal: %s\n", err->text);
    abort();
}

/* ---- the cluster ---- */

static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void member_start(unsigned i, bool bootstrap)
{
    struct consensus_hooks hooks = {&members[i], hook_apply, hook_dropped, hook_role,  hook_begin,
                                    hook_next,   hook_end,   hook_load,    hook_adopt, hook_discard,
                                    hook_fatal,  NULL,       NULL,         NULL};
    struct consensus_config config = {.member_id = i + 1,
                                      .cluster_id = "uv",
                                      .data_dir = members[i].dir,
                                      .listen_address = list[i].address,
                                      .members = list,
                                      .member_count = MEMBERS,
                                      .bootstrap = bootstrap,
                                      .election_timeout_ms = 1000,
                                      .heartbeat_ms = 100,
                                      .snapshot_after_entries = 200,
                                      .reserve_bytes = 1 << 20,
                                      .clock = &clock_table,
                                      .random = &random_table,
                                      .disk = &disk_table,
                                      .network = &network_tables[i]};
    struct err err;

    members[i].entries = members[i].sum = 0;
    members[i].restored = members[i].closed = false;
    members[i].role = CONSENSUS_FOLLOWER;
    if (consensus_open(&config, &hooks, &members[i].consensus, &err) != 0)
        fail_msg("%s", err.text);
}

static void set_closed(void *context)
{
    ((struct member *)context)->closed = true;
}

static bool any_leader(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].consensus != NULL && members[i].role == CONSENSUS_LEADER)
            return true;
    return false;
}

static unsigned leader(void)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        if (members[i].consensus != NULL && members[i].role == CONSENSUS_LEADER)
            return i;
    fail_msg("no leader");
    return 0;
}

static bool equal(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].consensus == NULL || members[i].entries < acknowledged ||
            members[i].entries != members[0].entries || members[i].sum != members[0].sum)
            return false;
    return true;
}

/* Runs the loop until the condition holds; a deadline instead of a hang. */
static bool run_until(bool (*condition)(void), unsigned ms)
{
    uint64_t end = clock_monotonic(NULL) + UINT64_C(1000) * ms;

    while (!condition()) {
        if (clock_monotonic(NULL) > end)
            return false;
        uv_run(&loop, UV_RUN_ONCE);
    }
    return true;
}

static uint64_t wanted;

static bool enough(void)
{
    return acknowledged >= wanted;
}

static void propose(unsigned count)
{
    wanted = acknowledged + count;
    for (unsigned i = 0; i < count;) {
        uint8_t bytes[300];
        struct err err;
        size_t length = 1 + i % sizeof(bytes);
        memset(bytes, (int)i, sizeof(bytes));
        if (consensus_propose(members[leader()].consensus, bytes, length, &wanted, &err) == 0) {
            i++;
        } else {
            assert_int_equal(err.code, ERR_FULL);
            uv_run(&loop, UV_RUN_ONCE);
        }
    }
    assert_true(run_until(enough, 30000));
}

static struct member *closing;

static bool is_closed(void)
{
    return closing->closed;
}

static void member_stop(unsigned i)
{
    struct consensus *consensus = members[i].consensus;

    members[i].consensus = NULL;
    closing = &members[i];
    consensus_close(consensus, set_closed, closing);
    assert_true(run_until(is_closed, 10000));
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char name[400];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        unlink(name);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static int read_status;

static void read_done(void *data, int status, const struct err *err)
{
    (void)data;
    (void)err;
    read_status = status;
}

static bool read_finished(void)
{
    return read_status != 1;
}

static int setup(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    clock_table = (struct clock_ops){&loop,       clock_monotonic, clock_wall, timer_new,
                                     timer_start, timer_stop,      timer_free};
    random_table = (struct random_ops){NULL, random_fill};
    disk_uv_ops(&loop, &disk_table);
    acknowledged = dropped = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        network_uv_watchful_ops(&loop, &network_tables[i]);
        snprintf(members[i].dir, sizeof(members[i].dir), "/tmp/ckpt-raft-XXXXXX");
        CHECK(mkdtemp(members[i].dir) != NULL);
        list[i].id = i + 1;
        snprintf(list[i].name, sizeof(list[i].name), "n%u", i + 1);
        snprintf(list[i].address, sizeof(list[i].address), "127.0.0.1:%u", free_port());
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++) /* a check that failed left them running */
        if (members[i].consensus != NULL)
            member_stop(i);
    while (uv_run(&loop, UV_RUN_ONCE) != 0)
        ;
    for (unsigned i = 0; i < MEMBERS; i++)
        remove_dir(members[i].dir);
    return uv_loop_close(&loop);
}

static int copies; /* of this process */

static void copy_counted(void)
{
    copies++;
}

/* Without fork(2): a member with gigabytes of state would stand still while its page tables are
 * copied. */
static void three_members_commit_fail_over_and_catch_up_by_snapshot(void **state)
{
    unsigned old, late;
    uint64_t begin;

    (void)state;
    assert_int_equal(pthread_atfork(copy_counted, NULL, NULL), 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        member_start(i, true);
    assert_true(run_until(any_leader, 10000));
    begin = clock_monotonic(NULL);
    propose(1000);
    print_message("1000 entries in %.1f ms\n", (double)(clock_monotonic(NULL) - begin) / 1000);
    assert_true(run_until(equal, 10000));
    read_status = 1;
    consensus_read(members[leader()].consensus, read_done, NULL);
    assert_true(run_until(read_finished, 5000));
    assert_int_equal(read_status, 0);

    old = leader();
    begin = clock_monotonic(NULL);
    member_stop(old);
    assert_true(run_until(any_leader, 10000));
    propose(1);
    print_message("failover to the next commit in %.1f ms\n",
                  (double)(clock_monotonic(NULL) - begin) / 1000);
    assert_in_range(clock_monotonic(NULL) - begin, 0, 900000); /* below the election timeout */

    propose(1000); /* snapshots are taken; the old leader's place in the log is gone */
    late = old;
    member_start(late, false);
    assert_true(run_until(equal, 30000));
    assert_true(members[late].restored);
    assert_uint_equal(members[late].entries, acknowledged);
    for (unsigned i = 0; i < MEMBERS; i++)
        member_stop(i);
    assert_uint_equal(dropped, 0);
    assert_int_equal(copies, 0);
}

/* Nobody is refused for who he is; a member that is stopped ends handshakes that are under way. */
static void refused(void *data, const char *address, const char *text)
{
    (void)data;
    if (strstr(text, "the peer closed the connection during the handshake") == NULL)
        fail_msg("%s: %s", address, text);
}

static int setup_tls(void **state)
{
    char name[2] = "1";

    setup(state);
    site_open(&site, "uv");
    for (unsigned i = 0; i < MEMBERS; i++, name[0]++) {
        secure[i] = (struct tls_network){.below = network_tables[i],
                                         .clock = &clock_table,
                                         .context = site_context(&site, TLS_REPLICA, name),
                                         .protocol = TLS_NETWORK_MEMBERS,
                                         .handshake_ms = TLS_NETWORK_MEMBERS_MS,
                                         .replicas_only = true,
                                         .refused = refused};
        network_tls_ops(&secure[i], &network_tables[i]);
    }
    return 0;
}

static int teardown_tls(void **state)
{
    int status = teardown(state);

    for (unsigned i = 0; i < MEMBERS; i++)
        tls_context_free((struct tls_context *)(uintptr_t)secure[i].context);
    site_close(&site);
    return status;
}

static void three_members_do_the_same_over_tls(void **state)
{
    three_members_commit_fail_over_and_catch_up_by_snapshot(state);
}

/* ---- single operations of the real tables ---- */

static void a_second_process_cannot_use_the_folder(void **state)
{
    struct folder folder;
    struct err err;
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(folder_open(&folder, &disk_table, members[1].dir,
                                 &(struct folder_owner){"c", 1}, true, &err),
                     0);
    pid = fork();
    if (pid == 0) {
        struct folder second;
        _exit(folder_open(&second, &disk_table, members[1].dir, &(struct folder_owner){"c", 1},
                          true, &err) == -1 &&
                      err.code == ERR_LOCKED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    folder_close(&folder);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the daemon does: a peer that is gone is told by the write */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(three_members_commit_fail_over_and_catch_up_by_snapshot,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(three_members_do_the_same_over_tls, setup_tls,
                                        teardown_tls),
        cmocka_unit_test_setup_teardown(a_second_process_cannot_use_the_folder, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
