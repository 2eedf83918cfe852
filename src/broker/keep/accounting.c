/* Accounting records. See accounting.h.
 *
 *   CLOSED ──► OPENING ──opened──► OPENED ──the state's epoch is the files'──► IDLE
 *      ▲          └──failed──┐
 *      └──── later ──────────┘
 *   IDLE ──records wait──► WRITING ──done──► RESTING ──a second──► IDLE
 *                             └────failed──► RESTING, longer, with the batch kept
 *
 * A thread of the pool has the files in OPENING and WRITING.
 */
#include "src/broker/keep/accounting.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"

/* Lines that go to the disk together. */
struct batch {
    struct buf text;
    uint64_t record_count;
};

enum state { CLOSED, OPENING, OPENED, IDLE, WRITING, RESTING };

struct accounting {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer; /* of looking on, with no delay */
    struct clock_timer *rest;
    char *folder;
    struct accounting_file file; /* the thread's, when it has the files */
    enum state state;
    uint64_t epoch;       /* of the records that are made now */
    uint64_t looked_at;   /* the last event that was */
    struct batch waiting; /* lines */
    struct batch writing; /* the thread's while WRITING; else what it did not write */
    /* For the number of what a gap has lost. UINT64_MAX: it is not known yet. */
    uint64_t complete_total; /* of the state, when all its events had been looked at */
    uint64_t taken_since;    /* records */
    bool has_gap;            /* since then */
    struct accounting_counts counts;
    uv_work_t work;
    struct err err;  /* of the last try; the thread's, when it has the files */
    bool is_closing; /* freed when the thread is done */
};

static size_t active_count;

/* ---- records ---- */

static void append_object(struct accounting *accounting, json_t *object)
{
    char *text = json_dumps(object, JSON_PRESERVE_ORDER);

    CHECK(text != NULL && strlen(text) < ACCOUNTING_LINE_BYTES);
    buf_printf(&accounting->waiting.text, "%s\n", text);
    accounting->waiting.record_count++;
    free(text);
    json_decref(object);
}

/* Takes the value. */
static void put_value(json_t *object, const char *name, json_t *value)
{
    CHECK(value != NULL && json_object_set_new(object, name, value) == 0);
}

static void put_number(json_t *object, const char *name, uint64_t value)
{
    put_value(object, name, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

/* NULL: it is not known any more. A text that is no UTF-8 is left out as well. */
static void put_text(json_t *object, const char *name, const char *value)
{
    json_t *text = value == NULL ? NULL : json_string(value);

    put_value(object, name, text != NULL ? text : json_null());
}

/* The first two are ACCOUNTING_PLACE. */
static json_t *begin_record(const struct accounting *accounting, uint64_t sequence,
                            const char *event)
{
    json_t *object = json_object();

    CHECK(object != NULL);
    put_number(object, "epoch", accounting->epoch);
    put_number(object, "sequence", sequence);
    put_text(object, "event", event);
    return object;
}

static const struct fsm_target *target_of(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);

    return checkpoint == NULL ? NULL : fsm_target_find_slot(fsm, checkpoint->target_slot);
}

/* The job and its checkpoint may have been forgotten since. */
static void append_record(struct accounting *accounting, const struct fsm *fsm,
                          const Ckpt__V1__Event *event)
{
    const struct fsm_allocation *job = fsm_allocation_find(fsm, event->allocation_id);
    const struct fsm_target *target = target_of(fsm, event->checkpoint_id);
    json_t *object = begin_record(accounting, event->sequence, "allocation.checkpointed");
    char id[CHECKPOINT_ID_TEXT_BYTES];

    put_number(object, "at_ms", event->at_ms);
    put_text(object, "allocation", event->allocation_id);
    put_text(object, "tenant", job == NULL ? NULL : job->tenant);
    put_text(object, "project", job == NULL ? NULL : job->project);
    put_text(object, "vcluster", job == NULL ? NULL : job->vcluster);
    put_text(object, "owner", job == NULL ? NULL : job->owner);
    put_text(object, "checkpoint", checkpoint_id_format(event->checkpoint_id, id));
    put_text(object, "target", target == NULL ? NULL : target->id);
    put_number(object, "size_bytes", event->size_bytes);
    put_number(object, "duration_ms", event->duration_ms);
    put_number(object, "storage_micro_usd_per_month", event->storage_micro_usd_per_month);
    append_object(accounting, object);
    accounting->taken_since++;
}

/* ---- events ---- */

/* Events were dropped before they were looked at, with what was among them. An empty folder lacks
 * nothing. */
static void note_gap(struct accounting *accounting, uint64_t before)
{
    if (accounting->looked_at == 0)
        return;
    accounting->has_gap = true;
    accounting->counts.gaps++;
    log_warning("accounting_gap",
                "folder=%s after=%" PRIu64 " before=%" PRIu64
                " text=\"events were dropped before they were looked at; other members may have "
                "their records\"",
                accounting->folder, accounting->looked_at, before);
    append_object(accounting, begin_record(accounting, before - 1, "accounting.lost"));
}

static void look_at(struct accounting *accounting, const struct fsm *fsm,
                    const Ckpt__V1__Event *event, bool gap)
{
    if (gap)
        note_gap(accounting, event->sequence);
    accounting->looked_at = event->sequence;
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE &&
        event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        append_record(accounting, fsm, event);
}

/* Of what was completed since the last time, the records that were not made are lost. */
static void note_all_looked_at(struct accounting *accounting, const struct fsm_summary *summary)
{
    uint64_t total =
        summary->checkpoints_total[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE];

    if (accounting->has_gap && accounting->complete_total != UINT64_MAX &&
        total - accounting->complete_total > accounting->taken_since)
        accounting->counts.lost += total - accounting->complete_total - accounting->taken_since;
    accounting->complete_total = total;
    accounting->taken_since = 0;
    accounting->has_gap = false;
}

/* A gap and its record need two places. */
static bool has_room(const struct accounting *accounting)
{
    return accounting->waiting.record_count + 2 <= ACCOUNTING_WAITING_MAX;
}

static void look_on(struct accounting *accounting, const struct fsm_summary *summary)
{
    const struct fsm *fsm = replica_fsm(accounting->broker->replica);

    accounting->epoch = summary->epoch;
    for (size_t i = 0; i < ACCOUNTING_TURN_EVENTS && has_room(accounting); i++) {
        bool gap = false;
        const Ckpt__V1__Event *event = fsm_event_after(fsm, accounting->looked_at, &gap);

        if (event == NULL) {
            note_all_looked_at(accounting, summary);
            return;
        }
        look_at(accounting, fsm, event, gap);
    }
    if (has_room(accounting))
        accounting->broker->clock.timer_start(accounting->timer, 0);
}

/* ---- the disk ---- */

/* One line in the log when the disk begins to fail, one when it has ended. */
static void note_try(struct accounting *accounting)
{
    bool failed = accounting->err.code != ERR_NONE;

    if (failed && !accounting->counts.failing)
        log_warning(
            "accounting_failed",
            "folder=%s code=%s text=\"%s\" next=\"repair what it says (df, permissions); it "
            "is tried again, and the last 65,536 events of all kinds are kept for it\"",
            accounting->folder, err_code_name(accounting->err.code), accounting->err.text);
    else if (!failed && accounting->counts.failing)
        log_info("accounting_works", "folder=%s", accounting->folder);
    accounting->counts.failing = failed;
}

static void accounting_destroy(struct accounting *accounting)
{
    accounting_file_close(&accounting->file);
    buf_close(&accounting->waiting.text);
    buf_close(&accounting->writing.text);
    free(accounting->folder);
    free(accounting);
}

/* False: it was freed meanwhile, and is gone now. */
static bool take_back(struct accounting *accounting)
{
    if (accounting->is_closing) {
        active_count--;
        accounting_destroy(accounting);
        return false;
    }
    note_try(accounting);
    return true;
}

static void give_to_thread(struct accounting *accounting, enum state state, uv_work_cb run,
                           uv_after_work_cb done)
{
    accounting->state = state;
    accounting->err = (struct err){.code = ERR_NONE};
    accounting->work.data = accounting;
    CHECK(uv_queue_work(accounting->broker->loop, &accounting->work, run, done) == 0);
}

static void rest_for(struct accounting *accounting, enum state state, uint64_t ms)
{
    accounting->state = state;
    accounting->broker->clock.timer_start(accounting->rest, ms * 1000);
}

static void work_append(uv_work_t *work)
{
    struct accounting *accounting = work->data;
    const struct batch *batch = &accounting->writing;

    (void)accounting_file_append(
        &accounting->file,
        &(struct accounting_lines){batch->text.bytes, batch->text.length, batch->record_count},
        &accounting->err);
}

static void go_on(struct accounting *accounting);

static void append_done(uv_work_t *work, int status)
{
    struct accounting *accounting = work->data;

    CHECK(status == 0 && accounting->state == WRITING);
    if (!take_back(accounting))
        return;
    accounting->counts.removed = accounting->file.removed_count;
    if (accounting->counts.failing) {
        rest_for(accounting, RESTING, ACCOUNTING_AGAIN_MS);
        return;
    }
    accounting->counts.written += accounting->writing.record_count;
    buf_clear(&accounting->writing.text);
    accounting->writing.record_count = 0;
    if (accounting->waiting.record_count < ACCOUNTING_MANY) {
        rest_for(accounting, RESTING, ACCOUNTING_EVERY_MS);
        return;
    }
    accounting->state = IDLE;
    go_on(accounting);
}

/* What could not be written goes first. */
static void write_waiting(struct accounting *accounting)
{
    if (accounting->writing.record_count == 0) {
        struct batch empty = accounting->writing;

        accounting->writing = accounting->waiting;
        accounting->waiting = empty;
    }
    if (accounting->writing.record_count > 0)
        give_to_thread(accounting, WRITING, work_append, append_done);
}

static void work_open(uv_work_t *work)
{
    struct accounting *accounting = work->data;

    if (accounting_file_open(accounting->folder, &accounting->file, &accounting->err) != 0)
        accounting_file_close(&accounting->file);
}

static void open_done(uv_work_t *work, int status)
{
    struct accounting *accounting = work->data;

    CHECK(status == 0 && accounting->state == OPENING);
    if (!take_back(accounting))
        return;
    if (accounting->counts.failing) {
        rest_for(accounting, CLOSED, ACCOUNTING_AGAIN_MS);
        return;
    }
    accounting->state = OPENED;
    go_on(accounting);
}

/* ---- turns ---- */

/* A member that starts applies its log again, epoch after epoch, up to where its files are. */
static void find_place(struct accounting *accounting, uint64_t epoch)
{
    const struct accounting_place *last = &accounting->file.last;

    if (epoch < last->epoch)
        return;
    accounting->looked_at = epoch == last->epoch ? last->sequence : 0;
    accounting->state = IDLE;
}

/* After an applied entry, and whenever the disk or the memory is free again. */
static void go_on(struct accounting *accounting)
{
    struct fsm_summary summary;

    if (accounting->state < OPENED)
        return;
    fsm_get_summary(replica_fsm(accounting->broker->replica), &summary);
    if (accounting->state == OPENED)
        find_place(accounting, summary.epoch);
    if (accounting->state == OPENED)
        return;
    look_on(accounting, &summary);
    if (accounting->state == IDLE)
        write_waiting(accounting);
}

static void on_turn(void *data)
{
    go_on(data);
}

static void on_rested(void *data)
{
    struct accounting *accounting = data;

    if (accounting->state == CLOSED) {
        give_to_thread(accounting, OPENING, work_open, open_done);
        return;
    }
    accounting->state = IDLE;
    go_on(accounting);
}

struct accounting *accounting_new(struct broker *broker, const char *folder)
{
    struct accounting *accounting = check_calloc(1, sizeof(*accounting));

    CHECK(broker->replica != NULL);
    accounting->broker = broker;
    accounting->folder = check_strdup(folder);
    accounting->file.folder = -1;
    accounting->complete_total = UINT64_MAX;
    accounting->timer = broker->clock.timer_new(broker->clock.context, on_turn, accounting);
    accounting->rest = broker->clock.timer_new(broker->clock.context, on_rested, accounting);
    accounting->observer = (struct replica_observer){.context = accounting, .applied = on_turn};
    replica_observe(broker->replica, &accounting->observer);
    give_to_thread(accounting, OPENING, work_open, open_done);
    return accounting;
}

void accounting_free(struct accounting *accounting)
{
    if (accounting == NULL)
        return;
    accounting->broker->clock.timer_free(accounting->timer);
    accounting->broker->clock.timer_free(accounting->rest);
    if (accounting->state == WRITING || accounting->state == OPENING) {
        accounting->is_closing = true;
        active_count++;
    } else {
        accounting_destroy(accounting);
    }
}

size_t accounting_active(void)
{
    return active_count;
}

struct accounting_counts accounting_counts(const struct accounting *accounting)
{
    struct accounting_counts counts = accounting->counts;

    counts.waiting = accounting->waiting.record_count + accounting->writing.record_count;
    return counts;
}
