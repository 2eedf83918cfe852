/* The end note of ckpt-run's application. See run_note.h. */
#include "src/agent/run/run_note.h"

#include <unistd.h>

#include "src/agent/node/machine.h"
#include "src/agent/run/run_erestart.h"
#include "src/agent/run/run_question.h"
#include "src/agent/run/run_transparent.h"

static struct {
    struct machine_ops machine; /* for its files */
    const char *work_dir;
} notes;

static struct machine_file note_file(const struct opened *folder)
{
    return (struct machine_file){folder, {.uid = geteuid(), .gid = getegid()}, END_NOTE_NAME};
}

void run_note_open(uv_loop_t *loop, const char *work_dir)
{
    machine_uv_ops(loop, &notes.machine);
    notes.work_dir = work_dir;
}

void run_note_drop(void)
{
    struct opened *folder = opened_here(notes.work_dir);
    const struct machine_file file = note_file(folder);

    notes.machine.file_remove(notes.machine.context, &file);
    opened_close(folder);
    question_drop(notes.work_dir);
}

/* Before the agent is woken, so that it is there for whichever agent looks: this one, or one that
 * starts when this program has left. */
int run_note_leave(const struct end_note *note, char ret_text[END_NOTE_BYTES], struct err *err)
{
    struct opened *folder = opened_here(notes.work_dir);
    const struct machine_file file = note_file(folder);
    struct end_note whole = *note;
    size_t length;
    int result;

    if (whole.pid != 0 && whole.wait_status != 0)
        run_erestart_why(notes.work_dir, (pid_t)whole.pid, whole.why, sizeof(whole.why));
    if (whole.pid != 0 && whole.why[0] == '\0')
        run_transparent_end_why(whole.wait_status, whole.why, sizeof(whole.why));
    length = end_note_format(&whole, ret_text);
    result = notes.machine.file_write(notes.machine.context, &file, ret_text, length, err);

    opened_close(folder);
    if (result == 0)
        ret_text[0] = '\0';
    return result;
}
