/* The rows of the table of ways, each of its own file: a profile that has none does not link.
 *
 * Shapes   ask_ROW for each profile of fsm/profiles.h.
 */
#ifndef CKPT_ASK_ROWS_H
#define CKPT_ASK_ROWS_H

#include "fsm/profiles.h"
#include "src/ask/ask.h"

#define X(row, profile, level) extern const struct ask_ops ask_##row;
FSM_PROFILES(X)
#undef X

#endif
