/* Telling a program by a signal. See run_tell.h. */
#include "src/agent/run/run_tell.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/node/job_processes.h"
#include "src/agent/node/proc.h"
#include "src/agent/node/ranks.h"
#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/signal_name.h"
#include "src/base/text.h"

static const char *const whom_names[] = {[TELL_STARTED] = "started",
                                         [TELL_GROUP] = "group",
                                         [TELL_EACH] = "each",
                                         [TELL_RANK] = "rank=",
                                         [TELL_SHELL] = "shell"};

int tell_whom_parse(const char *text, struct tell *tell)
{
    const struct number_range range = {.min = 0, .max = INT32_MAX};
    const size_t length = strlen(whom_names[TELL_RANK]);
    uint64_t rank;

    for (size_t i = 0; i < ARRAY_COUNT(whom_names); i++) {
        if (i != TELL_RANK && strcmp(text, whom_names[i]) == 0) {
            tell->whom = (enum tell_whom)i;
            return 0;
        }
    }
    if (strncmp(text, whom_names[TELL_RANK], length) != 0 ||
        number_parse(NUMBER_PLAIN, text + length, range, &rank, NULL) != 0)
        return -1;
    tell->whom = TELL_RANK;
    tell->rank = (uint32_t)rank;
    return 0;
}

const char *tell_whom_name(const struct tell *tell, char text[TELL_WHOM_BYTES])
{
    CHECK(tell->whom < ARRAY_COUNT(whom_names));
    if (tell->whom == TELL_RANK)
        snprintf(text, TELL_WHOM_BYTES, "%s%" PRIu32, whom_names[TELL_RANK], tell->rank);
    else
        snprintf(text, TELL_WHOM_BYTES, "%s", whom_names[tell->whom]);
    return text;
}

/* ---- one process ---- */

static int refuse_to_tell(const struct tell *tell, const struct proc_stat *stat, struct err *err)
{
    char name[SIGNAL_NAME_BYTES], whom[TELL_WHOM_BYTES];

    return err_set(err, ERR_REFUSED,
                   "pid %d (%.40s) does not catch SIG%s, which --ask-signal sends to %s: let it "
                   "catch the signal, or name another one",
                   (int)stat->pid, stat->name, signal_name_format(tell->signal, name),
                   tell_whom_name(tell, whom));
}

static bool process_catches(pid_t pid, int signal)
{
    struct proc_status status;

    return proc_read_status(pid, &status) == 0 && (status.caught >> (signal - 1) & 1) != 0;
}

static int tell_one(const struct tell *tell, pid_t pid, struct err *err)
{
    struct proc_stat stat;

    if (proc_read_stat(pid, &stat) != 0 || !proc_living(&stat))
        return err_set(err, ERR_NOT_FOUND, "pid %d has ended", (int)pid);
    if (!process_catches(pid, tell->signal))
        return refuse_to_tell(tell, &stat, err);
    if (proc_signal(pid, stat.start_ticks, tell->signal) != 0)
        return err_set(err, ERR_IO, "pid %d could not be sent the signal", (int)pid);
    return 0;
}

/* ---- the group ---- */

enum { GROUP_MAX = 4096 };

struct group_look {
    const struct tell *tell;
    struct proc_catching catching;
    struct process_id found[GROUP_MAX];
    size_t count;
};

/* All but this process, which would take the signal for its own. */
static bool look_at_group(void *data, const struct proc_stat *stat)
{
    struct group_look *look = data;
    struct proc_status status;

    if (stat->pid == getpid() || look->count == GROUP_MAX)
        return true;
    if (proc_read_status(stat->pid, &status) != 0)
        return true;
    look->found[look->count++] = (struct process_id){stat->pid, stat->start_ticks};
    return proc_catching_add(&look->catching, stat, &status, look->tell->signal);
}

static int tell_group(const struct tell *tell, struct err *err)
{
    struct group_look *look = check_calloc(1, sizeof(*look));
    struct proc_stat culprit = {0};
    enum proc_catches catches;
    int result = 0;

    look->tell = tell;
    (void)proc_group(getpgrp(), look_at_group, look);
    catches = proc_catching_end(&look->catching);
    culprit.pid = look->catching.culprit;
    text_copy(culprit.name, sizeof(culprit.name), look->catching.culprit_name);
    if (catches == PROC_WOULD_DIE)
        result = refuse_to_tell(tell, &culprit, err);
    else if (catches != PROC_CATCHES)
        result = err_set(err, ERR_REFUSED, "no process of the job's group catches the signal");
    for (size_t i = 0; result == 0 && i < look->count; i++)
        (void)proc_signal(look->found[i].pid, look->found[i].start_ticks, tell->signal);
    free(look);
    return result;
}

/* ---- processes below the program ---- */

static const char *environment_text(const char *name)
{
    const char *text = getenv(name);

    return text == NULL ? "" : text;
}

/* The job as this process has it in its own environment. */
static void describe_job(struct job_identity *job)
{
    struct proc_stat stat;

    memset(job, 0, sizeof(*job));
    text_copy(job->stragglers.allocation_id, sizeof(job->stragglers.allocation_id),
              environment_text("CKPT_ALLOCATION_ID"));
    text_copy(job->stragglers.work_dir, sizeof(job->stragglers.work_dir),
              environment_text("CKPT_DIR"));
    (void)checkpoint_id_parse(environment_text("CKPT_RUN"), &job->stragglers.run);
    job->stragglers.uid = getuid();
    job->group = getpid();
    if (proc_read_stat(getpid(), &stat) == 0)
        job->stragglers.start_ticks = stat.start_ticks;
}

/* This process, which holds signals for the program, is none that saves. */
static void look_at_job(int signal, struct ranks_seen *ret_seen)
{
    struct job_identity *job = check_calloc(1, sizeof(*job));
    struct job_processes table;
    struct job_process *own;

    describe_job(job);
    job_processes_init(&table);
    job_processes_look(&table, job, PROCESS_ANEW);
    own = job_processes_find(&table, getpid());
    if (own != NULL)
        own->caught = 0;
    ranks_find(&table, job, signal, ret_seen);
    job_processes_close(&table);
    free(job);
}

/* Where a launcher numbers ranks: these, and not the launcher, which passes signals on to them. */
static int tell_hearers(const struct tell *tell, const struct ranks_seen *seen, struct err *err)
{
    size_t told = 0, ranks = 0;

    for (size_t i = 0; i < seen->count; i++) {
        const struct rank_seen *rank = &seen->items[i];

        ranks += !rank->launcher;
        if (!rank->launcher && process_catches(rank->pid, tell->signal))
            told += proc_signal(rank->pid, rank->start_ticks, tell->signal) == 0;
    }
    for (size_t i = 0; i < seen->hearer_count && ranks == 0; i++)
        told += proc_signal(seen->hearers[i].pid, seen->hearers[i].start_ticks, tell->signal) == 0;
    return told > 0 ? 0
                    : err_set(err, ERR_REFUSED,
                              "no process of the job catches the signal that --ask-signal names");
}

static int tell_rank(const struct tell *tell, const struct ranks_seen *seen, struct err *err)
{
    for (size_t i = 0; i < seen->count; i++)
        if (!seen->items[i].launcher && seen->items[i].number == tell->rank)
            return tell_one(tell, seen->items[i].pid, err);
    return err_set(err, ERR_NOT_FOUND,
                   "no process of the job has the number %" PRIu32
                   " of its launcher, which --ask rank=%" PRIu32 " names",
                   tell->rank, tell->rank);
}

static int tell_below(const struct tell *tell, struct err *err)
{
    struct ranks_seen *seen = check_calloc(1, sizeof(*seen));
    int result;

    look_at_job(tell->signal, seen);
    result = tell->whom == TELL_RANK ? tell_rank(tell, seen, err) : tell_hearers(tell, seen, err);
    free(seen);
    return result;
}

/* ---- the shell ---- */

/* This process is started by a keeper, that one by ckpt-run, and that one by the shell. */
static int tell_shell(const struct tell *tell, struct err *err)
{
    struct proc_stat keeper, above;

    if (proc_read_stat(getppid(), &keeper) != 0 || proc_read_stat(keeper.parent, &above) != 0 ||
        strcmp(above.name, "ckpt-run") != 0 || above.parent <= 1)
        return err_set(err, ERR_NOT_FOUND,
                       "its ckpt-run has gone, and nobody knows the shell that had started it: "
                       "start the same line again");
    return tell_one(tell, above.parent, err);
}

int tell_by_signal(const struct tell *tell, pid_t program, struct err *err)
{
    CHECK(tell->signal > 0 && tell->signal <= 64);
    CHECK(program > 1);
    switch (tell->whom) {
    case TELL_STARTED:
        return tell_one(tell, program, err);
    case TELL_GROUP:
        return tell_group(tell, err);
    case TELL_EACH:
    case TELL_RANK:
        return tell_below(tell, err);
    case TELL_SHELL:
        return tell_shell(tell, err);
    }
    CHECK_UNREACHABLE("tell_whom");
}
