/* What commands on checkpoints share. */
#ifndef CKPT_CLI_CHECKPOINTS_H
#define CKPT_CLI_CHECKPOINTS_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"

/* The argument at the position as a checkpoint id, or CLI_USAGE. */
enum cli_exit checkpoint_argument(struct cli *cli, size_t position, uint64_t *ret_id);
/* A ListCheckpointsReply that holds exactly the one asked for; the caller frees it. */
enum cli_exit checkpoint_fetch(struct cli *cli, uint64_t id, bool stale,
                               ProtobufCMessage **ret_reply);
void shards_print(struct cli *cli, Ckpt__V1__ShardInfo *const *shards, size_t count);

#endif
