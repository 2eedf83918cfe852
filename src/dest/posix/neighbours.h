/* The checkpoints of a job whose names are next to that of one that is written: among them is what
 * it most likely resembles, and what a killed attempt before it left.
 *
 * Shapes   a job may have thousands; NEIGHBOURS_EACH before it and as many behind it are looked at,
 *          by names alone, in one walk over the folder. Names are numbers that grow, EPOCH-NUMBER;
 *          those behind it are of another incarnation of the cluster, or nobody's any more.
 * Errors   none: what cannot be read has no neighbours.
 */
#ifndef CKPT_DEST_NEIGHBOURS_H
#define CKPT_DEST_NEIGHBOURS_H

#include <stddef.h>

#include "src/dest/manifest.h"

enum { NEIGHBOURS_EACH = 4 };

struct neighbours {
    int folder; /* of all checkpoints of the job; -1: it cannot be read */
    size_t count;
    /* the next one before it first, then the others before it, then those behind it from the last
     * one on */
    char names[2 * NEIGHBOURS_EACH][MANIFEST_NAME_MAX_BYTES + 1];
};

/* checkpoint: its open folder; path: of that, whose last component is its name. Always to be
 * closed. */
void neighbours_open(struct neighbours *neighbours, int checkpoint, const char *path);
void neighbours_close(struct neighbours *neighbours);

#endif
