/* Symbolic links of a shard: which may be kept, and their lines. See manifest.h. */
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/manifest_internal.h"

void manifest_add_link(struct manifest *manifest, const char *path, const char *to)
{
    if (manifest->link_count == manifest->link_capacity) {
        manifest->link_capacity = manifest->link_capacity == 0 ? 16 : manifest->link_capacity * 2;
        manifest->links =
            check_realloc(manifest->links, manifest->link_capacity, sizeof(*manifest->links));
    }
    manifest->links[manifest->link_count++] =
        (struct manifest_link){.path = check_strdup(path), .to = check_strdup(to)};
    manifest->names_bytes += strlen(path) + strlen(to);
}

void manifest_copy_links(struct manifest *manifest, const struct manifest *from)
{
    for (size_t i = 0; i < from->link_count; i++)
        manifest_add_link(manifest, from->links[i].path, from->links[i].to);
}

void manifest_links_close(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->link_count; i++) {
        free(manifest->links[i].path);
        free(manifest->links[i].to);
    }
    free(manifest->links);
}

/* ---- which ---- */

/* Upwards only before anything else: behind a name, which may be a link itself, nobody knows from
 * the text alone where that leads. As far up as the link's own folder is deep, it is a folder of
 * the checkpoint. From there on each name leads further down, or through another link that keeps to
 * the same rule. */
const char *manifest_link_problem(const char *path, const char *to)
{
    size_t up = 0, depth = 0;
    bool named = false;

    if (to[0] == '\0' || strlen(to) >= MANIFEST_PATH_MAX_BYTES)
        return "is empty or over 4095 bytes";
    if (to[0] == '/')
        return "is absolute, and leads elsewhere when the checkpoint is restored";
    for (const char *at = path; *at != '\0'; at++)
        depth += *at == '/';
    for (const char *at = to; *at != '\0';) {
        size_t length = strcspn(at, "/");

        if (length == 2 && at[0] == '.' && at[1] == '.') {
            if (named)
                return "has \"..\" behind a name";
            if (++up > depth)
                return "leads out of the checkpoint's folder";
        } else if (length > 0 && !(length == 1 && at[0] == '.')) {
            named = true;
        }
        at += length + (at[length] == '/');
    }
    return NULL;
}

static int link_compare(const void *a, const void *b)
{
    const struct manifest_link *one = a, *other = b;

    return strcmp(one->path, other->path);
}

void manifest_links_sort(struct manifest *manifest)
{
    if (manifest->link_count > 1)
        qsort(manifest->links, manifest->link_count, sizeof(*manifest->links), link_compare);
}

bool manifest_has_link(const struct manifest *manifest, const char *path)
{
    const struct manifest_link key = {.path = (char *)(uintptr_t)path}; /* is only compared */

    return manifest->link_count > 0 &&
           bsearch(&key, manifest->links, manifest->link_count, sizeof(key), link_compare) != NULL;
}

/* ---- lines ---- */

/* As sha256sum writes names: a backslash and a newline would end or change the line. */
void manifest_append_name(struct buf *text, const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '\\')
            buf_append(text, "\\\\", 2);
        else if (*c == '\n')
            buf_append(text, "\\n", 2);
        else
            buf_append(text, c, 1);
    }
    buf_append(text, "\n", 1);
}

void manifest_links_encode(const struct manifest *manifest, struct buf *text)
{
    for (size_t i = 0; i < manifest->link_count; i++) {
        buf_printf(text, MANIFEST_LINK_PREFIX);
        manifest_append_name(text, manifest->links[i].path);
        buf_printf(text, MANIFEST_LINK_TO_PREFIX);
        manifest_append_name(text, manifest->links[i].to);
    }
}

/* ---- comparing ---- */

int manifest_links_compare(const struct manifest *expected, const struct manifest *found,
                           struct err *err)
{
    for (size_t i = 0; i < expected->link_count || i < found->link_count; i++) {
        const struct manifest_link *was = i < expected->link_count ? &expected->links[i] : NULL;
        const struct manifest_link *is = i < found->link_count ? &found->links[i] : NULL;
        int order = was == NULL ? 1 : is == NULL ? -1 : strcmp(was->path, is->path);

        if (order < 0)
            return err_set(err, ERR_CORRUPT, "the link \"%.200s\" is missing", was->path);
        if (order > 0)
            return err_set(err, ERR_CORRUPT,
                           "\"%.200s\" is a symbolic link that is not in the manifest", is->path);
        if (strcmp(was->to, is->to) != 0)
            return err_set(err, ERR_CORRUPT,
                           "the link \"%.150s\" leads to \"%.150s\", the manifest says \"%.150s\"",
                           is->path, is->to, was->to);
    }
    return 0;
}
