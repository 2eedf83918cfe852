/* Shared by the files of transfer.h only: what is at work, and what is done with one file.
 *
 * Flow     transfer.c plans and hands out; transfer_take.c takes over what has not changed;
 *          transfer_compress.c stores compressed; transfer_spots.c notes places and compares
 *          them; transfer_file.c opens and ends one file for all.
 */
#ifndef CKPT_DEST_TRANSFER_INTERNAL_H
#define CKPT_DEST_TRANSFER_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "src/dest/posix/transfer.h"

/* A file of several chunks while it is moved. */
struct large {
    size_t entry;
    size_t left; /* chunks that are not done */
    int from;    /* -1: not open */
    int to;      /* -1: not open, or nothing is written yet, since all is as it was earlier */
    const struct manifest_entry *earlier; /* NULL: there is nothing to take over */
    int earlier_fd;
    bool *held; /* of each chunk: it is as it was earlier and not written yet; compressed: hashed */
    bool compressed;
    bool again;    /* compressed: it is not as it was earlier, and another run writes it */
    bool failed;   /* compressed: a chunk has no place, so that none behind it gets one */
    size_t placed; /* compressed: so many chunks have their place in the stored file */
    uint64_t end;  /* compressed: where the next one's is */
};

/* Either a chunk of a large file, or `count` entries that begin with this one, of which the small
 * files are meant. */
struct item {
    size_t entry;
    size_t count;
    size_t chunk;
    size_t large; /* which; of a chunk */
};

/* The lock covers `larges`, `why` and the bytes that were saved; `turn` tells of places. */
struct job {
    const struct transfer *transfer;
    struct item *items;
    size_t item_count, item_capacity;
    struct large *larges;
    size_t large_count, large_capacity;
    size_t file_count; /* that are moved */
    bool settle;
    struct err why; /* of the first chunk that failed */
    pthread_mutex_t lock;
    pthread_cond_t turn;
};

/* ---- one file: transfer_file.c ---- */

struct copy_range transfer_range(const struct manifest_entry *entry, size_t chunk);
/* The caller closes what these open. */
int transfer_open_from(const struct transfer *transfer, const struct manifest_entry *entry,
                       struct err *err);
int transfer_open_to(const struct transfer *transfer, const struct manifest_entry *entry, int from,
                     struct err *err);
/* Durable where no settling follows. Both are closed in any case. */
int transfer_finish_file(const struct job *job, const struct manifest_entry *entry,
                         const int fds[2], struct err *err);
/* Closes both, and returns -1: a source that changed is why bytes were missing. */
int transfer_close_failed(const struct job *job, const struct manifest_entry *entry,
                          const int fds[2], struct err *err);
void transfer_add_saved(struct job *job, uint64_t bytes);
/* The earlier file gets a second name, when it holds the same bytes. */
bool transfer_link_file(struct job *job, struct manifest_entry *entry,
                        const struct manifest_entry *earlier);

/* ---- places: transfer_spots.c ---- */

/* Around the call that moves the bytes of a chunk, once it is known where in the stored file they
 * lie; nothing where the transfer keeps none. */
void transfer_note_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk,
                         struct copy_range stored);
void transfer_keep_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk);
/* It was not stored as it passed. */
void transfer_forget_spots(const struct transfer *transfer, const struct manifest_entry *entry);
/* Whether the chunk is read by its places alone; and that. */
bool transfer_checks_spots(const struct transfer *transfer, const struct manifest_entry *entry,
                           size_t chunk);
int transfer_check_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk, int from,
                         struct err *err);

/* ---- taking over: transfer_take.c ---- */

/* A small file of which it is not known yet whether or how it has to be written; earlier: NULL or
 * what may be taken over. Closes `from`. */
int transfer_take_small(struct job *job, struct copier *copier, struct manifest_entry *entry,
                        const struct manifest_entry *earlier, int from, struct err *err);
int transfer_take_chunk(struct job *job, struct copier *copier, const struct item *item, int from,
                        struct err *err);
/* By the last chunk. */
int transfer_take_finish(struct job *job, struct copier *copier, const struct item *item,
                         int fds[2], struct err *err);

/* ---- compressed: transfer_compress.c ---- */

/* Writes a small file that the copier holds, compressed where that pays. */
int transfer_store_held(struct job *job, struct copier *copier, struct manifest_entry *entry,
                        int *ret_to, struct err *err);
/* Whether a large file is to be stored compressed, by samples of it. */
bool transfer_compresses(const struct transfer *transfer, const struct manifest_entry *entry,
                         int from);
/* Only a hash, while the file may be as it was earlier. */
int transfer_compare_chunk(struct job *job, struct copier *copier, const struct item *item,
                           int from, struct err *err);
/* By the last chunk: it is linked, or left to another run. */
int transfer_compare_finish(struct job *job, const struct item *item, const int fds[2],
                            struct err *err);
int transfer_compress_chunk(struct job *job, struct copier *copier, const struct item *item,
                            const int fds[2], struct err *err);
/* By the last chunk. */
int transfer_compress_finish(struct job *job, const struct item *item, const int fds[2],
                             struct err *err);
/* Those who wait for the place of a chunk that failed go on, and fail with what the first one was
 * told: of several errors a pool keeps that of the first item. */
void transfer_give_up(struct job *job, const struct item *item, const struct err *why);

#endif
