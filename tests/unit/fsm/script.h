/* Drives a state machine with lines of text: used by unit tests, golden scenarios, fuzz seeds and
 * the property test.
 *
 * Flow     script_run(script, "register j1 nodes=n1,n2 gpus=8") applies the command in an entry of
 *          its own, and verifies all invariants. What happened can be printed: the outcome and the
 *          events since the last line.
 * Shapes   words are "name", "key=value" or a bare flag. `at MS` sets the leader's clock. Request
 *          ids are made up unless id=...
 * Errors   a line that is not understood, or a violated invariant, ends the program with it. */
#ifndef CKPT_TESTS_FSM_SCRIPT_H
#define CKPT_TESTS_FSM_SCRIPT_H

#include "tests/unit/fsm/script_audit.h"

static inline enum fsm_status script_init_cluster(struct script *script,
                                                  Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__ClusterInit init = CKPT__LOG__V1__CLUSTER_INIT__INIT;
    Ckpt__V1__TargetSpec targets[2] = {CKPT__V1__TARGET_SPEC__INIT, CKPT__V1__TARGET_SPEC__INIT};
    Ckpt__V1__TargetSpec *pointers[2] = {&targets[0], &targets[1]};
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    init.cluster_id = script_text(script_value(script, "cluster", "demo"));
    init.epoch = script_number(script, "epoch", 1);
    init.n_targets = script_flag(script, "bare") ? 0 : 2;
    init.targets = pointers;
    policy.feature_level = (uint32_t)script_number(script, "level", FSM_LEVEL_NEWEST);
    if (policy.feature_level == FSM_LEVEL_FIRST) /* it is not said */
        policy.feature_level = 0;
    init.policy = &policy;
    for (size_t i = 0; i < 2; i++) {
        targets[i].target_id = script_text(i == 0 ? "scratch" : "other");
        targets[i].prefix = script_text(i == 0 ? "/scratch" : "/other");
        targets[i].kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
        targets[i].write_bytes_per_s = script_number(script, "write", 10000000000);
        targets[i].staging_share_ppm = 300000;
        targets[i].pool = CKPT__V1__POOL__POOL_SENSITIVE;
        if (policy.feature_level > FSM_LEVEL_FIRST)
            targets[i].encrypted = targets[i].hot_only = CKPT__V1__ASSURED__ASSURED_YES;
        targets[i].is_default = i == 0;
    }
    SCRIPT_BODY(CLUSTER_INIT, cluster_init, &init);
    return script_apply(script, command);
}

/* Its application comes up on all of its nodes at once. */
static inline void script_parts_start(struct script *script, const Ckpt__V1__AllocationSpec *spec)
{
    const struct fsm_outcome registered = script->outcome;

    for (size_t i = 0; i < spec->n_nodes; i++) {
        const struct fsm_allocation *job = fsm_allocation_find(script->fsm, spec->allocation_id);
        const struct fsm_node *node = fsm_node_find(script->fsm, spec->nodes[i]->node_id);
        Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
        Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
        Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

        if (job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING)
            break;
        report.sequence = node->last_report_sequence + 1;
        report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
        report.allocation_id = spec->allocation_id;
        report.run = job->nodes[i].run;
        report.restored_checkpoint_id = job->restart_id;
        message.report = &report;
        message.node_id = spec->nodes[i]->node_id;
        command.now_ms = script->now_ms;
        SCRIPT_BODY_OF(&command, NODE_REPORT, node_report, &message);
        script_apply(script, &command);
    }
    script->outcome = registered;
}

/* starting: without its application */
static inline enum fsm_status script_register(struct script *script,
                                              Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    struct script_shares shares;

    script_nodes(script, &shares);
    spec.allocation_id = script_text(script_word(script, 1));
    spec.tenant = script_text(script_value(script, "tenant", "physics"));
    spec.profile = script_text(script_value(script, "profile", ""));
    spec.project = script_text(script_value(script, "project", "climate"));
    spec.vcluster = script_text(script_value(script, "vcluster", "hpc"));
    spec.owner = script_text(script_value(script, "owner", "ada"));
    spec.staging = (Ckpt__V1__Staging)script_enum(script, &ckpt__v1__staging__descriptor,
                                                  "STAGING_", "staging", "unspecified");
    spec.domain_rule = (Ckpt__V1__DomainRule)script_enum(
        script, &ckpt__v1__domain_rule__descriptor, "DOMAIN_RULE_", "domain_rule", "unspecified");
    spec.preemption_class = (uint32_t)script_number(script, "class", 3);
    spec.sensitive = script_flag(script, "sensitive");
    spec.strategy = (Ckpt__V1__Strategy)script_enum(script, &ckpt__v1__strategy__descriptor,
                                                    "STRATEGY_", "strategy", "auto");
    spec.requeue_policy = (Ckpt__V1__RequeuePolicy)script_enum(
        script, &ckpt__v1__requeue_policy__descriptor, "REQUEUE_POLICY_", "requeue", "unspecified");
    spec.vcluster_kind = (Ckpt__V1__VclusterKind)script_enum(
        script, &ckpt__v1__vcluster_kind__descriptor, "VCLUSTER_KIND_", "kind", "unspecified");
    spec.restore = (Ckpt__V1__RestoreMode)script_enum(script, &ckpt__v1__restore_mode__descriptor,
                                                      "RESTORE_MODE_", "restore", "unspecified");
    spec.max_requeue = (uint32_t)script_number(script, "max_requeue", 0);
    spec.restart = (Ckpt__V1__RestartMode)script_enum(script, &ckpt__v1__restart_mode__descriptor,
                                                      "RESTART_MODE_", "broker", "unspecified");
    spec.on_hang = script_on_hang(script);
    spec.reactive_min_nodes = (uint32_t)script_number(script, "min", 0);
    spec.reactive_max_nodes = (uint32_t)script_number(script, "max", spec.reactive_min_nodes);
    spec.walltime_ms = script_number(script, "walltime", 0);
    spec.grace_ms = script_number(script, "grace", 0);
    spec.period_ms = script_number(script, "period", 0);
    spec.first_period_ms = script_number(script, "first_period", 0);
    spec.jurisdiction = script_text(script_value(script, "law", ""));
    spec.keep_complete = (uint32_t)script_number(script, "keep", 0);
    spec.retention_ms = script_number(script, "retention", 0);
    spec.started_at_ms = script_number(script, "started", 0);
    spec.checkpoint_timeout_ms = script_number(script, "timeout", 0);
    spec.write_bytes_per_s = script_number(script, "speed", 0);
    spec.target_id = script_text(script_value(script, "target", ""));
    spec.continues = script_text(script_value(script, "continues", ""));
    spec.attributes = script_attributes(script);
    spec.n_nodes = shares.count;
    spec.nodes = shares.pointers;
    request.spec = &spec, request.waits = script_flag(script, "later");
    SCRIPT_BODY(REGISTER_ALLOCATION, register_allocation, &request);
    if (script_apply(script, command) == FSM_OK && !script_flag(script, "starting"))
        script_parts_start(script, &spec);
    return script->outcome.status;
}

static inline enum fsm_status script_update(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    struct script_shares shares;

    script_nodes(script, &shares);
    request.allocation_id = script_text(script_word(script, 1));
    request.n_nodes = shares.count;
    request.nodes = shares.pointers;
    request.walltime_ms = script_number(script, "walltime", 0);
    request.period_ms = script_number(script, "period", 0);
    request.strategy = (Ckpt__V1__Strategy)script_enum(script, &ckpt__v1__strategy__descriptor,
                                                       "STRATEGY_", "strategy", "unspecified");
    request.force = script_flag(script, "force");
    request.zeros = script_number(script, "zeros", 0);
    request.target_id = script_text(script_value(script, "target", ""));
    SCRIPT_BODY(UPDATE_ALLOCATION, update_allocation, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_end(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;

    request.allocation_id = script_text(script_word(script, 1));
    request.failed = script_flag(script, "failed");
    request.node_failure = script_flag(script, "node_failure");
    request.reason = (Ckpt__V1__Reason)script_reason(script);
    SCRIPT_BODY(END_ALLOCATION, end_allocation, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_queue(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob job = CKPT__V1__WAITING_JOB__INIT;
    Ckpt__V1__WaitingJob *pointers[] = {&job};

    job.job_id = script_text("w1");
    job.gpu_count = 8;
    request.vcluster = script_text(script_word(script, 1));
    request.queued_gpu_ms = script_number(script, "queued", 0);
    request.running_gpu_ms = script_number(script, "running", 0);
    request.n_waiting = script_flag(script, "waiting");
    request.withdrawn = script_flag(script, "withdrawn");
    request.waiting = pointers;
    SCRIPT_BODY(REPORT_QUEUE, report_queue, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_request(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;

    request.allocation_id = script_text(script_word(script, 1));
    request.purpose = (Ckpt__V1__Purpose)script_purpose(script);
    request.after = (Ckpt__V1__AfterCheckpoint)script_after(script);
    SCRIPT_BODY(REQUEST_CHECKPOINT, request_checkpoint, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_cancel(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__CancelCheckpointRequest request = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;

    request.checkpoint_id = script_checkpoint(script, script_word(script, 1));
    SCRIPT_BODY(CANCEL_CHECKPOINT, cancel_checkpoint, &request);
    return script_apply(script, command);
}

/* useful=n1,n2: returns how many names there are; they live in `line`. */
static inline size_t script_list(const struct script *script, const char *key, char line[2048],
                                 char *names[SCRIPT_LIST_MAX])
{
    size_t count = 0;

    snprintf(line, 2048, "%s", script_value(script, key, ""));
    for (char *at = line; *at != '\0' && count < SCRIPT_LIST_MAX;) {
        char *comma = strchr(at, ',');

        names[count++] = at;
        if (comma == NULL)
            break;
        *comma = '\0';
        at = comma + 1;
    }
    return count;
}

/* preempt class= need= gpus= nodes=<candidates> useful= home= value=
 * reason=priority|reclaim|sensitive forced for= */
static inline enum fsm_status script_preempt(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    struct script_shares list;
    char *names[SCRIPT_LIST_MAX];
    char line[2048];
    char *useful[SCRIPT_LIST_MAX];

    script_nodes(script, &list); /* nodes=a,b are the candidates here */
    for (size_t i = 0; i < list.count; i++)
        names[i] = list.shares[i].node_id;
    request.preemption_class = (uint32_t)script_number(script, "class", 8);
    request.nodes_needed = (uint32_t)script_number(script, "need", 1);
    request.n_candidates = list.count;
    request.candidates = names;
    request.forced = script_flag(script, "forced");
    request.for_job = script_text(script_value(script, "for", ""));
    request.reason =
        (Ckpt__V1__PreemptionReason)script_enum(script, &ckpt__v1__preemption_reason__descriptor,
                                                "PREEMPTION_REASON_", "reason", "unspecified");
    request.value_gpu_ms = script_number(script, "value", 0);
    request.gpus_needed = (uint32_t)script_number(script, "gpus", 0);
    request.n_useful_nodes = script_list(script, "useful", line, useful);
    request.useful_nodes = useful;
    request.home_vcluster = script_text(script_value(script, "home", ""));
    SCRIPT_BODY(REQUEST_PREEMPTION, request_preemption, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_migrate(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__RequestMigrationRequest request = CKPT__V1__REQUEST_MIGRATION_REQUEST__INIT;

    request.allocation_id = script_text(script_word(script, 1));
    SCRIPT_BODY(REQUEST_MIGRATION, request_migration, &request);
    return script_apply(script, command);
}

static inline enum fsm_status script_restart(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    struct script_shares shares;

    script_nodes(script, &shares);
    request.allocation_id = script_text(script_word(script, 1));
    request.n_nodes = shares.count;
    request.nodes = shares.pointers;
    request.from_scratch = script_flag(script, "from_scratch");
    SCRIPT_BODY(RESTART_ALLOCATION, restart_allocation, &request);
    return script_apply(script, command);
}

/* decide j1 j2 ... purpose= after= recompute= waste= size= write= age= hazard= priority= inputs=
 * basis= inputs=N: made from numbers that begin with N; basis=M: from the policy M, by default the
 * one of M 0. */
static inline enum fsm_status script_decide(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__DecisionBatch batch = CKPT__LOG__V1__DECISION_BATCH__INIT;
    Ckpt__Log__V1__DecisionBasis basis = CKPT__LOG__V1__DECISION_BASIS__INIT;
    Ckpt__Log__V1__DecisionInputs inputs = CKPT__LOG__V1__DECISION_INPUTS__INIT;
    uint64_t columns[3] = {script_number(script, "inputs", 0), 2, UINT64_MAX};
    uint64_t policy[2] = {script_number(script, "basis", 0), 7};
    uint32_t ages[2] = {5000, UINT32_MAX};
    Ckpt__Log__V1__Decision decisions[SCRIPT_WORDS_MAX];
    Ckpt__Log__V1__Decision *pointers[SCRIPT_WORDS_MAX];
    Ckpt__V1__DecisionTerms terms = CKPT__V1__DECISION_TERMS__INIT;

    basis.revision = 1;
    basis.member_id = 1;
    basis.names = script_text("age_s gpus nodes | cycle_s restart_s");
    basis.n_policy = 2;
    basis.policy = policy;
    inputs.evaluated_at_ms = script->now_ms;
    inputs.n_columns = 3;
    inputs.columns = columns;
    inputs.flags = 2;
    inputs.result_digest = columns[0] * 3;
    inputs.n_source_age_ms = 2;
    inputs.source_age_ms = ages;
    if (columns[0] != 0)
        batch.basis = &basis;
    terms.recompute_saved_gpu_ms = (int64_t)script_number(script, "recompute", 0);
    terms.compute_waste_gpu_ms = (int64_t)script_number(script, "waste", 0);
    terms.size_bytes = script_number(script, "size", 0);
    terms.write_ms = script_number(script, "write", 0);
    terms.age_ms = script_number(script, "age", 0);
    terms.hazard_per_s_e12 = script_number(script, "hazard", 0);
    terms.verdict = script_text("value_exceeds_cost");
    for (size_t i = 1; i < script->word_count && strchr(script->words[i], '=') == NULL; i++) {
        Ckpt__Log__V1__Decision *decision = &decisions[batch.n_decisions];

        ckpt__log__v1__decision__init(decision);
        decision->allocation_id = script->words[i];
        decision->purpose = (Ckpt__V1__Purpose)script_purpose(script);
        decision->after = (Ckpt__V1__AfterCheckpoint)script_after(script);
        decision->terms = &terms;
        decision->inputs = columns[0] != 0 ? &inputs : NULL;
        decision->priority_gpu_ms_per_gb = script_number(script, "priority", 1);
        decision->spare_node_id = script_text(script_value(script, "spare", ""));
        pointers[batch.n_decisions++] = decision;
    }
    batch.decisions = pointers;
    SCRIPT_BODY(DECISIONS, decisions, &batch);
    return script_apply(script, command);
}

/* grant 1-1 1-2 ... bytes= timeout= bypass */
static inline enum fsm_status script_grant(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant grants[SCRIPT_WORDS_MAX];
    Ckpt__Log__V1__Grant *pointers[SCRIPT_WORDS_MAX];

    for (size_t i = 1; i < script->word_count; i++) {
        Ckpt__Log__V1__Grant *grant = &grants[batch.n_grants];

        if (strchr(script->words[i], '-') == NULL)
            continue;
        ckpt__log__v1__grant__init(grant);
        grant->checkpoint_id = script_checkpoint(script, script->words[i]);
        grant->bytes_per_s = script_number(script, "bytes", 1000000000);
        grant->timeout_ms = script_number(script, "timeout", 0);
        grant->bypass_budget = script_flag(script, "bypass");
        pointers[batch.n_grants++] = grant;
    }
    batch.grants = pointers;
    SCRIPT_BODY(GRANTS, grants, &batch);
    return script_apply(script, command);
}

/* target scratch up|down [reason=R] [measured=N] [forget] */
static inline enum fsm_status script_target(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    change.target_id = script_text(script_word(script, 1));
    change.available = script_flag(script, "up");
    change.reason = (Ckpt__V1__Reason)script_reason(script);
    if (!change.available && change.reason == CKPT__V1__REASON__REASON_NONE)
        change.reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    change.write_bytes_per_s = script_number(script, "measured", 0);
    change.forget_measured = script_flag(script, "forget");
    SCRIPT_BODY(TARGET_AVAILABILITY, target_availability, &change);
    return script_apply(script, command);
}

static inline enum fsm_status script_put_target(struct script *script,
                                                Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    spec.target_id = script_text(script_word(script, 1));
    if (!script_flag(script, "keep")) { /* what is not named */
        spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
        spec.prefix = script_text("/scratch");
        spec.write_bytes_per_s = 10000000000;
        spec.staging_share_ppm = 300000;
    }
    if (script_flag(script, "s3"))
        spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_S3;
    spec.prefix = script_text(script_value(script, "prefix", spec.prefix));
    spec.domain = script_text(script_value(script, "domain", ""));
    spec.pool = (Ckpt__V1__Pool)script_enum(script, &ckpt__v1__pool__descriptor, "POOL_", "pool",
                                            "unspecified");
    spec.encrypted = spec.hot_only = (Ckpt__V1__Assured)script_number(script, "assured", 0);
    spec.hot_only = (Ckpt__V1__Assured)script_number(script, "hot", spec.hot_only);
    spec.jurisdiction = script_text(script_value(script, "law", ""));
    spec.write_bytes_per_s = script_number(script, "write", spec.write_bytes_per_s);
    spec.staging_share_ppm = (uint32_t)script_number(script, "staging", spec.staging_share_ppm);
    spec.cost_micro_usd_per_gb_month = script_number(script, "cost", 0);
    spec.tier = script_text(script_value(script, "tier", ""));
    spec.failover_target_id = script_text(script_value(script, "failover", ""));
    spec.read_bytes_per_s = script_number(script, "read", 0);
    spec.read_back = (Ckpt__V1__ReadBack)script_number(script, "read_back", 0);
    spec.generations = (uint32_t)script_number(script, "generations", 0);
    spec.staging = (Ckpt__V1__Staging)script_enum(script, &ckpt__v1__staging__descriptor,
                                                  "STAGING_", "writes", "unspecified");
    spec.compression = (Ckpt__V1__Compression)script_enum(
        script, &ckpt__v1__compression__descriptor, "COMPRESSION_", "compression", "unspecified");
    spec.max_restores = (uint32_t)script_number(script, "restores", 0);
    spec.max_writes = (uint32_t)script_number(script, "writes_max", 0);
    put.zeros = script_number(script, "zeros", 0);
    put.direct_kinds = ~(UINT64_C(1) << CKPT__V1__TARGET_KIND__TARGET_KIND_S3);
    put.compressing_kinds = put.direct_kinds;
    spec.is_default = script_flag(script, "default");
    put.spec = &spec;
    SCRIPT_BODY(PUT_TARGET, put_target, &put);
    return script_apply(script, command);
}

static inline enum fsm_status script_policy(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    policy.min_interval_ms = script_number(script, "min_interval", 0);
    policy.checkpoint_timeout_ms = script_number(script, "timeout", 0);
    policy.grace_ms = script_number(script, "grace", 0);
    policy.retention_ms = script_number(script, "retention", 0);
    policy.keep_complete = (uint32_t)script_number(script, "keep", 0);
    policy.max_attempts = (uint32_t)script_number(script, "attempts", 0);
    policy.max_victims = (uint32_t)script_number(script, "victims", 0);
    policy.retry_backoff_ms = script_number(script, "backoff", 0);
    policy.session_ttl_ms = script_number(script, "session_ttl", 0);
    policy.near_completion_ms = script_number(script, "near", 0);
    policy.sensitive_min_interval_ms = script_number(script, "sensitive_min", 0);
    policy.sensitive_timeout_ms = script_number(script, "sensitive_timeout", 0);
    policy.restart_cost_ms = script_number(script, "restart_cost", 0);
    policy.max_deferral_ms = script_number(script, "deferral", 0);
    policy.evaluation_interval_ms = script_number(script, "interval", 0);
    policy.max_interval_ms = script_number(script, "max_interval", 0);
    policy.stall_fraction_ppm = (uint32_t)script_number(script, "stall", 0);
    policy.zeros = script_number(script, "zeros", 0);
    policy.failover_after_ms = script_number(script, "failover_after", 0);
    policy.max_discarded_ms = script_number(script, "discarded", 0);
    policy.scrub_interval_ms = script_number(script, "scrub", 0);
    policy.release_check_ms = script_number(script, "release", 0);
    policy.scrub_bytes_per_s = script_number(script, "scrub_rate", 0);
    policy.node_chooses_target = (uint32_t)script_number(script, "node_chooses", 0);
    policy.domain_rule = (Ckpt__V1__DomainRule)script_enum(
        script, &ckpt__v1__domain_rule__descriptor, "DOMAIN_RULE_", "domain_rule", "unspecified");
    policy.feature_level = (uint32_t)script_number(script, "level", 0);
    policy.node_gpus = (uint32_t)script_number(script, "node_gpus", 0);
    policy.hang_after_ms = script_number(script, "hang_after", 0);
    script_drill_policy(script, &policy);
    set.policy = &policy;
    SCRIPT_BODY(SET_POLICY, set_policy, &set);
    return script_apply(script, command);
}

/* role 4 learner|voter|removed [name=n4] */
static inline enum fsm_status script_role(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__MemberRoleChange change = CKPT__LOG__V1__MEMBER_ROLE_CHANGE__INIT;

    change.member_id = strtoull(script_word(script, 1), NULL, 10);
    change.name = script_text(script_value(script, "name", "n1"));
    change.role = script_flag(script, "removed") ? CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED
                  : script_flag(script, "voter") ? CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER
                                                 : CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_LEARNER;
    SCRIPT_BODY(MEMBER_ROLE, member_role, &change);
    return script_apply(script, command);
}

static inline enum fsm_status script_leader(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__LeaderElected elected = CKPT__LOG__V1__LEADER_ELECTED__INIT;

    elected.member_id = strtoull(script_word(script, 1), NULL, 10);
    elected.term = ++script->term;
    SCRIPT_BODY(LEADER_ELECTED, leader_elected, &elected);
    return script_apply(script, command);
}

static inline enum fsm_status script_collected(struct script *script,
                                               Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__CheckpointsCollected collected = CKPT__LOG__V1__CHECKPOINTS_COLLECTED__INIT;
    Ckpt__Log__V1__CollectFailure failures[SCRIPT_WORDS_MAX], *pointers[SCRIPT_WORDS_MAX];
    uint64_t ids[SCRIPT_WORDS_MAX];

    for (size_t i = 1; i < script->word_count; i++) {
        if (strncmp(script->words[i], "failed=", 7) == 0) {
            Ckpt__Log__V1__CollectFailure *failure = &failures[collected.n_failed];

            ckpt__log__v1__collect_failure__init(failure);
            failure->checkpoint_id = script_checkpoint(script, script->words[i] + 7);
            failure->reason = script_text(script_value(script, "why", "no-right"));
            failure->elsewhere = script_flag(script, "elsewhere");
            pointers[collected.n_failed++] = failure;
        } else if (strncmp(script->words[i], "why=", 4) != 0 &&
                   strcmp(script->words[i], "elsewhere") != 0) {
            ids[collected.n_checkpoint_ids++] = script_checkpoint(script, script->words[i]);
        }
    }
    collected.checkpoint_ids = ids;
    collected.failed = pointers;
    SCRIPT_BODY(CHECKPOINTS_COLLECTED, checkpoints_collected, &collected);
    return script_apply(script, command);
}

static inline enum fsm_status script_pin(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__PinCheckpoint pin = CKPT__LOG__V1__PIN_CHECKPOINT__INIT;
    pin.checkpoint_id = script_checkpoint(script, script_word(script, 1));
    pin.unpin = script_flag(script, "undo");
    pin.reject = script_flag(script, "reject");
    SCRIPT_BODY(PIN_CHECKPOINT, pin_checkpoint, &pin);
    return script_apply(script, command);
}

/* Those that the line names; how many. */
static inline size_t script_checkpoints(struct script *script, uint64_t ids[SCRIPT_WORDS_MAX])
{
    size_t count = 0;

    for (size_t i = 1; i < script->word_count; i++)
        if (strncmp(script->words[i], "id=", 3) != 0)
            ids[count++] = script_checkpoint(script, script->words[i]);
    return count;
}

static inline enum fsm_status script_expire(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__ExpireCheckpoints expire = CKPT__LOG__V1__EXPIRE_CHECKPOINTS__INIT;
    uint64_t ids[SCRIPT_WORDS_MAX];

    expire.n_checkpoint_ids = script_checkpoints(script, ids);
    expire.checkpoint_ids = ids;
    SCRIPT_BODY(EXPIRE_CHECKPOINTS, expire_checkpoints, &expire);
    return script_apply(script, command);
}

/* tenant physics [max=BYTES] [keep=N] [retention=MS] [zeros=BITS] */
static inline enum fsm_status script_tenant(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__PutTenant put = CKPT__LOG__V1__PUT_TENANT__INIT;
    Ckpt__V1__TenantSpec spec = CKPT__V1__TENANT_SPEC__INIT;

    spec.tenant = script_text(script_word(script, 1));
    spec.max_bytes = script_number(script, "max", 0);
    spec.keep_complete = (uint32_t)script_number(script, "keep", 0);
    spec.retention_ms = script_number(script, "retention", 0);
    put.spec = &spec;
    put.zeros = script_number(script, "zeros", 0);
    SCRIPT_BODY(PUT_TENANT, put_tenant, &put);
    return script_apply(script, command);
}

/* over_quota 1-1 1-2 */
static inline enum fsm_status script_over_quota(struct script *script,
                                                Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__ExpireOverQuota expire = CKPT__LOG__V1__EXPIRE_OVER_QUOTA__INIT;
    uint64_t ids[SCRIPT_WORDS_MAX];

    for (size_t i = 1; i < script->word_count; i++)
        ids[expire.n_checkpoint_ids++] = script_checkpoint(script, script->words[i]);
    expire.checkpoint_ids = ids;
    SCRIPT_BODY(EXPIRE_OVER_QUOTA, expire_over_quota, &expire);
    return script_apply(script, command);
}

/* verify 1-1 1-2 [id=R] */
static inline enum fsm_status script_verify(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__VerifyCheckpoints verify = CKPT__LOG__V1__VERIFY_CHECKPOINTS__INIT;
    uint64_t ids[SCRIPT_WORDS_MAX];

    verify.n_checkpoint_ids = script_checkpoints(script, ids);
    verify.checkpoint_ids = ids;
    SCRIPT_BODY(VERIFY_CHECKPOINTS, verify_checkpoints, &verify);
    return script_apply(script, command);
}

/* verified 1-1 whole|damaged|unreadable|elsewhere [why=TEXT] */
static inline enum fsm_status script_verified(struct script *script,
                                              Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__CheckpointsVerified verified = CKPT__LOG__V1__CHECKPOINTS_VERIFIED__INIT;
    Ckpt__Log__V1__CheckpointVerified item = CKPT__LOG__V1__CHECKPOINT_VERIFIED__INIT;
    Ckpt__Log__V1__CheckpointVerified *items[] = {&item};

    item.checkpoint_id = script_checkpoint(script, script_word(script, 1));
    item.result =
        (Ckpt__V1__VerifyResult)script_enum(script, &ckpt__v1__verify_result__descriptor,
                                            "VERIFY_RESULT_", "result", script_word(script, 2));
    item.detail = script_text(script_value(script, "why", ""));
    verified.n_items = 1;
    verified.items = items;
    SCRIPT_BODY(CHECKPOINTS_VERIFIED, checkpoints_verified, &verified);
    return script_apply(script, command);
}

static inline enum fsm_status script_drain_target(struct script *script,
                                                  Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__DrainTarget drain = CKPT__LOG__V1__DRAIN_TARGET__INIT;

    drain.target_id = script_text(script_word(script, 1));
    drain.undo = script_flag(script, "undo");
    SCRIPT_BODY(DRAIN_TARGET, drain_target, &drain);
    return script_apply(script, command);
}

#include "tests/unit/fsm/script_drills.h" /* needs what is above */
#include "tests/unit/fsm/script_orphans.h"

static inline enum fsm_status script_remove_target(struct script *script,
                                                   Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__RemoveTarget remove = CKPT__LOG__V1__REMOVE_TARGET__INIT;

    remove.target_id = script_text(script_word(script, 1));
    SCRIPT_BODY(REMOVE_TARGET, remove_target, &remove);
    return script_apply(script, command);
}

static inline enum fsm_status script_remove_node(struct script *script,
                                                 Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__RemoveNode remove = CKPT__LOG__V1__REMOVE_NODE__INIT;

    remove.node_id = script_text(script_word(script, 1));
    SCRIPT_BODY(REMOVE_NODE, remove_node, &remove);
    return script_apply(script, command);
}

static inline enum fsm_status script_epoch(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__NewEpoch epoch = CKPT__LOG__V1__NEW_EPOCH__INIT;

    epoch.epoch = strtoull(script_word(script, 1), NULL, 10);
    epoch.cluster_id = script_text(script_value(script, "cluster", "test"));
    SCRIPT_BODY(NEW_EPOCH, new_epoch, &epoch);
    return script_apply(script, command);
}

/* learned term=N [at=MS] [hazard=N] [failures=N] [kills=N] [demands=N] [exposed=MS]: each number in
 * the first place of its list */
static inline enum fsm_status script_learned(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__SetLearned learned = CKPT__LOG__V1__SET_LEARNED__INIT;
    Ckpt__Log__V1__LearnedRate rates[2][FSM_GROUPS];
    Ckpt__Log__V1__LearnedRate *pointers[2][FSM_GROUPS];
    uint64_t hazard[FSM_HAZARD_WORDS] = {0}, failures[FSM_AGE_BINS] = {0};
    uint64_t alarms[FSM_ALARM_WORDS] = {0};

    for (size_t kind = 0; kind < 2; kind++)
        for (size_t i = 0; i < FSM_GROUPS; i++) {
            ckpt__log__v1__learned_rate__init(&rates[kind][i]);
            pointers[kind][i] = &rates[kind][i];
        }
    hazard[0] = script_number(script, "hazard", 0);
    failures[0] = script_number(script, "failures", 0);
    rates[0][0].counted = script_number(script, "kills", 0);
    rates[1][0].counted = script_number(script, "demands", 0);
    rates[0][0].exposed_ms = script_number(script, "exposed", 0);
    learned.term = script_number(script, "term", script->term);
    learned.at_ms = script_number(script, "at", 0);
    learned.n_hazard = (size_t)script_number(script, "words", FSM_HAZARD_WORDS);
    learned.hazard = hazard;
    learned.n_alarms = (size_t)script_number(script, "alarms", FSM_ALARM_WORDS);
    learned.alarms = alarms;
    learned.n_node_failures = FSM_AGE_BINS;
    learned.node_failures = failures;
    learned.n_kills = learned.n_demands = FSM_GROUPS;
    learned.kills = pointers[0];
    learned.demands = pointers[1];
    SCRIPT_BODY(SET_LEARNED, set_learned, &learned);
    return script_apply(script, command);
}

static inline enum fsm_status script_tick(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;

    SCRIPT_BODY(TICK, tick, &tick);
    return script_apply(script, command);
}

/* Sorted by command number: the property test and the table test use the names. */
static const struct script_verb {
    const char *verb;
    uint32_t number;
    bool from_client;
    enum fsm_status (*run)(struct script *script, Ckpt__Log__V1__Command *command);
} script_verbs[] = {
    {"init", 10, false, script_init_cluster},
    {"member", 11, false, script_member},
    {"register", 12, true, script_register},
    {"update", 13, true, script_update},
    {"end", 14, true, script_end},
    {"queue", 15, true, script_queue},
    {"request", 16, true, script_request},
    {"cancel", 17, true, script_cancel},
    {"preempt", 18, true, script_preempt},
    {"migrate", 19, true, script_migrate},
    {"restart", 20, true, script_restart},
    {"decide", 21, false, script_decide},
    {"grant", 22, false, script_grant},
    {"report", 23, false, script_report},
    {"node", 24, false, script_node},
    {"target", 25, false, script_target},
    {"put", 26, true, script_put_target},
    {"policy", 27, true, script_policy},
    {"tick", 28, false, script_tick},
    {"leader", 29, false, script_leader},
    {"collected", 30, false, script_collected},
    {"drain", 31, true, script_drain},
    {"epoch", 32, false, script_epoch},
    {"role", 33, false, script_role},
    {"learned", 34, false, script_learned},
    {"running", 35, false, script_running},
    {"remove_target", 36, true, script_remove_target},
    {"remove_node", 37, true, script_remove_node},
    {"pin", 38, true, script_pin},
    {"expire", 39, true, script_expire},
    {"drain_target", 40, true, script_drain_target},
    {"verify", 41, true, script_verify},
    {"verified", 42, false, script_verified},
    {"tenant", 43, true, script_tenant},
    {"over_quota", 44, false, script_over_quota},
    {"scan", 45, false, script_scan},
    {"orphans", 46, true, script_orphans},
    {"adopt", 47, true, script_adopt},
    {"node_off", 48, true, script_node_off},
    {"choose", 49, false, script_choose},
    {"hang", 50, false, script_hang},
    {"audit_calls", 54, false, script_audit_calls},
    {"audit_shipped", 55, false, script_audit_shipped},
    {"revoke", 56, true, script_revoke},
    {"pause", 58, true, script_pause},
    {"drill", 60, true, script_drill},
    {"probe", 61, true, script_probe},
    {"tell", 62, true, script_tell},
};

enum { SCRIPT_VERBS = sizeof(script_verbs) / sizeof(script_verbs[0]) };

/* `at MS` and `after MS` move the clock; every other line is one command. */
static inline enum fsm_status script_run(struct script *script, const char *format, ...)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Caller caller;
    char line[2048];
    char request_id[FSM_ID_BYTES + 8];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    script->line = line;
    script_split(script, line);
    if (strcmp(script_word(script, 0), "at") == 0)
        script->now_ms = strtoull(script_word(script, 1), NULL, 10);
    else if (strcmp(script_word(script, 0), "after") == 0)
        script->now_ms += strtoull(script_word(script, 1), NULL, 10);
    command.now_ms = script->now_ms;
    for (size_t i = 0; i < SCRIPT_VERBS; i++) {
        const char *id = script_value(script, "id", NULL);

        if (strcmp(script_verbs[i].verb, script_word(script, 0)) != 0)
            continue;
        snprintf(request_id, sizeof(request_id), "request-%" PRIu64, ++script->request_number);
        if (script_verbs[i].from_client)
            command.request_id = script_text(id == NULL ? request_id : id[0] == '!' ? "" : id);
        script_caller(script, &command, &caller);
        return script_verbs[i].run(script, &command);
    }
    if (strcmp(script_word(script, 0), "at") != 0 && strcmp(script_word(script, 0), "after") != 0)
        script_die(script, "unknown verb");
    return FSM_OK;
}

static inline void script_open(struct script *script)
{
    memset(script, 0, sizeof(*script));
    script->fsm = fsm_new();
    script->term = 1;
    script->now_ms = 1000000;
}

static inline void script_close(struct script *script)
{
    fsm_free(script->fsm);
    script->fsm = NULL;
}

/* A cluster with two targets, a policy without a smallest interval, and that is all. */
static inline void script_start(struct script *script)
{
    script_open(script);
    script_run(script, "init");
    script_run(script, "policy min_interval=1 backoff=1000");
}

#endif
