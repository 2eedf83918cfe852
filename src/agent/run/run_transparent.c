/* A program that a tool saves from outside. See run_transparent.h. */
#include "src/agent/run/run_transparent.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "src/agent/node/proc.h"
#include "src/agent/transparent/front.h"
#include "src/agent/transparent/save.h"
#include "src/ask/ask.h"
#include "src/base/check.h"
#include "src/base/text.h"

static struct {
    const struct tool *tool;    /* NULL: none is wanted */
    const struct tool *at_hand; /* with --profile auto; NULL: none */
    const char *work_dir;
} on;

bool run_transparent_wanted(const struct run_options *options)
{
    return tool_find(options->profile) != NULL;
}

/* Options that are refused beside a tool that is named go without one here. */
static bool may_be_at_hand(const struct run_options *options)
{
    return options->way != RUN_WAY_SAID && !options->alone.wanted && options->ranks <= 1 &&
           options->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH &&
           options->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL && !options->asks_group &&
           !options->asks_started;
}

static const struct tool *first_that_works(void)
{
    char version[TOOL_VERSION_BYTES];
    const struct tool *tool;
    struct err why = {0};

    for (size_t i = 0; (tool = tool_at(i)) != NULL; i++)
        if (tool->check(version, &why) == 0)
            return tool;
    return NULL;
}

int run_transparent_open(const struct run_options *options, const char *work_dir, struct err *err)
{
    char version[TOOL_VERSION_BYTES];

    on.work_dir = work_dir;
    on.at_hand = may_be_at_hand(options) ? first_that_works() : NULL;
    if (!run_transparent_wanted(options))
        return 0;
    on.tool = tool_find(options->profile);
    if (on.tool->check(version, err) != 0)
        return err_wrap(err, "--profile %s", on.tool->name);
    return 0;
}

bool run_transparent_is_on(void)
{
    return on.tool != NULL;
}

const char *run_transparent_at_hand(void)
{
    return on.at_hand == NULL ? "" : on.at_hand->name;
}

void run_transparent_drop(void)
{
    CHECK(on.tool == NULL);
    on.at_hand = NULL;
}

int run_transparent_begin(bool allowed, const char *restore_dir, struct err *err)
{
    const struct tool *of_image = tool_of_image(restore_dir);
    char version[TOOL_VERSION_BYTES];

    if (on.at_hand != NULL)
        on.tool = allowed || of_image == on.at_hand ? on.at_hand : NULL;
    if (of_image == NULL || of_image == on.tool || (on.tool == NULL && !of_image->marks))
        return 0;
    if (on.tool == NULL && of_image->check(version, err) != 0)
        return err_wrap(err, "the checkpoint is an image of %s", of_image->name);
    return err_set(err, ERR_REFUSED,
                   "the checkpoint is an image of %s, from which the command does not go on by "
                   "itself: start it with --profile %s, or from scratch with --from-scratch",
                   of_image->name, of_image->name);
}

void run_transparent_resume(pid_t application)
{
    struct proc_stat stat;

    if (on.at_hand != NULL && proc_read_stat(application, &stat) == 0 &&
        strcmp(stat.name, FRONT_NAME) == 0)
        on.tool = on.at_hand;
}

char *const *run_transparent_line(const struct run_options *options, const char *restore_dir,
                                  struct err *err)
{
    const bool own = on.at_hand != NULL && tool_of_image(restore_dir) == NULL; /* it reads them */
    const struct tool_start start = {on.work_dir, own ? "" : restore_dir, options->command};

    CHECK(on.tool != NULL);
    if (on.tool->prepare != NULL && on.tool->prepare(&start, err) != 0)
        return NULL;
    return front_line(on.tool, &start);
}

int run_transparent_refuse_parts(const struct run_options *options, uint32_t parts, struct err *err)
{
    CHECK(parts > 1);
    return err_set(err, ERR_INVALID,
                   "--profile %s saves the processes of one node, and the job has %" PRIu32
                   " parts: ask it by its own way (deploy/JOBS.md)",
                   options->profile, parts);
}

int run_transparent_check(const struct run_options *options, struct err *err)
{
    if (!run_transparent_wanted(options))
        return 0;
    if (options->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH ||
        options->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL)
        return err_set(err, ERR_INVALID,
                       "--profile %s does not go with --restore path or all: the tool needs the "
                       "files on this node, so name own",
                       options->profile);
    if (options->ranks > 1)
        return err_set(err, ERR_INVALID,
                       "--ranks %" PRIu32 " does not go with --profile %s, which saves all "
                       "processes at once: leave it out",
                       options->ranks, options->profile);
    if (options->ask_signal != 0 || options->asks_group || options->asks_started)
        return err_set(err, ERR_INVALID,
                       "--ask and --ask-signal do not go with --profile %s: the program is not "
                       "asked, so leave them out",
                       options->profile);
    return 0;
}

pid_t run_transparent_save(const struct run_transparent_save *asked)
{
    const struct tool_save save = {.work_dir = on.work_dir,
                                   .folder = asked->folder,
                                   .front = asked->application,
                                   .stops = asked->stops,
                                   .deadline_ms = asked->deadline_ms};

    CHECK(on.tool != NULL);
    return save_start(on.tool, &save);
}

void run_transparent_why(char *ret_why, size_t size)
{
    char why[SAVE_WHY_BYTES];

    CHECK(on.tool != NULL);
    save_why(on.work_dir, why);
    if (why[0] == '\0')
        snprintf(ret_why, size, "%s does not say why it has failed", on.tool->name);
    else
        snprintf(ret_why, size, "%s", why);
}

void run_transparent_end_why(int wait_status, char *ret_why, size_t size)
{
    char why[SAVE_WHY_BYTES];

    ret_why[0] = '\0';
    if (on.tool == NULL || !WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != FRONT_FAILED)
        return;
    save_why(on.work_dir, why);
    if (strncmp(why, FRONT_WHY, strlen(FRONT_WHY)) == 0)
        (void)text_copy(ret_why, size, why);
}
