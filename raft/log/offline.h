/* Work on the data folder of a member that does not run: look into the folder, begin a cluster from
 * a state, go on alone after a lost quorum.
 *
 * Flow     offline_look(): takes the lock and gives the newest whole snapshot and the log to the
 *          hooks, in order. offline_restore() writes into an empty folder: snapshot, vote, log. It
 *          writes the founders' agreement on an incarnation (founding.h) last, so a restore that
 *          was cut short holds no member. offline_recover() first writes the identity with the new
 *          incarnation: from then on no former member talks to this one. It then writes the term,
 *          and at last a configuration of this member alone behind the last entry. Before this
 *          configuration the log belongs to the former incarnation, which a file keeps.
 *          offline_look() tells the former incarnation, and a recovery that was cut short begins
 *          again like the first.
 * Shapes   nothing is left open.
 * Errors   ERR_REFUSED the folder is not empty, or holds no member; ERR_LOCKED a process uses it;
 *          ERR_CORRUPT as at a start.
 * Absent   the choice among members: the operator chooses by the facts of offline_look().
 */
#ifndef CKPT_RAFT_OFFLINE_H
#define CKPT_RAFT_OFFLINE_H

#include "raft/core/consensus.h"

/* offline_look() calls these in the order of the log: first for the snapshot's content, if there is
 * one, then for the commands behind it. All run inside the call. Uncommitted entries are among
 * them: one folder alone does not show which are committed. */
struct offline_hooks {
    void *context;
    int (*snapshot_read)(void *context, const struct consensus_reader *reader, struct err *err);
    void (*apply)(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                  size_t length);
    /* Every record of the log, also those that the snapshot holds; NULL: not wanted. */
    void (*record)(void *context, uint64_t index, uint64_t term);
};

/* The folder's facts about its member. */
struct offline_facts {
    uint64_t member_id;
    uint64_t incarnation; /* of the log */
    bool recovering;      /* a recovery was cut short: the identity has another incarnation */
    uint64_t epoch_min;
    uint64_t term; /* highest it has seen */
    uint64_t voted_for;
    uint64_t snapshot_index; /* surely committed up to here; 0: no snapshot */
    uint64_t first_index;    /* of the log; 0: none */
    uint64_t last_index, last_term;
    uint64_t member_ids[CONSENSUS_MEMBERS_MAX]; /* of the last configuration */
    bool voters[CONSENSUS_MEMBERS_MAX];
    size_t member_count;
    bool log_behind; /* an installed snapshot was about to replace the log */
};

/* Reads and repairs a member's folder as a start of the member would (it cuts a torn end of the log
 * and writes copies again). config needs disk, data_dir, cluster_id and member_id (0: any member).
 * ret_facts is set when 0 is returned. */
int offline_look(const struct consensus_config *config, const struct offline_hooks *hooks,
                 struct offline_facts *ret_facts, struct err *err);

/* The beginning of the new history. */
struct offline_origin {
    uint64_t index, term; /* of the state; restore only */
    uint64_t digest;      /* restore only: of everything that the founders must have in common */
    uint64_t incarnation; /* recovery only */
    uint64_t epoch_min;
};
/* Makes an empty folder a founder's folder, from a state. It needs config.random and the members
 * too, and all members become voters. content() writes the content that hooks.snapshot_read() of a
 * member reads. Every founder must be restored from the same backup; the founders compare their
 * digests. */
int offline_restore(const struct consensus_config *config, const struct offline_origin *origin,
                    int (*content)(void *context, const struct consensus_writer *writer,
                                   struct err *err),
                    void *context, struct err *err);
/* Lets the member go on alone, as the only voter of a new incarnation; config.members has its name.
 * facts are of this folder, from offline_look(): ERR_REFUSED when it has changed since. Entries
 * that the other members acknowledged and this member lacks are lost. The member then runs like any
 * other, and others join it with empty folders. */
int offline_recover(const struct consensus_config *config, const struct offline_facts *facts,
                    const struct offline_origin *origin, struct err *err);

#endif
