/* Elections of members whose disks are slow: when one is repeated, and how long a leader waits for
 * its first entry. And of one whom nobody can dial. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "src/net/network.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

/* Each member's disk takes this long for the vote file, and the loop with it. */
enum { VOTE_WRITE_US = 20000 };
static struct cluster *slow_votes;
static struct clock_ops plain_clock;
static struct disk_ops plain_disk;
static struct disk_file *vote_files[SIM_NODES_MAX];
static uint64_t held_up_us[SIM_NODES_MAX];

static uint64_t clock_of_slow_votes(void *context)
{
    uint64_t now = plain_clock.monotonic_us(context);

    for (unsigned i = 0; i < slow_votes->count; i++)
        if (slow_votes->nodes[i].clock.context == context)
            now += held_up_us[i];
    return now;
}

static int open_of_slow_votes(void *context, const char *path, enum disk_open_mode how,
                              struct disk_file **ret_file, struct err *err)
{
    int status = plain_disk.open(context, path, how, ret_file, err);
    const char *name = strrchr(path, '/');

    for (unsigned i = 0; i < slow_votes->count && status == 0; i++)
        if (slow_votes->nodes[i].disk.context == context && strcmp(name, "/vote") == 0)
            vote_files[i] = *ret_file;
    return status;
}

static int sync_of_slow_votes(struct disk_file *file, struct err *err)
{
    for (unsigned i = 0; i < slow_votes->count; i++)
        if (vote_files[i] == file)
            held_up_us[i] += VOTE_WRITE_US;
    return plain_disk.sync(file, err);
}

/* S11: the answers to an election take some writes of votes; one that is repeated before they can
 * have come takes the votes back. */
static void a_repeated_election_waits_for_what_its_votes_take_to_be_written(void **state)
{
    struct cluster *cluster = slow_votes = cluster_new(61, 3);
    unsigned seen = 0;

    (void)state;
    cluster->config.election_timeout_ms = 1000;
    for (unsigned i = 0; i < 3; i++) {
        struct cluster_node *node = &cluster->nodes[i];
        plain_clock = node->clock;
        plain_disk = node->disk;
        node->clock.monotonic_us = clock_of_slow_votes;
        node->disk.open = open_of_slow_votes;
        node->disk.sync = sync_of_slow_votes;
        vote_files[i] = NULL;
        held_up_us[i] = 0;
        cluster_start(cluster, i, true);
    }
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, 2 * SECOND_US);
    cluster_kill(cluster, (unsigned)cluster_leader(cluster));
    for (unsigned i = 0; i < 5000; i++) {
        assert_true(cluster_step(cluster));
        for (unsigned node = 0; node < 3; node++) {
            const struct consensus *consensus = cluster->nodes[node].consensus;
            if (consensus == NULL || consensus->raft.state != RAFT_CANDIDATE ||
                consensus->raft.candidate_state.in_pre_vote ||
                consensus->raft.candidate_state.randomized_election_timeout >=
                    consensus->raft.election_timeout)
                continue;
            assert_true(consensus->raft.candidate_state.randomized_election_timeout >=
                        CORE_VOTE_WRITES * VOTE_WRITE_US / 1000);
            seen++;
        }
    }
    assert_true(seen > 0);
    cluster_free(cluster);
}

static struct cluster *up_and_slow(uint64_t seed, unsigned slowness)
{
    struct cluster *cluster = cluster_new(seed, 3);

    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    for (unsigned i = 0; i < 3; i++)
        sim_disk_set_slowness(cluster->sim, i, slowness);
    return cluster;
}

static uint64_t acknowledged_within(struct cluster *cluster, unsigned seconds)
{
    uint64_t before = cluster->acknowledged;

    for (unsigned i = 0; i < seconds; i++) {
        (void)cluster_propose(cluster);
        cluster_run(cluster, SECOND_US);
    }
    return cluster->acknowledged - before;
}

/* S2: who answers is there, also before what it says counts. A write takes four times the election
 * timeout here. */
static void a_leader_whose_first_write_outlasts_an_election_stays(void **state)
{
    struct cluster *cluster = up_and_slow(12, 5000);

    (void)state;
    assert_true(acknowledged_within(cluster, 30) > 10);
    cluster_kill(cluster, (unsigned)cluster_leader(cluster));
    assert_true(acknowledged_within(cluster, 60) > 20);
    cluster_free(cluster);
}

/* But one whose disk hangs is replaced, as those of others may not. */
static void a_leader_whose_first_write_hangs_gives_way(void **state)
{
    struct cluster *cluster = up_and_slow(13, 1000000);
    unsigned killed = (unsigned)cluster_leader(cluster);

    (void)state;
    cluster_kill(cluster, killed);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    for (unsigned i = 0; i < 3; i++)
        if ((int)i != cluster_leader(cluster))
            sim_disk_set_slowness(cluster->sim, i, 1);
    cluster_start(cluster, killed, false);
    assert_true(acknowledged_within(cluster, 15) > 10);
    cluster_free(cluster);
}

/* The network of all members but one: nobody gets to its address any more, as behind a firewall. */
static const char *closed_address;
static struct network_stream *(*connect_real)(void *context, const char *address,
                                              const struct network_events *events);

static struct network_stream *connect_walled(void *context, const char *address,
                                             const struct network_events *events)
{
    bool closed = closed_address != NULL && strcmp(address, closed_address) == 0;

    return connect_real(context, closed ? "nowhere" : address, events);
}

/* S11: it hears neither a leader nor who votes for it, but they all hear it. It disturbs a leader
 * once. */
static void a_member_whom_nobody_can_dial_deposes_one_leader_at_most(void **state)
{
    struct cluster *cluster = cluster_new(11, 3);
    uint64_t term, acknowledged;
    unsigned leader, deaf;

    (void)state;
    closed_address = NULL;
    for (unsigned i = 0; i < 3; i++) {
        connect_real = cluster->nodes[i].network.connect;
        cluster->nodes[i].network.connect = connect_walled;
        cluster_start(cluster, i, true);
    }
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    leader = (unsigned)cluster_leader(cluster);
    deaf = (leader + 1) % 3;
    closed_address = cluster->members[deaf].address;
    for (unsigned i = 0; i < 3; i++)
        if (i != deaf)
            sim_reset_connections(cluster->sim, i, deaf);
    cluster_run(cluster, 5 * SECOND_US);
    leader = (unsigned)cluster_leader(cluster);
    assert_int_not_equal(leader, deaf);
    term = cluster->nodes[leader].consensus->raft.current_term;
    acknowledged = cluster->acknowledged;
    for (unsigned i = 0; i < 300; i++) {
        assert_true(cluster_propose(cluster));
        cluster_run(cluster, SECOND_US / 10);
    }
    assert_true(cluster->acknowledged >= acknowledged + 299);
    assert_int_equal(cluster_leader(cluster), leader);
    assert_uint_equal(cluster->nodes[leader].consensus->raft.current_term, term);
    closed_address = NULL;
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    cluster_free(cluster);
}

/* ---- what the end of a leader's connection proves ---- */

enum { ELECTED_MAX_US = 80000 };

static uint64_t term_of(const struct cluster *cluster, unsigned node)
{
    return cluster->nodes[node].consensus->raft.current_term;
}

/* The same leader in the same term, and what is proposed meanwhile is acknowledged. */
static void nobody_campaigns(struct cluster *cluster, unsigned leader, uint64_t term)
{
    uint64_t acknowledged = cluster->acknowledged;

    for (unsigned i = 0; i < 20; i++) {
        assert_true(cluster_propose(cluster));
        cluster_run(cluster, SECOND_US / 10);
        for (unsigned node = 0; node < cluster->count; node++)
            assert_uint_equal(term_of(cluster, node), term);
    }
    assert_int_equal(cluster_leader(cluster), leader);
    assert_true(cluster->acknowledged >= acknowledged + 19);
}

/* S11: as `ss -K` ends them, or a leader that reads its certificates again: it dials again. */
static void ended_connections_of_a_leader_that_lives_cost_no_term(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster);
        uint64_t term = term_of(cluster, leader);

        for (unsigned i = 0; i < 3; i++)
            if (i != leader)
                sim_reset_connections(cluster->sim, i, leader);
        nobody_campaigns(cluster, leader, term);
        cluster_free(cluster);
    }
}

/* S11: a follower that reads its certificates again closes the connection itself. */
static void a_connection_that_a_member_closes_itself_costs_no_term(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster);
        uint64_t term = term_of(cluster, leader);

        for (unsigned i = 0; i < 3; i++) {
            unsigned before = sim_enter(cluster->sim, i);

            if (i != leader)
                transport_hang_up(&cluster->nodes[i].consensus->transport, leader + 1);
            sim_leave(cluster->sim, before);
        }
        nobody_campaigns(cluster, leader, term);
        cluster_free(cluster);
    }
}

/* S11: whatever cuts connections cuts the one on which a follower asks about its leader as well. */
static void a_question_that_is_cut_costs_no_term(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster);
        uint64_t term = term_of(cluster, leader);

        for (unsigned cut = 0; cut < 3; cut++) {
            for (unsigned i = 0; i < 3; i++)
                if (i != leader)
                    sim_reset_connections(cluster->sim, i, leader);
            cluster_run(cluster, 200 + seed * 150);
        }
        nobody_campaigns(cluster, leader, term);
        cluster_free(cluster);
    }
}

/* Each dial of the closed address ends as one whose certificate is refused; the dial's own events
 * are kept until then. */
static void closed_for_its_certificate(void *data, const struct err *err)
{
    static const struct err refused = {ERR_AUTH, "TLS: the peer refused: unknown CA"};
    struct network_events *events = data, kept = *events;

    (void)err;
    free(events);
    kept.closed(kept.data, &refused);
}

static struct network_stream *connect_refused(void *context, const char *address,
                                              const struct network_events *events)
{
    struct network_events *kept;

    if (closed_address == NULL || strcmp(address, closed_address) != 0)
        return connect_real(context, address, events);
    kept = malloc(sizeof(*kept));
    assert_non_null(kept);
    *kept = *events;
    return connect_real(
        context, "nowhere",
        &(struct network_events){.data = kept, .closed = closed_for_its_certificate});
}

/* S11: neither a certificate that is refused nor silence is a death; the timers judge then. */
static void only_an_address_that_refuses_proves_a_death(void **state)
{
    (void)state;
    for (unsigned silent = 0; silent < 2; silent++) {
        struct cluster *cluster = cluster_new(21, 3);
        unsigned leader;
        uint64_t term;

        closed_address = NULL;
        for (unsigned i = 0; i < 3; i++) {
            connect_real = cluster->nodes[i].network.connect;
            cluster->nodes[i].network.connect = connect_refused;
            cluster_start(cluster, i, true);
        }
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        cluster_run(cluster, SECOND_US);
        leader = (unsigned)cluster_leader(cluster);
        term = term_of(cluster, leader);
        if (silent == 1)
            cluster_isolate(cluster, leader, false);
        else
            closed_address = cluster->members[leader].address;
        for (unsigned i = 0; i < 3; i++)
            if (i != leader)
                sim_reset_connections(cluster->sim, i, leader);
        cluster_run(cluster, UINT64_C(500) * cluster->config.election_timeout_ms);
        for (unsigned i = 0; i < 3; i++)
            assert_uint_equal(term_of(cluster, i), term);
        cluster_run(cluster, 5 * SECOND_US);
        assert_true(silent == 0 || cluster_leader(cluster) != (int)leader);
        closed_address = NULL;
        cluster_isolate(cluster, leader, true);
        assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
        cluster_free(cluster);
    }
}

/* S11: the process of the leader is gone: its connections end, and its address refuses. Also when
 * the connections had ended before. */
static void a_leader_that_was_killed_is_replaced_within_milliseconds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster);
        uint64_t waited_us = 0;

        if (seed % 2 == 0)
            sim_reset_connections(cluster->sim, (leader + 1) % 3, leader);
        cluster_run(cluster, seed % 3 * 2000);
        cluster_kill(cluster, leader);
        while (cluster_leader(cluster) < 0 || cluster_leader(cluster) == (int)leader) {
            cluster_run(cluster, 1000);
            waited_us += 1000;
            assert_true(waited_us <= ELECTED_MAX_US);
        }
        cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_election_waits_for_what_its_votes_take_to_be_written),
        cmocka_unit_test(a_leader_whose_first_write_outlasts_an_election_stays),
        cmocka_unit_test(a_leader_whose_first_write_hangs_gives_way),
        cmocka_unit_test(a_member_whom_nobody_can_dial_deposes_one_leader_at_most),
        cmocka_unit_test(ended_connections_of_a_leader_that_lives_cost_no_term),
        cmocka_unit_test(a_connection_that_a_member_closes_itself_costs_no_term),
        cmocka_unit_test(a_question_that_is_cut_costs_no_term),
        cmocka_unit_test(only_an_address_that_refuses_proves_a_death),
        cmocka_unit_test(a_leader_that_was_killed_is_replaced_within_milliseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
