/* HTCondor's names for the settings of its checkpoint server, and for what its machines say of it:
 * the section `htcondor` of both daemons' configurations.
 *
 * Flow     the section is read like any other, into texts; a daemon goes over those that are given:
 *          each becomes a setting of its own, or has no effect and the operator is told where ours
 *          is (src/broker/daemon/config_htcondor.h, src/agent/daemon/config_htcondor.h). So one
 *          list of HTCondor's serves all machines, as it does there.
 * Units    HTCondor's: seconds; True and False.
 */
#ifndef CKPT_SERVE_HTCONDOR_H
#define CKPT_SERVE_HTCONDOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What becomes of each stands in deploy/RUNBOOK.md, Names of HTCondor. */
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

/* Texts as the file has them, the configuration's; "": not given. */
struct htcondor_names {
#define X(name) char *name;
    HTCONDOR_NAMES(X)
#undef X
};

/* A name that is taken and has no effect in a file. */
struct htcondor_idle {
    const char *name;
    const char *ours; /* what is there instead; ends the sentence "NAME has no effect here: ..." */
};

bool htcondor_given(const struct htcondor_names *names);
/* True or False, in any case; false: it is neither. */
bool htcondor_boolean(const char *value, bool *ret_value);
/* A line on each name that is given and stands in the table. */
void htcondor_warn(const struct htcondor_names *names, const struct htcondor_idle *table,
                   size_t count, FILE *to);

#endif
