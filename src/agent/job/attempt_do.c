/* Effects of a checkpoint attempt: the question, the worker, the removal, the words to ckpt-run.
 * See executor.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/durable/kept.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/attempt_say.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/memory.h"
#include "src/agent/job/ranks.h"
#include "src/agent/job/ranks_stream.h"
#include "src/agent/job/sight.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/dest/worker.h"

enum {
    STAGE_DEADLINE_MS = 30000,
    ABANDON_DEADLINE_MS = 10000,
    RETAIN_DEADLINE_MS = 60000,
    PUT_MARGIN_MS = 60000,
    PUT_ARGUMENTS = 24, /* with their end */
    ATTEMPT_MANIFEST_BYTES = sizeof(((struct attempt *)NULL)->directory) + 16,
    HEARD_EACH_US = 20000, /* of the time, for one look at what ranks have written ... */
    HEARD_AT_ONCE = 8,     /* ... which so many looks may be ahead of */
    ESTIMATE_LEVEL = 2     /* from which a cluster keeps what an application expects */
};

/* What the worker calls back: it may outlive the allocation. */
struct put_job {
    struct allocation *allocation; /* NULL: nobody wants to know any more */
};

static void post_event(struct allocation *allocation, const struct attempt_event *event)
{
    job_post(allocation, &(struct job_event){.part = JOB_ATTEMPT, .attempt = *event});
}

static void post_why(struct allocation *allocation, enum attempt_event_kind kind,
                     Ckpt__V1__Reason reason, const char *text)
{
    struct attempt_event event = {.kind = kind, .reason = reason};

    CHECK(kind == ATTEMPT_UNASKED || kind == ATTEMPT_BROKE || kind == ATTEMPT_UNFROZEN);
    CHECK(reason != CKPT__V1__REASON__REASON_NONE);
    text_copy(event.text, sizeof(event.text), text);
    post_event(allocation, &event);
}

/* ---- the question ---- */

static void call_alive(void *data)
{
    attempt_post(data, ATTEMPT_ALIVE, NULL);
}

_Static_assert(ATTEMPT_TOLD_MAX_MS == ASK_ESTIMATE_MAX_MS, "one limit of estimates");

/* A cluster of an earlier level has no place for it. */
static void call_estimate(void *data, uint64_t estimate_ms)
{
    struct allocation *allocation = data;

    if (allocation->agent->feature_level < ESTIMATE_LEVEL)
        call_alive(data);
    else
        post_event(allocation,
                   &(struct attempt_event){.kind = ATTEMPT_ESTIMATE, .estimate_ms = estimate_ms});
}

/* A rank may say so, or write, without end, and one look reads a file of each: the agent serves all
 * jobs of the node. Those that are done side by side are looked at at once all the same. */
static void folder_changed(void *data)
{
    const uint64_t ahead_max_us = (uint64_t)(HEARD_AT_ONCE - 1) * HEARD_EACH_US;
    struct allocation *allocation = data;
    struct executor *executor = &allocation->executor;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t ahead_us = executor->heard_us > now_us ? executor->heard_us - now_us : 0;

    if (allocation->attempt.state == ATTEMPT_ASKED && ahead_us > ahead_max_us) {
        allocation->agent->clock.timer_start(executor->attempt_timer, ahead_us - ahead_max_us);
        return;
    }
    executor->heard_us = now_us + ahead_us + HEARD_EACH_US;
    attempt_post(allocation, ATTEMPT_CHANGED, NULL);
}

static void call_deferred(void *data, uint64_t defer_ms)
{
    post_event(data, &(struct attempt_event){.kind = ATTEMPT_DEFER, .defer_ms = defer_ms});
}

static void call_broken(void *data, Ckpt__V1__Reason reason, const char *text)
{
    post_why(data, ATTEMPT_BROKE, reason, text);
}

static const struct ask_events call_events = {.alive = call_alive,
                                              .estimate = call_estimate,
                                              .answered = folder_changed,
                                              .deferred = call_deferred,
                                              .broken = call_broken};

static void hear_folder(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);

    CHECK(allocation->executor.heard == NULL);
    allocation->executor.heard = machine->folder_watch(machine->context, allocation->folder.opened,
                                                       folder_changed, allocation);
}

static void unwatch_folder(struct allocation *allocation)
{
    allocation_machine(allocation)->folder_watch_free(allocation->executor.heard);
    allocation->executor.heard = NULL;
}

static void hang_up(struct executor *executor)
{
    executor->ask->hang_up(executor->call);
    executor->call = NULL;
}

static void rank_said(struct allocation *allocation, enum attempt_event_kind kind,
                      uint64_t defer_ms)
{
    CHECK(kind == ATTEMPT_BARRIER || kind == ATTEMPT_CHANGED || kind == ATTEMPT_DEFER ||
          kind == ATTEMPT_ALIVE);
    CHECK(defer_ms == 0 || kind == ATTEMPT_DEFER);
    if (kind == ATTEMPT_CHANGED) {
        folder_changed(allocation);
        return;
    }
    if (kind == ATTEMPT_DEFER) /* another one may be done, and not looked at yet */
        attempt_post(allocation, ATTEMPT_CHANGED, NULL);
    post_event(allocation, &(struct attempt_event){.kind = kind, .defer_ms = defer_ms});
}

static void fill_request(struct allocation *allocation, struct ask_request *ret_request)
{
    const struct clock_ops *clock = &allocation->agent->clock;
    const struct ledger_entry *entry = &allocation->entry;
    const struct attempt *attempt = &allocation->attempt;
    uint64_t elapsed_ms = (agent_now_us(allocation->agent) - entry->asked_at_us) / 1000;

    CHECK(attempt->state == ATTEMPT_ASKING || attempt->state == ATTEMPT_ASKED);
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    CHECK(entry->attempt == attempt->attempt);
    CHECK(entry->deferred_ms <= entry->max_deferral_ms);
    *ret_request = (struct ask_request){
        .checkpoint_id = attempt->checkpoint_id,
        .attempt = attempt->attempt,
        .hint = attempt->hint,
        .directory = attempt->directory,
        .elsewhere = attempt_elsewhere(entry),
        .deadline_ms = clock->wall_ms(clock->context) + attempt->timeout_ms - elapsed_ms,
        .max_deferral_ms = entry->max_deferral_ms - entry->deferred_ms,
        .stops = entry->after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
}

const struct rank_hearing attempt_hearing = {.said = rank_said, .question = fill_request};

/* Who put it off has the request already. */
static void ask_application(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    struct executor *executor = &allocation->executor;
    struct ask_target target = sight_target(allocation);
    struct ask_request request;
    const struct ask_listener listener = {&call_events, allocation};
    struct err err = {0};

    CHECK(allocation->attempt.state == ATTEMPT_ASKING);
    CHECK(entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED);
    fill_request(allocation, &request);
    CHECK(executor->call == NULL && executor->heard == NULL);
    if (entry->phase == PHASE_ASKING && executor->ask->prepare(&target, &request, &err) != 0) {
        post_why(allocation, ATTEMPT_UNASKED, CKPT__V1__REASON__REASON_WRITE_FAILED, err.text);
        return;
    }
    hear_folder(allocation);
    allocation->agent->counters.signals_sent++;
    if (executor->ask->fire(executor->ask, &target, &request, &listener, &executor->call, &err) !=
        0)
        post_why(allocation, ATTEMPT_UNASKED, CKPT__V1__REASON__REASON_NOT_ATTACHED, err.text);
    else
        attempt_post(allocation, ATTEMPT_FIRED, NULL);
    attempt_say_way(allocation);
    attempt_say_ranks(allocation);
}

/* ---- standing still ---- */

static void still_ended(void *data, const struct still_result *result)
{
    struct allocation *allocation = data;
    char text[JOB_DETAIL_BYTES];

    CHECK(allocation->executor.still != NULL);
    allocation->executor.still = NULL;
    if (result->job != NULL && allocation->entry.pid != 0 &&
        allocation_remember(&allocation->entry, result->job))
        allocation_commit(allocation, NULL, 0);
    if (!result->whole)
        log_warning("still", "allocation=%s way=%s pid=%d name=\"%s\" text=\"it takes no signal\"",
                    allocation->entry.allocation_id, still_way_name(allocation->executor.still_way),
                    (int)result->stuck, result->stuck_name);
    if (allocation->executor.still_way == STILL_THAW) {
        attempt_post(allocation, ATTEMPT_THAWED, NULL);
        return;
    }
    log_info(
        "frozen", "allocation=%s whole=%d by=%s processes=%zu rounds=%" PRIu32 " took_us=%" PRIu64,
        allocation->entry.allocation_id, result->whole, result->by_cgroup ? "cgroup" : "signals",
        result->count, result->rounds, result->took_us);
    if (allocation->entry.cgroup[0] != '\0' && !result->by_cgroup)
        log_warning("no_cgroup",
                    "allocation=%s text=\"its control group %s cannot be written to any more: the "
                    "job is frozen and ended by signals\"",
                    allocation->entry.allocation_id, allocation->entry.cgroup);
    if (result->whole) {
        attempt_post(allocation, ATTEMPT_FROZEN, NULL);
        return;
    }
    snprintf(text, sizeof(text), "process %d (%.40s) could not be stopped within %d ms",
             (int)result->stuck, result->stuck_name, STILL_LIMIT_MS);
    post_why(allocation, ATTEMPT_UNFROZEN, CKPT__V1__REASON__REASON_NOT_FROZEN, text);
}

/* A freeze that goes on is turned into the thaw. */
static void make_still(struct allocation *allocation, enum still_way way)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;
    struct job_identity job;

    CHECK(way == STILL_THAW || allocation->entry.still == STANDING_STILL); /* the journal has it */
    executor->still_way = way;
    if (executor->still != NULL) {
        machine->job_still_change(executor->still, way);
        return;
    }
    allocation_identity(&allocation->entry, &job);
    executor->still = machine->job_still(machine->context, &job, way, still_ended, allocation);
    if (executor->still == NULL)
        attempt_post(allocation, way == STILL_THAW ? ATTEMPT_THAWED : ATTEMPT_FROZEN, NULL);
}

/* Saved from outside and left stopped for its end, which does not come: the attempt has failed
 * before anything of it stood still by the agent. */
static void let_go_stopped(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (allocation->executor.ask->leaves_stopped && entry->pid != 0 &&
        entry->after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE &&
        entry->still == STANDING_NOT && allocation->executor.still == NULL)
        make_still(allocation, STILL_THAW);
}

/* ---- the worker ---- */

static Ckpt__V1__Reason put_reason(const struct worker_result *result)
{
    int reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;

    if (fsm_enum_parse(&ckpt__v1__reason__descriptor, result->cause, &reason) ||
        result->exit_code == WORKER_EXIT_UNAVAILABLE)
        return (Ckpt__V1__Reason)reason;
    if (result->exit_code == WORKER_EXIT_CORRUPT)
        return CKPT__V1__REASON__REASON_VERIFY_FAILED;
    if (result->exit_code == WORKER_EXIT_EMPTY)
        return CKPT__V1__REASON__REASON_EMPTY_CHECKPOINT;
    return CKPT__V1__REASON__REASON_WRITE_FAILED;
}

static void put_read(const struct worker_result *result, struct attempt_put *put)
{
    char size[32], written[32], left[4];

    put->manifest_left =
        worker_output_get(result->output, "manifest_left", left, sizeof(left)) == 0 &&
        left[0] == '1';
    put->write_ms = result->duration_ms;
    put->reason = put_reason(result);
    text_copy(put->detail, sizeof(put->detail), result->error);
    if (result->exit_code != WORKER_EXIT_OK)
        return;
    put->verified =
        worker_output_get(result->output, "size_bytes", size, sizeof(size)) == 0 &&
        worker_output_get(result->output, "written_bytes", written, sizeof(written)) == 0 &&
        worker_output_get(result->output, "manifest_sha256", put->manifest_sha256,
                          sizeof(put->manifest_sha256)) == 0;
    if (put->verified) {
        put->size_bytes = strtoull(size, NULL, 10);
        put->written_bytes = strtoull(written, NULL, 10);
        return;
    }
    text_copy(put->detail, sizeof(put->detail), "the worker did not tell size and manifest");
}

/* Whose worker has ended; NULL: nobody wants to know any more. */
static struct allocation *worker_ended(struct put_job *job)
{
    struct allocation *allocation = job->allocation;

    CHECK(allocation == NULL || allocation->executor.put_job == job);
    free(job);
    if (allocation == NULL)
        return NULL;
    allocation->executor.worker = NULL;
    allocation->executor.put_job = NULL;
    return allocation;
}

static void put_done(void *data, const struct worker_result *result)
{
    struct allocation *allocation = worker_ended(data);
    struct attempt_event event = {.kind = ATTEMPT_PUT_ENDED};

    if (allocation == NULL)
        return;
    CHECK(allocation->attempt.state == ATTEMPT_PUTTING ||
          allocation->attempt.state == ATTEMPT_HALTING);
    put_read(result, &event.put);
    if (!event.put.verified && allocation->attempt.state == ATTEMPT_PUTTING)
        log_warning("put_failed", "allocation=%s hint=%s exit_code=%d timed_out=%d text=\"%s\"",
                    allocation->entry.allocation_id, allocation->attempt.hint, result->exit_code,
                    result->timed_out, result->error);
    post_event(allocation, &event);
}

static int start_worker(struct allocation *allocation, const char *const *arguments,
                        uint64_t deadline_ms, worker_done_fn *done, struct err *err)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;
    struct put_job *job = check_calloc(1, sizeof(*job));

    CHECK(executor->put_job == NULL);
    CHECK(executor->worker == NULL);
    job->allocation = allocation;
    if (machine->worker_start(machine->context, arguments, allocation_user(allocation), deadline_ms,
                              done, job, &executor->worker, err) != 0) {
        free(job);
        executor->worker = NULL;
        return -1;
    }
    executor->put_job = job;
    return 0;
}

/* A folder in the node's own memory says nothing of a destination. */
static Ckpt__V1__Reason stage_reason(const struct allocation *allocation,
                                     const struct worker_result *result)
{
    Ckpt__V1__Reason reason = put_reason(result);

    if (allocation->entry.memory[0] == '\0')
        return reason;
    return reason == CKPT__V1__REASON__REASON_STORAGE_FULL ? CKPT__V1__REASON__REASON_MEMORY_FULL
                                                           : CKPT__V1__REASON__REASON_WRITE_FAILED;
}

/* Killed, it ends as a put does; whose folder nobody knows the next one of the part removes. */
static void stage_done(void *data, const struct worker_result *result)
{
    struct allocation *allocation = worker_ended(data);
    struct attempt_event event = {.kind = ATTEMPT_STAGE_ENDED};

    if (allocation == NULL)
        return;
    if (allocation->attempt.state == ATTEMPT_HALTING) {
        post_event(allocation, &(struct attempt_event){.kind = ATTEMPT_PUT_ENDED});
        return;
    }
    CHECK(allocation->attempt.state == ATTEMPT_STAGING);
    if (result->exit_code != WORKER_EXIT_OK) {
        event.reason = stage_reason(allocation, result);
        text_copy(event.text, sizeof(event.text), result->error);
        log_warning("stage_failed", "allocation=%s hint=%s exit_code=%d timed_out=%d text=\"%s\"",
                    allocation->entry.allocation_id, allocation->attempt.hint, result->exit_code,
                    result->timed_out, result->error);
    } else if (allocation->entry.memory[0] == '\0' &&
               worker_output_get(result->output, "name", event.text, sizeof(event.text)) != 0) {
        event.reason = CKPT__V1__REASON__REASON_WRITE_FAILED;
        text_copy(event.text, sizeof(event.text), "the worker did not tell the folder's name");
    }
    post_event(allocation, &event);
}

static void start_stage(struct allocation *allocation, const char *const *arguments)
{
    struct attempt_event event = {.kind = ATTEMPT_STAGE_ENDED,
                                  .reason = CKPT__V1__REASON__REASON_WRITE_FAILED};
    struct err err = {0};

    CHECK(allocation->attempt.state == ATTEMPT_STAGING);
    if (start_worker(allocation, arguments, STAGE_DEADLINE_MS, stage_done, &err) == 0)
        return;
    text_copy(event.text, sizeof(event.text), err.text);
    post_event(allocation, &event);
}

/* Of a sensitive job whatever goes is overwritten before. */
static const char *wipe_word(const struct attempt *attempt)
{
    return attempt->wipe ? "yes" : "no";
}

/* What a worker at the destination is told first, whatever its verb: the part that the attempt
 * writes, and what becomes of what is removed there. The others follow, and the end is NULL. */
struct part_arguments {
    const char *at[PUT_ARGUMENTS];
    size_t count;
    char part[PART_NAME_BYTES], claim[MARK_CLAIM_BYTES];
};

static void add_argument(struct part_arguments *arguments, const char *option, const char *value)
{
    CHECK(value != NULL);
    CHECK(arguments->count + 2 < PUT_ARGUMENTS);
    arguments->at[arguments->count++] = option;
    arguments->at[arguments->count++] = value;
}

static void begin_arguments(struct part_arguments *ret_arguments, const char *verb,
                            const struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    const char *claim;

    *ret_arguments = (struct part_arguments){.at = {verb}, .count = 1};
    add_argument(ret_arguments, "--prefix", attempt->target_prefix);
    add_argument(ret_arguments, "--path", attempt->path);
    add_argument(ret_arguments, "--part", part_name_format(attempt->part, ret_arguments->part));
    add_argument(ret_arguments, "--wipe", wipe_word(attempt));
    claim = agent_claim(allocation->agent, attempt->cluster_mark, ret_arguments->claim);
    if (claim != NULL)
        add_argument(ret_arguments, "--cluster", claim);
}

static void stage_at_destination(struct allocation *allocation)
{
    struct part_arguments arguments;

    begin_arguments(&arguments, "stage", allocation);
    start_stage(allocation, arguments.at);
}

/* What the node keeps of earlier ones makes room. */
static void stage_in_memory(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    char bytes[24], most[24];
    const char *arguments[] = {
        "reserve", "--path", entry->memory, "--name", allocation->attempt.hint,
        "--bytes", bytes,    "--most",      most,     NULL};

    copies_give_room(allocation->agent);
    snprintf(bytes, sizeof(bytes), "%" PRIu64, entry->last_bytes);
    snprintf(most, sizeof(most), "%" PRIu64, memory_user_max(allocation->agent));
    start_stage(allocation, arguments);
}

static void stage_folder(struct allocation *allocation)
{
    if (allocation->entry.memory[0] != '\0')
        stage_in_memory(allocation);
    else
        stage_at_destination(allocation);
}

/* Beside the files: of what is kept here. */
static const char *manifest_path(const struct attempt *attempt,
                                 char ret_path[ATTEMPT_MANIFEST_BYTES])
{
    snprintf(ret_path, ATTEMPT_MANIFEST_BYTES, "%s.manifest", attempt->directory);
    return ret_path;
}

/* As the worker has it. */
static const char *read_back_word(Ckpt__V1__ReadBack policy)
{
    if (policy == CKPT__V1__READ_BACK__READ_BACK_NEVER)
        return "never";
    return policy == CKPT__V1__READ_BACK__READ_BACK_ALWAYS ? "always" : "sampled";
}

/* Likewise. */
static const char *compression_word(Ckpt__V1__Compression compression)
{
    return compression == CKPT__V1__COMPRESSION__COMPRESSION_LZ4 ? "lz4" : "none";
}

/* The deadline only ends a worker that hangs for ever: who gives up an attempt in time is the
 * broker. */
static void start_put(struct allocation *allocation, const char *const *arguments)
{
    const struct attempt *attempt = &allocation->attempt;
    struct attempt_event event = {.kind = ATTEMPT_PUT_ENDED};
    struct err err = {0};

    CHECK(attempt->state == ATTEMPT_PUTTING);
    CHECK(attempt->put_started);
    if (start_worker(allocation, arguments, 2 * attempt->timeout_ms + PUT_MARGIN_MS, put_done,
                     &err) == 0)
        return;
    event.put.reason = CKPT__V1__REASON__REASON_WRITE_FAILED;
    text_copy(event.put.detail, sizeof(event.put.detail), err.text);
    post_event(allocation, &event);
}

/* What is sensitive lies at its destination alone. */
static bool keeps_copies(const struct allocation *allocation)
{
    CHECK(allocation->agent != NULL);
    CHECK(allocation->attempt.checkpoint_id != 0);
    return allocation->agent->copies_max_bytes > 0 && !allocation->attempt.wipe;
}

static void copy_checkpoint(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    char rate[24], generations[16], manifest[ATTEMPT_MANIFEST_BYTES];
    struct part_arguments arguments;

    snprintf(rate, sizeof(rate), "%" PRIu64, attempt->granted_bytes_per_s);
    snprintf(generations, sizeof(generations), "%u", attempt->generations);
    begin_arguments(&arguments, "put", allocation);
    add_argument(&arguments, "--source", attempt->directory);
    add_argument(&arguments, "--rate", rate);
    add_argument(&arguments, "--generations", generations);
    add_argument(&arguments, "--read-back", read_back_word(attempt->read_back));
    add_argument(&arguments, "--compress", compression_word(attempt->compression));
    if (keeps_copies(allocation))
        add_argument(&arguments, "--manifest-to", manifest_path(attempt, manifest));
    start_put(allocation, arguments.at);
}

/* What lies at the destination already. */
static void publish_checkpoint(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    struct part_arguments arguments;

    begin_arguments(&arguments, "publish", allocation);
    add_argument(&arguments, "--name", allocation->entry.staged);
    add_argument(&arguments, "--read-back", read_back_word(attempt->read_back));
    start_put(allocation, arguments.at);
}

static void put_checkpoint(struct allocation *allocation)
{
    if (allocation->entry.staged[0] != '\0')
        publish_checkpoint(allocation);
    else
        copy_checkpoint(allocation);
}

static void abandon_failed(struct allocation *allocation, int exit_code, const char *text)
{
    log_warning("abandon_failed", "allocation=%s hint=%s exit_code=%d text=\"%s\"",
                allocation->entry.allocation_id, allocation->attempt.hint, exit_code, text);
}

static void abandon_done(void *data, const struct worker_result *result)
{
    struct allocation *allocation = worker_ended(data);

    if (allocation == NULL)
        return;
    CHECK(allocation->attempt.state == ATTEMPT_ABANDONING);
    if (result->exit_code != WORKER_EXIT_OK && result->exit_code != WORKER_EXIT_NOT_FOUND)
        abandon_failed(allocation, result->exit_code, result->error);
    attempt_post(allocation, ATTEMPT_ABANDONED, NULL);
}

static void abandon_put(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    struct part_arguments arguments;
    struct err err = {0};

    CHECK(attempt->state == ATTEMPT_ABANDONING);
    CHECK(attempt->put_started);
    begin_arguments(&arguments, "abandon", allocation);
    if (start_worker(allocation, arguments.at, ABANDON_DEADLINE_MS, abandon_done, &err) == 0)
        return;
    abandon_failed(allocation, -1, err.text);
    attempt_post(allocation, ATTEMPT_ABANDONED, NULL);
}

/* ---- the work folder ---- */

static void written_removed(void *data)
{
    struct allocation *allocation = data;

    CHECK(allocation->attempt.state == ATTEMPT_REMOVING);
    allocation->executor.cleanup = NULL;
    attempt_post(allocation, ATTEMPT_REMOVED, NULL);
}

/* What is on this node: of what lies at the destination only the link to it. */
static struct cleanup *remove_written(struct allocation *allocation, void (*done)(void *data))
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;
    char out[ATTEMPT_MANIFEST_BYTES], manifest[ATTEMPT_MANIFEST_BYTES];
    const char *folders[MACHINE_FOLDERS_MAX] = {out};
    size_t count = 1;

    CHECK(attempt->checkpoint_id == entry->checkpoint_id);
    snprintf(out, sizeof(out), "%s/out/%s", entry->work_dir, attempt->hint);
    if (entry->memory[0] != '\0')
        folders[count++] = attempt->directory;
    if (keeps_copies(allocation) && entry->staging != CKPT__V1__STAGING__STAGING_DIRECT)
        folders[count++] = manifest_path(attempt, manifest);
    return machine->folders_remove(machine->context, allocation_user(allocation),
                                   &(struct machine_folders){folders, count, attempt->wipe}, done,
                                   allocation);
}

static void written_kept(void *data, const struct worker_result *result)
{
    struct allocation *allocation = worker_ended(data);

    if (allocation == NULL)
        return;
    CHECK(allocation->attempt.state == ATTEMPT_REMOVING);
    copies_made(allocation, result);
    allocation->executor.cleanup = remove_written(allocation, written_removed);
}

/* False: it is not to be kept, or cannot be. */
static bool keep_written(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    const struct ledger_copy *copy = kept_copy_making(&allocation->entry);
    char manifest[ATTEMPT_MANIFEST_BYTES], path[PATH_MAX], part[PART_NAME_BYTES], keep_free[24];
    const char *arguments[] = {
        "retain", "--source", attempt->directory, "--manifest", manifest, "--path", path,
        "--part", part,       "--keep-free",      keep_free,    NULL};
    struct err err = {0};

    if (copy == NULL)
        return false;
    CHECK(copy->checkpoint_id == attempt->checkpoint_id);
    manifest_path(attempt, manifest);
    copies_folder(copy, path);
    part_name_format(copy->part, part);
    snprintf(keep_free, sizeof(keep_free), "%" PRIu64, copies_keep_free(allocation->agent, copy));
    if (start_worker(allocation, arguments, RETAIN_DEADLINE_MS, written_kept, &err) == 0)
        return true;
    copies_made(allocation, NULL);
    return false;
}

/* A memory that was too small for a checkpoint beside the copy of the one before, as its
 * application found. */
static void give_way(struct allocation *allocation)
{
    const Ckpt__V1__Reason reason = allocation->attempt.outcome.reason;

    CHECK(allocation->attempt.state == ATTEMPT_REMOVING);
    if (allocation->entry.memory[0] != '\0' &&
        reason == CKPT__V1__REASON__REASON_APPLICATION_REFUSED)
        copies_give_way(allocation);
}

/* ---- effects ---- */

/* Of the question. */
static bool carry_out_ask(struct allocation *allocation, const struct job_effect *effect)
{
    struct executor *executor = &allocation->executor;
    struct ask_target target;

    switch ((int)effect->kind) {
    case EFFECT_ASK:
        ask_application(allocation);
        return true;
    case EFFECT_UNWATCH:
        unwatch_folder(allocation);
        return true;
    case EFFECT_HANG_UP:
        hang_up(executor);
        let_go_stopped(allocation);
        return true;
    case EFFECT_WITHDRAW:
        ranks_withdraw(allocation);
        return true;
    case EFFECT_TELL_STEP:
        ranks_tell_step(allocation);
        return true;
    case EFFECT_HEAR_AGAIN:
        hear_folder(allocation);
        return true;
    case EFFECT_CLEAR:
        target = sight_target(allocation);
        executor->ask->clear(&target);
        return true;
    default:
        return false;
    }
}

bool attempt_carry_out(struct allocation *allocation, const struct job_effects *effects,
                       const struct job_effect *effect)
{
    const struct clock_ops *clock = &allocation->agent->clock;
    struct executor *executor = &allocation->executor;

    CHECK(executor->stepping);
    switch ((int)effect->kind) {
    case EFFECT_ATTEMPT_TIMER:
        clock->timer_start(executor->attempt_timer, effect->delay_us);
        return true;
    case EFFECT_ATTEMPT_TIMER_STOP:
        clock->timer_stop(executor->attempt_timer);
        return true;
    case EFFECT_ATTEMPT_LOOK:
        attempt_post(allocation, ATTEMPT_TICK, NULL);
        return true;
    case EFFECT_FREEZE:
        make_still(allocation, STILL_FREEZE);
        return true;
    case EFFECT_THAW:
        make_still(allocation, STILL_THAW);
        return true;
    case EFFECT_STAGE:
        stage_folder(allocation);
        return true;
    case EFFECT_PUT:
        put_checkpoint(allocation);
        return true;
    case EFFECT_PUT_KILL:
        CHECK(allocation->attempt.state == ATTEMPT_HALTING);
        if (executor->worker != NULL)
            allocation_machine(allocation)->worker_cancel(executor->worker);
        return true;
    case EFFECT_ABANDON:
        abandon_put(allocation);
        return true;
    case EFFECT_REMOVE:
        give_way(allocation);
        if (!keep_written(allocation))
            executor->cleanup = remove_written(allocation, written_removed);
        return true;
    case EFFECT_SWEEP:
        (void)remove_written(allocation, NULL);
        return true;
    case EFFECT_SAY_LOCAL:
        attempt_say_local(allocation, effects->detail);
        if (effect->reason == CKPT__V1__REASON__REASON_MEMORY_FULL)
            copies_give_way(allocation); /* for the next one */
        return true;
    case EFFECT_SAY_FAILED:
    case EFFECT_SAY_VERIFIED:
        attempt_say_end(allocation, effects, effect);
        return true;
    case EFFECT_SAY_STILL:
        attempt_say_standing(allocation);
        return true;
    default:
        return carry_out_ask(allocation, effect);
    }
}

void attempt_detach(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;

    CHECK(!executor->stepping);
    CHECK((executor->put_job == NULL) == (executor->worker == NULL));
    if (executor->put_job != NULL) {
        executor->put_job->allocation = NULL;
        machine->worker_cancel(executor->worker);
    }
    hang_up(executor);
    ranks_forget(allocation);
    machine->job_still_detach(executor->still);
    executor->still = NULL;
    machine->remove_detach(executor->cleanup);
    unwatch_folder(allocation);
}
