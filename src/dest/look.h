/* Opens a path that may hang, for a daemon that must not, and hands the descriptor over.
 *
 * Flow     look_path() sends one message on a socket: "mode=OCTAL uid=N type=HEX" (of the path and
 *          of its file system) with the O_PATH descriptor. What is no socket gets the text alone.
 * Errors   a path that cannot be opened is a message without a descriptor, and an error.
 */
#ifndef CKPT_DEST_LOOK_H
#define CKPT_DEST_LOOK_H

#include "src/base/err.h"

/* Removes the folder with all its contents; fine when it is gone. Links are removed, not
 * followed. path is absolute and names the folder itself, so that its parent can be opened: the
 * folders above it are trusted. */
int look_sweep(const char *path, struct err *err);
/* Opens what `path` names, without following a link at its end or one of /proc's, and sends it on
 * output_fd. 0; or -1: ERR_NOT_FOUND when it cannot be opened, ERR_IO when nobody takes the
 * message. The receiver owns the descriptor that it got and judges by mode, owner and file system
 * whether it wants to go on with it. */
int look_path(const char *path, int output_fd, struct err *err);

#endif
