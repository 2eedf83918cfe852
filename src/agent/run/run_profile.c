/* The profile that a line of ckpt-run names. See run_profile.h. */
#include "src/agent/run/run_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/run/run_say.h"
#include "src/agent/transparent/tool.h"
#include "src/ask/ask.h"
#include "src/ask/sentinel.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/profile/profile.h"

/* Options point into it: it stays open. */
static struct {
    struct profile profile;
    struct profile_known known; /* AUTO, KNOWN */
    enum { TAKEN_NAMED, TAKEN_AUTO, TAKEN_NONE, TAKEN_KNOWN } how;
} taken;

/* ---- its keys as options ---- */

enum { NUMBER_BYTES = 32 };

static const char *then_text(const struct profile *profile, char text[NUMBER_BYTES])
{
    if (!profile_stands_in(profile) || profile->exit[0] != '\0')
        return "";
    if (strcmp(profile->then, "exits") != 0)
        return profile->then;
    snprintf(text, NUMBER_BYTES, "exits=%" PRIu32, profile->exit_status);
    return text;
}

/* A line that says itself what the program does then, says the rest of it as well. */
static const char *quiet_text(const struct profile *profile, const struct run_options *options,
                              char text[NUMBER_BYTES])
{
    if (!profile_stands_in(profile) || !profile_goes_on(profile) || options->stand_in.then_named)
        return "";
    snprintf(text, NUMBER_BYTES, "%" PRIu64 "ms", profile->quiet_ms);
    return text;
}

static const char *ranks_text(const struct profile *profile, char text[NUMBER_BYTES])
{
    if (profile->ranks == 0)
        return "";
    snprintf(text, NUMBER_BYTES, "%" PRIu32, profile->ranks);
    return text;
}

/* A line that names the files of the state says which files there are. */
static const char *outputs_text(const struct profile *profile, const struct run_options *options)
{
    return options->stand_in.files != NULL ? "" : profile->outputs;
}

static int take_keys(const struct profile *profile, struct run_options *options,
                     run_profile_add_fn *add, struct err *err)
{
    char then[NUMBER_BYTES], quiet[NUMBER_BYTES], ranks[NUMBER_BYTES];
    const struct {
        const char *option, *value;
    } keys[] = {{"ask-file", profile->file},
                {"ask-signal", profile->signal},
                {"ask-text", profile->text},
                {"checkpoint-outputs", outputs_text(profile, options)},
                {"checkpoint-files", profile->files},
                {"files-quiet", quiet_text(profile, options, quiet)},
                {"ask-then", then_text(profile, then)},
                {"echkpnt", profile->echkpnt},
                {"checkpoint-exit", profile->exit},
                {"done-if", profile->done_if},
                {"go-on-if", profile->go_on_if},
                {"saved-line", profile->line},
                {"tracker", profile->tracker},
                {"checkpoint-cmd", profile->command},
                {"restart-cmd", profile->restart_command},
                {"ask", profile->whom},
                {"ranks", ranks_text(profile, ranks)}};

    options->profile = profile->way;
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (keys[i].value[0] != '\0' && add(options, keys[i].option, keys[i].value, err) != 0)
            return err_wrap(err, "%s", profile->settings.path);
    return 0;
}

/* ---- which one ---- */

static bool asks_by_options(const struct run_options *options)
{
    return stand_in_wanted(&options->stand_in) || options->stand_in.tell.signal != 0 ||
           options->checkpoint_cmd != NULL || options->echkpnt != NULL;
}

static int refuse_unfit(char *const *command, struct err *err)
{
    const char *word = profile_unfit(&taken.profile, command);

    if (word == NULL)
        return 0;
    return err_set(err, ERR_INVALID,
                   "does not go with %.32s in the command, after which a start from a checkpoint "
                   "would not go on to the same end: leave it out (ckptctl profile show has why)",
                   word);
}

static int take_known(struct run_options *options, char *const *command, bool wanted,
                      run_profile_add_fn *add, struct err *err)
{
    bool known = command[0] != NULL && !asks_by_options(options) &&
                 profile_of_command(command, &taken.profile, &taken.known);
    bool takes = wanted || options->alone.wanted; /* alone: no registration says another way */

    options->profile = "";
    if (known && !takes && profile_unfit(&taken.profile, command) != NULL)
        known = false; /* it would be refused */
    if (known)
        taken.how = takes ? TAKEN_AUTO : TAKEN_KNOWN;
    else if (wanted && !asks_by_options(options))
        taken.how = TAKEN_NONE;
    if (taken.how == TAKEN_NONE)
        options->way = RUN_WAY_AUTO;
    else if (!takes && !asks_by_options(options))
        options->way = RUN_WAY_UNSAID;
    if (!takes || !known)
        return 0;
    if (refuse_unfit(command, err) != 0)
        return err_wrap(err, "profile %s", taken.known.name);
    return take_keys(&taken.profile, options, add, err);
}

int run_profile_take(struct run_options *options, char *const *command, run_profile_add_fn *add,
                     struct err *err)
{
    profile_close(&taken.profile);
    taken.how = TAKEN_NAMED;
    if (options->profile[0] == '\0' || strcmp(options->profile, PROFILE_AUTO) == 0)
        return take_known(options, command, options->profile[0] != '\0', add, err);
    if (ask_find(options->profile) != NULL)
        return 0;
    if (profile_open(&taken.profile, options->profile, err) != 0)
        return err_wrap(err, "--profile");
    if (refuse_unfit(command, err) != 0)
        return err_wrap(err, "--profile %s", options->profile);
    return take_keys(&taken.profile, options, add, err);
}

/* Taken by nobody's word but the owner's: it writes all of the program's memory, and stops it
 * meanwhile. */
static void say_tools(void)
{
    char version[TOOL_VERSION_BYTES];
    const struct tool *tool;
    struct err why = {0};

    for (size_t i = 0; (tool = tool_at(i)) != NULL; i++) {
        if (tool->check(version, &why) != 0)
            continue;
        run_say("--profile %s would save it from outside, with all of its memory, where it has one "
                "node and no connections (%s %s works on this node)",
                tool->name, tool->name, version);
        return;
    }
}

bool run_profile_is_known(void)
{
    return taken.how == TAKEN_KNOWN;
}

void run_profile_say(void)
{
    switch (taken.how) {
    case TAKEN_AUTO:
        run_say("--profile auto takes %s, which knows %s%s%s: %s", taken.known.name,
                taken.known.program, taken.known.version[0] == '\0' ? "" : " ", taken.known.version,
                taken.profile.about);
        break;
    case TAKEN_NONE:
        run_say(
            "--profile auto: no profile knows the command. Where it is registered without a way, "
            "the application shows one: it registers an address, opens the shared memory of "
            "CKPT_SHM, or catches SIGUSR1; --checkpoint-cmd saves one that does none of these");
        say_tools();
        break;
    case TAKEN_KNOWN:
        run_say("%s is a program of the profile %s, which --profile auto would take: %s",
                taken.known.program, taken.known.name, taken.profile.about);
        break;
    case TAKEN_NAMED:
        break;
    }
}

/* ---- the command in a restart command ---- */

static void add_command(struct buf *text, char *const *command)
{
    for (size_t i = 0; command[i] != NULL; i++) {
        size_t size = 4 * strlen(command[i]) + 4;
        char *word = check_alloc(size);

        CHECK(request_quote(command[i], word, size) > 0 || command[i][0] == '\0');
        if (i > 0)
            buf_append(text, " ", 1);
        if (command[i][0] == '\0')
            buf_append(text, "''", 2);
        else
            buf_append(text, word, strlen(word));
        free(word);
    }
}

const char *run_profile_restart(const char *restart_command, char *const *command)
{
    static const char place[] = "{command}";
    static char *made; /* of the command line: a process has one, or a test one after the other */
    const char *at;
    struct buf text;

    buf_init(&text);
    while ((at = strstr(restart_command, place)) != NULL) {
        buf_append(&text, restart_command, (size_t)(at - restart_command));
        add_command(&text, command);
        restart_command = at + strlen(place);
    }
    buf_append(&text, restart_command, strlen(restart_command) + 1);
    free(made);
    made = check_strdup((const char *)text.bytes);
    buf_close(&text);
    return made;
}
