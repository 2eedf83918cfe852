/* The local files of a simulated machine. See agent_files.h. */
#include "tests/sim/agent_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

struct agent_files {
    struct agent_file *list;
    size_t count, capacity;
    uint64_t changes;
    void (*changed)(void *data, const char *path);
    void *data;
};

struct agent_files *agent_files_new(void (*changed)(void *data, const char *path), void *data)
{
    struct agent_files *files = check_calloc(1, sizeof(*files));

    files->changed = changed;
    files->data = data;
    return files;
}

static void file_close(struct agent_file *file)
{
    free(file->path);
    buf_close(&file->content);
}

void agent_files_free(struct agent_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        file_close(&files->list[i]);
    free(files->list);
    free(files);
}

static struct agent_file *find(const struct agent_files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->list[i].path, path) == 0)
            return &files->list[i];
    return NULL;
}

/* Where the path leads; links on the way are followed. */
static const char *resolve(const struct agent_files *files, const char *path, char text[PATH_MAX])
{
    for (size_t i = 0; i < files->count; i++) {
        const struct agent_file *link = &files->list[i];
        size_t length = strlen(link->path);

        if (!link->link || strncmp(path, link->path, length) != 0 || path[length] != '/')
            continue;
        snprintf(text, PATH_MAX, "%.*s%s", (int)link->content.length,
                 (const char *)link->content.bytes, path + length);
        return text;
    }
    return path;
}

const struct agent_file *agent_files_find(const struct agent_files *files, const char *path)
{
    return find(files, path);
}

static bool below(const struct agent_file *file, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(file->path, folder, length) == 0 && file->path[length] == '/';
}

const struct agent_file *agent_files_below(const struct agent_files *files, const char *folder,
                                           size_t i)
{
    char text[PATH_MAX];

    folder = resolve(files, folder, text);
    for (size_t at = 0; at < files->count; at++)
        if (!files->list[at].folder && !files->list[at].link && below(&files->list[at], folder) &&
            i-- == 0)
            return &files->list[at];
    return NULL;
}

static bool parent_exists(const struct agent_files *files, const char *path)
{
    char *parent = check_strdup(path);
    char *slash = strrchr(parent, '/');
    bool exists = slash == parent;
    const struct agent_file *file;

    CHECK(slash != NULL);
    *slash = '\0';
    file = exists ? NULL : find(files, parent);
    exists = exists || (file != NULL && file->folder);
    free(parent);
    return exists;
}

static struct agent_file *add(struct agent_files *files, const char *path, bool folder)
{
    struct agent_file *file;

    if (files->count == files->capacity) {
        files->capacity = files->capacity == 0 ? 32 : files->capacity * 2;
        files->list = check_realloc(files->list, files->capacity, sizeof(*files->list));
    }
    file = &files->list[files->count++];
    *file = (struct agent_file){.path = check_strdup(path), .folder = folder};
    buf_init(&file->content);
    return file;
}

static void touch(struct agent_files *files, struct agent_file *file)
{
    file->changes = ++files->changes;
    if (files->changed != NULL)
        files->changed(files->data, file->path);
}

int agent_files_make_folder(struct agent_files *files, const char *path)
{
    char text[PATH_MAX];

    path = resolve(files, path, text);
    if (find(files, path) != NULL)
        return EEXIST;
    if (!parent_exists(files, path))
        return ENOENT;
    touch(files, add(files, path, true));
    return 0;
}

int agent_files_make_link(struct agent_files *files, const char *path, const char *to)
{
    struct agent_file *link;

    if (find(files, path) != NULL)
        return EEXIST;
    if (!parent_exists(files, path))
        return ENOENT;
    link = add(files, path, false);
    link->link = true;
    buf_append(&link->content, to, strlen(to));
    touch(files, link);
    return 0;
}

const char *agent_files_link_to(const struct agent_files *files, const char *to)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct agent_file *link = &files->list[i];

        if (link->link && link->content.length == strlen(to) &&
            memcmp(link->content.bytes, to, link->content.length) == 0)
            return link->path;
    }
    return NULL;
}

int agent_files_write(struct agent_files *files, const char *path, const void *bytes, size_t length)
{
    char text[PATH_MAX];
    struct agent_file *file;

    path = resolve(files, path, text);
    file = find(files, path);
    if (file == NULL && !parent_exists(files, path))
        return ENOENT;
    if (file == NULL)
        file = add(files, path, false);
    CHECK(!file->folder && !file->link);
    buf_clear(&file->content);
    buf_append(&file->content, bytes, length);
    touch(files, file);
    return 0;
}

struct buf *agent_files_map(struct agent_files *files, const char *path)
{
    struct agent_file *file = find(files, path);

    return file == NULL || file->folder || file->link ? NULL : &file->content;
}

static void drop(struct agent_files *files, size_t i)
{
    file_close(&files->list[i]);
    files->count--;
    memmove(&files->list[i], &files->list[i + 1], (files->count - i) * sizeof(files->list[0]));
}

int agent_files_rename(struct agent_files *files, const char *from, const char *to)
{
    struct agent_file *file = find(files, from);

    if (file == NULL || !parent_exists(files, to))
        return ENOENT;
    CHECK(!file->folder);
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->list[i].path, to) == 0) {
            drop(files, i);
            break;
        }
    }
    file = find(files, from);
    free(file->path);
    file->path = check_strdup(to);
    touch(files, file);
    return 0;
}

void agent_files_remove(struct agent_files *files, const char *path)
{
    for (size_t i = files->count; i-- > 0;)
        if (strcmp(files->list[i].path, path) == 0 || below(&files->list[i], path))
            drop(files, i);
}
