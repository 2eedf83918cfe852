/* The audit trail as files. See audit_trail.h.
 *
 *   CLOSED ──► OPENING ──opened──► OPENED ──the state's epoch is the files'──► IDLE
 *      ▲          └──failed──┐
 *      └──── later ──────────┘
 *   IDLE ──records wait──► WRITING ──done──► RESTING ──some seconds, or many records──► IDLE
 *     │──the head is not signed, or not for an hour──► (a batch of none)
 *     ▲                      │  └────failed──► RESTING, longer
 *     └── of a full batch ───┘
 *
 * A thread of the pool has the file in OPENING and WRITING. Records wait in the state's ring.
 */
#include "src/broker/keep/audit_trail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/audit.h"
#include "src/base/buf.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/keep/audit_file.h"
#include "src/broker/keep/audit_key.h"

enum state { CLOSED, OPENING, OPENED, IDLE, WRITING, RESTING };
/* The files' last link: not compared so far; of this process, or the state's; another one. */
enum end { END_UNKNOWN, END_OURS, END_FOREIGN };

struct audit_trail {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *rest, *sign;
    char *folder;
    struct audit_file file; /* the thread's, when it has the file */
    enum state state;
    uint64_t epoch;             /* of the cluster, as the files are written now */
    uint64_t written;           /* the last record that lies in them */
    struct buf batch;           /* the thread's while WRITING */
    struct audit_batch pending; /* none: the head alone is signed */
    struct signed_head like;    /* of this member, while WRITING */
    struct sign_key *key;       /* likewise; NULL: nothing is signed */
    bool appended;              /* the thread's: what is pending lies there */
    bool is_signed;             /* the newest file's last record, by the key of now */
    enum end end;               /* of the files */
    struct audit_trail_counts counts;
    bool serving, ship_in_flight;
    uv_work_t work;
    struct err err;  /* of the last try; the thread's, when it has the file */
    bool is_closing; /* freed when the thread is done */
};

static size_t active_count;

static void trail_destroy(struct audit_trail *trail)
{
    audit_file_close(&trail->file);
    buf_close(&trail->batch);
    free(trail->folder);
    free(trail);
}

/* False: it was freed meanwhile, and is gone now. */
static bool take_back(struct audit_trail *trail)
{
    bool failed = trail->err.code != ERR_NONE;

    sign_key_free(trail->key);
    trail->key = NULL;
    if (trail->is_closing) {
        active_count--;
        trail_destroy(trail);
        return false;
    }
    if (failed && !trail->counts.failing)
        log_warning("audit_failed",
                    "folder=%s code=%s text=\"%s\" next=\"repair what it says (df, permissions); "
                    "it is tried again, and the state keeps the newest records meanwhile\"",
                    trail->folder, err_code_name(trail->err.code), trail->err.text);
    else if (!failed && trail->counts.failing)
        log_info("audit_works", "folder=%s", trail->folder);
    trail->counts.failing = failed;
    return true;
}

static void give_to_thread(struct audit_trail *trail, enum state state, uv_work_cb run,
                           uv_after_work_cb done)
{
    trail->state = state;
    trail->err = (struct err){.code = ERR_NONE};
    trail->work.data = trail;
    CHECK(uv_queue_work(trail->broker->loop, &trail->work, run, done) == 0);
}

static void rest_for(struct audit_trail *trail, enum state state, uint64_t ms)
{
    trail->state = state;
    trail->broker->clock.timer_start(trail->rest, ms * 1000);
}

/* ---- records ---- */

/* Those behind what is written, up to AUDIT_BATCH_BYTES. */
static void fill_batch(struct audit_trail *trail, const struct fsm *fsm,
                       const struct fsm_audit *audit)
{
    uint64_t first = trail->written + 1, number;
    struct fsm_audit_link link, newest = {0};

    if (first < audit->oldest && trail->written != 0) { /* else the folder begins here */
        trail->counts.missed += audit->oldest - first;
        log_warning("audit_gap",
                    "folder=%s after=%" PRIu64 " before=%" PRIu64
                    " text=\"records left the state before this member had written them; other "
                    "members have them\"",
                    trail->folder, trail->written, audit->oldest);
    }
    number = fsm_audit_link_of(fsm, first);
    buf_clear(&trail->batch);
    trail->pending = (struct audit_batch){.epoch = trail->epoch};
    for (; trail->batch.length < AUDIT_BATCH_BYTES && fsm_audit_link(fsm, number, &link);
         number++) {
        if (trail->pending.first == 0)
            trail->pending.first = link.first;
        trail->pending.last = link.last;
        newest = link;
        buf_put(&trail->batch, link.length, FSM_AUDIT_LENGTH_BYTES);
        buf_append(&trail->batch, link.bytes, link.length);
    }
    CHECK(trail->pending.first != 0);
    trail->pending.bytes = trail->batch.bytes;
    trail->pending.length = trail->batch.length;
    blake2b(newest.bytes, newest.length, trail->pending.hash);
}

static void work_append(uv_work_t *work)
{
    struct audit_trail *trail = work->data;

    trail->appended = trail->pending.length == 0 ||
                      audit_file_append(&trail->file, &trail->pending, &trail->err) == 0;
    if (trail->appended && trail->key != NULL)
        (void)audit_file_sign(&trail->file, &trail->like, trail->key, &trail->err);
}

static void append_done(uv_work_t *work, int status);

static void give_batch(struct audit_trail *trail)
{
    trail->key = sign_key_share(trail->broker->audit_key);
    if (trail->key != NULL)
        audit_key_head(trail->broker, &trail->like);
    give_to_thread(trail, WRITING, work_append, append_done);
}

static void go_on(struct audit_trail *trail);

static void on_shipped(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct audit_trail *trail = data;

    (void)failed; /* said again with the next batch */
    (void)outcome;
    trail->ship_in_flight = false;
}

/* The leader's files have so many more: what lies there may leave the state. */
static void tell_state(struct audit_trail *trail)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__AuditShipped shipped = CKPT__LOG__V1__AUDIT_SHIPPED__INIT;
    struct fsm_audit audit;

    fsm_get_audit(replica_fsm(trail->broker->replica), &audit);
    if (!trail->serving || trail->ship_in_flight || trail->written > audit.sequence ||
        trail->written < audit.shipped + AUDIT_SHIP_RECORDS)
        return;
    shipped.sequence = trail->written;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_AUDIT_SHIPPED;
    command.audit_shipped = &shipped;
    trail->ship_in_flight = true;
    replica_propose(trail->broker->replica, &command, on_shipped, trail);
}

static void append_done(uv_work_t *work, int status)
{
    struct audit_trail *trail = work->data;
    const struct sign_key *key = trail->key;

    CHECK(status == 0 && trail->state == WRITING);
    if (!take_back(trail))
        return;
    trail->is_signed = key != NULL && key == trail->broker->audit_key && !trail->counts.failing;
    if (trail->appended && trail->pending.length > 0) {
        trail->counts.written += trail->pending.last + 1 - trail->pending.first;
        trail->written = trail->pending.last;
        trail->end = END_OURS;
        tell_state(trail);
    }
    if (trail->counts.failing) {
        rest_for(trail, RESTING, AUDIT_AGAIN_MS);
        return;
    }
    if (trail->pending.length >= AUDIT_BATCH_BYTES) { /* others wait behind it */
        trail->state = IDLE;
        go_on(trail);
    } else {
        rest_for(trail, RESTING, AUDIT_EVERY_MS);
    }
}

static void work_open(uv_work_t *work)
{
    struct audit_trail *trail = work->data;

    if (audit_file_open(trail->folder, &trail->file, &trail->err) != 0)
        audit_file_close(&trail->file);
}

static void open_done(uv_work_t *work, int status)
{
    struct audit_trail *trail = work->data;

    CHECK(status == 0 && trail->state == OPENING);
    if (!take_back(trail))
        return;
    if (trail->counts.failing) {
        rest_for(trail, CLOSED, AUDIT_AGAIN_MS);
        return;
    }
    trail->state = OPENED;
    go_on(trail);
}

/* ---- turns ---- */

/* A member that starts applies its log again, epoch after epoch, up to where its files are. */
static void find_place(struct audit_trail *trail, uint64_t epoch)
{
    if (trail->state != OPENED && epoch == trail->epoch)
        return;
    if (epoch < trail->file.epoch || epoch == 0)
        return;
    trail->written = epoch == trail->file.epoch ? trail->file.sequence : 0;
    trail->epoch = epoch;
    if (trail->state == OPENED)
        trail->state = IDLE;
}

/* So many wait that the disk is asked again at once. */
static bool is_pressed(const struct audit_trail *trail, const struct fsm_audit *audit)
{
    return trail->state == RESTING && !trail->counts.failing &&
           audit->sequence >= trail->written + AUDIT_MANY &&
           (audit->links > FSM_AUDIT_MAX / 2 || audit->bytes > FSM_AUDIT_STATE_BYTES / 2);
}

/* While this member is down somebody could rewrite the files, with all hashes made anew. Links that
 * it finds at a start are signed when the last one is the state's, and not before. */
static void compare_end(struct audit_trail *trail, const struct fsm *fsm)
{
    struct fsm_audit_link link;
    uint8_t hash[BLAKE2B_BYTES];

    if (trail->end != END_UNKNOWN || trail->epoch != trail->file.epoch ||
        !fsm_audit_link(fsm, fsm_audit_link_of(fsm, trail->file.sequence), &link) ||
        link.last != trail->file.sequence)
        return;
    blake2b(link.bytes, link.length, hash);
    trail->end = memcmp(hash, trail->file.hash, sizeof(hash)) == 0 ? END_OURS : END_FOREIGN;
    trail->counts.changed = trail->end == END_FOREIGN;
    if (trail->counts.changed)
        log_error("audit_changed",
                  "folder=%s file=%s record=%" PRIu64
                  " text=\"the file does not end with what this member has written: it is not "
                  "signed\" next=\"keep a copy of the file as evidence, and compare it with those "
                  "of other members: ckptctl audit verify\"",
                  trail->folder, trail->file.name, trail->file.sequence);
}

/* After an applied entry, and whenever the disk is free again. */
static void go_on(struct audit_trail *trail)
{
    const struct fsm *fsm = replica_fsm(trail->broker->replica);
    struct fsm_summary summary;
    struct fsm_audit audit;

    if (trail->state != OPENED && trail->state != IDLE && trail->state != RESTING)
        return;
    fsm_get_audit(fsm, &audit);
    if (is_pressed(trail, &audit)) {
        trail->broker->clock.timer_stop(trail->rest);
        trail->state = IDLE;
    }
    if (trail->state == RESTING)
        return;
    fsm_get_summary(fsm, &summary);
    find_place(trail, summary.epoch);
    if (trail->state != IDLE)
        return;
    compare_end(trail, fsm); /* before anything is written behind it */
    if (audit.sequence > trail->written) {
        fill_batch(trail, fsm, &audit);
        give_batch(trail);
    } else if (!trail->is_signed && trail->broker->audit_key != NULL && trail->file.size > 0 &&
               trail->end == END_OURS) {
        trail->pending = (struct audit_batch){.length = 0};
        give_batch(trail);
    }
}

void audit_trail_sign(struct audit_trail *trail)
{
    trail->is_signed = false;
    go_on(trail);
}

static void on_hour(void *data)
{
    struct audit_trail *trail = data;

    trail->broker->clock.timer_start(trail->sign, (uint64_t)AUDIT_SIGN_MS * 1000);
    audit_trail_sign(trail);
}

static void on_applied(void *context)
{
    go_on(context);
}

static void on_serving(void *context)
{
    ((struct audit_trail *)context)->serving = true;
}

static void on_not_serving(void *context)
{
    ((struct audit_trail *)context)->serving = false;
}

static void on_rested(void *data)
{
    struct audit_trail *trail = data;

    if (trail->state == CLOSED) {
        give_to_thread(trail, OPENING, work_open, open_done);
        return;
    }
    trail->state = IDLE;
    go_on(trail);
}

struct audit_trail *audit_trail_new(struct broker *broker, const char *folder)
{
    struct audit_trail *trail = check_calloc(1, sizeof(*trail));

    CHECK(broker->replica != NULL);
    trail->broker = broker;
    trail->folder = check_strdup(folder);
    trail->file.folder = -1;
    buf_init(&trail->batch);
    trail->rest = broker->clock.timer_new(broker->clock.context, on_rested, trail);
    trail->sign = broker->clock.timer_new(broker->clock.context, on_hour, trail);
    broker->clock.timer_start(trail->sign, (uint64_t)AUDIT_SIGN_MS * 1000);
    trail->observer = (struct replica_observer){.context = trail,
                                                .serving = on_serving,
                                                .not_serving = on_not_serving,
                                                .applied = on_applied};
    replica_observe(broker->replica, &trail->observer);
    give_to_thread(trail, OPENING, work_open, open_done);
    return trail;
}

void audit_trail_free(struct audit_trail *trail)
{
    if (trail == NULL)
        return;
    trail->broker->clock.timer_free(trail->rest);
    trail->broker->clock.timer_free(trail->sign);
    if (trail->state == WRITING || trail->state == OPENING) {
        trail->is_closing = true;
        active_count++;
    } else {
        trail_destroy(trail);
    }
}

size_t audit_trail_active(void)
{
    return active_count;
}

struct audit_trail_counts audit_trail_counts(const struct audit_trail *trail)
{
    return trail->counts;
}
