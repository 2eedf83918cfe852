/* An instant as an operator types it. */
#ifndef CKPT_CLI_INSTANT_H
#define CKPT_CLI_INSTANT_H

#include <stdint.h>

#include "src/base/err.h"

/* "10m" (so long ago), "10:31" or "10:31:07" (the last time it was),
 * "2026-11-20T10:31:07[.250][+0100]" (as printed), or milliseconds since the epoch, 13 digits;
 * local time unless it names its zone. -1: the text is none of these. */
int instant_parse(const char *text, uint64_t now_ms, uint64_t *ret_ms, struct err *err);

#endif
