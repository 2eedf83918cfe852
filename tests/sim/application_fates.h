/* How simulated applications misbehave, and what is drawn for one answer.
 *
 * Shapes   a fate is drawn when a request arrives, and followed until the answer is given.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_FATES_H
#define CKPT_TESTS_SIM_APPLICATION_FATES_H

#include "tests/sim/sim.h"

/* How often each misbehaviour: once in so many answers, or runs; 0: never. */
struct application_manners {
    uint64_t never_in, late_in, slow_in, dies_in, partial_in, refuses_in, empty_in,
        stale_in;                                                       /* of answers */
    uint64_t no_handler_in, crashes_in, freezes_in, deaf_in, helper_in; /* of runs */
    uint64_t defers_in, lies_in, hangs_up_in; /* of answers to calls, before the others */
    uint64_t mislabels_in;                    /* of answers with a label: another one */
    /* of what a rank says on its stream: it is stuck after it, the stream breaks behind it, and how
     * long its steps take is wrong */
    uint64_t stuck_in, breaks_in, mispaces_in;
    bool finishes; /* runs end well after a while */
};

enum fate {
    FATE_ANSWERS,
    FATE_NEVER,
    FATE_LATE,    /* at 100, 149 or 151 % of the timeout */
    FATE_SLOW,    /* a file more every now and then, up to 140 % */
    FATE_DIES,    /* in its handler, half of the files written */
    FATE_PARTIAL, /* half of the files, and says the bytes of all */
    FATE_REFUSES,
    FATE_EMPTY, /* done, and no file */
    FATE_STALE, /* an old hint first */
    /* of calls */
    FATE_DEFERS,  /* for longer than it may, at times */
    FATE_LIES,    /* tells of progress for ever */
    FATE_HANGS_UP /* without an answer */
};

/* Of one answer that is on its way. */
struct answering {
    enum fate fate;
    uint64_t left_us; /* of a slow one */
    unsigned parts;   /* that it has written */
};

/* among: of so many that are asked together one misbehaves as often as one that is alone. */
void answering_draw(struct answering *answering, struct sim *sim,
                    const struct application_manners *manners, bool called, unsigned among);
/* Until the answer, or the first part of it. Not of FATE_NEVER. */
uint64_t answering_delay(struct answering *answering, struct sim *sim, uint64_t timeout_us);

#endif
