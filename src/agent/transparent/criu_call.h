/* The conversation with criu by its RPC: a process `criu swrk FD`, one message for a request, and
 * one for each step that it tells of.
 *
 *   this process ──REQUEST──────────────► criu swrk
 *                ◄──NOTIFY post-dump───── all is written, and the processes stand still: nothing is
 *                ──yes | no─────────────►   a checkpoint before this answer. No: they go on
 *                ◄──RESPONSE─────────────
 *
 * Flow     criu_start(); criu_ask(), once; criu_end().
 * Shapes   criu is a child of this process and has its descriptors 0 to 2. It is never killed: a
 *          dump that is broken off so may take its processes along. It ends by its own timeout, and
 *          by itself when the socket is closed.
 * Errors   ERR_NOT_FOUND: there is no criu. ERR_UNAVAILABLE: it ended without an answer.
 *          ERR_CORRUPT: an answer that is none. ERR_REFUSED: its own reason, from its log or its
 *          answer.
 * Source   criu's images/rpc.proto; S1-049, S3-004.
 */
#ifndef CKPT_AGENT_CRIU_CALL_H
#define CKPT_AGENT_CRIU_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "criu/rpc.pb-c.h"
#include "src/base/err.h"

#define CRIU_LOG_NAME "ckpt-criu.log" /* in the work folder */

enum { CRIU_KEY_BYTES = 4200, CRIU_INHERITED_MAX = 3 };

/* A descriptor of this process, which criu has too. */
struct criu_inherited {
    char key[CRIU_KEY_BYTES];
    int fd;
};

struct criu_request {
    Criu__Kind kind;
    int images_fd; /* folders of this process; -1: none is wanted */
    int work_fd;
    pid_t pid;                              /* of DUMP */
    bool stops;                             /* of DUMP: the processes stand still afterwards */
    const struct criu_inherited *inherited; /* of RESTORE */
    size_t inherited_count;
    /* The answer to a step of DUMP or RESTORE: 0, or -1 when it is to be given up. NULL: 0. */
    int (*step)(void *data, const char *name, struct err *err);
    void *data;
};

struct criu_answer {
    pid_t pid;        /* of RESTORE */
    uint32_t version; /* of VERSION: 40101 is 4.1.1 */
};

struct criu_process {
    pid_t pid;
    int fd;
};

/* The path of the program: from PATH, else from where distributions install it. */
int criu_find(char *ret_path, size_t size, struct err *err);
int criu_start(struct criu_process *ret_criu, struct err *err);
int criu_ask(const struct criu_process *criu, const struct criu_request *request,
             struct criu_answer *ret_answer, struct err *err);
void criu_end(struct criu_process *criu);
/* The cause that a log of criu names: its last error that is no consequence of one before, for the
 * first ones may be of what criu can do without. "": none. The log is taken apart. */
void criu_reason(char *log, char *ret_reason, size_t size);
/* criu_start(), criu_ask() and criu_end(). */
int criu_call(const struct criu_request *request, struct criu_answer *ret_answer, struct err *err);

#endif
