/* Where profiles are: built in from deploy/profiles, and files of the site. See profile.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/profile/profile.h"

#define SUFFIX ".yaml"

/* NAME, NUL, text, NUL, for each file of deploy/profiles in order (Makefile). */
extern const char ckpt_profiles[], ckpt_profiles_end[];

/* ---- built in ---- */

/* The one behind `at`; NULL: no more. The first one comes for NULL. */
static const char *next_built_in(const char *at)
{
    if (at == NULL)
        at = ckpt_profiles;
    else
        for (int i = 0; i < 2; i++) /* its name and its text */
            at += strlen(at) + 1;
    CHECK(at <= ckpt_profiles_end);
    return at < ckpt_profiles_end ? at : NULL;
}

static const char *find_built_in(const char *name)
{
    const char *at = NULL;

    while ((at = next_built_in(at)) != NULL)
        if (strcmp(at, name) == 0)
            return at;
    return NULL;
}

static void take_built_in(const char *at, struct profile_source *ret_source)
{
    const char *text = at + strlen(at) + 1;

    snprintf(ret_source->path, sizeof(ret_source->path), "%s (built in)", at);
    ret_source->text = check_strdup(text);
    ret_source->length = strlen(text);
}

/* ---- files ---- */

static const char *site_folder(void)
{
    const char *folder = getenv("CKPT_PROFILES");

    return folder != NULL && folder[0] != '\0' ? folder : PROFILE_FOLDER;
}

static int read_whole(int fd, struct profile_source *source, struct err *err)
{
    char *text = check_alloc(PROFILE_FILE_BYTES + 1);
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length <= PROFILE_FILE_BYTES) {
        got = read(fd, text + length, PROFILE_FILE_BYTES + 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    if (got >= 0 && length <= PROFILE_FILE_BYTES) {
        text[length] = '\0';
        source->text = text;
        source->length = length;
        return 0;
    }
    free(text);
    if (got < 0)
        return err_set(err, ERR_IO, "%.300s: cannot be read: %s", source->path, strerror(errno));
    return err_set(err, ERR_INVALID, "%.300s: larger than %d bytes, which a profile has at most",
                   source->path, PROFILE_FILE_BYTES);
}

/* A pipe would hold whoever opens it. */
static int take_file(const char *path, struct profile_source *ret_source, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), result;
    struct stat stat;

    snprintf(ret_source->path, sizeof(ret_source->path), "%s", path);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO,
                       "%.300s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        result = err_set(err, ERR_INVALID, "%.300s: is no regular file", path);
    else
        result = read_whole(fd, ret_source, err);
    close(fd);
    return result;
}

static bool is_path(const char *word)
{
    size_t length = strlen(word);

    return strchr(word, '/') != NULL ||
           (length > strlen(SUFFIX) && strcmp(word + length - strlen(SUFFIX), SUFFIX) == 0);
}

static int fail_unknown(const char *word, struct err *err)
{
    static struct profile_name names[PROFILES_MAX];
    const char *nearest = NULL;
    size_t count = profile_names(names), best = SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        size_t distance = text_distance(word, names[i].name);

        if (nearest == NULL || distance < best) {
            nearest = names[i].name;
            best = distance;
        }
    }
    return err_set(err, ERR_NOT_FOUND,
                   "there is no profile \"%.64s\"; the nearest is %s, and ckptctl profile list "
                   "shows all",
                   word, nearest == NULL ? "none" : nearest);
}

int profile_source_find(const char *word, struct profile_source *ret_source, struct err *err)
{
    char path[PATH_MAX];
    const char *built_in;

    *ret_source = (struct profile_source){.text = NULL};
    if (strlen(word) >= PATH_MAX - 1)
        return err_set(err, ERR_INVALID, "the profile's path has %zu bytes, at most %d are taken",
                       strlen(word), PATH_MAX - 2);
    if (is_path(word))
        return take_file(word, ret_source, err);
    if (!id_valid(word))
        return err_set(
            err, ERR_INVALID,
            "the profile \"%.64s\" must be a name, 1 to %d characters of A-Z a-z 0-9 . _ "
            "-, or the path of a file",
            word, ID_MAX_BYTES);
    if (snprintf(path, sizeof(path), "%s/%s" SUFFIX, site_folder(), word) < PATH_MAX &&
        access(path, F_OK) == 0)
        return take_file(path, ret_source, err);
    built_in = find_built_in(word);
    if (built_in == NULL)
        return fail_unknown(word, err);
    take_built_in(built_in, ret_source);
    return 0;
}

void profile_source_free(struct profile_source *source)
{
    free(source->text);
    source->text = NULL;
}

/* ---- all of them ---- */

static int compare_names(const void *a, const void *b)
{
    const struct profile_name *left = a, *right = b;

    return strcmp(left->name, right->name);
}

static void add_name(struct profile_name *names, size_t *count, const char *name, bool built_in)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i].name, name) == 0)
            return;
    if (*count == PROFILES_MAX)
        return;
    snprintf(names[*count].name, sizeof(names[*count].name), "%s", name);
    names[(*count)++].built_in = built_in;
}

static void add_site_names(struct profile_name *names, size_t *count)
{
    DIR *folder = opendir(site_folder());
    const struct dirent *entry;
    char name[ID_MAX_BYTES + 1];

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);

        if (length <= strlen(SUFFIX) || length - strlen(SUFFIX) > ID_MAX_BYTES ||
            !is_path(entry->d_name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(length - strlen(SUFFIX)), entry->d_name);
        if (id_valid(name))
            add_name(names, count, name, false);
    }
    if (folder != NULL)
        closedir(folder);
}

size_t profile_names(struct profile_name ret_names[PROFILES_MAX])
{
    size_t count = 0;

    add_site_names(ret_names, &count);
    for (const char *at = next_built_in(NULL); at != NULL; at = next_built_in(at))
        add_name(ret_names, &count, at, true);
    qsort(ret_names, count, sizeof(*ret_names), compare_names);
    return count;
}
