/* Accounting records. See accounting.h.
 *
 *   CLOSED ──opened──► IDLE ──records wait──► WRITING ──done──► RESTING ──a second──► IDLE
 *    └─ not: again later                         └─failed──► RESTING, longer, the batch is kept
 *
 * Events are looked through in all states but CLOSED, where it is not known which are new.
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
    uint64_t record_count, last_sequence;
};

enum state { CLOSED, IDLE, WRITING, RESTING };

struct accounting {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer; /* of looking on, with no delay */
    struct clock_timer *rest;
    char *folder;
    struct accounting_file file; /* of the thread while WRITING */
    enum state state;
    uint64_t looked_at;   /* the last event that was */
    struct batch waiting; /* lines */
    struct batch writing; /* of the thread while WRITING; else what it did not write */
    uint64_t lost_count;  /* since the last line that tells of it */
    struct accounting_counts counts;
    uv_work_t work;
    struct err err;  /* of the last try; of the thread while WRITING */
    bool is_closing; /* freed when the thread is done */
};

/* ---- records ---- */

static void append_object(struct batch *batch, json_t *object, uint64_t sequence)
{
    char *text = json_dumps(object, JSON_PRESERVE_ORDER);

    CHECK(text != NULL);
    CHECK(strncmp(text, ACCOUNTING_SEQUENCE, sizeof(ACCOUNTING_SEQUENCE) - 1) == 0);
    buf_printf(&batch->text, "%s\n", text);
    batch->record_count++;
    batch->last_sequence = sequence;
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

static json_t *begin_record(uint64_t sequence, const char *event)
{
    json_t *object = json_object();

    CHECK(object != NULL);
    put_number(object, "sequence", sequence);
    put_text(object, "event", event);
    return object;
}

/* counted: the number is known. */
static void append_lost(struct accounting *accounting, uint64_t sequence, bool counted)
{
    json_t *object = begin_record(sequence, "accounting.lost");

    if (counted)
        put_number(object, "records", accounting->lost_count);
    else
        put_text(object, "records", NULL);
    append_object(&accounting->waiting, object, sequence);
}

static const struct fsm_target *target_of(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);

    return checkpoint == NULL ? NULL : fsm_target_find_slot(fsm, checkpoint->target_slot);
}

/* The job and its checkpoint may have been forgotten since. */
static json_t *record_of(const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_allocation *job = fsm_allocation_find(fsm, event->allocation_id);
    const struct fsm_target *target = target_of(fsm, event->checkpoint_id);
    json_t *object = begin_record(event->sequence, "allocation.checkpointed");
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
    return object;
}

/* A line that has no place is not missed: the next one that has tells of all. */
static void add_line_of_gap(struct accounting *accounting, const Ckpt__V1__Event *event)
{
    if (accounting->waiting.record_count + 2 < ACCOUNTING_WAITING_MAX)
        append_lost(accounting, event->sequence - 1, false);
}

/* The last place is for the line that tells of a loss. */
static void add_record(struct accounting *accounting, const Ckpt__V1__Event *event)
{
    if (accounting->waiting.record_count + 1 >= ACCOUNTING_WAITING_MAX) {
        accounting->lost_count++;
        accounting->counts.lost++;
        return;
    }
    if (accounting->lost_count > 0) {
        append_lost(accounting, event->sequence - 1, true);
        accounting->lost_count = 0;
    }
    append_object(&accounting->waiting, record_of(replica_fsm(accounting->broker->replica), event),
                  event->sequence);
}

/* A gap: events were dropped before they were looked at, with what was among them. */
static void look_at(struct accounting *accounting, const Ckpt__V1__Event *event, bool gap)
{
    bool knows_before = accounting->looked_at > 0;

    accounting->looked_at = event->sequence;
    if (gap && knows_before)
        add_line_of_gap(accounting, event);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE &&
        event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        add_record(accounting, event);
}

/* ---- the disk ---- */

static void batch_clear(struct batch *batch)
{
    buf_clear(&batch->text);
    batch->record_count = 0;
}

static void work_append(uv_work_t *work)
{
    struct accounting *accounting = work->data;
    const struct batch *batch = &accounting->writing;

    accounting->err = (struct err){.code = ERR_NONE};
    (void)accounting_file_append(&accounting->file,
                                 &(struct accounting_lines){batch->text.bytes, batch->text.length,
                                                            batch->record_count,
                                                            batch->last_sequence},
                                 &accounting->err);
}

/* One line in the log when the disk begins to fail, one when it has ended. */
static void note_try(struct accounting *accounting)
{
    bool failed = accounting->err.code != ERR_NONE;

    if (failed && !accounting->counts.failing)
        log_warning(
            "accounting_failed",
            "folder=%s code=%s text=\"%s\" next=\"repair what it says (df, permissions); it "
            "is tried again, and up to %d records wait in memory\"",
            accounting->folder, err_code_name(accounting->err.code), accounting->err.text,
            ACCOUNTING_WAITING_MAX);
    else if (!failed && accounting->counts.failing)
        log_info("accounting_works", "folder=%s lost=%" PRIu64, accounting->folder,
                 accounting->counts.lost);
    accounting->counts.failing = failed;
}

static void rest_awhile(struct accounting *accounting, enum state state)
{
    uint64_t pause_ms = accounting->counts.failing ? ACCOUNTING_AGAIN_MS : ACCOUNTING_EVERY_MS;

    accounting->state = state;
    accounting->broker->clock.timer_start(accounting->rest, pause_ms * 1000);
}

static void accounting_destroy(struct accounting *accounting)
{
    accounting_file_close(&accounting->file);
    buf_close(&accounting->waiting.text);
    buf_close(&accounting->writing.text);
    free(accounting->folder);
    free(accounting);
}

static void work_done(uv_work_t *work, int status)
{
    struct accounting *accounting = work->data;

    CHECK(status == 0 && accounting->state == WRITING);
    if (accounting->is_closing) {
        accounting_destroy(accounting);
        return;
    }
    if (accounting->err.code == ERR_NONE) {
        accounting->counts.written += accounting->writing.record_count;
        batch_clear(&accounting->writing);
    }
    accounting->counts.removed = accounting->file.removed_count;
    note_try(accounting);
    rest_awhile(accounting, RESTING);
}

/* What could not be written goes first. */
static void write_waiting(struct accounting *accounting)
{
    CHECK(accounting->state == IDLE);
    if (accounting->writing.record_count == 0) {
        struct batch empty = accounting->writing;

        accounting->writing = accounting->waiting;
        accounting->waiting = empty;
    }
    if (accounting->writing.record_count == 0)
        return;
    accounting->state = WRITING;
    accounting->work.data = accounting;
    CHECK(uv_queue_work(accounting->broker->loop, &accounting->work, work_append, work_done) == 0);
}

/* ---- turns ---- */

/* After each applied entry: the job and its checkpoint are still known then. */
static void on_turn(void *data)
{
    struct accounting *accounting = data;
    const struct fsm *fsm = replica_fsm(accounting->broker->replica);
    const Ckpt__V1__Event *event = NULL;
    bool gap = false;

    if (accounting->state == CLOSED)
        return;
    for (size_t i = 0; i < ACCOUNTING_TURN_EVENTS; i++) {
        event = fsm_event_after(fsm, accounting->looked_at, &gap);
        if (event == NULL)
            break;
        look_at(accounting, event, gap);
    }
    if (event != NULL)
        accounting->broker->clock.timer_start(accounting->timer, 0);
    if (accounting->state == IDLE)
        write_waiting(accounting);
}

/* A start reads what is there, some megabytes, before it knows what is new. */
static void open_files(struct accounting *accounting)
{
    CHECK(accounting->state == CLOSED);
    accounting->err = (struct err){.code = ERR_NONE};
    if (accounting_file_open(accounting->folder, &accounting->file, &accounting->err) != 0)
        accounting_file_close(&accounting->file);
    note_try(accounting);
    if (accounting->counts.failing) {
        rest_awhile(accounting, CLOSED);
        return;
    }
    accounting->looked_at = accounting->file.last_sequence;
    accounting->state = IDLE;
    accounting->broker->clock.timer_start(accounting->timer, 0);
}

static void on_rested(void *data)
{
    struct accounting *accounting = data;

    if (accounting->state == CLOSED) {
        open_files(accounting);
        return;
    }
    accounting->state = IDLE;
    write_waiting(accounting);
}

struct accounting *accounting_new(struct broker *broker, const char *folder)
{
    struct accounting *accounting = check_calloc(1, sizeof(*accounting));

    CHECK(broker->replica != NULL);
    accounting->broker = broker;
    accounting->folder = check_strdup(folder);
    accounting->file.folder = -1;
    accounting->timer = broker->clock.timer_new(broker->clock.context, on_turn, accounting);
    accounting->rest = broker->clock.timer_new(broker->clock.context, on_rested, accounting);
    accounting->observer = (struct replica_observer){.context = accounting, .applied = on_turn};
    replica_observe(broker->replica, &accounting->observer);
    open_files(accounting);
    return accounting;
}

void accounting_free(struct accounting *accounting)
{
    if (accounting == NULL)
        return;
    accounting->broker->clock.timer_free(accounting->timer);
    accounting->broker->clock.timer_free(accounting->rest);
    if (accounting->state == WRITING)
        accounting->is_closing = true;
    else
        accounting_destroy(accounting);
}

struct accounting_counts accounting_counts(const struct accounting *accounting)
{
    struct accounting_counts counts = accounting->counts;

    counts.waiting = accounting->waiting.record_count + accounting->writing.record_count;
    return counts;
}
