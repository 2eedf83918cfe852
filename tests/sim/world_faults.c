/* Chaos: what befalls members, links, disks, clocks, nodes and destinations, and its end.
 *
 * Flow     one timer draws the next fault, weighted by the options; most heal by themselves after a
 *          while. faults_heal() ends all.
 * Absent   disks that acknowledge a sync and forget it after a power cut, and damage in the very
 *          last synced batch: no log without a second disk survives these (raft/README.md).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum { MINUTE_US = 60 * SECOND_US, HOUR_MS = 3600000, AGENT_SLOW_MAX_US = 10 * SECOND_US };

struct later {
    struct world *world;
    unsigned a;
    void (*undo)(struct world *world, unsigned a);
};

static void later_fire(void *data)
{
    struct later later = *(struct later *)data;

    free(data);
    if (later.world->phase == WORLD_CHAOS)
        later.undo(later.world, later.a);
}

static void undo_later(struct world *world, uint64_t min_ms, uint64_t spread_ms, unsigned a,
                       void (*undo)(struct world *world, unsigned a))
{
    struct later *later = check_alloc(sizeof(*later));

    *later = (struct later){world, a, undo};
    sim_on_drop(sim_schedule(world->sim, SIM_NODES_MAX,
                             1000 * (min_ms + sim_random(world->sim, spread_ms)), later_fire,
                             later),
                free);
}

static unsigned some_member(struct world *world)
{
    return (unsigned)sim_random(world->sim, world->member_count);
}

/* Half of the time the leader: that is where it hurts. */
static unsigned some_victim(struct world *world)
{
    const struct world_member *leader = members_leader(world);

    return leader != NULL && sim_chance(world->sim, 2) ? leader->number : some_member(world);
}

/* ---- processes ---- */

static void do_crash(struct world *world)
{
    world->counts.crashes++;
    member_kill(&world->members[some_victim(world)]);
    if (sim_chance(world->sim, 6))
        member_kill(&world->members[some_member(world)]);
    if (sim_chance(world->sim, 30))
        for (unsigned i = 0; i < world->member_count; i++)
            member_kill(&world->members[i]);
}

static void do_pause(struct world *world)
{
    bool member = !sim_chance(world->sim, 3);
    unsigned node =
        member ? some_victim(world)
               : WORLD_AGENT_NODE + (unsigned)sim_random(world->sim, world->options.agents);

    world->counts.pauses++;
    sim_pause(world->sim, node,
              50000 +
                  sim_random(world->sim, sim_chance(world->sim, 4) ? 8 * SECOND_US : SECOND_US));
}

static void do_agent_crash(struct world *world)
{
    world->counts.agent_crashes++;
    agent_kill(world, (unsigned)sim_random(world->sim, world->options.agents));
}

static void transferred(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    (void)data;
    (void)failed;
    (void)outcome;
}

static void do_transfer(struct world *world)
{
    struct world_member *leader = members_leader(world);
    unsigned before;

    if (leader == NULL)
        return;
    world->counts.transfers++;
    before = sim_enter(world->sim, leader->number);
    replica_transfer(leader->broker.replica, sim_chance(world->sim, 2) ? 0 : some_member(world) + 1,
                     transferred, NULL);
    sim_leave(world->sim, before);
}

/* I26: what a restored or recovered cluster proposes first (the folders of it are for
 * tests/integration). With it, as in batch_fill_first(), what its leader says of itself: the epoch
 * forgets where all members are, and nobody else tells of the leader. */
static void do_epoch(struct world *world)
{
    struct world_member *leader = members_leader(world);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NewEpoch epoch = CKPT__LOG__V1__NEW_EPOCH__INIT;
    struct fsm_summary summary;
    unsigned before;

    if (leader == NULL)
        return;
    world->counts.epochs++;
    fsm_get_summary(member_fsm(leader), &summary);
    epoch.epoch = summary.epoch + 1;
    epoch.cluster_id = (char *)(uintptr_t)summary.cluster_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NEW_EPOCH;
    command.new_epoch = &epoch;
    before = sim_enter(world->sim, leader->number);
    replica_propose(leader->broker.replica, &command, NULL, NULL);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
    command.member_facts = &leader->facts;
    replica_propose(leader->broker.replica, &command, NULL, NULL);
    sim_leave(world->sim, before);
}

/* ---- links ---- */

static void links_up(struct world *world, unsigned a)
{
    (void)a;
    for (unsigned i = 0; i < WORLD_NODES; i++)
        for (unsigned j = 0; j < WORLD_NODES; j++)
            sim_link_set(world->sim, i, j, true);
}

static void link_cut(struct world *world, unsigned a, unsigned b, bool both)
{
    if (a == b)
        return;
    sim_link_set(world->sim, a, b, false);
    if (both)
        sim_link_set(world->sim, b, a, false);
}

/* Isolated members, which clients may still reach, halves, a bridge; compute nodes and schedulers
 * fall on either side. */
static void do_partition(struct world *world)
{
    struct sim *sim = world->sim;
    uint64_t sides = sim_random(sim, UINT64_C(1) << 32), kind = sim_random(sim, 3);
    unsigned victim = some_victim(world);

    world->counts.partitions++;
    for (unsigned i = 0; i < WORLD_NODES; i++)
        for (unsigned j = 0; j < i; j++) {
            bool apart =
                kind == 0   ? (i == victim || j == victim) && (sides & 1 || i < world->member_count)
                : kind == 1 ? (sides >> i & 1) != (sides >> j & 1)
                            : (sides >> i & 1) != (sides >> j & 1) && i != victim && j != victim;
            if (apart)
                link_cut(world, i, j, true);
        }
    undo_later(world, 300, 9000, 0, links_up);
}

static void do_one_way(struct world *world)
{
    unsigned victim = some_victim(world);
    bool in = sim_chance(world->sim, 2);

    world->counts.partitions++;
    for (unsigned i = 0; i < world->member_count; i++)
        if (!sim_chance(world->sim, 4))
            link_cut(world, in ? i : victim, in ? victim : i, false);
    undo_later(world, 300, 9000, 0, links_up);
}

static void do_reset(struct world *world)
{
    unsigned a = some_victim(world), b = (unsigned)sim_random(world->sim, WORLD_NODES);

    world->counts.resets++;
    if (a != b)
        sim_reset_connections(world->sim, a, b);
}

/* ---- disks ---- */

static void do_disk_death(struct world *world)
{
    unsigned a = some_victim(world);

    world->counts.dead_disks++;
    if (world->members[a].up)
        sim_disk_die_after(world->sim, a, 1 + sim_random(world->sim, 60));
}

static void do_disk_error(struct world *world)
{
    world->counts.disk_errors++;
    sim_disk_fail_after(world->sim, some_victim(world), 1 + sim_random(world->sim, 60));
}

static void disk_fast(struct world *world, unsigned a)
{
    sim_disk_set_slowness(world->sim, a, 1);
}

static void do_slow(struct world *world)
{
    unsigned a = some_victim(world);

    world->counts.slow++;
    sim_disk_set_slowness(world->sim, a, 5 + (unsigned)sim_random(world->sim, 100));
    undo_later(world, 500, 8000, a, disk_fast);
}

static void disk_room(struct world *world, unsigned a)
{
    sim_disk_set_free(world->sim, a, WORLD_DISK_FREE_BYTES);
}

static void do_full(struct world *world)
{
    unsigned a = some_victim(world);

    world->counts.full++;
    sim_disk_set_free(world->sim, a, sim_random(world->sim, 2 << 20));
    undo_later(world, 500, 10000, a, disk_room);
}

static void room_shrink(struct world *world, unsigned a)
{
    if (sim_disk_shrink(world->sim, a))
        undo_later(world, 100, 1000, a, room_shrink);
}

/* What is written takes the room of the disk, and others take it as well: told by free_bytes, or
 * noticed when a write fails. */
static void do_fill(struct world *world)
{
    unsigned a = some_victim(world);

    world->counts.full++;
    sim_disk_fill(world->sim, a, sim_random(world->sim, 4 << 20), sim_chance(world->sim, 2),
                  sim_chance(world->sim, 3));
    undo_later(world, 500, 10000, a, disk_room);
    if (sim_chance(world->sim, 2))
        undo_later(world, 0, 1000, a, room_shrink);
}

static void do_sync_loss(struct world *world)
{
    world->counts.disk_errors++;
    sim_disk_fail_sync_after(world->sim, some_victim(world), 1 + sim_random(world->sim, 40));
}

/* Of one that runs, or of one that starts. */
static void do_read_error(struct world *world)
{
    unsigned a = some_victim(world);

    world->counts.disk_errors++;
    if (sim_chance(world->sim, 2))
        member_kill(&world->members[a]);
    sim_disk_fail_read_after(world->sim, a, 1 + sim_random(world->sim, 25));
}

/* ---- disks of agents ---- */

static void agent_disk_fast(struct world *world, unsigned a)
{
    (void)world;
    world_shipping_slow_disk(a - WORLD_AGENT_NODE, 0);
}

static void agent_disk_slow(struct world *world, unsigned a)
{
    world->counts.slow++;
    world_shipping_slow_disk(a - WORLD_AGENT_NODE,
                             sim_chance(world->sim, 3) ? AGENT_SLOW_MAX_US : SECOND_US);
    undo_later(world, 500, 12000, a, agent_disk_fast);
}

static void agent_disk_full(struct world *world, unsigned a)
{
    world->counts.full++;
    if (sim_chance(world->sim, 3))
        sim_disk_set_free(world->sim, a, sim_random(world->sim, 1000));
    else
        sim_disk_fill(world->sim, a, sim_random(world->sim, 32 << 10), true,
                      sim_chance(world->sim, 2));
    undo_later(world, 500, 10000, a, disk_room);
}

/* Of the journal. Model agents have none. */
static void do_agent_disk(struct world *world)
{
    struct sim *sim = world->sim;
    unsigned number, a;

    if (world->options.shipping_agents == 0)
        return;
    number = (unsigned)sim_random(sim, world->options.shipping_agents);
    a = WORLD_AGENT_NODE + number;
    switch (sim_random(sim, 6)) {
    case 0:
        agent_disk_full(world, a);
        return;
    case 1:
        agent_disk_slow(world, a);
        return;
    case 2: /* it reads when it starts, and only then */
        agent_kill(world, number);
        sim_disk_fail_read_after(sim, a, 1 + sim_random(sim, 4));
        break;
    case 3:
        sim_disk_fail_sync_after(sim, a, 1 + sim_random(sim, 20));
        break;
    default:
        sim_disk_fail_after(sim, a, 1 + sim_random(sim, 40));
    }
    world->counts.disk_errors++;
}

/* ---- rot ---- */

/* Voters of a configuration may lose their data as long as a majority has its own, and as one more
 * of them may be removed, by a request that was sent long ago. */
bool faults_leave_majority(const struct world *world,
                           const struct raft_configuration *configuration, unsigned victim,
                           unsigned leaving)
{
    unsigned voters = 0, lacking = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        unsigned number = (unsigned)configuration->servers[i].id - 1;
        if (configuration->servers[i].role != RAFT_VOTER || number == leaving)
            continue;
        voters++;
        lacking += number == victim || world->members[number].rotten;
    }
    return 2 * lacking + 2 <= voters;
}

/* Each founder is a member. Before that all of them are needed: one that is lost for good keeps the
 * others waiting. */
static bool founded(struct world *world)
{
    for (unsigned i = 0; i < world->options.replicas; i++) {
        struct world_member *member = &world->members[i];
        member->founded |= member->up && member_consensus(member)->folder.claimed;
        if (!member->founded)
            return false;
    }
    return true;
}

/* So many may lose their data that a majority never does, in every configuration that somebody
 * has. */
static bool may_lose(const struct world *world, unsigned victim)
{
    unsigned rotten = 0;

    if (!world->members[victim].up || world->members[victim].rotten)
        return world->members[victim].up;
    for (unsigned i = 0; i < world->member_count; i++) {
        rotten += world->members[i].rotten;
        if (world->options.membership > 0 && world->members[i].up &&
            !faults_leave_majority(world, &member_consensus(&world->members[i])->raft.configuration,
                                   victim, WORLD_MEMBERS_MAX))
            return false;
    }
    return world->options.membership > 0 || rotten < (world->member_count - 1) / 2;
}

static bool may_rot(struct world *world, unsigned victim)
{
    return founded(world) && may_lose(world, victim);
}

/* Clients know the founders only: a majority of them stays. */
static bool founders_leave_majority(const struct world *world, unsigned victim)
{
    unsigned lacking = 0;

    for (unsigned i = 0; i < world->options.replicas; i++)
        lacking += i == victim || world->members[i].rotten;
    return 2 * lacking < world->options.replicas;
}

/* Also in the middle of a founding: whose number counts already is a stranger then, the others
 * begin anew. Not one that joined: the others refuse a voter whose log is empty. Nor one that began
 * alone: nobody is left to refuse it. */
static bool may_wipe(const struct world *world, unsigned victim)
{
    return world->options.replicas > 2 && victim < world->options.replicas &&
           may_lose(world, victim) && founders_leave_majority(world, victim);
}

/* Where the last synced batch of a segment begins: what lies before can be told from a torn
 * tail. */
static uint64_t before_last_batch(const uint8_t *bytes, uint64_t used)
{
    uint64_t at = WAL_SEGMENT_HEADER_BYTES, begin = at;
    struct wal_record record;
    size_t size;

    for (; at < used && wal_record_decode(bytes + at, used - at, &record, &size); at += size)
        if (record.ordinal == 0)
            begin = at;
    return begin;
}

static void rot_log(struct world *world, struct world_member *member)
{
    const struct wal *wal = &member_consensus(member)->wal;
    char path[FOLDER_PATH_BYTES];
    const uint8_t *bytes;
    uint64_t end;
    size_t length, i;

    if (wal->segment_count == 0)
        return;
    i = sim_random(world->sim, wal->segment_count);
    wal_segment_path(wal, wal->segments[i].first_index, path);
    bytes = sim_file(world->sim, member->number, strrchr(path, '/') + 1, &length);
    if (bytes == NULL || wal->segments[i].used_bytes > length)
        return;
    end = before_last_batch(bytes, wal->segments[i].used_bytes);
    member->rotten = true;
    sim_file_rot(world->sim, member->number, strrchr(path, '/') + 1, sim_random(world->sim, end),
                 (unsigned)sim_random(world->sim, 8));
}

static void rot_file(struct world *world, struct world_member *member, const char *prefix)
{
    const char *name =
        sim_file_name(world->sim, member->number, prefix, (unsigned)sim_random(world->sim, 2));
    size_t length;

    if (name == NULL || sim_file(world->sim, member->number, name, &length) == NULL || length == 0)
        return;
    member->rotten = true;
    sim_file_rot(world->sim, member->number, name, sim_random(world->sim, length),
                 (unsigned)sim_random(world->sim, 8));
}

/* I11: an operator replaces the disk and begins the member anew under its old id: the others refuse
 * it. */
static void wipe(struct world *world, struct world_member *member)
{
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u gets an empty disk\n", sim_now_us(world->sim),
                member->number + 1);
    member->rotten = true;
    member_kill(member);
    sim_disk_wipe(world->sim, member->number);
    member->claimed = false;
    member->half_claimed = false;
    raft_checks_wiped(member);
}

/* I11 as well: a copy of the folder that was made a while ago is put back. Never drawn: see
 * README.md. */
void faults_put_back(struct world *world, struct world_member *member)
{
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u gets an older copy\n", sim_now_us(world->sim),
                member->number + 1);
    member->rotten = true;
    member_kill(member);
    if (sim_disk_put_back(world->sim, member->number))
        raft_checks_wiped(member);
}

static void copy_kept(struct world *world, unsigned a)
{
    if (world->members[a].up && !world->members[a].rotten)
        sim_disk_keep(world->sim, a);
}

static void do_rot(struct world *world)
{
    struct world_member *member = &world->members[some_member(world)];

    if (!may_rot(world, member->number))
        return;
    world->counts.rots++;
    if (sim_chance(world->sim, 4) && may_wipe(world, member->number)) {
        wipe(world, member);
        return;
    }
    if (sim_chance(world->sim, 2))
        rot_log(world, member);
    else
        rot_file(world, member, sim_chance(world->sim, 2) ? "snapshot-" : "vote");
    if (sim_chance(world->sim, 2))
        member_kill(member); /* it finds out when it reads */
}

/* The bound of the log, the address book and the reserve are not needed: a member starts without
 * them, or with what is left of them. */
static void spoil_dispensable(struct world *world, struct world_member *member)
{
    static const char *const names[] = {"synced", "members", "reserve"};
    const char *name = names[sim_random(world->sim, ARRAY_COUNT(names))];
    size_t length;

    if (sim_file(world->sim, member->number, name, &length) == NULL)
        return;
    world->counts.rots++;
    if (length > 0 && sim_chance(world->sim, 2))
        sim_file_rot(world->sim, member->number, name, sim_random(world->sim, length),
                     (unsigned)sim_random(world->sim, 8));
    else
        sim_file_lose(world->sim, member->number, name);
}

/* Without the others it is no member any more, and says so. Not among them: the last segment, whose
 * end only "synced" tells, which is not durable at once; "joining", which is empty: that it is
 * there is all it says. */
static void lose_needed(struct world *world, struct world_member *member)
{
    static const char *const prefixes[] = {"identity", "vote", "snapshot-", "wal-"};
    const char *prefix = prefixes[sim_random(world->sim, ARRAY_COUNT(prefixes))];
    unsigned count = 0;
    const char *name;

    while (sim_file_name(world->sim, member->number, prefix, count) != NULL)
        count++;
    count -= count > 0 && strcmp(prefix, "wal-") == 0;
    if (count == 0)
        return;
    name =
        sim_file_name(world->sim, member->number, prefix, (unsigned)sim_random(world->sim, count));
    world->counts.rots++;
    member->rotten = true;
    sim_file_lose(world->sim, member->number, name);
}

static void do_lost_file(struct world *world)
{
    struct world_member *member = &world->members[some_member(world)];

    if (sim_chance(world->sim, 2))
        spoil_dispensable(world, member);
    else if (!may_rot(world, member->number))
        return;
    else if (sim_chance(world->sim, 3)) {
        world->counts.rots++;
        rot_file(world, member, "identity");
    } else {
        lose_needed(world, member);
    }
    if (sim_chance(world->sim, 2))
        member_kill(member);
}

static void do_old_copy(struct world *world)
{
    struct world_member *member = &world->members[some_member(world)];

    if (may_rot(world, member->number))
        faults_put_back(world, member);
}

/* ---- clocks and destinations ---- */

static void do_clock_step(struct world *world)
{
    int64_t most = sim_chance(world->sim, 3) ? HOUR_MS : 5000;

    world->counts.clock_steps++;
    sim_clock_step(world->sim, some_victim(world),
                   (int64_t)sim_random(world->sim, (uint64_t)(2 * most + 1)) - most);
}

static void target_up(struct world *world, unsigned a)
{
    storage_set(world, a, WORLD_STORAGE_UP);
}

static void do_flap(struct world *world)
{
    unsigned a = (unsigned)sim_random(world->sim, world->options.targets);

    world->counts.flaps++;
    storage_set(world, a, (enum world_storage_state)(1 + sim_random(world->sim, 3)));
    undo_later(world, 300, 12000, a, target_up);
}

static void do_wipe(struct world *world)
{
    struct world_member *member = &world->members[some_member(world)];

    if (!may_wipe(world, member->number))
        return;
    world->counts.rots++;
    wipe(world, member);
}

/* ---- a fault in the first moments of a leader ---- */

static void kill_one(struct world *world, unsigned a)
{
    member_kill(&world->members[a]);
}

static void isolate(struct world *world, unsigned a)
{
    for (unsigned i = 0; i < WORLD_NODES; i++)
        link_cut(world, a, i, true);
    undo_later(world, 300, 9000, 0, links_up);
}

/* Raft's hardest moments: the first entry of a term is on its way, older ones are not committed yet
 * (S2, S19). */
void faults_elected(struct world_member *member)
{
    struct world *world = member->world;
    unsigned a = member->number;

    overtake_elected(member);
    if (world->overtake.stage != OVERTAKE_NONE || world->phase != WORLD_CHAOS ||
        sim_random(world->sim, 100) >= world->options.elected)
        return;
    world->counts.elected++;
    switch (sim_random(world->sim, 4)) {
    case 0:
        undo_later(world, 0, 30, a, kill_one);
        break;
    case 1:
        undo_later(world, 0, 30, a, isolate);
        break;
    case 2:
        sim_disk_set_slowness(world->sim, a, 20 + (unsigned)sim_random(world->sim, 300));
        undo_later(world, 500, 8000, a, disk_fast);
        undo_later(world, 0, 100, a, isolate);
        break;
    default:
        sim_disk_set_slowness(world->sim, a, 20 + (unsigned)sim_random(world->sim, 300));
        undo_later(world, 500, 8000, a, disk_fast);
        undo_later(world, 0, 100, a, kill_one);
    }
}

/* ---- all ---- */

static const struct chaos_fault {
    size_t rate; /* in struct world_options */
    void (*befall)(struct world *world);
} faults[] = {
    {offsetof(struct world_options, crashes), do_crash},
    {offsetof(struct world_options, disk_deaths), do_disk_death},
    {offsetof(struct world_options, disk_errors), do_disk_error},
    {offsetof(struct world_options, partitions), do_partition},
    {offsetof(struct world_options, one_way), do_one_way},
    {offsetof(struct world_options, resets), do_reset},
    {offsetof(struct world_options, pauses), do_pause},
    {offsetof(struct world_options, clock_steps), do_clock_step},
    {offsetof(struct world_options, slow_disks), do_slow},
    {offsetof(struct world_options, full_disks), do_full},
    {offsetof(struct world_options, rots), do_rot},
    {offsetof(struct world_options, old_copies), do_old_copy},
    {offsetof(struct world_options, storage_flaps), do_flap},
    {offsetof(struct world_options, agent_crashes), do_agent_crash},
    {offsetof(struct world_options, transfers), do_transfer},
    {offsetof(struct world_options, wipes), do_wipe},
    {offsetof(struct world_options, overtakes), overtake_begin},
    {offsetof(struct world_options, epochs), do_epoch},
    {offsetof(struct world_options, fills), do_fill},
    {offsetof(struct world_options, lost_syncs), do_sync_loss},
    {offsetof(struct world_options, read_errors), do_read_error},
    {offsetof(struct world_options, lost_files), do_lost_file},
    {offsetof(struct world_options, flips), do_flip},
    {offsetof(struct world_options, agent_disks), do_agent_disk},
};

static unsigned rate_of(const struct world *world, const struct chaos_fault *fault)
{
    return *(const unsigned *)(const void *)((const char *)&world->options + fault->rate);
}

static void next_fault(void *data)
{
    struct world *world = data;
    uint64_t total = 0, drawn;

    for (size_t i = 0; i < ARRAY_COUNT(faults); i++)
        total += rate_of(world, &faults[i]);
    if (world->phase != WORLD_CHAOS || total == 0)
        return;
    drawn = sim_random(world->sim, total);
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
        unsigned rate = rate_of(world, &faults[i]);
        if (drawn < rate) {
            faults[i].befall(world);
            break;
        }
        drawn -= rate;
    }
    sim_after(world->sim, SIM_NODES_MAX, sim_random(world->sim, 2 * MINUTE_US / total), next_fault,
              world);
}

void faults_start(struct world *world)
{
    if (world->options.unruly) {
        const struct sim_unruly unruly = {WORLD_MEMBERS_MAX, 5 + sim_random(world->sim, 300),
                                          5 + sim_random(world->sim, 300),
                                          5 + sim_random(world->sim, 300)};
        sim_network_set_unruly(world->sim, &unruly);
    }
    sim_network_set_latency(world->sim, world->options.slow_in, 1000 * world->options.slow_ms);
    for (unsigned i = 0; i < world->member_count && world->options.old_copies > 0; i++)
        undo_later(world, 1000, 1000 * world->options.seconds, i, copy_kept);
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, next_fault, world);
}

/* As many as may be missing, those included that may refuse their data. */
static void send_away(struct world *world)
{
    unsigned left = (world->member_count - 1) / 2;

    for (unsigned i = 0; i < world->member_count && left > 0; i++)
        left -= world->members[i].rotten;
    while (left-- > 0) {
        struct world_member *member = &world->members[some_member(world)];
        if (member->rotten)
            continue;
        member->away = true;
        member_kill(member);
    }
}

void faults_return(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].away) {
            world->members[i].away = false;
            if (!world->members[i].up)
                member_start(&world->members[i]);
        }
}

static void disk_heal(struct world *world, unsigned a)
{
    disk_room(world, a);
    sim_disk_fail_after(world->sim, a, 0);
    sim_disk_fail_read_after(world->sim, a, 0);
    sim_disk_fail_sync_after(world->sim, a, 0);
}

void faults_heal(struct world *world)
{
    sim_network_set_unruly(world->sim, &(struct sim_unruly){0});
    sim_network_set_latency(world->sim, 200, 100000);
    links_up(world, 0);
    for (unsigned i = 0; i < world->member_count; i++) {
        disk_fast(world, i);
        disk_heal(world, i);
        if (!sim_disk_dead(world->sim, i))
            sim_disk_die_after(world->sim, i, 0);
    }
    for (unsigned i = 0; i < world->options.shipping_agents; i++) {
        disk_heal(world, WORLD_AGENT_NODE + i);
        agent_disk_fast(world, WORLD_AGENT_NODE + i);
    }
    for (unsigned i = 0; i < world->options.targets; i++)
        target_up(world, i);
    agents_calm(world);
    flips_heal(world);
    /* a lost chunk of a snapshot that the rest needs would be missed too late */
    if (world->options.absent && world->options.membership == 0 && !world->options.unruly)
        send_away(world);
}
