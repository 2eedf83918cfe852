/* HTCondor's names for the settings of its checkpoint server and its machines: the section
 * `htcondor` of both daemons' configurations.
 *
 * Flow     the section is read like any other, into texts. A daemon goes over the given names: each
 *          becomes one of the daemon's own settings, or has no effect, and a warning names our
 *          setting (src/broker/daemon/config_htcondor.h, src/agent/daemon/config_htcondor.h). So
 *          one list of HTCondor's serves all machines, as it does there.
 * Units    HTCondor's: seconds; True and False.
 */
#ifndef CKPT_SERVE_HTCONDOR_H
#define CKPT_SERVE_HTCONDOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* deploy/RUNBOOK.md has the effect of each, under Names of HTCondor. */
#define HTCONDOR_NAMES(X)                                                                          \
    X(CKPT_SERVER_DIR)                                                                             \
    X(CKPT_SERVER_HOST)                                                                            \
    X(CkptServer)                                                                                  \
    X(USE_CKPT_SERVER)                                                                             \
    X(STARTER_CHOOSES_CKPT_SERVER)                                                                 \
    X(MAX_DISCARDED_RUN_TIME)                                                                      \
    X(CKPT_SERVER_DEBUG)                                                                           \
    X(CKPT_SERVER_LOG)                                                                             \
    X(MAX_CKPT_SERVER_LOG)                                                                         \
    X(DAEMON_LIST)                                                                                 \
    X(CKPT_SERVER_STALE_CKPT_AGE_CUTOFF)                                                           \
    X(CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL)                                                      \
    X(STARTD_ATTRS)                                                                                \
    X(APPEND_REQ_STANDARD)                                                                         \
    X(APPEND_RANK_STANDARD)                                                                        \
    X(MAX_STORE_PROCESSES)                                                                         \
    X(MAX_RESTORE_PROCESSES)

/* Texts as in the file, owned by the configuration; "": not given. */
struct htcondor_names {
#define X(name) char *name;
    HTCONDOR_NAMES(X)
#undef X
};

/* A name that is accepted and has no effect. */
struct htcondor_idle {
    const char *name;
    const char *ours; /* our setting instead; ends the sentence "NAME has no effect here: ..." */
};

bool htcondor_given(const struct htcondor_names *names);
/* Reads True or False, in any case; false: the value is neither. */
bool htcondor_boolean(const char *value, bool *ret_value);
/* Writes a line on each given name of the table. */
void htcondor_warn(const struct htcondor_names *names, const struct htcondor_idle *table,
                   size_t count, FILE *to);

#endif
