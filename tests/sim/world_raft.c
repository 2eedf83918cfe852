/* Checks of replication, from inside of every member: I1-I4, I8, I9, and of I6 that what counts as
 * stored is.
 *
 * Flow     after every event the few numbers of each member that may have changed are compared with
 *          what they were (step); at every election the new leader's log is compared with all that
 *          is committed (I4); entries are compared when they are appended, when a member knows them
 *          to be committed, and all of a log at elections and every few seconds (I3).
 * Shapes   tables over terms and indexes, grown as they come.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/core/hash.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

/* Of one index: what was ever stored under it, by term. */
struct stored {
    uint64_t term;
    uint64_t hash;
    uint64_t before; /* the term of the entry before it; 0: not seen yet */
};
enum { STORED_PER_INDEX = 4, LARGE_BYTES = 256, COMPARED_AGAIN = 64 };
struct index_facts {
    uint64_t committed_term; /* of the entry; 0: not known to be committed */
    uint64_t committed_in;   /* the term in which it was */
    struct stored stored[STORED_PER_INDEX];
};

/* Of a configuration, one bit each by id. */
struct servers {
    uint32_t all, voters;
};

struct raft_checks {
    uint64_t *leaders; /* by term: member + 1 */
    uint64_t *votes;   /* by term and member: whom */
    size_t term_count;
    struct index_facts *indexes;
    size_t index_count;
    uint64_t committed;    /* the highest index that any member knew to be committed */
    uint64_t voters_index; /* of the newest committed configuration */
    struct servers newest; /* of it; no voters: none yet */
    struct servers ever;   /* of all committed ones: ids are used once, and roles only go up */
    uint32_t removed;      /* whose removal was acknowledged */
};

void raft_checks_init(struct world *world)
{
    world->raft = check_calloc(1, sizeof(*world->raft));
}

void raft_checks_close(struct world *world)
{
    free(world->raft->leaders);
    free(world->raft->votes);
    free(world->raft->indexes);
    free(world->raft);
}

/* ---- tables ---- */

static size_t grown(size_t count, uint64_t wanted)
{
    size_t more = count == 0 ? 1024 : count;

    CHECK(wanted < UINT64_C(1) << 28);
    while (more <= wanted)
        more *= 2;
    return more;
}

static void terms_reserve(struct raft_checks *checks, uint64_t term)
{
    size_t count;

    if (term < checks->term_count)
        return;
    count = grown(checks->term_count, term);
    checks->leaders = check_realloc(checks->leaders, count, sizeof(*checks->leaders));
    checks->votes = check_realloc(checks->votes, count, sizeof(*checks->votes) * WORLD_MEMBERS_MAX);
    memset(checks->leaders + checks->term_count, 0,
           (count - checks->term_count) * sizeof(*checks->leaders));
    memset(checks->votes + checks->term_count * WORLD_MEMBERS_MAX, 0,
           (count - checks->term_count) * sizeof(*checks->votes) * WORLD_MEMBERS_MAX);
    checks->term_count = count;
}

static struct index_facts *facts_at(struct raft_checks *checks, uint64_t index)
{
    if (index >= checks->index_count) {
        size_t count = grown(checks->index_count, index);
        checks->indexes = check_realloc(checks->indexes, count, sizeof(*checks->indexes));
        memset(checks->indexes + checks->index_count, 0,
               (count - checks->index_count) * sizeof(*checks->indexes));
        checks->index_count = count;
    }
    return &checks->indexes[index];
}

/* ---- I3 ---- */

/* Of a large one its ends: what is wrong about a log is whole entries. */
static uint64_t entry_hash(const struct raft_entry *entry)
{
    size_t length = entry->buf.len, part = length < LARGE_BYTES ? length : LARGE_BYTES / 2;
    const uint8_t *bytes = entry->buf.base;
    uint64_t hash = fsm_hash_bytes(entry->type ^ length << 8, bytes, part);

    return fsm_hash_bytes(hash, bytes + length - part, part) | 1;
}

/* The same index and term: the same entry, on every member and for ever; and the same term before
 * it, so that by induction all that comes before is the same. */
static void entry_compare(struct world *world, unsigned number, uint64_t index,
                          const struct raft_entry *entry, uint64_t before)
{
    struct index_facts *facts = facts_at(world->raft, index);
    uint64_t hash = entry_hash(entry);
    size_t slot = 0;

    while (slot < STORED_PER_INDEX && facts->stored[slot].hash != 0 &&
           facts->stored[slot].term != entry->term)
        slot++;
    if (slot == STORED_PER_INDEX) { /* terms only grow: the oldest matters least */
        memmove(&facts->stored[0], &facts->stored[1],
                (STORED_PER_INDEX - 1) * sizeof(facts->stored[0]));
        slot--;
        facts->stored[slot].hash = 0;
    }
    if (facts->stored[slot].hash == 0)
        facts->stored[slot] = (struct stored){entry->term, hash, 0};
    if (facts->stored[slot].before == 0)
        facts->stored[slot].before = before;
    if (facts->stored[slot].hash != hash)
        world_violation(world, "I3", "member %u has another entry %" PRIu64 " of term %llu",
                        number + 1, index, entry->term);
    if (before != 0 && facts->stored[slot].before != before)
        world_violation(world, "I3",
                        "member %u has entry %" PRIu64 " of term %llu behind one of term %" PRIu64
                        ", others have term %" PRIu64 " there",
                        number + 1, index, entry->term, before, facts->stored[slot].before);
}

/* Of a configuration entry: version, count, then id, address NUL and role of each. */
static struct servers servers_of(const struct raft_entry *entry)
{
    const uint8_t *at = (const uint8_t *)entry->buf.base + 1, *end = at - 1 + entry->buf.len;
    uint64_t count, id;
    struct servers servers = {0, 0};

    memcpy(&count, at, sizeof(count));
    at += sizeof(count);
    for (uint64_t i = 0; i < count; i++) {
        CHECK(at + sizeof(id) < end);
        memcpy(&id, at, sizeof(id));
        at += sizeof(id) + strnlen((const char *)at + sizeof(id), (size_t)(end - at) - sizeof(id)) +
              1;
        CHECK(at < end && id < 32);
        servers.all |= UINT32_C(1) << id;
        if (*at++ == RAFT_VOTER)
            servers.voters |= UINT32_C(1) << id;
    }
    return servers;
}

/* I9: one entry changes at most one vote. */
static void voters_compare(struct world_member *member, const struct raft_entry *entry,
                           uint64_t index, uint32_t *newer)
{
    uint32_t voters;

    if (entry->type != RAFT_CHANGE)
        return;
    voters = servers_of(entry).voters;
    if (*newer != 0 && __builtin_popcount(*newer ^ voters) > 1)
        world_violation(member->world, "I9",
                        "the configuration after index %" PRIu64 " changes voters %x to %x", index,
                        voters, *newer);
    *newer = voters;
}

/* ... also when the one before has left all logs: in the order in which they are committed. */
static void voters_committed(struct world_member *member, uint64_t index)
{
    struct raft_checks *checks = member->world->raft;
    const struct raft_entry *entry = safety_entry(&member_consensus(member)->raft, index);
    struct servers servers;

    if (entry == NULL || entry->type != RAFT_CHANGE || index <= checks->voters_index)
        return;
    servers = servers_of(entry);
    if (checks->newest.voters != 0 &&
        __builtin_popcount(checks->newest.voters ^ servers.voters) > 1)
        world_violation(member->world, "I9",
                        "the configuration committed at index %" PRIu64
                        " changes voters %x to %x, those of index %" PRIu64,
                        index, checks->newest.voters, servers.voters, checks->voters_index);
    if ((servers.all & checks->removed) != 0)
        world_violation(member->world, "I6",
                        "the configuration committed at index %" PRIu64
                        " has members %x, of whom %x were removed",
                        index, servers.all, servers.all & checks->removed);
    checks->newest = servers;
    checks->ever.all |= servers.all;
    checks->ever.voters |= servers.voters;
    checks->voters_index = index;
}

/* I6: a configuration in which it was done is committed. */
void raft_checks_changed(struct world *world, const char *method, uint64_t id)
{
    struct raft_checks *checks = world->raft;
    uint32_t bit = UINT32_C(1) << id;
    bool done;

    CHECK(id < 32);
    if (strcmp(method, "OperatorService/AddMember") == 0) {
        done = (checks->ever.all & bit) != 0;
    } else if (strcmp(method, "OperatorService/PromoteMember") == 0) {
        done = (checks->ever.voters & bit) != 0;
    } else {
        done = (checks->ever.all & bit) != 0 && (checks->newest.all & bit) == 0;
        checks->removed |= bit;
    }
    if (!done)
        world_violation(world, "I6",
                        "%s of %" PRIu64 " is acknowledged, and the configuration committed at "
                        "index %" PRIu64 " has members %x, of whom %x vote",
                        method, id, checks->voters_index, checks->newest.all,
                        checks->newest.voters);
}

static void log_compare(struct world_member *member)
{
    struct raft *raft = &member_consensus(member)->raft;
    uint64_t from =
        member->compared_index > COMPARED_AGAIN ? member->compared_index - COMPARED_AGAIN : 0;
    uint32_t newer = 0;

    for (uint64_t index = raft_last_index(raft); index > from; index--) {
        const struct raft_entry *entry = safety_entry(raft, index);
        if (entry == NULL)
            break;
        entry_compare(member->world, member->number, index, entry, safety_term_of(raft, index - 1));
        voters_compare(member, entry, index, &newer);
    }
    member->compared_index = raft_last_index(raft);
}

void raft_checks_logs(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up)
            log_compare(&world->members[i]);
}

/* ---- I4 ---- */

/* What was committed in an earlier term. A leader that hears of its election late may find that a
 * later term has begun. */
static void leader_complete(struct world_member *member, uint64_t term)
{
    struct world *world = member->world;
    struct raft_checks *checks = world->raft;
    struct raft *raft = &member_consensus(member)->raft;
    uint64_t last = raft_last_index(raft), index = checks->committed;

    while (index > 0 && facts_at(checks, index)->committed_in >= term)
        index--;
    if (last < index)
        world_violation(world, "I4",
                        "member %u leads term %" PRIu64 " with a log up to %" PRIu64 ", %" PRIu64
                        " is committed",
                        member->number + 1, term, last, index);
    for (; index > 0; index--) {
        uint64_t expected = facts_at(checks, index)->committed_term;
        const struct raft_entry *entry = safety_entry(raft, index);
        if (entry == NULL)
            return;
        if (expected != 0 && entry->term != expected)
            world_violation(world, "I4",
                            "member %u leads term %" PRIu64 " and has entry %" PRIu64
                            " of term %llu, committed was term %" PRIu64,
                            member->number + 1, term, index, entry->term, expected);
    }
}

/* ---- I1 ---- */

void raft_checks_role(struct world_member *member, enum consensus_role role, uint64_t term)
{
    struct world *world = member->world;
    struct raft_checks *checks = world->raft;

    if (role != CONSENSUS_LEADER)
        return;
    terms_reserve(checks, term);
    if (checks->leaders[term] != 0 && checks->leaders[term] != member->number + 1)
        world_violation(world, "I1", "members %" PRIu64 " and %u both lead term %" PRIu64,
                        checks->leaders[term], member->number + 1, term);
    if (checks->leaders[term] == 0)
        world->counts.elections++;
    checks->leaders[term] = member->number + 1;
    leader_complete(member, term);
    log_compare(member);
}

/* ---- every event ---- */

/* I8: also what was read back from the disk after a crash. */
static void vote_check(struct world_member *member, uint64_t term, uint64_t vote)
{
    struct raft_checks *checks = member->world->raft;
    uint64_t *known;

    terms_reserve(checks, term);
    known = &checks->votes[term * WORLD_MEMBERS_MAX + member->number];
    if (vote == 0)
        return;
    if (*known != 0 && *known != vote)
        world_violation(member->world, "I8",
                        "member %u voted for %" PRIu64 " and for %" PRIu64 " in term %" PRIu64,
                        member->number + 1, *known, vote, term);
    *known = vote;
}

/* Committed entries: the term that each was committed with, remembered once, compared ever
 * after. */
static void commit_check(struct world_member *member, const struct raft *raft)
{
    struct raft_checks *checks = member->world->raft;
    uint64_t index = member->seen_commit + 1;

    if (safety_installing(raft))
        return;
    for (; index <= raft->commit_index; index++) {
        struct index_facts *facts = facts_at(checks, index);
        const struct raft_entry *entry = safety_entry(raft, index);
        uint64_t term = safety_term_of(raft, index);
        if (entry != NULL) /* before a snapshot takes it out of the log */
            entry_compare(member->world, member->number, index, entry,
                          safety_term_of(raft, index - 1));
        if (facts->committed_in == 0) {
            facts->committed_in = raft->current_term;
            voters_committed(member, index);
        }
        if (term != 0 && facts->committed_term == 0)
            facts->committed_term = term;
        if (term != 0 && facts->committed_term != term)
            world_violation(member->world, "I4",
                            "entry %" PRIu64 " was committed with term %" PRIu64
                            ", member %u commits it with term %" PRIu64,
                            index, facts->committed_term, member->number + 1, term);
    }
    member->seen_commit = raft->commit_index;
    if (raft->commit_index > checks->committed)
        checks->committed = raft->commit_index;
}

/* What was appended. */
static void appended_compare(struct world_member *member, const struct raft *raft, uint64_t last)
{
    for (uint64_t index = member->seen_last_index + 1; index <= last; index++) {
        const struct raft_entry *entry = safety_entry(raft, index);
        if (entry != NULL)
            entry_compare(member->world, member->number, index, entry,
                          safety_term_of(raft, index - 1));
    }
}

static void member_step(struct world_member *member)
{
    struct consensus *consensus = member_consensus(member);
    struct raft *raft = &consensus->raft;
    uint64_t last = raft_last_index(raft);
    bool leads = raft->state == RAFT_LEADER;

    if (consensus->failed || consensus->failure.code != ERR_NONE)
        return;
    if (raft->current_term < member->seen_term)
        world_violation(member->world, "I8", "member %u went back from term %" PRIu64 " to %llu",
                        member->number + 1, member->seen_term, raft->current_term);
    if (raft->current_term != member->seen_term || raft->voted_for != member->seen_vote)
        vote_check(member, raft->current_term, raft->voted_for);
    if (leads && member->seen_leads && raft->current_term == member->seen_term &&
        last < member->seen_last_index)
        world_violation(member->world, "I2",
                        "member %u leads term %llu and its log went back from %" PRIu64
                        " to %" PRIu64,
                        member->number + 1, raft->current_term, member->seen_last_index, last);
    if (safety_last_stored(&consensus->safety) > consensus->wal.last_index)
        world_violation(member->world, "I6",
                        "member %u counts entries up to %" PRIu64
                        " as stored, its disk has them up to %" PRIu64,
                        member->number + 1, safety_last_stored(&consensus->safety),
                        consensus->wal.last_index);
    appended_compare(member, raft, last);
    if (raft->commit_index != member->seen_commit)
        commit_check(member, raft);
    member->seen_term = raft->current_term;
    member->seen_vote = raft->voted_for;
    member->seen_last_index = last;
    member->seen_leads = leads;
}

/* What a member holds changes only when it is touched. */
void raft_checks_step(struct world *world)
{
    uint64_t touched = world_touched_members(world);

    for (; touched != 0; touched &= touched - 1) {
        struct world_member *member = &world->members[__builtin_ctzll(touched)];
        if (member->up)
            member_step(member);
    }
}

/* Read back from the disk: the term may not have gone back, and the vote in it is the one that was
 * given. */
void raft_checks_started(struct world_member *member)
{
    member->seen_leads = false;
    member->seen_commit = 0;
    member->compared_index = 0;
    member_step(member);
    log_compare(member);
}

void raft_checks_wiped(struct world_member *member)
{
    struct raft_checks *checks = member->world->raft;

    member->seen_term = member->seen_vote = 0;
    for (size_t term = 0; term < checks->term_count; term++)
        checks->votes[term * WORLD_MEMBERS_MAX + member->number] = 0;
}

uint64_t raft_checks_committed(const struct world *world)
{
    return world->raft->committed;
}
