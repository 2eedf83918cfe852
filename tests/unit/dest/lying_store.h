/* A store that answers as a test has it: cut, late, wrong, or without end.
 *
 * Flow     open() listens on a port of loopback and tells S3's environment of it; a thread takes
 *          one request after the other, each on a connection of its own, and hands it to the
 *          test's function, which writes the answer; close() ends the thread.
 */
#ifndef CKPT_TESTS_UNIT_DEST_LYING_STORE_H
#define CKPT_TESTS_UNIT_DEST_LYING_STORE_H

#include <stddef.h>
#include <stdint.h>

struct lying_store;

struct lying_request {
    unsigned number;  /* from 1 on */
    const char *head; /* its line and headers */
    const uint8_t *body;
    size_t body_bytes;
};

/* On the store's thread. */
typedef void lying_answer_fn(void *data, const struct lying_request *request, int fd);

struct lying_store *lying_store_open(lying_answer_fn *answer, void *data);
/* How many requests came. */
unsigned lying_store_close(struct lying_store *store);

/* length: of the body; told: what Content-Length says; -1: nothing, the body ends with the
 * connection. */
struct lying_body {
    const void *bytes;
    size_t length;
    long told;
};
/* status: "200 OK", perhaps with headers behind it. */
void lying_answer(int fd, const char *status, const struct lying_body *body);
/* The whole of it, as it should be. */
void lying_answer_text(int fd, const char *text);

#endif
