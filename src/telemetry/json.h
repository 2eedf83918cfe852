/* Reading JSON from strangers: jansson with limits, and access that never fails on a wrong type.
 *
 * Shapes   documents nest at most JSON_DEPTH_MAX deep (jansson's parser calls itself); the caller
 *          bounds their length.
 * Errors   ERR_INVALID with the line. Members that are missing or of another type read as "" or
 *          NaN.
 */
#ifndef CKPT_TELEMETRY_JSON_H
#define CKPT_TELEMETRY_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "src/base/err.h"

enum { JSON_DEPTH_MAX = 64 };

/* An object; NULL with err. Give it back with json_decref(). Nesting is counted before anything is
 * built, so a hostile document costs one walk over its bytes. */
json_t *json_parse(const void *bytes, size_t length, struct err *err);
/* An object or an array; likewise. */
json_t *json_parse_any(const void *bytes, size_t length, struct err *err);
/* The member's text; "" when it is none. Lives as long as the object. */
const char *json_text(const json_t *object, const char *name);
/* The member's number; NaN when it is none. Numbers in quotes are none. */
double json_number(const json_t *object, const char *name);

#endif
