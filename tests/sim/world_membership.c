/* The operator who changes the members under load: 3 to 5 and back, one replaced by another,
 * through OperatorService as ckptctl does.
 *
 * Flow     a timer: a learner that is there is promoted; else one is added (its daemon started with
 *          --join before) or a voter removed. Refusals are answers like any other: the next look
 *          decides again. Now and then it asks for what must be refused.
 * Shapes   an id is used once; slots of struct world are never used again. One request at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum { TIMEOUT_MS = 5000 };

struct member_changes {
    struct world *world;
    struct client *client;
    bool busy;
    uint64_t requests;
    uint64_t *counter; /* of the request under way */
    const char *method;
    uint64_t id;
    bool grown; /* all the voters there may be were there */
};

/* What must be refused was asked for. */
static void on_mistaken(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct member_changes *membership = data;

    (void)reply;
    membership->busy = false;
    if (status == RPC_OK)
        world_violation(membership->world, "I9",
                        "a member was added that is not there, or whose id is taken");
    membership->world->counts.turned_away += status != RPC_DEADLINE_EXCEEDED;
    if (membership->world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " membership: turned away: %s %s\n",
                sim_now_us(membership->world->sim), rpc_status_name(status), text);
}

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct member_changes *membership = data;

    (void)reply;
    membership->busy = false;
    if (status == RPC_OK) {
        ++*membership->counter;
        raft_checks_changed(membership->world, membership->method, membership->id);
    }
    if (membership->world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " membership: %s %s\n", sim_now_us(membership->world->sim),
                rpc_status_name(status), status == RPC_OK ? "" : text);
}

/* An addition gives this id the name and the addresses of slot `at`. */
static void request(struct member_changes *membership, const char *method, unsigned number,
                    unsigned at, uint64_t *counter)
{
    struct world *world = membership->world;
    Ckpt__V1__MemberRequest message = CKPT__V1__MEMBER_REQUEST__INIT;
    char id[32], name[16], raft[32], api[32];
    unsigned before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);

    snprintf(id, sizeof(id), "member-%" PRIu64, ++membership->requests);
    snprintf(name, sizeof(name), "m%u", at + 1);
    snprintf(raft, sizeof(raft), "member%u:9000", at + 1);
    snprintf(api, sizeof(api), "member%u:7443", at + 1);
    message.request_id = id;
    message.member_id = number + 1;
    if (strcmp(method, "OperatorService/AddMember") == 0) {
        message.name = name;
        message.raft_address = raft;
        message.api_address = api;
    }
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " membership: %s %u\n", sim_now_us(world->sim), method,
                number + 1);
    membership->busy = true;
    membership->counter = counter;
    membership->method = method;
    membership->id = message.member_id;
    client_call(membership->client,
                &(struct client_request){.method = method,
                                         .message = &message.base,
                                         .reply_type = &ckpt__v1__mutation_reply__descriptor,
                                         .timeout_ms = TIMEOUT_MS},
                counter == NULL ? on_mistaken : on_done, membership);
    sim_leave(world->sim, before);
}

/* Nobody is there yet; another one has the id; its owner was removed. */
static void mistake(struct member_changes *membership,
                    const struct raft_configuration *configuration)
{
    struct world *world = membership->world;
    unsigned at = world->member_count, number = at;

    switch (sim_random(world->sim, 3)) {
    case 0:
        break;
    case 1:
        number = (unsigned)configuration->servers[sim_random(world->sim, configuration->n)].id - 1;
        break;
    default:
        for (unsigned i = 0; i < world->member_count; i++)
            if (world->members[i].removed)
                at = number = i;
    }
    request(membership, "OperatorService/AddMember", number, at, NULL);
}

/* One that was started and is not in the configuration yet, or a new one; WORLD_MEMBERS_MAX: none
 * is left. */
static unsigned joiner(struct world *world)
{
    unsigned number = world->options.replicas;

    while (number < world->member_count &&
           (world->members[number].removed || world->members[number].lost ||
            member_counts(world, &world->members[number])))
        number++;
    if (number < world->member_count || number == WORLD_MEMBERS_MAX)
        return number;
    world->member_count++;
    member_init(world, number);
    member_start(&world->members[number]);
    return number;
}

/* Somebody has lost its data, or may have. */
static bool anyone_rotten(const struct world *world)
{
    bool rotten = false;

    for (unsigned i = 0; i < world->member_count; i++)
        rotten |= world->members[i].rotten;
    return rotten;
}

/* Two of the beginning stay: only these are known to agents and schedulers. */
static bool may_go(const struct world *world, const struct raft_configuration *configuration,
                   unsigned number)
{
    unsigned known = 0;

    for (unsigned i = 0; i < configuration->n; i++)
        known += configuration->servers[i].id <= world->options.replicas;
    if (anyone_rotten(world) &&
        !faults_leave_majority(world, configuration, WORLD_MEMBERS_MAX, number))
        return false;
    return number >= world->options.replicas || known > 2;
}

/* 3 -> 5 -> 3 */
static void count_growth(struct member_changes *membership, unsigned voters, unsigned least,
                         unsigned most)
{
    if (voters >= most)
        membership->grown = true;
    if (voters > least || !membership->grown)
        return;
    membership->grown = false;
    membership->world->counts.grown_and_back++;
}

static void change(struct member_changes *membership)
{
    struct world *world = membership->world;
    struct world_member *leader = members_leader(world);
    const struct raft_configuration *configuration;
    const unsigned least = world->options.replicas == 1 ? 1 : 3, most = least + 2;
    unsigned voters = 0, learner = WORLD_MEMBERS_MAX, number;

    if (leader == NULL || membership->busy)
        return;
    configuration = &member_consensus(leader)->raft.configuration;
    for (unsigned i = 0; i < configuration->n; i++) {
        voters += configuration->servers[i].role == RAFT_VOTER;
        if (configuration->servers[i].role != RAFT_VOTER)
            learner = (unsigned)configuration->servers[i].id - 1;
    }
    count_growth(membership, voters, least, most);
    if (world->options.mistakes > 0 && sim_random(world->sim, 100) < world->options.mistakes) {
        mistake(membership, configuration);
    } else if (learner != WORLD_MEMBERS_MAX && !sim_chance(world->sim, 10)) {
        if (world->members[learner].rotten)
            return; /* it would be missing in every majority once it notices */
        request(membership, "OperatorService/PromoteMember", learner, learner,
                &world->counts.promoted);
    } else if (voters < most && (voters <= least || sim_chance(world->sim, 2))) {
        number = joiner(world);
        if (number < WORLD_MEMBERS_MAX)
            request(membership, "OperatorService/AddMember", number, number, &world->counts.added);
    } else {
        number = (unsigned)configuration->servers[sim_random(world->sim, configuration->n)].id - 1;
        if (may_go(world, configuration, number))
            request(membership, "OperatorService/RemoveMember", number, number,
                    &world->counts.removed);
    }
}

static void on_timer(void *data)
{
    struct member_changes *membership = data;
    struct world *world = membership->world;
    uint64_t mean_us = (uint64_t)60 * SECOND_US / world->options.membership;

    if (world->phase != WORLD_CHAOS)
        return;
    change(membership);
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * mean_us), on_timer,
              membership);
}

void changes_start(struct world *world)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct member_changes *membership;
    struct err err;

    if (world->options.membership == 0)
        return;
    membership = check_calloc(1, sizeof(*membership));
    membership->world = world;
    CHECK(client_new(&world->scheduler_loops[0].uv, &config, &membership->client, &err) == 0);
    world->changes = membership;
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, membership);
}

void changes_close(struct world *world)
{
    if (world->changes == NULL)
        return;
    client_free(world->changes->client);
    free(world->changes);
}
