/* What put (posix_put.c) and publish (direct.c) share: from a hidden folder with all its files to a
 * shard with a name.
 *
 * Flow     put_init() -> the hidden folder `temporary` gets, or has, its files, whose hashes are in
 *          `manifest` -> put_seal() reads back what is asked for, writes the MANIFEST and makes the
 *          folders durable -> put_publish() renames -> put_close().
 * Errors   as destination.h has them; what is hidden stays for the caller to remove.
 */
#ifndef CKPT_DEST_PUT_H
#define CKPT_DEST_PUT_H

#include "src/dest/posix/earlier.h"
#include "src/dest/posix/posix.h"
#include "src/dest/posix/transfer.h"
#include "src/dest/tree.h"

/* One put, or one publishing of a folder that was written in place. Descriptors are -1 until they
 * are open; put_close() closes whatever is. */
struct put {
    const char *part;
    const char *source_label;
    char label[MANIFEST_PATH_MAX_BYTES]; /* {path}/{part}, for errors */
    char temporary_name[TREE_TEMPORARY_BYTES];
    int source;
    int folder;    /* the checkpoint's */
    int temporary; /* the hidden one in it, that becomes the shard */
    struct pool pool;
    struct sample sample; /* of what is read back */
    struct spots spots;   /* of what is read back: SAMPLE_SAMPLED */
    unsigned generations_max;
    bool compresses;
    struct neighbours neighbours;
    struct earlier earlier;
    uint64_t saved_bytes;
    bool read_back_failed;
    bool in_place; /* the hidden folder was its application's to write into */
    struct manifest manifest;
    struct buf text;
};

/* Texts of place and source are the caller's until put_close(). */
void put_init(struct put *put, const struct destination_place *place, const char *source,
              const struct destination_how *how);
void put_close(struct put *put);
/* Once the files are listed, before a byte is hashed or written: where what is read back of large
 * files will lie. Returns what a transfer is told of it. */
struct spots *put_draw_spots(struct put *put);
/* What storage gives back is what a restart will get. read_back_failed tells such a failure from
 * others. */
int put_seal(struct put *put, struct err *err);
/* A shard that has the name is replaced. */
int put_publish(struct put *put, struct err *err);
/* What killed puts of this part left in a checkpoint's open folder. Nobody else writes it now: a
 * part has one writer at a time. */
int put_sweep(int folder, const char *part, struct err *err);
/* Rests in the checkpoints next to it, because abandoning them failed there. A part is written for
 * one checkpoint at a time, and a node that is late writes for one that has failed. As far as it
 * can; what it cannot the next put may, or the collection of that checkpoint. */
void put_sweep_others(const struct neighbours *neighbours, const char *part);

#endif
