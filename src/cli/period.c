/* A period below the policy's minimum. See period.h. */
#include "src/cli/period.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/human.h"

uint64_t period_floor_ms(struct cli *cli, uint64_t period_ms, bool sensitive)
{
    const Ckpt__V1__Policy *policy;
    ProtobufCMessage *reply = NULL;
    FILE *error = cli->error;
    size_t length = 0;
    char *unsaid = NULL;
    uint64_t floor_ms = 0;

    if (period_ms == 0 || cli->quiet || cli_flag(cli, "dry-run"))
        return 0;
    cli->error = open_memstream(&unsaid, &length); /* the change itself is what may fail */
    CHECK(cli->error != NULL);
    if (call_policy(cli, &policy, &reply) == CLI_OK)
        floor_ms = sensitive ? policy->sensitive_min_interval_ms : policy->min_interval_ms;
    call_free(reply);
    fclose(cli->error);
    free(unsaid);
    cli->error = error;
    return floor_ms;
}

void period_note(struct cli *cli, uint64_t period_ms, uint64_t floor_ms)
{
    char period[HUMAN_BYTES], floor[HUMAN_BYTES];

    if (period_ms == 0 || period_ms >= floor_ms)
        return;
    cli_note(cli,
             "its period %s is below the policy's minimal interval %s: it is checkpointed at most "
             "once in %s (ckptctl policy get)",
             human_duration(period_ms, period), human_duration(floor_ms, floor), floor);
}
