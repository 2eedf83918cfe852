/* The command line of ckpt-run. See run_options.h. */
#include "src/agent/run/run_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "src/agent/durable/ledger.h"
#include "src/agent/run/run_lsf.h"
#include "src/agent/run/run_profile.h"
#include "src/agent/run/run_transparent.h"
#include "src/ask/ask.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/base/signal_name.h"
#include "src/base/usage.h"

enum { RESTARTS_LIMIT = 1000 };

static const char usage_before[] =
    "usage: ckpt-run --alloc ID [options] -- command arguments...\n"
    "       ckpt-run --standalone --every TIME --dir DIR [options] -- command arguments...\n"
    "       ckpt-run status [--alloc ID]    your jobs on this node (ckpt-run status --help)\n"
    "       ckpt-run end ID                 ends your job on this node (... end --help)\n"
    "       ckpt-run hint | restart | migrate | explain | losses | checkpoints JOB\n"
    "       ckpt-run checkpoint | pin | unpin CHECKPOINT\n"
    "       ckpt-run get CHECKPOINT DIR     what you may ask the cluster about your jobs, without\n"
    "                                       a key of it (... hint --help)\n"
    "       ckpt-run jobs --tenant T        of a tenant whose admin you are (... jobs --help)\n"
    "       ckpt-run import JOB DIR         a folder as the first checkpoint of a job of yours\n"
    "       ckpt-run try -- command         whether it can be checkpointed, without a cluster (... "
    "try "
    "--help)\n"
    "       ckpt-run register --alloc ID --tenant T --project P [options]\n"
    "                                       a job of yours on this node (... register --help)\n"
    "Runs an application under the node's agent: it is asked for checkpoints, and after a crash "
    "it\n"
    "is started again from the newest complete one ($CKPT_RESTORE_DIR).\n"
    "\n"
    "  --alloc ID            the allocation, as registered (ckpt-run status lists yours)\n"
    "  --profile PROFILE     how the application is asked, where it is registered without one: a "
    "way\n"
    "                        of asking (below); a program that ckptctl profile list names, or a "
    "file\n"
    "                        (./my.yaml), whose options it stands for; auto: that of the program, "
    "or\n"
    "                        as the application shows by itself; by default\n"
    "                        the latter alone\n";
static const char usage_after[] =
    "  --work-dir DIR        its folder on this node ($CKPT_DIR), on a local disk with room for a\n"
    "                        checkpoint, which is staged there before it is copied to the\n"
    "                        destination; default: /var/tmp/ckpt-UID/ID\n"
    "  --socket PATH         of the agent; default: " RUN_DEFAULT_SOCKET "\n"
    "  --max-restarts N      how often it is started again in place, 0 to 1000; default: 3. It "
    "reads\n"
    "                        its input file (< FILE) anew each time; a pipe cannot be read anew,\n"
    "                        and then it is not started again\n"
    "  --restart-on WHEN     any (every end but status 0, the default), signal (only when a "
    "signal\n"
    "                        ended it), never\n"
    "  --from-scratch        restore nothing at the first start\n"
    "  --replace             end an application of the allocation that runs on here without its\n"
    "                        ckpt-run, and start this one from the last checkpoint; without it "
    "the\n"
    "                        same command in the same folder goes on with the one that runs\n"
    "  --stay                wait while the allocation is not, or no more, to run on this node, "
    "until\n"
    "                        it has completed: after a lost node an operator's `ckptctl node "
    "down\n"
    "                        NODE --is-off` and `ckpt-run restart` are enough, and a spare node "
    "waits\n"
    "                        to be named\n"
    "  --quiet               say nothing on stderr but why ckpt-run itself fails\n"
    "  --restore WHAT        own (this node's part), all (every part, in "
    "$CKPT_RESTORE_DIR/part-NNNN)\n"
    "                        or path (verified where they lie, $CKPT_RESTORE_URI); default: as\n"
    "                        registered\n"
    "  --ranks N             processes on this node that each save a part, 1 to 256; default: as\n"
    "                        many as its launcher tells, or as are found. Where no launcher\n"
    "                        numbers them, a checkpoint that one of them died of fails at its\n"
    "                        timeout, not before: which process was which nobody knows\n"
    "  --ask WHOM            who gets the signal where no launcher numbers ranks: each (process "
    "that\n"
    "                        catches it while none above it does, the default) or group (the "
    "whole\n"
    "                        process group; nothing is asked while one of it would die of it).\n"
    "                        started: the process that ckpt-run started, and no other, also where\n"
    "                        a launcher numbers ranks: a script that saves for an mpirun below it\n"
    "                        With --ask-signal: started (the default), group, each, rank=N (one "
    "rank,\n"
    "                        as its launcher numbers it) or shell (that started ckpt-run)\n"
    "  --ask-file FILE       with profile file: the program looks for FILE by itself, saves and "
    "stops\n"
    "                        (STOPCAR, abinit.exit, EXIT); ckpt-run writes it and starts the "
    "program\n"
    "                        again in place. Without it the program looks for $CKPT_DIR/request\n"
    "  --ask-text TEXT       the line in it, as 'LSTOP = .TRUE.'; default: an empty file\n"
    "  --checkpoint-files P  patterns of the files that it saves, below this folder, as 'CHGCAR\n"
    "                        WAVECAR' or 'out/*.save'; they are newer than FILE then, and come "
    "back\n"
    "                        here before a start from a checkpoint\n"
    "  --checkpoint-outputs P\n"
    "                        patterns of files to which it appends, as 'md.log *.xtc': saved with\n"
    "                        the others where they are there, and brought back where they are\n"
    "                        missing, or are others\n"
    "  --ask-then WHAT       exits (with status 0 when it has saved, the default), exits=85 (with\n"
    "                        that one; status 0 says that its work is complete then), goes-on, or\n"
    "                        requeues (it requeues itself and ends: it is not started again here)\n"
    "  --ask-signal SIGNAL   it is asked by this signal (TERM, TSTP, RTMIN+3, 34). With the "
    "options\n"
    "                        of --ask-file it need not write `done`: they say how a save is seen\n"
    "  --checkpoint-exit X   the program ends with this status, 1 to 255, or by this signal "
    "whenever\n"
    "                        it has saved: it is started again in place, and a checkpoint is made\n"
    "                        of its files, whether it was asked or not. Its status 0 is the end "
    "of\n"
    "                        its work, or with --ask-signal the answer to it\n"
    "  --done-if FILE        status 0 is the end of the work only when FILE is there then: else "
    "the\n"
    "                        program has saved, and is started again\n"
    "  --go-on-if FILE       ... only when FILE is not there\n"
    "  --saved-line TEXT     goes-on: it has saved when it has printed a line with TEXT on its "
    "standard\n"
    "                        output, beside newer files\n"
    "  --tracker FILE        goes-on: ... when FILE is newer; its first line is the saved step\n"
    "  --kill-signal SIGNAL  by which the program is told to end, in the place of SIGTERM\n"
    "  --files-quiet TIME    goes-on: files that have not changed for so long are whole; default: "
    "2s\n"
    "  --checkpoint-cmd CMD  a shell command that saves the application: {dir} is the folder for "
    "its\n"
    "                        files, {pid} the application; status 0: all of it is there. It is "
    "then\n"
    "                        asked by this, and need not know of checkpoints\n"
    "  --restart-cmd CMD     is started in place of the command where there is a checkpoint: {dir} "
    "is\n"
    "                        the folder with its files, {command} the command. With --ask-file "
    "also\n"
    "                        after each stop\n"
    "  -k, --echkpnt TEXT    as bsub -k has it: \"DIR [init=MIN] [PERIOD] [method=NAME]\". A\n"
    "                        site's echkpnt.NAME and erestart.NAME save and restart the\n"
    "                        program. They are found as LSF finds them: LSB_ECHKPNT_METHOD,\n"
    "                        LSB_ECHKPNT_METHOD_DIR, LSF_ECHKPNTDIR, LSF_SERVERDIR\n"
    "  --echkpnt-options O   of these programs: -c, -f and -x, as LSF has them\n"
    "  --wait-for DURATION   give up with 125 when no application could be started for so long "
    "(no\n"
    "                        agent, no leader, no destination), like 90s or 1h; with the\n"
    "                        application's status when one has run; default: never\n"
    "  --standalone          without a cluster, an agent or a registration: a checkpoint every\n"
    "                        --every TIME (1s or more, like 30m), in --dir DIR, of which the "
    "newest\n"
    "                        --keep N stay (1 to 100, 3 by default). After a crash the program "
    "goes\n"
    "                        on from the newest one, and so does the same line, typed again after\n"
    "                        a reboot. Not with --alloc, --socket or --stay\n"
    "  --help, --version\n"
    "\n"
    "The exit code is the application's, 128 + n when signal n ended it, 127 when it was not "
    "found,\n"
    "126 when it cannot be executed, 125 when ckpt-run itself failed, or when the cluster does "
    "not\n"
    "know the job, or does not let it begin here, for some 4 s: the last line says the next "
    "step.\n";

void run_usage(FILE *to)
{
    const struct ask_ops *ask;
    const char *profile;

    fputs(usage_before, to);
    for (size_t i = 0; (profile = ask_profile_at(i, &ask)) != NULL; i++)
        fprintf(to, "%24s%s%s (%s)\n", "", profile, i == 0 ? ", the default" : "", ask->about);
    fputs(usage_after, to);
}

static int parse_count(const char *text, uint32_t *ret_count, struct err *err)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value > RESTARTS_LIMIT)
        return err_set(err, ERR_INVALID, "--max-restarts is \"%.32s\", it must be 0 to %d", text,
                       RESTARTS_LIMIT);
    *ret_count = (uint32_t)value;
    return 0;
}

static int parse_restart_on(const char *text, enum run_restart *ret_restart, struct err *err)
{
    static const char *const names[] = {"any", "signal", "never"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_restart = (enum run_restart)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "--restart-on is \"%.32s\", it must be any, signal or never",
                   text);
}

static int parse_ranks(const char *text, uint32_t *ret_ranks, struct err *err)
{
    const struct number_range range = {.min = 1, .max = LEDGER_RANKS_MAX};
    struct err why = {0};
    uint64_t ranks;

    if (number_parse(NUMBER_PLAIN, text, range, &ranks, &why) != 0)
        return err_set(err, ERR_INVALID, "--ranks: %s", why.text);
    *ret_ranks = (uint32_t)ranks;
    return 0;
}

static int parse_restore(const char *text, Ckpt__V1__RestoreMode *ret_mode, struct err *err)
{
    static const char *const names[] = {"own", "all", "path"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_mode = (Ckpt__V1__RestoreMode)(CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN + i);
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "--restore is \"%.32s\", it must be own, all or path", text);
}

static int parse_ask(const char *text, struct run_options *options, struct err *err)
{
    options->asks_group = strcmp(text, "group") == 0;
    options->asks_started = strcmp(text, "started") == 0;
    if (tell_whom_parse(text, &options->stand_in.tell) == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "--ask is \"%.32s\", it must be each, group or started, with --ask-signal also "
                   "rank=N or shell",
                   text);
}

static int parse_then(const char *text, struct stand_in *stand_in, struct err *err)
{
    static const char with_status[] = "exits=";
    const struct number_range range = {.min = 0, .max = 255};
    uint64_t status = 0;

    stand_in->goes_on = strcmp(text, "goes-on") == 0;
    stand_in->requeues = strcmp(text, "requeues") == 0;
    stand_in->then_named = true;
    if (!stand_in->goes_on && !stand_in->requeues && strcmp(text, "exits") != 0 &&
        (strncmp(text, with_status, strlen(with_status)) != 0 ||
         number_parse(NUMBER_PLAIN, text + strlen(with_status), range, &status, NULL) != 0))
        return err_set(err, ERR_INVALID,
                       "--ask-then is \"%.32s\", it must be exits, exits=STATUS (0 to 255), "
                       "goes-on or requeues",
                       text);
    if (!stand_in->unasked)
        stand_in->status = (int)status;
    return 0;
}

/* A status, or the name of a signal. */
static int parse_exit(const char *text, struct stand_in *stand_in, struct err *err)
{
    const struct number_range range = {.min = 0, .max = 255};
    uint64_t status = 0;

    stand_in->unasked = true;
    stand_in->status = stand_in->end_signal = 0;
    if (number_parse(NUMBER_PLAIN, text, range, &status, NULL) == 0) {
        stand_in->status = (int)status;
        return 0;
    }
    stand_in->end_signal = text[0] >= '0' && text[0] <= '9' ? -1 : signal_name_parse(text, NULL);
    return stand_in->end_signal > 0
               ? 0
               : err_set(err, ERR_INVALID,
                         "--checkpoint-exit is \"%.32s\", it must be a status, 0 to 255, or the "
                         "name of a signal, as USR2",
                         text);
}

static int parse_signal(const char *name, const char *text, int *ret_signal, struct err *err)
{
    struct err why = {0};

    *ret_signal = signal_name_parse(text, &why);
    return *ret_signal > 0 ? 0 : err_set(err, ERR_INVALID, "%s: %s", name, why.text);
}

static int parse_quiet(const char *text, uint64_t *ret_quiet_ms, struct err *err)
{
    const struct number_range range = {.min = 100, .max = (uint64_t)3600 * 1000};
    struct err why = {0};

    if (number_parse(NUMBER_DURATION, text, range, ret_quiet_ms, &why) != 0)
        return err_set(err, ERR_INVALID, "--files-quiet: %s", why.text);
    return 0;
}

static int parse_wait(const char *text, uint64_t *ret_wait_ms, struct err *err)
{
    const struct number_range range = {.min = 100, .max = (uint64_t)30 * 24 * 3600 * 1000};
    struct err why = {0};

    if (number_parse(NUMBER_DURATION, text, range, ret_wait_ms, &why) != 0)
        return err_set(err, ERR_INVALID, "--wait-for: %s", why.text);
    return 0;
}

/* Options of the stand-in. */
static int take_stand_in_option(int option, const char *value, struct stand_in *stand_in,
                                struct err *err)
{
    switch (option) {
    case 'F':
        stand_in->file = value;
        return 0;
    case 'T':
        stand_in->text = value;
        return 0;
    case 'C':
        stand_in->files = value;
        return 0;
    case 'U':
        stand_in->outputs = value;
        return 0;
    case 't':
        return parse_then(value, stand_in, err);
    case 'Q':
        return parse_quiet(value, &stand_in->quiet_ms, err);
    case 'X':
        return parse_exit(value, stand_in, err);
    case 'G':
        return parse_signal("--ask-signal", value, &stand_in->tell.signal, err);
    case 'D':
        stand_in->complete = value;
        return 0;
    case 'O':
        stand_in->more = value;
        return 0;
    case 'L':
        stand_in->line = value;
        return 0;
    case 'E':
        stand_in->tracker = value;
        return 0;
    case 'I':
        return parse_signal("--kill-signal", value, &stand_in->kill_signal, err);
    default: /* err says which word is none */
        return -1;
    }
}

static int take_option(int option, const char *value, struct run_options *options, struct err *err)
{
    switch (option) {
    case 'a':
        options->allocation_id = value;
        return 0;
    case 'p':
        options->profile = value;
        return 0;
    case 'w':
        options->work_dir = value;
        return 0;
    case 's':
        options->socket = value;
        return 0;
    case 'm':
        return parse_count(value, &options->restarts_max, err);
    case 'r':
        return parse_restart_on(value, &options->restart_on, err);
    case 'W':
        return parse_wait(value, &options->wait_for_ms, err);
    case 'n':
        return parse_ranks(value, &options->ranks, err);
    case 'A':
        return parse_ask(value, options, err);
    case 'R':
        return parse_restore(value, &options->restore, err);
    case 'K':
        options->checkpoint_cmd = value;
        return 0;
    case 'B':
        options->restart_cmd = value;
        return 0;
    case 'k':
        options->echkpnt = value;
        return 0;
    case 'x':
        options->echkpnt_options = value;
        return 0;
    case 'f':
        options->from_scratch = true;
        return 0;
    case 'S':
        options->stay = true;
        return 0;
    case 'P':
        options->replace = true;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case 'v':
        options->version = true;
        return 0;
    case RUN_ALONE:
    case RUN_ALONE_EVERY:
    case RUN_ALONE_DIR:
    case RUN_ALONE_KEPT:
        return run_alone_take(option, value, &options->alone, err);
    default:
        return take_stand_in_option(option, value, &options->stand_in, err);
    }
}

static const struct option table[] = {{"alloc", required_argument, NULL, 'a'},
                                      {"profile", required_argument, NULL, 'p'},
                                      {"work-dir", required_argument, NULL, 'w'},
                                      {"socket", required_argument, NULL, 's'},
                                      {"max-restarts", required_argument, NULL, 'm'},
                                      {"restart-on", required_argument, NULL, 'r'},
                                      {"wait-for", required_argument, NULL, 'W'},
                                      {"ranks", required_argument, NULL, 'n'},
                                      {"ask", required_argument, NULL, 'A'},
                                      {"restore", required_argument, NULL, 'R'},
                                      {"ask-file", required_argument, NULL, 'F'},
                                      {"ask-text", required_argument, NULL, 'T'},
                                      {"ask-then", required_argument, NULL, 't'},
                                      {"checkpoint-files", required_argument, NULL, 'C'},
                                      {"checkpoint-outputs", required_argument, NULL, 'U'},
                                      {"files-quiet", required_argument, NULL, 'Q'},
                                      {"checkpoint-exit", required_argument, NULL, 'X'},
                                      {"ask-signal", required_argument, NULL, 'G'},
                                      {"done-if", required_argument, NULL, 'D'},
                                      {"go-on-if", required_argument, NULL, 'O'},
                                      {"saved-line", required_argument, NULL, 'L'},
                                      {"tracker", required_argument, NULL, 'E'},
                                      {"kill-signal", required_argument, NULL, 'I'},
                                      {"checkpoint-cmd", required_argument, NULL, 'K'},
                                      {"restart-cmd", required_argument, NULL, 'B'},
                                      {"echkpnt", required_argument, NULL, 'k'},
                                      {"echkpnt-options", required_argument, NULL, 'x'},
                                      {"from-scratch", no_argument, NULL, 'f'},
                                      {"replace", no_argument, NULL, 'P'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"stay", no_argument, NULL, 'S'},
                                      {"standalone", no_argument, NULL, RUN_ALONE},
                                      {"every", required_argument, NULL, RUN_ALONE_EVERY},
                                      {"dir", required_argument, NULL, RUN_ALONE_DIR},
                                      {"keep", required_argument, NULL, RUN_ALONE_KEPT},
                                      {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'v'},
                                      {NULL, 0, NULL, 0}};

static int add_option(struct run_options *options, const char *name, const char *value,
                      struct err *err)
{
    const struct option *row = table;

    while (row->name != NULL && strcmp(row->name, name) != 0)
        row++;
    CHECK(row->name != NULL && row->val < RUN_OPTION_LETTERS);
    return options->given[row->val] ? 0 : take_option(row->val, value, options, err);
}

/* The command is the stand-in's where one is wanted. */
static int settle_command(char **command, struct run_options *options, struct err *err)
{
    if (options->restart_cmd != NULL)
        options->restart_cmd = run_profile_restart(options->restart_cmd, command);
    if (stand_in_wanted(&options->stand_in)) { /* it runs that itself */
        options->stand_in.restart = options->restart_cmd;
        options->restart_cmd = NULL;
    }
    if (stand_in_check(&options->stand_in, options->profile, options->ranks, err) != 0)
        return -1;
    if (!stand_in_wanted(&options->stand_in)) {
        options->ask_signal = options->stand_in.tell.signal;
        return 0;
    }
    if (command[0] == NULL)
        return 0;
    if (options->stand_in.tell.signal != 0) /* the stand-in sends it, and nobody else */
        options->asks_group = options->asks_started = false;
    options->profile = RUN_STAND_IN_WAY;
    options->command = stand_in_command(&options->stand_in, command);
    return 0;
}

static int take_command(char **command, struct run_options *options, struct err *err)
{
    options->command = command;
    if (options->help || options->version)
        return 0;
    if (run_profile_take(options, command, add_option, err) != 0)
        return -1;
    return settle_command(command, options, err);
}

/* The words of LSF are looked at before anything is begun. */
static int check_echkpnt(const struct run_options *options, struct err *err)
{
    struct lsf_settings settings;

    if (options->echkpnt == NULL)
        return err_set(err, ERR_INVALID, "--echkpnt-options is of no use without -k");
    if (options->checkpoint_cmd != NULL || options->restart_cmd != NULL ||
        options->stand_in.file != NULL)
        return err_set(err, ERR_INVALID,
                       "-k does not go with --checkpoint-cmd, --restart-cmd or --ask-file: a job "
                       "is saved in one way");
    if (options->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH)
        return err_set(err, ERR_INVALID,
                       "-k does not go with --restore path: erestart needs the files on this node, "
                       "so name own");
    return lsf_settings_parse(options->echkpnt, options->echkpnt_options, &settings, err);
}

/* A job that is asked by its command is asked by nothing else. */
static int check_commands(struct run_options *options, struct err *err)
{
    const char *const by_command = "exec";
    const bool as_lsf = options->echkpnt != NULL || options->echkpnt_options != NULL;

    if (options->checkpoint_cmd == NULL && options->restart_cmd == NULL && !as_lsf)
        return 0;
    if (as_lsf && check_echkpnt(options, err) != 0)
        return -1;
    if (options->checkpoint_cmd == NULL && !as_lsf)
        return err_set(err, ERR_INVALID,
                       "--restart-cmd is of no use without --checkpoint-cmd or --ask-file");
    if ((options->checkpoint_cmd != NULL && options->checkpoint_cmd[0] == '\0') ||
        (options->restart_cmd != NULL && options->restart_cmd[0] == '\0'))
        return err_set(err, ERR_INVALID, "--checkpoint-cmd and --restart-cmd must not be empty");
    if (options->profile[0] != '\0' && strcmp(options->profile, by_command) != 0)
        return err_set(err, ERR_INVALID,
                       "%s asks by a command, and --profile says %.32s: leave one of them out",
                       as_lsf ? "-k" : "--checkpoint-cmd", options->profile);
    options->profile = by_command;
    return 0;
}

int run_options_parse(int argc, char **argv, struct run_options *ret_options, struct err *err)
{
    struct run_options options = {.profile = "",
                                  .socket = RUN_DEFAULT_SOCKET,
                                  .restarts_max = 3,
                                  .restart_on = RUN_RESTART_ANY};
    int option;

    /* "+": options end at the command */
    while ((option = usage_option(argc, argv, "+k:", table, err)) != -1) {
        if (take_option(option, optarg, &options, err) != 0)
            return -1;
        options.given[option] = true;
    }
    if (take_command(argv + optind, &options, err) != 0)
        return -1;
    *ret_options = options;
    if (options.help || options.version)
        return 0;
    if (run_alone_check(ret_options, err) != 0)
        return -1;
    if (options.allocation_id == NULL && !options.alone.wanted)
        return err_set(err, ERR_INVALID,
                       "--alloc ID is missing, the job's id; without a cluster: --standalone");
    if (!options.alone.wanted && id_check("--alloc", options.allocation_id, err) != 0)
        return -1;
    if (optind == argc)
        return err_set(err, ERR_INVALID, "the command is missing; it goes behind --");
    return check_commands(ret_options, err) == 0 ? run_transparent_check(ret_options, err) : -1;
}

bool run_may_restart(const struct run_options *options)
{
    return options->stay || (options->restarts_max > 0 && options->restart_on != RUN_RESTART_NEVER);
}

bool run_restarts(const struct run_options *options, int wait_status, uint32_t restart_count)
{
    if (wait_status == 0 || restart_count >= options->restarts_max)
        return false;
    if (options->stand_in.requeues && WIFEXITED(wait_status) &&
        WEXITSTATUS(wait_status) == STAND_IN_REQUEUED)
        return false; /* it comes back by its scheduler */
    switch (options->restart_on) {
    case RUN_RESTART_ANY:
        return true;
    case RUN_RESTART_SIGNAL:
        return WIFSIGNALED(wait_status);
    case RUN_RESTART_NEVER:
        return false;
    }
    return false;
}

int run_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
