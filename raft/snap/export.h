/* Writes the present state into a file and reads the file in pieces: a backup leaves a member this
 * way.
 *
 * Flow     export_start() writes the source's slices (slices.h) while the state goes on changing;
 *          then done() comes. export_read() follows as often as wanted, one at a time.
 *          export_close() may be called at any time. It removes the file, and only the source's
 *          callbacks still come, until its release().
 * Shapes   the file is "tmp-export-<number>" in the data folder. The next open removes a file that
 *          a crash left. Memory: one piece.
 * Units    bytes.
 * Errors   done(-1) with err; an export without room on the disk is refused at once. Before done(0)
 *          nothing can be read, and after done(-1) only export_close() may follow. got() tells that
 *          a piece could not be read; the caller may ask for it again.
 * Absent   any knowledge of the content, and checksums: they are the source's.
 */
#ifndef CKPT_RAFT_EXPORT_H
#define CKPT_RAFT_EXPORT_H

#include "raft/snap/slices.h"

struct export_call;

/* The request is copied. The source's context must live until its release(), `context` until
 * export_close(), and the disk table as long as the loop. */
struct export_request {
    const struct disk_ops *disk;
    const char *data_dir;
    /* The expected size of the file: with less room the export is refused with ERR_FULL before its
     * first byte. The log is on the same disk, and a backup that fills the disk would stop the
     * member from taking changes. */
    uint64_t room_bytes;
    struct slices_source source;
    /* On the loop: the file is there and has so many bytes; or err. */
    void (*done)(void *context, int status, uint64_t size_bytes, const struct err *err);
    void *context;
};

/* Begins an export. The source's first fill() runs inside this call, done() never does. On 0 the
 * caller owns the export, and ends it by export_close(). On -1 nothing was begun: neither done()
 * nor the source's release() is called. */
int export_start(const struct export_request *request, struct export_call **ret_export,
                 struct err *err);
/* Reads a piece of `length` bytes (1 or more) from `offset` on; got() comes once, later, from the
 * loop. The piece is valid during got() only. Fewer bytes than asked for, or 0, mean the end of the
 * file. Only after done(0), and not while another piece is under way. */
void export_read(struct export_call *call, uint64_t offset, size_t length,
                 void (*got)(void *context, int status, const uint8_t *bytes, size_t length,
                             const struct err *err),
                 void *context);
/* The path of the file, for another program that takes it over (a worker). Path and file stay until
 * export_close(), so the worker must have ended before. */
const char *export_path(const struct export_call *call);
/* Ends the export in any state and removes the file, off the loop. done() and got() do not come any
 * more. A writing under way is given up, and its source is released a little later. The handle is
 * gone with this call; NULL is allowed. */
void export_close(struct export_call *call);

#endif
