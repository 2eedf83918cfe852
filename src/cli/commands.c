/* The table of commands. */
#include "src/cli/commands.h"

#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/common.pb-c.h"

/* ten years, and a petabyte per second: above what any site has, below what could overflow a sum */
#define DURATION_MAX_MS UINT64_C(315360000000)
#define RATE_MAX        UINT64_C(1000000000000000)

static const struct option_spec stale_options[] = {
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has applied"},
    {0}};

static const struct option_spec jobs_options[] = {
    {.name = "state",
     .kind = OPTION_CHOICE,
     .value = "STATE",
     .help = "only those in this state",
     .choices = &ckpt__v1__allocation_state__descriptor},
    {.name = "tenant", .kind = OPTION_TEXT, .value = "TENANT", .help = "only this tenant's"},
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has applied"},
    {0}};

static const struct option_spec checkpoints_options[] = {
    {.name = "state",
     .kind = OPTION_CHOICE,
     .value = "STATE",
     .help = "only those in this state",
     .choices = &ckpt__v1__checkpoint_state__descriptor},
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has applied"},
    {0}};

static const struct option_spec explain_options[] = {
    {.name = "at",
     .kind = OPTION_TEXT,
     .value = "TIME",
     .help = "the evaluation in force then: 10m (ago), 10:31:07, 2026-11-20T10:31:07"},
    {.name = "checkpoint",
     .kind = OPTION_TEXT,
     .value = "CHECKPOINT",
     .help = "the decision that asked for it, recomputed from the log"},
    {.name = "history",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "list the last N evaluations as well; equal ones are counted together",
     .range = {0, 1000}},
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has applied"},
    {0}};

static const struct option_spec restart_point_options[] = {
    {.name = "before",
     .kind = OPTION_TEXT,
     .value = "CHECKPOINT",
     .help = "the newest complete one before this"},
    {0}};

static const struct option_spec events_options[] = {
    {.name = "follow",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .help = "go on with what happens, across failovers"},
    {.name = "after",
     .kind = OPTION_NUMBER,
     .value = "SEQUENCE",
     .help = "only events after this one",
     .range = {0, UINT64_MAX}},
    {.name = "max",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "end after so many events",
     .range = {1, UINT32_MAX}},
    {0}};

static const struct option_spec node_option[] = {
    {.name = "node",
     .kind = OPTION_LIST,
     .value = "NODE:GPUS[:MEMORY[:borrowed[:HOME]]]",
     .help = "one of the nodes it restarts on; without: its old ones"},
    {0}};

static const struct option_spec update_options[] = {
    {.name = "node",
     .kind = OPTION_LIST,
     .value = "NODE:GPUS[:MEMORY[:borrowed[:HOME]]]",
     .help = "one of its nodes; together they replace the old set"},
    {.name = "walltime",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "new walltime",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "period",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "fixed interval beside the model",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "strategy",
     .kind = OPTION_CHOICE,
     .value = "STRATEGY",
     .help = "AUTO, MANUAL or NONE",
     .choices = &ckpt__v1__strategy__descriptor},
    {.name = "force",
     .kind = OPTION_FLAG,
     .help = "take nodes away at once, without a checkpoint of the old set"},
    {0}};

static const struct option_spec register_options[] = {
    {.name = "file",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .help = "YAML or JSON, fields of AllocationSpec; - is stdin"},
    {.name = "alloc", .kind = OPTION_TEXT, .value = "ID", .help = "the job's id"},
    {.name = "tenant", .kind = OPTION_TEXT, .value = "TENANT", .help = "tenant"},
    {.name = "project", .kind = OPTION_TEXT, .value = "PROJECT", .help = "project"},
    {.name = "vcluster", .kind = OPTION_TEXT, .value = "VCLUSTER", .help = "vCluster"},
    {.name = "owner", .kind = OPTION_TEXT, .value = "OWNER", .help = "owner"},
    {.name = "node",
     .kind = OPTION_LIST,
     .value = "NODE:GPUS[:MEMORY[:borrowed[:HOME]]]",
     .help = "one of its nodes; MEMORY is used GPU memory: n1:8:640GiB"},
    {.name = "class",
     .kind = OPTION_NUMBER,
     .value = "0..10",
     .help = "preemption class",
     .range = {0, 10}},
    {.name = "sensitive", .kind = OPTION_FLAG, .help = "never a victim"},
    {.name = "strategy",
     .kind = OPTION_CHOICE,
     .value = "STRATEGY",
     .help = "AUTO, MANUAL or NONE",
     .choices = &ckpt__v1__strategy__descriptor},
    {.name = "profile",
     .kind = OPTION_TEXT,
     .value = "PROFILE",
     .help = "how the agent asks it (signal)"},
    {.name = "walltime",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "its end; without: unlimited",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "grace",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "SIGTERM to SIGKILL",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "period",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "fixed interval beside the model",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "requeue",
     .kind = OPTION_CHOICE,
     .value = "POLICY",
     .help = "NEVER, ON_NODE_FAILURE or ALWAYS",
     .choices = &ckpt__v1__requeue_policy__descriptor},
    {.name = "vcluster-kind",
     .kind = OPTION_CHOICE,
     .value = "KIND",
     .help = "HPC, ML, SERVICE, SENSITIVE or INTERACTIVE: whose nodes others may win",
     .choices = &ckpt__v1__vcluster_kind__descriptor},
    {.name = "max-requeue",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "requeued at most so often",
     .range = {0, 100}},
    {.name = "target",
     .kind = OPTION_TEXT,
     .value = "TARGET",
     .help = "destination; without: the default one"},
    {.name = "checkpoint-timeout",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "limit of one checkpoint",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "write",
     .kind = OPTION_NUMBER,
     .value = "RATE",
     .help = "what one node can write, e.g. 1.5GB/s",
     .number = NUMBER_RATE,
     .range = {1, RATE_MAX}},
    {0}};

static const struct option_spec end_options[] = {
    {.name = "failed", .kind = OPTION_FLAG, .help = "it failed; without: COMPLETED"},
    {.name = "node-failure",
     .kind = OPTION_FLAG,
     .help = "a node failed: the requeue policy applies"},
    {.name = "reason",
     .kind = OPTION_CHOICE,
     .value = "REASON",
     .help = "of the failure",
     .choices = &ckpt__v1__reason__descriptor},
    {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask"},
    {0}};

static const struct option_spec hint_options[] = {
    {.name = "purpose",
     .kind = OPTION_CHOICE,
     .value = "PURPOSE",
     .help = "MANUAL without",
     .choices = &ckpt__v1__purpose__descriptor},
    {.name = "after",
     .kind = OPTION_CHOICE,
     .value = "ACTION",
     .help = "once complete: CONTINUE, STOP, KILL or MIGRATE",
     .choices = &ckpt__v1__after_checkpoint__descriptor},
    {.name = "wait",
     .kind = OPTION_FLAG,
     .help = "until the checkpoint has ended; 0 only when COMPLETE"},
    {.name = "wait-for",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "at most so long (30m)",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {0}};

static const struct option_spec preempt_options[] = {
    {.name = "class",
     .kind = OPTION_NUMBER,
     .value = "0..10",
     .help = "of the job that needs the nodes",
     .range = {0, 10}},
    {.name = "nodes",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "how many it needs",
     .range = {0, 65536}},
    {.name = "gpus",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "how many GPUs it needs on them",
     .range = {1, 67108864}},
    {.name = "reason",
     .kind = OPTION_CHOICE,
     .value = "REASON",
     .help = "PRIORITY (default), RECLAIM of lent nodes, SENSITIVE claim",
     .choices = &ckpt__v1__preemption_reason__descriptor},
    {.name = "home",
     .kind = OPTION_TEXT,
     .value = "VCLUSTER",
     .help = "only nodes of this vCluster help; reclaim: who wants them back"},
    {.name = "useful-nodes",
     .kind = OPTION_LIST,
     .value = "NODE,...",
     .help = "only these help the waiting job; without: any"},
    {.name = "value",
     .kind = OPTION_NUMBER,
     .value = "GPU-MS",
     .help = "what the waiting job is worth; victims together must cost less",
     .range = {1, INT64_MAX}},
    {.name = "candidates",
     .kind = OPTION_LIST,
     .value = "JOB,...",
     .help = "only these; without: any"},
    {.name = "forced",
     .kind = OPTION_FLAG,
     .help = "terminate without a checkpoint when none can be written"},
    {.name = "for-job",
     .kind = OPTION_TEXT,
     .value = "JOB",
     .help = "who needs them; shown in events"},
    {.name = "wait",
     .kind = OPTION_FLAG,
     .help = "until every victim let go; 0 only when RELEASED"},
    {.name = "wait-for",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "at most so long (30m)",
     .number = NUMBER_DURATION,
     .range = {1, DURATION_MAX_MS}},
    {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask"},
    {0}};

static const struct option_spec preemptions_options[] = {
    {.name = "waiting", .kind = OPTION_FLAG, .help = "only those that wait for victims"},
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers, without asking a majority"},
    {0}};

static const struct option_spec target_put_options[] = {
    {.name = "prefix", .kind = OPTION_TEXT, .value = "FOLDER", .help = "absolute folder (POSIX)"},
    {.name = "write",
     .kind = OPTION_NUMBER,
     .value = "RATE",
     .help = "budget of all writers together, e.g. 10GB/s",
     .number = NUMBER_RATE,
     .range = {1, RATE_MAX}},
    {.name = "staging-share",
     .kind = OPTION_NUMBER,
     .value = "SHARE",
     .help = "part of the budget left to data staging (0.3)",
     .number = NUMBER_SHARE,
     .range = {0, 1000000}},
    {.name = "kind",
     .kind = OPTION_CHOICE,
     .value = "KIND",
     .help = "POSIX without",
     .choices = &ckpt__v1__target_kind__descriptor},
    {.name = "domain", .kind = OPTION_TEXT, .value = "DOMAIN", .help = "nearest first"},
    {.name = "default", .kind = OPTION_FLAG, .help = "of jobs that name no target"},
    {0}};

static const struct option_spec drain_options[] = {
    {.name = "urgent", .kind = OPTION_FLAG, .help = "checkpoint every job on it now"},
    {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask"},
    {0}};

static const struct option_spec queue_options[] = {{.name = "queued",
                                                    .kind = OPTION_NUMBER,
                                                    .value = "DURATION",
                                                    .help = "GPU-time that waits, e.g. 90h",
                                                    .number = NUMBER_DURATION,
                                                    .range = {0, DURATION_MAX_MS}},
                                                   {.name = "running",
                                                    .kind = OPTION_NUMBER,
                                                    .value = "DURATION",
                                                    .help = "GPU-time that runs",
                                                    .number = NUMBER_DURATION,
                                                    .range = {0, DURATION_MAX_MS}},
                                                   {.name = "waiting",
                                                    .kind = OPTION_LIST,
                                                    .value = "JOB:CLASS:GPUS[:WAITED]",
                                                    .help = "a waiting job; at most 64"},
                                                   {0}};

static const struct option_spec backup_options[] = {
    {.name = "stale",
     .kind = OPTION_FLAG,
     .help = "from any member, also without a leader; the file says how old its state may be"},
    {.name = "force", .kind = OPTION_FLAG, .help = "replace FILE when it exists"},
    {0}};

static const struct option_spec tls_init_options[] = {
    {.name = "cluster", .kind = OPTION_TEXT, .value = "ID", .help = "the cluster_id of ckptd"},
    {.name = "dir", .kind = OPTION_TEXT, .value = "DIR", .help = "where the CA lies (.)"},
    {.name = "valid",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "how long the CA is good (3650d)",
     .number = NUMBER_DURATION,
     .range = {1000, DURATION_MAX_MS}},
    {0}};

static const struct option_spec tls_issue_options[] = {
    {.name = "dir", .kind = OPTION_TEXT, .value = "DIR", .help = "where the CA lies (.)"},
    {.name = "out", .kind = OPTION_TEXT, .value = "DIR", .help = "where the files go (--dir)"},
    {.name = "host",
     .kind = OPTION_LIST,
     .value = "NAME,ADDRESS",
     .help = "for clients that check host names"},
    {.name = "valid",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "how long it is good, at most as long as the CA (365d)",
     .number = NUMBER_DURATION,
     .range = {1000, DURATION_MAX_MS}},
    {.name = "replace", .kind = OPTION_FLAG, .help = "renew files that exist"},
    {0}};

#define MEMBER_ADDRESSES                                                                           \
    {.name = "id",                                                                                 \
     .kind = OPTION_NUMBER,                                                                        \
     .value = "N",                                                                                 \
     .help = "its id, as its configuration says; without: the next unused one",                    \
     .range = {1, UINT32_MAX}},                                                                    \
        {.name = "raft",                                                                           \
         .kind = OPTION_TEXT,                                                                      \
         .value = "HOST:PORT",                                                                     \
         .help = "where its Raft port listens"},                                                   \
    {                                                                                              \
        .name = "api", .kind = OPTION_TEXT, .value = "HOST:PORT", .help = "where its API listens"  \
    }
#define MEMBER_WAIT                                                                                \
    {                                                                                              \
        .name = "wait-for", .kind = OPTION_NUMBER, .value = "DURATION",                            \
        .help = "until it has caught up, at most so long (10m)", .number = NUMBER_DURATION,        \
        .range = {                                                                                 \
            1,                                                                                     \
            DURATION_MAX_MS                                                                        \
        }                                                                                          \
    }

static const struct option_spec member_add_options[] = {
    MEMBER_ADDRESSES,
    MEMBER_WAIT,
    {.name = "promote",
     .kind = OPTION_FLAG,
     .help = "wait until it has caught up, then promote it"},
    {0}};

static const struct option_spec member_promote_options[] = {
    MEMBER_WAIT,
    {.name = "no-wait", .kind = OPTION_FLAG, .help = "refused at once when it lags"},
    {0}};

static const struct option_spec yes_options[] = {
    {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask"}, {0}};

static const struct option_spec member_replace_options[] = {
    MEMBER_ADDRESSES, MEMBER_WAIT, {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask"}, {0}};

static const struct option_spec losses_options[] = {
    {.name = "tenant", .kind = OPTION_TEXT, .value = "TENANT", .help = "only this tenant"},
    {.name = "stale", .kind = OPTION_FLAG, .help = "any member answers from what it has applied"},
    {0}};

static const struct option_spec history_options[] = {{.name = "since",
                                                      .kind = OPTION_NUMBER,
                                                      .value = "DURATION",
                                                      .help = "as far as its events are kept",
                                                      .number = NUMBER_DURATION,
                                                      .range = {1000, DURATION_MAX_MS}},
                                                     {0}};

static const struct option_spec whatif_options[] = {
    {.name = "trace",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .help = "failures: lines of node,start_day,... below a header; or a file of ckptctl history"},
    {.name = "scenario",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "exponential, weibull, alarms, preemption, walltime, contention, outages, everything"},
    {.name = "since",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "what this cluster went through in that time, as far as its events are kept",
     .number = NUMBER_DURATION,
     .range = {1000, DURATION_MAX_MS}},
    {.name = "set",
     .kind = OPTION_LIST,
     .value = "NAME=NUMBER",
     .help = "a number of the scenario: jobs=100, bandwidth_bytes_per_s=200e9, recall=0.4"},
    {.name = "numbers",
     .kind = OPTION_FLAG,
     .help = "list the numbers that --set takes, with their limits"},
    {.name = "seed",
     .kind = OPTION_NUMBER,
     .value = "N",
     .help = "what happens is a function of it (1)",
     .range = {0, UINT64_MAX}},
    {.name = "svg", .kind = OPTION_TEXT, .value = "FILE", .help = "also plot waste by rule"},
    {0}};

const struct command commands[] = {
    {"status", "", 0, 0, "who leads, who lags, how many may fail, what waits (any member)",
     command_status, NULL, false},
    {"jobs", "", 0, 0, "list jobs", command_jobs, jobs_options, false},
    {"job", "JOB", 1, 1, "one job with its nodes and checkpoints", command_job, stale_options,
     false},
    {"checkpoints", "[JOB]", 0, 1, "list checkpoints", command_checkpoints, checkpoints_options,
     false},
    {"checkpoint", "CHECKPOINT", 1, 1, "one checkpoint with its shards", command_checkpoint,
     stale_options, false},
    {"restart-point", "JOB", 1, 1, "the checkpoint a job would restart from", command_restart_point,
     restart_point_options, false},
    {"explain", "[JOB]", 0, 1,
     "why a job was (not) checkpointed: inputs, terms, guards, what would flip it", command_explain,
     explain_options, false},
    {"losses", "[JOB]", 0, 1, "where GPU time went: of the cluster and its tenants, or of one job",
     command_losses, losses_options, false},
    {"calibration", "", 0, 0, "what the model predicted beside what came", command_calibration,
     stale_options, false},
    {"whatif", "", 0, 0, "what this broker, Young/Daly, fixed periods and an oracle would waste",
     command_whatif, whatif_options, false},
    {"history", "", 0, 0, "what this cluster went through, as a file for whatif --trace",
     command_history, history_options, false},
    {"events", "[JOB]", 0, 1, "what happened; -f: what happens", command_events, events_options,
     false},
    {"targets", "", 0, 0, "storage targets and their state", command_targets, NULL, false},
    {"target put", "TARGET", 1, 1, "add or change a storage target", command_target_put,
     target_put_options, true},
    {"nodes", "", 0, 0, "compute nodes and their agents", command_nodes, NULL, false},
    {"node drain", "NODE", 1, 1, "take a node out of use", command_node_drain, drain_options, true},
    {"register", "", 0, 0, "register a job", command_register, register_options, true},
    {"update", "JOB", 1, 1, "change a job's nodes, walltime, period or strategy", command_update,
     update_options, true},
    {"end", "JOB", 1, 1, "a job has ended", command_end, end_options, true},
    {"restart", "JOB", 1, 1, "a stopped job runs again", command_restart, node_option, true},
    {"migrate", "JOB", 1, 1, "checkpoint a job and requeue it elsewhere", command_migrate, NULL,
     true},
    {"hint", "JOB", 1, 1, "ask for a checkpoint now", command_hint, hint_options, true},
    {"cancel", "CHECKPOINT", 1, 1, "cancel an active checkpoint", command_cancel, NULL, true},
    {"preempt", "", 0, 0, "free nodes for a higher class", command_preempt, preempt_options, true},
    {"preemptions", "[ID]", 0, 1,
     "what preemptions came to: who let go, until when others have time", command_preemptions,
     preemptions_options, false},
    {"placement", "[VCLUSTER]", 0, 1, "placement hints for schedulers", command_placement, NULL,
     false},
    {"queue report", "VCLUSTER", 1, 1, "report what waits in a vCluster", command_queue_report,
     queue_options, true},
    {"policy get", "", 0, 0, "the cluster's policy", command_policy_get, NULL, false},
    {"policy set", "KEY=VALUE...", 1, CLI_ARGUMENTS_MAX,
     "change the policy: min_interval=5m max_victims=3", command_policy_set, NULL, true},
    {"transfer", "[MEMBER]", 0, 1, "hand leadership over", command_transfer, NULL, true},
    {"member list", "", 0, 0, "members, who votes, how far behind (any member)",
     command_member_list, NULL, false},
    {"member add", "NAME", 1, 1, "add a member that waits with --join, as a learner",
     command_member_add, member_add_options, true},
    {"member promote", "MEMBER", 1, 1, "give a learner its vote once it has caught up",
     command_member_promote, member_promote_options, true},
    {"member remove", "MEMBER", 1, 1, "remove a member for ever", command_member_remove,
     yes_options, true},
    {"member replace", "OLD NEW", 2, 2, "add NEW, promote it, remove OLD", command_member_replace,
     member_replace_options, true},
    {"member transfer", "[MEMBER]", 0, 1, "hand leadership over", command_transfer, NULL, true},
    {"backup save", "FILE", 1, 1, "the whole replicated state into one file", command_backup_save,
     backup_options, false},
    {"backup inspect", "FILE", 1, 1, "check a backup's bytes and show what it is (offline)",
     command_backup_inspect, NULL, false},
    {"backup verify", "FILE", 1, 1, "restore a backup in memory and check the state (offline)",
     command_backup_verify, NULL, false},
    {"debug check", "", 0, 0, "invariants and equal state hashes on all members",
     command_debug_check, NULL, false},
    {"tls init", "", 0, 0, "make a CA for this site (local)", command_tls_init, tls_init_options,
     false},
    {"tls issue", "KIND NAME", 2, 2,
     "issue a certificate: replica ID, agent NODE, scheduler NAME, operator NAME (local)",
     command_tls_issue, tls_issue_options, false},
    {"tls show", "FILE", 1, 1, "what a certificate holds and when it ends (local)",
     command_tls_show, NULL, false},
    {"completion", "bash", 1, 1, "print a completion script: source <(ckptctl completion bash)",
     command_completion, NULL, false},
    {"help", "[COMMAND]", 0, 2, "this list, or one command with its options", command_help, NULL,
     false},
    {"version", "", 0, 0, "version of this program", command_version, NULL, false},
    {0}};

bool command_is_local(const struct command *command)
{
    enum cli_exit (*const local[])(struct cli * cli) = {
        command_backup_inspect, command_backup_verify, command_tls_init, command_tls_issue,
        command_tls_show,       command_completion,    command_help,     command_version};

    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        if (command->run == local[i])
            return true;
    }
    return false;
}

bool command_is_of(const struct command *command, const char *group)
{
    size_t length = strlen(group);

    return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

bool command_is_group(const char *word)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        if (command_is_of(command, word))
            return true;
    return false;
}

const struct command *command_find(const char *const words[2], size_t *ret_words)
{
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, words[0]) == 0) {
            *ret_words = 1;
            return command;
        }
        if (words[1] != NULL && command_is_of(command, words[0]) &&
            strcmp(command->name + strlen(words[0]) + 1, words[1]) == 0) {
            *ret_words = 2;
            return command;
        }
    }
    return NULL;
}
