/* The region of memory by which a way asks: its name, and what it begins with.
 *
 * Flow     the agent names it to ckpt-run, which makes it; the agent finds it again by the same
 *          name, also after a restart.
 * Shapes   one for each job and work folder on a node: several agents may serve one machine in
 *          tests, each with folders of its own.
 * Source   S1-034: the path is in CKPT_SHM; the layout is src/app/ckptshm.h.
 */
#ifndef CKPT_ASK_REGION_H
#define CKPT_ASK_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ASK_REGION_FOLDER "/dev/shm"
enum { ASK_REGION_PATH_BYTES = 256, ASK_REGION_BYTES = 139264, ASK_REGION_HEAD_BYTES = 24 };

/* ret_path: below ASK_REGION_FOLDER, one name. */
void ask_region_path(uid_t uid, const char *allocation_id, const char *work_dir,
                     char ret_path[ASK_REGION_PATH_BYTES]);
/* The name in such a path; NULL: it is none. */
const char *ask_region_name(const char *path);
/* The rest of a new one is zeros. */
void ask_region_head(uint8_t ret_head[ASK_REGION_HEAD_BYTES]);

#endif
