/* A backup now and then. See backup_schedule.h. on_timer() -> backup_take() -> file_taken() ->
 * copy_out(), a worker -> on_copied(). What a worker does with a slow or hung directory holds up
 * the next backup only. */
#include "src/broker/keep/backup_schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "raft/snap/export.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/keep/backup.h"
#include "src/broker/keep/backup_verifier.h"
#include "src/dest/worker.h"

enum { NAME_BYTES = 256 };

struct copying;

struct backup_schedule {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct backup_take *take; /* while it is made */
    struct copying *copying;  /* while a worker has it */
    uint64_t begun_ms;        /* monotonic */
    uint64_t last_good_ms;    /* wall; 0: none by this member */
    uint64_t told_ms;         /* monotonic, of the last line about a failure; 0: none */
    uint64_t failures_unsaid; /* since then */
    char failure[256];        /* "": the last one succeeded, or none was made */
    char written[NAME_BYTES]; /* the one that a worker has, or the last one */
    struct backup_verifier *verifier;
    uint64_t verified_ms;      /* wall, of the last start; 0: this member has verified none */
    char verify_failure[320];  /* "": the last one verified restores */
    backup_restored_fn *asked; /* NULL: nobody waits for a restore */
    void *asked_data;
};

/* Lives until the worker is done, which may be after the schedule was freed. */
struct copying {
    struct backup_schedule *schedule; /* NULL: its result is not wanted any more */
    struct export_call *file;
    struct worker *worker;
};

static uint64_t interval_ms(const struct backup_schedule *schedule)
{
    return schedule->broker->config->backups.interval_ms;
}

/* A member that does not lead waits for nothing. */
static void wait_ms(struct backup_schedule *schedule, uint64_t ms)
{
    if (schedule->serving)
        schedule->broker->clock.timer_start(schedule->timer, ms * 1000);
}

/* ---- whether it restores ---- */

static void tell_asked(struct backup_schedule *schedule, const char *failure)
{
    backup_restored_fn *asked = schedule->asked;

    schedule->asked = NULL;
    if (asked != NULL)
        asked(schedule->asked_data, failure);
}

static void on_verified(void *data, const char *failure)
{
    struct backup_schedule *schedule = data;
    struct broker *broker = schedule->broker;

    if (failure == NULL) {
        schedule->verify_failure[0] = '\0';
        log_info("backup_verified", "directory=%s", broker->config->backups.directory);
        metrics_set(broker->metrics, METRIC_BACKUP_VERIFIED, NULL, NULL,
                    (double)broker_wall_ms(broker) / 1000);
    } else {
        snprintf(schedule->verify_failure, sizeof(schedule->verify_failure),
                 "a backup does not restore: %s", failure);
        log_error("backup_unverified", "directory=%s text=\"%s\"",
                  broker->config->backups.directory, failure);
        schedule->verified_ms = 0; /* the next one is tried at once */
    }
    metrics_add(broker->metrics, METRIC_BACKUP_VERIFICATIONS, failure == NULL ? "ok" : "failed",
                NULL, 1);
    tell_asked(schedule, failure);
}

/* The last one that was written. One that is being verified already is it. */
static void verify_now(struct backup_schedule *schedule)
{
    char path[2 * NAME_BYTES + 1024];

    snprintf(path, sizeof(path), "%s/%s", schedule->broker->config->backups.directory,
             schedule->written);
    if (backup_verifier_start(schedule->verifier, path))
        schedule->verified_ms = broker_wall_ms(schedule->broker);
}

/* The one just written. A new leader begins with its first one: nobody knows when another did. */
static void verify_when_due(struct backup_schedule *schedule)
{
    const struct config_backups *backups = &schedule->broker->config->backups;
    const uint64_t now_ms = broker_wall_ms(schedule->broker);

    if (schedule->asked == NULL && (backups->verify_interval_ms == 0 ||
                                    (schedule->verified_ms != 0 &&
                                     now_ms < schedule->verified_ms + backups->verify_interval_ms)))
        return;
    verify_now(schedule);
}

/* ---- its result ---- */

/* Logged at most every BACKUP_FAILURE_LOG_MS; Status shows the last reason in any case. */
static void schedule_failed(struct backup_schedule *schedule, const char *text)
{
    uint64_t retry_ms = interval_ms(schedule) / 4, now_ms = broker_monotonic_ms(schedule->broker);

    snprintf(schedule->failure, sizeof(schedule->failure), "%s", text);
    if (schedule->told_ms == 0 || now_ms - schedule->told_ms >= BACKUP_FAILURE_LOG_MS) {
        log_warning("backup_failed", "directory=%s left_out=%" PRIu64 " text=\"%s\"",
                    schedule->broker->config->backups.directory, schedule->failures_unsaid, text);
        schedule->told_ms = now_ms;
        schedule->failures_unsaid = 0;
    } else {
        schedule->failures_unsaid++;
    }
    metrics_add(schedule->broker->metrics, METRIC_BACKUPS, "failed", NULL, 1);
    wait_ms(schedule, retry_ms < BACKUP_SCHEDULE_RETRY_MS ? retry_ms : BACKUP_SCHEDULE_RETRY_MS);
    tell_asked(schedule, text);
}

/* The next one is due an interval after this one began. */
static void schedule_succeeded(struct backup_schedule *schedule, const struct worker_result *result)
{
    struct broker *broker = schedule->broker;
    uint64_t took_ms = broker_monotonic_ms(broker) - schedule->begun_ms;
    char size[32] = "0", kept[32] = "0", removed[32] = "0";

    (void)worker_output_get(result->output, "size_bytes", size, sizeof(size));
    (void)worker_output_get(result->output, "kept", kept, sizeof(kept));
    (void)worker_output_get(result->output, "removed", removed, sizeof(removed));
    schedule->failure[0] = '\0';
    schedule->last_good_ms = broker_wall_ms(broker);
    log_info("backup_written", "directory=%s bytes=%s kept=%s removed=%s duration_ms=%" PRIu64,
             broker->config->backups.directory, size, kept, removed, took_ms);
    metrics_add(broker->metrics, METRIC_BACKUPS, "ok", NULL, 1);
    metrics_set(broker->metrics, METRIC_BACKUP_LAST, NULL, NULL,
                (double)schedule->last_good_ms / 1000);
    metrics_set(broker->metrics, METRIC_BACKUP_SIZE, NULL, NULL, strtod(size, NULL));
    metrics_set(broker->metrics, METRIC_BACKUP_DURATION, NULL, NULL, (double)took_ms / 1000);
    wait_ms(schedule, took_ms < interval_ms(schedule) ? interval_ms(schedule) - took_ms : 0);
    verify_when_due(schedule);
}

/* ---- the worker ---- */

/* The schedule may be gone, or this member may lead no more: then the result is nobody's. */
static void on_copied(void *data, const struct worker_result *result)
{
    struct copying *copying = data;
    struct backup_schedule *schedule = copying->schedule;

    export_close(copying->file);
    free(copying);
    if (schedule == NULL)
        return;
    schedule->copying = NULL;
    if (result->cancelled)
        return;
    if (result->exit_code == WORKER_EXIT_OK && !result->timed_out && !result->unkillable)
        schedule_succeeded(schedule, result);
    else
        schedule_failed(schedule, result->error);
}

/* ckpt-CLUSTER@5f0c71aa-20261120T143005Z-e1-i918233.ckptbackup: names sort by age, and the @, which
 * no cluster id holds, keeps the series of different clusters in one directory apart; what follows
 * it, the beginning of the incarnation, those of one cluster that was begun anew, restored or
 * recovered: a history that replaced another by mistake must not age out the backups of that
 * one. */
static void name_of(const struct backup_schedule *schedule, char prefix[NAME_BYTES],
                    char name[NAME_BYTES])
{
    const struct broker *broker = schedule->broker;
    time_t seconds = (time_t)(broker_wall_ms(broker) / 1000);
    struct consensus_status status;
    struct fsm_summary summary;
    char clock[32];
    struct tm tm;

    replica_get_status(broker->replica, &status);
    fsm_get_summary(replica_fsm(broker->replica), &summary);
    strftime(clock, sizeof(clock), "%Y%m%dT%H%M%SZ", gmtime_r(&seconds, &tm));
    snprintf(prefix, NAME_BYTES, "ckpt-%s@%08" PRIx64 "-", broker->config->cluster_id,
             status.incarnation >> 32);
    snprintf(name, NAME_BYTES, "%.150s%s-e%" PRIu64 "-i%" PRIu64 ".ckptbackup", prefix, clock,
             summary.epoch, summary.applied_index);
}

/* The worker opens the file by its path in the data folder, where it stays until export_close(). */
static void copy_out(struct backup_schedule *schedule, struct export_call *file)
{
    const struct config_backups *backups = &schedule->broker->config->backups;
    struct copying *copying = check_calloc(1, sizeof(*copying));
    char prefix[NAME_BYTES], name[NAME_BYTES], keep[96], keep_bytes[32];
    struct err err;

    name_of(schedule, prefix, name);
    snprintf(schedule->written, sizeof(schedule->written), "%s", name);
    snprintf(keep, sizeof(keep), "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, backups->keep,
             backups->keep_daily, backups->keep_weekly, backups->keep_monthly);
    snprintf(keep_bytes, sizeof(keep_bytes), "%" PRIu64, backups->keep_bytes);
    copying->schedule = schedule;
    copying->file = file;
    schedule->copying = copying;
    if (worker_start(schedule->broker->loop,
                     &(struct worker_task){
                         .arguments = (const char *const[]){"keep", "--source", export_path(file),
                                                            "--to", backups->directory, "--name",
                                                            name, "--series", prefix, "--keep",
                                                            keep, "--keep-bytes", keep_bytes, NULL},
                         .deadline_ms = BACKUP_SCHEDULE_DEADLINE_MS,
                         .done = on_copied,
                         .data = copying},
                     &copying->worker, &err) == 0)
        return;
    schedule->copying = NULL;
    export_close(file);
    free(copying);
    schedule_failed(schedule, err.text);
}

/* ---- making it ---- */

/* The file is complete on this member's disk: now it goes to where backups are kept. */
static void file_taken(void *context, struct export_call *file, uint64_t size_bytes,
                       const struct err *err)
{
    struct backup_schedule *schedule = context;

    (void)size_bytes;
    schedule->take = NULL;
    if (file == NULL)
        schedule_failed(schedule, err->text);
    else
        copy_out(schedule, file);
}

static void on_timer(void *data)
{
    struct backup_schedule *schedule = data;

    if (!schedule->serving || schedule->take != NULL)
        return;
    if (schedule->copying != NULL) { /* of an earlier reign, and it hangs: its deadline ends it */
        wait_ms(schedule, interval_ms(schedule));
        return;
    }
    schedule->begun_ms = broker_monotonic_ms(schedule->broker);
    schedule->take = backup_take(schedule->broker, true, file_taken, schedule);
}

/* A new leader writes one soon: nobody knows when the last leader did. */
static void on_serving(void *context)
{
    struct backup_schedule *schedule = context;

    schedule->serving = true;
    wait_ms(schedule, interval_ms(schedule) < BACKUP_SCHEDULE_FIRST_MS ? interval_ms(schedule)
                                                                       : BACKUP_SCHEDULE_FIRST_MS);
}

/* A copy that is under way is ended: the next leader writes into the same directory. */
static void on_not_serving(void *context)
{
    struct backup_schedule *schedule = context;

    schedule->serving = false;
    schedule->failure[0] = '\0'; /* the next leader's concern */
    tell_asked(schedule, "this member leads no more");
    schedule->broker->clock.timer_stop(schedule->timer);
    if (schedule->take != NULL)
        backup_take_cancel(schedule->take);
    schedule->take = NULL;
    if (schedule->copying != NULL)
        worker_cancel(schedule->copying->worker);
}

/* ---- life ---- */

struct backup_schedule *backup_schedule_new(struct broker *broker)
{
    struct backup_schedule *schedule;

    if (broker->config->backups.directory[0] == '\0')
        return NULL;
    CHECK(broker->disk != NULL);
    schedule = check_calloc(1, sizeof(*schedule));
    schedule->broker = broker;
    schedule->verifier = backup_verifier_new(broker->loop, on_verified, schedule);
    schedule->timer = broker->clock.timer_new(broker->clock.context, on_timer, schedule);
    schedule->observer = (struct replica_observer){
        .context = schedule, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &schedule->observer);
    metrics_set(broker->metrics, METRIC_BACKUP_INTERVAL, NULL, NULL,
                (double)interval_ms(schedule) / 1000);
    metrics_set(broker->metrics, METRIC_BACKUP_LAST, NULL, NULL, 0);
    metrics_add(broker->metrics, METRIC_BACKUPS, "ok", NULL, 0);
    metrics_add(broker->metrics, METRIC_BACKUPS, "failed", NULL, 0);
    metrics_add(broker->metrics, METRIC_BACKUP_VERIFICATIONS, "ok", NULL, 0);
    metrics_add(broker->metrics, METRIC_BACKUP_VERIFICATIONS, "failed", NULL, 0);
    return schedule;
}

void backup_schedule_free(struct backup_schedule *schedule)
{
    if (schedule == NULL)
        return;
    schedule->broker->clock.timer_free(schedule->timer);
    backup_verifier_free(schedule->verifier);
    if (schedule->copying != NULL) {
        schedule->copying->schedule = NULL;
        worker_cancel(schedule->copying->worker);
    }
    free(schedule);
}

/* A leader that has written none yet writes one first, so that there is one to restore. */
bool backup_schedule_restore(struct backup_schedule *schedule, backup_restored_fn *done, void *data)
{
    CHECK(done != NULL);
    if (schedule == NULL || !schedule->serving || schedule->asked != NULL)
        return false;
    schedule->asked = done;
    schedule->asked_data = data;
    if (schedule->copying == NULL && schedule->take == NULL && schedule->last_good_ms != 0)
        verify_now(schedule);
    else if (schedule->take == NULL && schedule->copying == NULL)
        wait_ms(schedule, 0);
    return true;
}

const char *backup_schedule_failure(const struct backup_schedule *schedule, uint64_t *ret_since_ms)
{
    if (schedule == NULL)
        return NULL;
    *ret_since_ms = schedule->last_good_ms;
    if (schedule->failure[0] != '\0')
        return schedule->failure;
    return schedule->verify_failure[0] != '\0' ? schedule->verify_failure : NULL;
}
