/* `ckpt-run try`: a trial of a command before it is a job.
 *
 *   STARTED --after a while--> looked at --asked--> SAVED --killed--> RESTARTED --> compared
 *
 * Flow     a cluster of its own on this machine (run_try_site.h) runs the command as a job, by the
 *          options of the line. So what is tried is what a cluster does: the same agent asks, a
 *          worker copies and verifies, ckpt-run restores and starts again. Its own lines say the
 *          rest: who is asked, the checkpoint's size, the time that the application took.
 * Shapes   one job, in the folder where it is started: the command does there what it always does.
 * Errors   TRY_NOT: it cannot be checkpointed so, or does not go on; RUN_EXIT_SELF: the trial
 *          itself failed. The reason is on stderr before.
 * Absent   jobs of several nodes; other machines.
 * Source   S3-066.
 */
#include "src/agent/run/run_try.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/proc_environment.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_conditions.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/run_profile.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/run_try_site.h"
#include "src/agent/run/run_try_watch.h"
#include "src/agent/run/words.h"
#include "src/ask/sentinel.h"
#include "src/base/check.h"
#include "src/base/number.h"
#include "src/profile/profile.h"

enum {
    TRY_NOT = 1,
    WORDS_MAX = 128,     /* of a line of ckpt-run */
    PROCESSES_MAX = 256, /* of the job */
    AFTER_MS = 10000,
    WITHIN_MS = 600000,
    BEGIN_MS = 30000, /* until its processes are there */
    END_MS = 15000,
    END_SEEN_MS = 2000, /* by then a ckpt-run whose job has ended has ended as well */
    HINT_LOOK_MS = 1000,
    REFUSED_TRIES = 20,
    REFUSED_PAUSE_MS = 500
};

static const char usage[] =
    "usage: ckpt-run try [options] -- command arguments...\n"
    "Tries, without a cluster, whether a command can be checkpointed: runs it here as a job of a\n"
    "cluster of its own, takes a checkpoint, kills it, and starts it again from that. It says how\n"
    "it was asked, the size, the time that it took, what no checkpoint of it holds, and the lines\n"
    "for a job script. It needs room for two checkpoints below /tmp.\n"
    "\n"
    "  --after DURATION      it runs for so long before it is asked, and again before the end of\n"
    "                        the trial; default: 10s\n"
    "  --within DURATION     how long a checkpoint, or with --compare the rest, may take; 10m\n"
    "  --compare CMD         let it run to its end after the restart, and ask this shell command\n"
    "                        whether the result is right (status 0), as 'cmp expected out.dat'\n"
    "  --profile, --ask, --ask-file, --checkpoint-cmd, ...: as ckpt-run --help has them\n"
    "\n"
    "The exit code is 0 when it went on (and compared well), 1 when not, 125 when the trial "
    "failed.\n";

struct trial {
    uint64_t after_ms, within_ms;
    const char *compare; /* NULL: it is ended after the restart */
    char *line[WORDS_MAX];
    size_t words;
    char **typed; /* options and command for the job script */
    struct try_site site;
    pid_t run; /* ckpt-run; 0: it has ended */
    int run_status;
    pid_t processes[PROCESSES_MAX];
    size_t count;
};

/* ---- its line ---- */

static void line_add(struct trial *trial, const char *word)
{
    CHECK(trial->words + 1 < WORDS_MAX);
    trial->line[trial->words++] = check_strdup(word);
}

static int take_duration(const char *name, const char *text, uint64_t *ret_ms, struct err *err)
{
    const struct number_range range = {.min = 100, .max = UINT64_C(86400000)};
    struct err why = {0};

    if (number_parse(NUMBER_DURATION, text, range, ret_ms, &why) != 0)
        return err_set(err, ERR_INVALID, "%s: %s", name, why.text);
    return 0;
}

/* Of the trial's own options; 0: it is none of them. */
static int take_own(struct trial *trial, const char *name, const char *value, struct err *err)
{
    const bool after = strcmp(name, "--after") == 0, within = strcmp(name, "--within") == 0;

    if (!after && !within && strcmp(name, "--compare") != 0)
        return 0;
    if (value == NULL || strcmp(value, "--") == 0)
        return err_set(err, ERR_INVALID, "%s lacks its value", name);
    if (after || within)
        return take_duration(name, value, after ? &trial->after_ms : &trial->within_ms, err) == 0
                   ? 1
                   : -1;
    trial->compare = value;
    return 1;
}

static bool is_the_trial_s(const char *word)
{
    return strncmp(word, "--alloc", 7) == 0 || strncmp(word, "--socket", 8) == 0 ||
           strncmp(word, "--work-dir", 10) == 0 || strcmp(word, "--stay") == 0;
}

/* The rest is ckpt-run's. */
static int take_words(int argc, char **argv, struct trial *trial, struct err *err)
{
    bool command = false;

    for (int i = 1; i < argc; i++) {
        int own = command ? 0 : take_own(trial, argv[i], argv[i + 1], err);

        if (own < 0)
            return -1;
        i += own;
        if (own > 0)
            continue;
        if (!command && is_the_trial_s(argv[i]))
            return err_set(err, ERR_INVALID, "try has a job of its own: leave %s out", argv[i]);
        command = command || strcmp(argv[i], "--") == 0;
        if (trial->words + 3 >= WORDS_MAX) /* two of them are say_profile()'s */
            return err_set(err, ERR_INVALID, "the line has more than %d words", WORDS_MAX - 10);
        line_add(trial, argv[i]);
    }
    return command ? 0 : err_set(err, ERR_INVALID, "the command is missing; it goes behind --");
}

/* As ckpt-run would read it: what is wrong is told before anything runs. */
static int check_line(struct trial *trial, struct err *err)
{
    struct run_options options;

    trial->line[trial->words] = NULL;
    optind = 0; /* a line is read from its beginning, and may be read twice */
    return run_options_parse((int)trial->words, trial->line, &options, err);
}

/* A profile that knows the command is tried: the trial's job is registered in no other way. */
static void say_profile(struct trial *trial)
{
    static char option[] = "--profile", automatic[] = PROFILE_AUTO;

    CHECK(trial->words + 2 < WORDS_MAX);
    memmove(trial->typed + 2, trial->typed,
            (size_t)(trial->line + trial->words - trial->typed) * sizeof(*trial->typed));
    trial->typed[0] = option;
    trial->typed[1] = automatic;
    trial->words += 2;
}

static int make_line(int argc, char **argv, struct trial *trial, struct err *err)
{
    static char path[PATH_MAX];

    line_add(trial, try_site_program("ckpt-run", path));
    line_add(trial, "--alloc");
    line_add(trial, TRY_JOB);
    line_add(trial, "--socket");
    line_add(trial, trial->site.socket);
    line_add(trial, "--work-dir");
    line_add(trial, trial->site.work_dir);
    trial->typed = trial->line + trial->words;
    if (take_words(argc, argv, trial, err) != 0 || check_line(trial, err) != 0)
        return -1;
    if (!run_profile_is_known())
        return 0;
    say_profile(trial);
    return check_line(trial, err);
}

/* ---- its processes ---- */

static bool is_of_trial(const struct trial *trial, pid_t pid)
{
    struct proc_environment found;

    return proc_read_environment(pid, &found) && strcmp(found.work_dir, trial->site.work_dir) == 0;
}

static void find_processes(struct trial *trial)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;

    trial->count = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (isdigit((unsigned char)entry->d_name[0]) && trial->count < PROCESSES_MAX &&
            is_of_trial(trial, pid))
            trial->processes[trial->count++] = pid;
    }
    if (folder != NULL)
        closedir(folder);
}

/* False: ckpt-run has ended before, or nothing is there in time. */
static bool wait_for_processes(struct trial *trial)
{
    for (uint64_t waited = 0; waited < BEGIN_MS; waited += 100) {
        find_processes(trial);
        if (trial->count > 0)
            return true;
        trial->run_status = try_site_wait(trial->run, 100);
        if (trial->run_status != -1) {
            trial->run = 0;
            return false;
        }
    }
    return false;
}

static bool job_runs_for(struct trial *trial, uint64_t wait_ms)
{
    trial->run_status = try_site_wait(trial->run, wait_ms);
    if (trial->run_status == -1)
        return true;
    trial->run = 0;
    return false;
}

static void print_conditions(struct trial *trial)
{
    struct conditions conditions;

    find_processes(trial);
    printf("what no checkpoint holds:\n");
    for (size_t i = 0; i < trial->count; i++)
        if (conditions_look(trial->processes[i], &conditions))
            conditions_print(stdout, &conditions);
    conditions_print_machine(stdout);
    fflush(stdout);
}

/* ---- the trial ---- */

static int fail_trial(const char *what, const char *next)
{
    run_say_error("try: %s%s%s", what, next[0] == '\0' ? "" : "; ", next);
    return TRY_NOT;
}

/* A cluster that has not heard of the start yet refuses it. */
static bool is_refused(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == RUN_EXIT_REFUSED;
}

/* The status of waitpid(2); -1: it has not ended in time, or this program was told to end. */
static int wait_for_hint(const struct trial *trial, pid_t pid)
{
    const uint64_t limit_ms = trial->within_ms + END_MS;
    struct try_watch watch = {.said = false};
    int status = -1;

    for (uint64_t waited_ms = 0; waited_ms < limit_ms && status == -1 && try_site_pause(0);
         waited_ms += HINT_LOOK_MS) {
        status = try_site_wait(pid, HINT_LOOK_MS);
        if (status == -1)
            try_watch_look(trial->site.work_dir, &watch);
    }
    return status;
}

static bool took_checkpoint(struct trial *trial)
{
    char path[PATH_MAX], within[32], log[PATH_MAX];
    int status;
    char *const command[] = {(char *)(uintptr_t)try_site_program("ckpt-run", path),
                             (char[]){"hint"},
                             (char[]){TRY_JOB},
                             (char[]){"--wait"},
                             (char[]){"--wait-for"},
                             within,
                             (char[]){"--socket"},
                             trial->site.socket,
                             NULL};

    snprintf(within, sizeof(within), "%" PRIu64 "ms", trial->within_ms);
    snprintf(log, sizeof(log), "%s/hint.log", trial->site.folder);
    for (int i = 0; i < REFUSED_TRIES; i++) {
        (void)unlink(log); /* of a try before */
        status = wait_for_hint(trial, try_site_run(command, log));
        if (status == -1 || !is_refused(status) || !try_site_pause(REFUSED_PAUSE_MS))
            break;
    }
    return status == 0;
}

/* All at once, as a lost node does. */
static void kill_processes(struct trial *trial)
{
    find_processes(trial);
    for (size_t i = 0; i < trial->count; i++)
        if (is_of_trial(trial, trial->processes[i]))
            (void)kill(trial->processes[i], SIGKILL);
}

static int compare_result(struct trial *trial)
{
    char *const command[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char *)(uintptr_t)trial->compare,
                             NULL};
    int status;

    if (job_runs_for(trial, trial->within_ms))
        return fail_trial("it has not ended after the restart", "give it longer (--within)");
    if (trial->run_status != 0)
        return fail_trial("it ended with an error after the restart",
                          "the restart is not as if it had gone on");
    status = try_site_wait(try_site_run(command, NULL), trial->within_ms);
    if (status != 0)
        return fail_trial("--compare says that the result is another one",
                          "not all of its state is in the checkpoint");
    printf("the result is the same, says --compare\n");
    return 0;
}

static int restart_trial(struct trial *trial)
{
    kill_processes(trial);
    if (!wait_for_processes(trial))
        return fail_trial("it was not started again from the checkpoint", "");
    if (trial->compare != NULL)
        return compare_result(trial);
    if (!job_runs_for(trial, trial->after_ms) && trial->run_status != 0)
        return fail_trial("it ended with an error after the restart",
                          "what it needs besides the checkpoint is not there");
    printf("it was killed and went on from the checkpoint\n");
    return 0;
}

static bool saves_by_command(const struct trial *trial)
{
    static const char option[] = "--checkpoint-cmd";

    for (char **at = trial->typed; *at != NULL && strcmp(*at, "--") != 0; at++)
        if (strncmp(*at, option, sizeof(option) - 1) == 0)
            return true;
    return false;
}

/* The lines before say why, if its agent got as far as asking. */
static int fail_checkpoint(struct trial *trial)
{
    char what[TRY_SAID_BYTES + 64], said[TRY_SAID_BYTES];

    if (!job_runs_for(trial, END_SEEN_MS) && trial->run_status == 0)
        return fail_trial("the command ended before the checkpoint was complete",
                          "try it with a longer case");
    (void)try_site_said(&trial->site, "hint", said);
    snprintf(what, sizeof(what), "no checkpoint was taken%s%s", said[0] == '\0' ? "" : ": ", said);
    if (saves_by_command(trial))
        return fail_trial(what, "its command must be able to save so early: --after says when it "
                                "is asked");
    return fail_trial(what, "ckptctl profile list has programs that are known; --checkpoint-cmd "
                            "CMD saves one from outside");
}

static int run_trial(struct trial *trial)
{
    trial->run = try_site_run(trial->line, NULL);
    if (!wait_for_processes(trial) && (trial->run != 0 || trial->run_status != 0))
        return fail_trial("the command did not start", "");
    if (trial->run == 0 || !job_runs_for(trial, trial->after_ms))
        return fail_trial("the command ended before it was asked",
                          "try it with a longer case, or a shorter --after");
    print_conditions(trial);
    if (!took_checkpoint(trial))
        return fail_checkpoint(trial);
    return restart_trial(trial);
}

/* ---- the end ---- */

static void print_words(char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t size = 4 * strlen(words[i]) + 4;
        char *word = check_alloc(size);

        if (words[i][0] != '\0' && request_quote(words[i], word, size) > 0)
            printf(" %s", word);
        else
            printf(" ''");
        free(word);
    }
}

static void print_script(const struct trial *trial)
{
    printf("lines for a job script:\n"
           "  ckpt-run register --alloc \"$JOB\" --tenant \"$(id -gn)\" --project PROJECT\n"
           "  ckpt-run --alloc \"$JOB\"");
    print_words(trial->typed);
    printf("\n");
    fflush(stdout);
}

static void end_run(struct trial *trial)
{
    if (trial->run == 0)
        return;
    kill(trial->run, SIGKILL); /* it says no word on how the trial's job goes on */
    CHECK(waitpid(trial->run, NULL, 0) == trial->run);
    trial->run = 0;
    for (find_processes(trial); trial->count > 0; find_processes(trial)) {
        kill_processes(trial);
        (void)poll(NULL, 0, 50);
    }
}

int run_try(int argc, char **argv)
{
    static struct trial trial = {.after_ms = AFTER_MS, .within_ms = WITHIN_MS};
    struct err err = {0};
    int code = RUN_EXIT_SELF;

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
    }
    if (try_site_name(&trial.site, &err) != 0 || make_line(argc, argv, &trial, &err) != 0) {
        run_say_error("try: %s", err.text);
        try_site_close(&trial.site);
        return RUN_EXIT_SELF;
    }
    if (try_site_open(&trial.site, &err) == 0)
        code = run_trial(&trial);
    else
        run_say_error("try: %s", err.text);
    end_run(&trial);
    try_site_close(&trial.site);
    if (code == 0)
        print_script(&trial);
    return code;
}
