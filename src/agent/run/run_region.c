/* The memory that an application shares with its agent. See run_region.h. */
#include "src/agent/run/run_region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_child.h"
#include "src/agent/run/run_say.h"
#include "src/ask/region.h"
#include "src/base/check.h"
#include "src/base/text.h"

static char made[ASK_REGION_PATH_BYTES]; /* for the application that is started; "": none */

/* All of it has room from here on: a page that finds none when it is touched is a SIGBUS. */
static int fill_region(int fd)
{
    uint8_t head[ASK_REGION_HEAD_BYTES];
    int failure = posix_fallocate(fd, 0, ASK_REGION_BYTES);

    ask_region_head(head);
    if (failure == 0 && pwrite(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
        failure = errno;
    return failure;
}

static int refuse_region(const char *path, int failure, struct err *err)
{
    if (failure == EPERM || failure == EACCES || failure == EEXIST || failure == EISDIR)
        return err_set(
            err, ERR_INVALID,
            "the shared memory %s is there already and cannot be removed (%s): remove it, "
            "or, where another user has made it, have root do so; another --work-dir gives it "
            "another name",
            path, strerror(failure));
    if (failure == ENOSPC)
        return err_set(err, ERR_FULL,
                       "the shared memory %s needs %d bytes, and %s is full: make room there", path,
                       ASK_REGION_BYTES, ASK_REGION_FOLDER);
    return err_set(err, ERR_IO, "the shared memory %s cannot be made: %s", path, strerror(failure));
}

int run_region_make(const char *path, struct err *err)
{
    char new_path[] = ASK_REGION_FOLDER "/.ckpt-XXXXXX";
    int fd, failure;

    if (path[0] == '\0')
        return 0;
    if (ask_region_name(path) == NULL)
        return err_set(err, ERR_INVALID,
                       "the agent names shared memory at %s, which is no place for it: its release "
                       "is another one",
                       path);
    /* by rename: between an unlink and an open another user could take the name */
    fd = mkostemp(new_path, O_CLOEXEC);
    if (fd < 0)
        return refuse_region(path, errno, err);
    failure = fill_region(fd);
    close(fd);
    if (failure == 0 && rename(new_path, path) != 0)
        failure = errno;
    if (failure == 0)
        return 0;
    (void)unlink(new_path);
    return refuse_region(path, failure, err);
}

/* One way of several fails with it: the application may show another. */
static int region_do_without(const struct run_options *options, const struct err *why)
{
    CHECK(made[0] == '\0');
    if (options->way == RUN_WAY_AUTO) /* else nobody has asked for it */
        run_say("%s; the application is started without it, and can be asked in each other way",
                why->text);
    return 0;
}

int run_start_prepare(const char *program, const struct run_options *options,
                      const Ckpt__V1__AttachReady *ready, struct err *err)
{
    int failure = err->text[0] != '\0' ? EINVAL : run_child_find(program);
    struct err why = {0};

    made[0] = '\0';
    if (failure != 0)
        return failure;
    if (run_region_make(ready->shm, &why) == 0) {
        text_copy(made, sizeof(made), ready->shm);
        return 0;
    }
    if (ready->shm_sought)
        return region_do_without(options, &why);
    *err = why;
    return EACCES;
}

const char *run_region_path(void)
{
    return made;
}

void run_region_drop(const char *path)
{
    struct stat stat;

    if (ask_region_name(path) != NULL && lstat(path, &stat) == 0 && stat.st_uid == geteuid() &&
        S_ISREG(stat.st_mode))
        (void)unlink(path);
}

int run_start_status(int failure)
{
    return (failure == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_NOT_EXECUTABLE) << 8;
}
