/* The catalogue of statuses: append only. Number, name, gRPC status, what happened, and what to do.
 * Marks in both texts: {c} = current, {l} = limit, {s} and {p} = current as the state of an
 * allocation or a checkpoint, {t} = the text that was found.
 * Docs, CLI text and metrics come from it. gRPC numbers: 3 INVALID_ARGUMENT, 5 NOT_FOUND, 6
 * ALREADY_EXISTS, 8 RESOURCE_EXHAUSTED, 9 FAILED_PRECONDITION, 10 ABORTED, 12 UNIMPLEMENTED, 13
 * INTERNAL, 14 UNAVAILABLE. */
#ifndef CKPT_FSM_STATUS_H
#define CKPT_FSM_STATUS_H

#include <stddef.h>

#include "fsm/profiles.h"

#define FSM_STATUSES(X)                                                                            \
    X(0, OK, 0, "done", "")                                                                        \
    X(1, INVALID_ID, 3,                                                                            \
      "\"{t}\" is not 1 to 128 characters of A-Z a-z 0-9 . _ - (it has {c} bytes)",                \
      "correct the id; it must be usable as a file name")                                          \
    X(2, INVALID_ARGUMENT, 3, "a value is out of range (found {c}, limit {l})",                    \
      "correct the request and send it again with a new request id")                               \
    X(3, UNKNOWN_FIELD, 3, "the request holds a field that this version does not know",            \
      "upgrade the members, or leave the field out")                                               \
    X(4, TOO_LARGE, 8, "the request has {c} bytes or items, at most {l} are taken", "split it")    \
    X(5, ALLOCATION_EXISTS, 6, "an allocation with this id is registered already",                 \
      "ckptctl job JOB shows it, ckptctl update JOB changes it")                                   \
    X(6, ALLOCATION_NOT_FOUND, 5, "no such allocation", "ckptctl jobs lists them")                 \
    X(7, CHECKPOINT_NOT_FOUND, 5, "no such checkpoint", "ckptctl checkpoints lists them")          \
    X(8, TARGET_NOT_FOUND, 5, "no such storage target", "ckptctl targets lists them")              \
    X(9, NODE_NOT_FOUND, 5, "no such node", "ckptctl nodes lists them")                            \
    X(10, ALLOCATION_ENDED, 9, "the allocation has ended (it is {s})",                             \
      "ckptctl job JOB shows when and why")                                                        \
    X(11, CHECKPOINT_ACTIVE, 9, "a checkpoint of this allocation is active already",               \
      "wait for it: ckptctl checkpoints JOB")                                                      \
    X(12, CHECKPOINT_ENDED, 9, "the checkpoint has ended already (it is {p})", "nothing to do")    \
    X(13, NOT_CHECKPOINTABLE, 9, "the allocation declared strategy none",                          \
      "register it with a profile and strategy auto or manual")                                    \
    X(14, STORAGE_UNAVAILABLE, 9,                                                                  \
      "the destination is unavailable; no checkpoint can be written now",                          \
      "ckptctl targets says why; ask again when it is available, or have the job write "           \
      "elsewhere: ckptctl update JOB --target TARGET")                                             \
    X(15, NO_VICTIMS, 9,                                                                           \
      "no set of at most {l} allocations frees the nodes needed ({c} could be freed)",             \
      "lower the need, or wait")                                                                   \
    X(16, CLASS_TOO_LOW, 9, "preemption only goes to strictly lower classes (class {c})",          \
      "submit with a higher class")                                                                \
    X(17, ALLOCATIONS_FULL, 8, "{c} allocations are registered, the limit is {l}",                 \
      "end some; collected ones leave by themselves")                                              \
    X(18, SESSIONS_FULL, 8,                                                                        \
      "{c} request ids are remembered, the limit is {l}, and none is older than 15 s",             \
      "send the same request again in a second, and fewer: 66,000 changes a second can go on")     \
    X(19, NODES_FULL, 8, "{c} nodes are known or named by kept jobs, the limit is {l}",            \
      "ckptctl node remove NODE, of those that are DOWN: its place is free when no kept job "      \
      "names it")                                                                                  \
    X(20, ALREADY_INITIALISED, 9, "the cluster is initialised already",                            \
      "start without --bootstrap")                                                                 \
    X(21, NOT_INITIALISED, 9, "the cluster is not initialised yet",                                \
      "wait until a leader has started it")                                                        \
    X(22, STALE_REPORT, 10,                                                                        \
      "the report was taken already or its number skips (report {c}, expected {l})",               \
      "the agent sends what is not acknowledged in order")                                         \
    X(23, NODE_NOT_ASSIGNED, 9, "the reporting node does not belong to the allocation",            \
      "none; the report is dropped and counted")                                                   \
    X(24, SENSITIVE, 9, "a sensitive allocation is never a victim and never requeued by itself",   \
      "an operator must act on it")                                                                \
    X(25, NEAR_COMPLETION, 9, "the allocation ends in {c} ms, protected below {l} ms",             \
      "wait for its end")                                                                          \
    X(26, BUDGET_EXCEEDED, 9, "the grant would take {c} bytes/s of {l}",                           \
      "wait for running writers")                                                                  \
    X(27, NOT_RESTARTABLE, 9, "the allocation is not stopped (it is {s})",                         \
      "only SUSPENDED, REQUEUED or FAILED ones are restarted")                                     \
    X(28, TARGETS_FULL, 8, "{c} targets are known or named by kept jobs, the limit is {l}",        \
      "ckptctl target remove TARGET: its place is free when no kept job names it")                 \
    X(29, QUEUES_FULL, 8, "{c} queues are known, the limit is {l}", "report fewer vClusters")      \
    X(30, UNIMPLEMENTED, 12, "this version cannot do that", "see the release notes")               \
    X(31, REQUEST_ID_MISSING, 3, "a mutating request needs a request id",                          \
      "set request_id to a new unique value and keep it for retries")                              \
    X(32, REQUEST_ID_REUSED, 3, "this request id was used for {t}",                                \
      "ckptctl request ID says what that came to; use a new id for each request")                  \
    X(33, CHECKPOINTING, 9, "the allocation is being checkpointed or stopped (it is {s})",         \
      "repeat after that ended")                                                                   \
    X(34, OUTCOME_UNKNOWN, 14,                                                                     \
      "leadership was lost before the request committed; it may or may not have been applied",     \
      "send it again with the same request id")                                                    \
    X(35, NODE_DOWN, 9, "node {c} of {l} of the allocation is down; what ran there may still run", \
      "name other nodes, or start its agent first (ckptctl nodes)")                                \
    X(36, MEMBER_REMOVED, 9,                                                                       \
      "member {c} was removed from the cluster, and ids are never used again",                     \
      "give it an id above {l}, and an empty folder")                                              \
    X(37, STALE_LEARNED, 9, "what was learned is older than what is known ({c}, known {l})",       \
      "none; the leader goes on from what is known")                                               \
    X(38, COST_EXCEEDS_VALUE, 9,                                                                   \
      "the cheapest victims would cost {c} GPU-ms, the waiting job is worth {l}",                  \
      "let it wait, or state a higher value")                                                      \
    X(39, JUST_RESUMED, 9,                                                                         \
      "the allocation was preempted before and has run {c} ms since, protected below {l} ms",      \
      "choose another victim, or wait")                                                            \
    X(40, PREEMPTIONS_FULL, 8, "{c} preemptions are kept, and the oldest still waits",             \
      "ckptctl preemptions shows what they wait for")                                              \
    X(41, PREEMPTION_NOT_FOUND, 5, "preemption {c} is not known; the last {l} are kept",           \
      "ckptctl preemptions lists them")                                                            \
    X(42, PARTS_DIFFER, 9,                                                                         \
      "{c} nodes are named, and its last checkpoint has {l} parts, each restored by one node "     \
      "(restore own)",                                                                             \
      "name {l} nodes, or register it with --restore all or path, or --from-scratch")              \
    X(43, BORROWED_ONLY, 9,                                                                        \
      "a job of a service vCluster gives up borrowed nodes only, and {c} of its {l} are its own",  \
      "choose another victim")                                                                     \
    X(44, EARLIER_RUN, 10,                                                                         \
      "the report is of run {c} of the allocation on that node, it is in {l}",                     \
      "nothing: what is of an earlier run changes nothing")                                        \
    X(45, PURPOSE_RESERVED, 3,                                                                     \
      "checkpoints of purpose {c} are not asked for in this way: PREEMPT (3) has a request of "    \
      "its own, WALLTIME (6) is the broker's decision",                                            \
      "ask for MANUAL, or ckptctl preempt")                                                        \
    X(46, PART_FINISHED, 9,                                                                        \
      "the application has finished on {c} of {l} nodes: no checkpoint of all of them can be "     \
      "written any more",                                                                          \
      "wait for its end, or take these nodes out: ckptctl job JOB")                                \
    X(47, NO_USABLE_CHECKPOINT, 9,                                                                 \
      "no complete checkpoint of the job can be restored ({c} were written, {l} of them are "      \
      "damaged)",                                                                                  \
      "ckptctl restart JOB --from-scratch starts it anew")                                         \
    X(48, REQUEST_NOT_FOUND, 5,                                                                    \
      "no request with this id is remembered: it has not taken effect, or was forgotten since "    \
      "(after session_ttl, or for newer ones), or was about members, which are not remembered",    \
      "send it again with the same request id, or look for its effect: ckptctl events")            \
    X(49, PROFILE_UNKNOWN, 3, "no agent can ask an application in the way that the profile names", \
      "profiles are " FSM_PROFILES_TEXT "or none, which stands for " FSM_PROFILE_DEFAULT)          \
    X(50, NOT_STARTED, 9,                                                                          \
      "the application runs on {c} of {l} nodes so far: there is nothing to save yet",             \
      "wait until ckpt-run has started it on all of them: ckptctl job JOB")                        \
    X(51, NODE_TWICE, 3, "nodes {c} and {l} of the request are one node",                          \
      "name each node once, with all of its GPUs")                                                 \
    X(52, PREFIX_INVALID, 3, "no target can have this prefix ({c} bytes, at most {l} are taken)",  \
      "for posix give an absolute folder without empty parts and .., such as "                     \
      "/scratch/checkpoints; for s3 s3://BUCKET/FOLDER, or s3:// alone for a bucket of each "      \
      "tenant")                                                                                    \
    X(53, TARGET_IN_USE, 9,                                                                        \
      "{c} checkpoints lie below the prefix of the target, and are found there",                   \
      "put another target with the new prefix, and register new jobs there: ckptctl help target "  \
      "put")                                                                                       \
    X(54, TARGET_IS_DEFAULT, 9, "it is the default one: jobs that name no target write there",     \
      "make another one the default first: ckptctl target put TARGET --default")                   \
    X(55, TARGET_HAS_JOBS, 9, "{c} jobs that have not ended write their checkpoints there",        \
      "ckptctl target drain TARGET sends their checkpoints elsewhere; then remove it")             \
    X(56, TARGET_HAS_FOLDERS, 9,                                                                   \
      "{c} checkpoints lie below its prefix or are written, {l} of them could not be deleted yet", \
      "they are deleted after retention_ms; ckptctl undeleted says what hinders")                  \
    X(57, NODE_NOT_DOWN, 9, "the node is not DOWN: its agent is heard, and would bring it back",   \
      "ckptctl node drain NODE, stop its agent, and repeat it when ckptctl nodes says DOWN")       \
    X(58, NODE_HAS_JOBS, 9, "{c} jobs that have not ended name the node",                          \
      "restart them on other nodes, or end them: ckptctl jobs lists them")                         \
    X(59, NODE_UNLIKE, 9,                                                                          \
      "node {c} of {l} is of another architecture or operating system than the last "              \
      "checkpoint's",                                                                              \
      "ckptctl nodes -o wide shows both; name another one, or --from-scratch")                     \
    X(60, TOO_FEW_NODES, 9,                                                                        \
      "{c} nodes are named, the job needs {l} at least (reactive_min_nodes)", "name more nodes")   \
    X(61, SCALE_COOLDOWN, 9,                                                                       \
      "the job was stopped or shrunk {c} ms ago, it grows again after {l} ms (scale_cooldown)",    \
      "ask again then")                                                                            \
    X(62, NOT_KEPT, 9, "only a complete checkpoint that is not being deleted is pinned",           \
      "ckptctl checkpoints JOB lists them with their states")                                      \
    X(63, PINS_FULL, 8, "{c} checkpoints of the job are pinned, the limit is {l}",                 \
      "ckptctl checkpoint unpin CHECKPOINT gives one back to retention")                           \
    X(64, FAILOVER_UNKNOWN, 3, "the fail-over target is not known, or the target itself",          \
      "name another one that is known: ckptctl targets lists them")                                \
    X(65, NODE_OUTSIDE_DOMAIN, 9,                                                                  \
      "node {c} of {l} is of another domain than the job's last checkpoint (domain_rule "          \
      "REQUIRED)",                                                                                 \
      "ckptctl placement names the domain; name nodes of it, or --from-scratch")                   \
    X(66, STAGING_UNFIT, 3,                                                                        \
      "staging direct: applications cannot write to a target of this kind by themselves",          \
      "give it staging local, or a posix prefix: ckptctl target put TARGET --staging local")       \
    X(67, TENANT_OVER_QUOTA, 8,                                                                    \
      "checkpoints of the tenant would take {c} bytes with this one, it may have {l}",             \
      "what would expire first is deleted: ask again in a minute; ckptctl tenants shows the "      \
      "bytes, an operator raises the limit: ckptctl tenant put TENANT --max-bytes SIZE")           \
    X(68, TENANTS_FULL, 8, "{c} tenants are known, the limit is {l}",                              \
      "put the limits of one that is known: ckptctl tenants lists them")                           \
    X(69, COMPRESSION_UNFIT, 3,                                                                    \
      "compression lz4: files are not stored compressed in a target of this kind",                 \
      "give it compression none, or a posix prefix: ckptctl target put TARGET --compression none") \
    X(70, POOL_REFUSED, 9,                                                                         \
      "a sensitive job writes only to targets whose pool is SENSITIVE, and the one that is "       \
      "named, or the default one where none is, has another pool",                                 \
      "name such a target (ckptctl targets -o wide), or mark one: ckptctl target put TARGET "      \
      "--pool sensitive")                                                                          \
    X(71, POOL_NEEDED, 9,                                                                          \
      "{c} sensitive jobs or checkpoints need the target: they may lie in the pool SENSITIVE "     \
      "alone",                                                                                     \
      "put another target with --pool sensitive first; what lies here stays until it is deleted")  \
    X(72, CONTINUES_NOT_FOUND, 5, "the job that it is to continue is not known",                   \
      "ckptctl jobs lists them; one that has ended is forgotten when its checkpoints are deleted") \
    X(73, CONTINUES_OTHERS, 7,                                                                     \
      "the job that it is to continue is of another tenant, project or owner, or one of the two "  \
      "is sensitive, or keeps to a jurisdiction, and the other does not",                          \
      "register it as the other one was: ckptctl job JOB")                                         \
    X(74, CONTINUES_RUNS, 9, "the job that it is to continue still holds nodes (it is {s})",       \
      "ckptctl end JOB, or wait until it has stopped")                                             \
    X(75, CONTINUES_NOTHING, 9,                                                                    \
      "no complete checkpoint of the job that it is to continue can be restored ({c} were "        \
      "written, {l} of them are damaged)",                                                         \
      "ckptctl checkpoints JOB shows them; registered without continues it begins from nothing")   \
    X(76, CONTINUED, 9,                                                                            \
      "the checkpoints of the job are another one's by now, which continues it under its own id",  \
      "ckptctl job JOB names that one (continued_by): restart or continue it, or this one "        \
      "--from-scratch")                                                                            \
    X(77, WRITES_FULL, 9, "{c} parts are being written to the target, its max_writes is {l}",      \
      "wait for running writers, or raise it: ckptctl target put TARGET --max-writes N")           \
    X(78, FEATURE_LEVEL, 9, "it needs feature level {c}, the cluster has {l}",                     \
      "upgrade the members that are behind (ckptctl upgrade plan), then ckptctl upgrade finalize") \
    X(79, PASSIVE, 9,                                                                              \
      "the cluster began from a backup and is passive: it gives no orders and touches no target",  \
      "ckptctl cluster adopt, when no other cluster uses these nodes and targets")                 \
    X(80, INVALID_FOLDER, 3, "a tenant or project names a folder, and cannot begin with - or .",   \
      "choose another name")                                                                       \
    X(81, NODE_SILENT, 9,                                                                          \
      "a node of the job's last run has been only silent for {c} s: its processes may run on "     \
      "there, and would compute beside the new ones",                                              \
      "wait until its agent is heard (it ends them then), or, when the machine is off, say so: "   \
      "ckptctl node down NODE --is-off; ckptctl job JOB names the node")                           \
    X(82, NODE_DRAINING, 9, "a node is draining and takes no new work",                            \
      "choose another node, or ckptctl node undrain NODE")                                         \
    X(83, NODE_LEFT, 9,                                                                            \
      "the job was moved away from a node, or its nodes were taken and are not free again",        \
      "wait, or name nodes yourself: ckptctl restart JOB --node NODE:GPUS ...")                    \
    X(84, NODE_EXCLUDED, 9,                                                                        \
      "the job failed there twice in a row, and other nodes have two minutes to come first",       \
      "wait, start the same line on another node, or name nodes yourself: ckptctl restart JOB "    \
      "--node NODE:GPUS ...")                                                                      \
    X(85, NODE_DISABLED, 9, "a node is disabled and takes no new work",                            \
      "choose another node, or ckptctl node undrain NODE")                                         \
    X(86, NOT_HUNG, 9,                                                                             \
      "the job was quiet for {c} ms and hangs after {l} ms, or something is under way, or a node " \
      "is not heard",                                                                              \
      "nothing: the leader looks again")                                                           \
    X(87, RUN_NOT_ENDED, 9,                                                                        \
      "a node of the job's last run has not said for {c} s that it has ended there: its "          \
      "processes may run on, and would compute beside the new ones",                               \
      "wait until they have ended, and try again; when the machine is off, say so once its agent " \
      "is silent: ckptctl node down NODE --is-off; ckptctl job JOB names the node")                \
    X(88, NOT_RERUNNABLE, 9,                                                                       \
      "the job writes no checkpoints (strategy none) and may not run again (requeue never): to "   \
      "move it is to end it",                                                                      \
      "leave it where it is, or end it: ckptctl end JOB")                                          \
    X(94, ATTRIBUTE_WRONG, 3,                                                                      \
      "\"{t}\" is no attribute of a job that checkpoints itself, or not with that value",          \
      "write NAME=VALUE, as checkpoint_exit_code=85 (0 to 255), WantCheckpointSignal=TRUE, "       \
      "CheckpointSig=TERM or transfer_checkpoint_files=a,b; fsm/attributes.h lists all")           \
    X(95, CHECKPOINT_EXIT_FINAL, 3,                                                                \
      "status {t} says both that the job has saved and that its work is complete: it would never " \
      "end",                                                                                       \
      "let it end with another status when it has saved, as 85; or have it told by a signal: "     \
      "WantCheckpointSignal=TRUE")                                                                 \
    X(96, ATTRIBUTES_PROFILE, 3,                                                                   \
      "attributes say that the job checkpoints itself, and the profile \"{t}\" says otherwise",    \
      "leave the profile out, or name file")                                                       \
    X(97, ATTRIBUTES_MUTE, 3,                                                                      \
      "no attribute says that the job is told to save, or that it saves by itself",                \
      "add WantCheckpointSignal=TRUE, WantFTOnCheckpoint=TRUE or checkpoint_exit_code=85")         \
    X(98, PROFILE_ONE_PART, 3,                                                                     \
      "the profile \"{t}\" saves the processes of one node, and the job has several parts",        \
      "ask the program by its own way, as ckptctl profile list has it, or register the job with "  \
      "one node")                                                                                  \
    X(104, INVALID_SERIAL, 3,                                                                      \
      "\"{t}\" is no serial number of a certificate: 2 to 40 digits 0-9 a-f, two for each byte",   \
      "ckptctl tls show FILE prints it")                                                           \
    X(105, REVOKED_FULL, 8, "{c} certificates are revoked, and no more than {l} can be",           \
      "replace the CA: deploy/RUNBOOK.md, Certificates")                                           \
    X(110, DRILL_UNDER_WAY, 9, "drill {c} is under way", "wait for its end: ckptctl drill list")   \
    X(111, DRILL_WINDOW, 9,                                                                        \
      "it is minute {c} of the day (UTC), and drills begin from minute {l} on",                    \
      "wait, or open the window: ckptctl policy set drill_window_minutes=1440")                    \
    X(112, DRILL_UPGRADE, 9,                                                                       \
      "an upgrade is under way: the members are of {c} builds (a canary that watches counts)",     \
      "end it first: ckptctl upgrade status")                                                      \
    X(113, DRILL_OUTAGE, 9,                                                                        \
      "{c} targets are unavailable already, and a drill would hide what comes of that",            \
      "ckptctl targets says why; mend it first")                                                   \
    X(114, DRILL_TOLERANCE, 9, "{c} more members may fail, a drill needs {l}",                     \
      "start what is down, or add members: ckptctl status")                                        \
    X(115, DRILL_BEHIND, 9, "a member has not all of the log yet, or is not heard",                \
      "wait until it has caught up: ckptctl status")                                               \
    X(116, DRILL_UNSUPERVISED, 9,                                                                  \
      "nobody is known to start member {c} again when it ends (neither NOTIFY_SOCKET nor "         \
      "INVOCATION_ID is set, as systemd does, nor supervised: yes in its configuration)",          \
      "have it started by a supervisor, or say supervised: yes; leader-hang and member-loss end "  \
      "no process")                                                                                \
    X(117, DRILL_NOT_FOUND, 5, "drill {c} is not known, or does not wait for this",                \
      "ckptctl drill list has the last ones")                                                      \
    X(120, CLUSTER_PAUSED, 9,                                                                      \
      "the cluster is paused since {c} s{t}; it asks for no checkpoint, restarts, moves and "      \
      "removes nothing",                                                                           \
      "ckptctl cluster resume ends the pause; ckptctl status says until when it lasts")            \
    X(121, NODE_TAKEN, 9, "another agent has the name of the node, and is heard",                  \
      "start it with the --name of its own node, or stop the other one")                           \
    X(125, MEASURES_HIDDEN, 7,                                                                     \
      "the measures of one sensitive job are told to its owner and to an admin of its tenant",     \
      "ckptctl losses has those of its tenant in one sum; its owner asks ckpt-run on its node")    \
    X(126, POOL_UNFIT, 9,                                                                          \
      "a target of the pool SENSITIVE is assured to be encrypted at rest and to stay hot_only",    \
      "when both are true, say so: ckptctl target put TARGET --encrypted yes --hot-only yes")      \
    X(127, JURISDICTION_REFUSED, 9,                                                                \
      "a sensitive job keeps to one jurisdiction, and the target, or each of its pool where none " \
      "is named, has another one",                                                                 \
      "ckptctl targets -o wide shows them; --jurisdiction names the job's when it is registered")  \
    X(128, NODE_BORROWED, 9, "a sensitive job takes no borrowed node",                             \
      "give it nodes of its own vCluster")                                                         \
    X(129, NODE_SHARED, 9,                                                                         \
      "a sensitive job is alone on its nodes: another job holds this one, or may still run there", \
      "ckptctl node NODE lists the jobs; take another node, or wait until they have ended")

enum fsm_status {
#define X(number, name, grpc, text, next) FSM_##name = number,
    FSM_STATUSES(X)
#undef X
};

enum { FSM_FOUND_BYTES = 80 };

struct fsm_outcome;

/* "UNKNOWN" for a number that is not in the catalogue. */
const char *fsm_status_name(enum fsm_status status);
int fsm_status_grpc(enum fsm_status status);
const char *fsm_status_text(enum fsm_status status);
const char *fsm_status_next(enum fsm_status status);
size_t fsm_status_count(void);
/* The part of a request that is refused, for {t}: cut where its room ends, and printable. */
void fsm_outcome_found(struct fsm_outcome *outcome, const char *text);
/* The first of the two texts, without the subject. Returns text. */
char *fsm_outcome_what(const struct fsm_outcome *outcome, char *text, size_t size);

#endif
