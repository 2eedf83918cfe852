/* ckptctl: the operator's command. */
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/start.h"
#include "src/cli/cli.h"

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    struct cli cli = {
        .out = stdout,
        .error = stderr,
        .in = stdin,
        .interactive = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1,
        .screen = isatty(STDOUT_FILENO) == 1,
        .colour = isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || *no_colour == '\0'),
    };

    start_program(NULL);
    signal(SIGPIPE, SIG_IGN);
    /* column widths need a UTF-8 locale; numbers keep the C one */
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    return (int)cli_run(&cli, argc, argv);
}
