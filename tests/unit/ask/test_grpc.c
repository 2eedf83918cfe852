/* Asking by a call, with an application that answers it (S1-039). */
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/base/buf.h"
#include "src/rpc/server.h"
#include "tests/unit/ask/node.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"

enum { RUN_MS = 10000 };

/* An application that serves calls, and who asks it, in one loop. */
struct asking {
    uv_loop_t loop;
    struct application application;
    struct ask_target target;
    const struct ask_ops *ask;
    struct ask_call *call;
    struct heard heard;
    char directory[64];
    struct rpc_server *server;
    struct rpc_call *asked; /* NULL: it has not come, is answered or withdrawn */
    bool has_come, withdrawn, freed;
};

static void on_message(struct rpc_call *rpc, void *data, const uint8_t *bytes, size_t length)
{
    struct asking *asking = data;
    Ckpt__V1__AppCheckpointRequest *message =
        ckpt__v1__app_checkpoint_request__unpack(NULL, length, bytes);

    assert_non_null(message);
    assert_uint_equal(message->checkpoint_id, 42);
    assert_uint_equal(message->attempt, 3);
    assert_string_equal(message->directory, "/w/out/1-42-3");
    assert_uint_equal(message->deadline_ms, 1000);
    assert_uint_equal(message->max_deferral_ms, 500);
    assert_true(message->stops);
    ckpt__v1__app_checkpoint_request__free_unpacked(message, NULL);
    asking->asked = rpc;
    asking->has_come = true;
}

static void on_cancel(struct rpc_call *rpc, void *data)
{
    struct asking *asking = data;

    (void)rpc;
    asking->asked = NULL;
    asking->withdrawn = true;
}

static void on_freed(void *data)
{
    struct asking *asking = data;

    asking->freed = true;
}

static void timer_over(uv_timer_t *timer)
{
    bool *over = timer->data;

    *over = true;
}

static void run_until(struct asking *asking, const bool *condition)
{
    bool over = false;
    uv_timer_t timer;

    assert_int_equal(uv_timer_init(&asking->loop, &timer), 0);
    timer.data = &over;
    assert_int_equal(uv_timer_start(&timer, timer_over, RUN_MS, 0), 0);
    while (!over && !*condition)
        uv_run(&asking->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&asking->loop, UV_RUN_NOWAIT); /* the timer lies on this stack */
    assert_true(*condition);
}

static void asking_open(struct asking *asking)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};
    const struct rpc_server_config config = {0};
    struct err err;

    memset(asking, 0, sizeof(*asking));
    assert_int_equal(uv_loop_init(&asking->loop), 0);
    strcpy(asking->directory, "/tmp/ask-test-XXXXXX");
    assert_non_null(mkdtemp(asking->directory));
    asking->application.endpoint = ASK_REGISTERED;
    snprintf(asking->application.address, ASK_ADDRESS_BYTES, "unix:%s/socket", asking->directory);
    asking->server = rpc_server_new(&asking->loop, &config);
    rpc_server_add_method(asking->server, CHECKPOINT_METHOD, false, true, &handlers, asking);
    assert_int_equal(rpc_server_listen(asking->server, asking->application.address, &err), 0);
    asking->target = target_of(&asking->application);
    asking->target.loop = &asking->loop;
    asking->target.uid = getuid();
    asking->ask = ask_find("grpc");
}

static void server_close(struct asking *asking)
{
    rpc_server_free(asking->server, on_freed, asking);
    asking->server = NULL;
    run_until(asking, &asking->freed);
}

static void asking_close(struct asking *asking)
{
    asking->ask->hang_up(asking->call);
    if (asking->server != NULL)
        server_close(asking);
    uv_run(&asking->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&asking->loop), 0);
    assert_int_equal(rmdir(asking->directory), 0);
}

static void fire(struct asking *asking)
{
    static const struct ask_request request = {.checkpoint_id = 42,
                                               .attempt = 3,
                                               .hint = "1-42-3",
                                               .directory = "/w/out/1-42-3",
                                               .deadline_ms = 1000,
                                               .max_deferral_ms = 500,
                                               .stops = true};
    const struct ask_listener listener = {&heard_events, &asking->heard};
    struct err err = {0};

    assert_int_equal(
        asking->ask->fire(asking->ask, &asking->target, &request, &listener, &asking->call, &err),
        0);
    assert_non_null(asking->call);
    assert_false(asking->heard.over); /* never from inside fire */
}

static void ask_it(struct asking *asking)
{
    asking_open(asking);
    fire(asking);
    run_until(asking, &asking->has_come);
}

/* last: the call ends behind it. */
static void say(struct asking *asking, const Ckpt__V1__AppCheckpointUpdate *update, bool last)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__app_checkpoint_update__pack(
        update, buf_extend(&bytes, ckpt__v1__app_checkpoint_update__get_packed_size(update)));
    rpc_call_send(asking->asked, bytes.bytes, bytes.length);
    if (last)
        rpc_call_finish(asking->asked, RPC_OK, NULL);
    buf_close(&bytes);
}

static enum ask_answer poll(struct asking *asking, struct sentinel *ret_sentinel)
{
    struct err err = {0};

    return asking->ask->poll(&asking->target, "1-42-3", 0, ret_sentinel, &err);
}

static void it_needs_what_the_application_registered(void **state)
{
    struct application application = {.endpoint = ASK_UNREGISTERED};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("grpc");
    char detail[200];

    (void)state;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_non_null(strstr(detail, "AppService.Register"));
    application.endpoint = ASK_CLOSED;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_string_equal(detail, "nobody listens there");
    application.endpoint = ASK_REGISTERED;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
    assert_true(ask->registers);
    assert_non_null(ask->lost);
}

static void what_it_tells_is_heard_and_its_answer_is_left_in_the_folder(void **state)
{
    static const uint64_t wrong[] = {0, ASK_ESTIMATE_MAX_MS + 1, (uint64_t)-5};
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    char label[] = "step:127";
    struct sentinel sentinel;
    struct asking asking;

    (void)state;
    ask_it(&asking);
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_ESTIMATE_MS;
    update.estimate_ms = 9000;
    say(&asking, &update, false);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) { /* S1-040: signs of life */
        update.estimate_ms = wrong[i];
        say(&asking, &update, false);
    }
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_PROGRESS_PPM;
    update.progress_ppm = 500000;
    say(&asking, &update, false);
    assert_int_equal(poll(&asking, &sentinel), ASK_NOTHING_YET);
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    update.done_bytes = 77;
    update.label = label;
    say(&asking, &update, true);
    run_until(&asking, &asking.heard.over);
    assert_uint_equal(asking.heard.estimate_ms, 9000);
    assert_uint_equal(asking.heard.alive, 4);
    assert_uint_equal(asking.heard.answered, 1);
    assert_int_equal(poll(&asking, &sentinel), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 77);
    assert_string_equal(sentinel.status, "0");
    assert_string_equal(sentinel.label, "step:127");
    asking_close(&asking);
    assert_uint_equal(asking.heard.answered + asking.heard.broken, 1); /* the end says no more */
}

static void why_it_failed_is_an_answer_of_one_line(void **state)
{
    static char text[] = "the solver\ndiverges", none[] = "", zero[] = "0";
    static const struct {
        char *told;
        const char *status;
    } rows[] = {{text, "the solver?diverges"}, {none, "failed"}, {zero, "failed"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
        struct sentinel sentinel;
        struct asking asking;

        ask_it(&asking);
        update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
        update.failed = rows[i].told;
        say(&asking, &update, true);
        run_until(&asking, &asking.heard.over);
        assert_int_equal(poll(&asking, &sentinel), ASK_FINISHED);
        assert_string_equal(sentinel.status, rows[i].status);
        asking_close(&asking);
    }
}

static void it_may_put_the_checkpoint_off(void **state)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    struct sentinel sentinel;
    struct asking asking;

    (void)state;
    ask_it(&asking);
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DEFER_MS;
    update.defer_ms = 300;
    say(&asking, &update, true);
    run_until(&asking, &asking.heard.over);
    assert_uint_equal(asking.heard.deferred, 1);
    assert_uint_equal(asking.heard.defer_ms, 300);
    assert_int_equal(poll(&asking, &sentinel), ASK_NOTHING_YET);
    asking_close(&asking);
    assert_uint_equal(asking.heard.broken, 0); /* the end of that call is no second word */
}

static void expect_broken(struct asking *asking, Ckpt__V1__Reason reason, const char *part)
{
    run_until(asking, &asking->heard.over);
    assert_uint_equal(asking->heard.broken, 1);
    assert_uint_equal(asking->heard.answered + asking->heard.deferred, 0);
    assert_int_equal(asking->heard.reason, reason);
    if (strstr(asking->heard.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", asking->heard.text, part);
    asking_close(asking);
}

static void a_call_that_ends_without_an_answer_is_broken(void **state)
{
    struct asking asking;

    (void)state;
    ask_it(&asking);
    rpc_call_finish(asking.asked, RPC_OK, NULL);
    expect_broken(&asking, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, "without an answer");
    ask_it(&asking);
    rpc_call_finish(asking.asked, RPC_INTERNAL, "no memory");
    expect_broken(&asking, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, "INTERNAL no memory");
    ask_it(&asking);
    rpc_call_send(asking.asked, (const uint8_t *)"\xff\xff", 2);
    expect_broken(&asking, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, "does not decode");
    ask_it(&asking);
    server_close(&asking); /* it died */
    expect_broken(&asking, CKPT__V1__REASON__REASON_NOT_ATTACHED, "without an answer");
}

static void who_does_not_listen_or_is_another_user_is_not_attached(void **state)
{
    struct asking asking;

    (void)state;
    asking_open(&asking);
    server_close(&asking);
    fire(&asking);
    expect_broken(&asking, CKPT__V1__REASON__REASON_NOT_ATTACHED, "UNAVAILABLE");
    asking_open(&asking);
    asking.target.uid = getuid() + 1;
    fire(&asking);
    expect_broken(&asking, CKPT__V1__REASON__REASON_NOT_ATTACHED, "UNAVAILABLE");
    assert_false(asking.has_come); /* nothing was sent to it */
}

static void an_answer_that_cannot_be_kept_is_broken(void **state)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;
    struct asking asking;

    (void)state;
    ask_it(&asking);
    asking.application.disk_full = true;
    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    say(&asking, &update, true);
    expect_broken(&asking, CKPT__V1__REASON__REASON_WRITE_FAILED, "no space left");
}

static void nothing_is_heard_once_it_is_hung_up(void **state)
{
    struct asking asking;

    (void)state;
    ask_it(&asking);
    asking.ask->hang_up(asking.call);
    asking.call = NULL;
    run_until(&asking, &asking.withdrawn);
    asking_close(&asking);
    assert_false(asking.heard.over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_needs_what_the_application_registered),
        cmocka_unit_test(what_it_tells_is_heard_and_its_answer_is_left_in_the_folder),
        cmocka_unit_test(why_it_failed_is_an_answer_of_one_line),
        cmocka_unit_test(it_may_put_the_checkpoint_off),
        cmocka_unit_test(a_call_that_ends_without_an_answer_is_broken),
        cmocka_unit_test(who_does_not_listen_or_is_another_user_is_not_attached),
        cmocka_unit_test(an_answer_that_cannot_be_kept_is_broken),
        cmocka_unit_test(nothing_is_heard_once_it_is_hung_up)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
