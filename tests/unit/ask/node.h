/* One application on a node of memory, as ways of asking see it: no agent, no process, no file.
 *
 * Flow     fill a struct application, ask through target_of() it; heard_events write down what is
 *          heard of the question.
 */
#ifndef CKPT_TESTS_UNIT_ASK_NODE_H
#define CKPT_TESTS_UNIT_ASK_NODE_H

#include <stdio.h>

#include "src/app/ckptshm.h"
#include "src/ask/ask.h"
#include "tests/support/test.h"

enum { FILES_MAX = 8, TEXT_BYTES = 512, RANKS_MAX = 4 };

struct memory_file {
    char name[64];
    char text[TEXT_BYTES];
    bool other; /* a folder */
};

struct application {
    enum ask_catches catches;
    enum ask_endpoint endpoint;
    char address[ASK_ADDRESS_BYTES]; /* REGISTERED */
    bool group_gone, disk_full;
    struct ask_rank ranks[RANKS_MAX];
    size_t rank_count;
    int rank_signals[RANKS_MAX];
    int signals, last_signal;
    struct memory_file files[FILES_MAX];
    struct ckpt_shm *region; /* NULL: there is none */
    int raised, cleared;     /* words, in all */
};

/* The first free one has the name "". NULL: there is none. */
struct memory_file *file_of(struct application *application, const char *name);
/* As the application writes it. */
void file_put(struct application *application, const char *name, const char *text);
struct ask_target target_of(struct application *application);

struct heard {
    size_t alive, answered, broken, deferred;
    uint64_t estimate_ms, defer_ms;
    Ckpt__V1__Reason reason;
    char text[200];
    bool over; /* one of the last words */
};
extern const struct ask_events heard_events;

#endif
