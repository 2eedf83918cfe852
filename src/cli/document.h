/* A YAML or JSON file (YAML holds JSON) as a JSON value, and back.
 *
 * Shapes   at most DOCUMENT_MAX_BYTES, nested at most DOCUMENT_DEPTH_MAX deep; no anchors.
 * Errors   with the file's name and the line.
 */
#ifndef CKPT_CLI_DOCUMENT_H
#define CKPT_CLI_DOCUMENT_H

#include <jansson.h>
#include <stdio.h>

#include "src/base/err.h"

enum { DOCUMENT_MAX_BYTES = 4 << 20, DOCUMENT_DEPTH_MAX = 16 };

/* name "-" reads stdin, which is given. */
int document_load(const char *name, FILE *in, json_t **ret_json, struct err *err);
int document_parse(const char *name, const char *text, size_t length, json_t **ret_json,
                   struct err *err);

/* One document, from its "---" on. What cannot be written is found as with any stream, by
 * ferror(). */
void document_write(FILE *out, const json_t *json);

#endif
