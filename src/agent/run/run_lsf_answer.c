/* The texts that LSF's programs and their caller leave for each other. See run_lsf_answer.h. */
#include "src/agent/run/run_lsf_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/ask/sentinel.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/text.h"

#define RECORD_NAME  ".echkpnt"
#define COMMAND_NAME ".restart_cmd"
#define COMMAND_MARK "LSB_RESTART_CMD="
#define GROUP_NAME   "ckpt-run.group"
#define PID_MARK     "pid="
#define GROUP_MARK   "pgid="

enum { RECORD_MAX_BYTES = 65536, PID_MAX = 1 << 22, GROUP_TEXT_BYTES = 64 };

/* ---- pid= and pgid= ---- */

/* "pgid=" has "pid" in it, but not "pid=". 0: no such number. */
static pid_t read_number(const char *text, const char *mark)
{
    const char *at = strstr(text, mark);
    char *end;
    long number;

    if (at == NULL || at[strlen(mark)] < '1' || at[strlen(mark)] > '9')
        return 0;
    errno = 0;
    number = strtol(at + strlen(mark), &end, 10);
    if (errno != 0 || number <= 1 || number > PID_MAX || strchr(" \t\r\n", *end) == NULL)
        return 0; /* the end of the text is found there too */
    return (pid_t)number;
}

/* A number at the very end may have more digits to come. */
enum lsf_answer lsf_answer_read(const char *text, bool last, pid_t *ret_pid, pid_t *ret_group)
{
    const pid_t pid = read_number(text, PID_MARK), group = read_number(text, GROUP_MARK);
    const size_t length = strlen(text);

    if (pid > 0 && group > 0 && (last || strchr(" \t\r\n", text[length - 1]) != NULL)) {
        *ret_pid = pid;
        *ret_group = group;
        return LSF_ANSWER_CHANGED;
    }
    if (!last)
        return length < LSF_ANSWER_MAX_BYTES - 1 ? LSF_ANSWER_NONE : LSF_ANSWER_FAILED;
    return text[strspn(text, " \t\r\n")] == '\0' ? LSF_ANSWER_UNCHANGED : LSF_ANSWER_FAILED;
}

static bool read_file(const char *folder, const char *name, char *ret_text, size_t size)
{
    char path[PATH_MAX + 32];
    struct stat stat_of;
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    if (fstat(fd, &stat_of) != 0 || !S_ISREG(stat_of.st_mode))
        errno = EINVAL;
    else if (stat_of.st_size >= (off_t)size)
        errno = EFBIG;
    else
        got = read(fd, ret_text, size - 1);
    close(fd);
    if (got < 0)
        return false;
    ret_text[got] = '\0';
    errno = strlen(ret_text) == (size_t)got ? 0 : EINVAL;
    return errno == 0;
}

/* By rename, so that a reader finds all of it. errno. */
static int write_file(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX + 32], new_path[PATH_MAX + 40];
    size_t length = strlen(text);
    bool written;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    written = write(fd, text, length) == (ssize_t)length;
    if (close(fd) != 0 || !written || rename(new_path, path) != 0)
        return errno != 0 ? errno : EIO;
    return 0;
}

void lsf_group_write(const char *work_dir, pid_t pid, pid_t group)
{
    char text[GROUP_TEXT_BYTES];

    CHECK(pid > 1);
    CHECK(group > 1);
    snprintf(text, sizeof(text), PID_MARK "%d " GROUP_MARK "%d\n", (int)pid, (int)group);
    (void)write_file(work_dir, GROUP_NAME, text);
}

bool lsf_group_read(const char *work_dir, pid_t *ret_group)
{
    char text[GROUP_TEXT_BYTES];
    pid_t pid, group;

    if (!read_file(work_dir, GROUP_NAME, text, sizeof(text)) ||
        lsf_answer_read(text, true, &pid, &group) != LSF_ANSWER_CHANGED || kill(-group, 0) != 0)
        return false;
    *ret_group = group;
    return true;
}

void lsf_group_drop(const char *work_dir)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof(path), "%s/" GROUP_NAME, work_dir);
    (void)unlink(path);
}

/* ---- .echkpnt ---- */

int lsf_record_write(const char *folder, const struct lsf_record *record)
{
    char text[PATH_MAX + 1024];
    int length = snprintf(text, sizeof(text),
                          "LSB_ECHKPNT_METHOD=%s\nLSB_ECHKPNT_METHOD_DIR=%s\nLSB_OLD_JOBID=%s\n"
                          "LSB_RESTART_PID=%d\nLSB_RESTART_PGID=%d\n",
                          record->method, record->method_dir, record->job, (int)record->pid,
                          (int)record->group);

    CHECK(length > 0 && (size_t)length < sizeof(text));
    return write_file(folder, RECORD_NAME, text);
}

static pid_t record_number(const char *text, const char *name)
{
    const struct number_range range = {.min = 2, .max = PID_MAX};
    char digits[24];
    uint64_t number = 0;

    if (!lsf_conf_value(text, name, digits, sizeof(digits)) ||
        number_parse(NUMBER_PLAIN, digits, range, &number, NULL) != 0)
        return 0;
    return (pid_t)number;
}

int lsf_record_read(const char *folder, struct lsf_record *ret_record, struct err *err)
{
    struct lsf_record record = {.pid = 0};
    char *text = check_calloc(1, RECORD_MAX_BYTES);
    const bool read = read_file(folder, RECORD_NAME, text, RECORD_MAX_BYTES);
    const int failure = errno;

    if (read) {
        (void)lsf_conf_value(text, "LSB_ECHKPNT_METHOD", record.method, sizeof(record.method));
        (void)lsf_conf_value(text, "LSB_ECHKPNT_METHOD_DIR", record.method_dir,
                             sizeof(record.method_dir));
        (void)lsf_conf_value(text, "LSB_OLD_JOBID", record.job, sizeof(record.job));
        record.pid = record_number(text, "LSB_RESTART_PID");
        record.group = record_number(text, "LSB_RESTART_PGID");
    }
    free(text);
    if (!read && failure == ENOENT)
        return err_set(err, ERR_EMPTY, "%.256s has no " RECORD_NAME, folder);
    if (!read)
        return err_set(err, ERR_CORRUPT, "%.256s/" RECORD_NAME " cannot be read: %s", folder,
                       strerror(failure));
    if ((record.method[0] != '\0' && !lsf_method_valid(record.method)) ||
        (record.method_dir[0] != '\0' && record.method_dir[0] != '/'))
        return err_set(err, ERR_CORRUPT,
                       "%.256s/" RECORD_NAME " names the method \"%.64s\" in \"%.64s\", which is "
                       "none: remove the file to start by the method of this line",
                       folder, record.method, record.method_dir);
    *ret_record = record;
    return 0;
}

/* ---- .restart_cmd ---- */

int lsf_command_read(const char *folder, char ret_command[LSF_COMMAND_BYTES], struct err *err)
{
    char text[LSF_COMMAND_BYTES];
    const char *command;
    size_t length;

    if (!read_file(folder, COMMAND_NAME, text, sizeof(text))) {
        if (errno == ENOENT)
            return err_set(err, ERR_EMPTY, "%.256s has no " COMMAND_NAME, folder);
        return err_set(err, ERR_CORRUPT, "%.256s/" COMMAND_NAME " cannot be read: %s", folder,
                       strerror(errno));
    }
    command = text + strspn(text, " \t");
    if (strncmp(command, COMMAND_MARK, strlen(COMMAND_MARK)) != 0)
        return err_set(err, ERR_CORRUPT,
                       "%.256s/" COMMAND_NAME " begins with \"%.64s\", it must be " COMMAND_MARK
                       "COMMAND",
                       folder, command);
    command += strlen(COMMAND_MARK);
    command += strspn(command, " \t");
    length = strcspn(command, "\r\n");
    if (length == 0)
        return err_set(err, ERR_CORRUPT, "%.256s/" COMMAND_NAME " has no command", folder);
    memcpy(ret_command, command, length);
    ret_command[length] = '\0';
    return 0;
}

char *lsf_command_line(char *const *command)
{
    struct buf line;
    char *result;

    buf_init(&line);
    for (size_t i = 0; command[i] != NULL; i++) {
        const size_t size = 4 * strlen(command[i]) + 4;
        char *word = check_calloc(1, size);
        const size_t length = request_quote(command[i], word, size);
        CHECK(length > 0 || command[i][0] == '\0');
        if (i > 0)
            buf_append(&line, " ", 1);
        buf_append(&line, length > 0 ? word : "''", length > 0 ? length : 2);
        free(word);
    }
    buf_append(&line, "", 1);
    result = check_strdup((const char *)line.bytes);
    buf_close(&line);
    return result;
}
