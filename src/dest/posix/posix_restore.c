/* verify and restore: a shard is read only after its manifest is proven, and used only after every
 * byte is. See posix.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/posix/shard.h"
#include "src/dest/target.h"
#include "src/dest/tree.h"

/* A shard whose manifest is proven and whose listing fits it. */
struct opened {
    char label[MANIFEST_PATH_MAX_BYTES];
    int shard;
    struct buf text;
    struct manifest manifest;
    struct destination_summary summary;
};

static void opened_close(struct opened *opened)
{
    if (opened->shard >= 0)
        close(opened->shard);
    buf_close(&opened->text);
    manifest_close(&opened->manifest);
}

/* Everything but the files' contents is checked here. */
static int opened_check(struct opened *opened, const struct destination_place *place,
                        struct err *err)
{
    if (shard_read_manifest(opened->shard, opened->label, &opened->text, &opened->manifest, err) !=
        0)
        return -1;
    shard_summarize(&opened->manifest, &opened->text, &opened->summary);
    if (place->as_put)
        manifest_drop_frames(&opened->manifest);
    if (place->manifest_sha256 != NULL &&
        strcmp(place->manifest_sha256, opened->summary.manifest_sha256) != 0)
        return err_set(err, ERR_CORRUPT, "%s: the manifest's SHA-256 is %s, recorded was %.64s",
                       opened->label, opened->summary.manifest_sha256, place->manifest_sha256);
    return shard_check_listing(opened->shard, opened->label, true, &opened->manifest, err);
}

/* Who hears NOT_FOUND gives the checkpoint up: where nothing lies at all it is tried again. */
static int open_checkpoint(const struct destination_place *place, struct err *err)
{
    struct err why = {0};
    int folder = place_open(place, &why);

    if (folder >= 0)
        return folder;
    if (why.code == ERR_NOT_FOUND && place_is_bare(place))
        return err_set(
            err, ERR_UNAVAILABLE,
            "nothing on the way to %s is below the prefix %s; mount the file system that "
            "belongs there",
            place->path, place->prefix);
    return err_set(err, why.code, "%s", why.text);
}

static int opened_init(struct opened *opened, const struct destination_place *place,
                       struct err *err)
{
    int folder;

    memset(opened, 0, sizeof(*opened));
    opened->shard = -1;
    if (place_check_part(place->part, err) != 0)
        return -1;
    snprintf(opened->label, sizeof(opened->label), "%s/%s", place->path, place->part);
    folder = open_checkpoint(place, err);
    if (folder < 0)
        return -1;
    opened->shard = shard_open(folder, place->part, opened->label, err);
    close(folder);
    if (opened->shard < 0)
        return -1;
    if (opened_check(opened, place, err) != 0) {
        opened_close(opened);
        return -1;
    }
    return 0;
}

/* The manifest and the listing are looked at in any case; of the bytes what the sample takes, drawn
 * anew each time, so that what one reading passes over another one finds. */
int posix_verify(const struct destination_place *place, const struct destination_how *how,
                 struct destination_summary *ret_summary, struct err *err)
{
    struct sample sample = {.policy = how->read_back};
    struct opened opened;
    struct pool pool;
    int result;

    if (opened_init(&opened, place, err) != 0)
        return -1;
    sample_draw(&sample, &opened.manifest);
    pool_init(&pool, how->threads, how->rate_bytes_per_s);
    pool.pace.of_reading = true;
    result = shard_check_files(&(struct transfer_side){opened.shard, opened.label},
                               &opened.manifest, &sample, &pool, err);
    pool_close(&pool);
    if (result == 0)
        *ret_summary = opened.summary;
    opened_close(&opened);
    return result;
}

/* ---- restore ---- */

/* 1: the target already holds exactly these files; 0: it is free; -1: it holds something else. */
static int target_state(const struct target *target, struct manifest *manifest, struct pool *pool,
                        struct err *err)
{
    bool same;
    int fd = target_look(target, manifest, err);

    if (fd < 0)
        return fd == TARGET_FREE ? 0 : -1;
    same =
        shard_check_files(&(struct transfer_side){fd, target->to}, manifest, NULL, pool, NULL) == 0;
    close(fd);
    return same ? 1 : target_taken(target, err);
}

/* The target has its name only when all its files are there and durable; until then they lie in a
 * hidden folder beside it. Bytes are compared while they are copied: what storage gives now may
 * differ from what it gave a check before. */
static int restore_contents(struct opened *opened, struct target *target, struct pool *pool,
                            struct err *err)
{
    if (target_begin(target, &opened->manifest, err) != 0)
        return -1;
    const struct transfer transfer = {.purpose = TRANSFER_CHECK,
                                      .manifest = &opened->manifest,
                                      .from = {opened->shard, opened->label},
                                      .to = {target->temporary, target->to},
                                      .with_modes = true};
    if (transfer_run(&transfer, pool, err) != 0)
        return -1;
    return target_publish(target, &opened->manifest, err);
}

/* What a killed restore left goes first. A target that holds the same files already is success
 * without a copy: a restore may be asked for again. */
static int restore_run(struct opened *opened, struct target *target, struct pool *pool,
                       struct err *err)
{
    int state = target_state(target, &opened->manifest, pool, err);

    opened->summary.reused = state == 1;
    if (state != 0)
        return state < 0 ? -1 : 0;
    if (restore_contents(opened, target, pool, err) == 0)
        return 0;
    target_drop(target);
    return -1;
}

int posix_restore(const struct destination_place *place, const char *to,
                  const struct destination_how *how, struct destination_summary *ret_summary,
                  struct err *err)
{
    struct opened opened;
    struct target target;
    struct pool pool;
    struct err why = {0};
    int result;

    if (opened_init(&opened, place, err) != 0)
        return -1;
    pool_init(&pool, how->threads, how->rate_bytes_per_s);
    result = target_open(&target, to, &why);
    if (result == 0)
        result = restore_run(&opened, &target, &pool, &why);
    if (result == 0)
        *ret_summary = opened.summary;
    else
        target_failed(&why, err);
    target_close(&target);
    pool_close(&pool);
    opened_close(&opened);
    return result;
}
