/* ckpt-agentd: the node agent's program.
 *
 * Flow     flags, configuration, journal, then one loop until SIGTERM or SIGINT. Applications are
 *          left running; the next start of the agent takes them up again.
 * Errors   exit code 2: configuration or flags; 1: the journal, the socket, the disk. One line
 *          each, with the next step.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/app/app_ranks.h"
#include "src/agent/app/app_server.h"
#include "src/agent/app/own_up.h"
#include "src/agent/daemon/agent.h"
#include "src/agent/daemon/config.h"
#include "src/agent/daemon/config_htcondor.h"
#include "src/agent/daemon/credentials.h"
#include "src/agent/daemon/metrics.h"
#include "src/agent/daemon/revoked_kept.h"
#include "src/agent/daemon/session.h"
#include "src/agent/job/memory.h"
#include "src/agent/job/pretenders.h"
#include "src/agent/job/restart_points.h"
#include "src/agent/node/adopt.h"
#include "src/agent/node/memory_mount.h"
#include "src/agent/node/platform.h"
#include "src/agent/transparent/tool.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/start.h"
#include "src/base/usage.h"
#include "src/dest/spawn.h"
#include "src/dest/worker.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"
#include "src/serve/http.h"
#include "src/serve/privacy.h"
#include "src/serve/reaper.h"
#include "src/serve/supervisor.h"

enum { EXIT_CONFIG = 2, STOP_MAX_MS = 3000 };

struct flags {
    const char *config, *name, *state_dir, *socket, *brokers;
    bool insecure, check;
};

struct daemon {
    struct agent_config config;
    char tool_lines[TOOLS_MAX][TOOL_LINE_BYTES];
    char *tools[TOOLS_MAX];
    struct flags flags;
    const char *name;
    char boot_id[64];
    struct platform platform;
    uv_loop_t loop;
    struct disk_ops disk;
    struct machine_ops machine;
    struct agent agent;
    struct certificates certificates;
    struct app_server *app_server;
    struct app_ranks *app_ranks;
    char ranks_path[AGENT_SOCKET_MAX_BYTES + sizeof(AGENT_RANKS_SUFFIX)];
    struct metrics *metrics;
    struct http *http;
    uv_signal_t terminate;
    uv_signal_t interrupt;
    uv_signal_t hangup;
    uv_timer_t watchdog;
    struct reaper reaper;
    uv_timer_t stop_timer;
    bool stopping;
};

static const char usage[] =
    "usage: ckpt-agentd --config FILE --name NODE [--state-dir DIR] [--socket PATH]\n"
    "                   [--brokers HOST:PORT,...] [--insecure] [--check-config]\n"
    "                   [--version]\n"
    "The agent of one compute node.\n"
    "\n"
    "  --config FILE        YAML: brokers, state_dir, socket, http, heartbeat_ms, worker_idle_ms,\n"
    "                       sysfs, cgroup, machine, os, domain, node_probe, log_level,\n"
    "                       log_format, insecure, owners_register, owners_tenants, tls: {ca, cert, "
    "key},\n"
    "                       local_copies: {max_bytes, keep_free}, memory: {path, max_bytes,\n"
    "                       user_max_bytes}, htcondor, and s3, a list of object stores\n"
    "  --name NODE          the node, as jobs are registered on it\n"
    "  --state-dir DIR      overrides state_dir of the file: its journal\n"
    "  --socket PATH        overrides socket: where ckpt-run finds it\n"
    "  --brokers HOST:PORT,...  overrides brokers: the API of all members, or of some\n"
    "  --insecure           like 'insecure: yes' in the file: http may be an address that is not\n"
    "                       loopback\n"
    "  --check-config       exit 0 when the configuration is valid, 2 when not\n"
    "\n"
    "  --version            show the version\n";

/* A site may call alike what the systems tell apart, and the other way round. */
static void read_platform(const struct agent_config *config, struct platform *ret_platform)
{
    platform_read(ret_platform);
    if (config->machine[0] != '\0')
        snprintf(ret_platform->machine, sizeof(ret_platform->machine), "%s", config->machine);
    if (config->os[0] != '\0')
        snprintf(ret_platform->os, sizeof(ret_platform->os), "%s", config->os);
}

static int read_config(struct agent_config *config, const struct flags *flags, struct err *err)
{
    struct settings *settings = &config->settings;

    agent_config_init(config, flags->config != NULL ? flags->config : "flags");
    if (flags->config != NULL && settings_load(settings, err) != 0)
        return -1;
    if (settings_set_flag(settings, "state_dir", "--state-dir", flags->state_dir, err) != 0 ||
        settings_set_flag(settings, "socket", "--socket", flags->socket, err) != 0 ||
        settings_set_flag(settings, "brokers", "--brokers", flags->brokers, err) != 0 ||
        settings_set_flag(settings, "insecure", "--insecure", flags->insecure ? "yes" : NULL,
                          err) != 0)
        return -1;
    if (flags->name == NULL)
        return err_set(err, ERR_INVALID, "--name NODE is missing");
    if (id_check("--name, this node's", flags->name, err) != 0)
        return -1;
    return agent_config_check(config, err);
}

static void parse_flags(int argc, char **argv, struct flags *ret_flags)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"state-dir", required_argument, NULL, 'd'},
                                            {"socket", required_argument, NULL, 's'},
                                            {"brokers", required_argument, NULL, 'b'},
                                            {"insecure", no_argument, NULL, 'u'},
                                            {"check-config", no_argument, NULL, 'k'},
                                            {"version", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct flags flags = {0};
    struct err err = {0};
    int option;

    while ((option = usage_option(argc, argv, "", options, &err)) != -1) {
        switch (option) {
        case 'c':
            flags.config = optarg;
            break;
        case 'n':
            flags.name = optarg;
            break;
        case 'd':
            flags.state_dir = optarg;
            break;
        case 's':
            flags.socket = optarg;
            break;
        case 'b':
            flags.brokers = optarg;
            break;
        case 'u':
            flags.insecure = true;
            break;
        case 'k':
            flags.check = true;
            break;
        case 'v':
            printf("ckpt-agentd %s\n", build_text);
            exit(EXIT_SUCCESS);
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            usage_refuse("ckpt-agentd", "", err.text);
            exit(EXIT_CONFIG);
        }
    }
    if (optind < argc) {
        (void)err_set(&err, ERR_INVALID, "unexpected argument \"%.128s\"", argv[optind]);
        usage_refuse("ckpt-agentd", "", err.text);
        exit(EXIT_CONFIG);
    }
    *ret_flags = flags;
}

/* What the key does on this machine. systemd gives the agent its own group: what this shell has
 * says nothing of that. */
static void say_cgroup(const char *key)
{
    struct err why = {.code = ERR_NONE};

    if (cgroup_check(key, &why) == 0)
        printf("cgroup %s: jobs get control groups of their own\n", key);
    else if (strcmp(key, "off") == 0)
        printf("cgroup off: jobs are frozen and ended by signals\n");
    else
        printf("cgroup %s: as started from here jobs would be frozen and ended by signals: %s\n",
               key, why.text);
}

/* ---- life ---- */

static void handle_closed(void *data)
{
    (void)data;
}

/* A worker that hangs in the kernel does not end; everything that matters is in the journal. */
static void stop_late(uv_timer_t *timer)
{
    (void)timer;
    log_warning("stopped_late", "text=\"a worker does not end\"");
    _exit(EXIT_SUCCESS);
}

static void daemon_stop(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    if (daemon->stopping)
        return;
    daemon->stopping = true;
    supervisor_notify("STOPPING=1");
    log_info("stopping", "signal=%d allocations=%zu", number, daemon->agent.allocation_count);
    session_free(daemon->agent.session);
    daemon->agent.session = NULL;
    http_free(daemon->http);
    metrics_free(daemon->metrics);
    agent_close(&daemon->agent);
    app_server_free(daemon->app_server, handle_closed, NULL);
    app_ranks_free(daemon->app_ranks);
    restart_points_free(daemon->agent.restart_points);
    own_asker_free(daemon->agent.own_asker);
    worker_set_idle(0);
    worker_retire_idle();
    certificates_unwatch(&daemon->certificates);
    revoked_kept_free(daemon->agent.revoked);
    daemon->agent.revoked = NULL;
    supervisor_unwatch(&daemon->watchdog);
    reaper_unwatch(&daemon->reaper);
    uv_close((uv_handle_t *)&daemon->terminate, NULL);
    uv_close((uv_handle_t *)&daemon->interrupt, NULL);
    uv_close((uv_handle_t *)&daemon->hangup, NULL);
    uv_timer_start(&daemon->stop_timer, stop_late, STOP_MAX_MS, 0);
    uv_unref((uv_handle_t *)&daemon->stop_timer);
}

static void warn_untaken(void *data, unsigned section, const char *key, const char *path)
{
    (void)data;
    if (section != AGENT_STORES && (section != AGENT_ROOT || (strcmp(key, "log_level") != 0 &&
                                                              strcmp(key, "log_format") != 0)))
        log_warning("reload_ignored_key", "key=%s text=\"it needs a restart\"", path);
}

/* Log level, certificates and object stores can change without a restart. The whole file is checked
 * first: a mistake in it changes nothing of the others. */
static void daemon_reload(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    struct agent_config config;
    struct err err;

    (void)number;
    certificates_reload(&daemon->certificates);
    if (read_config(&config, &daemon->flags, &err) != 0 ||
        credentials_open_stores(&config, &err) != 0)
        log_error("reload_failed", "text=\"%s\"", err.text);
    else {
        log_set_level(config.log_level);
        log_set_format(config.log_format);
        settings_compare(&daemon->config.settings, &config.settings, warn_untaken, NULL);
        log_info("reloaded", "text=\"log level, certificates and object stores were read\"");
    }
    agent_config_close(&config);
}

static void watch_signal(struct daemon *daemon, uv_signal_t *handle, int number,
                         void (*received)(uv_signal_t *handle, int number))
{
    CHECK(uv_signal_init(&daemon->loop, handle) == 0);
    handle->data = daemon;
    CHECK(uv_signal_start(handle, received, number) == 0);
}

static int daemon_listen(struct daemon *daemon, struct err *err)
{
    const mode_t mask = umask(0); /* every user's jobs come; who they are is told by the kernel */
    struct network_ops network;
    int result;

    network_uv_ops(&daemon->loop, &network);
    snprintf(daemon->ranks_path, sizeof(daemon->ranks_path), "%s" AGENT_RANKS_SUFFIX,
             daemon->config.socket);
    result = app_ranks_new(&daemon->agent, &network, daemon->ranks_path, &daemon->app_ranks, err);
    /* ckpt-run waits for this one, and tells its application of the other */
    if (result == 0)
        result = app_server_new(&daemon->agent, daemon->config.socket, &daemon->app_server, err);
    umask(mask);
    return result;
}

/* Without groups jobs are stopped by signals. */
static int open_cgroups(struct daemon *daemon, struct err *err)
{
    struct cgroups *cgroups = &daemon->agent.cgroups;
    const char *key = daemon->config.cgroup;
    struct err why;

    if (cgroup_open(key, cgroups, &why, err) != 0)
        return -1;
    if (cgroups->jobs[0] != '\0')
        log_info("cgroups", "key=%s jobs=%s", key, cgroups->jobs);
    else
        log_info("no_cgroups", "key=%s text=\"jobs are frozen and ended by signals%s%s\"", key,
                 why.code == ERR_NONE ? "" : ": ", why.code == ERR_NONE ? "" : why.text);
    return 0;
}

/* The next start looks for them too, though the journal holds something by then. */
static void mark_pretenders(const char *mark, bool found)
{
    int file = found ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (!found)
        (void)unlink(mark);
    if (file >= 0)
        close(file);
}

/* Applications that run although the journal is new. */
static int find_running(struct daemon *daemon, struct ledger *ledger, struct err *err)
{
    char mark[PATH_MAX];
    struct list pretenders;
    int result;

    snprintf(mark, sizeof(mark), "%s/" PRETENDERS_MARK, daemon->config.state_dir);
    list_init(&pretenders);
    result = adopt_running(&daemon->machine,
                           &(struct adopt_for){.node_id = daemon->name,
                                               .socket = daemon->config.socket,
                                               .again = access(mark, F_OK) == 0},
                           ledger, &pretenders, err);
    mark_pretenders(mark, !list_empty(&pretenders));
    while (!list_empty(&pretenders)) {
        struct pretender *pretender = LIST_ITEM(pretenders.next, struct pretender, node);
        list_remove(&pretender->node);
        pretenders_add(&daemon->agent, pretender);
        free(pretender);
    }
    return result;
}

/* Once, before anybody waits for this agent. */
static void look_for_tools(struct daemon *daemon)
{
    daemon->agent.tool_count = tools_look(daemon->tool_lines);
    daemon->agent.tools = daemon->tools;
    for (size_t i = 0; i < daemon->agent.tool_count; i++) {
        daemon->tools[i] = daemon->tool_lines[i];
        log_info("tool", "text=\"%s\"", daemon->tool_lines[i]);
    }
}

/* Other files, or another list of revoked ones. */
static void trust_changed(void *data)
{
    struct daemon *daemon = data;

    session_recheck(daemon->agent.session);
    restart_points_recheck(daemon->agent.restart_points);
    own_asker_recheck(daemon->agent.own_asker);
}

static int daemon_open(struct daemon *daemon, struct err *err)
{
    struct agent *agent = &daemon->agent;
    struct clock_ops clock;
    struct ledger *ledger;

    if (mkdir(daemon->config.state_dir, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "%s: %s", daemon->config.state_dir, strerror(errno));
    uv_clock_ops(&daemon->loop, &clock);
    disk_uv_ops(&daemon->loop, &daemon->disk);
    machine_uv_ops(&daemon->loop, &daemon->machine);
    if (ledger_open(&daemon->disk, daemon->config.state_dir, daemon->name, daemon->boot_id, &ledger,
                    err) != 0)
        return -1;
    agent_init(agent, &daemon->loop, &clock, &daemon->machine, daemon->name, daemon->boot_id,
               ledger);
    if (open_cgroups(daemon, err) != 0)
        return -1;
    if (find_running(daemon, ledger, err) != 0)
        return -1;
    if (credentials_open(&daemon->certificates, &daemon->config, daemon->name, err) != 0 ||
        credentials_open_stores(&daemon->config, err) != 0)
        return -1;
    credentials_warn(&daemon->config);
    daemon->certificates.changed = trust_changed;
    daemon->certificates.data = daemon;
    certificates_watch(&daemon->certificates, &agent->clock);
    agent->revoked = revoked_kept_open(daemon->config.state_dir, daemon->certificates.context,
                                       &agent->clock, trust_changed, daemon);
    worker_set_idle(daemon->config.worker_idle_ms);
    agent->tls = daemon->certificates.context;
    agent->sysfs = daemon->config.sysfs;
    agent->copies_max_bytes = daemon->config.copies_max_bytes;
    agent->copies_keep_free = daemon->config.copies_keep_free_bytes;
    agent->memory_path = daemon->config.memory_path;
    agent->memory_max_bytes = daemon->config.memory_max_bytes;
    agent->memory_user_max_bytes = daemon->config.memory_user_max_bytes;
    if (memory_mount(agent->memory_path, agent->memory_max_bytes, memory_user_max(agent), err) != 0)
        return -1;
    agent->architecture = daemon->platform.machine;
    agent->domain = daemon->config.domain;
    agent->node_probe = daemon->config.node_probe;
    look_for_tools(daemon);
    agent->os = daemon->platform.os;
    if (restart_points_new(agent, daemon->config.brokers, &agent->restart_points, err) != 0)
        return -1;
    if (own_asker_new(agent, daemon->config.brokers,
                      daemon->config.owners_register ? daemon->config.owners_tenants : NULL,
                      &agent->own_asker, err) != 0)
        return -1;
    if (session_new(agent, daemon->config.brokers, daemon->config.heartbeat_ms, &agent->session,
                    err) != 0)
        return -1;
    agent_resume(agent);
    if (daemon_listen(daemon, err) != 0)
        return -1;
    daemon->metrics = agent_metrics_new(agent);
    if (daemon->config.http[0] == '\0')
        return 0;
    return http_open(&daemon->loop, daemon->config.http,
                     &(struct http_site){.metrics = daemon->metrics}, &daemon->http, err);
}

static int daemon_run(struct daemon *daemon)
{
    struct err err;

    CHECK(uv_loop_init(&daemon->loop) == 0);
    if (daemon_open(daemon, &err) != 0) {
        log_error("start_failed", "text=\"%s\"", err.text);
        return EXIT_FAILURE;
    }
    CHECK(uv_timer_init(&daemon->loop, &daemon->stop_timer) == 0);
    watch_signal(daemon, &daemon->terminate, SIGTERM, daemon_stop);
    watch_signal(daemon, &daemon->interrupt, SIGINT, daemon_stop);
    watch_signal(daemon, &daemon->hangup, SIGHUP, daemon_reload);
    log_info("started", "version=\"%s\" socket=%s state_dir=%s brokers=\"%s\"", build_text,
             daemon->config.socket, daemon->config.state_dir, daemon->config.brokers);
    if (daemon->config.insecure && daemon->config.http[0] != '\0')
        log_warning("insecure", "text=\"everyone who reaches %s reads the metrics\"",
                    daemon->config.http);
    supervisor_watch(&daemon->loop, &daemon->watchdog);
    reaper_watch(&daemon->loop, &daemon->reaper, spawn_owns);
    supervisor_notify(
        "READY=1"); /* applications attach and are looked after, with or without a leader */
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    certificates_close(&daemon->certificates);
    s3_stores_close();
    ledger_close(daemon->agent.ledger);
    agent_config_close(&daemon->config);
    log_info("stopped", "applications=%s", "left running");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct daemon daemon;
    struct flags flags;
    struct err err;

    start_program(NULL);
    log_set_priorities(supervisor_keeps_journal());
    privacy_begin();
    parse_flags(argc, argv, &flags);
    if (read_config(&daemon.config, &flags, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "ckpt-agentd: %s", err.text);
        return EXIT_CONFIG;
    }
    agent_config_warn_htcondor(&daemon.config, stderr);
    if (flags.check &&
        (credentials_open(&daemon.certificates, &daemon.config, flags.name, &err) != 0 ||
         credentials_open_stores(&daemon.config, &err) != 0)) {
        log_plain(LOG_LEVEL_ERROR, "ckpt-agentd: %s", err.text);
        return EXIT_CONFIG;
    }
    if (flags.check) {
        certificates_close(&daemon.certificates);
        s3_stores_close();
        say_cgroup(daemon.config.cgroup);
        agent_config_close(&daemon.config);
        puts("configuration is right");
        return EXIT_SUCCESS;
    }
    signal(SIGPIPE, SIG_IGN);
    daemon.flags = flags;
    daemon.name = flags.name;
    log_set_identity("ckpt-agentd", flags.name);
    check_set_hook(log_dump);
    log_set_level(daemon.config.log_level);
    log_set_format(daemon.config.log_format);
    platform_boot_id(daemon.boot_id, sizeof(daemon.boot_id));
    read_platform(&daemon.config, &daemon.platform);
    return daemon_run(&daemon);
}
