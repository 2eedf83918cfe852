/* ckptctl explain: the last decision on a job with its terms, and what would flip it. */
#include <inttypes.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/output.h"

static void leader_text(struct cli *cli, uint64_t leader_id, char *text, size_t size)
{
    struct members members;
    bool found = false;

    members_ask(cli, CALL_QUICK, &members);
    for (size_t i = 0; members.best != NULL && i < members.best->n_members && !found; i++) {
        if (members.best->members[i]->member_id == leader_id) {
            human_safe(members.best->members[i]->name, text, size);
            found = true;
        }
    }
    if (!found)
        snprintf(text, size, "member %" PRIu64, leader_id);
    members_free(&members);
}

static void print_job_line(struct cli *cli, const Ckpt__V1__ExplainReply *reply,
                           const Ckpt__V1__Allocation *job)
{
    char text[HUMAN_BYTES], name[160], tenant[160];

    fprintf(cli->out, "JOB %s", human_safe(reply->allocation_id, name, sizeof(name)));
    if (job != NULL && job->spec != NULL) {
        fprintf(cli->out, " (tenant %s, %zu nodes, %s since %s)",
                human_safe(job->spec->tenant, tenant, sizeof(tenant)), job->spec->n_nodes,
                human_enum_words(&ckpt__v1__allocation_state__descriptor, (int)job->state, text),
                human_clock(job->state_since_ms, name));
    }
    if (reply->evaluated_at_ms == 0) {
        fprintf(cli->out, "  decision: none yet\n");
        return;
    }
    leader_text(cli, reply->leader_id, name, sizeof(name));
    fprintf(cli->out, "  decision: %s at %s", reply->checkpoint ? "CHECKPOINT" : "SKIP",
            human_clock(reply->evaluated_at_ms, text));
    fprintf(cli->out, " (leader %s, term %" PRIu64 "%s%s)\n", name, reply->term,
            reply->terms != NULL && reply->terms->verdict[0] != '\0' ? ", " : "",
            reply->terms == NULL ? "" : human_safe(reply->terms->verdict, tenant, sizeof(tenant)));
}

static void print_terms(struct cli *cli, const Ckpt__V1__DecisionTerms *terms)
{
    char value[HUMAN_BYTES], a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES], d[HUMAN_BYTES];
    unsigned __int128 at_risk = (unsigned __int128)terms->age_ms * terms->gpu_count;
    int64_t at_risk_gpu_ms = at_risk > INT64_MAX ? INT64_MAX : (int64_t)at_risk;

    fprintf(cli->out, " value %s GPU-s   recompute %s (p=%.3g × %s)  preempt %s",
            human_gpu_s(terms->value_gpu_ms, value), human_gpu_s(terms->recompute_saved_gpu_ms, a),
            (double)terms->failure_probability_ppm / 1e6, human_gpu_s(at_risk_gpu_ms, b),
            human_gpu_s(terms->preemptability_gpu_ms, c));
    fprintf(cli->out, "  backlog %s\n", human_gpu_s(terms->backlog_relief_gpu_ms, d));
    fprintf(cli->out, " cost  %s GPU-s   write %s of %s @ %s  pause %s",
            human_gpu_s(terms->cost_gpu_ms, value), human_duration(terms->write_ms, a),
            human_size(terms->size_bytes, b), human_rate(terms->bandwidth_bytes_per_s, c),
            human_gpu_s(terms->compute_waste_gpu_ms, d));
    fprintf(cli->out, "  bandwidth %s", human_gpu_s(terms->write_time_gpu_ms, a));
    fprintf(cli->out, "  storage %s\n", human_gpu_s(terms->storage_cost_gpu_ms, b));
}

static void print_explanation(struct cli *cli, const Ckpt__V1__ExplainReply *reply,
                              const Ckpt__V1__Allocation *job)
{
    char text[HUMAN_BYTES], age[HUMAN_BYTES];

    print_job_line(cli, reply, job);
    if (reply->terms != NULL)
        print_terms(cli, reply->terms);
    if (reply->flips_when[0] != '\0') {
        fprintf(cli->out, " flips when: ");
        output_safe(cli->out, reply->flips_when);
        fputc('\n', cli->out);
    }
    for (size_t i = 0; i < reply->n_guards; i++) {
        fprintf(cli->out, "%s", i == 0 ? " guards: " : ", ");
        output_safe(cli->out, reply->guards[i]);
    }
    if (reply->n_guards > 0)
        fputc('\n', cli->out);
    if (reply->terms != NULL && reply->terms->young_daly_ms > 0) {
        fprintf(cli->out, " Young/Daly for this job: %s   work since the last checkpoint: %s\n",
                human_duration(reply->terms->young_daly_ms, text),
                human_duration(reply->terms->age_ms, age));
    }
}

enum cli_exit command_explain(struct cli *cli)
{
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    Ckpt__V1__GetAllocationRequest job_request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    ProtobufCMessage *message;
    ProtobufCMessage *job = NULL;
    char what[160];
    enum cli_exit code;

    request.allocation_id = cli_argument(cli, 0);
    job_request.allocation_id = cli_argument(cli, 0);
    snprintf(what, sizeof(what), "explain job %.128s", request.allocation_id);
    code = call_read(cli, what, "BrokerService/Explain", &request.base,
                     &ckpt__v1__explain_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    if (cli->format == OUTPUT_NAME) {
        fprintf(cli->out, "%s\n",
                ((const Ckpt__V1__ExplainReply *)message)->checkpoint ? "CHECKPOINT" : "SKIP");
    } else if (!output_json_message(cli, "explanation", message)) {
        code = call_read(cli, what, "BrokerService/GetAllocation", &job_request.base,
                         &ckpt__v1__allocation__descriptor, &job);
        if (code == CLI_OK) {
            print_explanation(cli, (const Ckpt__V1__ExplainReply *)message,
                              (const Ckpt__V1__Allocation *)job);
            call_free(job);
        }
    }
    call_free(message);
    return code;
}
