/* Names of signals: TERM, SIGTERM, RTMIN, RTMIN+3, RTMAX-1, or the number. */
#ifndef CKPT_BASE_SIGNAL_NAME_H
#define CKPT_BASE_SIGNAL_NAME_H

#include <stddef.h>

#include "src/base/err.h"

enum { SIGNAL_NAME_BYTES = 24 };

/* The number; -1 with the value and what it may be. KILL and STOP are none that a program takes. */
int signal_name_parse(const char *text, struct err *err);
/* As it is read: "TERM", "RTMIN+3". */
const char *signal_name_format(int signal, char text[SIGNAL_NAME_BYTES]);

#endif
