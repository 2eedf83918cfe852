/* The owner's verbs. See owner.h. */
#include "src/cli/owner.h"

#include <stdlib.h>

#include "src/base/check.h"
#include "src/cli/option_tables.h"

enum {
    OWNER_EXIT_FAILED = 1,
    OWNER_EXIT_NOT_KNOWN = 3,
    OWNER_EXIT_REFUSED = 4,
    OWNER_EXIT_TIMEOUT = 6,
    OWNER_EXIT_SELF = 125
};
static int exit_of(enum cli_exit code)
{
    switch (code) {
    case CLI_OK:
        return EXIT_SUCCESS;
    case CLI_FAILED:
    case CLI_PARTIAL:
        return OWNER_EXIT_FAILED;
    case CLI_NOT_FOUND:
        return OWNER_EXIT_NOT_KNOWN;
    case CLI_REFUSED:
    case CLI_AUTH:
        return OWNER_EXIT_REFUSED;
    case CLI_TIMEOUT:
        return OWNER_EXIT_TIMEOUT;
    case CLI_USAGE:
    case CLI_NO_LEADER:
        break;
    }
    return OWNER_EXIT_SELF;
}

int owner_run(int argc, char **argv, cli_transport_fn *transport)
{
    struct cli *cli = check_calloc(1, sizeof(*cli));
    enum cli_exit code;
    size_t length = 0;
    char *text = NULL;

    CHECK(argc >= 1 && transport != NULL);
    cli->out = open_memstream(&text, &length);
    CHECK(cli->out != NULL);
    cli->error = stderr;
    cli->in = stdin;
    cli->owner = owner_words;
    cli->command = owner_verb(argv[0]);
    cli->transport = transport;
    cli->transport_context = cli;
    CHECK(cli->command != NULL);
    option_tables_use(owner_options);
    code = cli_run(cli, argc, argv);
    option_tables_use(global_options);
    fclose(cli->out);
    owner_words(stdout, text);
    free(text);
    free(cli);
    if (fflush(stdout) != 0 && code == CLI_OK)
        code = CLI_FAILED;
    return exit_of(code);
}
