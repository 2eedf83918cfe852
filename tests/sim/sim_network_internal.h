/* Shared by sim_network.c and sim_network_faults.c: what the simulated network consists of. See
 * sim.h. */
#ifndef CKPT_TESTS_SIM_SIM_NETWORK_INTERNAL_H
#define CKPT_TESTS_SIM_SIM_NETWORK_INTERNAL_H

#include "tests/sim/sim.h"

enum { ADDRESS_BYTES = 64, LATE_MAX = 64 };

struct network_stream {
    struct sim_network *network;
    unsigned owner;
    unsigned other;
    struct network_stream *peer; /* NULL: not connected, or the other end is freed */
    struct network_events events;
    bool started;
    bool closed;  /* no event any more */
    bool dialled; /* by its owner */
    bool dialling;
    bool busy; /* one of its events is being told */
    bool gone; /* the owner's process has crashed: its memory is not there any more */
    uint64_t sent_count;
    struct piece *first, *last; /* under way, in order */
    size_t unsent;
    struct piece *unread, *unread_last; /* arrived at an end that reads by turns, in order */
    bool pumping;                       /* the first piece has an event */
    bool told;                          /* that there are such pieces */
    bool held_up; /* more than the buffer was under way: the sender will be told */
    bool telling; /* so, by an event */
    bool by_path; /* a unix socket */
    pid_t pid;    /* of who dialled it, as it says itself; 0: not told */
    size_t buffer;
    char address[ADDRESS_BYTES];
    struct network_stream *next, *previous;
};

struct network_listener {
    struct sim_network *network;
    unsigned owner;
    char address[ADDRESS_BYTES];
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
    struct network_listener *next;
};

struct sim_network {
    struct sim *sim;
    bool down[SIM_NODES_MAX][SIM_NODES_MAX];
    bool muted[SIM_NODES_MAX];
    bool (*is_lost[SIM_NODES_MAX])(const uint8_t *bytes, size_t length);
    struct sim_unruly unruly;
    uint64_t slow_in, slow_us;
    /* What has arrived late between nodes below late_nodes: each later than all that has arrived
     * since, the oldest first. */
    unsigned late_nodes, late_count;
    struct {
        uint64_t at_us, took_us;
    } late[LATE_MAX];
    struct network_stream *streams;
    struct network_listener *listeners;
    struct node_context {
        struct sim_network *network;
        unsigned node;
    } contexts[SIM_NODES_MAX];
};

struct piece {
    uint8_t *bytes; /* NULL: the end of the stream */
    size_t length;
    size_t read; /* of it, before the rest */
    uint64_t sent_us;
    uint64_t due_us;
    struct piece *next;
};

/* Leaves freeing to the caller. */
void sim_stream_tell_closed(struct network_stream *stream);
/* Freed, when nobody is inside it and nothing of it is under way. */
void sim_stream_release(struct network_stream *stream);

#endif
