/* The table of the owner's verbs. See owner.h. */
#include <string.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/option_tables.h"
#include "src/cli/owner.h"

#define WAIT_MAX_MS UINT64_C(315360000000)

const struct option_spec owner_options[] = {
    {.name = "socket",
     .kind = OPTION_TEXT,
     .value = "PATH",
     .help = "of the node's agent (/run/ckpt/agent.sock)"},
    OPTION_ROWS_OF_OUTPUT,
    {.name = "timeout",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "of each request (15s)",
     .number = NUMBER_DURATION,
     .range = {10, 3600000}},
    {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .help = "this help"},
    {0}};

#define STALE                                                                                      \
    {                                                                                              \
        .name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has"        \
    }

static const struct option_spec stale_options[] = {STALE, {0}};
static const struct option_spec hint_options[] = {
    {.name = "wait", .kind = OPTION_FLAG, .help = "until it has ended; 0 only when COMPLETE"},
    {.name = "wait-for",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "at most so long (30m)",
     .number = NUMBER_DURATION,
     .range = {1, WAIT_MAX_MS}},
    {0}};
static const struct option_spec restart_options[] = {
    {.name = "from-scratch", .kind = OPTION_FLAG, .help = "its checkpoints are passed over"}, {0}};
static const struct option_spec checkpoints_options[] = {
    {.name = "state",
     .kind = OPTION_CHOICE,
     .value = "STATE",
     .help = "only those in this state",
     .choices = &ckpt__v1__checkpoint_state__descriptor},
    STALE,
    {0}};
static const struct option_spec explain_options[] = {
    {.name = "at",
     .kind = OPTION_TEXT,
     .value = "TIME",
     .help = "what was in force then: 10m (ago), 10:31:07, 2026-11-20T10:31:07"},
    {.name = "checkpoint",
     .kind = OPTION_TEXT,
     .value = "CHECKPOINT",
     .help = "the decision that asked for it"},
    STALE,
    {0}};

static const struct option_spec jobs_options[] = {
    {.name = "tenant", .kind = OPTION_TEXT, .value = "TENANT", .help = "that you are an admin of"},
    {.name = "owner", .kind = OPTION_TEXT, .value = "USER", .help = "only this user's"},
    {.name = "state",
     .kind = OPTION_CHOICE,
     .value = "STATE",
     .help = "only those in this state",
     .choices = &ckpt__v1__allocation_state__descriptor},
    {.name = "node",
     .kind = OPTION_TEXT,
     .value = "NODE",
     .help = "only those on this node, or that ran there last"},
    {.name = "all", .kind = OPTION_FLAG, .help = "also those that have ended"},
    STALE,
    {0}};

/* Each asks about a job of the caller's own, or a checkpoint of one. */
static const struct command verbs[] = {
    {"jobs", "", 0, 0,
     "Lists the jobs of a tenant whose admin you are; the verbs that only look take their ids.",
     command_jobs, jobs_options, COMMAND_READS},
    {"hint", "JOB", 1, 1, "Asks for a checkpoint of your job now.", command_hint, hint_options,
     COMMAND_CHANGES},
    {"restart", "JOB", 1, 1,
     "Lets your stopped job run again, on its old nodes: start the same ckpt-run line there.",
     command_restart, restart_options, COMMAND_CHANGES},
    {"migrate", "JOB", 1, 1,
     "Saves and stops your job, so that it runs on elsewhere; it goes on when that fails.",
     command_migrate, NULL, COMMAND_CHANGES},
    {"explain", "[JOB]", 0, 1, "Tells why your job was, or was not, checkpointed.", command_explain,
     explain_options, COMMAND_READS},
    {"losses", "JOB", 1, 1, "Tells where the GPU time of your job went.", command_losses,
     stale_options, COMMAND_READS},
    {"checkpoints", "JOB", 1, 1, "Lists the checkpoints of your job.", command_checkpoints,
     checkpoints_options, COMMAND_READS},
    {"checkpoint", "CHECKPOINT", 1, 1, "Shows one checkpoint of your job, with its shards.",
     command_checkpoint, stale_options, COMMAND_READS},
    {"pin", "CHECKPOINT", 1, 1, "Keeps a complete checkpoint of your job, whatever its age.",
     command_checkpoint_pin, NULL, COMMAND_CHANGES},
    {"unpin", "CHECKPOINT", 1, 1, "Gives a pinned checkpoint of your job back to retention.",
     command_checkpoint_unpin, NULL, COMMAND_CHANGES},
};

const struct command *owner_verb(const char *verb)
{
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, verb) == 0)
            return &verbs[i];
    return NULL;
}

const char *owner_verb_name(size_t i)
{
    return i < ARRAY_COUNT(verbs) ? verbs[i].name : NULL;
}
