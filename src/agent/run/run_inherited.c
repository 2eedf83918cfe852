/* The application's descriptors beside its standard streams. See run_inherited.h. */
#include "src/agent/run/run_inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_input_kind.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"
#include "src/base/number.h"

struct inherited {
    int fd;
    int kept;   /* FILE that is read: the description that ckpt-run was given; -1: none */
    int access; /* how it was opened */
    enum input_kind kind;
    bool named; /* by the command */
    off_t first;
    dev_t device;
    ino_t inode;
    struct input_sight was; /* at the first start; of streams */
};

static struct {
    struct inherited items[INHERITED_MAX];
    size_t count;
    bool started; /* once at least */
} all;

static void add_descriptor(int fd)
{
    struct inherited *item = &all.items[all.count];
    int flags = fcntl(fd, F_GETFL), of_descriptor = fcntl(fd, F_GETFD);
    struct stat stat;

    if (flags < 0 || of_descriptor < 0 || (of_descriptor & FD_CLOEXEC) != 0 ||
        (flags & O_PATH) != 0 || fstat(fd, &stat) != 0)
        return;
    *item = (struct inherited){.fd = fd,
                               .access = flags & O_ACCMODE,
                               .kind = input_kind_of(fd),
                               .device = stat.st_dev,
                               .inode = stat.st_ino};
    item->kept = -1;
    if (item->kind == INPUT_FILE && item->access == O_RDONLY) {
        item->first = lseek(fd, 0, SEEK_CUR);
        item->kept = fcntl(fd, F_DUPFD_CLOEXEC, fd);
    }
    all.count++;
}

void run_inherited_open(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;

    all.count = 0;
    all.started = false;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct err none; /* "." and ".." are no numbers */
        uint64_t fd;

        if (all.count < INHERITED_MAX &&
            number_parse(NUMBER_PLAIN, entry->d_name,
                         (struct number_range){STDERR_FILENO + 1, INT_MAX}, &fd, &none) == 0)
            add_descriptor((int)fd);
    }
    if (folder != NULL)
        closedir(folder);
}

/* Also within a word: --input=/dev/fd/63 */
static bool word_names(const char *word, const char *name)
{
    const char *at = strstr(word, name);

    return at != NULL && (at[strlen(name)] < '0' || at[strlen(name)] > '9');
}

void run_inherited_name(char *const *command)
{
    char short_name[32], long_name[48];

    for (size_t i = 0; i < all.count; i++) {
        snprintf(short_name, sizeof(short_name), "/dev/fd/%d", all.items[i].fd);
        snprintf(long_name, sizeof(long_name), "/proc/self/fd/%d", all.items[i].fd);
        for (char *const *word = command; *word != NULL; word++)
            all.items[i].named =
                all.items[i].named || word_names(*word, short_name) || word_names(*word, long_name);
    }
}

/* Its other end is ours as well: what is in it may be put back. */
static bool is_writable_here(const struct inherited *item)
{
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].access != O_RDONLY && all.items[i].device == item->device &&
            all.items[i].inode == item->inode)
            return true;
    return false;
}

static bool may_be_read(const struct inherited *item)
{
    if (item->access == O_WRONLY || !input_is_stream(item->kind))
        return false;
    return item->named || (item->kind == INPUT_PIPE && !is_writable_here(item));
}

/* Through a description of its own: whoever shares the first one reads on, and keeps its locks. One
 * of which nothing was read stays as it is. */
static void read_again(const struct inherited *item)
{
    char path[64];
    int fd;

    if (item->kept < 0 || lseek(item->fd, 0, SEEK_CUR) == item->first)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", item->kept);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* as after a change of user */
        fd = fcntl(item->kept, F_DUPFD_CLOEXEC, item->fd);
    CHECK(fd >= 0 && lseek(fd, item->first, SEEK_SET) == item->first);
    CHECK(dup2(fd, item->fd) == item->fd);
    close(fd);
}

void run_inherited_prepare(bool may_restart)
{
    for (size_t i = 0; i < all.count; i++) {
        struct inherited *item = &all.items[i];

        if (all.started)
            read_again(item);
        if (all.started || !may_be_read(item))
            continue;
        item->was = input_look(item->fd);
        if (item->named && may_restart)
            run_say("descriptor %d, which the command names, is %s: once something was read of "
                    "it, this job is not started again by itself; a file is given to it anew at "
                    "each start",
                    item->fd, input_kind_name(item->kind));
    }
    all.started = true;
}

/* Of a pipe that nobody can write to any more as much is there as at first; or none has ever come
 * through it that could be seen. */
static bool is_as_at_first(const struct inherited *item)
{
    const struct input_sight now = input_look(item->fd);

    if (input_unread(item->kind, &item->was, &now))
        return true;
    return !item->named && !item->was.ended && !now.ended && item->was.waiting_bytes == 0 &&
           now.waiting_bytes == 0;
}

int run_inherited_again(void)
{
    for (size_t i = 0; all.started && i < all.count; i++)
        if (may_be_read(&all.items[i]) && !is_as_at_first(&all.items[i]))
            return all.items[i].fd;
    return -1;
}
