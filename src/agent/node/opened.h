/* A user's work folder or socket, held by a descriptor: what is done with it afterwards resolves no
 * path that its user could make hang.
 *
 * Flow     path_open_start() has `ckpt-worker look` open the path; that process hands the
 *          descriptor over (SCM_RIGHTS), or hangs in the agent's place and is killed. opened_here()
 *          opens in this process, for programs that may wait.
 * Shapes   a folder is its user's own, no link to one, and on no network file system; a socket is
 *          its user's. Below a folder neither links nor other mounts are entered (openat2).
 *          Of one user at most PATH_OPENS_PER_USER lookers are alive, those that cannot be killed
 *          among them; the user's other paths wait for their turn, and are refused when none of
 *          those has begun within the deadline.
 * Errors   done() gets a line that says why there is no descriptor.
 */
#ifndef CKPT_AGENT_OPENED_H
#define CKPT_AGENT_OPENED_H

#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "src/base/err.h"

enum { PATH_OPEN_DEADLINE_MS = 3000, PATH_OPENS_PER_USER = 8, OPENED_WHY_BYTES = 400 };

enum opened_kind { OPENED_FOLDER, OPENED_SOCKET };

struct opened {
    int fd; /* O_PATH */
};

/* take: NULL with `why`. */
typedef void opened_done_fn(void *data, struct opened *take, const char *why);

struct path_open;
/* done() comes on the loop, once, never from inside this call. */
struct path_open *path_open_start(uv_loop_t *loop, enum opened_kind kind, const char *path,
                                  uid_t uid, opened_done_fn *done, void *data);
void path_open_detach(struct path_open *open); /* NULL allowed; done() does not come any more */

/* A folder, whoever's; NULL with errno. */
struct opened *opened_here(const char *path);
void opened_close(struct opened *opened); /* NULL allowed */
/* Where a socket can be dialled: "unix:PATH". */
enum { OPENED_ADDRESS_BYTES = 128 };
const char *opened_address(const struct opened *opened, char text[OPENED_ADDRESS_BYTES]);
/* Like open(2) below a folder; never through a link or a mount. */
int opened_at(const struct opened *folder, const char *name, int flags, mode_t mode);

#endif
