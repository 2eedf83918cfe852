/* Removes a folder tree of a job off the loop. See cleanup.h. */
#include "src/agent/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/store/tree.h"

struct cleanup {
    uv_work_t work;
    char *folders[CLEANUP_FOLDERS_MAX];
    size_t folder_count;
    uid_t uid;
    gid_t gid;
    void (*done)(void *data);
    void *data;
};

static void remove_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];
    int fd;

    CHECK(slash != NULL && slash > path && (size_t)(slash - path) < sizeof(parent));
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)tree_remove(fd, slash + 1, NULL);
    close(fd);
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
    for (size_t i = 0; i < cleanup->folder_count; i++)
        remove_folder(cleanup->folders[i]);
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
