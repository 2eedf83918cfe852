/* The agent of one job without a cluster. See alone_agent.h. */
#include "src/agent/alone/alone_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/alone/alone_folder.h"
#include "src/agent/alone/alone_server.h"
#include "src/agent/app/app_ranks.h"
#include "src/agent/app/app_server.h"
#include "src/agent/app/own_up.h"
#include "src/agent/daemon/agent.h"
#include "src/agent/daemon/config.h"
#include "src/agent/daemon/session.h"
#include "src/agent/job/restart_points.h"
#include "src/agent/node/platform.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/number.h"
#include "src/dest/mark.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"

enum {
    HEARTBEAT_MS = 10000,
    LOCKED_TRIES = 100, /* an agent before it has just been killed */
    LOCKED_PAUSE_MS = 50,
    LOG_MAX_BYTES = 1 << 20,
    EXIT_FAILED = 1,
    EXIT_WORDS = 125
};

static struct alone_process {
    const char *state;
    struct alone_settings settings;
    uv_loop_t loop;
    struct disk_ops disk;
    struct machine_ops machine;
    struct platform platform;
    char boot_id[64];
    char socket[AGENT_SOCKET_MAX_BYTES + 1], ranks[AGENT_SOCKET_MAX_BYTES + 16];
    char orders[AGENT_SOCKET_MAX_BYTES + 16];
    struct agent agent;
    struct alone alone;
    struct alone_server *server;
    struct app_server *app_server;
    struct app_ranks *app_ranks;
    struct alone_checkpoint found[ALONE_CHECKPOINTS_MAX];
    size_t found_count;
} process;

static void tell_damaged(void *data, const char *text)
{
    (void)data;
    printf("note checkpoint passed over, it is damaged: %s\n", text);
}

/* ---- the journal ---- */

static int journal_open(struct ledger **ret_ledger, struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOCKED_PAUSE_MS * 1000000L};
    int result = -1;

    for (int i = 0; i < LOCKED_TRIES && result != 0; i++) {
        result =
            ledger_open(&process.disk, process.state, ALONE_NODE, process.boot_id, ret_ledger, err);
        if (result != 0 && err->code != ERR_LOCKED)
            return -1;
        if (result != 0)
            nanosleep(&pause, NULL);
    }
    return result;
}

/* The run that was here last, as the journal has it. */
static struct alone_found run_found(const struct ledger *ledger)
{
    const struct ledger_entry *entry = ledger_find(ledger, process.settings.allocation_id);

    if (entry == NULL || entry->run == 0 || entry->run <= entry->ended_run || entry->ended)
        return (struct alone_found){0};
    return (struct alone_found){
        .run = entry->run, .running = entry->pid != 0, .began_from = entry->named_restart};
}

/* Ids and runs only grow, also when one of the two folders was lost. */
static int orders_begin(const struct ledger *ledger, struct err *err)
{
    const struct alone_found found = run_found(ledger);
    uint64_t epoch;

    if (alone_folder_next_epoch(process.settings.folder, ledger_fence(ledger).epoch, &epoch, err) !=
        0)
        return -1;
    alone_folder_tidy(process.settings.folder); /* the epoch is above them */
    alone_begin(&process.alone, &process.settings, epoch, &found, uv_hrtime() / 1000000);
    for (size_t i = 0; i < process.found_count; i++)
        alone_know(&process.alone, &process.found[i]);
    return 0;
}

/* ---- life ---- */

static int agent_open(struct err *err)
{
    struct agent *agent = &process.agent;
    struct clock_ops clock;
    struct ledger *ledger;

    uv_clock_ops(&process.loop, &clock);
    disk_uv_ops(&process.loop, &process.disk);
    machine_uv_ops(&process.loop, &process.machine);
    if (journal_open(&ledger, err) != 0 || orders_begin(ledger, err) != 0)
        return -1;
    agent_init(agent, &process.loop, &clock, &process.machine, ALONE_NODE, process.boot_id, ledger);
    platform_read(&process.platform);
    agent->architecture = process.platform.machine;
    agent->os = process.platform.os;
    /* All that reports before would tell is known: from the folder, and from the journal's entry. A
     * report of a checkpoint may have outlived it. */
    return alone_server_new(&process.loop, &process.alone, process.orders,
                            ledger_last_sequence(ledger), &process.server, err);
}

static int agent_listen(struct err *err)
{
    struct agent *agent = &process.agent;
    struct network_ops network;

    network_uv_ops(&process.loop, &network);
    if (restart_points_new(agent, process.orders, &agent->restart_points, err) != 0 ||
        own_asker_new(agent, process.orders, NULL, &agent->own_asker, err) != 0 ||
        session_new(agent, process.orders, HEARTBEAT_MS, &agent->session, err) != 0)
        return -1;
    agent_resume(agent);
    if (app_ranks_new(agent, &network, process.ranks, &process.app_ranks, err) != 0)
        return -1;
    return app_server_new(agent, process.socket, &process.app_server, err);
}

static void say_ready(void)
{
    const struct alone_checkpoint *newest = alone_newest(&process.alone);
    size_t whole = 0;
    int null;

    for (size_t i = 0; i < process.found_count; i++)
        whole += !process.found[i].damaged;
    printf("ready %zu %" PRIu64 " %" PRIu64 "\n", whole, newest == NULL ? 0 : newest->id,
           newest == NULL ? 0 : newest->taken_ms);
    fflush(stdout);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(null >= 0 && dup2(null, STDOUT_FILENO) == STDOUT_FILENO);
    close(null);
}

/* A log that has grown begins anew: nobody turns it over. */
static void log_open(void)
{
    char path[PATH_MAX];
    struct stat status;
    int fd;

    snprintf(path, sizeof(path), "%s/" ALONE_LOG, process.state);
    if (stat(path, &status) == 0 && status.st_size > LOG_MAX_BYTES)
        (void)unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    close(fd);
    log_set_identity("ckpt-run", ALONE_NODE);
    check_set_hook(log_dump);
}

static int words_take(int argc, char **argv, struct err *err)
{
    const struct number_range any = {.min = 1, .max = UINT64_MAX >> 1};
    const struct number_range keep = {.min = 1, .max = ALONE_KEEP_MAX};
    uint64_t every_ms, count;

    if (argc != 6 || number_parse(NUMBER_PLAIN, argv[4], any, &every_ms, err) != 0 ||
        number_parse(NUMBER_PLAIN, argv[5], keep, &count, err) != 0)
        return err_set(err, ERR_INVALID,
                       ALONE_VERB " is what ckpt-run --standalone starts; use that");
    process.state = argv[1];
    process.settings = (struct alone_settings){.folder = argv[2],
                                               .allocation_id = argv[3],
                                               .every_ms = every_ms,
                                               .keep = (uint32_t)count,
                                               .cluster_mark = mark_of(ALONE_CLUSTER)};
    snprintf(process.socket, sizeof(process.socket), "%s/" ALONE_SOCKET, process.state);
    snprintf(process.ranks, sizeof(process.ranks), "%s" AGENT_RANKS_SUFFIX, process.socket);
    snprintf(process.orders, sizeof(process.orders), "unix:%.*s/" ALONE_ORDERS,
             AGENT_SOCKET_MAX_BYTES - 8, process.state);
    return 0;
}

int alone_agent(int argc, char **argv)
{
    struct err err = {0};

    if (words_take(argc, argv, &err) != 0) {
        fprintf(stderr, "ckpt-run: %s\n", err.text);
        return EXIT_WORDS;
    }
    (void)umask(077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write over the limit of a user's shell is told as EFBIG */
    log_open();
    platform_boot_id(process.boot_id, sizeof(process.boot_id));
    CHECK(uv_loop_init(&process.loop) == 0);
    if (alone_folder_read(process.settings.folder, process.found, &process.found_count,
                          tell_damaged, NULL, &err) != 0 ||
        agent_open(&err) != 0 || agent_listen(&err) != 0) {
        log_error("start_failed", "text=\"%s\"", err.text);
        printf("error %s\n", err.text);
        fflush(stdout);
        return EXIT_FAILED;
    }
    log_info("started", "folder=\"%s\" checkpoints=%zu epoch=%" PRIu64 " run=%" PRIu64,
             process.settings.folder, process.found_count, process.alone.epoch, process.alone.run);
    say_ready();
    uv_run(&process.loop, UV_RUN_DEFAULT);
    CHECK_UNREACHABLE("it ends with its ckpt-run");
}
