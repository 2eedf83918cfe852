/* When each rule begins a write. See engine.h.
 *
 * Flow     rule_decide() once a cycle: collect candidates (the model's by eval_score(), the others'
 *          by their period), then let them write at once or, for the rules that pace, in the order
 *          of eval_pace(). rule_grant() admits more of the same candidates when bandwidth becomes
 *          free between two cycles.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/actions.h"
#include "src/whatif/engine.h"

#define ANNOUNCED_LEADS_MAX 10.0 /* likewise of what a scheduler told */
#define ALARM_WELL          1.01 /* a factor below it is 1 */

const char *whatif_rule_name(enum whatif_rule rule)
{
    static const char *const names[] = {
#define X(name, text, help) text,
        WHATIF_RULES(X)
#undef X
    };
    return (size_t)rule < ARRAY_COUNT(names) ? names[rule] : "unknown";
}

const char *whatif_rule_help(enum whatif_rule rule)
{
    static const char *const texts[] = {
#define X(name, text, help) help,
        WHATIF_RULES(X)
#undef X
    };
    return (size_t)rule < ARRAY_COUNT(texts) ? texts[rule] : "unknown";
}

/* ---- what every rule knows ---- */

/* What a checkpoint costs a job in computing. */
static double stall_s(const struct sim *sim, size_t job)
{
    return sim->world->scenario.stall_fraction * engine_write_s(sim, job) +
           sim->world->scenario.quiesce_s;
}

/* Daly 2006, equation 37. */
static double daly_interval_s(double write_s, double mean_s)
{
    double ratio = write_s / (2 * mean_s);

    if (!(ratio < 1))
        return mean_s;
    return sqrt(2 * write_s * mean_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - write_s;
}

/* What Young/Daly is told: nobody knows it in a real cluster, so it is the best that rule can
 * be. */
static double true_hazard_per_s(const struct sim *sim, size_t job)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;

    return sim->world->jobs[job].nodes * sim->world->node_failures_per_s +
           world_mean_demand_per_s(scenario) * scenario->kill_share;
}

static double period_s(const struct sim *sim, size_t job)
{
    double hazard_per_s;

    if (sim->rule == WHATIF_HOURLY)
        return 3600;
    if (sim->rule == WHATIF_SIX_HOURLY)
        return 6 * 3600;
    if (sim->rule == WHATIF_NONE)
        return INFINITY;
    hazard_per_s = true_hazard_per_s(sim, job);
    return hazard_per_s > 0 ? daly_interval_s(stall_s(sim, job), 1 / hazard_per_s) : INFINITY;
}

static double write_quantile_s(const struct sim *sim, size_t job)
{
    return eval_write_quantile_s(&sim->jobs[job].writes, engine_write_s(sim, job),
                                 engine_age_s(sim, job));
}

/* What does not change while it runs. */
static void open_constants(struct sim *sim)
{
    sim->constants = check_calloc(sim->world->job_count, sizeof(*sim->constants));
    for (size_t i = 0; i < sim->world->job_count; i++) {
        double write_s = engine_write_s(sim, i);
        sim->constants[i] = (struct sim_constants){
            .write_s = write_s, .stall_s = stall_s(sim, i), .period_s = period_s(sim, i)};
    }
}

/* ---- pacing ---- */

/* The others write when they want to and share what bandwidth there is. */
static bool rule_paces(const struct sim *sim)
{
    return sim->rule == WHATIF_MODEL || sim->rule == WHATIF_YOUNG_DALY_PACED;
}

void rule_grant(struct sim *sim)
{
    struct eval_window window = {.budget_bytes_per_s = sim->storage.capacity_bytes_per_s,
                                 .running_bytes_per_s = sim->storage.injected_bytes_per_s};
    size_t admitted, count = 0;
    double phi;

    if (sim->candidate_count == 0)
        return;
    for (size_t i = 0; i < sim->candidate_count; i++) { /* some went down since */
        if (sim->jobs[sim->candidates[i].job].phase == SIM_COMPUTING)
            sim->candidates[count++] = sim->candidates[i];
    }
    if (sim->storage.down)
        window.budget_bytes_per_s = 0;
    admitted = eval_pace(&window, sim->candidates, count, &phi);
    for (size_t i = 0; i < admitted; i++) {
        struct sim_job *of = &sim->jobs[sim->candidates[i].job];
        of->walltime_asked = of->walltime_asked || sim->candidates[i].deadline;
        engine_begin_write(sim, sim->candidates[i].job);
    }
    sim->candidate_count = count - admitted;
    memmove(sim->candidates, sim->candidates + admitted,
            sim->candidate_count * sizeof(*sim->candidates));
}

static void add_candidate(struct sim *sim, size_t job, double index, bool deadline)
{
    sim->candidates[sim->candidate_count++] = (struct eval_candidate){
        .job = (uint32_t)job,
        .deadline = deadline,
        .index = index,
        .size_bytes = sim->world->jobs[job].size_bytes,
        .injection_bytes_per_s = sim->world->jobs[job].injection_bytes_per_s};
}

/* ---- the model ---- */

static bool sim_learns(const struct sim *sim)
{
    return sim->world->scenario.learn > 0;
}

/* What of the model's inputs does not change: jobs, and the policy's numbers. */
static void open_model(struct sim *sim)
{
    const struct world *world = sim->world;
    const struct whatif_scenario *scenario = &world->scenario;
    double believed = sim_learns(sim) ? scenario->policy_bytes_per_s : 0;

    sim->policy = (struct eval_policy){
        .cycle_s = scenario->cycle_s,
        .lambda_node_per_s = world->node_failures_per_s * scenario->assumed_factor,
        .min_interval_s = scenario->min_interval_s,
        .max_interval_s = scenario->max_interval_s,
        .quiesce_s = sim_learns(sim) ? scenario->policy_quiesce_s : scenario->quiesce_s,
        .stall_fraction = scenario->stall_fraction,
        .restart_s = scenario->restart_s,
        .near_completion_s = scenario->near_completion_s,
        .horizon_clamp = 0.7,
        .backlog_urgency = 1,
        .certainty = 1};
    if (sim_learns(sim))
        fleet_init(&sim->fleet, world);
    eval_view_alloc(&sim->view, world->job_count);
    eval_result_alloc(&sim->result, world->job_count);
    sim->view.count = world->job_count;
    for (size_t i = 0; i < world->job_count; i++) {
        double rate =
            believed > 0 ? world->jobs[i].nodes * believed : world->jobs[i].injection_bytes_per_s;

        sim->view.gpus[i] = world->jobs[i].gpus;
        sim->view.nodes[i] = world->jobs[i].nodes;
        sim->view.size_bytes[i] = world->jobs[i].size_bytes;
        sim->view.grace_s[i] = scenario->grace_s;
        sim->view.bandwidth_bytes_per_s[i] = fmin(rate, sim->storage.capacity_bytes_per_s);
    }
}

/* What alarms are believed to be like. */
static struct eval_alarm_rates alarm_rates(const struct sim *sim)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;

    if (sim_learns(sim))
        return sim->fleet.rates.alarms;
    return (struct eval_alarm_rates){
        .recall = scenario->recall, .precision = scenario->precision, .lead_s = scenario->lead_s};
}

/* Telemetry's factors of the job's nodes, beside 1 each. */
static double alarm_factors(const struct sim *sim, size_t job)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;
    const struct sim_job *of = &sim->jobs[job];
    double sum = 0;

    for (uint32_t i = 0; sim_learns(sim) && i < of->alarm_count; i++) {
        double since_s = sim->now_s - of->alarms[i].since_s;
        double factor =
            1 + (scenario->alarm_factor - 1) * exp2(-since_s / scenario->alarm_half_life_s);
        sum += factor >= ALARM_WELL ? factor - 1 : 0;
    }
    return sum / sim->world->jobs[job].nodes;
}

/* The share of failures that alarms announce in time is theirs; the rest is the base hazard. */
static double base_factor(const struct sim *sim, size_t job, double write_s)
{
    struct eval_alarm_rates rates = alarm_rates(sim);
    double learned = sim_learns(sim) ? fleet_factor(&sim->fleet, job) : 1;
    double unannounced =
        sim->world->scenario.recall > 0 ? 1 - rates.recall * exp(-write_s / rates.lead_s) : 1;

    return (learned + alarm_factors(sim, job)) * unannounced;
}

static struct eval_alarm alarm_of(const struct sim *sim, const struct sim_alarm *alarm)
{
    struct eval_alarm_rates rates = alarm_rates(sim);

    return (struct eval_alarm){.precision = rates.precision,
                               .lead_s = rates.lead_s,
                               .since_s = sim->now_s - alarm->since_s};
}

static double alarm_h(struct sim *sim, size_t job)
{
    double horizon_s, sum = 0;

    if (sim->jobs[job].alarm_count == 0)
        return 0;
    horizon_s = eval_horizon_s(&sim->policy, &sim->view, job);
    for (uint32_t i = 0; i < sim->jobs[job].alarm_count; i++) {
        struct eval_alarm alarm = alarm_of(sim, &sim->jobs[job].alarms[i]);

        if (!sim->jobs[job].alarms[i].over)
            sum += eval_alarm_hazard(&alarm, horizon_s);
    }
    return sum;
}

/* What was long ago announces nothing any more; when its factor has faded too it is forgotten. */
static void forget_alarms(struct sim *sim, size_t job)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;
    struct sim_job *of = &sim->jobs[job];
    double over_s = FLEET_ALARM_LEADS * scenario->prior_lead_s;
    double faded_s = sim_learns(sim) ? scenario->alarm_half_life_s *
                                           log2((scenario->alarm_factor - 1) / (ALARM_WELL - 1))
                                     : 0;

    for (uint32_t i = 0; i < of->alarm_count; i++) {
        struct sim_alarm *alarm = &of->alarms[i];
        double since_s = sim->now_s - alarm->since_s;

        alarm->over = since_s > over_s;
        if (alarm->over && !(since_s < faded_s))
            of->alarms[i--] = of->alarms[--of->alarm_count];
    }
}

/* Learned, or what is true: kills come only while the queue is busy. */
static double kill_per_s(const struct sim *sim, size_t job)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;

    if (sim_learns(sim))
        return sim->fleet.rates.kills_per_s[engine_group(sim, job)];
    return sim->busy[sim->world->jobs[job].queue]
               ? scenario->demand_per_hour / 3600 * scenario->kill_share
               : 0;
}

/* What its own checkpoints taught, as src/broker/decide/evaluator_learned.c has it. */
static void fill_learned(struct sim *sim, size_t i)
{
    const struct sim_job *job = &sim->jobs[i];
    struct eval_view *view = &sim->view;
    double mean_s = job->writes.mean;

    view->success_probability[i] = eval_success_probability(&job->success);
    if (job->writes.count < 1)
        return;
    view->bandwidth_bytes_per_s[i] =
        eval_measured_bandwidth(view->size_bytes[i], mean_s, sim->storage.capacity_bytes_per_s);
    view->stall_factor[i] = eval_stall_factor(sim->policy.stall_fraction, sim->policy.quiesce_s,
                                              job->stall * mean_s, mean_s);
}

/* How long a write takes at worst, for the last safe slot before a walltime. */
static double quantile_s(const struct sim *sim, size_t i)
{
    const struct sim_job *job = &sim->jobs[i];
    const struct eval_view *view = &sim->view;

    if (!sim_learns(sim))
        return write_quantile_s(sim, i);
    if (job->writes.count < 1)
        return 0;
    return eval_write_quantile_s(&job->writes, 0, eval_stepped(view->age_s[i])) *
           eval_write_stretch(job->writes.mean, view->size_bytes[i],
                              view->bandwidth_bytes_per_s[i]);
}

/* What a demand that is expected would cost this job and its claimant less, were there a checkpoint
 * of now. If it kills: the progress. Else the write, for which both would wait (or the progress,
 * when that is less), without what is new by then: it comes after an exponential time, and is
 * written or lost in any case. */
static void fill_yield(struct sim *sim, size_t i)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;
    struct eval_alarm told = {.precision = scenario->announce_precision,
                              .lead_s = scenario->announce_lead_s,
                              .since_s = sim->now_s - sim->jobs[i].told_s};
    double age_s = sim->view.age_s[i], gpus = sim->view.gpus[i];
    double wait_s = (1 + scenario->urgency) * sim->constants[i].stall_s;
    double anyway_s = told.lead_s * -expm1(-wait_s / told.lead_s);
    double polite_s = (wait_s < age_s ? wait_s : age_s) - anyway_s;
    double spared_s =
        scenario->kill_share * age_s + (1 - scenario->kill_share) * (polite_s > 0 ? polite_s : 0);

    sim->view.yield_probability[i] = sim->view.waiting_gain_gpu_s[i] = 0;
    if (sim->jobs[i].told_s < 0 || scenario->heed <= 0 ||
        told.since_s > ANNOUNCED_LEADS_MAX * told.lead_s)
        return;
    sim->view.yield_probability[i] = -expm1(-eval_alarm_hazard(&told, INFINITY));
    sim->view.waiting_gain_gpu_s[i] = gpus * (scenario->restart_s + spared_s);
}

/* The inputs of one job, as src/broker/decide/evaluator_view.c fills them from the replicated
 * state. */
static void fill_row(struct sim *sim, size_t i)
{
    const struct sim_job *job = &sim->jobs[i];
    struct eval_view *view = &sim->view;
    double left_s = job->walltime_end_s - sim->now_s, write_s;

    forget_alarms(sim, i);
    view->flags[i] = job->phase == SIM_COMPUTING ? 0 : EVAL_FLAG_ACTIVE;
    if (job->phase != SIM_COMPUTING)
        return;
    if (sim->storage.down)
        view->flags[i] |= EVAL_FLAG_STORAGE_DOWN;
    if (job->walltime_asked)
        view->flags[i] |= EVAL_FLAG_WALLTIME_DONE;
    view->age_s[i] = engine_age_s(sim, i);
    view->walltime_left_s[i] = left_s > 0 ? left_s : 0;
    if (sim_learns(sim))
        fill_learned(sim, i);
    write_s = view->size_bytes[i] / view->bandwidth_bytes_per_s[i];
    if (left_s < view->age_s[i] + 4 * write_s + sim->policy.cycle_s + view->grace_s[i])
        view->write_quantile_s[i] = quantile_s(sim, i); /* before that it decides nothing */
    view->hazard_factor[i] = base_factor(sim, i, write_s);
    view->kill_per_s[i] = kill_per_s(sim, i);
    view->alarm_h[i] = alarm_h(sim, i);
    if (sim->world->scenario.announce_share > 0)
        fill_yield(sim, i);
}

static double gain_per_byte(const struct sim *sim, size_t i)
{
    return eval_pace_index(eval_result_value(&sim->result, i), sim->result.compute_waste[i],
                           sim->result.storage_cost[i], sim->view.size_bytes[i]);
}

/* An alarmed job writes and moves when that nets more than staying, and a spare waits. */
static bool move_pays(const struct sim *sim, size_t job)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;
    const struct sim_job *of = &sim->jobs[job];
    double gpus = sim->world->jobs[job].gpus, survives = 1;
    struct eval_situation situation = {.gpus = gpus,
                                       .age_s = engine_age_s(sim, job),
                                       .cost_gpu_s = gpus * stall_s(sim, job),
                                       .guards_allow = !sim->storage.down,
                                       .restart_s = scenario->restart_s + engine_read_s(sim, job),
                                       .down_s = scenario->down_s,
                                       .spare = sim->spares >= of->alarm_count};
    struct eval_payoffs payoffs;

    for (uint32_t i = 0; i < of->alarm_count; i++) {
        struct eval_alarm alarm = alarm_of(sim, &of->alarms[i]);
        survives *= of->alarms[i].over ? 1 : exp(-eval_alarm_hazard(&alarm, INFINITY));
    }
    situation.alarm_p = 1 - survives;
    situation.lost_s = situation.age_s;
    situation.value_gpu_s = eval_result_value(&sim->result, job);
    eval_payoffs(&situation, &payoffs);
    return payoffs.best == EVAL_ACTION_MIGRATE;
}

static void decide_moves(struct sim *sim)
{
    for (size_t i = 0; i < sim->world->job_count; i++) {
        if (sim->jobs[i].alarm_count == 0 || sim->jobs[i].phase != SIM_COMPUTING ||
            !move_pays(sim, i))
            continue;
        sim->jobs[i].moves = true;
        engine_begin_write(sim, i);
    }
}

/* Scores cost more than verdicts: they are made only where their terms are looked at. */
static void decide_model(struct sim *sim)
{
    bool terms = isfinite(sim->storage.capacity_bytes_per_s) || sim->world->scenario.migrate > 0;

    if (sim_learns(sim)) {
        sim->policy.lambda_node_per_s = sim->fleet.rates.node_failures_per_s;
        sim->policy.certainty = sim->fleet.rates.certainty;
    }
    for (size_t i = 0; i < sim->world->job_count; i++)
        fill_row(sim, i);
    if (terms) /* for the index, or to weigh moving */
        eval_score(&sim->policy, &sim->view, &sim->result);
    else
        eval_decide(&sim->policy, &sim->view, sim->result.verdict);
    if (sim->world->scenario.migrate > 0)
        decide_moves(sim);
    for (size_t i = 0; i < sim->world->job_count; i++) {
        enum eval_verdict verdict = (enum eval_verdict)sim->result.verdict[i];
        if (eval_verdict_fires(verdict) && sim->jobs[i].phase == SIM_COMPUTING)
            add_candidate(sim, i, terms ? gain_per_byte(sim, i) : 0,
                          verdict == EVAL_CHECKPOINT_WALLTIME);
    }
}

/* ---- the others ---- */

/* The slot that Young/Daly is given beside its period, so that walltimes alone do not decide
 * between it and the model. The first comparison is only the cheap one. */
static bool at_last_safe_slot(const struct sim *sim, size_t job)
{
    const struct sim_job *of = &sim->jobs[job];
    double left_s = of->walltime_end_s - sim->now_s;

    return sim->rule == WHATIF_YOUNG_DALY_PACED && !of->walltime_asked &&
           left_s <= 4 * sim->constants[job].write_s + sim->world->scenario.cycle_s &&
           left_s <= write_quantile_s(sim, job) + sim->world->scenario.cycle_s &&
           left_s >= engine_write_s(sim, job) &&
           engine_age_s(sim, job) > sim->constants[job].stall_s;
}

static void decide_by_period(struct sim *sim)
{
    for (size_t i = 0; i < sim->world->job_count; i++) {
        struct sim_job *of = &sim->jobs[i];
        bool deadline;
        if (of->phase != SIM_COMPUTING)
            continue;
        deadline = at_last_safe_slot(sim, i);
        if (engine_age_s(sim, i) >= sim->constants[i].period_s && of->due_since_s < 0)
            of->due_since_s = sim->now_s;
        if (of->due_since_s >= 0 || deadline)
            add_candidate(sim, i, -of->due_since_s, deadline);
    }
}

/* Counted first, so that each job's losses lie together in one array; the world's events are in
 * order, so each job's are. */
static void open_oracle(struct sim *sim)
{
    const struct world *world = sim->world;
    size_t *fill;

    sim->loss_first = check_calloc(world->job_count + 1, sizeof(*sim->loss_first));
    sim->losses_s = check_calloc(world->event_count + 1, sizeof(*sim->losses_s));
    fill = check_calloc(world->job_count + 1, sizeof(*fill));
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < world->event_count; i++) {
            const struct world_event *event = &world->events[i];
            if (event->kind != EVENT_FAILURE && !(event->kind == EVENT_DEMAND && event->on))
                continue;
            if (pass == 0)
                sim->loss_first[event->job + 1]++;
            else
                sim->losses_s[fill[event->job]++] = event->at_s;
        }
        for (size_t i = 0; pass == 0 && i < world->job_count; i++) {
            sim->loss_first[i + 1] += sim->loss_first[i];
            fill[i + 1] = sim->loss_first[i + 1];
        }
    }
    free(fill);
}

static double next_loss_s(const struct sim *sim, size_t job)
{
    size_t low = sim->loss_first[job], end = sim->loss_first[job + 1], high = end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sim->losses_s[middle] <= sim->now_s)
            low = middle + 1;
        else
            high = middle;
    }
    return fmin(low < end ? sim->losses_s[low] : INFINITY, sim->jobs[job].walltime_end_s);
}

/* At the last cycle from which the write still ends before the loss. */
static void decide_oracle(struct sim *sim)
{
    for (size_t i = 0; i < sim->world->job_count; i++) {
        double left_s, write_s = sim->constants[i].write_s;
        if (sim->jobs[i].phase != SIM_COMPUTING)
            continue;
        left_s = next_loss_s(sim, i) - sim->now_s;
        if (left_s > write_s && left_s <= write_s + sim->world->scenario.cycle_s &&
            engine_age_s(sim, i) > sim->constants[i].stall_s)
            add_candidate(sim, i, 0, false);
    }
}

/* ---- the interface ---- */

void rule_open(struct sim *sim)
{
    open_constants(sim);
    sim->candidates = check_calloc(sim->world->job_count, sizeof(*sim->candidates));
    if (sim->rule == WHATIF_MODEL)
        open_model(sim);
    if (sim->rule == WHATIF_ORACLE)
        open_oracle(sim);
}

void rule_close(struct sim *sim)
{
    free(sim->constants);
    free(sim->candidates);
    free(sim->losses_s);
    free(sim->loss_first);
    if (sim->rule == WHATIF_MODEL) {
        eval_view_free(&sim->view);
        eval_result_free(&sim->result);
    }
    if (sim->fleet.world != NULL)
        fleet_free(&sim->fleet);
}

void rule_decide(struct sim *sim)
{
    sim->candidate_count = 0;
    if (sim->rule == WHATIF_MODEL)
        decide_model(sim);
    else if (sim->rule == WHATIF_ORACLE)
        decide_oracle(sim);
    else
        decide_by_period(sim);
    if (rule_paces(sim)) {
        rule_grant(sim);
        return;
    }
    for (size_t i = 0; i < sim->candidate_count; i++)
        engine_begin_write(sim, sim->candidates[i].job);
    sim->candidate_count = 0;
}

/* What is asked for happens; payoffs only say how: U is more than anything the job could
 * lose. */
bool rule_writes_before_yielding(const struct sim *sim, size_t job, double urgency)
{
    const struct whatif_scenario *scenario = &sim->world->scenario;
    double gpus = sim->world->jobs[job].gpus, write_s = stall_s(sim, job);
    struct eval_situation situation = {.gpus = gpus,
                                       .age_s = engine_age_s(sim, job),
                                       .cost_gpu_s = gpus * write_s,
                                       .guards_allow = !sim->storage.down,
                                       .yield_asked = true,
                                       .claim_gpu_s = 1e15,
                                       .claim_per_s = urgency * gpus,
                                       .stall_s = write_s};
    struct eval_payoffs payoffs;

    if (sim->rule == WHATIF_NONE && scenario->yield_how == 0)
        return true;
    if (scenario->yield_how > 0)
        return scenario->yield_how < 2 && !sim->storage.down;
    eval_payoffs(&situation, &payoffs);
    return payoffs.best == EVAL_ACTION_CHECKPOINT_AND_YIELD;
}
