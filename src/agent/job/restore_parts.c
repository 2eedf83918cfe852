/* What a part of a job needs of a checkpoint: which shards, and the workers that bring or verify
 * them one after the other. See restart_points.h.
 *
 * Shapes   restore own: the shard of this part. All: those of all parts, each in a folder of its
 *          own. Path: the parts verify all shards together, where they lie.
 * Errors   a shard that is not there, or is not what was recorded, is told to the state: all parts
 *          choose again. A destination that is away is tried again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/reconcile.h"
#include "src/agent/job/restore_internal.h"
#include "src/agent/run/words.h"

enum {
    RESTORE_DEADLINE_MS = 24 * 3600 * 1000, /* a hung mount; ckpt-run may give up earlier */
    WORKER_REFUSALS_MAX = 3, /* a worker of the agent before may not have ended yet */
    AWAY_TRIES_MAX = 30,     /* with a place in line: others may be able to read there */
    RESTORE_ALL_PARTS_MAX = 256
};

/* ---- bringing the files ---- */

static void restore_next(struct restore *restore);

void restore_say_found(struct restore *restore)
{
    CHECK(restore->have || restore->damaged);
    restore->found(restore->data,
                   &(struct restore_found){.checkpoint_id = restore->checkpoint_id,
                                           .damaged = restore->damaged,
                                           .mode = restore->mode,
                                           .detail = restore->damaged ? restore->damage : ""});
}

/* A shard is not there or is not what was recorded: all parts choose again, by the state. */
static void restore_damaged(struct restore *restore, const struct restore_part *part,
                            const char *text)
{
    char whole[2 * RESTORE_TEXT_BYTES];

    CHECK(restore->checkpoint_id != 0);
    restore->damaged = true;
    snprintf(whole, sizeof(whole), "%s (written on %s): %s", part->name, part->node_id, text);
    words_cut(whole, restore->damage, sizeof(restore->damage));
    restore_say_found(restore);
    restore_hold(restore);
}

void restore_ready(struct restore *restore)
{
    CHECK(restore->have && restore->begin == BEGIN(MAY));
    restore_finish(restore, &(struct restore_result){.checkpoint_id = restore->checkpoint_id,
                                                     .folder = restore->folder,
                                                     .notice = restore->notice,
                                                     .error = "",
                                                     .path = restore->lies_at,
                                                     .snapshot_at_ms = restore->snapshot_at_ms,
                                                     .mode = restore->mode,
                                                     .uri = restore->uri,
                                                     .label = restore->label,
                                                     .from_copy = restore->from_copy,
                                                     .parts = restore->checkpoint_parts});
}

/* All that this part needs of it is here and verified. The next run has a word of its own on what
 * it begins from. */
static void restore_complete(struct restore *restore)
{
    CHECK(restore->part_next == restore->part_count);
    if (reconcile_run_over(restore->agent->orders, restore->allocation_id, restore->run)) {
        restore_again(restore, RESTORE_RETRY_MS);
        return;
    }
    restore->have = true;
    if (restore->begin == BEGIN(MAY)) {
        restore_leave_line(restore);
        restore_ready(restore);
        return;
    }
    restore->reads_id = 0; /* the state takes its place back by that word */
    restore_say_found(restore);
    restore_hold(restore);
}

/* What lies there is not what the broker wrote, and somebody must see to it: no try of ours changes
 * that. */
static void restore_refused(struct restore *restore, const struct restore_part *part,
                            const char *text)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], error[RESTORE_TEXT_BYTES];

    CHECK(restore->checkpoint_id != 0);
    if (++restore->worker_refusals < WORKER_REFUSALS_MAX) {
        restore_again(restore, RESTORE_STORAGE_RETRY_MS);
        return;
    }
    snprintf(error, sizeof(error), "checkpoint %s cannot be restored (%s, written on %s): %.300s",
             checkpoint_id_format(restore->checkpoint_id, id), part->name, part->node_id, text);
    restore_leave_line(restore);
    restore_finish(
        restore, &(struct restore_result){.folder = "", .notice = restore->notice, .error = error});
}

/* Where it lies, for people. */
static const char *restore_place(const struct restore *restore)
{
    CHECK(restore->path[0] != '\0');
    return restore->target_prefix[0] != '\0' ? restore->target_prefix : restore->path;
}

static void note_since(struct restore *restore)
{
    const struct clock_ops *clock = &restore->agent->clock;

    CHECK(restore->checkpoint_id != 0);
    if (restore->since_ms == 0)
        restore->since_ms = clock->wall_ms(clock->context);
}

static void say_away(struct restore *restore)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], since[WORDS_BYTES], outage[RESTORE_TEXT_BYTES / 2];

    CHECK(restore->since_ms != 0);
    restore_waits(restore,
                  "checkpoint %s waits for %.100s since %s: %s; it is tried again and again, and "
                  "goes on by itself when that can be read (ckptctl targets)%s",
                  checkpoint_id_format(restore->checkpoint_id, id), restore_place(restore),
                  words_clock(restore->since_ms, since), restore->away,
                  restore_outage_text(restore, outage));
}

void restore_say_reading(struct restore *restore)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], since[WORDS_BYTES], outage[RESTORE_TEXT_BYTES / 2];

    CHECK(restore->worker != NULL);
    CHECK(restore->since_ms != 0);
    restore_outage_text(restore, outage);
    if (restore->away[0] != '\0')
        say_away(restore);
    else if (outage[0] != '\0')
        restore_waits(restore,
                      "checkpoint %s is read from %.150s since %s, and that target is away; this "
                      "goes on by itself when it answers again (ckptctl targets)%s",
                      checkpoint_id_format(restore->checkpoint_id, id), restore_place(restore),
                      words_clock(restore->since_ms, since), outage);
    else
        restore_waits(restore,
                      "checkpoint %s is read from %.150s since %s; if nothing comes from there, "
                      "this goes on by itself when it answers again (ckptctl targets)",
                      checkpoint_id_format(restore->checkpoint_id, id), restore_place(restore),
                      words_clock(restore->since_ms, since));
    restore->agent->clock.timer_start(restore->reading, RESTORE_READING_MS * UINT64_C(1000));
}

/* The destination is away: the checkpoint is neither lost nor damaged. */
static void restore_away(struct restore *restore, const char *cause, const char *text)
{
    char what[WORDS_BYTES];
    int reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;

    CHECK(restore->worker == NULL);
    note_since(restore);
    (void)fsm_enum_parse(&ckpt__v1__reason__descriptor, cause, &reason);
    snprintf(restore->away, sizeof(restore->away), "%s, %.200s",
             words_enum(&ckpt__v1__reason__descriptor, reason, what), text);
    say_away(restore);
    if (++restore->away_count % AWAY_TRIES_MAX == 0)
        restore_leave_line(restore);
    restore_again(restore, RESTORE_STORAGE_RETRY_MS);
}

/* What the worker made of the node's own copy, if it was given one. */
static void take_copy(struct restore *restore, const struct worker_result *result)
{
    char copy[16], why[RESTORE_TEXT_BYTES] = "";

    CHECK(restore->worker == NULL);
    if (worker_output_get(result->output, "copy", copy, sizeof(copy)) != 0)
        return;
    restore->from_copy = strcmp(copy, "used") == 0;
    if (restore->from_copy) {
        restore->agent->counters.copy_restores++;
        return;
    }
    (void)worker_output_get(result->output, "copy_error", why, sizeof(why));
    copies_failed(restore->agent, restore->allocation_id, restore->checkpoint_id,
                  restore->parts[restore->part_next].name, strcmp(copy, "lost") == 0, why);
}

static void restore_worker_done(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    const struct restore_part *part = &restore->parts[restore->part_next];
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->worker != NULL);
    CHECK(restore->part_next < restore->part_count);
    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    restore_end_look(restore);
    if (restore->superseded) {
        restore->superseded = false;
        restore_again(restore, 0);
        return;
    }
    if (result->output != NULL)
        take_copy(restore, result);
    if (restore->by_copy && result->exit_code != WORKER_EXIT_OK) { /* the target has it as well */
        restore->copy_unusable = true;
        restore_again(restore, 0);
        return;
    }
    if (result->exit_code == WORKER_EXIT_OK) {
        restore->away_count = 0;
        restore->since_ms = 0;
        restore->away[0] = '\0';
        restore->part_next++;
        restore_next(restore);
        return;
    }
    log_warning("restore_failed", "allocation=%s checkpoint=%s shard=%s exit_code=%d text=\"%s\"",
                restore->allocation_id, checkpoint_id_format(restore->checkpoint_id, id),
                part->name, result->exit_code, result->error);
    if (result->exit_code == WORKER_EXIT_CORRUPT || result->exit_code == WORKER_EXIT_NOT_FOUND)
        restore_damaged(restore, part, result->error);
    else if (result->exit_code == WORKER_EXIT_REFUSED || result->exit_code == WORKER_EXIT_USAGE)
        restore_refused(restore, part, result->error);
    else
        restore_away(restore, result->cause, result->error);
}

/* Below the work folder: `restore`, and with several parts a folder in it. */
static int make_restore_folder(const struct restore *restore, const char *name, struct err *err)
{
    const struct machine_ops *machine = &restore->agent->machine;
    const struct machine_file folder = {restore->opened, restore->user, name};

    return machine->folder_make(machine->context, &folder, true, err);
}

static int make_restore_folders(const struct restore *restore, struct err *err)
{
    char name[CHECKPOINT_ID_TEXT_BYTES + 16], id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->checkpoint_id != 0);
    if (restore->folder[0] == '\0')
        return 0;
    if (make_restore_folder(restore, "restore", err) != 0)
        return -1;
    if (restore->mode != CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL)
        return 0;
    snprintf(name, sizeof(name), "restore/%s", checkpoint_id_format(restore->checkpoint_id, id));
    return make_restore_folder(restore, name, err);
}

struct worker_words {
    const char *arguments[20];
    size_t count;
};

static void add_words(struct worker_words *words, const char *option, const char *value)
{
    CHECK(words->count + 3 <= ARRAY_COUNT(words->arguments));
    words->arguments[words->count++] = option;
    words->arguments[words->count++] = value;
}

/* Without a place in line the node's own copy is all that is read. */
static int start_worker(struct restore *restore, const struct restore_part *part, struct err *err)
{
    struct worker_words words = {{part->to[0] != '\0' ? "restore" : "verify"}, 1};
    const struct machine_ops *machine = &restore->agent->machine;
    const struct ledger_copy *copy = restore_copy_of(restore, part);
    char copy_folder[PATH_MAX], rate[24];

    CHECK(restore->worker == NULL);
    restore->by_copy = copy != NULL && restore->read == CKPT__V1__READ_STATE__READ_STATE_ASK;
    add_words(&words, "--path", restore->path);
    add_words(&words, "--part", part->name);
    if (copy != NULL)
        add_words(&words, "--copy", copies_folder(copy, copy_folder));
    if (restore->by_copy)
        add_words(&words, "--from", "copy");
    if (part->to[0] != '\0')
        add_words(&words, "--to", part->to);
    if (restore->target_prefix[0] != '\0')
        add_words(&words, "--prefix", restore->target_prefix);
    if (part->manifest_sha256[0] != '\0')
        add_words(&words, "--manifest-sha256", part->manifest_sha256);
    snprintf(rate, sizeof(rate), "%" PRIu64, restore->rate_bytes_per_s);
    if (restore->rate_bytes_per_s > 0)
        add_words(&words, "--rate", rate);
    return machine->worker_start(machine->context, words.arguments, restore->user,
                                 RESTORE_DEADLINE_MS, restore_worker_done, restore,
                                 &restore->worker, err);
}

static void restore_next(struct restore *restore)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    struct err err = {0};

    CHECK(restore->call == NULL);
    CHECK(restore->what == RESTORE_FILES);
    CHECK(restore->checkpoint_id != 0);
    if (restore->part_next == restore->part_count) {
        restore_complete(restore);
        return;
    }
    if (restore_lacks_place(restore, &restore->parts[restore->part_next])) {
        restore_again(restore, 0); /* it says that it wants to read, and waits */
        return;
    }
    if ((restore->part_next > 0 || make_restore_folders(restore, &err) == 0) &&
        start_worker(restore, &restore->parts[restore->part_next], &err) == 0) {
        note_since(restore);
        restore->agent->clock.timer_start(restore->reading, RESTORE_READING_MS * UINT64_C(1000));
        return;
    }
    restore->worker = NULL;
    log_warning("restore_failed", "allocation=%s checkpoint=%s text=\"%s\"", restore->allocation_id,
                checkpoint_id_format(restore->checkpoint_id, id), err.text);
    restore_again(restore, RESTORE_STORAGE_RETRY_MS);
}

/* ---- which of them ---- */

static struct restore_part *add_part(struct restore *restore, const Ckpt__V1__ShardInfo *shard)
{
    struct restore_part *part = &restore->parts[restore->part_count++];

    CHECK(restore->parts != NULL);
    *part = (struct restore_part){.to = ""};
    part_name_format(shard->part, part->name);
    snprintf(part->node_id, sizeof(part->node_id), "%s", shard->node_id);
    snprintf(part->manifest_sha256, sizeof(part->manifest_sha256), "%s", shard->manifest_sha256);
    return part;
}

/* The state chose it when the run began: no other part restores it. */
static const Ckpt__V1__ShardInfo *own_shard(const Ckpt__V1__RestartPoint *point)
{
    CHECK(point->checkpoint_id != 0);
    return point->own_shard == 0 || point->own_shard > point->n_shards
               ? NULL
               : point->shards[point->own_shard - 1];
}

/* Each part in a folder of its own. */
static void choose_all(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(point->n_shards <= RESTORE_ALL_PARTS_MAX);
    snprintf(restore->lies_at, sizeof(restore->lies_at), "%s", restore->path);
    for (size_t i = 0; i < point->n_shards; i++) {
        struct restore_part *part = add_part(restore, point->shards[i]);

        snprintf(part->to, sizeof(part->to), "%.*s/%s",
                 (int)(sizeof(part->to) - PART_NAME_BYTES - 2), restore->folder, part->name);
    }
}

/* The parts verify all shards together; each reads what it wants where it lies. */
static void choose_path(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(point->n_node_ids > 0);
    restore->folder[0] = '\0';
    snprintf(restore->lies_at, sizeof(restore->lies_at), "%s", restore->path);
    snprintf(restore->uri, sizeof(restore->uri), "file://%s", restore->path);
    for (size_t i = restore->place; i < point->n_shards; i += point->n_node_ids)
        add_part(restore, point->shards[i]);
}

static void choose_own(struct restore *restore, const Ckpt__V1__ShardInfo *shard)
{
    struct restore_part *part = add_part(restore, shard);

    snprintf(restore->lies_at, sizeof(restore->lies_at), "%s/%s", restore->path, part->name);
    snprintf(part->to, sizeof(part->to), "%s", restore->folder);
}

static void restore_elsewhere(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], error[RESTORE_TEXT_BYTES];

    snprintf(error, sizeof(error),
             "checkpoint %s has %zu parts and this job %zu, and none of them is for part %u; "
             "restart it on %zu nodes, or let it restore all parts or the path (--restore)",
             checkpoint_id_format(restore->checkpoint_id, id), point->n_shards, point->n_node_ids,
             (unsigned)restore->place, point->n_shards);
    restore_finish(
        restore, &(struct restore_result){.folder = "", .notice = restore->notice, .error = error});
}

static void restore_too_many(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char error[RESTORE_TEXT_BYTES];

    snprintf(
        error, sizeof(error),
        "the checkpoint has %zu parts, and a node restores all of them up to %d; let it restore "
        "the path (--restore path)",
        point->n_shards, RESTORE_ALL_PARTS_MAX);
    restore_error(restore, error);
}

/* False: it cannot be, and the restore is over. */
static bool choose_parts(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const Ckpt__V1__ShardInfo *shard;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->worker == NULL);
    free(restore->parts);
    restore->parts = check_calloc(point->n_shards + 1, sizeof(*restore->parts));
    restore->part_count = restore->part_next = 0;
    restore->mode = restore_mode(restore, point);
    restore->checkpoint_parts = (uint32_t)point->n_shards;
    restore->uri[0] = '\0';
    snprintf(restore->folder, sizeof(restore->folder), "%s/restore/%s", restore->work_dir,
             checkpoint_id_format(restore->checkpoint_id, id));
    if (restore->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH) {
        choose_path(restore, point);
        return true;
    }
    if (restore->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL) {
        if (point->n_shards > RESTORE_ALL_PARTS_MAX) {
            restore_too_many(restore, point);
            return false;
        }
        choose_all(restore, point);
        return true;
    }
    shard = own_shard(point);
    if (shard == NULL) {
        restore_elsewhere(restore, point);
        return false;
    }
    choose_own(restore, shard);
    return true;
}

/* With all parts it is the same at each place, and a part's own stays the same at another one. */
bool restore_is_of(const struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(restore->worker == NULL);
    if (restore->checkpoint_id == 0 || restore->checkpoint_id != point->checkpoint_id)
        return false;
    if (restore->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH)
        return restore->brought_place == restore->place &&
               restore->brought_places == point->n_node_ids;
    return restore->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL ||
           restore->brought_shard == point->own_shard;
}

void restore_bring(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(point->checkpoint_id != 0);
    CHECK(restore->call == NULL && restore->worker == NULL);
    if (restore->checkpoint_id != point->checkpoint_id)
        restore->copy_unusable = false;
    restore->checkpoint_id = point->checkpoint_id;
    restore->brought_place = restore->place;
    restore->brought_places = (uint32_t)point->n_node_ids;
    restore->brought_shard = point->own_shard;
    restore->have = restore->damaged = restore->from_copy = false;
    restore->snapshot_at_ms = point->snapshot_at_ms;
    snprintf(restore->label, sizeof(restore->label), "%s", point->label);
    snprintf(restore->path, sizeof(restore->path), "%s", point->path);
    snprintf(restore->target_prefix, sizeof(restore->target_prefix), "%s", point->target_prefix);
    if (choose_parts(restore, point) && restore_may_read(restore, point))
        restore_next(restore);
}
