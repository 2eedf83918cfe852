/* The options of a job without a cluster. See run_alone_options.h. */
#include "src/agent/run/run_alone_options.h"

#include <stddef.h>

#include "src/agent/alone/alone_step.h"
#include "src/agent/run/run_options.h"
#include "src/base/check.h"
#include "src/base/number.h"

static int take_every(const char *text, struct run_alone *alone, struct err *err)
{
    const struct number_range range = {.min = RUN_ALONE_EVERY_MIN_MS,
                                       .max = (uint64_t)30 * 24 * 3600 * 1000};
    struct err why = {0};

    if (number_parse(NUMBER_DURATION, text, range, &alone->every_ms, &why) != 0)
        return err_set(err, ERR_INVALID, "--every: %s", why.text);
    return 0;
}

static int take_keep(const char *text, struct run_alone *alone, struct err *err)
{
    const struct number_range range = {.min = 1, .max = ALONE_KEEP_MAX};
    struct err why = {0};
    uint64_t keep;

    if (number_parse(NUMBER_PLAIN, text, range, &keep, &why) != 0)
        return err_set(err, ERR_INVALID, "--keep: %s", why.text);
    alone->keep = (uint32_t)keep;
    return 0;
}

int run_alone_take(int option, const char *value, struct run_alone *alone, struct err *err)
{
    switch (option) {
    case RUN_ALONE:
        alone->wanted = true;
        return 0;
    case RUN_ALONE_EVERY:
        return take_every(value, alone, err);
    case RUN_ALONE_DIR:
        alone->folder = value;
        return 0;
    case RUN_ALONE_KEPT:
        return take_keep(value, alone, err);
    default:
        return -1;
    }
}

/* The words of a cluster's job, each with what it is for. */
static int refuse_cluster(const struct run_options *options, struct err *err)
{
    static const struct {
        unsigned char letter;
        const char *name, *why;
    } rows[] = {{'a', "--alloc", "names a job of a cluster"},
                {'s', "--socket", "names the agent of a cluster"},
                {'S', "--stay", "waits for a cluster's next run of the job"}};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (options->given[rows[i].letter])
            return err_set(err, ERR_INVALID,
                           "%s %s, and --standalone runs without one: leave one of them out",
                           rows[i].name, rows[i].why);
    return 0;
}

static int refuse_lone(const struct run_options *options, struct err *err)
{
    static const struct {
        unsigned char letter;
        const char *name;
    } rows[] = {{RUN_ALONE_EVERY, "--every"}, {RUN_ALONE_DIR, "--dir"}, {RUN_ALONE_KEPT, "--keep"}};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (options->given[rows[i].letter])
            return err_set(err, ERR_INVALID,
                           "%s is of use with --standalone alone: add that, or leave %s out; a "
                           "cluster's job has its period and its destination by its registration",
                           rows[i].name, rows[i].name);
    return 0;
}

int run_alone_check(struct run_options *options, struct err *err)
{
    struct run_alone *alone = &options->alone;

    if (!alone->wanted)
        return refuse_lone(options, err);
    if (refuse_cluster(options, err) != 0)
        return -1;
    if (alone->folder == NULL || alone->folder[0] == '\0')
        return err_set(err, ERR_INVALID,
                       "--dir DIR is missing: the folder for the checkpoints, on storage that "
                       "outlives this machine's reboot");
    if (alone->every_ms == 0)
        return err_set(err, ERR_INVALID,
                       "--every TIME is missing: how often a checkpoint is taken, like 30m");
    if (alone->keep == 0)
        alone->keep = RUN_ALONE_KEEP;
    return 0;
}
