/* Checkpoints by a site's echkpnt. See run_echkpnt.h. */
#include "src/agent/run/run_echkpnt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/run/run_erestart.h"
#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_lsf_answer.h"
#include "src/agent/run/run_lsf_output.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum { NOT_RUN = 127, NUMBER_BYTES = 16 };

static struct {
    bool on;
    struct lsf_settings settings;
    const char *allocation_id, *work_dir;
    char program[PATH_MAX]; /* echkpnt */
    char started_in[PATH_MAX];
} site;

/* LSF takes them with bsub; here they are of the registration. */
static void say_periods(const struct lsf_settings *settings)
{
    if (settings->period_min != 0)
        run_say("-k: the period of %u min counts where the job is registered: ckpt-run register "
                "--period %um, or ckptctl update",
                settings->period_min, settings->period_min);
    if (settings->first_period_min != 0)
        run_say("-k: init=%u counts where the job is registered: ckpt-run register with the same "
                "-k, or --first-period %um",
                settings->first_period_min, settings->first_period_min);
}

int run_echkpnt_open(const struct run_options *options, const char *work_dir, struct err *err)
{
    char erestart[PATH_MAX];

    if (options->echkpnt == NULL)
        return 0;
    if (lsf_settings_parse(options->echkpnt, options->echkpnt_options, &site.settings, err) != 0 ||
        lsf_settings_find(&site.settings, err) != 0 ||
        lsf_program_find(&site.settings, LSF_ECHKPNT, site.program, err) != 0 ||
        lsf_program_find(&site.settings, LSF_ERESTART, erestart, err) != 0 ||
        lsf_output_prepare(&site.settings, options->allocation_id, err) != 0)
        return -1;
    site.allocation_id = options->allocation_id;
    site.work_dir = work_dir;
    site.on = true;
    run_keeper_folder(site.started_in);
    say_periods(&site.settings);
    return 0;
}

bool run_echkpnt_is_on(void)
{
    return site.on;
}

bool run_echkpnt_group(pid_t application, pid_t *ret_group)
{
    CHECK(site.on);
    if (run_erestart_runs(application))
        return lsf_group_read(site.work_dir, ret_group);
    *ret_group = application;
    return true;
}

static struct lsf_call echkpnt_call(void)
{
    return (struct lsf_call){&site.settings, LSF_ECHKPNT, site.allocation_id, site.work_dir};
}

/* erestart is of the method that took the checkpoint, so it is left with it. */
static void leave_record(const struct echkpnt_call *call)
{
    struct lsf_record record = {.pid = call->application, .group = call->group};
    int failure;

    text_copy(record.method, sizeof(record.method), site.settings.method);
    text_copy(record.method_dir, sizeof(record.method_dir), site.settings.method_dir);
    text_copy(record.job, sizeof(record.job), lsf_job(site.allocation_id));
    failure = lsf_record_write(call->folder, &record);
    if (failure == 0)
        return;
    fprintf(stderr, "ckpt-run cannot write to %s: %s\n", call->folder, strerror(failure));
    _exit(NOT_RUN);
}

void run_echkpnt_become(const struct echkpnt_call *call)
{
    char name[LSF_NAME_BYTES], group[NUMBER_BYTES], pid[NUMBER_BYTES];
    const char *line[LSF_OPTIONS_MAX];
    const struct lsf_call run = echkpnt_call();

    CHECK(site.on);
    CHECK(call->group > 1);
    snprintf(group, sizeof(group), "%d", (int)call->group);
    snprintf(pid, sizeof(pid), "%d", (int)call->application);
    lsf_environment(&site.settings, site.allocation_id, call->folder, site.started_in);
    setenv("LS_EXEC_T", "CHKPNT", 1);
    setenv("LS_JOBPID", pid, 1);
    if (lsf_output_open(&run) != 0)
        _exit(NOT_RUN);
    leave_record(call);
    if (chdir(call->folder) != 0)
        _exit(NOT_RUN);
    lsf_program_name(&site.settings, LSF_ECHKPNT, name);
    lsf_echkpnt_line(&site.settings, call->stops, name, call->folder, group, line);
    lsf_execute(site.program, line);
    fprintf(stderr, "%s: %s\n", site.program, strerror(errno));
    _exit(NOT_RUN);
}

const char *run_echkpnt_failure(int wait_status, char *text, size_t size)
{
    const struct lsf_call call = echkpnt_call();

    CHECK(site.on);
    return lsf_failure_text(&call, wait_status, text, size);
}

const char *run_echkpnt_label(void)
{
    return site.on && site.settings.forces ? RUN_FORCED_LABEL : "";
}
