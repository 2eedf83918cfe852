/* See orphans.h. */
#include "src/broker/keep/orphans.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"

/* The next name of the path, which moves behind it; false: it is no id, or the path ends. */
static bool take_name(const char **path, char ret_name[ID_MAX_BYTES + 1])
{
    size_t length = strcspn(*path, "/");

    if (length == 0 || length > ID_MAX_BYTES)
        return false;
    memcpy(ret_name, *path, length);
    ret_name[length] = '\0';
    *path += length + ((*path)[length] == '/');
    return id_valid(ret_name);
}

bool orphan_of_path(const char *path, struct orphan *orphan)
{
    char folder[ID_MAX_BYTES + 1], checkpoint[ID_MAX_BYTES + 1];

    return take_name(&path, orphan->tenant) && take_name(&path, orphan->project) &&
           take_name(&path, orphan->allocation_id) && take_name(&path, folder) &&
           strcmp(folder, "checkpoints") == 0 && take_name(&path, checkpoint) && *path == '\0' &&
           checkpoint_id_parse(checkpoint, &orphan->checkpoint_id) == 0;
}

/* What a killed removal left comes in the same folder, and so close by. */
static struct orphan *find_near(const struct orphan_list *list, const struct orphan *orphan)
{
    for (size_t i = list->count; i > 0 && list->count - i < 128; i--)
        if (list->items[i - 1].checkpoint_id == orphan->checkpoint_id &&
            list->items[i - 1].target_slot == orphan->target_slot)
            return &list->items[i - 1];
    return NULL;
}

void orphan_list_add(struct orphan_list *list, const struct orphan *orphan)
{
    struct orphan *same = find_near(list, orphan);

    if (same != NULL) {
        same->size_bytes += orphan->size_bytes;
        if (orphan->age_ms < same->age_ms)
            same->age_ms = orphan->age_ms;
        return;
    }
    if (list->count == ORPHANS_MAX) {
        list->left_out++;
        return;
    }
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->items = check_realloc(list->items, list->capacity, sizeof(*list->items));
    }
    list->items[list->count++] = *orphan;
}

void orphan_to_message(const struct orphan *orphan, const char *target_id,
                       Ckpt__V1__Orphan *ret_message)
{
    CHECK(orphan->checkpoint_id != 0);
    ckpt__v1__orphan__init(ret_message);
    ret_message->checkpoint_id = orphan->checkpoint_id;
    ret_message->allocation_id = text_message(orphan->allocation_id);
    ret_message->tenant = text_message(orphan->tenant);
    ret_message->project = text_message(orphan->project);
    ret_message->target_id = text_message(target_id);
    ret_message->size_bytes = orphan->size_bytes;
    ret_message->age_ms = orphan->age_ms;
    ret_message->owner = text_message(orphan->owner);
}

void orphan_list_drop(struct orphan_list *list, uint64_t checkpoint_id)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].checkpoint_id != checkpoint_id)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

void orphan_list_clear(struct orphan_list *list)
{
    free(list->items);
    *list = (struct orphan_list){NULL, 0, 0, 0};
}

uint64_t orphan_list_replace(struct orphan_list *list, uint32_t target_slot,
                             const struct orphan_list *found)
{
    struct orphan_list kept = {NULL, 0, 0, 0};

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].target_slot != target_slot)
            orphan_list_add(&kept, &list->items[i]);
    for (size_t i = 0; i < found->count; i++)
        orphan_list_add(&kept, &found->items[i]);
    orphan_list_clear(list);
    *list = kept;
    return found->left_out + kept.left_out;
}
