/* `ckpt-run register`. See run_register.h. */
#include "src/agent/run/run_register.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "fsm/names.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_lsf.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/run_owner.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/base/usage.h"
#include "src/cli/owner.h"
#include "src/profile/profile.h"
#include "src/rpc/server.h"

#define REGISTER_OWN_JOB_METHOD "/ckpt.v1.AppService/RegisterOwnJob"

enum {
    REGISTER_TIMEOUT_MS = 30000, /* the agent gives up earlier */
    GPUS_MAX = 1024,
    GRACE_MAX_MS = 600000,
    PERIOD_MIN_MS = 60000
};
#define WALLTIME_MAX_MS ((uint64_t)3650 * 24 * 3600 * 1000)

static const char usage[] =
    "usage: ckpt-run register --alloc ID --tenant T --project P [options]\n"
    "Registers a job of yours with the cluster, as you, of class 0: then\n"
    "ckpt-run --alloc ID -- COMMAND runs it. The site allows it (owners_register) or not.\n"
    "\n"
    "  --alloc ID         the job's name, never used before in this cluster\n"
    "  --tenant T, --project P\n"
    "                     first parts of the path of its checkpoints\n"
    "  --vcluster V       whose queue its checkpoints relieve\n"
    "  --walltime D       it is ended after so long, like 90m or 24h; default: never\n"
    "  --gpus N           of this node that it uses, 0 to 1024; default: 0\n"
    "  --node NODE[:GPUS] another node of it, or this one; may be repeated. The others are names\n"
    "                     until your ckpt-run of it waits on each: then it starts on all\n"
    "  --strategy WHO     decides when it is checkpointed: auto, manual (ckpt-run hint) or none\n"
    "  --period D         it is checkpointed at least so often, from 1m\n"
    "  --first-period D   it is not checkpointed unasked before, from its start on, and then\n"
    "                     once, until a checkpoint is complete; from 1m\n"
    "  -k TEXT            as bsub -k has it, \"DIR [init=MIN] [PERIOD] [method=NAME]\": init and\n"
    "                     PERIOD count here, and the same text stands in ckpt-run's line\n"
    "  --requeue WHEN     it is queued again after a failure: on_node_failure (the\n"
    "                     default), always or never\n"
    "  --restart WHO      starts it again when it has stopped: auto or manual (ckpt-run restart)\n"
    "  --restore WHAT     each of its nodes gets: own, all or path, as with ckpt-run\n"
    "  --staging WHERE    it writes first: local, direct or memory; default: the target's\n"
    "  --attr NAME=VALUE  HTCondor's words for a job that ends when it has saved, may be "
    "repeated:\n"
    "                     checkpoint_exit_code=85, WantCheckpointSignal=TRUE, CheckpointSig=TERM,\n"
    "                     transfer_checkpoint_files=a,b, ...; its profile is file then\n"
    "  --profile WAY      how it is asked, as with ckpt-run; default: what ckpt-run says. What\n"
    "                     -k would say stands below other options where the profile has it\n"
    "  --grace D          from SIGTERM to SIGKILL, at most 10m; default: the policy's\n"
    "  --target T         destination of its checkpoints; default: the cluster's\n"
    "  --continues ID     a stopped job of yours: its checkpoints become this one's, which begins\n"
    "                     from the newest; of the same tenant and project\n"
    "  --on-hang WHAT     tell (the default) or restart: when no rank steps any more\n"
    "  --socket PATH      of the agent; default: " RUN_DEFAULT_SOCKET "\n"
    "\n"
    "The exit code is 0, 3 when something that is named is not known, 4 when it was refused, 125\n"
    "when the agent or a leader of the cluster cannot be asked.\n";

static const struct option options[] = {
    {"alloc", required_argument, NULL, 'a'},    {"tenant", required_argument, NULL, 't'},
    {"project", required_argument, NULL, 'p'},  {"vcluster", required_argument, NULL, 'v'},
    {"walltime", required_argument, NULL, 'w'}, {"gpus", required_argument, NULL, 'g'},
    {"profile", required_argument, NULL, 'y'},  {"grace", required_argument, NULL, 'r'},
    {"target", required_argument, NULL, 'd'},   {"continues", required_argument, NULL, 'c'},
    {"node", required_argument, NULL, 'n'},     {"strategy", required_argument, NULL, 'S'},
    {"period", required_argument, NULL, 'P'},   {"first-period", required_argument, NULL, 'F'},
    {"echkpnt", required_argument, NULL, 'k'},  {"requeue", required_argument, NULL, 'q'},
    {"restart", required_argument, NULL, 'R'},  {"restore", required_argument, NULL, 'o'},
    {"staging", required_argument, NULL, 'G'},  {"attr", required_argument, NULL, 'A'},
    {"on-hang", required_argument, NULL, 'H'},  {"socket", required_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};

static int take_number(const char *name, enum number_kind kind, uint64_t max, uint64_t *ret_number,
                       struct err *err)
{
    struct err why = {0};

    if (number_parse(kind, optarg, (struct number_range){0, max}, ret_number, &why) != 0)
        return err_set(err, ERR_INVALID, "%s: %s", name, why.text);
    return 0;
}

/* An empty text is one that was not given. */
static int take_id(const char *name, char **ret_text, struct err *err)
{
    *ret_text = optarg;
    return id_check(name, optarg, err);
}

static int take_on_hang(Ckpt__V1__OnHang *ret_on_hang, struct err *err)
{
    bool restart = strcmp(optarg, "restart") == 0;

    if (!restart && strcmp(optarg, "tell") != 0)
        return err_set(err, ERR_INVALID, "--on-hang must be tell or restart, it is \"%.64s\"",
                       optarg);
    *ret_on_hang = restart ? CKPT__V1__ON_HANG__ON_HANG_RESTART : CKPT__V1__ON_HANG__ON_HANG_TELL;
    return 0;
}

/* A value of an enumeration of the API, by its name. */
static int take_choice(const char *name, const ProtobufCEnumDescriptor *type, int *ret_value,
                       struct err *err)
{
    char known[160] = "", word[FSM_WORD_BYTES];
    size_t used = 0;

    if (fsm_enum_parse(type, optarg, ret_value) && *ret_value != 0)
        return 0;
    for (unsigned i = 0; i < type->n_values && used < sizeof(known); i++)
        if (type->values[i].value != 0)
            used +=
                (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used == 0 ? "" : ", ",
                                 fsm_enum_word(type, type->values[i].value, word));
    return err_set(err, ERR_INVALID, "%s: \"%.64s\" is not one of %s", name, optarg, known);
}

/* NODE[:GPUS]; freed with the process. */
static int take_node(Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    Ckpt__V1__NodeShare *share = check_alloc(sizeof(*share));
    char *colon = strchr(optarg, ':');
    uint64_t gpus = 0;
    struct err why = {0};

    if (colon != NULL)
        *colon = '\0';
    ckpt__v1__node_share__init(share);
    share->node_id = optarg;
    request->nodes = check_realloc(request->nodes, request->n_nodes + 1, sizeof(*request->nodes));
    request->nodes[request->n_nodes++] = share;
    if (id_check("--node NODE[:GPUS]", optarg, err) != 0)
        return -1;
    if (colon != NULL &&
        number_parse(NUMBER_PLAIN, colon + 1, (struct number_range){0, GPUS_MAX}, &gpus, &why) != 0)
        return err_set(err, ERR_INVALID, "--node %.64s: GPUs: %s", optarg, why.text);
    share->gpu_count = (uint32_t)gpus;
    return 0;
}

/* A line each; freed with the process. */
static int take_attribute(Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    const size_t before = strlen(request->attributes), size = before + strlen(optarg) + 2;
    char *text = check_calloc(1, size);

    if (strchr(optarg, '=') == NULL)
        return err_set(err, ERR_INVALID,
                       "--attr must be NAME=VALUE, as checkpoint_exit_code=85; it is \"%.64s\"",
                       optarg);
    snprintf(text, size, "%s%s%s", request->attributes, before > 0 ? "\n" : "", optarg);
    request->attributes = text;
    if (request->profile[0] == '\0')
        request->profile = check_strdup("file");
    return 0;
}

/* Those that are one of some words. */
static int take_word(int option, Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    int value = 0, result;

    switch (option) {
    case 'S':
        result = take_choice("--strategy", &ckpt__v1__strategy__descriptor, &value, err);
        request->strategy = (Ckpt__V1__Strategy)value;
        return result;
    case 'q':
        result = take_choice("--requeue", &ckpt__v1__requeue_policy__descriptor, &value, err);
        request->requeue_policy = (Ckpt__V1__RequeuePolicy)value;
        return result;
    case 'R':
        result = take_choice("--restart", &ckpt__v1__restart_mode__descriptor, &value, err);
        request->restart = (Ckpt__V1__RestartMode)value;
        return result;
    case 'o':
        result = take_choice("--restore", &ckpt__v1__restore_mode__descriptor, &value, err);
        request->restore = (Ckpt__V1__RestoreMode)value;
        return result;
    case 'G':
        result = take_choice("--staging", &ckpt__v1__staging__descriptor, &value, err);
        request->staging = (Ckpt__V1__Staging)value;
        return result;
    default: /* err says which word is none */
        return -1;
    }
}

/* LSF's periods are in minutes. below: what was said already stands. */
static int take_lsf_periods(const char *text, bool below, Ckpt__V1__RegisterOwnJobRequest *request,
                            struct err *err)
{
    struct lsf_settings settings;

    if (lsf_settings_parse(text, NULL, &settings, err) != 0)
        return -1;
    if (settings.period_min != 0 && !(below && request->period_ms != 0))
        request->period_ms = (uint64_t)settings.period_min * 60 * 1000;
    if (settings.first_period_min != 0 && !(below && request->first_period_ms != 0))
        request->first_period_ms = (uint64_t)settings.first_period_min * 60 * 1000;
    return 0;
}

static int take_lsf(Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    static char by_command[] = "exec";

    request->profile = by_command;
    return take_lsf_periods(optarg, false, request, err);
}

/* A site's periods, as CHKPNT_PERIOD and CHKPNT_INITPERIOD of LSF's profiles. word: as --profile
 * has it; NULL: none is named. */
static int take_profile_periods(const char *word, Ckpt__V1__RegisterOwnJobRequest *request,
                                struct err *err)
{
    struct profile profile = {.about = NULL};
    struct err why;
    int result = 0;

    if (word == NULL || profile_open(&profile, word, &why) != 0) /* a way of asking is no file */
        result = 0;
    else if (profile.echkpnt[0] != '\0')
        result = take_lsf_periods(profile.echkpnt, true, request, err);
    profile_close(&profile);
    return result;
}

/* The cluster knows ways of asking alone: the rest of a profile is for the start. */
static int take_profile(Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    static char way[ID_MAX_BYTES + 1];

    if (profile_way(optarg, way, err) != 0)
        return err_wrap(err, "--profile");
    if (way[0] != '\0' && !id_valid(way))
        return err_set(err, ERR_INVALID,
                       "--profile is \"%.140s\", it must be a way of asking or a profile", optarg);
    request->profile = way;
    return 0;
}

static int take_option(int option, Ckpt__V1__RegisterOwnJobRequest *request, const char **socket,
                       struct err *err)
{
    uint64_t gpus = 0;
    int result;

    switch (option) {
    case 'a':
        return take_id("--alloc", &request->allocation_id, err);
    case 't':
        return take_id("--tenant", &request->tenant, err);
    case 'p':
        return take_id("--project", &request->project, err);
    case 'v':
        return take_id("--vcluster", &request->vcluster, err);
    case 'y':
        return take_profile(request, err);
    case 'd':
        return take_id("--target", &request->target_id, err);
    case 'c':
        return take_id("--continues", &request->continues, err);
    case 'w':
        return take_number("--walltime", NUMBER_DURATION, WALLTIME_MAX_MS, &request->walltime_ms,
                           err);
    case 'r':
        return take_number("--grace", NUMBER_DURATION, GRACE_MAX_MS, &request->grace_ms, err);
    case 'g':
        result = take_number("--gpus", NUMBER_PLAIN, GPUS_MAX, &gpus, err);
        request->gpu_count = (uint32_t)gpus;
        return result;
    case 'H':
        return take_on_hang(&request->on_hang, err);
    case 'P':
        return take_number("--period", NUMBER_DURATION, WALLTIME_MAX_MS, &request->period_ms, err);
    case 'F':
        return take_number("--first-period", NUMBER_DURATION, WALLTIME_MAX_MS,
                           &request->first_period_ms, err);
    case 'k':
        return take_lsf(request, err);
    case 'n':
        return take_node(request, err);
    case 'A':
        return take_attribute(request, err);
    case 's':
        *socket = optarg;
        return 0;
    default:
        return take_word(option, request, err);
    }
}

static int check_whole(int argc, const Ckpt__V1__RegisterOwnJobRequest *request, struct err *err)
{
    if (optind != argc)
        return err_set(err, ERR_INVALID,
                       "register takes options only; ckpt-run --alloc ID -- COMMAND runs it then");
    if (request->allocation_id[0] == '\0' || request->tenant[0] == '\0' ||
        request->project[0] == '\0')
        return err_set(err, ERR_INVALID, "register needs --alloc, --tenant and --project");
    if (request->period_ms != 0 && request->period_ms < PERIOD_MIN_MS)
        return err_set(err, ERR_INVALID, "--period is %" PRIu64 " ms, must be at least 1m",
                       request->period_ms);
    if (request->first_period_ms != 0 && request->first_period_ms < PERIOD_MIN_MS)
        return err_set(err, ERR_INVALID, "--first-period is %" PRIu64 " ms, must be at least 1m",
                       request->first_period_ms);
    return 0;
}

static void print_registered(const Ckpt__V1__RegisterOwnJobRequest *request,
                             const Ckpt__V1__RegisterOwnJobReply *reply)
{
    if (reply->node_count <= 1)
        printf("job %s of %s is registered on node %s; start it: ckpt-run --alloc %s -- COMMAND\n",
               request->allocation_id, reply->owner, reply->node_id, request->allocation_id);
    else
        printf("job %s of %s is registered for %" PRIu32
               " nodes; start it on each of them: ckpt-run --alloc %s -- COMMAND; it begins when "
               "all wait\n",
               request->allocation_id, reply->owner, reply->node_count, request->allocation_id);
}

/* As ckptctl register says it. The job stands as it is registered. */
static void say_period(const Ckpt__V1__RegisterOwnJobRequest *request, const char *socket)
{
    char text[OWNER_PERIOD_BYTES];
    Ckpt__V1__Allocation *job;
    uint64_t floor_ms = 0;

    if (request->period_ms == 0)
        return;
    job = run_owner_job(socket, request->allocation_id, RUN_OWNER_JOB_MS);
    if (job != NULL) {
        floor_ms = job->min_interval_ms;
        ckpt__v1__allocation__free_unpacked(job, NULL);
    }
    if (*owner_period_text(request->period_ms, floor_ms, request->walltime_ms, text) == '\0')
        return;
    fputs("ckpt-run: ", stderr);
    owner_words(stderr, text);
    fputc('\n', stderr);
}

static int ask_agent(const Ckpt__V1__RegisterOwnJobRequest *request, const char *socket)
{
    Ckpt__V1__RegisterOwnJobReply *reply = NULL;
    struct run_answer answer;
    struct buf bytes;
    int code = EXIT_SUCCESS;

    buf_init(&bytes);
    ckpt__v1__register_own_job_request__pack(
        request, buf_extend(&bytes, ckpt__v1__register_own_job_request__get_packed_size(request)));
    run_call(socket, REGISTER_OWN_JOB_METHOD, &bytes, REGISTER_TIMEOUT_MS, &answer);
    buf_close(&bytes);
    if (answer.status == RPC_OK)
        reply =
            ckpt__v1__register_own_job_reply__unpack(NULL, answer.bytes.length, answer.bytes.bytes);
    if (reply != NULL) {
        print_registered(request, reply);
        say_period(request, socket);
    } else {
        code = run_call_fail(socket, &answer);
    }
    buf_close(&answer.bytes);
    if (reply != NULL)
        ckpt__v1__register_own_job_reply__free_unpacked(reply, NULL);
    return code;
}

int run_register(int argc, char **argv)
{
    Ckpt__V1__RegisterOwnJobRequest request = CKPT__V1__REGISTER_OWN_JOB_REQUEST__INIT;
    const char *socket = RUN_DEFAULT_SOCKET, *profile = NULL;
    struct err err = {0};
    int option, result = 0;

    while (result == 0 && (option = usage_option(argc, argv, "k:", options, &err)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        profile = option == 'y' ? optarg : profile;
        result = take_option(option, &request, &socket, &err);
    }
    if (result == 0)
        result = take_profile_periods(profile, &request, &err);
    if (result == 0)
        result = check_whole(argc, &request, &err);
    if (result != 0) {
        usage_refuse("ckpt-run", "register", err.text);
        return RUN_EXIT_SELF;
    }
    return ask_agent(&request, socket);
}
