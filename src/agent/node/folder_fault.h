/* A failure in a work folder, for people: with the folder, and how full it is.
 *
 * Shapes   a folder that is full is looked at once more, by its descriptor; it is on no network
 *          file system (opened.h).
 * Errors   ERR_FULL where it has no room, else ERR_IO.
 */
#ifndef CKPT_AGENT_FOLDER_FAULT_H
#define CKPT_AGENT_FOLDER_FAULT_H

#include "src/agent/node/opened.h"

/* As "create NAME in the work folder PATH: No space left on device (0 B of 900.0 KiB are free)".
 * folder NULL: it is not open. -1. */
int folder_fault(const struct opened *folder, const char *what, const char *name, int failure,
                 struct err *err);

#endif
