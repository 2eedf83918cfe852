/* The kinds of an application's inputs, and all that can be told of one without reading.
 *
 * Shapes   a mark tells two ckpt-runs whether their applications would read the same.
 */
#ifndef CKPT_AGENT_RUN_INPUT_KIND_H
#define CKPT_AGENT_RUN_INPUT_KIND_H

#include <stdbool.h>
#include <stdint.h>

enum input_kind {
    INPUT_UNKNOWN,
    INPUT_FILE,     /* has an offset */
    INPUT_SAME,     /* gives each reader the same */
    INPUT_TERMINAL, /* a person sees what becomes of it */
    INPUT_PIPE,     /* without a name: only who has it can write to it */
    INPUT_SOCKET,
    INPUT_OTHER
};

/* A stream as it can be seen without reading of it. */
struct input_sight {
    int waiting_bytes; /* -1: it does not tell */
    bool ended;        /* nobody can write to it any more */
};

struct input_mark {
    enum input_kind kind;
    uint64_t device, inode; /* of a file; of SAME the device's number */
    int64_t first;          /* of a file: where the first start reads from */
};

enum input_kind input_kind_of(int fd);
const char *input_kind_name(enum input_kind kind);
bool input_is_stream(enum input_kind kind);
struct input_sight input_look(int fd);
/* Where nobody can write any more, what is in it only becomes less, and each read makes it so. */
bool input_unread(enum input_kind kind, const struct input_sight *was,
                  const struct input_sight *now);
struct input_mark input_mark_of(int fd);
/* A person at a terminal cannot give again what was typed: null is as good. */
bool input_mark_same(const struct input_mark *first, const struct input_mark *now);

#endif
