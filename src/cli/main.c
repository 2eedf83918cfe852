/* ckptctl: the operator's command. */
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/cli.h"
#include "src/client/client.h"

static int ask_member(void *context, const char *endpoints, const char *endpoint,
                      const char *method, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *reply_type, uint64_t timeout_ms,
                      ProtobufCMessage **ret_reply, struct err *err)
{
    struct client_config config = {.endpoints = endpoints, .timeout_ms = timeout_ms};
    struct client *client;
    int status;

    (void)context;
    if (client_new(NULL, &config, &client, err) != 0) {
        return RPC_INVALID_ARGUMENT;
    }
    status =
        client_call_wait(client, endpoint, method, request, reply_type, timeout_ms, ret_reply, err);
    client_free(client);
    return status;
}

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    struct cli cli = {
        .out = stdout,
        .error = stderr,
        .in = stdin,
        .interactive = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1,
        .colour = isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || *no_colour == '\0'),
        .transport = ask_member,
    };

    signal(SIGPIPE, SIG_IGN);
    /* column widths need a UTF-8 locale; numbers keep the C one */
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        setlocale(LC_CTYPE, "C.UTF-8");
    }
    return (int)cli_run(&cli, argc, argv);
}
