/* Symbolic links among the files of a save. See run_saved_links.h. */
#include "src/agent/run/run_saved_links.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/run/run_saved_paths.h"
#include "src/agent/run/run_say.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/dest/manifest.h"

enum { WALK_DESCRIPTORS = 16, RECORDS_MAX_BYTES = SAVED_FILES_MAX * 2 * PATH_MAX };

static bool text_of(const char *path, char ret_text[PATH_MAX])
{
    ssize_t length = readlink(path, ret_text, PATH_MAX - 1);

    ret_text[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

/* It is a record: a checkpoint cannot hold it. */
static bool leads_out(const char *path, char ret_text[PATH_MAX])
{
    return text_of(path, ret_text) && manifest_link_problem(path, ret_text) != NULL;
}

/* ---- what lies behind ---- */

/* nftw() has no place for data. */
static struct {
    struct timespec newer_than;
    size_t looked;
    char found[PATH_MAX]; /* a newer file; "": none */
} behind;

static int visit_behind(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    const struct timespec *changed = &stat->st_mtim;

    (void)place;
    if (saved_path_leaves_out(stat))
        return kind == FTW_D ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
    if (kind == FTW_F && S_ISREG(stat->st_mode) &&
        (changed->tv_sec > behind.newer_than.tv_sec ||
         (changed->tv_sec == behind.newer_than.tv_sec &&
          changed->tv_nsec > behind.newer_than.tv_nsec))) {
        snprintf(behind.found, sizeof(behind.found), "%s", path);
        return FTW_STOP;
    }
    return ++behind.looked < SAVED_LINKS_LOOKED_MAX ? FTW_CONTINUE : FTW_STOP;
}

/* All below this folder is saved, or left out, under its own name. */
static bool is_below_here(const char *path)
{
    char here[PATH_MAX];
    size_t length;

    if (getcwd(here, sizeof(here)) == NULL)
        return false;
    length = strlen(here);
    return strncmp(path, here, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static void judge_links(const struct saved_files *files, const struct timespec *newer_than,
                        char *ret_why, size_t size)
{
    char text[PATH_MAX], real[PATH_MAX];

    ret_why[0] = '\0';
    for (size_t i = 0; i < files->link_count && ret_why[0] == '\0'; i++) {
        if (!leads_out(files->links[i], text) || realpath(files->links[i], real) == NULL ||
            is_below_here(real))
            continue;
        behind.newer_than = *newer_than;
        behind.looked = 0;
        behind.found[0] = '\0';
        (void)nftw(real, visit_behind, WALK_DESCRIPTORS, FTW_PHYS | FTW_ACTIONRETVAL);
        if (behind.found[0] != '\0')
            snprintf(ret_why, size, /* within what an answer holds */
                     "link %.40s: %.60s behind it was written, and is not saved; write below this "
                     "folder, or name files (--checkpoint-files)",
                     files->links[i], behind.found);
    }
}

/* Once for all saves of this process. */
static void say_outer_links(const struct saved_files *files)
{
    static bool said;
    char text[PATH_MAX];
    size_t count = 0, first = 0;

    for (size_t i = files->link_count; i > 0; i--) {
        if (!leads_out(files->links[i - 1], text))
            continue;
        count++;
        first = i - 1;
    }
    if (said || count == 0 || !text_of(files->links[first], text))
        return;
    said = true;
    run_say("%zu symbolic link%s out of the folder, as %.100s to %.200s: saved as %s, without what "
            "lies behind",
            count, count == 1 ? " leads" : "s lead", files->links[first], text,
            count == 1 ? "a link" : "links");
}

void saved_links_judge(const struct saved_files *files, const struct timespec *newer_than,
                       char *ret_why, size_t size)
{
    judge_links(files, newer_than, ret_why, size);
    if (ret_why[0] == '\0')
        say_outer_links(files);
}

/* ---- copying ---- */

static int write_records(const struct buf *records, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    FILE *file;
    bool written;

    snprintf(path, sizeof(path), "%.4000s/" SAVED_LINKS_NAME, folder);
    file = fopen(path, "wxe");
    written = file != NULL && fwrite(records->bytes, 1, records->length, file) == records->length;
    if (file != NULL && fclose(file) != 0)
        written = false;
    return written ? 0 : err_set(err, ERR_IO, "%.128s: %s", path, strerror(errno));
}

static int copy_link(const char *path, const char *text, const char *folder, struct err *err)
{
    char target[PATH_MAX];

    if (snprintf(target, sizeof(target), "%s/%s", folder, path) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of %.128s is too long", path);
    if (saved_path_make_parents(target) == 0 && symlink(text, target) == 0)
        return 0;
    return err_set(err, ERR_IO, "link %.128s: %s", target, strerror(errno));
}

int saved_links_copy(const struct saved_files *files, const char *folder, struct err *err)
{
    char text[PATH_MAX];
    struct buf records;
    int result = 0;

    buf_init(&records);
    for (size_t i = 0; i < files->link_count && result == 0; i++) {
        const char *path = files->links[i];

        if (leads_out(path, text)) {
            buf_append(&records, path, strlen(path) + 1);
            buf_append(&records, text, strlen(text) + 1);
        } else if (text[0] != '\0') { /* else it has gone meanwhile */
            result = copy_link(path, text, folder, err);
        }
    }
    if (result == 0 && records.length > 0)
        result = write_records(&records, folder, err);
    buf_close(&records);
    return result;
}

/* ---- bringing back ---- */

/* One that is as it was stays; what else lies there gives way at once. */
static int make_link(const char *name, const char *text, struct err *err)
{
    char new_name[PATH_MAX], found[PATH_MAX];

    if (text_of(name, found) && strcmp(found, text) == 0)
        return 0;
    if (snprintf(new_name, sizeof(new_name), "%s.ckpt-new", name) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of %.128s is too long", name);
    (void)unlink(new_name);
    if (saved_path_make_parents(new_name) == 0 && symlink(text, new_name) == 0 &&
        rename(new_name, name) == 0)
        return 0;
    err_set(err, ERR_IO, "link %.128s: %s", name, strerror(errno));
    (void)unlink(new_name);
    return -1;
}

int saved_link_bring_back(const char *path, const char *name, struct err *err)
{
    char text[PATH_MAX];

    if (!text_of(path, text))
        return err_set(err, ERR_IO, "%.128s: %s", path, strerror(errno));
    return make_link(name, text, err);
}

/* A name below this folder, as saved_links_copy() has written it. */
static bool is_own_name(const char *name)
{
    return name[0] != '\0' && name[0] != '/' && strncmp(name, "../", 3) != 0 &&
           strcmp(name, "..") != 0 && strstr(name, "/../") == NULL;
}

static int take_records(const char *at, const char *end, struct err *err)
{
    while (at < end) {
        const char *text = memchr(at, '\0', (size_t)(end - at));
        const char *last = text == NULL ? NULL : memchr(text + 1, '\0', (size_t)(end - text - 1));

        if (last == NULL || !is_own_name(at))
            return err_set(err, ERR_CORRUPT, SAVED_LINKS_NAME " of the checkpoint is none");
        if (make_link(at, text + 1, err) != 0)
            return -1;
        at = last + 1;
    }
    return 0;
}

int saved_links_bring_back(const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    char bytes[PATH_MAX];
    struct buf records;
    size_t got;
    int result;

    if (file == NULL)
        return err_set(err, ERR_IO, "%.128s: %s", path, strerror(errno));
    buf_init(&records);
    while (records.length < RECORDS_MAX_BYTES && (got = fread(bytes, 1, sizeof(bytes), file)) > 0)
        buf_append(&records, bytes, got);
    fclose(file);
    result = take_records((const char *)records.bytes, (const char *)records.bytes + records.length,
                          err);
    buf_close(&records);
    return result;
}
