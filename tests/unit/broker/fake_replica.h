/* A replica of one for tests of the leader's duties: the real state machine, no log, a clock that
 * the test moves.
 *
 * Flow     fake_new() -> broker -> X_new(broker) -> fake_serve() -> fake_advance_ms() ... ->
 *          fake_free(). replica_propose() validates and queues; fake_settle() applies what is
 *          queued and fires what is due, until nothing is left.
 * Shapes   defines every function of src/broker/replica/replica.h, so that the real one is not
 *          linked. Included once per test program.
 */
#ifndef CKPT_TESTS_UNIT_BROKER_FAKE_REPLICA_H
#define CKPT_TESTS_UNIT_BROKER_FAKE_REPLICA_H

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "tests/support/test.h"

enum { FAKE_EPOCH_MS = 1000000000 };

struct fake_timer {
    struct list node;
    struct fake *fake;
    bool armed;
    uint64_t due_us;
    void (*fire)(void *data);
    void *data;
};

struct fake_proposal {
    struct list node;
    struct buf entry;
    replica_done_fn *done;
    void *data;
};

struct replica {
    struct fsm *fsm;
    struct list observers;
    struct list proposals;
    bool serving;
    bool refuse; /* proposals fail with ERR_UNAVAILABLE */
    uint64_t index, term, proposed_count;
    size_t waiting_count, waiting_max; /* of proposals at a time */
    uint64_t leader_id;
    const struct consensus_status *status; /* NULL: one voter that is not connected */
    struct replica_words words;
    struct replica_clock wall_clock; /* beside the other members' */
    bool clock_told_off, reluctant;
    const char *contact_of_2; /* as member 2 says of itself; NULL: it did not */
    struct clock_ops clock;
};

struct fake {
    uint64_t now_us;
    int64_t wall_step_ms; /* the wall clock beside the monotonic one */
    struct list timers;
    struct replica replica;
    struct config config;
    struct broker broker;
};

/* ---- clock ---- */

static uint64_t fake_monotonic_us(void *context)
{
    return ((struct fake *)context)->now_us;
}

static uint64_t fake_wall_ms(void *context)
{
    struct fake *fake = context;

    return FAKE_EPOCH_MS + fake->now_us / 1000 + (uint64_t)fake->wall_step_ms;
}

static struct clock_timer *fake_timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct fake *fake = context;
    struct fake_timer *timer = check_calloc(1, sizeof(*timer));

    timer->fake = fake;
    timer->fire = fire;
    timer->data = data;
    list_push_back(&fake->timers, &timer->node);
    return (struct clock_timer *)(void *)timer;
}

static void fake_timer_start(struct clock_timer *handle, uint64_t delay_us)
{
    struct fake_timer *timer = (struct fake_timer *)(void *)handle;

    timer->armed = true;
    timer->due_us = timer->fake->now_us + delay_us;
}

static void fake_timer_stop(struct clock_timer *handle)
{
    ((struct fake_timer *)(void *)handle)->armed = false;
}

static void fake_timer_free(struct clock_timer *handle)
{
    struct fake_timer *timer = (struct fake_timer *)(void *)handle;

    if (timer == NULL)
        return;
    list_remove(&timer->node);
    free(timer);
}

static struct fake_timer *fake_earliest(const struct fake *fake)
{
    struct fake_timer *earliest = NULL;

    for (struct list *node = fake->timers.next; node != &fake->timers; node = node->next) {
        struct fake_timer *timer = LIST_ITEM(node, struct fake_timer, node);

        if (timer->armed && (earliest == NULL || timer->due_us < earliest->due_us))
            earliest = timer;
    }
    return earliest;
}

/* ---- replica ---- */

void replica_observe(struct replica *replica, struct replica_observer *observer)
{
    list_push_back(&replica->observers, &observer->node);
}

void replica_propose(struct replica *replica, Ckpt__Log__V1__Command *command,
                     replica_done_fn *done, void *data)
{
    Ckpt__Log__V1__Entry entry = CKPT__LOG__V1__ENTRY__INIT;
    struct fsm_outcome outcome = {0};
    struct fake_proposal *proposal;
    struct err err;

    if (!replica->serving || replica->refuse) {
        err_set(&err, ERR_UNAVAILABLE, "not the leader");
        if (done != NULL)
            done(data, &err, NULL);
        return;
    }
    command->now_ms = replica_wall_ms(replica);
    outcome.status = fsm_validate_command(command, &outcome);
    if (outcome.status != FSM_OK) {
        if (done != NULL)
            done(data, NULL, &outcome);
        return;
    }
    replica->proposed_count++;
    if (++replica->waiting_count > replica->waiting_max)
        replica->waiting_max = replica->waiting_count;
    proposal = check_calloc(1, sizeof(*proposal));
    proposal->done = done;
    proposal->data = data;
    entry.n_commands = 1;
    entry.commands = &command;
    buf_init(&proposal->entry);
    ckpt__log__v1__entry__pack(
        &entry, buf_extend(&proposal->entry, ckpt__log__v1__entry__get_packed_size(&entry)));
    list_push_back(&replica->proposals, &proposal->node);
}

struct fake_outcome {
    struct fsm_outcome outcome;
};

static void fake_on_outcome(void *context, size_t command_index, const struct fsm_outcome *outcome)
{
    (void)command_index;
    ((struct fake_outcome *)context)->outcome = *outcome;
}

static void fake_tell(struct replica *replica, int what)
{
    for (struct list *node = replica->observers.next; node != &replica->observers;
         node = node->next) {
        struct replica_observer *observer = LIST_ITEM(node, struct replica_observer, node);
        void (*tell)(void *) = what == 0   ? observer->serving
                               : what == 1 ? observer->not_serving
                                           : observer->applied;

        if (tell != NULL)
            tell(observer->context);
    }
}

static void fake_apply_one(struct replica *replica)
{
    struct fake_proposal *proposal = LIST_ITEM(replica->proposals.next, struct fake_proposal, node);
    struct fake_outcome got;

    list_remove(&proposal->node);
    replica->waiting_count--;
    fsm_apply_entry(replica->fsm,
                    &(struct fsm_entry){++replica->index, replica->term, proposal->entry.bytes,
                                        proposal->entry.length},
                    fake_on_outcome, &got);
    if (proposal->done != NULL)
        proposal->done(proposal->data, NULL, &got.outcome);
    fake_tell(replica, 2);
    buf_close(&proposal->entry);
    free(proposal);
}

void replica_read(struct replica *replica, replica_done_fn *done, void *data)
{
    (void)replica;
    done(data, NULL, NULL);
}

bool replica_serving(const struct replica *replica)
{
    return replica->serving;
}

const struct fsm *replica_fsm(const struct replica *replica)
{
    return replica->fsm;
}

struct fsm *replica_fsm_mutable(struct replica *replica)
{
    return replica->fsm;
}

const char *replica_member_contact(struct replica *replica, uint64_t member_id)
{
    return member_id == 2 && replica->contact_of_2 != NULL ? replica->contact_of_2 : "";
}

void replica_get_status(const struct replica *replica, struct consensus_status *ret_status)
{
    if (replica->status != NULL) {
        *ret_status = *replica->status;
        return;
    }
    memset(ret_status, 0, sizeof(*ret_status));
    ret_status->member_id = 1;
    ret_status->leader_id = replica->leader_id;
    ret_status->role = replica->serving ? CONSENSUS_LEADER : CONSENSUS_FOLLOWER;
    ret_status->term = replica->term;
    ret_status->quorum = replica->leader_id != 0;
    ret_status->accepts_writes = true;
    ret_status->commit_index = ret_status->applied_index = ret_status->last_index = replica->index;
    ret_status->peer_count = 1;
    ret_status->peers[0] = (struct consensus_peer_status){.id = 2, .voter = true};
}

uint64_t replica_leader_id(const struct replica *replica)
{
    struct consensus_status status;

    replica_get_status(replica, &status);
    return status.leader_id;
}

uint64_t replica_state_ms(struct replica *replica)
{
    struct fsm_summary summary;
    uint64_t wall_ms = replica->clock.wall_ms(replica->clock.context);

    fsm_get_summary(replica->fsm, &summary);
    return summary.now_ms > wall_ms ? summary.now_ms : wall_ms;
}

bool replica_clock_look(struct replica *replica)
{
    bool changed = replica->clock_told_off != replica->wall_clock.off;

    replica->clock_told_off = replica->wall_clock.off;
    return changed;
}

void replica_clock_get(const struct replica *replica, struct replica_clock *ret_clock)
{
    *ret_clock = replica->wall_clock;
}

bool replica_clock_of(const struct replica *replica, uint64_t member_id, int64_t *ret_offset_ms)
{
    (void)replica;
    (void)member_id;
    (void)ret_offset_ms;
    return false;
}

void replica_set_words(struct replica *replica, const struct replica_words *words)
{
    replica->words = *words;
}

void replica_set_reluctant(struct replica *replica, bool reluctant)
{
    replica->reluctant = reluctant;
}

uint64_t replica_wall_ms(const struct replica *replica)
{
    return replica->clock.wall_ms(replica->clock.context);
}

size_t replica_waiting(const struct replica *replica)
{
    (void)replica;
    return 0;
}

size_t replica_hashes(const struct replica *replica, struct replica_hash *ret_hashes, size_t max)
{
    (void)replica;
    (void)ret_hashes;
    (void)max;
    return 0;
}

void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats)
{
    (void)replica;
    memset(ret_stats, 0, sizeof(*ret_stats));
    ret_stats->commit_us[11] = 3; /* under 2.048 ms */
    ret_stats->commit_us_total = 5000;
}

/* ---- the test's side ---- */

__attribute__((unused)) static void fake_settle(struct fake *fake)
{
    for (;;) {
        struct fake_timer *timer = fake_earliest(fake);

        if (!list_empty(&fake->replica.proposals)) {
            fake_apply_one(&fake->replica);
        } else if (timer != NULL && timer->due_us <= fake->now_us) {
            timer->armed = false;
            timer->fire(timer->data);
        } else {
            return;
        }
    }
}

__attribute__((unused)) static void fake_advance_ms(struct fake *fake, uint64_t ms)
{
    uint64_t end_us = fake->now_us + ms * 1000;
    struct fake_timer *timer;

    fake_settle(fake);
    while ((timer = fake_earliest(fake)) != NULL && timer->due_us <= end_us) {
        if (timer->due_us > fake->now_us)
            fake->now_us = timer->due_us;
        fake_settle(fake);
    }
    fake->now_us = end_us;
    fake_settle(fake);
}

__attribute__((unused)) static void fake_serve(struct fake *fake)
{
    fake->replica.term++;
    fake->replica.serving = true;
    fake->replica.leader_id = 1;
    fake_tell(&fake->replica, 0);
    fake_settle(fake);
}

/* The command's outcome after it was applied. */
static void fake_take_outcome(void *data, const struct err *failed,
                              const struct fsm_outcome *outcome)
{
    assert_null(failed);
    *(struct fsm_outcome *)data = *outcome;
}

__attribute__((unused)) static struct fsm_outcome fake_do(struct fake *fake,
                                                          Ckpt__Log__V1__Command *command)
{
    struct fsm_outcome outcome = {.status = FSM_UNIMPLEMENTED};
    bool serving = fake->replica.serving;

    fake->replica.serving = true;
    replica_propose(&fake->replica, command, fake_take_outcome, &outcome);
    while (!list_empty(&fake->replica.proposals))
        fake_apply_one(&fake->replica);
    fake->replica.serving = serving;
    return outcome;
}

__attribute__((unused)) static void fake_set_level(struct fake *fake, uint32_t level)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    command.request_id = (char[]){"level"};
    policy.feature_level = level;
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

__attribute__((unused)) static void fake_stop_serving(struct fake *fake)
{
    fake->replica.serving = false;
    fake->replica.leader_id = 0;
    while (!list_empty(&fake->replica.proposals)) {
        struct fake_proposal *proposal =
            LIST_ITEM(fake->replica.proposals.next, struct fake_proposal, node);
        struct err err;

        err_set(&err, ERR_TIMEOUT, "leadership was lost");
        list_remove(&proposal->node);
        fake->replica.waiting_count--;
        if (proposal->done != NULL)
            proposal->done(proposal->data, &err, NULL);
        buf_close(&proposal->entry);
        free(proposal);
    }
    fake_tell(&fake->replica, 1);
}

/* A cluster with one POSIX target "scratch" of 10 GB/s (budget 7 GB/s) and the given policy (fields
 * at 0: defaults). */
static void fake_init_cluster(struct fake *fake, const Ckpt__V1__Policy *policy)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__ClusterInit init = CKPT__LOG__V1__CLUSTER_INIT__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT;
    Ckpt__V1__TargetSpec *targets[] = {&target};
    Ckpt__V1__Policy copy = *policy;
    struct fsm_outcome outcome;

    target.target_id = (char[]){"scratch"};
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.prefix = (char[]){"/scratch"};
    target.write_bytes_per_s = UINT64_C(10000000000);
    target.staging_share_ppm = 300000;
    target.is_default = true;
    target.pool = CKPT__V1__POOL__POOL_SENSITIVE;
    target.encrypted = target.hot_only = CKPT__V1__ASSURED__ASSURED_YES;
    init.cluster_id = (char[]){"test"};
    init.epoch = 1;
    init.policy = &copy;
    init.n_targets = 1;
    init.targets = targets;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT;
    command.cluster_init = &init;
    outcome = fake_do(fake, &command);
    assert_int_equal(outcome.status, FSM_OK);
}

__attribute__((unused)) static struct fake *fake_new(const Ckpt__V1__Policy *policy)
{
    struct fake *fake = check_calloc(1, sizeof(*fake));
    static const Ckpt__V1__Policy defaults = CKPT__V1__POLICY__INIT;
    static char name[] = "n1", api[] = "127.0.0.1:7443";

    list_init(&fake->timers);
    list_init(&fake->replica.observers);
    list_init(&fake->replica.proposals);
    fake->now_us = 1000000;
    fake->replica.fsm = fsm_new();
    fake->broker.clock = (struct clock_ops){.context = fake,
                                            .monotonic_us = fake_monotonic_us,
                                            .wall_ms = fake_wall_ms,
                                            .timer_new = fake_timer_new,
                                            .timer_start = fake_timer_start,
                                            .timer_stop = fake_timer_stop,
                                            .timer_free = fake_timer_free};
    fake->replica.clock = fake->broker.clock;
    fake->config.storage_watch = (struct config_storage_watch){
        .interval_ms = 5000, .timeout_ms = 5000, .failures_down = 3, .successes_up = 2};
    fake->config.members[0] = (struct config_member){.id = 1, .name = name, .api = api};
    fake->config.member_count = 1;
    fake->config.self = &fake->config.members[0];
    fake->broker.config = &fake->config;
    fake->broker.replica = &fake->replica;
    fake_init_cluster(fake, policy != NULL ? policy : &defaults);
    return fake;
}

__attribute__((unused)) static void fake_free(struct fake *fake)
{
    assert_true(list_empty(&fake->timers));
    assert_true(list_empty(&fake->replica.proposals));
    fsm_free(fake->replica.fsm);
    free(fake);
}

/* Of the job's part on the node. */
__attribute__((unused)) static uint64_t fake_run(const struct fake *fake, const char *job_id,
                                                 const char *node_id)
{
    const struct fsm_allocation *job = fsm_allocation_find(fake->replica.fsm, job_id);

    for (uint32_t i = 0; job != NULL && i < job->node_count; i++)
        if (strcmp(fsm_node_name(fake->replica.fsm, job->nodes[i].node_slot), node_id) == 0)
            return job->nodes[i].run;
    return 0;
}

/* The application of a STARTING one comes up on all of its nodes: it is RUNNING. */
__attribute__((unused)) static void fake_job_starts(struct fake *fake, const char *id)
{
    const struct fsm_allocation *job = fsm_allocation_find(fake->replica.fsm, id);

    for (uint32_t i = 0; i < job->node_count; i++) {
        const struct fsm_node *node =
            fsm_node_find_slot(fake->replica.fsm, job->nodes[i].node_slot);
        Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
        Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
        Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

        report.sequence = node->last_report_sequence + 1;
        report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
        report.allocation_id = (char *)(uintptr_t)id;
        report.run = job->nodes[i].run;
        message.node_id = (char *)(uintptr_t)node->id;
        message.report = &report;
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
        command.node_report = &message;
        assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    }
}

/* Registers an allocation, whose application has not started yet, on node_count nodes
 * "node-FIRST".. with 8 GPUs of 80 GB each in use. */
__attribute__((unused)) static struct fsm_outcome fake_register_starting(
    struct fake *fake, const char *id, uint32_t first_node, uint32_t node_count,
    void (*change)(Ckpt__V1__AllocationSpec *spec))
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare shares[64], *pointers[64];
    char names[64][32], id_copy[64], request_id[80];

    assert_true(node_count <= 64);
    for (uint32_t i = 0; i < node_count; i++) {
        snprintf(names[i], sizeof(names[i]), "node-%u", first_node + i);
        ckpt__v1__node_share__init(&shares[i]);
        shares[i].node_id = names[i];
        shares[i].gpu_count = 8;
        shares[i].gpu_memory_used_bytes = UINT64_C(640000000000);
        pointers[i] = &shares[i];
    }
    snprintf(id_copy, sizeof(id_copy), "%s", id);
    snprintf(request_id, sizeof(request_id), "register-%s", id);
    spec.allocation_id = id_copy;
    spec.tenant = (char[]){"physics"};
    spec.project = (char[]){"p1"};
    spec.vcluster = (char[]){"hpc"};
    spec.owner = (char[]){"alice"};
    spec.preemption_class = 3;
    spec.n_nodes = node_count;
    spec.nodes = pointers;
    if (change != NULL)
        change(&spec);
    request.request_id = request_id;
    request.spec = &spec;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &request;
    return fake_do(fake, &command);
}

__attribute__((unused)) static struct fsm_outcome fake_register(
    struct fake *fake, const char *id, uint32_t first_node, uint32_t node_count,
    void (*change)(Ckpt__V1__AllocationSpec *spec))
{
    struct fsm_outcome outcome = fake_register_starting(fake, id, first_node, node_count, change);

    if (outcome.status == FSM_OK)
        fake_job_starts(fake, id);
    return outcome;
}

/* as a client would; the checkpoint's id */
__attribute__((unused)) static uint64_t fake_request_checkpoint(struct fake *fake, const char *job,
                                                                const char *request_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    struct fsm_outcome outcome;
    char id[32], name[32];

    snprintf(id, sizeof(id), "%s", job);
    snprintf(name, sizeof(name), "%s", request_id);
    request.request_id = command.request_id = name;
    request.allocation_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    outcome = fake_do(fake, &command);
    assert_int_equal(outcome.status, FSM_OK);
    return outcome.checkpoint_id;
}

/* as the dispatcher would propose it */
__attribute__((unused)) static void fake_grant(struct fake *fake, uint64_t checkpoint_id,
                                               uint64_t bytes_per_s, uint64_t timeout_ms)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant grant = CKPT__LOG__V1__GRANT__INIT;
    Ckpt__Log__V1__Grant *grants[] = {&grant};

    grant.checkpoint_id = checkpoint_id;
    grant.bytes_per_s = bytes_per_s;
    grant.timeout_ms = timeout_ms;
    batch.n_grants = 1;
    batch.grants = grants;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &batch;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* availability as the storage watch would propose it */
__attribute__((unused)) static void fake_set_available(struct fake *fake, bool available)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    change.target_id = (char[]){"scratch"};
    change.available = available;
    change.reason =
        available ? CKPT__V1__REASON__REASON_NONE : CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY;
    command.target_availability = &change;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* what is measured of an available target as the storage watch would propose it; 0: nothing any
 * more */
__attribute__((unused)) static void fake_set_measured(struct fake *fake, uint64_t bytes_per_s)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    change.target_id = (char[]){"scratch"};
    change.available = true;
    change.write_bytes_per_s = bytes_per_s;
    change.forget_measured = bytes_per_s == 0;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY;
    command.target_availability = &change;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* a node's state as the broker would propose it from its agent's stream */
__attribute__((unused)) static void fake_node_seen(struct fake *fake, const char *id,
                                                   Ckpt__Log__V1__NodeState state)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    char name[64];

    snprintf(name, sizeof(name), "%s", id);
    seen.node_id = name;
    seen.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    if (fsm_node_find(fake->replica.fsm, id) == NULL)
        assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    seen.state = state;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* ... and what the agent there says of it. */
__attribute__((unused)) static void fake_node_says(struct fake *fake, const char *id,
                                                   const char *machine, const char *domain)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;

    seen.node_id = text_message(id);
    seen.machine = text_message(machine);
    seen.domain = text_message(domain);
    seen.domain_told = true;
    seen.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* It is down, and then gone; what one entry would hold, with what waits in front of it. */
__attribute__((unused)) static void fake_remove_node(struct fake *fake, const char *id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__RemoveNode remove = CKPT__LOG__V1__REMOVE_NODE__INIT;
    static unsigned requests;
    char name[64], request_id[32];

    fake_node_seen(fake, id, CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    snprintf(name, sizeof(name), "%s", id);
    snprintf(request_id, sizeof(request_id), "remove-%u", ++requests);
    remove.node_id = name;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REMOVE_NODE;
    command.remove_node = &remove;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

__attribute__((unused)) static struct fsm_summary fake_summary(const struct fake *fake)
{
    struct fsm_summary summary;

    fsm_get_summary(fake->replica.fsm, &summary);
    return summary;
}

/* The node that has the part has written it. */
__attribute__((unused)) static void fake_verify_part(struct fake *fake, const char *job,
                                                     uint64_t id, uint32_t part)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fake->replica.fsm, id);
    const struct fsm_node *node =
        fsm_node_find_slot(fake->replica.fsm, checkpoint->shards[part].node_slot);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    report.sequence = node->last_report_sequence + 1;
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
    report.allocation_id = text_message(job);
    report.run = fake_run(fake, job, node->id);
    report.checkpoint_id = id;
    report.attempt = checkpoint->attempt;
    report.size_bytes = 1000;
    report.ranks = 1;
    report.manifest_sha256 =
        text_message("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
    message.node_id = text_message(node->id);
    message.report = &report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

#endif
