/* put, verify and restore beside a store that loses answers, gives wrong ones, and forgets: what a
 * put calls done is whole, whatever it was told on the way, and nothing stops a worker.
 *
 * Flow     a store in memory does what it is asked, and then says something else, or it does
 *          nothing and says so, or not. Each round changes the source, puts it while the store
 *          lies, and once more while it does not. SEED=n repeats one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/lying_store.h"

enum {
    OBJECTS_MAX = 512,
    UPLOADS_MAX = 64,
    PARTS_MAX = 4,
    ROUNDS = 6,
    CHUNK = 16 << 20,
    LATE_MAX = 16
};

struct object {
    char *key; /* NULL: none */
    struct buf bytes;
};

struct upload {
    char *key; /* NULL: none */
    struct buf parts[PARTS_MAX];
};

struct store {
    struct object objects[OBJECTS_MAX];
    struct upload uploads[UPLOADS_MAX];
    uint64_t dice;
    unsigned lies_percent;
    unsigned lies; /* told */
    bool copies_late;
    char *late[LATE_MAX]; /* keys of objects whose copy is still to come */
    size_t late_count;
};

/* ---- what is asked ---- */

struct asked {
    char method[8], key[1200], query[1200], prefix[1200], copy[1200];
    size_t from, to; /* of a range; to 0: none */
    unsigned part, upload;
    const struct lying_request *request;
};

static void decode(const char *from, size_t length, char *ret_text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < length && used + 1 < size; i++) {
        char hex[3] = {0};

        if (from[i] == '%' && i + 2 < length) {
            memcpy(hex, from + i + 1, 2);
            ret_text[used++] = (char)strtol(hex, NULL, 16);
            i += 2;
        } else {
            ret_text[used++] = from[i];
        }
    }
    ret_text[used] = '\0';
}

static const char *value_of(const char *query, const char *name)
{
    const char *at = strstr(query, name);

    return at == NULL ? NULL : at + strlen(name);
}

static void read_range(const char *text, struct asked *asked)
{
    if (text != NULL && sscanf(text, "bytes=%zu-%zu", &asked->from, &asked->to) == 2)
        asked->to++;
}

static void read_request(const struct lying_request *request, struct asked *ret_asked)
{
    char line[4096], *path, *query;
    const char *copy = strcasestr(request->head, "\r\nx-amz-copy-source: ");
    const char *copy_range = strcasestr(request->head, "\r\nx-amz-copy-source-range: ");
    const char *range = strcasestr(request->head, "\r\nrange: "), *value;

    *ret_asked = (struct asked){.request = request};
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(request->head, "\r"), request->head);
    snprintf(ret_asked->method, sizeof(ret_asked->method), "%.*s", (int)strcspn(line, " "), line);
    path = strchr(line, ' ') + 1;
    path[strcspn(path, " ")] = '\0';
    query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
        snprintf(ret_asked->query, sizeof(ret_asked->query), "%s", query);
    }
    path += strlen("/bucket");
    decode(path + (*path == '/'), strlen(path + (*path == '/')), ret_asked->key,
           sizeof(ret_asked->key));
    value = value_of(ret_asked->query, "prefix=");
    if (value != NULL)
        decode(value, strcspn(value, "&"), ret_asked->prefix, sizeof(ret_asked->prefix));
    value = value_of(ret_asked->query, "partNumber=");
    ret_asked->part = value == NULL ? 0 : (unsigned)strtoul(value, NULL, 10);
    value = value_of(ret_asked->query, "uploadId=");
    ret_asked->upload = value == NULL ? UPLOADS_MAX : (unsigned)strtoul(value, NULL, 10);
    if (copy != NULL) {
        copy += strlen("\r\nx-amz-copy-source: /bucket/");
        decode(copy, strcspn(copy, "\r"), ret_asked->copy, sizeof(ret_asked->copy));
    }
    read_range(copy_range != NULL ? copy_range + strlen("\r\nx-amz-copy-source-range: ")
               : range != NULL    ? range + strlen("\r\nrange: ")
                                  : NULL,
               ret_asked);
}

/* ---- what it does ---- */

static struct object *find_object(struct store *store, const char *key)
{
    for (size_t i = 0; i < OBJECTS_MAX; i++)
        if (store->objects[i].key != NULL && strcmp(store->objects[i].key, key) == 0)
            return &store->objects[i];
    return NULL;
}

static struct buf *make_object(struct store *store, const char *key)
{
    struct object *object = find_object(store, key);

    for (size_t i = 0; object == NULL; i++) {
        CHECK(i < OBJECTS_MAX);
        if (store->objects[i].key == NULL)
            object = &store->objects[i];
    }
    if (object->key == NULL)
        object->key = check_strdup(key);
    buf_clear(&object->bytes);
    return &object->bytes;
}

static void remove_object(struct store *store, const char *key)
{
    struct object *object = find_object(store, key);

    if (object == NULL)
        return;
    free(object->key);
    buf_close(&object->bytes);
    *object = (struct object){0};
}

static void remove_upload(struct upload *upload)
{
    free(upload->key);
    for (size_t i = 0; i < PARTS_MAX; i++)
        buf_close(&upload->parts[i]);
    *upload = (struct upload){0};
}

/* What it says: a status, an ETag where there is one, and a document or bytes. */
struct said {
    const char *status;
    char etag[64];
    struct buf body;
};

static int compare_keys(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void list_objects(struct store *store, const struct asked *asked, struct said *said)
{
    char *keys[OBJECTS_MAX], folder[1200] = "";
    bool folders = strstr(asked->query, "delimiter") != NULL;
    size_t count = 0, length = strlen(asked->prefix);

    for (size_t i = 0; i < OBJECTS_MAX; i++)
        if (store->objects[i].key != NULL &&
            strncmp(store->objects[i].key, asked->prefix, length) == 0)
            keys[count++] = store->objects[i].key;
    qsort(keys, count, sizeof(keys[0]), compare_keys);
    buf_printf(&said->body, "<ListBucketResult>");
    for (size_t i = 0; i < count; i++) {
        size_t to = length + strcspn(keys[i] + length, "/");

        if (folders && keys[i][to] == '/') {
            if (strlen(folder) == to + 1 && strncmp(folder, keys[i], to + 1) == 0)
                continue;
            snprintf(folder, sizeof(folder), "%.*s/", (int)to, keys[i]);
            buf_printf(&said->body, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", folder);
        } else {
            buf_printf(&said->body,
                       "<Contents><Key>%s</Key><Size>%zu</Size><LastModified>2026-11-24T04:%02zu:"
                       "00.000Z</LastModified></Contents>",
                       keys[i], find_object(store, keys[i])->bytes.length, i % 60);
        }
    }
    buf_printf(&said->body, "</ListBucketResult>");
}

static void list_uploads(const struct store *store, const struct asked *asked, struct said *said)
{
    buf_printf(&said->body, "<ListMultipartUploadsResult>");
    for (size_t i = 0; i < UPLOADS_MAX; i++)
        if (store->uploads[i].key != NULL &&
            strncmp(store->uploads[i].key, asked->prefix, strlen(asked->prefix)) == 0)
            buf_printf(&said->body, "<Upload><Key>%s</Key><UploadId>%zu</UploadId></Upload>",
                       store->uploads[i].key, i);
    buf_printf(&said->body, "</ListMultipartUploadsResult>");
}

static void get_object(struct store *store, const struct asked *asked, struct said *said)
{
    const struct object *object = find_object(store, asked->key);
    size_t from = asked->from, to = asked->to;

    if (object == NULL) {
        said->status = "404 Not Found";
        return;
    }
    if (to == 0 || to > object->bytes.length)
        to = object->bytes.length;
    buf_append(&said->body, object->bytes.bytes + from, to - from);
}

/* Of a PUT: what is sent, or what lies elsewhere. False: that is not there. */
static bool append_source(struct store *store, const struct asked *asked, struct buf *to)
{
    const struct object *source;
    size_t end;

    if (asked->copy[0] == '\0') {
        buf_append(to, asked->request->body, asked->request->body_bytes);
        return true;
    }
    source = find_object(store, asked->copy);
    if (source == NULL)
        return false;
    end = asked->to == 0 || asked->to > source->bytes.length ? source->bytes.length : asked->to;
    buf_append(to, source->bytes.bytes + asked->from, end - asked->from);
    return true;
}

static void put_bytes(struct store *store, const struct asked *asked, struct said *said)
{
    struct buf bytes = {0}, *to;

    if (asked->upload < UPLOADS_MAX
            ? store->uploads[asked->upload].key == NULL || asked->part > PARTS_MAX
            : strcasestr(asked->request->head, "if-none-match") != NULL &&
                  find_object(store, asked->key) != NULL) {
        said->status = asked->upload < UPLOADS_MAX ? "404 Not Found" : "412 Precondition Failed";
        return;
    }
    if (store->copies_late && asked->copy[0] != '\0') { /* and says nothing of it */
        if (asked->part == 0) {
            CHECK(store->late_count < LATE_MAX);
            store->late[store->late_count++] = check_strdup(asked->key);
        }
        return;
    }
    if (!append_source(store, asked, &bytes)) {
        said->status = "404 Not Found";
        buf_close(&bytes);
        return;
    }
    to = asked->upload < UPLOADS_MAX ? &store->uploads[asked->upload].parts[asked->part - 1]
                                     : make_object(store, asked->key);
    buf_close(to);
    *to = bytes;
    snprintf(said->etag, sizeof(said->etag), "\"e%u-%zu\"", asked->part, to->length);
    if (asked->copy[0] != '\0')
        buf_printf(&said->body, "<%s><ETag>%s</ETag></%s>",
                   asked->part > 0 ? "CopyPartResult" : "CopyObjectResult", said->etag,
                   asked->part > 0 ? "CopyPartResult" : "CopyObjectResult");
}

static void list_parts(const struct upload *upload, struct said *said)
{
    buf_printf(&said->body, "<ListPartsResult>");
    for (unsigned i = 0; i < PARTS_MAX; i++)
        if (upload->parts[i].length > 0)
            buf_printf(&said->body,
                       "<Part><PartNumber>%u</PartNumber><ETag>\"e%u-%zu\"</ETag><Size>%zu</Size>"
                       "</Part>",
                       i + 1, i + 1, upload->parts[i].length, upload->parts[i].length);
    buf_printf(&said->body, "</ListPartsResult>");
}

static void begin_upload(struct store *store, const struct asked *asked, struct said *said)
{
    size_t i = 0;

    while (store->uploads[i].key != NULL)
        CHECK(++i < UPLOADS_MAX);
    store->uploads[i].key = check_strdup(asked->key);
    buf_printf(&said->body,
               "<InitiateMultipartUploadResult><UploadId>%zu</UploadId>"
               "</InitiateMultipartUploadResult>",
               i);
}

static void use_upload(struct store *store, const struct asked *asked, struct said *said)
{
    struct upload *upload = &store->uploads[asked->upload];
    struct buf *object;

    if (upload->key == NULL || strcmp(upload->key, asked->key) != 0) {
        said->status = "404 Not Found";
    } else if (strcmp(asked->method, "GET") == 0) {
        list_parts(upload, said);
    } else if (strcmp(asked->method, "DELETE") == 0) {
        remove_upload(upload);
    } else {
        object = make_object(store, asked->key);
        for (size_t i = 0; i < PARTS_MAX; i++)
            buf_append(object, upload->parts[i].length > 0 ? upload->parts[i].bytes : NULL,
                       upload->parts[i].length);
        remove_upload(upload);
        buf_printf(&said->body, "<CompleteMultipartUploadResult/>");
    }
}

static void do_as_asked(struct store *store, const struct asked *asked, struct said *said)
{
    if (asked->key[0] == '\0' && strstr(asked->query, "uploads") != NULL)
        list_uploads(store, asked, said);
    else if (asked->key[0] == '\0')
        list_objects(store, asked, said);
    else if (strcmp(asked->method, "PUT") == 0)
        put_bytes(store, asked, said);
    else if (asked->upload < UPLOADS_MAX)
        use_upload(store, asked, said);
    else if (strcmp(asked->method, "POST") == 0)
        begin_upload(store, asked, said);
    else if (strcmp(asked->method, "DELETE") == 0)
        remove_object(store, asked->key);
    else
        get_object(store, asked, said);
}

/* ---- what it says of that ---- */

static void say(const struct asked *asked, const struct said *said, int fd)
{
    char status[160];
    bool head = strcmp(asked->method, "HEAD") == 0;

    snprintf(status, sizeof(status), "%s%s%s", said->status,
             said->etag[0] == '\0' ? "" : "\r\nETag: ", said->etag);
    lying_answer(fd, status,
                 &(struct lying_body){said->body.length > 0 ? said->body.bytes : (const void *)"",
                                      head ? 0 : said->body.length, (long)said->body.length});
}

static void say_error(const char *status, const char *code, int fd)
{
    char text[200];

    snprintf(text, sizeof(text), "<Error><Code>%s</Code></Error>", code);
    lying_answer(fd, status, &(struct lying_body){text, strlen(text), (long)strlen(text)});
}

/* False: it has said all that it will. */
static bool lie_before(struct store *store, int fd)
{
    switch (test_random(&store->dice) % 4) {
    case 0:
        return false; /* nothing at all */
    case 1:
        say_error("500 Internal Server Error", "InternalError", fd);
        return false;
    case 2:
        say_error("503 Slow Down", "SlowDown", fd);
        return false;
    default:
        return true;
    }
}

/* It has done what it was asked. */
static void lie_after(struct store *store, const struct asked *asked, struct said *said, int fd)
{
    switch (test_random(&store->dice) % 6) {
    case 0:
        return; /* nobody hears of it */
    case 1:
        said->etag[0] = '\0';
        say(asked, said, fd);
        return;
    case 2:
        say_error("200 OK", "InternalError", fd);
        return;
    case 3:
        if (said->body.length > 1)
            said->body.length = 1 + test_random(&store->dice) % said->body.length;
        say(asked, said, fd);
        return;
    case 4:
        if (said->body.length > 0)
            said->body.bytes[test_random(&store->dice) % said->body.length] ^= 0x10;
        say(asked, said, fd);
        return;
    default:
        lying_answer(fd, "200 OK", &(struct lying_body){"<html>works</html>", 18, 18});
        return;
    }
}

static void answer_request(void *data, const struct lying_request *request, int fd)
{
    struct store *store = data;
    struct asked asked;
    struct said said = {.status = "200 OK"};
    bool lies = test_random(&store->dice) % 100 < store->lies_percent;

    read_request(request, &asked);
    if (lies) {
        store->lies++;
        if (!lie_before(store, fd))
            return;
    }
    do_as_asked(store, &asked, &said);
    if (lies)
        lie_after(store, &asked, &said, fd);
    else
        say(&asked, &said, fd);
    buf_close(&said.body);
}

/* ---- puts ---- */

static void store_close(struct store *store)
{
    for (size_t i = 0; i < OBJECTS_MAX; i++)
        if (store->objects[i].key != NULL)
            remove_object(store, store->objects[i].key);
    for (size_t i = 0; i < UPLOADS_MAX; i++)
        remove_upload(&store->uploads[i]);
    free(store);
}

#define CHECKPOINTS "s3://bucket/a/t/p/job/checkpoints"

static int run(struct folders *folders, const char *name, unsigned round, const char *more,
               const char *value)
{
    char path[128];

    snprintf(path, sizeof(path), CHECKPOINTS "/1-%u", round + 1);
    return verb(folders, name, "--path", path, "--part", "part-0000", more, value, NULL);
}

static int put(struct folders *folders, unsigned round)
{
    char path[128];

    snprintf(path, sizeof(path), CHECKPOINTS "/1-%u", round + 1);
    return verb(folders, "put", "--prefix", "s3://bucket/a", "--path", path, "--part", "part-0000",
                "--source", folders->source, NULL);
}

static void change_source(const struct folders *folders, uint64_t *dice)
{
    static char large[2 * CHUNK + 1000];
    char name[32];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "f%u", (unsigned)(test_random(dice) % 6));
        write_file(folders->source, name, large, 1 + test_random(dice) % 5000);
    }
    if (test_random(dice) % 2 == 0) /* else it is as it was */
        large[test_random(dice) % sizeof(large)] ^= 1;
    write_file(folders->source, "large", large, sizeof(large));
}

/* A checkpoint that is called done is one, and a store that means well is written to after any
 * failure before. */
static void what_is_called_done_is_whole(void **state)
{
    struct folders *folders = *state;
    struct store *store = check_calloc(1, sizeof(*store));
    struct lying_store *server = lying_store_open(answer_request, store);
    uint64_t dice = test_seed();
    unsigned done = 0, rounds = test_often(3, ROUNDS);

    store->dice = dice;
    for (unsigned round = 0; round < rounds; round++) {
        char back[140], manifest[80] = "";

        change_source(folders, &dice);
        store->lies_percent = round == 0 ? 0 : 5 + 10 * (round % 4);
        if (put(folders, round) == WORKER_EXIT_OK) {
            done++;
            store->lies_percent = 0;
            assert_int_equal(
                worker_output_get(folders->out, "manifest_sha256", manifest, sizeof(manifest)), 0);
            assert_int_equal(run(folders, "verify", round, "--manifest-sha256", manifest),
                             WORKER_EXIT_OK);
        }
        store->lies_percent = 0;
        if (put(folders, round) != WORKER_EXIT_OK)
            fail_msg("round %u: %s", round, folders->errors);
        snprintf(back, sizeof(back), "%s-%u", folders->to, round);
        if (run(folders, "restore", round, "--to", back) != WORKER_EXIT_OK)
            fail_msg("round %u: %s", round, folders->errors);
        assert_true(same_trees(folders->source, back));
        remove_tree(back);
    }
    print_message("%u lies in %u requests; %u of %u puts came to their end\n", store->lies,
                  lying_store_close(server), done, rounds);
    store_close(store);
}

/* What was copied from has rotted meanwhile. */
static void carry_out_copies(struct store *store)
{
    for (size_t i = 0; i < store->late_count; i++) {
        struct buf *bytes = make_object(store, store->late[i]);

        buf_clear(bytes);
        buf_append(bytes, "rot", 3);
        free(store->late[i]);
    }
}

/* A whole file is copied to the key that it is sent to when the copy fails. */
static void a_copy_that_comes_late_overwrites_nothing(void **state)
{
    static char large[2 * CHUNK + 1000];
    struct folders *folders = *state;
    struct store *store = check_calloc(1, sizeof(*store));
    struct lying_store *server = lying_store_open(answer_request, store);

    write_file(folders->source, "large", large, sizeof(large));
    for (unsigned round = 0; round < 3; round++) {
        char small[160];

        store->copies_late = round > 0;
        store->late_count = 0;
        snprintf(small, sizeof(small), "%s/a.bin", folders->source);
        if (round == 2) /* then the large one is the first to be copied */
            assert_int_equal(unlink(small), 0);
        assert_int_equal(put(folders, round), WORKER_EXIT_OK);
        assert_true(round == 0 || store->late_count > 0);
        carry_out_copies(store);
        assert_int_equal(run(folders, "verify", round, NULL, NULL), WORKER_EXIT_OK);
    }
    (void)lying_store_close(server);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_called_done_is_whole, folders_setup,
                                        folders_teardown),
        cmocka_unit_test_setup_teardown(a_copy_that_comes_late_overwrites_nothing, folders_setup,
                                        folders_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
