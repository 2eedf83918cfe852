/* Commands that take a checkpoint and start from one. See run_command.h. */
#include "src/agent/run/run_command.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_echkpnt.h"
#include "src/agent/run/run_erestart.h"
#include "src/agent/run/run_reaper.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/run_transparent.h"
#include "src/agent/run/words.h"
#include "src/ask/sentinel.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/server.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"
#define SOCKET_NAME       "ckpt-run.cmd"
#define LABEL_NAME        "ckpt-run.label"

enum {
    KILL_AFTER_MS = 5000,
    DEFER_MS = 1000, /* the agent makes it as long as it has to be */
    FOLDERS_OPEN_MAX = 16,
    PATH_MAX_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) - 1
};

/*   IDLE --called--> RUNNING --ended--> IDLE
 *                       | not wanted any more
 *                       v
 *                    ENDING --ended--> IDLE      */
enum command_state { COMMAND_IDLE, COMMAND_RUNNING, COMMAND_ENDING };

static struct {
    enum command_state state;
    const char *text; /* NULL: it is a site's echkpnt, or a tool that saves from outside */
    const char *work_dir;
    struct rpc_server *server;
    struct rpc_call *call; /* RUNNING: whom its end is told */
    pid_t pid;             /* of the command's reaper; 0 in IDLE */
    pid_t application;
    pid_t group;                  /* its process group, when the command began */
    struct run_application saved; /* the leader of that group, as it was then */
    bool stops;                   /* the job ends with the checkpoint: it may be left stopped */
    uv_timer_t kill_timer;
    char endpoint[sizeof("unix:") + PATH_MAX_BYTES];
    char folder[PATH_MAX];     /* of the checkpoint */
    char label_file[PATH_MAX]; /* in the work folder */
} command = {.endpoint = ""};

static void assert_state(void)
{
    CHECK((command.state == COMMAND_RUNNING) == (command.call != NULL));
    CHECK((command.state == COMMAND_IDLE) == (command.pid == 0));
}

/* ---- its text ---- */

/* {dir} and {pid} are replaced, each as often as it is there. */
static char *text_expand(const char *from, const char *folder, pid_t pid)
{
    char number[16], word[4 * PATH_MAX + 3], *result;
    size_t length = request_quote(folder, word, sizeof(word));
    struct buf text;

    CHECK(length > 0);
    snprintf(number, sizeof(number), "%d", (int)pid);
    buf_init(&text);
    while (*from != '\0') {
        if (strncmp(from, "{dir}", 5) == 0) {
            buf_append(&text, word, length);
            from += 5;
        } else if (strncmp(from, "{pid}", 5) == 0 && pid > 0) {
            buf_append(&text, number, strlen(number));
            from += 5;
        } else {
            buf_append(&text, from++, 1);
        }
    }
    buf_append(&text, "", 1);
    result = check_strdup((const char *)text.bytes);
    buf_close(&text);
    return result;
}

char *const *run_command_line(const struct run_options *options, const char *restore_dir,
                              struct err *err)
{
    static char *line[4];
    static char shell[] = "/bin/sh", option[] = "-c";

    free(line[2]);
    line[2] = NULL;
    if (run_transparent_is_on()) {
        char *const *front = run_transparent_line(options, restore_dir, err);
        return front == NULL ? options->command : front;
    }
    if (options->echkpnt != NULL && restore_dir[0] != '\0')
        return run_erestart_command(options, command.work_dir, restore_dir);
    if (options->checkpoint_cmd != NULL && options->restart_cmd == NULL && restore_dir[0] != '\0')
        run_say("there is no --restart-cmd: the command is started as it is, and what it does not "
                "read from $CKPT_RESTORE_DIR itself is lost");
    if (options->restart_cmd == NULL || restore_dir[0] == '\0')
        return options->command;
    line[0] = shell;
    line[1] = option;
    line[2] = text_expand(options->restart_cmd, restore_dir, 0);
    line[3] = NULL;
    return line;
}

/* ---- its answer ---- */

static uint64_t folder_bytes;

static int add_bytes(const char *path, const struct stat *stat_of, int kind, struct FTW *at)
{
    (void)path, (void)at;
    if (kind == FTW_F)
        folder_bytes += (uint64_t)stat_of->st_size;
    return 0;
}

/* "": it has left none. A line that is no label is told as it is, and refused there. */
static void read_label(char ret_label[LABEL_MAX_BYTES + 2])
{
    int fd = open(command.label_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? 0 : read(fd, ret_label, LABEL_MAX_BYTES + 1);

    if (fd >= 0)
        close(fd);
    ret_label[got < 0 ? 0 : got] = '\0';
    ret_label[strcspn(ret_label, "\n")] = '\0';
    if (ret_label[0] == '\0')
        snprintf(ret_label, LABEL_MAX_BYTES + 2, "%s", run_echkpnt_label());
}

static void answer_send(struct rpc_call *call, const Ckpt__V1__AppCheckpointUpdate *update)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__app_checkpoint_update__pack(
        update, buf_extend(&bytes, ckpt__v1__app_checkpoint_update__get_packed_size(update)));
    rpc_call_send(call, bytes.bytes, bytes.length);
    rpc_call_finish(call, RPC_OK, NULL);
    buf_close(&bytes);
}

static void answer_failed(int wait_status)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    char text[SENTINEL_STATUS_MAX_BYTES + 1];

    if (run_echkpnt_is_on())
        (void)run_echkpnt_failure(wait_status, text, sizeof(text));
    else if (run_transparent_is_on())
        run_transparent_why(text, sizeof(text));
    else if (WIFSIGNALED(wait_status))
        snprintf(text, sizeof(text), "the checkpoint command was ended by signal %d (%s)",
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(text, sizeof(text), "the checkpoint command ended with status %d",
                 WEXITSTATUS(wait_status));
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
    update.failed = text;
    answer_send(command.call, &update);
}

static void answer_done(void)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    char label[LABEL_MAX_BYTES + 2];

    folder_bytes = 0;
    (void)nftw(command.folder, add_bytes, FOLDERS_OPEN_MAX, FTW_PHYS);
    read_label(label);
    update.label = label;
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    update.done_bytes = folder_bytes;
    answer_send(command.call, &update);
}

bool run_command_reaped(pid_t pid, int wait_status)
{
    if (command.state == COMMAND_IDLE || pid != command.pid)
        return false;
    if (WIFSTOPPED(wait_status) || WIFCONTINUED(wait_status))
        return true;
    if (command.state == COMMAND_RUNNING && wait_status == 0)
        answer_done();
    else if (command.state == COMMAND_RUNNING)
        answer_failed(wait_status);
    /* A command may stop the application while it copies, and has to let it go on again but for a
     * checkpoint that ends the job. */
    if (command.state == COMMAND_ENDING || wait_status != 0 || !command.stops)
        run_application_goes_on(&command.saved);
    uv_timer_stop(&command.kill_timer);
    command.state = COMMAND_IDLE;
    command.call = NULL;
    command.pid = 0;
    (void)unlink(command.label_file);
    assert_state();
    return true;
}

/* ---- its life ---- */

static void set_number(const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    setenv(name, text, 1);
}

struct command_words {
    const Ckpt__V1__AppCheckpointRequest *request;
    const char *text; /* NULL: it is a site's echkpnt */
};

/* In its process. */
static void become_command(void *data)
{
    const struct command_words *words = data;
    const Ckpt__V1__AppCheckpointRequest *request = words->request;
    char id[CHECKPOINT_ID_TEXT_BYTES], hint[CHECKPOINT_ID_TEXT_BYTES + 16];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(hint, sizeof(hint), "%s-%" PRIu32, checkpoint_id_format(request->checkpoint_id, id),
             request->attempt);
    setenv("CKPT_HINT", hint, 1);
    setenv("CKPT_CHECKPOINT_DIR", command.folder, 1);
    setenv("CKPT_LABEL_FILE", command.label_file, 1);
    set_number("CKPT_PID", (uint64_t)command.application);
    set_number("CKPT_DEADLINE_MS", request->deadline_ms);
    if (words->text == NULL)
        (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    if (words->text == NULL)
        run_echkpnt_become(&(struct echkpnt_call){.folder = command.folder,
                                                  .application = command.application,
                                                  .group = command.group,
                                                  .stops = request->stops});
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* the application's output stays its own */
    (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO); /* ... and its input */
    execl("/bin/sh", "sh", "-c", words->text, (char *)NULL);
}

static pid_t start_save(const Ckpt__V1__AppCheckpointRequest *request)
{
    const struct run_transparent_save save = {.folder = command.folder,
                                              .application = command.application,
                                              .stops = request->stops,
                                              .deadline_ms = request->deadline_ms};

    (void)unlink(command.label_file);
    command.saved = run_application_look(command.group);
    return run_transparent_save(&save);
}

/* A handler of this program that ran in the child would tell the loop of both. */
static pid_t start_command(const Ckpt__V1__AppCheckpointRequest *request)
{
    char *text = command.text == NULL
                     ? NULL
                     : text_expand(command.text, command.folder, command.application);
    struct command_words words = {request, text};
    const pid_t own = getpid();
    sigset_t all, before;
    pid_t pid;

    (void)unlink(command.label_file);
    command.saved = run_application_look(command.group);
    fflush(NULL);
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    pid = fork();
    if (pid == 0)
        run_reaper(own, &command.saved, become_command, &words);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    free(text);
    return pid;
}

static void kill_command(uv_timer_t *timer)
{
    (void)timer;
    CHECK(command.state == COMMAND_ENDING);
    kill(command.pid, RUN_REAPER_END);
}

/* The agent removes what it has written. */
static void on_cancel(struct rpc_call *call, void *data)
{
    (void)data;
    if (command.state != COMMAND_RUNNING || call != command.call)
        return;
    command.call = NULL;
    command.state = COMMAND_ENDING;
    kill(command.pid, RUN_REAPER_TELL);
    if (!run_transparent_is_on()) /* a tool that is killed may take the application along */
        uv_timer_start(&command.kill_timer, kill_command, KILL_AFTER_MS, 0);
    assert_state();
}

/* erestart has not started it yet. */
static void put_off(struct rpc_call *call, const Ckpt__V1__AppCheckpointRequest *request)
{
    static char text[] = "erestart has not started the application again yet";
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    if (request->max_deferral_ms >= DEFER_MS) {
        update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DEFER_MS;
        update.defer_ms = DEFER_MS;
    } else {
        update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
        update.failed = text;
    }
    answer_send(call, &update);
}

/* One that is being ended has KILL_AFTER_MS for it. */
static void refuse_busy(struct rpc_call *call)
{
    char text[160], left[WORDS_BYTES];

    if (command.state == COMMAND_RUNNING)
        snprintf(text, sizeof(text), "the checkpoint command of before still runs, as pid %d",
                 (int)command.pid);
    else if (run_transparent_is_on())
        snprintf(text, sizeof(text),
                 "a checkpoint that was not wanted any more is still being given up, by pid %d; "
                 "then the next one can be taken",
                 (int)command.pid);
    else
        snprintf(text, sizeof(text),
                 "the checkpoint command of before ignores SIGTERM, and is killed in %s; then the "
                 "next one can run",
                 words_duration(uv_timer_get_due_in(&command.kill_timer), left));
    rpc_call_finish(call, RPC_UNAVAILABLE, text);
}

static void take_request(struct rpc_call *call, const Ckpt__V1__AppCheckpointRequest *request)
{
    pid_t pid;

    if (command.state != COMMAND_IDLE) {
        refuse_busy(call);
        return;
    }
    if (command.application == 0) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the application does not run");
        return;
    }
    if (command.text == NULL && !run_echkpnt_is_on() && !run_transparent_is_on()) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the application was not started for a tool");
        return;
    }
    if (request->directory[0] != '/' || strlen(request->directory) >= sizeof(command.folder)) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "its directory is no absolute path");
        return;
    }
    command.group = command.application;
    command.stops = request->stops;
    if (run_echkpnt_is_on() && !run_echkpnt_group(command.application, &command.group)) {
        put_off(call, request);
        return;
    }
    snprintf(command.folder, sizeof(command.folder), "%s", request->directory);
    pid = run_transparent_is_on() ? start_save(request) : start_command(request);
    if (pid < 0) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the checkpoint command cannot be started now");
        return;
    }
    command.pid = pid;
    command.call = call;
    command.state = COMMAND_RUNNING;
    assert_state();
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__AppCheckpointRequest *request =
        ckpt__v1__app_checkpoint_request__unpack(NULL, length, bytes);

    (void)data;
    if (request == NULL) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "it is no ckpt.v1.AppCheckpointRequest");
        return;
    }
    take_request(call, request);
    ckpt__v1__app_checkpoint_request__free_unpacked(request, NULL);
}

/* The agent, which is root or the job's user. */
static bool peer_allowed(void *data, const struct rpc_peer *peer, const char *path, char *text,
                         size_t size)
{
    (void)data, (void)path;
    if (peer->local && (peer->uid == 0 || peer->uid == getuid()))
        return true;
    snprintf(text, size, "only the node's agent asks here");
    return false;
}

static int socket_listen(struct err *err)
{
    const mode_t mask = umask(0077);
    int result = rpc_server_listen(command.server, command.endpoint, err);

    (void)umask(mask);
    if (result != 0 && err->code == ERR_LOCKED)
        return err_set(err, ERR_LOCKED,
                       "another ckpt-run of this job is in the work folder: end it first, or the "
                       "job (ckpt-run end ID)");
    return result;
}

/* Its own program may read the variable, and nothing here can know that. text NULL: it is LSF's,
 * which gets the folder as an argument. */
static void warn_of_folder(const char *text)
{
    if (text != NULL && strstr(text, "{dir}") == NULL &&
        strstr(text, "CKPT_CHECKPOINT_DIR") == NULL)
        run_say("--checkpoint-cmd names neither {dir} nor $CKPT_CHECKPOINT_DIR, the folder for the "
                "files: unless its program reads that variable, its checkpoints hold nothing");
}

int run_command_open(uv_loop_t *loop, const struct run_options *options, const char *work_dir,
                     struct err *err)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};
    const struct rpc_server_config config = {.connections_max = 8, .allowed = peer_allowed};
    const size_t length = strlen(work_dir) + strlen("/" SOCKET_NAME);
    const bool wanted = options->checkpoint_cmd != NULL || options->echkpnt != NULL ||
                        run_transparent_wanted(options);

    if (run_transparent_open(options, work_dir, err) != 0)
        return -1;
    if (!wanted && run_transparent_at_hand()[0] == '\0')
        return 0;
    if (!wanted && length > PATH_MAX_BYTES) {
        run_transparent_drop();
        return 0;
    }
    if (length > PATH_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "the work folder's path has %zu bytes; with --checkpoint-cmd, -k or a tool "
                       "at most %zu, so "
                       "that a socket in it can be named: choose a shorter --work-dir",
                       strlen(work_dir), PATH_MAX_BYTES - strlen("/" SOCKET_NAME));
    if (run_echkpnt_open(options, work_dir, err) != 0)
        return -1;
    warn_of_folder(options->checkpoint_cmd);
    command.text = options->checkpoint_cmd;
    command.work_dir = work_dir;
    snprintf(command.label_file, sizeof(command.label_file), "%s/" LABEL_NAME, work_dir);
    snprintf(command.endpoint, sizeof(command.endpoint), "unix:%s/" SOCKET_NAME, work_dir);
    CHECK(uv_timer_init(loop, &command.kill_timer) == 0);
    command.server = rpc_server_new(loop, &config);
    rpc_server_add_method(command.server, CHECKPOINT_METHOD, false, true, &handlers, NULL);
    return socket_listen(err);
}

const char *run_command_endpoint(void)
{
    return command.endpoint;
}

void run_command_of(pid_t pid)
{
    struct err err = {0};

    command.application = pid;
    if (pid > 0)
        run_transparent_resume(pid);
    if (command.server != NULL && pid > 0 &&
        access(command.endpoint + strlen("unix:"), F_OK) != 0 &&
        socket_listen(&err) != 0) /* its folder was removed, and has been made again */
        run_say("no checkpoint can be taken by the command for it: %s", err.text);
}

void run_command_close(void)
{
    if (command.pid > 0)
        kill(command.pid, RUN_REAPER_END);
    if (command.endpoint[0] != '\0')
        (void)unlink(command.endpoint + strlen("unix:"));
}
