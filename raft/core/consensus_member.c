/* Changing the members: one at a time, by the leader, each step an entry of the log. See
 * consensus_internal.h.
 *
 * Flow     consensus_member_*() checks -> (add: the address is asked) -> the outermost core_leave()
 *          gives it to libraft (never from inside its own calls: it replaces the configuration
 *          under its own feet) -> committed -> done(). An add has two entries, raft_add() as a
 *          spare and raft_assign() as a stand-by; the second one is finished by whoever leads then.
 * Errors   see consensus.h. Each refusal says the numbers and what to do next.
 * Source   Ongaro 2014, 4.1 to 4.3; no change before an entry of the leader's own term is committed
 *          (Ongaro, raft-dev, 2015).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"
#include "src/base/id.h"

enum { NAMES_BYTES = 256 };

/* ---- checks ---- */

static const char *contact_text(const struct consensus *consensus, uint64_t id, char text[64])
{
    uint64_t age_ms = core_contact_age_ms(consensus, id);

    if (age_ms == UINT64_MAX)
        snprintf(text, 64, "never heard of");
    else
        snprintf(text, 64, "last contact %" PRIu64 " ms ago", age_ms);
    return text;
}

/* The one that a change is about; the configuration may not have it yet. */
static const char *change_name(const struct consensus *consensus)
{
    const struct consensus_member *member = &consensus->change.member;

    return member->name[0] != '\0' ? member->name : core_member_name(consensus, member->id);
}

/* One change at a time, and only after an entry of the own term: else two majorities of two
 * configurations could decide apart (Ongaro, raft-dev, 2015). */
static int leader_check(const struct consensus *consensus, struct err *err)
{
    const struct raft *raft = &consensus->raft;

    if (consensus->failed || consensus->closing || !core_is_leader(consensus))
        return err_set(err, ERR_UNAVAILABLE, "this member is not the leader: ask the leader");
    if (consensus->change.kind != CHANGE_NONE)
        return err_set(err, ERR_REFUSED,
                       "another change of the members (member %s) is under way: try again when it "
                       "is done",
                       change_name(consensus));
    if (raft->configuration_uncommitted_index != 0)
        return err_set(err, ERR_REFUSED,
                       "another change of the members (log index %llu) is not committed yet "
                       "(commit index %llu): try again when it is",
                       raft->configuration_uncommitted_index, raft->commit_index);
    if (!core_term_committed(consensus))
        return err_set(err, ERR_UNAVAILABLE,
                       "this leader has committed nothing in its term %llu yet: try again",
                       raft->current_term);
    return 0;
}

/* Ids, names and addresses are unique among members; ids also among those that were removed, whose
 * votes and acknowledgements belong to another folder. */
static int unused_check(const struct consensus *consensus, const struct consensus_member *member,
                        struct err *err)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    const struct book_record *record = book_find(&consensus->book, member->id);
    uint64_t highest = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        highest = server->id > highest ? server->id : highest;
        if (server->id == member->id)
            return err_set(err, ERR_REFUSED, "id %" PRIu64 " is in use by member %s", member->id,
                           server->address);
        if (strcmp(server->address, member->name) == 0)
            return err_set(err, ERR_REFUSED, "name %s is in use by member %s (id %llu)",
                           member->name, server->address, server->id);
        if (strcmp(core_peer_address(consensus, server->id), member->address) == 0)
            return err_set(err, ERR_REFUSED, "address %s is in use by member %s", member->address,
                           server->address);
    }
    for (size_t i = 0; i < consensus->book.count; i++)
        if (consensus->book.records[i].removed && consensus->book.records[i].member.id > highest)
            highest = consensus->book.records[i].member.id;
    if (record != NULL && record->removed)
        return err_set(err, ERR_REFUSED,
                       "id %" PRIu64 " belonged to %s, which was removed, and ids are never used "
                       "again: use %" PRIu64 " or higher",
                       member->id, record->member.name, highest + 1);
    return 0;
}

static int add_check(const struct consensus *consensus, const struct consensus_member *member,
                     struct err *err)
{
    if (leader_check(consensus, err) != 0)
        return -1;
    if (member->id == 0 || member->id > INT64_MAX || !id_valid(member->name) ||
        member->address[0] == '\0')
        return err_set(err, ERR_INVALID, "a member needs an id from 1, a name and an address");
    if (strcmp(member->address, consensus->transport.self.address) == 0)
        return err_set(err, ERR_REFUSED, "address %s is in use by member %s", member->address,
                       consensus->transport.self.name);
    if (unused_check(consensus, member, err) != 0)
        return -1;
    if (consensus->raft.configuration.n >= CONSENSUS_MEMBERS_MAX)
        return err_set(err, ERR_REFUSED, "the cluster has %u members, %d are possible: remove one",
                       consensus->raft.configuration.n, CONSENSUS_MEMBERS_MAX);
    return 0;
}

/* What the leader's log has and this member is not known to have. */
static uint64_t entries_behind(const struct consensus *consensus, uint64_t id)
{
    const struct raft *raft = &consensus->raft;
    uint64_t last = raft_last_index((struct raft *)(uintptr_t)raft);
    uint64_t match = raft->leader_state.progress[core_server_place(consensus, id)].match_index;

    return match < last ? last - match : 0;
}

/* Of the voters without `without` those that answer, and are at most `behind_max` entries behind;
 * names of the others. */
static unsigned voters_at_hand(const struct consensus *consensus, uint64_t without,
                               uint64_t behind_max, char names[NAMES_BYTES])
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    unsigned count = 0;
    char contact[64];
    uint64_t behind;
    size_t used = 0;

    names[0] = '\0';
    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        if (server->role != RAFT_VOTER || server->id == without)
            continue;
        behind = entries_behind(consensus, server->id);
        if (core_reachable(consensus, server->id) && behind <= behind_max) {
            count++;
            continue;
        }
        used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "",
                                 server->address);
        if (used < NAMES_BYTES && behind_max < UINT64_MAX)
            used += (size_t)snprintf(names + used, NAMES_BYTES - used,
                                     " (%" PRIu64 " entries behind)", behind);
        else if (used < NAMES_BYTES)
            used += (size_t)snprintf(names + used, NAMES_BYTES - used, " (%s)",
                                     contact_text(consensus, server->id, contact));
        if (used >= NAMES_BYTES)
            used = NAMES_BYTES - 1;
    }
    return count;
}

static int promote_check(const struct consensus *consensus, uint64_t id, struct err *err)
{
    const struct raft *raft = &consensus->raft;
    const struct raft_server *server = membership_find(&raft->configuration, id);
    uint64_t last = raft_last_index((struct raft *)(uintptr_t)raft), match;
    unsigned voters = (unsigned)core_voter_count(consensus) + 1, reachable;
    char names[NAMES_BYTES], contact[64];

    if (leader_check(consensus, err) != 0)
        return -1;
    if (server == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no member %" PRIu64 ": add it first", id);
    if (server->role == RAFT_VOTER)
        return err_set(err, ERR_REFUSED, "member %s is a voter already", server->address);
    if (!core_reachable(consensus, id))
        return err_set(err, ERR_REFUSED,
                       "member %s is not reachable at %s (%s): it would be missing in every "
                       "majority; start it",
                       server->address, core_peer_address(consensus, id),
                       contact_text(consensus, id, contact));
    match = raft->leader_state.progress[core_server_place(consensus, id)].match_index;
    /* It must also know that it is a learner, so that it can be asked for its vote (S18). */
    if (match < raft->configuration_index)
        return err_set(err, ERR_REFUSED,
                       "member %s has %" PRIu64 " of %" PRIu64 " entries and not yet its own "
                       "addition (log index %llu): wait until it has caught up, then promote it",
                       server->address, match, last, raft->configuration_index);
    if (match + CONSENSUS_PROMOTE_LAG_MAX < last)
        return err_set(err, ERR_REFUSED,
                       "member %s is %" PRIu64 " entries behind (it has %" PRIu64 " of %" PRIu64
                       "), at most %d are allowed: wait until it has caught up, then promote it",
                       server->address, last - match, match, last, CONSENSUS_PROMOTE_LAG_MAX);
    reachable = voters_at_hand(consensus, id, UINT64_MAX, names) + 1;
    if (reachable < voters / 2 + 1)
        return err_set(
            err, ERR_REFUSED,
            "%u voters would need %u, and only %u are reachable (not %s): start those first",
            voters, voters / 2 + 1, reachable, names);
    return 0;
}

static int remove_check(const struct consensus *consensus, uint64_t id, struct err *err)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    const struct raft_server *server = membership_find(configuration, id);
    const struct book_record *record = book_find(&consensus->book, id);
    unsigned voters = (unsigned)core_voter_count(consensus) - 1, reachable, level;
    char names[NAMES_BYTES];

    if (leader_check(consensus, err) != 0)
        return -1;
    if (server == NULL && record != NULL && record->removed)
        return err_set(err, ERR_NOT_FOUND, "member %s was removed already (log index %" PRIu64 ")",
                       record->member.name, record->removed_index);
    if (server == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no member %" PRIu64, id);
    if (server->role != RAFT_VOTER)
        return 0;
    if (voters == 0)
        return err_set(err, ERR_REFUSED,
                       "%s is the last voter: add and promote another member first",
                       server->address);
    if (id == consensus->config.member_id)
        return err_set(err, ERR_REFUSED,
                       "%s leads: transfer leadership first, the new leader can remove it",
                       server->address);
    reachable = voters_at_hand(consensus, id, UINT64_MAX, names);
    if (reachable < voters / 2 + 1)
        return err_set(err, ERR_REFUSED,
                       "without %s %u voters would remain, quorum %u of %u, and %s %s not "
                       "reachable: writes would stop; start what is missing, or remove that first",
                       server->address, voters, voters / 2 + 1, voters, names,
                       voters - reachable > 1 ? "are" : "is");
    /* Each commit would wait until one that answers has all that came before. */
    level = voters_at_hand(consensus, id, CONSENSUS_PROMOTE_LAG_MAX, names);
    if (level < voters / 2 + 1)
        return err_set(err, ERR_REFUSED,
                       "without %s %u voters would remain, quorum %u of %u, and %s %s still to "
                       "catch up: writes would wait for that; wait until at most %d entries are "
                       "missing, then remove %s",
                       server->address, voters, voters / 2 + 1, voters, names,
                       voters - level > 1 ? "have" : "has", CONSENSUS_PROMOTE_LAG_MAX,
                       server->address);
    return 0;
}

/* ---- one change ---- */

static void change_finish(struct consensus *consensus, const struct err *err)
{
    struct change *change = &consensus->change;

    change->stage = CHANGE_OVER;
    change->err.code = ERR_NONE;
    if (err != NULL)
        change->err = *err;
}

static void change_begin(struct consensus *consensus, enum change_kind kind,
                         const struct consensus_member *member, consensus_change_fn *done,
                         void *data)
{
    struct change *change = &consensus->change;

    CHECK(change->kind == CHANGE_NONE);
    memset(change, 0, sizeof(*change));
    change->kind = kind;
    change->stage = CHANGE_READY;
    change->member = *member;
    change->done = done;
    change->data = data;
}

/* From inside libraft: only noted. */
static void request_done(struct raft_change *request, int status)
{
    struct consensus *consensus = request->data;
    struct change *change = &consensus->change;
    struct err err;

    CHECK(change->stage == CHANGE_UNDER_WAY);
    if (status == 0) {
        change->stage = CHANGE_COMMITTED;
        return;
    }
    if (status == RAFT_NOCONNECTION)
        err_set(&err, ERR_REFUSED,
                "member %s did not catch up with the load in time: nothing was changed; try again",
                change_name(consensus));
    else
        err_set(&err, ERR_TIMEOUT,
                "leadership was lost before the change of member %s was known to be committed: "
                "look at the list of members",
                change_name(consensus));
    change_finish(consensus, &err);
}

static int change_submit(struct consensus *consensus)
{
    struct change *change = &consensus->change;
    struct raft *raft = &consensus->raft;
    const struct raft_server *server = membership_find(&raft->configuration, change->member.id);

    change->request.data = consensus;
    switch (change->kind) {
    case CHANGE_ADD:
        return server == NULL ? raft_add(raft, &change->request, change->member.id,
                                         change->member.name, request_done)
                              : raft_assign(raft, &change->request, change->member.id, RAFT_STANDBY,
                                            request_done);
    case CHANGE_PROMOTE:
        return raft_assign(raft, &change->request, change->member.id, RAFT_VOTER, request_done);
    case CHANGE_REMOVE:
        return raft_remove(raft, &change->request, change->member.id, request_done);
    case CHANGE_NONE:
    case CHANGE_PROBE:
        break;
    }
    CHECK_UNREACHABLE("kind of change");
}

static void change_ready(struct consensus *consensus)
{
    struct change *change = &consensus->change;
    struct err err;
    int status;

    if (!core_is_leader(consensus)) {
        err_set(&err, ERR_UNAVAILABLE, "this member leads no more: ask the leader");
        change_finish(consensus, &err);
        return;
    }
    change->stage = CHANGE_UNDER_WAY;
    status = change_submit(consensus);
    if (status == 0)
        return;
    err_set(&err, ERR_REFUSED, "the change was refused: %s; try again", raft_strerror(status));
    change_finish(consensus, &err);
}

/* An add is over with its second entry: as a spare the member gets no log. */
static void change_committed(struct consensus *consensus)
{
    struct change *change = &consensus->change;
    const struct raft_server *server =
        membership_find(&consensus->raft.configuration, change->member.id);

    if (change->kind == CHANGE_ADD && server != NULL && server->role == RAFT_SPARE)
        change->stage = CHANGE_READY;
    else
        change_finish(consensus, NULL);
}

/* The change is gone before done() runs, which may ask for the next one. */
static void change_over(struct consensus *consensus)
{
    struct change over = consensus->change;

    memset(&consensus->change, 0, sizeof(consensus->change));
    if (over.done != NULL)
        over.done(over.data, over.err.code == ERR_NONE ? 0 : -1,
                  over.err.code == ERR_NONE ? NULL : &over.err);
}

bool core_change_settle(struct consensus *consensus)
{
    struct change *change = &consensus->change;

    if (change->kind == CHANGE_NONE || consensus->closing)
        return false;
    switch (change->stage) {
    case CHANGE_PROBING:
    case CHANGE_UNDER_WAY:
        return false;
    case CHANGE_READY:
        change_ready(consensus);
        return true;
    case CHANGE_COMMITTED:
        change_committed(consensus);
        return true;
    case CHANGE_OVER:
        change_over(consensus);
        return true;
    }
    CHECK_UNREACHABLE("stage of a change");
}

/* At the end of this member's life; libraft has told its part already. */
void core_change_drop(struct consensus *consensus)
{
    struct change *change = &consensus->change;
    struct err err;

    if (change->kind == CHANGE_NONE)
        return;
    if (change->stage != CHANGE_OVER) {
        err_set(&err, ERR_TIMEOUT, "this member stopped: look at the list of members");
        change_finish(consensus, &err);
    }
    change_over(consensus);
}

/* ---- asked from outside ---- */

static void change_probed(void *data, const struct err *failed)
{
    struct consensus *consensus = data;
    struct change *change = &consensus->change;
    struct err err;

    core_enter(consensus);
    change->stage = CHANGE_READY;
    if (failed != NULL)
        change_finish(consensus, failed);
    else if (change->kind == CHANGE_PROBE)
        change_finish(consensus, NULL);
    else if (!core_is_leader(consensus) || consensus->raft.configuration_uncommitted_index != 0) {
        err_set(&err, ERR_UNAVAILABLE, "leadership changed while %s was asked: ask the leader",
                change->member.address);
        change_finish(consensus, &err);
    } else {
        consensus_member_put(consensus, &change->member);
    }
    core_leave(consensus);
}

static void probe_then(struct consensus *consensus, enum change_kind kind,
                       const struct consensus_member *member, consensus_change_fn *done, void *data)
{
    struct err err;

    if (add_check(consensus, member, &err) != 0) {
        done(data, -1, &err);
        return;
    }
    change_begin(consensus, kind, member, done, data);
    consensus->change.stage = CHANGE_PROBING;
    probe_start(&consensus->probe, &consensus->transport, &consensus->change.member, change_probed,
                consensus);
}

void consensus_member_add(struct consensus *consensus, const struct consensus_member *member,
                          consensus_change_fn *done, void *data)
{
    CHECK(consensus != NULL);
    CHECK(member != NULL);
    CHECK(done != NULL);
    probe_then(consensus, CHANGE_ADD, member, done, data);
}

void consensus_member_probe(struct consensus *consensus, const struct consensus_member *member,
                            consensus_change_fn *done, void *data)
{
    CHECK(consensus != NULL);
    CHECK(member != NULL);
    CHECK(done != NULL);
    probe_then(consensus, CHANGE_PROBE, member, done, data);
}

static void change_now(struct consensus *consensus, enum change_kind kind, uint64_t id,
                       consensus_change_fn *done, void *data)
{
    struct consensus_member member = {.id = id};

    core_enter(consensus);
    change_begin(consensus, kind, &member, done, data);
    core_leave(consensus);
}

void consensus_member_promote(struct consensus *consensus, uint64_t member_id,
                              consensus_change_fn *done, void *data)
{
    struct err err;

    CHECK(consensus != NULL);
    CHECK(done != NULL);
    if (promote_check(consensus, member_id, &err) != 0)
        done(data, -1, &err);
    else
        change_now(consensus, CHANGE_PROMOTE, member_id, done, data);
}

void consensus_member_remove(struct consensus *consensus, uint64_t member_id,
                             consensus_change_fn *done, void *data)
{
    struct err err;

    CHECK(consensus != NULL);
    CHECK(done != NULL);
    if (remove_check(consensus, member_id, &err) != 0)
        done(data, -1, &err);
    else
        change_now(consensus, CHANGE_REMOVE, member_id, done, data);
}

/* ---- what a former leader left half done ---- */

/* A leader that died between the two entries of an add leaves a spare, which gets no entries and
 * blocks its id. */
static void spare_finish(struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;

    if (consensus->change.kind != CHANGE_NONE || !core_is_leader(consensus) ||
        consensus->raft.configuration_uncommitted_index != 0 || !core_term_committed(consensus))
        return;
    for (unsigned i = 0; i < configuration->n; i++)
        if (configuration->servers[i].role == RAFT_SPARE) {
            const struct consensus_member member = {.id = configuration->servers[i].id};
            change_begin(consensus, CHANGE_ADD, &member, NULL, NULL);
            return;
        }
}

void core_members_tick(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    probe_tick(&consensus->probe);
    probe_tick(&consensus->eof_probe);
    core_former_tick(consensus);
    spare_finish(consensus);
    core_peers_tick(consensus);
}
