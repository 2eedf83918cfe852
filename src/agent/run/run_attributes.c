/* The attributes of a job's registration. See run_attributes.h. */
#include "src/agent/run/run_attributes.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/attributes.h"
#include "src/agent/run/run_command.h"
#include "src/agent/run/run_transparent.h"
#include "src/base/check.h"
#include "src/base/signal_name.h"

#define SIGNAL_DEFAULT "TERM"

static int take_signal(const char *name, int *ret_signal, struct err *err)
{
    struct err why = {0};

    *ret_signal = signal_name_parse(name, &why);
    return *ret_signal > 0
               ? 0
               : err_set(err, ERR_INVALID,
                         "the job is registered with an attribute that names a signal: %s",
                         why.text);
}

/* HTCondor's soft kill signal is the one that asks, unless another one is named. */
static const char *asking_signal(const struct fsm_attributes *attributes)
{
    if (attributes->checkpoint_signal[0] != '\0')
        return attributes->checkpoint_signal;
    return attributes->kill_signal[0] != '\0' ? attributes->kill_signal : SIGNAL_DEFAULT;
}

/* Of one job: its texts last as long as this program. */
int run_attributes_read(const char *text, struct stand_in *ret_stand_in, struct err *err)
{
    static struct fsm_attributes attributes;
    char found[FSM_FOUND_BYTES];
    struct stand_in stand_in = {.file = NULL};

    CHECK(text != NULL);
    if (fsm_attributes_read(text, &attributes, found) != FSM_OK)
        return err_set(err, ERR_INVALID,
                       "the job is registered with attributes that this ckpt-run does not take: "
                       "%s; install the release of the cluster",
                       found);
    stand_in.unasked = attributes.unasked;
    stand_in.status = (int)attributes.code;
    stand_in.files = attributes.files[0] == '\0' ? NULL : attributes.files;
    if (stand_in.files == NULL && attributes.want_signal)
        stand_in.files = STAND_IN_ALL_FILES;
    if (attributes.by_signal && take_signal(attributes.exit_signal, &stand_in.end_signal, err) != 0)
        return -1;
    if (attributes.want_signal &&
        take_signal(asking_signal(&attributes), &stand_in.tell.signal, err) != 0)
        return -1;
    if (attributes.kill_signal[0] != '\0' &&
        take_signal(attributes.kill_signal, &stand_in.kill_signal, err) != 0)
        return -1;
    *ret_stand_in = stand_in;
    return stand_in_check(ret_stand_in, "", 1, err);
}

char *const *run_attributes_line(const struct run_options *options,
                                 const Ckpt__V1__AttachReady *ready, struct err *err)
{
    static char **line;
    static char *known;
    char *const *command;
    struct stand_in stand_in;

    if (run_transparent_begin(ready->outside, ready->restore_dir, err) != 0)
        return options->command;
    command = run_command_line(options, ready->restore_dir, err);

    if (ready->attributes[0] != '\0') {
        free(known);
        known = check_strdup(ready->attributes);
    }
    if (err->text[0] == '\0' && run_transparent_is_on() && ready->parts > 1)
        (void)run_transparent_refuse_parts(options, ready->parts, err);
    if (known == NULL || stand_in_wanted(&options->stand_in) || options->checkpoint_cmd != NULL)
        return command;
    if (run_attributes_read(known, &stand_in, err) != 0)
        return command;
    free(line);
    line = stand_in_command(&stand_in, command);
    return line;
}
