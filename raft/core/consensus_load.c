/* Recovery and bootstrap: what libraft gets to start with. See consensus_internal.h.
 *
 * Flow     the newest snapshot that verifies and its state, then the log from a little before it. A
 *          damaged newest snapshot is set aside when the one before it and the log together say the
 *          same. Whatever can fail does so here: libraft forgets the bytes of the entries that it
 *          was given when it cannot restore the snapshot.
 * Errors   ERR_CORRUPT when acknowledged data may be missing; core_fail() carries the text through
 *          libraft.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "raft/snap/snapshot_format.h"
#include "src/base/check.h"

enum { SNAPSHOTS_LOOKED_AT = 8 };

struct loading {
    uint64_t from;
    uint64_t snapshot_index;
    uint64_t bytes_after_snapshot;
    struct raft_entry *entries;
    size_t count, capacity;
};

/* Entries own their bytes one by one: libraft frees shared batches in quadratic time. */
static int loading_add(void *data, const struct wal_record *record, struct err *err)
{
    struct loading *loading = data;
    struct raft_entry *entry;

    (void)err;
    if (record->index < loading->from)
        return 0;
    if (loading->count == loading->capacity) {
        loading->capacity = loading->capacity == 0 ? 64 : 2 * loading->capacity;
        loading->entries =
            raft_realloc(loading->entries, loading->capacity * sizeof(*loading->entries));
        CHECK(loading->entries != NULL);
    }
    entry = &loading->entries[loading->count++];
    entry->term = record->term;
    entry->type = record->type;
    entry->batch = NULL;
    entry->buf.len = record->length;
    entry->buf.base = raft_malloc(record->length == 0 ? 1 : record->length);
    CHECK(entry->buf.base != NULL);
    memcpy(entry->buf.base, record->payload, record->length);
    if (record->index > loading->snapshot_index)
        loading->bytes_after_snapshot += record->length;
    return 0;
}

static void loading_clear(struct loading *loading)
{
    for (size_t i = 0; i < loading->count; i++)
        raft_free(loading->entries[i].buf.base);
    raft_free(loading->entries);
    *loading = (struct loading){.from = loading->from};
}

/* ---- choosing a snapshot ---- */

/* The damaged file gets another name and is not removed: somebody may want to know what became of
 * it. */
static int set_aside(struct consensus *consensus, const struct snapshot_name *name, struct err *err)
{
    const struct disk_ops *disk = consensus->folder.disk;
    char from[FOLDER_PATH_BYTES], to[FOLDER_PATH_BYTES], text[FOLDER_NAME_BYTES];

    snprintf(text, sizeof(text), "damaged-%016" PRIx64 "-%016" PRIx64, name->index, name->term);
    snapshot_path(&consensus->folder, name->index, name->term, from);
    return disk->rename(disk->context, from, folder_path(&consensus->folder, text, to), err);
}

/* The log must lead from the older snapshot (or the beginning) past the damaged one. */
static int fallback_check(const struct consensus *consensus, uint64_t chosen, uint64_t damaged,
                          const struct err *why, struct err *err)
{
    if (consensus->wal.first_index != 0 && consensus->wal.first_index <= chosen + 1 &&
        consensus->wal.last_index >= damaged)
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "%.300s; the log (%" PRIu64 "..%" PRIu64
                   ") cannot replace it from snapshot %" PRIu64
                   ": remove the member and add it under a new id with an empty folder",
                   why->text, consensus->wal.first_index, consensus->wal.last_index, chosen);
}

static int snapshot_choose(struct consensus *consensus, struct snapshot_meta *ret_meta,
                           struct err *err)
{
    struct snapshot_name names[SNAPSHOTS_LOOKED_AT];
    struct err why = {ERR_NONE, ""};
    char path[FOLDER_PATH_BYTES];
    uint64_t damaged = 0;
    size_t count, i;

    memset(ret_meta, 0, sizeof(*ret_meta));
    if (snapshot_list(&consensus->folder, names, SNAPSHOTS_LOOKED_AT, &count, err) != 0)
        return -1;
    for (i = 0; i < count; i++) {
        snapshot_path(&consensus->folder, names[i].index, names[i].term, path);
        if (snapshot_verify(&consensus->folder, path, ret_meta, &why) == 0)
            break;
        if (why.code != ERR_CORRUPT)
            return err_set(err, why.code, "%s", why.text);
        if (damaged == 0)
            damaged = names[i].index;
    }
    if (damaged != 0 && fallback_check(consensus, ret_meta->index, damaged, &why, err) != 0) {
        snapshot_meta_close(ret_meta);
        return -1;
    }
    for (size_t j = 0; j < i; j++)
        if (set_aside(consensus, &names[j], err) != 0)
            return -1;
    if (i < count)
        consensus->snapshot = names[i];
    /* A copied folder may hold two of one index: the one before ends earlier. */
    for (size_t j = i + 1; j < count && consensus->snapshot_previous_index == 0; j++)
        if (names[j].index < names[i].index)
            consensus->snapshot_previous_index = names[j].index;
    return 0;
}

/* ---- the log ---- */

static uint64_t term_at_snapshot(const struct loading *loading)
{
    uint64_t index = loading->snapshot_index;

    if (index < loading->from || index - loading->from >= loading->count)
        return 0;
    return loading->entries[index - loading->from].term;
}

/* A log that ends before the snapshot, or has another entry at its index, was about to be replaced
 * when the member died while installing the snapshot. */
static int log_reconcile(struct consensus *consensus, const struct snapshot_meta *meta,
                         struct loading *loading, struct err *err)
{
    struct wal *wal = &consensus->wal;

    if (wal->first_index > meta->index + 1)
        return err_set(err, ERR_CORRUPT,
                       "%s: the log begins at %" PRIu64 " but the newest snapshot ends at %" PRIu64
                       ": files are missing; remove the member and add it under a new id",
                       consensus->folder.path, wal->first_index, meta->index);
    if (meta->index == 0) {
        if (loading->count > 0 ? loading->entries[0].type == RAFT_CHANGE : consensus->joining)
            return 0;
        return err_set(
            err, ERR_CORRUPT,
            "%s: neither snapshot nor the first log record is there; remove the member and "
            "add it under a new id",
            consensus->folder.path);
    }
    if (wal->first_index == meta->index + 1 ||
        (wal->first_index != 0 && term_at_snapshot(loading) == meta->term))
        return 0;
    loading_clear(loading);
    loading->from = meta->index + 1;
    return wal_reset_now(wal, meta->index + 1, err);
}

/* Of the entries that the snapshot holds only the last are loaded: they serve members that are a
 * little late, and a restart need not hold all of them in memory. */
static int log_load(struct consensus *consensus, const struct snapshot_meta *meta,
                    struct loading *loading, struct err *err)
{
    uint64_t first = consensus->wal.first_index == 0 ? 1 : consensus->wal.first_index;

    loading->snapshot_index = meta->index;
    loading->from = first;
    if (meta->index > CORE_TRAILING_ENTRIES_LOADED &&
        loading->from < meta->index - CORE_TRAILING_ENTRIES_LOADED)
        loading->from = meta->index - CORE_TRAILING_ENTRIES_LOADED;
    if (wal_walk(&consensus->wal, loading_add, loading, err) != 0)
        return -1;
    return log_reconcile(consensus, meta, loading, err);
}

/* libraft wants the content as bytes in memory. It gets eight that mean nothing: the content goes
 * from and to files. */
static struct raft_snapshot *token_of(struct snapshot_meta *take_meta)
{
    struct raft_snapshot *token = raft_malloc(sizeof(*token));

    memset(token, 0, sizeof(*token));
    token->index = take_meta->index;
    token->term = take_meta->term;
    token->configuration = take_meta->configuration;
    token->configuration_index = take_meta->configuration_index;
    token->n_bufs = 1;
    token->bufs = raft_malloc(sizeof(*token->bufs));
    CHECK(token->bufs != NULL);
    token->bufs[0].len = sizeof(uint64_t);
    token->bufs[0].base = raft_calloc(1, sizeof(uint64_t));
    CHECK(token->bufs[0].base != NULL);
    return token;
}

struct raft_snapshot *core_snapshot_token(const struct consensus *consensus, struct err *err)
{
    char path[FOLDER_PATH_BYTES];
    struct snapshot_opened opened;

    CHECK(consensus != NULL);
    if (consensus->snapshot.index == 0)
        return NULL;
    snapshot_path(&consensus->folder, consensus->snapshot.index, consensus->snapshot.term, path);
    if (snapshot_open(&consensus->folder, path, &opened, err) != 0)
        return NULL;
    consensus->folder.disk->close(opened.file);
    return token_of(&opened.meta);
}

int core_io_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                 struct raft_snapshot **snapshot, raft_index *start_index,
                 struct raft_entry *entries[], size_t *n_entries)
{
    struct consensus *consensus = io->impl;
    struct loading loading = {.from = 1};
    struct snapshot_meta meta;
    struct err err;

    CHECK(term != NULL);
    CHECK(voted_for != NULL);
    CHECK(snapshot != NULL);
    CHECK(entries != NULL);
    CHECK(start_index != NULL);
    CHECK(n_entries != NULL);
    if (snapshot_choose(consensus, &meta, &err) != 0) {
        core_fail(consensus, &err);
        return RAFT_CORRUPT;
    }
    if ((meta.index != 0 && core_snapshot_load(consensus, &err) != 0) ||
        log_load(consensus, &meta, &loading, &err) != 0) {
        snapshot_meta_close(&meta);
        loading_clear(&loading);
        core_fail(consensus, &err);
        return RAFT_CORRUPT;
    }
    if (meta.index != 0)
        membership_loaded(&consensus->safety.membership, &meta.configuration,
                          meta.configuration_index);
    /* S19: libraft lets it lead at once, in its old term, in which learners may hold entries that
     * this log has lost. */
    if (safety_rule(19) &&
        membership_loads_sole_voter(loading.entries, loading.count,
                                    &consensus->safety.membership.committed,
                                    consensus->config.member_id) &&
        vote_save(&consensus->vote, consensus->vote.term + 1, consensus->config.member_id, &err) !=
            0) {
        snapshot_meta_close(&meta);
        loading_clear(&loading);
        core_fail(consensus, &err);
        return RAFT_IOERR;
    }
    *term = consensus->vote.term;
    *voted_for = consensus->vote.voted_for;
    *snapshot = meta.index == 0 ? NULL : token_of(&meta);
    *start_index = loading.count > 0 ? loading.from : meta.index + 1;
    *entries = loading.entries;
    *n_entries = loading.count;
    consensus->bytes_since_snapshot = loading.bytes_after_snapshot;
    return 0;
}
