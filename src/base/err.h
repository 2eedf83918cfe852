/* One line of error text with a code, wrapped with context on its way up and logged once by the
 * program.
 *
 * Flow     a function that can fail takes `struct err *err` last and writes it only on failure; it
 *          returns 0 or -1.
 * Shapes   caller's storage; no heap. Text longer than ERR_TEXT_BYTES is cut with "...".
 * Errors   a message names the value, the limit and the next step.
 */
#ifndef CKPT_BASE_ERR_H
#define CKPT_BASE_ERR_H

#include <stddef.h>

enum { ERR_TEXT_BYTES = 512 };

/* Append only. */
enum err_code {
    ERR_NONE = 0,
    ERR_IO = 1,      /* the operating system refused; text carries strerror */
    ERR_CORRUPT = 2, /* stored bytes are not what was written */
    ERR_INVALID = 3, /* input from outside is wrong */
    ERR_LOCKED = 4,  /* another process holds the folder */
    ERR_FULL = 5,    /* no space, or a limit is reached */
    ERR_NOT_FOUND = 6,
    ERR_TIMEOUT = 7,     /* outcome unknown */
    ERR_UNAVAILABLE = 8, /* no leader, no connection; try again */
    ERR_MISMATCH = 9,    /* belongs to another member, cluster or version */
    ERR_REFUSED = 10,    /* a precondition or policy refused it */
    ERR_AUTH = 11,
    ERR_EMPTY = 12,   /* nothing there where something must be */
    ERR_REMOVED = 13, /* this member is no part of its cluster any more */
    ERR_DISK = 14,  /* the disk of the data folder does not read or write; text carries strerror */
    ERR_QUOTA = 15, /* the asker's share is used up; the shares of others may not be */
    ERR_BUSY = 16,  /* the other side asks for fewer requests; try again later */
    ERR_NEWER = 17, /* written by a newer build, which knows what this one does not */
    ERR_UNFIT = 18, /* of what a user made: it cannot be taken, and would not be the next time */
    ERR_NO_ROOM = 19, /* no space where something is brought to, of a user; its source is well */
    ERR_NOBODY = 20   /* the system at that address says that no process listens there */
};

/* An error: the code for programs, the text for people. */
struct err {
    enum err_code code;
    char text[ERR_TEXT_BYTES];
};

/* Both return -1 so that `return err_set(...)` reads well. err may be NULL. */
__attribute__((format(printf, 3, 4))) int err_set(struct err *err, enum err_code code,
                                                  const char *format, ...);
/* Puts "context: " before the text that is there. */
__attribute__((format(printf, 2, 3))) int err_wrap(struct err *err, const char *format, ...);
/* "CORRUPT", as logs show it; "UNKNOWN": the number is no code. */
const char *err_code_name(enum err_code code);

#endif
