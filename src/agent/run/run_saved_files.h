/* The files that a program saves its state in, by patterns below the folder where it runs, and its
 * outputs: files to which it appends, and without which it does not go on elsewhere.
 *
 * Flow     saved_files_find() until every pattern has a newer file and nothing changes any more;
 *          saved_files_add_outputs(); saved_files_copy(); at a start saved_files_bring_back().
 *          Symbolic links are saved as links (run_saved_links.h).
 * Shapes   patterns of src/profile/patterns.h; a folder stands for all below it. At
 *          most SAVED_FILES_MAX files. Names are relative and stay so in the checkpoint. An output
 *          need not be there, nor be newer or quiet; a link among outputs is passed over.
 * Errors   err names the file and the system's word.
 */
#ifndef CKPT_AGENT_RUN_SAVED_FILES_H
#define CKPT_AGENT_RUN_SAVED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "src/base/err.h"
#include "src/profile/patterns.h"

enum { SAVED_FILES_MAX = 4096, SAVED_PATTERN_BYTES = PATTERN_BYTES };

struct saved_files {
    char **paths;
    size_t count;
    uint64_t bytes;
    char **links; /* symbolic ones among them (run_saved_links.h) */
    size_t link_count;
    /* for people: the reason why they cannot be saved; "": they can */
    char refused[SAVED_PATTERN_BYTES];
    uint64_t sum; /* changes with any size or time of change */
    /* the first pattern that has no file newer than asked for; "": all have one */
    char missing[SAVED_PATTERN_BYTES];
    bool newer;                          /* one of all files is */
    char unmatched[SAVED_PATTERN_BYTES]; /* the first pattern that no file matches; "": none */
};

void saved_files_find(const char *patterns, const struct timespec *newer_than,
                      struct saved_files *ret_files);
/* Those that no pattern of the state has found. */
void saved_files_add_outputs(const char *patterns, struct saved_files *files);
void saved_files_free(struct saved_files *files);
/* Under the same names below that folder. */
int saved_files_copy(const struct saved_files *files, const char *folder, struct err *err);
/* All below that folder, under the same names below this one. Each replaces at once. An output is
 * left as it is where it begins with the saved bytes: the program finds its own place in it. */
struct saved_names {
    const char *files, *outputs; /* patterns; outputs NULL: there are none */
};
int saved_files_bring_back(const char *folder, const struct saved_names *names, struct err *err);

#endif
