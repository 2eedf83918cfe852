/* ckptctl scrub: reads complete checkpoints again.
 *
 * Flow     the complete checkpoints that are meant are listed page by page, and asked for as many
 *          at a time. What comes of it are events, and stands with each checkpoint.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/cli/call.h"
#include "src/cli/checkpoints.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"

enum { SCRUB_PAGE = 1000 };

static enum cli_exit scrub_ids(struct cli *cli, uint64_t *ids, size_t count)
{
    Ckpt__V1__VerifyRequest request = CKPT__V1__VERIFY_REQUEST__INIT;
    char what[64];

    if (count == 0)
        return CLI_OK;
    request.checkpoint_ids = ids;
    request.n_checkpoint_ids = count;
    snprintf(what, sizeof(what), "read %zu checkpoints again", count);
    return call_mutate_simple(cli, what, "OperatorService/VerifyCheckpoints", &request.base);
}

static enum cli_exit scrub_page(struct cli *cli, const Ckpt__V1__ListCheckpointsReply *reply,
                                const char *target, size_t *count)
{
    uint64_t ids[SCRUB_PAGE];
    size_t id_count = 0;

    for (size_t i = 0; i < reply->n_checkpoints && id_count < SCRUB_PAGE; i++) {
        const Ckpt__V1__Checkpoint *checkpoint = reply->checkpoints[i];

        if (!checkpoint->damaged && (target == NULL || strcmp(checkpoint->target_id, target) == 0))
            ids[id_count++] = checkpoint->checkpoint_id;
    }
    *count += id_count;
    return scrub_ids(cli, ids, id_count);
}

/* Of nothing to read: a name that is written wrong is no target without checkpoints. */
static enum cli_exit scrub_nothing(struct cli *cli, const char *target)
{
    Ckpt__V1__ListTargetsRequest request = CKPT__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *message;
    bool known = target == NULL;
    enum cli_exit code;

    if (!known) {
        code = call_read(cli, "list targets", "OperatorService/ListTargets", &request.base,
                         &ckpt__v1__list_targets_reply__descriptor, &message);
        if (code != CLI_OK)
            return code;
        const Ckpt__V1__ListTargetsReply *reply = (const Ckpt__V1__ListTargetsReply *)message;

        for (size_t i = 0; i < reply->n_targets; i++)
            known |= reply->targets[i]->spec != NULL &&
                     strcmp(reply->targets[i]->spec->target_id, target) == 0;
        call_free(message);
    }
    if (!known)
        return cli_fail(cli, CLI_NOT_FOUND, "ckptctl targets", "no storage target is named %.128s",
                        target);
    return cli_fail(cli, CLI_NOT_FOUND, "ckptctl checkpoints",
                    "no complete checkpoint that is whole so far is meant by that");
}

enum cli_exit command_scrub(struct cli *cli)
{
    Ckpt__V1__ListCheckpointsRequest request = CKPT__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    const char *allocation = cli_text(cli, "allocation");
    const char *target = cli_text(cli, "target");
    enum cli_exit code = CLI_OK;
    size_t count = 0;

    if (cli->argument_count > 0 && (allocation != NULL || target != NULL))
        return cli_fail(cli, CLI_USAGE, "ckptctl scrub --help",
                        "a checkpoint is given beside %s: give one of them",
                        allocation != NULL ? "--allocation" : "--target");
    if (cli->argument_count > 0)
        code = checkpoint_argument(cli, 0, &request.checkpoint_id);
    if (code != CLI_OK)
        return code;
    if (allocation != NULL)
        request.allocation_id = (char *)(uintptr_t)allocation;
    request.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
    request.page_size = SCRUB_PAGE;
    do {
        ProtobufCMessage *message;
        const Ckpt__V1__ListCheckpointsReply *reply;

        code = call_read(cli, "list checkpoints", "BrokerService/ListCheckpoints", &request.base,
                         &ckpt__v1__list_checkpoints_reply__descriptor, &message);
        if (code != CLI_OK)
            return code;
        reply = (const Ckpt__V1__ListCheckpointsReply *)message;
        code = scrub_page(cli, reply, target, &count);
        request.after_checkpoint_id = reply->next_after_checkpoint_id;
        call_free(message);
    } while (code == CLI_OK && request.after_checkpoint_id != 0);
    if (code != CLI_OK)
        return code;
    if (count == 0)
        return scrub_nothing(cli, target);
    cli_note(cli, "%zu checkpoints are read again; ckptctl events -f tells what is found", count);
    return CLI_OK;
}
