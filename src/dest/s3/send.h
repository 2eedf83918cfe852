/* The files of a source into a folder of the store, each byte read and hashed once.
 *
 * Flow     send_files() reads chunk after chunk; as many of them are on their way at a time as the
 *          store answers within seconds (send_window), SEND_BYTES_MAX at most. What the folder
 *          holds already is read and hashed, and not sent. What the part's previous shard holds is
 *          copied from there by the store: a file of which all chunks are the same as a whole, else
 *          its parts that are.
 * Shapes   a file over a chunk is an upload in parts. A part is a chunk, so that the hash by which
 *          its PUT is signed is the manifest's: the files are cut so before (upload_cut).
 * Errors   those of source.h and answer.h.
 */
#ifndef CKPT_DEST_S3_SEND_H
#define CKPT_DEST_S3_SEND_H

#include "src/dest/s3/previous.h"

/* Eight chunks, as many as a restore asks for: with four of them one store's cores were idle for a
 * tenth of the time, as each part waits for the disks before it is answered. */
enum { SEND_BYTES_MAX = 128 << 20, SEND_CALLS_MAX = 16 };
/* Chunks that are on their way although SEND_BYTES_MAX does not hold them. */
enum { SEND_LARGE_MAX = 4 };

/* How many bytes may be on their way after a chunk of which the last answer took so long; 0 to
 * begin with. A chunk more after a quick answer, one less after a slow one, two at least: parts go
 * side by side, so that at a low rate none would be whole for long, which a kill loses, and which
 * looks like a store where nothing succeeds. */
uint64_t send_window(uint64_t bytes, uint64_t took_us);

/* Where from and where to. All of it is the caller's and stays as it is during the call. */
struct send_request {
    struct client *client;
    const struct shard_at *at;
    int source;
    const char *label; /* of the source, for errors */
    const struct previous *previous;
};

struct send_result {
    bool resumed;         /* the folder held something before */
    uint64_t saved_bytes; /* were copied by the store */
    bool late_copy;       /* it failed, since one may be carried out yet: use another folder */
};

/* Sets the hashes and generations of all files of the manifest, which is of the source and cut into
 * no more chunks than the store takes parts; hashes that it knows are not taken again, also after a
 * failure. When it succeeds every object is whole in the store, which has compared each with the
 * hash that it was signed with. After a failure what was sent stays there, for a second try or for
 * abandon. */
int send_files(const struct send_request *request, struct manifest *manifest,
               struct send_result *ret_result, struct err *err);

#endif
