/* One explanation as people read it. */
#ifndef CKPT_CLI_EXPLAIN_TEXT_H
#define CKPT_CLI_EXPLAIN_TEXT_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"

/* job: NULL when it is gone. leader: the name of the member that evaluated. */
void explain_print(struct cli *cli, const Ckpt__V1__ExplainReply *reply,
                   const Ckpt__V1__Allocation *job, const char *leader);

#endif
