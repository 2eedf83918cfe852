/* Rules S1-S3, S6-S9, S13, S14, S16, S18, S20 and S22 around libraft. See safety.h and
 * raft/RULES.md. */
#include "raft/core/safety.h"

#include <string.h>

#include "src/base/check.h"

uint32_t safety_rules_off;

void safety_init(struct safety *safety, struct raft *raft)
{
    CHECK(safety != NULL);
    CHECK(raft != NULL);
    memset(safety, 0, sizeof(*safety));
    safety->raft = raft;
    membership_init(&safety->membership, raft);
}

void safety_close(struct safety *safety)
{
    CHECK(safety != NULL);
    membership_close(&safety->membership);
}

const struct raft_entry *safety_entry(const struct raft *raft, uint64_t index)
{
    const struct raft_log *log = &raft->log;
    size_t count =
        log->front <= log->back ? log->back - log->front : log->size - log->front + log->back;

    if (index <= log->offset || index > log->offset + count)
        return NULL;
    return &log->entries[(log->front + (index - log->offset - 1)) % log->size];
}

uint64_t safety_term_of(const struct raft *raft, uint64_t index)
{
    const struct raft_entry *entry = safety_entry(raft, index);

    if (entry != NULL)
        return entry->term;
    return index != 0 && index == raft->log.snapshot.last_index ? raft->log.snapshot.last_term : 0;
}

bool safety_installing(const struct raft *raft)
{
    CHECK(raft != NULL);
    return raft->last_stored == 0 && raft->snapshot.put.data != NULL;
}

void safety_elected(struct safety *safety)
{
    CHECK(safety != NULL);
    safety->elected_ms = safety->raft->io->time(safety->raft->io);
}

/* S8: libraft's timers and votes do not know that half a snapshot is no log. */
bool safety_may_tick(const struct safety *safety)
{
    CHECK(safety != NULL);
    return !safety_rule(8) || !safety_installing(safety->raft);
}

/* S6: what lies at or before our commit index needs no comparison, and may be compacted away here.
 * libraft would append it at the wrong place. The first entries are dropped, and what precedes the
 * rest is an entry that we know. */
static void append_rebase(const struct raft *raft, struct raft_append_entries *append)
{
    uint64_t base = raft->commit_index, drop;

    if (safety_installing(raft) || append->prev_log_index >= base ||
        (append->prev_log_index == 0 ? raft->log.offset == 0
                                     : safety_term_of(raft, append->prev_log_index) != 0))
        return;
    drop = base - append->prev_log_index;
    if (drop >= append->n_entries) {
        frame_entries_free(append);
    } else {
        void *batch = append->entries[0].batch;
        append->n_entries -= (unsigned)drop;
        memmove(append->entries, append->entries + drop,
                append->n_entries * sizeof(append->entries[0]));
        CHECK(append->entries[0].batch == batch);
    }
    append->prev_log_index = base;
    append->prev_log_term = safety_term_of(raft, base);
}

/* S22: libraft knows the entries of a write that ends by index and term alone. One that was cut
 * while its write was under way and came back from another leader is counted as stored twice,
 * before the disk has it, and its memory is freed while it is in use. So nothing is cut before the
 * disk has all of our log: until then the message is a heartbeat, and the leader, which is told
 * that it has arrived but nothing of its entries, sends them again. */
static void append_defer(const struct raft *raft, struct raft_append_entries *append)
{
    uint64_t last = raft_last_index((struct raft *)(uintptr_t)raft);

    if (safety_installing(raft) || raft->last_stored >= last)
        return;
    for (unsigned i = 0; i < append->n_entries && append->prev_log_index + i < last; i++) {
        uint64_t term = safety_term_of(raft, append->prev_log_index + 1 + i);
        if (term != 0 && term != append->entries[i].term) {
            frame_entries_free(append);
            return;
        }
    }
}

/* A leader of another term has compared nothing yet; within a term what was compared stays
 * compared. */
static void verified_set(struct safety *safety, uint64_t term, uint64_t index)
{
    if (safety->verified_term != term) {
        safety->verified_term = term;
        safety->verified_index = 0;
    }
    if (safety->verified_index < index)
        safety->verified_index = index;
}

static void leader_heard(struct safety *safety, uint64_t term)
{
    if (safety->raft->current_term != term)
        return;
    safety->leader_gone = false;
    safety->leader_heard_ms = safety->raft->io->time(safety->raft->io);
}

/* A leader that has committed nothing in its own term yet does not know itself what is
 * committed. */
static void level_settle(struct safety *safety)
{
    if (safety->awaited_ms == 0 || safety->raft->last_applied < safety->awaited_index)
        return;
    if (safety_term_of(safety->raft, safety->awaited_index) == safety->awaited_term)
        safety->level_ms = safety->awaited_ms;
    safety->awaited_ms = 0;
}

/* One at a time: under load the commit index moves with every message, and that of an older one is
 * reached. */
static void level_await(struct safety *safety, uint64_t term, uint64_t leader_commit)
{
    level_settle(safety);
    if (safety->raft->current_term != term || safety->awaited_ms != 0)
        return;
    safety->awaited_index = leader_commit;
    safety->awaited_term = term;
    safety->awaited_ms = safety->raft->io->time(safety->raft->io);
    level_settle(safety);
}

uint64_t safety_level_ms(struct safety *safety)
{
    CHECK(safety != NULL);
    level_settle(safety);
    return safety->level_ms;
}

void safety_led_until(struct safety *safety, uint64_t at_ms)
{
    CHECK(safety != NULL);
    if (at_ms > safety->level_ms)
        safety->level_ms = at_ms;
}

/* S1: an answer may only claim what this leader's messages have compared, not everything that
 * happens to be stored. */
static void receive_append(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;
    struct raft_append_entries *append = &message->append_entries;
    uint64_t term = append->term, leader_commit = append->leader_commit, end, end_term;
    bool matches, configures;

    if (safety_rule(6))
        append_rebase(raft, append);
    if (safety_rule(22))
        append_defer(raft, append);
    end = append->prev_log_index + append->n_entries;
    /* S14: libraft commits up to what is stored here, trusting that each message reaches to the
     * leader's end. Ours are cut (FRAME_ENTRIES_TARGET_BYTES), and what lies behind the last entry
     * of this one may be an older leader's. */
    if (safety_rule(14) && append->leader_commit > end)
        append->leader_commit = end;
    /* S3 again: as leader we may have committed what our disk has not stored yet; libraft would
     * take it back to what is stored. */
    if (raft->last_stored < raft->commit_index && append->leader_commit > raft->commit_index)
        append->leader_commit = raft->commit_index;
    end_term =
        append->n_entries > 0 ? append->entries[append->n_entries - 1].term : append->prev_log_term;
    matches = append->prev_log_index == 0 ||
              safety_term_of(raft, append->prev_log_index) == append->prev_log_term;
    if (term >= raft->current_term) {
        verified_set(safety, term, 0);
        safety->verifying_index = matches ? end : 0;
    }
    configures = safety_rule(16) && term >= raft->current_term &&
                 membership_before_append(&safety->membership, append);
    safety->refusing = term < raft->current_term;
    safety->receive(raft->io, message);
    safety->refusing = false;
    safety->verifying_index = 0;
    if (configures)
        membership_settle(&safety->membership);
    if (raft->current_term == term && raft->state == RAFT_FOLLOWER && matches &&
        (end == 0 || safety_term_of(raft, end) == end_term))
        verified_set(safety, term, end);
    leader_heard(safety, term);
    level_await(safety, term, leader_commit);
}

/* S3: libraft asks for a quorum only at the end of what is stored here, which followers do not
 * reach under load, and which a quorum of followers may be ahead of while our own disk is busy.
 * Lend it the index that was answered, when that is an entry of this term (S2 holds for it too);
 * libraft counts our own copy by another field, so one that is not stored here does not count. */
static void receive_success(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;
    uint64_t stored = raft->last_stored, index = message->append_entries_result.last_log_index;

    if (raft->state != RAFT_LEADER || index == stored ||
        message->append_entries_result.term != raft->current_term ||
        (index > stored && safety_term_of(raft, index) != raft->current_term) || !safety_rule(3)) {
        safety->receive(raft->io, message);
        return;
    }
    safety->lent = true;
    safety->stored = stored;
    raft->last_stored =
        safety_term_of(raft, index) == raft->current_term ? index : raft->commit_index;
    safety->receive(raft->io, message);
    raft->last_stored = stored;
    safety->lent = false;
}

uint64_t safety_last_stored(const struct safety *safety)
{
    CHECK(safety != NULL);
    return safety->lent ? safety->stored : safety->raft->last_stored;
}

/* A voter that stored an entry of our term so much sooner than we that it would lead better. */
static bool held_long(const struct raft *raft, const struct safety_held *held, uint64_t elected_ms)
{
    const struct raft_server *server = membership_find(&raft->configuration, held->peer);

    return held->ahead_ms != 0 && held->result.term == raft->current_term && server != NULL &&
           server->role == RAFT_VOTER && elected_ms > 2 * held->ahead_ms + raft->election_timeout;
}

/* libraft steps down when it saw no answer for an election timeout, and it does not see those that
 * wait: where every disk takes longer for a write nobody would lead. But who has stored an entry of
 * our term long before us would lead better: our disk may hang. */
static void held_heard(struct safety *safety, struct safety_held *held)
{
    struct raft *raft = safety->raft;
    uint64_t elected_ms = raft->io->time(raft->io) - safety->elected_ms;

    if (held->ahead_ms == 0 &&
        safety_term_of(raft, held->result.last_log_index) == raft->current_term)
        held->ahead_ms = elected_ms + 1;
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (held_long(raft, &safety->held[i], elected_ms))
            return;
    for (unsigned i = 0; i < raft->configuration.n; i++)
        if (raft->configuration.servers[i].id == held->peer)
            raft->leader_state.progress[i].recent_recv = true;
}

/* libraft begins behind what is held only when it gets to see it: one that lags would be sent the
 * same frame for as long as our write takes, and if all do, nobody would ever be ahead of a disk
 * that hangs. It binds nobody: who does not have that much refuses what comes next. */
static void held_probe(const struct raft *raft, const struct safety_held *held)
{
    uint64_t last = raft_last_index((struct raft *)(uintptr_t)raft), next;

    next = (held->result.last_log_index < last ? held->result.last_log_index : last) + 1;
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        struct raft_progress *progress = &raft->leader_state.progress[i];
        if (raft->configuration.servers[i].id == held->peer && progress->state == PROGRESS_PROBE &&
            progress->next_index < next)
            progress->next_index = next;
    }
}

/* S2: entries of older terms are never committed by counting. Until an entry of our own term is
 * stored here, good answers wait; the newest per peer says all. */
static bool result_held(struct safety *safety, const struct raft_message *message)
{
    const struct raft *raft = safety->raft;
    const struct raft_append_entries_result *result = &message->append_entries_result;
    struct safety_held *slot = NULL;

    if (raft->state != RAFT_LEADER || result->term != raft->current_term ||
        safety_term_of(raft, raft->last_stored) == raft->current_term || !safety_rule(2))
        return false;
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct safety_held *held = &safety->held[i];
        if (held->peer == message->server_id) {
            slot = held;
            break;
        }
        if (held->peer == 0 && slot == NULL)
            slot = held;
    }
    if (slot == NULL)
        return true;
    if (slot->peer == 0 || slot->result.term < result->term)
        *slot = (struct safety_held){.peer = message->server_id, .result = *result};
    if (slot->result.last_log_index < result->last_log_index)
        slot->result = *result;
    held_probe(raft, slot);
    held_heard(safety, slot);
    return true;
}

/* A held answer is looked at when an entry was stored; each one is either still too early, of no
 * use any more, or counts now. */
void safety_replay(struct safety *safety)
{
    struct raft *raft = safety->raft;

    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct safety_held held = safety->held[i];
        struct raft_message message = {.type = RAFT_IO_APPEND_ENTRIES_RESULT};
        if (held.peer == 0)
            continue;
        if (raft->state == RAFT_LEADER && held.result.term == raft->current_term &&
            safety_term_of(raft, raft->last_stored) != raft->current_term)
            continue;
        safety->held[i].peer = 0;
        if (raft->state != RAFT_LEADER || held.result.term != raft->current_term)
            continue;
        message.server_id = held.peer;
        message.server_address = "";
        message.append_entries_result = held.result;
        receive_success(safety, &message);
    }
}

bool safety_leader_lost(const struct safety *safety)
{
    const struct raft *raft = safety->raft;

    return safety->leader_gone ||
           raft->io->time(raft->io) - safety->leader_heard_ms >= raft->election_timeout;
}

/* S9: a follower keeps a dead leader until its own timer ends and refuses every vote until then.
 * When the leader is lost here as well, the candidate has permission. */
static void vote_permit(const struct safety *safety, struct raft_request_vote *vote)
{
    const struct raft *raft = safety->raft;

    if (raft->state == RAFT_FOLLOWER && raft->follower_state.current_leader.id != 0 &&
        safety_leader_lost(safety))
        vote->disrupt_leader = true;
}

/* libraft takes an entry of a newer term at the snapshot's end for a sign that it has everything.
 * But the leader's is committed, so ours never was, and where the log behind it is compacted the
 * snapshot would be sent again and again. */
static bool install_conflicts(const struct raft *raft, const struct raft_install_snapshot *install)
{
    return install->term >= raft->current_term && install->last_index > raft->commit_index &&
           safety_term_of(raft, install->last_index) > install->last_term &&
           raft->last_stored >= raft_last_index((struct raft *)(uintptr_t)raft); /* S22 */
}

/* So libraft sees a term that is newer than that, until it has begun to install. */
static void install_conflicting(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;
    struct raft_install_snapshot *install = &message->install_snapshot;
    uint64_t index = install->last_index, term = install->last_term;
    uint64_t shown = safety_term_of(raft, index) + 1;

    safety->install_term = term;
    install->last_term = shown;
    safety->receive(raft->io, message);
    safety->install_term = 0;
    if (raft->log.snapshot.last_index == index && raft->log.snapshot.last_term == shown)
        raft->log.snapshot.last_term = term;
}

/* S1 again: libraft may ignore the snapshot, so what counts is what the log says afterwards. It
 * answers at once when it has all of it, and also when what it has there is of a newer term, and
 * not committed. */
static void receive_install(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;
    uint64_t term = message->install_snapshot.term;
    uint64_t last_index = message->install_snapshot.last_index;
    uint64_t last_term = message->install_snapshot.last_term;

    if (term >= raft->current_term) {
        verified_set(safety, term, 0);
        safety->verifying_index = raft->log.snapshot.last_index >= last_index ||
                                          safety_term_of(raft, last_index) == last_term
                                      ? last_index
                                      : 0;
    }
    if (safety_rule(1) && install_conflicts(raft, &message->install_snapshot))
        install_conflicting(safety, message);
    else
        safety->receive(raft->io, message);
    safety->verifying_index = 0;
    if (safety_installing(raft))
        membership_install_begun(&safety->membership);
    if (raft->current_term == term && safety_term_of(raft, last_index) == last_term)
        verified_set(safety, term, last_index);
    leader_heard(safety, term);
}

/* S18: who is asked for a vote is a voter in the candidate's configuration, which is newer when
 * ours still says learner: roles only go up. libraft refuses then, and two voters of whom one has
 * not heard of its promotion never elect anybody. Raft votes without regard to the own
 * configuration (4.1). */
static void receive_vote(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;
    struct raft_server *self =
        (struct raft_server *)(uintptr_t)membership_find(&raft->configuration, raft->id);
    int role = self == NULL || !safety_rule(18) ? RAFT_VOTER : self->role;

    if (safety_rule(9))
        vote_permit(safety, &message->request_vote);
    if (role != RAFT_VOTER && safety_rule(18))
        self->role = RAFT_VOTER;
    safety->receive(raft->io, message);
    if (role != RAFT_VOTER && safety_rule(18))
        self->role = role; /* a vote changes no configuration */
}

void safety_receive(struct safety *safety, struct raft_message *message)
{
    struct raft *raft = safety->raft;

    CHECK(safety->receive != NULL);
    CHECK(!safety->lent);
    CHECK(message != NULL);
    switch (message->type) {
    case RAFT_IO_APPEND_ENTRIES:
        receive_append(safety, message);
        return;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        if (message->append_entries_result.rejected != 0)
            safety->receive(raft->io, message);
        else if (!result_held(safety, message))
            receive_success(safety, message);
        return;
    case RAFT_IO_REQUEST_VOTE:
        if (safety_rule(8) && safety_installing(raft))
            return; /* S8 */
        receive_vote(safety, message);
        return;
    case RAFT_IO_REQUEST_VOTE_RESULT:
        safety->receive(raft->io, message);
        return;
    case RAFT_IO_TIMEOUT_NOW:
        if (!safety_rule(8) || !safety_installing(raft))
            safety->receive(raft->io, message);
        return;
    case RAFT_IO_INSTALL_SNAPSHOT:
        receive_install(safety, message);
        return;
    default:
        safety->receive(raft->io, message);
    }
}

/* S13: libraft answers a pre-vote with the candidate's own term. A member with the best log but an
 * old term then never learns why it is refused, the others may not lead for their worse logs, and
 * nobody is ever elected. */
static void pre_vote_answer(const struct raft *raft, struct raft_request_vote_result *result)
{
    if (result->pre_vote == raft_tribool_true && !result->vote_granted &&
        result->term < raft->current_term)
        result->term = raft->current_term;
}

bool safety_send(const struct safety *safety, struct raft_message *message)
{
    struct raft_append_entries_result *result = &message->append_entries_result;
    const struct raft *raft = safety->raft;
    uint64_t known;

    CHECK(message != NULL);
    if (safety_rule(13) && message->type == RAFT_IO_REQUEST_VOTE_RESULT)
        pre_vote_answer(raft, &message->request_vote_result);
    if (message->type != RAFT_IO_APPEND_ENTRIES_RESULT)
        return true;
    if (result->rejected != 0) {
        if (safety_rule(7) && result->last_log_index < raft->log.snapshot.last_index)
            result->last_log_index = raft->log.snapshot.last_index; /* S7 */
        return true;
    }
    /* S20: this one says no for its term alone, but libraft writes the index before the refused
     * entries as the refused one: 0 for a log compared from its beginning, which reads like a yes.
     * A reader of an older term learns ours. One that leads our term by now was compared with
     * nothing here, and counts nothing. */
    if (safety->refusing && safety_rule(20)) {
        result->last_log_index = 0;
        return true;
    }
    if (!safety_rule(1))
        return true;
    if (result->term != safety->verified_term)
        return false; /* S1 */
    known = safety->verified_index > safety->verifying_index ? safety->verified_index
                                                             : safety->verifying_index;
    if (result->last_log_index > known)
        result->last_log_index = known; /* S1 */
    /* A snapshot whose entries are here already is answered by its last index, also while our disk
     * has not stored them yet. */
    if (result->last_log_index > safety_last_stored(safety))
        result->last_log_index = safety_last_stored(safety);
    return true;
}
