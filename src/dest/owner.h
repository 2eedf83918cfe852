/* The rights of the user whom a job's files belong to, for as long as a removal takes.
 *
 * Flow     owner_enter() asks the kind whose they are, and takes that user's file rights with all
 *          groups that the user has here; owner_leave() takes root's back. The process stays
 *          root's otherwise: the user can neither trace nor stop it.
 * Shapes   one at a time, in one thread. A process that is not root works as itself.
 * Errors   those of struct destination_ops' owner; ERR_NOT_FOUND: neither the folder nor the name
 *          says who that is. Nothing of the job being there is success: there is nothing to take.
 */
#ifndef CKPT_DEST_OWNER_H
#define CKPT_DEST_OWNER_H

#include <stdbool.h>

#include "src/dest/destination.h"

struct owner_place {
    const char *prefix, *path; /* as of collect */
    const char *name; /* as registered, where the folder's owner cannot be seen; NULL: not known */
};

/* The user of that name here; a number names a user that has no other name. ERR_NOT_FOUND: there is
 * none; ERR_IO: the directory of users, which may be a server, does not say. */
int owner_find(const char *name, uid_t *ret_uid, struct err *err);
/* What --as says: "owner" alone. */
int owner_check(const char *as, struct err *err);
int owner_enter(const struct destination_ops *destination, const struct owner_place *place,
                struct err *err);
/* Whether it was another user, and the daemon that started this is still there. */
bool owner_leave(void);

#endif
