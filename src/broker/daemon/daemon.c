/* The life of a ckptd. See daemon.h. Starting: daemon_run() opens the replica, adds the parts in
 * the order of struct broker, listens, and runs the loop. Stopping goes back through the same
 * things, each step when the one before is done: hand leadership over, drain the server, free it,
 * close the replica, free the duties, wait for workers. */
#include "src/broker/daemon/daemon.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "raft/uv_io.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/broker/api/answer.h"
#include "src/broker/api/service.h"
#include "src/broker/api/watch.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/config_reload.h"
#include "src/broker/daemon/credentials.h"
#include "src/broker/daemon/hook.h"
#include "src/broker/daemon/http_pages.h"
#include "src/broker/daemon/http_secure.h"
#include "src/broker/daemon/listen.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/daemon/process.h"
#include "src/broker/daemon/upgrades.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/hangs.h"
#include "src/broker/decide/restarter.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/drill/drills.h"
#include "src/broker/health/disk_watch.h"
#include "src/broker/health/node_probe_uv.h"
#include "src/broker/health/nodes.h"
#include "src/broker/health/storage_watch.h"
#include "src/broker/health/telemetry.h"
#include "src/broker/keep/accounting.h"
#include "src/broker/keep/audit_key.h"
#include "src/broker/keep/audit_trail.h"
#include "src/broker/keep/backup.h"
#include "src/broker/keep/backup_schedule.h"
#include "src/broker/keep/collector.h"
#include "src/broker/keep/denials.h"
#include "src/broker/keep/quotas.h"
#include "src/broker/keep/scanner.h"
#include "src/broker/keep/scrubber.h"
#include "src/broker/replica/leader_watch.h"
#include "src/broker/replica/member_watch.h"
#include "src/broker/replica/ticker.h"
#include "src/dest/spawn.h"
#include "src/dest/worker.h"
#include "src/net/cut_network.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"
#include "src/serve/reaper.h"
#include "src/serve/supervisor.h"

/* Bytes of `protoc --descriptor_set_out`, put into the program by the Makefile. */
extern const uint8_t ckpt_descriptors[];
extern const uint8_t ckpt_descriptors_end[];

enum { DAEMON_STEP_MS = 10 };

static const int daemon_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};

struct daemon {
    struct broker broker;
    const struct config_flags *flags;
    uv_loop_t loop;
    struct disk_ops disk;
    struct network_ops network;
    struct cut_network cut;  /* under TLS */
    struct fault_ops faults; /* of drills */
    struct listen_addresses listen;
    struct consensus_member members[CONFIG_MEMBERS_MAX];
    Ckpt__Log__V1__ClusterInit initial;
    Ckpt__V1__TargetSpec *initial_targets[CONFIG_TARGETS_MAX];
    Ckpt__Log__V1__MemberFacts facts;
    struct replica_observer observer;
    uint64_t leader_id; /* last logged */
    struct process_lag lag;
    uv_timer_t watchdog;
    struct reaper reaper;
    struct disk_watch *disk_watch;
    struct member_watch *member_watch;
    struct leader_watch *leader_watch;
    uv_signal_t signals[ARRAY_COUNT(daemon_signals)];
    uv_timer_t step;  /* of stopping */
    uv_timer_t guard; /* ends the process when stopping takes too long */
    uint64_t stopping_since_ms;
    uint64_t transfer_until_ms; /* until then another member may take over */
    uint64_t stalled_told_ms;   /* of peers that do not read; 0: never */
    uint64_t stalled_left_out;  /* not logged since then */
    uint64_t workers_until_ms;  /* until then killed workers may end */
    int exit_code;              /* after a clean stop */
    bool stopping;
    char founding[CONSENSUS_FOUNDING_BYTES]; /* as it was logged */
};

/* ---- what is logged about leadership ---- */

static const char *daemon_member_name(const struct daemon *daemon, uint64_t id)
{
    struct answer_member member;

    if (id == 0)
        return "none";
    return answer_find_member(&daemon->broker, id, &member) ? member.name : "unknown";
}

/* One line for each change, so that a log tells who led when. */
static void daemon_role_changed(void *context, enum consensus_role role, uint64_t term,
                                uint64_t leader_id)
{
    static const char *const roles[] = {"follower", "candidate", "leader"};
    struct daemon *daemon = context;

    if (daemon->leader_id != 0 && leader_id != daemon->leader_id)
        log_warning("leader_lost", "leader=%s term=%" PRIu64,
                    daemon_member_name(daemon, daemon->leader_id), term);
    daemon->leader_id = leader_id;
    log_info("role_changed", "role=%s term=%" PRIu64 " leader=%s", roles[role], term,
             daemon_member_name(daemon, leader_id));
    supervisor_notify(role == CONSENSUS_LEADER ? "STATUS=leader"
                      : leader_id != 0         ? "STATUS=follower"
                                               : "STATUS=no leader, waiting for quorum");
}

/* A first start goes on when all founders are there. */
static void daemon_founding(void *context)
{
    struct daemon *daemon = context;
    struct consensus_status status;
    bool founds;

    replica_get_status(daemon->broker.replica, &status);
    founds = status.founding[0] != '\0';
    if (founds && strcmp(status.founding, daemon->founding) != 0)
        log_info("founding", "waits_for=\"%s\" text=\"a first start: all founders must be there\"",
                 status.founding);
    if (!founds && daemon->founding[0] != '\0')
        log_info("founded", "incarnation=%016" PRIx64, status.incarnation);
    snprintf(daemon->founding, sizeof(daemon->founding), "%s", status.founding);
}

/* Logged with what the state holds, so that the log tells with what a leadership began. */
static void daemon_serving(void *context)
{
    struct daemon *daemon = context;
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(daemon->broker.replica), &summary);
    log_info("serving", "applied_index=%" PRIu64 " allocations=%" PRIu32 " paused=%" PRIu32,
             summary.applied_index, summary.allocation_count,
             summary.checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED]);
}

static void daemon_not_serving(void *context)
{
    (void)context;
    log_info("not_serving", "text=\"duties of the leader stopped\"");
}

/* While the log is replayed the loop may be late: that is no trouble of the machine. */
static void daemon_applied(void *context)
{
    struct daemon *daemon = context;
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(daemon->broker.replica), &summary);
    process_lag_applied(&daemon->lag, summary.applied_index);
}

int daemon_exit_code(const struct err *err, int otherwise)
{
    if (err->code == ERR_REMOVED)
        return DAEMON_EXIT_REMOVED;
    if (err->code == ERR_NEWER)
        return DAEMON_EXIT_NEWER;
    return err->code == ERR_CORRUPT || err->code == ERR_DISK ? DAEMON_EXIT_DATA : otherwise;
}

static const char repair_disk[] =
    "this member has stopped, the others go on; repair the disk (dmesg), then start it again: what "
    "it refuses then is in the runbook under 'Member with corrupt data'";

static const char exchange_program[] = "this member has stopped, the others go on, and its unit "
                                       "tries again; exchange its program: the "
                                       "runbook's 'Another build of ckptd'";

void daemon_log_failure(const char *event, const struct config *config, enum daemon_start start,
                        const struct err *err)
{
    bool restores = start == DAEMON_RESTORE;

    if (err->code == ERR_FULL && start != DAEMON_START)
        log_error(
            event,
            "code=%s text=\"%s\" next=\"free space on the file system of %s, beside that "
            "folder (df -h %s): at least %d MB%s must be free there; then %sbegin this member "
            "again in the same way\"",
            err_code_name(err->code), err->text, config->data_dir, config->data_dir,
            CONSENSUS_ROOM_BYTES / 1000000 + 1, restores ? " and the size of the backup" : "",
            restores ? "empty that folder and " : "");
    else if (err->code == ERR_FULL)
        log_error(
            event,
            "code=%s text=\"%s\" next=\"free space on the file system of %s, beside that "
            "folder (df -h %s); no reserve is left. Its unit starts this member again, and it "
            "goes on by itself when there is room: the runbook's 'Disk full'\"",
            err_code_name(err->code), err->text, config->data_dir, config->data_dir);
    else if (err->code == ERR_DISK || err->code == ERR_NEWER)
        log_error(event, "code=%s text=\"%s\" next=\"%s\"", err_code_name(err->code), err->text,
                  err->code == ERR_DISK ? repair_disk : exchange_program);
    else
        log_error(event, "code=%s text=\"%s\"", err_code_name(err->code), err->text);
}

static void daemon_fatal(void *context, const struct err *err)
{
    const struct daemon *daemon = context;

    if (err->code == ERR_REMOVED) {
        log_error("removed", "text=\"%s\"", err->text);
        _exit(DAEMON_EXIT_REMOVED);
    }
    if (err->code == ERR_REFUSED) { /* a first start that the founders refuse */
        log_error("refused", "text=\"%s\"", err->text);
        _exit(DAEMON_EXIT_REMOVED);
    }
    if (err->code == ERR_FULL || err->code == ERR_DISK || err->code == ERR_NEWER)
        daemon_log_failure("fatal", daemon->broker.config, DAEMON_START, err);
    else
        log_error("fatal", "code=%s text=\"%s\" next=\"%s\"", err_code_name(err->code), err->text,
                  repair_disk);
    if (err->code != ERR_FULL && upgrades_failed(daemon->broker.upgrades, err->text))
        _exit(DAEMON_EXIT_AGAIN);
    _exit(daemon_exit_code(err, DAEMON_EXIT_FATAL));
}

/* ---- stopping ---- */

static void daemon_close_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

/* The last line of the log. */
static void daemon_report_stop(const struct daemon *daemon)
{
    log_info("stopped", "duration_ms=%" PRIu64, uv_now(&daemon->loop) - daemon->stopping_since_ms);
}

/* All workers were told to end; one that hangs in the kernel ends when the kernel lets it, without
 * us. */
static void daemon_await_workers(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;

    if (worker_active() + accounting_active() + audit_trail_active() > 0 &&
        uv_now(&daemon->loop) < daemon->workers_until_ms)
        return;
    if (accounting_active() + audit_trail_active() > 0) {
        log_warning("files_left", "text=\"its disk hangs; the next start goes on with it\"");
        daemon_report_stop(daemon);
        _exit(daemon->exit_code);
    }
    if (worker_active() > 0) {
        log_warning("workers_left", "count=%zu text=\"they hang in the kernel; check the mounts\"",
                    worker_active());
        daemon_report_stop(daemon);
        _exit(daemon->exit_code);
    }
    process_lag_stop(&daemon->lag);
    supervisor_unwatch(&daemon->watchdog);
    reaper_unwatch(&daemon->reaper);
    daemon_close_timer(&daemon->step);
    daemon_close_timer(&daemon->guard);
    for (size_t i = 0; i < ARRAY_COUNT(daemon_signals); i++)
        uv_close((uv_handle_t *)&daemon->signals[i], NULL);
    daemon_report_stop(daemon);
}

/* Every proposal was answered: the duties can be freed, in the reverse order of their making. */
static void daemon_replica_closed(void *context)
{
    struct daemon *daemon = context;
    struct broker *broker = &daemon->broker;

    broker->replica = NULL;
    upgrades_free(broker->upgrades);
    drills_free(broker->drills);
    broker->drills = NULL;
    leader_watch_free(daemon->leader_watch);
    member_watch_free(daemon->member_watch);
    disk_watch_free(daemon->disk_watch);
    backup_schedule_free(broker->backup_schedule);
    telemetry_free(broker->telemetry);
    accounting_free(broker->accounting);
    audit_trail_free(broker->audit_trail);
    denials_free(broker->denials);
    broker->denials = NULL;
    scrubber_free(broker->scrubber);
    quotas_free(broker->quotas);
    collector_free(broker->collector);
    scanner_free(broker->scanner);
    ticker_free(broker->ticker);
    storage_watch_free(broker->storage_watch);
    evaluator_free(broker->evaluator);
    dispatcher_free(broker->dispatcher);
    hangs_free(broker->hangs);
    restarter_free(broker->restarter);
    hook_free(broker->hook);
    node_probe_free(broker->node_probe);
    nodes_free(broker->nodes);
    watch_free(broker->watch);
    backup_free(broker->backup);
    service_free(broker->service);
    credentials_free(broker->credentials);
    sign_key_free(broker->audit_key);
    s3_stores_close();
    metrics_free(broker->metrics);
    daemon->workers_until_ms = uv_now(&daemon->loop) + DAEMON_WORKERS_MAX_MS;
    CHECK(uv_timer_start(&daemon->step, daemon_await_workers, 0, DAEMON_STEP_MS) == 0);
}

/* No call is left. */
static void daemon_server_freed(void *data)
{
    struct daemon *daemon = data;

    daemon->broker.rpc = NULL;
    replica_close(daemon->broker.replica, daemon_replica_closed, daemon);
}

/* Calls were answered or cut off: nobody else is told anything. */
static void daemon_drained(void *data)
{
    struct daemon *daemon = data;

    http_secure_free(daemon->broker.http_secure);
    daemon->broker.http_secure = NULL;
    http_free(daemon->broker.http);
    daemon->broker.http = NULL;
    rpc_server_free(daemon->broker.rpc, daemon_server_freed, daemon);
}

/* Waits until another member leads (so that callers can be told which), at most until
 * transfer_until_ms; then drains. */
static void daemon_step(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;

    uint64_t leader_id = replica_leader_id(daemon->broker.replica);

    if ((leader_id == 0 || leader_id == daemon->broker.config->self->id) &&
        uv_now(&daemon->loop) < daemon->transfer_until_ms)
        return;
    uv_timer_stop(timer);
    rpc_server_drain(daemon->broker.rpc, DAEMON_DRAIN_MS, daemon_drained, daemon);
}

/* Whatever hangs, the process ends in time: the supervisor would kill it otherwise, without a
 * word. */
static void daemon_guard(uv_timer_t *timer)
{
    (void)timer;
    log_error("stop_timeout", "limit_ms=%d text=\"stopping took too long, leaving now\"",
              DAEMON_STOP_MAX_MS);
    _exit(1);
}

static void daemon_transferred(void *data, const struct err *failed,
                               const struct fsm_outcome *outcome)
{
    struct daemon *daemon = data;

    (void)outcome;
    if (failed != NULL) {
        log_warning("transfer_failed", "text=\"%s\"", failed->text);
        if (failed->code != ERR_TIMEOUT) /* else somebody may come to lead yet */
            daemon->transfer_until_ms = 0;
    }
}

/* Handing over first keeps the cluster's pause to some milliseconds. */
static void daemon_stop(struct daemon *daemon)
{
    struct consensus_status status;

    if (daemon->stopping)
        return;
    daemon->stopping = true;
    uv_update_time(&daemon->loop);
    daemon->stopping_since_ms = uv_now(&daemon->loop);
    supervisor_notify("STOPPING=1");
    replica_get_status(daemon->broker.replica, &status);
    log_info("stopping", "leads=%d", replica_serving(daemon->broker.replica));
    CHECK(uv_timer_start(&daemon->guard, daemon_guard, DAEMON_STOP_MAX_MS, 0) == 0);
    alarm(DAEMON_STOP_MAX_MS / 1000 + 1); /* ends the process even when the loop itself hangs */
    if (replica_serving(daemon->broker.replica) && status.voter_count > 1) {
        daemon->transfer_until_ms = daemon->stopping_since_ms + DAEMON_TRANSFER_MAX_MS;
        replica_transfer(daemon->broker.replica, 0, daemon_transferred, daemon);
    }
    CHECK(uv_timer_start(&daemon->step, daemon_step, 0, DAEMON_STEP_MS) == 0);
}

/* Its supervisor starts it again, or ckptd-start the build before. */
static void daemon_end_again(void *context)
{
    struct daemon *daemon = context;

    if (!daemon->stopping)
        daemon->exit_code = DAEMON_EXIT_AGAIN;
    daemon_stop(daemon);
}

/* ---- signals ---- */

/* Log level, certificates, object stores, the audit trail's key, telemetry and health can change
 * without a restart. The whole file is checked first: a mistake in it changes nothing. */
static void daemon_reload(struct daemon *daemon)
{
    const char *path = daemon->broker.config->path;
    struct config *config;
    struct err err;

    if (config_load(path, daemon->flags, &config, &err) != 0) {
        log_error("reload_failed", "text=\"%s\"", err.text);
        return;
    }
    log_set_level(config->log_level);
    log_set_format(config->log_format);
    telemetry_configure(daemon->broker.telemetry, config);
    if (credentials_open_stores(config, &err) != 0)
        log_error("s3_keys_failed", "text=\"%s; the stores of before stay in use\"", err.text);
    if (audit_key_reload(&daemon->broker, config))
        audit_trail_sign(daemon->broker.audit_trail);
    (void)config_warn_untaken(daemon->broker.config, config);
    config_free(config);
    credentials_reload(daemon->broker.credentials);
    log_info("reloaded",
             "path=%s text=\"log level, certificates, object stores, the audit trail's key, "
             "telemetry and health were read\"",
             path);
}

static void daemon_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    if (number == SIGHUP && daemon->stopping)
        log_info("reload_ignored", "text=\"this member is stopping\"");
    else if (number == SIGHUP)
        daemon_reload(daemon);
    else if (number == SIGUSR2 && daemon->broker.replica != NULL)
        process_dump(&daemon->broker);
    if (number != SIGTERM && number != SIGINT)
        return;
    daemon->exit_code = 0; /* also when it was about to be started again */
    daemon_stop(daemon);
}

/* ---- starting ---- */

static int daemon_open_replica(struct daemon *daemon, enum daemon_start start, struct err *err)
{
    const struct config *config = daemon->broker.config;
    struct consensus_config consensus = {.member_id = config->self->id,
                                         .cluster_id = config->cluster_id,
                                         .data_dir = config->data_dir,
                                         .listen_address = daemon->listen.raft,
                                         .members = daemon->members,
                                         .member_count = config->member_count,
                                         .bootstrap = start == DAEMON_BOOTSTRAP,
                                         .join = start == DAEMON_JOIN,
                                         .election_timeout_ms = (uint32_t)config->election_ms,
                                         .heartbeat_ms = (uint32_t)config->heartbeat_ms,
                                         .snapshot_after_entries = config->snapshot_after_entries,
                                         .snapshot_after_bytes = config->snapshot_after_bytes,
                                         .clock = &daemon->broker.clock,
                                         .random = &daemon->broker.random,
                                         .disk = &daemon->disk,
                                         .network = &daemon->network};

    for (size_t i = 0; i < config->member_count; i++) {
        struct consensus_member *member = &daemon->members[i];
        member->id = config->members[i].id;
        snprintf(member->name, sizeof(member->name), "%s", config->members[i].name);
        snprintf(member->address, sizeof(member->address), "%s", config->members[i].raft);
        if (&config->members[i] == config->self)
            snprintf(member->contact, sizeof(member->contact), "%s", config->self->api);
    }
    disk_uv_ops(&daemon->loop, &daemon->disk);
    daemon->broker.disk = &daemon->disk;
    network_uv_watchful_ops(&daemon->loop, &daemon->network);
    cut_network_ops(&daemon->cut, &daemon->network);
    credentials_wrap(daemon->broker.credentials, &daemon->network);
    if (replica_open(&consensus, &daemon->initial, daemon_fatal, daemon, &daemon->broker.replica,
                     err) != 0)
        return -1;
    replica_set_facts(daemon->broker.replica, &daemon->facts);
    daemon->observer.context = daemon;
    daemon->observer.role_changed = daemon_role_changed;
    daemon->observer.serving = daemon_serving;
    daemon->observer.not_serving = daemon_not_serving;
    daemon->observer.members_changed = daemon_founding;
    daemon->observer.applied = daemon_applied;
    replica_observe(daemon->broker.replica, &daemon->observer);
    return 0;
}

/* One that asks again and again for what it does not read must not fill the disk. */
static void daemon_peer_stalled(void *data, const struct rpc_peer *peer, const char *text)
{
    struct daemon *daemon = data;
    uint64_t now_ms = uv_now(&daemon->loop);

    if (daemon->stalled_told_ms != 0 && now_ms - daemon->stalled_told_ms < DAEMON_STALLED_MS) {
        daemon->stalled_left_out++;
        return;
    }
    daemon->stalled_told_ms = now_ms;
    log_warning("peer_stalled", "peer=%s identity=%s left_out=%" PRIu64 " text=\"%s\"",
                peer->address, peer->identity[0] != '\0' ? peer->identity : "none",
                daemon->stalled_left_out, text);
    daemon->stalled_left_out = 0;
}

/* Files beside the log and the snapshots, which go without them. */
static void daemon_open_files(struct broker *broker)
{
    struct buf accounting = {0}, audit = {0};

    buf_printf(&accounting, "%s/accounting", broker->config->data_dir);
    buf_append(&accounting, "", 1);
    buf_printf(&audit, "%s/audit", broker->config->data_dir);
    buf_append(&audit, "", 1);
    broker->accounting = accounting_new(broker, (const char *)accounting.bytes);
    broker->audit_trail = audit_trail_new(broker, (const char *)audit.bytes);
    buf_close(&accounting);
    buf_close(&audit);
}

/* A drill's fault: this member is cut off from the others. */
static void daemon_cut(void *context, bool off)
{
    struct daemon *daemon = context;

    cut_network_set(&daemon->cut, off);
}

static bool daemon_restore(void *context, void (*done)(void *data, const char *failure), void *data)
{
    const struct daemon *daemon = context;

    return backup_schedule_restore(daemon->broker.backup_schedule, done, data);
}

/* The API's server with its methods, and the duties. */
static void daemon_add_parts(struct daemon *daemon)
{
    struct broker *broker = &daemon->broker;
    const uint64_t connections_max = broker->config->connections_max;
    const struct probe_ops tries = node_probe_uv(&daemon->loop);
    struct rpc_server_config server = {
        .connections_max = connections_max, .stalled = daemon_peer_stalled, .stalled_data = daemon};

    credentials_configure(broker->credentials, &server);
    broker->rpc = rpc_server_new(&daemon->loop, &server);
    if (rpc_server_connections_max(broker->rpc) < connections_max)
        log_warning("connections_limited",
                    "wanted=%" PRIu64 " possible=%zu text=\"raise the limit of open files "
                    "(LimitNOFILE) or lower connections_max\"",
                    connections_max, rpc_server_connections_max(broker->rpc));
    rpc_server_add_reflection(broker->rpc, ckpt_descriptors,
                              (size_t)(ckpt_descriptors_end - ckpt_descriptors));
    broker->metrics = broker_metrics_new(broker);
    broker->upgrades = upgrades_new(broker, daemon_end_again, daemon);
    credentials_watch(broker->credentials);
    broker->service = service_new(broker);
    broker->watch = watch_new(broker);
    broker->backup = backup_new(broker);
    broker->nodes = nodes_new(broker);
    broker->node_probe = node_probe_new(broker, &tries);
    broker->hook = hook_new(&daemon->loop, broker->config->restart_hook);
    broker->restarter = restarter_new(broker);
    broker->hangs = hangs_new(broker);
    fault_process_ops(&daemon->faults);
    daemon->faults.context = daemon;
    daemon->faults.cut = daemon_cut;
    daemon->faults.restore = daemon_restore;
    broker->drills = drills_new(broker, &daemon->faults, credentials_context(broker->credentials));
    broker->dispatcher = dispatcher_new(broker);
    broker->evaluator = evaluator_new(broker);
    broker->storage_watch = storage_watch_new(broker);
    broker->ticker = ticker_new(broker);
    broker->collector = collector_new(broker);
    broker->scrubber = scrubber_new(broker);
    broker->quotas = quotas_new(broker);
    broker->scanner = scanner_new(broker);
    broker->backup_schedule = backup_schedule_new(broker);
    broker->telemetry = telemetry_new(broker);
    daemon_open_files(broker);
    broker->denials = denials_new(broker);
    daemon->disk_watch = disk_watch_new(broker);
    daemon->member_watch = member_watch_new(broker);
    daemon->leader_watch = leader_watch_new(broker);
}

/* The address that is in use is named in the error. */
static int daemon_listen(struct daemon *daemon, struct err *err)
{
    struct broker *broker = &daemon->broker;
    const struct config *config = broker->config;
    struct http_site site = {.pages = http_pages, .data = broker, .metrics = broker->metrics};
    char address[sizeof("unix:") + 108], guarded[512];

    if (rpc_server_listen(broker->rpc, daemon->listen.api, err) != 0)
        return err_wrap(err, "api address");
    if (config->unix_socket[0] != '\0') {
        snprintf(address, sizeof(address), "unix:%s", config->unix_socket);
        if (rpc_server_listen(broker->rpc, address, err) != 0)
            return err_wrap(err, "unix_socket");
    }
    if (config_pages_guarded(config)) {
        snprintf(guarded, sizeof(guarded),
                 "for certificates of kind monitor, auditor, operator or replica alone, at "
                 "https://%s (ckptctl tls issue monitor NAME)",
                 config->self->https);
        site.guarded = guarded;
    }
    if (config->self->http[0] != '\0' &&
        http_open(broker->loop, config->self->http, &site, &broker->http, err) != 0)
        return -1;
    return config_pages_guarded(config)
               ? http_secure_open(broker, config->self->https, &broker->http_secure, err)
               : 0;
}

static void daemon_add_handles(struct daemon *daemon)
{
    struct consensus_status status;

    for (size_t i = 0; i < ARRAY_COUNT(daemon_signals); i++) {
        CHECK(uv_signal_init(&daemon->loop, &daemon->signals[i]) == 0);
        daemon->signals[i].data = daemon;
        CHECK(uv_signal_start(&daemon->signals[i], daemon_signal, daemon_signals[i]) == 0);
    }
    CHECK(uv_timer_init(&daemon->loop, &daemon->step) == 0);
    CHECK(uv_timer_init(&daemon->loop, &daemon->guard) == 0);
    daemon->step.data = daemon;
    daemon->guard.data = daemon;
    supervisor_watch(&daemon->loop, &daemon->watchdog);
    reaper_watch(&daemon->loop, &daemon->reaper, spawn_owns);
    process_lag_start(&daemon->lag, &daemon->loop, &daemon->broker.counters);
    replica_get_status(daemon->broker.replica, &status);
    process_lag_excuse_replay(&daemon->lag, status.last_index);
}

/* The first line of the log that says who this is. */
static void daemon_report_start(struct daemon *daemon)
{
    const struct config *config = daemon->broker.config;
    struct consensus_status status;

    replica_get_status(daemon->broker.replica, &status);
    log_info("started",
             "version=\"%s\" level=%d cluster=%s member=%" PRIu64 " api=%s raft=%s http=%s "
             "api_bound=%s raft_bound=%s data_dir=%s "
             "last_index=%" PRIu64 " snapshot_index=%" PRIu64,
             build_text, FSM_LEVEL_NEWEST, config->cluster_id, config->self->id, config->self->api,
             config->self->raft, config->self->http, daemon->listen.api, daemon->listen.raft,
             config->data_dir, status.last_index, status.snapshot_index);
    daemon_founding(daemon);
    if (config->insecure && config->tls_ca[0] == '\0')
        log_warning("insecure",
                    "text=\"TLS IS OFF: everyone who reaches %s, %s or %s can command "
                    "this cluster; set tls, or restrict the network\"",
                    config->self->api, config->self->raft, config->self->http);
    else if (config->insecure && !config_pages_guarded(config))
        log_warning("insecure", "text=\"everyone who reaches %s reads the metrics\"",
                    config->self->http);
    audit_key_warn(&daemon->broker);
    supervisor_notify("READY=1\nSTATUS=waiting for quorum");
}

int daemon_run(const struct config *config, const struct config_flags *flags,
               enum daemon_start start, int *ret_exit_code, struct err *err)
{
    struct daemon *daemon = check_calloc(1, sizeof(*daemon));
    struct broker *broker = &daemon->broker;

    CHECK(config->self != NULL);
    process_prepare();
    CHECK(uv_loop_init(&daemon->loop) == 0);
    daemon->flags = flags;
    broker->loop = &daemon->loop;
    broker->config = config;
    uv_clock_ops(&daemon->loop, &broker->clock);
    uv_random_ops(&broker->random);
    broker->counters.started_at_ms = broker_wall_ms(broker);
    config_fill_initial(daemon->broker.config, &daemon->initial, daemon->initial_targets,
                        &daemon->facts);
    /* A start that fails ends the process: nothing was promised yet, and the system takes back what
     * is open. */
    if (credentials_new(broker, &broker->credentials, err) != 0 ||
        credentials_open_stores(config, err) != 0 ||
        audit_key_load(config, &broker->audit_key, err) != 0 ||
        listen_find(config, &daemon->listen, err) != 0 ||
        daemon_open_replica(daemon, start, err) != 0)
        return -1;
    daemon_add_parts(daemon);
    if (daemon_listen(daemon, err) != 0)
        return -1;
    daemon_add_handles(daemon);
    daemon_report_start(daemon);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    CHECK(daemon->stopping);
    CHECK(uv_loop_close(&daemon->loop) == 0);
    *ret_exit_code = daemon->exit_code;
    free(daemon);
    return 0;
}
