/* A job as the cluster has it, for its owner. See owner.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/status.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/human.h"
#include "src/cli/job_waits.h"
#include "src/cli/owner.h"

enum { NAMES_MAX = 8, IDS_TRIED_MAX = 8, STEM_BYTES = ID_MAX_BYTES + 1 };

/* ---- how it goes on ---- */

/* "12345" becomes "12345-2", and "12345-2" becomes "12345-3", or the first behind it that is not
 * taken; "12345-N" where so many are. */
static void print_next_id(FILE *out, const char *id, const struct owner_ids *ids)
{
    const char *dash = strrchr(id, '-');
    size_t digits = dash == NULL ? 0 : strspn(dash + 1, "0123456789");
    bool counted = digits > 0 && digits < 9 && dash[1 + digits] == '\0';
    unsigned long number = counted ? strtoul(dash + 1, NULL, 10) + 1 : 2;
    char stem[STEM_BYTES], next[STEM_BYTES + 24];

    snprintf(stem, sizeof(stem), "%.*s", counted ? (int)(dash - id) : (int)sizeof(stem) - 1, id);
    for (unsigned i = 0; i < IDS_TRIED_MAX; i++) {
        snprintf(next, sizeof(next), "%s-%lu", stem, number + i);
        if (id_valid(next) && (ids == NULL || !ids->taken(ids->context, next))) {
            fputs(next, out);
            return;
        }
    }
    fprintf(out, "%s-N", stem);
}

static void print_option(FILE *out, const char *name, const char *value)
{
    if (value[0] != '\0')
        fprintf(out, " --%s %s", name, value);
}

static void print_duration(FILE *out, const char *name, uint64_t ms)
{
    if (ms != 0 && ms % 1000 == 0)
        fprintf(out, " --%s %" PRIu64 "s", name, ms / 1000);
    else if (ms != 0)
        fprintf(out, " --%s %" PRIu64 "ms", name, ms);
}

/* Nothing for the value that a registration without it has. */
static void print_choice(FILE *out, const char *name, const ProtobufCEnumDescriptor *type,
                         int value, int otherwise)
{
    char word[HUMAN_BYTES];

    if (value != 0 && value != otherwise)
        fprintf(out, " --%s %s", name, human_enum(type, value, word));
}

/* The line that registers the same job under the next id. */
static void print_register(FILE *out, const Ckpt__V1__AllocationSpec *spec, bool continues,
                           const struct owner_ids *ids)
{
    fputs("ckpt-run register --alloc ", out);
    print_next_id(out, spec->allocation_id, ids);
    if (continues)
        print_option(out, "continues", spec->allocation_id);
    fprintf(out, " --tenant %s --project %s", spec->tenant, spec->project);
    print_option(out, "vcluster", spec->vcluster);
    print_duration(out, "walltime", spec->walltime_ms);
    if (spec->n_nodes > 0 && spec->nodes[0]->gpu_count != 0)
        fprintf(out, " --gpus %" PRIu32, spec->nodes[0]->gpu_count);
    if (strcmp(spec->profile, FSM_PROFILE_DEFAULT) != 0) /* the default stands for none */
        print_option(out, "profile", spec->profile);
    print_duration(out, "grace", spec->grace_ms);
    print_option(out, "target", spec->target_id);
    for (size_t i = 1; i < spec->n_nodes; i++)
        fprintf(out, " --node %s:%" PRIu32, spec->nodes[i]->node_id, spec->nodes[i]->gpu_count);
    print_duration(out, "period", spec->period_ms);
    print_duration(out, "first-period", spec->first_period_ms);
    print_choice(out, "strategy", &ckpt__v1__strategy__descriptor, (int)spec->strategy,
                 CKPT__V1__STRATEGY__STRATEGY_AUTO);
    print_choice(out, "requeue", &ckpt__v1__requeue_policy__descriptor, (int)spec->requeue_policy,
                 CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ON_NODE_FAILURE);
    print_choice(out, "restart", &ckpt__v1__restart_mode__descriptor, (int)spec->restart,
                 CKPT__V1__RESTART_MODE__RESTART_MODE_AUTO);
    print_choice(out, "restore", &ckpt__v1__restore_mode__descriptor, (int)spec->restore,
                 CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN);
    print_choice(out, "staging", &ckpt__v1__staging__descriptor, (int)spec->staging, 0);
}

void owner_continue_print(FILE *out, const Ckpt__V1__AllocationSpec *spec,
                          const struct owner_ids *ids)
{
    print_register(out, spec, true, ids);
}

/* ---- the next step ---- */

/* A restart without a checkpoint is refused, but by its wish. */
static const char *from_scratch(const Ckpt__V1__Allocation *job)
{
    return job->next_restart_checkpoint_id == 0 ? " --from-scratch" : "";
}

static bool has_node(const Ckpt__V1__AllocationSpec *spec, const char *node_id)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        if (strcmp(spec->nodes[i]->node_id, node_id) == 0)
            return true;
    return false;
}

static void print_nodes(FILE *out, const Ckpt__V1__AllocationSpec *spec)
{
    char name[129];

    for (size_t i = 0; i < spec->n_nodes && i < NAMES_MAX; i++)
        fprintf(out, "%s%s", i == 0 ? "" : ", ",
                human_safe(spec->nodes[i]->node_id, name, sizeof(name)));
    if (spec->n_nodes > NAMES_MAX)
        fprintf(out, " and %zu more", spec->n_nodes - NAMES_MAX);
}

static void print_continue(FILE *out, const Ckpt__V1__Allocation *job, const char *when,
                           const struct owner_ids *ids)
{
    char id[HUMAN_BYTES];

    if (job->continued_by[0] != '\0') {
        fprintf(out, "    job %s goes on from its checkpoints\n", job->continued_by);
        return;
    }
    if (job->next_restart_checkpoint_id == 0) {
        fprintf(out, "    %sbegin anew under a new id, since no checkpoint of it is there:\n      ",
                when);
        print_register(out, job->spec, false, ids);
        fputs("\n      and then the same line with that --alloc\n", out);
        return;
    }
    fprintf(out, "    %sgo on from checkpoint %s under a new id:\n      ", when,
            human_checkpoint(job->next_restart_checkpoint_id, id));
    owner_continue_print(out, job->spec, ids);
    fputs("\n      and then the same line with that --alloc\n", out);
}

static void print_next(FILE *out, const Ckpt__V1__Allocation *job, const char *node_id,
                       const struct owner_ids *ids)
{
    const Ckpt__V1__AllocationSpec *spec = job->spec;
    const char *id = spec->allocation_id;

    switch (job->state) {
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING:
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING:
        fputs("    on ", out);
        print_nodes(out, spec);
        if (node_id[0] != '\0' && !has_node(spec, node_id))
            fprintf(out, "; a ckpt-run of it on this node (%s) waits as a spare (--stay)", node_id);
        fputc('\n', out);
        break;
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED:
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED:
        if (job->restart_at_ms == 0)
            fprintf(
                out,
                "    nothing restarts it by itself: ckpt-run restart %s%s, and the same ckpt-run "
                "line on its nodes (",
                id, from_scratch(job)),
                print_nodes(out, spec), fputs(")\n", out);
        else if (job->reason == CKPT__V1__REASON__REASON_MIGRATED)
            fprintf(out,
                    "    on another node by the same ckpt-run line; where it was, after ckpt-run "
                    "restart %s\n",
                    id);
        fprintf(out, "    or end it for good: ckpt-run end %s\n", id);
        break;
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED:
        fprintf(out,
                "    it does not come back by itself: ckpt-run restart %s%s, and the same "
                "ckpt-run line\n",
                id, from_scratch(job));
        print_continue(out, job, "or ", ids);
        break;
    case CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED:
        print_continue(out, job, "", ids);
        break;
    default:
        break;
    }
}

void owner_job_print(FILE *out, const Ckpt__V1__Allocation *job, const char *node_id,
                     const struct owner_ids *ids)
{
    char state[HUMAN_BYTES], reason[HUMAN_BYTES], since[HUMAN_BYTES];
    struct cli *cli;
    size_t length = 0;
    char *text = NULL;

    CHECK(job->spec != NULL);
    fprintf(out, "  cluster: %s since %s",
            human_enum(&ckpt__v1__allocation_state__descriptor, (int)job->state, state),
            human_clock(job->state_since_ms, since));
    if (job->reason != CKPT__V1__REASON__REASON_NONE)
        fprintf(out, " (%s)",
                human_enum_words(&ckpt__v1__reason__descriptor, (int)job->reason, reason));
    fputc('\n', out);
    cli = check_calloc(1, sizeof(*cli));
    cli->out = open_memstream(&text, &length);
    CHECK(cli->out != NULL);
    job_waits_print(cli, job);
    fclose(cli->out);
    owner_words(out, text);
    free(text);
    free(cli);
    print_next(out, job, node_id, ids);
}

/* ---- in one line ---- */

static void print_under_new_id(FILE *out, const Ckpt__V1__Allocation *job,
                               const struct owner_ids *ids)
{
    char id[HUMAN_BYTES];

    if (job->continued_by[0] != '\0') {
        fprintf(out, "job %s goes on from its checkpoints", job->continued_by);
        return;
    }
    if (job->next_restart_checkpoint_id != 0)
        fprintf(out, "from checkpoint %s under a new id: ",
                human_checkpoint(job->next_restart_checkpoint_id, id));
    else
        fputs("anew under a new id: ", out);
    print_register(out, job->spec, job->next_restart_checkpoint_id != 0, ids);
    fputs(", and the same line with that --alloc", out);
}

void owner_job_next(FILE *out, const Ckpt__V1__Allocation *job, const struct owner_ids *ids)
{
    const char *id = job->spec->allocation_id;
    char state[HUMAN_BYTES];

    fprintf(out, "job %s is %s; ", id,
            human_enum_words(&ckpt__v1__allocation_state__descriptor, (int)job->state, state));
    if (job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED) {
        print_under_new_id(out, job, ids);
    } else if (job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED) {
        fprintf(out, "it goes on by ckpt-run restart %s%s and the same line, or ", id,
                from_scratch(job));
        print_under_new_id(out, job, ids);
    } else if (job->restart_at_ms != 0 && job->reason == CKPT__V1__REASON__REASON_MIGRATED) {
        fprintf(out,
                "it goes on by the same line on another node; where it was, after ckpt-run restart "
                "%s",
                id);
    } else if (job->restart_at_ms != 0) {
        fputs("it goes on by the same line: the cluster restarts it when enough of its ckpt-runs "
              "wait",
              out);
    } else {
        fprintf(out, "it goes on by ckpt-run restart %s%s and the same line", id,
                from_scratch(job));
    }
    fputc('\n', out);
}
