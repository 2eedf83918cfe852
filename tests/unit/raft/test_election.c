/* Elections of members whose disks are slow: when one is repeated. */
#include "tests/support/test.h"

#include "raft/consensus_internal.h"
#include "raft/io_ops.h"
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

/* S11: the answers to an election take some writes of votes; one that is repeated before they can have come takes the votes back. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_election_waits_for_what_its_votes_take_to_be_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
