/* A file made of the state as it is now, and read back in pieces: how a backup leaves a member.
 *
 * Flow     export_start() writes the source's slices (slices.h) while the state goes on changing;
 *          done(). Then export_read() as often as wanted, one at a time. export_close() at any
 *          time: no callback afterwards but the source's, until its release(); the file is removed.
 * Shapes   the file is "tmp-export-<number>" in the data folder: left by a crash, it is removed at
 *          the next open. Memory: one piece.
 * Units    bytes.
 * Errors   done(-1) with err; a disk without room is refused at once.
 * Absent   any knowledge of what is written.
 */
#ifndef CKPT_RAFT_EXPORT_H
#define CKPT_RAFT_EXPORT_H

#include "raft/snap/slices.h"

struct export_call;

struct export_request {
    const struct disk_ops *disk;
    const char *data_dir;
    uint64_t room_bytes; /* refused with ERR_FULL when less is free */
    struct slices_source source;
    /* On the loop: the file is there and has so many bytes; or err. */
    void (*done)(void *context, int status, uint64_t size_bytes, const struct err *err);
    void *context;
};

/* -1: neither done() nor the source's release() is called. */
int export_start(const struct export_request *request, struct export_call **ret_export,
                 struct err *err);
/* The piece is valid during the call; length 0: the end. After done(0), and not while another one
 * is under way. */
void export_read(struct export_call *call, uint64_t offset, size_t length,
                 void (*got)(void *context, int status, const uint8_t *bytes, size_t length,
                             const struct err *err),
                 void *context);
/* For another program that takes the file over (a worker): it stays until export_close(). */
const char *export_path(const struct export_call *call);
void export_close(struct export_call *call); /* NULL allowed */

#endif
