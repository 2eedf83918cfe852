/* Whose checkpoints these are: several clusters may have one destination, and what one of them does
 * not know may be another one's.
 *
 * Flow     put leaves its cluster's mark beside what it writes; scan tells what has the mark that
 *          it is given, and counts everything else as foreign.
 *          Without a mark nothing is ever removed by a scan's word.
 * Shapes   sixteen digits, the beginning of the SHA-256 of the cluster's id. Agents and journals
 *          carry it as a number; 0 is none, and nothing has that mark.
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
