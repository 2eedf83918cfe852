/* Uploads in parts: as many chunks to a part as the store's limit of parts asks for. */
#include "src/dest/s3/upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/unit/dest/lying_store.h"

#define CHUNK ((uint64_t)MANIFEST_CHUNK_BYTES)

/* Alone in the manifest. */
static struct manifest_entry *only_file(struct manifest *manifest, uint64_t size_bytes)
{
    struct err err = {0};

    manifest_init(manifest);
    manifest_add(manifest, "f", false)->size_bytes = size_bytes;
    assert_int_equal(manifest_finish(manifest, &err), 0);
    return &manifest->entries[0];
}

static void parts_are_of_as_many_chunks_as_the_limit_asks_for(void **unused)
{
    static const struct {
        size_t parts_max;
        uint64_t size_bytes;
        size_t chunks, part_count;
        uint64_t last_bytes;
    } cases[] = {
        {0, 1000 * CHUNK, 1, 1000, CHUNK}, /* nobody needs to ask */
        {10000, 1001 * CHUNK, 1, 1001, CHUNK},
        {1000, 1001 * CHUNK, 2, 501, CHUNK},
        {1000, 2000 * CHUNK, 2, 1000, 2 * CHUNK},
        {1000, 2000 * CHUNK + 1, 3, 667, 2 * CHUNK + 1},
        {10000, 10001 * CHUNK + 7, 2, 5001, CHUNK + 7},
        {2, 5 * CHUNK, 3, 2, 2 * CHUNK},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct uploads uploads = {.parts_max = cases[i].parts_max};
        struct manifest manifest;
        struct upload *upload;

        list_init(&uploads.open);
        upload = upload_new(&uploads, only_file(&manifest, cases[i].size_bytes), "key");
        assert_int_equal(upload->part_bytes, cases[i].chunks * CHUNK);
        assert_int_equal(upload->part_count, cases[i].part_count);
        assert_int_equal(upload_part_bytes(upload, 0), cases[i].chunks * CHUNK);
        assert_int_equal(upload_part_bytes(upload, cases[i].part_count - 1), cases[i].last_bytes);
        upload_part_done(upload, 1, "\"etag\"");
        assert_int_equal(upload->left, cases[i].part_count - 1);
        assert_false(uploads_has(&uploads, "key"));
        uploads_close(&uploads);
        assert_true(list_empty(&uploads.open));
        manifest_close(&manifest);
    }
}

/* ---- asking ---- */

/* Of a test: what the store says of the part, and what it was asked. */
struct limit {
    const char *status, *text;
    unsigned begun, parts, aborted;
};

static void answer_limit(void *data, const struct lying_request *request, int fd)
{
    struct limit *limit = data;
    const char *head = request->head;

    if (strncmp(head, "POST ", 5) == 0) {
        limit->begun += strstr(head, "/a/f/parts?uploads= ") != NULL;
        lying_answer_text(fd, "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                              "</InitiateMultipartUploadResult>");
    } else if (strncmp(head, "PUT ", 4) == 0) {
        limit->parts += strstr(head, "/a/f/parts?partNumber=10000&uploadId=u1 ") != NULL;
        lying_answer(
            fd, limit->status,
            &(struct lying_body){limit->text, strlen(limit->text), (long)strlen(limit->text)});
    } else if (strncmp(head, "DELETE ", 7) == 0) {
        limit->aborted += strstr(head, "uploadId=u1") != NULL;
        lying_answer(fd, "204 No Content", &(struct lying_body){"", 0, 0});
    }
}

/* -1: it could not be told. */
static long ask(struct limit *limit, size_t chunk_count, unsigned times)
{
    struct lying_store *store = lying_store_open(answer_limit, limit);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    struct uploads uploads = {.client = client, .bucket = "bucket"};
    struct err err;
    int result = 0;

    assert_non_null(client);
    for (unsigned i = 0; i < times && result == 0; i++)
        result = uploads_ask_parts(&uploads, "a/f", chunk_count, &err);
    client_close(client);
    (void)lying_store_close(store);
    return result == 0 ? (long)uploads.parts_max : -1;
}

#define REFUSED(message) "<Error><Code>InvalidArgument</Code><Message>" message "</Message></Error>"

static void the_store_says_how_many_parts_it_takes(void **unused)
{
    struct limit swift = {
        .status = "400 Bad Request",
        .text = REFUSED("Part number must be an integer between 1 and 750, inclusive")};
    struct limit terse = {.status = "400 Bad Request", .text = REFUSED("no")};
    struct limit odd = {.status = "400 Bad Request",
                        .text = REFUSED("between 1 and 99999999999999999999")};
    struct limit ceph = {.status = "200 OK", .text = ""};

    (void)unused;
    assert_int_equal(ask(&ceph, 1001, 2), 10000);
    assert_int_equal(ceph.begun, 1); /* once is enough */
    assert_int_equal(ceph.parts, 1);
    assert_int_equal(ceph.aborted, 1);
    assert_int_equal(ask(&swift, 1001, 1), 750);
    assert_int_equal(swift.aborted, 1);
    assert_int_equal(ask(&terse, 1001, 1), 1000);
    assert_int_equal(ask(&odd, 1001, 1), 1000);
}

static void a_store_is_not_asked_without_need_and_not_misread(void **unused)
{
    struct limit ceph = {.status = "200 OK", .text = ""};
    struct limit down = {.status = "503 Slow Down", .text = ""};
    struct limit closed = {.status = "403 Forbidden", .text = ""};
    struct limit expired = {.status = "400 Bad Request",
                            .text = "<Error><Code>ExpiredToken</Code></Error>"};
    struct limit late = {.status = "400 Bad Request",
                         .text = "<Error><Code>RequestTimeout</Code></Error>"};
    struct limit proxy = {.status = "400 Bad Request", .text = "<html>no</html>"};
    char key[OBJECT_KEY_MAX_BYTES - 3] = "";
    struct uploads uploads = {0};
    struct err err;

    (void)unused;
    assert_int_equal(ask(&ceph, 1000, 1), 0);
    assert_int_equal(ceph.begun, 0);
    memset(key, 'k', sizeof(key) - 1); /* no room for another name */
    uploads.client = NULL;
    assert_int_equal(uploads_ask_parts(&uploads, key, 1001, &err), 0);
    assert_int_equal(uploads.parts_max, 1000);
    assert_int_equal(ask(&down, 1001, 1), -1);
    assert_int_equal(down.aborted, 1);
    assert_int_equal(ask(&closed, 1001, 1), -1);
    assert_int_equal(ask(&expired, 1001, 1), -1);
    assert_int_equal(ask(&late, 1001, 1), -1);
    assert_int_equal(ask(&proxy, 1001, 1), -1);
}

/* ---- going on ---- */

/* Of a test: the parts that an earlier put has brought to upload "old". */
struct earlier {
    unsigned first, last, last_number;
    uint64_t part_bytes, last_bytes;
    unsigned aborted, begun;
};

static void answer_earlier(void *data, const struct lying_request *request, int fd)
{
    struct earlier *earlier = data;
    const char *head = request->head;
    struct buf text;

    buf_init(&text);
    if (strncmp(head, "DELETE ", 7) == 0) {
        earlier->aborted += strstr(head, "uploadId=old") != NULL;
        lying_answer(fd, "204 No Content", &(struct lying_body){"", 0, 0});
    } else if (strncmp(head, "POST ", 5) == 0) {
        earlier->begun++;
        lying_answer_text(fd, "<InitiateMultipartUploadResult><UploadId>new</UploadId>"
                              "</InitiateMultipartUploadResult>");
    } else if (strstr(head, "uploads=") != NULL) {
        lying_answer_text(fd, "<ListMultipartUploadsResult><Upload><Key>a/f</Key>"
                              "<UploadId>old</UploadId></Upload></ListMultipartUploadsResult>");
    } else {
        buf_printf(&text, "<ListPartsResult>");
        for (unsigned i = earlier->first; i <= earlier->last; i++)
            buf_printf(&text,
                       "<Part><PartNumber>%u</PartNumber><ETag>\"e%u\"</ETag><Size>%llu</Size>"
                       "</Part>",
                       i, i,
                       (unsigned long long)(i == earlier->last_number ? earlier->last_bytes
                                                                      : earlier->part_bytes));
        buf_printf(&text, "</ListPartsResult>");
        buf_append(&text, "", 1);
        lying_answer_text(fd, (const char *)text.bytes);
    }
    buf_close(&text);
}

/* How many parts are left to be sent of a file of so many chunks. */
static size_t left_after(struct earlier *earlier, size_t chunk_count, size_t parts_max)
{
    struct lying_store *store = lying_store_open(answer_earlier, earlier);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    struct uploads uploads = {.client = client, .bucket = "bucket", .parts_max = parts_max};
    struct manifest manifest;
    struct upload *upload;
    struct err err;
    size_t left;

    assert_non_null(client);
    assert_int_equal(uploads_list(&uploads, "a/", &err), 0);
    upload = upload_new(&uploads, only_file(&manifest, chunk_count * CHUNK), "a/f");
    if (upload_begin(upload, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(upload->id, earlier->begun > 0 ? "new" : "old");
    left = upload->left;
    uploads_close(&uploads);
    manifest_close(&manifest);
    client_close(client);
    (void)lying_store_close(store);
    return left;
}

/* The last part of one way to cut a file has the size of a part of the other. */
static void parts_that_were_cut_in_another_way_are_not_taken_over(void **unused)
{
    struct earlier same = {.first = 1, .last = 20, .part_bytes = 2 * CHUNK};
    struct earlier finer = {.first = 1, .last = 1000, .part_bytes = CHUNK};
    struct earlier coarser = {
        .first = 1, .last = 751, .last_number = 751, .part_bytes = 2 * CHUNK, .last_bytes = CHUNK};
    struct earlier beyond = {.first = 9000, .last = 9001, .part_bytes = 2 * CHUNK};

    (void)unused;
    assert_int_equal(left_after(&same, 1501, 1000), 751 - 20);
    assert_int_equal(same.aborted + same.begun, 0);
    assert_int_equal(left_after(&finer, 1501, 1000), 751);
    assert_int_equal(finer.aborted, 1);
    assert_int_equal(left_after(&coarser, 1501, 10000), 1501);
    assert_int_equal(coarser.aborted, 1);
    assert_int_equal(left_after(&beyond, 1501, 1000), 751);
    assert_int_equal(beyond.aborted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_of_as_many_chunks_as_the_limit_asks_for),
        cmocka_unit_test(the_store_says_how_many_parts_it_takes),
        cmocka_unit_test(a_store_is_not_asked_without_need_and_not_misread),
        cmocka_unit_test(parts_that_were_cut_in_another_way_are_not_taken_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
