/* How an application ended, or that it could not be started, as its ckpt-run leaves it in the work
 * folder: the one source of both.
 *
 * Flow     ckpt-run removes END_NOTE_NAME before each start and writes it, by rename, when it has
 *          taken the wait status; then it wakes the agent (AttachEnded). The agent looks there when
 *          it is woken and when it sees the application dead, whichever comes first, and an agent
 *          that was away when it comes back.
 * Shapes   one line. It counts for exactly the start that it names: process, start time and run;
 *          of one that could not be started there is only the run.
 * Errors   end_note_read: false for anything but what ckpt-run writes; a reader looks no further. A
 *          work folder that does not take the note: the wake carries it, in the same form.
 * Absent   a sync: a start is never looked for after a reboot (LEDGER_NEVER_STARTED). A proof of
 *          who wrote it: the job's user can say as much on the agent's socket.
 * Source   F-021, F-025.
 */
#ifndef CKPT_AGENT_END_NOTE_H
#define CKPT_AGENT_END_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_NOTE_NAME "ckpt-run.end" /* in the work folder */
enum { END_NOTE_WHY_BYTES = 200, END_NOTE_BYTES = 400 };

struct end_note {
    uint32_t pid; /* 0: it could not be started, `why` says why */
    uint64_t start_ticks;
    uint64_t run;
    int32_t wait_status; /* as of waitpid(2), or as a shell's would be of what it cannot start */
    bool told_to_end;    /* by a signal that ckpt-run passed on */
    bool will_restart;   /* ckpt-run starts it again in place */
    /* the reason why it could not be started; of one that was, why its start has failed, or "" */
    char why[END_NOTE_WHY_BYTES];
};

size_t end_note_format(const struct end_note *note, char text[END_NOTE_BYTES]);
bool end_note_read(const char *text, struct end_note *ret_note);

#endif
