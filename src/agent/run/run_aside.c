/* A save that nobody asked for. See run_aside.h. */
#include "src/agent/run/run_aside.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_started.h"
#include "src/base/check.h"
#include "src/dest/folder_copy.h"

#define ASIDE_NAME  "ckpt-run.aside"
#define ASIDE_FILES "files"
#define ASIDE_NOTE  "note" /* written last */

enum { WALK_DESCRIPTORS = 16, NOTE_BYTES = PATH_MAX + 256 };

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
    snprintf(ret_path, PATH_MAX, "%.4000s/" ASIDE_NAME "%.20s", work_dir, suffix);
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

/* ---- taking it ---- */

static bool synced;

static int sync_entry(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    (void)stat, (void)place;
    if (kind == FTW_SL) /* its folder has it */
        return 0;
    synced = synced && fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return 0;
}

/* Each file, then the folders around it. */
static int sync_folder(const char *path, struct err *err)
{
    synced = true;
    errno = 0;
    (void)nftw(path, sync_entry, WALK_DESCRIPTORS, FTW_PHYS | FTW_DEPTH);
    return synced ? 0 : err_set(err, ERR_IO, "sync %.128s: %s", path, strerror(errno));
}

/* Its owner: the job, and the folder in which the program runs. */
static const char *own_name(char text[NOTE_BYTES])
{
    const char *job = getenv("CKPT_ALLOCATION_ID");
    char folder[PATH_MAX];

    if (getcwd(folder, sizeof(folder)) == NULL)
        folder[0] = '\0';
    snprintf(text, NOTE_BYTES, "job=%.200s\nfolder=%s\n", job == NULL ? "" : job, folder);
    return text;
}

static int note_write(const char *folder, const struct aside *aside, struct err *err)
{
    char path[PATH_MAX + sizeof(ASIDE_NOTE)], own[NOTE_BYTES];
    FILE *file;
    int failed;

    snprintf(path, sizeof(path), "%s/" ASIDE_NOTE, folder);
    file = fopen(path, "wxe");
    failed = file == NULL ||
             fprintf(file, "at_ms=%" PRIu64 "\nbytes=%" PRIu64 "\nnewest=%" PRIu64 "\n%s",
                     aside->at_ms, aside->bytes, aside->newest, own_name(own)) < 0;
    if (file != NULL && fclose(file) != 0)
        failed = 1;
    return failed == 0 ? 0 : err_set(err, ERR_IO, "%.128s: %s", path, strerror(errno));
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

static int copy_files(const char *fresh, const struct saved_files *files, struct err *err)
{
    char folder[PATH_MAX + sizeof(ASIDE_FILES)];

    snprintf(folder, sizeof(folder), "%s/" ASIDE_FILES, fresh);
    if (mkdir(fresh, 0700) != 0 || mkdir(folder, 0700) != 0)
        return err_set(err, ERR_IO, "%.128s: %s", folder, strerror(errno));
    return saved_files_copy(files, folder, err);
}

int aside_take(const char *work_dir, const struct saved_files *files, uint64_t newest,
               struct aside *aside, struct err *err)
{
    struct aside next = {.there = true, .at_ms = run_wall_ms(), .newest = newest};
    char fresh[PATH_MAX];

    if (files == NULL || files->count == 0) {
        aside_drop(work_dir, aside);
        next.empty = true;
        *aside = next;
        return 0;
    }
    next.bytes = files->bytes;
    name_folder(work_dir, ".new", fresh);
    remove_folder(fresh);
    if (copy_files(fresh, files, err) != 0 || note_write(fresh, &next, err) != 0 ||
        sync_folder(fresh, err) != 0 || replace_folder(work_dir, err) != 0) {
        remove_folder(fresh);
        return -1;
    }
    *aside = next;
    return 0;
}

/* ---- after a start ---- */

static bool note_read(const char *folder, struct aside *ret_aside)
{
    char path[PATH_MAX + sizeof(ASIDE_NOTE)], text[NOTE_BYTES + 64] = "", own[NOTE_BYTES];
    int fd, end = 0;
    ssize_t length;

    snprintf(path, sizeof(path), "%s/" ASIDE_NOTE, folder);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    *ret_aside = (struct aside){.there = true};
    return sscanf(text, "at_ms=%" SCNu64 "\nbytes=%" SCNu64 "\nnewest=%" SCNu64 "\n%n",
                  &ret_aside->at_ms, &ret_aside->bytes, &ret_aside->newest, &end) == 3 &&
           end > 0 && strcmp(text + end, own_name(own)) == 0;
}

/* Between its two renames a start was killed: the new one is whole. */
static void finish_replacing(const char *work_dir)
{
    char path[PATH_MAX], fresh[PATH_MAX];
    struct aside found;

    name_folder(work_dir, "", path);
    name_folder(work_dir, ".new", fresh);
    if (access(path, F_OK) != 0 && note_read(fresh, &found))
        (void)rename(fresh, path);
}

bool aside_find(const char *work_dir, struct aside *ret_aside)
{
    char path[PATH_MAX];
    struct aside found;

    finish_replacing(work_dir);
    name_folder(work_dir, "", path);
    if (!note_read(path, &found))
        return false;
    *ret_aside = found;
    return true;
}

int aside_bring_back(const char *work_dir, const struct saved_names *names, struct err *err)
{
    char path[PATH_MAX];

    name_folder(work_dir, "/" ASIDE_FILES, path);
    return saved_files_bring_back(path, names, err);
}

/* ---- giving it ---- */

int aside_give(const char *work_dir, const struct aside *aside, const char *folder, struct err *err)
{
    struct folder_sum sum = {0};
    char path[PATH_MAX];

    CHECK(aside->there);
    if (aside->empty)
        return 0;
    name_folder(work_dir, "/" ASIDE_FILES, path);
    return folder_copy(path, folder, &sum, err);
}
