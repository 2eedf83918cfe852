/* Names and texts of the catalogue in status.h. */
#include "fsm/fsm.h"
#include "src/base/check.h"

#include <string.h>

struct status_row {
    const char *name;
    int grpc;
    const char *text;
    const char *next;
};

static const struct status_row status_rows[] = {
#define X(number, name, grpc, text, next) [number] = {#name, grpc, text, next},
    FSM_STATUSES(X)
#undef X
};

enum { STATUS_COUNT = sizeof(status_rows) / sizeof(status_rows[0]), GRPC_UNKNOWN = 2 };

/* A status from a member of a newer version has no row here, nor has a number that was never given;
 * ckptctl shows it all the same. */
static const struct status_row *status_row(enum fsm_status status)
{
    static const struct status_row unknown = {
        "UNKNOWN", GRPC_UNKNOWN, "a status of a newer version", "upgrade this program"};

    return (unsigned)status < STATUS_COUNT && status_rows[status].name != NULL
               ? &status_rows[status]
               : &unknown;
}

const char *fsm_status_name(enum fsm_status status)
{
    return status_row(status)->name;
}

int fsm_status_grpc(enum fsm_status status)
{
    return status_row(status)->grpc;
}

const char *fsm_status_text(enum fsm_status status)
{
    return status_row(status)->text;
}

const char *fsm_status_next(enum fsm_status status)
{
    return status_row(status)->next;
}

size_t fsm_status_count(void)
{
    return STATUS_COUNT;
}

/* A text that is cut off where its room ends. */
struct line {
    char *text;
    size_t size, length;
};

static void line_add(struct line *line, const char *text, size_t length)
{
    size_t room = line->size - 1 - line->length;

    if (length > room)
        length = room;
    memcpy(line->text + line->length, text, length);
    line->length += length;
    line->text[line->length] = '\0';
}

static void line_add_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

static void line_add_number(struct line *line, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    line_add(line, digits + at, sizeof(digits) - at);
}

void fsm_outcome_found(struct fsm_outcome *outcome, const char *text)
{
    struct line line = {outcome->found, sizeof(outcome->found), 0};

    CHECK(text != NULL);
    outcome->current = strlen(text);
    line_add_text(&line, text);
    for (char *at = outcome->found; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
    if (outcome->current >= sizeof(outcome->found))
        memcpy(outcome->found + sizeof(outcome->found) - sizeof("..."), "...", sizeof("..."));
}

/* Adds the mark or the one character at `at`; returns the rest behind it. */
static const char *line_add_mark(struct line *line, const char *at,
                                 const struct fsm_outcome *outcome)
{
    if (strncmp(at, "{c}", 3) == 0)
        line_add_number(line, outcome->current);
    else if (strncmp(at, "{l}", 3) == 0)
        line_add_number(line, outcome->limit);
    else if (strncmp(at, "{t}", 3) == 0)
        line_add_text(line, outcome->found);
    else if (strncmp(at, "{s}", 3) == 0)
        line_add_text(line, fsm_allocation_state_name((Ckpt__V1__AllocationState)outcome->current));
    else if (strncmp(at, "{p}", 3) == 0)
        line_add_text(line, fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)outcome->current));
    else {
        line_add(line, at, 1);
        return at + 1;
    }
    return at + 3;
}

/* The marks of the catalogue are replaced by hand: the compiler cannot check a format that comes
 * from a table. */
static void line_add_marked(struct line *line, const char *text, const struct fsm_outcome *outcome)
{
    CHECK(text != NULL);
    while (*text != '\0')
        text = line_add_mark(line, text, outcome);
}

char *fsm_outcome_what(const struct fsm_outcome *outcome, char *text, size_t size)
{
    struct line line = {text, size, 0};

    CHECK(text != NULL && size > 0);
    text[0] = '\0';
    line_add_marked(&line, status_row(outcome->status)->text, outcome);
    return text;
}

char *fsm_outcome_text(const struct fsm_outcome *outcome, char *text, size_t size)
{
    const struct status_row *row = status_row(outcome->status);
    struct line line = {text, size, 0};

    CHECK(text != NULL);
    if (size == 0)
        return text;
    text[0] = '\0';
    if (outcome->subject != NULL) {
        line_add_text(&line, outcome->subject);
        line_add_text(&line, ": ");
    }
    line_add_marked(&line, row->text, outcome);
    if (row->next[0] != '\0') {
        line_add_text(&line, "; ");
        line_add_marked(&line, row->next, outcome);
    }
    return text;
}
