/* Linearizable reads by asking a majority whether our term still stands. See consensus_internal.h.
 *
 * Flow     consensus_read() -> waiting -> (an entry of our term is committed, no round is out)
 *          round: ping all -> a majority answers with our term -> confirmed -> applied up to the
 *          commit index of the round's start -> done, so many at a time (READS_AT_ONCE) and the
 *          rest in the next turn of the loop.
 * Shapes   one round at a time; what arrives meanwhile shares the next one.
 * Errors   done(-1) when leadership is lost; without a majority the leader steps down within an
 *          election timeout, which is the same.
 * Source   Ongaro 2014, 6.4. No leases: the EOF trigger may elect another leader at any time.
 */
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

enum { READS_AT_ONCE = 1024 };

void core_reads_fail(struct consensus *consensus, struct list *reads)
{
    bool any = !list_empty(reads);

    CHECK(consensus != NULL);
    while (!list_empty(reads)) {
        struct list *node = reads->next;
        list_remove(node);
        list_push_back(&consensus->reads_refused, node);
    }
    if (any)
        consensus->config.clock->timer_start(consensus->read_timer, 0);
}

void consensus_read(struct consensus *consensus,
                    void (*done)(void *data, int status, const struct err *err), void *data)
{
    struct read *read = check_calloc(1, sizeof(*read));
    bool refused = consensus->failed || consensus->closing || !core_is_leader(consensus);

    CHECK(done != NULL);
    read->done = done;
    read->data = data;
    list_push_back(refused ? &consensus->reads_refused : &consensus->reads_waiting, &read->node);
    /* Also lets calls of one turn of the loop share a round, and never calls back from inside this
     * call. */
    consensus->config.clock->timer_start(consensus->read_timer, 0);
}

static void refused_finish(struct consensus *consensus)
{
    struct err err;

    err_set(&err, ERR_UNAVAILABLE, "this member is not the leader: ask the leader");
    for (size_t i = 0; !list_empty(&consensus->reads_refused); i++) {
        struct read *read = LIST_ITEM(consensus->reads_refused.next, struct read, node);
        if (i == READS_AT_ONCE) {
            consensus->config.clock->timer_start(consensus->read_timer, 0);
            return;
        }
        list_remove(&read->node);
        read->done(read->data, -1, &err);
        free(read);
    }
}

void core_reads_fire(void *data)
{
    struct consensus *consensus = data;

    core_enter(consensus);
    refused_finish(consensus);
    core_leave(consensus); /* settling starts the round */
}

static void pings_send(struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    struct frame_message ping = {.type = FRAME_READ_PING};

    ping.read.term = consensus->read_term;
    ping.read.round = consensus->read_round;
    consensus->read_sent_us = core_now_us(consensus);
    for (unsigned i = 0; i < configuration->n; i++)
        if (configuration->servers[i].role == RAFT_VOTER &&
            configuration->servers[i].id != consensus->config.member_id)
            (void)transport_send(&consensus->transport, configuration->servers[i].id, &ping);
}

static bool has_confirmed(const struct consensus *consensus, uint64_t id)
{
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (consensus->read_voters[i] == id)
            return true;
    return false;
}

/* Of the voters of now: the members may change while a round is out. */
static bool majority_has_confirmed(const struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    size_t count = 0;

    for (unsigned i = 0; i < configuration->n; i++)
        count += configuration->servers[i].role == RAFT_VOTER &&
                 has_confirmed(consensus, configuration->servers[i].id);
    return count > core_voter_count(consensus) / 2;
}

static void round_confirm_if_majority(struct consensus *consensus)
{
    if (!majority_has_confirmed(consensus))
        return;
    while (!list_empty(&consensus->reads_round)) {
        struct list *node = consensus->reads_round.next;
        list_remove(node);
        list_push_back(&consensus->reads_confirmed, node);
    }
}

static void voter_mark(struct consensus *consensus, uint64_t id)
{
    if (has_confirmed(consensus, id))
        return;
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (consensus->read_voters[i] == 0) {
            consensus->read_voters[i] = id;
            return;
        }
}

static void round_start(struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    if (list_empty(&consensus->reads_waiting) || !list_empty(&consensus->reads_round) ||
        !core_is_leader(consensus) || !core_term_committed(consensus))
        return;
    while (!list_empty(&consensus->reads_waiting)) {
        struct read *read = LIST_ITEM(consensus->reads_waiting.next, struct read, node);
        read->index = raft->commit_index;
        list_remove(&read->node);
        list_push_back(&consensus->reads_round, &read->node);
    }
    consensus->read_round++;
    consensus->read_term = raft->current_term;
    memset(consensus->read_voters, 0, sizeof(consensus->read_voters));
    voter_mark(consensus, consensus->config.member_id);
    pings_send(consensus);
    round_confirm_if_majority(consensus);
}

static void confirmed_finish(struct consensus *consensus)
{
    for (size_t i = 0; !list_empty(&consensus->reads_confirmed); i++) {
        struct read *read = LIST_ITEM(consensus->reads_confirmed.next, struct read, node);
        if (read->index > consensus->raft.last_applied)
            return;
        if (i == READS_AT_ONCE) {
            consensus->config.clock->timer_start(consensus->read_timer, 0);
            return;
        }
        list_remove(&read->node);
        read->done(read->data, 0, NULL);
        free(read);
    }
}

void core_reads_progress(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    if (consensus->closing)
        return;
    if (!list_empty(&consensus->reads_round) && core_is_leader(consensus) &&
        consensus->raft.current_term == consensus->read_term)
        round_confirm_if_majority(consensus); /* whoever was missing may be no voter any more */
    round_start(consensus);
    confirmed_finish(consensus);
}

void core_reads_tick(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    if (!list_empty(&consensus->reads_round) && core_is_leader(consensus) &&
        core_now_us(consensus) - consensus->read_sent_us >=
            UINT64_C(1000) * consensus->config.heartbeat_ms)
        pings_send(consensus);
}

void core_on_ping(struct consensus *consensus, uint64_t from, const struct frame_read *ping)
{
    struct frame_message pong = {.type = FRAME_READ_PONG};

    CHECK(consensus != NULL);
    CHECK(ping != NULL);
    pong.read.term = consensus->raft.current_term;
    pong.read.round = ping->round;
    (void)transport_send(&consensus->transport, from, &pong); /* the leader asks again */
}

void core_on_pong(struct consensus *consensus, uint64_t from, const struct frame_read *pong)
{
    CHECK(consensus != NULL);
    CHECK(pong != NULL);
    if (list_empty(&consensus->reads_round) || pong->round != consensus->read_round ||
        pong->term != consensus->read_term ||
        consensus->raft.current_term != consensus->read_term || !core_is_leader(consensus))
        return;
    voter_mark(consensus, from);
    round_confirm_if_majority(consensus);
}
