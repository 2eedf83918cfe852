/* How a source lets itself be asked: what its credentials file says, and the token that a VMS gave
 * for it.
 *
 * Flow     secret_read() once; the file's one line is "USER:PASSWORD" (Basic), "Bearer TOKEN", or
 *          of a VMS also "Api-Token TOKEN" and "Token USER:PASSWORD", which logs in: `login` stays,
 *          `bearer` is what the last login gave.
 * Shapes   each text is "" where there is none. Overwritten before it is freed.
 * Errors   file.h's; ERR_INVALID for another line. No text of it is ever part of an error.
 */
#ifndef CKPT_TELEMETRY_SECRET_H
#define CKPT_TELEMETRY_SECRET_H

#include <stdbool.h>

#include "src/base/err.h"

/* One source's; each text of the heap, never NULL between secret_read() and secret_close(). */
struct secret {
    char *user, *bearer, *api_token;
    char *login; /* "USER:PASSWORD" */
};

/* path "": none of them. Whatever comes back, all texts are there, to be closed. */
int secret_read(const char *path, bool of_vms, struct secret *ret_secret, struct err *err);
/* Takes the token; NULL forgets the present one. */
void secret_set_bearer(struct secret *secret, char *take_token);
/* Overwrites and frees all; also of one that is zeros. */
void secret_close(struct secret *secret);

#endif
