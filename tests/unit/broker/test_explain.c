/* Explain: of now, of the past, of the log; what is reported as the smallest change does flip,
 * exactly as reported. */
#include <math.h>

#include "src/broker/decide/evaluator_view.h"
#include "src/eval/inputs.h"
#include "tests/unit/broker/evaluator_fixture.h"

enum { MINUTE_MS = 60000, COPIES_MAX = 4000 };

/* What a reply said. */
struct copy {
    int count;
    Ckpt__V1__ExplainSource source;
    Ckpt__V1__ExplainMatch match;
    bool checkpoint, has_change;
    char verdict[64], flips[256], match_detail[160];
    Ckpt__V1__DecisionTerms terms; /* without its text */
    uint64_t evaluated_at_ms, checkpoint_id, index, term, leader_id, oldest_ms;
    size_t input_count, part_count, guard_count;
    struct {
        char name[40], value[256];
        uint64_t bits;
        bool heard, aged, of_policy;
        uint32_t age_ms;
    } inputs[64];
    struct {
        char input[40], from[32], to[32];
    } change;
    uint32_t ahead, wave;
    bool ahead_known;
};

#define COPY_TEXT(to, from) snprintf((to), sizeof(to), "%s", (from))

static void copy_inputs(struct copy *copy, const Ckpt__V1__ExplainReply *reply)
{
    copy->input_count = reply->n_inputs;
    assert_true(reply->n_inputs <= ARRAY_COUNT(copy->inputs));
    for (size_t i = 0; i < reply->n_inputs; i++) {
        COPY_TEXT(copy->inputs[i].name, reply->inputs[i]->name);
        COPY_TEXT(copy->inputs[i].value, reply->inputs[i]->value);
        copy->inputs[i].bits = reply->inputs[i]->bits;
        copy->inputs[i].heard = reply->inputs[i]->heard;
        copy->inputs[i].aged = reply->inputs[i]->aged;
        copy->inputs[i].age_ms = reply->inputs[i]->age_ms;
        copy->inputs[i].of_policy = reply->inputs[i]->of_policy;
    }
}

static void keep(void *context, const Ckpt__V1__ExplainReply *reply)
{
    struct copy *copy = context;

    copy->count++;
    copy->source = reply->source;
    copy->match = reply->match;
    COPY_TEXT(copy->match_detail, reply->match_detail);
    copy->checkpoint = reply->checkpoint;
    copy->terms = *reply->terms;
    copy->terms.verdict = NULL;
    COPY_TEXT(copy->verdict, reply->terms->verdict);
    COPY_TEXT(copy->flips, reply->flips_when);
    copy->evaluated_at_ms = reply->evaluated_at_ms;
    copy->checkpoint_id = reply->checkpoint_id;
    copy->index = reply->index;
    copy->term = reply->term;
    copy->leader_id = reply->leader_id;
    copy->oldest_ms = reply->oldest_ms;
    copy_inputs(copy, reply);
    copy->part_count = reply->n_parts;
    copy->guard_count = reply->n_guards;
    copy->has_change = reply->change != NULL;
    if (reply->change != NULL) {
        COPY_TEXT(copy->change.input, reply->change->input);
        COPY_TEXT(copy->change.from, reply->change->from);
        COPY_TEXT(copy->change.to, reply->change->to);
    }
    copy->ahead = reply->grant->ahead;
    copy->ahead_known = reply->grant->ahead_known;
    copy->wave = reply->grant->wave;
}

struct question {
    char *job;
    uint64_t at_ms, checkpoint_id;
};

static enum explain_found ask(struct fake *fake, struct question question, struct copy *ret_copy,
                              uint64_t *ret_oldest_ms)
{
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    enum explain_found found;

    if (question.job != NULL)
        request.allocation_id = question.job;
    request.at_ms = question.at_ms;
    request.checkpoint_id = question.checkpoint_id;
    memset(ret_copy, 0, sizeof(*ret_copy));
    found = explain_request(&fake->broker, &request, keep, ret_copy, ret_oldest_ms);
    assert_int_equal(ret_copy->count, found == EXPLAIN_FOUND);
    return found;
}

static struct copy *asked(struct fake *fake, struct question question)
{
    static struct copy copy;
    uint64_t oldest_ms;

    assert_int_equal(ask(fake, question, &copy, &oldest_ms), EXPLAIN_FOUND);
    return &copy;
}

static char job_name[] = "job";

static void fake_cancel(struct fake *fake, uint64_t checkpoint_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__CancelCheckpointRequest cancel = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;
    static char request_id[] = "cancel-1";

    cancel.request_id = command.request_id = request_id;
    cancel.checkpoint_id = checkpoint_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CANCEL_CHECKPOINT;
    command.cancel_checkpoint = &cancel;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* ---- everything is told ---- */

static double parsed(const struct copy *copy, const char *name)
{
    for (size_t i = 0; i < copy->input_count; i++)
        if (strcmp(copy->inputs[i].name, name) == 0)
            return strtod(copy->inputs[i].value, NULL);
    fail_msg("%s is not among the inputs", name);
    return 0;
}

static uint32_t parsed_flags(const struct copy *copy)
{
    for (size_t i = 0; i < copy->input_count; i++)
        if (strcmp(copy->inputs[i].name, "flags") == 0)
            return (uint32_t)copy->inputs[i].bits;
    fail();
    return 0;
}

/* The texts of a reply are enough to compute the decision again. */
static void recompute(const struct copy *copy, struct eval_policy *policy, struct eval_view *view,
                      struct eval_result *result)
{
    view->count = 1;
#define X(column) view->column[0] = parsed(copy, #column);
    EVAL_VIEW_COLUMNS(X)
#undef X
#define X(number) policy->number = parsed(copy, #number);
    EVAL_POLICY_NUMBERS(X)
#undef X
    view->flags[0] = parsed_flags(copy);
    eval_score(policy, view, result);
}

static void every_input_is_told_so_that_anybody_can_compute_the_terms(void **state)
{
    struct fake *fake = start();
    struct eval_policy policy;
    struct eval_view view;
    struct eval_result result;
    const struct copy *copy;

    (void)state;
    eval_view_alloc(&view, 1);
    eval_result_alloc(&result, 1);
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, HOUR_MS + 1234);
    copy = asked(fake, (struct question){.job = job_name});
    assert_int_equal(copy->source, CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST);
    assert_int_equal(copy->input_count, EVAL_COLUMN_COUNT + 1 + EVAL_POLICY_COUNT);
    assert_int_equal(copy->part_count, 7);
    assert_int_equal(copy->guard_count, EXPLAIN_GUARDS);
    for (size_t i = 0; i < copy->input_count; i++) {
        double number = strtod(copy->inputs[i].value, NULL);

        if (strcmp(copy->inputs[i].name, "flags") != 0)
            assert_memory_equal(&number, &copy->inputs[i].bits, sizeof(number));
    }
    recompute(copy, &policy, &view, &result);
    assert_string_equal(eval_verdict_name((enum eval_verdict)result.verdict[0]), copy->verdict);
    assert_int_equal((int64_t)(result.recompute_saved[0] * 1e3),
                     copy->terms.recompute_saved_gpu_ms);
    assert_int_equal((int64_t)(result.compute_waste[0] * 1e3), copy->terms.compute_waste_gpu_ms);
    eval_view_free(&view);
    eval_result_free(&result);
    finish(fake);
}

/* ---- the past ---- */

/* Of evaluations the last one is kept; what was decided before it is in the log. */
static void an_instant_of_the_past_is_explained_by_what_was_decided_then(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;
    const struct copy *copy;
    uint64_t oldest_ms, last_ms;
    struct copy missing;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 12 * (uint64_t)HOUR_MS);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    last_ms = asked(fake, (struct question){.job = job_name})->evaluated_at_ms;
    copy = asked(fake, (struct question){.job = job_name, .at_ms = last_ms});
    assert_int_equal(copy->source, CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST);
    assert_uint_equal(copy->evaluated_at_ms, last_ms);
    copy = asked(fake, (struct question){.job = job_name, .at_ms = last_ms - 1});
    assert_int_equal(copy->source, CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LOG);
    assert_uint_equal(copy->checkpoint_id, checkpoint->id);
    copy = asked(fake, (struct question){.job = job_name, .at_ms = checkpoint->created_at_ms});
    assert_uint_equal(copy->checkpoint_id, checkpoint->id);
    assert_uint_equal(copy->oldest_ms, checkpoint->created_at_ms);
    assert_int_equal(ask(fake,
                         (struct question){.job = job_name, .at_ms = checkpoint->created_at_ms - 1},
                         &missing, &oldest_ms),
                     EXPLAIN_TOO_OLD);
    assert_uint_equal(oldest_ms, checkpoint->created_at_ms);
    assert_int_equal(ask(fake,
                         (struct question){.job = job_name, .at_ms = fake_wall_ms(fake) + HOUR_MS},
                         &missing, &oldest_ms),
                     EXPLAIN_FUTURE);
    finish(fake);
}

/* ---- the log ---- */

static void a_decision_of_the_log_is_explained_also_by_a_follower(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;
    struct copy first;
    uint64_t oldest_ms;
    const struct copy *copy;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 12 * (uint64_t)HOUR_MS);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    first = *asked(fake, (struct question){.checkpoint_id = checkpoint->id});
    assert_int_equal(first.source, CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LOG);
    assert_int_equal(first.match, CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME);
    assert_uint_equal(first.index, checkpoint->inputs->index);
    assert_true(first.checkpoint);
    assert_string_equal(first.verdict, checkpoint->terms->verdict);
    assert_int_equal(first.input_count, EVAL_COLUMN_COUNT + 1 + EVAL_POLICY_COUNT);
    fake_stop_serving(fake);
    copy = asked(fake, (struct question){.checkpoint_id = checkpoint->id});
    assert_int_equal(copy->match, CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME);
    assert_memory_equal(&copy->terms, &first.terms, sizeof(first.terms));
    assert_string_equal(copy->flips, first.flips);
    copy = asked(fake, (struct question){.job = job_name}); /* the last that is known of it */
    assert_int_equal(copy->source, CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LOG);
    assert_uint_equal(copy->checkpoint_id, checkpoint->id);
    assert_int_equal(
        ask(fake, (struct question){.job = job_name, .at_ms = 1000}, &first, &oldest_ms),
        EXPLAIN_TOO_OLD);
    assert_uint_equal(oldest_ms, checkpoint->created_at_ms);
    assert_int_equal(
        ask(fake, (struct question){.checkpoint_id = checkpoint->id + 1}, &first, &oldest_ms),
        EXPLAIN_NO_CHECKPOINT);
    finish(fake);
}

static uint64_t told_write_ms; /* in each report */

static void report(struct fake *fake, uint64_t sequence, Ckpt__V1__ReportKind kind,
                   uint64_t checkpoint_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char node[] = "node-1",
         sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    report.sequence = sequence + 1; /* the first one was that it runs */
    report.kind = kind;
    report.allocation_id = job_name;
    report.checkpoint_id = checkpoint_id;
    report.attempt = 1;
    report.run = fake_run(fake, job_name, node);
    if (kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED) {
        report.size_bytes = UINT64_C(100000000000);
        report.ranks = 1;
        report.manifest_sha256 = sha256;
        report.write_ms = 60000;
    }
    report.told_write_ms = told_write_ms;
    message.node_id = node;
    message.report = &report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* The job's first checkpoint, decided within half a day, is written in a minute. */
static void complete_a_checkpoint(struct fake *fake)
{
    const struct fsm_checkpoint *checkpoint;

    assert_int_equal(fake_register(fake, job_name, 1, 1, NULL).status, FSM_OK);
    fake_serve(fake);
    for (int i = 0; i < 24 * 60 && fsm_checkpoint_next(fake->replica.fsm, 0) == NULL; i++)
        fake_advance_ms(fake, MINUTE_MS / 2);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    fake_grant(fake, checkpoint->id, 1000000, HOUR_MS);
    report(fake, 1, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, checkpoint->id);
    fake_advance_ms(fake, MINUTE_MS);
    report(fake, 2, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED, checkpoint->id);
    assert_int_equal(checkpoint->state, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
}

/* What its own checkpoints taught of a job holds in an outage too: the flag alone stands against
 * it. */
static void an_outage_is_all_that_stands_against_a_job_with_checkpoints(void **state)
{
    struct fake *fake = start();
    const struct copy *copy;

    (void)state;
    complete_a_checkpoint(fake);
    fake_set_available(fake, false);
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS);
    copy = asked(fake, (struct question){.job = job_name});
    assert_string_equal(copy->verdict, "storage_unavailable");
    assert_string_equal(copy->flips, "its storage target takes writes again");
    assert_true(copy->has_change);
    assert_string_equal(copy->change.input, "flags");
    assert_double_near(parsed(copy, "bandwidth_bytes_per_s"), 100e9 / 60, 1e7);
    finish(fake);
}

/* S1-040: its application's word can only lengthen the write that size and storage give (640 GB at
 * 2 GB/s: 320 s), to the timeout (600 s) at most, and is said beside it. After a complete
 * checkpoint the measured time stands alone. */
static void what_an_application_expects_counts_until_it_is_measured(void **state)
{
    static const struct {
        uint64_t told_ms;
        double writes_s;
    } rows[] = {{100000, 320}, {400000, 400}, {3600000, 600}};
    struct fake *fake = start();
    struct explained_copy explained;
    uint64_t sequence = 1, id;

    (void)state;
    assert_int_equal(fake_register(fake, job_name, 1, 1, NULL).status, FSM_OK);
    fake_serve(fake);
    id = fake_request_checkpoint(fake, job_name, "first");
    fake_grant(fake, id, 1000000, HOUR_MS);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        told_write_ms = rows[i].told_ms;
        report(fake, sequence++, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, id);
        fake_advance_ms(fake, MINUTE_MS / 2);
        assert_double_near(
            parsed(asked(fake, (struct question){.job = job_name}), "bandwidth_bytes_per_s"),
            640e9 / rows[i].writes_s, 1);
        explained = explain_job(fake, job_name);
        assert_contains(explained.guards[2], "its application says that it writes for");
    }
    told_write_ms = 0;
    report(fake, sequence, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED, id);
    fake_advance_ms(fake, MINUTE_MS / 2);
    assert_double_near(
        parsed(asked(fake, (struct question){.job = job_name}), "bandwidth_bytes_per_s"),
        100e9 / 60, 1e7);
    explained = explain_job(fake, job_name);
    assert_null(strstr(explained.guards[2], "application"));
    finish(fake);
}

/* ---- the smallest change, as it is reported ---- */

static double between(uint64_t *random, double least, double most)
{
    return least + (most - least) * (double)(test_random(random) % 1000001) / 1e6;
}

/* Jobs of every kind; about half of them held by a guard, by two or by three. */
static void draw(uint64_t *random, struct explained *explained)
{
    struct eval_view *view = &explained->view;
    double nodes = 1 << test_random(random) % 8;

    explained->policy = (struct eval_policy){.cycle_s = 30,
                                             .lambda_node_per_s = between(random, 5e-9, 1e-7),
                                             .min_interval_s = between(random, 0, 900),
                                             .sensitive_min_interval_s = 600,
                                             .sensitive_max_interval_s = 3600,
                                             .near_completion_s = 300,
                                             .stall_fraction = between(random, 0.1, 1),
                                             .quiesce_s = between(random, 0, 10),
                                             .restart_s = 180,
                                             .usd_per_gpu_hour = 2,
                                             .retention_months = 0.23,
                                             .horizon_clamp = 0.7,
                                             .backlog_urgency = between(random, 0, 4),
                                             .pressure = between(random, 0, 1),
                                             .certainty = between(random, 0, 1)};
    explained->policy.max_interval_s = test_random(random) % 2 == 0 ? 0 : 21600;
    explained->policy.phi_gpu_s_per_byte =
        test_random(random) % 3 == 0 ? between(random, 0, 1e-8) : 0;
    view->nodes[0] = nodes;
    view->gpus[0] = nodes * 8;
    view->age_s[0] = (double)(test_random(random) % 40000);
    view->size_bytes[0] = nodes * 8 * between(random, 1e9, 80e9);
    view->bandwidth_bytes_per_s[0] = nodes * between(random, 1e8, 2e9);
    view->hazard_factor[0] = between(random, 0.1, 5);
    view->kill_per_s[0] = test_random(random) % 3 == 0 ? between(random, 0, 1e-4) : 0;
    view->alarm_h[0] = test_random(random) % 4 == 0 ? between(random, 0, 0.5) : 0;
    view->walltime_left_s[0] = test_random(random) % 2 == 0 ? INFINITY : between(random, 0, 20000);
    view->write_quantile_s[0] = test_random(random) % 2 == 0 ? 0 : between(random, 1, 900);
    view->period_s[0] = test_random(random) % 6 == 0 ? 7200 : 0;
    view->usd_per_gb_month[0] = test_random(random) % 2 == 0 ? 0 : 0.02;
    view->waiting_gain_gpu_s[0] = test_random(random) % 3 == 0 ? between(random, 0, 1e6) : 0;
    view->yield_probability[0] = test_random(random) % 3 == 0 ? between(random, 0, 1) : 0;
    view->grace_s[0] = 30;
    view->success_probability[0] = between(random, 0.5, 1);
    view->stall_factor[0] = between(random, 0.2, 2);
    view->flags[0] = 0;
    for (uint64_t i = test_random(random) % 4; i > 0; i--)
        view->flags[0] |= 1u << (test_random(random) % 7 == 0 ? 9 : test_random(random) % 6);
    if ((view->flags[0] & EVAL_FLAG_ACTIVE) != 0 && fmod(view->age_s[0], 2) == 0)
        view->flags[0] |= EVAL_FLAG_WAITING;
}

/* As the evaluator decides: the guard of the last attempt stands over the model. */
static bool decided_so(const struct eval_policy *policy, const struct eval_view *view,
                       double attempt_age_s)
{
    double least_s = (view->flags[0] & EVAL_FLAG_SENSITIVE) != 0 ? policy->sensitive_min_interval_s
                                                                 : policy->min_interval_s;
    uint8_t verdict;

    eval_decide(policy, view, &verdict);
    return eval_verdict_fires((enum eval_verdict)verdict) &&
           (attempt_age_s >= least_s || verdict_purpose(view, (enum eval_verdict)verdict, 0) !=
                                            CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
}

static double attempt_age(const struct explained *explained)
{
    uint64_t end_ms = explained->allocation->last_attempt_end_ms;

    return end_ms == 0 ? INFINITY : (double)(explained->evaluated_at_ms - end_ms) / 1e3;
}

/* Of the reported change the share `share` of the way; 1: exactly as reported. */
static bool fires_after(const struct explained *explained, const struct explain_change *change,
                        double share)
{
    struct eval_view view = explained->view;
    double from = strtod(change->from, NULL), to = strtod(change->to, NULL), kept;
    double attempt_age_s = attempt_age(explained);
    uint32_t flags = view.flags[0];
    bool fires;

    if (strcmp(change->input, "last_attempt_age_s") == 0) {
        assert_memory_equal(&from, &attempt_age_s, sizeof(from));
        return decided_so(&explained->policy, &view, share == 1 ? to : from + share * (to - from));
    }
    if (strcmp(change->input, "flags") == 0) {
        assert_int_equal((uint32_t)from, flags);
        assert_int_equal((uint32_t)to, flags & ~change->cleared_flag);
        view.flags[0] = (uint32_t)to;
        fires = decided_so(&explained->policy, &view, attempt_age_s);
        view.flags[0] = flags;
        return fires;
    }
#define X(column)                                                                                  \
    if (strcmp(change->input, #column) == 0) {                                                     \
        kept = view.column[0];                                                                     \
        assert_memory_equal(&kept, &from, sizeof(from));                                           \
        view.column[0] = share == 1 ? to : from + share * (to - from);                             \
        fires = decided_so(&explained->policy, &view, attempt_age_s);                              \
        view.column[0] = kept;                                                                     \
        return fires;                                                                              \
    }
    EVAL_VIEW_COLUMNS(X)
#undef X
    fail_msg("%s is no input", change->input);
    return false;
}

struct tried {
    size_t by_verdict[EVAL_VERDICT_COUNT], flipped, none, with_less;
    size_t held, by_attempt; /* by the guard of the last attempt */
};

/* Every third job has had an attempt, a quarter of an hour ago at most: the verdict is the guard's
 * where that holds it. */
static void draw_attempt(uint64_t *random, struct fsm_allocation *allocation,
                         struct explained *explained)
{
    explained->evaluated_at_ms = FAKE_EPOCH_MS;
    allocation->last_attempt_end_ms =
        test_random(random) % 3 == 0 ? FAKE_EPOCH_MS - test_random(random) % 900000 : 0;
    if (eval_verdict_fires(explained->verdict) &&
        !decided_so(&explained->policy, &explained->view, attempt_age(explained)))
        explained->verdict = EVAL_SKIP_MIN_INTERVAL;
}

static void try_changes(uint64_t seed, int cases, bool attempts, struct tried *tried)
{
    struct fsm_allocation allocation = {0};
    struct explained explained = {.allocation = &allocation};
    uint64_t random = seed, attempt_random = seed + 1;

    eval_view_alloc(&explained.view, 1);
    eval_result_alloc(&explained.result, 1);
    explained.view.count = 1;
    for (int i = 0; i < cases; i++) {
        struct explain_change change;
        bool fires;

        draw(&random, &explained);
        eval_score(&explained.policy, &explained.view, &explained.result);
        explained.verdict = (enum eval_verdict)explained.result.verdict[0];
        if (attempts)
            draw_attempt(&attempt_random, &allocation, &explained);
        tried->held += explained.verdict != (enum eval_verdict)explained.result.verdict[0];
        fires = eval_verdict_fires(explained.verdict);
        if (!explain_change(&explained, &change)) {
            tried->none++;
            continue;
        }
        tried->flipped++;
        tried->by_verdict[explained.verdict]++;
        tried->by_attempt += strcmp(change.input, "last_attempt_age_s") == 0;
        assert_int_equal(fires_after(&explained, &change, 1), !fires);
        if (change.relative_ppm == 0 || strcmp(change.input, "flags") == 0)
            continue; /* anything above nothing flips */
        tried->with_less++;
        for (int share = 1; share < 1000; share += 111) { /* 0.001 ... 0.889, 0.999 */
            if (fires_after(&explained, &change, share == 889 ? 0.999 : share / 1e3) == fires)
                continue;
            fail_msg("case %d of seed %" PRIu64 ": %s from %s to %s, verdict %s: less flips too", i,
                     seed, change.input, change.from, change.to,
                     eval_verdict_name(explained.verdict));
        }
    }
    eval_view_free(&explained.view);
    eval_result_free(&explained.result);
}

/* Applying exactly the reported change flips the decision, and less of it does not: texts as they
 * are reported. */
static void exactly_the_reported_change_flips_the_decision(void **state)
{
    enum { CASES = 6000 };
    struct tried tried = {0};

    (void)state;
    try_changes(test_seed(), CASES, true, &tried);
    print_message("%zu of %d flipped (%zu also tried with less), %zu have no single change, "
                  "%zu held by the last attempt\n",
                  tried.flipped, CASES, tried.with_less, tried.none, tried.held);
    assert_true(tried.held > CASES / 100 && tried.by_attempt == tried.held);
    for (int verdict = 0; verdict < EVAL_VERDICT_COUNT; verdict++)
        if (verdict != EVAL_SKIP_BAD_INPUT && verdict != EVAL_SKIP_PACED &&
            verdict != EVAL_CHECKPOINT_MOVE && verdict != EVAL_SKIP_QUOTA)
            /* not of one job alone */
            assert_true(tried.by_verdict[verdict] > 0);
    assert_true(tried.flipped > CASES / 2 && tried.with_less > CASES / 4);
}

/* Doubling steps passed over the few seconds of walltime between two guards: the reported change
 * was not the nearest one. */
static void no_narrow_window_between_two_guards_is_passed_over(void **state)
{
    struct tried tried = {0};

    (void)state;
    try_changes(23, 125, false, &tried);
    try_changes(10, 2688, false, &tried);
    try_changes(11, 3337, false, &tried);
}

/* A complete checkpoint is an attempt too: the guard is told by its numbers also where the model
 * alone says no. */
static void after_a_checkpoint_the_guard_of_the_last_attempt_is_told(void **state)
{
    static const char words[] = "last attempt ended >= 300 s before (in 270 s); then ";
    struct fake *fake = start();
    struct explained_copy explained;
    uint64_t ended_ms;

    (void)state;
    complete_a_checkpoint(fake);
    ended_ms = fsm_allocation_find(fake->replica.fsm, job_name)->last_attempt_end_ms;
    while (explain(fake).evaluated_at_ms < ended_ms + 20000)
        fake_advance_ms(fake, 10000);
    explained = explain(fake);
    assert_int_equal(explained.evaluated_at_ms, ended_ms + 30000);
    assert_non_null(strstr(explained.guards[5],
                           "last_attempt: blocks (ended 30.0 s before, at least "
                           "300.0 s between two periodic ones)"));
    assert_memory_equal(explained.flips, words, strlen(words));
    assert_non_null(strstr(explained.flips, "last-checkpoint age >= "));
    fake_advance_ms(fake, 5 * MINUTE_MS);
    explained = explain(fake);
    assert_non_null(strstr(explained.guards[5], "last_attempt: ok (ended 330.0 s before"));
    assert_null(strstr(explained.flips, "attempt"));
    finish(fake);
}

/* The guard that counts from a failed attempt is not the model's: the change is told, and at
 * exactly that age it lets go. */
static void the_guard_of_the_last_attempt_lets_go_exactly_when_it_is_told(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;
    const struct copy *copy;
    double from_s, to_s;
    uint64_t wait_ms;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 12 * (uint64_t)HOUR_MS);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    fake_cancel(fake, checkpoint->id);
    fake_advance_ms(fake, 2 * MINUTE_MS);
    copy = asked(fake, (struct question){.job = job_name});
    assert_string_equal(copy->verdict, "min_interval");
    assert_string_equal(copy->change.input, "last_attempt_age_s");
    assert_non_null(strstr(copy->flips, "last attempt ended >= 300 s before"));
    from_s = strtod(copy->change.from, NULL);
    to_s = strtod(copy->change.to, NULL);
    assert_double_near(to_s, 300, 1e-9);
    wait_ms = copy->evaluated_at_ms + (uint64_t)((to_s - from_s) * 1e3) - fake_wall_ms(fake);
    while (fake_wall_ms(fake) + 30000 < fake_wall_ms(fake) + wait_ms) {
        fake_advance_ms(fake, 30000);
        wait_ms -= 30000;
        assert_string_equal(asked(fake, (struct question){.job = job_name})->verdict,
                            "min_interval");
    }
    fake_advance_ms(fake, wait_ms + 30000); /* the first cycle from then on */
    assert_non_null(fsm_checkpoint_next(fake->replica.fsm, checkpoint->id));
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_input_is_told_so_that_anybody_can_compute_the_terms),
        cmocka_unit_test(an_instant_of_the_past_is_explained_by_what_was_decided_then),
        cmocka_unit_test(a_decision_of_the_log_is_explained_also_by_a_follower),
        cmocka_unit_test(what_an_application_expects_counts_until_it_is_measured),
        cmocka_unit_test(an_outage_is_all_that_stands_against_a_job_with_checkpoints),
        cmocka_unit_test(exactly_the_reported_change_flips_the_decision),
        cmocka_unit_test(no_narrow_window_between_two_guards_is_passed_over),
        cmocka_unit_test(after_a_checkpoint_the_guard_of_the_last_attempt_is_told),
        cmocka_unit_test(the_guard_of_the_last_attempt_lets_go_exactly_when_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
