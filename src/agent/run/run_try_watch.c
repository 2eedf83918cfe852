/* A look at a trial while its checkpoint is waited for. See run_try_watch.h. */
#include "src/agent/run/run_try_watch.h"

#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum { WALK_DESCRIPTORS = 16, MS_PER_S = 1000, NS_PER_MS = 1000000 };

/* nftw() has no place for data. */
static struct {
    struct timespec newest;
    char path[PATH_MAX]; /* "": none */
    size_t looked;
} found;

static bool is_later(const struct timespec *one, const struct timespec *than)
{
    return one->tv_sec > than->tv_sec ||
           (one->tv_sec == than->tv_sec && one->tv_nsec > than->tv_nsec);
}

static int visit_file(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)place;
    if (kind == FTW_F && is_later(&stat->st_mtim, &found.newest)) {
        found.newest = stat->st_mtim;
        snprintf(found.path, sizeof(found.path), "%s", path);
    }
    return ++found.looked < TRY_WATCH_FILES_MAX ? 0 : 1;
}

static void find_newer(const char *folder, const struct timespec *than)
{
    found.newest = *than;
    found.path[0] = '\0';
    found.looked = 0;
    (void)nftw(folder, visit_file, WALK_DESCRIPTORS, FTW_PHYS);
}

static bool is_quiet(void)
{
    struct timespec now;
    int64_t ms;

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    ms = (int64_t)(now.tv_sec - found.newest.tv_sec) * MS_PER_S +
         (now.tv_nsec - found.newest.tv_nsec) / NS_PER_MS;
    return found.path[0] != '\0' && ms >= TRY_WATCH_QUIET_MS;
}

static void say_out(void)
{
    run_say("the program was asked and has written %.200s, and no `done`: it is waited for; the "
            "file $CKPT_DIR/done says that all is written",
            found.path);
}

static void say_here(void)
{
    const char *path = found.path + (strncmp(found.path, "./", 2) == 0 ? 2 : 0);

    run_say("the program was asked and has written %.200s here, and no `done`: it is waited for; a "
            "program that knows of no `done` is asked by --ask-signal, with --ask-then goes-on and "
            "--checkpoint-files '%.200s'",
            path, path);
}

void try_watch_look(const char *work_dir, struct try_watch *watch)
{
    char path[PATH_MAX];
    struct stat request, done;

    snprintf(path, sizeof(path), "%.4000s/request", work_dir);
    if (watch->said || stat(path, &request) != 0)
        return;
    snprintf(path, sizeof(path), "%.4000s/done", work_dir);
    if (stat(path, &done) == 0)
        return;
    snprintf(path, sizeof(path), "%.4000s/out", work_dir);
    find_newer(path, &request.st_mtim);
    if (is_quiet()) {
        say_out();
        watch->said = true;
        return;
    }
    find_newer(".", &request.st_mtim);
    if (!is_quiet())
        return;
    say_here();
    watch->said = true;
}
