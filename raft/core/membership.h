/* The configuration in use: always the newest one of the log (S16). libraft 0.15 breaks this rule
 * in five places.
 *
 * Flow     membership_loaded() at start; membership_before_append() and membership_settle() around
 *          each AppendEntries, the latter also when entries were stored while a change was open;
 *          membership_track() after each call tells when another configuration was committed.
 * Shapes   one per member; keeps a copy of the committed configuration, because its entry may be
 *          compacted away when a later one is rolled back.
 * Errors   none: configurations from the network were checked when their frame was decoded.
 * Source   Ongaro 2014, 4.1. libraft's rollback reads a compacted entry, and restores the committed
 *          configuration instead of an older uncommitted one. libraft takes an uncommitted one for
 *          committed after a restart. It forgets one whose entry was stored after the member had
 *          become a candidate. It goes back to one whose entry was stored when the next was in the
 *          log.
 */
#ifndef CKPT_RAFT_MEMBERSHIP_H
#define CKPT_RAFT_MEMBERSHIP_H

#include <raft.h>
#include <stdbool.h>
#include <stdint.h>

/* raft is libraft's instance, which holds the configuration in use; only the committed one is kept
 * here. */
struct membership {
    struct raft *raft;
    struct raft_configuration committed; /* owned */
    uint64_t committed_index;            /* of its entry; 0: none yet */
};

void membership_init(struct membership *membership, struct raft *raft);
void membership_close(struct membership *membership);
/* While libraft loads: the configuration of the snapshot it starts from. */
void membership_loaded(struct membership *membership, const struct raft_configuration *snapshot,
                       uint64_t index);
/* After raft_start(): what lies behind the commit index is not committed. */
void membership_started(struct membership *membership);

/* True: membership_settle() must follow. Only for a message that libraft will not refuse for its
 * term. */
bool membership_before_append(struct membership *membership,
                              const struct raft_append_entries *append);
/* Puts the newest configuration of the log in use, where it is not; a follower only, and nothing
 * while a snapshot is installed. */
void membership_settle(struct membership *membership);
/* The in-memory log was given up for a snapshot. */
void membership_install_begun(struct membership *membership);

/* True: another configuration is committed than at the last call; ret_before (owned by the caller
 * then) is the one before. */
bool membership_track(struct membership *membership, struct raft_configuration *ret_before);

/* `id` is the only voter. */
bool membership_sole_voter(const struct raft_configuration *configuration, uint64_t id);
/* The configuration that libraft will take from these entries, or the given one; true: `id` is its
 * only voter. */
bool membership_loads_sole_voter(const struct raft_entry *entries, size_t count,
                                 const struct raft_configuration *snapshot, uint64_t id);
/* NULL: it has no such member. Valid until the configuration changes. */
const struct raft_server *membership_find(const struct raft_configuration *configuration,
                                          uint64_t id);

#endif
