/* `ckpt-run import`. See run_import.h. */
#include "src/agent/run/run_import.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/alone/alone_folder.h"
#include "src/agent/run/run_folder.h"
#include "src/agent/run/run_import_check.h"
#include "src/agent/run/run_import_files.h"
#include "src/agent/run/run_owner.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/usage.h"
#include "src/cli/owner.h"
#include "src/rpc/server.h"

#define STATE(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum {
    LOOK_MS = 200,
    SETTLE_MS = 15000, /* until the cluster has heard how the run ended */
    REFUSALS_MAX = 50  /* in a row: of several nodes one alone is not refused */
};

static const char usage[] =
    "usage: ckpt-run import JOB DIR [--step LABEL] [--work-dir DIR] [--socket PATH]\n"
    "Makes a folder of yours the first checkpoint of a job of yours: of a program that ran\n"
    "without this cluster, of another cluster (ckpt-run get there), or of a job whose id is\n"
    "used up. It is copied and verified as any checkpoint of the job, and the next ckpt-run of\n"
    "the job begins from it. Nothing of the job may run yet, and no key is needed.\n"
    "\n"
    "  JOB             registered and not started (ckpt-run register)\n"
    "  DIR             files, folders and links within it, as the program reads them from\n"
    "                  $CKPT_RESTORE_DIR. Of a job of several nodes: with part-0000, part-0001,\n"
    "                  ... in it, and the same line on each of its nodes. The folder of a\n"
    "                  ckpt-run --standalone --dir DIR, once that has ended: its newest one\n"
    "  --step LABEL    what its program is told of it ($CKPT_RESTORE_LABEL), as ckpt-run get\n"
    "                  printed it: the step that was saved\n"
    "  --work-dir DIR  where it is staged, with room for it, as ckpt-run --help says\n"
    "  --socket PATH   of the node's agent; default: " RUN_DEFAULT_SOCKET "\n"
    "\n"
    "The exit code is 0, 3 when it is no job of yours, 4 when the job or the folder cannot be\n"
    "taken, 1 when the checkpoint failed, 125 when the agent or the cluster cannot be asked.\n";

enum { IMPORT_EXIT_FAILED = 1 };

struct import {
    const char *allocation_id, *socket, *label;
    const char *work_wanted; /* NULL: the default */
    const char *word;        /* the folder, as it is to be read */
    char folder[PATH_MAX], work_dir[PATH_MAX];
    uint32_t parts;
    struct folder_sum sum; /* of what is read on this node, as far as that is known beforehand */
    pid_t child;
    bool child_ended;
    bool ran;               /* as the job, on this node */
    uint64_t checkpoint_id; /* this one asked for it; 0: none */
    uint32_t refusals;      /* in a row */
    struct run_owner_change refused;
};

/* ---- before anything is started ---- */

static int import_refuse(const char *text)
{
    fprintf(stderr, "ckpt-run: %s\n", text);
    return RUN_EXIT_REFUSED;
}

/* The folder of a job that ran without a cluster (--dir): the newest checkpoint in it is meant, and
 * nobody writes there meanwhile. A folder of somebody else is read as it is. */
static int take_alone(struct import *import, const char *word, struct err *err)
{
    static char part[ALONE_PATH_BYTES], label[LABEL_MAX_BYTES + 1];
    char folder[PATH_MAX];
    struct err why = {0};

    import->word = word;
    if (realpath(word, folder) == NULL || !alone_folder_newest(folder, part, label))
        return 0;
    if (alone_folder_lock(folder, &why) < 0 && why.code == ERR_LOCKED)
        return err_set(err, ERR_REFUSED, "%s", why.text);
    import->word = part;
    if (import->label[0] == '\0')
        import->label = label;
    return 0;
}

/* -1: it goes on; else the exit code. */
static int look_first(struct import *import, const char *word)
{
    int code = RUN_EXIT_SELF;
    Ckpt__V1__Allocation *job = run_owner_job_told(import->socket, import->allocation_id, &code);
    struct err err = {0};

    if (job == NULL)
        return code;
    import->parts = (uint32_t)job->spec->n_nodes;
    code = -1;
    if (import_check_job(job, &err) != 0 || take_alone(import, word, &err) != 0 ||
        import_check_folder(import->word, import->parts, import->folder, &import->sum, &err) != 0 ||
        run_folder_make(import->work_wanted, import->allocation_id, import->work_dir, &err) != 0)
        code = import_refuse(err.text);
    ckpt__v1__allocation__free_unpacked(job, NULL);
    return code;
}

/* ---- the child ---- */

/* A shell within a launcher's task has its numbers: the import is no rank of that. */
static void forget_launchers(void)
{
    static const char *const names[] = {"CKPT_RANK",  "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK",   "MV2_COMM_WORLD_RANK",  "RANK",
                                        "WORLD_SIZE", "SLURM_PROCID",         "SLURM_STEP_ID"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        CHECK(unsetenv(names[i]) == 0);
}

/* The name of this program, as it can be executed again. */
static char *own_path(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    CHECK(length > 0);
    path[length] = '\0';
    return check_strdup(path);
}

static void child_options(const struct import *import, struct run_options *ret_options)
{
    static char verb[] = IMPORT_FILES_VERB;
    char **command = check_calloc(5, sizeof(*command));
    const char *label = import->label[0] != '\0' ? import->label
                        : import->parts > 1      ? "unordered"
                                                 : "";

    command[0] = own_path();
    command[1] = verb;
    command[2] = check_strdup(import->folder);
    command[3] = check_strdup(label);
    *ret_options = (struct run_options){.allocation_id = import->allocation_id,
                                        .profile = "",
                                        .work_dir = check_strdup(import->work_dir),
                                        .socket = import->socket,
                                        .restart_on = RUN_RESTART_NEVER,
                                        .from_scratch = true,
                                        .once = true,
                                        .imports = true,
                                        .command = command};
}

/* It ends with this program, and tells the application so. */
static void child_begins(pid_t parent)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
    close(null);
    forget_launchers();
    CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
    if (getppid() != parent)
        _exit(RUN_EXIT_SELF);
}

/* The application's sign that it is what runs as the job on this node. */
static const char *sign_path(const struct import *import, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 32, import->work_dir, IMPORT_SIGN);
    return path;
}

static bool child_runs(struct import *import)
{
    char path[PATH_MAX];

    import->ran = import->ran || access(sign_path(import, path), F_OK) == 0;
    return import->ran && !import->child_ended;
}

static void sign_remove(const struct import *import)
{
    char path[PATH_MAX];

    (void)unlink(sign_path(import, path));
}

static void child_look(struct import *import)
{
    if (!import->child_ended && waitpid(import->child, NULL, WNOHANG) == import->child)
        import->child_ended = true;
}

static void child_end(struct import *import)
{
    if (!import->child_ended) {
        kill(import->child, SIGTERM);
        CHECK(waitpid(import->child, NULL, 0) == import->child);
    }
    import->child_ended = true;
}

/* ---- what the cluster makes of it ---- */

enum import_is { IMPORT_UNDER_WAY, IMPORT_DONE, IMPORT_FAILED };

/* Once all its parts run. Of several nodes the first one's word counts, and the others' is refused
 * while its checkpoint is under way. */
static enum import_is checkpoint_ask(struct import *import)
{
    struct run_owner_change change;

    if (import->checkpoint_id != 0)
        return IMPORT_FAILED; /* it was given up, and the job went on */
    run_owner_migrate(import->socket, import->allocation_id, &change);
    if (change.answer.status == RPC_OK) {
        import->checkpoint_id = change.checkpoint_id;
        import->refusals = 0;
        return IMPORT_UNDER_WAY;
    }
    import->refused = change;
    return ++import->refusals < REFUSALS_MAX ? IMPORT_UNDER_WAY : IMPORT_FAILED;
}

static enum import_is job_look(struct import *import, const Ckpt__V1__Allocation *job)
{
    if (job->last_complete_checkpoint_id != 0) /* whoever asked may have restarted it already */
        return run_owner_stopped(job) || import->child_ended ? IMPORT_DONE : IMPORT_UNDER_WAY;
    if (job->active_checkpoint_id != 0) {
        import->refusals = 0;
        return IMPORT_UNDER_WAY;
    }
    if (import->child_ended)
        return IMPORT_FAILED;
    return job->state == STATE(RUNNING) && child_runs(import) ? checkpoint_ask(import)
                                                              : IMPORT_UNDER_WAY;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec wait = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

/* The run ends before the cluster has heard of it. */
static enum import_is job_watch(struct import *import)
{
    uint64_t ended_ms = 0;
    enum import_is is = IMPORT_UNDER_WAY;

    while (is == IMPORT_UNDER_WAY && ended_ms < SETTLE_MS) {
        Ckpt__V1__Allocation *job;

        sleep_ms(LOOK_MS);
        child_look(import);
        ended_ms += import->child_ended ? LOOK_MS : 0;
        job = run_owner_job(import->socket, import->allocation_id, RUN_OWNER_JOB_MS);
        if (job != NULL) {
            is = job_look(import, job);
            ckpt__v1__allocation__free_unpacked(job, NULL);
        }
    }
    return is == IMPORT_DONE ? IMPORT_DONE : IMPORT_FAILED;
}

/* ---- the end ---- */

/* The cluster takes a moment to hear that the run has ended. */
static void job_restart(const struct import *import, bool from_scratch,
                        struct run_owner_change *ret_change)
{
    for (uint64_t waited_ms = 0; waited_ms < SETTLE_MS; waited_ms += LOOK_MS) {
        run_owner_restart(import->socket, import->allocation_id, from_scratch, ret_change);
        if (ret_change->answer.status == RPC_OK)
            return;
        sleep_ms(LOOK_MS);
    }
}

static int end_well(const struct import *import)
{
    struct run_owner_change change;
    char size[WORDS_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    if (import->checkpoint_id == 0) {
        printf("job %s: the part of this node is imported\n", import->allocation_id);
        return EXIT_SUCCESS;
    }
    job_restart(import, false, &change);
    printf("job %s: %s is its checkpoint %s", import->allocation_id, import->folder,
           checkpoint_id_format(import->checkpoint_id, id));
    if (import->parts == 1)
        printf(", %s in %zu files", words_size(import->sum.size_bytes, size),
               import->sum.file_count);
    puts(", verified");
    if (change.answer.status == RPC_OK) {
        printf("  its ckpt-run begins from there: ckpt-run --alloc %s -- COMMAND\n",
               import->allocation_id);
        return EXIT_SUCCESS;
    }
    printf("  before its ckpt-run begins from there: ckpt-run restart %s\n", import->allocation_id);
    return run_call_fail(import->socket, &change.answer);
}

/* So that it can be tried again. A run that was never this one's is left as it is. */
static int end_badly(struct import *import)
{
    bool own = import->ran && (import->checkpoint_id != 0 || import->refusals > 0);
    struct run_owner_change change = {.answer.status = RPC_OK};

    if (import->refusals > 0) {
        fputs("ckpt-run: no checkpoint of the folder is made: ", stderr);
        owner_words(stderr, import->refused.answer.text);
        fputc('\n', stderr);
    }
    child_end(import);
    if (own)
        job_restart(import, true, &change);
    fprintf(stderr,
            "ckpt-run: nothing was imported into job %s, for the reason above; ckpt-run status "
            "--alloc %s shows how the job is%s\n",
            import->allocation_id, import->allocation_id,
            own && change.answer.status == RPC_OK ? ", and the same line tries again" : "");
    return IMPORT_EXIT_FAILED;
}

static int import_supervise(struct import *import)
{
    enum import_is is = job_watch(import);

    if (is == IMPORT_DONE)
        child_end(import);
    sign_remove(import);
    return is == IMPORT_DONE ? end_well(import) : end_badly(import);
}

/* ---- the line ---- */

static int words_refuse(const char *text)
{
    usage_refuse("ckpt-run", "import", text);
    return RUN_EXIT_SELF;
}

/* -1: it goes on; else the exit code. */
static int words_parse(int argc, char **argv, struct import *ret_import)
{
    static const struct option table[] = {{"socket", required_argument, NULL, 's'},
                                          {"step", required_argument, NULL, 'l'},
                                          {"work-dir", required_argument, NULL, 'w'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct import import = {.socket = RUN_DEFAULT_SOCKET, .label = ""};
    struct err err = {0};
    int option;

    while ((option = usage_option(argc, argv, "", table, &err)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option == '?')
            return words_refuse(err.text);
        if (option == 's')
            import.socket = optarg;
        else if (option == 'l')
            import.label = optarg;
        else
            import.work_wanted = optarg;
    }
    if (optind + 2 != argc)
        return words_refuse("import needs JOB and DIR");
    if (id_check("JOB", argv[optind], &err) != 0)
        return words_refuse(err.text);
    if (import.label[0] != '\0' && !label_valid(import.label))
        return words_refuse("--step must be 1 to 64 characters of A-Z a-z 0-9 . _ : -");
    import.allocation_id = argv[optind];
    *ret_import = import;
    return -1;
}

bool run_import(int argc, char **argv, struct run_options *ret_options, int *ret_code)
{
    struct import import;
    pid_t own = getpid();

    *ret_code = words_parse(argc, argv, &import);
    if (*ret_code < 0)
        *ret_code = look_first(&import, argv[optind + 1]);
    if (*ret_code >= 0)
        return true;
    sign_remove(&import); /* of a line that was killed */
    fflush(NULL);
    import.child = fork();
    if (import.child < 0) {
        fprintf(stderr, "ckpt-run: fork: %s\n", strerror(errno));
        *ret_code = RUN_EXIT_SELF;
        return true;
    }
    if (import.child == 0) {
        child_begins(own);
        child_options(&import, ret_options);
        return false;
    }
    *ret_code = import_supervise(&import);
    return true;
}
