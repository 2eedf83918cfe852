/* Handing leadership over, and giving it up. See consensus.h.
 *
 * Flow     the leader asks: campaign(term, round), and asks again under new rounds as long as the
 *          hand-over is on: a member that has just come back is connected before it knows its
 *          leader, and before its own connection stands. The member asks back with the same frame,
 *          under the first round that it has heard of, and the leader answers with round + 1 as
 *          long as the hand-over is on; then the member campaigns. Each measures its part with its
 *          own clock: the leader asks and answers for CONSENSUS_TRANSFER_MS - CORE_CAMPAIGN_MS, the
 *          member takes an answer for CORE_CAMPAIGN_MS after it first asked back. So one that is
 *          stopped with any of the frames unread, or gets one late, does not depose a leader that
 *          has given the hand-over up: it asks back under the next round then, to which an answer
 *          of before does not fit.
 *          Giving up: what libraft heard since its last look at its contact with a majority counts
 *          as lost, and that look is due now. The others notice that their leader is silent when an
 *          election timeout has passed; this member lets one of them win.
 * Shapes   one hand-over at a time; a newer one ends it. Rounds are even; 0 is that of a build that
 *          does not ask back: its word is enough.
 * Absent   raft_transfer (two votes in one term).
 */
#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

enum { TRANSFER_ROUND = 2, TRANSFER_ANSWER = 1 };

static bool campaign_send(struct consensus *consensus, uint64_t to, uint64_t round)
{
    struct frame_message message = {.type = FRAME_CAMPAIGN};

    message.read.term = consensus->raft.current_term;
    message.read.round = round;
    return transport_send(&consensus->transport, to, &message);
}

static bool time_within(const struct consensus *consensus, uint64_t since_us, uint64_t limit_ms)
{
    return core_now_us(consensus) - since_us <= UINT64_C(1000) * limit_ms;
}

static bool transfer_is_on(const struct consensus *consensus)
{
    return core_is_leader(consensus) && consensus->transfer_member != 0 &&
           consensus->transfer_term == consensus->raft.current_term &&
           time_within(consensus, consensus->transfer_us, CONSENSUS_TRANSFER_MS - CORE_CAMPAIGN_MS);
}

static bool transfer_ask(struct consensus *consensus, uint64_t member_id)
{
    if (!campaign_send(consensus, member_id, consensus->transfer_round + TRANSFER_ROUND))
        return false;
    consensus->transfer_round += TRANSFER_ROUND;
    consensus->transfer_asked_us = core_now_us(consensus);
    return true;
}

void core_transfer_tick(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    if (transfer_is_on(consensus) &&
        !time_within(consensus, consensus->transfer_asked_us, CORE_TRANSFER_ASK_MS))
        (void)transfer_ask(consensus, consensus->transfer_member);
}

/* The member asks whether the hand-over to it is on. */
static void transfer_confirm(struct consensus *consensus, uint64_t from, uint64_t round)
{
    if (transfer_is_on(consensus) && from == consensus->transfer_member)
        (void)campaign_send(consensus, from, round + TRANSFER_ANSWER);
}

/* Its time counts from when this member first asked back: what it asks again gives it no more. */
static bool campaign_is_asked(const struct consensus *consensus)
{
    return consensus->campaign_term == consensus->raft.current_term &&
           time_within(consensus, consensus->campaign_us, CORE_CAMPAIGN_MS);
}

void core_on_campaign(struct consensus *consensus, uint64_t from, const struct frame_read *asked)
{
    const struct raft *raft = &consensus->raft;
    bool answer = asked->round % TRANSFER_ROUND == TRANSFER_ANSWER;

    if (asked->term != raft->current_term)
        return;
    if (raft->state == RAFT_LEADER) {
        transfer_confirm(consensus, from, asked->round);
        return;
    }
    if (raft->state != RAFT_FOLLOWER || raft->follower_state.current_leader.id != from ||
        membership_sole_voter(&raft->configuration, consensus->config.member_id))
        return;
    if (!answer) {
        if (!campaign_is_asked(consensus)) {
            consensus->campaign_term = asked->term;
            consensus->campaign_round = asked->round;
            consensus->campaign_us = core_now_us(consensus);
        }
        (void)campaign_send(consensus, from, consensus->campaign_round);
    } else if (campaign_is_asked(consensus) &&
               asked->round == consensus->campaign_round + TRANSFER_ANSWER) {
        consensus->campaign_term = 0;
        core_campaign(consensus, from);
    }
}

static unsigned own_place(const struct raft *raft)
{
    unsigned i = 0;

    while (i + 1 < raft->configuration.n && raft->configuration.servers[i].id != raft->id)
        i++;
    return i;
}

static int refuse_unfit(const struct consensus *consensus, uint64_t id, struct err *err)
{
    const char *name = core_member_name(consensus, id);

    if (core_unfit(consensus, id) == CONSENSUS_DISK_FULL)
        return err_set(err, ERR_REFUSED,
                       "the disk of %s is nearly full, it would take no changes: make room there "
                       "first, or name another member",
                       name);
    return err_set(err, ERR_REFUSED,
                   "%s asks not to lead while another member can: see its warnings in ckptctl "
                   "status, or name another member",
                   name);
}

/* Connected, but it may stand still. */
static bool may_lead(const struct consensus *consensus, const struct raft_server *server)
{
    return server->id != consensus->config.member_id && server->role == RAFT_VOTER &&
           core_reachable(consensus, server->id);
}

/* Who does not want to lead is better than nobody, for who asks for anybody: this member cannot go
 * on, or should not. */
static enum consensus_unfit unfit_wanted(const struct consensus *consensus, uint64_t member_id)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    enum consensus_unfit best = CONSENSUS_FIT;

    for (unsigned i = 0; member_id == 0 && i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        if (!may_lead(consensus, server))
            continue;
        if (core_unfit(consensus, server->id) == CONSENSUS_FIT)
            return CONSENSUS_FIT;
        if (core_unfit(consensus, server->id) == CONSENSUS_RELUCTANT)
            best = CONSENSUS_RELUCTANT;
    }
    return best;
}

int consensus_transfer(struct consensus *consensus, uint64_t member_id, struct err *err)
{
    const struct raft *raft = &consensus->raft;
    enum consensus_unfit at_best = unfit_wanted(consensus, member_id);
    uint64_t unfit = 0; /* one of those that were passed over */
    bool any = false;

    if (consensus->failed || consensus->closing || !core_is_leader(consensus))
        return err_set(err, ERR_UNAVAILABLE, "this member is not the leader");
    /* The next one behind this member: of two that hand over, for a full disk say, none gets it
     * back while the others were not asked. */
    for (unsigned n = 0; n < raft->configuration.n; n++) {
        unsigned i = (own_place(raft) + 1 + n) % raft->configuration.n;
        const struct raft_server *server = &raft->configuration.servers[i];

        if (!may_lead(consensus, server) || (member_id != 0 && server->id != member_id))
            continue;
        if (core_unfit(consensus, server->id) != at_best) {
            unfit = server->id;
            continue;
        }
        any = true;
        if (raft->leader_state.progress[i].match_index < raft->last_stored)
            continue;
        if (!transfer_ask(consensus, server->id))
            continue;
        consensus->transfer_member = server->id;
        consensus->transfer_term = raft->current_term;
        consensus->transfer_us = core_now_us(consensus);
        return 0;
    }
    if (unfit != 0 && !any)
        return refuse_unfit(consensus, unfit, err);
    return err_set(err, ERR_UNAVAILABLE, "no connected voter has caught up: try again");
}

/* ---- giving up ---- */

/* Votes that another one could get. This member's own goes to who has all of its log. */
static size_t votes_for_another(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;
    uint64_t last_index = raft_last_index((struct raft *)(uintptr_t)raft);
    size_t votes = 0;
    bool own = false;

    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        const struct raft_progress *progress = &raft->leader_state.progress[i];

        if (server->id == consensus->config.member_id || server->role != RAFT_VOTER ||
            !core_reachable(consensus, server->id) ||
            progress->state == PROGRESS_SNAPSHOT) /* S8, and its installation would begin again */
            continue;
        votes++;
        own |= progress->match_index >= last_index;
    }
    return votes + own;
}

int consensus_step_down(struct consensus *consensus, struct err *err)
{
    struct raft *raft = &consensus->raft;
    size_t voters = core_voter_count(consensus), votes;

    CHECK(consensus->depth == 0);
    if (consensus->failed || consensus->closing || !core_is_leader(consensus))
        return err_set(err, ERR_UNAVAILABLE, "this member is not the leader");
    votes = votes_for_another(consensus);
    if (votes <= voters / 2)
        return err_set(err, ERR_REFUSED,
                       "nobody else could be elected: %zu votes of %zu voters, %zu are needed",
                       votes, voters, voters / 2 + 1);
    core_enter(consensus);
    for (unsigned i = 0; i < raft->configuration.n; i++)
        raft->leader_state.progress[i].recent_recv = false;
    raft->election_timer_start = core_now_ms(consensus) - raft->election_timeout;
    consensus->gave_up_us = core_now_us(consensus);
    consensus->tick(&consensus->io);
    CHECK(!core_is_leader(consensus));
    core_leave(consensus);
    return 0;
}

bool core_lets_others_win(const struct consensus *consensus)
{
    uint64_t election_ms = consensus->raft.election_timeout;

    if (core_is_leader(consensus))
        return false;
    if (consensus->gave_up_us != 0 &&
        time_within(consensus, consensus->gave_up_us, CORE_GAVE_UP_ELECTIONS * election_ms))
        return true;
    return consensus->reluctant && consensus->others_fit &&
           time_within(consensus, UINT64_C(1000) * consensus->safety.leader_heard_ms,
                       CORE_RELUCTANT_ELECTIONS * election_ms);
}
