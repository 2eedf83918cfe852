/* Nodes that are near each other, for the comparison of node_probe.h.
 *
 * Rule     The neighbours of a node are the nodes of its domain. Where it has none, they are the
 *          nodes whose probe addresses are of its subnet (24 bits of IPv4, 64 of IPv6). A switch or
 *          a power supply serves such nodes together: an answer from elsewhere says nothing of the
 *          way to them.
 * Flow     probe_areas_begin() before each look, probe_area_add() for each node that is known to
 *          answer; then the questions.
 * Shapes   a table of areas by their key, and one area of all nodes. An area keeps the newest
 *          answers of two hosts, so that there is one beside any host.
 * Units    microseconds of the monotonic clock.
 * Source   V-003.
 */
#ifndef CKPT_BROKER_PROBE_AREA_H
#define CKPT_BROKER_PROBE_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_HOST_BYTES = 64 };

struct probe_area {
    uint64_t key;     /* 0: a free place of the table */
    bool missing;     /* a node of it did not answer */
    uint32_t allowed; /* so many of its nodes may still be tried to compare with */
    struct {
        char host[PROBE_HOST_BYTES]; /* "": none */
        uint64_t answer_us;          /* the try of its newest answer began then; 0: none */
    } newest[2];
};

/* Begins as zeros. */
struct probe_areas {
    struct probe_area all;
    struct probe_area *items;
    size_t capacity;
};

/* Of a node: never 0. */
uint64_t probe_area_key(const char *domain, const char *host);
/* For so many nodes at most; each area may try `allowed` of its own. */
void probe_areas_begin(struct probe_areas *areas, uint32_t nodes, uint32_t allowed);
void probe_areas_free(struct probe_areas *areas);
struct probe_area *probe_areas_at(struct probe_areas *areas, uint64_t key);
void probe_area_add(struct probe_area *area, const char *host, uint64_t answer_us);
/* A node of it on another host is known to answer. */
bool probe_area_has_other(const struct probe_area *area, const char *host);
/* ... and answered a try that began after that. */
bool probe_area_answered(const struct probe_area *area, const char *host, uint64_t after_us);

#endif
