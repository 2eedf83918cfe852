/* Texts of the signal way: the hint, the request file that the agent writes, the done file that
 * the application writes.
 *
 * Flow     hint_format(); request_format() is written to <work>/request by rename;
 *          sentinel_parse() reads <work>/done, or <work>/done.RANK of a job of several ranks.
 * Shapes   a hint is "<epoch>-<sequence>-<attempt>"; both files are lines of key=value.
 * Errors   sentinel_parse: -1: the text is no complete sentinel. A complete one with another hint
 *          is stale; the caller compares.
 * Source   requirement S1-032 and decision 14: the sentinel is created by rename(2) and carries
 *          hint, bytes and status.
 */
#ifndef CKPT_ASK_SENTINEL_H
#define CKPT_ASK_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/id.h"

enum { HINT_TEXT_BYTES = 48, SENTINEL_MAX_BYTES = 4096, SENTINEL_STATUS_MAX_BYTES = 200 };

struct sentinel {
    char hint[HINT_TEXT_BYTES];
    uint64_t bytes;
    char status[SENTINEL_STATUS_MAX_BYTES + 1]; /* "0": written; else the application's error */
    char label[LABEL_MAX_BYTES + 1];            /* step=, the saved step; "": none */
    uint64_t stall_ms;                          /* measured by the application; 0: not told */
    uint64_t saved_at_ms; /* of the state, since the epoch; 0: that of the question */
};

/* The state of a sentinel. UNFINISHED: the file lacks something; WRONG: it can never become right.
 * Both come with a line that says what is missing or wrong. */
enum ask_answer { ASK_NOTHING_YET, ASK_UNFINISHED, ASK_WRONG, ASK_FINISHED };

/* Writes at most HINT_TEXT_BYTES and returns text. */
char *hint_format(uint64_t checkpoint_id, uint32_t attempt, char text[HINT_TEXT_BYTES]);
/* The contents of a request. */
struct request_text {
    const char *hint;
    const char *directory;
    uint64_t deadline_ms; /* since the epoch */
    const char *ranks;    /* "0,1": the ranks of this node; "": no launcher numbers them */
};
/* Lines of NAME=WORD that a POSIX shell may source: a directory with bytes that mean something to a
 * shell stands in single quotes. Returns the length, or 0 when it does not fit. */
size_t request_format(const struct request_text *request, char *ret_text, size_t size);
/* The text as one word of a POSIX shell, as it is where no byte of it means anything there. Returns
 * the length, or 0 when it does not fit: four bytes for each of the text, and three. */
size_t request_quote(const char *text, char *ret_word, size_t size);
/* A word of it, in place, as a shell would read it. */
void request_unquote(char *word);
/* Whether a file of that name in a work folder is one: done, or done.RANK. */
bool sentinel_named(const char *name);
/* Returns the length. The status is one line. */
size_t sentinel_format(const struct sentinel *sentinel, char ret_text[SENTINEL_MAX_BYTES]);
/* ERR_EMPTY: a key is missing; it may come yet when the file is not made by rename. ERR_INVALID: a
 * value is wrong. */
int sentinel_parse(const char *text, size_t length, struct sentinel *ret_sentinel, struct err *err);
/* The hint in the text, even when the rest is wrong; "": none. */
char *sentinel_hint(const char *text, size_t length, char ret_hint[HINT_TEXT_BYTES]);

#endif
