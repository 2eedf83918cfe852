/* ckptctl request: what became of a change whose answer was lost. */
#include <inttypes.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { TEXT_BYTES = 1200 };

static void print_outcome(struct cli *cli, const Ckpt__V1__RequestOutcome *outcome)
{
    char at[HUMAN_BYTES], id[HUMAN_BYTES], request[ID_MAX_BYTES + 1], command[HUMAN_BYTES];
    char text[TEXT_BYTES];

    cli_out(cli, "REQUEST %s  %s %s at %s (index %" PRIu64,
            human_safe(outcome->request_id, request, sizeof(request)),
            human_safe(outcome->command, command, sizeof(command)),
            outcome->status == 0 ? "took effect" : "was refused", human_clock(outcome->at_ms, at),
            outcome->index);
    if (outcome->checkpoint_id != 0)
        cli_out(cli, ", checkpoint %s", human_checkpoint(outcome->checkpoint_id, id));
    if (outcome->preemption_id != 0)
        cli_out(cli, ", preemption %" PRIu64, outcome->preemption_id);
    fputs(")\n", cli->out);
    if (outcome->caller[0] != '\0')
        cli_out(cli, " by %s", human_safe(outcome->caller, text, sizeof(text)));
    if (outcome->caller[0] != '\0')
        cli_out(cli, " from %s\n", human_safe(outcome->address, text, sizeof(text)));
    if (outcome->status != 0)
        cli_out(cli, " %s: %s\n", human_safe(outcome->status_name, command, sizeof(command)),
                human_safe(outcome->text, text, sizeof(text)));
}

enum cli_exit command_request(struct cli *cli)
{
    Ckpt__V1__GetRequestRequest request = CKPT__V1__GET_REQUEST_REQUEST__INIT;
    const Ckpt__V1__RequestOutcome *outcome;
    ProtobufCMessage *message;
    struct err err = {0};
    enum cli_exit code;

    request.request_id = cli_argument(cli, 0);
    request.stale = cli_flag(cli, "stale");
    if (id_check("the request id", request.request_id, &err) != 0)
        return cli_fail(cli, CLI_USAGE, NULL, "%s", err.text);
    code = call_read(cli, "look up the request", "BrokerService/GetRequest", &request.base,
                     &ckpt__v1__request_outcome__descriptor, &message);
    if (code != CLI_OK)
        return code;
    outcome = (const Ckpt__V1__RequestOutcome *)message;
    code = outcome->status == 0 ? CLI_OK : CLI_REFUSED;
    if (!output_json_message(cli, "request", message) && !output_name(cli, outcome->status_name))
        print_outcome(cli, outcome);
    call_free(message);
    return code;
}
