/* Runs ckptctl inside the test: its words in, its exit code, stdout and stderr out; members are
 * scripted answers.
 *
 * Flow     harness_init, harness_answer for each method, harness_run, asserts, harness_close.
 * Shapes   one harness per test; answers are matched by endpoint and method, the first one that
 *          still has turns left wins.
 */
#ifndef CKPT_TESTS_UNIT_CLI_HARNESS_H
#define CKPT_TESTS_UNIT_CLI_HARNESS_H

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/cli/cli.h"

enum { HARNESS_ANSWERS_MAX = 32 };

struct harness_answer {
    const char *endpoint; /* NULL: asked of the leader */
    const char *method;
    int status;
    const char *text;
    const ProtobufCMessage *reply; /* the test's, copied at each use */
    int turns;                     /* how often it is given; -1: always */
};

struct harness {
    struct cli cli;
    struct harness_answer answers[HARNESS_ANSWERS_MAX];
    size_t answer_count;
    size_t call_count;
    char last_method[64];
    ProtobufCMessage *last_request; /* of the last call that followed the leader */
    char *out;
    char *error;
    size_t out_length, error_length;
    const char *input; /* typed at questions; NULL: not a terminal */
    bool network;      /* real members instead of answers */
    uint64_t repeats;  /* how often --watch asks; 0: for ever */
};

void harness_init(struct harness *h);
void harness_answer(struct harness *h, const char *endpoint, const char *method, int status,
                    const char *text, const ProtobufCMessage *reply);
/* words are split at blanks. Output of an earlier run is dropped. */
int harness_run(struct harness *h, const char *words);
void harness_close(struct harness *h);

#define assert_lacks(haystack, needle)                                                             \
    do {                                                                                           \
        if (strstr((haystack), (needle)) != NULL) {                                                \
            print_error("\"%s\" is in:\n%s\n", (needle), (haystack));                              \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

#endif
