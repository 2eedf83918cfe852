/* ckptd: a replica of the checkpoint broker.
 *
 * Flow     options -> --verify-backup ends here -> configuration -> --check-config, --print-config,
 *          --inspect-data and --recover end here -> (--restore) -> daemon_run().
 * Errors   exit codes: daemon.h; 2: usage or configuration.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/message_level.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/log_file.h"
#include "src/base/start.h"
#include "src/base/usage.h"
#include "src/broker/daemon/config.h"
#include "src/broker/daemon/config_htcondor.h"
#include "src/broker/daemon/credentials.h"
#include "src/broker/daemon/daemon.h"
#include "src/broker/daemon/listen.h"
#include "src/broker/daemon/process.h"
#include "src/broker/keep/backup_load.h"
#include "src/broker/keep/recovery.h"
#include "src/broker/keep/restore.h"
#include "src/serve/privacy.h"
#include "src/serve/supervisor.h"

enum { EXIT_USAGE = 2 };

/* As given; what does not go together is found after parsing. */
struct options {
    const char *config;
    struct config_flags flags;
    bool bootstrap;
    bool join;
    bool check_config;
    bool print_config;
    const char *verify_backup;
    bool inspect_data;
    struct restore_options restore; /* path NULL: none */
    struct recovery_options recovery;
};

static const char usage[] =
    "usage: ckptd --config FILE --name NAME [--data-dir DIR] [--insecure] [--bootstrap | --join]\n"
    "       ckptd --config FILE [--name NAME] --check-config | --print-config\n"
    "       ckptd --config FILE --name NAME --bootstrap --restore BACKUP [--new-cluster-id] "
    "[--epoch N]\n"
    "       ckptd --config FILE --name NAME --inspect-data [--compare DIR]...\n"
    "       ckptd --config FILE --name NAME --recover [--compare DIR]... [--confirm HASH] "
    "[--accept-loss]\n"
    "       ckptd --verify-backup BACKUP\n"
    "\n"
    "  --config FILE    configuration, identical on all members\n"
    "  --name NAME      which member this is (default: the host name)\n"
    "  --data-dir DIR   overrides data_dir of the file\n"
    "  --insecure       like 'insecure: yes' in the file: binds addresses that are not loopback "
    "without TLS\n"
    "  --bootstrap      first start of a new cluster; each of its members once\n"
    "  --join           first start of a member that a running cluster adds (ckptctl member add)\n"
    "  --check-config   exit 0 when the configuration is valid (and this member's certificate), 2 "
    "when not\n"
    "  --print-config   show every value and where it comes from\n"
    "\n"
    "  --restore BACKUP with --bootstrap: all members begin with the state of this same file\n"
    "  --new-cluster-id the backup may be of a cluster with another cluster_id\n"
    "  --epoch N        of the restored cluster (the backup's + 1); higher when that was used "
    "before\n"
    "  --inspect-data   boot the data folder in memory, say what it holds, and end\n"
    "  --recover        quorum is lost for good: go on alone with this data folder\n"
    "  --compare DIR    another member's data folder, or a copy of it\n"
    "  --confirm HASH   of the folder to recover, instead of typing it\n"
    "  --accept-loss    recover although another folder is ahead or differs, or this one was being "
    "filled\n"
    "  --verify-backup BACKUP  restore it in memory, check the state, and end\n"
    "\n"
    "  --version        show the version\n";

/* Options of backups and recovery; false: another one. */
static bool parse_offline(struct options *options, int option)
{
    struct recovery_options *recovery = &options->recovery;

    switch (option) {
    case 'r':
        options->restore.path = optarg;
        return true;
    case 'i':
        options->restore.new_cluster_id = true;
        return true;
    case 'e':
        options->restore.epoch = optarg;
        return true;
    case 'I':
        options->inspect_data = true;
        return true;
    case 'R':
        recovery->recover = true;
        return true;
    case 'C':
        if (recovery->other_count < RECOVERY_FOLDERS_MAX)
            recovery->others[recovery->other_count] = optarg;
        recovery->other_count++;
        return true;
    case 'H':
        recovery->confirm = optarg;
        return true;
    case 'L':
        recovery->accept_loss = true;
        return true;
    case 'V':
        options->verify_backup = optarg;
        return true;
    default:
        return false;
    }
}

/* -1: go on; else the exit code. */
static int check_options(int argc, char **argv, const struct options *options)
{
    struct err err = {0};

    if (optind < argc || (options->config == NULL && options->verify_backup == NULL)) {
        (void)err_set(&err, ERR_INVALID, "%s%.128s",
                      optind < argc ? "unexpected argument " : "--config FILE",
                      optind < argc ? argv[optind] : " is missing");
        usage_refuse("ckptd", "", err.text);
        return EXIT_USAGE;
    }
    if (options->recovery.other_count > RECOVERY_FOLDERS_MAX) {
        fprintf(stderr,
                "error: %zu folders are given with --compare, at most %d are possible: leave out "
                "those with the lowest last term and index\n",
                options->recovery.other_count, RECOVERY_FOLDERS_MAX);
        return EXIT_USAGE;
    }
    return -1;
}

/* Likewise. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {{"config", required_argument, NULL, 'c'},
                                          {"name", required_argument, NULL, 'n'},
                                          {"data-dir", required_argument, NULL, 'd'},
                                          {"insecure", no_argument, NULL, 'u'},
                                          {"bootstrap", no_argument, NULL, 'b'},
                                          {"join", no_argument, NULL, 'j'},
                                          {"check-config", no_argument, NULL, 'k'},
                                          {"print-config", no_argument, NULL, 'p'},
                                          {"restore", required_argument, NULL, 'r'},
                                          {"new-cluster-id", no_argument, NULL, 'i'},
                                          {"epoch", required_argument, NULL, 'e'},
                                          {"inspect-data", no_argument, NULL, 'I'},
                                          {"recover", no_argument, NULL, 'R'},
                                          {"compare", required_argument, NULL, 'C'},
                                          {"confirm", required_argument, NULL, 'H'},
                                          {"accept-loss", no_argument, NULL, 'L'},
                                          {"verify-backup", required_argument, NULL, 'V'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct err err = {0};
    int option;

    while ((option = usage_option(argc, argv, "", table, &err)) != -1) {
        if (parse_offline(options, option))
            continue;
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
        case 'u':
            options->flags.insecure = true;
            break;
        case 'b':
            options->bootstrap = true;
            break;
        case 'j':
            options->join = true;
            break;
        case 'k':
            options->check_config = true;
            break;
        case 'p':
            options->print_config = true;
            break;
        case 'v':
            printf("ckptd %s\nfeature level %d\n", build_text, FSM_LEVEL_NEWEST);
            return EXIT_SUCCESS;
        case 'h':
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        default:
            usage_refuse("ckptd", "", err.text);
            return EXIT_USAGE;
        }
    }
    return check_options(argc, argv, options);
}

/* What ends without a member that runs; -1: nothing of that was asked. */
static int run_offline(const struct config *config, const struct options *options)
{
    struct err err;
    int status;

    if (options->recovery.recover || options->inspect_data)
        status = recovery_run(config, &options->recovery, stdin, stdout, &err);
    else if (options->restore.path != NULL && !options->bootstrap)
        status =
            err_set(&err, ERR_INVALID, "--restore goes with --bootstrap: it begins a new cluster");
    else
        return -1;
    if (status == 0)
        return EXIT_SUCCESS;
    log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
    return EXIT_FAILURE;
}

/* A restore and the start that follows it are one command, so that no member starts with a folder
 * that is half made. */
static int run_daemon(const struct config *config, const struct options *options)
{
    enum daemon_start start = options->join ? DAEMON_JOIN : DAEMON_START;
    int exit_code;
    struct err err;

    if (options->bootstrap)
        start = options->restore.path == NULL ? DAEMON_BOOTSTRAP : DAEMON_RESTORE;

    log_set_identity("ckptd", config->self->name);
    check_set_hook(log_dump);
    log_set_level(config->log_level);
    log_set_format(config->log_format);
    if (config->htcondor.CKPT_SERVER_LOG[0] != '\0' &&
        log_file_open(config->htcondor.CKPT_SERVER_LOG, config->log_max_bytes, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "error: htcondor.CKPT_SERVER_LOG: %s", err.text);
        return err.code == ERR_IO ? EXIT_FAILURE : EXIT_USAGE; /* a full disk may get room */
    }
    if (options->restore.path != NULL &&
        restore_run(config, &options->restore, stdout, &err) != 0) {
        daemon_log_failure("restore_failed", config, start, &err);
        return EXIT_FAILURE;
    }
    fflush(stdout);
    if (daemon_run(config, &options->flags, start, &exit_code, &err) == 0)
        return exit_code;
    daemon_log_failure("start_failed", config, start, &err);
    return daemon_exit_code(&err, EXIT_FAILURE);
}

/* Whether this host is as the configuration has it. A start looks at certificates by itself. */
static int check_host(const struct config *config, bool and_files, struct err *err)
{
    struct listen_addresses ignored;

    if (and_files && credentials_check(config, err) != 0)
        return -1;
    return listen_find(config, &ignored, err);
}

/* Both are probed, scanned and counted as if the other's checkpoints were not there. */
static void warn_overlaps(const struct config *config)
{
    for (size_t i = 0, other; i < config->target_count; i++) {
        if (config_overlap(config, i, &other))
            log_plain(
                LOG_LEVEL_WARNING,
                "warning: the prefixes of targets %s and %s are one, or one lies in the other: "
                "both are budgeted, priced and looked through for the same storage; give each "
                "a folder of its own",
                config->targets[other].target_id, config->targets[i].target_id);
    }
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct config *config;
    struct err err;
    int status;

    start_program(NULL);
    log_set_priorities(supervisor_keeps_journal());
    privacy_begin();
    status = parse_options(argc, argv, &options);
    if (status >= 0)
        return status;
    if (options.verify_backup != NULL) {
        if (backup_verify(options.verify_backup, stdout, &err) == 0)
            return EXIT_SUCCESS;
        log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
        return EXIT_FAILURE;
    }
    if (config_load(options.config, &options.flags, &config, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
        return EXIT_USAGE;
    }
    warn_overlaps(config);
    config_warn_htcondor(config, stderr);
    if (options.print_config)
        config_print(config, stdout);
    if (options.bootstrap && options.join) {
        log_plain(LOG_LEVEL_ERROR,
                  "error: --bootstrap begins a new cluster, --join waits for one that runs: "
                  "give one of them");
        status = EXIT_USAGE;
    } else if (options.bootstrap && config_check_bootstrap(config, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
        status = EXIT_USAGE;
    } else if (config->self != NULL && (options.check_config || !options.print_config) &&
               check_host(config, options.check_config, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
        status = EXIT_USAGE;
    } else if (options.check_config || options.print_config) {
        status = EXIT_SUCCESS;
    } else if (config->self == NULL) {
        log_plain(LOG_LEVEL_ERROR, "error: the host name is no member of %s; say which with --name",
                  options.config);
        status = EXIT_USAGE;
    } else if (process_owns(config->data_dir, &err) != 0) {
        log_plain(LOG_LEVEL_ERROR, "error: %s", err.text);
        status = EXIT_USAGE;
    } else {
        status = run_offline(config, &options);
        if (status < 0)
            status = run_daemon(config, &options);
    }
    config_free(config);
    return status;
}
