/* The agent's socket for ranks with one job behind it, which its standard input plays:
 *
 *     app_line SOCKET JOB RUN PART PARTS
 *
 * Each event is a line on the standard output. From the standard input: `ask RANK HINT DEADLINE_MS
 * MAX_DEFERRAL_MS FOLDER` (makes the folder in the work folder, the current one), `step RANK HINT
 * STEP`, `withdrawn RANK HINT`, `refuse RANK TEXT`, `close RANK`. Its end is the program's.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/app/app_line_server.h"
#include "src/base/check.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"

struct player {
    const char *name;
    struct app_line_job job;
    struct rank_stream *streams[APP_LINE_NODE_RANKS_MAX];
    struct app_line_server *server;
    char input[4096];
    size_t length;
};

static bool find(void *context, const char *allocation_id, struct app_line_job *ret_job)
{
    struct player *player = context;

    *ret_job = player->job;
    return strcmp(allocation_id, player->name) == 0;
}

static const char *registered(void *job, const struct app_line *hello, pid_t pid,
                              struct rank_stream *stream)
{
    struct player *player = job;

    if (hello->rank >= APP_LINE_NODE_RANKS_MAX)
        return "this number is too high for a node";
    player->streams[hello->rank] = stream;
    printf("registered %" PRIu64 " %d %s\n", hello->rank, (int)pid,
           hello->way == APP_LINE_OPENED    ? "opened"
           : hello->way == APP_LINE_BARRIER ? "barrier"
                                            : "plain");
    rank_stream_take(stream);
    return NULL;
}

static void at(void *job, uint32_t rank, const char *hint, uint64_t step, uint64_t ns_per_step)
{
    (void)job;
    printf("at %" PRIu32 " %s %" PRIu64 " %" PRIu64 "\n", rank, hint, step, ns_per_step);
}

static void missed(void *job, uint32_t rank, const char *hint, uint64_t step)
{
    (void)job;
    printf("missed %" PRIu32 " %s %" PRIu64 "\n", rank, hint, step);
}

static void done(void *job, uint32_t rank, const char *hint)
{
    (void)job;
    printf("done %" PRIu32 " %s\n", rank, hint);
}

static void defer(void *job, uint32_t rank, const char *hint, uint64_t defer_ms)
{
    (void)job;
    printf("defer %" PRIu32 " %s %" PRIu64 "\n", rank, hint, defer_ms);
}

static void alive(void *job, uint32_t rank, const char *hint, uint32_t ppm)
{
    (void)job;
    printf("progress %" PRIu32 " %s %" PRIu32 "\n", rank, hint, ppm);
}

static void request(void *job, uint64_t step)
{
    (void)job;
    printf("request %" PRIu64 "\n", step);
}

static void gone(void *job, struct rank_stream *stream)
{
    struct player *player = job;

    for (unsigned rank = 0; rank < APP_LINE_NODE_RANKS_MAX; rank++)
        if (player->streams[rank] == stream) {
            player->streams[rank] = NULL;
            printf("gone %u\n", rank);
            return;
        }
    printf("gone, another came\n");
}

static void folder_make(const char *folder)
{
    char path[APP_LINE_FOLDER_BYTES];

    snprintf(path, sizeof(path), "%s", folder);
    for (char *end = path; end != NULL; end = strchr(end + 1, '/')) {
        if (end == path)
            continue;
        *end = '\0';
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
        *end = '/';
    }
    CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
}

static void play(struct player *player, const char *line)
{
    char verb[16], hint[HINT_TEXT_BYTES] = "", rest[512] = "";
    unsigned rank;
    int taken = sscanf(line, "%15s %u %47s %511[^\n]", verb, &rank, hint, rest);
    struct rank_stream *stream =
        taken >= 2 && rank < APP_LINE_NODE_RANKS_MAX ? player->streams[rank] : NULL;

    if (stream == NULL) {
        printf("nobody is there: %s\n", line);
    } else if (strcmp(verb, "ask") == 0) {
        struct ask_request request = {.hint = hint};
        char folder[APP_LINE_FOLDER_BYTES];

        CHECK(sscanf(rest, "%" SCNu64 " %" SCNu64 " %255s", &request.deadline_ms,
                     &request.max_deferral_ms, folder) == 3);
        folder_make(folder);
        rank_stream_ask(stream, &request, folder);
    } else if (strcmp(verb, "step") == 0) {
        rank_stream_step(stream, hint, strtoull(rest, NULL, 10));
    } else if (strcmp(verb, "withdrawn") == 0) {
        rank_stream_withdrawn(stream, hint);
    } else {
        player->streams[rank] = NULL;
        if (strcmp(verb, "refuse") == 0)
            rank_stream_refuse(stream, hint);
        else
            rank_stream_close(stream);
    }
}

static void input_ready(uv_poll_t *poll, int status, int events)
{
    struct player *player = poll->data;
    ssize_t more = read(STDIN_FILENO, player->input + player->length,
                        sizeof(player->input) - 1 - player->length);

    (void)status, (void)events;
    if (more <= 0) {
        uv_stop(poll->loop);
        return;
    }
    player->length += (size_t)more;
    player->input[player->length] = '\0';
    for (char *end; (end = strchr(player->input, '\n')) != NULL;) {
        *end = '\0';
        play(player, player->input);
        player->length -= (size_t)(end + 1 - player->input);
        memmove(player->input, end + 1, player->length + 1);
    }
}

int main(int argc, char **argv)
{
    struct player player = {.name = argc == 6 ? argv[2] : ""};
    struct app_line_events events = {&player, find,  registered, at,      missed,
                                     done,    defer, alive,      request, gone};
    struct network_ops network;
    struct clock_ops clock;
    char address[128];
    struct err err;
    uv_poll_t input;
    uv_loop_t loop;

    if (argc != 6) {
        fprintf(stderr, "app_line SOCKET JOB RUN PART PARTS\n");
        return 2;
    }
    player.job = (struct app_line_job){&player,
                                       getuid(),
                                       strtoull(argv[3], NULL, 10),
                                       "n1",
                                       (uint32_t)strtoul(argv[4], NULL, 10),
                                       (uint32_t)strtoul(argv[5], NULL, 10)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(address, sizeof(address), "unix:%s", argv[1]);
    CHECK(uv_loop_init(&loop) == 0);
    network_uv_ops(&loop, &network);
    uv_clock_ops(&loop, &clock);
    if (app_line_server_new(&network, &clock, address, &events, &player.server, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("listening\n");
    input.data = &player;
    CHECK(uv_poll_init(&loop, &input, STDIN_FILENO) == 0);
    CHECK(uv_poll_start(&input, UV_READABLE, input_ready) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    app_line_server_free(player.server);
    uv_close((uv_handle_t *)&input, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    return 0;
}
