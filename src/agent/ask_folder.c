/* The job's work folder. See ask_folder.h. */
#include "src/agent/ask_folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void work_path(const struct ask_target *target, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", target->work_dir, name);
}

static void remove_file(const struct ask_target *target, const char *name)
{
    char path[PATH_MAX];

    work_path(target, name, path);
    target->machine->file_remove(target->machine->context, target->user, path);
}

int ask_folder_prepare(const struct ask_target *target, const struct ask_request *request,
                       struct err *err)
{
    const struct machine_ops *machine = target->machine;
    char text[PATH_MAX + 256];
    char path[PATH_MAX];
    size_t length =
        request_format(request->hint, request->directory, request->deadline_ms, text, sizeof(text));

    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    remove_file(target, "done");
    work_path(target, "out", path);
    if (machine->folder_make(machine->context, target->user, path, true, err) != 0 ||
        machine->folder_make(machine->context, target->user, request->directory, false, err) != 0)
        return -1;
    work_path(target, "request", path);
    return machine->file_write(machine->context, target->user, path, text, length, err);
}

static ssize_t read_small(const struct ask_target *target, const char *name, char *text,
                          size_t size)
{
    char path[PATH_MAX];

    work_path(target, name, path);
    return target->machine->file_read(target->machine->context, target->user, path, text, size);
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
                                struct sentinel *ret_sentinel)
{
    char text[SENTINEL_MAX_BYTES + 1];
    ssize_t length = read_small(target, "done", text, sizeof(text));
    struct sentinel sentinel;

    if (length <= 0 || sentinel_parse(text, (size_t)length, &sentinel) != 0)
        return ASK_NOTHING_YET;
    if (strcmp(sentinel.hint, hint) != 0)
        return ASK_NOTHING_YET; /* stale */
    *ret_sentinel = sentinel;
    return ASK_DONE;
}

struct machine_growth ask_folder_growth(const struct ask_target *target, const char *directory)
{
    return target->machine->folder_growth(target->machine->context, target->user, directory);
}

void ask_folder_clear(const struct ask_target *target)
{
    remove_file(target, "request");
    remove_file(target, "done");
}
