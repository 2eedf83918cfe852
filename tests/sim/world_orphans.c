/* What a store carries out late: checkpoints whose records have gone (I54), and the operator who
 * looks for them and lets them go.
 *
 * Flow     a folder is removed -> orphans_collected() draws whether a part of it is written once
 *          more, seconds later -> scans of the leader and of nodes (orphans_page()) find it -> a
 *          timer lists orphans, and has some of what it was shown removed; now and then it names
 *          one of which there is a record.
 * Shapes   LATE_MAX folders in a run. Ages are not simulated: what is being written is found as
 *          well, and the record alone keeps it. Every folder has this cluster's mark.
 *          After healing it goes on until nothing late is left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "fsm/orphans.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"
#include "tests/sim/agent_store.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum {
    LATE_MAX = 64,
    LATE_US = 6000000,
    PATH_BYTES = 512,
    SWEEP_US = 400000,
    TIMEOUT_MS = 4000,
    SHOWN_MAX = 8,
    LINES_PER_PAGE = 3
};

struct late {
    struct world *world;
    char path[PATH_BYTES];
    bool there; /* it has been carried out */
};

/* As it was listed; texts are of the copy. */
struct shown {
    uint64_t id;
    char allocation_id[ID_MAX_BYTES + 1], tenant[ID_MAX_BYTES + 1], project[ID_MAX_BYTES + 1];
    char target_id[ID_MAX_BYTES + 1];
};

struct orphan_checks {
    struct world *world;
    struct client *client;
    bool asks; /* a call is under way */
    uint64_t requests;
    char token[32];
    struct shown shown[SHOWN_MAX];
    size_t shown_count;
    struct late late[LATE_MAX];
    size_t late_count;
    uint64_t *removed; /* checkpoints, as often as their folder was */
    size_t removed_count, removed_capacity;
};

/* ---- what comes late ---- */

static bool lies_there(const char *path)
{
    const char *at, *part;
    bool damaged;

    for (size_t i = 0; agent_store_shard(world_shipping_store(), i, &at, &part, &damaged); i++)
        if (strcmp(at, path) == 0)
            return true;
    return false;
}

static void carry_out(void *data)
{
    static const struct agent_store_file file = {"late", "late"};
    struct late *late = data;
    char manifest[AGENT_STORE_MANIFEST_BYTES];

    if (late->world->phase != WORLD_CHAOS)
        return;
    late->there = true;
    agent_store_publish(world_shipping_store(), late->path, "part-0000", &file, 1, manifest);
    late->world->counts.late++;
}

static void note_removed(struct orphan_checks *checks, const char *path)
{
    const char *last = strrchr(path, '/');
    uint64_t id;

    CHECK(last != NULL && checkpoint_id_parse(last + 1, &id) == 0);
    if (checks->removed_count == checks->removed_capacity) {
        checks->removed_capacity =
            checks->removed_capacity == 0 ? 64 : 2 * checks->removed_capacity;
        checks->removed =
            check_realloc(checks->removed, checks->removed_capacity, sizeof(*checks->removed));
    }
    checks->removed[checks->removed_count++] = id;
}

static bool was_removed(const struct orphan_checks *checks, uint64_t id)
{
    for (size_t i = 0; i < checks->removed_count; i++)
        if (checks->removed[i] == id)
            return true;
    return false;
}

void orphans_collected(struct world *world, const char *path)
{
    struct orphan_checks *checks = world->orphans;
    struct late *late;

    note_removed(checks, path);
    if (world->options.late_writes == 0 || world->phase != WORLD_CHAOS ||
        world_shipping_store() == NULL || checks->late_count == LATE_MAX ||
        sim_random(world->sim, 100) >= world->options.late_writes)
        return;
    late = &checks->late[checks->late_count++];
    late->world = world;
    snprintf(late->path, sizeof(late->path), "%s", path);
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, LATE_US), carry_out, late);
}

/* Folders are their users', and nodes that are drained are asked for nothing. One whose removal is
 * not in the state yet has its record still, and will be removed again. */
static bool should_go(struct world *world, const char *path)
{
    const struct world_member *leader = members_leader(world);
    uint64_t id = 0;

    CHECK(checkpoint_id_parse(strrchr(path, '/') + 1, &id) == 0);
    if (leader == NULL || !fsm_is_orphan(member_fsm(leader), id))
        return false;
    for (unsigned i = 0; i < world->options.agents; i++) {
        const struct fsm_node *node = fsm_node_find(member_fsm(leader), world->agents[i].name);

        if (node != NULL && node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
            return true;
    }
    return false;
}

const char *orphans_left(struct world *world)
{
    static char text[PATH_BYTES + 64];
    const struct orphan_checks *checks = world->orphans;

    text[0] = '\0';
    if (checks->asks)
        return "answers to who looks for orphans";
    for (size_t i = 0; i < checks->late_count && text[0] == '\0'; i++)
        if (checks->late[i].there && lies_there(checks->late[i].path) &&
            should_go(world, checks->late[i].path))
            snprintf(text, sizeof(text), "%s was written late, and lies there",
                     checks->late[i].path);
    return text;
}

/* ---- scans ---- */

/* The first path behind `after`, in the order of bytes; NULL: there is none. */
static const char *next_path(const char *prefix, const char *after)
{
    const char *best = NULL, *path, *part;
    size_t length = strlen(prefix);
    bool damaged;

    for (size_t i = 0; agent_store_shard(world_shipping_store(), i, &path, &part, &damaged); i++)
        if (strncmp(path, prefix, length) == 0 && path[length] == '/' &&
            strcmp(path + length + 1, after) > 0 && (best == NULL || strcmp(path, best) < 0))
            best = path;
    return best == NULL ? NULL : best + length + 1;
}

void orphans_page(const char *prefix, const char *after, bool control, char *text, size_t size)
{
    unsigned looked = 0, denied = 0;
    size_t length = 0;
    const char *path = world_shipping_store() == NULL ? NULL : next_path(prefix, after);

    text[0] = '\0';
    for (; path != NULL && looked < LINES_PER_PAGE; path = next_path(prefix, path)) {
        after = path;
        looked++;
        if (control && retention_hides(path))
            denied++;
        else
            length += (size_t)snprintf(text + length, size - length, "found=1000 100000 alice %s\n",
                                       path);
        CHECK(length < size);
    }
    length += (size_t)snprintf(
        text + length, size - length, "looked=%u\nforeign=0\ndenied=%u\n%s%s%s", looked, denied,
        path == NULL ? "" : "next=", path == NULL ? "" : after, path == NULL ? "" : "\n");
    CHECK(length < size);
}

/* ---- who lets them go ---- */

/* I54: all of its folder was removed before, and the state that answers has no record of it. */
static void take_list(struct orphan_checks *checks, const Ckpt__V1__ListOrphansReply *reply)
{
    struct world *world = checks->world;

    text_copy(checks->token, sizeof(checks->token), reply->next_page_token);
    for (size_t i = 0; i < reply->n_orphans; i++) {
        const Ckpt__V1__Orphan *orphan = reply->orphans[i];
        struct shown *shown = &checks->shown[checks->shown_count];

        if (!was_removed(checks, orphan->checkpoint_id))
            world_violation(world, "I54", "%s is shown as an orphan, and was never removed",
                            orphan->path);
        world->counts.orphans_shown++;
        if (checks->shown_count == SHOWN_MAX)
            continue;
        checks->shown_count++;
        shown->id = orphan->checkpoint_id;
        text_copy(shown->allocation_id, sizeof(shown->allocation_id), orphan->allocation_id);
        text_copy(shown->tenant, sizeof(shown->tenant), orphan->tenant);
        text_copy(shown->project, sizeof(shown->project), orphan->project);
        text_copy(shown->target_id, sizeof(shown->target_id), orphan->target_id);
    }
}

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct orphan_checks *checks = data;

    checks->asks = false;
    if (status == RPC_INTERNAL || status == RPC_UNKNOWN || status == RPC_UNIMPLEMENTED ||
        status == RPC_INVALID_ARGUMENT)
        world_violation(checks->world, "API", "orphans: %s: %s", rpc_status_name(status), text);
    if (status != RPC_OK)
        checks->token[0] = '\0';
    else if (reply->descriptor == &ckpt__v1__list_orphans_reply__descriptor)
        take_list(checks, (const void *)reply);
}

static void ask(struct orphan_checks *checks, const char *method, const ProtobufCMessage *message,
                const ProtobufCMessageDescriptor *reply)
{
    unsigned before = sim_enter(checks->world->sim, WORLD_SCHEDULER_NODE);

    checks->asks = true;
    client_call(
        checks->client,
        &(struct client_request){
            .method = method, .message = message, .reply_type = reply, .timeout_ms = TIMEOUT_MS},
        on_done, checks);
    sim_leave(checks->world->sim, before);
}

static void ask_list(struct orphan_checks *checks)
{
    Ckpt__V1__ListOrphansRequest message = CKPT__V1__LIST_ORPHANS_REQUEST__INIT;

    message.page_size = 1 + (uint32_t)sim_random(checks->world->sim, SHOWN_MAX);
    message.page_token = checks->token;
    message.scan = checks->token[0] == '\0' && sim_chance(checks->world->sim, 3);
    ask(checks, "OperatorService/ListOrphans", &message.base,
        &ckpt__v1__list_orphans_reply__descriptor);
}

/* The last complete one of some job, as if a scan had found it. */
static void add_known(struct orphan_checks *checks)
{
    struct world *world = checks->world;
    const struct world_member *leader = members_leader(world);
    const struct world_job *job =
        world->job_count == 0 ? NULL : &world->jobs[sim_random(world->sim, world->job_count)];
    const struct fsm_allocation *allocation =
        leader == NULL || job == NULL ? NULL : fsm_allocation_find(member_fsm(leader), job->id);
    struct shown *shown = &checks->shown[checks->shown_count];

    if (allocation == NULL || allocation->last_complete_id == 0 || checks->shown_count == SHOWN_MAX)
        return;
    checks->shown_count++;
    shown->id = allocation->last_complete_id;
    text_copy(shown->allocation_id, sizeof(shown->allocation_id), allocation->id);
    text_copy(shown->tenant, sizeof(shown->tenant), allocation->tenant);
    text_copy(shown->project, sizeof(shown->project), allocation->project);
    text_copy(shown->target_id, sizeof(shown->target_id), world->targets[0].id);
}

static void ask_remove(struct orphan_checks *checks)
{
    Ckpt__V1__RemoveOrphansRequest message = CKPT__V1__REMOVE_ORPHANS_REQUEST__INIT;
    Ckpt__V1__Orphan orphans[SHOWN_MAX], *pointers[SHOWN_MAX];
    char id[48];

    if (sim_chance(checks->world->sim, 4))
        add_known(checks);
    for (size_t i = 0; i < checks->shown_count; i++) {
        struct shown *shown = &checks->shown[i];
        Ckpt__V1__Orphan *orphan = pointers[i] = &orphans[i];

        ckpt__v1__orphan__init(orphan);
        orphan->checkpoint_id = shown->id;
        orphan->allocation_id = shown->allocation_id;
        orphan->tenant = shown->tenant;
        orphan->project = shown->project;
        orphan->target_id = shown->target_id;
    }
    snprintf(id, sizeof(id), "orphans-%" PRIu64, ++checks->requests);
    message.request_id = id;
    message.n_orphans = checks->shown_count;
    message.orphans = pointers;
    ask(checks, "OperatorService/RemoveOrphans", &message.base,
        &ckpt__v1__mutation_reply__descriptor);
    checks->shown_count = 0;
}

static void on_timer(void *data)
{
    struct orphan_checks *checks = data;
    struct world *world = checks->world;

    if (world->phase == WORLD_OVER)
        return;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * SWEEP_US), on_timer,
              checks);
    if (checks->asks || (world->phase == WORLD_HEALED && orphans_left(world)[0] == '\0'))
        return;
    if (checks->shown_count > 0)
        ask_remove(checks);
    else
        ask_list(checks);
}

/* ---- life ---- */

void orphans_init(struct world *world)
{
    world->orphans = check_calloc(1, sizeof(*world->orphans));
    world->orphans->world = world;
}

void orphans_start(struct world *world)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct err err;

    if (world->options.late_writes == 0 || world_shipping_store() == NULL)
        return;
    CHECK(client_new(&world->scheduler_loops[0].uv, &config, &world->orphans->client, &err) == 0);
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, world->orphans);
}

/* Before the loops go. */
void orphans_stop(struct world *world)
{
    if (world->orphans->client != NULL)
        client_free(world->orphans->client);
    world->orphans->client = NULL;
}

void orphans_close(struct world *world)
{
    free(world->orphans->removed);
    free(world->orphans);
}
