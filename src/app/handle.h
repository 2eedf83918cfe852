/* The handle of libckptapp and what its files do to it. Not installed.
 *
 * Flow     ckptapp.c (the calls) -> stream.c (the socket) -> question.c (what a line changes);
 *          ckptapp.c -> answer.c (the done file); launcher.c at open; words.c under all of them.
 * Shapes   one anonymous mapping per handle, nothing is allocated after ckpt_open(). All texts are
 *          in it and end with NUL.
 *
 *          asked   what the agent asks
 *              NOTHING --ask--> HEARD --at--> TOLD --step--> DUE          (barrier)
 *                               HEARD -----------------------------> TAKEN (poll: NOW)
 *                               DUE --first step not below it--------> TAKEN (barrier: NOW)
 *                               DUE --that one lies behind: missed---> NOTHING
 *              any --withdrawn, answered--> NOTHING;  another hint asked --> HEARD
 *          saving  what the application does
 *              NOTHING --NOW--> NOW --done, failed, defer--> NOTHING
 *                               NOW --withdrawn, another hint asked--> STALE --done...--> NOTHING
 *
 * Safety   whatever is reached from a [signal] call uses no stdio, no allocation and no lock.
 */
#ifndef CKPT_APP_HANDLE_H
#define CKPT_APP_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/app/ckptapp.h"

enum {
    LINE_BYTES = 512, /* of the protocol, with its line feed */
    HINT_BYTES = 64,
    FOLDER_BYTES = 256, /* of a question, below the work folder */
    PATH_BYTES = 4096,
    JOB_BYTES = 129,
    SOCKET_BYTES = 108, /* sun_path */
    LABEL_BYTES = 65,
    STATUS_BYTES = 201,
    ERROR_BYTES = 256,
    PACES = 8, /* steps whose mean time is told */
    WORDS_MAX = 10,
};

#define DIAL_EVERY_NS UINT64_C(1000000000) /* between two tries to reach the agent */
#define AT_EVERY_NS   UINT64_C(10000000)   /* between two words about the step, while it is asked */
#define STEP_EVERY_NS UINT64_C(1000000000) /* likewise, while nothing is asked */
#define SIGN_EVERY_NS UINT64_C(100000000)  /* between two signs of life */

#define NO_QUESTION "-" /* in place of a hint */

enum ckptapp_asked { ASKED_NOTHING, ASKED_HEARD, ASKED_TOLD, ASKED_DUE, ASKED_TAKEN };
enum ckptapp_saving { SAVING_NOTHING, SAVING_NOW, SAVING_STALE };

/* What the agent asks of this rank: an attempt at a checkpoint. */
struct ckptapp_question {
    char hint[HINT_BYTES];
    char folder[FOLDER_BYTES]; /* relative to the work folder, without `..` */
    uint64_t deadline_ms;      /* since the epoch */
    uint64_t deferral_max_ms;  /* that ckpt_defer() may ask for */
};

/* Which of the job's processes this is. */
struct ckptapp_rank {
    int64_t rank, local_rank;    /* -1: not known */
    uint32_t ranks, local_ranks; /* 0: not known */
};

struct ckpt {
    _Atomic(uintptr_t) lock; /* the thread that is inside, 0: none */
    pid_t pid;               /* that opened it: a child's copy is dead */

    /* what the environment said when it was opened */
    struct ckptapp_rank rank;
    uint32_t part, parts, restore_parts;
    uint64_t run;
    char job[JOB_BYTES], socket[SOCKET_BYTES], work[PATH_BYTES];
    bool requests; /* the agent takes requests of ranks */
    char restore_directory[PATH_BYTES], restore_uri[PATH_BYTES], restore_label[LABEL_BYTES];

    /* the stream; descriptor -1: none */
    int descriptor;
    uint64_t dial_at_ns;   /* not before then */
    bool plain, barrier;   /* which of the calls was used; neither: it is opened, and not asked */
    bool announced;        /* a hello that says so went out on this stream */
    bool greeted;          /* the one that says which call is used did */
    bool takes_steps;      /* the agent said on this stream that it wants to hear of steps */
    char line[LINE_BYTES]; /* that has not come whole */
    size_t line_length;

    enum ckptapp_asked asked;
    struct ckptapp_question question;
    uint64_t agreed_step; /* of ASKED_DUE */

    enum ckptapp_saving saving;
    struct ckptapp_question saved; /* the question that is being answered */
    char directory[PATH_BYTES];
    uint64_t saving_since_ns;  /* for stall_ms of the answer */
    uint64_t sign_at_ns;       /* progress is told again then */
    uint64_t saved_at_ms;      /* of the state, as the application says; 0: of the question */
    char answered[HINT_BYTES]; /* the last one that done or failed was said to */

    /* what is to be said as soon as the stream takes it */
    bool say_done, say_at, say_missed;
    char missed_hint[HINT_BYTES];
    uint64_t missed_step;

    /* steps of the barrier */
    bool stepped;                    /* ckpt_barrier() was called before */
    uint64_t step, step_ns, told_ns; /* the last one, when it was, and when the agent was told */
    uint64_t paces[PACES];           /* ns per step; 0: none yet */
    unsigned pace_next;

    /* steps that the agent is told without a question, so that it sees a job that hangs */
    uint64_t said_step;        /* the last one */
    _Atomic(uint64_t) said_ns; /* when it was tried, read without a turn; 0: never */

    char error[ERROR_BYTES];
};

/* ---- words.c: texts without stdio ---- */

/* A text that grows in the caller's bytes and always ends with NUL. */
struct ckptapp_text {
    char *bytes;
    size_t size, length;
    bool full; /* something did not fit */
};
/* What does not fit is cut, and `full` says so: the caller looks once, at the end. */
void ckptapp_put(struct ckptapp_text *text, const char *words);
void ckptapp_put_number(struct ckptapp_text *text, uint64_t number);
/* Percent-encoded: one word of the protocol. */
void ckptapp_put_word(struct ckptapp_text *text, const char *word);
/* The other way, in place. -1: it is no such word, or holds a NUL. */
int ckptapp_word_decode(char *word);
/* Cuts a line at its blanks: how many words; 0: a blank too many, too many words, or bytes that no
 * line has. */
size_t ckptapp_words(char *line, char *words[WORDS_MAX]);
/* Digits alone. -1: it is none, or too large. */
int ckptapp_number(const char *word, uint64_t *ret_number);
/* As label_valid() of src/base/id.h, which a library for libc programs cannot use. */
bool ckptapp_label_valid(const char *label);
/* -1: it does not fit. */
int ckptapp_copy(char *to, size_t size, const char *from);
/* Monotonic. */
uint64_t ckptapp_now_ns(void);
/* For ckpt_error(): "WHAT" and "WHICH" in one line. */
void ckptapp_error_set(struct ckpt *ckpt, const char *what, const char *which);

/* ---- launcher.c ---- */
/* -1: what the launcher or the options say cannot be. */
int ckptapp_rank_find(const struct ckpt_options *options, struct ckptapp_rank *ret_rank);

/* ---- question.c ---- */
/* One line of the agent without its line feed. -1: the stream is of no more use (error is set). */
int ckptapp_line_take(struct ckpt *ckpt, char *line);
/* Bytes of the stream as they come. */
int ckptapp_bytes_take(struct ckpt *ckpt, const char *bytes, size_t length);
/* The application begins to save what is asked. */
void ckptapp_take(struct ckpt *ckpt);
/* It ends with that; answered: by a done file. */
void ckptapp_saving_end(struct ckpt *ckpt, bool answered);
/* What must hold between any two calls. */
bool ckptapp_sound(const struct ckpt *ckpt);

/* ---- stream.c ---- */
/* Whatever can be done without waiting: dials when it may and it is time, says hello, reads what
 * has come, says what could not be said before. Errors close the stream; a later turn dials
 * again. */
void ckptapp_stream_turn(struct ckpt *ckpt, bool may_dial);
void ckptapp_stream_close(struct ckpt *ckpt);
/* -1: it did not go out; the stream may be closed by then. */
int ckptapp_stream_say(struct ckpt *ckpt, const struct ckptapp_text *line);
/* Tells the agent where this rank is, and how long its steps take: "at HINT STEP NS". -1 as
 * above. */
int ckptapp_stream_at(struct ckpt *ckpt);
/* The same while nothing is asked: "at - STEP NS". */
int ckptapp_stream_step(struct ckpt *ckpt, uint64_t step);

/* ---- answer.c ---- */
/* Has the bytes of the done file at hand, so that a full disk can be reported. */
void ckptapp_answer_reserve(const struct ckpt *ckpt);
/* -1 and errno. */
int ckptapp_answer_write(struct ckpt *ckpt, const char *status, const char *label, uint64_t bytes);

#endif
