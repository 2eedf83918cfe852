/* The question in a work folder and its answer, for programs of ckpt-run that stand in for one that
 * knows of neither.
 *
 * Flow     question_read() until there is one; question_answer() once its files are written.
 * Errors   -1 with errno: the answer could not be written.
 */
#ifndef CKPT_AGENT_RUN_QUESTION_H
#define CKPT_AGENT_RUN_QUESTION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "src/ask/sentinel.h"

struct question {
    char hint[HINT_TEXT_BYTES]; /* "": none */
    char directory[PATH_MAX];
    uint64_t deadline_ms; /* since the epoch; 0: not told */
};

/* False: nothing is asked, or it was withdrawn. */
bool question_read(const char *work_dir, struct question *ret_question);
/* Nothing is asked of what has not begun: an agent that died had left it. */
void question_drop(const char *work_dir);
/* *newest becomes the checkpoint of that hint, where that is a later one. */
void question_newest(const char *hint, uint64_t *newest);
/* Both hints are of one checkpoint: of two attempts at it, or of the same one. */
bool question_same_checkpoint(const char *hint, const char *other);
int question_answer(const char *work_dir, const struct sentinel *answer);
/* By rename, so that whoever polls finds all of the text. */
int question_write_file(const char *path, const char *text, size_t length, struct stat *ret_stat);

#endif
