/* Linearizable reads by asking a majority whether our term still stands. See consensus_internal.h.
 *
 * Flow     consensus_read() -> waiting -> (an entry of our term is committed, no round is out) round: ping all -> a majority
 *          answers with our term -> confirmed -> applied up to the commit index of the round's start -> done.
 * Shapes   one round at a time; what arrives meanwhile shares the next one.
 * Errors   done(-1) when leadership is lost; without a majority the leader steps down within an election timeout, which is the same.
 * Source   Ongaro 2014, 6.4. No leases: the EOF trigger may elect another leader at any time.
 */
#include <stdlib.h>

#include "raft/consensus_internal.h"
#include "src/base/check.h"

void core_reads_fail(struct consensus *consensus, struct list *reads)
{
    bool any = !list_empty(reads);

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

    read->done = done;
    read->data = data;
    list_push_back(refused ? &consensus->reads_refused : &consensus->reads_waiting, &read->node);
    /* Also lets calls of one turn of the loop share a round, and never calls back from inside this call. */
    consensus->config.clock->timer_start(consensus->read_timer, 0);
}

static void refused_finish(struct consensus *consensus)
{
    struct err err;

    err_set(&err, ERR_UNAVAILABLE, "this member is not the leader: ask the leader");
    while (!list_empty(&consensus->reads_refused)) {
        struct read *read = LIST_ITEM(consensus->reads_refused.next, struct read, node);
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
    struct frame_message ping = {.type = FRAME_READ_PING};

    ping.read.term = consensus->read_term;
    ping.read.round = consensus->read_round;
    consensus->read_sent_us = core_now_us(consensus);
    for (size_t i = 0; i < consensus->config.member_count; i++)
        if (consensus->members[i].id != consensus->config.member_id)
            (void)transport_send(&consensus->transport, consensus->members[i].id, &ping);
}

static void round_confirm_if_majority(struct consensus *consensus)
{
    if ((size_t)__builtin_popcountll(consensus->read_voters) <= core_voter_count(consensus) / 2)
        return;
    while (!list_empty(&consensus->reads_round)) {
        struct list *node = consensus->reads_round.next;
        list_remove(node);
        list_push_back(&consensus->reads_confirmed, node);
    }
}

static void voter_mark(struct consensus *consensus, uint64_t id)
{
    unsigned place = core_server_place(consensus, id);

    if (place < consensus->raft.configuration.n && place < 64 &&
        consensus->raft.configuration.servers[place].role == RAFT_VOTER)
        consensus->read_voters |= UINT64_C(1) << place;
}

static void round_start(struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    if (list_empty(&consensus->reads_waiting) || !list_empty(&consensus->reads_round) ||
        !core_is_leader(consensus) ||
        safety_term_of(raft, raft->commit_index) != raft->current_term)
        return;
    while (!list_empty(&consensus->reads_waiting)) {
        struct read *read = LIST_ITEM(consensus->reads_waiting.next, struct read, node);
        read->index = raft->commit_index;
        list_remove(&read->node);
        list_push_back(&consensus->reads_round, &read->node);
    }
    consensus->read_round++;
    consensus->read_term = raft->current_term;
    consensus->read_voters = 0;
    voter_mark(consensus, consensus->config.member_id);
    pings_send(consensus);
    round_confirm_if_majority(consensus);
}

void core_reads_progress(struct consensus *consensus)
{
    if (consensus->closing)
        return;
    round_start(consensus);
    while (!list_empty(&consensus->reads_confirmed)) {
        struct read *read = LIST_ITEM(consensus->reads_confirmed.next, struct read, node);
        if (read->index > consensus->raft.last_applied)
            break;
        list_remove(&read->node);
        read->done(read->data, 0, NULL);
        free(read);
    }
}

void core_reads_tick(struct consensus *consensus)
{
    if (!list_empty(&consensus->reads_round) && core_is_leader(consensus) &&
        core_now_us(consensus) - consensus->read_sent_us >=
            UINT64_C(1000) * consensus->config.heartbeat_ms)
        pings_send(consensus);
}

void core_on_ping(struct consensus *consensus, uint64_t from, const struct frame_read *ping)
{
    struct frame_message pong = {.type = FRAME_READ_PONG};

    pong.read.term = consensus->raft.current_term;
    pong.read.round = ping->round;
    (void)transport_send(&consensus->transport, from, &pong); /* the leader asks again */
}

void core_on_pong(struct consensus *consensus, uint64_t from, const struct frame_read *pong)
{
    if (list_empty(&consensus->reads_round) || pong->round != consensus->read_round ||
        pong->term != consensus->read_term ||
        consensus->raft.current_term != consensus->read_term || !core_is_leader(consensus))
        return;
    voter_mark(consensus, from);
    round_confirm_if_majority(consensus);
}
