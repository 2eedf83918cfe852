/* ckptctl: the operator's command. */
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/cli/cli.h"

/* A standard stream that the caller closed leaves its number to the next file or socket, which
 * would then be read or written as that stream. */
static void open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0 || open("/dev/null", O_RDWR) == fd);
}

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

    open_standard_streams();
    signal(SIGPIPE, SIG_IGN);
    /* column widths need a UTF-8 locale; numbers keep the C one */
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    return (int)cli_run(&cli, argc, argv);
}
