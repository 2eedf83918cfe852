/* The job's work folder. See ask_folder.h. */
#include "src/agent/ask/ask_folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OUT_NAME_BYTES = HINT_TEXT_BYTES + 8 };

static struct machine_file work_file(const struct ask_target *target, const char *name)
{
    return (struct machine_file){target->folder, target->user, name};
}

static void remove_file(const struct ask_target *target, const char *name)
{
    const struct machine_file file = work_file(target, name);

    target->machine->file_remove(target->machine->context, &file);
}

static const char *out_name(const char *hint, char name[OUT_NAME_BYTES])
{
    snprintf(name, OUT_NAME_BYTES, "out/%s", hint);
    return name;
}

int ask_folder_prepare(const struct ask_target *target, const struct ask_request *request,
                       struct err *err)
{
    const struct machine_ops *machine = target->machine;
    char own[OUT_NAME_BYTES];
    const struct machine_file out = work_file(target, "out"),
                              folder = work_file(target, out_name(request->hint, own)),
                              ask = work_file(target, "request");
    char text[PATH_MAX + 256];
    size_t length =
        request_format(request->hint, request->directory, request->deadline_ms, text, sizeof(text));

    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    remove_file(target, "done");
    if (machine->folder_make(machine->context, &out, true, err) != 0 ||
        machine->folder_make(machine->context, &folder, false, err) != 0)
        return -1;
    return machine->file_write(machine->context, &ask, text, length, err);
}

static ssize_t read_small(const struct ask_target *target, const char *name, char *text,
                          size_t size)
{
    const struct machine_file file = work_file(target, name);

    return target->machine->file_read(target->machine->context, &file, text, size);
}

bool ask_folder_prepared(const struct ask_target *target, const char *hint)
{
    char text[SENTINEL_MAX_BYTES + 1];
    char line[HINT_TEXT_BYTES + 16];

    if (read_small(target, "request", text, sizeof(text)) <= 0)
        return false;
    snprintf(line, sizeof(line), "hint=%s\n", hint);
    return strncmp(text, line, strlen(line)) == 0;
}

enum ask_answer ask_folder_poll(const struct ask_target *target, const char *hint,
                                struct sentinel *ret_sentinel, struct err *err)
{
    char text[SENTINEL_MAX_BYTES + 2], found[HINT_TEXT_BYTES];
    ssize_t length = read_small(target, "done", text, sizeof(text));
    struct sentinel sentinel;

    if (length <= 0)
        return ASK_NOTHING_YET;
    sentinel_hint(text, (size_t)length, found);
    if (found[0] != '\0' && strcmp(found, hint) != 0)
        return ASK_NOTHING_YET; /* stale */
    if (sentinel_parse(text, (size_t)length, &sentinel, err) != 0)
        return err->code == ERR_EMPTY ? ASK_UNFINISHED : ASK_WRONG;
    if (strcmp(sentinel.hint, hint) != 0)
        return ASK_NOTHING_YET; /* stale, without a last line feed */
    *ret_sentinel = sentinel;
    return ASK_DONE;
}

struct machine_growth ask_folder_growth(const struct ask_target *target, const char *hint)
{
    char name[OUT_NAME_BYTES];
    const struct machine_file folder = work_file(target, out_name(hint, name));

    return target->machine->folder_growth(target->machine->context, &folder);
}

void ask_folder_clear(const struct ask_target *target)
{
    remove_file(target, "request");
    remove_file(target, "done");
}
