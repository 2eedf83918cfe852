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

/* What offline_look() finds, in the order of the log: first the snapshot's content, when there is
 * one, then the commands behind it. All run inside the call. Entries that were not committed are
 * among them: from one folder alone nobody can tell. */
struct offline_hooks {
    void *context;
    int (*snapshot_read)(void *context, const struct consensus_reader *reader, struct err *err);
    void (*apply)(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                  size_t length);
    /* Every record of the log, also those that the snapshot holds; NULL: not wanted. */
    void (*record)(void *context, uint64_t index, uint64_t term);
};

/* What the folder says of its member. */
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

/* Reads a member's folder as a start of it would, and repairs what a start would (a torn end of the
 * log is cut, copies are written again). config needs disk, data_dir, cluster_id and member_id (0:
 * whoever's it is). ret_facts is set when 0 is returned. */
int offline_look(const struct consensus_config *config, const struct offline_hooks *hooks,
                 struct offline_facts *ret_facts, struct err *err);

/* What the new history begins with. */
struct offline_origin {
    uint64_t index, term; /* of the state; restore only */
    uint64_t digest;      /* restore only: of all that its members must begin with alike */
    uint64_t incarnation; /* recovery only */
    uint64_t epoch_min;
};
/* Makes an empty folder one that begins a cluster with the others' folders, from a state:
 * config.random and the members are needed too, and all of them are voters. content() writes what
 * hooks.snapshot_read() of a member reads. Every founder is restored from the same backup; the
 * digest of it is how they find out when one was not. */
int offline_restore(const struct consensus_config *config, const struct offline_origin *origin,
                    int (*content)(void *context, const struct consensus_writer *writer,
                                   struct err *err),
                    void *context, struct err *err);
/* Lets the member go on alone, as the only voter of a new incarnation; config.members has its name.
 * facts are of this folder, from offline_look(): ERR_REFUSED when it has changed since. What the
 * others had acknowledged and this one lacks is lost. The member then runs like any other, and
 * others join it with empty folders. */
int offline_recover(const struct consensus_config *config, const struct offline_facts *facts,
                    const struct offline_origin *origin, struct err *err);

#endif
