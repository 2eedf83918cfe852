/* ckptctl debug bundle: one file for those who are asked for help. See bundle/bundle.h.
 *
 * Flow     each row of the table is a command of ckptctl, which this program runs as itself once
 *          more, with --stale where no leader answers. Then comes what this machine has:
 *          configuration and log of the daemons, and the metrics that they answer with on loopback.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/build.h"
#include "src/base/check.h"
#include "src/cli/bundle/bundle.h"
#include "src/cli/commands.h"

enum { WORDS_MAX = 24, TEXT_MAX = 64 << 20, METRICS_WAIT_S = 2 };

struct bundle {
    struct cli *cli;
    FILE *file;
    FILE *index; /* a line for each entry */
    uint64_t now_s;
    size_t asked, missing;
    bool stale; /* no leader answers: any member does */
};

static const struct {
    const char *name;
    const char *words[4];
    bool stale; /* it takes --stale */
} asked[] = {{"status.json", {"status", "-ojson"}, false},
             {"members.json", {"member", "list", "-ojson"}, false},
             {"nodes.json", {"nodes", "-ojson"}, true},
             {"jobs.json", {"jobs", "--all", "-ojson"}, true},
             {"checkpoints.json", {"checkpoints", "-ojson"}, true},
             {"preemptions.json", {"preemptions", "-ojson"}, true},
             {"targets.json", {"targets", "-ojson"}, true},
             {"tenants.json", {"tenants", "-ojson"}, true},
             {"policy.json", {"policy", "get", "-ojson"}, false},
             {"events.json", {"events", "-ojson"}, true},
             {"undeleted.json", {"undeleted", "-ojson"}, true},
             {"losses.json", {"losses", "-ojson"}, true},
             {"debug-check.json", {"debug", "check", "-ojson"}, false}};

/* On this machine: exits with an error where its daemon does not run. */
static const struct {
    const char *name;
    const char *words[10];
} programs[] = {{"ckptd.yaml", {"ckptd", "--config", "/etc/ckpt/ckptd.yaml", "--print-config"}},
                {"ckpt-agentd.yaml", {"cat", "/etc/ckpt/ckpt-agentd.yaml"}},
                {"log.txt",
                 {"journalctl", "--no-pager", "-n", "5000", "-o", "short-iso", "-u", "ckptd", "-u",
                  "ckpt-agentd"}}};

static const struct {
    const char *name;
    uint16_t port;
} pages[] = {{"ckptd-metrics.txt", 9104}, {"ckpt-agentd-metrics.txt", 9103}};

/* ---- entries ---- */

static void add_entry(struct bundle *bundle, const char *name, char *text, size_t length, int code,
                      const char *remark)
{
    char entry[64];

    CHECK(text[length] == '\0');
    bundle_redact(text);
    snprintf(entry, sizeof(entry), "%s%s", name, code == 0 ? "" : ".error");
    bundle_add(bundle->file, entry, text, length, bundle->now_s);
    fprintf(bundle->index, "%-28s %zu bytes, exit code %d%s\n", entry, length, code, remark);
    bundle->asked++;
    bundle->missing += code != 0;
}

/* ---- output of programs ---- */

/* All of it, at most TEXT_MAX; the caller frees it. */
static char *read_all(int fd, size_t *ret_length)
{
    size_t size = 65536, length = 0;
    char *text = check_alloc(size + 1);
    ssize_t count;

    while (length < TEXT_MAX && (count = read(fd, text + length, size - length)) > 0) {
        length += (size_t)count;
        if (length == size) {
            size *= 2;
            text = check_realloc(text, size + 1, 1);
        }
    }
    text[length] = '\0';
    *ret_length = strlen(text); /* a byte that is no letter ends it */
    return text;
}

/* The program's words on both streams; the caller frees them. */
static char *read_output(const char *program, char **words, size_t *ret_length, int *ret_code)
{
    int ends[2], status;
    char *text;
    pid_t pid;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        execvp(program, words);
        fprintf(stderr, "%s: %s\n", program, strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    text = read_all(ends[0], ret_length);
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return text;
}

/* ---- the cluster ---- */

static size_t add_option(const struct cli *cli, const char *name, const char *word, char **words,
                         size_t count)
{
    if (cli_text(cli, name) == NULL)
        return count;
    words[count++] = (char *)(uintptr_t)word;
    words[count++] = cli_text(cli, name);
    CHECK(count < WORDS_MAX);
    return count;
}

static char *ask_once(struct bundle *bundle, const char *const given[4], bool stale,
                      size_t *ret_length, int *ret_code)
{
    const struct cli *cli = bundle->cli;
    char *words[WORDS_MAX] = {(char *)(uintptr_t) "ckptctl", (char *)(uintptr_t) "-q"};
    size_t count = 2;

    for (size_t i = 0; i < 4 && given[i] != NULL; i++)
        words[count++] = (char *)(uintptr_t)given[i];
    count = add_option(cli, "endpoints", "--endpoints", words, count);
    count = add_option(cli, "ca", "--ca", words, count);
    count = add_option(cli, "cert", "--cert", words, count);
    count = add_option(cli, "key", "--key", words, count);
    count = add_option(cli, "timeout", "--timeout", words, count);
    if (stale)
        words[count++] = (char *)(uintptr_t) "--stale";
    CHECK(count < WORDS_MAX);
    return read_output("/proc/self/exe", words, ret_length, ret_code);
}

/* A bundle is wanted most when nobody leads: any member is asked then, from the first refusal on at
 * once. */
static void ask_cluster(struct bundle *bundle, size_t row)
{
    bool stale = bundle->stale && asked[row].stale;
    size_t length;
    int code;
    char *text = ask_once(bundle, asked[row].words, stale, &length, &code);

    if (!stale && asked[row].stale && (code == CLI_NO_LEADER || code == CLI_TIMEOUT)) {
        free(text);
        stale = bundle->stale = true;
        text = ask_once(bundle, asked[row].words, true, &length, &code);
    }
    add_entry(bundle, asked[row].name, text, length, code,
              stale ? ", a stale read: no leader answered" : "");
    free(text);
}

/* ---- this machine ---- */

static void run_program(struct bundle *bundle, const char *name, const char *const given[10])
{
    char *words[WORDS_MAX] = {NULL}, *text;
    size_t length;
    int code;

    for (size_t i = 0; i < 10 && given[i] != NULL; i++)
        words[i] = (char *)(uintptr_t)given[i];
    text = read_output(words[0], words, &length, &code);
    add_entry(bundle, name, text, length, code, "");
    free(text);
}

static void get_metrics(struct bundle *bundle, const char *name, uint16_t port)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = METRICS_WAIT_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char refused[128];
    size_t length;
    char *text;

    CHECK(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0) {
        snprintf(refused, sizeof(refused), "127.0.0.1:%u: %s\n", port, strerror(errno));
        add_entry(bundle, name, refused, strlen(refused), 1, "");
    } else {
        text = read_all(fd, &length);
        add_entry(bundle, name, text, length, length == 0, "");
        free(text);
    }
    close(fd);
}

/* ---- the file ---- */

static void fill_bundle(struct bundle *bundle)
{
    char *text = NULL;
    size_t length;

    bundle->index = open_memstream(&text, &length);
    CHECK(bundle->index != NULL);
    fprintf(bundle->index,
            "ckptctl %s at %" PRIu64 " (seconds since 1970), members %s\n"
            "Secrets are written over with *. Names of users, jobs, nodes and folders are not.\n\n",
            build_text, bundle->now_s, bundle->cli->endpoints);
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++)
        ask_cluster(bundle, i);
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++)
        run_program(bundle, programs[i].name, programs[i].words);
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++)
        get_metrics(bundle, pages[i].name, pages[i].port);
    fclose(bundle->index);
    bundle_redact(text);
    bundle_add(bundle->file, "INDEX", text, length, bundle->now_s);
    bundle_end(bundle->file);
    free(text);
}

enum cli_exit command_debug_bundle(struct cli *cli)
{
    const char *path = cli_argument(cli, 0);
    struct bundle bundle = {.cli = cli, .now_s = (uint64_t)time(NULL)};
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool failed;

    if (fd < 0)
        return cli_fail(cli, errno == EEXIST ? CLI_REFUSED : CLI_FAILED,
                        errno == EEXIST ? "another name: no file is replaced" : NULL,
                        "cannot make %.300s: %m", path);
    bundle.file = fdopen(fd, "w");
    CHECK(bundle.file != NULL);
    fill_bundle(&bundle);
    failed = ferror(bundle.file) != 0;
    if (fclose(bundle.file) != 0 || failed) {
        (void)unlink(path);
        return cli_fail(cli, CLI_FAILED, NULL, "cannot write %.300s: %m", path);
    }
    cli_out(cli,
            "%s: %zu texts, %zu of them could not be had (tar -xOf FILE "
            "ckpt-bundle/INDEX)\n",
            path, bundle.asked, bundle.missing);
    return bundle.missing == 0 ? CLI_OK : CLI_PARTIAL;
}
