/* A remark of commands that show decisions, when the cluster is paused. */
#ifndef CKPT_CLI_PAUSE_H
#define CKPT_CLI_PAUSE_H

struct cli;

/* On stderr, when any member says that it is paused. */
void pause_note(struct cli *cli);

#endif
