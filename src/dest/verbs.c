/* The command line of ckpt-worker. See verbs.h; src/dest/README.md lists arguments and exit
 * codes. */
#include "src/dest/verbs.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/become.h"
#include "src/dest/destination.h"
#include "src/dest/holes.h"
#include "src/dest/keep.h"
#include "src/dest/line.h"
#include "src/dest/look.h"
#include "src/dest/owner.h"
#include "src/dest/pace.h"
#include "src/dest/parent.h"
#include "src/dest/reserve.h"
#include "src/dest/retain.h"
#include "src/dest/scan.h"
#include "src/dest/tasks.h"
#include "src/dest/tree.h"
#include "src/dest/verbs_options.h"
#include "src/dest/worker.h"

/* How often a file is taken over from the checkpoint before until it is written anew. */
enum { GENERATIONS_DEFAULT = 8, ARGUMENTS_BY_HAND_MAX = 16 };

/* A verb: what it may be given and who does it. */
struct verb {
    struct options_taken takes;
    bool on_destination;
    /* how it is with the target's note (mark.h): reading leaves it alone, what writes or removes
     * looks at it, and what the leader does by itself takes the target */
    enum { HOLD_NOT, HOLD_LOOKS, HOLD_TAKES } hold;
    int (*run)(const struct request *request, FILE *out, struct err *err);
};

static struct destination_place place_of(const struct request *request)
{
    return (struct destination_place){.prefix = request->values[PREFIX],
                                      .path = request->values[PATH],
                                      .part = request->values[PART],
                                      .manifest_sha256 = request->values[MANIFEST_SHA256],
                                      .mark = request->claim.mark[0] == '\0' ? NULL
                                                                             : request->claim.mark};
}

static int print_summary(const struct destination_summary *summary, FILE *out)
{
    fprintf(out, "size_bytes=%" PRIu64 "\nfiles=%" PRIu64 "\nmanifest_sha256=%s\nreused=%d\n",
            summary->size_bytes, summary->file_count, summary->manifest_sha256, summary->reused);
    return 0;
}

static int run_probe(const struct request *request, FILE *out, struct err *err)
{
    (void)out;
    return request->destination->probe(request->values[PREFIX], err);
}

static struct destination_place place_of_all(const struct request *request)
{
    struct destination_place place = place_of(request);

    place.all_checkpoints = true;
    place.beside = request->values[BESIDE];
    return place;
}

/* An object store has nothing to be made, and takes all users' objects by the daemon's keys. */
static int run_prepare(const struct request *request, FILE *out, struct err *err)
{
    const struct destination_place place = place_of_all(request);

    (void)out;
    return request->destination->prepare == NULL ? 0 : request->destination->prepare(&place, err);
}

/* The shard is at its destination: that its manifest could not be left here is no failure of it. */
static void leave_manifest(const struct request *request, const struct buf *text, FILE *out)
{
    bool left = request->values[MANIFEST_TO] != NULL && text->length > 0 &&
                retain_write(request->values[MANIFEST_TO], text->bytes, text->length, NULL) == 0;

    fprintf(out, "manifest_left=%d\n", left);
}

static int run_put(const struct request *request, FILE *out, struct err *err)
{
    struct destination_place place = place_of(request);
    struct destination_how how = request->how;
    struct destination_summary summary;
    struct buf manifest;
    int result;

    if (how.compresses && !request->destination->compresses)
        return err_set(err, ERR_INVALID,
                       "%s is of the kind %s, where nothing is stored compressed: use --compress "
                       "none",
                       place.prefix, request->destination->kind);
    buf_init(&manifest);
    if (request->values[MANIFEST_TO] != NULL)
        place.manifest_text = &manifest;
    how.generations_max =
        request->values[GENERATIONS] == NULL ? GENERATIONS_DEFAULT : (unsigned)request->generations;
    result = request->destination->put(&place, request->values[SOURCE], &how, &summary, err);
    if (result == 0) {
        fprintf(out, "written_bytes=%" PRIu64 "\nsaved_bytes=%" PRIu64 "\n",
                summary.size_bytes - summary.saved_bytes, summary.saved_bytes);
        leave_manifest(request, &manifest, out);
        result = print_summary(&summary, out);
    }
    buf_close(&manifest);
    return result;
}

static int run_stage(const struct request *request, FILE *out, struct err *err)
{
    const struct destination_place place = place_of(request);
    char name[DESTINATION_NAME_BYTES];

    if (request->destination->stage == NULL)
        return err_set(err, ERR_REFUSED,
                       "%s is of the kind %s, where no application writes by itself: use staging "
                       "local or memory",
                       place.prefix, request->destination->kind);
    if (request->destination->stage(&place, name, err) != 0)
        return -1;
    fprintf(out, "name=%s\n", name);
    return 0;
}

static int run_publish(const struct request *request, FILE *out, struct err *err)
{
    const struct destination_place place = place_of(request);
    struct destination_summary summary;

    if (request->destination->publish == NULL)
        return err_set(err, ERR_REFUSED, "%s is of the kind %s, where nothing is staged",
                       place.prefix, request->destination->kind);
    if (request->destination->publish(&place, request->values[NAME], &request->how, &summary,
                                      err) != 0)
        return -1;
    fprintf(out, "written_bytes=%" PRIu64 "\nsaved_bytes=0\n", summary.size_bytes);
    return print_summary(&summary, out);
}

static int run_retain(const struct request *request, FILE *out, struct err *err)
{
    const struct retain_request retain = {.source = request->values[SOURCE],
                                          .manifest = request->values[MANIFEST],
                                          .folder = request->values[PATH],
                                          .part = request->values[PART],
                                          .keep_free_bytes = request->keep_free};

    (void)out;
    return retain_copy(&retain, err);
}

/* Asked for by an agent, which must not wait for a file system itself. */
static int run_space(const struct request *request, FILE *out, struct err *err)
{
    uint64_t free_bytes = 0;

    if (retain_free_bytes(request->values[PATH], &free_bytes, err) != 0)
        return -1;
    fprintf(out, "free_bytes=%" PRIu64 "\n", free_bytes);
    return 0;
}

/* With --as root has given the user a folder there before it became that one. */
static int run_reserve(const struct request *request, FILE *out, struct err *err)
{
    const char *home = request->values[PATH], *name = request->values[NAME];

    (void)out;
    if (name[0] == '.' || name[0] == '\0' || strchr(name, '/') != NULL)
        return err_set(err, ERR_INVALID, "--name \"%.128s\" is not a name", name);
    if (request->values[AS] == NULL && reserve_claim(home, geteuid(), getegid(), err) != 0)
        return -1;
    return reserve_folder(home, name, request->bytes, request->most, err);
}

/* --as owner is not a user's number but a question: whose the job's folder is. The verbs that ask
 * it take the owner's rights by themselves (owner.h). */
static bool as_owner(const struct request *request)
{
    return request->values[AS] != NULL && strcmp(request->values[AS], "owner") == 0;
}

/* As the owner it ends as the owner: nothing is done afterwards that needs another right. */
static int run_verify(const struct request *request, FILE *out, struct err *err)
{
    struct destination_place place = place_of(request);
    struct destination_how how = request->how;
    struct destination_summary summary;

    if (request->values[READ_BACK] == NULL)
        how.read_back = SAMPLE_ALWAYS;
    if (as_owner(request) &&
        owner_enter(request->destination,
                    &(struct owner_place){place.prefix, place.path, request->values[OWNER]},
                    err) != 0)
        return -1;
    if (request->destination->verify(&place, &how, &summary, err) != 0)
        return -1;
    return print_summary(&summary, out);
}

/* For people, without a cluster: nothing is asked for but the folder. */
static int run_check(const struct request *request, FILE *out, struct err *err)
{
    const char *downloaded = request->values[DOWNLOADED];
    const struct destination_check check = {.path = request->values[PATH],
                                            .how = &request->how,
                                            .downloaded =
                                                downloaded != NULL && downloaded[0] == 'y',
                                            .out = out};

    if (request->destination->check == NULL)
        return err_set(err, ERR_INVALID,
                       "%s is of the kind %s: verify --path DIR --part NAME reads it there, or "
                       "download it and check the folder with --downloaded yes",
                       check.path, request->destination->kind);
    return request->destination->check(&check, err);
}

/* From the node's own copy, which is a shard of another destination: with the manifest's hash that
 * the state has, so that neither an older one nor one of an attempt that failed is taken for it.
 * What is wrong with it is told, and is no failure where the destination may be read. */
static int restore_copy(const struct request *request, FILE *out, struct err *ret_err)
{
    struct destination_place place = {.path = request->values[COPY],
                                      .part = request->values[PART],
                                      .manifest_sha256 = request->values[MANIFEST_SHA256],
                                      .as_put = true};
    struct destination_how how = request->how;
    const struct destination_ops *destination;
    struct destination_summary summary;
    struct err err = {0};

    how.rate_bytes_per_s = 0; /* that is of the destination */
    destination = destination_of(place.path, &err);
    if (destination != NULL && place.manifest_sha256 == NULL)
        err_set(&err, ERR_INVALID, "a copy counts only with --manifest-sha256");
    else if (destination != NULL &&
             destination->restore(&place, request->values[TO], &how, &summary, &err) == 0) {
        fprintf(out, "copy=used\n");
        print_summary(&summary, out);
        return 0;
    }
    if (err.code == ERR_NO_ROOM) /* where it was to go: the copy is well */
        return err_set(ret_err, err.code, "%s", err.text);
    fprintf(out, "copy=%s\n",
            err.code == ERR_CORRUPT || err.code == ERR_NOT_FOUND ? "lost" : "unusable");
    line_print(out, "copy_error", err.text);
    return err_set(ret_err, err.code, "%s", err.text);
}

/* --from copy is for who has no leave to read the destination yet: others stand in line there.
 * Without it a copy that cannot be used is made up for. */
static int run_restore(const struct request *request, FILE *out, struct err *err)
{
    struct destination_place place = place_of(request);
    struct destination_summary summary;
    struct err why = {0};

    if (request->values[FROM] != NULL && request->values[COPY] == NULL)
        return err_set(err, ERR_INVALID, "--from copy needs --copy COPY_DIR");
    if (request->values[COPY] != NULL) {
        if (restore_copy(request, out, &why) == 0)
            return 0;
        if (request->values[FROM] != NULL)
            return err_set(err, why.code, "%s", why.text);
    }
    if (request->destination->restore(&place, request->values[TO], &request->how, &summary, err) !=
        0)
        return -1;
    return print_summary(&summary, out);
}

/* For a person, who may have no room for the zeros of sparse files. */
static int run_get(const struct request *request, FILE *out, struct err *err)
{
    if (run_restore(request, out, err) != 0)
        return -1;
    holes_dig(request->values[TO]);
    return 0;
}

/* Whether a later epoch of the cluster has the target. A task without an epoch was started by hand,
 * or by an earlier version. */
static int check_hold(const struct request *request, bool takes, struct err *err)
{
    const struct destination_hold hold = {.prefix = request->values[PREFIX],
                                          .path = request->values[PATH],
                                          .claim = &request->claim,
                                          .cluster_id = request->values[CLUSTER_ID],
                                          .takes = takes};

    if (hold.prefix == NULL || request->claim.epoch == 0 || request->destination->hold == NULL)
        return 0;
    return request->destination->hold(&hold, err);
}

/* Folders above the owner's own are root's: what became empty there goes afterwards, and holds no
 * data where it stays. Root looks into nothing: the owner may have put there anything meanwhile. */
static int run_collect(const struct request *request, FILE *out, struct err *err)
{
    const char *prefix = request->values[PREFIX], *path = request->values[PATH];
    const struct destination_place place = place_of(request);
    struct destination_removed removed = {0};
    bool as_owner = request->values[AS] != NULL;
    int result;

    if (as_owner &&
        owner_enter(request->destination,
                    &(struct owner_place){prefix, path, request->values[OWNER]}, err) != 0)
        return -1;
    result = check_hold(request, !as_owner, err);
    if (result == 0)
        result = request->destination->collect(&place, &removed, err);
    if (as_owner && owner_leave() && result == 0)
        request->destination->tidy(prefix, path);
    if (result == 0)
        fprintf(out,
                "removed=%d\nbytes=%" PRIu64 "\nfiles=%" PRIu64 "\nwiped=%" PRIu64
                "\nunwiped=%" PRIu64 "\n",
                removed.removed, removed.bytes, removed.files, removed.wiped, removed.unwiped);
    return result;
}

static int run_abandon(const struct request *request, FILE *out, struct err *err)
{
    struct destination_place place = place_of(request);

    (void)out;
    return request->destination->abandon(&place, err);
}

static int run_scan(const struct request *request, FILE *out, struct err *err)
{
    const struct destination_scan scan = {.prefix = request->values[PREFIX],
                                          .mark = request->claim.mark,
                                          .after = request->values[AFTER],
                                          .min_age_s = request->min_age};

    return scan_run(request->destination, &scan, out, err);
}

static int run_keep(const struct request *request, FILE *out, struct err *err)
{
    const struct keep_request keep = {.source = request->values[SOURCE],
                                      .folder = request->values[TO],
                                      .name = request->values[NAME],
                                      .prefix = request->values[SERIES],
                                      .keep = request->keep[0],
                                      .keep_days = request->keep[1],
                                      .keep_weeks = request->keep[2],
                                      .keep_months = request->keep[3],
                                      .keep_bytes = request->keep_bytes};
    struct keep_summary summary;

    if (keep_file(&keep, &summary, err) != 0)
        return -1;
    fprintf(out, "size_bytes=%" PRIu64 "\nkept=%" PRIu64 "\nremoved=%" PRIu64 "\n",
            summary.size_bytes, summary.kept, summary.removed);
    return 0;
}

/* The directory of users may be a server that does not answer: no daemon asks it itself. */
static int run_user(const struct request *request, FILE *out, struct err *err)
{
    uid_t uid;

    if (owner_find(request->values[NAME], &uid, err) != 0)
        return -1;
    fprintf(out, "uid=%u\n", (unsigned)uid);
    return 0;
}

/* By name, with commas between; one that cannot be an id is none here. */
static void tell_groups(const struct passwd *user, FILE *out)
{
    gid_t groups[BECOME_GROUPS_MAX];
    int count = BECOME_GROUPS_MAX, told = 0;

    if (user == NULL)
        return;
    if (getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0)
        count = BECOME_GROUPS_MAX;
    fputs("groups=", out);
    for (int i = 0; i < count; i++) {
        const struct group *group = getgrgid(groups[i]);

        if (group != NULL && id_valid(group->gr_name))
            fprintf(out, "%s%s", told++ == 0 ? "" : ",", group->gr_name);
    }
    fputs("\n", out);
}

/* The other way round, by the same directory. A user without a name has the number for one. */
static int run_name(const struct request *request, FILE *out, struct err *err)
{
    const char *uid = request->values[UID];
    const struct passwd *user;

    if (uid[strspn(uid, "0123456789")] != '\0' || strlen(uid) > 10 ||
        strtoull(uid, NULL, 10) >= (uid_t)-1)
        return err_set(err, ERR_INVALID, "--uid \"%.64s\" is not the number of a user", uid);
    errno = 0;
    user = getpwuid((uid_t)strtoull(uid, NULL, 10));
    if (user == NULL && errno != 0 && errno != ENOENT && errno != ESRCH)
        return err_set(err, ERR_IO, "user %.16s: %s", uid, strerror(errno));
    fprintf(out, "name=%s\n", user == NULL ? uid : user->pw_name);
    tell_groups(user, out);
    return 0;
}

static int run_look(const struct request *request, FILE *out, struct err *err)
{
    return look_path(request->values[PATH], fileno(out), err);
}

static int run_sweep(const struct request *request, FILE *out, struct err *err)
{
    (void)out;
    return look_sweep(request->values[PATH], err);
}

#define CLUSTERS (BIT(CLUSTER) | BIT(CLUSTER_ID))
static const struct verb verbs[] = {
    {{"probe", BIT(PREFIX), CLUSTERS}, true, HOLD_TAKES, run_probe},
    {{"prepare", BIT(PREFIX) | BIT(PATH), BIT(BESIDE) | BIT(AS) | CLUSTERS},
     true,
     HOLD_LOOKS,
     run_prepare},
    {{"put", BIT(PREFIX) | BIT(PATH) | BIT(PART) | BIT(SOURCE),
      BIT(RATE) | BIT(THREADS) | BIT(READ_BACK) | BIT(GENERATIONS) | BIT(AS) | BIT(MANIFEST_TO) |
          BIT(COMPRESS) | BIT(WIPE) | CLUSTERS},
     true,
     HOLD_LOOKS,
     run_put},
    {{"stage", BIT(PREFIX) | BIT(PATH) | BIT(PART), BIT(AS) | BIT(WIPE) | CLUSTERS},
     true,
     HOLD_LOOKS,
     run_stage},
    {{"publish", BIT(PREFIX) | BIT(PATH) | BIT(PART) | BIT(NAME),
      BIT(THREADS) | BIT(READ_BACK) | BIT(AS) | BIT(WIPE) | CLUSTERS},
     true,
     HOLD_LOOKS,
     run_publish},
    {{"verify", BIT(PATH) | BIT(PART),
      BIT(PREFIX) | BIT(MANIFEST_SHA256) | BIT(RATE) | BIT(THREADS) | BIT(READ_BACK) | BIT(AS) |
          BIT(OWNER)},
     true,
     HOLD_NOT,
     run_verify},
    {{"check", BIT(PATH), BIT(RATE) | BIT(THREADS) | BIT(DOWNLOADED)}, true, HOLD_NOT, run_check},
    {{"restore", BIT(PATH) | BIT(PART) | BIT(TO),
      BIT(PREFIX) | BIT(MANIFEST_SHA256) | BIT(RATE) | BIT(THREADS) | BIT(AS) | BIT(COPY) |
          BIT(FROM)},
     true,
     HOLD_NOT,
     run_restore},
    {{"get", BIT(PATH) | BIT(PART) | BIT(TO),
      BIT(PREFIX) | BIT(MANIFEST_SHA256) | BIT(RATE) | BIT(THREADS) | BIT(AS)},
     true,
     HOLD_NOT,
     run_get},
    {{"retain", BIT(SOURCE) | BIT(MANIFEST) | BIT(PATH) | BIT(PART), BIT(KEEP_FREE) | BIT(AS)},
     false,
     HOLD_NOT, /* on the node itself, as those below without a destination */
     run_retain},
    {{"space", BIT(PATH), BIT(AS)}, false, HOLD_NOT, run_space},
    {{"reserve", BIT(PATH) | BIT(NAME), BIT(BYTES) | BIT(MOST) | BIT(AS)},
     true,
     HOLD_NOT,
     run_reserve},
    {{"collect", BIT(PREFIX) | BIT(PATH), BIT(AS) | BIT(OWNER) | BIT(WIPE) | CLUSTERS},
     true,
     HOLD_NOT, /* by itself, with the rights that it removes with */
     run_collect},
    {{"abandon", BIT(PATH) | BIT(PART), BIT(PREFIX) | BIT(AS) | BIT(WIPE) | CLUSTERS},
     true,
     HOLD_LOOKS,
     run_abandon},
    {{"scan", BIT(PREFIX) | BIT(CLUSTER), BIT(AFTER) | BIT(MIN_AGE)}, true, HOLD_NOT, run_scan},
    {{"keep", BIT(SOURCE) | BIT(TO) | BIT(NAME) | BIT(SERIES) | BIT(KEEP), BIT(KEEP_BYTES)},
     false,
     HOLD_NOT,
     run_keep},
    {{"user", BIT(NAME), 0}, false, HOLD_NOT, run_user},
    {{"name", BIT(UID), 0}, false, HOLD_NOT, run_name},
    {{"look", BIT(PATH), 0}, false, HOLD_NOT, run_look},
    {{"sweep", BIT(PATH), BIT(AS) | BIT(WIPE)}, false, HOLD_NOT, run_sweep},
};

/* NULL with err, which names all that there are. */
static const struct verb *find_verb(const char *name, struct err *err)
{
    char all[256] = "";
    size_t length = 0;

    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++) {
        if (name != NULL && strcmp(verbs[i].takes.verb, name) == 0)
            return &verbs[i];
        length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s",
                                   i == 0                        ? ""
                                   : i + 1 == ARRAY_COUNT(verbs) ? " or "
                                                                 : ", ",
                                   verbs[i].takes.verb);
        CHECK(length < sizeof(all));
    }
    if (name == NULL)
        err_set(err, ERR_INVALID, "a verb is missing; use %s", all);
    else
        err_set(err, ERR_INVALID, "unknown verb \"%.64s\"; use %s", name, all);
    return NULL;
}

/* `verify FOLDER`, as people type it: `check --path FOLDER`. NULL: it is not that. */
static const struct verb *parse_folder(int argc, char *const *argv, struct request *ret_request,
                                       struct err *err)
{
    char *words[ARGUMENTS_BY_HAND_MAX];
    int count = argc - 1;
    const struct verb *verb = find_verb("check", err);

    CHECK(verb != NULL);
    if (count > ARGUMENTS_BY_HAND_MAX) {
        err_set(err, ERR_INVALID, "verify FOLDER takes --rate, --threads and --downloaded");
        return NULL;
    }
    words[0] = (char *)(uintptr_t) "--path"; /* is only read */
    for (int i = 1; i < count; i++)
        words[i] = argv[i + 1];
    return options_read(count, words, &verb->takes, ret_request, err) == 0 ? verb : NULL;
}

static const struct verb *parse_request(int argc, char *const *argv, struct request *ret_request,
                                        struct err *err)
{
    const struct verb *verb = find_verb(argc < 2 ? NULL : argv[1], err);

    if (verb != NULL && argc > 2 && argv[2][0] != '-' &&
        (verb->run == run_verify || verb->run == run_check))
        return parse_folder(argc, argv, ret_request, err);
    if (verb == NULL || options_read(argc - 2, argv + 2, &verb->takes, ret_request, err) != 0)
        return NULL;
    return verb;
}

/* Its form says of which kind the destination is; without a prefix the folder's own does. */
static int find_destination(struct request *request, struct err *err)
{
    const char *prefix = request->values[PREFIX];

    request->destination = destination_of(prefix != NULL ? prefix : request->values[PATH], err);
    return request->destination != NULL ? 0 : -1;
}

/* What the starter decides by: whether another try, another checkpoint or a person is wanted. */
static int exit_of(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return WORKER_EXIT_USAGE;
    case ERR_NOT_FOUND:
        return WORKER_EXIT_NOT_FOUND;
    case ERR_CORRUPT:
        return WORKER_EXIT_CORRUPT;
    case ERR_EMPTY:
        return WORKER_EXIT_EMPTY;
    case ERR_REFUSED:
    case ERR_UNFIT:
    case ERR_MISMATCH:
        return WORKER_EXIT_REFUSED;
    default: /* of the destination, such as ERR_FULL, and what may be added: worth another try */
        return WORKER_EXIT_UNAVAILABLE;
    }
}

/* One line, whatever bytes a file name brought into it. */
static int print_error(const char *verb, struct err *err, FILE *errors)
{
    for (char *c = err->text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    }
    fprintf(errors, "ckpt-worker%s%s: %s\n", *verb == '\0' ? "" : " ", verb, err->text);
    return exit_of(err->code);
}

/* A Reason's word (REASON_STORAGE_FULL), where the exit code does not say all. */
static const char *cause_of(enum err_code code)
{
    switch (code) {
    case ERR_FULL:
        return "storage_full";
    case ERR_QUOTA:
        return "storage_quota";
    case ERR_AUTH:
    case ERR_MISMATCH: /* another cluster's: whoever watches the target has to know */
        return "storage_denied";
    case ERR_UNAVAILABLE:
        return "storage_unreachable";
    case ERR_TIMEOUT:
        return "storage_hangs";
    case ERR_BUSY:
        return "storage_slow";
    case ERR_NO_ROOM: /* of restore: where the files are to go */
        return WORKER_CAUSE_NO_ROOM;
    case ERR_UNFIT: /* the application's own: another try has the same files */
        return "application_refused";
    default:
        return "storage_error";
    }
}

static int print_failure(const struct verb *verb, struct err *err, FILE *out, FILE *errors)
{
    int code = print_error(verb->takes.verb, err, errors);

    bool known = err->code == ERR_MISMATCH || err->code == ERR_UNFIT;

    if (verb->on_destination && (code == WORKER_EXIT_UNAVAILABLE || known)) {
        fprintf(out, "cause=%s\n", cause_of(err->code));
        (void)fflush(out);
    }
    return code;
}

/* What people ask of any program. */
static bool print_asked(const char *word, FILE *out)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        fputs(verbs_usage, out);
    else if (strcmp(word, "--version") == 0)
        fprintf(out, "ckpt-worker %s\n", build_text);
    else
        return false;
    return true;
}

static bool verb_claims(const struct verb *verb)
{
    return verb->run == run_put || verb->run == run_stage || verb->run == run_prepare;
}

/* Root makes the folder of the allocation for its owner. What it may not do there, on a server that
 * takes it for nobody, the user's own attempt tells. */
static int claim_for(const struct verb *verb, const struct request *request, uid_t owner,
                     struct err *err)
{
    const struct destination_place place =
        verb->run == run_prepare ? place_of_all(request) : place_of(request);

    if (!verb_claims(verb) || request->destination->claim == NULL ||
        request->destination->claim(&place, owner, err) == 0)
        return 0;
    return err->code == ERR_AUTH || err->code == ERR_IO ? 0 : -1;
}

/* The folder that root made for an earlier task of this process may have gone since, and only a new
 * process of root's can make it again. */
static bool is_claimed(const struct verb *verb, const struct request *request)
{
    const struct destination_place place =
        verb->run == run_prepare ? place_of_all(request) : place_of(request);

    if (verb->run == run_reserve)
        return access(request->values[PATH], F_OK) == 0;
    return !verb_claims(verb) || request->destination->claimed == NULL ||
           request->destination->claimed(&place);
}

/* Before root makes a folder for the user. 1: only the user may look. */
static int hold_first(const struct verb *verb, const struct request *request, struct err *err)
{
    bool nothing = verb->run == run_prepare && request->destination->prepare == NULL;

    if (nothing || verb->hold == HOLD_NOT ||
        check_hold(request, verb->hold == HOLD_TAKES, err) == 0)
        return 0;
    return err->code == ERR_AUTH && request->values[AS] != NULL ? 1 : -1;
}

/* All but that is done as the user. */
static int take_user(const struct verb *verb, const struct request *request, struct err *err)
{
    struct become become;

    if (request->values[AS] == NULL)
        return 0;
    if (verb->run == run_collect) /* by itself: it comes back from being the owner */
        return owner_check(request->values[AS], err);
    if (verb->run == run_verify && as_owner(request))
        return request->values[PREFIX] != NULL
                   ? 0
                   : err_set(err, ERR_INVALID, "verify --as owner needs --prefix");
    if (become_parse(request->values[AS], &become, err) != 0)
        return -1;
    if (verb->run == run_reserve &&
        reserve_claim(request->values[PATH], become.uid, become.gid, err) != 0)
        return -1;
    if (claim_for(verb, request, become.uid, err) != 0)
        return -1;
    if (become_user(&become, err) != 0)
        return -1;
    return parent_bind(err); /* the kernel forgets it with the user */
}

/* Of a process that does one task after another (tasks.h): all as one user. 1: only a new process
 * can do it. */
static int take_user_again(const struct verb *verb, const struct request *request,
                           const char *became, struct err *err)
{
    const char *as = request->values[AS];

    if (strcmp(as == NULL ? "" : as, became) != 0)
        return err_set(err, ERR_REFUSED, "this process works as \"%.128s\", not as \"%.128s\"",
                       became, as == NULL ? "" : as);
    return as == NULL || is_claimed(verb, request) ? 0 : 1;
}

/* Settings of an earlier task of this process. */
static void forget_task(void)
{
    tree_wipe(false);
    tree_count_removed(NULL);
    tree_bound_removal(0);
}

static int take_task(const struct verb *verb, const struct request *request, const char *became,
                     struct err *err)
{
    int held = hold_first(verb, request, err), taken;

    if (held < 0)
        return -1;
    taken = became == NULL ? take_user(verb, request, err)
                           : take_user_again(verb, request, became, err);
    return taken == 0 && held > 0 ? check_hold(request, false, err) : taken;
}

/* became NULL: it is the first one. */
static int do_task(int argc, char *const *argv, const char *became, FILE *out, FILE *errors)
{
    uint64_t started_us = pace_clock_us();
    struct request request;
    struct err err = {0};
    const struct verb *verb;
    int taken;

    if (argc == 2 && print_asked(argv[1], out))
        return WORKER_EXIT_OK;
    forget_task();
    verb = parse_request(argc, argv, &request, &err);
    if (verb == NULL)
        return print_error("", &err, errors);
    if (verb->on_destination && find_destination(&request, &err) != 0)
        return print_error(verb->takes.verb, &err, errors);
    taken = take_task(verb, &request, became, &err);
    if (taken > 0)
        return TASKS_ANEW;
    if (taken != 0 || verb->run(&request, out, &err) != 0)
        return print_failure(verb, &err, out, errors);
    fprintf(out, "duration_ms=%" PRIu64 "\n", (pace_clock_us() - started_us) / 1000);
    if (fflush(out) != 0) {
        err_set(&err, ERR_IO, "the result could not be written to standard output");
        return print_error(verb->takes.verb, &err, errors);
    }
    return WORKER_EXIT_OK;
}

int verbs_main(int argc, char *const *argv, FILE *out, FILE *errors)
{
    return do_task(argc, argv, NULL, out, errors);
}

int verbs_again(int argc, char *const *argv, const char *became, FILE *out, FILE *errors)
{
    return do_task(argc, argv, became, out, errors);
}
