/* The sources of telemetry, their polling, and its results.
 *
 * Flow     sources_configure() makes the endpoints: one, or with "{host}" in the url one per line
 *          of the map. A timer starts the due polls: fetch -> parser on a thread of libuv's pool ->
 *          hooks.samples() on the loop, document by document, a large one in several turns. A
 *          Redfish endpoint reads its documents one after the other (walk.h). A VMS tells of one
 *          storage cluster (vast.h): hooks.cluster(). With a login as credentials, the first poll
 *          logs in, and a poll whose token is refused logs in once more.
 * Shapes   at most SOURCES_MAX sources; per source `concurrency` endpoints are busy at a time.
 *          Intervals get a jitter of a tenth, so that thousands of endpoints do not come at once;
 *          the first poll of each lies anywhere in the first interval.
 * Units    milliseconds, bytes; ages in microseconds of the monotonic clock.
 * Errors   a failure is counted and kept as text (source_status). The endpoint is asked again after
 *          1, 2, 4, at most SOURCE_BACKOFF_MAX intervals. A source that cannot be set up (its map,
 *          its credentials) says so in its status and is not asked.
 * Absent   logging, and any opinion about nodes: the caller judges failures, and no decision
 *          depends on them.
 */
#ifndef CKPT_TELEMETRY_SOURCE_H
#define CKPT_TELEMETRY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "src/base/err.h"
#include "src/base/ops.h"
#include "src/telemetry/map.h"
#include "src/telemetry/samples.h"
#include "src/telemetry/vast.h"

enum {
    SOURCES_MAX = 15,
    SOURCE_BACKOFF_MAX = 8,
    SOURCE_STALE_INTERVALS = 3,
    SOURCE_TURN_SAMPLES = 2048,  /* taken in one turn of the loop, over all documents */
    SOURCE_DOCUMENT_SAMPLES = 64 /* a document counts at least as so many */
};

/* The kind of server: it decides how the endpoint is asked and read. */
enum source_kind { SOURCE_SMD, SOURCE_REDFISH, SOURCE_PROMETHEUS, SOURCE_VAST };
const char *source_kind_name(enum source_kind kind);
/* -1: no such kind. */
int source_kind_parse(const char *text, enum source_kind *ret_kind);

/* A source of the configuration. Texts are never NULL: "" is none. */
struct source_config {
    char *name; /* for people and metrics; unique */
    enum source_kind kind;
    char *url;             /* with "{host}": one endpoint per line of the map */
    char *map;             /* file of map.h; "": names are the nodes' own */
    char *credentials;     /* file of secret.h; "": none */
    char *ca, *cert, *key; /* PEM files, as in fetch.h */
    bool insecure;         /* any certificate; credentials also over plain HTTP */
    uint64_t interval_ms;  /* between polls of an endpoint */
    uint64_t timeout_ms;   /* of one document */
    uint64_t max_bytes;    /* of one document */
    uint64_t concurrency;  /* endpoints that are busy at a time */
    /* SOURCE_VAST alone */
    char *targets; /* the storage targets on that system, with spaces or commas between them */
    char *cluster; /* its name; "": the only one */
    /* limit of all writes together, of checkpoints and others; 0: the VMS's value */
    uint64_t write_limit_bytes_per_s;
};

/* The state of a source, for metrics, `ckptctl status` and warnings. Texts live until the next
 * sources_configure(). */
struct source_status {
    const char *name;
    enum source_kind kind;
    size_t endpoints, failing;            /* failing: the last poll failed */
    uint64_t polls_total, failures_total; /* since it was configured */
    uint64_t last_ok_us;                  /* of any endpoint; 0: never */
    /* of its documents, as samples.h counts them */
    uint64_t samples_total, refused_total, old_total, dropped_total;
    const char *problem;  /* of the last failure; "": none since the last success */
    const char *host;     /* the host of the problem */
    uint64_t interval_us; /* the present one */
    bool usable;          /* it could be set up */
};

/* The progress through a document. Begins as zeros, but for poll_us; ends when the whole document
 * was taken, or is not wanted any more. */
struct sources_taking {
    size_t next;       /* sample */
    struct buf marked; /* the hook's own, closed by this module */
    size_t marks_done;
    uint64_t poll_us; /* when its poll began, which may read several documents */
};

/* The owner's callbacks, on the loop. Neither may configure or free the sources. */
struct sources_hooks {
    void *context;
    /* node: the endpoint's node; NULL: the samples' subjects name nodes. Takes about `most`
     * samples. True: the whole document is taken; otherwise the hook is called again in a later
     * turn. */
    bool (*samples)(void *context, size_t source, const char *node, const struct samples *samples,
                    size_t most, struct sources_taking *taking);
    /* For SOURCE_VAST. */
    void (*cluster)(void *context, size_t source, const struct vast_cluster *cluster);
};

struct sources;

/* No source is configured yet. The tables are copied; their contexts outlive it. */
struct sources *sources_new(uv_loop_t *loop, const struct clock_ops *clock,
                            const struct random_ops *random, const struct sources_hooks *hooks);
void sources_free(struct sources *sources); /* NULL allowed */
/* Replaces all sources; texts are copied, files are read now. Polls of the old sources are dropped,
 * and the new sources get their numbers (health_forget_source()). count at most SOURCES_MAX. */
void sources_configure(struct sources *sources, const struct source_config *configs, size_t count);
/* Intervals become `pace` times the configured ones. A lower pace than before brings the next polls
 * forward. */
void sources_set_pace(struct sources *sources, uint64_t pace);

/* i below sources_count() is the source's number, as in hooks. sources NULL counts as no source. */
size_t sources_count(const struct sources *sources);
void sources_status(const struct sources *sources, size_t i, struct source_status *ret_status);
const struct source_config *sources_config(const struct sources *sources, size_t i);
/* The map from the source's subjects to nodes; empty when it has no file. */
const struct map *sources_map(const struct sources *sources, size_t i);

/* Pure parts. */
/* Time to the next poll after so many failures in a row; random is any number. */
uint64_t source_delay_ms(uint64_t interval_ms, unsigned failures, uint32_t random);
/* The next name in source_config.targets, from *at on; false: no more. A name that is too long is
 * cut. */
bool source_target_next(const char **at, char *name, size_t size);
/* url with each "{host}" replaced. Returns text, NULL when it does not fit. */
char *source_url(const char *url, const char *host, char *text, size_t size);

#endif
