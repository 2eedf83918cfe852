/* ckptctl debug bundle: what somebody needs who is asked why a cluster does what it does, in one
 * file, without a secret.
 *
 * Flow     cmd_debug_bundle.c runs ckptctl's own commands, and the daemons' programs of this
 *          machine. Each text goes through bundle_redact() and into the tar.
 * Shapes   one entry per text; the file is ustar, mode 0600, and nobody's file is replaced.
 * Errors   a text that cannot be had is an entry with its error instead. Only the file itself can
 *          fail the whole.
 */
#ifndef CKPT_CLI_BUNDLE_BUNDLE_H
#define CKPT_CLI_BUNDLE_BUNDLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One file of the tar, in the folder ckpt-bundle. stream's errors show at its end. */
void bundle_add(FILE *stream, const char *name, const char *text, size_t length, uint64_t now_s);
void bundle_end(FILE *stream);

/* Overwrites what may be a secret with '*', in place. These are the user and password of a URL, and
 * the words behind Bearer, Basic, Token and Api-Token. Values of keys that are named like a secret
 * go too, and private keys of PEM. Paths of files that hold secrets stay. */
void bundle_redact(char *text);

#endif
