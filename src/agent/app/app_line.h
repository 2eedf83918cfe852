/* The lines that ranks of an application and the agent say to each other (CKPT_APP_SOCKET): text
 * into values and back. libckptapp (src/app) is the other end and shares no code with this.
 *
 * Flow     app_line_next() takes lines out of bytes as they come; app_line_format() makes one of
 *          values. Both know the lines of both ends, so that either can be played.
 *
 *              from ranks    hello 1 JOB RUN RANK LOCAL SIZE LOCAL_SIZE barrier|plain|opened
 *                            at HINT STEP NS_PER_STEP      at a step while a barrier is open
 *                            missed HINT STEP              the agreed step is behind it
 *                            at - STEP NS_PER_STEP         at a step, while nothing is asked
 *                            done HINT                     its done file is there
 *                            defer HINT MS, progress HINT PPM
 *                            request STEP                  a checkpoint is welcome now
 *              from agents   ready 1 NODE PART PARTS
 *                            ask HINT DEADLINE_MS MAX_DEFERRAL_MS FOLDER
 *                            step HINT STEP                that all ranks agreed on
 *                            step - 1                      with ready: steps are heard unasked
 *                            withdrawn HINT, refused TEXT
 *
 *          `opened` says that the rank has the library and has not come to its loop yet: it is not
 *          asked, and waited for. It says hello once more on that stream when it has.
 *          LOCAL, SIZE and LOCAL_SIZE may be "-": the rank does not know. FOLDER is below the work
 *          folder. NS_PER_STEP is 0 while it is not known. Either end of before takes a line with
 *          "-" for one of a question that is over, and drops it.
 * Shapes   a line ends with a line feed and has at most APP_LINE_BYTES with it; words stand between
 *          single blanks; bytes of names and texts that are not printable, and "%", are %XX.
 * Errors   what is wrong names the word, its value, its limits and, where it helps, the next step.
 *          It is short enough for a `refused`, which is cut when it is too long.
 * Absent   who may say what, and when (app_line_server.h).
 */
#ifndef CKPT_AGENT_APP_LINE_H
#define CKPT_AGENT_APP_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/ask/sentinel.h"
#include "src/base/err.h"
#include "src/base/id.h"

enum {
    APP_LINE_BYTES = 512,
    APP_LINE_FOLDER_BYTES = 256,
    APP_LINE_NODE_RANKS_MAX = 256,
    APP_LINE_PARTS_MAX = 4096,
    APP_LINE_RANKS_MAX = APP_LINE_NODE_RANKS_MAX * APP_LINE_PARTS_MAX
};

#define APP_LINE_VERSION UINT64_C(1)
#define APP_LINE_UNKNOWN UINT64_MAX /* "-" */
#define APP_LINE_NO_HINT "-"        /* of no question */

enum app_line_side { APP_LINE_FROM_RANK, APP_LINE_FROM_AGENT };

enum app_line_verb {
    APP_LINE_HELLO,
    APP_LINE_AT,
    APP_LINE_MISSED,
    APP_LINE_DONE,
    APP_LINE_DEFER,
    APP_LINE_PROGRESS,
    APP_LINE_REQUEST,
    APP_LINE_READY,
    APP_LINE_REFUSED,
    APP_LINE_ASK,
    APP_LINE_STEP,
    APP_LINE_WITHDRAWN,
    APP_LINE_VERB_COUNT
};

/* How a rank is to be asked. */
enum app_line_way {
    APP_LINE_PLAIN,   /* at any moment */
    APP_LINE_BARRIER, /* it counts steps and meets the others at one */
    APP_LINE_OPENED,  /* not yet */
    APP_LINE_WAY_COUNT
};

/* One line. What its verb does not have is 0 or "". */
struct app_line {
    enum app_line_verb verb;
    char id[ID_MAX_BYTES + 1]; /* hello: of the allocation; ready: of the node */
    uint64_t version, run;
    uint64_t rank, local_rank;   /* of the job, of this node; the second may be UNKNOWN */
    uint64_t ranks, local_ranks; /* how many; may be UNKNOWN */
    enum app_line_way way;       /* hello */
    uint64_t part, parts;
    char hint[HINT_TEXT_BYTES];
    uint64_t step, ns_per_step;
    uint64_t defer_ms, ppm;
    uint64_t deadline_ms, max_deferral_ms;
    char folder[APP_LINE_FOLDER_BYTES];
    char text[APP_LINE_BYTES]; /* refused: one line for people */
};

/* A line that has not come to its end yet. Begins as zeros. */
struct app_line_input {
    char bytes[APP_LINE_BYTES];
    size_t length;
};

/* Takes bytes up to the end of a line, moving *bytes and *length on. 1: *ret_line is one. 0: all
 * are taken, more are wanted. -1: it is wrong, and so is whatever follows. */
int app_line_next(struct app_line_input *input, enum app_line_side from, const uint8_t **bytes,
                  size_t *length, struct app_line *ret_line, struct err *err);

/* Returns the length with the line feed, no NUL. 0: a value is none that the line may have. */
size_t app_line_format(const struct app_line *line, char ret_text[APP_LINE_BYTES]);

/* The word that a line begins with. */
const char *app_line_verb_name(enum app_line_verb verb);

#endif
