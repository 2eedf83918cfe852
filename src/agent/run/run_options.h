/* The command line of ckpt-run.
 *
 * Errors   run_options_parse: ERR_INVALID with what is wrong; the program prints it alone, says
 *          where its usage is, and exits with RUN_EXIT_SELF.
 */
#ifndef CKPT_AGENT_RUN_OPTIONS_H
#define CKPT_AGENT_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/run/run_alone_options.h"
#include "src/agent/run/run_stand_in.h"
#include "src/base/err.h"

/* Beside the application's own status (128 + n when signal n ended it). */
enum { RUN_EXIT_SELF = 125, RUN_EXIT_NOT_EXECUTABLE = 126, RUN_EXIT_NOT_FOUND = 127 };

#define RUN_DEFAULT_SOCKET "/run/ckpt/agent.sock"

enum { RUN_OPTION_LETTERS = 128 };

enum run_restart { RUN_RESTART_ANY, RUN_RESTART_SIGNAL, RUN_RESTART_NEVER };

/* By whose word the application is asked. */
enum run_way {
    RUN_WAY_SAID,   /* the line does */
    RUN_WAY_UNSAID, /* nobody, unless it was registered: the application shows it */
    RUN_WAY_AUTO    /* likewise, and the line asks for that: --profile auto */
};

struct run_options {
    const char *allocation_id;
    const char *profile;  /* a way of asking, once parsed; "": as registered */
    const char *work_dir; /* NULL: the default, run_folder.h */
    const char *socket;
    uint32_t restarts_max;
    enum run_restart restart_on;
    uint64_t wait_for_ms; /* without an application; 0: for ever */
    bool from_scratch;    /* do not restore at the first start */
    enum run_way way;
    uint32_t ranks;                /* of this node; 0: as many as are found */
    bool asks_group;               /* the signal goes to the whole process group */
    bool asks_started;             /* ... or to the process that is started alone */
    int ask_signal;                /* in the place of its profile's; 0: that one */
    const char *checkpoint_cmd;    /* takes a checkpoint (run_command.h); NULL: none */
    const char *restart_cmd;       /* is started in the command's place; NULL: the command is */
    const char *echkpnt;           /* a site's programs do (run_echkpnt.h); NULL: none */
    const char *echkpnt_options;   /* of these; NULL: none */
    Ckpt__V1__RestoreMode restore; /* UNSPECIFIED: as registered */
    bool stay;                     /* for runs that are to come */
    bool once;                     /* it leaves when its first run has ended: no word asks for it */
    bool imports;                  /* ... which brings the files of an import; no word likewise */
    bool replace;                  /* an application that runs without a ckpt-run */
    bool quiet;                    /* only why it fails itself */
    bool help;
    bool version;
    struct stand_in stand_in;
    struct run_alone alone;         /* no cluster */
    bool given[RUN_OPTION_LETTERS]; /* on the line, by its letter in run_options.c */
    char **command; /* NULL-terminated; with the stand-in before it, where one is wanted */
};

void run_usage(FILE *to);
int run_options_parse(int argc, char **argv, struct run_options *ret_options, struct err *err);
/* Might any end? */
bool run_may_restart(const struct run_options *options);
/* Would this end of the application make ckpt-run start it again? */
bool run_restarts(const struct run_options *options, int wait_status, uint32_t restart_count);
/* The exit code that tells a wait status. */
int run_exit_code(int wait_status);

#endif
