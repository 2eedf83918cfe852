/* The disk of this member. See disk_watch.h. Each kind of trouble has a function that logs when it
 * begins and when it ends; what they found decides at the end of a look whether leadership is
 * handed over. */
#include "src/broker/health/disk_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"

struct disk_watch {
    struct broker *broker;
    struct clock_timer *timer;
    uint64_t asked_ms;          /* monotonic, of the last hand-over; 0: none */
    uint64_t snapshot_failures; /* as logged */
    uint64_t unreadable;        /* as looked at */
    uint64_t unreadable_ms;     /* monotonic, of what was logged last */
    char unreadable_text[ERR_TEXT_BYTES];
    bool low;
    bool hangs;
    bool handing_over;
};

/* A disk that hangs is the worse of the two: nothing is committed meanwhile. */
static const char *reason_name(const struct disk_watch *watch)
{
    return watch->hangs ? "disk_hangs" : "disk_low";
}

static void handed_over(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct disk_watch *watch = data;

    (void)outcome;
    watch->handing_over = false;
    if (failed != NULL)
        log_warning("transfer_failed", "reason=%s text=\"%s\"", reason_name(watch), failed->text);
}

/* To whichever voter can: this member does not know the disks of the others. A cluster of one keeps
 * its leader. */
static void hand_over(struct disk_watch *watch, const struct consensus_status *status)
{
    struct broker *broker = watch->broker;
    uint64_t now_ms = broker_monotonic_ms(broker);

    if (watch->handing_over || status->voter_count <= 1 || !replica_serving(broker->replica) ||
        (watch->asked_ms != 0 && now_ms - watch->asked_ms < DISK_WATCH_HANDOVER_MS))
        return;
    watch->asked_ms = now_ms;
    watch->handing_over = true;
    log_warning("transfer", "reason=%s text=\"another member is asked to lead\"",
                reason_name(watch));
    replica_transfer(broker->replica, 0, handed_over, watch);
}

/* Full is what raft/ says: it refuses entries before the file system is at its end. */
static void look_at_room(struct disk_watch *watch, const struct consensus_status *status)
{
    if (watch->low != status->accepts_writes)
        return;
    watch->low = !status->accepts_writes;
    if (watch->low)
        log_warning("disk_low",
                    "path=%s free_bytes=%" PRIu64
                    " text=\"no changes are taken by this member until there is room\"",
                    watch->broker->config->data_dir, status->disk_free_bytes);
    else
        log_info("disk_ok", "path=%s free_bytes=%" PRIu64, watch->broker->config->data_dir,
                 status->disk_free_bytes);
}

/* The write that is under way counts, however long it takes: a disk may hang without ever
 * failing. */
static void look_at_time(struct disk_watch *watch, const struct consensus_status *status)
{
    bool hangs = status->log_write_ms >= watch->broker->config->election_ms;

    if (watch->hangs == hangs)
        return;
    watch->hangs = hangs;
    if (hangs)
        log_warning("disk_hangs",
                    "path=%s write_ms=%" PRIu64 " limit_ms=%" PRIu64
                    " text=\"a write of the log has not ended; look at the disk and at dmesg\"",
                    watch->broker->config->data_dir, status->log_write_ms,
                    watch->broker->config->election_ms);
    else
        log_info("disk_writes", "path=%s", watch->broker->config->data_dir);
}

/* Without snapshots the log grows until the disk is full. */
static void look_at_snapshots(struct disk_watch *watch, const struct consensus_status *status)
{
    if (watch->snapshot_failures == status->snapshot_failures_total)
        return;
    watch->snapshot_failures = status->snapshot_failures_total;
    log_warning("snapshot_failed", "path=%s failures_total=%" PRIu64 " text=\"%s\"",
                watch->broker->config->data_dir, status->snapshot_failures_total,
                status->snapshot_error);
}

/* Whoever it was for asks again, and another one is taken: a cause is told once, and another one
 * that lasts. */
static void look_at_reads(struct disk_watch *watch, const struct consensus_status *status)
{
    uint64_t now_ms = broker_monotonic_ms(watch->broker);
    bool told = watch->unreadable_text[0] != '\0';

    if (watch->unreadable == status->snapshot_unreadable_total ||
        (told && now_ms - watch->unreadable_ms < DISK_WATCH_READS_MS))
        return;
    watch->unreadable = status->snapshot_unreadable_total;
    if (strcmp(watch->unreadable_text, status->snapshot_unreadable_error) == 0)
        return;
    watch->unreadable_ms = now_ms;
    text_copy(watch->unreadable_text, sizeof(watch->unreadable_text),
              status->snapshot_unreadable_error);
    log_warning("snapshot_unreadable",
                "times_total=%" PRIu64 " text=\"%s\" next=\"another one is taken for the member "
                "that needs it; look at the disk and at dmesg\"",
                status->snapshot_unreadable_total, status->snapshot_unreadable_error);
}

static void on_timer(void *data)
{
    struct disk_watch *watch = data;
    struct consensus_status status;

    replica_get_status(watch->broker->replica, &status);
    look_at_room(watch, &status);
    look_at_time(watch, &status);
    look_at_snapshots(watch, &status);
    look_at_reads(watch, &status);
    if (watch->low || watch->hangs)
        hand_over(watch, &status);
    watch->broker->clock.timer_start(watch->timer, DISK_WATCH_MS * UINT64_C(1000));
}

struct disk_watch *disk_watch_new(struct broker *broker)
{
    struct disk_watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(broker->replica != NULL);
    watch->broker = broker;
    watch->timer = broker->clock.timer_new(broker->clock.context, on_timer, watch);
    broker->clock.timer_start(watch->timer, 0);
    return watch;
}

void disk_watch_free(struct disk_watch *watch)
{
    if (watch == NULL)
        return;
    CHECK(!watch->handing_over);
    watch->broker->clock.timer_free(watch->timer);
    free(watch);
}
