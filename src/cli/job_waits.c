/* See job_waits.h. */
#include "src/cli/job_waits.h"

#include <stdio.h>
#include <sys/wait.h>

#include "src/cli/human.h"

/* What it waits for before its application starts. */
static void print_restoring(struct cli *cli, const Ckpt__V1__Restoring *restoring)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES], target[129];

    if (restoring == NULL)
        return;
    human_safe(restoring->target_id, target, sizeof(target));
    if (restoring->reading_parts > 0)
        cli_out(cli, " reads its checkpoint from target %s: %u parts\n", target,
                restoring->reading_parts);
    if (restoring->waiting_parts > 0 && restoring->place > 0)
        cli_out(cli, " waits to read its checkpoint: %u of %u at target %s, %u parts\n",
                restoring->place, restoring->line, target, restoring->waiting_parts);
    else if (restoring->waiting_parts > 0)
        cli_out(cli, " waits to read its checkpoint: far behind in the line of %u at target %s\n",
                restoring->line, target);
    if (restoring->discard_at_ms > 0)
        cli_out(
            cli,
            " target %s is away: at %s it begins without that checkpoint, and repeats %s of its "
            "run time\n",
            target, human_clock(restoring->discard_at_ms, a),
            human_duration(restoring->discarded_ms, b));
    else if (restoring->discarded_ms > 0)
        cli_out(cli,
                " target %s is away, and is waited for: without that checkpoint %s of its run time "
                "would be repeated, more than the policy's max_discarded\n",
                target, human_duration(restoring->discarded_ms, a));
}

void job_waits_release(struct cli *cli, const char *allocation_id,
                       const Ckpt__V1__ReleaseCheck *check)
{
    char id[HUMAN_BYTES], at[HUMAN_BYTES], job[129], node[129];

    if (check == NULL)
        return;
    cli_out(cli,
            " %s keeps its nodes until %s at the latest: node %s reads what it saved (checkpoint "
            "%s, part %u of %u) before they go\n",
            human_safe(allocation_id, job, sizeof(job)), human_clock(check->until_ms, at),
            human_safe(check->node_id, node, sizeof(node)),
            human_checkpoint(check->checkpoint_id, id), check->part, check->parts);
}

/* Why no restart is taken elsewhere, and the next step. */
static void print_silent(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    char node[129], at[HUMAN_BYTES];

    if (job->silent_node_id[0] == '\0' && job->unended_node_id[0] != '\0')
        cli_out(cli,
                " node %s of its last run has not said that it has ended there: it is not "
                "restarted elsewhere\n (RUN_NOT_ENDED) until it has, or until its agent is silent "
                "and ckptctl node down %s --is-off\n",
                human_safe(job->unended_node_id, node, sizeof(node)), node);
    if (job->never_heard_node_id[0] != '\0' && job->restart_at_ms != 0)
        cli_out(cli,
                " node %s is one of its nodes, and no agent ever spoke there: the broker takes no "
                "others by itself\n until its agent is heard, or ckptctl restart names the nodes\n",
                human_safe(job->never_heard_node_id, node, sizeof(node)));
    if (job->silent_node_id[0] == '\0')
        return;
    human_safe(job->silent_node_id, node, sizeof(node));
    cli_out(cli,
            " node %s of its last run has been silent since %s: its processes may run on there, so "
            "it is not restarted\n elsewhere (NODE_SILENT) until the node's agent is heard, or "
            "until ckptctl node down %s --is-off\n",
            node, human_clock(job->silent_since_ms, at), node);
}

/* The broker's own restart of a stopped job: how many nodes wait for it, and why others do not
 * count. */
static void print_restart_waits(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    char node[HUMAN_BYTES], since[HUMAN_BYTES];
    uint32_t may = 0;

    for (size_t i = 0; i < job->n_restart_waits; i++)
        may += job->restart_waits[i]->refusal[0] == '\0';
    if (may < job->restart_needed)
        cli_out(cli, "WAITING_FOR_NODES since %s, the same line starts on %u more: ",
                human_clock(job->state_since_ms, since), job->restart_needed - may);
    cli_out(cli, "%u of %u nodes wait", may, job->restart_needed);
    for (size_t i = 0; i < job->n_restart_waits; i++)
        cli_out(cli, "%s%s%s%s%s", i == 0 ? " (" : "; ",
                human_safe(job->restart_waits[i]->node_id, node, sizeof(node)),
                job->restart_waits[i]->refusal[0] == '\0' ? "" : " does not count, ",
                job->restart_waits[i]->refusal, i + 1 == job->n_restart_waits ? ")" : "");
    fputc('\n', cli->out);
}

/* The first cause of its last failure. */
static void print_cause(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    char node[HUMAN_BYTES], at[HUMAN_BYTES];
    const int status = (int)job->cause_wait_status;

    if (job->cause_node_id[0] == '\0')
        return;
    human_safe(job->cause_node_id, node, sizeof(node));
    human_clock(job->cause_at_ms, at);
    if (status == 0)
        cli_out(cli, " its last failure: node %s was lost, silent since %s\n", node, at);
    else if (status == -1)
        cli_out(cli, " its last failure: the application on node %s ended at %s, nobody saw how\n",
                node, at);
    else
        cli_out(cli, " its last failure: the application on node %s ended %s %d at %s\n", node,
                WIFSIGNALED(status) ? "by signal" : "with status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), at);
    if (job->requeues_used > 0)
        cli_out(cli,
                " it was restarted without a complete checkpoint as often as it may, %u of %u "
                "(max_requeue); ckptctl restart %s%s begins anew\n",
                job->requeues_used, job->requeues_used,
                job->spec == NULL ? "JOB" : job->spec->allocation_id,
                job->next_restart_checkpoint_id == 0 ? " --from-scratch" : "");
    if (job->cause_count >= 2)
        cli_out(cli, " %u failures in a row began there: the broker takes other nodes first\n",
                job->cause_count);
    if (job->cause_count >= 2 && job->restart_at_ms != 0 && job->excluded_until_ms != 0)
        cli_out(cli,
                " that node is taken not before %s, or when you name it: ckptctl restart JOB "
                "--node %s:GPUS ...\n",
                human_clock(job->excluded_until_ms, at), node);
}

/* Now; or before the run that is there, where it was restarted for it. */
static void print_hang(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    char since[HUMAN_BYTES], step[HUMAN_BYTES], text[256];

    if (job->hang_text[0] == '\0')
        return;
    human_safe(job->hang_text, text, sizeof(text));
    human_clock(job->last_step_at_ms, step);
    if (job->hung_since_ms != 0)
        cli_out(cli,
                " HUNG since %s: no rank has stepped since %s, and nothing is under way; it is not "
                "checkpointed\n  %s\n",
                human_clock(job->hung_since_ms, since), step, text);
    else
        cli_out(cli, " its last hang, from %s on: %s\n", step, text);
}

static void print_restart(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    char at[HUMAN_BYTES], chosen[256];

    if (job->restart_at_ms != 0 && job->silent_node_id[0] == '\0') {
        cli_out(cli, " the broker restarts it, from %s on\n ", human_clock(job->restart_at_ms, at));
        print_restart_waits(cli, job);
    }
    if (job->restart_refused[0] != '\0')
        cli_out(cli, " its last choice of nodes was refused at %s: %s\n",
                human_clock(job->restart_refused_at_ms, at),
                human_safe(job->restart_refused, chosen, sizeof(chosen)));
    if (job->restart_choice[0] != '\0')
        cli_out(cli, " its last restart was the broker's: %s\n",
                human_safe(job->restart_choice, chosen, sizeof(chosen)));
}

void job_waits_print(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    print_silent(cli, job);
    print_hang(cli, job);
    print_cause(cli, job);
    print_restart(cli, job);
    print_restoring(cli, job->restoring);
    if (job->spec != NULL)
        job_waits_release(cli, job->spec->allocation_id, job->release_check);
}
