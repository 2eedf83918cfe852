/* ckptctl explain: why a job was, or was not, checkpointed; now, at an instant, or for one
 * checkpoint. */
#include <inttypes.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/checkpoints.h"
#include "src/cli/commands.h"
#include "src/cli/explain_text.h"
#include "src/cli/human.h"
#include "src/cli/instant.h"
#include "src/cli/members.h"
#include "src/cli/output.h"

enum { LEADER_BYTES = 160 };

static void leader_text(struct cli *cli, uint64_t leader_id, char text[LEADER_BYTES])
{
    struct members members;
    bool found = false;

    members_ask(cli, CALL_QUICK, &members);
    for (size_t i = 0; members.best != NULL && i < members.best->n_members && !found; i++) {
        if (members.best->members[i]->member_id == leader_id) {
            human_safe(members.best->members[i]->name, text, LEADER_BYTES);
            found = true;
        }
    }
    if (!found)
        snprintf(text, LEADER_BYTES, "member %" PRIu64, leader_id);
    members_free(&members);
}

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Which evaluation is asked for: at most one of JOB's last, --at and --checkpoint. */
static enum cli_exit fill_request(struct cli *cli, Ckpt__V1__ExplainRequest *request)
{
    const char *at = cli_text(cli, "at"), *checkpoint = cli_text(cli, "checkpoint");
    struct err err;

    if ((checkpoint == NULL) == (cli->argument_count == 0))
        return cli_fail(cli, CLI_USAGE, "ckptctl explain JOB, or ckptctl explain --checkpoint ID",
                        "explain wants a job, or a checkpoint instead");
    if (checkpoint != NULL && at != NULL)
        return cli_fail(cli, CLI_USAGE, NULL,
                        "--at and --checkpoint exclude each other: a checkpoint has its instant");
    if (checkpoint != NULL) {
        if (checkpoint_id_parse(checkpoint, &request->checkpoint_id) != 0)
            return cli_fail(cli, CLI_USAGE, "ckptctl checkpoints",
                            "\"%s\" is not a checkpoint id: the form is EPOCH-SEQUENCE, for "
                            "example 1-42",
                            checkpoint);
    } else {
        request->allocation_id = cli_argument(cli, 0);
    }
    if (at != NULL && instant_parse(at, wall_ms(), &request->at_ms, &err) != 0)
        return cli_fail(cli, CLI_USAGE, NULL, "%s", err.text);
    request->stale = cli_flag(cli, "stale");
    return CLI_OK;
}

static void print_reply(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    ProtobufCMessage *job = NULL;
    char leader[LEADER_BYTES];

    request.allocation_id = reply->allocation_id;
    request.stale = cli_flag(cli, "stale");
    if (call_read(cli, "show the job", "BrokerService/GetAllocation", &request.base,
                  &ckpt__v1__allocation__descriptor, &job) != CLI_OK)
        job = NULL;
    leader_text(cli, reply->leader_id, leader);
    explain_print(cli, reply, (const Ckpt__V1__Allocation *)job, leader);
    call_free(job);
}

enum cli_exit command_explain(struct cli *cli)
{
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    ProtobufCMessage *message;
    char what[160];
    enum cli_exit code = fill_request(cli, &request);

    if (code != CLI_OK)
        return code;
    if (request.checkpoint_id != 0)
        snprintf(what, sizeof(what), "explain checkpoint %.64s", cli_text(cli, "checkpoint"));
    else
        snprintf(what, sizeof(what), "explain job %.128s", request.allocation_id);
    code = call_read(cli, what, "BrokerService/Explain", &request.base,
                     &ckpt__v1__explain_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    if (cli->format == OUTPUT_NAME)
        cli_out(cli, "%s\n",
                ((const Ckpt__V1__ExplainReply *)message)->checkpoint ? "CHECKPOINT" : "SKIP");
    else if (!output_json_message(cli, "explanation", message))
        print_reply(cli, (const Ckpt__V1__ExplainReply *)message);
    code = ((const Ckpt__V1__ExplainReply *)message)->match ==
                   CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_DIFFERS
               ? CLI_FAILED
               : CLI_OK;
    call_free(message);
    return code;
}
