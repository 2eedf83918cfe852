/* A worker ends when its daemon does: nobody would count on what it writes afterwards. */
#ifndef CKPT_DEST_PARENT_H
#define CKPT_DEST_PARENT_H

#include "src/base/err.h"

/* Called once at the start, and again after the user was changed (become.h). From now on the kernel
 * kills this process when its parent ends. -1: refused, or the daemon named by WORKER_PARENT in the
 * environment is gone already. Without that variable (started by hand) any parent will do. */
int parent_bind(struct err *err);

#endif
