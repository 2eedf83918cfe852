/* `ckptctl cluster adopt`: a cluster that began from a backup takes over what its state names. The
 * plan tells what that is, since the cluster that was backed up may still run. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/output.h"

enum {
    ADOPT_NAMES_BYTES = 2048,
    ADOPT_LINE_BYTES = 768,
    ADOPT_NOTE_BYTES = 480,
    ADOPT_PLAN_BYTES = 8192
};

/* How many there are, and the names of the first ones. */
struct adopt_names {
    size_t count;
    size_t used;
    char text[ADOPT_NAMES_BYTES];
};

static void name_add(struct adopt_names *names, const char *name)
{
    const size_t room = sizeof(names->text) - names->used;
    int length;

    names->count++;
    if (names->used >= sizeof(names->text) - 8)
        return;
    length = snprintf(names->text + names->used, room, "%s%s", names->count == 1 ? "" : " ", name);
    if (length >= 0 && (size_t)length + 4 < room) {
        names->used += (size_t)length;
    } else { /* the rest is counted */
        snprintf(names->text + names->used, room, "%s", " ...");
        names->used = sizeof(names->text);
    }
}

static void take_nodes(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListNodesReply *reply = (const Ckpt__V1__ListNodesReply *)page;

    for (size_t i = 0; i < reply->n_nodes; i++)
        name_add(context, reply->nodes[i]->node_id);
}

static void take_jobs(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListAllocationsReply *reply = (const Ckpt__V1__ListAllocationsReply *)page;

    for (size_t i = 0; i < reply->n_allocations; i++) {
        const Ckpt__V1__Allocation *one = reply->allocations[i];

        if (one->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED &&
            one->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED)
            name_add(context, one->spec->allocation_id);
    }
}

/* The note of a cluster that writes there: KEY=VALUE lines, where this machine has the folder. It
 * is shown as it is, but for what a terminal would obey. */
static void note_of(const char *path, char ret_text[ADOPT_LINE_BYTES])
{
    FILE *file = fopen(path, "re");
    size_t length;

    if (file == NULL)
        return;
    ret_text[0] = ':';
    ret_text[1] = ' ';
    length = 2 + fread(ret_text + 2, 1, ADOPT_NOTE_BYTES, file);
    fclose(file);
    ret_text[length] = '\0';
    for (char *c = ret_text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = ' ';
}

static void name_target(struct adopt_names *names, const Ckpt__V1__TargetSpec *spec)
{
    char line[ADOPT_LINE_BYTES], pattern[ADOPT_LINE_BYTES], note[ADOPT_LINE_BYTES] = "";
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%.200s/.cluster.*", spec->prefix);
    if (spec->prefix[0] == '/' && glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            note_of(found.gl_pathv[i], note);
        globfree(&found);
    }
    snprintf(line, sizeof(line), "\n    %.60s (%.150s)%.520s", spec->target_id, spec->prefix, note);
    name_add(names, line);
}

static enum cli_exit read_targets(struct cli *cli, struct adopt_names *names)
{
    Ckpt__V1__ListTargetsRequest request = CKPT__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *message;
    enum cli_exit code =
        call_read(cli, "list targets", "OperatorService/ListTargets", &request.base,
                  &ckpt__v1__list_targets_reply__descriptor, &message);

    if (code != CLI_OK)
        return code;
    const Ckpt__V1__ListTargetsReply *reply = (const Ckpt__V1__ListTargetsReply *)message;

    for (size_t i = 0; i < reply->n_targets; i++)
        name_target(names, reply->targets[i]->spec);
    call_free(message);
    return CLI_OK;
}

static enum cli_exit read_plan(struct cli *cli, char plan[ADOPT_PLAN_BYTES])
{
    Ckpt__V1__ListNodesRequest nodes = CKPT__V1__LIST_NODES_REQUEST__INIT;
    Ckpt__V1__ListAllocationsRequest jobs = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    struct adopt_names of_targets = {0}, of_nodes = {0}, of_jobs = {0};
    enum cli_exit code = read_targets(cli, &of_targets);

    if (code == CLI_OK)
        code = call_read_pages(cli, "list nodes", "OperatorService/ListNodes", &nodes.base,
                               &ckpt__v1__list_nodes_reply__descriptor,
                               &(struct call_taker){take_nodes, &of_nodes});
    if (code == CLI_OK)
        code = call_read_pages(cli, "list jobs", "BrokerService/ListAllocations", &jobs.base,
                               &ckpt__v1__list_allocations_reply__descriptor,
                               &(struct call_taker){take_jobs, &of_jobs});
    snprintf(plan, ADOPT_PLAN_BYTES,
             "plan: this cluster takes over\n"
             "  %zu targets, where it writes and removes: %s\n"
             "  %zu nodes, which hear its orders: %s\n"
             "  %zu jobs that have not ended: %s\n"
             "no other cluster may use these any more: the one that was backed up must be stopped "
             "for good",
             of_targets.count, of_targets.text, of_nodes.count, of_nodes.text, of_jobs.count,
             of_jobs.text);
    return code;
}

enum cli_exit command_cluster_adopt(struct cli *cli)
{
    Ckpt__V1__AdoptClusterRequest request = CKPT__V1__ADOPT_CLUSTER_REQUEST__INIT;
    char plan[ADOPT_PLAN_BYTES];
    enum cli_exit code = read_plan(cli, plan);

    if (code == CLI_OK)
        code = call_confirm(cli, plan);
    if (code == CLI_OK)
        code = call_mutate_simple(cli, "adopt the cluster", "OperatorService/AdoptCluster",
                                  &request.base);
    return code;
}
