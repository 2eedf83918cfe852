/* The output of echkpnt and erestart. See run_lsf_output.h. */
#include "src/agent/run/run_lsf_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum {
    KEPT_MODE = 0600,
    TAIL_BYTES = 2048,
    SHOWN_BYTES = 120,
    KEPT_BYTES = PATH_MAX + 320 /* a path that is too long is refused by the kernel */
};

static void name_kept(const struct lsf_call *call, const char *suffix, char ret_path[KEPT_BYTES])
{
    snprintf(ret_path, KEPT_BYTES, "%s/%.255s/%s.%s", call->settings->folder,
             lsf_job(call->allocation_id), call->program == LSF_ECHKPNT ? "echkpnt" : "erestart",
             suffix);
}

static void name_last(const struct lsf_call *call, char ret_path[KEPT_BYTES])
{
    snprintf(ret_path, KEPT_BYTES, "%s/ckpt-run.%s.err", call->work_dir,
             call->program == LSF_ECHKPNT ? "echkpnt" : "erestart");
}

/* Each folder of the path. */
static int make_folders(char path[KEPT_BYTES])
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return -1;
        *at = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

int lsf_output_prepare(const struct lsf_settings *settings, const char *allocation_id,
                       struct err *err)
{
    char path[KEPT_BYTES];

    if (!settings->keep_output)
        return 0;
    if (snprintf(path, sizeof(path), "%s/%.255s", settings->folder, lsf_job(allocation_id)) >=
        (int)sizeof(path))
        return err_set(err, ERR_INVALID, "the path of -k's folder is too long with the job's id");
    if (make_folders(path) == 0 && access(path, W_OK | X_OK) == 0)
        return 0;
    return err_set(err, ERR_IO,
                   "LSB_ECHKPNT_KEEP_OUTPUT keeps the output in %.256s, and that cannot be written "
                   "to: %s; name another folder with -k",
                   path, strerror(errno));
}

/* A name in DIR, and no way out of it. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

void lsf_output_follow(const struct lsf_settings *settings, const char *allocation_id,
                       const char *before)
{
    const char *job = lsf_job(allocation_id);
    char from[KEPT_BYTES], to[KEPT_BYTES];
    struct stat stat_of;

    if (!settings->keep_output || !is_plain_name(before) || strcmp(before, job) == 0)
        return;
    snprintf(from, sizeof(from), "%s/%.255s", settings->folder, before);
    snprintf(to, sizeof(to), "%s/%.255s", settings->folder, job);
    if (lstat(from, &stat_of) != 0 || !S_ISDIR(stat_of.st_mode))
        return;
    (void)rmdir(to);
    if (rename(from, to) != 0)
        (void)mkdir(to, 0700);
    else if (symlink(job, from) != 0)
        run_say("%s is %s now, and cannot be found by its former name: %s", from, to,
                strerror(errno));
}

static int turn_stream(const char *path, int flags, int stream)
{
    int fd = open(path, O_WRONLY | O_NOCTTY | flags, KEPT_MODE);

    if (fd < 0 || dup2(fd, stream) < 0)
        return -1;
    if (fd != stream)
        close(fd);
    return 0;
}

int lsf_output_open(const struct lsf_call *call)
{
    char path[KEPT_BYTES];

    CHECK(call->work_dir[0] == '/');
    if (!call->settings->keep_output) {
        name_last(call, path);
        return turn_stream("/dev/null", 0, STDOUT_FILENO) != 0
                   ? -1
                   : turn_stream(path, O_CREAT | O_TRUNC | O_NOFOLLOW, STDERR_FILENO);
    }
    name_kept(call, "out", path);
    if (turn_stream(path, O_CREAT | O_APPEND, STDOUT_FILENO) != 0)
        return -1;
    name_kept(call, "err", path);
    return turn_stream(path, O_CREAT | O_APPEND, STDERR_FILENO);
}

const char *lsf_last_line(char *text, char *ret_line, size_t size)
{
    size_t length = strlen(text);

    CHECK(size >= 4);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    while (length > 0 && text[length - 1] != '\n')
        length--;
    return text_shown(text + length, ret_line, size);
}

/* The end of a file; "": there is none. */
static void read_tail(const char *path, char ret_text[TAIL_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat stat_of;
    ssize_t got = -1;

    if (fd >= 0 && fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode))
        got = pread(fd, ret_text, TAIL_BYTES - 1,
                    stat_of.st_size < TAIL_BYTES ? 0 : stat_of.st_size - TAIL_BYTES + 1);
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < got; i++)
        if (ret_text[i] == '\0')
            ret_text[i] = '?';
    ret_text[got < 0 ? 0 : got] = '\0';
}

const char *lsf_failure_text(const struct lsf_call *call, int wait_status, char *text, size_t size)
{
    char name[LSF_NAME_BYTES], path[KEPT_BYTES], tail[TAIL_BYTES], line[SHOWN_BYTES] = "";
    char how[64];

    CHECK(wait_status != 0);
    if (WIFSIGNALED(wait_status))
        snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(wait_status));
    else
        snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(wait_status));
    lsf_program_name(call->settings, call->program, name);
    if (call->settings->keep_output) {
        name_kept(call, "err", path);
        snprintf(text, size, "%s %s: see %s", name, how, path);
        return text;
    }
    name_last(call, path);
    read_tail(path, tail);
    lsf_last_line(tail, line, sizeof(line));
    snprintf(text, size, "%s %s%s%s", name, how, line[0] == '\0' ? "" : ": ", line);
    return text;
}
