/* A count of the checkpoints that retention keeps for their age alone.
 *
 * Errors   those of call_read(); then nothing is counted.
 */
#ifndef CKPT_CLI_GC_H
#define CKPT_CLI_GC_H

#include "src/cli/cli.h"

struct gc_count {
    uint64_t count;
    uint64_t size_bytes;
};

/* Of what is older than so many milliseconds; a job's own retention is not looked at, so there may
 * be fewer that go. */
enum cli_exit gc_count_older(struct cli *cli, uint64_t age_ms, struct gc_count *ret_count);

#endif
