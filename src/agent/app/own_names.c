/* Names and groups of users of the node. See own_names.h. */
#include "src/agent/app/own_names.h"

#include <stddef.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/base/text.h"

const struct own_name *own_names_get(const struct own_names *names, uid_t uid, uint64_t now_us)
{
    for (size_t i = 0; i < OWN_NAMES_MAX; i++) {
        const struct own_name *item = &names->items[i];

        if (item->groups != NULL && item->uid == uid)
            return now_us - item->found_us < OWN_NAMES_FRESH_US ? item : NULL;
    }
    return NULL;
}

/* The user's own, else a free one, else the eldest. */
static struct own_name *place_for(struct own_names *names, uid_t uid)
{
    struct own_name *place = &names->items[0];

    for (size_t i = 0; i < OWN_NAMES_MAX; i++) {
        struct own_name *item = &names->items[i];

        if (item->groups != NULL && item->uid == uid)
            return item;
        if (place->groups != NULL && (item->groups == NULL || item->found_us < place->found_us))
            place = item;
    }
    return place;
}

void own_names_put(struct own_names *names, uid_t uid, uint64_t now_us, const char *owner,
                   const char *groups)
{
    struct own_name *place = place_for(names, uid);

    CHECK(owner[0] != '\0');
    free(place->groups);
    *place = (struct own_name){.uid = uid, .found_us = now_us, .groups = check_strdup(groups)};
    text_copy(place->owner, sizeof(place->owner), owner);
}

void own_names_close(struct own_names *names)
{
    for (size_t i = 0; i < OWN_NAMES_MAX; i++)
        free(names->items[i].groups);
    *names = (struct own_names){0};
}
