/* The needs of an image when it is restored. See record.h. */
#include "src/agent/transparent/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

enum { RECORD_MAX_BYTES = 32 << 20, LOOK_MS = 50, SHOWN_BYTES = 200 };

static const char removed[] = " (deleted)";

static bool is_removed(const char *path)
{
    const size_t length = strlen(path), tail = sizeof(removed) - 1;

    return length > tail && strcmp(path + length - tail, removed) == 0;
}

/* ---- take ---- */

/* Output goes wherever that of the next ckpt-run goes. An input is read on where it was, so its
 * file is restored as any other one. */
static void take_stream(pid_t front, int number, char key[CRIU_KEY_BYTES])
{
    struct open_file file;

    key[0] = '\0';
    if (process_open_file(front, number, &file) != 0)
        return;
    if (strncmp(file.target, "pipe:[", 6) == 0)
        text_copy(key, CRIU_KEY_BYTES, file.target);
    else if (number != STDIN_FILENO && file.is_regular && file.target[0] == '/' &&
             !is_removed(file.target))
        text_copy(key, CRIU_KEY_BYTES, file.target + 1);
}

static bool is_stream(const struct record *record, const char *path)
{
    for (size_t i = 0; i < RECORD_STREAMS; i++)
        if (strcmp(record->streams[i], path + 1) == 0)
            return true;
    return false;
}

static bool is_known(const struct record *record, const char *path)
{
    for (size_t i = 0; i < record->file_count; i++)
        if (strcmp(record->files[i].path, path) == 0)
            return true;
    return false;
}

struct take {
    struct record *record;
    struct err *err;
};

static int take_file(void *data, const struct open_file *file)
{
    const struct take *take = data;
    struct record *record = take->record;
    char shown[SHOWN_BYTES];

    if (!file->is_regular || !file->is_written || file->target[0] != '/' ||
        is_removed(file->target) || is_stream(record, file->target) ||
        is_known(record, file->target))
        return 0;
    if (strchr(file->target, '\n') != NULL)
        return err_set(take->err, ERR_UNFIT,
                       "it writes a file with a line feed in its name, which cannot be recorded: "
                       "%s; give the file another name",
                       text_shown(file->target, shown, sizeof(shown)));
    if (record->file_count == RECORD_FILES_MAX)
        return err_set(take->err, ERR_FULL, "it writes more than %d files", RECORD_FILES_MAX);
    record->files = check_realloc(record->files, record->file_count + 1, sizeof(*record->files));
    record->files[record->file_count++] =
        (struct record_file){file->bytes, check_strdup(file->target)};
    return 0;
}

/* A release of a kernel that has no room is cut: it is for people. */
static void take_system(struct record *record)
{
    struct utsname system;

    CHECK(uname(&system) == 0);
    (void)text_copy(record->machine, sizeof(record->machine), system.machine);
    (void)text_copy(record->kernel, sizeof(record->kernel), system.release);
}

int record_take(pid_t front, pid_t root, uint32_t version, struct record *ret_record,
                struct err *err)
{
    struct record record = {.version = version};
    const struct take take = {&record, err};
    struct process_tree tree;
    int result = process_tree_look(root, &tree, err);

    if (result != 0)
        return -1;
    take_system(&record);
    for (int i = 0; i < RECORD_STREAMS; i++)
        take_stream(front, i, record.streams[i]);
    for (size_t i = 0; result == 0 && i < tree.count; i++)
        result = process_each_file(tree.pids[i], take_file, (void *)(uintptr_t)&take);
    record.pids = tree.pids;
    record.pid_count = tree.count;
    if (result != 0)
        record_free(&record);
    else
        *ret_record = record;
    return result;
}

void record_free(struct record *record)
{
    for (size_t i = 0; i < record->file_count; i++)
        free(record->files[i].path);
    free(record->files);
    free(record->pids);
    *record = (struct record){.version = 0};
}

/* ---- as text ---- */

int record_write(const struct record *record, int folder, struct err *err)
{
    int fd = openat(folder, RECORD_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct buf text;
    ssize_t wrote;
    int result = 0;

    CHECK(record->pid_count > 0);
    buf_init(&text);
    buf_printf(&text, "criu %" PRIu32 "\n", record->version);
    if (record->machine[0] != '\0')
        buf_printf(&text, "machine %s\nkernel %s\n", record->machine, record->kernel);
    for (size_t i = 0; i < record->pid_count; i++)
        buf_printf(&text, "pid %d\n", (int)record->pids[i]);
    for (int i = 0; i < RECORD_STREAMS; i++)
        if (record->streams[i][0] != '\0')
            buf_printf(&text, "stream %d %s\n", i, record->streams[i]);
    for (size_t i = 0; i < record->file_count; i++)
        buf_printf(&text, "file %" PRIu64 " %s\n", record->files[i].bytes, record->files[i].path);
    wrote = fd < 0 ? -1 : write(fd, text.bytes, text.length);
    if (wrote != (ssize_t)text.length)
        result = err_set(err, wrote < 0 && errno != ENOSPC && errno != EDQUOT ? ERR_IO : ERR_FULL,
                         "the record of the image cannot be written: %s",
                         wrote < 0 ? strerror(errno) : "there is no room");
    if (fd >= 0)
        close(fd);
    buf_close(&text);
    return result;
}

static bool take_number(const char **text, uint64_t *ret_value)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(*text, &end, 10);
    if (errno != 0 || (*end != '\0' && *end != ' '))
        return false;
    *text = *end == ' ' ? end + 1 : end;
    return true;
}

static bool take_line(const char *line, struct record *record)
{
    const char *rest = strchr(line, ' ');
    uint64_t number;

    if (strncmp(line, "machine ", 8) == 0)
        return text_copy(record->machine, sizeof(record->machine), line + 8) > 0;
    if (strncmp(line, "kernel ", 7) == 0)
        return text_copy(record->kernel, sizeof(record->kernel), line + 7) > 0;
    if (rest++ == NULL || !take_number(&rest, &number))
        return false;
    if (strncmp(line, "criu ", 5) == 0) {
        record->version = (uint32_t)number;
        return number > 0 && number <= UINT32_MAX;
    }
    if (strncmp(line, "pid ", 4) == 0) {
        if (number <= 1 || number > INT32_MAX || record->pid_count == PROCESS_TREE_MAX)
            return false;
        record->pids = check_realloc(record->pids, record->pid_count + 1, sizeof(*record->pids));
        record->pids[record->pid_count++] = (pid_t)number;
        return true;
    }
    if (strncmp(line, "stream ", 7) == 0)
        return number < RECORD_STREAMS &&
               text_copy(record->streams[number], CRIU_KEY_BYTES, rest) > 0;
    if (strncmp(line, "file ", 5) != 0 || rest[0] != '/' || record->file_count == RECORD_FILES_MAX)
        return false;
    record->files = check_realloc(record->files, record->file_count + 1, sizeof(*record->files));
    record->files[record->file_count++] = (struct record_file){number, check_strdup(rest)};
    return true;
}

static char *read_text(int folder)
{
    int fd = openat(folder, RECORD_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat stat_of;
    char *text = NULL;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode) && stat_of.st_size > 0 &&
        stat_of.st_size <= RECORD_MAX_BYTES) {
        text = check_calloc(1, (size_t)stat_of.st_size + 1);
        if (read(fd, text, (size_t)stat_of.st_size) != stat_of.st_size) {
            free(text);
            text = NULL;
        }
    }
    close(fd);
    return text;
}

int record_read(int folder, struct record *ret_record, struct err *err)
{
    struct record record = {.version = 0};
    char *text = read_text(folder), *rest = text, *line;
    bool good = text != NULL;

    while (good && (line = strsep(&rest, "\n")) != NULL)
        good = line[0] == '\0' || take_line(line, &record);
    free(text);
    if (good && record.pid_count > 0 && record.version > 0) {
        *ret_record = record;
        return 0;
    }
    record_free(&record);
    return err_set(err, ERR_CORRUPT,
                   "the checkpoint holds no whole " RECORD_NAME
                   ": it is none that criu has taken for this job");
}

/* ---- before a restore ---- */

static int await_pid(pid_t pid, uint64_t *left_ms, struct err *err)
{
    struct proc_stat stat;

    while (proc_read_stat(pid, &stat) == 0) {
        if (*left_ms < LOOK_MS)
            return err_set(err, ERR_BUSY,
                           "its process was number %d, and here that is %s%s: end that one, or "
                           "restart the job on another node",
                           (int)pid, stat.name,
                           stat.state == 'Z' ? ", which has ended and is not waited for" : "");
        (void)poll(NULL, 0, LOOK_MS);
        *left_ms -= LOOK_MS;
    }
    return 0;
}

static int give_length(const struct record_file *file, struct err *err)
{
    int fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char shown[SHOWN_BYTES];
    struct stat stat_of;
    int result = 0;

    text_shown(file->path, shown, sizeof(shown));
    if (fd < 0)
        return err_set(err, ERR_UNFIT,
                       "it was writing %s, which cannot be opened here: %s; bring the file back",
                       shown, strerror(errno));
    if (fstat(fd, &stat_of) != 0 || !S_ISREG(stat_of.st_mode))
        result = err_set(err, ERR_UNFIT, "it was writing %s, which is no regular file here", shown);
    else if ((uint64_t)stat_of.st_size < file->bytes)
        result = err_set(err, ERR_UNFIT,
                         "it had written %" PRIu64 " bytes of %s, which has %" PRIu64
                         " now: bring the file back",
                         file->bytes, shown, (uint64_t)stat_of.st_size);
    else if ((uint64_t)stat_of.st_size > file->bytes && ftruncate(fd, (off_t)file->bytes) != 0)
        result = err_set(err, ERR_IO, "%s cannot be cut to the %" PRIu64 " bytes that it had: %s",
                         shown, file->bytes, strerror(errno));
    close(fd);
    return result;
}

/* Of another machine nothing is tried: the files would be cut for nothing. */
static int check_machine(const struct record *record, struct err *err)
{
    struct utsname system;
    char shown[RECORD_SYSTEM_BYTES];

    CHECK(uname(&system) == 0);
    if (record->machine[0] == '\0' || strcmp(record->machine, system.machine) == 0)
        return 0;
    return err_set(err, ERR_UNFIT,
                   "its image is of a machine of the kind %s, and this node is %s: restart the job "
                   "on a node of that kind",
                   text_shown(record->machine, shown, sizeof(shown)), system.machine);
}

int record_prepare(const struct record *record, uint64_t limit_ms, struct err *err)
{
    uint64_t left_ms = limit_ms;

    if (check_machine(record, err) != 0)
        return -1;
    for (size_t i = 0; i < record->pid_count; i++)
        if (await_pid(record->pids[i], &left_ms, err) != 0)
            return -1;
    for (size_t i = 0; i < record->file_count; i++)
        if (give_length(&record->files[i], err) != 0)
            return -1;
    return 0;
}

int record_wrap(const struct record *record, uint32_t version, struct err *err)
{
    struct utsname system;
    char why[ERR_TEXT_BYTES], shown[RECORD_SYSTEM_BYTES];

    CHECK(uname(&system) == 0);
    (void)text_copy(why, sizeof(why), err->text);
    if (record->kernel[0] != '\0' && strcmp(record->kernel, system.release) != 0)
        return err_set(err, err->code,
                       "%.300s; its image is of the kernel %s, and this node has %s: a node with "
                       "that kernel may take it",
                       why, text_shown(record->kernel, shown, sizeof(shown)), system.release);
    if (version != 0 && record->version > version)
        return err_set(err, err->code,
                       "%.300s; its image is of criu %" PRIu32 ".%" PRIu32
                       ", and this node has an older one: install that release here",
                       why, record->version / 10000, record->version / 100 % 100);
    return -1;
}

size_t record_inherit(const struct record *record, struct criu_inherited ret[RECORD_STREAMS])
{
    size_t count = 0;

    for (int i = 0; i < RECORD_STREAMS; i++) {
        bool again = false;

        for (size_t k = 0; k < count; k++)
            again = again || strcmp(ret[k].key, record->streams[i]) == 0;
        if (again || record->streams[i][0] == '\0')
            continue;
        text_copy(ret[count].key, CRIU_KEY_BYTES, record->streams[i]);
        ret[count++].fd = i;
    }
    return count;
}
