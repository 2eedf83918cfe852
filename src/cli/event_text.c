/* One event as a line for people. */
#include "src/cli/event_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/v1/drill.pb-c.h"
#include "src/base/check.h"
#include "src/cli/human.h"

enum { ID_BYTES = 129, DETAIL_BYTES = 201, PATH_TEXT_BYTES = 385, CALLER_BYTES = 300 };

static const char *state_move_text(const ProtobufCEnumDescriptor *type,
                                   const Ckpt__V1__Event *event, char text[2 * HUMAN_BYTES])
{
    char before[HUMAN_BYTES], after[HUMAN_BYTES];

    human_enum(type, (int)event->new_state, after);
    if (event->old_state == 0 || event->current) {
        snprintf(text, 2 * HUMAN_BYTES, "%s", after);
    } else {
        snprintf(text, 2 * HUMAN_BYTES, "%s → %s", human_enum(type, (int)event->old_state, before),
                 after);
    }
    return text;
}

static const char *reason_text(const Ckpt__V1__Event *event, char text[HUMAN_BYTES + 3])
{
    char words[HUMAN_BYTES];

    if (event->reason == CKPT__V1__REASON__REASON_NONE) {
        text[0] = '\0';
    } else {
        snprintf(text, HUMAN_BYTES + 3, " (%s)",
                 human_enum_words(&ckpt__v1__reason__descriptor, (int)event->reason, words));
    }
    return text;
}

static void leader_line(const Ckpt__V1__Event *event, struct event_history *history, char *text,
                        size_t size)
{
    char subject[ID_BYTES];
    bool change;

    /* the first leader of a cluster is elected before its members' names are known */
    if (event->subject[0] == '\0')
        snprintf(subject, sizeof(subject), "member %u", event->new_state);
    else
        human_safe(event->subject, subject, sizeof(subject));
    change = history->leader[0] != '\0' && strcmp(history->leader, subject) != 0;
    snprintf(text, size, "%s%s%s %s (term %" PRIu64 "): %" PRIu64 " paused requests carried over",
             change ? history->leader : "", change ? "→" : "", subject,
             change ? "leader change" : "leads", event->term, event->number);
    snprintf(history->leader, sizeof(history->leader), "%s", subject);
}

static void checkpoint_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], id[HUMAN_BYTES], moves[2 * HUMAN_BYTES], why[HUMAN_BYTES + 3];
    char attempt[32] = "", account[3 * HUMAN_BYTES] = "", detail[DETAIL_BYTES];
    char bytes[HUMAN_BYTES], duration[HUMAN_BYTES], path[PATH_TEXT_BYTES] = "";

    if (event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        human_safe(event->path, path, sizeof(path));
    if (event->number > 0)
        snprintf(attempt, sizeof(attempt), " attempt %" PRIu64, event->number);
    if (event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        snprintf(account, sizeof(account), ", %s in %s", human_size(event->size_bytes, bytes),
                 human_duration(event->duration_ms, duration));
    snprintf(text, size, "%s checkpoint %s %s%s%s%s%s%s%s%s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_checkpoint(event->checkpoint_id, id),
             state_move_text(&ckpt__v1__checkpoint_state__descriptor, event, moves), attempt,
             account, reason_text(event, why), event->subject[0] != '\0' ? ": " : "",
             human_safe(event->subject, detail, sizeof(detail)), path[0] != '\0' ? ", at " : "",
             path);
}

static void job_line(const Ckpt__V1__Event *event, const char *what, char *text, size_t size)
{
    char job[ID_BYTES], subject[ID_BYTES], id[HUMAN_BYTES], why[HUMAN_BYTES + 3];

    snprintf(text, size, "%s %s%s%s%s%s%s", human_safe(event->allocation_id, job, sizeof(job)),
             what, event->subject[0] != '\0' ? " on " : "",
             human_safe(event->subject, subject, sizeof(subject)),
             event->checkpoint_id != 0 ? " from " : "",
             event->checkpoint_id != 0 ? human_checkpoint(event->checkpoint_id, id) : "",
             reason_text(event, why));
}

/* A move names the checkpoint that is active beside it. It says nothing of what a run begins from:
 * one that waits for storage stays active while the job starts from an older one. */
static void job_state_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], moves[2 * HUMAN_BYTES], id[HUMAN_BYTES], why[HUMAN_BYTES + 3];

    snprintf(text, size, "%s %s%s%s%s", human_safe(event->allocation_id, job, sizeof(job)),
             state_move_text(&ckpt__v1__allocation_state__descriptor, event, moves),
             reason_text(event, why), event->checkpoint_id != 0 ? ", active checkpoint " : "",
             event->checkpoint_id != 0 ? human_checkpoint(event->checkpoint_id, id) : "");
}

static void subject_line(const Ckpt__V1__Event *event, const char *kind, const char *what,
                         char *text, size_t size)
{
    char subject[ID_BYTES], why[HUMAN_BYTES + 3];

    snprintf(text, size, "%s %s %s%s", kind, human_safe(event->subject, subject, sizeof(subject)),
             what, reason_text(event, why));
}

static const char *node_state(uint32_t state)
{
    static const char *const names[] = {"unknown",  "ready",      "degraded", "down",
                                        "draining", "agent lost", "drained",  "disabled"};

    return state < ARRAY_COUNT(names) ? names[state] : "changed";
}

/* The subject is the node, and what was seen. */
static void off_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char subject[ID_BYTES + DETAIL_BYTES], witness[HUMAN_BYTES];

    snprintf(text, size, "node off, by the second witness %s: %s",
             human_enum(&ckpt__v1__node_witness__descriptor,
                        event->new_state == 0 ? (int)CKPT__V1__NODE_WITNESS__NODE_WITNESS_OPERATOR
                                              : (int)event->new_state,
                        witness),
             human_safe(event->subject, subject, sizeof(subject)));
}

static void storage_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char what[96] = "unavailable";

    if (event->current && event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP)
        snprintf(what, sizeof(what), "available");
    else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP) {
        snprintf(what, sizeof(what), "available: %" PRIu64 " paused checkpoints resume",
                 event->number);
    }
    subject_line(event, "target", what, text, size);
}

static void preemption_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    static const char *const what[] = {"preempted", "preempted",
                                       "asked to give borrowed nodes back",
                                       "preempted by a sensitive claim"};
    char job[ID_BYTES], subject[ID_BYTES], why[HUMAN_BYTES + 3];

    snprintf(text, size, "%s %s%s%s by preemption %" PRIu64 "%s",
             human_safe(event->allocation_id, job, sizeof(job)),
             what[event->new_state < ARRAY_COUNT(what) ? event->new_state : 0],
             event->subject[0] != '\0' ? " for " : "",
             human_safe(event->subject, subject, sizeof(subject)), event->number,
             reason_text(event, why));
}

static void preemption_state_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    bool released = event->new_state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED;
    char subject[ID_BYTES];

    snprintf(text, size, "preemption %" PRIu64 "%s%s %s", event->number,
             event->subject[0] != '\0' ? " for " : "",
             human_safe(event->subject, subject, sizeof(subject)),
             released ? "has all its nodes: every victim let go"
                      : "expired: a victim kept its nodes, and there was no other");
}

static void queue_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char subject[ID_BYTES];

    snprintf(text, size,
             "queue of %s: backlog pressure %.2f, waiting jobs ask for %" PRIu32 " GPUs",
             human_safe(event->subject, subject, sizeof(subject)), (double)event->number / 1e6,
             event->new_state);
}

static void undeleted_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    bool forgotten = event->new_state == CKPT__V1__UNDELETED_CHANGE__UNDELETED_CHANGE_FORGOTTEN;
    char job[ID_BYTES], subject[ID_BYTES], id[HUMAN_BYTES], bytes[HUMAN_BYTES];

    snprintf(text, size, "%s checkpoint %s (%s on %s) %s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_checkpoint(event->checkpoint_id, id), human_size(event->number, bytes),
             human_safe(event->subject, subject, sizeof(subject)),
             forgotten ? "is forgotten without being deleted: too many others could not be either"
                       : "has expired and could not be deleted: ckptctl undeleted says why");
}

static void deleted_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[ID_BYTES], id[HUMAN_BYTES], bytes[HUMAN_BYTES];

    snprintf(text, size, "%s checkpoint %s is deleted on %s, %s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_checkpoint(event->checkpoint_id, id),
             human_safe(event->subject, subject, sizeof(subject)),
             event->number == 0 ? "of unknown size" : human_size(event->number, bytes));
}

static void continued_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[ID_BYTES], id[HUMAN_BYTES], bytes[HUMAN_BYTES];

    snprintf(text, size, "%s continues %s and has its checkpoint %s, %s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_safe(event->subject, subject, sizeof(subject)),
             human_checkpoint(event->checkpoint_id, id), human_size(event->number, bytes));
}

static void damaged_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES], id[HUMAN_BYTES];

    snprintf(text, size, "%s checkpoint %s is damaged, nothing begins from it any more: %s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_checkpoint(event->checkpoint_id, id),
             human_safe(event->subject, subject, sizeof(subject)));
}

static void verified_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES], id[HUMAN_BYTES], bytes[HUMAN_BYTES];
    bool whole = event->new_state == CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_WHOLE;

    human_safe(event->allocation_id, job, sizeof(job));
    human_checkpoint(event->checkpoint_id, id);
    if (whole)
        snprintf(text, size, "%s checkpoint %s was read again, %s: it is whole", job, id,
                 human_size(event->number, bytes));
    else
        snprintf(text, size, "%s checkpoint %s could not be read again: %s", job, id,
                 human_safe(event->subject, subject, sizeof(subject)));
}

static void copies_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES], id[HUMAN_BYTES];

    human_safe(event->allocation_id, job, sizeof(job));
    human_checkpoint(event->checkpoint_id, id);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_COPIES_KEPT)
        snprintf(text, size, "%s checkpoint %s: each of its %" PRIu64 " nodes keeps its part", job,
                 id, event->number);
    else
        snprintf(text, size, "%s checkpoint %s: part %" PRIu64 " is kept no more on %s", job, id,
                 event->number, human_safe(event->subject, subject, sizeof(subject)));
}

static void restart_chosen_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES];

    snprintf(text, size, "job %s is restarted by the broker (%" PRIu64 " since progress) on %s",
             human_safe(event->allocation_id, job, sizeof(job)), event->number,
             human_safe(event->subject, subject, sizeof(subject)));
}

static void end_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES];

    snprintf(text, size, "%s application ended on %s",
             human_safe(event->allocation_id, job, sizeof(job)),
             human_safe(event->subject, subject, sizeof(subject)));
}

static void walltime_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], left[HUMAN_BYTES];

    snprintf(
        text, size, "job %s ends in %s, by its walltime: ckptctl update JOB --walltime, or save",
        human_safe(event->allocation_id, job, sizeof(job)), human_duration(event->number, left));
}

static void hang_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char job[ID_BYTES], subject[DETAIL_BYTES], for_ms[HUMAN_BYTES];

    human_safe(event->allocation_id, job, sizeof(job));
    human_duration(event->number, for_ms);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_HUNG)
        snprintf(text, size, "job %s is HUNG: no rank has stepped for %s: %s", job, for_ms,
                 human_safe(event->subject, subject, sizeof(subject)));
    else
        snprintf(text, size, "job %s steps again, it was HUNG for %s", job, for_ms);
}

static void drill_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char kind[HUMAN_BYTES], state[HUMAN_BYTES], subject[DETAIL_BYTES];

    snprintf(text, size, "drill %" PRIu64 " (%s) is %s%s%s", event->number,
             human_enum_words(&ckpt__v1__drill_kind__descriptor, (int)event->old_state, kind),
             human_enum(&ckpt__v1__drill_state__descriptor, (int)event->new_state, state),
             event->subject[0] == '\0' ? "" : ": ",
             human_safe(event->subject, subject, sizeof(subject)));
}

static void spoofed_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char node[ID_BYTES];

    snprintf(text, size,
             "node %s: an agent spoke for it with another node's certificate, %" PRIu64
             " times in a minute",
             human_safe(event->subject, node, sizeof(node)), event->number);
}

static void epoch_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char subject[ID_BYTES];

    snprintf(text, size,
             "cluster %s restored or recovered: epoch %" PRIu32 ", %" PRIu64
             " unfinished checkpoints begin again under new ids",
             human_safe(event->subject, subject, sizeof(subject)), event->new_state, event->number);
}

static void pause_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char subject[400], lasts[HUMAN_BYTES];

    human_safe(event->subject, subject, sizeof(subject));
    human_duration(event->number, lasts);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_PAUSED)
        snprintf(text, size, "cluster paused %s%s by %s", event->number == 0 ? "" : "for ",
                 event->number == 0 ? "until somebody ends it," : lasts, subject);
    else
        snprintf(text, size, "cluster resumed after %s, %s%s", lasts,
                 subject[0] == '\0' ? "its time was over" : "by ", subject);
}

static void member_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    static const char *const what[] = {"changed", "is a learner", "is a voter", "was removed"};
    char subject[ID_BYTES];

    snprintf(text, size, "member %s (id %" PRIu64 ") %s",
             human_safe(event->subject, subject, sizeof(subject)), event->number,
             what[event->new_state < ARRAY_COUNT(what) ? event->new_state : 0]);
}

/* What becomes of a target; a run that repeats work because one is away. */
static void target_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char subject[129], job[129], from[HUMAN_BYTES], repeated[HUMAN_BYTES];

    human_safe(event->subject, subject, sizeof(subject));
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DOWN ||
        event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP)
        storage_line(event, text, size);
    else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_REMOVED)
        subject_line(event, "target", "removed", text, size);
    else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DRAINED)
        snprintf(text, size, "target %s %s", subject,
                 event->new_state != 0 ? "is drained: new checkpoints go elsewhere"
                                       : "is back in use");
    else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED)
        snprintf(text, size, "job %s begins from %s and repeats %s: target %s is away",
                 human_safe(event->allocation_id, job, sizeof(job)),
                 event->checkpoint_id == 0 ? "scratch"
                                           : human_checkpoint(event->checkpoint_id, from),
                 human_duration(event->number, repeated), subject);
    else if (event->new_state != 0)
        snprintf(text, size,
                 "target %s fails over: %" PRIu64 " checkpoints begin again at its other target",
                 subject, event->number);
    else
        snprintf(text, size, "target %s no longer fails over", subject);
}

/* What the limit of a tenant led to. */
static void quota_line(const Ckpt__V1__Event *event, char *text, size_t size)
{
    char tenant[129], job[129], bytes[HUMAN_BYTES], id[HUMAN_BYTES];

    human_safe(event->subject, tenant, sizeof(tenant));
    human_safe(event->allocation_id, job, sizeof(job));
    human_size(event->number, bytes);
    if (event->new_state == CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_EXPIRED)
        snprintf(text, size,
                 "checkpoint %s of job %s is deleted early: tenant %s is over its limit",
                 human_checkpoint(event->checkpoint_id, id), job, tenant);
    else if (event->new_state == CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_REFUSED)
        snprintf(text, size, "tenant %s has no room for a checkpoint of job %s: %s with it", tenant,
                 job, bytes);
    else if (event->number == 0)
        snprintf(text, size, "tenant %s has no limit of bytes", tenant);
    else
        snprintf(text, size, "tenant %s may have %s of checkpoints", tenant, bytes);
}

/* long: a case for each kind. */
static void event_sentence(const Ckpt__V1__Event *event, struct event_history *history, char *text,
                           size_t size)
{
    switch (event->kind) {
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_REGISTERED:
        job_line(event, "registered", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE:
        job_state_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_UPDATED:
        job_line(event, "updated", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_RESTARTED:
        job_line(event, "application restarted", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE:
        checkpoint_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DOWN:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_REMOVED:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DRAINED:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_FAILOVER:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED:
        target_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_PAUSED:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_RESUMED:
        pause_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_REMOVED:
        subject_line(event, "node", "removed", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_REVOKED:
        subject_line(event, "certificate", "revoked", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_DRAINED:
        subject_line(event, "node", "drained: no job is left there", text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_OFF:
        off_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_LEADER:
        leader_line(event, history, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE:
        subject_line(event, "node", node_state(event->new_state), text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION:
        preemption_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION_STATE:
        preemption_state_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_POLICY:
        snprintf(text, size, "policy changed");
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_SPOOFED_NODE:
        spoofed_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_QUEUE:
        queue_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_MEMBER:
        member_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_UNDELETED:
        undeleted_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED:
        damaged_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_VERIFIED:
        verified_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_DELETED:
        deleted_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_RESTART_CHOSEN:
        restart_chosen_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_HUNG:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_HANG_OVER:
        hang_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_WALLTIME_WARNING:
        walltime_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_APPLICATION_END:
        end_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CURRENT_END:
        snprintf(text, size, "this holds now; what happens follows");
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CONTINUED:
        continued_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_COPIES_KEPT:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_COPY_DROPPED:
        copies_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_QUOTA:
        quota_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_DRILL:
        drill_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_EPOCH:
        epoch_line(event, text, size);
        return;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_UNSPECIFIED:
    case _CKPT__V1__EVENT_KIND_IS_INT_SIZE:
        break;
    }
    /* a newer member may send kinds that this program does not know */
    snprintf(text, size, "event of kind %d", (int)event->kind);
}

void event_text(const Ckpt__V1__Event *event, struct event_history *history, bool wide,
                char text[EVENT_TEXT_BYTES])
{
    char at[HUMAN_BYTES], caller[CALLER_BYTES];
    int used;

    if (wide) {
        used = snprintf(
            text, EVENT_TEXT_BYTES, "%s  seq %" PRIu64 "  term %" PRIu64 "  index %" PRIu64 "  ",
            human_instant(event->at_ms, at), event->sequence, event->term, event->index);
    } else {
        used = snprintf(text, EVENT_TEXT_BYTES, "%s ", human_clock(event->at_ms, at));
    }
    CHECK(used > 0 && used < EVENT_TEXT_BYTES);
    event_sentence(event, history, text + used, EVENT_TEXT_BYTES - (size_t)used);
    used = (int)strlen(text);
    if (event->caller != NULL && event->caller[0] != '\0')
        snprintf(text + used, EVENT_TEXT_BYTES - (size_t)used, " (by %s)",
                 human_safe(event->caller, caller, sizeof(caller)));
}
