/* The signs by which a program that goes on says that it has saved: a line on its standard output,
 * which passes through here, and a tracker file.
 *
 * Flow     output_line_open() before each start, output_line_become() in the program's process,
 *          output_line_begun() in the stand-in's; output_line_wait() in place of any other wait.
 * Shapes   without a text nothing of this happens: the output is the program's own. One program at
 *          a time. A line counts up to its first LINE_MAX_BYTES.
 * Errors   output that nobody takes waits, as it would without this.
 */
#ifndef CKPT_AGENT_RUN_OUTPUT_LINE_H
#define CKPT_AGENT_RUN_OUTPUT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "src/base/id.h"

/* text: NULL, none is looked for. */
void output_line_open(const char *text);
void output_line_become(void);
void output_line_begun(void);
uint64_t output_line_now_ms(void); /* monotonic */
enum { OUTPUT_LINE_WAKES_MAX = 4 };
/* Passes on what comes until then, or until one of these can be read (-1: none). */
void output_line_wait(uint64_t end_ms, const int *wakes, size_t count);
/* ... what is there, at the program's end. */
void output_line_drain(void);
/* A line had the text since output_line_forget(). */
bool output_line_seen(void);
void output_line_forget(void);

/* Changed later than that. */
bool tracker_newer(const char *path, const struct timespec *since);
/* Its first line, where that is a label; else "". */
void tracker_label(const char *path, char ret_label[LABEL_MAX_BYTES + 1]);

#endif
