/* The files that are restored here: their step, and the folder of each rank. See ckptapp.h. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "src/app/handle.h"

#define FILE_SCHEME "file://"

/* The lowest rank above `after`; of one that several parts have, the folder that sorts last. */
struct search {
    int64_t after, found; /* -1: none yet */
    char folder[PATH_BYTES];
};

uint64_t ckpt_restored_step(const struct ckpt *ckpt)
{
    const char *label = ckpt_restore_label(ckpt);
    uint64_t step;

    return label != NULL && ckptapp_number(label, &step) == 0 ? step : 0;
}

/* 0; or the error. */
static int base_folder(const struct ckpt *ckpt, char base[PATH_BYTES])
{
    const char *directory = ckpt_restore_directory(ckpt), *uri = ckpt_restore_uri(ckpt);

    if (directory != NULL)
        return ckptapp_copy(base, PATH_BYTES, directory) == 0 ? 0 : ENAMETOOLONG;
    if (uri == NULL)
        return ENOENT;
    if (strncmp(uri, FILE_SCHEME "/", sizeof(FILE_SCHEME)) != 0)
        return ENOTSUP;
    if (ckptapp_copy(base, PATH_BYTES, uri + sizeof(FILE_SCHEME) - 1) != 0)
        return ENAMETOOLONG;
    return ckptapp_word_decode(base) == 0 ? 0 : EINVAL;
}

static int path_join(char path[PATH_BYTES], const char *folder, const char *name)
{
    struct ckptapp_text text = {path, PATH_BYTES - 1, 0, false};

    ckptapp_put(&text, folder);
    ckptapp_put(&text, "/");
    ckptapp_put(&text, name);
    path[text.length] = '\0';
    return text.full ? ENAMETOOLONG : 0;
}

static int take_rank(struct search *search, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    uint64_t rank;
    int failed;

    if (strncmp(name, "rank-", 5) != 0 || ckptapp_number(name + 5, &rank) != 0 ||
        rank > INT64_MAX || (int64_t)rank <= search->after ||
        (search->found >= 0 && (int64_t)rank > search->found))
        return 0;
    failed = path_join(path, folder, name);
    if (failed != 0)
        return failed;
    if ((int64_t)rank == search->found && strcmp(path, search->folder) < 0)
        return 0;
    search->found = (int64_t)rank;
    memcpy(search->folder, path, strlen(path) + 1);
    return 0;
}

/* A folder has ranks, or parts that have them. */
static int look_in(struct search *search, const char *folder, bool has_parts)
{
    DIR *open = opendir(folder);
    char path[PATH_BYTES];
    struct dirent *entry;
    int failed = 0;

    if (open == NULL)
        return errno;
    while (failed == 0 && (entry = readdir(open)) != NULL) {
        failed = take_rank(search, folder, entry->d_name);
        if (failed != 0 || !has_parts || strncmp(entry->d_name, "part-", 5) != 0)
            continue;
        failed = path_join(path, folder, entry->d_name);
        if (failed == 0)
            failed = look_in(search, path, false);
        if (failed == ENOTDIR) /* a file of that name holds no ranks */
            failed = 0;
    }
    closedir(open);
    return failed;
}

int64_t ckpt_restored_next(const struct ckpt *ckpt, int64_t rank, char *folder, size_t size)
{
    struct search search = {.after = rank, .found = -1};
    char base[PATH_BYTES];
    int caller_errno = errno, failed = base_folder(ckpt, base);

    if (failed == 0)
        failed = look_in(&search, base, true);
    if (failed == 0 && search.found < 0)
        failed = ENOENT;
    if (failed == 0 && ckptapp_copy(folder, size, search.folder) != 0)
        failed = ERANGE;
    errno = failed == 0 ? caller_errno : failed;
    return failed == 0 ? search.found : -1;
}
