/* The files of a shard from a store: one that is not there, since empty ones are asked for nowhere,
 * and one that lies. */
#include "src/dest/s3/receive.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/dest/s3/call.h"
#include "tests/support/test.h"
#include "tests/unit/dest/lying_store.h"

enum { FILES = 2000, OPEN_MAX = 100, MANY = 120, MANY_BYTES = 20000 };

static atomic_int open_count, open_peak, ended_count;

static int begin_file(void *data, const struct manifest_entry *entry, struct err *err)
{
    (void)data;
    (void)entry;
    (void)err;
    if (++open_count > open_peak)
        open_peak = open_count;
    return 0;
}

static int take_chunk(void *data, const struct receive_chunk *chunk, struct err *err)
{
    (void)data;
    (void)err;
    assert_int_equal(chunk->length, 0);
    return 0;
}

/* As a disk that has something to write. */
static int end_file(void *data, const struct manifest_entry *entry, struct err *err)
{
    (void)data;
    (void)entry;
    (void)err;
    nanosleep(&(struct timespec){0, 100000}, NULL);
    open_count--;
    ended_count++;
    return 0;
}

static void empty_files_are_open_a_few_at_a_time(void **unused)
{
    static const struct receive_ops ops = {begin_file, take_chunk, end_file};
    const struct client_how how = {0};
    const struct shard_at at = {0};
    struct manifest manifest;
    uint8_t nothing[SHA256_BYTES];
    struct err err = {0};
    struct client *client = client_open(&how, &err);

    (void)unused;
    assert_non_null(client);
    manifest_init(&manifest);
    sha256_of((const uint8_t *)"", 0, nothing);
    for (int i = 0; i < FILES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "f%04d", i);
        manifest_add(&manifest, name, false);
    }
    assert_int_equal(manifest_finish(&manifest, &err), 0);
    for (int i = 0; i < FILES; i++)
        manifest_chunk_set(&manifest.entries[i], 0, nothing);
    assert_int_equal(
        receive_files(
            &(struct receive_request){
                .client = client, .at = &at, .manifest = &manifest, .threads = 2, .ops = &ops},
            &err),
        0);
    assert_int_equal(ended_count, FILES);
    assert_true(open_peak <= OPEN_MAX);
    manifest_close(&manifest);
    client_close(client);
}

/* ---- a store that lies ---- */

/* Of a file by its name, "f0007" and 7. */
static size_t content_of(unsigned file, char *ret_bytes)
{
    size_t length = 1 + (size_t)file * 977 % MANY_BYTES;

    for (size_t i = 0; i < length; i++)
        ret_bytes[i] = (char)(file * 31 + i * 7);
    return length;
}

static void list_files(unsigned count, struct manifest *ret_manifest)
{
    char bytes[MANY_BYTES + 1], name[16];
    uint8_t digest[SHA256_BYTES];

    manifest_init(ret_manifest);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "f%04u", i);
        manifest_add(ret_manifest, name, false)->size_bytes = content_of(i, bytes);
    }
    assert_int_equal(manifest_finish(ret_manifest, NULL), 0);
    for (unsigned i = 0; i < count; i++) {
        sha256_of((const uint8_t *)bytes, content_of(i, bytes), digest);
        manifest_chunk_set(&ret_manifest->entries[i], 0, digest);
    }
}

/* Which lie is told of a file's n-th answer. */
enum lie { TRUTH, FLIPPED, CUT, CUT_SAYING_SO, LONGER, GONE_AWAY, LATE, BUSY, LIES };

struct liar {
    enum lie lie;
    bool always; /* else of each file's first answer */
    bool mixed;  /* each file's own lie */
    unsigned answers[MANY];
};

static void answer_lying(void *data, const struct lying_request *request, int fd)
{
    struct liar *liar = data;
    char bytes[MANY_BYTES + 8];
    unsigned file = 0;
    size_t length;
    enum lie lie = TRUTH;
    struct lying_body body;

    assert_int_equal(sscanf(request->head, "GET /bucket/f%u", &file), 1);
    assert_true(file < MANY);
    length = content_of(file, bytes);
    body = (struct lying_body){bytes, length, (long)length};
    if (liar->always || liar->answers[file] == 0)
        lie = liar->mixed ? (enum lie)(file % LIES) : liar->lie;
    liar->answers[file]++;
    switch (lie) {
    case TRUTH:
    case LIES:
        break;
    case FLIPPED:
        bytes[length / 2] ^= 1;
        break;
    case CUT:
        body.length = length / 2;
        break;
    case CUT_SAYING_SO:
        body.length = length / 2;
        body.told = -1;
        break;
    case LONGER:
        memcpy(bytes + length, "more", 4);
        body.length += 4;
        body.told = -1;
        break;
    case GONE_AWAY:
        return;
    case LATE:
        nanosleep(&(struct timespec){0, 30000000}, NULL);
        break;
    case BUSY:
        lying_answer(fd, "503 Slow Down", &(struct lying_body){"", 0, 0});
        return;
    }
    lying_answer(fd, "200 OK", &body);
}

/* Of one that was written by chunks that come. */
static atomic_int files_ended;

static int begin_any(void *data, const struct manifest_entry *entry, struct err *err)
{
    (void)data;
    (void)entry;
    (void)err;
    return 0;
}

static int compare_chunk(void *data, const struct receive_chunk *chunk, struct err *err)
{
    char bytes[MANY_BYTES + 1];
    unsigned file = (unsigned)strtoul(chunk->entry->path + 1, NULL, 10);

    (void)data;
    (void)err;
    assert_int_equal(chunk->length, content_of(file, bytes));
    assert_memory_equal(chunk->bytes, bytes, chunk->length);
    return 0;
}

static int count_end(void *data, const struct manifest_entry *entry, struct err *err)
{
    (void)data;
    (void)entry;
    (void)err;
    files_ended++;
    return 0;
}

/* What came of it; the number of requests. */
static unsigned receive_from(struct liar *liar, unsigned files, uint64_t patience_ms,
                             struct err *ret_err)
{
    static const struct receive_ops ops = {begin_any, compare_chunk, count_end};
    struct lying_store *store = lying_store_open(answer_lying, liar);
    const struct client_how how = {.patience_ms = patience_ms};
    const struct shard_at at = {.part = {.bucket = "bucket"}};
    struct manifest manifest;
    struct client *client = client_open(&how, NULL);

    assert_non_null(client);
    *ret_err = (struct err){0};
    files_ended = 0;
    list_files(files, &manifest);
    if (receive_files(
            &(struct receive_request){
                .client = client, .at = &at, .manifest = &manifest, .threads = 3, .ops = &ops},
            ret_err) == 0)
        assert_int_equal(files_ended, files);
    else
        assert_true(ret_err->code != ERR_NONE);
    manifest_close(&manifest);
    client_close(client);
    return lying_store_close(store);
}

/* Memory and networks flip bits: a checkpoint is not given up for one that the store has right. */
static void a_byte_that_was_damaged_on_the_way_is_asked_for_again(void **unused)
{
    struct liar liar = {.lie = FLIPPED};
    struct err err;

    (void)unused;
    assert_int_equal(receive_from(&liar, 3, 0, &err), 6);
    assert_int_equal(err.code, ERR_NONE);
}

static void bytes_that_stay_wrong_are_damage(void **unused)
{
    struct liar liar = {.lie = FLIPPED, .always = true};
    struct err err;

    (void)unused;
    assert_int_equal(receive_from(&liar, 1, 0, &err), 2);
    assert_int_equal(err.code, ERR_CORRUPT);
}

/* The store's list told the right size: what comes shorter was cut by whatever is in between. */
static void an_answer_of_another_length_is_no_damage(void **unused)
{
    static const enum lie lies[] = {CUT, CUT_SAYING_SO, LONGER, GONE_AWAY, BUSY};

    (void)unused;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct liar liar = {.lie = lies[i], .always = true};
        struct err err;

        receive_from(&liar, 1, 0, &err);
        assert_int_not_equal(err.code, ERR_NONE);
        assert_int_not_equal(err.code, ERR_CORRUPT);
    }
}

static void every_first_answer_may_lie(void **unused)
{
    struct liar liar = {.mixed = true};
    struct err err;

    (void)unused;
    receive_from(&liar, MANY, 20000, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(files_ended, MANY);
}

/* What is on its way when the first one fails is waited for. */
static void every_answer_may_lie(void **unused)
{
    struct liar liar = {.mixed = true, .always = true};
    struct err err;

    (void)unused;
    receive_from(&liar, MANY, 0, &err);
    assert_int_not_equal(err.code, ERR_NONE);
}

/* ---- a transfer that is cut ---- */

enum { LONG_BYTES = 40 << 20, CUT_BYTES = 20 << 20, PATIENCE_MS = 2000 };

/* The first answer begins late, and is cut after a while; the second one is whole. */
static void answer_cut(void *data, const struct lying_request *request, int fd)
{
    const uint8_t *bytes = data;

    if (request->number > 1) {
        lying_answer(fd, "200 OK", &(struct lying_body){bytes, LONG_BYTES, LONG_BYTES});
        return;
    }
    nanosleep(&(struct timespec){1, 500000000}, NULL);
    lying_answer(fd, "200 OK", &(struct lying_body){bytes, CUT_BYTES, LONG_BYTES});
    nanosleep(&(struct timespec){1, 0}, NULL);
}

/* It has failed for longer than the patience, but has moved enough meanwhile to tell that the store
 * is there. */
static void a_long_transfer_that_is_cut_is_tried_again(void **unused)
{
    uint8_t *bytes = calloc(1, LONG_BYTES), *got = malloc(LONG_BYTES);
    struct lying_store *store = lying_store_open(answer_cut, bytes);
    struct client *client = client_open(&(struct client_how){.patience_ms = PATIENCE_MS}, NULL);
    const struct call_request request = {
        .method = "GET", .bucket = "bucket", .key = "k", .into = got, .into_bytes = LONG_BYTES};
    struct call *call;
    struct err err = {0};

    (void)unused;
    assert_true(bytes != NULL && got != NULL && client != NULL);
    call = call_new(client, &request);
    if (call_run(client, call, &err) != 0)
        fail_msg("%s", err.text);
    call_free(call);
    client_close(client);
    assert_int_equal(lying_store_close(store), 2);
    free(bytes);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_files_are_open_a_few_at_a_time),
        cmocka_unit_test(a_byte_that_was_damaged_on_the_way_is_asked_for_again),
        cmocka_unit_test(bytes_that_stay_wrong_are_damage),
        cmocka_unit_test(an_answer_of_another_length_is_no_damage),
        cmocka_unit_test(every_first_answer_may_lie),
        cmocka_unit_test(every_answer_may_lie),
        cmocka_unit_test(a_long_transfer_that_is_cut_is_tried_again),
    };

    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
