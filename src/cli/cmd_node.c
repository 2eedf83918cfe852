/* ckptctl node, node disable, drain, undrain, down, remove. */
#include <inttypes.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

/* "silent since 10:31:07; no answer at 10.0.0.7:22 from n1, n2", and what follows. */
static void print_silence(struct cli *cli, const Ckpt__V1__NodeStatus *node)
{
    char since[HUMAN_BYTES], at[HUMAN_BYTES], witness[HUMAN_BYTES], evidence[256];

    if (node->silent_since_ms == 0)
        return;
    cli_out(cli, "silent since %s", human_clock(node->silent_since_ms, since));
    if (node->off_at_ms != 0)
        cli_out(cli, "; off, by the second witness %s at %s",
                human_enum(&ckpt__v1__node_witness__descriptor, (int)node->witness, witness),
                human_clock(node->off_at_ms, at));
    if (node->evidence[0] != '\0')
        cli_out(cli, "%s %s", node->off_at_ms != 0 ? ":" : ";",
                human_safe(node->evidence, evidence, sizeof(evidence)));
    fputc('\n', cli->out);
    if (strcmp(node->state, "agent_lost") == 0)
        cli_out(cli,
                " no second witness: nothing of it is begun elsewhere until its agent is heard, or "
                "until ckptctl node down %s --is-off\n",
                node->node_id);
}

static void print_life(struct cli *cli, const Ckpt__V1__NodeStatus *node, uint32_t job_count)
{
    char text[HUMAN_BYTES];

    cli_out(cli, "node %s is %s", node->node_id, node->state);
    if (node->wanted[0] != '\0' && strncmp(node->state, node->wanted, 5) != 0)
        cli_out(cli, ", to be %s when it is back",
                strcmp(node->wanted, "drain") == 0 ? "drained" : "disabled");
    cli_out(cli, "; %u jobs\n", job_count);
    if (node->drain_until_ms != 0)
        cli_out(cli, "what is there at %s is ended\n", human_clock(node->drain_until_ms, text));
    print_silence(cli, node);
    if (node->probe[0] == '\0')
        cli_out(cli, "probe: none; its machine has no witness by an address (node_probe)\n");
    else
        cli_out(cli, "probe: %s%s%s\n", node->probe, node->probed[0] == '\0' ? "" : ", ",
                node->probed);
    for (size_t i = 0; i < node->n_tools; i++)
        cli_out(cli, "%s%s", i == 0 ? "saves programs from outside by: " : "; ", node->tools[i]);
    if (node->n_tools > 0)
        fputc('\n', cli->out);
}

static void job_row(struct output_table *table, const Ckpt__V1__NodeJob *job)
{
    char text[HUMAN_BYTES];

    output_row(table);
    output_cell(table, "%s", job->allocation_id);
    output_cell(table, "%s", job->owner[0] == '\0' ? "-" : job->owner);
    output_state(table, human_enum(&ckpt__v1__allocation_state__descriptor, (int)job->state, text));
    output_cell(table, "%u", job->node_count);
    output_cell(table, "%u", job->gpu_count);
    output_cell(table, "%.1f", (double)job->unsaved_gpu_ms / 3.6e6);
    output_cell(table, "%s", human_checkpoint(job->last_complete_checkpoint_id, text));
    output_cell(table, "%s", job->copy ? "yes" : "no");
    if (job->successors == 0)
        output_cell(table, "nobody");
    else
        output_cell(table, "%u, as %s", job->successors, job->successor);
    output_cell(table, "%s", job->restarts ? "broker" : "scheduler");
}

static void print_jobs(struct cli *cli, const Ckpt__V1__GetNodeReply *reply)
{
    static const struct output_column columns[] = {{"JOB", OUTPUT_LEFT},
                                                   {"OWNER", OUTPUT_LEFT},
                                                   {"STATE", OUTPUT_LEFT},
                                                   {"NODES", OUTPUT_RIGHT},
                                                   {"GPUS", OUTPUT_RIGHT},
                                                   {"GPU-HOURS UNSAVED", OUTPUT_RIGHT},
                                                   {"LAST CHECKPOINT", OUTPUT_LEFT},
                                                   {"COPY HERE", OUTPUT_LEFT},
                                                   {"WHO COULD TAKE OVER", OUTPUT_LEFT},
                                                   {"RESTARTED BY", OUTPUT_LEFT}};
    struct output_table table;

    if (reply->n_jobs == 0)
        return;
    cli_out(cli,
            "lost if it failed now: %.1f GPU-hours of %u jobs; %u copies of checkpoints lie on "
            "it\n",
            (double)reply->unsaved_gpu_ms / 3.6e6, reply->job_count, reply->copy_count);
    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < reply->n_jobs; i++)
        job_row(&table, reply->jobs[i]);
    output_table_print(&table);
}

static void print_node(struct cli *cli, const Ckpt__V1__GetNodeReply *reply)
{
    print_life(cli, reply->node, reply->job_count);
    print_jobs(cli, reply);
    for (size_t i = 0; i < reply->n_held_jobs; i++)
        cli_out(cli, "%s%s%s", i == 0 ? "not restarted elsewhere because of it: " : ", ",
                reply->held_jobs[i], i + 1 == reply->n_held_jobs ? "\n" : "");
}

enum cli_exit command_node(struct cli *cli)
{
    Ckpt__V1__GetNodeRequest request = CKPT__V1__GET_NODE_REQUEST__INIT;
    char what[160];
    ProtobufCMessage *message;
    enum cli_exit code;

    request.node_id = cli_argument(cli, 0);
    request.stale = cli_flag(cli, "stale");
    snprintf(what, sizeof(what), "get node %.128s", request.node_id);
    code = call_read(cli, what, "OperatorService/GetNode", &request.base,
                     &ckpt__v1__get_node_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    if (!output_json_message(cli, "node", message) && !output_name(cli, request.node_id))
        print_node(cli, (const Ckpt__V1__GetNodeReply *)message);
    call_free(message);
    return CLI_OK;
}

static enum cli_exit drain_options_check(struct cli *cli)
{
    unsigned ways = (unsigned)cli_flag(cli, "urgent") + (unsigned)cli_flag(cli, "move") +
                    (unsigned)cli_flag(cli, "at-next-checkpoint");

    if (ways <= 1)
        return CLI_OK;
    return cli_fail(cli, CLI_USAGE, "ckptctl node drain NODE --move --deadline 10m",
                    "node drain takes one of --urgent, --move and --at-next-checkpoint");
}

enum cli_exit command_node_disable(struct cli *cli)
{
    Ckpt__V1__DrainNodeRequest request = CKPT__V1__DRAIN_NODE_REQUEST__INIT;
    char what[160], plan[512];
    enum cli_exit code;

    request.node_id = cli_argument(cli, 0);
    request.disable = true;
    snprintf(plan, sizeof(plan),
             "plan: disable node %.128s; every job on it is ended now, without a checkpoint, and "
             "requeued or failed as its policy says (ckptctl node %.128s shows what is lost)",
             request.node_id, request.node_id);
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "disable node %.128s", request.node_id);
    return call_mutate_simple(cli, what, "OperatorService/DrainNode", &request.base);
}

/* Of the jobs on it: how they leave, and how they stay. */
static const char *drain_plan(const Ckpt__V1__DrainNodeRequest *request)
{
    if (request->urgent)
        return "; each job on it that can write a checkpoint now is asked for one, and runs on";
    if (request->move)
        return "; each job on it leaves with a checkpoint, of now where it can write one now; a "
               "job "
               "of strategy none stays";
    if (request->at_next_checkpoint)
        return "; each job on it leaves with its next checkpoint; a job of strategy none stays";
    return "; what runs there runs on";
}

enum cli_exit command_node_drain(struct cli *cli)
{
    Ckpt__V1__DrainNodeRequest request = CKPT__V1__DRAIN_NODE_REQUEST__INIT;
    char what[160], plan[512], after[HUMAN_BYTES];
    enum cli_exit code;

    request.node_id = cli_argument(cli, 0);
    request.urgent = cli_flag(cli, "urgent");
    request.move = cli_flag(cli, "move");
    request.at_next_checkpoint = cli_flag(cli, "at-next-checkpoint");
    request.deadline_ms = cli_number(cli, "deadline", 0);
    code = drain_options_check(cli);
    if (code != CLI_OK)
        return code;
    snprintf(
        plan, sizeof(plan), "plan: drain node %.128s%s%s%s", request.node_id, drain_plan(&request),
        request.deadline_ms > 0 ? "; what is there is ended, with its last checkpoint, after " : "",
        request.deadline_ms > 0 ? human_duration(request.deadline_ms, after) : "");
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "drain node %.128s", request.node_id);
    return call_mutate_simple(cli, what, "OperatorService/DrainNode", &request.base);
}

enum cli_exit command_node_undrain(struct cli *cli)
{
    Ckpt__V1__DrainNodeRequest request = CKPT__V1__DRAIN_NODE_REQUEST__INIT;
    char what[160];

    request.node_id = cli_argument(cli, 0);
    request.undo = true;
    snprintf(what, sizeof(what), "undrain node %.128s", request.node_id);
    return call_mutate_simple(cli, what, "OperatorService/DrainNode", &request.base);
}

enum cli_exit command_node_remove(struct cli *cli)
{
    Ckpt__V1__RemoveNodeRequest request = CKPT__V1__REMOVE_NODE_REQUEST__INIT;
    char what[160], plan[256];
    enum cli_exit code;

    request.node_id = cli_argument(cli, 0);
    snprintf(plan, sizeof(plan), "plan: remove node %.128s; what is known of it is forgotten",
             request.node_id);
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "remove node %.128s", request.node_id);
    return call_mutate_simple(cli, what, "OperatorService/RemoveNode", &request.base);
}

/* The word alone opens the way to a second copy of a job, so that it has to be said in full. */
enum cli_exit command_node_down(struct cli *cli)
{
    Ckpt__V1__MarkNodeOffRequest request = CKPT__V1__MARK_NODE_OFF_REQUEST__INIT;
    char what[160], plan[384];
    enum cli_exit code;

    request.node_id = cli_argument(cli, 0);
    if (!cli_flag(cli, "is-off"))
        return cli_fail(cli, CLI_USAGE, "ckptctl node down NODE --is-off, when you know it",
                        "node down takes your word that the machine is off: it needs --is-off");
    request.witness = (Ckpt__V1__NodeWitness)cli_number(cli, "by", 0);
    cli_set_text(cli, "evidence", &request.evidence);
    snprintf(plan, sizeof(plan),
             "plan: the machine of node %.128s is off, by your word; its jobs may be restarted "
             "elsewhere. If it runs, they compute twice",
             request.node_id);
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "take node %.128s for off", request.node_id);
    return call_mutate_simple(cli, what, "OperatorService/MarkNodeOff", &request.base);
}
