/* Tells when something is created in or moved into a folder: inotify(7), by libuv.
 *
 * Errors   ask_watch_new: NULL when the kernel has no watch to give; the caller polls as well.
 */
#ifndef CKPT_AGENT_ASK_WATCH_H
#define CKPT_AGENT_ASK_WATCH_H

#include <uv.h>

struct ask_watch;
struct ask_watch *ask_watch_new(uv_loop_t *loop, const char *folder, void (*changed)(void *data),
                                void *data);
void ask_watch_free(struct ask_watch *watch); /* NULL allowed */

#endif
