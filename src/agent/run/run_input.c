/* The application's standard input at each start by one ckpt-run. See run_input.h. */
#include "src/agent/run/run_input.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_inherited.h"
#include "src/agent/run/run_output.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"

static struct input {
    struct input_mark mark;
    int kept;     /* the description that ckpt-run was given */
    int access;   /* how it was opened */
    off_t shared; /* FILE, restarted: offset of the kept description then */
    bool started; /* once at least */
    bool refused; /* another start, which was said */
    bool ran;     /* an application was started by a ckpt-run that has gone */
    bool foreign; /* ... with another input than this */
    bool own;     /* FILE: the application reads by another description than the kept one */
    struct input_sight was; /* at the first start; of streams */
} input;

void run_input_open(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);

    run_inherited_open();
    input = (struct input){.mark = input_mark_of(STDIN_FILENO),
                           .kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
                           .access = flags & O_ACCMODE};
    CHECK(flags >= 0 && input.kept >= 0);
}

struct input_mark run_input_mark(void)
{
    return input.mark;
}

void run_input_goes_on(bool other)
{
    input.ran = true;
    input.foreign = other;
    if (other)
        run_say("standard input is not what the application was started with: it is not started "
                "again by itself");
}

/* ---- starts ---- */

/* A user who may not open it again, as after a change of user, has the first description moved:
 * then a shell that shares it sees that. */
static void begin_file_again(void)
{
    char path[64];
    int fd;

    if (!input.own)
        input.shared = lseek(input.kept, 0, SEEK_CUR);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", input.kept);
    fd = open(path, input.access | O_CLOEXEC);
    input.own = fd >= 0;
    if (fd < 0)
        fd = fcntl(input.kept, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    CHECK(fd >= 0 && lseek(fd, input.mark.first, SEEK_SET) == input.mark.first);
    CHECK(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
}

/* One that goes on from a checkpoint finds what it has read before. */
static void say_file(void)
{
    struct stat stat;

    CHECK(input.mark.kind == INPUT_FILE);
    if (fstat(input.kept, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > input.mark.first)
        run_say("standard input is a file: each restart reads it again from where this start "
                "does, also one that goes on from a checkpoint");
}

void run_input_prepare(bool may_restart)
{
    if (input.started && input.mark.kind == INPUT_FILE)
        begin_file_again();
    else if (!input.ran && input.mark.kind == INPUT_FILE && may_restart)
        say_file();
    else if (input.started && input.mark.kind == INPUT_TERMINAL)
        run_say("standard input is a terminal: what was typed before is not typed again");
    else if (!input.started && input_is_stream(input.mark.kind) && may_restart) {
        input.was = input_look(input.kept);
        if (!input.was.ended || input.was.waiting_bytes != 0)
            run_say("standard input is %s: once something was read of it, this job is not started "
                    "again by itself; a file (< FILE) is given to it anew at each start, and "
                    "< /dev/null says that it needs no input",
                    input_kind_name(input.mark.kind));
    }
    run_inherited_prepare(may_restart);
    if (input.started || input.ran)
        run_output_continue();
    input.started = true;
}

static bool stdin_again(void)
{
    const struct input_sight now = input_look(input.kept);

    return !input.started || !input_is_stream(input.mark.kind) ||
           input_unread(input.mark.kind, &input.was, &now);
}

static void say_refused(int inherited)
{
    static const char why[] = "and the application may have read of it: another start would find "
                              "the rest alone, and pass for one that did all the work";

    if (input.foreign)
        run_say_error("not started again: standard input of this ckpt-run is not what the "
                      "application was started with, and another start would read something else; "
                      "start the job with the input that it had");
    else if (inherited >= 0)
        run_say_error("not started again: descriptor %d, as of <(...), is a pipe, %s; give it a "
                      "file instead",
                      inherited, why);
    else
        run_say_error("not started again: standard input is %s, %s; give the input as a file (< "
                      "FILE), or < /dev/null when there is none",
                      input_kind_name(input.mark.kind), why);
}

bool run_input_unread(void)
{
    return !input.foreign && stdin_again() && run_inherited_again() < 0;
}

bool run_input_again(void)
{
    int inherited = run_inherited_again();

    if (run_input_unread())
        return true;
    if (!input.refused)
        say_refused(stdin_again() ? inherited : -1);
    input.refused = true;
    return false;
}

/* The next reader of the file goes on behind this job, unless somebody has moved meanwhile. */
void run_input_close(void)
{
    off_t last;

    if (!input.own)
        return;
    last = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (last >= 0 && lseek(input.kept, 0, SEEK_CUR) == input.shared)
        (void)lseek(input.kept, last, SEEK_SET);
}
