/* Names and groups of users of the node that were found out lately.
 *
 * Flow     own_names_put() with what a worker has found; own_names_get() as long as that is fresh.
 * Shapes   one table of an agent: OWN_NAMES_MAX users, the eldest makes room. Strings are copies.
 * Units    OWN_NAMES_FRESH_US: who leaves a group is in it for so long. Each ckpt-run that waits
 *          asks several times a second, and each question would cost a process.
 * Errors   NULL: not known, or too old. Failures of the directory are not kept.
 */
#ifndef CKPT_AGENT_OWN_NAMES_H
#define CKPT_AGENT_OWN_NAMES_H

#include <stdint.h>
#include <sys/types.h>

#include "src/base/id.h"

enum { OWN_NAMES_MAX = 16, OWN_NAMES_FRESH_US = 5000000 };

struct own_name {
    uid_t uid;
    uint64_t found_us;
    char owner[ID_MAX_BYTES + 1];
    char *groups; /* with commas; NULL: a free place */
};

struct own_names {
    struct own_name items[OWN_NAMES_MAX];
};

const struct own_name *own_names_get(const struct own_names *names, uid_t uid, uint64_t now_us);
void own_names_put(struct own_names *names, uid_t uid, uint64_t now_us, const char *owner,
                   const char *groups);
void own_names_close(struct own_names *names);

#endif
