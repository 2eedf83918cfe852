/* ckptctl from its arguments to its exit code. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/options.h"

/* Of a stale read: how old what was printed may be. */
static void tell_age(struct cli *cli)
{
    char age[HUMAN_BYTES], index[64] = "";

    if (cli->stale.applied_index != 0)
        snprintf(index, sizeof(index), ", applied index %" PRIu64, cli->stale.applied_index);
    if (cli->stale.age_ms == UINT64_MAX)
        cli_note(cli, "remark: a stale read of unknown age%s", index);
    else
        cli_note(cli, "remark: a stale read, up to %s old%s",
                 human_duration(cli->stale.age_ms, age), index);
}

static enum cli_exit run_once(struct cli *cli)
{
    enum cli_exit code;

    cli->stale.asked = false;
    code = cli->command->run(cli);
    if (cli->stale.asked)
        tell_age(cli);
    return code;
}

struct gathered {
    FILE *to;
    FILE **stream; /* of struct cli */
    char *text;
    size_t length;
};

static void gathered_begin(struct gathered *gathered, FILE **stream)
{
    *gathered = (struct gathered){.to = *stream, .stream = stream};
    *stream = open_memstream(&gathered->text, &gathered->length);
    CHECK(*stream != NULL);
}

static void gathered_print(struct gathered *gathered)
{
    fclose(*gathered->stream);
    *gathered->stream = gathered->to;
    fwrite(gathered->text, 1, gathered->length, gathered->to);
    free(gathered->text);
}

/* One answer of --watch is gathered first and written at once, so that a screen never shows half of
 * one. */
static enum cli_exit run_gathered(struct cli *cli)
{
    struct gathered out, error;
    enum cli_exit code;

    gathered_begin(&out, &cli->out);
    gathered_begin(&error, &cli->error);
    code = run_once(cli);
    if (cli->screen)
        fputs("\033[H\033[J", out.to); /* home, clear */
    errno = 0;
    gathered_print(&out);
    if (fflush(cli->out) != 0 || ferror(cli->out))
        cli->output_errno = errno;
    gathered_print(&error);
    return code;
}

/* Until interrupted, or nobody reads any more. A failure is shown and asked again: the leader may
 * be back. */
static enum cli_exit run_repeatedly(struct cli *cli)
{
    const struct timespec pause = {(time_t)(cli->repeat_ms / 1000),
                                   (long)(cli->repeat_ms % 1000 * 1000000)};
    enum cli_exit code;

    for (uint64_t count = 1;; count++) {
        code = run_gathered(cli);
        if (code == CLI_USAGE || code == CLI_AUTH || count == cli->repeats_max || ferror(cli->out))
            return code;
        nanosleep(&pause, NULL);
        if (!cli->screen && !cli_is_json(cli) && cli->format != OUTPUT_NAME)
            fputc('\n', cli->out); /* between two tables */
    }
}

enum cli_exit cli_run(struct cli *cli, int argc, char **argv)
{
    enum cli_exit code;

    commands_complete();
    code = options_parse(cli, argc, argv);
    if (code == CLI_OK && cli_flag(cli, "help")) {
        help_print(cli->out, cli->command, cli->group);
    } else if (code == CLI_OK) {
        CHECK(cli->command != NULL);
        code = cli->repeat_ms == 0 ? run_once(cli) : run_repeatedly(cli);
    }
    options_close(cli);
    errno = cli->output_errno;
    if (fflush(cli->out) != 0 || ferror(cli->out)) {
        code = code == CLI_OK ? CLI_FAILED : code;
        /* a reader that has seen enough (head, less) closes the pipe on purpose */
        if (errno != EPIPE)
            fprintf(cli->error, "error: cannot write to stdout: %m\n");
    }
    return code;
}
