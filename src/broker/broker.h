/* The parts of one ckptd process and how they find each other.
 *
 * Flow     daemon.c makes the parts (daemon_add_parts() has the order), runs the loop, and frees in
 *          reverse. A duty is `struct X *X_new(struct broker *broker)` and
 *          `void X_free(struct X *duty)` (accepts NULL): in X_new it subscribes to the replica
 *          (struct replica_observer) and, if it serves methods, adds them to broker->rpc. It does
 *          nothing before `serving` and stops at `not_serving`; what it needs after a failover it
 *          derives from the replicated state.
 * Duties   A duty of the leader keeps nothing that must survive a failover. At `serving` it derives
 *          its work from the state, level-triggered: whatever differs from what should be is
 *          proposed, and proposed again while it does. At `not_serving` it stops at once. So a
 *          leader that dies in between loses nothing, and the next one needs no word from it.
 * Shapes   everything runs on the one loop thread. A member is not NULL once its constructor was
 *          called; code that tests use with parts missing checks for NULL where the comment says
 *          so.
 * Units    milliseconds unless the name says otherwise.
 * Errors   A proposal that fails is nobody's trouble but its caller's: duties look again, clients
 *          are told (api/answer.h). A part that cannot be made does not exist: constructors end the
 *          program or return NULL where their header says so.
 * Absent   locks, threads, globals.
 */
#ifndef CKPT_BROKER_BROKER_H
#define CKPT_BROKER_BROKER_H

#include <uv.h>

#include "src/base/id.h"
#include "src/base/ops.h"
#include "src/broker/daemon/config.h"
#include "src/broker/replica/replica.h"
#include "src/rpc/server.h"

struct evaluator;
struct nodes;
struct node_probe;
struct dispatcher;
struct storage_watch;
struct collector;
struct quotas;
struct restarter;
struct hangs;
struct scrubber;
struct scanner;
struct accounting;
struct audit_trail;
struct denials;
struct ticker;
struct telemetry;
struct metrics;
struct credentials;
struct http;
struct service;
struct watch;
struct backup;
struct backup_schedule;
struct upgrades;
struct drills_duty;
struct disk_ops; /* raft/io_ops.h */

/* Statuses of fsm/core/status.h are counted by their number below this. */
enum { BROKER_OUTCOMES_MAX = 256 };

/* Read by metrics.c and status.c; each is written by the part its comment names. */
struct broker_counters {
    uint64_t started_at_ms;    /* wall clock; main.c */
    uint64_t loop_lag_max_ms;  /* since start; daemon/process.c */
    uint64_t loop_lag_late_ms; /* the longest over BROKER_LOOP_LAG_WARN_MS that is no old story */
    uint64_t loop_lag_late_at_ms; /* uv_hrtime(): of the last one; 0: none */
    uint64_t loop_lag_cpu_max_ms; /* of a lag: by the loop's own work */
    uint64_t loop_lag_over_total; /* times over BROKER_LOOP_LAG_WARN_MS */
    /* the next sample follows an operator's check of the whole state, or replay */
    bool loop_lag_excused;
    uint64_t mutations_total; /* proposed for a caller; service.c */
    uint64_t reads_total;     /* linearizable ones */
    uint64_t stale_reads_total;
    uint64_t not_leader_total;   /* answered with a redirect */
    uint64_t full_total;         /* answered with push-back */
    uint64_t rate_limited_total; /* of users who ask too often; rate.h */
    uint64_t agent_twins_total;  /* agents with another one's name; dispatcher_twins.c */
    uint64_t undecodable_total;
    uint64_t outcomes_total[BROKER_OUTCOMES_MAX]; /* of callers' mutations by enum fsm_status */
    uint64_t watchers;                            /* open Watch calls; watch.c */
    uint64_t watch_events_total;
    uint64_t fence_epoch,
        fence_term;          /* the highest that an agent said it obeyed; dispatcher_session.c */
    int64_t tls_expiry_s;    /* when our certificate ends, Unix time; 0: no TLS; credentials.c */
    int64_t tls_ca_expiry_s; /* when its CA does */
    bool tls_reload_failed;  /* the files on disk cannot be used */
};
/* Jobs whose last checkpoint is damaged, from the events that were looked through so far; what is
 * more than fits is not listed. status.c */
enum { BROKER_DAMAGED_MAX = 16 };
struct broker_damaged {
    uint64_t seen; /* sequence of the last event */
    size_t count;
    char jobs[BROKER_DAMAGED_MAX][ID_MAX_BYTES + 1];
};
enum { BROKER_LOOP_LAG_WARN_MS = 50 };
enum { BROKER_SILENT_ELECTIONS = 2 }; /* election timeouts without a word: unreachable */

/* One process. In its constructor a part may rely on loop, clock, random, config, replica, rpc and
 * metrics (telemetry on nodes as well); the others it looks up when it needs them. */
struct broker {
    uv_loop_t *loop; /* for I/O glue only; time goes through clock */
    struct clock_ops clock;
    struct random_ops random;
    const struct disk_ops *disk; /* of the data folder; NULL in tests that make no backup */
    const struct config *config;
    struct broker_counters counters;
    struct broker_damaged damaged;
    struct replica *replica;
    struct rpc_server *rpc; /* NULL while shutting down and in tests without a server */
    struct service *service;
    struct watch *watch;
    struct backup *backup;
    struct backup_schedule *backup_schedule; /* NULL: none are configured */
    /* Duties of the leader; NULL in tests that do without. The service asks them for what only they
     * know: evaluator_last, dispatcher_node_connected, storage_watch_last_probe. */
    struct nodes *nodes;           /* NULL in tests: nobody hears of nodes */
    struct node_probe *node_probe; /* on every member; NULL in tests: nobody is probed */
    struct dispatcher *dispatcher;
    struct evaluator *evaluator;
    struct storage_watch *storage_watch;
    struct ticker *ticker;
    struct collector *collector;
    struct scrubber *scrubber;
    struct quotas *quotas;
    struct restarter *restarter; /* NULL in tests: nobody is restarted */
    struct hangs *hangs;         /* NULL in tests: nobody looks for jobs that hang */
    struct hook *hook;           /* NULL: the site has no command for news of jobs */
    struct scanner *scanner;
    struct telemetry *telemetry;     /* NULL in tests and in the simulator: nobody is asked */
    struct accounting *accounting;   /* NULL in tests and in the simulator */
    struct audit_trail *audit_trail; /* likewise */
    struct sign_key *audit_key;      /* NULL: heads of the audit trail are not signed */
    struct denials *denials;         /* NULL in tests: nobody notes denied calls */
    struct metrics *metrics;
    struct credentials *credentials; /* NULL without TLS */
    struct upgrades *upgrades;       /* NULL in the simulator: nobody restarts it */
    struct drills_duty *drills;      /* NULL in tests and in the simulator: nothing is failed */
    struct http *http;               /* NULL when the member has no http address */
    struct http_secure *http_secure; /* NULL: its pages are not for certificates alone */
};

/* For intervals and ages on this host: never goes back, and means nothing on another one. */
static inline uint64_t broker_monotonic_ms(const struct broker *broker)
{
    return broker->clock.monotonic_us(broker->clock.context) / 1000;
}

/* For people and logs. Nothing is decided by it: what is replicated goes by the state's clock
 * (replica_state_ms()). */
static inline uint64_t broker_wall_ms(const struct broker *broker)
{
    return broker->clock.wall_ms(broker->clock.context);
}

/* A process that hangs or was stopped keeps its connections: whoever is expected to speak is
 * reachable only while it does. Followers do not speak to each other: there the connection is all
 * that is known. */
static inline bool broker_peer_reachable(const struct broker *broker,
                                         const struct consensus_status *status,
                                         const struct consensus_peer_status *peer)
{
    bool speaks = status->role != CONSENSUS_FOLLOWER || peer->id == status->leader_id;

    return peer->connected &&
           (!speaks ||
            peer->last_contact_age_ms < BROKER_SILENT_ELECTIONS * broker->config->election_ms);
}

/* Voters that may fail beside those that already do not answer, or whose disk is nearly full, while
 * a majority stays. Of the leader; a follower hears of nobody else. */
static inline uint32_t broker_tolerance(const struct broker *broker,
                                        const struct consensus_status *status)
{
    size_t reachable = status->member_role == CONSENSUS_VOTER && status->accepts_writes,
           majority = status->voter_count / 2 + 1;

    for (size_t i = 0; i < status->peer_count; i++)
        reachable += status->peers[i].voter && status->peers[i].unfit != CONSENSUS_DISK_FULL &&
                     broker_peer_reachable(broker, status, &status->peers[i]);
    return status->quorum && reachable > majority ? (uint32_t)(reachable - majority) : 0;
}

#endif
