/* A deterministic world for raft/: virtual clock, memory disks that tear and forget, a network that delays, cuts and partitions.
 *
 * Flow     sim_new(seed); nodes get tables from sim_node_*(); sim_step() fires the next event. The same seed gives the same run.
 * Shapes   at most SIM_NODES_MAX nodes, one folder each. Everything is freed by sim_free().
 * Faults   a crash after the n-th disk operation or at once: unsynced sectors, sizes and directory changes survive by chance;
 *          one-way partitions; reset connections; a full or failing disk.
 */
#ifndef CKPT_TESTS_RAFT_SIM_H
#define CKPT_TESTS_RAFT_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/io_ops.h"
#include "src/base/ops.h"

enum { SIM_NODES_MAX = 9 };

struct sim;
struct sim_disk;

struct sim *sim_new(uint64_t seed);
void sim_free(struct sim *sim);
uint64_t sim_now_us(const struct sim *sim);
uint64_t sim_random(struct sim *sim, uint64_t below);
/* False when nothing is left to do. */
bool sim_step(struct sim *sim);
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

/* The process of the node is gone: call after its memory was freed. Peers see their connections end. */
void sim_crash(struct sim *sim, unsigned node);
/* The disk fails at its n-th operation from now on, and stays dead until the next sim_crash(). 0: never. */
void sim_disk_die_after(struct sim *sim, unsigned node, uint64_t operations);
bool sim_disk_dead(const struct sim *sim, unsigned node);
void sim_disk_set_free(struct sim *sim, unsigned node, uint64_t bytes);
void sim_link_set(struct sim *sim, unsigned from, unsigned to, bool up);
/* All connections between the two end. */
void sim_reset_connections(struct sim *sim, unsigned a, unsigned b);

/* Direct access to a node's files, for tests that damage them. NULL when there is none. */
uint8_t *sim_file(struct sim *sim, unsigned node, const char *name, size_t *ret_length);
/* The i-th name that begins with prefix, NULL when there are no more. */
const char *sim_file_name(struct sim *sim, unsigned node, const char *prefix, unsigned i);

/* ---- between sim.c, sim_disk.c and sim_network.c ---- */

struct sim_event;
struct sim_network;
struct sim_event *sim_schedule(struct sim *sim, unsigned owner, uint64_t delay_us,
                               void (*fire)(void *data), void *data);
/* Called instead of fire when the event dies with its node or the world. */
void sim_on_drop(struct sim_event *event, void (*drop)(void *data));
void sim_cancel(struct sim_event *event);
struct sim_disk *sim_disk_of(struct sim *sim, unsigned node);
struct sim_network *sim_network_of(struct sim *sim);
uint64_t sim_node_epoch(const struct sim *sim, unsigned node); /* counts crashes */

struct sim_disk *sim_disk_new(struct sim *sim, unsigned node);
void sim_disk_free(struct sim_disk *disk);
void sim_disk_crash(struct sim_disk *disk);
struct sim_network *sim_network_new(struct sim *sim);
void sim_network_free(struct sim_network *network);
void sim_network_crash(struct sim_network *network, unsigned node);

#endif
