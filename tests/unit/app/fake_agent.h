/* An agent of one job in the test itself: a unix socket, a work folder, and what the protocol says.
 * */
#ifndef CKPT_TESTS_UNIT_APP_FAKE_AGENT_H
#define CKPT_TESTS_UNIT_APP_FAKE_AGENT_H

#include <stdbool.h>

#include "src/app/handle.h"

struct fake_agent {
    char folder[64]; /* the work folder */
    char path[80];   /* of the socket */
    int listener, stream;
    char heard[4096]; /* bytes that came and are not read yet */
    size_t heard_length;
};

/* Makes the folder and the environment of ckpt-run. The address must stay until the end. */
void fake_agent_start(struct fake_agent *agent);
void fake_agent_stop(struct fake_agent *agent);
/* Goes away as a killed process does, and comes back. */
void fake_agent_die(struct fake_agent *agent);
void fake_agent_return(struct fake_agent *agent);
/* Takes the stream that the library dialled. */
void fake_agent_accept(struct fake_agent *agent);
void fake_agent_say(struct fake_agent *agent, const char *text);
/* The next line; waits up to 5 s. */
const char *fake_agent_line(struct fake_agent *agent);
void fake_agent_hears(struct fake_agent *agent, const char *line);
/* Nothing more has come. */
void fake_agent_hears_nothing(struct fake_agent *agent);
/* The done file of a rank without its stall_ms; "" when there is none. */
const char *fake_agent_done(struct fake_agent *agent, int rank);

#endif
