/* For tests of what the evaluator does: a leader with metrics and an evaluator, and what explain
 * says. */
#ifndef CKPT_TESTS_UNIT_BROKER_EVALUATOR_FIXTURE_H
#define CKPT_TESTS_UNIT_BROKER_EVALUATOR_FIXTURE_H

#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/explain/explain.h"
#include "tests/unit/broker/fake_replica.h"

enum { HOUR_MS = 3600000 };

__attribute__((unused)) static struct fake *start_with(const Ckpt__V1__Policy *policy)
{
    struct fake *fake = fake_new(policy);

    fake->broker.metrics = broker_metrics_new(&fake->broker);
    fake->broker.evaluator = evaluator_new(&fake->broker);
    return fake;
}

__attribute__((unused)) static struct fake *start(void)
{
    return start_with(NULL);
}

__attribute__((unused)) static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    evaluator_free(fake->broker.evaluator);
    metrics_free(fake->broker.metrics);
    fake_free(fake);
}

struct explained_copy {
    int count;
    bool checkpoint;
    char verdict[64], flips[256], guards[EXPLAIN_GUARDS][160], weighed_by[64];
    size_t guard_count;
    uint64_t evaluated_at_ms, term;
    Ckpt__V1__DecisionTerms terms;
};

__attribute__((unused)) static void keep_explained(void *context,
                                                   const Ckpt__V1__ExplainReply *reply)
{
    struct explained_copy *explained = context;

    explained->count++;
    explained->checkpoint = reply->checkpoint;
    explained->evaluated_at_ms = reply->evaluated_at_ms;
    explained->term = reply->term;
    explained->terms = *reply->terms;
    snprintf(explained->verdict, sizeof(explained->verdict), "%s", reply->terms->verdict);
    snprintf(explained->flips, sizeof(explained->flips), "%s", reply->flips_when);
    snprintf(explained->weighed_by, sizeof(explained->weighed_by), "%s", reply->weighed_by);
    assert_true(reply->n_guards <= EXPLAIN_GUARDS);
    explained->guard_count = reply->n_guards;
    for (size_t i = 0; i < reply->n_guards; i++)
        snprintf(explained->guards[i], sizeof(explained->guards[i]), "%s", reply->guards[i]);
}

__attribute__((unused)) static bool explain_last(const struct broker *broker, char *allocation_id,
                                                 explain_use *use, void *context)
{
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    uint64_t oldest_ms;

    request.allocation_id = allocation_id;
    return explain_request(broker, &request, use, context, &oldest_ms) == EXPLAIN_FOUND;
}

__attribute__((unused)) static struct explained_copy explain_job(struct fake *fake,
                                                                 const char *name)
{
    struct explained_copy explained = {0};
    char id[32];

    snprintf(id, sizeof(id), "%s", name);
    assert_true(explain_last(&fake->broker, id, keep_explained, &explained));
    assert_int_equal(explained.count, 1);
    return explained;
}

__attribute__((unused)) static struct explained_copy explain(struct fake *fake)
{
    return explain_job(fake, "job");
}

__attribute__((unused)) static double counted(struct fake *fake, const char *decision,
                                              const char *reason)
{
    return metrics_value(fake->broker.metrics, METRIC_EVALUATIONS, decision, reason);
}

__attribute__((unused)) static void set_period(Ckpt__V1__AllocationSpec *spec)
{
    spec->period_ms = 10 * 60000;
}

__attribute__((unused)) static void cancel(struct fake *fake, uint64_t checkpoint_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__CancelCheckpointRequest request = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;

    request.request_id = command.request_id = (char[]){"cancel"};
    request.checkpoint_id = checkpoint_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CANCEL_CHECKPOINT;
    command.cancel_checkpoint = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

__attribute__((unused)) static void two_hours(Ckpt__V1__AllocationSpec *spec)
{
    spec->walltime_ms = 2 * HOUR_MS;
}

#endif
