/* A log line as JSON: the same events and pairs as logfmt, one object per line.
 *
 * Flow     log.c makes each line as logfmt first and hands it here when the format is JSON, so that
 *          no caller knows of formats.
 * Shapes   the first keys have the names that collectors of JSON logs look for: timestamp, level,
 *          component, name, message (the event). allocation and node become allocation_id and
 *          node_id. A pair of the event that is called like one of the first five has event_
 *          before its key. A value of digits is a number, every other one a text.
 * Errors   none: a pair that does not fit is left out with all behind it; the object stays whole.
 */
#ifndef CKPT_BASE_LOG_JSON_H
#define CKPT_BASE_LOG_JSON_H

#include <stddef.h>

#include "src/base/log.h"

enum { LOG_JSON_BYTES = 2 * LOG_LINE_BYTES }; /* each byte of a text takes at most two */

/* line ends with its line feed, as log_line() makes it. Returns the length, with a line feed. */
size_t log_json(const char *line, size_t length, char ret_json[LOG_JSON_BYTES]);

#endif
