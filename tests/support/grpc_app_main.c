/* An application of the gRPC way for tests, and an example of one: grpc_app MODE_FILE SOCKET, under
 * `ckpt-run --profile grpc`.
 *
 * Flow     listen on unix:SOCKET -> AppService.Register at $CKPT_AGENT_SOCKET -> serve
 *          AppCheckpointService.Checkpoint. How a call is answered is read from MODE_FILE at each:
 *          "done"; "slow MS" with progress up to the whole, and done when MODE_FILE says something
 *          else; "fail TEXT"; "defer MS" as long as it may, then done; "defy MS" also when it may
 *          not; "hold": no answer; "end": none either, and the call is over; "die"; "twice": a
 *          sentinel beside the call, and a deferral after it.
 * Shapes   one call at a time. Each is one line on stdout: "call 1-42-1 left=300000".
 */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"
#define REGISTER_METHOD   "/ckpt.v1.AppService/Register"

enum { STATE_BYTES = 9000, STEP_MS = 100, ESTIMATE_MS = 1000, REGISTER_TIMEOUT_MS = 10000 };

static struct app {
    uv_loop_t loop;
    const char *mode_file;
    struct rpc_call *call; /* the one that is to be answered; NULL: none */
    char directory[PATH_MAX];
    uint64_t steps, steps_done;
    uv_timer_t timer;
} app;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

/* ---- answers ---- */

static void send_update(const Ckpt__V1__AppCheckpointUpdate *update)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__app_checkpoint_update__pack(
        update, buf_extend(&bytes, ckpt__v1__app_checkpoint_update__get_packed_size(update)));
    rpc_call_send(app.call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static void finish(void)
{
    struct rpc_call *call = app.call;

    app.call = NULL;
    uv_timer_stop(&app.timer);
    rpc_call_finish(call, RPC_OK, NULL);
}

static void send_defer(uint64_t defer_ms)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DEFER_MS;
    update.defer_ms = defer_ms;
    send_update(&update);
    finish();
}

static void send_failed(char *text)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
    update.failed = text;
    send_update(&update);
    finish();
}

static void send_estimate(uint64_t estimate_ms)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_ESTIMATE_MS;
    update.estimate_ms = estimate_ms;
    send_update(&update);
}

static void send_progress(uint32_t progress_ppm)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_PROGRESS_PPM;
    update.progress_ppm = progress_ppm;
    send_update(&update);
}

static void write_file(const char *folder, const char *name, const char *text, size_t length)
{
    char path[PATH_MAX + 16];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fwrite(text, 1, length, file) == length);
    CHECK(fclose(file) == 0);
}

static void write_and_say_done(void)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    static char state[STATE_BYTES], unordered[] = "unordered";

    memset(state, 's', sizeof(state));
    write_file(app.directory, "state", state, sizeof(state));
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    update.done_bytes = sizeof(state);
    if (getenv("CKPT_PARTS") != NULL && strcmp(getenv("CKPT_PARTS"), "1") != 0)
        update.label = unordered;
    send_update(&update);
    finish();
}

static void read_mode(char *ret_word, char *ret_rest, size_t size)
{
    char line[256] = "done";
    FILE *file = fopen(app.mode_file, "re");
    char *rest;

    if (file != NULL) {
        if (fgets(line, sizeof(line), file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    rest = strchr(line, ' ');
    snprintf(ret_rest, size, "%s", rest == NULL ? "" : rest + 1);
    if (rest != NULL)
        *rest = '\0';
    snprintf(ret_word, size, "%s", line);
}

/* It writes nothing before its last step: only what it tells shows that it lives. */
static void step(uv_timer_t *timer)
{
    char word[256], rest[256];

    (void)timer;
    read_mode(word, rest, sizeof(word));
    if (strcmp(word, "told") == 0) /* it has said what it expects, and no more */
        return;
    if (strcmp(word, "slow") != 0) {
        write_and_say_done();
        return;
    }
    if (app.steps_done < app.steps)
        app.steps_done++;
    send_progress((uint32_t)(app.steps_done * 1000000 / app.steps));
}

static void begin_slowly(uint64_t duration_ms)
{
    app.steps = duration_ms / STEP_MS;
    app.steps_done = 0;
    uv_timer_start(&app.timer, step, STEP_MS, STEP_MS);
}

static void answer_twice(const char *hint)
{
    char text[256];
    int length = snprintf(text, sizeof(text), "hint=%s\nbytes=5\nstatus=0\n", hint);

    write_file(app.directory, "state", "state", 5);
    write_file(getenv("CKPT_DIR"), "done", text, (size_t)length);
    usleep(STEP_MS * 1000);
    send_defer(5000);
}

/* ---- calls ---- */

static void answer(const Ckpt__V1__AppCheckpointRequest *request, const char *hint)
{
    char word[256], rest[256];
    uint64_t number;

    read_mode(word, rest, sizeof(word));
    number = strtoull(rest, NULL, 10);
    if (strcmp(word, "die") == 0)
        _exit(3);
    if (strcmp(word, "end") == 0) {
        finish();
        return;
    }
    send_estimate(strcmp(word, "told") == 0 ? number : ESTIMATE_MS);
    if (strcmp(word, "hold") == 0)
        return;
    if (strcmp(word, "fail") == 0)
        send_failed(rest);
    else if (strcmp(word, "twice") == 0)
        answer_twice(hint);
    else if (strcmp(word, "defy") == 0 ||
             (strcmp(word, "defer") == 0 && request->max_deferral_ms > 0))
        send_defer(number);
    else if (strcmp(word, "slow") == 0)
        begin_slowly(number);
    else if (strcmp(word, "told") == 0)
        begin_slowly(STEP_MS);
    else
        write_and_say_done();
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__AppCheckpointRequest *request =
        ckpt__v1__app_checkpoint_request__unpack(NULL, length, bytes);
    char id[CHECKPOINT_ID_TEXT_BYTES];
    char hint[64];

    (void)data;
    CHECK(request != NULL && app.call == NULL);
    app.call = call;
    snprintf(app.directory, sizeof(app.directory), "%s", request->directory);
    snprintf(hint, sizeof(hint), "%s-%" PRIu32, checkpoint_id_format(request->checkpoint_id, id),
             request->attempt);
    say("call %s left=%" PRIu64 " deadline_ms=%" PRIu64, hint, request->max_deferral_ms,
        request->deadline_ms);
    answer(request, hint);
    ckpt__v1__app_checkpoint_request__free_unpacked(request, NULL);
}

/* Withdrawn: nothing more is written for it. */
static void on_cancel(struct rpc_call *call, void *data)
{
    (void)data;
    if (call != app.call)
        return;
    app.call = NULL;
    uv_timer_stop(&app.timer);
    say("cancelled");
}

/* ---- start ---- */

static void registered(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    (void)call;
    (void)data;
    say("registered %s %s", rpc_status_name(end->status), end->message);
}

static void register_here(const char *socket_path)
{
    static const struct rpc_client_handlers handlers = {.on_end = registered};
    Ckpt__V1__RegisterRequest request = CKPT__V1__REGISTER_REQUEST__INIT;
    char agent[PATH_MAX], endpoint[PATH_MAX], allocation[ID_MAX_BYTES + 1];
    struct buf bytes;

    snprintf(agent, sizeof(agent), "unix:%s", getenv("CKPT_AGENT_SOCKET"));
    snprintf(endpoint, sizeof(endpoint), "unix:%s", socket_path);
    snprintf(allocation, sizeof(allocation), "%s", getenv("CKPT_ALLOCATION_ID"));
    request.allocation_id = allocation;
    request.endpoint = endpoint;
    buf_init(&bytes);
    ckpt__v1__register_request__pack(
        &request, buf_extend(&bytes, ckpt__v1__register_request__get_packed_size(&request)));
    rpc_channel_unary(rpc_channel_new(&app.loop, agent, NULL),
                      &(struct rpc_request){.path = REGISTER_METHOD,
                                            .bytes = bytes.bytes,
                                            .length = bytes.length,
                                            .timeout_ms = REGISTER_TIMEOUT_MS,
                                            .wait_for_ready = true},
                      &handlers, NULL);
    buf_close(&bytes);
}

int main(int argc, char **argv)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};
    char address[PATH_MAX];
    struct rpc_server *server;
    struct err err;

    if (argc != 3) {
        fputs("usage: grpc_app MODE_FILE SOCKET\n", stderr);
        return 64;
    }
    app.mode_file = argv[1];
    CHECK(uv_loop_init(&app.loop) == 0);
    CHECK(uv_timer_init(&app.loop, &app.timer) == 0);
    server = rpc_server_new(&app.loop, NULL);
    rpc_server_add_method(server, CHECKPOINT_METHOD, false, true, &handlers, NULL);
    snprintf(address, sizeof(address), "unix:%s", argv[2]);
    if (rpc_server_listen(server, address, &err) != 0) {
        fprintf(stderr, "grpc_app: %s\n", err.text);
        return 1;
    }
    say("starts restored=%s",
        getenv("CKPT_RESTORE_DIR") == NULL ? "-" : getenv("CKPT_RESTORE_DIR"));
    register_here(argv[2]);
    uv_run(&app.loop, UV_RUN_DEFAULT);
    return 0;
}
