/* Tells when a sentinel is written or moved into a work folder: inotify(7), by libuv.
 *
 * Errors   folder_watch_new: NULL when the kernel has no watch to give; the caller polls as well.
 * Absent   other names: an application writes its sentinel under one of these first, and a look at
 *          that moment finds nothing.
 */
#ifndef CKPT_AGENT_FOLDER_WATCH_H
#define CKPT_AGENT_FOLDER_WATCH_H

#include <uv.h>

struct folder_watch;
struct folder_watch *folder_watch_new(uv_loop_t *loop, const char *folder,
                                      void (*changed)(void *data), void *data);
void folder_watch_free(struct folder_watch *watch); /* NULL allowed */

#endif
