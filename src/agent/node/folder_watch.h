/* Tells when something is created in or moved into a folder: inotify(7), by libuv.
 *
 * Errors   folder_watch_new: NULL when the kernel has no watch to give; the caller polls as well.
 */
#ifndef CKPT_AGENT_FOLDER_WATCH_H
#define CKPT_AGENT_FOLDER_WATCH_H

#include <uv.h>

struct folder_watch;
struct folder_watch *folder_watch_new(uv_loop_t *loop, const char *folder,
                                      void (*changed)(void *data), void *data);
void folder_watch_free(struct folder_watch *watch); /* NULL allowed */

#endif
