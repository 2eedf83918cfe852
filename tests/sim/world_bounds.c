/* What is promised about time, tried on a cluster that has healed: L1 (death and standstill of a
 * leader, one that never serves), L5, L6.
 *
 * Flow     world.c calls each after everything has converged, and converges again behind it.
 *          bounds_lag() looks on meanwhile.
 * Absent   figures of real machines: make bench.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/replica/leader_watch.h"
#include "tests/sim/world_internal.h"

enum {
    /* a leader's process dies, nothing else: S9-S11, the ranks of four are 45 ms apart */
    ELECTED_MAX_US = 80000,
    FAILOVER_MAX_US = 700000, /* and the first entry is stored, by disks that take 0.2 s at times */
    STANDSTILL_MS = 6000,     /* longer than any election timeout */
    STANDSTILL_SLACK_MS = 60, /* a tick of 25 ms, two rounds of votes, their syncs */
    SPLIT_MAX_MS = 900,       /* instead, when two split the votes: L1 wants a leader within 2 s */
    BACK_MAX_US = 10 * SECOND_US, /* a member's process is started again and has caught up */
    TRANSFER_MAX_US = 3 * SECOND_US,
    /* What its leader_watch.c takes to notice, to ask twice and to give up; then an election. */
    UNREADY_MAX_US = 1000 * (LEADER_WATCH_READY_MS + LEADER_WATCH_RETRY_MS +
                             LEADER_WATCH_ANSWER_MS + 4 * LEADER_WATCH_MS) +
                     2 * SECOND_US + FAILOVER_MAX_US,
    SLOWNESS = 20000, /* a sync takes seconds */
    STRAGGLER_MAX_US = 500000,
    PROPOSALS_MAX = 200,
    STORED_MAX_US = 3 * SECOND_US,
    CADENCE_SLACK_MS = 1000,
    AGE_STEP_US = 100000,
    AGE_MAX_MS = 60000,
    /* 5 s of a partition, 1 s of a slow message, 8 s of a process that was stopped */
    MESSAGE_MAX_MS = 15000,
    /* that long a leader without a majority, which does not know it, may be heard */
    DEPOSED_MAX_MS = 3000,
    LAG_MAX_US = 8 * SECOND_US,
    READ_MAX_US = 3 * SECOND_US
};

/* Voters beside the leader that it is connected to. */
static size_t voters_up(const struct world_member *leader, size_t *ret_voters)
{
    struct consensus_status status;
    size_t up = 0;

    replica_get_status(leader->broker.replica, &status);
    for (size_t p = 0; p < status.peer_count; p++)
        up += status.peers[p].voter && status.peers[p].connected;
    *ret_voters = status.voter_count;
    return up;
}

/* A majority of them without the leader. */
static bool healthy(const struct world_member *leader)
{
    size_t voters, up = voters_up(leader, &voters);

    return up > voters / 2;
}

static bool has_majority(const struct world_member *leader)
{
    size_t voters, up = voters_up(leader, &voters);

    return up + 1 > voters / 2;
}

struct world_member *bounds_calm_leader(struct world *world)
{
    struct world_member *leader = members_leader(world);
    struct replica_clock clock;

    if (leader == NULL || !healthy(leader))
        return NULL;
    replica_clock_get(leader->broker.replica, &clock);
    sim_network_set_latency(world->sim, 0, 0);
    world_run_until(world, sim_now_us(world->sim) + SECOND_US);
    leader = members_leader(world);
    if (world->options.preferred != 0 &&
        (leader == NULL || leader->number + 1 != world->options.preferred))
        return NULL; /* it is about to hand over, or does just that */
    if (leader == NULL && clock.off)
        return NULL; /* likewise: another member is to lead */
    if (leader == NULL)
        world_violation(world, "L1", "the leader of a healthy cluster is gone");
    return healthy(leader) ? leader : NULL;
}

/* ---- L1 ---- */

/* A vote request that takes longer than the members' ranks are apart (15 ms) may meet another
 * candidate, and then a timeout decides: no message is that slow here. */
void bounds_failover(struct world *world)
{
    struct world_member *leader = bounds_calm_leader(world);
    uint64_t begin = sim_now_us(world->sim);

    if (leader == NULL)
        return;
    member_kill(leader);
    while (members_leader_but(world, leader) == NULL) {
        if (sim_now_us(world->sim) - begin > ELECTED_MAX_US)
            world_violation(world, "L1", "nobody is elected %d ms after the leader's process died",
                            ELECTED_MAX_US / 1000);
        world_step(world);
    }
    world->counts.elected_us = sim_now_us(world->sim) - begin;
    while (members_leader(world) == NULL) {
        if (sim_now_us(world->sim) - begin > FAILOVER_MAX_US)
            world_violation(world, "L1",
                            "no new leader %d ms after the process of the old one died",
                            FAILOVER_MAX_US / 1000);
        world_step(world);
    }
    world->counts.failover_us = sim_now_us(world->sim) - begin;
}

struct follower {
    const struct world_member *member;
    uint64_t left_ms;  /* until its election timer ends */
    uint64_t heard_ms; /* since it heard of the leader */
    uint64_t last_index;
    bool reluctant; /* its clock is off, and it leaves elections to another one, then or since */
};

static size_t followers_of(struct world *world, const struct world_member *leader,
                           struct follower *ret_followers)
{
    size_t count = 0;

    for (unsigned i = 0; i < world->member_count; i++) {
        const struct world_member *member = &world->members[i];
        const struct consensus *consensus;
        struct follower *follower = &ret_followers[count];
        uint64_t now_ms;
        const struct raft_server *self;

        if (!member->up || member == leader)
            continue;
        consensus = member_consensus(member);
        self = membership_find(&consensus->raft.configuration, member->number + 1);
        if (self == NULL || self->role != RAFT_VOTER || consensus->raft.state != RAFT_FOLLOWER)
            continue;
        now_ms = core_now_ms(consensus);
        follower->member = member;
        follower->left_ms = consensus->raft.election_timer_start +
                            consensus->raft.follower_state.randomized_election_timeout - now_ms;
        follower->heard_ms = now_ms - consensus->safety.leader_heard_ms;
        follower->last_index = consensus->raft.last_stored;
        follower->reluctant = core_lets_others_win(consensus);
        if (follower->left_ms > STANDSTILL_MS)
            return 0; /* it ends now */
        count++;
    }
    return count;
}

/* When the first of them must have been elected: its timer ends, and a majority has not heard of
 * the leader for a timeout or has ended its own. 0: it cannot be told, since logs differ. */
static uint64_t first_elected_ms(const struct follower *followers, size_t count, size_t voters,
                                 uint64_t timeout_ms)
{
    uint64_t first_ms = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t ends_ms = followers[i].left_ms;
        size_t votes = 1;
        if (followers[i].last_index != followers[0].last_index)
            return 0;
        if (followers[i].reluctant)
            continue;
        for (size_t j = 0; j < count; j++) {
            votes += j != i && (followers[j].left_ms < ends_ms ||
                                followers[j].heard_ms + ends_ms >= timeout_ms + timeout_ms / 50);
        }
        if (votes > voters / 2 && (first_ms == 0 || ends_ms < first_ms))
            first_ms = ends_ms;
    }
    return first_ms;
}

/* A member finds its clock off by three looks a second apart, and the third one may come while the
 * leader stands still. From then on that member does not stand, and the next rank's timer decides.
 * S21 sets the ranks 50 ms apart, so each such member moves the bound by that much. */
static void followers_look(struct follower *followers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        followers[i].reluctant |=
            followers[i].member->up && core_lets_others_win(member_consensus(followers[i].member));
}

/* Two stand in one term: timers that ended together, or too early to win, whose elections are
 * repeated as others' begin. */
static bool votes_split(const struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        for (unsigned j = 0; j < i; j++) {
            const struct world_member *a = &world->members[i], *b = &world->members[j];
            if (a->up && b->up && member_consensus(a)->raft.state == RAFT_CANDIDATE &&
                member_consensus(b)->raft.state == RAFT_CANDIDATE &&
                member_consensus(a)->raft.current_term == member_consensus(b)->raft.current_term)
                return true;
        }
    return false;
}

/* A process that stands still says nothing and closes nothing: the first timer that ends decides,
 * not the last (S9). */
void bounds_standstill(struct world *world)
{
    struct follower followers[WORLD_MEMBERS_MAX];
    struct world_member *leader = bounds_calm_leader(world);
    const struct consensus *consensus;
    struct consensus_status status;
    uint64_t begin, first_ms, timeout_ms;
    unsigned slack_ms = STANDSTILL_SLACK_MS;
    size_t count;

    if (leader == NULL)
        return;
    consensus = member_consensus(leader);
    timeout_ms = consensus->raft.election_timeout;
    replica_get_status(leader->broker.replica, &status);
    sim_pause(world->sim, leader->number, UINT64_C(1000) * STANDSTILL_MS);
    begin = sim_now_us(world->sim) + 20000; /* what was under way has arrived */
    world_run_until(world, begin);
    count = followers_of(world, leader, followers);
    first_ms = first_elected_ms(followers, count, status.voter_count, timeout_ms);
    if (first_ms == 0)
        return;
    if (first_ms > timeout_ms + status.voter_count * timeout_ms / CORE_RANKS_PER_ELECTION)
        world_violation(world, "L1",
                        "the leader stands still, and the first timer that may win ends after "
                        "%" PRIu64 " ms (S21)",
                        first_ms);
    world->counts.standstills++;
    for (;;) {
        const struct world_member *next = members_leader_but(world, leader);
        if (next != NULL)
            break;
        followers_look(followers, count);
        first_ms = first_elected_ms(followers, count, status.voter_count, timeout_ms);
        if (first_ms == 0)
            break; /* each of them leaves it to the others, for five timeouts */
        if (votes_split(world))
            slack_ms = SPLIT_MAX_MS;
        if (sim_now_us(world->sim) - begin > 1000 * (first_ms + slack_ms))
            world_violation(world, "L1",
                            "the leader stands still, a timer ended after %" PRIu64
                            " ms, %u ms later nobody is elected",
                            first_ms, slack_ms);
        world_step(world);
    }
}

/* Another voter, whose process has begun a new life and has all there is; NULL: there is none. */
static struct world_member *begun_again(struct world *world, const struct world_member *leader)
{
    const struct raft_configuration *configuration = &member_consensus(leader)->raft.configuration;
    unsigned first = (unsigned)sim_random(world->sim, configuration->n);
    uint64_t until_us = sim_now_us(world->sim) + BACK_MAX_US;
    struct world_member *member = NULL;

    for (unsigned i = 0; i < configuration->n && member == NULL; i++) {
        const struct raft_server *server = &configuration->servers[(first + i) % configuration->n];
        if (server->role == RAFT_VOTER && server->id != leader->number + 1 &&
            world->members[server->id - 1].up)
            member = &world->members[server->id - 1];
    }
    if (member == NULL)
        return NULL;
    member_kill(member);
    while (sim_now_us(world->sim) < until_us && members_leader(world) == leader) {
        if (member->up && member_consensus(member)->raft.last_applied >=
                              member_consensus(leader)->raft.commit_index)
            return member;
        world_step(world);
    }
    return NULL;
}

/* It comes to lead by a hand-over. */
static bool made_leader(struct world *world, struct world_member *leader,
                        const struct world_member *next)
{
    const struct consensus *consensus = member_consensus(next);
    uint64_t until_us = sim_now_us(world->sim) + TRANSFER_MAX_US;
    bool asked = false;

    while (next->up && consensus->raft.state != RAFT_LEADER) {
        struct err err;
        unsigned before;

        if (sim_now_us(world->sim) > until_us || !leader->up)
            return false;
        before = sim_enter(world->sim, leader->number);
        asked |=
            !asked && consensus_transfer(member_consensus(leader), next->number + 1, &err) == 0;
        sim_leave(world->sim, before);
        world_step(world);
    }
    return next->up;
}

static bool asks_to_take_over(const uint8_t *bytes, size_t length)
{
    struct frame frame;
    struct err err;

    return frame_parse(bytes, length, &frame, &err) == 1 && frame.type == FRAME_CAMPAIGN;
}

/* A leader whose application does not get ready is answered by everybody, and serves nobody. It
 * asks others to take over, and none of them hears of it: it has to give up by itself. */
void bounds_unready(struct world *world)
{
    struct world_member *leader = bounds_calm_leader(world), *unready;
    const struct world_member *next;
    uint64_t begin, term;

    unready = leader == NULL ? NULL : begun_again(world, leader);
    if (unready == NULL)
        return;
    member_withhold(unready);
    if (made_leader(world, leader, unready)) {
        sim_network_lose(world->sim, unready->number, asks_to_take_over);
        begin = sim_now_us(world->sim);
        term = member_consensus(unready)->raft.current_term;
        while ((next = members_leader(world)) == NULL ||
               member_consensus(next)->raft.current_term <= term) {
            if (sim_now_us(world->sim) - begin > UNREADY_MAX_US)
                world_violation(world, "L1",
                                "member %u was elected and does not come to serve, and nobody else "
                                "does within %d ms",
                                unready->number + 1, UNREADY_MAX_US / 1000);
            bounds_lag(world); /* nobody leads for so long: they begin anew */
            bounds_cadence(world);
            world_step(world);
        }
        world->counts.unready++;
        world->counts.unready_us = sim_now_us(world->sim) - begin;
        sim_network_lose(world->sim, unready->number, NULL);
    }
    member_release(unready);
}

/* Who serves and is connected to a majority is confirmed by it: no read waits for who is not
 * there. */
void bounds_reads(struct world *world)
{
    const struct world_member *leader = members_leader(world);
    const struct consensus *consensus = leader == NULL ? NULL : member_consensus(leader);
    uint64_t now_us = sim_now_us(world->sim);

    if (leader == NULL || list_empty(&consensus->reads_round) || !has_majority(leader) ||
        sim_paused(world->sim, leader->number) || world->reading.leader != leader->number + 1 ||
        world->reading.starts != leader->starts || world->reading.round != consensus->read_round) {
        world->reading.leader = leader == NULL ? 0 : leader->number + 1;
        world->reading.starts = leader == NULL ? 0 : leader->starts;
        world->reading.round = leader == NULL ? 0 : consensus->read_round;
        world->reading.since_us = now_us;
    } else if (now_us - world->reading.since_us > READ_MAX_US) {
        world_violation(world, "L1", "reads of member %u, which serves, wait for %d s",
                        leader->number + 1, READ_MAX_US / SECOND_US);
    }
}

/* ---- L6 ---- */

/* Entries enough for a snapshot are committed by the others; when its disk has become fast again
 * the leader has all it ever took. A snapshot of entries that it had not stored would end libraft's
 * count of what is stored. */
static void straggler_stores(struct world *world, struct world_member *leader)
{
    const struct raft *raft = &member_consensus(leader)->raft;
    /* a snapshot keeps as many entries behind it in memory */
    uint64_t starts = leader->starts, begin, term = raft->current_term,
             index = raft->commit_index + 3 * world->options.snapshot_entries;

    for (unsigned i = 0; i < PROPOSALS_MAX && raft->commit_index < index; i++) {
        bursts_propose(leader);
        world_run_until(world, sim_now_us(world->sim) + 3000);
        if (!leader->up || leader->starts != starts)
            return;
    }
    sim_disk_set_slowness(world->sim, leader->number, 1);
    begin = sim_now_us(world->sim);
    while (leader->up && leader->starts == starts && raft->current_term == term &&
           raft->last_stored < raft->commit_index) {
        if (sim_now_us(world->sim) - begin > STORED_MAX_US)
            world_violation(world, "L6",
                            "the leader's disk is fast again, and after %d s entry %llu of %llu "
                            "is the last one that counts as stored",
                            STORED_MAX_US / SECOND_US, raft->last_stored, raft->commit_index);
        world_step(world);
    }
    sim_disk_set_slowness(world->sim, leader->number, 1);
}

/* The leader's disk is slow: the majority of the others commits without it (S3). */
void bounds_straggler(struct world *world)
{
    struct world_member *leader = bounds_calm_leader(world);
    uint64_t begin, index;
    const struct raft *raft;

    if (leader == NULL)
        return;
    raft = &member_consensus(leader)->raft;
    sim_disk_set_slowness(world->sim, leader->number, SLOWNESS);
    begin = sim_now_us(world->sim);
    index = raft_last_index((struct raft *)(uintptr_t)raft) + 1;
    bursts_propose(leader);
    while (raft->commit_index < index) {
        if (sim_now_us(world->sim) - begin > STRAGGLER_MAX_US)
            world_violation(world, "L6",
                            "the leader's disk is slow, and after %d ms entry %" PRIu64
                            " is not committed",
                            STRAGGLER_MAX_US / 1000, index);
        world_step(world);
        if (!leader->up || members_leader(world) != leader)
            break;
    }
    world->counts.stragglers++;
    straggler_stores(world, leader);
}

/* Where messages get lost within a connection (unruly), a snapshot's chunk may be among them, and
 * the stall of its stream is noticed only after 30 s: that counts as not connected. */
static bool well_connected(const struct world *world, const struct world_member *leader,
                           const struct world_member *member)
{
    if (world->options.unruly &&
        transfer_sending_to(&member_consensus(leader)->transfer, member->number + 1))
        return false;
    return member->up && !sim_paused(world->sim, member->number) &&
           transport_connected(&member_consensus(leader)->transport, member->number + 1) &&
           transport_connected(&member_consensus(member)->transport, leader->number + 1);
}

/* ---- L2 ---- */

/* A running job, as the leader's evaluator saw it last. */
struct world_row {
    uint64_t registered_index; /* 0: none runs here */
    uint64_t evaluated_at_ms;  /* 0: not by this leader */
    uint64_t since_us;         /* when that was new, or the job */
};

static uint64_t cadence_most_us(const struct world *world)
{
    return 1000 * (2 * world->interval_ms + CADENCE_SLACK_MS);
}

/* A new leader decides at once; one that has led before it was looked at does so within its
 * interval. */
static uint64_t first_most_us(const struct world *world)
{
    return 1000 * (world->interval_ms + CADENCE_SLACK_MS);
}

static void row_look(struct world *world, const struct evaluator *evaluator,
                     const struct fsm_allocation *allocation, struct world_row *row)
{
    uint64_t now_us = sim_now_us(world->sim), index = allocation->registered_index,
             waited_us = now_us - row->since_us;
    struct evaluator_row found = {.evaluated_at_ms = 0};

    (void)evaluator_last(evaluator, allocation, &found);
    if (row->registered_index == index && row->evaluated_at_ms == found.evaluated_at_ms) {
        if (waited_us > cadence_most_us(world))
            world_violation(world, "L2", "%s runs and was not evaluated for %" PRIu64 " ms",
                            allocation->id, waited_us / 1000);
        return;
    }
    if (row->registered_index == index) {
        world->counts.evaluations++;
        if (waited_us > world->counts.evaluation_us)
            world->counts.evaluation_us = waited_us;
    }
    *row = (struct world_row){index, found.evaluated_at_ms, now_us};
}

/* Each running job is looked at, not only some of them again and again. */
static void rows_look(struct world *world, const struct world_member *leader)
{
    const struct fsm *fsm = replica_fsm(leader->broker.replica);
    uint32_t slots = fsm_allocation_slots(fsm), known = world->cadence.row_count;

    if (slots > known) {
        world->cadence.rows = check_realloc(world->cadence.rows, slots, sizeof(struct world_row));
        memset(world->cadence.rows + known, 0, (slots - known) * sizeof(struct world_row));
        world->cadence.row_count = slots;
    }
    for (uint32_t slot = 0; slot < world->cadence.row_count; slot++) {
        const struct fsm_allocation *allocation =
            slot < slots ? fsm_allocation_find_slot(fsm, slot) : NULL;
        if (allocation == NULL ||
            allocation->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
            allocation->hung_since_ms != 0)
            world->cadence.rows[slot].registered_index = 0;
        else
            row_look(world, leader->broker.evaluator, allocation, &world->cadence.rows[slot]);
    }
}

void bounds_close(struct world *world)
{
    free(world->cadence.rows);
}

/* Whoever serves commits, or soon serves no more; but where a snapshot's chunk got lost, members
 * that answer and store nothing may be what makes a majority, and until they are filled no cycle's
 * decisions are applied. */
static bool may_commit(const struct world *world, const struct world_member *leader)
{
    const struct raft_configuration *configuration = &member_consensus(leader)->raft.configuration;
    size_t voters = 0, stores = 0;

    if (!world->options.unruly)
        return true;
    for (unsigned i = 0; i < configuration->n; i++) {
        const struct world_member *member = &world->members[configuration->servers[i].id - 1];

        if (configuration->servers[i].role != RAFT_VOTER)
            continue;
        voters++;
        stores += member == leader || well_connected(world, leader, member);
    }
    return stores > voters / 2;
}

/* While somebody serves, cycles of the evaluator end, and each running job is evaluated anew: two
 * of its intervals apart at most, in every run. */
void bounds_cadence(struct world *world)
{
    const struct world_member *leader = members_leader(world);
    uint64_t now_us = sim_now_us(world->sim), cycle_ms;

    if (leader != NULL && (sim_paused(world->sim, leader->number) || !may_commit(world, leader)))
        leader = NULL;
    if (leader == NULL || world->cadence.leader != leader->number + 1 ||
        world->cadence.starts != leader->starts) {
        world->cadence.leader = leader == NULL ? 0 : leader->number + 1;
        world->cadence.starts = leader == NULL ? 0 : leader->starts;
        world->cadence.since_us = now_us;
        world->cadence.first = true;
        for (uint32_t slot = 0; slot < world->cadence.row_count; slot++)
            world->cadence.rows[slot].registered_index = 0;
        return;
    }
    rows_look(world, leader);
    cycle_ms = evaluator_last_cycle_ms(leader->broker.evaluator);
    if (cycle_ms != world->cadence.cycle_ms) {
        world->cadence.since_us = now_us;
        world->cadence.first = false;
    }
    world->cadence.cycle_ms = cycle_ms;
    if (world->cadence.first && now_us - world->cadence.since_us > first_most_us(world))
        world_violation(world, "L1",
                        "member %u serves, and its evaluator has not ended its first cycle for "
                        "%" PRIu64 " ms",
                        leader->number + 1, (now_us - world->cadence.since_us) / 1000);
    if (now_us - world->cadence.since_us > cadence_most_us(world))
        world_violation(world, "L2",
                        "member %u serves, and its evaluator has ended no cycle for %" PRIu64 " ms",
                        leader->number + 1, (now_us - world->cadence.since_us) / 1000);
}

/* ---- L5 ---- */

/* A member that is up and connected has after a while what was committed before. */
void bounds_lag(struct world *world)
{
    const struct world_member *leader = members_leader(world);
    uint64_t now_us = sim_now_us(world->sim);

    for (unsigned i = 0; i < world->member_count; i++) {
        struct world_member *member = &world->members[i];
        if (leader == NULL || member == leader || !member_counts(world, member) ||
            !well_connected(world, leader, member) || member->lag_leader != leader->number + 1 ||
            member->lag_starts != member->starts ||
            member_consensus(member)->raft.last_applied >= member->lag_index) {
            if (leader != NULL && member->lag_leader == leader->number + 1 &&
                member->lag_starts == member->starts && member->up &&
                now_us - member->lag_since_us > world->counts.lag_us)
                world->counts.lag_us = now_us - member->lag_since_us;
            member->lag_leader = leader == NULL ? 0 : leader->number + 1;
            member->lag_starts = member->starts;
            member->lag_since_us = now_us;
            member->lag_index = leader == NULL ? 0 : member_consensus(leader)->raft.commit_index;
        } else if (now_us - member->lag_since_us > LAG_MAX_US) {
            world_violation(world, "L5",
                            "member %u is up and connected and has after %d s applied %llu of "
                            "%" PRIu64,
                            i + 1, LAG_MAX_US / SECOND_US,
                            member_consensus(member)->raft.last_applied, member->lag_index);
        }
    }
}

/* ---- I7, stale reads ---- */

/* The instant counts when the leader was heard; what it says was on its way for as long as the
 * latest of all messages since then. Who was stopped says first what it knew before, and reads
 * first what has waited for it meanwhile; what it says then may be late as well. */
static uint64_t age_slack_ms(const struct world *world, uint64_t since_us)
{
    uint64_t late_us = sim_network_late_us(world->sim, since_us),
             late_ms = late_us / 1000 + DEPOSED_MAX_MS;

    for (unsigned i = 0; i < world->member_count; i++)
        if (sim_paused_until_us(world->sim, i) + late_us >= since_us)
            return MESSAGE_MAX_MS;
    return late_ms < MESSAGE_MAX_MS ? late_ms : MESSAGE_MAX_MS;
}

static void age_told(struct world *world, unsigned member, uint64_t age_ms, uint64_t applied,
                     uint64_t at_us, const uint64_t *known)
{
    uint64_t at = at_us / AGE_STEP_US, since_us, slack_ms, back;

    if (age_ms > AGE_MAX_MS || at_us < 1000 * (age_ms + MESSAGE_MAX_MS) ||
        at_us < sim_paused_until_us(world->sim, member) + SECOND_US + 1000 * age_ms)
        return;
    since_us = at_us - 1000 * (age_ms + DEPOSED_MAX_MS);
    slack_ms = age_slack_ms(world, since_us);
    back = (age_ms + slack_ms) / (AGE_STEP_US / 1000) + 1;
    if (back < at && back + (world->age.step - at) < WORLD_AGE_STEPS &&
        applied < known[(at - back) % WORLD_AGE_STEPS])
        world_violation(world, "I7",
                        "member %u calls its state %" PRIu64 " ms old, has applied %" PRIu64
                        ", and %" PRIu64 " was committed %" PRIu64 " ms before",
                        member + 1, age_ms, applied, known[(at - back) % WORLD_AGE_STEPS],
                        slack_ms);
}

void bounds_age_answered(struct world *world, unsigned member, uint64_t age_ms, uint64_t applied,
                         uint64_t at_us)
{
    age_told(world, member, age_ms, applied, at_us, world->age.applied);
}

/* What a member says of the age of its state is true: it has applied what was committed that long
 * ago. */
void bounds_age(struct world *world)
{
    uint64_t now = sim_now_us(world->sim) / AGE_STEP_US;

    if (now == world->age.step)
        return;
    for (uint64_t step = world->age.step + 1; step <= now; step++) {
        world->age.committed[step % WORLD_AGE_STEPS] = raft_checks_committed(world);
        world->age.applied[step % WORLD_AGE_STEPS] = walltimes_last_index(world);
    }
    world->age.step = now;
    for (unsigned i = 0; i < world->member_count; i++) {
        const struct world_member *member = &world->members[i];
        struct consensus_status status;

        if (!member->up || member->doomed)
            continue;
        replica_get_status(member->broker.replica, &status);
        age_told(world, i, status.state_age_ms, status.applied_index, sim_now_us(world->sim),
                 world->age.committed);
    }
}
