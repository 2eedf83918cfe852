/* ckptctl queue report, queue clear: tells the broker what waits in a vCluster, as a scheduler
 * would. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"

enum {
    WAITING_MAX = 64,
    WAITING_CLASS_MAX = 10,
    WAITING_GPUS_MAX = 1 << 24,
    URGENCY_MAX_PPM = 100000000
};

/* WAITED[:URGENCY[:sensitive]], each of which may be empty. */
static int parse_wait(char *text, Ckpt__V1__WaitingJob *job, struct err *err)
{
    const char *waited = strsep(&text, ":");
    const char *urgency = text == NULL ? NULL : strsep(&text, ":");
    uint64_t urgency_ppm = 1000000;

    if (waited != NULL && waited[0] != '\0' &&
        number_parse(NUMBER_DURATION, waited, (struct number_range){0, INT64_MAX}, &job->waited_ms,
                     err) != 0)
        return err_wrap(err, "waited");
    if (urgency != NULL && urgency[0] != '\0' &&
        number_parse(NUMBER_SHARE, urgency, (struct number_range){1000, URGENCY_MAX_PPM},
                     &urgency_ppm, err) != 0)
        return err_wrap(err, "urgency (1 or 100%%: as the running job)");
    if (text != NULL && strcmp(text, "sensitive") != 0)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not \"sensitive\", the only last word",
                       text);
    job->urgency_milli = (uint32_t)(urgency_ppm / 1000);
    job->sensitive = text != NULL;
    return 0;
}

/* JOB:CLASS:GPUS[:WAITED[:URGENCY[:sensitive]]] */
static int parse_waiting(char *text, Ckpt__V1__WaitingJob *job, struct err *err)
{
    char *rest = text;
    char *id = strsep(&rest, ":");
    char *class_text = strsep(&rest, ":");
    char *gpus_text = strsep(&rest, ":");
    uint64_t class_number, gpus;

    if (!id_valid(id) || class_text == NULL || gpus_text == NULL)
        return err_set(err, ERR_INVALID,
                       "the form is JOB:CLASS:GPUS[:WAITED[:URGENCY[:sensitive]]]");
    if (number_parse(NUMBER_PLAIN, class_text, (struct number_range){0, WAITING_CLASS_MAX},
                     &class_number, err) != 0)
        return err_wrap(err, "%s: class", id);
    if (number_parse(NUMBER_PLAIN, gpus_text, (struct number_range){1, WAITING_GPUS_MAX}, &gpus,
                     err) != 0)
        return err_wrap(err, "%s: GPUs", id);
    if (parse_wait(rest, job, err) != 0)
        return err_wrap(err, "%s", id);
    job->job_id = id;
    job->preemption_class = (uint32_t)class_number;
    job->gpu_count = (uint32_t)gpus;
    return 0;
}

static enum cli_exit fill_waiting(struct cli *cli, Ckpt__V1__WaitingJob jobs[WAITING_MAX],
                                  Ckpt__V1__WaitingJob *pointers[WAITING_MAX])
{
    const struct option_value *waiting = cli_option(cli, "waiting");
    struct err err;

    if (waiting->item_count > WAITING_MAX) {
        return cli_fail(cli, CLI_USAGE, "the most urgent ones",
                        "--waiting: %zu jobs, at most %d are taken", waiting->item_count,
                        WAITING_MAX);
    }
    for (size_t i = 0; i < waiting->item_count; i++) {
        ckpt__v1__waiting_job__init(&jobs[i]);
        pointers[i] = &jobs[i];
        if (parse_waiting(waiting->items[i], &jobs[i], &err) != 0)
            return cli_fail(cli, CLI_USAGE, NULL, "--waiting: %s", err.text);
    }
    return CLI_OK;
}

enum cli_exit command_queue_report(struct cli *cli)
{
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob jobs[WAITING_MAX];
    Ckpt__V1__WaitingJob *pointers[WAITING_MAX];
    char what[160];
    enum cli_exit code = fill_waiting(cli, jobs, pointers);

    if (code != CLI_OK)
        return code;
    request.vcluster = cli_argument(cli, 0);
    request.queued_gpu_ms = cli_number(cli, "queued", 0);
    request.running_gpu_ms = cli_number(cli, "running", 0);
    request.waiting = pointers;
    request.n_waiting = cli_option(cli, "waiting")->item_count;
    snprintf(what, sizeof(what), "report the queue of %.100s", request.vcluster);
    return call_mutate_simple(cli, what, "BrokerService/ReportQueue", &request.base);
}

enum cli_exit command_queue_clear(struct cli *cli)
{
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    char what[160];

    request.vcluster = cli_argument(cli, 0);
    request.withdrawn = true;
    snprintf(what, sizeof(what), "clear the queue of %.100s", request.vcluster);
    return call_mutate_simple(cli, what, "BrokerService/ReportQueue", &request.base);
}
