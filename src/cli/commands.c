/* The table of commands. */
#include "src/cli/commands.h"

#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/common.pb-c.h"
#include "fsm/status.h" /* and the profiles that its texts name */
#include "src/cli/spec.h"

/* ten years, and a petabyte per second: above what any site has, below what could overflow a sum */
#define DURATION_MAX_MS UINT64_C(315360000000)
#define RATE_MAX        UINT64_C(1000000000000000)

/* Rows: the option's name, what its help calls the value, the help, what it takes. */
#define FLAG(of_name, of_help)                                                                     \
    {                                                                                              \
        .name = of_name, .kind = OPTION_FLAG, .help = of_help                                      \
    }
#define TEXT(of_name, of_value, of_help)                                                           \
    {                                                                                              \
        .name = of_name, .kind = OPTION_TEXT, .value = of_value, .help = of_help                   \
    }
#define LIST(of_name, of_value, of_help)                                                           \
    {                                                                                              \
        .name = of_name, .kind = OPTION_LIST, .value = of_value, .help = of_help                   \
    }
#define CHOICE(of_name, of_value, of_help, of_enum)                                                \
    {                                                                                              \
        .name = of_name, .kind = OPTION_CHOICE, .value = of_value, .help = of_help,                \
        .choices = &ckpt__v1__##of_enum##__descriptor                                              \
    }
#define NUMBER(of_name, of_value, of_help, of_number, min, max)                                    \
    {                                                                                              \
        .name = of_name, .kind = OPTION_NUMBER, .value = of_value, .help = of_help,                \
        .number = of_number, .range = {                                                            \
            min,                                                                                   \
            max                                                                                    \
        }                                                                                          \
    }
#define COUNT(of_name, of_value, of_help, min, max)                                                \
    NUMBER(of_name, of_value, of_help, NUMBER_PLAIN, min, max)
#define DURATION(of_name, of_help, min)                                                            \
    NUMBER(of_name, "DURATION", of_help, NUMBER_DURATION, min, DURATION_MAX_MS)

/* Of several commands. */
#define STALE         FLAG("stale", "any member answers from what it has applied")
#define NODE(of_help) LIST("node", "NODE:GPUS[:MEMORY[:borrowed[:HOME]]]", of_help)
#define NEW_NODE      FLAG("new-node", "also nodes from which no agent has ever spoken")
#define PERIOD        DURATION("period", "fixed interval beside the model", 1)
#define STRATEGY      CHOICE("strategy", "STRATEGY", "AUTO, MANUAL or NONE", strategy)
#define WAIT(of_help) FLAG("wait", of_help), DURATION("wait-for", "at most so long (30m)", 1)
#define MEMBER_ADDRESSES                                                                           \
    COUNT("id", "N", "its id, as its configuration says; without: the next unused one", 1,         \
          UINT32_MAX),                                                                             \
        TEXT("raft", "HOST:PORT", "where its Raft port listens"),                                  \
        TEXT("api", "HOST:PORT", "where its API listens")
#define MEMBER_WAIT DURATION("wait-for", "until it has caught up, at most so long (10m)", 1)

static const struct option_spec stale_options[] = {STALE, {0}};

static const struct option_spec jobs_options[] = {
    CHOICE("state", "STATE", "only those in this state", allocation_state),
    TEXT("tenant", "TENANT", "only this tenant's"),
    TEXT("owner", "USER", "only this user's"),
    TEXT("node", "NODE", "only those on this node, or that ran there last"),
    FLAG("all", "also those that have ended"),
    STALE,
    {0}};

static const struct option_spec top_options[] = {
    COUNT("count", "N", "so many jobs (20)", 1, 200), STALE, {0}};

static const struct option_spec checkpoints_options[] = {
    CHOICE("state", "STATE", "only those in this state", checkpoint_state), STALE, {0}};

static const struct option_spec scrub_options[] = {
    TEXT("allocation", "JOB", "those of this job"),
    TEXT("target", "TARGET", "those that lie on this target"),
    {0}};

static const struct option_spec explain_options[] = {
    TEXT("at", "TIME",
         "what was in force then, of the decisions: 10m (ago), 10:31:07, 2026-11-20T10:31:07"),
    TEXT("checkpoint", "CHECKPOINT", "the decision that asked for it, recomputed from the log"),
    STALE,
    {0}};

static const struct option_spec events_options[] = {
    {.name = "follow",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .help = "go on with what happens, across failovers"},
    STALE,
    FLAG("current", "first what holds now, then what happens"),
    COUNT("after", "SEQUENCE", "only events after this one", 0, UINT64_MAX),
    COUNT("max", "N", "end after so many events", 1, UINT32_MAX),
    {0}};

static const struct option_spec restart_options[] = {
    NODE("one of the nodes it restarts on; without: its old ones"),
    NEW_NODE,
    FLAG("from-scratch", "its checkpoints are passed over: it begins anew"),
    {0}};

static const struct option_spec update_options[] = {
    NODE("one of its nodes; together they replace the old set"),
    NEW_NODE,
    DURATION("walltime", "new walltime", 1),
    FLAG("no-walltime", "unlimited from now on"),
    PERIOD,
    FLAG("no-period", "no fixed interval any more"),
    STRATEGY,
    TEXT("target", "TARGET", "where its checkpoints go from the next one on"),
    FLAG("force", "take nodes away at once, without a checkpoint of the old set"),
    {0}};

/* The other fields of AllocationSpec are added to these (spec.h). */
static struct option_spec register_options[CLI_OPTIONS_MAX + 1] = {
    TEXT("file", "FILE", "YAML or JSON, fields of AllocationSpec; - is stdin"),
    NODE("one of its nodes; MEMORY is used GPU memory: n1:8:640GiB"), NEW_NODE,
    TEXT("profile", "PROFILE",
         "how the agent asks it: " FSM_PROFILES_TEXT "default: what ckpt-run says"),
    LIST("attr", "NAME=VALUE",
         "HTCondor's words for a job that ends when it has saved, as checkpoint_exit_code=85, "
         "WantCheckpointSignal=TRUE, transfer_checkpoint_files=a,b; its profile is file then")};

static const struct option_spec end_options[] = {
    FLAG("failed", "it failed; without: COMPLETED"),
    FLAG("node-failure", "a node failed: the requeue policy applies"),
    CHOICE("reason", "REASON", "of the failure", reason),
    {0}};

static const struct option_spec hint_options[] = {
    CHOICE("purpose", "PURPOSE", "MANUAL without", purpose),
    CHOICE("after", "ACTION", "once complete: CONTINUE, STOP, KILL or MIGRATE", after_checkpoint),
    WAIT("until the checkpoint has ended; 0 only when COMPLETE"),
    {0}};

static const struct option_spec preempt_options[] = {
    COUNT("class", "0..10", "of the job that needs the nodes", 0, 10),
    COUNT("nodes", "N", "how many it needs", 0, 65536),
    COUNT("gpus", "N", "how many GPUs it needs on them", 1, 67108864),
    CHOICE("reason", "REASON", "PRIORITY (default), RECLAIM of lent nodes, SENSITIVE claim",
           preemption_reason),
    TEXT("home", "VCLUSTER", "only nodes of this vCluster help; reclaim: who wants them back"),
    LIST("useful-nodes", "NODE,...", "only these help the waiting job; without: any"),
    COUNT("value", "GPU-MS", "what the waiting job is worth; victims together must cost less", 1,
          INT64_MAX),
    LIST("candidates", "JOB,...", "only these; without: any"),
    FLAG("forced", "terminate without a checkpoint when none can be written"),
    TEXT("for-job", "JOB", "who needs them; shown in events"),
    WAIT("until every victim let go; 0 only when RELEASED"),
    {0}};

static const struct option_spec preemptions_options[] = {
    FLAG("waiting", "only those that wait for victims"),
    FLAG("stale", "any member answers, without asking a majority"),
    {0}};

static const struct option_spec target_put_options[] = {
    TEXT("prefix", "FOLDER",
         "an absolute folder, or s3://BUCKET/FOLDER, or s3:// where each tenant has its bucket; a "
         "new target needs it and --write"),
    NUMBER("write", "RATE", "budget of all writers together, e.g. 10GB/s", NUMBER_RATE, 1,
           RATE_MAX),
    NUMBER("staging-share", "SHARE", "part of the budget left to data staging (0.3 of a new one)",
           NUMBER_SHARE, 0, 1000000),
    CHOICE("kind", "KIND", "without: what the form of the prefix says", target_kind),
    TEXT("domain", "DOMAIN", "nodes of this domain write here; -: none"),
    TEXT("tier", "TIER", "class of storage, for people: nvme, disk; -: not told"),
    COUNT("price", "MICRO-USD", "of 10^9 bytes for 30 days, in 10^-6 USD", 0,
          UINT64_C(1000000000000)),
    NUMBER("read", "RATE", "budget of all restores together; 0: no limit", NUMBER_RATE, 0,
           RATE_MAX),
    COUNT("max-restores", "N", "parts of jobs that read at a time, others wait; 0: no limit", 0,
          1048576),
    COUNT("max-writes", "N", "parts of checkpoints that are written at a time; 0: no limit", 0,
          1048576),
    TEXT("failover", "TARGET", "where checkpoints go when an outage lasts; -: none, they wait"),
    CHOICE("read-back", "WORD", "of what is written: sampled (of a new one), never, always",
           read_back),
    CHOICE("staging", "WORD", "where applications write: local (of a new one), direct, memory",
           staging),
    CHOICE("compression", "WORD", "of files that shrink: none (of a new one), lz4", compression),
    CHOICE("pool", "WORD", "whose checkpoints it takes: open (of a new one), sensitive: all", pool),
    CHOICE("encrypted", "YES", "what lies there is encrypted at rest: no (of a new one), yes",
           assured),
    CHOICE("hot-only", "YES", "nothing moves to another tier: no (of a new one), yes", assured),
    TEXT("jurisdiction", "WORD", "under which its disks stand, such as CH; -: not told"),
    COUNT("generations", "N", "take unchanged files over so often (8 of a new one); 0: never", 0,
          255),
    FLAG("default", "of jobs that name no target"),
    {0}};

static const struct option_spec tenant_put_options[] = {
    NUMBER("max-bytes", "SIZE", "of all its checkpoints together, like 10TB; 0: no limit",
           NUMBER_SIZE, 0, INT64_MAX / 2),
    COUNT("keep", "N", "complete ones of each job, whatever their age, 2 to 32; 0: the policy's", 0,
          32),
    DURATION("retention", "how long older ones are kept; 0: as the policy has it", 0),
    {0}};

static const struct option_spec target_drain_options[] = {FLAG("undo", "back into use instead"),
                                                          {0}};

static const struct option_spec drain_options[] = {
    FLAG("urgent", "ask the jobs on it for a checkpoint now; they go on running"),
    FLAG("move", "the jobs leave it, each with a checkpoint, of now where it can be"),
    FLAG("at-next-checkpoint", "the jobs leave it, each with its next checkpoint"),
    DURATION("deadline", "what is there after so long is ended (10m)", 1),
    {0}};

static const struct option_spec node_down_options[] = {
    FLAG("is-off", "its machine is off, or cut from network and storage: nothing runs there"),
    CHOICE("by", "WITNESS", "who says so: OPERATOR (default), SCHEDULER or BMC", node_witness),
    TEXT("evidence", "TEXT", "what was seen, in a few words; at most 200 bytes"),
    {0}};

static const struct option_spec queue_options[] = {
    DURATION("queued", "GPU-time that waits, e.g. 90h", 0),
    DURATION("running", "GPU-time that runs", 0),
    LIST("waiting", "JOB:CLASS:GPUS[:WAITED[:URGENCY[:sensitive]]]",
         "a waiting job, urgency 2 is twice the running jobs'; at most 64"),
    {0}};

static const struct option_spec backup_options[] = {
    FLAG("stale", "from any member, also without a leader; the file says how old its state may be"),
    FLAG("force", "replace FILE when it exists"),
    {0}};

static const struct option_spec tls_init_options[] = {
    TEXT("cluster", "ID", "the cluster_id of ckptd"),
    TEXT("dir", "DIR", "where the CA lies (.)"),
    DURATION("valid", "how long the CA is good (3650d)", 1000),
    {0}};

static const struct option_spec tls_issue_options[] = {
    TEXT("dir", "DIR", "where the CA lies (.)"),
    TEXT("out", "DIR", "where the files go (--dir)"),
    LIST("host", "NAME,ADDRESS", "for clients that check host names"),
    TEXT("tenant", "TENANT", "of a scheduler: for the jobs of this tenant alone"),
    DURATION("valid", "how long it is good, at most as long as the CA (365d)", 1000),
    FLAG("replace", "renew files that exist"),
    {0}};

static const struct option_spec try_options[] = {
    TEXT("profile", "PROFILE", "how it is asked: a way of asking, a profile, a file, or auto"),
    TEXT("after", "DURATION", "it runs for so long before it is asked (10s)"),
    TEXT("within", "DURATION",
         "how long a checkpoint, and with --compare the rest, may take (10m)"),
    TEXT("compare", "CMD", "runs it to its end, and asks this whether the result is right"),
    {0}};

static const struct option_spec dev_options[] = {
    TEXT("dir", "DIR", "its folder, made now and removed at the end; without: one below /tmp"),
    FLAG("keep", "a cluster that cannot be started leaves its folder, for the logs in it"),
    {0}};

static const struct option_spec member_add_options[] = {
    MEMBER_ADDRESSES,
    MEMBER_WAIT,
    FLAG("promote", "wait until it has caught up, then promote it"),
    {0}};

static const struct option_spec member_promote_options[] = {
    MEMBER_WAIT, FLAG("no-wait", "refused at once when it lags"), {0}};

static const struct option_spec gc_run_options[] = {
    FLAG("orphans", "what lies at targets without a record, as gc orphans lists it"), {0}};

static const struct option_spec gc_orphans_options[] = {
    FLAG("scan", "look through all targets anew, from now on"), {0}};

static const struct option_spec member_replace_options[] = {MEMBER_ADDRESSES, MEMBER_WAIT, {0}};

static const struct option_spec pause_options[] = {
    NUMBER("for", "DURATION", "it ends by itself after so long (2h); else by cluster resume",
           NUMBER_DURATION, 1000, UINT64_C(31536000000)),
    {0}};

static const struct option_spec finalize_options[] = {
    COUNT("level", "N", "this level; without: the newest that a member knows", 2, 255), {0}};

static const struct option_spec restart_member_options[] = {
    FLAG("all", "all members, one after the other, the leader last"),
    DURATION("wait-for", "until each has come back and caught up, at most so long (2m)", 1000),
    FLAG("accept-outage", "also when nothing can be decided meanwhile"),
    {0}};

/* Of a plan and of its run. */
#define DRILL_OPTIONS                                                                              \
    TEXT("target", "TARGET", "storage-outage: whose probes fail; without: the default target's"),  \
        TEXT("job", "JOB", "a job that is checkpointed meanwhile; restore: whose checkpoint"),     \
        DURATION("duration", "from the fault on; one that lasts is on for half of it", 2000)

static const struct option_spec drill_plan_options[] = {DRILL_OPTIONS, {0}};

static const struct option_spec drill_run_options[] = {
    DRILL_OPTIONS, FLAG("no-wait", "the members go on by themselves; drill report tells"), {0}};

static const struct option_spec drill_report_options[] = {
    TEXT("html", "FILE", "as a page with the history of drills, for people who were not there"),
    STALE,
    {0}};

static const struct option_spec canary_options[] = {
    FLAG("no-wait", "the member watches by itself; upgrade status tells its verdict"),
    FLAG("end", "end the watch under way: the build stays"),
    {0}};

static const struct option_spec audit_list_options[] = {
    TEXT("since", "TIME", "from then on: 10m (so long ago), 10:31, 2026-11-20T10:31:07"),
    TEXT("job", "JOB", "about this job, and checkpoints of it where it is sensitive"),
    TEXT("caller", "TEXT", "whose name holds this"),
    TEXT("method", "TEXT", "whose name holds this: SetPolicy"),
    STALE,
    {0}};

static const struct option_spec audit_verify_options[] = {
    TEXT("head", "HASH", "one of the records of the files must have it"),
    TEXT("public-key", "FILE",
         "public keys in PEM: each record must be proved by a head signed by one"),
    TEXT("since", "TIME",
         "with --public-key: the newest head was signed then or later (10m: so long ago)"),
    {0}};

static const struct option_spec tls_revoke_options[] = {
    TEXT("note", "TEXT", "why, for people: at most 80 bytes"), {0}};

static const struct option_spec losses_options[] = {
    TEXT("tenant", "TENANT", "only this tenant"), STALE, {0}};

static const struct option_spec history_options[] = {
    DURATION("since", "as far as its events are kept", 1000), {0}};

static const struct option_spec whatif_options[] = {
    TEXT("trace", "FILE",
         "failures: lines of node,start_day,... below a header; or a file of ckptctl history"),
    TEXT("scenario", "NAME", "exponential, weibull, alarms, ..., everything; ? names all"),
    DURATION("since", "what this cluster went through in that time, as far as its events are kept",
             1000),
    LIST("set", "NAME=NUMBER",
         "a number of the scenario: jobs=100, bandwidth_bytes_per_s=200e9, recall=0.4"),
    FLAG("numbers", "list the numbers that --set takes, with their limits"),
    COUNT("seed", "N", "what happens is a function of it (1)", 0, UINT64_MAX),
    TEXT("svg", "FILE", "also plot waste by rule"),
    {0}};

const struct command commands[] = {
    {"status", "", 0, 0, "who leads, who lags, how many may fail, what waits (any member)",
     command_status, NULL, COMMAND_READS},
    {"jobs", "", 0, 0, "list jobs that have not ended; --all: all", command_jobs, jobs_options,
     COMMAND_READS},
    {"top", "", 0, 0, "the running jobs that would lose most if they died now: --watch",
     command_top, top_options, COMMAND_READS},
    {"job", "JOB", 1, 1, "one job with its nodes and checkpoints", command_job, stale_options,
     COMMAND_READS},
    {"checkpoints", "[JOB]", 0, 1, "list checkpoints", command_checkpoints, checkpoints_options,
     COMMAND_READS},
    {"checkpoint pin", "CHECKPOINT", 1, 1, "keep a complete checkpoint, whatever its age",
     command_checkpoint_pin, NULL, COMMAND_CHANGES},
    {"checkpoint unpin", "CHECKPOINT", 1, 1, "give a pinned checkpoint back to retention",
     command_checkpoint_unpin, NULL, COMMAND_CHANGES},
    {"checkpoint reject", "CHECKPOINT", 1, 1,
     "restarts pass over a checkpoint that its application cannot read", command_checkpoint_reject,
     NULL, COMMAND_CHANGES},
    {"checkpoint", "CHECKPOINT", 1, 1, "one checkpoint with its shards", command_checkpoint,
     stale_options, COMMAND_READS},
    {"gc plan", "[JOB]", 0, 1, "what could be deleted now: checkpoints kept for their age alone",
     command_gc_plan, NULL, COMMAND_READS},
    {"scrub", "[CHECKPOINT]", 0, 1,
     "read complete checkpoints again and find what storage damaged; without arguments all",
     command_scrub, scrub_options, COMMAND_CHANGES},
    {"gc run", "[JOB]", 0, 1, "delete what gc plan lists, or with --orphans what gc orphans does",
     command_gc_run, gc_run_options, COMMAND_CHANGES},
    {"gc orphans", "", 0, 0, "what lies at targets without a record of it", command_gc_orphans,
     gc_orphans_options, COMMAND_READS},
    {"undeleted", "[JOB]", 0, 1, "expired checkpoints that could not be deleted, and why",
     command_undeleted, stale_options, COMMAND_READS},
    {"restart-point", "JOB", 1, 1, "the checkpoint a job would restart from", command_restart_point,
     NULL, COMMAND_READS},
    {"explain", "[JOB]", 0, 1,
     "why a job was (not) checkpointed: inputs, terms, guards, what would flip it", command_explain,
     explain_options, COMMAND_READS},
    {"losses", "[JOB]", 0, 1, "where GPU time went: of the cluster and its tenants, or of one job",
     command_losses, losses_options, COMMAND_READS},
    {"audit list", "[FILE...]", 0, CLI_ARGUMENTS_MAX,
     "who changed what from where, with the old and the new value: of the state, or of files",
     command_audit_list, audit_list_options, COMMAND_READS},
    {"audit verify", "[FILE...]", 0, CLI_ARGUMENTS_MAX,
     "proves that no record was changed or is missing: of the cluster, or of files of its members",
     command_audit_verify, audit_verify_options, COMMAND_READS},
    {"audit export", "DIR", 1, 1, "the records that the state keeps as a file, with its hash",
     command_audit_export, NULL, COMMAND_WRITES_FILE},
    {"calibration", "", 0, 0, "what the model predicted beside what came", command_calibration,
     stale_options, COMMAND_READS},
    {"whatif", "", 0, 0, "what this broker, Young/Daly, fixed periods and an oracle would waste",
     command_whatif, whatif_options, COMMAND_READS},
    {"history", "", 0, 0, "what this cluster went through, as a file for whatif --trace",
     command_history, history_options, COMMAND_READS},
    {"events", "[JOB]", 0, 1, "what happened; -f: what happens", command_events, events_options,
     COMMAND_READS},
    {"targets", "", 0, 0, "storage targets and their state", command_targets, stale_options,
     COMMAND_READS},
    {"target put", "TARGET", 1, 1, "add a storage target, or change what is given",
     command_target_put, target_put_options, COMMAND_CHANGES},
    {"target drain", "TARGET", 1, 1, "send new checkpoints elsewhere, before it is removed",
     command_target_drain, target_drain_options, COMMAND_CHANGES},
    {"target remove", "TARGET", 1, 1, "forget a storage target that nothing needs",
     command_target_remove, NULL, COMMAND_CHANGES},
    {"tenants", "", 0, 0, "tenants, the bytes of their checkpoints and their limits",
     command_tenants, stale_options, COMMAND_READS},
    {"tenant put", "TENANT", 1, 1, "limit the checkpoints of a tenant", command_tenant_put,
     tenant_put_options, COMMAND_CHANGES},
    {"nodes", "", 0, 0, "compute nodes and their agents", command_nodes, stale_options,
     COMMAND_READS},
    {"node", "NODE", 1, 1, "one node: how it is, and what would be lost with it now", command_node,
     stale_options, COMMAND_READS},
    {"node disable", "NODE", 1, 1, "take a node out of use at once: its jobs are ended",
     command_node_disable, NULL, COMMAND_CHANGES},
    {"node drain", "NODE", 1, 1, "take a node out of use", command_node_drain, drain_options,
     COMMAND_CHANGES},
    {"node undrain", "NODE", 1, 1, "take a drained or disabled node back into use",
     command_node_undrain, NULL, COMMAND_CHANGES},
    {"node down", "NODE", 1, 1, "a silent node is off: its jobs may restart elsewhere",
     command_node_down, node_down_options, COMMAND_CHANGES},
    {"node remove", "NODE", 1, 1, "forget a node that is gone", command_node_remove, NULL,
     COMMAND_CHANGES},
    {"register", "", 0, 0, "register a job", command_register, register_options, COMMAND_CHANGES},
    {"update", "JOB", 1, 1, "change a job's nodes, walltime, period, strategy or target",
     command_update, update_options, COMMAND_CHANGES},
    {"end", "JOB", 1, 1, "a job has ended", command_end, end_options, COMMAND_CHANGES},
    {"restart", "JOB", 1, 1, "a stopped job runs again", command_restart, restart_options,
     COMMAND_CHANGES},
    {"migrate", "JOB", 1, 1, "requeue a job elsewhere, with a checkpoint or (strategy none) anew",
     command_migrate, NULL, COMMAND_CHANGES},
    {"hint", "JOB", 1, 1, "ask for a checkpoint now", command_hint, hint_options, COMMAND_CHANGES},
    {"cancel", "CHECKPOINT", 1, 1, "cancel an active checkpoint", command_cancel, NULL,
     COMMAND_CHANGES},
    {"preempt", "", 0, 0, "free nodes for a higher class", command_preempt, preempt_options,
     COMMAND_CHANGES},
    {"preemptions", "[ID]", 0, 1,
     "what preemptions came to: who let go, until when others have time", command_preemptions,
     preemptions_options, COMMAND_READS},
    {"request", "ID", 1, 1,
     "what a change came to, by its request id: 0 it took effect, 4 refused, 3 not known",
     command_request, stale_options, COMMAND_READS},
    {"placement", "[VCLUSTER]", 0, 1, "placement advice for schedulers", command_placement, NULL,
     COMMAND_READS},
    {"queue report", "VCLUSTER", 1, 1, "report what waits in a vCluster", command_queue_report,
     queue_options, COMMAND_CHANGES},
    {"queue clear", "VCLUSTER", 1, 1, "forget what a vCluster reported", command_queue_clear, NULL,
     COMMAND_CHANGES},
    {"cluster adopt", "", 0, 0,
     "end the passive state of a cluster that began from a backup: it takes over jobs and targets",
     command_cluster_adopt, NULL, COMMAND_CHANGES},
    {"cluster pause", "REASON", 1, 1,
     "ask for no checkpoint, restart, move and remove nothing for a while", command_cluster_pause,
     pause_options, COMMAND_CHANGES},
    {"cluster resume", "", 0, 0, "end the pause of the cluster", command_cluster_resume, NULL,
     COMMAND_CHANGES},
    {"policy get", "", 0, 0, "the cluster's policy", command_policy_get, stale_options,
     COMMAND_READS},
    {"policy set", "KEY=VALUE...", 1, CLI_ARGUMENTS_MAX,
     "change the policy: min_interval=5m max_victims=3", command_policy_set, NULL, COMMAND_CHANGES},
    {"upgrade status", "", 0, 0, "builds and levels of members and agents, and who is behind",
     command_upgrade_status, NULL, COMMAND_READS},
    {"upgrade plan", "", 0, 0,
     "the steps of an upgrade, what each costs, which guard does not hold", command_upgrade_plan,
     NULL, COMMAND_READS},
    {"upgrade canary", "MEMBER TIME", 1, 2,
     "a new build watches itself, and is put back when a check fails", command_upgrade_canary,
     canary_options, COMMAND_CHANGES},
    {"upgrade finalize", "", 0, 0, "take what the new build brings: the cluster's level rises",
     command_upgrade_finalize, finalize_options, COMMAND_CHANGES},
    {"drill plan", "KIND", 1, 1,
     "what a drill would do, to whom, what it may cost, which guard does not hold",
     command_drill_plan, drill_plan_options, COMMAND_READS},
    {"drill run", "KIND", 1, 1,
     "fail on purpose: leader-kill, leader-hang, member-loss, storage-outage, restore",
     command_drill_run, drill_run_options, COMMAND_CHANGES},
    {"drill list", "", 0, 0, "drills, the newest first", command_drill_list, stale_options,
     COMMAND_READS},
    {"drill report", "[DRILL]", 0, 1, "what a drill has measured; without: the last one",
     command_drill_report, drill_report_options, COMMAND_READS},
    {"restart-member", "[MEMBER]", 0, 1, "a member ends in good order and is started again",
     command_restart_member, restart_member_options, COMMAND_CHANGES},
    {"transfer", "[MEMBER]", 0, 1, "hand leadership over", command_transfer, NULL, COMMAND_CHANGES},
    {"member list", "", 0, 0, "members, who votes, how far behind (any member)",
     command_member_list, NULL, COMMAND_READS},
    {"member add", "NAME", 1, 1, "add a member that waits with --join, as a learner",
     command_member_add, member_add_options, COMMAND_CHANGES},
    {"member promote", "MEMBER", 1, 1, "give a learner its vote once it has caught up",
     command_member_promote, member_promote_options, COMMAND_CHANGES},
    {"member remove", "MEMBER", 1, 1, "remove a member for ever", command_member_remove, NULL,
     COMMAND_CHANGES},
    {"member replace", "OLD NEW", 2, 2, "add NEW, promote it, remove OLD", command_member_replace,
     member_replace_options, COMMAND_CHANGES},
    {"member transfer", "[MEMBER]", 0, 1, "hand leadership over", command_transfer, NULL,
     COMMAND_CHANGES},
    {"backup save", "FILE", 1, 1, "the whole replicated state into one file", command_backup_save,
     backup_options, COMMAND_WRITES_FILE},
    {"backup inspect", "FILE", 1, 1, "check a backup's bytes and show what it is (offline)",
     command_backup_inspect, NULL, COMMAND_LOCAL},
    {"backup verify", "FILE", 1, 1, "restore a backup in memory and check the state (offline)",
     command_backup_verify, NULL, COMMAND_LOCAL},
    {"debug check", "", 0, 0, "invariants and equal state hashes on all members",
     command_debug_check, NULL, COMMAND_READS},
    {"debug bundle", "FILE", 1, 1,
     "state, configuration, metrics and logs without secrets in a tar, for those who help",
     command_debug_bundle, NULL, COMMAND_WRITES_FILE},
    {"profile list", "", 0, 0, "programs that ckpt-run --profile knows how to ask (local)",
     command_profile_list, NULL, COMMAND_LOCAL},
    {"profile show", "PROFILE", 1, 1, "the file of a profile (local)", command_profile_show, NULL,
     COMMAND_LOCAL},
    {"profile check", "FILE", 1, 1, "whether a file is a profile (local)", command_profile_check,
     NULL, COMMAND_LOCAL},
    {"try", "COMMAND...", 1, CLI_ARGUMENTS_MAX,
     "whether a command, behind --, can be checkpointed; ckpt-run try takes --ask-signal and all "
     "else that ckpt-run takes (local)",
     command_try, try_options, COMMAND_LOCAL},
    {"dev", "", 0, 0,
     "a cluster on this machine, with agents and jobs, until Ctrl-C: for trying out (local)",
     command_dev, dev_options, COMMAND_LOCAL},
    {"tls init", "", 0, 0, "make a CA for this site (local)", command_tls_init, tls_init_options,
     COMMAND_LOCAL},
    {"tls issue", "KIND NAME", 2, 2,
     "issue a certificate: replica ID, agent NODE, scheduler NAME, operator NAME, auditor NAME, "
     "monitor NAME (local)",
     command_tls_issue, tls_issue_options, COMMAND_LOCAL},
    {"tls revoke", "SERIAL|FILE", 1, 1,
     "no member takes this certificate any more: its serial number, or its file",
     command_tls_revoke, tls_revoke_options, COMMAND_CHANGES},
    {"tls revoked", "", 0, 0, "certificates that were revoked", command_tls_revoked, stale_options,
     COMMAND_READS},
    {"tls show", "FILE", 1, 1, "what a certificate holds and when it ends (local)",
     command_tls_show, NULL, COMMAND_LOCAL},
    {"completion", "SHELL", 1, 1,
     "print the completion script of bash, fish or zsh: source <(ckptctl completion bash)",
     command_completion, NULL, COMMAND_LOCAL},
    {"help", "[COMMAND]", 0, 2, "this list (-o name: names alone), or one command with its options",
     command_help, NULL, COMMAND_LOCAL},
    {"version", "", 0, 0, "version of this program", command_version, NULL, COMMAND_LOCAL},
    {0}};

void commands_complete(void)
{
    spec_options_add(register_options);
}

bool command_is_of(const struct command *command, const char *group)
{
    size_t length = strlen(group);

    return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

/* Not of a word that is a command by itself: what follows is that one's. */
bool command_is_group(const char *word)
{
    bool group = false;

    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, word) == 0)
            return false;
        group = group || command_is_of(command, word);
    }
    return group;
}

const struct command *command_find(const char *const words[2], size_t *ret_words)
{
    const struct command *single = NULL;

    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, words[0]) == 0)
            single = command;
        if (words[1] != NULL && command_is_of(command, words[0]) &&
            strcmp(command->name + strlen(words[0]) + 1, words[1]) == 0) {
            *ret_words = 2; /* "node drain n", beside "node n" */
            return command;
        }
    }
    *ret_words = 1;
    return single;
}
