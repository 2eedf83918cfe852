/* Work on the data folder of a member that does not run: look into it, begin a cluster from a
 * state, go on alone after a lost quorum.
 *
 * Flow     offline_look(): lock, newest whole snapshot, log; everything goes to the hooks in order.
 *          offline_restore(): into an empty folder: snapshot, vote, log, and last what the founders
 *          need to agree on an incarnation (founding.h), so that a restore that was cut short holds
 *          no member.
 *          offline_recover(): the identity first, with the new incarnation, so that from then on no
 *          former member talks to this one; then the term, then a configuration of this member
 *          alone behind the last entry. Until that is there the log is the former incarnation's,
 *          which a file keeps: offline_look() tells that one, and a recovery that was cut short is
 *          begun again like the first.
 * Shapes   nothing is left open.
 * Errors   ERR_REFUSED the folder is not empty, or holds no member; ERR_LOCKED a process uses it;
 *          ERR_CORRUPT as at a start.
 * Absent   choosing among members: the operator does, by what offline_look() tells
 *          (src/broker/offline.h).
 */
#ifndef CKPT_RAFT_OFFLINE_H
#define CKPT_RAFT_OFFLINE_H

#include "raft/core/consensus.h"

struct offline_hooks {
    void *context;
    int (*snapshot_read)(void *context, const struct consensus_reader *reader, struct err *err);
    void (*apply)(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                  size_t length);
    /* Every record of the log, also those that the snapshot holds; NULL: not wanted. */
    void (*record)(void *context, uint64_t index, uint64_t term);
};

struct offline_facts {
    uint64_t member_id;
    uint64_t incarnation; /* of the log */
    bool recovering;      /* a recovery was cut short: the identity has another incarnation */
    uint64_t epoch_min;
    uint64_t term; /* highest it has seen */
    uint64_t voted_for;
    uint64_t snapshot_index; /* committed for certain up to here; 0: no snapshot */
    uint64_t first_index;    /* of the log; 0: none */
    uint64_t last_index, last_term;
    uint64_t member_ids[CONSENSUS_MEMBERS_MAX]; /* of the last configuration */
    bool voters[CONSENSUS_MEMBERS_MAX];
    size_t member_count;
    bool log_behind; /* an installed snapshot was about to replace the log */
};

/* config: disk, data_dir, cluster_id, member_id (0: whoever's it is). */
int offline_look(const struct consensus_config *config, const struct offline_hooks *hooks,
                 struct offline_facts *ret_facts, struct err *err);

struct offline_origin {
    uint64_t index, term; /* of the state; restore only */
    uint64_t digest;      /* restore only: of all that its members must begin with alike */
    uint64_t incarnation; /* recovery only */
    uint64_t epoch_min;
};
/* config.random too. All members are voters. content() writes what hooks.snapshot_read() of a
 * member reads. */
int offline_restore(const struct consensus_config *config, const struct offline_origin *origin,
                    int (*content)(void *context, const struct consensus_writer *writer,
                                   struct err *err),
                    void *context, struct err *err);
/* facts: of this folder, from offline_look(). */
int offline_recover(const struct consensus_config *config, const struct offline_facts *facts,
                    const struct offline_origin *origin, struct err *err);

#endif
