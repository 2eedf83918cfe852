/* The log's file and the thread that writes it. See log_file.h.
 *
 * Shapes   two buffers: lines are added to one while the thread writes the other. The lock is held
 *          for a copy or a swap, never for a call that may hang.
 */
#include "src/base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/log.h"

static struct log_file {
    char path[LOG_FILE_PATH_BYTES];
    uint64_t max_bytes;
    pthread_t thread;
    bool open;

    /* shared with the thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *filling, *writing;
    size_t filled;
    bool ending;

    /* the thread's; fd -1: the file does not take lines */
    int fd;
    uint64_t size_bytes;
    bool failed; /* stderr knows */
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .fd = -1};

/* ---- the thread ---- */

static void to_stderr(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, bytes, length);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        bytes += written;
        length -= (size_t)written;
    }
}

static void tell_failure(const char *operation)
{
    char text[LOG_FILE_PATH_BYTES + 256];
    int length = snprintf(text, sizeof(text),
                          "level=warning event=log_file_failed operation=%s path=%s error=\"%s\" "
                          "text=\"lines go to stderr until the file takes them\"\n",
                          operation, file.path, strerror(errno));

    if (!file.failed)
        to_stderr(text, (size_t)length);
    file.failed = true;
}

static int open_file(void)
{
    return open(file.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
}

static bool begin_file(void)
{
    struct stat status;

    file.fd = open_file();
    if (file.fd >= 0 && fstat(file.fd, &status) == 0 && S_ISREG(status.st_mode)) {
        file.size_bytes = (uint64_t)status.st_size;
        return true;
    }
    tell_failure("open");
    if (file.fd >= 0)
        close(file.fd);
    file.fd = -1;
    return false;
}

/* Somebody may have renamed or removed it. False: there is none. */
static bool follow_path(void)
{
    struct stat open_one, named;

    if (file.fd >= 0 && (fstat(file.fd, &open_one) != 0 || stat(file.path, &named) != 0 ||
                         open_one.st_ino != named.st_ino || open_one.st_dev != named.st_dev)) {
        close(file.fd);
        file.fd = -1;
    }
    return file.fd >= 0 || begin_file();
}

static bool rotate_file(void)
{
    char old[LOG_FILE_PATH_BYTES + 8];

    snprintf(old, sizeof(old), "%s.old", file.path);
    if (rename(file.path, old) != 0) {
        tell_failure("rename");
        return false;
    }
    close(file.fd);
    file.fd = -1;
    return begin_file();
}

/* Whole lines, as many as the file may still take; 0: not one. */
static size_t lines_that_fit(const char *bytes, size_t length)
{
    uint64_t room = file.max_bytes > file.size_bytes ? file.max_bytes - file.size_bytes : 0;
    const char *last;

    if (file.max_bytes == 0 || length <= room)
        return length;
    last = room == 0 ? NULL : memrchr(bytes, '\n', (size_t)room);
    return last == NULL ? 0 : (size_t)(last - bytes) + 1;
}

/* Returns how many bytes the file has taken. */
static size_t write_lines(const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        size_t fit = lines_that_fit(bytes + done, length - done);
        ssize_t written;

        if (fit == 0) {
            if (!rotate_file())
                return done;
            continue;
        }
        written = write(file.fd, bytes + done, fit);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            tell_failure("write");
            return done;
        }
        file.size_bytes += (uint64_t)written;
        done += (size_t)written;
    }
    file.failed = false;
    return done;
}

static void *write_all(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_lock(&file.lock) == 0);
    for (;;) {
        size_t length, done = 0;
        char *bytes;

        while (file.filled == 0 && !file.ending)
            CHECK(pthread_cond_wait(&file.changed, &file.lock) == 0);
        if (file.filled == 0)
            break;
        bytes = file.filling;
        length = file.filled;
        file.filling = file.writing;
        file.writing = bytes;
        file.filled = 0;
        CHECK(pthread_mutex_unlock(&file.lock) == 0);
        if (follow_path())
            done = write_lines(bytes, length);
        to_stderr(bytes + done, length - done);
        CHECK(pthread_mutex_lock(&file.lock) == 0);
    }
    CHECK(pthread_mutex_unlock(&file.lock) == 0);
    return NULL;
}

/* ---- who logs ---- */

/* False: the thread does not come after, as while a disk hangs. */
static bool take_line(const char *line, size_t length)
{
    bool taken;

    CHECK(pthread_mutex_lock(&file.lock) == 0);
    taken = !file.ending && length <= LOG_FILE_QUEUE_BYTES - file.filled;
    if (taken) {
        memcpy(file.filling + file.filled, line, length);
        file.filled += length;
        CHECK(pthread_cond_signal(&file.changed) == 0);
    }
    CHECK(pthread_mutex_unlock(&file.lock) == 0);
    return taken;
}

/* Signals are the loop's. */
static int start_thread(struct err *err)
{
    sigset_t all, before;
    int result;

    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    result = pthread_create(&file.thread, NULL, write_all, NULL);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return result == 0 ? 0
                       : err_set(err, ERR_IO, "log file %s: no thread can be started: %s",
                                 file.path, strerror(result));
}

/* The first line shows that there is room: a full disk is told now. */
static int write_first(struct err *err)
{
    char line[LOG_LINE_BYTES];
    size_t length = log_line(line, LOG_LEVEL_INFO, "log_file_opened", "path=%s max_bytes=%" PRIu64,
                             file.path, file.max_bytes);
    ssize_t written = write(file.fd, line, length);

    if (written == (ssize_t)length) {
        file.size_bytes += length;
        return 0;
    }
    return err_set(err, ERR_IO,
                   "log file %s takes no line: %s: make room there, or name another file",
                   file.path, strerror(written < 0 ? errno : ENOSPC));
}

static int check_file(struct err *err)
{
    struct stat status;

    if (file.fd < 0)
        return err_set(
            err, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO,
            "log file %s: %s: make its folder, writable for this daemon, or name another file",
            file.path, strerror(errno));
    if (fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode))
        return err_set(err, ERR_REFUSED, "log file %s is no regular file: name another one",
                       file.path);
    file.size_bytes = (uint64_t)status.st_size;
    return write_first(err);
}

int log_file_open(const char *path, uint64_t max_bytes, struct err *err)
{
    static bool at_exit;

    CHECK(!file.open);
    CHECK(max_bytes == 0 || max_bytes >= LOG_FILE_MIN_BYTES);
    if (strlen(path) >= sizeof(file.path) - sizeof(".old"))
        return err_set(err, ERR_INVALID, "the path of the log file is over %zu bytes",
                       sizeof(file.path) - sizeof(".old") - 1);
    memcpy(file.path, path, strlen(path) + 1);
    file.max_bytes = max_bytes;
    file.failed = file.ending = false;
    file.filled = 0;
    file.fd = open_file();
    if (check_file(err) != 0)
        goto fail;
    file.filling = check_alloc(LOG_FILE_QUEUE_BYTES);
    file.writing = check_alloc(LOG_FILE_QUEUE_BYTES);
    if (start_thread(err) != 0)
        goto fail;
    file.open = true;
    log_set_sink(take_line);
    if (!at_exit)
        at_exit = atexit(log_file_close) == 0;
    return 0;
fail:
    if (file.fd >= 0)
        close(file.fd);
    file.fd = -1;
    free(file.filling);
    free(file.writing);
    file.filling = file.writing = NULL;
    return -1;
}

void log_file_close(void)
{
    struct timespec until;

    if (!file.open)
        return;
    file.open = false;
    log_set_sink(NULL);
    CHECK(pthread_mutex_lock(&file.lock) == 0);
    file.ending = true;
    CHECK(pthread_cond_signal(&file.changed) == 0);
    CHECK(pthread_mutex_unlock(&file.lock) == 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_timedjoin_np(file.thread, NULL, &until) != 0)
        return; /* a disk hangs: the thread ends with the process */
    if (file.fd >= 0)
        close(file.fd);
    file.fd = -1;
    free(file.filling);
    free(file.writing);
    file.filling = file.writing = NULL;
}
