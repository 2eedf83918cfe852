/* One simulated application: it iterates, answers requests for checkpoints, and misbehaves; one
 * process, or the launcher of several ranks (application_ranks.h).
 *
 * Flow     application_new() is the held process of ckpt-run; application_release() lets it become the program: it reads what was
 *          restored, goes on from there, installs its handler after a while. SIGUSR1: it reads the request, takes a snapshot, and a
 *          fate is drawn for the answer. SIGTERM: it ends, in one of several ways, or does not.
 * Shapes   the state after n iterations is a number that follows from the job, the rank and n
 *          alone, so whatever happened in between, it can be compared with that of an undisturbed
 *          run. A shard holds it twice, in two files.
 * Checks   struct application_checks, told at the moment things happen.
 * Absent   timers per iteration: iterations follow from the time that has passed.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_H
#define CKPT_TESTS_SIM_APPLICATION_H

#include "tests/sim/application_fates.h"
#include "tests/sim/application_files.h"
#include "tests/sim/application_ways.h"

enum { APPLICATION_STEP_US = 10000, APPLICATION_GATE_CLOSED = 125 << 8 };

struct application;

struct application_setup;
struct application_checks {
    void *data;
    /* ckpt-run asks for a run of its application: what is complete by now must not be lost by it. */
    void (*attaches)(void *data, struct agent_machine *machine, const char *allocation_id);
    /* The program begins; `from` is what it read, checkpoint_id 0: from scratch. */
    void (*started)(void *data, struct application *application, uint64_t checkpoint_id);
    /* The signal, or the call, has arrived at this rank, with this request. */
    void (*asked)(void *data, struct application *application, unsigned rank, const char *hint);
    /* This rank of one is done with that request, of what it calls so. */
    void (*done)(void *data, struct agent_machine *machine, const struct application_setup *setup,
                 const char *hint, unsigned rank, const char *label);
    /* It puts that request off: all of its node may be asked the same once more. */
    void (*deferred)(void *data, struct application *application, const char *hint);
    /* Of one that saves it from outside. */
    void (*command)(void *data, enum application_command_event event);
    /* An attempt of this node's agent still waits for the answer to that hint, or no agent that
     * runs could have said otherwise. */
    bool (*wants)(void *data, const struct agent_machine *machine, const char *allocation_id,
                  const char *hint);
    /* This rank, with a stream, is at a moment of its barrier. step: that it was told to save at;
     * 0: it says for the first time where it is. */
    void (*meets)(void *data, struct agent_machine *machine, const struct application_setup *setup,
                  const char *hint, unsigned rank, uint64_t step);
    /* This rank, with a stream, has said a step while nothing was asked. */
    void (*stepped)(void *data, const struct agent_machine *machine,
                    const struct application_setup *setup);
    /* The job of that application hangs. */
    bool (*hangs)(void *data, const struct agent_machine *machine,
                  const struct application_setup *setup);
    void (*ended)(void *data, struct application *application);
    /* Whose computation it is: an allocation goes on with that of the one which it continues. */
    const char *(*computes)(void *data, const char *allocation_id);
    /* Whose application wrote what the allocation is to begin from: it may be another one's. */
    const char *(*wrote)(void *data, const char *allocation_id, uint64_t checkpoint_id);
    __attribute__((noreturn)) void (*violation)(void *data, const char *invariant,
                                                const char *text);
};

struct application_setup {
    const char *allocation_id;
    const char *work_dir;
    const struct application_way *way; /* it is asked */
    uint64_t part_run;                 /* 0: not known */
    enum world_labels labels;
    unsigned ranks;                            /* processes of their own; 0: it is the only one */
    bool ranks_in_group;                       /* ... in that of their launcher */
    bool ranks_with_streams;                   /* some of them, or all that meet at a step */
    bool says_steps;                           /* those do, unasked */
    const char *ranks_socket;                  /* "": their agent has none for them */
    const char *region;                        /* in which it is asked; "": otherwise */
    bool from_scratch;                         /* wanted so: nothing of what is complete counts */
    const struct application_manners *manners; /* read each time: they may change */
    const struct application_checks *checks;
    /* The process is dead; it is the parent's to reap. NULL data: nobody. */
    void (*ended)(void *data, int wait_status);
    void *data;
};

struct application *application_new(struct agent_machine *machine,
                                    const struct application_setup *setup);

/* What it goes on from. Several parts lie in folders part-NNNN there: it reads all of them, and
 * goes on with that of its own place, which wraps round where there are more places than parts. */
struct application_point {
    uint64_t checkpoint_id; /* 0: from scratch */
    const char *folder;     /* there, or with file:// before it at a destination */
    uint32_t place, places; /* of its part */
    uint32_t parts;         /* in folders of their own; 0: `folder` is that of its part */
};
/* It ends at once when it cannot read that. */
void application_release(struct application *application, const struct application_point *point);
/* The parent is dead: nobody is told of the end; a process that is held ends itself. */
void application_orphan(struct application *application);
/* It comes to its end. */
void application_finish(struct application *application, int wait_status);
/* Behaves from now on, and comes to its end after a while. */
void application_calm(struct application *application);

const struct machine_process *application_process(const struct application *application);
struct agent_machine *application_machine(const struct application *application);
const char *application_allocation(const struct application *application);
/* The part of the job's state that it goes on with. */
const char *application_identity(const struct application *application);
/* Of its part of the job, as its agent told it; 0: it did not know. */
uint64_t application_part_run(const struct application *application);
/* The node that wrote the shard it began from: its own, or of the job's only one; "": from scratch. */
const char *application_shard_of(const struct application *application);
/* It is asked by calls, in memory, by a command, or looks by itself: these take a while to come,
 * and their agent may have ended meanwhile. */
bool application_is_called(const struct application *application);
/* ... and so is this rank, on its stream. */
bool application_is_told(const struct application *application, unsigned rank);
bool application_from_scratch(const struct application *application);
/* It computes: nothing makes all of it stand still. */
bool application_moves(const struct application *application);
bool application_released(const struct application *application);
/* Its folder is known no more. */
const struct application_point *application_point_of(const struct application *application);
struct application_state application_now(const struct application *application);
/* One of its ranks has died. */
void application_lost_rank(struct application *application);
/* What a rank finds in what was restored, in files with this suffix, in a folder of its own if it
 * had one (NULL: none). */
void application_restore(struct application *application, const struct application_point *point,
                         const char *own, const char *suffix,
                         struct application_restored *ret_restored);
/* What it calls what it saves of this attempt: all ranks alike, most of the time. */
void application_label(const struct application_setup *setup, struct sim *sim, const char *hint,
                       char label[LABEL_MAX_BYTES + 1]);
/* That of an undisturbed run. */
struct application_state application_truth(const char *allocation_id, const char *identity,
                                           uint64_t iteration);
/* Goes on to that one. */
struct application_state application_iterate(struct application_state state, uint64_t until);

#endif
