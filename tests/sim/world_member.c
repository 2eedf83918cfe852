/* One ckptd of the world: what src/broker/daemon/daemon.c puts together, without its loop, signals,
 * HTTP and reflection.
 *
 * Flow     member_start(): replica → server and services → duties → listen. A kill frees the same
 *          parts in reverse after the disk and the connections are dead, so that nothing of the
 *          teardown reaches anyone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/service.h"
#include "src/broker/api/watch.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/hangs.h"
#include "src/broker/decide/restarter.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/disk_watch.h"
#include "src/broker/health/node_probe.h"
#include "src/broker/health/nodes.h"
#include "src/broker/health/storage_watch.h"
#include "src/broker/keep/backup.h"
#include "src/broker/keep/collector.h"
#include "src/broker/keep/quotas.h"
#include "src/broker/keep/scanner.h"
#include "src/broker/keep/scrubber.h"
#include "src/broker/replica/leader_watch.h"
#include "src/broker/replica/member_watch.h"
#include "src/broker/replica/ticker.h"
#include "tests/sim/world_internal.h"

enum {
    RESTART_MIN_US = 200000,
    RESTART_SPREAD_US = 3000000,
    SEGMENT_BYTES = 256 << 10,
    SEGMENT_BIG_BYTES = 4 << 20,
    RESTART_WAIT_S = 600
};

const struct fsm *member_fsm(const struct world_member *member)
{
    return replica_fsm(member->broker.replica);
}

struct consensus *member_consensus(const struct world_member *member)
{
    return replica_consensus(member->broker.replica);
}

/* ---- what the parts tell ---- */

static void on_fatal(void *context, const struct err *err)
{
    struct world_member *member = context;

    member->doomed = true;
    member->fatal = *err;
}

static void on_role(void *context, enum consensus_role role, uint64_t term, uint64_t leader_id)
{
    const struct world_member *member = context;

    if (member->world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u role %d term %" PRIu64 " leader %" PRIu64 "\n",
                sim_now_us(member->world->sim), member->number + 1, (int)role, term, leader_id);
    raft_checks_role(context, role, term);
    if (role == CONSENSUS_LEADER)
        faults_elected(context);
}

static void on_applied(void *context)
{
    state_checks_applied(context);
}

/* ---- an application that does not get ready ---- */

static void flush_fire(void *data)
{
    struct world_member *member = data;

    if (member->flush.withheld)
        member->flush.due = true;
    else
        member->flush.fire(member->flush.data);
}

static struct world_member *opening; /* whose replica has made no timer yet */
static struct clock_timer *(*timer_new)(void *context, void (*fire)(void *data), void *data);

/* The first one is that of the proposals (replica_flush). */
static struct clock_timer *replica_timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct world_member *member = opening;

    opening = NULL;
    if (member == NULL)
        return timer_new(context, fire, data);
    member->flush.fire = fire;
    member->flush.data = data;
    return timer_new(context, flush_fire, member);
}

static void replica_clock_init(struct world_member *member)
{
    opening = member;
    timer_new = member->broker.clock.timer_new;
    member->clock = member->broker.clock;
    member->clock.timer_new = replica_timer_new;
    member->flush.withheld = member->flush.due = false;
}

void member_withhold(struct world_member *member)
{
    member->flush.withheld = true;
}

void member_release(struct world_member *member)
{
    unsigned before = sim_enter(member->world->sim, member->number);

    member->flush.withheld = false;
    if (member->up && member->flush.due)
        member->flush.fire(member->flush.data);
    member->flush.due = false;
    sim_leave(member->world->sim, before);
}

/* ---- start ---- */

static int open_replica(struct world_member *member, struct err *err)
{
    const struct config *config = member->config;
    struct world *world = member->world;
    struct consensus_config consensus = {.member_id = config->self->id,
                                         .cluster_id = config->cluster_id,
                                         .data_dir = config->data_dir,
                                         .listen_address = config->self->raft,
                                         .members = member->members,
                                         .member_count = config->member_count,
                                         .bootstrap = !member->claimed && !member->joins,
                                         .join = !member->claimed && member->joins,
                                         .election_timeout_ms = (uint32_t)config->election_ms,
                                         .heartbeat_ms = (uint32_t)config->heartbeat_ms,
                                         .snapshot_after_entries = config->snapshot_after_entries,
                                         .snapshot_after_bytes = config->snapshot_after_bytes,
                                         .reserve_bytes = 1 << 20,
                                         .segment_bytes = world->options.burst_bytes > 1000 ||
                                                                  world->options.overtakes > 0
                                                              ? SEGMENT_BIG_BYTES
                                                              : SEGMENT_BYTES,
                                         .clock = &member->clock,
                                         .random = &member->broker.random,
                                         .disk = &member->disk,
                                         .network = &member->network};

    replica_clock_init(member);
    if (replica_open(&consensus, &member->initial, on_fatal, member, &member->broker.replica,
                     err) != 0)
        return -1;
    member->claimed = true;
    member->half_claimed = false;
    replica_set_facts(member->broker.replica, &member->facts);
    member->observer = (struct replica_observer){
        .context = member, .applied = on_applied, .role_changed = on_role};
    replica_observe(member->broker.replica, &member->observer);
    raft_checks_started(member);
    flips_started(member);
    state_checks_applied(member);
    (void)world;
    return 0;
}

static void add_parts(struct world_member *member)
{
    struct broker *broker = &member->broker;
    const struct rpc_server_config server = {.connections_max = member->config->connections_max};
    struct err err;

    broker->rpc = rpc_server_new(broker->loop, &server);
    broker->metrics = broker_metrics_new(broker);
    broker->service = service_new(broker);
    broker->watch = watch_new(broker);
    broker->disk = &member->disk;
    broker->backup = backup_new(broker);
    broker->nodes = nodes_new(broker);
    witness_start(member);
    broker->restarter = restarter_new(broker);
    broker->hangs = hangs_new(broker);
    broker->dispatcher = dispatcher_new(broker);
    broker->evaluator = evaluator_new(broker);
    broker->storage_watch = storage_watch_new(broker);
    broker->ticker = ticker_new(broker);
    broker->collector = collector_new(broker);
    broker->scrubber = scrubber_new(broker);
    broker->quotas = quotas_new(broker);
    broker->scanner = scanner_new(broker);
    drills_member_start(member);
    member->disk_watch = disk_watch_new(broker);
    member->member_watch = member_watch_new(broker);
    member->leader_watch = leader_watch_new(broker);
    CHECK(rpc_server_listen(broker->rpc, member->config->self->api, &err) == 0);
}

static void restart_fire(void *data)
{
    struct world_member *member = data;

    if (!member->up && !member->lost && !member->removed && !member->away &&
        member->world->phase != WORLD_OVER)
        member_start(member);
}

/* Supervisors start a daemon again after a while. */
static void restart_later(struct world_member *member)
{
    sim_after(member->world->sim, SIM_NODES_MAX,
              RESTART_MIN_US + sim_random(member->world->sim, RESTART_SPREAD_US), restart_fire,
              member);
}

/* What the disk does not read or write is told with its place, for the operator to look at. */
static void disk_error_check(struct world_member *member, const struct err *err)
{
    if (err->code == ERR_DISK && strstr(err->text, member->config->data_dir) == NULL)
        world_violation(member->world, "start", "member %u ends itself and does not say where: %s",
                        member->number + 1, err->text);
}

/* A start that failed: for a reason that passes, or the data is rotten and the member must not come
 * back. */
static void start_failed(struct world_member *member, const struct err *err)
{
    struct world *world = member->world;
    bool passes = member->doomed || sim_disk_dead(world->sim, member->number) ||
                  err->code == ERR_FULL || err->code == ERR_IO || err->code == ERR_DISK;

    disk_error_check(member, err);
    member->doomed = false;
    world_process_crash(world, member->number);
    if (err->code == ERR_REMOVED) {
        member->removed = true;
    } else if (passes) {
        member->half_claimed = !member->claimed;
        restart_later(member);
    } else if (member->half_claimed && err->code == ERR_REFUSED) {
        member->claimed =
            /* only the last sync of its bootstrap had failed: the operator does what the refusal
             * says */
            true;
        member->half_claimed = false;
        restart_later(member);
    } else if (member->rotten && (err->code == ERR_CORRUPT || err->code == ERR_NOT_FOUND)) {
        member->lost = true;
        world->counts.lost_members++;
    } else {
        world_violation(world, "start", "member %u does not start: %s", member->number + 1,
                        err->text);
    }
}

void member_start(struct world_member *member)
{
    struct world *world = member->world;
    struct broker *broker = &member->broker;
    unsigned before = sim_enter(world->sim, member->number);
    struct err err = {ERR_NONE, ""};
    int status;

    CHECK(!member->up);
    memset(broker, 0, sizeof(*broker));
    sim_loop_init(&member->loop, world->sim, member->number);
    broker->loop = &member->loop.uv;
    sim_node_clock(world->sim, member->number, &broker->clock);
    sim_node_random(world->sim, member->number, &broker->random);
    sim_node_disk(world->sim, member->number, &member->disk);
    sim_node_network(world->sim, member->number, &member->network);
    cut_network_ops(&member->drill.cut, &member->network);
    broker->config = member->config;
    broker->counters.started_at_ms = broker_wall_ms(broker);
    member->doomed = false;
    member->starts++;
    status = open_replica(member, &err);
    if (status == 0) {
        member->up = true;
        add_parts(member);
    }
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u starts: %s\n", sim_now_us(world->sim),
                member->number + 1, status == 0 ? "ok" : err.text);
    sim_leave(world->sim, before);
    if (status != 0)
        start_failed(member, &err);
}

/* ---- end ---- */

void member_kill(struct world_member *member)
{
    struct world *world = member->world;
    struct broker *broker = &member->broker;
    struct rpc_server *rpc = broker->rpc;
    unsigned before;

    if (!member->up)
        return;
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u dies\n", sim_now_us(world->sim),
                member->number + 1);
    member->up = false;
    member->kills++;
    before = sim_enter(world->sim, member->number);
    sim_disk_die_after(world->sim, member->number, 1);
    broker->rpc = NULL;
    if (rpc != NULL)
        rpc_server_free(rpc, NULL, NULL);
    replica_abandon(broker->replica);
    broker->replica = NULL;
    leader_watch_free(member->leader_watch);
    drills_member_end(member);
    member_watch_free(member->member_watch);
    disk_watch_free(member->disk_watch);
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
    node_probe_free(broker->node_probe);
    nodes_free(broker->nodes);
    watch_free(broker->watch);
    backup_free(broker->backup);
    service_free(broker->service);
    metrics_free(broker->metrics);
    sim_worker_crash(world->sim, member->number);
    sim_leave(world->sim, before);
    world_process_crash(world, member->number);
    if (world->phase != WORLD_OVER)
        restart_later(member);
}

static void member_bury(struct world_member *member)
{
    struct world *world = member->world;

    if (!member->up || (!member->doomed && !sim_disk_dead(world->sim, member->number)))
        return;
    if (world->options.verbose && member->doomed)
        fprintf(stderr, "%12" PRIu64 " member %u ends itself: %s\n", sim_now_us(world->sim),
                member->number + 1, member->fatal.text);
    if (member->doomed)
        disk_error_check(member, &member->fatal);
    flips_ended(member);
    member->removed |= member->doomed && member->fatal.code == ERR_REMOVED;
    if (member->doomed && member->rotten && !member->lost &&
        (member->fatal.code == ERR_CORRUPT || member->fatal.code == ERR_REFUSED)) {
        member->lost = true; /* it found out itself, or was told by the others */
        world->counts.lost_members++;
    }
    member_kill(member);
}

void members_bury(struct world *world)
{
    for (uint64_t touched = world_touched_members(world); touched != 0; touched &= touched - 1)
        member_bury(&world->members[__builtin_ctzll(touched)]);
}

bool member_counts(struct world *world, const struct world_member *member)
{
    struct world_member *leader = members_leader(world);

    return leader != NULL && !member->lost && !member->removed &&
           core_server_place(member_consensus(leader), member->number + 1) <
               member_consensus(leader)->raft.configuration.n;
}

bool members_known(struct world *world)
{
    for (unsigned i = 0; i < world->options.replicas; i++)
        if (member_counts(world, &world->members[i]))
            return true;
    return false;
}

struct world_member *members_leader(struct world *world)
{
    struct world_member *leader = NULL;
    uint64_t term = 0;

    for (unsigned i = 0; i < world->member_count; i++) {
        struct world_member *member = &world->members[i];
        if (member->up && replica_serving(member->broker.replica) &&
            member_consensus(member)->raft.current_term > term) {
            term = member_consensus(member)->raft.current_term;
            leader = member;
        }
    }
    return leader;
}

const struct world_member *members_leader_but(const struct world *world,
                                              const struct world_member *other)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up && &world->members[i] != other &&
            member_consensus(&world->members[i])->raft.state == RAFT_LEADER)
            return &world->members[i];
    return NULL;
}

/* ---- configuration ---- */

#define WORLD_JOINER "# one more\n"

static int text_add(char *text, size_t size, int used, const char *format, ...)
{
    va_list arguments;
    int written;

    va_start(arguments, format);
    written = vsnprintf(text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
    CHECK(written > 0 && (size_t)(used + written) < size);
    return used + written;
}

/* Drawn once per world, from its seed. The same file for all members, as in life. */
static void config_text(struct world *world, char *text, size_t size)
{
    struct sim *sim = world->sim;
    uint64_t election_ms = sim_chance(sim, 2) ? 1000 : 300;
    int used = text_add(
        text, size, 0,
        "cluster_id: simulated\ndata_dir: /data\ninsecure: yes\n"
        "timers:\n  election: %" PRIu64 "ms\n  heartbeat: %" PRIu64
        "ms\nraft:\n  snapshot_after_entries: %" PRIu64 "\n"
        "policy:\n  evaluation_interval: %" PRIu64 "ms\n  min_interval: %" PRIu64
        "ms\n  max_interval: %" PRIu64 "ms\n  checkpoint_timeout: %" PRIu64
        "ms\n  max_deferral: %" PRIu64
        "ms\n  grace: 500ms\n  near_completion: 2s\n  retention: %" PRIu64
        "ms\n  max_attempts: %" PRIu64
        "\n  retry_backoff: 300ms\n  node_degraded_after: 1500ms\n  node_down_after: %" PRIu64
        "ms\n  session_ttl: 30d\n  failover_after: 2s\n  max_discarded: %us\n"
        "  scrub_interval: 3s\n  release_check: 3s\n  restart_wait: %us\n  hang_after: %us\n"
        "storage_watch:\n  interval: %" PRIu64 "ms\n  timeout: 1s\n  failures_down: %" PRIu64
        "\n  successes_up: %" PRIu64 "\nmembers:\n",
        election_ms, election_ms / 10, UINT64_C(100),
        world->interval_ms = 1000 + sim_random(sim, 4000), 1000 + sim_random(sim, 3000),
        8000 + sim_random(sim, 20000), 2000 + sim_random(sim, 6000),
        world->options.deferrals > 0 ? (uint64_t)WORLD_DEFERRAL_MAX_MS : UINT64_C(300000),
        5000 + sim_random(sim, 20000), 1 + sim_random(sim, 4), 4000 + sim_random(sim, 6000),
        world->options.discards,
        world->options.restart_wait > 0 ? world->options.restart_wait : RESTART_WAIT_S,
        world->options.hung > 0 ? 2U : 300U, 200 + sim_random(sim, 800), 1 + sim_random(sim, 3),
        1 + sim_random(sim, 3));

    for (unsigned i = 0; i < world->options.replicas; i++)
        used =
            text_add(text, size, used,
                     "  - id: %u\n    name: m%u\n    raft: member%u:9000\n    api: member%u:7443\n",
                     i + 1, i + 1, i + 1, i + 1);
    used = text_add(text, size, used, "%stargets:\n", WORLD_JOINER);
    for (unsigned i = 0; i < world->options.targets; i++)
        used = text_add(text, size, used,
                        "  - id: %s\n    prefix: %s\n    write_bytes_per_s: %" PRIu64
                        "\n    staging_share_ppm: 300000\n    default: %s\n    max_restores: %u\n"
                        "    max_writes: %u\n"
                        "    pool: %s\n%s%s\n",
                        world->targets[i].id, world->targets[i].prefix,
                        UINT64_C(2000000000) + sim_random(sim, 20) * 1000000000,
                        i == 0 ? "yes" : "no", world->options.readers, world->options.readers,
                        i == 0 ? "sensitive\n    encrypted: yes\n    hot_only: yes" : "open",
                        world->options.domains > 0 ? "    domain: d" : "",
                        world->options.domains == 0 ? ""
                        : i == 0                    ? "0"
                                                    : "1");
    if (world->options.domains > 50 && world->options.targets > 1) /* of the last one */
        used = text_add(text, size, used, "    failover: %s\n", world->targets[0].id);
    if (world->options.preferred != 0)
        used = text_add(text, size, used, "preferred_leader: m%u\n", world->options.preferred);
    if (world->options.alarms > 0)
        text_add(text, size, used, "health:\n  drain: yes\n  drain_max_per_hour: 1000\n");
}

static void fill_initial(struct world_member *member)
{
    const struct config *config = member->config;

    config_fill_initial(config, &member->initial, member->initial_targets, &member->facts);
    for (size_t i = 0; i < config->member_count; i++) {
        struct consensus_member *known = &member->members[i];
        known->id = config->members[i].id;
        snprintf(known->name, sizeof(known->name), "%s", config->members[i].name);
        snprintf(known->address, sizeof(known->address), "%s", config->members[i].raft);
    }
}

/* One that joins knows the members of the beginning and itself. */
static void config_of(const struct world_member *member, const char *drawn, char *text, size_t size)
{
    const char *place = strstr(drawn, WORLD_JOINER);
    char own[128] = "";

    CHECK(place != NULL);
    if (member->joins)
        snprintf(own, sizeof(own),
                 "  - id: %u\n    name: m%u\n    raft: member%u:9000\n    api: member%u:7443\n",
                 member->number + 1, member->number + 1, member->number + 1, member->number + 1);
    CHECK(snprintf(text, size, "%.*s%s%s", (int)(place - drawn), drawn, own,
                   place + strlen(WORLD_JOINER)) < (int)size);
}

void member_init(struct world *world, unsigned number)
{
    static char drawn[8192]; /* for the first member, used by all */
    char text[sizeof(drawn) + 128];
    struct world_member *member = &world->members[number];
    char name[16];
    const struct config_flags flags = {.name = name};
    struct err err;

    member->world = world;
    member->number = number;
    member->joins = number >= world->options.replicas;
    snprintf(name, sizeof(name), "m%u", number + 1);
    if (number == 0)
        config_text(world, drawn, sizeof(drawn));
    config_of(member, drawn, text, sizeof(text));
    if (config_parse("world", text, strlen(text), &flags, &member->config, &err) != 0) {
        fprintf(stderr, "the world's configuration: %s\n%s", err.text, text);
        abort();
    }
    member->config->supervised = true; /* as restart_later() has it */
    member->config->snapshot_after_entries =
        world->options.snapshot_entries; /* fewer than a file may say */
    fill_initial(member);
    if (world->options.drift)
        sim_clock_set_drift(world->sim, number, (int64_t)sim_random(world->sim, 20001) - 10000);
}

void member_close(struct world_member *member)
{
    member_kill(member);
    config_free(member->config);
}
