/* The application's standard input at each start by one ckpt-run; run_inherited.h has the other
 * descriptors.
 *
 * Flow     run_input_open() when ckpt-run starts; run_input_prepare() before each start of the
 *          application; run_input_again() when it has ended and another start is wanted;
 *          run_input_close() when no other start will come.
 * Shapes   a file or block device: each start reads from where the first one did. Restarts read
 *          through a description of their own, so that a shell that shares the first one goes on
 *          unhindered; in the end that one stands where the last application has stopped reading.
 *          Null and random devices give each start the same. Nobody types again what was typed at
 *          a terminal, which is said. Of a pipe, a socket or another device nobody gets again what
 *          was read: a start on the rest would end well with a wrong result. Such an input is given
 *          again where its writers had ended before the first start and as much is in it as then:
 *          each read makes that less.
 * Errors   an input of which that is not proven counts as read; run_input_again() says so.
 * Absent   guards against changes of the file, by the application or others. A proof for a pipe
 *          that others can still write to: as many bytes as before may be other bytes. Kernels from
 *          6.14 on do not even keep the times of a pipe's last read and write.
 * Source   V-004.
 */
#ifndef CKPT_AGENT_RUN_INPUT_H
#define CKPT_AGENT_RUN_INPUT_H

#include <stdbool.h>

#include "src/agent/run/run_input_kind.h"

void run_input_open(void);
struct input_mark run_input_mark(void);
/* The application that runs was started by a ckpt-run that has gone. other: with another input;
 * then there is no other start by this one. */
void run_input_goes_on(bool other);
/* may_restart: other starts may follow; the first one says what they need. Output of a later one
 * goes on at its end (run_output.h). */
void run_input_prepare(bool may_restart);
/* False: the application would not find what it found at first; why, and what helps, is said. */
bool run_input_again(void);
/* The same, without a word. */
bool run_input_unread(void);
void run_input_close(void);

#endif
