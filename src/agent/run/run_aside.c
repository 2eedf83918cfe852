/* A save that nobody asked for. See run_aside.h. */
#include "src/agent/run/run_aside.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_started.h"
#include "src/base/check.h"
#include "src/dest/folder_copy.h"

#define ASIDE_NAME "ckpt-run.aside"

enum { WALK_DESCRIPTORS = 16 };

static int remove_entry(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    (void)remove(path);
    return 0;
}

static void remove_folder(const char *path)
{
    (void)nftw(path, remove_entry, WALK_DESCRIPTORS, FTW_PHYS | FTW_DEPTH);
}

static void name_folder(const char *work_dir, const char *suffix, char ret_path[PATH_MAX])
{
    CHECK(work_dir != NULL);
    snprintf(ret_path, PATH_MAX, "%.4000s/" ASIDE_NAME "%s", work_dir, suffix);
}

void aside_drop(const char *work_dir, struct aside *aside)
{
    static const char *const suffixes[] = {"", ".new", ".old"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        name_folder(work_dir, suffixes[i], path);
        remove_folder(path);
    }
    *aside = (struct aside){.there = false};
}

/* The one before stays until all of this one is there. */
static int replace_folder(const char *work_dir, struct err *err)
{
    char path[PATH_MAX], fresh[PATH_MAX], old[PATH_MAX];

    name_folder(work_dir, "", path);
    name_folder(work_dir, ".new", fresh);
    name_folder(work_dir, ".old", old);
    remove_folder(old);
    if (rename(path, old) != 0 && errno != ENOENT)
        return err_set(err, ERR_IO, "rename to %.128s: %s", old, strerror(errno));
    if (rename(fresh, path) != 0) {
        err_set(err, ERR_IO, "rename to %.128s: %s", path, strerror(errno));
        (void)rename(old, path);
        return -1;
    }
    remove_folder(old);
    return 0;
}

int aside_take(const char *work_dir, const struct saved_files *files, struct aside *aside,
               struct err *err)
{
    char fresh[PATH_MAX];

    if (files == NULL || files->count == 0) {
        aside_drop(work_dir, aside);
        *aside = (struct aside){.there = true, .empty = true, .at_ms = run_wall_ms()};
        return 0;
    }
    name_folder(work_dir, ".new", fresh);
    remove_folder(fresh);
    if (mkdir(fresh, 0700) != 0)
        return err_set(err, ERR_IO, "%.128s: %s", fresh, strerror(errno));
    if (saved_files_copy(files, fresh, err) != 0 || replace_folder(work_dir, err) != 0) {
        remove_folder(fresh);
        return -1;
    }
    *aside = (struct aside){.there = true, .bytes = files->bytes, .at_ms = run_wall_ms()};
    return 0;
}

int aside_give(const char *work_dir, const struct aside *aside, const char *folder, struct err *err)
{
    struct folder_sum sum = {0};
    char path[PATH_MAX];

    CHECK(aside->there);
    if (aside->empty)
        return 0;
    name_folder(work_dir, "", path);
    return folder_copy(path, folder, &sum, err);
}
