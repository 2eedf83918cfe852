/* Opening, closing, proposing: the outside of raft/. See consensus.h and consensus_internal.h.
 *
 * Flow     open: folder -> (bootstrap) -> vote -> log -> libraft -> listen -> ticks. close: no new
 *          input, wait for the disk, then raft_close() with nothing in flight (C6), then free.
 */
#include "raft/core/consensus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"
#include "src/base/id.h"

enum {
    DEFAULT_SNAPSHOT_ENTRIES = 100000,
    DEFAULT_SNAPSHOT_BYTES = 64 << 20,
    DEFAULT_RESERVE_BYTES = 32 << 20,
    DEFAULT_ELECTION_MS = 1000,
    DEFAULT_HEARTBEAT_MS = 100,
};
_Static_assert(CONSENSUS_ROOM_BYTES == 2 * DEFAULT_RESERVE_BYTES + 2 * WAL_SEGMENT_BYTES,
               "an empty folder gets its log, and then its reserve");

uint64_t core_now_us(const struct consensus *consensus)
{
    CHECK(consensus != NULL);
    return consensus->config.clock->monotonic_us(consensus->config.clock->context);
}

uint64_t core_now_ms(const struct consensus *consensus)
{
    CHECK(consensus != NULL);
    return core_now_us(consensus) / 1000;
}

bool core_is_leader(const struct consensus *consensus)
{
    CHECK(consensus != NULL);
    return consensus->raft.state == RAFT_LEADER;
}

const char *core_member_name(const struct consensus *consensus, uint64_t id)
{
    const struct raft_server *server = membership_find(&consensus->raft.configuration, id);
    const struct peer *peer = transport_peer(&consensus->transport, id);
    const struct book_record *record = book_find(&consensus->book, id);

    if (id == consensus->config.member_id)
        return consensus->transport.self.name;
    if (server != NULL)
        return server->address;
    if (peer != NULL)
        return peer->member.name;
    return record != NULL ? record->member.name : "unknown";
}

unsigned core_server_place(const struct consensus *consensus, uint64_t id)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    unsigned place = 0;

    while (place < configuration->n && configuration->servers[place].id != id)
        place++;
    return place;
}

size_t core_voter_count(const struct consensus *consensus)
{
    size_t count = 0;

    CHECK(consensus != NULL);
    for (unsigned i = 0; i < consensus->raft.configuration.n; i++)
        count += consensus->raft.configuration.servers[i].role == RAFT_VOTER;
    return count;
}

bool core_term_committed(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    return safety_term_of(raft, raft->commit_index) == raft->current_term;
}

/* ---- open ---- */

static int members_check(const struct consensus_config *config, struct err *err)
{
    bool self = false;

    if (config->member_count == 0 || config->member_count > CONSENSUS_MEMBERS_MAX)
        return err_set(err, ERR_INVALID, "%zu members, 1 to %d are possible", config->member_count,
                       CONSENSUS_MEMBERS_MAX);
    for (size_t i = 0; i < config->member_count; i++) {
        const struct consensus_member *member = &config->members[i];
        if (member->id == 0 || !id_valid(member->name) || member->address[0] == '\0')
            return err_set(err, ERR_INVALID, "member %zu: id, name or address is not valid", i + 1);
        for (size_t j = 0; j < i; j++)
            if (config->members[j].id == member->id ||
                strcmp(config->members[j].name, member->name) == 0)
                return err_set(err, ERR_INVALID, "member %s: its id or name is used twice",
                               member->name);
        self |= member->id == config->member_id;
    }
    if (!self)
        return err_set(err, ERR_INVALID, "member %" PRIu64 " is not in the list of members",
                       config->member_id);
    return 0;
}

static int config_take(struct consensus *consensus, const struct consensus_config *config,
                       struct err *err)
{
    struct consensus_config *own = &consensus->config;

    if (config->bootstrap && config->join)
        return err_set(err, ERR_INVALID,
                       "a member either bootstraps a new cluster or joins one that runs");
    if (!id_valid(config->cluster_id))
        return err_set(err, ERR_INVALID, "cluster_id is not [A-Za-z0-9._-]{1,128}");
    if (members_check(config, err) != 0)
        return -1;
    *own = *config;
    memcpy(consensus->members, config->members, config->member_count * sizeof(config->members[0]));
    snprintf(consensus->cluster_id, sizeof(consensus->cluster_id), "%s", config->cluster_id);
    own->members = consensus->members;
    own->cluster_id = consensus->cluster_id;
    if (own->election_timeout_ms == 0)
        own->election_timeout_ms = DEFAULT_ELECTION_MS;
    if (own->heartbeat_ms == 0)
        own->heartbeat_ms = DEFAULT_HEARTBEAT_MS;
    if (own->snapshot_after_entries == 0)
        own->snapshot_after_entries = DEFAULT_SNAPSHOT_ENTRIES;
    if (own->snapshot_after_bytes == 0)
        own->snapshot_after_bytes = DEFAULT_SNAPSHOT_BYTES;
    if (own->reserve_bytes == 0)
        own->reserve_bytes = DEFAULT_RESERVE_BYTES;
    if (own->heartbeat_ms * 2 > own->election_timeout_ms)
        return err_set(err, ERR_INVALID, "election_ms %u must be at least twice heartbeat_ms %u",
                       own->election_timeout_ms, own->heartbeat_ms);
    if (own->snapshot_after_entries > UINT32_MAX)
        return err_set(err, ERR_INVALID, "snapshot_after_entries is over %u", UINT32_MAX);
    return 0;
}

/* A folder without identity may only be begun when it holds nothing of a member: a lost identity
 * must not turn a voter into a blank one. A log of one entry is what a first start leaves that was
 * cut short. */
static int begin_check(struct consensus *consensus, struct err *err)
{
    struct folder *folder = &consensus->folder;
    struct snapshot_name name;
    size_t snapshots;

    if (snapshot_list(folder, &name, 1, &snapshots, err) != 0)
        return -1;
    if (snapshots > 0 || consensus->wal.last_index > 1)
        return err_set(err, ERR_CORRUPT,
                       "%s/identity is missing, and the folder holds a member's log up to index "
                       "%" PRIu64 ": put the file back, or keep the folder for the diagnosis and "
                       "replace the member by one with a new id and an empty folder (ckptctl "
                       "member replace %s NEW; RUNBOOK, Member with corrupt data)",
                       folder->path,
                       consensus->wal.last_index > 0 ? consensus->wal.last_index : name.index,
                       core_member_name(consensus, consensus->config.member_id));
    return 0;
}

/* The folder holds no member and is to begin a cluster with others. */
static int bootstrap_begin(struct consensus *consensus, struct err *err)
{
    const struct founding_record *record = &consensus->founding.record;

    if (consensus->config.join)
        return err_set(err, ERR_REFUSED,
                       "%s holds a first start with bootstrap: go on with that, or empty the "
                       "folder to join a cluster that runs",
                       consensus->folder.path);
    if (record->origin == 0 && begin_check(consensus, err) != 0)
        return -1;
    return core_founding_open(consensus, err) == 0 ? 0 : err_wrap(err, "bootstrap");
}

/* An empty log: the leader of the cluster that adds this member fills it. The marker tells this
 * from a log that was lost. */
static int join_begin(struct consensus *consensus, struct err *err)
{
    struct folder *folder = &consensus->folder;
    int status;

    if (begin_check(consensus, err) != 0)
        return -1;
    status = vote_open(&consensus->vote, folder, true, err);
    consensus->vote_opened = status == 0;
    if (status == 0)
        status = vote_save(&consensus->vote, 1, 0, err);
    if (status == 0)
        status = wal_reset_now(&consensus->wal, 1, err);
    if (status == 0)
        status = folder_write_file(folder, CORE_JOINING_FILE, "", 0, err);
    if (status == 0)
        status = folder_claim(folder, err);
    consensus->joining = status == 0;
    return status == 0 ? 0 : err_wrap(err, "join");
}

/* What an existing folder says about joining and leaving. */
static int claimed_check(struct consensus *consensus, struct err *err)
{
    struct folder *folder = &consensus->folder;
    bool removed;

    if (folder_holds(folder, FOLDER_REMOVED_FILE, &removed, err) != 0 ||
        folder_holds(folder, CORE_JOINING_FILE, &consensus->joining, err) != 0)
        return -1;
    if (removed)
        return err_set(err, ERR_REMOVED,
                       "member %" PRIu64 " was removed from cluster %s, and ids are never used "
                       "again: to come back give it a new id, an empty folder instead of %s, and "
                       "--join",
                       consensus->config.member_id, consensus->cluster_id, folder->path);
    if (consensus->config.bootstrap)
        return err_set(err, ERR_REFUSED,
                       "%s already holds this member's data: start it without bootstrap",
                       folder->path);
    if (consensus->config.join && !consensus->joining)
        return err_set(err, ERR_REFUSED,
                       "%s already holds this member's data: start it without join", folder->path);
    return 0;
}

static void take_data_name(void *context, const char *name)
{
    *(bool *)context |= strncmp(name, "wal-", 4) == 0 || strncmp(name, "snapshot-", 9) == 0;
}

/* Nothing to start with: the identity is written last in a first start, and may have been lost
 * since. */
static int unclaimed_refuse(struct consensus *consensus, struct err *err)
{
    struct folder *folder = &consensus->folder;
    bool data = false;

    if (folder->disk->list_dir(folder->disk->context, folder->path, take_data_name, &data, err) !=
        0)
        return -1;
    if (data) {
        if (wal_open(&consensus->wal, folder, consensus->config.clock, core_wal_failed, consensus,
                     err) != 0)
            return -1;
        consensus->wal_opened = true;
        if (begin_check(consensus, err) != 0)
            return -1;
        return err_set(err, ERR_NOT_FOUND,
                       "%s holds a first start that was cut short: repeat that, with --bootstrap "
                       "or with --join as it was",
                       folder->path);
    }
    return err_set(err, ERR_NOT_FOUND,
                   "%s holds no member: start a new cluster with --bootstrap, let a member join a "
                   "running one with --join, or check data_dir",
                   folder->path);
}

/* The order is that of what depends on what: the lock before anything is read, the reserve before
 * the log, which may have to spend it. */
static int storage_open(struct consensus *consensus, struct err *err)
{
    const struct consensus_config *config = &consensus->config;
    struct folder *folder = &consensus->folder;
    bool founds;

    if (folder_open(folder, config->disk, config->data_dir,
                    &(struct folder_owner){consensus->cluster_id, config->member_id},
                    config->bootstrap || config->join, err) != 0)
        return -1;
    folder->segment_bytes = config->segment_bytes;
    if (founding_read(folder, &consensus->founding.record, err) != 0)
        return -1;
    founds = !folder->claimed && (config->bootstrap || consensus->founding.record.number != 0);
    if (!founds && !config->join && !folder->claimed)
        return unclaimed_refuse(consensus, err);
    if (folder->claimed && claimed_check(consensus, err) != 0)
        return -1;
    core_peers_open(consensus);
    folder_set_reserve(folder, config->reserve_bytes);
    if (wal_open(&consensus->wal, folder, config->clock, core_wal_failed, consensus, err) != 0)
        return -1;
    consensus->wal_opened = true;
    if (founds)
        return bootstrap_begin(consensus, err);
    if (config->join && !folder->claimed)
        return join_begin(consensus, err);
    if (vote_open(&consensus->vote, folder, false, err) != 0)
        return -1;
    consensus->vote_opened = true;
    return 0;
}

/* The folder is a member of its cluster. */
int core_begin(struct consensus *consensus, struct err *err)
{
    struct raft *raft = &consensus->raft;
    const struct consensus_config *config = &consensus->config;
    int status;

    CHECK(consensus->wal_opened);
    CHECK(consensus->vote_opened);
    CHECK(!consensus->core_started);
    raft_set_election_timeout(raft, config->election_timeout_ms);
    raft_set_heartbeat_timeout(raft, config->heartbeat_ms);
    raft_set_install_snapshot_timeout(raft, CORE_INSTALL_TIMEOUT_MS);
    raft_set_snapshot_threshold(raft, (unsigned)config->snapshot_after_entries);
    raft_set_pre_vote(raft, true);
    core_enter(consensus);
    status = raft_start(raft);
    if (status == 0)
        membership_started(&consensus->safety.membership);
    core_leave(consensus);
    if (consensus->failure.code != ERR_NONE)
        return err_set(err, consensus->failure.code, "%s", consensus->failure.text);
    if (status != 0)
        return err_set(err, ERR_IO, "start consensus: %s", raft_errmsg(raft));
    consensus->transport.incarnation = consensus->folder.incarnation;
    consensus->transport.unfilled = consensus->joining && raft->configuration.n == 0;
    consensus->core_started = true;
    core_founder_arrived(consensus, config->member_id);
    (void)core_peers_settle(consensus);
    return 0;
}

/* A founder listens although libraft has not started: the others ask it for the number of its
 * folder. */
static int core_start(struct consensus *consensus, struct err *err)
{
    const struct consensus_config *config = &consensus->config;

    if (!consensus->founding.under_way && core_begin(consensus, err) != 0)
        return -1;
    if (transport_listen(&consensus->transport, config->listen_address, err) != 0)
        return -1;
    consensus->last_tick_us = core_now_us(consensus);
    config->clock->timer_start(consensus->tick_timer, 0);
    return 0;
}

static uint64_t on_last_index(void *context)
{
    return raft_last_index(&((struct consensus *)context)->raft);
}

/* The incarnation is written down before the connection is used: a member that forgot it could take
 * another history's at its next start. */
static int on_adopt(void *context, uint64_t incarnation)
{
    struct consensus *consensus = context;
    struct err err;

    if (folder_adopt(&consensus->folder, incarnation, &err) == 0)
        return 0;
    core_fail(consensus, &err);
    core_report_failure(consensus);
    return -1;
}

static void parts_init(struct consensus *consensus)
{
    const struct clock_ops *clock = consensus->config.clock;
    struct transport_events events = {.context = consensus,
                                      .message = core_on_message,
                                      .hello = core_on_hello,
                                      .founder = core_on_founder,
                                      .refused = core_on_refused,
                                      .greeted = core_on_greeted,
                                      .inbound_lost = core_on_inbound_lost,
                                      .outbound_lost = core_on_outbound_lost,
                                      .last_index = on_last_index,
                                      .adopt = on_adopt};

    list_init(&consensus->deferred);
    list_init(&consensus->noted);
    list_init(&consensus->proposals);
    list_init(&consensus->dropped);
    list_init(&consensus->reads_waiting);
    list_init(&consensus->reads_round);
    list_init(&consensus->reads_confirmed);
    list_init(&consensus->reads_refused);
    consensus->tick_timer = clock->timer_new(clock->context, core_tick, consensus);
    consensus->eof_timer = clock->timer_new(clock->context, core_eof_fire, consensus);
    consensus->read_timer = clock->timer_new(clock->context, core_reads_fire, consensus);
    transport_init(&consensus->transport, &consensus->config, &events);
    transfer_init(&consensus->transfer, &consensus->folder, &consensus->transport, clock,
                  core_snapshot_received, consensus);
    safety_init(&consensus->safety, &consensus->raft);
    core_io_init(consensus);
    core_fsm_init(consensus);
}

/* ---- close ---- */

/* The loop goes on until none is left: a read's done() may ask for the next one, which is refused
 * as well. */
static void reads_refuse_all(struct consensus *consensus)
{
    core_reads_fail(consensus, &consensus->reads_waiting);
    core_reads_fail(consensus, &consensus->reads_round);
    core_reads_fail(consensus, &consensus->reads_confirmed);
    do {
        core_reads_fire(consensus);
    } while (!list_empty(&consensus->reads_refused));
}

static void consensus_free(struct consensus *consensus)
{
    const struct clock_ops *clock = consensus->config.clock;

    probe_cancel(&consensus->probe);
    probe_cancel(&consensus->former);
    probe_cancel(&consensus->eof_probe);
    transport_close(&consensus->transport);
    safety_close(&consensus->safety);
    clock->timer_free(consensus->tick_timer);
    clock->timer_free(consensus->eof_timer);
    clock->timer_free(consensus->read_timer);
    if (consensus->wal_opened)
        wal_close(&consensus->wal);
    vote_close(&consensus->vote);
    core_fsm_close(consensus);
    folder_close(&consensus->folder);
    snapshot_meta_close(&consensus->taking);
    if (consensus->received_waiting)
        snapshot_meta_close(&consensus->received);
    free(consensus);
}

static void core_closed(struct raft *raft)
{
    (void)raft; /* raft_close() came back inside its own call */
}

/* Tags and reads get their answer; then nothing of libraft is left. */
static void core_shut(struct consensus *consensus)
{
    CHECK(consensus->closing);
    probe_cancel(&consensus->probe);
    probe_cancel(&consensus->former);
    probe_cancel(&consensus->eof_probe);
    transport_close(&consensus->transport);
    core_enter(consensus);
    raft_close(&consensus->raft, core_closed);
    core_leave(consensus);
    core_dropped_settle(consensus);
    core_change_drop(consensus);
    reads_refuse_all(consensus);
}

static bool disk_busy(const struct consensus *consensus)
{
    return wal_busy(&consensus->wal) || transfer_busy(&consensus->transfer) ||
           folder_busy(&consensus->folder) || consensus->keep_running ||
           take_running(&consensus->take) || consensus->discarded != NULL;
}

/* libraft's memory may not go while a job has it, and no job can be called back: so the disk is
 * waited for, however long it takes. */
static void close_poll(void *data)
{
    struct consensus *consensus = data;
    void (*closed)(void *context) = consensus->closed;
    void *context = consensus->closed_context;

    if (disk_busy(consensus)) {
        consensus->config.clock->timer_start(consensus->tick_timer,
                                             UINT64_C(1000) * CORE_CLOSE_POLL_MS);
        return;
    }
    core_shut(consensus);
    consensus_free(consensus);
    closed(context);
}

void consensus_close(struct consensus *consensus, void (*closed)(void *context), void *context)
{
    const struct clock_ops *clock = consensus->config.clock;

    CHECK(!consensus->closing);
    CHECK(closed != NULL);
    consensus->closing = true;
    consensus->closed = closed;
    consensus->closed_context = context;
    probe_cancel(&consensus->probe);
    probe_cancel(&consensus->former);
    probe_cancel(&consensus->eof_probe);
    transport_close(&consensus->transport);
    slices_cancel(&consensus->take.slices);
    clock->timer_free(consensus->tick_timer);
    consensus->tick_timer = clock->timer_new(clock->context, close_poll, consensus);
    clock->timer_start(consensus->tick_timer, 0);
}

void consensus_abandon(struct consensus *consensus)
{
    CHECK(consensus != NULL);
    consensus->failed = true;
    consensus->closing = true;
    core_shut(consensus);
    consensus_free(consensus);
}

int consensus_open(const struct consensus_config *config, const struct consensus_hooks *hooks,
                   struct consensus **ret_consensus, struct err *err)
{
    struct consensus *consensus = check_calloc(1, sizeof(*consensus));

    CHECK(config != NULL);
    CHECK(hooks != NULL);
    CHECK(ret_consensus != NULL);
    if (config_take(consensus, config, err) != 0) {
        free(consensus);
        return -1;
    }
    consensus->hooks = *hooks;
    parts_init(consensus);
    if (storage_open(consensus, err) != 0) {
        consensus_free(consensus);
        return -1;
    }
    if (raft_init(&consensus->raft, &consensus->io, &consensus->fsm, config->member_id,
                  core_member_name(consensus, config->member_id)) != 0) {
        consensus_free(consensus);
        return err_set(err, ERR_IO, "consensus cannot be set up");
    }
    if (core_start(consensus, err) != 0) {
        consensus_abandon(consensus);
        return -1;
    }
    *ret_consensus = consensus;
    return 0;
}

/* ---- propose ---- */

/* libraft is in its own call here, so the tag is only moved, and its owner is told when that is
 * over. What was applied has had its tag already. */
static void proposal_done(struct raft_apply *request, int status, void *result)
{
    struct proposal *proposal = (struct proposal *)(void *)request;
    struct consensus *consensus = proposal->consensus;

    (void)result;
    (void)status; /* not 0: leadership was lost, or the member stops */
    if (proposal->applied) {
        free(proposal);
        return;
    }
    list_remove(&proposal->node);
    consensus->proposal_count--;
    list_push_back(&consensus->dropped, &proposal->node);
}

static int propose_check(const struct consensus *consensus, size_t length, struct err *err)
{
    if (length == 0 || length > CONSENSUS_ENTRY_MAX_BYTES)
        return err_set(err, ERR_INVALID, "entry of %zu bytes, 1 to %d are possible", length,
                       CONSENSUS_ENTRY_MAX_BYTES);
    if (consensus->failed || consensus->closing || !core_is_leader(consensus))
        return err_set(err, ERR_UNAVAILABLE, "this member is not the leader: ask the leader");
    /* The first one of a leadership is taken all the same: without it the member could not even be
     * read. */
    if (!consensus->folder.accepts_writes &&
        consensus->proposed_term == consensus->raft.current_term)
        return err_set(err, ERR_FULL,
                       "%s has %" PRIu64 " MB free and its reserve is %s; writes need %" PRIu64
                       " MB: make room on that file system, they resume by themselves",
                       consensus->folder.path, consensus->folder.free_bytes / 1000000,
                       atomic_load(&consensus->folder.reserve_present) ? "kept" : "spent",
                       (atomic_load(&consensus->folder.reserve_present)
                            ? consensus->folder.reserve_bytes / 2
                            : 2 * consensus->folder.reserve_bytes) /
                           1000000);
    /* A bound on what is lost sight of with the leader, and on the memory that a slow disk can
     * cost. */
    if (consensus->proposal_count >= CONSENSUS_IN_FLIGHT_MAX)
        return err_set(err, ERR_FULL, "%d proposals wait for commit: try again",
                       CONSENSUS_IN_FLIGHT_MAX);
    return 0;
}

bool consensus_in_call(const struct consensus *consensus)
{
    CHECK(consensus != NULL);
    return consensus->depth > 0;
}

int consensus_propose(struct consensus *consensus, const uint8_t *bytes, size_t length, void *tag,
                      struct err *err)
{
    struct raft_buffer buffer = {NULL, length};
    struct proposal *proposal;
    uint64_t term = consensus->raft.current_term;
    int status;

    CHECK(bytes != NULL);
    CHECK(tag != NULL);
    if (propose_check(consensus, length, err) != 0)
        return -1;
    buffer.base = raft_malloc(length);
    CHECK(buffer.base != NULL);
    memcpy(buffer.base, bytes, length);
    proposal = check_calloc(1, sizeof(*proposal));
    proposal->consensus = consensus;
    proposal->tag = tag;
    list_push_back(&consensus->proposals, &proposal->node);
    consensus->proposal_count++;
    core_enter(consensus);
    /* The entry is on its way to the peers before our own disk begins. */
    wal_hold(&consensus->wal);
    status = raft_apply(&consensus->raft, &proposal->request, &buffer, 1, proposal_done);
    wal_release(&consensus->wal);
    if (status != 0) {
        list_remove(&proposal->node);
        consensus->proposal_count--;
        free(proposal);
        raft_free(buffer.base);
        err_set(err, ERR_UNAVAILABLE, "propose: %s", raft_strerror(status));
    }
    core_leave(consensus);
    if (status == 0)
        consensus->proposed_term = term;
    return status == 0 ? 0 : -1;
}
