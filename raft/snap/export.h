/* A file made of the state as it is now, and read back in pieces: how a backup leaves a member.
 *
 * Flow     export_start() writes the source's slices (slices.h) while the state goes on changing;
 *          done(). Then export_read() as often as wanted, one at a time. export_close() at any
 *          time: no callback afterwards but the source's, until its release(); the file is removed.
 * Shapes   the file is "tmp-export-<number>" in the data folder: left by a crash, it is removed at
 *          the next open. Memory: one piece.
 * Units    bytes.
 * Errors   done(-1) with err; a disk without room is refused at once.
 *          Before done(0) nothing can be read, and after done(-1) only export_close() is left. A
 *          piece that could not be read is told to got(); it may be asked for again.
 * Absent   any knowledge of what is written; checksums, which are the source's matter.
 */
#ifndef CKPT_RAFT_EXPORT_H
#define CKPT_RAFT_EXPORT_H

#include "raft/snap/slices.h"

struct export_call;

/* Is copied. What the source's context points to must live until its release(), what `context`
 * points to until export_close(), and the disk table as long as the loop. */
struct export_request {
    const struct disk_ops *disk;
    const char *data_dir;
    /* What the caller expects the file to need: with less room the export is refused with ERR_FULL
     * before its first byte. The disk is the log's as well, and a backup that fills it would stop
     * the member from taking changes. */
    uint64_t room_bytes;
    struct slices_source source;
    /* On the loop: the file is there and has so many bytes; or err. */
    void (*done)(void *context, int status, uint64_t size_bytes, const struct err *err);
    void *context;
};

/* Begins an export; the source's first fill() runs inside this call, done() never does. On 0 the
 * export is the caller's, who ends it by export_close(). On -1 nothing was begun: neither done()
 * nor the source's release() is called. */
int export_start(const struct export_request *request, struct export_call **ret_export,
                 struct err *err);
/* Reads a piece of `length` bytes (1 or more) from `offset` on; got() comes once, later, from the
 * loop. The piece is the export's and valid during got() only; fewer bytes than asked for, or 0,
 * mean the end of the file. Only after done(0), and not while another piece is under way. */
void export_read(struct export_call *call, uint64_t offset, size_t length,
                 void (*got)(void *context, int status, const uint8_t *bytes, size_t length,
                             const struct err *err),
                 void *context);
/* The path of the file, for another program that takes it over (a worker). Path and file stay until
 * export_close(), so the worker must be over before that. */
const char *export_path(const struct export_call *call);
/* Ends the export in whatever state it is and removes the file, off the loop. done() and got() do
 * not come any more; a writing that is under way is given up, and its source is released a little
 * later. The handle is gone with this call; NULL is allowed. */
void export_close(struct export_call *call);

#endif
