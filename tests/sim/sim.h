/* A deterministic world: virtual clock, memory disks that tear and forget, a network that delays,
 * cuts and partitions.
 *
 * Flow     sim_new(seed); nodes get tables from sim_node_*(); sim_step() fires the next event. The
 *          same seed gives the same run.
 * Shapes   at most SIM_NODES_MAX nodes, one folder each. Everything is freed by sim_free(). While a
 *          node's code runs, sim_current_node() names it, for what has no context of its own
 *          (getrandom(2)).
 * Units    microseconds of the world's time unless the name says otherwise. A node's clocks may
 *          drift and step.
 * Faults   a crash after the n-th disk operation or at once: unsynced sectors, sizes and directory
 *          changes survive by chance; slow, full, failing and rotting disks; one-way partitions,
 *          reset connections, messages lost, repeated or out of order; processes that are stopped
 *          for a while.
 */
#ifndef CKPT_TESTS_SIM_SIM_H
#define CKPT_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/io_ops.h"
#include "src/base/ops.h"
#include "src/net/network.h"

enum { SIM_NODES_MAX = 32 };

struct sim;
struct sim_disk;

struct sim *sim_new(uint64_t seed);
void sim_free(struct sim *sim);
uint64_t sim_now_us(const struct sim *sim);
uint64_t sim_random(struct sim *sim, uint64_t below);
/* True once in `in` times. */
bool sim_chance(struct sim *sim, uint64_t in);
/* False when nothing is left to do. */
bool sim_step(struct sim *sim);
uint64_t sim_steps(const struct sim *sim);
/* For the test's own events; owner SIM_NODES_MAX survives crashes. */
void sim_after(struct sim *sim, unsigned owner, uint64_t delay_us, void (*fire)(void *data),
               void *data);
/* A hash over everything that has happened. */
uint64_t sim_trace(const struct sim *sim);
void sim_trace_add(struct sim *sim, uint64_t value);

void sim_node_clock(struct sim *sim, unsigned node, struct clock_ops *ret_ops);
void sim_node_random(struct sim *sim, unsigned node, struct random_ops *ret_ops);
void sim_node_disk(struct sim *sim, unsigned node, struct disk_ops *ret_ops);
void sim_node_network(struct sim *sim, unsigned node, struct network_ops *ret_ops);

/* The process of the node is gone: call after its memory was freed. Peers see their connections
 * end. */
void sim_crash(struct sim *sim, unsigned node);
/* The process ends within the event that runs, before sim_crash() buries it: what it sends from
 * here on is not sent. */
void sim_mute(struct sim *sim, unsigned node);
/* Stopped like by SIGSTOP: nothing of it runs until then, its connections stay. */
void sim_pause(struct sim *sim, unsigned node, uint64_t us);
bool sim_paused(const struct sim *sim, unsigned node);
/* Clocks: both run faster by drift_ppm (negative: slower), from the beginning of the world; set
 * before the node starts. */
void sim_clock_set_drift(struct sim *sim, unsigned node, int64_t drift_ppm);
void sim_clock_step(struct sim *sim, unsigned node, int64_t wall_ms);
uint64_t sim_wall_ms(const struct sim *sim, unsigned node);

/* The disk fails at its n-th operation from now on, and stays dead until the next sim_crash(). 0:
 * never. */
void sim_disk_die_after(struct sim *sim, unsigned node, uint64_t operations);
bool sim_disk_dead(const struct sim *sim, unsigned node);
/* One operation returns an error, the process finds out and stops; later ones work. 0: none. */
void sim_disk_fail_after(struct sim *sim, unsigned node, uint64_t operations);
/* The n-th read, also one of a folder or at an open, returns an error. The n-th sync of a file
 * does, and what it should have written is seen by all processes from then on as if it were on the
 * platter, until the power is cut. 0: none. */
void sim_disk_fail_read_after(struct sim *sim, unsigned node, uint64_t reads);
void sim_disk_fail_sync_after(struct sim *sim, unsigned node, uint64_t syncs);
/* The next sim_crash() of the node ends its process only: the page cache stays. */
void sim_disk_cache_stays(struct sim *sim, unsigned node);
/* So much room is left, whatever sim_disk_set_free() says, until that is called again: what grows
 * takes of it, and what does not fit fails. unseen: free_bytes() tells nothing of it; writes:
 * overwriting needs room as well. */
void sim_disk_fill(struct sim *sim, unsigned node, uint64_t room, bool unseen, bool writes);
/* Of all files, as they are seen. */
uint64_t sim_disk_bytes(struct sim *sim, unsigned node);
/* Others take half of that room. False: the disk is not filling. */
bool sim_disk_shrink(struct sim *sim, unsigned node);
/* The folder of a node that is down is empty from now on. */
void sim_wipe(struct sim *sim, unsigned node);
void sim_disk_set_free(struct sim *sim, unsigned node, uint64_t bytes);
/* Latencies times slowness (1: as usual). */
void sim_disk_set_slowness(struct sim *sim, unsigned node, unsigned slowness);

void sim_link_set(struct sim *sim, unsigned from, unsigned to, bool up);
bool sim_link_up(struct sim *sim, unsigned from, unsigned to);
/* All connections between the two end; what is under way is lost. */
void sim_reset_connections(struct sim *sim, unsigned a, unsigned b);
/* Of what is sent between nodes below `nodes` one in lost_in is lost, one in doubled_in comes twice
 * and one in swapped_in comes after its successor; the first of a stream never (0: never). TCP does
 * none of this within a connection: replication survives it. */
struct sim_unruly {
    unsigned nodes;
    uint64_t lost_in, doubled_in, swapped_in;
};
void sim_network_set_unruly(struct sim *sim, const struct sim_unruly *unruly);
/* Of what the node sends, whatever this says is lost, until its process ends. NULL: nothing. */
void sim_network_lose(struct sim *sim, unsigned node,
                      bool (*is_lost)(const uint8_t *bytes, size_t length));
/* One message in slow_in takes up to slow_us; the others up to 1 ms. */
void sim_network_set_latency(struct sim *sim, uint64_t slow_in, uint64_t slow_us);

/* How long that took which came last of all that has arrived since then, between nodes below
 * `nodes`. */
void sim_network_watch_late(struct sim *sim, unsigned nodes);
uint64_t sim_network_late_us(struct sim *sim, uint64_t since_us);

/* Direct access to a node's files, for tests that damage them. NULL when there is none. */
uint8_t *sim_file(struct sim *sim, unsigned node, const char *name, size_t *ret_length);
/* Flips one bit of what is on the platter and of what is read. */
void sim_file_rot(struct sim *sim, unsigned node, const char *name, uint64_t offset, unsigned bit);
/* It is not there any more. */
void sim_file_lose(struct sim *sim, unsigned node, const char *name);
/* The folder is empty, as if the disk had been replaced; only while the node's process is down. */
void sim_disk_wipe(struct sim *sim, unsigned node);
/* Keeps a copy of what is on the platter; puts it back, only while the node's process is down.
 * False: there is no copy. */
void sim_disk_keep(struct sim *sim, unsigned node);
bool sim_disk_put_back(struct sim *sim, unsigned node);
/* The i-th name that begins with prefix, NULL when there are no more. */
const char *sim_file_name(struct sim *sim, unsigned node, const char *prefix, unsigned i);

/* ---- whose code runs ---- */

/* The world whose event is firing (NULL: none) and the node that owns it (SIM_NODES_MAX: none). */
struct sim *sim_current(void);
unsigned sim_current_node(void);
/* A bit for each node whose code, or whose fate, the last step may have changed. Events that nobody
 * owns count for all. */
uint64_t sim_touched(const struct sim *sim);
/* The event that fires is nobody's, and changes nothing but the nodes that it enters from here
 * on. */
void sim_touches_who_it_enters(struct sim *sim);
/* Brackets calls into a node's code from outside of its events; returns what leave() takes. */
unsigned sim_enter(struct sim *sim, unsigned node);
void sim_leave(struct sim *sim, unsigned before);

/* ---- between the files of this folder ---- */

struct sim_event;
struct sim_network;
struct sim_event *sim_schedule(struct sim *sim, unsigned owner, uint64_t delay_us,
                               void (*fire)(void *data), void *data);
/* Called instead of fire when the event dies with its node or the world. */
void sim_on_drop(struct sim_event *event, void (*drop)(void *data));
void sim_cancel(struct sim *sim, struct sim_event *event);
struct sim_disk *sim_disk_of(struct sim *sim, unsigned node);
struct sim_network *sim_network_of(struct sim *sim);
uint64_t sim_node_epoch(const struct sim *sim, unsigned node);      /* counts crashes */
uint64_t sim_paused_until_us(const struct sim *sim, unsigned node); /* the last time; 0: never */
uint64_t sim_pause_left_us(const struct sim *sim, unsigned node);
uint64_t sim_paused_us(const struct sim *sim, unsigned node); /* altogether, with what is left */

struct sim_disk *sim_disk_new(struct sim *sim, unsigned node);
void sim_disk_free(struct sim_disk *disk);
void sim_disk_crash(struct sim_disk *disk);
struct sim_network *sim_network_new(struct sim *sim);
void sim_network_free(struct sim_network *network);
void sim_network_crash(struct sim_network *network, unsigned node);

#endif
