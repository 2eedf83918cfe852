/* Snapshots: one file each, versioned and checksummed, content as an LZ4 frame. libraft sees only a
 * token; content is streamed.
 *
 * Flow     taking: snapshot_take.h writes tmp-snapshot-take; snapshot_keep_work() then syncs,
 *          renames and syncs the folder in a job, and removes all but the newest two. Installing:
 *          the same with tmp-snapshot-install, after snapshot_verify(). Opening: snapshot_list(),
 *          newest first, until one verifies.
 * Shapes   files "snapshot-<index>-<term>", 16 hex digits each, so that names sort by index.
 * Units    bytes, log indexes.
 * Errors   ERR_CORRUPT with path and reason.
 * Source   header, little endian: "CKPTSNAP", version u32, header length u32, index u64, term u64,
 *          configuration index u64, servers u32, each {id u64, role u8, address length u16,
 *          address}, crc32c u32 of all before it; then one LZ4 frame; trailer, 28 bytes:
 *          "CKPTSEND", frame length u64, zero u32, crc32c u32 of the frame, crc32c u32 of the
 *          trailer.
 */
#ifndef CKPT_RAFT_SNAPSHOT_H
#define CKPT_RAFT_SNAPSHOT_H

#include <raft.h>

#include "raft/core/consensus.h"
#include "raft/log/folder.h"

enum { SNAPSHOTS_KEPT = 2, SNAPSHOT_HEADER_MAX_BYTES = 16384 };

struct snapshot_meta {
    uint64_t index;
    uint64_t term;
    uint64_t configuration_index;
    struct raft_configuration configuration; /* owned */
};

struct snapshot_name {
    uint64_t index;
    uint64_t term;
};

void snapshot_meta_close(struct snapshot_meta *meta);
int snapshot_configuration_copy(const struct raft_configuration *from,
                                struct raft_configuration *ret_to);
char *snapshot_path(const struct folder *folder, uint64_t index, uint64_t term,
                    char text[FOLDER_PATH_BYTES]);

/* Newest first; at most max names. */
int snapshot_list(const struct folder *folder, struct snapshot_name *ret_names, size_t max,
                  size_t *ret_count, struct err *err);
/* Checks every byte. ret_meta may be NULL. */
int snapshot_verify(const struct folder *folder, const char *path, struct snapshot_meta *ret_meta,
                    struct err *err);
/* Piece by piece: new() writes the header, put() content, finish() the trailer, all through raw. */
struct snapshot_encoder;
int snapshot_encoder_new(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                         struct snapshot_encoder **ret_encoder, struct err *err);
/* From now on through this one. */
void snapshot_encoder_writer(struct snapshot_encoder *encoder, const struct consensus_writer *raw);
int snapshot_encoder_put(struct snapshot_encoder *encoder, const void *bytes, size_t length,
                         struct err *err);
int snapshot_encoder_finish(struct snapshot_encoder *encoder, struct err *err);
void snapshot_encoder_free(struct snapshot_encoder *encoder); /* NULL allowed */
/* Header, what content() writes, trailer: all through raw. */
int snapshot_write(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                   int (*content)(void *context, const struct consensus_writer *writer,
                                  struct err *err),
                   void *context, struct err *err);
/* Feeds the content to take(). */
int snapshot_read(const struct folder *folder, const char *path,
                  int (*take)(void *context, const struct consensus_reader *reader,
                              struct err *err),
                  void *context, struct err *err);
/* In a job: makes a finished temporary file the newest snapshot and removes the ones that are too
 * many. */
int snapshot_keep_work(const struct folder *folder, const char *temporary, uint64_t index,
                       uint64_t term, struct err *err);

#endif
