/* What happens after each call into libraft, and what makes elections fast. See
 * consensus_internal.h.
 *
 * Flow     core_leave() of the outermost call settles: completions, corrections, failure, role,
 *          dropped tags, reads, until nothing changes. The tick runs four times per heartbeat. S11:
 *          when the connection of the leader ends, each member asks at the leader's address, and
 *          where nobody is there they campaign at once, 15 ms apart by rank.
 * Units    milliseconds to libraft, microseconds of the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

/* ---- failure ---- */

void core_fail(struct consensus *consensus, const struct err *err)
{
    CHECK(consensus != NULL);
    if (consensus->failure.code == ERR_NONE)
        consensus->failure = *err;
    consensus->wal.broken = true; /* nothing that is decided from here on may reach the disk */
}

void core_report_failure(struct consensus *consensus)
{
    if (consensus->failed || consensus->failure.code == ERR_NONE ||
        (!consensus->core_started && !consensus->founding.under_way))
        return;
    consensus->failed = true;
    consensus->hooks.fatal(consensus->hooks.context, &consensus->failure);
}

/* libraft turns unavailable without a word (C16). */
static void check_alive(struct consensus *consensus)
{
    struct err err;

    if (raft_state(&consensus->raft) == RAFT_UNAVAILABLE && !consensus->closed_core) {
        err_set(&err, ERR_IO, "consensus stopped itself: %s", raft_errmsg(&consensus->raft));
        core_fail(consensus, &err);
    }
    core_report_failure(consensus);
}

/* ---- settle ---- */

/* libraft believes that all it gave was sent, and says so in next_index at the end of its call: the
 * correction comes after that. A member that is probed again has a next_index of its own. */
static void limits_apply(struct consensus *consensus)
{
    if (!consensus->limited)
        return;
    consensus->limited = false;
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct send_limit limit = consensus->limits[i];
        unsigned place;
        if (limit.peer == 0)
            continue;
        consensus->limits[i].peer = 0;
        place = core_server_place(consensus, limit.peer);
        if (!core_is_leader(consensus) || place == consensus->raft.configuration.n)
            continue;
        struct raft_progress *progress = &consensus->raft.leader_state.progress[place];
        if (progress->state == PROGRESS_PIPELINE && progress->next_index > limit.next_index)
            progress->next_index = limit.next_index;
    }
}

static enum consensus_role role_now(const struct consensus *consensus)
{
    switch (consensus->raft.state) {
    case RAFT_LEADER:
        return CONSENSUS_LEADER;
    case RAFT_CANDIDATE:
        return CONSENSUS_CANDIDATE;
    default:
        return CONSENSUS_FOLLOWER;
    }
}

static uint64_t leader_now(const struct consensus *consensus)
{
    if (consensus->raft.state == RAFT_LEADER)
        return consensus->config.member_id;
    return consensus->raft.state == RAFT_FOLLOWER ? consensus->raft.follower_state.current_leader.id
                                                  : 0;
}

static void barrier_done(struct raft_barrier *request, int status)
{
    (void)request; /* its entry lets S2 open; nobody waits for it */
    (void)status;
}

/* S2: libraft writes no first entry of a term, and nothing may be committed before there is one. */
static void became_leader(struct consensus *consensus)
{
    struct err err;
    int status;

    if (!safety_rule(2))
        return;
    status = raft_barrier(&consensus->raft, &consensus->barrier, barrier_done);

    if (status == 0)
        return;
    err_set(&err, ERR_IO, "first entry of the term: %s", raft_strerror(status));
    core_fail(consensus, &err);
}

/* The state of a member that led is as old as the last word of a majority, and not as what another
 * leader had told it before. It is noted while it leads: the message that deposes a leader is a
 * word as well, of somebody who knows more. */
static void age_keep(struct consensus *consensus)
{
    uint64_t age_ms = core_quorum_age_ms(consensus), now_ms = core_now_ms(consensus);

    if (core_is_leader(consensus) && age_ms < now_ms &&
        core_applied_own(consensus, consensus->raft.current_term))
        safety_led_until(&consensus->safety, now_ms - age_ms);
}

/* True when something was told. */
static bool role_settle(struct consensus *consensus)
{
    enum consensus_role role = role_now(consensus);
    uint64_t term = consensus->raft.current_term, leader = leader_now(consensus);
    bool elected = role == CONSENSUS_LEADER &&
                   (consensus->role != CONSENSUS_LEADER || consensus->role_term != term);

    if (role == consensus->role && term == consensus->role_term && leader == consensus->role_leader)
        return false;
    consensus->role = role;
    consensus->role_term = term;
    consensus->role_leader = leader;
    if (leader != 0)
        consensus->retries = 0, consensus->gave_up_us = 0;
    if (leader != 0 && leader != consensus->leader_last) {
        consensus->leader_changes_total++;
        consensus->leader_last = leader;
    }
    if (role != CONSENSUS_LEADER || elected) {
        core_reads_fail(consensus, &consensus->reads_round);
        core_reads_fail(consensus, &consensus->reads_confirmed);
        if (role != CONSENSUS_LEADER)
            core_reads_fail(consensus, &consensus->reads_waiting);
    }
    if (elected) {
        consensus->others_fit = false;
        safety_elected(&consensus->safety);
        became_leader(consensus);
    }
    if (!consensus->closing)
        consensus->hooks.role_changed(consensus->hooks.context, role, term, leader);
    return true;
}

bool core_dropped_settle(struct consensus *consensus)
{
    bool any = !list_empty(&consensus->dropped);

    while (!list_empty(&consensus->dropped)) {
        struct proposal *proposal = LIST_ITEM(consensus->dropped.next, struct proposal, node);
        void *tag = proposal->tag;
        list_remove(&proposal->node);
        free(proposal);
        consensus->hooks.dropped(consensus->hooks.context, tag);
    }
    return any;
}

/* How many voters campaign before this one. The lost leader has no rank, so that nobody waits for
 * it. */
static unsigned rank_of(const struct consensus *consensus, uint64_t without)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    unsigned rank = 0;

    for (unsigned i = 0; i < configuration->n; i++)
        if (configuration->servers[i].role == RAFT_VOTER &&
            configuration->servers[i].id < consensus->config.member_id &&
            configuration->servers[i].id != without)
            rank++;
    return rank;
}

/* S11: members that campaign at the same moment split the votes, likely so when processes wait for
 * CPU time longer than the ranks are apart. libraft then waits for its timeout, although everyone
 * knows that the leader is lost. */
static void retry_soon(struct consensus *consensus)
{
    struct raft *raft = &consensus->raft;
    unsigned wait_ms = (CORE_RETRY_MS << consensus->retries / CORE_RETRIES_TWICE) *
                       (rank_of(consensus, consensus->leader_last) + 1);

    if (raft->state == RAFT_CANDIDATE && !raft->candidate_state.in_pre_vote &&
        wait_ms < CORE_VOTE_WRITES * consensus->vote_write_us / 1000)
        wait_ms = (unsigned)(CORE_VOTE_WRITES * consensus->vote_write_us / 1000);
    if (raft->state != RAFT_CANDIDATE || !safety_leader_lost(&consensus->safety) ||
        consensus->retries == CORE_RETRIES_MAX || wait_ms >= raft->election_timeout ||
        raft->candidate_state.randomized_election_timeout < raft->election_timeout)
        return; /* the last: of this election, shortened already */
    raft->candidate_state.randomized_election_timeout = wait_ms;
    consensus->retries++;
}

/* S21: libraft draws a follower's timer from once to twice the timeout, so that two seldom end
 * together. One after the other by rank they never do, and the first one need not be late; half a
 * part lets the others find the leader silent as well (S9). */
static void timer_by_rank(struct consensus *consensus)
{
    struct raft *raft = &consensus->raft;
    unsigned part = raft->election_timeout / CORE_RANKS_PER_ELECTION;

    if (safety_rule(21) && raft->state == RAFT_FOLLOWER &&
        raft->follower_state.current_leader.id != 0)
        raft->follower_state.randomized_election_timeout =
            raft->election_timeout + part / 2 +
            part * rank_of(consensus, raft->follower_state.current_leader.id);
}

/* Each part may cause work for another one: a hook asks for a read, a dropped tag for a change of
 * members. So it goes round until nothing is left, and entries come first, since everything after
 * them is judged by the state. */
static void settle_calls(struct consensus *consensus)
{
    bool again = true;

    while (again) {
        again = false;
        core_apply_noted(consensus);
        core_deferred_run(consensus);
        limits_apply(consensus);
        if (consensus->core_started)
            check_alive(consensus);
        if (consensus->failed || consensus->closed_core)
            return;
        if (consensus->core_started) {
            again = role_settle(consensus);
            again |= core_peers_settle(consensus);
            again |= core_change_settle(consensus);
        }
        if (consensus->failed)
            return;
        again |= core_dropped_settle(consensus);
        core_reads_progress(consensus);
        again |= !list_empty(&consensus->deferred) || !list_empty(&consensus->dropped);
    }
    if (consensus->core_started)
        retry_soon(consensus);
    /* libraft counts entries; bytes count too, and so does a member that the last one cannot
     * fill. */
    raft_set_snapshot_threshold(
        &consensus->raft, consensus->transfer.unreadable || consensus->bytes_since_snapshot >=
                                                                core_snapshot_after_bytes(consensus)
                              ? 1
                              : (unsigned)core_snapshot_after_entries(consensus));
}

void core_enter(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    consensus->depth++;
}

/* Only the outermost call settles: hooks may not find libraft in the middle of its own call. */
void core_leave(struct consensus *consensus)
{
    CHECK(consensus->depth > 0);
    if (consensus->depth == 1) {
        settle_calls(consensus);
        core_check(consensus);
    }
    consensus->depth--;
}

/* ---- tick ---- */

static uint64_t tick_us(const struct consensus *consensus)
{
    uint64_t ms = consensus->config.heartbeat_ms / CORE_TICKS_PER_HEARTBEAT;

    return 1000 * (ms < CORE_TICK_MIN_MS ? CORE_TICK_MIN_MS : ms);
}

/* libraft's timeout for an installation counts from its first byte; ours lets it run from the
 * last. */
static void installs_extend(struct consensus *consensus)
{
    struct raft *raft = &consensus->raft;

    if (!core_is_leader(consensus))
        return;
    for (unsigned i = 0; i < raft->configuration.n; i++)
        if (raft->leader_state.progress[i].state == PROGRESS_SNAPSHOT &&
            transfer_sending_to(&consensus->transfer, raft->configuration.servers[i].id))
            raft->leader_state.progress[i].snapshot_last_send = core_now_ms(consensus);
}

/* S19: a sole voter becomes leader of the term it is in, without a vote. It may have given that
 * vote away, or led that term in an earlier life: it begins a new term first, when its time has
 * come. False: not yet, and libraft, who reads the clock a little later, must not find that it
 * has. */
static bool sole_voter_begins_term(struct consensus *consensus)
{
    struct raft *raft = &consensus->raft;

    if (!safety_rule(19) || raft->state != RAFT_FOLLOWER ||
        !membership_sole_voter(&raft->configuration, consensus->config.member_id))
        return true;
    if (core_now_ms(consensus) - raft->election_timer_start <
        raft->follower_state.randomized_election_timeout)
        return false;
    if (raft->io->set_term(raft->io, raft->current_term + 1) != 0 ||
        raft->io->set_vote(raft->io, consensus->config.member_id) != 0)
        return false;
    raft->current_term++;
    raft->voted_for = consensus->config.member_id;
    return true;
}

/* Half an election timeout without a turn: heartbeats lie unread in the sockets. */
static bool stands_still(const struct consensus *consensus, uint64_t now)
{
    return now - consensus->last_tick_us > UINT64_C(500) * consensus->config.election_timeout_ms;
}

void core_tick(void *data)
{
    struct consensus *consensus = data;
    uint64_t now = core_now_us(consensus);
    bool late = stands_still(consensus, now);
    /* What lies unread in the sockets is read before the leader is judged. It has been by the next
     * tick, however late that one is: a process whose every turn is long must not wait for ever. */
    bool stalled = late && !consensus->tick_stalled;

    if (consensus->failed || consensus->closing)
        return;
    if (late)
        consensus->woke_us = now;
    consensus->last_tick_us = now;
    consensus->tick_stalled = stalled;
    consensus->config.clock->timer_start(consensus->tick_timer, tick_us(consensus));
    core_enter(consensus);
    age_keep(consensus);
    transport_tick(&consensus->transport);
    transfer_tick(&consensus->transfer);
    if (now - consensus->space_checked_us >= UINT64_C(1000) * CORE_SPACE_CHECK_MS) {
        consensus->space_checked_us = now;
        folder_check_space(&consensus->folder);
    }
    if (consensus->founding.under_way) {
        core_founding_tick(consensus);
        core_leave(consensus);
        return;
    }
    core_snapshot_deliver(consensus);
    installs_extend(consensus);
    if (!stalled && safety_may_tick(&consensus->safety) && !core_lets_others_win(consensus) &&
        sole_voter_begins_term(consensus)) {
        timer_by_rank(consensus);
        if (consensus->failure.code == ERR_NONE)
            consensus->tick(&consensus->io);
    }
    core_reads_tick(consensus);
    core_members_tick(consensus);
    core_transfer_tick(consensus);
    core_leave(consensus);
}

/* ---- S11 ---- */

/* Disturbs a leader once, in a hand-over as well. libraft keeps that permission for all elections
 * of a candidate: one whom nobody can dial, who hears neither leader nor votes, would depose each
 * leader in turn. Where the leader is lost S9 permits it. */
void core_campaign(struct consensus *consensus, uint64_t leader)
{
    struct raft *raft = &consensus->raft;
    struct raft_message message = {.type = RAFT_IO_TIMEOUT_NOW};

    CHECK(raft->state == RAFT_FOLLOWER);
    message.server_id = leader;
    message.server_address = core_member_name(consensus, leader);
    message.timeout_now.term = raft->current_term;
    message.timeout_now.last_log_index = raft_last_index(raft);
    message.timeout_now.last_log_term =
        message.timeout_now.last_log_index == 0
            ? 0
            : safety_term_of(raft, message.timeout_now.last_log_index);
    safety_receive(&consensus->safety, &message);
    if (raft->state == RAFT_CANDIDATE)
        raft->candidate_state.disrupt_leader = false; /* its requests are under way */
}

/* Still without a leader, and no vote given to one who may be winning: campaign. */
void core_eof_fire(void *data)
{
    struct consensus *consensus = data;
    struct raft *raft = &consensus->raft;

    CHECK(consensus->depth == 0);
    if (consensus->failed || consensus->closing || consensus->eof_leader == 0)
        return;
    core_enter(consensus);
    if (raft->state == RAFT_FOLLOWER && !core_lets_others_win(consensus) &&
        !membership_sole_voter(&raft->configuration, consensus->config.member_id) && /* S19 */
        raft->follower_state.current_leader.id == consensus->eof_leader &&
        (raft->current_term == consensus->eof_term || raft->voted_for == 0))
        core_campaign(consensus, consensus->eof_leader);
    consensus->eof_leader = 0;
    core_leave(consensus);
}

/* The end of a connection tells a process that stood still nothing: its leader hung up on it
 * because it did not read, and leads the others. The timers judge, and ask before they disturb. */
static bool stood_still_lately(const struct consensus *consensus)
{
    uint64_t now = core_now_us(consensus);

    return stands_still(consensus, now) ||
           (consensus->woke_us != 0 &&
            now - consensus->woke_us < UINT64_C(1000) * consensus->config.election_timeout_ms);
}

static void leader_ask(struct consensus *consensus, uint64_t leader);

/* The answer of the leader whose connection ended. Where nobody is there any more the members
 * campaign one after the other by rank. A question that was hung up on may have been cut as the
 * connection was, so it is asked again; a port of which another process hands connections on
 * hangs up each time. Any other end proves nothing, and the timers judge. */
static void leader_asked(void *data, const struct err *failed)
{
    struct consensus *consensus = data;
    const struct probe *probe = &consensus->eof_probe;
    uint64_t leader = consensus->eof_leader;

    if (leader == 0 || consensus->closing)
        return;
    if (failed == NULL || (!probe->nobody && !probe->hung_up)) {
        consensus->eof_leader = 0;
        return;
    }
    if (probe->hung_up && ++consensus->eof_hung_up < CORE_HANG_UPS) {
        leader_ask(consensus, leader);
        return;
    }
    consensus->safety.leader_gone = true;
    consensus->retries = 0;
    consensus->config.clock->timer_start(consensus->eof_timer, UINT64_C(1000) * CORE_STAGGER_MS *
                                                                   rank_of(consensus, leader));
}

/* Its connection may have been cut on the way, or closed by either end, as when certificates are
 * read again. Only where it was reached before its refusal means something. */
static void leader_ask(struct consensus *consensus, uint64_t leader)
{
    const struct peer *peer = transport_peer(&consensus->transport, leader);
    struct consensus_member member;

    if (peer == NULL || !peer->reached || probe_active(&consensus->eof_probe))
        return;
    member = peer->member;
    if (peer->reached_config)
        snprintf(member.address, sizeof(member.address), "%s", peer->address_in_config);
    probe_start(&consensus->eof_probe, &consensus->transport, &member, leader_asked, consensus);
}

void core_on_inbound_lost(void *context, uint64_t peer)
{
    struct consensus *consensus = context;
    struct raft *raft = &consensus->raft;

    transfer_inbound_lost(&consensus->transfer, peer);
    if (consensus->closing || !safety_rule(11) || raft->state != RAFT_FOLLOWER ||
        raft->follower_state.current_leader.id != peer || stood_still_lately(consensus))
        return;
    if (consensus->eof_leader != peer)
        probe_cancel(&consensus->eof_probe);
    consensus->eof_leader = peer;
    consensus->eof_hung_up = 0;
    consensus->eof_term = raft->current_term;
    leader_ask(consensus, peer);
}

/* A leader that dials again lives: what the end of its former connection began is taken back. */
void core_on_greeted(void *context, uint64_t peer)
{
    struct consensus *consensus = context;

    transfer_outbound_lost(&consensus->transfer, peer); /* with what it had acknowledged before */
    if (consensus->eof_leader == peer) {
        consensus->eof_leader = 0; /* its connection was lost, not the leader */
        consensus->safety.leader_gone = false;
        probe_cancel(&consensus->eof_probe);
    }
}

/* It may have died with a snapshot that it had received and not installed: libraft would wait for
 * CORE_INSTALL_TIMEOUT_MS, so its timeout is over now and it asks again what the member has. */
static void install_expire(struct consensus *consensus, uint64_t peer)
{
    struct raft *raft = &consensus->raft;
    unsigned place = core_server_place(consensus, peer);

    if (!core_is_leader(consensus) || place == raft->configuration.n ||
        raft->leader_state.progress[place].state != PROGRESS_SNAPSHOT)
        return;
    raft->leader_state.progress[place].snapshot_last_send =
        core_now_ms(consensus) - raft->install_snapshot_timeout;
}

/* libraft was told that a snapshot could not be read, and waits for its installation all the same:
 * a heartbeat, and it tries again. */
void core_installs_expire(struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;

    for (unsigned i = 0; i < configuration->n; i++)
        if (!transfer_sending_to(&consensus->transfer, configuration->servers[i].id))
            install_expire(consensus, configuration->servers[i].id);
}

void core_on_outbound_lost(void *context, uint64_t peer)
{
    struct consensus *consensus = context;

    transfer_outbound_lost(&consensus->transfer, peer);
    install_expire(consensus, peer);
}

/* ---- messages ---- */

static void core_message(struct consensus *consensus, uint64_t from, struct frame_message *message)
{
    /* Not known to be a voter here when it said hello: it says it again. */
    if (message->type == FRAME_APPEND_RESULT &&
        core_voter_answers_empty(consensus, from, &message->core.append_entries_result)) {
        transport_hang_up(&consensus->transport, from);
        return;
    }
    core_note_take(consensus, from, message);
    message->core.server_id = from;
    message->core.server_address = core_member_name(consensus, from);
    safety_receive(&consensus->safety, &message->core); /* libraft frees the entries */
}

void core_on_message(void *context, uint64_t from, struct frame_message *message)
{
    struct consensus *consensus = context;

    CHECK(message != NULL);
    if (consensus->failed || consensus->closing || !consensus->core_started) {
        frame_message_close(message);
        return;
    }
    core_enter(consensus);
    switch (message->type) {
    case FRAME_APPEND:
    case FRAME_APPEND_RESULT:
    case FRAME_VOTE:
    case FRAME_VOTE_RESULT:
        core_message(consensus, from, message);
        break;
    case FRAME_SNAPSHOT_BEGIN:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
        transfer_message(&consensus->transfer, from, message->type, &message->snapshot);
        break;
    case FRAME_READ_PING:
        core_on_ping(consensus, from, &message->read);
        break;
    case FRAME_READ_PONG:
        core_on_pong(consensus, from, &message->read);
        break;
    case FRAME_CAMPAIGN:
        core_on_campaign(consensus, from, &message->read);
        break;
    case FRAME_HELLO:
    case FRAME_HELLO_REPLY:
    case FRAME_TYPE_END:
        CHECK_UNREACHABLE("the transport keeps hellos");
    }
    core_leave(consensus);
}
