/* Whether the machines of nodes answer this member: the second witness of a node whose agent is
 * silent.
 *
 * Flow     on every member a look once a second. Each node's probe address (its agent's, in the
 *          state) is tried by a TCP connect. It is tried now and then while the agent is well, so
 *          that it is known to answer, and every few seconds while the agent is silent. A refusal
 *          is an answer: the kernel lives. A member tells the leader of its misses with Raft's
 *          messages (the words below, 24 bytes). nodes.c asks for the witness.
 * Rules    A member witnesses only
 *          - where it got an answer itself while the agent was well, lately;
 *          - after NODE_PROBE_MISSES tries in a row without an answer, the last one just now;
 *          - where a neighbour of the node (probe_area.h), on another host, answered it after each
 *            of these tries and before the next one. A member that is cut off itself reaches
 *            nobody, and one that is cut off from a rack reaches nobody there. A node without a
 *            neighbour that is known to answer is compared with any other node;
 *          - of a node that is on another host than itself.
 *          Members on two hosts are a witness. A member that has just been started, or was never
 *          answered, is none.
 * Shapes   one record per node slot; NODE_PROBE_IN_FLIGHT_MAX connects at a time. The words cover a
 *          window of NODE_PROBE_WINDOW slots; windows with a silent node take turns. A digest of
 *          the nodes that are named goes along, so that a leader whose state has other nodes there
 *          takes none of it. Words that are over are taken back: two members that miss a node one
 *          after the other are no witness.
 * Units    milliseconds; microseconds of the monotonic clock.
 * Errors   a failure on this side (no descriptor, no route of its own) says nothing of the node.
 * Absent   names: an address is numeric, because a name server that is away would be a witness.
 *          Replicated answers: a member that forgets them is no witness, which is safe.
 * Source   S3-060, F-006, V-003.
 */
#ifndef CKPT_BROKER_NODE_PROBE_H
#define CKPT_BROKER_NODE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct broker;
struct fsm_node;
struct node_probe;
struct probe_try;

enum {
    NODE_PROBE_LOOK_MS = 1000, /* at most */
    NODE_PROBE_TIMEOUT_MS = 2000,
    NODE_PROBE_WELL_MS = 300 * 1000, /* between two tries while the agent is well */
    /* ... while it is silent or did not answer, and of others that a miss is compared with: a sixth
     * and a fifteenth of node_degraded_after, at most so long */
    NODE_PROBE_SILENT_MS = 5000,
    NODE_PROBE_CONTROL_MS = 2000,
    NODE_PROBE_LEAST_MS = 200,
    NODE_PROBE_DOUBT_MS = 15 * 60 * 1000, /* so long a node is tried so often */
    NODE_PROBE_MISSES = 3,                /* without an answer, in a row */
    NODE_PROBE_FRESH_MS = 15 * 1000,      /* so old may be an answer or a miss that counts */
    NODE_PROBE_YOUNG_MISSES = 10,         /* until it counts as one that never answers */
    NODE_PROBE_WORDS_MS = 5000, /* so long another member's words count: they are said again */
    NODE_PROBE_CONTROLS = 8, /* other nodes that are tried while one is silent, and of its area */
    NODE_PROBE_IN_FLIGHT_MAX = 64,
    NODE_PROBE_WINDOW = 128,
    NODE_PROBE_WORDS_BYTES = 24,
    NODE_PROBE_ADDRESS_BYTES = 64,
    NODE_PROBE_PORT = 22 /* where an agent names none: most nodes run sshd */
};

enum probe_result {
    PROBE_ANSWER,  /* connected, or refused */
    PROBE_SILENCE, /* nothing came, or its host cannot be reached */
    PROBE_LOCAL,   /* the address is of this very host */
    PROBE_FAILED   /* on this side */
};

/* How a connect is tried: node_probe_uv.h, or a simulator. */
struct probe_ops {
    void *context;
    /* done() comes once, later, unless cancel() is called before. */
    struct probe_try *(*start)(void *context, const char *address,
                               void (*done)(void *data, enum probe_result result), void *data);
    void (*cancel)(struct probe_try *attempt);
};

/* On every member, after the replica was opened; tries from then on. ops is copied. Freed after the
 * replica was closed. */
struct node_probe *node_probe_new(struct broker *broker, const struct probe_ops *ops);
void node_probe_free(struct node_probe *probe); /* NULL allowed */

/* This member witnesses that the node is off. NULL allowed: it witnesses nothing. */
bool node_probe_witnesses(const struct node_probe *probe, const struct fsm_node *node);
/* The leader's: as many as two hosts' members witness, and text says where and who: "no answer at
 * 10.0.0.7:22 from n1, n2". NULL allowed. */
bool node_probe_is_off(const struct node_probe *probe, const struct fsm_node *node, char *text,
                       size_t size);
/* "answers", "no answer", "never answered"; "" : not tried by this member. */
const char *node_probe_word(const struct node_probe *probe, const struct fsm_node *node);

/* To the leader: at most NODE_PROBE_WORDS_BYTES, 0: nothing to say. From a member: what makes no
 * sense is passed over. */
size_t node_probe_say(struct node_probe *probe, uint8_t bytes[NODE_PROBE_WORDS_BYTES]);
void node_probe_hear(struct node_probe *probe, uint64_t member_id, const uint8_t *bytes,
                     size_t length);

/* Where a node is probed, from its agent's setting and the address of its stream: the setting is
 * empty (port 22 at the stream's host), a port, "HOST:PORT" or "off". "-": nowhere. */
void node_probe_address(const char *setting, const char *peer, char text[NODE_PROBE_ADDRESS_BYTES]);

#endif
