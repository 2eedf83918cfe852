/* ckptctl hint: asks for a checkpoint of a job now, and waits for its end when told to. */
#include <inttypes.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/checkpoints.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { WAIT_POLL_MIN_MS = 100, WAIT_POLL_MAX_MS = 1000, WAIT_DEFAULT_MS = 1800000 };

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_ms(uint64_t ms)
{
    struct timespec rest = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&rest, &rest) != 0) {
    }
}

/* True for a final state; tells what it means for the exit code. */
static bool state_is_final(Ckpt__V1__CheckpointState state, enum cli_exit *ret_code)
{
    switch (state) {
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE:
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COLLECTED:
        *ret_code = CLI_OK;
        return true;
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED:
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_TIMED_OUT:
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_CANCELLED:
    case CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED:
        *ret_code = CLI_FAILED;
        return true;
    default:
        return false;
    }
}

static void note_state(struct cli *cli, const Ckpt__V1__Checkpoint *c, int *last)
{
    char id[HUMAN_BYTES], state[HUMAN_BYTES];

    if (*last != (int)c->state) {
        *last = (int)c->state;
        cli_note(cli, "checkpoint %s %s", human_checkpoint(c->checkpoint_id, id),
                 human_enum(&ckpt__v1__checkpoint_state__descriptor, *last, state));
    }
}

static enum cli_exit print_end(struct cli *cli, const Ckpt__V1__Checkpoint *c, enum cli_exit code)
{
    char id[HUMAN_BYTES], state[HUMAN_BYTES], reason[HUMAN_BYTES], size[HUMAN_BYTES], detail[256];

    human_checkpoint(c->checkpoint_id, id);
    human_enum(&ckpt__v1__checkpoint_state__descriptor, (int)c->state, state);
    if (cli->format == OUTPUT_NAME) {
        cli_out(cli, "%s\n", id);
    } else if (!output_json_message(cli, "checkpoint", &c->base)) {
        cli_out(cli, "checkpoint %s %s, %s in %zu shards\n", id, state,
                human_size(c->size_bytes, size), c->n_shards);
    }
    if (code == CLI_OK)
        return CLI_OK;
    return cli_fail(
        cli, code, "ckptctl checkpoint ID, ckptctl events JOB", "checkpoint %s ended %s: %s%s%s",
        id, state, human_enum_words(&ckpt__v1__reason__descriptor, (int)c->reason, reason),
        c->detail[0] != '\0' ? ": " : "", human_safe(c->detail, detail, sizeof(detail)));
}

static enum cli_exit wait_end(struct cli *cli, uint64_t id)
{
    uint64_t limit_ms = monotonic_ms() + cli_number(cli, "wait-for", WAIT_DEFAULT_MS);
    uint64_t poll_ms = WAIT_POLL_MIN_MS;
    int last = -1;
    char text[HUMAN_BYTES];

    for (;;) {
        ProtobufCMessage *message;
        enum cli_exit code = checkpoint_fetch(cli, id, false, &message);
        enum cli_exit end_code;

        if (code != CLI_OK)
            return code;
        const Ckpt__V1__Checkpoint *c =
            ((const Ckpt__V1__ListCheckpointsReply *)message)->checkpoints[0];

        note_state(cli, c, &last);
        if (state_is_final(c->state, &end_code)) {
            code = print_end(cli, c, end_code);
            call_free(message);
            return code;
        }
        call_free(message);
        if (monotonic_ms() + poll_ms >= limit_ms) {
            return cli_fail(cli, CLI_TIMEOUT, "ckptctl checkpoint ID, or a longer --wait-for",
                            "checkpoint %s has not ended in time; it goes on",
                            human_checkpoint(id, text));
        }
        pause_ms(poll_ms);
        poll_ms = poll_ms * 2 < WAIT_POLL_MAX_MS ? poll_ms * 2 : WAIT_POLL_MAX_MS;
    }
}

enum cli_exit command_hint(struct cli *cli)
{
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    ProtobufCMessage *message;
    char what[180];
    enum cli_exit code;
    uint64_t id;

    request.allocation_id = cli_argument(cli, 0);
    if (cli_option_exists(cli, "purpose")) {
        request.purpose =
            (Ckpt__V1__Purpose)cli_number(cli, "purpose", CKPT__V1__PURPOSE__PURPOSE_MANUAL);
        request.after = (Ckpt__V1__AfterCheckpoint)cli_number(cli, "after", 0);
    }
    snprintf(what, sizeof(what), "request a checkpoint of %.128s", request.allocation_id);
    if (!cli_flag(cli, "wait"))
        return call_mutate_simple(cli, what, "BrokerService/RequestCheckpoint", &request.base);
    code = call_mutate(cli, what, "BrokerService/RequestCheckpoint", &request.base,
                       &ckpt__v1__mutation_reply__descriptor, &message);
    if (code != CLI_OK || message == NULL)
        return code;
    id = ((const Ckpt__V1__MutationReply *)message)->checkpoint_id;
    call_free(message);
    return wait_end(cli, id);
}
