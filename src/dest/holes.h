/* Holes for zeros: what is written has its blocks one by one, also those of a sparse file, whose
 * holes no manifest tells.
 *
 * Flow     copy.c leaves holes while it writes. holes_dig() after a restore for a person, whose
 *          file system took none then: the files are to take no more room at home than they did
 *          where they were written.
 * Units    a hole is a run of zeros of HOLE_BYTES at least, from a place that is a multiple of it.
 * Errors   none: a file system without holes, or a file that cannot be opened for writing, keeps
 *          its zeros. The contents stay the same in any case.
 */
#ifndef CKPT_DEST_HOLES_H
#define CKPT_DEST_HOLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOLE_BYTES = 64 << 10 };

/* length is at least 1. */
bool holes_are_zero(const uint8_t *bytes, size_t length);

/* An absolute path of a folder, whose last name is no link. */
void holes_dig(const char *folder);

#endif
