/* The section `htcondor` of ckptd.yaml: HTCondor's names for settings of its checkpoint server.
 *
 * Flow     config.c reads the section like any other, then config_take_htcondor() goes over the
 *          names that are given: each becomes a setting of ours, or is refused with the name that
 *          ours has.
 * Units    HTCondor's: seconds; True and False.
 */
#ifndef CKPT_BROKER_CONFIG_HTCONDOR_H
#define CKPT_BROKER_CONFIG_HTCONDOR_H

struct config;
struct err;

/* Name, and what becomes of it. The documents' table is this one (deploy/RUNBOOK.md). */
#define HTCONDOR_NAMES(X)                                                                          \
    X(CKPT_SERVER_DIR)                                                                             \
    X(CKPT_SERVER_HOST)                                                                            \
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

/* Texts as the file has them; "": not given. */
struct config_htcondor {
#define X(name) char *name;
    HTCONDOR_NAMES(X)
#undef X
};

/* 0; or -1 with the name, the line and what to write instead. */
int config_take_htcondor(struct config *config, struct err *err);

#endif
