/* Refusals of a store that the next try, or another form of the request, gets over. They come from
 * another writer of the same key, from a bucket with Object Lock, and from stores without
 * conditions or ranges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/dest/s3/object.h"
#include "tests/support/test.h"
#include "tests/unit/dest/lying_store.h"

enum { ANSWERS_MAX = 6 };

/* Of the store, one after the other; the last one for ever. */
struct answer {
    const char *status, *body;
};

struct script {
    struct answer answers[ANSWERS_MAX];
    char heads[ANSWERS_MAX][1024];
};

static void answer_by_script(void *data, const struct lying_request *request, int fd)
{
    struct script *script = data;
    unsigned i = request->number <= ANSWERS_MAX ? request->number - 1 : ANSWERS_MAX - 1;
    const struct answer *answer;

    snprintf(script->heads[i], sizeof(script->heads[i]), "%s", request->head);
    while (script->answers[i].status == NULL)
        i--;
    answer = &script->answers[i];
    lying_answer(
        fd, answer->status,
        &(struct lying_body){answer->body, strlen(answer->body), (long)strlen(answer->body)});
}

#define CODE(code) "<Error><Code>" code "</Code><Message>no</Message></Error>"
#define CONFLICT                                                                                   \
    {                                                                                              \
        "409 Conflict", CODE("ConditionalRequestConflict")                                         \
    }
#define HERE                                                                                       \
    {                                                                                              \
        "412 Precondition Failed", CODE("PreconditionFailed")                                      \
    }
#define YES                                                                                        \
    {                                                                                              \
        "200 OK", ""                                                                               \
    }

static const struct put_case {
    struct answer answers[ANSWERS_MAX];
    uint64_t patience_ms;
    int result;
    unsigned requests;
    const char *said; /* in the error */
    /* in the last request's head: there, and not there */
    const char *has, *lacks;
} put_cases[] = {
    /* the other writer was ahead, with the same bytes: a try of ours whose answer was lost */
    {{CONFLICT, CONFLICT, HERE, {"200 OK", "hello"}}, 60000, 0, 4, NULL, "GET ", "if-none"},
    {{CONFLICT, YES}, 60000, 0, 2, NULL, "if-none-match: *", NULL},
    {{{"409 Conflict", CODE("OperationAborted")}, YES}, 60000, 0, 2, NULL, "PUT ", NULL},
    {{{"400 Bad Request", CODE("IncompleteBody")}, YES}, 60000, 0, 2, NULL, "PUT ", NULL},
    {{CONFLICT, HERE, {"200 OK", "other"}}, 60000, -1, 3, "with other contents", "GET ", NULL},
    /* out of patience: what lies there says whether it is ours */
    {{CONFLICT, {"200 OK", "hello"}}, 0, 0, 2, NULL, "GET ", NULL},
    {{CONFLICT, {"404 Not Found", ""}}, 0, -1, 2, "ConditionalRequestConflict", "GET ", NULL},
    /* the condition is not known there: Swift, and others */
    {{{"501 Not Implemented", CODE("NotImplemented")}, YES}, 0, 0, 2, NULL, "PUT ", "if-none"},
    {{{"400 Bad Request", CODE("InvalidArgument")}, YES}, 0, 0, 2, NULL, "PUT ", "if-none"},
    {{{"400 Bad Request", CODE("InvalidRequest")}, {"400 Bad Request", CODE("InvalidRequest")}},
     0,
     -1,
     2,
     "InvalidRequest",
     "PUT ",
     "if-none"},
};

static void check_put(size_t number, const struct put_case *one)
{
    struct script script = {0};
    struct lying_store *store = lying_store_open(answer_by_script, &script);
    struct client *client =
        client_open(&(struct client_how){.patience_ms = one->patience_ms}, NULL);
    struct buf bytes = {0};
    struct err err = {0};
    const char *last;
    unsigned requests;
    int result;

    memcpy(script.answers, one->answers, sizeof(script.answers));
    assert_non_null(client);
    buf_append(&bytes, "hello", 5);
    result = object_put_once(client, "bucket", "a/1", &bytes, &err);
    buf_close(&bytes);
    client_close(client);
    requests = lying_store_close(store);
    if (result != one->result || requests != one->requests)
        fail_msg("%zu: %d after %u requests: %s", number, result, requests, err.text);
    last = script.heads[requests - 1];
    if ((one->has != NULL && strstr(last, one->has) == NULL) ||
        (one->lacks != NULL && strstr(last, one->lacks) != NULL))
        fail_msg("%zu: the last request is %s", number, last);
    if (one->said != NULL)
        assert_contains(err.text, one->said);
}

static void a_put_gets_over_what_passes_and_compares_what_is_there(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(put_cases) / sizeof(put_cases[0]); i++)
        check_put(i, &put_cases[i]);
}

/* ---- Object Lock ---- */

#define LOCKED                                                                                     \
    {                                                                                              \
        "400 Bad Request", "<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR "            \
                           "x-amz-checksum- HTTP header is required for Put Object requests with " \
                           "Object Lock parameters</Message></Error>"                              \
    }

/* The bucket's first refusal is remembered: the puts behind it have the checksum at once. */
static void a_bucket_with_object_lock_gets_the_checksum_that_it_asks_for(void **unused)
{
    struct script script = {.answers = {LOCKED, YES}};
    struct lying_store *store = lying_store_open(answer_by_script, &script);
    struct client *client = client_open(&(struct client_how){.patience_ms = 0}, NULL);
    struct buf bytes = {0};
    struct err err = {0};

    (void)unused;
    assert_non_null(client);
    buf_append(&bytes, "hello", 5);
    for (unsigned i = 0; i < 2; i++) {
        char key[8];

        snprintf(key, sizeof(key), "a/%u", i);
        if (object_put_once(client, "bucket", key, &bytes, &err) != 0)
            fail_msg("%u: %s", i, err.text);
    }
    buf_close(&bytes);
    client_close(client);
    assert_int_equal(lying_store_close(store), 3);
    assert_null(strcasestr(script.heads[0], "content-md5"));
    for (unsigned i = 1; i < 3; i++) {
        assert_contains(script.heads[i], "content-md5: XUFAKrxLKna5cZ2REBfFkg==");
        assert_contains(script.heads[i], "SignedHeaders=content-md5;host;if-none-match;");
    }
}

/* One that asks although it has what it asks for is refused, not asked for ever. */
static void a_checksum_is_asked_for_once(void **unused)
{
    struct script script = {.answers = {LOCKED}};
    struct lying_store *store = lying_store_open(answer_by_script, &script);
    struct client *client = client_open(&(struct client_how){.patience_ms = 0}, NULL);
    struct buf bytes = {0};
    struct err err = {0};

    (void)unused;
    assert_non_null(client);
    buf_append(&bytes, "hello", 5);
    assert_int_equal(object_put_once(client, "bucket", "a/1", &bytes, &err), -1);
    assert_contains(err.text, "Object Lock");
    buf_close(&bytes);
    client_close(client);
    assert_true(lying_store_close(store) <= 3);
}

/* ---- ranges ---- */

/* Five bytes of ten are asked for. */
static int get_range(struct script *script, struct err *ret_err, unsigned *ret_requests)
{
    struct lying_store *store = lying_store_open(answer_by_script, script);
    struct client *client = client_open(&(struct client_how){.patience_ms = 60000}, NULL);
    uint8_t bytes[5];
    struct call *call;
    int result;

    assert_non_null(client);
    call = call_new(client, &(struct call_request){.method = "GET",
                                                   .bucket = "bucket",
                                                   .key = "a/1",
                                                   .headers = {{"range", "bytes=5-9"}},
                                                   .into = bytes,
                                                   .into_bytes = sizeof(bytes)});
    result = call_run(client, call, ret_err);
    if (result == 0)
        assert_memory_equal(bytes, "56789", 5);
    call_free(call);
    client_close(client);
    *ret_requests = lying_store_close(store);
    return result;
}

static void a_store_without_ranges_is_named_as_that(void **unused)
{
    struct script whole = {.answers = {{"200 OK", "0123456789"}}};
    struct script part = {.answers = {{"206 Partial Content", "56789"}}};
    /* an object of the range's length that is the range */
    struct script short_one = {.answers = {{"200 OK", "56789"}}};
    struct err err = {0};
    unsigned requests;

    (void)unused;
    assert_int_equal(get_range(&part, &err, &requests), 0);
    assert_int_equal(get_range(&short_one, &err, &requests), 0);
    assert_int_equal(get_range(&whole, &err, &requests), -1);
    assert_contains(err.text, "bytes=5-9");
    assert_contains(err.text, "no ranges");
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(requests, 1);
}

/* ---- proxies ---- */

static int get_object(struct err *ret_err)
{
    struct client *client = client_open(&(struct client_how){.patience_ms = 0}, NULL);
    struct buf bytes = {0};
    int result;

    assert_non_null(client);
    result = object_get(client, "bucket", "a/1", &bytes, ret_err);
    buf_close(&bytes);
    client_close(client);
    return result;
}

/* As deploy/README.md says: the store here is the proxy of another one. */
static void the_environments_proxy_is_used_but_for_hosts_that_it_leaves_out(void **unused)
{
    struct script script = {.answers = {YES}};
    struct lying_store *store = lying_store_open(answer_by_script, &script);
    struct err err = {0};

    (void)unused;
    setenv("http_proxy", getenv("AWS_ENDPOINT_URL"), 1);
    setenv("AWS_ENDPOINT_URL", "http://store.invalid:8080", 1);
    if (get_object(&err) != 0)
        fail_msg("%s", err.text);
    assert_contains(script.heads[0], "GET http://store.invalid:8080/bucket/a/1 HTTP/1.1");
    assert_contains(script.heads[0], "Host: store.invalid:8080");
    setenv("no_proxy", "store.invalid", 1);
    assert_int_equal(get_object(&err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    unsetenv("http_proxy");
    assert_int_equal(lying_store_close(store), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_gets_over_what_passes_and_compares_what_is_there),
        cmocka_unit_test(a_bucket_with_object_lock_gets_the_checksum_that_it_asks_for),
        cmocka_unit_test(a_checksum_is_asked_for_once),
        cmocka_unit_test(a_store_without_ranges_is_named_as_that),
        cmocka_unit_test(the_environments_proxy_is_used_but_for_hosts_that_it_leaves_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
