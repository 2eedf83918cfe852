/* A backup as the first snapshot of a new cluster (ckptd --bootstrap --restore). See restore.h. The
 * file is loaded and checked in memory; only then is the data folder written, as a snapshot with a
 * new incarnation that follows from what all members must begin with alike. */
#include "src/broker/keep/restore.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/fsm.h"
#include "raft/log/offline.h"
#include "raft/uv_io.h"
#include "src/backup/backup.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/broker/keep/backup_load.h"
#include "src/broker/keep/recovery.h"
#include "src/dest/sha256.h"
#include "src/rpc/uv_clock.h"

/* The state machine's writer over that of the folder. */
struct content {
    const struct fsm *fsm;
    const struct consensus_writer *writer;
    struct err *err;
};

static int content_put(void *context, const void *bytes, size_t length)
{
    struct content *content = context;

    return content->writer->write(content->writer->context, bytes, length, content->err);
}

static int content_write(void *context, const struct consensus_writer *writer, struct err *err)
{
    struct content content = {context, writer, err};

    return fsm_snapshot_write(content.fsm, content_put, &content) == 0 ? 0 : -1;
}

/* Of all that the members must begin with alike. */
static uint64_t digest_of(const struct config *config, const struct backup_loaded *loaded,
                          uint64_t epoch)
{
    struct sha256 sha256;
    uint8_t digest[SHA256_BYTES], number[8];

    sha256_init(&sha256);
    sha256_start(&sha256);
    sha256_update(&sha256, loaded->sha256, sizeof(loaded->sha256));
    bytes_put(number, epoch, 8);
    sha256_update(&sha256, number, sizeof(number));
    bytes_put(number, FSM_LEVEL_NEWEST, 8); /* of the build: see fsm_begin_passive() */
    sha256_update(&sha256, number, sizeof(number));
    sha256_update(&sha256, config->cluster_id, strlen(config->cluster_id) + 1);
    for (size_t i = 0; i < config->member_count; i++) {
        bytes_put(number, config->members[i].id, 8);
        sha256_update(&sha256, number, sizeof(number));
        sha256_update(&sha256, config->members[i].name, strlen(config->members[i].name) + 1);
    }
    sha256_finish(&sha256, digest);
    sha256_close(&sha256);
    return bytes_get(digest, 8) | 1; /* never 0 */
}

/* Refuses what would make ids be used twice: another cluster's state under this name, or an epoch
 * that was in use. */
static int check_request(const struct config *config, const struct restore_options *options,
                         const struct backup_loaded *loaded, uint64_t epoch, struct err *err)
{
    const Ckpt__V1__BackupHeader *header = loaded->header;
    char number[24];

    if (strcmp(header->cluster_id, config->cluster_id) != 0 && !options->new_cluster_id)
        return err_set(
            err, ERR_REFUSED,
            "%s is a backup of cluster %s, %s says cluster_id %s: give the right file, or "
            "--new-cluster-id to go on with its state as %s",
            options->path, header->cluster_id, config->path, config->cluster_id,
            config->cluster_id);
    snprintf(number, sizeof(number), "%" PRIu64, epoch);
    if (epoch <= header->epoch || epoch > FSM_EPOCH_MAX)
        return err_set(err, ERR_INVALID,
                       "--epoch is %.40s, must be a number above the backup's epoch %" PRIu64
                       " and at most %" PRIu64,
                       options->epoch != NULL ? options->epoch : number, header->epoch,
                       FSM_EPOCH_MAX);
    return 0;
}

/* 0: what was given is no number. */
static uint64_t epoch_of(const struct restore_options *options,
                         const Ckpt__V1__BackupHeader *header)
{
    const char *given = options->epoch;

    if (given == NULL)
        return header->epoch + 1;
    return given[strspn(given, "0123456789")] == '\0' ? strtoull(given, NULL, 10) : 0;
}

/* Every member of the new cluster runs the same command; the digest finds one that was given
 * another file. */
static int restore_into(const struct config *config, const struct restore_options *options,
                        const struct fsm *fsm, const struct backup_loaded *loaded, FILE *out,
                        struct err *err)
{
    const Ckpt__V1__BackupHeader *header = loaded->header;
    uint64_t epoch = epoch_of(options, header);
    struct consensus_member members[CONFIG_MEMBERS_MAX];
    struct consensus_config consensus;
    struct random_ops random;
    struct disk_ops disk;
    const struct offline_origin origin = {.index = header->index,
                                          .term = header->term,
                                          .digest = digest_of(config, loaded, epoch),
                                          .epoch_min = epoch};

    if (check_request(config, options, loaded, epoch, err) != 0)
        return -1;
    recovery_consensus_config(config, members, &disk, &consensus);
    uv_random_ops(&random);
    consensus.random = &random;
    if (offline_restore(&consensus, &origin, content_write, (void *)(uintptr_t)fsm, err) != 0)
        return -1;
    fprintf(out,
            "restored %s from %s: state hash %016" PRIx64 " at index %" PRIu64 ", epoch %" PRIu64
            " becomes %" PRIu64 "\n",
            config->data_dir, options->path, header->state_hash, header->index, header->epoch,
            epoch);
    fprintf(out,
            "the cluster begins passive: it gives no orders, and writes and removes nothing at "
            "targets, until ckptctl cluster adopt\n");
    if (options->epoch == NULL)
        fprintf(out,
                "was anything restored or recovered since the file was written? Then epoch %" PRIu64
                " may have been in use: begin again, in an empty folder, with --epoch N above all "
                "of them\n",
                epoch);
    return 0;
}

int restore_run(const struct config *config, const struct restore_options *options, FILE *out,
                struct err *err)
{
    struct fsm *fsm = fsm_new();
    struct backup_loaded loaded;
    int status = backup_load(options->path, fsm, &loaded, err);

    if (status == 0) {
        fsm_begin_passive(fsm);
        status = restore_into(config, options, fsm, &loaded, out, err);
        backup_loaded_close(&loaded);
    }
    fsm_free(fsm);
    return status;
}
