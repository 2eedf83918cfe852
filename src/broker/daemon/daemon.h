/* The life of a ckptd: opens the parts in order, runs the loop, ends them in reverse.
 *
 * Flow     replica -> API server, services -> duties -> listen -> HTTP -> READY -> loop. SIGTERM or
 *          SIGINT: leadership is handed over, calls drain, everything closes, within
 *          DAEMON_STOP_MAX_MS. SIGHUP reads log level, certificates, telemetry and health anew;
 *          SIGUSR2 dumps the state to the log.
 * Errors   a start that fails is returned (exit code 1); a failure of consensus later ends the
 *          process with exit code DAEMON_EXIT_FATAL for its supervisor to start it again. When the
 *          disk fails or stored bytes are damaged, at the start or later, it is DAEMON_EXIT_DATA:
 *          starting again cannot help, and a supervisor must not try. One that was removed from the
 *          cluster, or that begins anew where the others hold its cluster's data, ends with
 *          DAEMON_EXIT_REMOVED, likewise. One that meets what its build does not know ends with
 *          DAEMON_EXIT_NEWER: nothing is damaged, and another build goes on. One that was asked to
 *          restart, or whose canary fails (upgrades.h), ends with DAEMON_EXIT_AGAIN.
 * When     daemon_run() once in a process: it installs signal handlers and owns the loop. The
 *          configuration must live as long as it runs.
 */
#ifndef CKPT_BROKER_DAEMON_H
#define CKPT_BROKER_DAEMON_H

#include "src/broker/daemon/config.h"

enum {
    DAEMON_EXIT_FATAL = 3,
    DAEMON_EXIT_DATA = 4,
    DAEMON_EXIT_REMOVED = 5, /* likewise: no supervisor should start it again */
    DAEMON_EXIT_NEWER = 6,   /* of an older build than the cluster: may be tried again */
    DAEMON_EXIT_AGAIN = 7,   /* asked to be started again, or to have the build before started */
    DAEMON_TRANSFER_MAX_MS = 3000,
    DAEMON_STALLED_MS = 5000, /* between two lines about peers that do not read */
    DAEMON_DRAIN_MS = 1000,
    DAEMON_WORKERS_MAX_MS = 1500, /* longer than a worker takes to be called unkillable */
    DAEMON_STOP_MAX_MS = 9000
};

/* What this start may find in the data folder; what does not fit is an error with the right option
 * in it. */
enum daemon_start {
    DAEMON_START,     /* a folder that was used before */
    DAEMON_BOOTSTRAP, /* first start of a member of a new cluster */
    DAEMON_JOIN,      /* first start of one that a running cluster will add */
    DAEMON_RESTORE    /* first start of one whose folder is made from a backup */
};

/* Of a process that ends for this reason. */
int daemon_exit_code(const struct err *err, int otherwise);

/* Logs why a start, or a member, failed. Of a full disk with the next step: the error is the
 * system's, and the unit starts it again, unless this was its first start. */
void daemon_log_failure(const char *event, const struct config *config, enum daemon_start start,
                        const struct err *err);

/* Returns when the process should end: 0 after a clean stop, with the exit code; -1 with err when
 * it could not start. flags are used again by SIGHUP. */
int daemon_run(const struct config *config, const struct config_flags *flags,
               enum daemon_start start, int *ret_exit_code, struct err *err);

#endif
