/* The job's work folder. See folder.h. */
#include "src/ask/folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OUT_NAME_BYTES = HINT_TEXT_BYTES + 8 };

static const char *out_name(const char *hint, char name[OUT_NAME_BYTES])
{
    snprintf(name, OUT_NAME_BYTES, "out/%s", hint);
    return name;
}

int ask_folder_prepare(const struct ask_target *target, const struct ask_request *request,
                       struct err *err)
{
    const struct ask_node *node = target->node;
    char own[OUT_NAME_BYTES];
    char text[PATH_MAX + 256];
    size_t length =
        request_format(request->hint, request->directory, request->deadline_ms, text, sizeof(text));

    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    node->file_remove(target->context, "done");
    if (node->folder_make(target->context, "out", true, err) != 0 ||
        node->folder_make(target->context, out_name(request->hint, own), false, err) != 0)
        return -1;
    return node->file_write(target->context, "request", text, length, err);
}

bool ask_folder_prepared(const struct ask_target *target, const char *hint)
{
    char text[SENTINEL_MAX_BYTES + 1];
    char line[HINT_TEXT_BYTES + 16];

    if (target->node->file_read(target->context, "request", text, sizeof(text)) <= 0)
        return false;
    snprintf(line, sizeof(line), "hint=%s\n", hint);
    return strncmp(text, line, strlen(line)) == 0;
}

enum ask_answer ask_folder_poll(const struct ask_target *target, const char *hint,
                                struct sentinel *ret_sentinel, struct err *err)
{
    char text[SENTINEL_MAX_BYTES + 2], found[HINT_TEXT_BYTES];
    ssize_t length = target->node->file_read(target->context, "done", text, sizeof(text));
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
    return ASK_FINISHED;
}

uint64_t ask_folder_growth(const struct ask_target *target, const char *hint)
{
    char name[OUT_NAME_BYTES];

    return target->node->folder_sum(target->context, out_name(hint, name));
}

void ask_folder_clear(const struct ask_target *target)
{
    target->node->file_remove(target->context, "request");
    target->node->file_remove(target->context, "done");
}
