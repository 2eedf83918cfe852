/* Texts that many records share (tenants, owners, ids in events), held once and counted. The ids of
 * allocations are counted, but not looked for here: they have a table of their own, and a million
 * of them would be in both. */
#include <malloc.h>

#include "fsm/core/state.h"

enum { INTERN_REFERENCES_MAX = INT32_MAX };

static bool intern_equal(const void *item, const char *key)
{
    return strcmp(((const struct interned *)item)->text, key) == 0;
}

/* From the text, as everybody has it, to its count in front of it. */
static struct interned *intern_of(const char *text)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {text};

    return (struct interned *)(void *)(pointer.changing - offsetof(struct interned, text));
}

/* Nobody refers to it yet. */
static struct interned *intern_new(struct fsm *fsm, const char *text, uint32_t hash, bool shared)
{
    size_t size = strlen(text) + 1;
    struct interned *interned = fsm_block_take(fsm->blocks, sizeof(*interned) + size);

    *interned = (struct interned){.hash = hash, .shared = shared};
    memcpy(interned->text, text, size);
    return interned;
}

/* The same few tenants, projects and owners come again and again: the last one of each place is
 * compared before the table is asked. */
static struct interned **intern_place(struct fsm *fsm, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned place = at[0] == '\0' ? 0 : at[0] * 5u + at[1];

    return &fsm->intern_recent[place % INTERN_RECENT];
}

/* Equal texts are one pointer, so comparing two of them is comparing two pointers (accounts.c,
 * learn.c). */
const char *fsm_intern(struct fsm *fsm, const char *text)
{
    struct interned **recent = intern_place(fsm, text);
    struct interned *interned = *recent;
    uint32_t hash;

    if (interned != NULL && strcmp(interned->text, text) == 0)
        return fsm_intern_again(interned->text);
    hash = fsm_hash_text(text);
    interned = fsm_map_find(&fsm->intern_map, hash, intern_equal, text);
    if (interned == NULL) {
        interned = intern_new(fsm, text, hash, true);
        fsm_map_add(&fsm->intern_map, hash, interned);
    }
    *recent = interned;
    return fsm_intern_again(interned->text);
}

/* The caller has a table of its own in which it finds the text by its hash. */
const char *fsm_intern_alone(struct fsm *fsm, const char *text, uint32_t hash)
{
    CHECK(text != NULL);
    fsm->intern_alone_count++;
    return fsm_intern_again(intern_new(fsm, text, hash, false)->text);
}

/* The CHECK is of the field's 31 bits: a million jobs of one tenant are far below. */
const char *fsm_intern_again(const char *text)
{
    struct interned *interned = intern_of(text);

    CHECK(interned->reference_count < INTERN_REFERENCES_MAX);
    interned->reference_count++;
    return text;
}

uint32_t fsm_intern_hash(const char *text)
{
    CHECK(text != NULL);
    return intern_of(text)->hash;
}

/* The last reference takes the text along, also out of the short list of recent ones. */
void fsm_intern_release(struct fsm *fsm, const char *text)
{
    struct interned *interned;

    if (text == NULL)
        return;
    interned = intern_of(text);
    CHECK(interned->reference_count > 0);
    if (--interned->reference_count > 0)
        return;
    if (interned->shared) {
        struct interned **recent = intern_place(fsm, text);

        fsm_map_remove(&fsm->intern_map, interned->hash, interned);
        if (*recent == interned)
            *recent = NULL;
    } else {
        CHECK(fsm->intern_alone_count > 0);
        fsm->intern_alone_count--;
    }
    fsm_block_give(fsm->blocks, interned, sizeof(*interned) + strlen(text) + 1);
}

/* The new one is held before the old one is let go: they may be the same. */
void fsm_intern_set(struct fsm *fsm, const char **text, const char *fresh)
{
    const char *old = *text;

    CHECK(fresh != NULL);
    *text = fsm_intern(fsm, fresh);
    fsm_intern_release(fsm, old);
}
