/* The user whose files a worker touches: the agent is root, what it does for a job is done as the
 * job's user.
 *
 * Flow     become_parse() what --as says; become_user() for the rest of the process' life.
 * Shapes   supplementary groups as the application has them, no other ones.
 * Errors   ERR_INVALID for the text; ERR_REFUSED by the kernel, as for all but root.
 */
#ifndef CKPT_DEST_BECOME_H
#define CKPT_DEST_BECOME_H

#include <stddef.h>
#include <sys/types.h>

#include "src/base/err.h"

enum { BECOME_GROUPS_MAX = 1024 };

/* Whom to become. Numbers only: a name would have to be looked up in a directory of users, which
 * may hang. */
struct become {
    uid_t uid;
    gid_t gid;
    size_t group_count;
    gid_t groups[BECOME_GROUPS_MAX];
};

/* "UID:GID" or "UID:GID:GROUP,GROUP,..." in decimal. 0; or -1 with ERR_INVALID for anything else,
 * also for the number that means "unchanged" to the kernel. On failure *ret_become holds what was
 * read so far and is of no use. */
int become_parse(const char *text, struct become *ret_become, struct err *err);
/* For good: neither the user nor the groups before can be taken back. Groups go first, since a user
 * who is not root may not set them. The kernel forgets with the user that this process wants to die
 * with its parent, so parent_bind() follows (parent.h). 0; or -1 with ERR_REFUSED when this process
 * is neither root nor asks for what it is already; a process that is half another user must end. */
int become_user(const struct become *become, struct err *err);

#endif
