/* Where the other members are, and who was removed. See consensus_internal.h.
 *
 * Flow     the newest word about an address is the member's own hello, or the replicated book
 *          (consensus_member_put()); it is kept in the folder's book. The configuration in use says
 *          whom to dial. When a configuration without a member is committed, that member is told
 *          and entered as removed; later hellos of it are answered so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

static const struct consensus_member *member_in_config(const struct consensus *consensus,
                                                       uint64_t id)
{
    for (size_t i = 0; i < consensus->config.member_count; i++)
        if (consensus->members[i].id == id)
            return &consensus->members[i];
    return NULL;
}

/* The newest word; NULL: nothing is known. */
static const struct consensus_member *member_known(const struct consensus *consensus, uint64_t id)
{
    const struct book_record *record = book_find(&consensus->book, id);

    if (record != NULL && !record->removed)
        return &record->member;
    return member_in_config(consensus, id);
}

const char *core_peer_address(const struct consensus *consensus, uint64_t id)
{
    const struct peer *peer = transport_peer(&consensus->transport, id);
    const struct consensus_member *member = member_known(consensus, id);

    if (peer != NULL)
        return peer->member.address;
    return member != NULL ? member->address : "";
}

void core_peers_open(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    book_load(&consensus->book, &consensus->folder);
}

/* The book keeps every word; only members and those that are known otherwise are dialled. */
static void member_heard(struct consensus *consensus, const struct consensus_member *member)
{
    const struct peer *peer = transport_peer(&consensus->transport, member->id);
    bool known = membership_find(&consensus->raft.configuration, member->id) != NULL;

    if (book_put(&consensus->book, member))
        consensus->moved = true;
    if (known || (peer != NULL && !peer->stranger))
        (void)transport_put(&consensus->transport, member);
}

const char *consensus_member_contact(const struct consensus *consensus, uint64_t member_id)
{
    const struct peer *peer = transport_peer(&consensus->transport, member_id);

    return peer != NULL ? peer->contact : "";
}

bool consensus_member_build(const struct consensus *consensus, uint64_t member_id,
                            struct consensus_build *ret_build)
{
    const struct peer *peer = transport_peer(&consensus->transport, member_id);
    bool own = member_id == consensus->config.member_id;

    *ret_build = (struct consensus_build){.level = CONSENSUS_LEVEL_FIRST};
    if (own)
        *ret_build = consensus->config.build;
    else if (peer != NULL && peer->build.level != 0)
        *ret_build = peer->build;
    else
        return false;
    return true;
}

void consensus_member_put(struct consensus *consensus, const struct consensus_member *member)
{
    CHECK(member != NULL);
    if (member->id != consensus->config.member_id && !consensus->closing)
        member_heard(consensus, member);
}

/* ---- hellos ---- */

/* What the peer told this leader to be durable there, as far as it is committed: nothing ever takes
 * that out of a log again. */
static uint64_t acknowledged_by(const struct consensus *consensus, uint64_t id)
{
    const struct raft *raft = &consensus->raft;
    unsigned place = core_server_place(consensus, id);
    uint64_t match_index;

    if (!core_is_leader(consensus) || place == raft->configuration.n)
        return 0;
    match_index = raft->leader_state.progress[place].match_index;
    return match_index < raft->commit_index ? match_index : raft->commit_index;
}

/* I11: a voter held at least its own addition when it was made one. With an empty log it has joined
 * anew on an empty disk: what its former self had acknowledged, and whom it had voted for, is not
 * known here, and while it is being filled half a log would have a vote. */
static bool voter_has_nothing(const struct consensus *consensus, uint64_t id, uint64_t last_index)
{
    const struct raft_server *server = membership_find(&consensus->raft.configuration, id);

    return last_index == 0 && server != NULL && server->role == RAFT_VOTER;
}

bool core_voter_answers_empty(const struct consensus *consensus, uint64_t from,
                              const struct raft_append_entries_result *result)
{
    CHECK(consensus != NULL);
    CHECK(result != NULL);
    return core_is_leader(consensus) && result->term == consensus->raft.current_term &&
           result->rejected != 0 && voter_has_nothing(consensus, from, result->last_log_index);
}

void core_on_hello(void *context, const struct frame_hello *hello,
                   struct frame_hello_reply *ret_reply)
{
    struct consensus *consensus = context;
    const struct book_record *record = book_find(&consensus->book, hello->from);
    const struct consensus_member *known = member_known(consensus, hello->from);
    struct consensus_member member = {.id = hello->from};

    ret_reply->joining = consensus->joining && consensus->raft.configuration.n == 0;
    ret_reply->last_index = raft_last_index(&consensus->raft);
    if (record != NULL && record->removed) {
        ret_reply->welcome = FRAME_WELCOME_REMOVED;
        ret_reply->index = record->removed_index;
        return;
    }
    if (!hello->probe && (hello->last_index < acknowledged_by(consensus, hello->from) ||
                          voter_has_nothing(consensus, hello->from, hello->last_index))) {
        ret_reply->welcome = FRAME_WELCOME_OLD;
        ret_reply->index = acknowledged_by(consensus, hello->from);
        return;
    }
    if (!hello->probe && hello->incarnation != 0)
        core_founder_arrived(consensus, hello->from);
    if (hello->probe || (known != NULL && strcmp(known->address, hello->address) == 0))
        return;
    if (known == NULL && membership_find(&consensus->raft.configuration, hello->from) == NULL)
        return; /* a stranger: answered, but not written down */
    snprintf(member.name, sizeof(member.name), "%s", hello->name);
    snprintf(member.address, sizeof(member.address), "%s", hello->address);
    member_heard(consensus, &member);
}

static void removed_here(struct consensus *consensus, uint64_t index, const char *by)
{
    struct err err;

    if (consensus->failure.code != ERR_NONE)
        return;
    err_set(&err, ERR_REMOVED,
            "member %" PRIu64 " (%s) was removed from cluster %s (log index %" PRIu64
            ", %s): it stops for good; to come back give it a new id, an empty folder and --join",
            consensus->config.member_id, consensus->transport.self.name, consensus->cluster_id,
            index, by);
    /* Not written: the others say it again at the next start. */
    (void)folder_write_file(&consensus->folder, FOLDER_REMOVED_FILE, "", 0, NULL);
    core_fail(consensus, &err);
    core_report_failure(consensus);
}

/* I11: this folder is a copy of before, or a new one. What it acknowledged since, and whom it voted
 * for, it has forgotten. */
static void old_here(struct consensus *consensus, uint64_t index, uint64_t peer)
{
    struct err err;

    if (index == 0 && raft_last_index(&consensus->raft) > 0)
        return; /* a hello of before it was filled was read late: the next one says more */
    if (raft_last_index(&consensus->raft) == 0)
        err_set(&err, ERR_CORRUPT,
                "%s is empty, but member %" PRIu64 " of cluster %s has held data before, says %s: "
                "what it had acknowledged is lost. Give it a new id: ckptctl member replace %s "
                "NEW, and "
                "start NEW with --join on an empty folder (or is it a founder that never ran? then "
                "empty its folder and start it with --bootstrap, not with --join)",
                consensus->folder.path, consensus->config.member_id, consensus->cluster_id,
                core_member_name(consensus, peer),
                core_member_name(consensus, consensus->config.member_id));
    else
        err_set(
            &err, ERR_CORRUPT,
            "%s is an older copy: its log ends with record %llu, but this member had acknowledged "
            "up to "
            "%" PRIu64 " to %s; remove the member and add it under a new id with an empty folder",
            consensus->folder.path, raft_last_index(&consensus->raft), index,
            core_member_name(consensus, peer));
    core_fail(consensus, &err);
    core_report_failure(consensus);
}

/* Ids are never used again, so one member that knows is enough. */
void core_on_refused(void *context, uint64_t peer, const struct frame_hello_reply *reply)
{
    struct consensus *consensus = context;
    char by[CONSENSUS_NAME_BYTES + 16];

    CHECK(reply != NULL);
    if (consensus->closing)
        return;
    if (strcmp(reply->cluster_id, consensus->cluster_id) != 0 || reply->member_id != peer) {
        core_founder_is_other(consensus, peer);
        return;
    }
    core_founder_answers(consensus, peer, reply);
    if (reply->welcome == FRAME_WELCOME_OLD)
        old_here(consensus, reply->index, peer);
    if (reply->welcome != FRAME_WELCOME_REMOVED)
        return;
    snprintf(by, sizeof(by), "says %s", core_member_name(consensus, peer));
    removed_here(consensus, reply->index, by);
}

/* ---- configurations ---- */

/* A stranger that became a member is known by its hello alone: that goes into the book before it
 * could be forgotten. */
static void peers_match(struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;

    for (unsigned i = 0; i < configuration->n; i++) {
        uint64_t id = configuration->servers[i].id;
        const struct peer *peer = transport_peer(&consensus->transport, id);
        const struct consensus_member *known = member_known(consensus, id);
        if (known == NULL && peer != NULL && peer->stranger) {
            (void)book_put(&consensus->book, &peer->member);
            known = &peer->member;
        }
        if (known != NULL && (peer == NULL || peer->stranger || peer->drop_us != 0))
            (void)transport_put(&consensus->transport, known);
    }
    if (configuration->n > 0)
        transport_keep(&consensus->transport, configuration);
}

static void removed_tell(struct consensus *consensus, const struct raft_configuration *before)
{
    const struct membership *membership = &consensus->safety.membership;

    for (unsigned i = 0; i < before->n; i++) {
        const struct raft_server *server = &before->servers[i];
        if (membership_find(&membership->committed, server->id) != NULL)
            continue;
        if (server->id == consensus->config.member_id) {
            removed_here(consensus, membership->committed_index, "committed here");
            continue;
        }
        book_remove(&consensus->book, server->id, server->address, membership->committed_index);
        transport_dismiss(&consensus->transport, server->id, membership->committed_index);
    }
}

/* The marker goes only when this member is a voter by a committed configuration: until then an
 * empty log is no sign of a lost one. */
static void join_finish(struct consensus *consensus)
{
    const struct raft_server *self =
        membership_find(&consensus->safety.membership.committed, consensus->config.member_id);
    const struct folder *folder = &consensus->folder;
    char path[FOLDER_PATH_BYTES];

    if (consensus->joining && consensus->raft.configuration.n > 0)
        consensus->transport.unfilled = false;
    if (!consensus->joining || self == NULL || self->role != RAFT_VOTER)
        return;
    /* One that stays is removed at the next start. */
    (void)folder->disk->unlink(folder->disk->context, folder_path(folder, CORE_JOINING_FILE, path),
                               NULL);
    consensus->joining = false;
}

bool core_peers_settle(struct consensus *consensus)
{
    struct membership *membership = &consensus->safety.membership;
    struct raft_configuration before;

    if (consensus->closing || consensus->closed_core || safety_installing(&consensus->raft))
        return false;
    if (membership_track(membership, &before)) {
        removed_tell(consensus, &before);
        raft_configuration_close(&before);
    }
    if (consensus->told_committed == membership->committed_index &&
        consensus->told_uncommitted == consensus->raft.configuration_uncommitted_index &&
        !consensus->moved)
        return false;
    consensus->told_committed = membership->committed_index;
    consensus->told_uncommitted = consensus->raft.configuration_uncommitted_index;
    consensus->moved = false;
    join_finish(consensus);
    peers_match(consensus);
    if (consensus->hooks.members_changed != NULL && !consensus->failed)
        consensus->hooks.members_changed(consensus->hooks.context);
    return true;
}

void core_peers_tick(struct consensus *consensus)
{
    uint64_t now = core_now_us(consensus);

    if (!consensus->book.dirty ||
        (consensus->book_failed_us != 0 &&
         now - consensus->book_failed_us < UINT64_C(1000) * CORE_BOOK_RETRY_MS))
        return;
    book_save(&consensus->book, &consensus->folder);
    consensus->book_failed_us = consensus->book.dirty ? now : 0;
}
