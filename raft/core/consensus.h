/* Replication of opaque entries over libraft: the only interface that the rest of the program sees.
 *
 * Flow     consensus_open() recovers the folder and starts. The leader's consensus_propose()
 *          appends an entry. When a majority has the entry on disk, hooks.apply() runs on every
 *          member in log order. All calls and hooks run on the loop thread.
 * Shapes   one struct consensus per process and data folder (locked). Entries 1 byte ..
 *          CONSENSUS_ENTRY_MAX_BYTES. At most CONSENSUS_IN_FLIGHT_MAX proposals wait for commit;
 *          one more is refused with ERR_FULL.
 * Units    milliseconds, bytes, log indexes.
 * Errors   ERR_UNAVAILABLE not the leader; ERR_FULL window full or disk low; ERR_CORRUPT,
 *          ERR_LOCKED, ERR_MISMATCH, ERR_REMOVED at open. After an internal failure, or when this
 *          member was removed from the cluster (ERR_REMOVED), hooks.fatal() is called once, and no
 *          other hook after it: the program must exit.
 * Absent   stock raft_uv, raft_transfer, leases. TLS is a wrapper of the network table
 *          (src/net/tls_network.h).
 * Source   Ongaro & Ousterhout 2014; facts on libraft 0.15 in raft/README.md, rules in
 *          raft/RULES.md.
 */
#ifndef CKPT_RAFT_CONSENSUS_H
#define CKPT_RAFT_CONSENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/ops.h"

struct disk_ops;    /* raft/io_ops.h */
struct network_ops; /* src/net/network.h */
struct consensus;

enum {
    CONSENSUS_ENTRY_MAX_BYTES = 1 << 20,
    CONSENSUS_IN_FLIGHT_MAX = 256,
    CONSENSUS_MEMBERS_MAX = 9,
    CONSENSUS_ADDRESS_BYTES = 256,
    CONSENSUS_NAME_BYTES = 129,
    CONSENSUS_BUILD_BYTES = 96,
    CONSENSUS_LEVEL_FIRST = 1,
    CONSENSUS_NOTE_MAX_BYTES = 96,
    CONSENSUS_FOUNDING_BYTES = 512,
    /* entries that a learner may be behind when it becomes a voter */
    CONSENSUS_PROMOTE_LAG_MAX = 1000,
    /* the asked member may take over for so long after consensus_transfer() */
    CONSENSUS_TRANSFER_MS = 1000,
    CONSENSUS_SILENT_ELECTIONS = 2, /* election timeouts without a word: unreachable */
    /* Free bytes that an empty folder needs before it takes changes, beside the restored state: two
     * segments of the log, and twice the reserve. */
    CONSENSUS_ROOM_BYTES = 80 << 20
};

/* The role that hooks.role_changed gets. */
enum consensus_role {
    CONSENSUS_FOLLOWER,
    CONSENSUS_CANDIDATE,
    CONSENSUS_LEADER, /* elected; propose() works, hooks.role_changed was told */
};

/* Why a member should not lead while another one can. Append only: it is in frames. */
enum consensus_unfit {
    CONSENSUS_FIT,
    CONSENSUS_DISK_FULL, /* it takes no changes */
    CONSENSUS_RELUCTANT, /* consensus_set_reluctant() */
    CONSENSUS_UNFIT_END
};

/* A member, as a configuration file, an operator or the member itself describes it. */
struct consensus_member {
    uint64_t id; /* 1..; never reused for another machine or a blank folder */
    char name[CONSENSUS_NAME_BYTES];
    /* host:port of its Raft listener; the transport resolves it */
    char address[CONSENSUS_ADDRESS_BYTES];
    /* where clients reach the member; passed on to the others only, "": unknown */
    char contact[CONSENSUS_ADDRESS_BYTES];
};

/* A member's build, as it says of itself. Passed on to the others only. */
struct consensus_build {
    /* The newest feature level that it knows; CONSENSUS_LEVEL_FIRST where none is said. */
    uint32_t level;
    char text[CONSENSUS_BUILD_BYTES]; /* version, commit and date; "": not told */
};

/* The configuration of a member. The four tables and their contexts must live until closed(). The
 * rest is copied, or not needed after consensus_open(). */
struct consensus_config {
    uint64_t member_id;
    const char *cluster_id; /* id_valid(); peers and folders of another cluster are refused */
    const char *data_dir;   /* created 0700 when bootstrap is true */
    const char *listen_address;
    struct consensus_build build; /* of this member */
    /* Addresses to begin with, this member's own among them; with bootstrap also the initial
     * configuration. An address that another member says of itself later goes before the one given
     * here. */
    const struct consensus_member *members;
    size_t member_count;
    /* First start of a new cluster: a folder that holds data is refused. Without it an empty folder
     * is refused. */
    bool bootstrap;
    /* First start of a member that a running cluster will add: it waits, and votes only when
     * promoted. It may stay set until then. */
    bool join;
    uint32_t election_timeout_ms;    /* 1000 */
    uint32_t heartbeat_ms;           /* 100 */
    uint64_t snapshot_after_entries; /* 0: 100,000 */
    /* 0: 64 MiB of log. When the last snapshot was larger, as many bytes of log as its content are
     * awaited, and in proportion more entries. So snapshots cost about as many written bytes as the
     * log itself, for a state of any size. */
    uint64_t snapshot_after_bytes;
    uint64_t reserve_bytes; /* 0: 32 MiB kept free for recovery from a full disk */
    /* 0: 8 MiB per log file; it stays the same for the life of a folder */
    uint64_t segment_bytes;
    const struct clock_ops *clock; /* monotonic_us is also called from disk jobs, off the loop */
    const struct random_ops *random;
    const struct disk_ops *disk;
    const struct network_ops *network;
};

/* Streams of a snapshot's content. Writers and readers return 0 or -1 with err. */
struct consensus_writer {
    void *context;
    int (*write)(void *context, const void *bytes, size_t length, struct err *err);
};
struct consensus_reader {
    void *context;
    /* Reads exactly length bytes. */
    int (*read)(void *context, void *bytes, size_t length, struct err *err);
};

/* The program's part of a member. All hooks run on the loop unless they say otherwise. No hook may
 * propose (consensus_in_call()). */
struct consensus_hooks {
    void *context;
    /* A committed entry, in log order, on every member. tag is the one of propose() when this
     * process proposed the entry in this term, else NULL. Must not fail. libraft's own entries
     * (configuration, barrier) are not shown, so the index strictly increases but may skip. */
    void (*apply)(void *context, uint64_t index, uint64_t term, const uint8_t *bytes, size_t length,
                  void *tag);
    /* This member cannot tell the fate of its proposal (leadership lost, shutdown): the entry may
     * still commit elsewhere. */
    void (*dropped)(void *context, void *tag);
    /* The role, the term or the leader (0: unknown) has changed. */
    void (*role_changed)(void *context, enum consensus_role role, uint64_t term,
                         uint64_t leader_id);
    /* The state as of the last apply is written while it goes on changing. begin() marks the
     * instant, each next() writes about `bytes` more, end() follows the last one or gives up. On
     * the loop; one at a time. */
    void *(*snapshot_begin)(void *context);
    int (*snapshot_next)(void *context, void *snapshot, size_t bytes,
                         const struct consensus_writer *writer, bool *ret_done, struct err *err);
    void (*snapshot_end)(void *context, void *snapshot);
    /* Makes a new state from a snapshot's content. Off the loop: the hook touches nothing that the
     * loop may touch meanwhile. */
    int (*snapshot_load)(void *context, const struct consensus_reader *reader, void **ret_state,
                         struct err *err);
    /* On the loop: the loaded state replaces the present one; the hook returns the latter. */
    void *(*snapshot_adopt)(void *context, void *take_state);
    /* Off the loop: frees a state that adopt() returned, or that was loaded and is not needed. */
    void (*snapshot_discard)(void *context, void *take_state);
    /* The member cannot go on (disk failed, corruption, internal error; ERR_REMOVED: the cluster
     * has removed it): log the text and exit. */
    void (*fatal)(void *context, const struct err *err);
    /* May be NULL. Another configuration is in use or committed, a member has another address, or a
     * first start waits for other founders: look at the status. */
    void (*members_changed)(void *context);
    /* May be NULL. Writes a note to the member `to`, up to CONSENSUS_NOTE_MAX_BYTES opaque bytes,
     * and returns how many. Notes go along with entries, heartbeats and their answers (about every
     * CORE_NOTE_MS to each member), and with all votes. */
    size_t (*note)(void *context, uint64_t to, uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES]);
    /* May be NULL. The note of `from`; leads: `from` is the leader of this term. The note of a vote
     * comes before the vote counts. The hook may call nothing but consensus_get_status(). */
    void (*noted)(void *context, uint64_t from, bool leads, const uint8_t *bytes, size_t length);
};

/* Opens the folder and starts. Members and hooks are copied. On -1 nothing is left running, and err
 * has the next step. snapshot_load(), snapshot_adopt() and, in a cluster of one, apply() are called
 * before this returns. After a first start (config.bootstrap) the member may still wait for the
 * other founders: see status.founding. */
int consensus_open(const struct consensus_config *config, const struct consensus_hooks *hooks,
                   struct consensus **ret_consensus, struct err *err);
/* Once. Takes no more proposals, drops the tags that wait, waits until nothing is in flight, then
 * calls closed(context) from the loop. The handle is gone after closed(). A disk that hangs delays
 * closed() for as long. */
void consensus_close(struct consensus *consensus, void (*closed)(void *context), void *context);

/* For tests and the simulator: frees the memory as if the process had been killed. Nothing is
 * written, and no job may still be running. Tags that wait are dropped, reads fail. */
void consensus_abandon(struct consensus *consensus);

/* Appends an entry: leader only, not inside of hooks. Copies bytes. When this returns 0, apply() or
 * dropped() is called exactly once with tag, which must not be NULL, possibly before the return. On
 * -1 nothing was appended. */
int consensus_propose(struct consensus *consensus, const uint8_t *bytes, size_t length, void *tag,
                      struct err *err);

/* True: inside a hook or another call, where nothing may be proposed. */
bool consensus_in_call(const struct consensus *consensus);

/* A linearizable read: done(status 0) comes when every entry that was committed before the call is
 * applied here. Leader only: a majority confirms the term after the call (no lease); concurrent
 * calls share one round. status -1 with err otherwise. done() comes exactly once, and never before
 * this returns; data stays the caller's. */
void consensus_read(struct consensus *consensus,
                    void (*done)(void *data, int status, const struct err *err), void *data);

/* Asks a caught-up voter to campaign, best effort. Member 0: any voter that is fit to lead, or a
 * reluctant one when no connected voter is fit. ERR_REFUSED: no such voter, or not the named one;
 * the text says why. The voter campaigns within CONSENSUS_TRANSFER_MS or not at all, also when it
 * stands still with the message unread. */
int consensus_transfer(struct consensus *consensus, uint64_t member_id, struct err *err);
/* Nobody hands leadership over to a reluctant member while a fit one is there. A reluctant member
 * does not campaign for CORE_RELUCTANT_ELECTIONS election timeouts after a leader's last word, if
 * this leader heard another voter that is fit to lead. A reluctant leader goes on leading. */
void consensus_set_reluctant(struct consensus *consensus, bool reluctant);
/* Returns 0: this member leads no more, and does not campaign for CORE_GAVE_UP_ELECTIONS election
 * timeouts unless another member has led meanwhile. ERR_REFUSED: this member knows of no other that
 * could be elected, and goes on leading. Not inside of hooks. */
int consensus_step_down(struct consensus *consensus, struct err *err);

/* ---- members: changed one at a time, by the leader ---- done() is called exactly once, possibly
 * before the call returns. status 0: the change is committed. -1 with ERR_UNAVAILABLE (not the
 * leader, or the new member does not answer), ERR_REFUSED, ERR_NOT_FOUND, ERR_INVALID,
 * ERR_MISMATCH: nothing was changed, the text has the numbers and the next step. ERR_TIMEOUT:
 * leadership was lost meanwhile; the change may still be committed. */
typedef void consensus_change_fn(void *data, int status, const struct err *err);

/* Adds a learner: it gets the log and has no vote. The leader first asks the address whether this
 * very member waits there with an empty folder (config.join). The other members must know the
 * address: see consensus_member_put(). */
void consensus_member_add(struct consensus *consensus, const struct consensus_member *member,
                          consensus_change_fn *done, void *data);
/* Only asks the address, with all the checks of consensus_member_add(); changes nothing. */
void consensus_member_probe(struct consensus *consensus, const struct consensus_member *member,
                            consensus_change_fn *done, void *data);
/* Makes a learner a voter when it is at most CONSENSUS_PROMOTE_LAG_MAX entries behind. */
void consensus_member_promote(struct consensus *consensus, uint64_t member_id,
                              consensus_change_fn *done, void *data);
/* Never removes the leader itself (transfer first), the last voter, or a member without which the
 * others have no majority. */
void consensus_member_remove(struct consensus *consensus, uint64_t member_id,
                             consensus_change_fn *done, void *data);
/* Puts the newest address of a member into this member's address book, in the data folder. A hello
 * from another address updates the book by itself. */
void consensus_member_put(struct consensus *consensus, const struct consensus_member *member);
/* The contact of a member's last hello; "": it has not spoken yet. Valid until the loop turns. */
const char *consensus_member_contact(const struct consensus *consensus, uint64_t member_id);

/* As it said when it was heard last, now or before a connection was lost. False: it has not spoken
 * since this member started, and ret_build is that of who says nothing. */
bool consensus_member_build(const struct consensus *consensus, uint64_t member_id,
                            struct consensus_build *ret_build);

/* Append only. */
enum consensus_member_role {
    CONSENSUS_NO_MEMBER, /* not in the configuration (yet) */
    CONSENSUS_JOINING,   /* an add that is half done; the leader finishes it */
    CONSENSUS_LEARNER,
    CONSENSUS_VOTER
};

/* One other member, as this member sees it. */
struct consensus_peer_status {
    uint64_t id;
    char name[CONSENSUS_NAME_BYTES];
    char address[CONSENSUS_ADDRESS_BYTES]; /* "": not known yet */
    enum consensus_member_role role;
    bool voter;
    bool connected;
    uint64_t match_index;         /* leader only */
    uint64_t last_contact_age_ms; /* UINT64_MAX: never */
    enum consensus_unfit unfit;   /* its last word; followers do not tell each other */
};
/* A process that claims to be a member, of another incarnation of this cluster, and is refused. Its
 * id need not be in the configuration. */
struct consensus_foreign {
    uint64_t id;
    uint64_t incarnation;
    /* True: this process answers at the address of the member that it claims to be. False: it only
     * calls. Then it may be a copy somewhere, and the real member may run beside it. */
    bool answers;
    char address[CONSENSUS_ADDRESS_BYTES]; /* where it listens */
    char from[CONSENSUS_ADDRESS_BYTES];    /* of the last call; "": not known */
};
/* This member's knowledge at this moment. Totals count from the start of the process. */
struct consensus_status {
    uint64_t member_id;
    enum consensus_role role;
    enum consensus_member_role member_role; /* of this member, by the configuration in use */
    uint64_t term;
    uint64_t leader_id; /* 0: unknown */
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t last_index;
    uint64_t snapshot_index;
    uint64_t log_bytes;
    uint64_t disk_free_bytes;
    uint64_t disk_total_bytes; /* 0: not known */
    uint64_t snapshot_bytes;   /* content of the newest one; 0: there is none, or not known */
    bool accepts_writes;       /* false while the disk is low */
    /* leader: in contact with a majority; follower: heard a leader within the election timeout */
    bool quorum;
    uint64_t leader_contact_age_ms;
    /* How old the state here may be, beside the time that a message takes. On the leader: the time
     * since a majority spoke to it. Else: the time since a leader named a commit index that is
     * applied here by now. UINT64_MAX: not since the start. Only this age shows a leader that was
     * deposed and does not know it yet. */
    uint64_t state_age_ms;
    /* of the leader that spoke last; UINT64_MAX: none since the start */
    uint64_t leader_heard_age_ms;
    uint64_t proposals_in_flight;
    uint64_t leader_changes_total;
    uint64_t fsync_count;
    uint64_t fsync_us_total;
    uint64_t fsync_us_max;
    uint64_t log_write_ms; /* how long the write of the log under way has taken; 0: none */
    uint64_t snapshot_count;
    uint64_t snapshot_ms_last;
    uint64_t snapshot_failures_total; /* each is tried again */
    const char *snapshot_error;       /* of the last one; valid until the loop turns */
    /* The newest snapshot could not be read for a member: another one is taken for it. */
    uint64_t snapshot_unreadable_total;
    const char *snapshot_unreadable_error;
    struct consensus_foreign foreign[CONSENSUS_MEMBERS_MAX]; /* lately */
    size_t foreign_count;
    /* "": the cluster is founded. Else this first start (config.bootstrap) waits for these
     * founders: nothing is decided before all are there and agree. */
    char founding[CONSENSUS_FOUNDING_BYTES];
    uint64_t incarnation; /* raft/log/folder.h; 0: not known yet */
    /* the leader's first command raises the state's epoch to this one */
    uint64_t epoch_min;
    uint64_t configuration_index;      /* of the committed configuration's entry */
    uint64_t change_index;             /* of a configuration that is not committed yet; 0: none */
    bool change_under_way;             /* leader: requested, and not done */
    size_t voter_count, learner_count; /* in use, this member included */
    /* The other members of the configuration in use, or the known members before there is one. */
    size_t peer_count;
    struct consensus_peer_status peers[CONSENSUS_MEMBERS_MAX];
};
/* Fills all of it; cheap enough for every request, allowed inside of hooks. */
void consensus_get_status(const struct consensus *consensus, struct consensus_status *ret_status);

#endif
