/* How an application ended, left in its work folder. See end_note.h. */
#include "src/agent/durable/end_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "src/base/check.h"
#include "src/base/id.h"

#define WHY_KEY " why="

size_t end_note_format(const struct end_note *note, char text[END_NOTE_BYTES])
{
    char run[CHECKPOINT_ID_TEXT_BYTES], why[END_NOTE_WHY_BYTES];
    int length;

    CHECK(strlen(note->why) < sizeof(why));
    snprintf(why, sizeof(why), "%s", note->why);
    for (char *at = why; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
    length = snprintf(text, END_NOTE_BYTES,
                      "pid=%" PRIu32 " start_ticks=%" PRIu64
                      " run=%s wait_status=%d told_to_end=%d will_restart=%d" WHY_KEY "%s\n",
                      note->pid, note->start_ticks, checkpoint_id_format(note->run, run),
                      (int)note->wait_status, note->told_to_end, note->will_restart, why);
    CHECK(length > 0 && length < END_NOTE_BYTES);
    return (size_t)length;
}

/* Up to the end of its line; false: it is too long for one. */
static bool why_read(const char *text, char why[END_NOTE_WHY_BYTES])
{
    const char *from = strstr(text, WHY_KEY);
    size_t length;

    if (from == NULL)
        return false;
    from += strlen(WHY_KEY);
    length = strcspn(from, "\n");
    if (length >= END_NOTE_WHY_BYTES)
        return false;
    memcpy(why, from, length);
    why[length] = '\0';
    return true;
}

/* Written again with what was read, it must be the same text: nothing else was in it. */
bool end_note_read(const char *text, struct end_note *ret_note)
{
    char again[END_NOTE_BYTES];
    uint64_t epoch, command;
    struct end_note note = {0};
    int status, told, restart;

    if (sscanf(text,
               "pid=%10" SCNu32 " start_ticks=%20" SCNu64 " run=%8" SCNu64 "-%13" SCNu64
               " wait_status=%6d told_to_end=%1d will_restart=%1d",
               &note.pid, &note.start_ticks, &epoch, &command, &status, &told, &restart) != 7 ||
        !why_read(text, note.why))
        return false;
    note.run = run_make(epoch, command);
    note.wait_status = status;
    note.told_to_end = told != 0;
    note.will_restart = restart != 0;
    end_note_format(&note, again);
    if (strcmp(text, again) != 0 || (!WIFEXITED(status) && !WIFSIGNALED(status)))
        return false;
    *ret_note = note;
    return true;
}
