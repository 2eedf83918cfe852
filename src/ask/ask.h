/* Ways of asking an application for a checkpoint: one row of operations and one file per way
 * (README.md beside this).
 *
 * Flow     ask_find(profile); preflight; prepare (folder and request); fire; events until hang_up,
 *          and poll until the application is done; clear. After a restart of the agent: poll, then
 *          `lost` and prepared() say whether the question still stands.
 * Shapes   operations keep no state but an open question. Everything is in the job's work folder,
 *          also the answer to a call, so an agent that restarts just polls again. The target brings
 *          the node's functions: nothing here knows the agent. Callers never ask which way it is:
 *          each difference between ways is an operation, an event or a member of struct ask_ops.
 * Errors   preflight refusals carry one line for people; prepare and fire fail with struct err.
 */
#ifndef CKPT_ASK_ASK_H
#define CKPT_ASK_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/ask/sentinel.h"
#include "src/base/err.h"

struct ask_call; /* an open question */
struct ask_request;

enum { ASK_ADDRESS_BYTES = 128, ASK_NAME_BYTES = 64, ASK_SIGNAL_MAX = 64 };
#define ASK_ESTIMATE_MAX_MS UINT64_C(604800000) /* 7 days, the longest timeout of a policy */

enum ask_catches {
    ASK_CATCHES,      /* somebody hears the signal, and nobody would die from it */
    ASK_WOULD_DIE,    /* `culprit` neither catches nor ignores it, and its whole group is asked */
    ASK_NONE_CATCHES, /* nobody would answer */
    ASK_UNREAD        /* not all processes can be read just now */
};
struct ask_process {
    pid_t pid;
    char name[ASK_NAME_BYTES];
};

/* A process that saves its own part of the job's state. */
struct ask_rank {
    uint32_t number; /* over all nodes */
    pid_t pid;       /* 0: not known; the rank is asked with all that hear the signal */
    bool catches_usr1, catches_usr2;
    bool catches_asked; /* the signal that it was looked at with */
    bool tells;         /* it has a stream: it needs no signal */
    char name[ASK_NAME_BYTES];
};

/* The state of the socket that an application registers. */
enum ask_endpoint {
    ASK_REGISTERED,
    ASK_UNREGISTERED, /* the application has said nothing */
    ASK_CLOSED        /* its address cannot be called now */
};

/* Changes of the request word of a slot (src/app/ckptshm.h). */
enum ask_region_change {
    ASK_REGION_RAISE, /* it becomes the next request */
    ASK_REGION_CLEAR  /* nothing is requested any more */
};

/* file_read(): the name is a folder, a link or a pipe, or may not be read. */
enum { ASK_FILE_OTHER = -2 };

/* The node's functions for one application: its processes, its work folder, the socket that it
 * registered. Files are touched as the job's user; names are below the work folder. */
struct ask_node {
    /* Where nothing numbers ranks, of the processes that are asked. */
    enum ask_catches (*job_catches)(void *context, int signal, struct ask_process *ret_culprit);
    int (*job_signal)(void *context, int signal, struct err *err);
    /* 0: no launcher numbers ranks; the whole job is the one rank. */
    size_t (*rank_count)(void *context);
    void (*rank)(void *context, size_t i, struct ask_rank *ret_rank);
    int (*rank_signal)(void *context, size_t i, int signal, struct err *err);
    void (*rank_tell)(void *context, size_t i, const struct ask_request *request);
    /* ASK_CLOSED: ret_why has the reason. */
    enum ask_endpoint (*endpoint)(void *context, char *ret_why, size_t size);
    /* "unix:PATH" to dial; only while the state is ASK_REGISTERED. */
    const char *(*endpoint_address)(void *context, char text[ASK_ADDRESS_BYTES]);
    /* may_exist: an existing folder is fine. */
    int (*folder_make)(void *context, const char *name, bool may_exist, struct err *err);
    /* A symbolic link below the work folder to a folder elsewhere. */
    int (*link_make)(void *context, const char *name, const char *to, struct err *err);
    /* A sum that changes with any size or time of change below the folder. */
    uint64_t (*folder_sum)(void *context, const char *name);
    /* Reads at most size - 1 bytes and a NUL; -1: no such file; ASK_FILE_OTHER. */
    ssize_t (*file_read)(void *context, const char *name, char *text, size_t size);
    /* Replaces: a reader finds the old content or the new one. */
    int (*file_write)(void *context, const char *name, const char *text, size_t length,
                      struct err *err);
    void (*file_remove)(void *context, const char *name);
    /* The region of memory that a way shares with the application: as the user's own file of the
     * size that it is to have, or not at all. -1 with err, whose text says what is wrong with it.
     * Whoever maps it may write at the same time, and anything. */
    int (*region_read)(void *context, size_t offset, void *ret_bytes, size_t length,
                       struct err *err);
    int (*region_write)(void *context, size_t offset, const void *bytes, size_t length,
                        struct err *err);
    /* Of each word at these offsets, as one indivisible operation, and wakes who waits on it. */
    int (*region_change)(void *context, enum ask_region_change change, const size_t *offsets,
                         size_t count, struct err *err);
};

/* The application that is asked, on this node. */
struct ask_target {
    const struct ask_node *node;
    void *context; /* the node's; it outlives the question */
    uv_loop_t *loop;
    pid_t group; /* the application's process group, for people */
    uid_t uid;   /* the only user that may answer */
    int signal;  /* in the place of the row's; 0: that one */
    /* Its user says that one process saves for all: it is rank 0 where it writes a number. */
    bool speaks_for_all;
};

/* The question: a part of one attempt at a checkpoint. Texts are the caller's. */
struct ask_request {
    uint64_t checkpoint_id;
    uint32_t attempt;
    const char *hint; /* checkpoint_id and attempt as text */
    const char *directory;
    bool elsewhere;           /* the directory exists already, not below the work folder */
    uint64_t deadline_ms;     /* since the epoch */
    uint64_t max_deferral_ms; /* the application may defer for so long; 0: it must begin */
    bool stops;               /* the job ends with this checkpoint */
};

/* Events of an open question, from the loop, never from inside fire. deferred() and broken() are
 * the last ones: the listener hangs up after them, or in them. The end of the writing is no event:
 * poll finds it, because some ways hear nothing, and because an agent may have been away when it
 * happened. */
struct ask_events {
    void (*alive)(void *data); /* some progress */
    /* the same: it expects to write for so long from now on, 1 to ASK_ESTIMATE_MAX_MS */
    void (*estimate)(void *data, uint64_t estimate_ms);
    void (*deferred)(void *data, uint64_t defer_ms);
    void (*answered)(void *data); /* poll finds it */
    void (*broken)(void *data, Ckpt__V1__Reason reason, const char *text);
};

struct ask_listener {
    const struct ask_events *events;
    void *data; /* the events' */
};

/* preflight(): the application can be asked, or cannot, with a line that says why. */
enum ask_ready { ASK_READY, ASK_NO_HANDLER };

struct ask_ops {
    const char *about; /* for people: "signal (ABOUT)" */
    /* the signal that asks each rank; 0: the application is asked otherwise, once */
    int signal;
    bool ranks;          /* each rank is asked for itself; else one is asked for all */
    bool registers;      /* the application registers an address */
    bool served;         /* its ckpt-run serves an address, and says it when it attaches */
    bool leaves_stopped; /* it may leave an application stopped that ends with its checkpoint */
    bool region;    /* it is asked in a region of memory, which ckpt-run makes before it starts */
    bool stands_in; /* it looks for a file, or a stand-in of its ckpt-run does in its place */
    /* The reason why an agent that restarted cannot hear the answer any more, unless it is in the
     * folder already. NULL: it can. */
    const char *lost;
    /* The application has taken what it is asked by in this way, of its own accord. NULL: nobody
     * sees that. */
    bool (*shown)(const struct ask_target *target);
    enum ask_ready (*preflight)(const struct ask_ops *ops, const struct ask_target *target,
                                char *ret_detail, size_t size);
    int (*prepare)(const struct ask_target *target, const struct ask_request *request,
                   struct err *err);
    /* Asks, once. The listener is copied. *ret_call: NULL for a way that hears nothing. */
    int (*fire)(const struct ask_ops *ops, const struct ask_target *target,
                const struct ask_request *request, const struct ask_listener *listener,
                struct ask_call **ret_call, struct err *err);
    void (*hang_up)(struct ask_call *call); /* NULL allowed; nothing is heard afterwards */
    /* True: the folder holds the request of this hint. */
    bool (*prepared)(const struct ask_target *target, const char *hint);
    /* The answer of the i-th rank; rank is 0 also where no rank is numbered. */
    enum ask_answer (*poll)(const struct ask_target *target, const char *hint, size_t rank,
                            struct sentinel *ret_sentinel, struct err *err);
    /* A sum that changes as the application writes for this hint. */
    uint64_t (*growth)(const struct ask_target *target, const char *hint);
    void (*clear)(const struct ask_target *target);
};

/* "" is the first profile. NULL: unknown, or not in this version. */
const struct ask_ops *ask_find(const char *profile);
/* The name; for "" the first profile's. */
const char *ask_name(const char *profile);
/* The i-th profile, from 0; NULL: no more. */
const char *ask_profile_at(size_t i, const struct ask_ops **ret_ops);
/* The first one that an application of which nobody has said how it is asked shows by itself; else
 * the first profile. */
const char *ask_shown(const struct ask_target *target);
/* All profiles in one line, for messages; registering: profiles whose applications register. */
enum { ASK_PROFILES_BYTES = 512 };
const char *ask_profiles(char text[ASK_PROFILES_BYTES]);
const char *ask_profiles_registering(char text[ASK_PROFILES_BYTES]);

#endif
