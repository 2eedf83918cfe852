/* A period of which nothing comes. See period.h. */
#include "src/cli/period.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/human.h"
#include "src/cli/owner.h"

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
    if (call_policy(cli, false, &policy, &reply) == CLI_OK)
        floor_ms = sensitive ? policy->sensitive_min_interval_ms : policy->min_interval_ms;
    call_free(reply);
    fclose(cli->error);
    free(unsaid);
    cli->error = error;
    return floor_ms;
}

const char *owner_period_text(uint64_t period_ms, uint64_t floor_ms, uint64_t walltime_ms,
                              char text[OWNER_PERIOD_BYTES])
{
    char period[HUMAN_BYTES], limit[HUMAN_BYTES];

    text[0] = '\0';
    human_duration(period_ms, period);
    if (period_ms != 0 && period_ms < floor_ms)
        snprintf(text, OWNER_PERIOD_BYTES,
                 "its period %s is below the policy's minimal interval %s: it is checkpointed at "
                 "most once in %s (ckptctl policy get)",
                 period, human_duration(floor_ms, limit), limit);
    else if (period_ms != 0 && walltime_ms != 0 && period_ms >= walltime_ms)
        snprintf(text, OWNER_PERIOD_BYTES,
                 "its period %s is no shorter than its walltime %s: the job is ended before a "
                 "checkpoint is made by it",
                 period, human_duration(walltime_ms, limit));
    return text;
}

void period_note(struct cli *cli, uint64_t period_ms, uint64_t floor_ms, uint64_t walltime_ms)
{
    char text[OWNER_PERIOD_BYTES];

    if (*owner_period_text(period_ms, floor_ms, walltime_ms, text) != '\0')
        cli_note(cli, "%s", text);
}
