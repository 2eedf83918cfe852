/* Texts that many records share (tenants, owners, ids in events), held once and counted. */
#include <malloc.h>

#include "fsm/state.h"

static bool intern_equal(const void *item, const char *key)
{
    return strcmp(((const struct interned *)item)->text, key) == 0;
}

static struct interned *intern_of(const char *text)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {text};

    return (struct interned *)(void *)(pointer.changing - offsetof(struct interned, text));
}

const char *fsm_intern(struct fsm *fsm, const char *text)
{
    uint32_t hash = fsm_hash_text(text);
    struct interned *interned = fsm_map_find(&fsm->intern_map, hash, intern_equal, text);
    size_t size;

    if (interned == NULL) {
        size = strlen(text) + 1;
        interned = check_alloc(sizeof(*interned) + size);
        interned->reference_count = 0;
        interned->hash = hash;
        memcpy(interned->text, text, size);
        fsm_map_add(&fsm->intern_map, hash, interned);
    }
    interned->reference_count++;
    return interned->text;
}

void fsm_intern_release(struct fsm *fsm, const char *text)
{
    struct interned *interned;

    if (text == NULL)
        return;
    interned = intern_of(text);
    CHECK(interned->reference_count > 0);
    if (--interned->reference_count > 0)
        return;
    fsm_map_remove(&fsm->intern_map, interned->hash, interned);
    free(interned);
}
