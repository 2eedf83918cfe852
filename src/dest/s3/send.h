/* The files of a source into a folder of the store, each byte read and hashed once.
 *
 * Flow     send_files() reads chunk after chunk; up to SEND_BYTES_MAX of them are on their way at a
 *          time, and of a rate not more than it lets through in SEND_AHEAD_S: parts go side by
 *          side, and a kill loses those that are not whole. What the folder holds already is read
 *          and hashed, and not sent. What the part's previous shard holds is copied from there by
 *          the store: a file of which all chunks are the same as a whole, else its parts that are.
 * Shapes   a file over a chunk is an upload in parts. A part is a chunk; of a file over
 *          OBJECT_PARTS_MAX chunks (156 GiB) it is as many as are needed, and hashed as a part as
 *          well.
 * Errors   those of source.h and answer.h.
 */
#ifndef CKPT_DEST_S3_SEND_H
#define CKPT_DEST_S3_SEND_H

#include "src/dest/s3/previous.h"

/* Eight chunks, as many as a restore asks for. With four of them one store's cores were idle for a
 * tenth of the time, as each part waits for the disks before it is answered. */
enum { SEND_BYTES_MAX = 128 << 20, SEND_CALLS_MAX = 16, SEND_AHEAD_S = 4 };

/* Where from and where to. All of it is the caller's and stays as it is during the call. */
struct send_request {
    struct client *client;
    const struct shard_at *at;
    int source;
    const char *label; /* of the source, for errors */
    const struct previous *previous;
    uint64_t rate_bytes_per_s; /* the client's; 0: unlimited */
};

struct send_result {
    bool resumed;         /* the folder held something before */
    uint64_t saved_bytes; /* were copied by the store */
    bool late_copy;       /* it failed, since one may be carried out yet: use another folder */
};

/* Sets the hashes and generations of all files of the manifest, which is of the source. When it
 * succeeds every object is whole in the store, which has compared each with the hash that it was
 * signed with. After a failure what was sent stays there, for a second try or for abandon. */
int send_files(const struct send_request *request, struct manifest *manifest,
               struct send_result *ret_result, struct err *err);

#endif
