/* Saving a program by criu, which writes the memory and the kernel's state of a tree of processes.
 *
 *   save     criu stops the processes, writes the image, and asks (post-dump): the record is
 *            written, and the answer is yes. Without this answer nothing was a checkpoint, and they
 *            go on.
 *   restore  the files get the lengths of the record, the numbers of the processes must be free;
 *            criu makes the processes again, the main one as a child of the front.
 *
 * Source   S3-004; criu's manual.
 * Absent   TCP connections, and sockets to processes outside: criu refuses them, with its reason.
 *          Dumps of the changes alone (pre-dump). Files that the program has rewritten in place or
 *          closed since are as they are now.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/transparent/criu_call.h"
#include "src/agent/transparent/process_tree.h"
#include "src/agent/transparent/program.h"
#include "src/agent/transparent/record.h"
#include "src/agent/transparent/tool.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum {
    PIDS_WAIT_MS = 10000, /* a process of before may have ended just now */
    CHECK_LIMIT_MS = 5000,
    CHECK_OUTPUT_BYTES = 4096,
    REASON_BYTES = 160
};

/* ---- does it work here ---- */

static int ask_version(uint32_t *ret_version, struct err *err)
{
    const struct criu_request request = {
        .kind = CRIU__KIND__KIND_VERSION, .images_fd = -1, .work_fd = -1};
    struct criu_answer answer;

    if (criu_call(&request, &answer, err) != 0)
        return -1;
    *ret_version = answer.version;
    return 0;
}

static int criu_check(char ret_version[TOOL_VERSION_BYTES], struct err *err)
{
    char path[PATH_MAX], output[CHECK_OUTPUT_BYTES], reason[REASON_BYTES];
    const char *line[] = {path, "check", geteuid() != 0 ? "--unprivileged" : NULL, NULL};
    const char *version_line[] = {path, "--version", NULL};
    int wait_status = 0;

    ret_version[0] = '\0';
    if (criu_find(path, sizeof(path), err) != 0 ||
        program_run(version_line, CHECK_LIMIT_MS, output, sizeof(output), &wait_status, err) != 0)
        return -1;
    program_version(output, ret_version, TOOL_VERSION_BYTES);
    if (program_run(line, CHECK_LIMIT_MS, output, sizeof(output), &wait_status, err) != 0)
        return -1;
    if (wait_status == 0)
        return 0;
    criu_reason(output, reason, sizeof(reason));
    if (reason[0] == '\0') /* of the log its first line is left */
        (void)text_shown(output[0] == '\0' ? "it does not say why" : output, reason,
                         sizeof(reason));
    if (geteuid() == 0)
        return err_set(err, ERR_REFUSED,
                       "criu %s does not work here: %s; install a release that knows this kernel",
                       ret_version, reason);
    return err_set(err, ERR_REFUSED,
                   "criu %s does not work here: %s; as root: setcap "
                   "cap_checkpoint_restore,cap_sys_ptrace,cap_setpcap+ep %.100s, or install a "
                   "release that knows this kernel",
                   ret_version, reason, path);
}

/* ---- save ---- */

struct commit {
    const struct tool_save *save;
    pid_t root;
    uint32_t version;
    int folder;
    bool recorded;
};

static int commit_step(void *data, const char *name, struct err *err)
{
    struct commit *commit = data;
    struct record record;
    int result;

    if (commit->save->unwanted())
        return err_set(err, ERR_REFUSED, "the checkpoint is not wanted any more");
    if (strcmp(name, "post-dump") != 0)
        return 0;
    if (record_take(commit->save->front, commit->root, commit->version, &record, err) != 0)
        return -1;
    result = record_write(&record, commit->folder, err);
    record_free(&record);
    commit->recorded = result == 0;
    return result;
}

static int dump_tree(struct commit *commit, int work_fd, struct err *err)
{
    const struct criu_request request = {.kind = CRIU__KIND__KIND_DUMP,
                                         .images_fd = commit->folder,
                                         .work_fd = work_fd,
                                         .pid = commit->root,
                                         .stops = commit->save->stops,
                                         .step = commit_step,
                                         .data = commit};
    struct criu_answer answer;

    (void)unlinkat(work_fd, CRIU_LOG_NAME, 0);
    if (criu_call(&request, &answer, err) != 0)
        return -1;
    if (!commit->recorded)
        return err_set(err, ERR_CORRUPT, "criu did not ask before it let the application go on");
    return 0;
}

static int criu_save(const struct tool_save *save, struct err *err)
{
    struct commit commit = {.save = save};
    int work_fd, result;

    if (process_program(save->front, &commit.root, err) != 0 ||
        ask_version(&commit.version, err) != 0)
        return -1;
    commit.folder = open(save->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    work_fd = open(save->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (commit.folder < 0 || work_fd < 0)
        result =
            err_set(err, ERR_IO, "the folder for its files cannot be opened: %s", strerror(errno));
    else
        result = dump_tree(&commit, work_fd, err);
    if (commit.folder >= 0)
        close(commit.folder);
    if (work_fd >= 0)
        close(work_fd);
    return result;
}

/* ---- restore ---- */

static int restore_from(const struct record *record, int folder, int work_fd, pid_t *ret_pid,
                        struct err *err)
{
    struct criu_inherited inherited[RECORD_STREAMS];
    const struct criu_request request = {.kind = CRIU__KIND__KIND_RESTORE,
                                         .images_fd = folder,
                                         .work_fd = work_fd,
                                         .inherited = inherited,
                                         .inherited_count = record_inherit(record, inherited)};
    struct criu_answer answer;
    struct err none = {0};
    uint32_t version = 0;

    (void)ask_version(&version, &none); /* 0: what that means is said below */
    if (record_prepare(record, PIDS_WAIT_MS, err) != 0)
        return -1;
    (void)unlinkat(work_fd, CRIU_LOG_NAME, 0);
    if (criu_call(&request, &answer, err) != 0)
        return record_wrap(record, version, err);
    *ret_pid = answer.pid;
    return 0;
}

static int criu_restore(const struct tool_start *start, pid_t *ret_pid, struct err *err)
{
    int folder = open(start->restore_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int work_fd = open(start->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct record record;
    int result;

    CHECK(start->restore_dir[0] == '/');
    if (folder < 0 || work_fd < 0)
        result = err_set(err, ERR_IO, "its folders cannot be opened: %s", strerror(errno));
    else
        result = record_read(folder, &record, err);
    if (result == 0) {
        result = restore_from(&record, folder, work_fd, ret_pid, err);
        record_free(&record);
    }
    if (folder >= 0)
        close(folder);
    if (work_fd >= 0)
        close(work_fd);
    return result;
}

static void criu_become(const struct tool_start *start)
{
    CHECK(start->restore_dir[0] == '\0');
    execvp(start->command[0], start->command);
}

static bool criu_left(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%.4000s/" RECORD_NAME, folder);
    return access(path, F_OK) == 0;
}

const struct tool tool_criu = {.name = "criu",
                               .check = criu_check,
                               .become = criu_become,
                               .restore = criu_restore,
                               .save = criu_save,
                               .left = criu_left,
                               .marks = true};
