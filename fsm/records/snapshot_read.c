/* A stream of records back into a state.
 *
 * Flow     a new state is built beside the old one, checked against its footer and by fsm_check,
 *          and only then takes its place.
 * Errors   -1 and one line of text; the old state is untouched. Input is not trusted: it may come
 *          from a torn file.
 */
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "fsm/audit/audit.h"
#include "fsm/core/unpack.h"
#include "fsm/job/job.h"
#include "fsm/records/snapshot.h"

struct loader {
    int (*read)(void *context, void *bytes, size_t length);
    void *context;
    struct fsm *fsm;
    uint8_t *buffer;
    uint64_t record_count;
    int stage; /* of the last record: see record_stage() */
    const char *problem;
    bool newer; /* the problem is this build's, not the snapshot's */
    char violation[256];
};

static const snapshot_record *loader_next(struct loader *loader)
{
    ProtobufCAllocator allocator = fsm_arena_allocator(&loader->fsm->arena);
    uint8_t prefix[SNAPSHOT_LENGTH_BYTES];
    size_t length = 0;
    const snapshot_record *record;

    fsm_arena_reset(&loader->fsm->arena);
    if (loader->read(loader->context, prefix, sizeof(prefix)) != 0) {
        loader->problem = "it ends early";
        return NULL;
    }
    for (size_t i = 0; i < sizeof(prefix); i++)
        length |= (size_t)prefix[i] << (8 * i);
    if (length > SNAPSHOT_RECORD_MAX) {
        loader->problem = "a record is too long";
        return NULL;
    }
    if (loader->read(loader->context, loader->buffer, length) != 0) {
        loader->problem = "a record is cut short";
        return NULL;
    }
    record = (const snapshot_record *)fsm_unpack(&ckpt__log__v1__snapshot_record__descriptor,
                                                 &allocator, length, loader->buffer);
    if (record == NULL)
        loader->problem = "a record does not decode";
    return record;
}

static bool loader_footer(struct loader *loader, const Ckpt__Log__V1__SnapshotFooter *footer)
{
    if (footer->record_count == loader->record_count &&
        footer->state_hash == loader->fsm->state_hash)
        return true;
    loader->problem = "the footer does not agree with the records";
    return false;
}

/* Records come in the order of their field numbers, but for what was added after the footer had its
 * own. */
static int record_stage(const snapshot_record *record)
{
    if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_TENANT ||
        record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_CALIBRATION ||
        record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_DRILL ||
        record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_REVOKED)
        return 2 * CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_MEMBER;
    if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_BASIS)
        return 2 * CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_ALLOCATION + 1;
    if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_UNDELETED)
        return 2 * CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_CHECKPOINT + 1;
    if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_PREEMPTION)
        return 2 * CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_QUEUE + 1;
    if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_AUDIT_HEAD ||
        record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_AUDIT)
        return 2 * CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_EVENT + 1;
    return 2 * (int)record->body_case;
}

static bool loader_run(struct loader *loader)
{
    for (;;) {
        struct fsm_outcome ignored = {.status = FSM_OK};
        const snapshot_record *record = loader_next(loader);

        if (record == NULL)
            return false;
        if (record_stage(record) < loader->stage ||
            (loader->record_count == 0) !=
                (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_HEADER)) {
            loader->problem = "records are out of order";
            return false;
        }
        loader->stage = record_stage(record);
        if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_FOOTER)
            return loader_footer(loader, record->footer);
        if (fsm_validate_fields(&record->base, SIZE_MAX, &ignored) != FSM_OK) {
            loader->problem = "a record holds what this version does not know";
            loader->newer = true;
            return false;
        }
        if (!fsm_restore_record(loader->fsm, record)) {
            loader->problem = "a record contradicts the ones before it";
            return false;
        }
        loader->record_count++;
    }
}

static void loader_violation(void *context, const char *text)
{
    struct loader *loader = context;

    if (loader->problem != NULL)
        return;
    snprintf(loader->violation, sizeof(loader->violation), "an invariant does not hold: %s", text);
    loader->problem = loader->violation;
}

struct fsm *fsm_snapshot_load(int (*read)(void *context, void *bytes, size_t length), void *context,
                              char *ret_text, size_t text_size, bool *ret_newer)
{
    struct loader loader = {.read = read,
                            .context = context,
                            .fsm = fsm_new(),
                            .buffer = check_alloc(SNAPSHOT_RECORD_MAX)};

    CHECK(ret_text != NULL || text_size == 0);
    CHECK(ret_newer != NULL);
    if (loader_run(&loader)) {
        fsm_read_restore_lines(loader.fsm);
        fsm_check(loader.fsm, loader_violation, &loader);
        if (!audit_whole(loader.fsm, FSM_AUDIT_MAX))
            loader_violation(&loader, "I41 the audit trail leads to its head");
    }
    free(loader.buffer);
    *ret_newer = false;
    loader.fsm->moved.count = 0; /* fsm_check has looked at every record */
    if (loader.problem == NULL)
        return loader.fsm;
    if (text_size > 0)
        snprintf(ret_text, text_size, "snapshot refused: %s (record %llu)", loader.problem,
                 (unsigned long long)loader.record_count);
    *ret_newer = loader.newer;
    fsm_free(loader.fsm);
    return NULL;
}

void fsm_swap(struct fsm *a, struct fsm *b)
{
    struct fsm kept = *a; /* no pointer leads into struct fsm: the two can trade places */

    CHECK(b != NULL);
    fsm_snapshots_leave(a);
    fsm_snapshots_leave(b);
    *a = *b;
    *b = kept;
}

int fsm_snapshot_read(struct fsm *fsm, int (*read)(void *context, void *bytes, size_t length),
                      void *context, char *ret_text, size_t text_size)
{
    bool newer;
    struct fsm *loaded = fsm_snapshot_load(read, context, ret_text, text_size, &newer);

    CHECK(fsm != NULL);
    if (loaded == NULL)
        return -1;
    fsm_swap(fsm, loaded);
    fsm_free(loaded);
    return 0;
}
