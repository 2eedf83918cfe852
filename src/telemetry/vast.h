/* The management system (VMS) of a VAST storage cluster: GET /api/clusters/, and the token that
 * lets one ask.
 *
 * Flow     vast_parse(): bytes -> what one cluster says of its health and of the bytes written to
 *          it now. vast_login() makes the body of POST /api/token/, vast_token() reads its answer;
 *          source.c renews the token when it is refused (vast_token_refused()). vast_headroom():
 *          what of that bandwidth checkpoints may use.
 * Shapes   the list is a bare array or {"count","next","previous","results"}. One cluster: the
 *          named one, or the only one.
 * Units    bytes per second. wr_bw is in bytes per second, max_performance.write_bw in 10^9 of
 *          them.
 * Errors   -1 with err for what is not such a list, or does not hold the cluster: that says nothing
 *          about the storage. Rates that are no number, negative, or VAST_RATE_END and more are
 *          counted as refused and taken for unknown.
 * Absent   max_cluster_write_bw_mb (0 where it is not set, and its meaning is not documented),
 *          monitors (ad_hoc_query), the refresh token (the password that a new one is asked with is
 *          at hand).
 * Source   the OpenAPI of VAST 5.3 to 5.5 and answers of real clusters; S1-005, S1-052, S1-061.
 */
#ifndef CKPT_TELEMETRY_VAST_H
#define CKPT_TELEMETRY_VAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

enum { VAST_TROUBLE_BYTES = 96, VAST_TOKEN_MAX = 8192 };
#define VAST_RATE_END 1e14
#define VAST_CLUSTERS_PATH                                                                         \
    "/clusters/?fields=id,name,state,ssd_raid_state,nvram_raid_state,memory_raid_state,wr_bw,"     \
    "max_performance"
#define VAST_TOKEN_PATH "/api/token/"

/* What the VMS says of one cluster now. */
struct vast_cluster {
    bool up; /* state ONLINE, and no RAID that is neither HEALTHY nor REBALANCE */
    char trouble[VAST_TROUBLE_BYTES]; /* why not; "": up */
    double write_bytes_per_s;         /* by everybody, now; NaN: not known */
    double limit_bytes_per_s;         /* what it can write; NaN: not known */
    unsigned refused;                 /* rates that none can be */
};

/* name "": the only cluster of the list. ERR_INVALID for what is no answer of a VMS, ERR_NOT_FOUND
 * when no cluster has that name. May run on any thread. */
int vast_parse(const void *bytes, size_t length, const char *name, struct vast_cluster *ret_cluster,
               struct err *err);

/* {"username","password"} of "USER:PASSWORD"; ends with a zero byte that is not counted. */
void vast_login(const char *user, struct buf *ret_body);
/* The answer's access token, to be freed; NULL with err. */
char *vast_token(const void *bytes, size_t length, struct err *err);
/* The answer says that a new token will do: 401, or 403 with words about the token. */
bool vast_token_refused(long status, const void *bytes, size_t length);

/* url + path for one below the API's version, such as /clusters/; VAST_TOKEN_PATH comes right after
 * the host. Without "/api" the url gets it. Returns text, NULL when it does not fit. */
char *vast_url(const char *url, const char *path, char *text, size_t size);

/* What checkpoints may write: min(cap, limit) - writes of everybody + own, own being at most those
 * writes. Never below VAST_FLOOR_PPM of `most`, for who begins to write on a busy system gets a
 * share too; never above `most`. 0: not known, as neither cap nor limit is, or the writes are
 * not. */
enum { VAST_FLOOR_PPM = 50000 };
/* What the site and the broker know of that bandwidth. */
struct vast_share {
    uint64_t cap_bytes_per_s;  /* 0: none */
    uint64_t own_bytes_per_s;  /* of the writes: the broker's checkpoints */
    uint64_t most_bytes_per_s; /* > 0; of the targets on this system together */
};
uint64_t vast_headroom(const struct vast_cluster *cluster, const struct vast_share *share);

#endif
