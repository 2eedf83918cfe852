/* A stand-in that has nothing in hand is woken. See run_wake.h. */
#include "src/agent/run/run_wake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "src/base/check.h"

enum { SIGNALS, FOLDER, EVENTS_BYTES = 4096, WAKE_SIGNAL = SIGIO };

static int fds[WAKE_FDS] = {-1, -1};
static int write_end = -1;
static bool told_by_signal;

static void on_folder(int number)
{
    (void)number;
    wake_signal();
}

/* The older way, which has no limit for a user: a signal for each change of the folder (fcntl(2),
 * F_NOTIFY). The descriptor stays open for it. */
static bool watch_by_signal(const char *work_dir)
{
    const struct sigaction action = {.sa_handler = on_folder, .sa_flags = SA_RESTART};
    int folder = open(work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return false;
    if (sigaction(WAKE_SIGNAL, &action, NULL) == 0 && fcntl(folder, F_SETSIG, WAKE_SIGNAL) == 0 &&
        fcntl(folder, F_NOTIFY, DN_CREATE | DN_RENAME | DN_MULTISHOT) == 0)
        return true;
    close(folder);
    return false;
}

static void close_folder(void)
{
    if (fds[FOLDER] >= 0)
        close(fds[FOLDER]);
    fds[FOLDER] = -1;
}

void wake_open(const char *work_dir)
{
    int ends[2];

    CHECK(write_end < 0);
    CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    fds[SIGNALS] = ends[0];
    write_end = ends[1];
    fds[FOLDER] = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fds[FOLDER] >= 0 &&
        inotify_add_watch(fds[FOLDER], work_dir, IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) < 0)
        close_folder();
    told_by_signal = fds[FOLDER] < 0 && watch_by_signal(work_dir);
}

void wake_signal(void)
{
    const int before = errno;

    if (write_end >= 0)
        (void)!write(write_end, "", 1); /* a full pipe wakes as well */
    errno = before;
}

const int *wake_fds(void)
{
    return fds;
}

/* False: the folder is not watched any more. */
static bool take_events(void)
{
    alignas(struct inotify_event) char bytes[EVENTS_BYTES];
    ssize_t got;

    while ((got = read(fds[FOLDER], bytes, sizeof(bytes))) > 0) {
        for (const char *at = bytes; at < bytes + got;) {
            const struct inotify_event *event = (const void *)at;

            if ((event->mask & IN_IGNORED) != 0)
                return false;
            at += sizeof(*event) + event->len;
        }
    }
    return true;
}

void wake_taken(void)
{
    char bytes[64];

    while (fds[SIGNALS] >= 0 && read(fds[SIGNALS], bytes, sizeof(bytes)) > 0)
        ;
    if (fds[FOLDER] >= 0 && !take_events())
        close_folder();
}

uint64_t wake_idle_ms(void)
{
    return fds[FOLDER] >= 0 || told_by_signal ? WAKE_IDLE_MS : WAKE_LOOK_MS;
}
