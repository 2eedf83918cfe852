/* What the files of settings share. */
#ifndef CKPT_SERVE_SETTINGS_INTERNAL_H
#define CKPT_SERVE_SETTINGS_INTERNAL_H

#include "src/serve/settings.h"

enum settings_from { SETTINGS_DEFAULT, SETTINGS_FILE, SETTINGS_FLAG };
enum { SETTINGS_NAME_BYTES = 128 };

/* Where a value is from; one per row and item. */
struct settings_source {
    enum settings_from from;
    unsigned line; /* of the file, from 1; 0: it says nothing */
};

/* By its name with or without the unit; SIZE_MAX: unknown. */
size_t settings_find(const struct settings *settings, unsigned section, const char *name);
/* The known key or section name that is closest to `name`. */
const char *settings_nearest(const struct settings *settings, unsigned section, const char *name);
/* Of a row, and of an item of its list (0 outside of lists); to be written by who sets the
 * value. */
struct settings_source *settings_source_of(const struct settings *settings, size_t row,
                                           size_t item);
/* "policy.grace_ms", "members[0].raft". Returns text. */
char *settings_name(const struct settings *settings, size_t row, size_t item,
                    char text[SETTINGS_NAME_BYTES]);
/* Has the row's kind read the value into its place; err has what follows the key's name. */
int settings_set(struct settings *settings, size_t row, size_t item, bool in_unit,
                 const char *value, struct err *err);
/* How many items the list has so far, in the owner's struct. */
size_t *settings_item_count(const struct settings *settings, unsigned section);

#endif
