/* The files that a program saves its state in. See run_saved_files.h. */
#include "src/agent/run/run_saved_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_saved_links.h"
#include "src/agent/run/run_saved_paths.h"
#include "src/base/check.h"
#include "src/profile/patterns.h"

enum { COPY_BYTES = 1 << 20, WALK_DESCRIPTORS = 16 };

/* ---- finding ---- */

/* nftw() has no place for data. */
static struct {
    struct saved_files *files;
    struct timespec newer_than;
    bool newer;     /* one was */
    bool matched;   /* there was one */
    size_t earlier; /* files of the patterns before */
    bool outputs;   /* they say nothing of the state */
} search;

static bool is_known(const char *path)
{
    for (size_t i = 0; i < search.earlier; i++)
        if (strcmp(search.files->paths[i], path) == 0)
            return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static void refuse_files(struct saved_files *files,
                                                               const char *format, ...)
{
    va_list arguments;

    if (files->refused[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(files->refused, sizeof(files->refused), format, arguments);
    va_end(arguments);
}

static void add_file(const char *path, const struct stat *stat)
{
    struct saved_files *files = search.files;
    const struct timespec *changed = &stat->st_mtim;

    if (!S_ISREG(stat->st_mode) || strcmp(path, SAVED_LINKS_NAME) == 0)
        return;
    search.matched = true;
    search.newer = search.newer || changed->tv_sec > search.newer_than.tv_sec ||
                   (changed->tv_sec == search.newer_than.tv_sec &&
                    changed->tv_nsec > search.newer_than.tv_nsec);
    if (is_known(path))
        return;
    if (files->count == SAVED_FILES_MAX) {
        refuse_files(files, "more than %d files match --checkpoint-files", SAVED_FILES_MAX);
        return;
    }
    files->paths[files->count++] = check_strdup(path);
    files->bytes += (uint64_t)stat->st_size;
    if (search.outputs)
        return;
    files->sum = files->sum * 1099511628211u + (uint64_t)stat->st_size +
                 (uint64_t)changed->tv_sec * 1000003u + (uint64_t)changed->tv_nsec +
                 (uint64_t)stat->st_ino;
}

static void add_link(const char *path)
{
    struct saved_files *files = search.files;

    for (size_t i = 0; i < files->link_count; i++)
        if (strcmp(files->links[i], path) == 0)
            return;
    if (files->link_count == SAVED_FILES_MAX) {
        refuse_files(files, "more than %d symbolic links match --checkpoint-files",
                     SAVED_FILES_MAX);
        return;
    }
    files->links[files->link_count++] = check_strdup(path);
}

static int visit_found(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)place;
    if (saved_path_leaves_out(stat))
        return kind == FTW_D ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
    if (kind == FTW_F)
        add_file(path, stat);
    else if ((kind == FTW_SL || kind == FTW_SLN) && !search.outputs)
        add_link(path);
    return FTW_CONTINUE;
}

static void find_pattern(const char *pattern)
{
    glob_t found = {0};

    search.newer = search.matched = false;
    search.earlier = search.files->count;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!saved_path_lies_left_out(found.gl_pathv[i]))
                (void)nftw(found.gl_pathv[i], visit_found, WALK_DESCRIPTORS,
                           FTW_PHYS | FTW_ACTIONRETVAL);
    }
    globfree(&found);
}

void saved_files_find(const char *patterns, const struct timespec *newer_than,
                      struct saved_files *ret_files)
{
    char pattern[PATTERN_BYTES];

    *ret_files = (struct saved_files){.paths = check_calloc(SAVED_FILES_MAX, sizeof(char *)),
                                      .links = check_calloc(SAVED_FILES_MAX, sizeof(char *))};
    search.files = ret_files;
    search.outputs = false;
    search.newer_than = *newer_than;
    for (const char *at = patterns_next(patterns, pattern); pattern[0] != '\0';
         at = patterns_next(at, pattern)) {
        find_pattern(pattern);
        if (!search.newer && ret_files->missing[0] == '\0')
            memcpy(ret_files->missing, pattern, sizeof(pattern));
        if (!search.matched && ret_files->unmatched[0] == '\0')
            memcpy(ret_files->unmatched, pattern, sizeof(pattern));
        ret_files->newer = ret_files->newer || search.newer;
    }
    search.files = NULL;
}

void saved_files_add_outputs(const char *patterns, struct saved_files *files)
{
    char pattern[PATTERN_BYTES];

    CHECK(files->paths != NULL && search.files == NULL);
    search.files = files;
    search.outputs = true;
    for (const char *at = patterns_next(patterns, pattern); pattern[0] != '\0';
         at = patterns_next(at, pattern))
        find_pattern(pattern);
    search.files = NULL;
}

void saved_files_free(struct saved_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    for (size_t i = 0; i < files->link_count; i++)
        free(files->links[i]);
    free(files->links);
    *files = (struct saved_files){0};
}

/* ---- copying ---- */

/* At once where the file system shares blocks. */
static int copy_bytes(int from, int to)
{
    char *bytes;
    ssize_t got = 0, written = 0;

    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    bytes = check_calloc(1, COPY_BYTES);
    while (written >= 0 && (got = read(from, bytes, COPY_BYTES)) > 0) {
        for (ssize_t at = 0; at < got && written >= 0; at += written)
            written = write(to, bytes + at, (size_t)(got - at));
    }
    free(bytes);
    return got < 0 || written < 0 ? -1 : 0;
}

static int copy_file(const char *path, const char *target, struct err *err)
{
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), to = -1, failed;

    if (from >= 0 && saved_path_make_parents(target) == 0)
        to = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    failed = to < 0 || copy_bytes(from, to) != 0 ? errno : 0;
    if (to >= 0 && close(to) != 0 && failed == 0)
        failed = errno;
    if (from >= 0)
        close(from);
    return failed == 0
               ? 0
               : err_set(err, ERR_IO, "copy %.128s to %.128s: %s", path, target, strerror(failed));
}

int saved_files_copy(const struct saved_files *files, const char *folder, struct err *err)
{
    char target[PATH_MAX];

    for (size_t i = 0; i < files->count; i++) {
        if (snprintf(target, sizeof(target), "%s/%s", folder, files->paths[i]) >= PATH_MAX)
            return err_set(err, ERR_INVALID, "the path of %.128s is too long", files->paths[i]);
        if (copy_file(files->paths[i], target, err) != 0)
            return -1;
    }
    return saved_links_copy(files, folder, err);
}

/* ---- bringing back ---- */

static struct {
    size_t root; /* length of the folder's name */
    const struct saved_names *names;
    struct err *err;
} coming;

static bool name_matches(const char *patterns, const char *name)
{
    char pattern[PATTERN_BYTES];

    for (const char *at = patterns_next(patterns, pattern); pattern[0] != '\0';
         at = patterns_next(at, pattern))
        if (fnmatch(pattern, name, FNM_PATHNAME | FNM_PERIOD | FNM_LEADING_DIR) == 0)
            return true;
    return false;
}

/* A file of both is state. */
static bool is_output(const char *name)
{
    return coming.names->outputs != NULL && name_matches(coming.names->outputs, name) &&
           !name_matches(coming.names->files, name);
}

static bool same_bytes(int saved, int present)
{
    char *bytes = check_calloc(2, COPY_BYTES);
    ssize_t got, read_of_present = 0;
    bool same = true;

    while (same && (got = read(saved, bytes, COPY_BYTES)) != 0) {
        for (ssize_t at = 0; same && at < got; at += read_of_present) {
            read_of_present = read(present, bytes + COPY_BYTES + at, (size_t)(got - at));
            same = read_of_present > 0;
        }
        same = same && got > 0 && memcmp(bytes, bytes + COPY_BYTES, (size_t)got) == 0;
    }
    free(bytes);
    return same;
}

/* The program has appended to it since, or not even that. */
static bool begins_with(const char *name, const char *saved)
{
    int from = open(saved, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int present = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat stat_of;
    bool same = from >= 0 && present >= 0 && fstat(present, &stat_of) == 0 &&
                S_ISREG(stat_of.st_mode) && same_bytes(from, present);

    if (from >= 0)
        close(from);
    if (present >= 0)
        close(present);
    return same;
}

static int bring_back(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    const char *name = path + coming.root;
    char new_name[PATH_MAX];

    (void)stat, (void)place;
    name += strspn(name, "/");
    if ((kind != FTW_F && kind != FTW_SL) ||
        saved_path_lies_left_out(name)) /* saved by a release that did not leave it out */
        return 0;
    if (kind == FTW_SL)
        return saved_link_bring_back(path, name, coming.err);
    if (strcmp(name, SAVED_LINKS_NAME) == 0)
        return saved_links_bring_back(path, coming.err);
    if (is_output(name) && begins_with(name, path))
        return 0;
    if (snprintf(new_name, sizeof(new_name), "%s.ckpt-new", name) >= PATH_MAX)
        return err_set(coming.err, ERR_INVALID, "the path of %.128s is too long", name);
    if (copy_file(path, new_name, coming.err) != 0)
        return -1;
    return rename(new_name, name) == 0
               ? 0
               : err_set(coming.err, ERR_IO, "rename to %.128s: %s", name, strerror(errno));
}

int saved_files_bring_back(const char *folder, const struct saved_names *names, struct err *err)
{
    CHECK(names->files != NULL);
    coming.names = names;
    coming.root = strlen(folder);
    coming.err = err;
    err->text[0] = '\0';
    if (nftw(folder, bring_back, WALK_DESCRIPTORS, FTW_PHYS) == 0)
        return 0;
    return err->text[0] != '\0' ? -1 : err_set(err, ERR_IO, "%.128s: %s", folder, strerror(errno));
}
