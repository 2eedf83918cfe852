/* Why something of a job has failed, left in its work folder by the process that knows, for its
 * ckpt-run.
 *
 * Flow     why_note_leave() there; why_note_take() here, which removes it.
 * Shapes   one line. name: a name of its own in the folder for each of them.
 * Errors   a folder that takes no file leaves ckpt-run without the reason, and not without the end.
 */
#ifndef CKPT_AGENT_WHY_NOTE_H
#define CKPT_AGENT_WHY_NOTE_H

#include <stddef.h>

enum { WHY_NOTE_BYTES = 512 };

struct why_note {
    const char *work_dir, *name;
};

/* text "": the one that lies there is removed. */
void why_note_leave(const struct why_note *note, const char *text);
/* ret_why: "" where there is none that begins with `first` (""; of one process: its number), else
 * what follows. Returns ret_why. */
char *why_note_take(const struct why_note *note, const char *first, char *ret_why, size_t size);

#endif
