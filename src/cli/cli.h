/* ckptctl's frame: what a command is, what it gets, what it returns.
 *
 * Flow     cli_run: options.c parses the words by the command table, the command's function asks
 *          members through call.c and prints through output.c; its return value is the exit code.
 * Shapes   struct cli lives in main() or a test for one command; option values point into argv.
 * Errors   enum cli_exit; the message is already printed when a function returns one.
 */
#ifndef CKPT_CLI_CLI_H
#define CKPT_CLI_CLI_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/err.h"
#include "src/base/number.h"

struct tls_context;

/* Exit codes are an interface: append only. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_REFUSED = 4,   /* by policy or a precondition */
    CLI_NO_LEADER = 5, /* or no quorum, or nobody answers */
    CLI_TIMEOUT = 6,   /* outcome unknown; the request id is printed */
    CLI_AUTH = 7,
    CLI_PARTIAL = 8 /* done for some members or items only */
};

enum output_format {
    OUTPUT_TABLE,
    OUTPUT_WIDE,
    OUTPUT_JSON,
    OUTPUT_JSONL,
    OUTPUT_YAML,
    OUTPUT_NAME
};

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_NUMBER, /* by number_kind and range */
    OPTION_CHOICE, /* a value of an enumeration */
    OPTION_LIST    /* may be repeated, and each holds words between commas */
};

struct option_spec {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* its name in the help */
    const char *help;
    enum number_kind number;
    struct number_range range;
    const ProtobufCEnumDescriptor *choices; /* OPTION_CHOICE of the API */
    const char *const *words; /* or OPTION_CHOICE of these, NULL-terminated; number = position */
};

struct option_value {
    bool set;
    uint64_t number; /* NUMBER, CHOICE */
    char *text;      /* as typed; the last one */
    char **items;    /* LIST */
    size_t item_count;
};

enum command_kind {
    COMMAND_READS,       /* may be repeated: takes --watch */
    COMMAND_WRITES_FILE, /* reads from members into a file, once */
    COMMAND_CHANGES,     /* takes --request-id, --dry-run and --yes */
    COMMAND_LOCAL        /* asks no member: needs no endpoints and no certificate */
};

struct cli;
struct command {
    const char *name;      /* one or two words */
    const char *arguments; /* positional, for the help: "JOB", "[JOB]" */
    size_t arguments_min;
    size_t arguments_max;
    const char *help;
    enum cli_exit (*run)(struct cli *cli);
    const struct option_spec *options; /* NULL: none of its own */
    enum command_kind kind;
};

/* Stands in for client_call_wait: in tests, and where an agent passes calls on. endpoint NULL: the
 * leader. */
struct client_request;
typedef int cli_transport_fn(void *context, const char *endpoint,
                             const struct client_request *request, ProtobufCMessage **ret_reply,
                             struct err *err);

enum { OPTION_TABLES = 3, CLI_OPTIONS_MAX = 48, CLI_ARGUMENTS_MAX = 64 };

struct cli {
    FILE *out;
    FILE *error;
    FILE *in;         /* answers to a plan's question */
    bool interactive; /* in and error are terminals */
    bool screen;      /* out is a terminal: --watch draws over what it printed before */
    bool colour;
    /* a verb of ckpt-run, asked through the node's agent; puts texts into an owner's words
     * (owner.h) */
    void (*owner)(FILE *out, const char *text); /* NULL: ckptctl */
    cli_transport_fn *transport;                /* NULL: the network */
    void *transport_context;

    const char *endpoints;
    struct tls_context *tls; /* NULL: plain */
    enum output_format format;
    bool headers;
    bool quiet;
    bool timeout_set;
    uint64_t timeout_ms;
    uint64_t attempt_ms;  /* of one attempt at a leader; 0: the client's own */
    char request_id[129]; /* of a mutation: given or made */
    struct cli_stale {
        bool asked;                     /* an answer came that any member may give */
        uint64_t age_ms, applied_index; /* of the oldest one; the index 0: not told */
    } stale;
    uint64_t repeat_ms;   /* --watch: the command runs again after so long; 0: once */
    uint64_t repeats_max; /* of tests; 0: until interrupted */
    int output_errno;     /* of an answer of --watch that could not be written; 0: all were */
    char again[200];      /* what to run when its outcome is unknown; "": the same with that id */

    const char *group; /* the first word of a command of two, when the second one has not come */
    const struct command *command;
    struct option_value values
        [OPTION_TABLES]
        [CLI_OPTIONS_MAX]; /* global, of mutations, the command's own: by position in the table */
    char *arguments[CLI_ARGUMENTS_MAX];
    size_t argument_count;
};

/* All of ckptctl: parses, runs, flushes. Streams and terminal facts of cli are set by the caller,
 * the rest is zero. */
enum cli_exit cli_run(struct cli *cli, int argc, char **argv);

bool cli_option_exists(const struct cli *cli, const char *name); /* of its command */
/* An option by name; the name must be in the command's table or the global one. */
const struct option_value *cli_option(const struct cli *cli, const char *name);
bool cli_flag(const struct cli *cli, const char *name);
uint64_t cli_number(const struct cli *cli, const char *name, uint64_t otherwise);
char *cli_text(const struct cli *cli, const char *name); /* NULL when it was not given */
/* Points a message's text field at the option's value, when it was given. */
void cli_set_text(const struct cli *cli, const char *name, char **field);
/* Position 0 is the first word after the command; NULL when it was not given. */
char *cli_argument(const struct cli *cli, size_t i);

/* "error: ..." with the line "  try: ..." below it, where next is given, or CLI_USAGE names the
 * command's help; returns code. */
__attribute__((format(printf, 4, 5))) enum cli_exit cli_fail(struct cli *cli, enum cli_exit code,
                                                             const char *next, const char *format,
                                                             ...);
/* Text of the answer. A terminal obeys nothing in it: names and reasons come from others, so all
 * but the ends of lines is shown as ? (output_safe()). */
__attribute__((format(printf, 2, 3))) void cli_out(const struct cli *cli, const char *format, ...);
/* A remark on stderr, silenced by -q. */
__attribute__((format(printf, 2, 3))) void cli_note(struct cli *cli, const char *format, ...);

bool cli_is_json(const struct cli *cli); /* or YAML, the same tree */

#endif
