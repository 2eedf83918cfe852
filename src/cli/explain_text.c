/* See explain_text.h. Amounts are rounded for reading; -o json has every digit. */
#include "src/cli/explain_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/cli/job_waits.h"
#include "src/cli/output.h"
#include "src/cli/spec.h"

enum { NAME_BYTES = 160 };

static bool from_log(const Ckpt__V1__ExplainReply *reply)
{
    return reply->source == CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LOG;
}

static void print_job_line(struct cli *cli, const Ckpt__V1__ExplainReply *reply,
                           const Ckpt__V1__Allocation *job, const char *leader)
{
    char text[HUMAN_BYTES], name[NAME_BYTES], tenant[NAME_BYTES];

    cli_out(cli, "JOB %s", human_safe(reply->allocation_id, name, sizeof(name)));
    if (job != NULL && job->spec != NULL)
        cli_out(cli, " (tenant %s, %zu nodes, %s since %s)",
                human_safe(job->spec->tenant, tenant, sizeof(tenant)), job->spec->n_nodes,
                human_enum_words(&ckpt__v1__allocation_state__descriptor, (int)job->state, text),
                human_clock(job->state_since_ms, name));
    cli_out(cli, "  decision: %s at %s", reply->checkpoint ? "CHECKPOINT" : "SKIP",
            human_clock(reply->evaluated_at_ms, text));
    cli_out(cli, " (leader %s, term %" PRIu64, leader, reply->term);
    if (reply->index != 0)
        cli_out(cli, ", entry %" PRIu64, reply->index);
    if (reply->checkpoint_id != 0)
        cli_out(cli, ", checkpoint %s", human_checkpoint(reply->checkpoint_id, text));
    if (reply->terms != NULL && reply->terms->verdict[0] != '\0')
        cli_out(cli, ", %s", human_safe(reply->terms->verdict, tenant, sizeof(tenant)));
    cli_out(cli, ")\n");
}

static void print_origin(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    char detail[NAME_BYTES];
    const char *why = human_safe(reply->match_detail, detail, sizeof(detail));

    if (!from_log(reply))
        return;
    switch (reply->match) {
    case CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME:
        cli_out(cli, " reproduced bit for bit from the inputs in the log\n");
        return;
    case CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_DIFFERS:
        cli_out(cli, " NOT REPRODUCED: %s computed from the inputs in the log is another one\n",
                why);
        return;
    case CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_OTHER_VERSION:
        cli_out(cli, " cannot be reproduced by this version: made from %s\n", why);
        return;
    case CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_NO_INPUTS:
        cli_out(cli, " not reproduced: its inputs are not in the log (any more)\n");
        return;
    case CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_UNSPECIFIED:
    case _CKPT__V1__EXPLAIN_MATCH_IS_INT_SIZE:
        break;
    }
}

/* "3.55", "1.2e+10": to six digits. */
static const char *round_number(const char *exact, char text[HUMAN_BYTES])
{
    char *end;
    double number = strtod(exact, &end);

    if (end == exact || *end != '\0')
        return human_safe(exact, text, HUMAN_BYTES);
    snprintf(text, HUMAN_BYTES, "%.6g", number);
    return text;
}

/* NULL: the inputs are not known. */
static const Ckpt__V1__ExplainPart *find_part(const Ckpt__V1__ExplainReply *reply, const char *term)
{
    for (size_t i = 0; i < reply->n_parts; i++)
        if (strcmp(reply->parts[i]->term, term) == 0)
            return reply->parts[i];
    return NULL;
}

/* The product that decided: of the stake the share that a checkpoint is expected to save, at the
 * last safe slot nearly all of it. The probability of a loss within the model's horizon, kills
 * included, is told apart. */
static void print_recompute(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    const Ckpt__V1__DecisionTerms *terms = reply->terms;
    const Ckpt__V1__ExplainPart *part = find_part(reply, "recompute_saved");
    unsigned __int128 at_risk = (unsigned __int128)terms->age_ms * terms->gpu_count;
    int64_t at_risk_gpu_ms = at_risk > INT64_MAX ? INT64_MAX : (int64_t)at_risk;
    char text[HUMAN_BYTES];

    cli_out(cli, "recompute %s (", human_gpu_s(terms->recompute_saved_gpu_ms, text));
    if (part != NULL)
        cli_out(cli, "%.3g × ", strtod(part->weight, NULL));
    cli_out(cli, "%s at stake, p=%.3g)", human_gpu_s(at_risk_gpu_ms, text),
            (double)terms->failure_probability_ppm / 1e6);
}

static void print_sums(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    const Ckpt__V1__DecisionTerms *terms = reply->terms;
    char value[HUMAN_BYTES], a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES], d[HUMAN_BYTES];

    cli_out(cli, " value %s GPU-s   ", human_gpu_s(terms->value_gpu_ms, value));
    print_recompute(cli, reply);
    cli_out(cli, "  preempt %s", human_gpu_s(terms->preemptability_gpu_ms, c));
    cli_out(cli, "  backlog %s\n", human_gpu_s(terms->backlog_relief_gpu_ms, d));
    cli_out(cli, " cost  %s GPU-s   write %s of %s @ %s  pause %s",
            human_gpu_s(terms->cost_gpu_ms, value), human_duration(terms->write_ms, a),
            human_size(terms->size_bytes, b), human_rate(terms->bandwidth_bytes_per_s, c),
            human_gpu_s(terms->compute_waste_gpu_ms, d));
    cli_out(cli, "  bandwidth %s", human_gpu_s(terms->write_time_gpu_ms, a));
    cli_out(cli, "  storage %s\n", human_gpu_s(terms->storage_cost_gpu_ms, b));
    if (reply->weighed_by[0] != '\0') /* a member of an earlier build does not say it */
        cli_out(cli, " counts as %s\n", human_safe(reply->weighed_by, a, sizeof(a)));
}

static void print_flips(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    const Ckpt__V1__ExplainChange *change = reply->change;
    char from[HUMAN_BYTES], to[HUMAN_BYTES], share[HUMAN_BYTES], name[NAME_BYTES];

    if (reply->flips_when[0] != '\0') {
        cli_out(cli, " flips when: ");
        output_safe(cli->out, reply->flips_when);
        fputc('\n', cli->out);
    }
    if (change == NULL)
        return;
    if (change->cleared[0] != '\0')
        cli_out(cli, " smallest single change: flag %s cleared\n",
                human_safe(change->cleared, name, sizeof(name)));
    else
        cli_out(cli, " smallest single change: %s from %s to %s (%s)\n",
                human_safe(change->input, name, sizeof(name)), round_number(change->from, from),
                round_number(change->to, to), human_share(change->relative_ppm, share));
}

static void print_guards(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    for (size_t i = 0; i < reply->n_guards; i++) {
        fputs(i == 0 ? " guards: " : "         ", cli->out);
        output_safe(cli->out, reply->guards[i]);
        fputc('\n', cli->out);
    }
}

static void print_grant(struct cli *cli, const Ckpt__V1__ExplainGrant *grant)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES], name[NAME_BYTES], word[FSM_WORD_BYTES];

    cli_out(cli, " grant: %s of %s granted on %s", human_rate(grant->granted_bytes_per_s, a),
            human_rate(grant->budget_bytes_per_s, b),
            human_safe(grant->target_id, name, sizeof(name)));
    if (grant->max_writes > 0)
        cli_out(cli, ", %u parts are written (max_writes %u)", grant->parts_writing,
                grant->max_writes);
    if (!grant->available)
        cli_out(cli, " (unavailable: %s)",
                fsm_enum_word(&ckpt__v1__reason__descriptor, (int)grant->outage, word));
    if (grant->active_checkpoint_id != 0)
        cli_out(cli, "; checkpoint %s %s", human_checkpoint(grant->active_checkpoint_id, a),
                human_enum(&ckpt__v1__checkpoint_state__descriptor, (int)grant->state, b));
    if (grant->own_granted_bytes_per_s > 0)
        cli_out(cli, " with %s", human_rate(grant->own_granted_bytes_per_s, a));
    if (grant->ahead_known)
        cli_out(cli, ", %u before it, wave %u, about %s", grant->ahead, grant->wave,
                human_clock(grant->expected_start_ms, a));
    if (grant->phi_gpu_s_per_gb[0] != '\0')
        cli_out(cli, "; a GB cost %s GPU-s", round_number(grant->phi_gpu_s_per_gb, a));
    fputc('\n', cli->out);
}

static void print_parts(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    static const struct output_column columns[] = {
        {"TERM", OUTPUT_LEFT},  {"RAW", OUTPUT_RIGHT},    {"UNIT", OUTPUT_LEFT},
        {"OF", OUTPUT_LEFT},    {"WEIGHT", OUTPUT_RIGHT}, {"WHICH IS", OUTPUT_LEFT},
        {"GPU-S", OUTPUT_RIGHT}};
    struct output_table table;
    char text[HUMAN_BYTES];

    if (reply->n_parts == 0)
        return;
    fputc('\n', cli->out);
    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < reply->n_parts; i++) {
        const Ckpt__V1__ExplainPart *part = reply->parts[i];

        output_row(&table);
        output_cell(&table, "%s", part->term);
        output_cell(&table, "%s", round_number(part->raw, text));
        output_cell(&table, "%s", part->raw_unit);
        output_cell(&table, "%s", part->what);
        output_cell(&table, "%s", round_number(part->weight, text));
        output_cell(&table, "%s", part->weight_unit);
        output_cell(&table, "%s", human_gpu_s(part->gpu_ms, text));
    }
    output_table_print(&table);
}

static void print_inputs(struct cli *cli, const Ckpt__V1__ExplainReply *reply)
{
    static const struct output_column columns[] = {{"INPUT", OUTPUT_LEFT},
                                                   {"VALUE", OUTPUT_RIGHT},
                                                   {"AGE", OUTPUT_RIGHT},
                                                   {"FROM", OUTPUT_LEFT}};
    struct output_table table;
    char text[HUMAN_BYTES];

    if (reply->n_inputs == 0)
        return;
    fputc('\n', cli->out);
    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < reply->n_inputs; i++) {
        const Ckpt__V1__ExplainInput *input = reply->inputs[i];

        output_row(&table);
        output_cell(&table, "%s", input->name);
        output_cell(&table, "%s",
                    input->value[0] == '\0' ? "none" : round_number(input->value, text));
        output_cell(&table, "%s", input->aged ? human_duration(input->age_ms, text) : "-");
        output_cell(&table, "%s%s", input->source,
                    input->of_policy && strcmp(input->source, "policy") != 0 ? " (all jobs)" : "");
    }
    output_table_print(&table);
}

void explain_print(struct cli *cli, const Ckpt__V1__ExplainReply *reply,
                   const Ckpt__V1__Allocation *job, const char *leader)
{
    char text[HUMAN_BYTES], age[HUMAN_BYTES];

    print_job_line(cli, reply, job, leader);
    if (job != NULL)
        job_waits_print(cli, job);
    print_origin(cli, reply);
    if (reply->terms != NULL)
        print_sums(cli, reply);
    print_flips(cli, reply);
    print_guards(cli, reply);
    if (reply->grant != NULL)
        print_grant(cli, reply->grant);
    if (reply->terms != NULL && reply->terms->young_daly_ms > 0)
        cli_out(cli, " Young/Daly for this job: %s   work since the last checkpoint: %s\n",
                human_duration(reply->terms->young_daly_ms, text),
                human_duration(reply->terms->age_ms, age));
    if (job != NULL && job->spec != NULL)
        spec_print(cli, job->spec);
    print_parts(cli, reply);
    print_inputs(cli, reply);
}
