/* `ckpt-run end`. See run_end.h. */
#include "src/agent/run/run_end.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/node/proc_environment.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/run_owner.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/usage.h"
#include "src/rpc/server.h"

#define LIST_OWN_JOBS_METHOD "/ckpt.v1.AppService/ListOwnJobs"

enum { END_TIMEOUT_MS = 5000, GRACE_NOT_TOLD_MS = 30000 /* an agent of the release before */ };

static const char usage[] =
    "usage: ckpt-run end ID [--now] [--for-good] [--socket PATH]\n"
    "Tells the application of your job on this node to end (SIGTERM), also when its ckpt-run has\n"
    "gone, and kills it (SIGKILL) when the grace of the job is over, which it says. It is not\n"
    "started again here; the job can be restarted from its last checkpoint. A job that waits to\n"
    "run is ended for good, and says how to go on from its checkpoints.\n"
    "\n"
    "  --now         kill it at once, also when it was told to end before\n"
    "  --for-good    end the whole job, on all of its nodes: it never runs again under this id\n"
    "  --socket PATH of the agent; default: " RUN_DEFAULT_SOCKET "\n"
    "\n"
    "The exit code is 0, 3 when it is no job of yours, 4 when it cannot be told or runs on other\n"
    "nodes, 125 when the agent or the cluster cannot be asked.\n";

struct running {
    uint32_t pid;
    uint64_t grace_ms;
};

/* pid 0: nothing of it runs here. False: *ret_code says how that went. */
static bool find_running(const char *allocation_id, const char *socket, struct running *ret_running,
                         int *ret_code)
{
    Ckpt__V1__ListOwnJobsRequest request = CKPT__V1__LIST_OWN_JOBS_REQUEST__INIT;
    Ckpt__V1__ListOwnJobsReply *reply = NULL;
    struct run_answer answer;
    struct buf bytes;

    request.allocation_id = check_strdup(allocation_id);
    buf_init(&bytes);
    ckpt__v1__list_own_jobs_request__pack(
        &request, buf_extend(&bytes, ckpt__v1__list_own_jobs_request__get_packed_size(&request)));
    run_call(socket, LIST_OWN_JOBS_METHOD, &bytes, END_TIMEOUT_MS, &answer);
    buf_close(&bytes);
    free(request.allocation_id);
    if (answer.status == RPC_OK)
        reply =
            ckpt__v1__list_own_jobs_reply__unpack(NULL, answer.bytes.length, answer.bytes.bytes);
    *ret_running = (struct running){.grace_ms = GRACE_NOT_TOLD_MS};
    if (reply == NULL && answer.status != RPC_NOT_FOUND)
        *ret_code = run_call_fail(socket, &answer);
    buf_close(&answer.bytes);
    if (reply == NULL)
        return answer.status == RPC_NOT_FOUND;
    if (reply->n_jobs == 1) {
        ret_running->pid = reply->jobs[0]->pid;
        if (reply->jobs[0]->grace_ms != 0)
            ret_running->grace_ms = reply->jobs[0]->grace_ms;
    }
    ckpt__v1__list_own_jobs_reply__free_unpacked(reply, NULL);
    return true;
}

static void say_told(const char *allocation_id, const struct running *running, bool now)
{
    char grace[WORDS_BYTES];

    if (now)
        printf("job %s: pid %" PRIu32 " is killed; ckpt-run status shows when it has ended\n",
               allocation_id, running->pid);
    else
        printf("job %s: pid %" PRIu32 " was told to end, and is killed when it has not ended in "
               "%s (ckpt-run end %s --now: at once); ckpt-run status shows when it has\n",
               allocation_id, running->pid, words_duration(running->grace_ms, grace),
               allocation_id);
}

/* On all its nodes, by the cluster. */
static int end_for_good(const char *allocation_id, const char *socket)
{
    Ckpt__V1__Allocation *job;
    int code = run_owner_end(socket, allocation_id);

    if (code != EXIT_SUCCESS)
        return code;
    printf("job %s: ended for good; its complete checkpoints stay\n", allocation_id);
    job = run_owner_job(socket, allocation_id, RUN_OWNER_JOB_MS);
    if (job != NULL)
        run_owner_job_print(stdout, socket, job, "");
    if (job != NULL)
        ckpt__v1__allocation__free_unpacked(job, NULL);
    return code;
}

static bool holds_nodes(const Ckpt__V1__Allocation *job)
{
    return job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
}

/* Nothing of it runs here: it waits, has ended, or runs elsewhere. */
static int end_elsewhere(const char *allocation_id, const char *socket)
{
    Ckpt__V1__Allocation *job = run_owner_job(socket, allocation_id, RUN_OWNER_JOB_MS);
    bool elsewhere = job != NULL && holds_nodes(job);

    if (elsewhere) {
        fprintf(stderr,
                "ckpt-run: no application of %s runs on this node; ckpt-run end %s --for-good ends "
                "it on all of its nodes\n",
                allocation_id, allocation_id);
        run_owner_job_print(stderr, socket, job, "");
    }
    if (job != NULL)
        ckpt__v1__allocation__free_unpacked(job, NULL);
    return elsewhere ? RUN_EXIT_REFUSED : end_for_good(allocation_id, socket);
}

static int end_job(const char *allocation_id, const char *socket, bool now)
{
    struct proc_environment environment;
    struct keeper_reply reply;
    struct running running;
    struct keeper_call call = {.request = KEEPER_END};
    int code = RUN_EXIT_SELF;

    if (!find_running(allocation_id, socket, &running, &code))
        return code;
    if (running.pid == 0)
        return end_elsewhere(allocation_id, socket);
    call.grace_ms = now ? 0 : running.grace_ms;
    if (!proc_read_environment((pid_t)running.pid, &environment) ||
        run_keeper_call(environment.work_dir, &call, &reply) < 0 || reply.card.pid != running.pid) {
        fprintf(stderr,
                "ckpt-run: the keeper of pid %" PRIu32
                " cannot be reached; end its processes: kill "
                "-- -%" PRIu32 "\n",
                running.pid, running.pid);
        return RUN_EXIT_REFUSED;
    }
    say_told(allocation_id, &running, now);
    return EXIT_SUCCESS;
}

static int refuse_words(const char *text)
{
    usage_refuse("ckpt-run", "end", text);
    return RUN_EXIT_SELF;
}

int run_end(int argc, char **argv)
{
    static const struct option table[] = {{"socket", required_argument, NULL, 's'},
                                          {"now", no_argument, NULL, 'n'},
                                          {"for-good", no_argument, NULL, 'g'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *socket = RUN_DEFAULT_SOCKET;
    bool now = false, for_good = false;
    struct err err = {0};
    int option;

    while ((option = usage_option(argc, argv, "", table, &err)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option == '?')
            return refuse_words(err.text);
        now = now || option == 'n';
        for_good = for_good || option == 'g';
        socket = option == 's' ? optarg : socket;
    }
    if (optind + 1 != argc)
        return refuse_words(optind == argc ? "end needs ID, the job's"
                                           : "end takes one ID; one job is ended after the other");
    if (id_check("ID", argv[optind], &err) != 0)
        return refuse_words(err.text);
    return for_good ? end_for_good(argv[optind], socket) : end_job(argv[optind], socket, now);
}
