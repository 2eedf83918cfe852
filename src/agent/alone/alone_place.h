/* Where a process of a note runs, and whether its number means that process here.
 *
 * Flow     alone_place_own() is written into a note by alone_place_format(); a later ckpt-run takes
 *          it from there by alone_place_parse(), and compares it with its own.
 * Shapes   the boot's id is the same in all containers of a machine, whose names of the host
 *          differ; each has its own PID namespace. Notes of the releases before have the host
 *          alone.
 */
#ifndef CKPT_AGENT_ALONE_PLACE_H
#define CKPT_AGENT_ALONE_PLACE_H

#include <stddef.h>
#include <stdint.h>

enum { ALONE_HOST_BYTES = 65, ALONE_BOOT_BYTES = 64, ALONE_PLACE_BYTES = 128 };

struct alone_place {
    char host[ALONE_HOST_BYTES];
    char boot_id[ALONE_BOOT_BYTES]; /* "": not known */
    uint64_t pid_namespace;         /* its inode; 0: not known */
};

enum alone_distance {
    ALONE_HERE,     /* nothing known speaks against it */
    ALONE_UNSEEN,   /* on this machine since its boot, in another PID namespace */
    ALONE_ELSEWHERE /* on another machine, or on this one before its boot */
};

void alone_place_own(struct alone_place *ret_place);
/* All but the host, as lines of a note. */
void alone_place_format(const struct alone_place *place, char ret_text[ALONE_PLACE_BYTES]);
/* From lines as above; the host is left as it is. */
void alone_place_parse(const char *text, struct alone_place *place);
enum alone_distance alone_place_distance(const struct alone_place *noted,
                                         const struct alone_place *own);

#endif
