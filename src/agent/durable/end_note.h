/* How an application ended, as its ckpt-run leaves it in the work folder for an agent that is away.
 *
 * Flow     ckpt-run removes END_NOTE_NAME before each start and writes it, by rename, when it has taken the wait status; the agent looks
 *          there when nobody has told it how an application ended that is gone.
 * Shapes   one line. It counts for exactly the start that it names: process, start time and life.
 * Errors   end_note_take: false for anything but what ckpt-run writes of that start; a reader looks no further.
 * Absent   a sync: a start is never looked for after a reboot (MACHINE_NEVER_STARTED). A proof of who wrote it: the job's user can say as much
 *          on the agent's socket.
 * Source   F-021, F-025.
 */
#ifndef CKPT_AGENT_END_NOTE_H
#define CKPT_AGENT_END_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_NOTE_NAME "ckpt-run.end" /* in the work folder */
enum { END_NOTE_BYTES = 160 };

struct end_note {
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t life;
    int32_t wait_status; /* as of waitpid(2) */
    bool told_to_end;    /* by a signal that ckpt-run passed on */
};

size_t end_note_format(const struct end_note *note, char text[END_NOTE_BYTES]);
/* Of the start that *note names: its wait_status and told_to_end are set. */
bool end_note_take(const char *text, struct end_note *note);

#endif
