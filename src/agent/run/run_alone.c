/* A job without a cluster. See run_alone.h. */
#include "src/agent/run/run_alone.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/alone/alone_agent.h"
#include "src/agent/alone/alone_folder.h"
#include "src/agent/alone/alone_program.h"
#include "src/agent/daemon/config.h"
#include "src/agent/node/proc.h"
#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_region.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/words.h"
#include "src/ask/region.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/sha256.h"
#include "src/dest/tree.h"

enum { NAME_DIGITS = 12, LINE_BYTES = 1024, AGAIN_MS = 1000, SLOW_MS = 3000, NUMBER_BYTES = 24 };

static struct run_alone_job {
    const struct run_options *options;
    uv_timer_t again;
    pid_t pid;       /* of the agent; 0: none runs */
    pid_t noted_pid; /* of the program that was started or found last; 0: none was */
    const char *work_dir;
    char folder[PATH_MAX], state[PATH_MAX], socket[PATH_MAX];
    char allocation_id[ID_MAX_BYTES + 1];
    char program[PATH_MAX], every[NUMBER_BYTES], keep[NUMBER_BYTES];
} job;

/* ---- the folder ---- */

/* Its last part may be made; what is above may be a file system that is not mounted. */
static int folder_make(const char *wanted, struct err *err)
{
    struct stat status;

    if (mkdir(wanted, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_INVALID,
                       "--dir %s: %s; name a folder that is there, or that can "
                       "be made where you may write",
                       wanted, strerror(errno));
    if (realpath(wanted, job.folder) == NULL)
        return err_set(err, ERR_INVALID, "--dir %s: %s", wanted, strerror(errno));
    if (stat(job.folder, &status) == 0 && !S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "--dir %s is no folder; name one, or one to be made",
                       job.folder);
    if (access(job.folder, R_OK | W_OK | X_OK) != 0)
        return err_set(err, errno == EROFS ? ERR_IO : ERR_INVALID,
                       "--dir %s: %s; name a folder that you can write to", job.folder,
                       strerror(errno));
    return 0;
}

/* A stand-in saves all in the folder of the program, and leaves that of the checkpoints out. */
static int folder_refuse_own(const struct run_options *options, struct err *err)
{
    char own[PATH_MAX];

    CHECK(job.folder[0] == '/');
    if (!stand_in_wanted(&options->stand_in) || realpath(".", own) == NULL ||
        strcmp(own, job.folder) != 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "--dir %s is the folder in which the program runs, and no checkpoint has what "
                   "lies in the folder of the checkpoints; name one below it, as --dir ckpt, or "
                   "elsewhere",
                   options->alone.folder);
}

/* Of the folder's name: nothing in it has that, so it may be moved. */
static void job_name(void)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];

    sha256_of(job.folder, strlen(job.folder), digest);
    snprintf(job.allocation_id, sizeof(job.allocation_id), "standalone-%.*s", NAME_DIGITS,
             sha256_format(digest, text));
    CHECK(id_valid(job.allocation_id));
}

/* A stand-in is no part of the command. --replace says that another one is meant. */
static int folder_claim(const struct run_options *options, struct err *err)
{
    const char *program = stand_in_program(options->command);
    char *const *command = options->command;
    char own[PATH_MAX];

    while (*command != program)
        command++;
    run_keeper_folder(own);
    return alone_folder_claim(job.folder, &(struct alone_line){own, command}, options->replace,
                              err);
}

int run_alone_prepare(struct run_options *options, struct err *err)
{
    if (!options->alone.wanted)
        return 0;
    CHECK(options->alone.keep > 0 && options->alone.every_ms > 0);
    if (folder_make(options->alone.folder, err) != 0 || folder_refuse_own(options, err) != 0 ||
        alone_folder_lock(job.folder, err) < 0 || folder_claim(options, err) != 0)
        return -1;
    CHECK(setenv(STAND_IN_CHECKPOINTS, job.folder, 1) == 0);
    job_name();
    job.options = options;
    options->allocation_id = job.allocation_id;
    return 0;
}

/* ---- its agent ---- */

/* A process of its own session: keys of a terminal and the end of its session are for ckpt-run. */
__attribute__((noreturn)) static void agent_become(pid_t parent, int output)
{
    char verb[] = ALONE_VERB;
    char *const words[] = {job.program,       verb,      job.state, job.folder,
                           job.allocation_id, job.every, job.keep,  NULL};
    const int null = open("/dev/null", O_RDWR);

    (void)setsid();
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    CHECK(null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
    CHECK(dup2(output < 0 ? null : output, STDOUT_FILENO) == STDOUT_FILENO);
    CHECK(dup2(null, STDERR_FILENO) == STDERR_FILENO); /* it opens its log there */
    CHECK(close_range(STDERR_FILENO + 1, ~0U, 0) == 0);
    if (getppid() == parent)
        execv("/proc/self/exe", words);
    _exit(EXIT_FAILURE);
}

/* A handler of this program that ran in the child would tell the loop of both. */
static pid_t agent_fork(int output)
{
    const pid_t own = getpid();
    sigset_t all, before;
    pid_t pid;

    fflush(NULL);
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    pid = fork();
    if (pid == 0)
        agent_become(own, output);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    return pid;
}

static void say_begin(const char *line)
{
    char every[WORDS_BYTES], clock[WORDS_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];
    char there[3 * WORDS_BYTES];
    uint64_t newest = 0, taken_ms = 0;
    size_t count = 0;

    (void)sscanf(line, "ready %zu %" SCNu64 " %" SCNu64, &count, &newest, &taken_ms);
    words_duration(job.options->alone.every_ms, every);
    if (newest == 0)
        snprintf(there, sizeof(there), "there is none yet");
    else
        snprintf(there, sizeof(there), "there %s %zu, the newest is %s of %s",
                 count == 1 ? "is" : "are", count, checkpoint_id_format(newest, id),
                 words_clock(taken_ms, clock));
    run_say("standalone: a checkpoint every %s in %s, of which the newest %u stay; %s", every,
            job.folder, (unsigned)job.options->alone.keep, there);
}

/* Storage may be slow, and a folder may have many checkpoints. */
static void wait_for_word(int fd)
{
    struct pollfd word = {.fd = fd, .events = POLLIN};

    while (poll(&word, 1, SLOW_MS) == 0)
        run_say_waiting("waiting until the checkpoints in %s are found", job.folder);
    run_say_over();
}

/* Until it listens, or says why not. */
static int agent_hear(FILE *from, struct err *err)
{
    char line[LINE_BYTES];

    wait_for_word(fileno(from));
    while (fgets(line, sizeof(line), from) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "note ", 5) == 0) {
            run_say("%s", line + 5);
        } else if (strncmp(line, "error ", 6) == 0) {
            return err_set(err, ERR_IO, "%s", line + 6);
        } else if (strncmp(line, "ready ", 6) == 0) {
            say_begin(line);
            return 0;
        }
    }
    return err_set(err, ERR_IO,
                   "the process that is to take the checkpoints did not start; its "
                   "log is %s/" ALONE_LOG,
                   job.state);
}

static int agent_start(struct err *err)
{
    int ends[2], result;
    FILE *from;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    job.pid = agent_fork(ends[1]);
    close(ends[1]);
    from = fdopen(ends[0], "r");
    CHECK(from != NULL);
    if (job.pid < 0)
        result = err_set(err, ERR_IO, "fork: %s", strerror(errno));
    else
        result = agent_hear(from, err);
    fclose(from);
    return result;
}

/* Its number says nothing here, and that a container has gone cannot be told. */
static int unseen_refuse(const struct alone_program *program, struct err *err)
{
    CHECK(program->pid > 1);
    return err_set(err, ERR_BUSY,
                   "pid %d of this job was started in another PID namespace (a container) of this "
                   "machine and may still run there: go on with it or end it there, or remove that "
                   "container; once it has certainly gone, `rm %s/" ALONE_PROGRAM
                   "` lets this line begin from the newest checkpoint",
                   (int)program->pid, job.folder);
}

/* It outlived its ckpt-run, and is not found by this work folder: another copy would begin beside
 * it. */
static int program_refuse(const char *work_dir, struct err *err)
{
    struct alone_program program;
    char keeper[PATH_MAX + sizeof(KEEPER_SOCKET_NAME) + 1], goes_on[PATH_MAX + 64] = "";

    switch (alone_program_look(job.folder, &program)) {
    case ALONE_PROGRAM_GONE:
        return 0;
    case ALONE_PROGRAM_UNSEEN:
        return unseen_refuse(&program, err);
    case ALONE_PROGRAM_LIVES:
        job.noted_pid = program.pid;
        break;
    }
    snprintf(keeper, sizeof(keeper), "%s/" KEEPER_SOCKET_NAME, program.work_dir);
    if (access(keeper, F_OK) == 0 && strcmp(program.work_dir, work_dir) == 0)
        return 0;
    if (access(keeper, F_OK) == 0)
        snprintf(goes_on, sizeof(goes_on), "--work-dir %s goes on with it, and ", program.work_dir);
    return err_set(err, ERR_BUSY,
                   "pid %d of this job still runs, although its ckpt-run has gone, and not in the "
                   "work folder %.100s: %.200s`kill -- -%d` ends it",
                   (int)program.pid, work_dir, goes_on, (int)program.pid);
}

const char *run_alone_held(void)
{
    return job.options == NULL ? NULL : job.folder;
}

int run_alone_started(pid_t pid, uint64_t start_ticks)
{
    struct alone_program program = {.pid = pid, .start_ticks = start_ticks};
    struct err err = {0};

    if (job.options == NULL)
        return 0;
    CHECK(job.work_dir != NULL);
    snprintf(program.work_dir, sizeof(program.work_dir), "%s", job.work_dir);
    if (alone_program_write(job.folder, &program, &err) != 0) {
        run_say_error("%s", err.text);
        return -1;
    }
    job.noted_pid = pid;
    return 0;
}

int run_alone_open(uv_loop_t *loop, struct run_options *options, const char *work_dir,
                   struct err *err)
{
    ssize_t length;

    if (!options->alone.wanted)
        return 0;
    CHECK(uv_timer_init(loop, &job.again) == 0);
    job.work_dir = work_dir;
    if (program_refuse(work_dir, err) != 0 || alone_program_reserve(job.folder, work_dir, err) != 0)
        return -1;
    snprintf(job.state, sizeof(job.state), "%.*s/standalone", PATH_MAX - 16, work_dir);
    snprintf(job.socket, sizeof(job.socket), "%.*s/" ALONE_SOCKET, PATH_MAX - 16, job.state);
    if (strlen(job.socket) > AGENT_SOCKET_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "the name of the work folder %s is too long: with that of a socket in it it "
                       "may have %d bytes; name a shorter one with --work-dir",
                       work_dir, (int)AGENT_SOCKET_MAX_BYTES);
    if (mkdir(job.state, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO,
                       "%s: %s; make room there, or name another work folder with "
                       "--work-dir",
                       job.state, strerror(errno));
    length = readlink("/proc/self/exe", job.program, sizeof(job.program) - 1);
    CHECK(length > 0);
    job.program[length] = '\0';
    snprintf(job.every, sizeof(job.every), "%" PRIu64, options->alone.every_ms);
    snprintf(job.keep, sizeof(job.keep), "%u", (unsigned)options->alone.keep);
    options->socket = job.socket;
    return agent_start(err);
}

/* The application goes on meanwhile, and its next checkpoint is a period away. */
static void agent_again(uv_timer_t *timer)
{
    (void)timer;
    job.pid = agent_fork(-1);
    if (job.pid > 0)
        return;
    job.pid = 0;
    uv_timer_start(&job.again, agent_again, AGAIN_MS, 0);
}

bool run_alone_reaped(pid_t pid, int wait_status)
{
    if (job.pid == 0 || pid != job.pid)
        return false;
    if (WIFSTOPPED(wait_status) || WIFCONTINUED(wait_status))
        return true;
    job.pid = 0;
    run_say_waiting("the process that takes the checkpoints has ended (%s %d), and is started "
                    "again; its log is %s/" ALONE_LOG,
                    WIFSIGNALED(wait_status) ? "signal" : "status",
                    WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
                    job.state);
    uv_timer_start(&job.again, agent_again, AGAIN_MS, 0);
    return true;
}

static bool stop_looking(void *data, const struct proc_stat *stat)
{
    (void)data, (void)stat;
    return false;
}

/* The copy of the checkpoint that it began from; each start makes another one. Whoever is left of
 * the program may read it, and so may one of which nothing is known. */
static void restored_drop(void)
{
    struct alone_program program;
    struct err err;
    int folder;

    if (job.noted_pid == 0 || alone_program_look(job.folder, &program) != ALONE_PROGRAM_GONE ||
        proc_group(job.noted_pid, stop_looking, NULL) > 0)
        return;
    folder = open(job.work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    (void)tree_remove(folder, "restore", &err); /* the next start removes what is left */
    close(folder);
}

/* A ckpt-run before this one may have made the memory, whose application ended under this one. */
void run_alone_close(bool ended)
{
    char path[ASK_REGION_PATH_BYTES];

    if (job.options == NULL || job.work_dir == NULL || !ended)
        return;
    restored_drop();
    alone_program_clear(job.folder);
    ask_region_path(geteuid(), job.allocation_id, job.work_dir, path);
    run_region_drop(path);
}

bool run_alone_refuses(const char *scratch)
{
    if (job.options == NULL || scratch[0] == '\0')
        return false;
    run_say_error("all checkpoints in %s are damaged, and nothing is started; --from-scratch does "
                  "all of its work again, and a whole copy of a checkpoint that is brought back to "
                  "%s/" ALONE_PLACE " is begun from",
                  job.folder, job.folder);
    return true;
}

bool run_alone_lacks(uint32_t restart_count)
{
    return job.options != NULL && (!job.options->from_scratch || restart_count > 0);
}

bool run_alone_say_next(void)
{
    struct alone_count there;

    if (job.options == NULL)
        return false;
    there = alone_folder_count(job.folder);
    if (there.whole > 0)
        run_say("the same line %sgoes on from the newest checkpoint in %s",
                job.options->from_scratch ? "without --from-scratch " : "", job.folder);
    else if (there.damaged > 0 && !job.options->from_scratch)
        run_say("the same line starts nothing, since all checkpoints in %s are damaged",
                job.folder);
    else
        run_say("the same line begins from scratch: there is no %scheckpoint in %s",
                there.damaged > 0 ? "whole " : "", job.folder);
    return true;
}
