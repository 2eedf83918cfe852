/* `ckpt-run end`. See run_end.h. */
#include "src/agent/run/run_end.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/node/proc_environment.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_options.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/server.h"

#define LIST_OWN_JOBS_METHOD "/ckpt.v1.AppService/ListOwnJobs"

enum { END_TIMEOUT_MS = 5000 };

static const char usage[] =
    "usage: ckpt-run end ID [--socket PATH]\n"
    "Tells the application of your job on this node to end (SIGTERM), also when its ckpt-run has\n"
    "gone. It is not started again here; the job can be restarted from its last checkpoint.\n"
    "\n"
    "  --socket PATH of the agent; default: " RUN_DEFAULT_SOCKET "\n"
    "\n"
    "The exit code is 0, 3 when no application of it runs here that is yours, 4 when it cannot be\n"
    "told, 125 when the agent cannot be asked.\n";

/* 0: none runs; -1: the agent cannot be asked, *ret_code says how that went. */
static int64_t find_pid(const char *allocation_id, const char *socket, int *ret_code)
{
    Ckpt__V1__ListOwnJobsRequest request = CKPT__V1__LIST_OWN_JOBS_REQUEST__INIT;
    Ckpt__V1__ListOwnJobsReply *reply = NULL;
    struct run_answer answer;
    struct buf bytes;
    int64_t pid = -1;

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
    if (reply == NULL)
        *ret_code = run_call_fail(socket, &answer);
    else
        pid = reply->n_jobs == 1 ? reply->jobs[0]->pid : 0;
    buf_close(&answer.bytes);
    if (reply != NULL)
        ckpt__v1__list_own_jobs_reply__free_unpacked(reply, NULL);
    return pid;
}

static int end_job(const char *allocation_id, const char *socket)
{
    struct proc_environment environment;
    struct keeper_reply reply;
    int code = RUN_EXIT_SELF;
    int64_t pid = find_pid(allocation_id, socket, &code);

    if (pid < 0)
        return code;
    if (pid == 0) {
        fprintf(stderr, "ckpt-run: no application of %s runs on this node\n", allocation_id);
        return RUN_EXIT_NOT_KNOWN;
    }
    if (!proc_read_environment((pid_t)pid, &environment) ||
        run_keeper_call(environment.work_dir, KEEPER_END, NULL, &reply) < 0 ||
        reply.card.pid != pid) {
        fprintf(stderr,
                "ckpt-run: the keeper of pid %" PRId64
                " cannot be reached; end its processes: kill "
                "-- -%" PRId64 "\n",
                pid, pid);
        return RUN_EXIT_REFUSED;
    }
    printf("job %s: pid %" PRId64 " was told to end; ckpt-run status shows when it has\n",
           allocation_id, pid);
    return EXIT_SUCCESS;
}

int run_end(int argc, char **argv)
{
    static const struct option table[] = {{"socket", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *socket = RUN_DEFAULT_SOCKET;
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option != 's') {
            fputs(usage, stderr);
            return RUN_EXIT_SELF;
        }
        socket = optarg;
    }
    if (optind + 1 != argc || !id_valid(argv[optind])) {
        fputs(usage, stderr);
        return RUN_EXIT_SELF;
    }
    return end_job(argv[optind], socket);
}
