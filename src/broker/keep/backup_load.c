/* See backup_load.h. */
#include "src/broker/keep/backup_load.h"

#include <inttypes.h>
#include <string.h>

#include "fsm/fsm.h"
#include "src/backup/backup.h"
#include "src/base/check.h"

/* The state machine's reader only says that it failed; the reason is kept here. */
struct reading {
    struct backup_reader *reader;
    struct err err; /* of the file; code ERR_NONE: none */
};

static int content_read(void *context, void *bytes, size_t length)
{
    struct reading *reading = context;

    return backup_reader_read(reading->reader, bytes, length, &reading->err);
}

/* The header was written from the same state, so it must say the same. */
static int header_agrees(const char *path, const Ckpt__V1__BackupHeader *header,
                         const struct fsm *fsm, struct err *err)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    if (header->state_hash != summary.state_hash || header->index != summary.applied_index ||
        header->term != summary.applied_term || header->epoch != summary.epoch ||
        strcmp(header->cluster_id, summary.cluster_id) != 0 ||
        header->allocation_count != summary.allocation_count ||
        header->checkpoint_count != summary.checkpoint_count)
        return err_set(err, ERR_CORRUPT,
                       "%s: the header says state hash %016" PRIx64 " at index %" PRIu64
                       ", the content comes to %016" PRIx64 " at %" PRIu64 "; take another backup",
                       path, header->state_hash, header->index, summary.state_hash,
                       summary.applied_index);
    if (!summary.initialised)
        return err_set(err, ERR_EMPTY, "%s holds the state of a cluster that was never initialised",
                       path);
    return 0;
}

static void ignore_violation(void *context, const char *text)
{
    (void)context; /* the state was refused if there had been one */
    (void)text;
}

/* The content first, then the rest of the file to its last byte: the digest is at the end. */
static int load_content(const char *path, struct backup_reader *reader, struct fsm *fsm,
                        struct err *err)
{
    struct reading reading = {.reader = reader};
    char text[ERR_TEXT_BYTES / 2] = "";

    if (fsm_snapshot_read(fsm, content_read, &reading, text, sizeof(text)) != 0) {
        if (reading.err.code != ERR_NONE)
            return err_set(err, reading.err.code, "%s", reading.err.text);
        return err_set(err, ERR_CORRUPT, "%s: %s; take another backup", path, text);
    }
    if (backup_reader_finish(reader, err) != 0)
        return -1;
    return header_agrees(path, backup_reader_header(reader), fsm, err);
}

/* Every check is made before anything is told: a file that passes holds a state in which all
 * invariants hold. */
int backup_load(const char *path, struct fsm *fsm, struct backup_loaded *ret_loaded,
                struct err *err)
{
    struct backup_file file;
    struct backup_source source;
    struct backup_reader *reader = NULL;
    int status = backup_file_open(&file, path, &source, err);

    if (status != 0)
        return -1;
    status = backup_reader_open(&source, &reader, err);
    if (status == 0)
        status = load_content(path, reader, fsm, err);
    if (status == 0) {
        memcpy(ret_loaded->sha256, backup_reader_sha256(reader), sizeof(ret_loaded->sha256));
        ret_loaded->file_bytes = backup_reader_file_bytes(reader);
        ret_loaded->content_bytes = backup_reader_content_bytes(reader);
        ret_loaded->invariants_checked = fsm_check(fsm, ignore_violation, NULL);
        ret_loaded->header = backup_reader_take_header(reader);
    }
    backup_reader_free(reader);
    backup_file_close(&file);
    return status;
}

void backup_loaded_close(struct backup_loaded *loaded)
{
    if (loaded->header != NULL)
        ckpt__v1__backup_header__free_unpacked(loaded->header, NULL);
    loaded->header = NULL;
}

/* Into a state machine of its own, which is thrown away. */
int backup_verify(const char *path, FILE *out, struct err *err)
{
    struct fsm *fsm = fsm_new();
    struct backup_loaded loaded;
    int status = backup_load(path, fsm, &loaded, err);

    if (status == 0) {
        fprintf(out,
                "ok: %s: %" PRIu64 " bytes, state hash %016" PRIx64 " at index %" PRIu64
                " (epoch %" PRIu64 "), %" PRIu64 " allocations, %" PRIu64
                " checkpoints, %zu invariants hold\n",
                path, loaded.file_bytes, loaded.header->state_hash, loaded.header->index,
                loaded.header->epoch, loaded.header->allocation_count,
                loaded.header->checkpoint_count, loaded.invariants_checked);
        backup_loaded_close(&loaded);
    }
    fsm_free(fsm);
    return status;
}
