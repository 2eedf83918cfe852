/* See walk.h. */
#include "src/telemetry/walk.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

static void walk_clear(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        free(walk->documents[i].path);
    walk->count = walk->next = 0;
}

void walk_close(struct walk *walk)
{
    walk_clear(walk);
    free(walk->documents);
    memset(walk, 0, sizeof(*walk));
}

static void walk_add(struct walk *walk, const char *path, uint8_t depth)
{
    for (size_t i = 0; i < walk->count; i++) {
        if (strcmp(walk->documents[i].path, path) == 0)
            return;
    }
    if (walk->count == WALK_DOCUMENTS_MAX || depth > WALK_DEPTH_MAX) {
        walk->cut++;
        return;
    }
    if (walk->count == walk->capacity) {
        walk->capacity = walk->capacity == 0 ? 64 : walk->capacity * 2;
        walk->documents = check_realloc(walk->documents, walk->capacity, sizeof(*walk->documents));
    }
    walk->documents[walk->count++] =
        (struct walk_document){.path = check_strdup(path), .depth = depth};
}

static void keep_leaves(struct walk *walk)
{
    size_t kept = 0;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->documents[i].leaf)
            walk->documents[kept++] = walk->documents[i];
        else
            free(walk->documents[i].path);
    }
    walk->count = kept;
    walk->next = 0;
}

void walk_begin(struct walk *walk)
{
    walk->cut = 0;
    keep_leaves(walk);
    walk->discover = walk->stale || walk->count == 0 || walk->polls + 1 >= WALK_EVERY;
    if (!walk->discover) {
        walk->polls++;
        return;
    }
    walk_clear(walk);
    walk->stale = false;
    walk->polls = 0;
    walk_add(walk, redfish_root(), 0);
}

const char *walk_next(struct walk *walk)
{
    return walk->next < walk->count ? walk->documents[walk->next].path : NULL;
}

void walk_found(struct walk *walk, const struct redfish_links *links)
{
    uint8_t depth;

    CHECK(walk->next < walk->count);
    depth = walk->documents[walk->next].depth;
    walk->documents[walk->next].leaf = links->leaf;
    walk->next++;
    for (size_t i = 0; walk->discover && i < links->count; i++)
        walk_add(walk, links->items[i], (uint8_t)(depth + 1));
}

void walk_missed(struct walk *walk)
{
    CHECK(walk->next < walk->count);
    walk->stale = true; /* it may have another place now */
    walk->next++;
}
