/* The operation table for the disk. All effects of raft/ go through this table, the network's
 * (src/net/network.h), and the clock and random tables of src/base/ops.h. So the same code runs on
 * a real loop and in a deterministic simulator.
 *
 * Flow     the primitives are synchronous. submit() runs a piece of work made of primitives off the
 *          loop, then calls done() on the loop. A simulator runs the work as one event and fails or
 *          tears any primitive inside it, so it can crash the member at every I/O step.
 * Shapes   handles belong to the implementation, and the caller closes each once. Callbacks come on
 *          the loop thread, never from inside the call that asked for them.
 * Units    bytes.
 * Errors   -1 with err; ERR_FULL when the disk is full, ERR_NOT_FOUND, ERR_LOCKED, else ERR_DISK.
 * Absent   retries: a failed write or sync is final, the member stops (rule S4).
 */
#ifndef CKPT_RAFT_IO_OPS_H
#define CKPT_RAFT_IO_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

struct disk_file;
struct disk_lock;

enum disk_open_mode {
    DISK_OPEN_READ,   /* must exist */
    DISK_OPEN_WRITE,  /* must exist; read and write */
    DISK_OPEN_CREATE, /* read and write; emptied when it exists */
};

/* A piece of work off the loop. The caller owns it, and keeps it until done() was called. */
struct disk_job {
    void (*work)(struct disk_job *job); /* off the loop: only the synchronous primitives below */
    void (*done)(struct disk_job *job); /* on the loop, after submit() has returned */
};

struct disk_ops {
    void *context;
    /* Synchronous; also called from jobs, so thread safe for different files. */
    int (*make_dir)(void *context, const char *path, struct err *err); /* 0700; existing is fine */
    /* Calls visit for each name, in any order, without . and .. */
    int (*list_dir)(void *context, const char *path, void (*visit)(void *data, const char *name),
                    void *data, struct err *err);
    /* Makes creations, renames and removals in the folder durable; a file's own sync() does not. */
    int (*sync_dir)(void *context, const char *path, struct err *err);
    /* Replaces `to` in one step: a reader sees the old file or the new one. */
    int (*rename)(void *context, const char *from, const char *to, struct err *err);
    int (*unlink)(void *context, const char *path, struct err *err);
    /* Held until unlock() or the end of the process. ERR_LOCKED: another process has it. */
    int (*lock)(void *context, const char *path, struct disk_lock **ret_lock, struct err *err);
    void (*unlock)(void *context, struct disk_lock *lock);   /* NULL allowed */
    uint64_t (*free_bytes)(void *context, const char *path); /* UINT64_MAX: cannot tell */
    /* Of the file system that has the path, free or not; 0: cannot tell. */
    uint64_t (*total_bytes)(void *context, const char *path);
    /* New files are for this user alone. ERR_NOT_FOUND where the file must exist. */
    int (*open)(void *context, const char *path, enum disk_open_mode mode,
                struct disk_file **ret_file, struct err *err);
    void (*close)(struct disk_file *file); /* NULL allowed */
    int (*size)(struct disk_file *file, uint64_t *ret_bytes, struct err *err);
    /* Short only at the end of the file. */
    int (*read)(struct disk_file *file, uint64_t offset, void *bytes, size_t length,
                size_t *ret_length, struct err *err);
    /* Writes all bytes, growing the file if need be; not durable before sync(). */
    int (*write)(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                 struct err *err);
    /* These bytes are durable afterwards, as by write() and sync() of them. Earlier writes may not
     * be. */
    int (*write_sync)(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                      struct err *err);
    int (*allocate)(struct disk_file *file, uint64_t bytes, struct err *err); /* grows, zeroed */
    /* Writes the zeros that allocate() promised. A later write to these bytes changes only the
     * bytes, and needs no metadata of the file system. */
    int (*write_zeros)(struct disk_file *file, uint64_t bytes, struct err *err);
    int (*truncate)(struct disk_file *file, uint64_t bytes, struct err *err);
    /* Returns 0: all bytes written to the file are durable. After a failure nobody knows which
     * bytes are, so it is never tried again (S4). */
    int (*sync)(struct disk_file *file, struct err *err);
    /* Asynchronous: runs work() off the loop, beside other jobs, then done() on it. Never fails. */
    void (*submit)(void *context, struct disk_job *job);
};

#endif
