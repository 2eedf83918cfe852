/* The job's work folder. See folder.h. */
#include "src/ask/folder.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    OUT_NAME_BYTES = HINT_TEXT_BYTES + 8,
    DONE_NAME_BYTES = 24,
    RANKS_TEXT_BYTES = 4096, /* numbers of as many as a node may have */
    RANKS_SAID_BYTES = 64    /* of them in a message */
};

#define DONE_OF_FIRST "done.0"

static const char *out_name(const char *hint, char name[OUT_NAME_BYTES])
{
    snprintf(name, OUT_NAME_BYTES, "out/%s", hint);
    return name;
}

/* The file in which the rank of that place says that it is done. */
static const char *done_name(const struct ask_target *target, size_t rank,
                             char name[DONE_NAME_BYTES])
{
    struct ask_rank own;

    if (target->node->rank_count(target->context) == 0) {
        snprintf(name, DONE_NAME_BYTES, "done");
        return name;
    }
    target->node->rank(target->context, rank, &own);
    snprintf(name, DONE_NAME_BYTES, "done.%" PRIu32, own.number);
    return name;
}

/* "0,1,2"; as many as fit, and then "..". */
static void name_ranks(const struct ask_target *target, const char *between, char *ret_text,
                       size_t size)
{
    size_t count = target->node->rank_count(target->context), length = 0;
    struct ask_rank rank;

    ret_text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        target->node->rank(target->context, i, &rank);
        if (length + 16 > size) {
            snprintf(ret_text + length, size - length, "..");
            return;
        }
        length += (size_t)snprintf(ret_text + length, size - length, "%s%" PRIu32,
                                   i == 0 ? "" : between, rank.number);
    }
}

static void remove_done(const struct ask_target *target)
{
    size_t count = target->node->rank_count(target->context);
    char name[DONE_NAME_BYTES];

    target->node->file_remove(target->context, "done");
    if (target->speaks_for_all)
        target->node->file_remove(target->context, DONE_OF_FIRST);
    for (size_t i = 0; i < count; i++)
        target->node->file_remove(target->context, done_name(target, i, name));
}

/* What lies elsewhere gets the same name below the work folder. The folder of a rank that is told
 * in it is made by that rank, which may come later. */
static int make_out(const struct ask_target *target, const struct ask_request *request,
                    struct err *err)
{
    const struct ask_node *node = target->node;
    char own[OUT_NAME_BYTES];

    if (node->folder_make(target->context, "out", true, err) != 0)
        return -1;
    out_name(request->hint, own);
    return request->elsewhere ? node->link_make(target->context, own, request->directory, err)
                              : node->folder_make(target->context, own, false, err);
}

int ask_folder_prepare(const struct ask_target *target, const struct ask_request *request,
                       struct err *err)
{
    const struct ask_node *node = target->node;
    char ranks[RANKS_TEXT_BYTES];
    char text[4 * PATH_MAX + RANKS_TEXT_BYTES + 256]; /* a path in quotes */
    size_t length;

    name_ranks(target, ",", ranks, sizeof(ranks));
    length = request_format(
        &(struct request_text){request->hint, request->directory, request->deadline_ms, ranks},
        text, sizeof(text));
    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    remove_done(target);
    if (make_out(target, request, err) != 0)
        return -1;
    return node->file_write(target->context, "request", text, length, err);
}

bool ask_folder_prepared(const struct ask_target *target, const char *hint)
{
    char text[HINT_TEXT_BYTES + 16 + 1];
    char line[HINT_TEXT_BYTES + 16];

    if (target->node->file_read(target->context, "request", text, sizeof(text)) <= 0)
        return false;
    snprintf(line, sizeof(line), "hint=%s\n", hint);
    return strncmp(text, line, strlen(line)) == 0;
}

static enum ask_answer read_done(const struct ask_target *target, const char *name,
                                 const char *hint, struct sentinel *ret_sentinel, struct err *err)
{
    char text[SENTINEL_MAX_BYTES + 2], found[HINT_TEXT_BYTES];
    ssize_t length = target->node->file_read(target->context, name, text, sizeof(text));
    struct sentinel sentinel;

    if (length == ASK_FILE_OTHER) {
        (void)err_set(err, ERR_INVALID,
                      "`%s` in the work folder is no regular file that can be read; remove it, and "
                      "write it under another name and rename it",
                      name);
        return ASK_WRONG;
    }
    if (length < 0)
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

enum ask_answer ask_folder_poll(const struct ask_target *target, const char *hint, size_t rank,
                                struct sentinel *ret_sentinel, struct err *err)
{
    size_t count = target->node->rank_count(target->context);
    char name[DONE_NAME_BYTES], ranks[RANKS_SAID_BYTES];
    enum ask_answer answer =
        read_done(target, done_name(target, rank, name), hint, ret_sentinel, err);

    if (count == 0 && target->speaks_for_all && answer == ASK_NOTHING_YET)
        return read_done(target, DONE_OF_FIRST, hint, ret_sentinel, err);
    if (count == 0 || answer != ASK_NOTHING_YET)
        return answer;
    answer = read_done(target, "done", hint, ret_sentinel, err);
    if (count == 1 || answer != ASK_FINISHED)
        return answer;
    name_ranks(target, ", ", ranks, sizeof(ranks));
    (void)err_set(err, ERR_INVALID,
                  "`done` names no rank, and the job has ranks %s on this node: each writes "
                  "done.RANK",
                  ranks);
    return ASK_WRONG;
}

uint64_t ask_folder_growth(const struct ask_target *target, const char *hint)
{
    char name[OUT_NAME_BYTES];

    return target->node->folder_sum(target->context, out_name(hint, name));
}

void ask_folder_clear(const struct ask_target *target)
{
    target->node->file_remove(target->context, "request");
    remove_done(target);
}
