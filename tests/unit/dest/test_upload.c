/* Uploads in parts: chunks as large as the store's limit of parts asks for. */
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

static void a_file_is_cut_into_as_many_chunks_as_the_store_takes_parts(void **unused)
{
    static const struct {
        size_t parts_max;
        uint64_t size_bytes;
        size_t units; /* of 16 MiB in a chunk */
        size_t chunk_count;
        uint64_t last_bytes;
    } cases[] = {
        {1000, 1000 * CHUNK, 1, 1000, CHUNK},
        {10000, 1001 * CHUNK, 1, 1001, CHUNK},
        {1000, 1001 * CHUNK, 2, 501, CHUNK},
        {1000, 2000 * CHUNK, 2, 1000, 2 * CHUNK},
        {1000, 2000 * CHUNK + 1, 4, 501, 1},
        {10000, 10001 * CHUNK + 7, 2, 5001, CHUNK + 7},
        {2, 5 * CHUNK, 4, 2, CHUNK},
        {1000, 64000 * CHUNK, 64, 1000, 64 * CHUNK}, /* of 1 GiB */
        {2, CHUNK, 1, 0, 0},
        {1000, 5, 1, 0, 0},
        {1000, 0, 1, 0, 0},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct uploads uploads = {0};
        struct manifest manifest;
        struct manifest_entry *entry = only_file(&manifest, cases[i].size_bytes);
        struct upload *upload;
        struct err err;

        list_init(&uploads.open);
        assert_int_equal(upload_cut(&manifest, cases[i].parts_max, &err), 0);
        assert_int_equal(entry->chunk_bytes, cases[i].units * CHUNK);
        assert_int_equal(entry->chunk_count, cases[i].chunk_count);
        if (entry->chunk_count > 0) {
            assert_int_equal(manifest_chunk_bytes(entry, entry->chunk_count - 1),
                             cases[i].last_bytes);
            upload = upload_new(&uploads, entry, "key");
            upload_part_done(upload, 1, "\"etag\"");
            assert_int_equal(upload->left, cases[i].chunk_count - 1);
            assert_false(uploads_has(&uploads, "key"));
        }
        uploads_close(&uploads);
        assert_true(list_empty(&uploads.open));
        manifest_close(&manifest);
    }
}

static void a_file_that_is_too_large_for_the_store_is_named(void **unused)
{
    struct manifest manifest;
    struct err err = {0};

    (void)unused;
    only_file(&manifest, 64000 * CHUNK + 1);
    assert_int_equal(upload_cut(&manifest, 10000, &err), 0);
    assert_int_equal(upload_cut(&manifest, 1000, &err), -1);
    assert_int_equal(err.code, ERR_UNFIT);
    assert_contains(err.text, "\"f\" has 1073741824001 bytes");
    assert_contains(err.text, "takes 1000 parts of an object");
    assert_contains(err.text, "max_upload_part_num");
    manifest_close(&manifest);
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
        limit->begun += strstr(head, "/a/parts?uploads= ") != NULL;
        lying_answer_text(fd, "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                              "</InitiateMultipartUploadResult>");
    } else if (strncmp(head, "PUT ", 4) == 0) {
        limit->parts += strstr(head, "/a/parts?partNumber=10000&uploadId=u1 ") != NULL;
        lying_answer(
            fd, limit->status,
            &(struct lying_body){limit->text, strlen(limit->text), (long)strlen(limit->text)});
    } else if (strncmp(head, "DELETE ", 7) == 0) {
        limit->aborted += strstr(head, "uploadId=u1") != NULL;
        lying_answer(fd, "204 No Content", &(struct lying_body){"", 0, 0});
    }
}

/* -1: it could not be told. */
static long ask(struct limit *limit, size_t chunk_count)
{
    struct lying_store *store = lying_store_open(answer_limit, limit);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    const struct upload_place place = {"bucket", "a/parts"};
    struct manifest manifest;
    size_t parts_max = 0;
    struct err err;
    int result;

    assert_non_null(client);
    only_file(&manifest, chunk_count * CHUNK);
    result = upload_parts_max(client, &place, &manifest, &parts_max, &err);
    manifest_close(&manifest);
    client_close(client);
    (void)lying_store_close(store);
    return result == 0 ? (long)parts_max : -1;
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
    struct limit comma = {.status = "400 Bad Request", .text = REFUSED("between 1 and 1,000")};
    struct limit one = {.status = "400 Bad Request", .text = REFUSED("between 1 and 1")};
    struct limit ceph = {.status = "200 OK", .text = ""};

    (void)unused;
    assert_int_equal(ask(&comma, 1001), 1000);
    assert_int_equal(ask(&one, 1001), 1000);
    assert_int_equal(ask(&ceph, 1001), 10000);
    assert_int_equal(ceph.begun, 1);
    assert_int_equal(ceph.parts, 1);
    assert_int_equal(ceph.aborted, 1);
    assert_int_equal(ask(&swift, 1001), 750);
    assert_int_equal(swift.aborted, 1);
    assert_int_equal(ask(&terse, 1001), 1000);
    assert_int_equal(ask(&odd, 1001), 1000);
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

    (void)unused;
    assert_int_equal(ask(&ceph, 1000), 1000);
    assert_int_equal(ceph.begun, 0);
    assert_int_equal(ask(&down, 1001), -1);
    assert_int_equal(down.aborted, 1);
    assert_int_equal(ask(&closed, 1001), -1);
    assert_int_equal(ask(&expired, 1001), -1);
    assert_int_equal(ask(&late, 1001), -1);
    assert_int_equal(ask(&proxy, 1001), -1);
}

/* ---- going on ---- */

/* Of a test: the parts that an earlier put has brought to upload "old". */
struct earlier {
    unsigned first, last;
    uint64_t part_bytes;
};

static void answer_earlier(void *data, const struct lying_request *request, int fd)
{
    const struct earlier *earlier = data;
    struct buf text = {0};

    if (strstr(request->head, "uploads=") != NULL) {
        lying_answer_text(fd, "<ListMultipartUploadsResult><Upload><Key>a/f</Key>"
                              "<UploadId>old</UploadId></Upload></ListMultipartUploadsResult>");
        return;
    }
    buf_printf(&text, "<ListPartsResult>");
    for (unsigned i = earlier->first; i <= earlier->last; i++)
        buf_printf(&text,
                   "<Part><PartNumber>%u</PartNumber><ETag>\"e%u\"</ETag><Size>%llu</Size></Part>",
                   i, i, (unsigned long long)earlier->part_bytes);
    buf_printf(&text, "</ListPartsResult>");
    buf_append(&text, "", 1);
    lying_answer_text(fd, (const char *)text.bytes);
    buf_close(&text);
}

/* How many parts are left to be sent of a file of so many chunks. */
static size_t left_after(struct earlier *earlier, size_t chunk_count, size_t parts_max)
{
    struct lying_store *store = lying_store_open(answer_earlier, earlier);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    struct uploads uploads = {.client = client, .bucket = "bucket"};
    struct manifest manifest;
    struct upload *upload;
    struct err err;
    size_t left;

    assert_non_null(client);
    assert_int_equal(uploads_list(&uploads, "a/", &err), 0);
    only_file(&manifest, chunk_count * CHUNK);
    assert_int_equal(upload_cut(&manifest, parts_max, &err), 0);
    upload = upload_new(&uploads, &manifest.entries[0], "a/f");
    if (upload_begin(upload, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(upload->id, "old");
    left = upload->left;
    uploads_close(&uploads);
    manifest_close(&manifest);
    client_close(client);
    (void)lying_store_close(store);
    return left;
}

static void parts_of_our_number_and_size_are_taken_over(void **unused)
{
    struct earlier same = {.first = 1, .last = 20, .part_bytes = 2 * CHUNK};
    struct earlier longer = {.first = 1, .last = 20, .part_bytes = 2 * CHUNK + 1};
    struct earlier beyond = {.first = 9000, .last = 9001, .part_bytes = 2 * CHUNK};

    (void)unused;
    assert_int_equal(left_after(&same, 1501, 1000), 751 - 20);
    assert_int_equal(left_after(&longer, 1501, 1000), 751);
    assert_int_equal(left_after(&beyond, 1501, 1000), 751);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_cut_into_as_many_chunks_as_the_store_takes_parts),
        cmocka_unit_test(a_file_that_is_too_large_for_the_store_is_named),
        cmocka_unit_test(the_store_says_how_many_parts_it_takes),
        cmocka_unit_test(a_store_is_not_asked_without_need_and_not_misread),
        cmocka_unit_test(parts_of_our_number_and_size_are_taken_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
