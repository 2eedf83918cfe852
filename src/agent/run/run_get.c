/* `ckpt-run get`. See run_get.h.
 *
 * Flow     the folder is looked at, or made, as the caller -> the agent
 *          (src/agent/app/own_get.h), whose worker reads the checkpoint and writes here as the
 *          caller -> where it is, and of when.
 * Errors   nothing is written into a folder that holds something, or that is a link, since a link
 *          may be somebody else's.
 */
#include "src/agent/run/run_get.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/usage.h"
#include "src/rpc/server.h"

#define GET_METHOD "/ckpt.v1.AppService/GetOwnCheckpoint"

enum { GET_TIMEOUT_MS = 7 * 24 * 3600 * 1000 };

static const char usage[] =
    "usage: ckpt-run get CHECKPOINT DIR [--socket PATH]\n"
    "Brings a complete checkpoint of a job of yours into a folder, as it was written, from any\n"
    "destination of the cluster; every byte is verified on its way. ckpt-run checkpoints JOB "
    "lists\n"
    "them.\n"
    "\n"
    "  DIR           a folder that is not there yet, or is empty, in one that is there. The parts\n"
    "                of a job of several nodes become folders in it (part-0000)\n"
    "  --socket PATH of the node's agent; default: " RUN_DEFAULT_SOCKET "\n"
    "\n"
    "The exit code is 0, 3 when no checkpoint of yours has that id, 4 when it or the folder is\n"
    "refused, 125 when the agent, the cluster or the destination does not answer: the same again\n"
    "goes on.\n";

/* Parts that an earlier try has brought stay: the worker compares them with what is to come. */
bool run_get_is_part(const char *name)
{
    return strncmp(name, "part-", 5) == 0 && name[5] != '\0' &&
           name[5 + strspn(name + 5, "0123456789")] == '\0';
}

static bool holds_something(int fd)
{
    DIR *folder = fdopendir(fd);
    struct dirent *entry;
    bool found = false;

    CHECK(folder != NULL);
    while (!found && (entry = readdir(folder)) != NULL)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                !run_get_is_part(entry->d_name);
    closedir(folder);
    return found;
}

/* Whoever may write in the folder above can put something else in its place. */
static int check_parent(const char *directory, struct err *err)
{
    char parent[PATH_MAX];
    struct stat stat;
    char *slash;

    snprintf(parent, sizeof(parent), "%s", directory);
    slash = strrchr(parent, '/');
    CHECK(slash != NULL);
    slash[slash == parent] = '\0';
    if (lstat(parent, &stat) != 0)
        return err_set(err, ERR_NOT_FOUND, "%s: %s; make it first", parent, strerror(errno));
    if ((stat.st_mode & S_IWOTH) != 0 && (stat.st_mode & S_ISVTX) == 0)
        return err_set(err, ERR_REFUSED,
                       "%s may be written by everybody, who can put a folder of theirs in the "
                       "place of %s; name one in a folder of yours",
                       parent, directory);
    return 0;
}

static int check_directory(const char *directory, struct err *err)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat stat;

    if (fd < 0 && errno == ENOENT) {
        if (check_parent(directory, err) != 0)
            return -1;
        return mkdir(directory, 0700) == 0
                   ? 0
                   : err_set(err, ERR_IO, "mkdir %s: %s", directory, strerror(errno));
    }
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(err, ERR_REFUSED,
                       "%s is a link, or no folder; name a folder that is not there yet, or is "
                       "empty",
                       directory);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %s", directory, strerror(errno));
    CHECK(fstat(fd, &stat) == 0);
    if (stat.st_uid != geteuid()) {
        close(fd);
        return err_set(err, ERR_REFUSED, "%s belongs to uid %u, and you are uid %u; name another",
                       directory, (unsigned)stat.st_uid, (unsigned)geteuid());
    }
    if (holds_something(fd))
        return err_set(err, ERR_REFUSED,
                       "%s holds something already, which is not touched; name an empty folder",
                       directory);
    return check_parent(directory, err);
}

/* Absolute and made, without slashes at its end. */
static int take_directory(const char *word, char directory[PATH_MAX], struct err *err)
{
    char here[PATH_MAX] = "";
    size_t length;

    if (word[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return err_set(err, ERR_IO, "the current folder: %s", strerror(errno));
    length = (size_t)snprintf(directory, PATH_MAX, "%s%s%s", here,
                              word[0] != '/' && strcmp(here, "/") != 0 ? "/" : "", word);
    if (length >= PATH_MAX)
        return err_set(err, ERR_INVALID, "DIR has %zu bytes, at most %d are taken", length,
                       PATH_MAX - 1);
    while (length > 1 && directory[length - 1] == '/')
        directory[--length] = '\0';
    return check_directory(directory, err);
}

static void print_got(const Ckpt__V1__GetOwnCheckpointReply *reply, const char *checkpoint,
                      const char *directory)
{
    char size[WORDS_BYTES], at[WORDS_BYTES];

    printf("checkpoint %s of job %s is at %s: %s in %" PRIu64 " files", checkpoint,
           reply->allocation_id, directory, words_size(reply->size_bytes, size), reply->file_count);
    if (reply->parts > 1)
        printf(" of %" PRIu32 " parts (part-0000, ...)", reply->parts);
    if (reply->label[0] != '\0')
        printf(", step %s", reply->label);
    if (reply->snapshot_at_ms != 0)
        printf(", of %s", words_clock(reply->snapshot_at_ms, at));
    puts(", verified");
}

static int ask_agent(const char *socket, uint64_t checkpoint_id, const char *checkpoint,
                     char *directory)
{
    Ckpt__V1__GetOwnCheckpointRequest request = CKPT__V1__GET_OWN_CHECKPOINT_REQUEST__INIT;
    Ckpt__V1__GetOwnCheckpointReply *reply = NULL;
    struct run_answer answer;
    struct buf bytes;
    int code = EXIT_SUCCESS;

    request.checkpoint_id = checkpoint_id;
    request.directory = directory;
    buf_init(&bytes);
    ckpt__v1__get_own_checkpoint_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__get_own_checkpoint_request__get_packed_size(&request)));
    run_call(socket, GET_METHOD, &bytes, GET_TIMEOUT_MS, &answer);
    buf_close(&bytes);
    if (answer.status == RPC_OK)
        reply = ckpt__v1__get_own_checkpoint_reply__unpack(NULL, answer.bytes.length,
                                                           answer.bytes.bytes);
    if (reply != NULL)
        print_got(reply, checkpoint, directory);
    else
        code = run_call_fail(socket, &answer);
    buf_close(&answer.bytes);
    if (reply != NULL)
        ckpt__v1__get_own_checkpoint_reply__free_unpacked(reply, NULL);
    return code;
}

static int refuse_words(const char *text)
{
    usage_refuse("ckpt-run", "get", text);
    return RUN_EXIT_SELF;
}

int run_get(int argc, char **argv)
{
    static const struct option table[] = {{"socket", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *socket = RUN_DEFAULT_SOCKET;
    char directory[PATH_MAX];
    struct err err = {0};
    uint64_t id;
    int option, code;

    while ((option = usage_option(argc, argv, "", table, &err)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (option == '?')
            return refuse_words(err.text);
        socket = optarg;
    }
    if (optind + 2 != argc)
        return refuse_words("get needs CHECKPOINT and DIR");
    if (checkpoint_id_parse(argv[optind], &id) != 0 || id == 0)
        return refuse_words(
            "CHECKPOINT is not EPOCH-SEQUENCE, for example 1-42; ckpt-run checkpoints JOB "
            "lists them");
    if (take_directory(argv[optind + 1], directory, &err) != 0) {
        fprintf(stderr, "ckpt-run: %s\n", err.text);
        return RUN_EXIT_REFUSED;
    }
    code = ask_agent(socket, id, argv[optind], directory);
    if (code != EXIT_SUCCESS)
        (void)rmdir(directory); /* made for nothing; a part that was brought keeps it */
    return code;
}
