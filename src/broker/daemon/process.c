/* What ckptd does about itself as a process. See process.h. */
#include "src/broker/daemon/process.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/broker/explain/translate.h"

/* A peer that goes away must not end the process, and each agent needs an open file. */
void process_prepare(void)
{
    struct rlimit limit;

    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            log_warning("file_limit", "text=\"cannot raise the limit of open files: %s\"",
                        strerror(errno));
    }
}

/* A user without a name is written as sudo takes it. */
static const char *user_name(uid_t uid, char *space, size_t size)
{
    const struct passwd *user = getpwuid(uid);

    if (user != NULL)
        snprintf(space, size, "%s", user->pw_name);
    else
        snprintf(space, size, "#%u", (unsigned)uid); /* as sudo(8) takes it */
    return space;
}

/* Asked before anything is written: files of another user would keep the service from starting the
 * next time. */
int process_owns(const char *data_dir, struct err *err)
{
    char owner[64], self[64];
    struct stat status;

    if (stat(data_dir, &status) != 0 || status.st_uid == geteuid())
        return 0;
    user_name(status.st_uid, owner, sizeof(owner));
    return err_set(err, ERR_INVALID,
                   "data folder %s belongs to user %s, and this process runs as %s: what it wrote "
                   "there, %s could not read; run it as %s (sudo -u '%s' ...), or give the folder "
                   "to %s (chown -R)",
                   data_dir, owner, user_name(geteuid(), self, sizeof(self)), owner, owner, owner,
                   self);
}

/* ---- the loop's lag ---- */

/* The loop thread's own time: tells work of the loop from a machine that had no processor for
 * it. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec used;

    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void lag_expect(struct process_lag *lag, uint64_t due_ns)
{
    lag->cpu_ns = thread_cpu_ns();
    lag->due_ns = due_ns;
}

/* 0 once the last one is an old story: Status warns of what is, not of what was. */
uint64_t process_loop_lag_ms(const struct broker_counters *counters, uint64_t now_ms)
{
    bool old = counters->loop_lag_late_at_ms == 0 ||
               now_ms - counters->loop_lag_late_at_ms >= PROCESS_LAG_STORY_MS;

    return old ? 0 : counters->loop_lag_late_ms;
}

static void lag_measure(struct process_lag *lag, uint64_t now_ns)
{
    struct broker_counters *counters = lag->counters;
    uint64_t now_ms = now_ns / 1000000;
    uint64_t late_ms = now_ns > lag->due_ns ? (now_ns - lag->due_ns) / 1000000 : 0;
    uint64_t cpu_ms = (thread_cpu_ns() - lag->cpu_ns) / 1000000;

    if (counters->loop_lag_excused)
        late_ms = 0;
    counters->loop_lag_excused = false;
    if (cpu_ms > late_ms)
        cpu_ms = late_ms; /* the rest was before it was due */
    if (cpu_ms > counters->loop_lag_cpu_max_ms)
        counters->loop_lag_cpu_max_ms = cpu_ms;
    if (late_ms > counters->loop_lag_max_ms)
        counters->loop_lag_max_ms = late_ms;
    if (late_ms > BROKER_LOOP_LAG_WARN_MS) {
        counters->loop_lag_over_total++;
        if (process_loop_lag_ms(counters, now_ms) < late_ms)
            counters->loop_lag_late_ms = late_ms;
        counters->loop_lag_late_at_ms = now_ms;
        if (lag->warned_ms == 0 || now_ms - lag->warned_ms >= PROCESS_LAG_LOG_MS) {
            lag->warned_ms = now_ms;
            log_warning("loop_lag",
                        "lag_ms=%" PRIu64 " cpu_ms=%" PRIu64 " limit_ms=%d over_total=%" PRIu64,
                        late_ms, cpu_ms, BROKER_LOOP_LAG_WARN_MS, counters->loop_lag_over_total);
        }
    }
}

/* The loop is about to wait: all that was due has been served. */
static void lag_before(uv_prepare_t *before)
{
    struct process_lag *lag = before->data;
    int timeout_ms = uv_backend_timeout(before->loop);
    uint64_t now_ns = uv_hrtime();

    lag_measure(lag, now_ns);
    lag_expect(lag, timeout_ms < 0 ? UINT64_MAX : now_ns + (uint64_t)timeout_ms * 1000000);
}

/* The loop has waited, and has served what came: its timers are next. */
static void lag_after(uv_check_t *after)
{
    struct process_lag *lag = after->data;
    uint64_t now_ns = uv_hrtime();

    if (lag->due_ns > now_ns)
        lag->due_ns = now_ns;
}

void process_lag_excuse_replay(struct process_lag *lag, uint64_t last_index)
{
    lag->replay_last_index = last_index;
}

/* Replay applies entries as fast as it can, and holds the loop by intention. */
void process_lag_applied(struct process_lag *lag, uint64_t applied_index)
{
    if (applied_index <= lag->replay_last_index)
        lag->counters->loop_lag_excused = true;
}

void process_lag_start(struct process_lag *lag, uv_loop_t *loop, struct broker_counters *counters)
{
    memset(lag, 0, sizeof(*lag));
    lag->counters = counters;
    CHECK(uv_prepare_init(loop, &lag->before) == 0);
    CHECK(uv_check_init(loop, &lag->after) == 0);
    lag->before.data = lag;
    lag->after.data = lag;
    lag_expect(lag, uv_hrtime());
    CHECK(uv_prepare_start(&lag->before, lag_before) == 0);
    CHECK(uv_check_start(&lag->after, lag_after) == 0);
}

void process_lag_stop(struct process_lag *lag)
{
    uv_close((uv_handle_t *)&lag->before, NULL);
    uv_close((uv_handle_t *)&lag->after, NULL);
}

/* ---- dump ---- */

static void dump_raft(const struct broker *broker)
{
    struct consensus_status raft;
    struct replica_stats stats;

    replica_get_status(broker->replica, &raft);
    replica_get_stats(broker->replica, &stats);
    log_info("dump_raft",
             "role=%s term=%" PRIu64 " leader=%" PRIu64 " quorum=%d commit_index=%" PRIu64
             " applied_index=%" PRIu64 " last_index=%" PRIu64 " snapshot_index=%" PRIu64
             " log_bytes=%" PRIu64 " disk_free_bytes=%" PRIu64
             " accepts_writes=%d in_flight=%" PRIu64 " waiting=%zu entries_total=%" PRIu64
             " commands_total=%" PRIu64 " batch_max=%" PRIu64 " commit_us_max=%" PRIu64,
             translate_role(&raft), raft.term, raft.leader_id, raft.quorum, raft.commit_index,
             raft.applied_index, raft.last_index, raft.snapshot_index, raft.log_bytes,
             raft.disk_free_bytes, raft.accepts_writes, raft.proposals_in_flight,
             replica_waiting(broker->replica), stats.entries_total, stats.commands_total,
             stats.batch_max, stats.commit_us_max);
    for (size_t i = 0; i < raft.peer_count; i++)
        log_info("dump_peer",
                 "member=%" PRIu64 " voter=%d connected=%d match_index=%" PRIu64
                 " last_contact_age_ms=%" PRIu64,
                 raft.peers[i].id, raft.peers[i].voter, raft.peers[i].connected,
                 raft.peers[i].match_index, raft.peers[i].last_contact_age_ms);
}

static void dump_state(const struct broker *broker)
{
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(broker->replica), &summary);
    log_info("dump_state",
             "initialised=%d epoch=%" PRIu64 " applied_index=%" PRIu64 " state_hash=%016" PRIx64
             " commands=%" PRIu64 " events=%" PRIu64 " allocations=%" PRIu32 " checkpoints=%" PRIu32
             " request_ids=%" PRIu32 " paused_total=%" PRIu64 " resumed_total=%" PRIu64,
             summary.initialised, summary.epoch, summary.applied_index, summary.state_hash,
             summary.command_count, summary.next_event_sequence, summary.allocation_count,
             summary.checkpoint_count, summary.past_request_count, summary.paused_total,
             summary.resumed_total);
    for (unsigned state = 0; state < ARRAY_COUNT(summary.allocations_by_state); state++) {
        if (summary.allocations_by_state[state] != 0)
            log_info("dump_allocations", "state=%s count=%" PRIu32,
                     fsm_allocation_state_name((Ckpt__V1__AllocationState)state),
                     summary.allocations_by_state[state]);
    }
    for (unsigned state = 0; state < ARRAY_COUNT(summary.checkpoints_by_state); state++) {
        if (summary.checkpoints_by_state[state] != 0)
            log_info("dump_checkpoints", "state=%s count=%" PRIu32,
                     fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)state),
                     summary.checkpoints_by_state[state]);
    }
}

static void dump_api(const struct broker *broker)
{
    const struct broker_counters *counters = &broker->counters;
    struct rpc_server_stats rpc = {0};

    if (broker->rpc != NULL)
        rpc_server_get_stats(broker->rpc, &rpc);
    log_info("dump_api",
             "connections=%" PRIu64 " calls_active=%" PRIu64 " calls_total=%" PRIu64
             " bytes_buffered=%" PRIu64 " mutations=%" PRIu64 " reads=%" PRIu64
             " stale_reads=%" PRIu64 " not_leader=%" PRIu64 " full=%" PRIu64 " undecodable=%" PRIu64
             " watchers=%" PRIu64 " loop_lag_max_ms=%" PRIu64,
             rpc.connections, rpc.calls_active, rpc.calls_total, rpc.bytes_buffered,
             counters->mutations_total, counters->reads_total, counters->stale_reads_total,
             counters->not_leader_total, counters->full_total, counters->undecodable_total,
             counters->watchers, counters->loop_lag_max_ms);
}

/* SIGUSR2: everything that helps when the API does not answer. */
void process_dump(const struct broker *broker)
{
    dump_raft(broker);
    dump_state(broker);
    dump_api(broker);
}
