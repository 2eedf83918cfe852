/* Removes a folder tree of a job off the loop. See cleanup.h. */
#include "src/agent/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"

struct cleanup {
    uv_work_t work;
    char *folders[CLEANUP_FOLDERS_MAX];
    size_t folder_count;
    uid_t uid;
    gid_t gid;
    void (*done)(void *data);
    void *data;
};

static void remove_contents(int folder_fd, int depth)
{
    DIR *folder = fdopendir(folder_fd);
    struct dirent *entry;

    if (folder == NULL) {
        close(folder_fd);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        int fd;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0 || depth == CLEANUP_DEPTH_MAX)
            continue;
        fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        remove_contents(fd, depth + 1);
        unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
}

/* File system ids belong to a thread: a pool thread takes the job's for the time of the work. */
static void cleanup_work(uv_work_t *work)
{
    struct cleanup *cleanup = work->data;
    bool root = geteuid() == 0;

    if (root) {
        setfsgid(cleanup->gid);
        setfsuid(cleanup->uid);
    }
    for (size_t i = 0; i < cleanup->folder_count; i++) {
        int fd = open(cleanup->folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        remove_contents(fd, 0);
        rmdir(cleanup->folders[i]);
    }
    if (root) {
        setfsuid(0);
        setfsgid(getegid());
    }
}

static void cleanup_done(uv_work_t *work, int status)
{
    struct cleanup *cleanup = work->data;

    (void)status;
    if (cleanup->done != NULL)
        cleanup->done(cleanup->data);
    for (size_t i = 0; i < cleanup->folder_count; i++)
        free(cleanup->folders[i]);
    free(cleanup);
}

struct cleanup *cleanup_start(uv_loop_t *loop, const char *const *folders, size_t folder_count,
                              uid_t uid, gid_t gid, void (*done)(void *data), void *data)
{
    struct cleanup *cleanup = check_calloc(1, sizeof(*cleanup));

    CHECK(folder_count <= CLEANUP_FOLDERS_MAX);
    cleanup->work.data = cleanup;
    cleanup->folder_count = folder_count;
    for (size_t i = 0; i < folder_count; i++)
        cleanup->folders[i] = check_strdup(folders[i]);
    cleanup->uid = uid;
    cleanup->gid = gid;
    cleanup->done = done;
    cleanup->data = data;
    CHECK(uv_queue_work(loop, &cleanup->work, cleanup_work, cleanup_done) == 0);
    return cleanup;
}

void cleanup_detach(struct cleanup *cleanup)
{
    if (cleanup != NULL)
        cleanup->done = NULL;
}
