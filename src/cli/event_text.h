/* One event as a line for people: "10:31:44 n2→n3 leader change (term 8): 17 paused requests
 * carried over". */
#ifndef CKPT_CLI_EVENT_TEXT_H
#define CKPT_CLI_EVENT_TEXT_H

#include <stdbool.h>

#include "ckpt/v1/broker.pb-c.h"

enum { EVENT_TEXT_BYTES = 1024 };

/* Who led before, so that a change names both. Zero at the start. */
struct event_history {
    char leader[129];
};

/* wide adds date, sequence, term and log index. */
void event_text(const Ckpt__V1__Event *event, struct event_history *history, bool wide,
                char text[EVENT_TEXT_BYTES]);

#endif
