/* `ckpt-run status`. See run_status.h. */
#include "src/agent/run/run_status.h"
#include "src/agent/alone/alone_step.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/alone/alone_step.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/run_owner.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/usage.h"
#include "src/rpc/server.h"

#define LIST_OWN_JOBS_METHOD "/ckpt.v1.AppService/ListOwnJobs"

enum { STATUS_TIMEOUT_MS = 5000, CLUSTER_JOBS_MAX = 8 /* jobs that the cluster is asked for */ };

static const char usage[] =
    "usage: ckpt-run status [--alloc ID] [--socket PATH] [-o text|json]\n"
    "Your own jobs on this node, as its agent knows them; root sees all of the node. What the\n"
    "cluster knows, and the next step, stands below those that do not run here: with --alloc, or\n"
    "below the last 8.\n"
    "\n"
    "  --alloc ID    this one only\n"
    "  --socket PATH of the agent; default: " RUN_DEFAULT_SOCKET "\n"
    "  -o FORMAT     text (the default) or json\n"
    "\n"
    "The exit code is 0, 3 when --alloc is no job of yours that this node or the cluster knows,\n"
    "125 when the agent cannot be asked.\n";

struct status_options {
    const char *allocation_id; /* "": all */
    const char *socket;
    bool json;
};

/* ---- for people ---- */

static uint64_t age_ms(const Ckpt__V1__ListOwnJobsReply *reply, uint64_t at_ms)
{
    return reply->now_ms > at_ms ? reply->now_ms - at_ms : 0;
}

/* ", since 10:32:05 (4m03s)"; nothing for what is not known. */
static void print_instant(const Ckpt__V1__ListOwnJobsReply *reply, const char *before,
                          uint64_t at_ms)
{
    char clock[WORDS_BYTES], age[WORDS_BYTES];

    if (at_ms != 0)
        printf("%s%s (%s ago)", before, words_clock(at_ms, clock),
               words_duration(age_ms(reply, at_ms), age));
}

/* The agent has heard the id, also from a ckpt-run that was refused: whether a job has it, the
 * cluster knows. */
static void print_not_started(const char *id, bool known, bool unknown)
{
    if (unknown)
        printf("job %s: not started; it is not yours, or not there: where nobody has that id, "
               "ckpt-run register --alloc %s registers it\n",
               id, id);
    else
        printf("job %s: %snot started yet: ckpt-run --alloc %s -- COMMAND\n", id,
               known ? "registered, " : "", id);
}

static void print_state(const Ckpt__V1__ListOwnJobsReply *reply, const Ckpt__V1__OwnJob *job)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], reason[WORDS_BYTES];
    const bool ended = job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED;

    switch (job->state) {
    case CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING:
        printf("job %s: starting: its ckpt-run waits, or restores; its output says for what",
               job->allocation_id);
        break;
    case CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_CHECKPOINTED:
        printf("job %s: running, being checkpointed (%s)", job->allocation_id,
               checkpoint_id_format(job->asked_checkpoint_id, id));
        break;
    case CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_ENDED:
        printf("job %s: being ended", job->allocation_id);
        break;
    case CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED:
        printf("job %s: %s", job->allocation_id,
               job->imported ? "its files were imported on this node, and nothing of it runs"
                             : "ended on this node");
        break;
    default:
        printf("job %s: running%s", job->allocation_id,
               job->stopped ? ", but stopped by a signal, and computes nothing: fg in its "
                              "terminal, or kill -CONT"
                            : "");
        break;
    }
    if (job->pid != 0)
        printf(", pid %" PRIu32, job->pid);
    print_instant(reply, ended ? ", at " : ", started at ", job->since_ms);
    if (job->imported && job->end_reason == CKPT__V1__REASON__REASON_MIGRATED)
        fputs(", for its ckpt-run to begin from", stdout);
    else if (job->end_reason != CKPT__V1__REASON__REASON_NONE)
        printf(", %s", words_enum(&ckpt__v1__reason__descriptor, (int)job->end_reason, reason));
    if (job->imported) {
        putchar('\n');
        return;
    }
    if (job->exit_known && WIFSIGNALED(job->exit_status))
        printf(", by signal %d", WTERMSIG(job->exit_status));
    else if (job->exit_known)
        printf(", with exit status %d", WEXITSTATUS(job->exit_status));
    putchar('\n');
}

/* Its place in the run, its ranks, and what is asked of them now. */
static void print_ranks(const Ckpt__V1__OwnJob *job)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], asked[WORDS_BYTES], left[WORDS_BYTES];

    if (job->pid != 0 && job->parts != 0)
        printf("  part %" PRIu32 " of %" PRIu32 "\n", job->part, job->parts);
    for (size_t i = 0; i < job->n_ranks; i++) {
        const Ckpt__V1__OwnRank *rank = job->ranks[i];

        printf("%s%" PRIu32 " (", i == 0 ? "  ranks: " : ", ", rank->number);
        if (rank->pid != 0)
            printf("pid %" PRIu32 ", ", rank->pid);
        printf("%s", rank->state);
        if (rank->step != 0)
            printf(", last heard step %" PRIu64, rank->step);
        printf(")%s", i + 1 == job->n_ranks ? "\n" : "");
    }
    if (job->asked_checkpoint_id == 0)
        return;
    printf("  asked now: checkpoint %s, %s", checkpoint_id_format(job->asked_checkpoint_id, id),
           job->asked_state);
    if (job->asked_ms != 0)
        printf(", for %s, and has %s left", words_duration(job->asked_ms, asked),
               words_duration(job->left_ms, left));
    if (job->agreed_step != 0)
        printf("; all ranks save at step %" PRIu64, job->agreed_step);
    putchar('\n');
}

/* Of steps that are said; what the whole cluster thinks of them tells ckptctl. */
static void print_steps(const Ckpt__V1__StepsWord *steps)
{
    char ago[WORDS_BYTES];

    if (steps == NULL)
        return;
    printf("  last step %s ago\n", words_duration(steps->stepped_ms, ago));
    if (steps->n_behind == 0)
        return;
    printf("  no rank of this node has stepped for %s, longer than its steps take:\n",
           words_duration(steps->quiet_ms, ago));
    for (size_t i = 0; i < steps->n_behind; i++)
        printf("    rank %" PRIu32 " said step %" PRIu64 " last, its pid %" PRIu32 " %s\n",
               steps->behind[i]->number, steps->behind[i]->step, steps->behind[i]->pid,
               steps->behind[i]->state);
}

static void print_last(const Ckpt__V1__ListOwnJobsReply *reply, const Ckpt__V1__OwnJob *job)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], size[WORDS_BYTES];

    if (job->checkpoint_id == 0) {
        if (job->state != CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_NOT_STARTED)
            puts("  last checkpoint: none was written or restored on this node");
    } else {
        printf("  last checkpoint: %s", checkpoint_id_format(job->checkpoint_id, id));
        print_instant(reply, ", of ", job->checkpoint_at_ms);
        if (job->checkpoint_bytes != 0)
            printf(", %s", words_size(job->checkpoint_bytes, size));
        if (job->checkpoint_path[0] != '\0')
            printf(", at %s", job->checkpoint_path);
        putchar('\n');
    }
    if (job->failed_checkpoint_id != 0) {
        printf("  last failure: %s (attempt %" PRIu32 ")",
               checkpoint_id_format(job->failed_checkpoint_id, id), job->failed_attempt);
        print_instant(reply, ", at ", job->failed_at_ms);
        printf(": %s\n", job->failed_text);
    }
}

/* A job that runs here is told of by its agent alone. */
static bool wants_cluster(const Ckpt__V1__OwnJob *job)
{
    return job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING ||
           job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_NOT_STARTED ||
           job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED;
}

/* All of one job. */
static void print_job(const Ckpt__V1__ListOwnJobsReply *reply, const Ckpt__V1__OwnJob *job,
                      const char *socket, bool asks)
{
    Ckpt__V1__Allocation *known = NULL;
    bool unknown = false;

    if (asks && reply->leader && wants_cluster(job))
        known = run_owner_job_asked(socket, job->allocation_id, RUN_OWNER_JOB_MS, &unknown);
    if (job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_NOT_STARTED)
        print_not_started(job->allocation_id, known != NULL, unknown);
    else
        print_state(reply, job);
    print_ranks(job);
    print_steps(job->steps);
    print_last(reply, job);
    if (known == NULL)
        return;
    run_owner_job_print(stdout, socket, known, reply->node_id);
    ckpt__v1__allocation__free_unpacked(known, NULL);
}

/* The agent of a ckpt-run --standalone: a child of that answers it, at a socket of the node. */
static bool is_alone(const Ckpt__V1__ListOwnJobsReply *reply)
{
    static const char local[] = "unix:";

    return strcmp(reply->node_id, ALONE_NODE) == 0 &&
           strncmp(reply->leader_address, local, sizeof(local) - 1) == 0;
}

static void print_text(const Ckpt__V1__ListOwnJobsReply *reply, const char *socket)
{
    const size_t first = reply->n_jobs > CLUSTER_JOBS_MAX ? reply->n_jobs - CLUSTER_JOBS_MAX : 0;

    if (is_alone(reply))
        puts("no cluster: a job of ckpt-run --standalone");
    else if (reply->leader)
        printf("node %s: connected to the cluster's leader (%s)\n", reply->node_id,
               reply->leader_address);
    else
        printf("node %s: no leader of the cluster answers; jobs run on, no new checkpoint is asked "
               "for\n",
               reply->node_id);
    for (size_t i = 0; i < reply->n_jobs; i++)
        print_job(reply, reply->jobs[i], socket, i >= first);
    if (reply->n_jobs == 0)
        puts("no job of yours is known on this node");
    if (reply->left_out > 0)
        printf("%" PRIu32 " earlier jobs are not shown; --alloc ID shows one\n", reply->left_out);
}

/* ---- for programs ---- */

static void json_text(const char *name, const char *text)
{
    printf("\"%s\": \"", name);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void json_id(const char *name, uint64_t id)
{
    char text[CHECKPOINT_ID_TEXT_BYTES];

    json_text(name, id == 0 ? "" : checkpoint_id_format(id, text));
}

static void json_steps(const Ckpt__V1__StepsWord *steps)
{
    printf(", \"steps\": {\"stepped_ms\": %" PRIu64 ", \"quiet_ms\": %" PRIu64
           ", \"gap_p99_ms\": %" PRIu64 ", \"highest_step\": %" PRIu64 ", \"behind\": [",
           steps->stepped_ms, steps->quiet_ms, steps->gap_p99_ms, steps->highest_step);
    for (size_t i = 0; i < steps->n_behind; i++) {
        printf("%s{\"number\": %" PRIu32 ", \"pid\": %" PRIu32 ", \"step\": %" PRIu64 ", ",
               i == 0 ? "" : ", ", steps->behind[i]->number, steps->behind[i]->pid,
               steps->behind[i]->step);
        json_text("state", steps->behind[i]->state);
        printf("}");
    }
    printf("]}");
}

static void json_job(const Ckpt__V1__OwnJob *job)
{
    char state[WORDS_BYTES], reason[WORDS_BYTES];

    printf("{");
    json_text("allocation_id", job->allocation_id);
    printf(", ");
    json_text("state", words_enum(&ckpt__v1__own_job_state__descriptor, (int)job->state, state));
    printf(", \"pid\": %" PRIu32 ", \"since_ms\": %" PRIu64 ", ", job->pid, job->since_ms);
    json_text("end_reason",
              words_enum(&ckpt__v1__reason__descriptor, (int)job->end_reason, reason));
    if (job->stopped)
        printf(", \"stopped\": true");
    if (job->imported)
        printf(", \"imported\": true");
    if (job->exit_known)
        printf(", \"exit_code\": %d", run_exit_code(job->exit_status));
    printf(", ");
    json_id("asked_checkpoint", job->asked_checkpoint_id);
    printf(", ");
    json_id("last_checkpoint", job->checkpoint_id);
    printf(", \"last_checkpoint_at_ms\": %" PRIu64 ", \"last_checkpoint_bytes\": %" PRIu64 ", ",
           job->checkpoint_at_ms, job->checkpoint_bytes);
    json_text("last_checkpoint_path", job->checkpoint_path);
    printf(", ");
    json_id("failed_checkpoint", job->failed_checkpoint_id);
    printf(", \"failed_attempt\": %" PRIu32 ", \"failed_at_ms\": %" PRIu64 ", ",
           job->failed_attempt, job->failed_at_ms);
    json_text("failed_text", job->failed_text);
    printf(", \"part\": %" PRIu32 ", \"parts\": %" PRIu32 ", ", job->part, job->parts);
    json_text("asked_state", job->asked_state);
    printf(", \"asked_ms\": %" PRIu64 ", \"left_ms\": %" PRIu64 ", \"agreed_step\": %" PRIu64
           ", \"ranks\": [",
           job->asked_ms, job->left_ms, job->agreed_step);
    for (size_t i = 0; i < job->n_ranks; i++) {
        printf("%s{\"number\": %" PRIu32 ", \"pid\": %" PRIu32 ", ", i == 0 ? "" : ", ",
               job->ranks[i]->number, job->ranks[i]->pid);
        json_text("state", job->ranks[i]->state);
        printf(", \"step\": %" PRIu64 "}", job->ranks[i]->step);
    }
    printf("]");
    if (job->steps != NULL)
        json_steps(job->steps);
    printf("}");
}

static void print_json(const Ckpt__V1__ListOwnJobsReply *reply)
{
    printf("{");
    json_text("node_id", reply->node_id);
    printf(", \"leader\": %s, ", reply->leader ? "true" : "false");
    json_text("leader_address", reply->leader_address);
    printf(", \"now_ms\": %" PRIu64 ", \"left_out\": %" PRIu32 ", \"jobs\": [", reply->now_ms,
           reply->left_out);
    for (size_t i = 0; i < reply->n_jobs; i++) {
        printf("%s", i == 0 ? "" : ", ");
        json_job(reply->jobs[i]);
    }
    puts("]}");
}

/* ---- the verb ---- */

static int wrong(const char *text)
{
    usage_refuse("ckpt-run", "status", text);
    return RUN_EXIT_SELF;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct status_options *ret_options)
{
    static const struct option table[] = {{"alloc", required_argument, NULL, 'a'},
                                          {"socket", required_argument, NULL, 's'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct status_options options = {.allocation_id = "", .socket = RUN_DEFAULT_SOCKET};
    struct err err = {0};
    int option;

    while ((option = usage_option(argc, argv, "o:", table, &err)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option == '?' || (option == 'a' && id_check("--alloc", optarg, &err) != 0))
            return wrong(err.text);
        if (option == 'o' && strcmp(optarg, "json") != 0 && strcmp(optarg, "text") != 0)
            return wrong("-o must be text or json");
        if (option == 'a')
            options.allocation_id = optarg;
        else if (option == 's')
            options.socket = optarg;
        else
            options.json = strcmp(optarg, "json") == 0;
    }
    if (optind != argc)
        return wrong("status takes options only; ckpt-run --alloc ID -- COMMAND runs one");
    *ret_options = options;
    return -1;
}

/* Of a job that this node has not heard of. */
static bool print_elsewhere(const struct status_options *options)
{
    Ckpt__V1__Allocation *job =
        run_owner_job(options->socket, options->allocation_id, RUN_OWNER_JOB_MS);

    if (job == NULL)
        return false;
    printf("job %s: nothing of it is on this node\n", options->allocation_id);
    run_owner_job_print(stdout, options->socket, job, "");
    ckpt__v1__allocation__free_unpacked(job, NULL);
    return true;
}

int run_status(int argc, char **argv)
{
    Ckpt__V1__ListOwnJobsRequest request = CKPT__V1__LIST_OWN_JOBS_REQUEST__INIT;
    Ckpt__V1__ListOwnJobsReply *reply = NULL;
    struct status_options options = {0};
    struct run_answer answer;
    struct buf bytes;
    int code = parse(argc, argv, &options);

    if (code >= 0)
        return code;
    request.allocation_id = check_strdup(options.allocation_id);
    buf_init(&bytes);
    ckpt__v1__list_own_jobs_request__pack(
        &request, buf_extend(&bytes, ckpt__v1__list_own_jobs_request__get_packed_size(&request)));
    run_call(options.socket, LIST_OWN_JOBS_METHOD, &bytes, STATUS_TIMEOUT_MS, &answer);
    buf_close(&bytes);
    free(request.allocation_id);
    if (answer.status == RPC_OK)
        reply =
            ckpt__v1__list_own_jobs_reply__unpack(NULL, answer.bytes.length, answer.bytes.bytes);
    if (reply == NULL && answer.status == RPC_NOT_FOUND && !options.json &&
        print_elsewhere(&options))
        code = EXIT_SUCCESS;
    else if (reply == NULL)
        code = run_call_fail(options.socket, &answer);
    else if (options.json)
        print_json(reply);
    else
        print_text(reply, options.socket);
    buf_close(&answer.bytes);
    if (reply == NULL)
        return code;
    ckpt__v1__list_own_jobs_reply__free_unpacked(reply, NULL);
    return EXIT_SUCCESS;
}
