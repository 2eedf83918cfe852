/* A stand-in that has nothing in hand is woken by a question in the work folder, or by a signal, as
 * that of its program's end. So hundreds of them on a node cost nothing while nothing is asked.
 *
 * Flow     wake_open() once; wake_signal() in each handler; wake_fds() are waited for beside the
 *          program's output, and wake_taken() follows.
 * Shapes   inotify(7) tells of the question. The node has a limit of its instances for each user
 *          (fs.inotify.max_user_instances, 128). Without one SIGIO tells of it. Where the kernel
 *          has neither, it is looked for each WAKE_LOOK_MS. A look each WAKE_IDLE_MS finds it in a
 *          folder that was made anew.
 */
#ifndef CKPT_AGENT_RUN_WAKE_H
#define CKPT_AGENT_RUN_WAKE_H

#include <stdint.h>

enum { WAKE_FDS = 2, WAKE_LOOK_MS = 1000, WAKE_IDLE_MS = 5000 };

void wake_open(const char *work_dir);
/* Safe in a handler. */
void wake_signal(void);
/* -1: none. */
const int *wake_fds(void);
/* All that has come. */
void wake_taken(void);
/* For how long one without anything in hand need not look. */
uint64_t wake_idle_ms(void);

#endif
