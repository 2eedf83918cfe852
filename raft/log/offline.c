/* See offline.h. */
#include "raft/log/offline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "raft/log/founding.h"
#include "raft/log/vote.h"
#include "raft/log/wal.h"
#include "raft/snap/snapshot.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

#define RESTORE_FILE    "tmp-snapshot-restore"
#define RECOVERING_FILE "recovering"

enum { SNAPSHOTS_LOOKED_AT = 8, RECOVERING_BYTES = 20 };

struct offline {
    struct folder folder;
    struct wal wal;
    struct vote_store vote;
    bool folder_opened, wal_opened, vote_opened;
};

static void log_failed(void *context, const struct err *err)
{
    (void)context; /* nothing is queued: only the calls that return their errors are used */
    (void)err;
    CHECK_UNREACHABLE("a job of an offline log");
}

static void offline_close(struct offline *offline)
{
    if (offline->vote_opened)
        vote_close(&offline->vote);
    if (offline->wal_opened)
        wal_close(&offline->wal);
    if (offline->folder_opened)
        folder_close(&offline->folder);
}

static int offline_open(struct offline *offline, const struct consensus_config *config, bool create,
                        struct err *err)
{
    memset(offline, 0, sizeof(*offline));
    if (folder_open(&offline->folder, config->disk, config->data_dir,
                    &(struct folder_owner){config->cluster_id, config->member_id}, create,
                    err) != 0)
        return -1;
    offline->folder_opened = true;
    if (!create && !offline->folder.claimed)
        return err_set(err, ERR_REFUSED,
                       "%s holds no member, or one whose first start is not over: that ends when "
                       "all founders are there",
                       config->data_dir);
    return 0;
}

static int log_open(struct offline *offline, struct err *err)
{
    if (wal_open(&offline->wal, &offline->folder, NULL, log_failed, NULL, err) != 0)
        return -1;
    offline->wal_opened = true;
    return 0;
}

/* ---- a recovery that is under way ----
 * Source   file "recovering", little endian: incarnation u64 of the log, index u64 of the
 *          configuration that ends the recovery, crc32c u32.
 */

/* This file is written before the identity: from then on a look tells that the log is still of the
 * former incarnation. */
static int recovering_write(const struct folder *folder, uint64_t incarnation, uint64_t index,
                            struct err *err)
{
    uint8_t bytes[RECOVERING_BYTES];

    bytes_put(bytes, incarnation, 8);
    bytes_put(bytes + 8, index, 8);
    bytes_put(bytes + 16, crc32c(0, bytes, 16), 4);
    return folder_write_file(folder, RECOVERING_FILE, bytes, sizeof(bytes), err);
}

/* The incarnation of the log is the identity's, unless a recovery has not come to its end. */
static int recovering_read(const struct folder *folder, struct offline_facts *facts,
                           struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    uint8_t bytes[RECOVERING_BYTES];
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    size_t length;
    int status;

    facts->incarnation = folder->incarnation;
    folder_path(folder, RECOVERING_FILE, path);
    if (disk->open(disk->context, path, DISK_OPEN_READ, &file, err) != 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    status = disk->read(file, 0, bytes, sizeof(bytes), &length, err);
    disk->close(file);
    if (status != 0)
        return err_wrap(err, "%s", path);
    if (length != sizeof(bytes) || crc32c(0, bytes, 16) != bytes_get(bytes + 16, 4))
        return err_set(err, ERR_CORRUPT,
                       "%s is damaged: remove it and recover again, without --compare", path);
    if (facts->last_index >= bytes_get(bytes + 8, 8))
        return 0;
    facts->incarnation = bytes_get(bytes, 8);
    facts->recovering = facts->incarnation != folder->incarnation;
    return 0;
}

/* ---- look ---- */

struct looking {
    const struct offline_hooks *hooks;
    struct offline_facts *facts;
    uint64_t snapshot_term;
    uint64_t term_at_snapshot; /* in the log; 0: not there */
    bool apply;                /* second walk */
};

static void facts_take(struct offline_facts *facts, const struct raft_configuration *configuration)
{
    facts->member_count = 0;
    for (unsigned i = 0; i < configuration->n && i < CONSENSUS_MEMBERS_MAX; i++) {
        facts->member_ids[i] = configuration->servers[i].id;
        facts->voters[i] = configuration->servers[i].role == RAFT_VOTER;
        facts->member_count++;
    }
}

/* The snapshot's content goes to the hook. Without any that is whole the log must begin at 1. */
static int snapshot_look(struct offline *offline, struct looking *looking, struct err *err)
{
    struct snapshot_name names[SNAPSHOTS_LOOKED_AT];
    char path[FOLDER_PATH_BYTES];
    struct snapshot_meta meta;
    size_t count;

    if (snapshot_list(&offline->folder, names, SNAPSHOTS_LOOKED_AT, &count, err) != 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        snapshot_path(&offline->folder, names[i].index, names[i].term, path);
        if (snapshot_verify(&offline->folder, path, &meta, err) != 0) {
            if (err->code != ERR_CORRUPT || i + 1 == count)
                return -1;
            continue;
        }
        looking->facts->snapshot_index = meta.index;
        looking->snapshot_term = meta.term;
        facts_take(looking->facts, &meta.configuration);
        snapshot_meta_close(&meta);
        return snapshot_read(&offline->folder, path, looking->hooks->snapshot_read,
                             looking->hooks->context, err);
    }
    return 0;
}

/* As libraft encodes it: version u8, count u64, each {id u64, address with its zero, role u8}. One
 * that does not decode is left to the start of the member. */
static void configuration_look(struct looking *looking, const struct wal_record *record)
{
    struct bytes_reader reader = {record->payload, record->length, false};
    struct offline_facts *facts = looking->facts;
    uint64_t count;

    (void)reader_get(&reader, 1);
    count = reader_get(&reader, 8);
    facts->member_count = 0;
    for (uint64_t i = 0; i < count && i < CONSENSUS_MEMBERS_MAX && !reader.failed; i++) {
        facts->member_ids[i] = reader_get(&reader, 8);
        while (reader_get(&reader, 1) != 0)
            ;
        facts->voters[i] = reader_get(&reader, 1) == RAFT_VOTER;
        facts->member_count += !reader.failed;
    }
}

/* The first walk only looks for the term at the snapshot's end: the log may be about to be
 * replaced, and then nothing of it may be applied. */
static int record_look(void *data, const struct wal_record *record, struct err *err)
{
    struct looking *looking = data;
    struct offline_facts *facts = looking->facts;

    (void)err;
    if (!looking->apply) {
        if (record->index == facts->snapshot_index)
            looking->term_at_snapshot = record->term;
        return 0;
    }
    if (looking->hooks->record != NULL)
        looking->hooks->record(looking->hooks->context, record->index, record->term);
    facts->last_index = record->index;
    facts->last_term = record->term;
    if (record->index <= facts->snapshot_index)
        return 0;
    if (record->type == RAFT_CHANGE)
        configuration_look(looking, record);
    else if (record->type == RAFT_COMMAND)
        looking->hooks->apply(looking->hooks->context, record->index, record->term, record->payload,
                              record->length);
    return 0;
}

/* A log whose entry at the snapshot's end has another term, or that ends before it, was about to be
 * replaced when the member died while it installed the snapshot (log_reconcile() of
 * consensus_load.c does the same at a start). */
static int log_look(struct offline *offline, struct looking *looking, struct err *err)
{
    struct wal *wal = &offline->wal;
    struct offline_facts *facts = looking->facts;
    uint64_t snapshot_index = facts->snapshot_index;

    if (wal->first_index > snapshot_index + 1)
        return err_set(err, ERR_CORRUPT,
                       "%s: the log begins at %" PRIu64
                       " but the newest whole snapshot ends at %" PRIu64 ": files are missing",
                       offline->folder.path, wal->first_index, snapshot_index);
    facts->first_index = wal->first_index;
    facts->last_index = snapshot_index;
    facts->last_term = looking->snapshot_term;
    if (wal_walk(wal, record_look, looking, err) != 0)
        return -1;
    facts->log_behind = snapshot_index > 0 && wal->first_index != snapshot_index + 1 &&
                        looking->term_at_snapshot != looking->snapshot_term;
    if (facts->log_behind)
        return 0;
    looking->apply = true;
    return wal_walk(wal, record_look, looking, err);
}

static int folder_look(struct offline *offline, const struct offline_hooks *hooks,
                       struct offline_facts *facts, struct err *err)
{
    struct looking looking = {.hooks = hooks, .facts = facts};

    if (log_open(offline, err) != 0 || snapshot_look(offline, &looking, err) != 0 ||
        log_look(offline, &looking, err) != 0 ||
        recovering_read(&offline->folder, facts, err) != 0 ||
        vote_open(&offline->vote, &offline->folder, false, err) != 0)
        return -1;
    offline->vote_opened = true;
    facts->member_id = offline->folder.member_id;
    facts->epoch_min = offline->folder.epoch_min;
    facts->term = offline->vote.term;
    facts->voted_for = offline->vote.voted_for;
    return 0;
}

int offline_look(const struct consensus_config *config, const struct offline_hooks *hooks,
                 struct offline_facts *ret_facts, struct err *err)
{
    struct offline_facts facts = {0};
    struct offline offline;
    int status = offline_open(&offline, config, false, err);

    if (status == 0)
        status = folder_look(&offline, hooks, &facts, err);
    if (status == 0)
        *ret_facts = facts;
    offline_close(&offline);
    return status;
}

/* ---- restore ---- */

struct emptiness {
    char name[FOLDER_NAME_BYTES]; /* of a member's file that is there; "": none */
};

/* Only what holds a state, a log, a vote or a founding counts: opening the folder makes the lock by
 * itself. */
static void emptiness_visit(void *data, const char *name)
{
    static const char *const ours[] = {"identity", "vote",   "wal-",    "snapshot-",
                                       "damaged-", "synced", "founding"};
    struct emptiness *emptiness = data;

    for (size_t i = 0; i < ARRAY_COUNT(ours); i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0)
            snprintf(emptiness->name, sizeof(emptiness->name), "%s", name);
}

static int empty_check(const struct offline *offline, struct err *err)
{
    const struct disk_ops *disk = offline->folder.disk;
    struct emptiness emptiness = {""};

    if (disk->list_dir(disk->context, offline->folder.path, emptiness_visit, &emptiness, err) != 0)
        return -1;
    if (emptiness.name[0] == '\0')
        return 0;
    return err_set(err, ERR_REFUSED,
                   "%s is not empty (%s): a restore never overwrites a member; move the folder "
                   "away and restore into an empty one",
                   offline->folder.path, emptiness.name);
}

struct file_writer {
    const struct disk_ops *disk;
    struct disk_file *file;
    uint64_t offset;
};

static int file_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct file_writer *writer = context;

    if (writer->disk->write(writer->file, writer->offset, bytes, length, err) != 0)
        return -1;
    writer->offset += length;
    return 0;
}

static int snapshot_make(struct offline *offline, const struct consensus_config *config,
                         const struct offline_origin *origin,
                         int (*content)(void *context, const struct consensus_writer *writer,
                                        struct err *err),
                         void *context, struct err *err)
{
    const struct disk_ops *disk = config->disk;
    struct snapshot_meta meta = {
        .index = origin->index, .term = origin->term, .configuration_index = origin->index};
    struct file_writer file = {.disk = disk};
    const struct consensus_writer raw = {&file, file_write};
    char path[FOLDER_PATH_BYTES];
    int status = 0;

    raft_configuration_init(&meta.configuration);
    for (size_t i = 0; i < config->member_count && status == 0; i++)
        status = raft_configuration_add(&meta.configuration, config->members[i].id,
                                        config->members[i].name, RAFT_VOTER);
    if (status != 0)
        status = err_set(err, ERR_INVALID, "the list of members cannot be encoded");
    if (status == 0)
        status = disk->open(disk->context, folder_path(&offline->folder, RESTORE_FILE, path),
                            DISK_OPEN_CREATE, &file.file, err);
    if (status == 0)
        status = snapshot_write(&raw, &meta, content, context, err);
    disk->close(file.file);
    snapshot_meta_close(&meta);
    return status != 0 ? -1
                       : snapshot_keep_work(&offline->folder, RESTORE_FILE, origin->index,
                                            origin->term, err);
}

/* The record of the founding comes last, like an identity: a restore that was cut short holds
 * neither, and its other files make the folder one that is not empty. */
static int folder_restore(struct offline *offline, const struct consensus_config *config,
                          const struct offline_origin *origin,
                          int (*content)(void *context, const struct consensus_writer *writer,
                                         struct err *err),
                          void *context, struct err *err)
{
    struct folder *folder = &offline->folder;
    struct founding_record record = {.origin = origin->digest, .epoch_min = origin->epoch_min};

    if (empty_check(offline, err) != 0 ||
        snapshot_make(offline, config, origin, content, context, err) != 0 ||
        vote_open(&offline->vote, folder, true, err) != 0)
        return -1;
    offline->vote_opened = true;
    if (vote_save(&offline->vote, origin->term, 0, err) != 0 || log_open(offline, err) != 0 ||
        wal_reset_now(&offline->wal, origin->index + 1, err) != 0)
        return -1;
    return founding_begin(folder, config->random, &record, err);
}

int offline_restore(const struct consensus_config *config, const struct offline_origin *origin,
                    int (*content)(void *context, const struct consensus_writer *writer,
                                   struct err *err),
                    void *context, struct err *err)
{
    struct offline offline;
    int status;

    CHECK(config != NULL);
    CHECK(origin->index > 0 && origin->term > 0);
    CHECK(origin->digest != 0);
    status = offline_open(&offline, config, true, err);
    if (status == 0)
        status = folder_restore(&offline, config, origin, content, context, err);
    offline_close(&offline);
    return status;
}

/* ---- recover ---- */

/* The configuration has this member alone: the quorum of the former one is lost, so nobody else can
 * agree to it. */
static int configuration_append(struct offline *offline, const struct consensus_config *config,
                                uint64_t index, uint64_t term, struct err *err)
{
    struct raft_configuration configuration;
    struct raft_entry entry = {.term = term, .type = RAFT_CHANGE};
    const char *name = NULL;
    int status;

    for (size_t i = 0; i < config->member_count; i++)
        if (config->members[i].id == config->member_id)
            name = config->members[i].name;
    raft_configuration_init(&configuration);
    status = raft_configuration_add(&configuration, config->member_id, name, RAFT_VOTER);
    if (status == 0)
        status = raft_configuration_encode(&configuration, &entry.buf);
    raft_configuration_close(&configuration);
    if (status != 0)
        return err_set(err, ERR_INVALID, "the configuration cannot be encoded");
    status = wal_append_now(&offline->wal, index, &entry, err);
    raft_free(entry.buf.base);
    return status;
}

/* The new term is above all that this folder has seen, so that no entry of the new history has
 * index and term of a former one. */
static int folder_recover(struct offline *offline, const struct consensus_config *config,
                          const struct offline_facts *facts, const struct offline_origin *origin,
                          struct err *err)
{
    struct folder *folder = &offline->folder;
    uint64_t term = (facts->term > facts->last_term ? facts->term : facts->last_term) + 1;
    bool removed;

    if (folder_holds(folder, FOLDER_REMOVED_FILE, &removed, err) != 0)
        return -1;
    if (removed)
        return err_set(
            err, ERR_REFUSED,
            "%s is of a member that was removed from the cluster, and may lack whatever was "
            "acknowledged since: recover another member's folder, or restore a backup",
            folder->path);
    if (log_open(offline, err) != 0 || vote_open(&offline->vote, folder, false, err) != 0)
        return -1;
    offline->vote_opened = true;
    if (offline->vote.term != facts->term ||
        (!facts->log_behind && offline->wal.last_index != facts->last_index))
        return err_set(err, ERR_REFUSED, "%s has changed since it was looked at; look again",
                       folder->path);
    folder->incarnation = origin->incarnation;
    folder->epoch_min = origin->epoch_min;
    if (recovering_write(folder, facts->incarnation, facts->last_index + 1, err) != 0 ||
        folder_claim(folder, err) != 0 || vote_save(&offline->vote, term, 0, err) != 0)
        return -1;
    if (facts->log_behind && wal_reset_now(&offline->wal, facts->last_index + 1, err) != 0)
        return -1;
    if (configuration_append(offline, config, facts->last_index + 1, term, err) != 0)
        return -1;
    return folder_remove(folder, RECOVERING_FILE, err);
}

int offline_recover(const struct consensus_config *config, const struct offline_facts *facts,
                    const struct offline_origin *origin, struct err *err)
{
    struct offline offline;
    int status;

    CHECK(config != NULL);
    CHECK(facts != NULL);
    CHECK(origin->incarnation != 0 && origin->epoch_min > 0 && config->member_id != 0);
    status = offline_open(&offline, config, false, err);
    if (status == 0)
        status = folder_recover(&offline, config, facts, origin, err);
    offline_close(&offline);
    return status;
}
