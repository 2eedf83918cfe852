/* Snapshots: one file each, versioned and checksummed, content as an LZ4 frame. libraft sees only a
 * token; content is streamed.
 *
 * Flow     taking: snapshot_take.h writes tmp-snapshot-take; snapshot_keep_work() then syncs,
 *          renames and syncs the folder in a job, and removes all but the newest two. Installing:
 *          the same with tmp-snapshot-install, after snapshot_verify(). Opening: snapshot_list(),
 *          newest first, until one verifies.
 * Shapes   files "snapshot-<index>-<term>", 16 hex digits each, so that names sort by index.
 * Units    bytes, log indexes.
 * Errors   ERR_CORRUPT with path and reason: the content is not what was written. ERR_MISMATCH:
 *          another version of the format. ERR_DISK: it could not be read, which says nothing of
 *          what is there; nobody may take that for damage and fall back to an older one.
 * Absent   the order of installation and of cutting the log (consensus_snapshot.c); the choice of
 *          the one to start from (consensus_load.c).
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

/* Two are kept, so that a newest one that rots can be replaced by the one before and the log, which
 * reaches back to that. The header is small enough to be read at once. */
enum { SNAPSHOTS_KEPT = 2, SNAPSHOT_HEADER_MAX_BYTES = 16384 };

/* The metadata of a snapshot: index and term of the last entry in its content, and the
 * configuration that was committed there, with the index of its entry. */
struct snapshot_meta {
    uint64_t index;
    uint64_t term;
    uint64_t configuration_index;
    struct raft_configuration configuration; /* owned */
};

/* Names one file, and nothing more: it may be damaged. */
struct snapshot_name {
    uint64_t index;
    uint64_t term;
};

/* Frees the configuration; closing twice is fine. */
void snapshot_meta_close(struct snapshot_meta *meta);
/* A deep copy, which the caller closes. -1: libraft does not take one of the members; ret_to is
 * empty then. */
int snapshot_configuration_copy(const struct raft_configuration *from,
                                struct raft_configuration *ret_to);
/* Writes the path of that snapshot into text and returns it; the disk is not asked. */
char *snapshot_path(const struct folder *folder, uint64_t index, uint64_t term,
                    char text[FOLDER_PATH_BYTES]);

/* The snapshots of the folder by their names, newest first, at most max of them. None is opened.
 * Other files (tmp-*, damaged-*) are passed over. */
int snapshot_list(const struct folder *folder, struct snapshot_name *ret_names, size_t max,
                  size_t *ret_count, struct err *err);
/* Reads the whole file and checks every byte of it, which takes long for a large one: at open, or
 * in a job. ret_meta may be NULL; else the caller closes it when 0 is returned. The content is
 * compared with its checksum and not unpacked. */
int snapshot_verify(const struct folder *folder, const char *path, struct snapshot_meta *ret_meta,
                    struct err *err);
/* Writes a snapshot piece by piece, all through raw: new() the header, put() content in any number
 * of pieces of any length, finish() the trailer. After an error only free() is left, and the file
 * is worth nothing. Nothing is synced: snapshot_keep_work() does that. One encoder belongs to one
 * thread at a time. */
struct snapshot_encoder;
int snapshot_encoder_new(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                         struct snapshot_encoder **ret_encoder, struct err *err);
/* From now on what comes out goes through this one. For a writer that lives only as long as a job,
 * where the encoder lives for many (snapshot_take.c). */
void snapshot_encoder_writer(struct snapshot_encoder *encoder, const struct consensus_writer *raw);
int snapshot_encoder_put(struct snapshot_encoder *encoder, const void *bytes, size_t length,
                         struct err *err);
int snapshot_encoder_finish(struct snapshot_encoder *encoder, struct err *err);
void snapshot_encoder_free(struct snapshot_encoder *encoder); /* NULL allowed */
/* The same in one go, for who can hold its thread that long (a restore): header, what content()
 * writes to the writer that it is given, trailer. */
int snapshot_write(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                   int (*content)(void *context, const struct consensus_writer *writer,
                                  struct err *err),
                   void *context, struct err *err);
/* Unpacks the content and lets take() read as much of it as it wants; its status is returned. Only
 * header and trailer are checked before: damaged content may reach take(), or fail to unpack with
 * ERR_CORRUPT, so whoever cannot bear that calls snapshot_verify() first. */
int snapshot_read(const struct folder *folder, const char *path,
                  int (*take)(void *context, const struct consensus_reader *reader,
                              struct err *err),
                  void *context, struct err *err);
/* In a job: makes a finished temporary file of the folder the newest snapshot, durably, and removes
 * the ones that are too many. `temporary` is a name, not a path. On -1 the rename may have been
 * done or not: whoever lists the folder finds out. */
int snapshot_keep_work(const struct folder *folder, const char *temporary, uint64_t index,
                       uint64_t term, struct err *err);

#endif
