/* Verbs of ckpt-run: the owner of a job asks the cluster without a key of it.
 *
 * Flow     ckpt-run hint JOB → owner_run(): the row of the verb, and from there the command of
 *          ckptctl, its options and its printing. Only the way differs: the transport goes to the
 *          agent of the node, which says whose call it is (src/agent/app/own_call.h). The broker
 *          looks whose job it is about.
 * Shapes   one table: verb, call, and what it takes. Texts that members and commands write name
 *          ckptctl; owner_words() says what an owner does instead.
 * Errors   printed; the exit codes are those of ckpt-run's verbs.
 * Source   V-014.
 */
#ifndef CKPT_CLI_OWNER_H
#define CKPT_CLI_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"
#include "src/client/client.h"

/* The row of a verb, and the options of all of them; NULL: it is none (owner_verbs.c). */
const struct command *owner_verb(const char *verb);
/* The names of all, NULL behind the last one. */
const char *owner_verb_name(size_t i);
extern const struct option_spec owner_options[];
/* argv[0] is the verb. transport gets the struct cli as its context, with endpoints as --socket
 * says, or NULL. Returns the exit code. */
int owner_run(int argc, char **argv, cli_transport_fn *transport);

/* A text in the owner's words: "ckptctl job JOB" becomes "ckpt-run status --alloc JOB"; what only
 * an operator can do is called so. */
void owner_words(FILE *out, const char *text);

/* Of no use about the period of a job, in one line: below floor_ms, the least time between two
 * checkpoints of it, or no shorter than its walltime. "": nothing. 0: not known, or none. */
enum { OWNER_PERIOD_BYTES = 256 };
const char *owner_period_text(uint64_t period_ms, uint64_t floor_ms, uint64_t walltime_ms,
                              char text[OWNER_PERIOD_BYTES]);

/* Tells of an id whether it is used already: a line that names it would be refused. NULL: nobody
 * can say. Ids of other users' jobs are not told from free ones; then the registration says so. */
struct owner_ids {
    bool (*taken)(void *context, const char *id);
    void *context;
};
/* How the cluster has the job, and the owner's next step. node_id: of an agent
 * where something of it is; "": it is asked elsewhere. */
void owner_job_print(FILE *out, const Ckpt__V1__Allocation *job, const char *node_id,
                     const struct owner_ids *ids);
/* Of one that has stopped, in one line: what it is, and what is typed for it to go on. */
void owner_job_next(FILE *out, const Ckpt__V1__Allocation *job, const struct owner_ids *ids);
/* The line that registers a job which goes on from this one's last checkpoint. */
void owner_continue_print(FILE *out, const Ckpt__V1__AllocationSpec *spec,
                          const struct owner_ids *ids);

#endif
