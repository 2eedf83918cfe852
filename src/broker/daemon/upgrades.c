/* This member's own program: its supervisor, and the watch over a new build. See upgrades.h. */
#include "src/broker/daemon/upgrades.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum { UPGRADES_LINES = 5, UPGRADES_PATH_BYTES = 1100 };

struct upgrades {
    struct broker *broker;
    upgrades_end_fn *end;
    void *context;
    struct clock_timer *ends, *looks;
    uint64_t started_at_ms;
    /* of ckptd-start; "": this process was started without it */
    const char *folder, *previous_build, *put_back_build, *put_back_why;
    uint32_t previous_level;
    bool kept;  /* there is no build before, or it cannot take part any more */
    bool began; /* watch says something */
    struct upgrades_watch watch;
    struct canary_sample begin, now;
    bool seen[CONSENSUS_MEMBERS_MAX]; /* by position in Raft's status, at the last look */
};

static const char *variable_of(const char *name)
{
    const char *value = getenv(name);

    return value == NULL ? "" : value;
}

/* A shell hands its service's variables on: SYSTEMD_EXEC_PID tells whose they are. */
const char *upgrades_supervisor(bool configured)
{
    const char *pid = variable_of("SYSTEMD_EXEC_PID");

    if (variable_of("NOTIFY_SOCKET")[0] != '\0')
        return "NOTIFY_SOCKET";
    if (variable_of("INVOCATION_ID")[0] != '\0' &&
        (pid[0] == '\0' || strtoll(pid, NULL, 10) == (long long)getpid()))
        return "INVOCATION_ID";
    return configured ? "supervised: yes" : "";
}

/* ---- files of ckptd-start ---- */

static const char *path_of(const struct upgrades *upgrades, const char *name,
                           char path[UPGRADES_PATH_BYTES])
{
    snprintf(path, UPGRADES_PATH_BYTES, "%s/%s", upgrades->folder, name);
    return path;
}

static int close_synced(FILE *file)
{
    int failed = fflush(file) != 0 || fsync(fileno(file)) != 0;

    return fclose(file) != 0 || failed ? -1 : 0;
}

/* Replaced in one step. ckptd-start reads it when no member runs. */
static int file_put(const struct upgrades *upgrades, const char *name, const char *text,
                    struct err *err)
{
    char path[UPGRADES_PATH_BYTES], fresh[UPGRADES_PATH_BYTES];
    FILE *file = fopen(path_of(upgrades, "fresh", fresh), "we");

    if (file != NULL && fputs(text, file) >= 0 && close_synced(file) == 0) {
        if (rename(fresh, path_of(upgrades, name, path)) == 0)
            return 0;
    }
    return err_set(err, ERR_IO, "%s cannot be written: %s", path_of(upgrades, name, path),
                   strerror(errno));
}

/* The watch begins with the first start of its count. */
static int count_begin(const struct upgrades *upgrades, bool watches, struct err *err)
{
    char text[UPGRADES_TEXT_BYTES];

    snprintf(text, sizeof(text), "%s\n%" PRIu64 "\n%" PRIu64 "\n1\n%d\n", build_text,
             upgrades->watch.begun_ms / 1000, upgrades->watch.until_ms / 1000, watches);
    return file_put(upgrades, "build", text, err);
}

static void line_end(char *line)
{
    line[strcspn(line, "\n")] = '\0';
}

/* A watch that a former process of this build began; false: there is none. */
static bool watch_read(const struct upgrades *upgrades, uint64_t *ret_begun_ms,
                       uint64_t *ret_until_ms)
{
    char path[UPGRADES_PATH_BYTES], lines[UPGRADES_LINES][UPGRADES_TEXT_BYTES];
    FILE *file = fopen(path_of(upgrades, "build", path), "re");
    bool whole = file != NULL;

    for (size_t i = 0; whole && i < UPGRADES_LINES; i++) {
        whole = fgets(lines[i], sizeof(lines[i]), file) != NULL;
        if (whole)
            line_end(lines[i]);
    }
    if (file != NULL)
        fclose(file);
    if (!whole || strcmp(lines[0], build_text) != 0 || strcmp(lines[4], "1") != 0)
        return false;
    *ret_begun_ms = strtoull(lines[1], NULL, 10) * 1000;
    *ret_until_ms = strtoull(lines[2], NULL, 10) * 1000;
    return true;
}

/* ---- samples ---- */

/* Pages, the second number of statm. */
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* How often another member was in sight at a look and is not at the next one. */
static uint64_t count_lost(struct upgrades *upgrades, const struct consensus_status *raft)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < raft->peer_count; i++) {
        bool seen = broker_peer_reachable(upgrades->broker, raft, &raft->peers[i]);

        lost += upgrades->seen[i] && !seen;
        upgrades->seen[i] = seen;
    }
    return lost;
}

static void sample_take(struct upgrades *upgrades, struct canary_sample *sample)
{
    const struct broker *broker = upgrades->broker;
    struct consensus_status raft;
    struct replica_stats stats;
    struct fsm_summary summary;

    replica_get_status(broker->replica, &raft);
    replica_get_stats(broker->replica, &stats);
    fsm_get_summary(replica_fsm(broker->replica), &summary);
    sample->leader_changes = raft.leader_changes_total;
    memcpy(sample->commit_us, stats.commit_us, sizeof(sample->commit_us));
    sample->behind_looks = raft.state_age_ms > CANARY_BEHIND_MS ? sample->behind_looks + 1 : 0;
    sample->memory_bytes = resident_bytes();
    sample->lost_peers += count_lost(upgrades, &raft);
    sample->late_turns = broker->counters.loop_lag_over_total;
    sample->snapshot_failures = raft.snapshot_failures_total;
    sample->jobs_failed =
        summary.allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED];
    sample->jobs_running =
        summary.allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING];
}

/* ---- the watch ---- */

static bool is_watching(const struct upgrades *upgrades)
{
    return upgrades->began && strcmp(upgrades->watch.state, "watching") == 0;
}

/* ckptd-start finds the file at the next start, and starts the build before. */
static bool put_back(struct upgrades *upgrades, const char *why)
{
    char text[2 * UPGRADES_TEXT_BYTES];
    struct err err;

    upgrades->watch.state = "failed";
    log_error("canary_failed",
              "build=\"%s\" why=\"%s\" previous=\"%s\" text=\"this member ends, and the build "
              "before is started\"",
              build_text, why, upgrades->previous_build);
    snprintf(text, sizeof(text), "%s\n%.500s\n", build_text, why);
    if (file_put(upgrades, "put-back", text, &err) == 0)
        return true;
    log_error("canary_stays", "text=\"%s: this build stays\"", err.text);
    return false;
}

static void watch_over(struct upgrades *upgrades, const char *state)
{
    struct err err;

    upgrades->watch.state = state;
    if (count_begin(upgrades, false, &err) != 0)
        log_warning("canary_file", "text=\"%s\"", err.text);
    log_info("canary_over", "state=%s build=\"%s\" text=\"this build stays\"", state, build_text);
}

/* From `upgrade finalize` on the build before would stop at once: it is not put back any more,
 * neither by a watch nor by a count of starts. */
static void keep_when_final(struct upgrades *upgrades)
{
    struct err err;

    if (upgrades->kept ||
        fsm_level(replica_fsm(upgrades->broker->replica)) <= upgrades->previous_level)
        return;
    upgrades->kept = true;
    upgrades->watch.until_ms = upgrades->watch.begun_ms;
    if (is_watching(upgrades))
        watch_over(upgrades, "passed");
    else if (count_begin(upgrades, false, &err) != 0)
        log_warning("canary_file", "text=\"%s\"", err.text);
}

/* As long as there is a build to put back. */
static void look_again(struct upgrades *upgrades)
{
    if (!upgrades->kept)
        upgrades->broker->clock.timer_start(upgrades->looks, CANARY_LOOK_MS * UINT64_C(1000));
}

static void look_at_checks(struct upgrades *upgrades)
{
    const struct canary_result *result = upgrades->watch.results;
    char why[UPGRADES_TEXT_BYTES];

    sample_take(upgrades, &upgrades->now);
    if (canary_look(&upgrades->begin, &upgrades->now, upgrades->watch.results)) {
        if (broker_wall_ms(upgrades->broker) >= upgrades->watch.until_ms)
            watch_over(upgrades, "passed");
        return;
    }
    while (!result->failed)
        result++;
    snprintf(why, sizeof(why), "%s: %s (%s)", result->name, result->value, result->limit);
    if (put_back(upgrades, why))
        upgrades->broker->clock.timer_start(upgrades->ends, UPGRADES_TOLD_MS * UINT64_C(1000));
}

static void on_look(void *data)
{
    struct upgrades *upgrades = data;

    if (upgrades->broker->replica == NULL)
        return;
    keep_when_final(upgrades);
    if (is_watching(upgrades))
        look_at_checks(upgrades);
    look_again(upgrades);
}

static void watch_begin(struct upgrades *upgrades)
{
    upgrades->began = true;
    upgrades->watch.state = "watching";
    memset(&upgrades->begin, 0, sizeof(upgrades->begin));
    memset(upgrades->seen, 0, sizeof(upgrades->seen));
    sample_take(upgrades, &upgrades->begin);
    upgrades->now = upgrades->begin;
    (void)canary_look(&upgrades->begin, &upgrades->now, upgrades->watch.results);
    log_info("canary_watching", "build=\"%s\" previous=\"%s\" until_ms=%" PRIu64, build_text,
             upgrades->previous_build, upgrades->watch.until_ms);
}

int upgrades_watch(struct upgrades *upgrades, uint64_t duration_ms, struct err *err)
{
    const uint32_t level = fsm_level(replica_fsm(upgrades->broker->replica));

    CHECK(duration_ms >= UPGRADES_WATCH_MIN_MS && duration_ms <= UPGRADES_WATCH_MAX_MS);
    if (upgrades->folder[0] == '\0')
        return err_set(err, ERR_REFUSED,
                       "it was not started by ckptd-start, so nobody could put the build before "
                       "back: the runbook's 'Another build of ckptd'");
    if (upgrades->previous_build[0] == '\0')
        return err_set(err, ERR_REFUSED,
                       "ckptd-start has no build before this one: ckptd-start --install FOLDER "
                       "keeps it");
    if (upgrades->previous_level < level)
        return err_set(err, ERR_REFUSED,
                       "the cluster's level is %" PRIu32 " and %.95s knows %" PRIu32
                       ": it cannot be put back after upgrade finalize",
                       level, upgrades->previous_build, upgrades->previous_level);
    upgrades->watch.begun_ms = broker_wall_ms(upgrades->broker);
    upgrades->watch.until_ms = upgrades->watch.begun_ms + duration_ms;
    if (count_begin(upgrades, true, err) != 0)
        return -1;
    watch_begin(upgrades);
    return 0;
}

void upgrades_watch_end(struct upgrades *upgrades)
{
    if (is_watching(upgrades))
        watch_over(upgrades, "passed");
}

bool upgrades_failed(struct upgrades *upgrades, const char *why)
{
    return upgrades != NULL && is_watching(upgrades) && put_back(upgrades, why);
}

const struct upgrades_watch *upgrades_watched(const struct upgrades *upgrades)
{
    return upgrades->began ? &upgrades->watch : NULL;
}

/* ---- the part ---- */

static void on_end(void *data)
{
    struct upgrades *upgrades = data;

    upgrades->end(upgrades->context);
}

void upgrades_restart(struct upgrades *upgrades)
{
    upgrades->broker->clock.timer_start(upgrades->ends, 1000);
}

void upgrades_fill_start(const struct upgrades *upgrades, Ckpt__V1__MemberStart *ret_start)
{
    ret_start->at_ms = upgrades->started_at_ms;
    ret_start->supervised_by =
        (char *)(uintptr_t)upgrades_supervisor(upgrades->broker->config->supervised);
    ret_start->previous_build = (char *)(uintptr_t)upgrades->previous_build;
    ret_start->previous_level = upgrades->previous_level;
    ret_start->put_back_build = (char *)(uintptr_t)upgrades->put_back_build;
    ret_start->put_back_why = (char *)(uintptr_t)upgrades->put_back_why;
}

struct upgrades *upgrades_new(struct broker *broker, upgrades_end_fn *end, void *context)
{
    struct upgrades *upgrades = check_calloc(1, sizeof(*upgrades));

    CHECK(broker->replica != NULL && end != NULL);
    upgrades->broker = broker;
    upgrades->end = end;
    upgrades->context = context;
    upgrades->started_at_ms = broker_wall_ms(broker);
    upgrades->folder = variable_of("CKPT_START_STATE");
    upgrades->previous_build = variable_of("CKPT_START_PREVIOUS");
    upgrades->previous_level =
        (uint32_t)strtoul(variable_of("CKPT_START_PREVIOUS_LEVEL"), NULL, 10);
    upgrades->put_back_build = variable_of("CKPT_START_PUT_BACK");
    upgrades->put_back_why = variable_of("CKPT_START_PUT_BACK_WHY");
    upgrades->ends = broker->clock.timer_new(broker->clock.context, on_end, upgrades);
    upgrades->looks = broker->clock.timer_new(broker->clock.context, on_look, upgrades);
    upgrades->kept = upgrades->folder[0] == '\0' || upgrades->previous_build[0] == '\0';
    if (!upgrades->kept &&
        watch_read(upgrades, &upgrades->watch.begun_ms, &upgrades->watch.until_ms))
        watch_begin(upgrades);
    if (!upgrades->kept)
        broker->clock.timer_start(upgrades->looks, 0);
    return upgrades;
}

void upgrades_free(struct upgrades *upgrades)
{
    if (upgrades == NULL)
        return;
    upgrades->broker->clock.timer_free(upgrades->ends);
    upgrades->broker->clock.timer_free(upgrades->looks);
    free(upgrades);
}
