/* How an application ended, left in its work folder. See end_note.h. */
#include "src/agent/durable/end_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "src/base/check.h"
#include "src/base/id.h"

size_t end_note_format(const struct end_note *note, char text[END_NOTE_BYTES])
{
    char life[CHECKPOINT_ID_TEXT_BYTES];
    int length =
        snprintf(text, END_NOTE_BYTES,
                 "pid=%" PRIu32 " start_ticks=%" PRIu64 " life=%s wait_status=%d told_to_end=%d\n",
                 note->pid, note->start_ticks, checkpoint_id_format(note->life, life),
                 (int)note->wait_status, note->told_to_end);

    CHECK(length > 0 && length < END_NOTE_BYTES);
    return (size_t)length;
}

/* Written again with what was read, it must be the same text: nothing else was in it, and it is of this start. */
bool end_note_take(const char *text, struct end_note *note)
{
    struct end_note read = *note;
    const char *rest = strstr(text, " wait_status=");
    char again[END_NOTE_BYTES];
    int status, told;

    if (rest == NULL || sscanf(rest, " wait_status=%6d told_to_end=%1d", &status, &told) != 2)
        return false;
    read.wait_status = status;
    read.told_to_end = told != 0;
    end_note_format(&read, again);
    if (strcmp(text, again) != 0 || (!WIFEXITED(status) && !WIFSIGNALED(status)))
        return false;
    *note = read;
    return true;
}
