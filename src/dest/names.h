/* A list of names that was read, to be gone through in the order of their bytes. */
#ifndef CKPT_DEST_NAMES_H
#define CKPT_DEST_NAMES_H

#include <stddef.h>

/* All zeros: none. The texts are its own. */
struct names {
    char **items;
    size_t count, capacity;
};

void names_add(struct names *names, const char *name);
void names_sort(struct names *names);
/* To none again. */
void names_free(struct names *names);

#endif
