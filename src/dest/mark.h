/* The mark of the cluster that owns a checkpoint: several clusters may share one destination, and a
 * checkpoint that one of them does not know may be another one's.
 *
 * Flow     put leaves its cluster's mark beside the files. scan tells the checkpoints with the
 *          given mark, and counts all others as foreign. A scan never leads to the removal of a
 *          checkpoint without a mark.
 * Shapes   sixteen digits, the beginning of the SHA-256 of the cluster's id. Agents and journals
 *          carry it as a number; 0 means no mark.
 */
#ifndef CKPT_DEST_MARK_H
#define CKPT_DEST_MARK_H

#include <stdbool.h>
#include <stdint.h>

enum { MARK_BYTES = 17 }; /* with its terminator */

uint64_t mark_of(const char *cluster_id);
/* Returns text. */
char *mark_format(uint64_t mark, char text[MARK_BYTES]);
/* Exactly as mark_format() writes one, and not 0. */
bool mark_valid(const char *text);

#endif
