/* The end note of ckpt-run's application (end_note.h), left in the work folder.
 *
 * Flow     run_note_open() once; run_note_drop() before each start; run_note_leave() when it has
 *          ended.
 * Errors   run_note_leave: ERR_FULL, ERR_IO; what would have been written is then in the caller's
 *          text.
 */
#ifndef CKPT_AGENT_RUN_NOTE_H
#define CKPT_AGENT_RUN_NOTE_H

#include <uv.h>

#include "src/agent/durable/end_note.h"
#include "src/base/err.h"

/* work_dir: the caller's, for as long as this is used. */
void run_note_open(uv_loop_t *loop, const char *work_dir);
/* Of an earlier start, with a question to it. */
void run_note_drop(void);
/* "" comes back when the work folder has it. */
int run_note_leave(const struct end_note *note, char ret_text[END_NOTE_BYTES], struct err *err);

#endif
