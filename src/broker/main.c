/* ckptd: a replica of the checkpoint broker.
 *
 * Flow     options -> configuration -> --check-config and --print-config end here -> daemon_run().
 * Errors   exit code 2: usage or configuration; 1: it could not start; 3: consensus failed while it ran.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/backup_load.h"
#include "src/broker/config.h"
#include "src/broker/daemon.h"

enum { EXIT_USAGE = 2 };

struct options {
    const char *config;
    struct config_flags flags;
    bool bootstrap;
    bool check_config;
    bool print_config;
    const char *verify_backup;
};

static const char usage[] =
    "usage: ckptd --config FILE --name NAME [--data-dir DIR] [--bootstrap]\n"
    "       ckptd --config FILE [--name NAME] --check-config | --print-config\n"
    "       ckptd --verify-backup FILE\n"
    "\n"
    "  --config FILE    configuration, identical on all members\n"
    "  --name NAME      which member this is (default: the host name)\n"
    "  --data-dir DIR   overrides data_dir of the file\n"
    "  --bootstrap      first start of a new cluster; each of its members once\n"
    "  --check-config   exit 0 when the configuration is valid, 2 when not\n"
    "  --print-config   show every value and where it comes from\n"
    "  --verify-backup FILE  restore a backup in memory, check the state, and end\n"
    "  --version        show the version\n";

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {{"config", required_argument, NULL, 'c'},
                                          {"name", required_argument, NULL, 'n'},
                                          {"data-dir", required_argument, NULL, 'd'},
                                          {"bootstrap", no_argument, NULL, 'b'},
                                          {"check-config", no_argument, NULL, 'k'},
                                          {"print-config", no_argument, NULL, 'p'},
                                          {"verify-backup", required_argument, NULL, 'V'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (option) {
        case 'c':
            options->config = optarg;
            break;
        case 'n':
            options->flags.name = optarg;
            break;
        case 'd':
            options->flags.data_dir = optarg;
            break;
        case 'b':
            options->bootstrap = true;
            break;
        case 'k':
            options->check_config = true;
            break;
        case 'p':
            options->print_config = true;
            break;
        case 'V':
            options->verify_backup = optarg;
            break;
        case 'v':
            puts("ckptd " CKPT_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc || (options->config == NULL && options->verify_backup == NULL)) {
        fprintf(stderr, "error: %s%s\n%s", optind < argc ? "unexpected argument " : "--config FILE",
                optind < argc ? argv[optind] : " is missing", usage);
        return EXIT_USAGE;
    }
    return -1;
}

static int run(const struct config *config, const struct options *options)
{
    struct err err;

    log_set_identity("ckptd", config->self->name);
    check_set_hook(log_dump);
    log_set_level(config->log_level);
    if (daemon_run(config, &options->flags, options->bootstrap, &err) == 0)
        return EXIT_SUCCESS;
    log_error("start_failed", "code=%s text=\"%s\"", err_code_name(err.code), err.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct config *config;
    struct err err;
    int status = parse_options(argc, argv, &options);

    if (status >= 0)
        return status;
    if (options.verify_backup != NULL) {
        if (backup_verify(options.verify_backup, stdout, &err) == 0)
            return EXIT_SUCCESS;
        fprintf(stderr, "error: %s\n", err.text);
        return EXIT_FAILURE;
    }
    if (config_load(options.config, &options.flags, &config, &err) != 0) {
        fprintf(stderr, "error: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (options.print_config)
        config_print(config, stdout);
    if (options.check_config || options.print_config) {
        status = EXIT_SUCCESS;
    } else if (config->self == NULL) {
        fprintf(stderr, "error: the host name is no member of %s; say which with --name\n",
                options.config);
        status = EXIT_USAGE;
    } else {
        status = run(config, &options);
    }
    config_free(config);
    return status;
}
