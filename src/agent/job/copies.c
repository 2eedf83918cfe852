/* The node's own copies of what its jobs wrote. See copies.h. */
#include "src/agent/job/copies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/durable/kept.h"
#include "src/agent/job/memory.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

enum { SPACE_DEADLINE_MS = 5000 };

const char *copies_folder(const struct ledger_copy *copy, char ret_path[PATH_MAX])
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(copy->work_dir[0] == '/');
    snprintf(ret_path, PATH_MAX, "%s/copies/%s", copy->work_dir,
             checkpoint_id_format(copy->checkpoint_id, id));
    return ret_path;
}

uint64_t copies_keep_free(const struct agent *agent, const struct ledger_copy *copy)
{
    return agent->copies_keep_free > copy->size_bytes && !memory_holds(agent, copy->work_dir)
               ? agent->copies_keep_free
               : copy->size_bytes;
}

static void log_copy(const struct allocation *allocation, const struct ledger_copy *copy,
                     const char *event, const char *why)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    log_info(event,
             "allocation=%s checkpoint=%s part=%" PRIu32 " size_bytes=%" PRIu64 " text=\"%s\"",
             allocation->entry.allocation_id, checkpoint_id_format(copy->checkpoint_id, id),
             copy->part, copy->size_bytes, why);
}

static Ckpt__V1__AgentReport copy_report(const struct ledger_copy *copy, Ckpt__V1__ReportKind kind)
{
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    CHECK(copy->checkpoint_id != 0);
    CHECK(copy->state >= COPY_MAKING && copy->state <= COPY_GOING);
    report.kind = kind;
    report.checkpoint_id = copy->checkpoint_id;
    report.part = copy->part;
    report.size_bytes = copy->size_bytes;
    return report;
}

/* ---- away ---- */

static struct ledger_copy *find_going(struct ledger_entry *entry)
{
    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (entry->copies[i].state == COPY_GOING)
            return &entry->copies[i];
    return NULL;
}

static void copies_sweep(struct allocation *allocation);

static void copy_swept(void *data)
{
    struct allocation *allocation = data;
    struct ledger_copy *copy = find_going(&allocation->entry);

    CHECK(copy != NULL);
    CHECK(allocation->executor.copy_sweep != NULL);
    allocation->executor.copy_sweep = NULL;
    kept_copy_remove(&allocation->entry, copy);
    allocation_commit(allocation, NULL, 0);
    copies_sweep(allocation);
    memory_close(allocation);
}

/* One after the other, the first one first: as that user whose files they are. */
static void copies_sweep(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_copy *copy = find_going(&allocation->entry);
    char path[PATH_MAX];
    const char *folders[] = {path};

    if (copy == NULL || allocation->executor.copy_sweep != NULL)
        return;
    CHECK(copy->state == COPY_GOING);
    copies_folder(copy, path);
    allocation->executor.copy_sweep = machine->folders_remove(
        machine->context, (struct machine_user){.uid = copy->uid, .gid = copy->gid},
        &(struct machine_folders){folders, 1, allocation->entry.wipe}, copy_swept, allocation);
}

/* why NULL: nobody counts on it. */
static void copy_drop(struct allocation *allocation, struct ledger_copy *copy, const char *why)
{
    Ckpt__V1__AgentReport report =
        copy_report(copy, CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_DROPPED);
    char detail[JOB_DETAIL_BYTES];

    CHECK(copy->state == COPY_HERE);
    CHECK(copy >= allocation->entry.copies);
    CHECK(copy < allocation->entry.copies + allocation->entry.copy_count);
    log_copy(allocation, copy, "copy_dropped", why == NULL ? "not wanted any more" : why);
    copy->state = COPY_GOING;
    allocation->agent->counters.copies_dropped++;
    if (why != NULL) {
        snprintf(detail, sizeof(detail), "%s", why);
        report.detail = detail;
        allocation_commit(allocation, &report, 0);
    } else {
        allocation_commit(allocation, NULL, 0);
    }
    copies_sweep(allocation);
}

void copies_resume(struct allocation *allocation)
{
    copies_sweep(allocation);
}

void copies_detach(struct allocation *allocation)
{
    allocation_machine(allocation)->remove_detach(allocation->executor.copy_sweep);
    allocation->executor.copy_sweep = NULL;
}

/* ---- how many ---- */

enum copy_scope { COPIES_ALL, COPIES_IN_MEMORY };

/* The oldest one, of whatever job, but this one; the bytes of all that are not going. */
static struct allocation *copy_oldest(struct agent *agent, enum copy_scope scope,
                                      const struct ledger_copy *but, struct ledger_copy **ret_copy,
                                      uint64_t *ret_bytes)
{
    struct allocation *of = NULL;

    CHECK(ret_copy != NULL);
    CHECK(but == NULL || but->state == COPY_HERE);
    *ret_bytes = 0;
    *ret_copy = NULL;
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);

        for (uint32_t i = 0; i < allocation->entry.copy_count; i++) {
            struct ledger_copy *copy = &allocation->entry.copies[i];

            if (scope == COPIES_IN_MEMORY && !memory_holds(agent, copy->work_dir))
                continue;
            *ret_bytes += copy->state == COPY_GOING ? 0 : copy->size_bytes;
            if (copy == but || copy->state != COPY_HERE ||
                (*ret_copy != NULL && copy->checkpoint_id >= (*ret_copy)->checkpoint_id))
                continue;
            *ret_copy = copy;
            of = allocation;
        }
    }
    return of;
}

static void keep_at_most(struct agent *agent, enum copy_scope scope, uint64_t max_bytes,
                         const struct ledger_copy *but, const char *why)
{
    struct ledger_copy *copy;
    uint64_t bytes;
    struct allocation *of;

    CHECK(why != NULL);
    CHECK(scope == COPIES_ALL || agent->memory_path[0] == '/');
    while ((of = copy_oldest(agent, scope, but, &copy, &bytes)) != NULL && bytes > max_bytes)
        copy_drop(of, copy, why);
}

static void make_room(struct agent *agent, const struct ledger_copy *for_this)
{
    CHECK(for_this->state == COPY_HERE);
    CHECK(for_this->size_bytes <= agent->copies_max_bytes);
    keep_at_most(agent, COPIES_ALL, agent->copies_max_bytes, for_this,
                 "the node keeps no more: local_copies.max_bytes");
    if (memory_holds(agent, for_this->work_dir))
        keep_at_most(agent, COPIES_IN_MEMORY, memory_copies_max(agent), for_this,
                     "the node keeps no more in its memory: half of memory.max_bytes");
}

void copies_give_room(struct agent *agent)
{
    keep_at_most(agent, COPIES_IN_MEMORY, memory_room(agent, NULL), NULL,
                 "a checkpoint is written in its place in the node's memory");
}

void copies_give_way(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (entry->copies[i].state == COPY_HERE &&
            memory_holds(allocation->agent, entry->copies[i].work_dir))
            copy_drop(allocation, &entry->copies[i],
                      "the checkpoint after it did not fit beside it in the node's memory");
}

void copies_made(struct allocation *allocation, const struct worker_result *result)
{
    struct ledger_copy *copy = kept_copy_making(&allocation->entry);
    char manifest[LEDGER_MANIFEST_BYTES];
    Ckpt__V1__AgentReport report;

    CHECK(copy != NULL);
    CHECK(allocation->attempt.state == ATTEMPT_REMOVING);
    CHECK(allocation->entry.phase == PHASE_ENDED);
    if (result == NULL || result->exit_code != WORKER_EXIT_OK) {
        log_copy(allocation, copy, "copy_not_kept",
                 result == NULL ? "no worker could be started" : result->error);
        copy->state = COPY_GOING;
        allocation_commit(allocation, NULL, 0);
        copies_sweep(allocation);
        return;
    }
    copy->state = COPY_HERE;
    copy->report_sequence = ledger_last_sequence(allocation->agent->ledger) + 1;
    report = copy_report(copy, CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_KEPT);
    memcpy(manifest, copy->manifest_sha256, sizeof(manifest));
    report.manifest_sha256 = manifest;
    allocation->agent->counters.copies_kept++;
    allocation_commit(allocation, &report, 0);
    log_copy(allocation, copy, "copy_kept", copy->work_dir);
    make_room(allocation->agent, copy);
}

/* ---- what the cluster wants ---- */

/* Whether the set wants it here. */
static bool copy_named(const Ckpt__V1__OrderSet *set, const char *allocation_id,
                       const struct ledger_copy *copy)
{
    for (size_t i = 0; i < set->n_copies; i++)
        if (set->copies[i]->checkpoint_id == copy->checkpoint_id &&
            set->copies[i]->part == copy->part &&
            strcmp(set->copies[i]->allocation_id, allocation_id) == 0)
            return true;
    return false;
}

/* A set that was derived before the report was taken says nothing of it. */
static bool is_told(const struct agent *agent, const struct ledger_copy *copy)
{
    const struct ledger_report *first = ledger_report_after(agent->ledger, 0);

    CHECK(copy->state == COPY_HERE);
    CHECK(copy->report_sequence != 0);
    return first == NULL || first->sequence > copy->report_sequence;
}

/* A journal that was lost knew of it. */
static void tell_missing(struct agent *agent, const Ckpt__V1__KeptCopy *wanted)
{
    struct allocation *allocation = agent_find(agent, wanted->allocation_id);
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char detail[] = "the agent does not know of it: its state folder is new";

    if (allocation != NULL &&
        kept_copy_find(&allocation->entry, wanted->checkpoint_id, wanted->part) != NULL)
        return;
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_DROPPED;
    report.allocation_id = wanted->allocation_id;
    report.checkpoint_id = wanted->checkpoint_id;
    report.part = wanted->part;
    report.detail = detail;
    agent_commit(agent, NULL, &report, 0);
}

void copies_take_orders(struct agent *agent)
{
    CHECK(agent->orders != NULL);
    CHECK(agent->ledger != NULL);
    if (ledger_pending_count(agent->ledger) == 0)
        for (size_t i = 0; i < agent->orders->n_copies; i++)
            if (agent->orders->copies[i]->checkpoint_id != 0 &&
                id_valid(agent->orders->copies[i]->allocation_id))
                tell_missing(agent, agent->orders->copies[i]);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);

        for (uint32_t i = 0; i < allocation->entry.copy_count; i++) {
            struct ledger_copy *copy = &allocation->entry.copies[i];

            if (copy->state == COPY_HERE && is_told(agent, copy) &&
                !copy_named(agent->orders, allocation->entry.allocation_id, copy))
                copy_drop(allocation, copy, NULL);
        }
    }
}

/* ---- a restore ---- */

void copies_failed(struct agent *agent, const char *allocation_id, uint64_t checkpoint_id,
                   uint32_t part, bool lost, const char *why)
{
    struct allocation *allocation = agent_find(agent, allocation_id);
    char name[PART_NAME_BYTES];

    CHECK(checkpoint_id != 0);
    for (uint32_t i = 0; allocation != NULL && i < allocation->entry.copy_count; i++) {
        struct ledger_copy *copy = &allocation->entry.copies[i];

        if (copy->state != COPY_HERE || copy->checkpoint_id != checkpoint_id || copy->part != part)
            continue;
        log_warning("copy_unusable", "allocation=%s part=%s text=\"%s\"", allocation_id,
                    part_name_format(part, name), why);
        if (lost)
            copy_drop(allocation, copy, why);
    }
}

/* ---- room beside them ---- */

struct copies_watch {
    struct agent *agent; /* NULL: it has ended, and the worker has not */
    struct clock_timer *timer;
    struct worker *worker;
    char allocation_id[ID_MAX_BYTES + 1]; /* that is looked at, or was last */
};

static void watch_next(struct copies_watch *watch);

/* The oldest that is here; the others are looked at when it has gone. NULL: there is none. */
static struct ledger_copy *watch_first(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (entry->copies[i].state == COPY_HERE)
            return &entry->copies[i];
    return NULL;
}

/* The first one behind the last that was looked at. */
static struct allocation *after_last(const struct copies_watch *watch)
{
    const struct agent *agent = watch->agent;
    bool passed = watch->allocation_id[0] == '\0';

    CHECK(agent != NULL);
    CHECK(watch->worker == NULL);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);

        if (passed && watch_first(allocation) != NULL)
            return allocation;
        passed = passed || strcmp(allocation->entry.allocation_id, watch->allocation_id) == 0;
    }
    return NULL;
}

/* What lay in the memory has gone when the node has started again. */
static void watch_judge(struct allocation *allocation, const struct worker_result *result)
{
    struct ledger_copy *copy = watch_first(allocation);
    char text[32];

    CHECK(result != NULL);
    if (copy == NULL)
        return;
    if (result->exit_code == WORKER_EXIT_NOT_FOUND)
        copy_drop(allocation, copy, "its files are gone");
    else if (result->exit_code == WORKER_EXIT_OK &&
             worker_output_get(result->output, "free_bytes", text, sizeof(text)) == 0 &&
             strtoull(text, NULL, 10) < copies_keep_free(allocation->agent, copy))
        copy_drop(allocation, copy, "too little is free beside it for the next checkpoint");
}

static void watch_looked(void *data, const struct worker_result *result)
{
    struct copies_watch *watch = data;
    struct allocation *allocation;

    CHECK(watch->worker != NULL);
    watch->worker = NULL;
    if (watch->agent == NULL) {
        free(watch);
        return;
    }
    allocation = agent_find(watch->agent, watch->allocation_id);
    if (allocation != NULL)
        watch_judge(allocation, result);
    watch_next(watch);
}

static void watch_next(struct copies_watch *watch)
{
    struct agent *agent = watch->agent;
    struct allocation *allocation = after_last(watch);
    const struct ledger_copy *copy;
    char path[PATH_MAX];
    const char *arguments[] = {"space", "--path", path, NULL};
    struct err err;

    CHECK(watch->worker == NULL);
    if (allocation == NULL) {
        watch->allocation_id[0] = '\0';
        agent->clock.timer_start(watch->timer, COPIES_WATCH_US);
        return;
    }
    copy = watch_first(allocation);
    memcpy(watch->allocation_id, allocation->entry.allocation_id, sizeof(watch->allocation_id));
    copies_folder(copy, path);
    if (agent->machine.worker_start(agent->machine.context, arguments,
                                    (struct machine_user){.uid = copy->uid, .gid = copy->gid},
                                    SPACE_DEADLINE_MS, watch_looked, watch, &watch->worker,
                                    &err) == 0)
        return;
    watch->worker = NULL;
    watch->allocation_id[0] = '\0';
    agent->clock.timer_start(watch->timer, COPIES_WATCH_US);
}

static void watch_fire(void *data)
{
    watch_next(data);
}

void copies_watch_start(struct agent *agent)
{
    struct copies_watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(agent->copies_watch == NULL);
    watch->agent = agent;
    watch->timer = agent->clock.timer_new(agent->clock.context, watch_fire, watch);
    agent->copies_watch = watch;
    agent->clock.timer_start(watch->timer, COPIES_WATCH_US);
}

void copies_watch_stop(struct agent *agent)
{
    struct copies_watch *watch = agent->copies_watch;

    agent->copies_watch = NULL;
    if (watch == NULL)
        return;
    agent->clock.timer_free(watch->timer);
    watch->agent = NULL;
    if (watch->worker != NULL)
        agent->machine.worker_cancel(watch->worker);
    else
        free(watch);
}
