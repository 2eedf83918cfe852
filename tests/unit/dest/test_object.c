/* Lists of a store that lies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/dest/s3/object.h"
#include "src/dest/s3/removal.h"
#include "tests/support/test.h"
#include "tests/unit/dest/lying_store.h"

enum { PAGES_MAX = 20 };

static const char page_head[] = "<?xml version=\"1.0\"?><ListBucketResult>";

/* Of a test: what the store's next page says. */
struct pages {
    const char *texts[PAGES_MAX]; /* the last one for ever */
    size_t count;
    char requests[PAGES_MAX][256];
};

static void answer_page(void *data, const struct lying_request *request, int fd)
{
    struct pages *pages = data;
    unsigned number = request->number;
    size_t i = number <= pages->count ? number - 1 : pages->count - 1;
    char text[4096];

    if (number <= PAGES_MAX)
        snprintf(pages->requests[number - 1], sizeof(pages->requests[0]), "%.*s",
                 (int)strcspn(request->head, "\r"), request->head);
    if (number > 1000)
        return; /* it would go on for ever */
    snprintf(text, sizeof(text), "%s%s</ListBucketResult>", page_head, pages->texts[i]);
    lying_answer_text(fd, text);
}

struct found {
    unsigned count;
    char keys[512];
};

static int note_key(void *data, const struct object_listed *listed, struct err *err)
{
    struct found *found = data;

    (void)err;
    found->count++;
    if (strlen(found->keys) + strlen(listed->key) + 2 < sizeof(found->keys)) {
        strcat(found->keys, listed->key);
        strcat(found->keys, " ");
    }
    return 0;
}

/* What lies below "a/", as the pages say. */
static int list_pages(struct pages *pages, struct found *ret_found, unsigned *ret_requests,
                      struct err *ret_err)
{
    struct lying_store *store = lying_store_open(answer_page, pages);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    int result;

    assert_non_null(client);
    *ret_found = (struct found){0};
    *ret_err = (struct err){0};
    result = object_list(client, &(struct object_below){.bucket = "bucket", .prefix = "a/"},
                         note_key, ret_found, ret_err);
    client_close(client);
    *ret_requests = lying_store_close(store);
    return result;
}

#define CONTENTS(key) "<Contents><Key>" key "</Key><Size>1</Size></Contents>"
#define CUT_AT(token)                                                                              \
    "<IsTruncated>true</IsTruncated><NextContinuationToken>" token "</NextContinuationToken>"

static void pages_are_read_one_after_the_other(void **unused)
{
    struct pages pages = {.texts = {CONTENTS("a/1") CUT_AT("t1"), CONTENTS("a/2") CUT_AT("t2"),
                                    CONTENTS("a/3") "<IsTruncated>false</IsTruncated>"},
                          .count = 3};
    struct found found;
    unsigned requests;
    struct err err;

    (void)unused;
    assert_int_equal(list_pages(&pages, &found, &requests, &err), 0);
    assert_string_equal(found.keys, "a/1 a/2 a/3 ");
    assert_int_equal(requests, 3);
    assert_contains(pages.requests[2], "continuation-token=t2");
}

/* A store that comes back to where it was would be listed until memory is full. */
static void a_list_that_does_not_get_on_is_refused(void **unused)
{
    struct pages pages = {.texts = {CONTENTS("a/1") CUT_AT("t1")}, .count = 1};
    struct found found;
    unsigned requests;
    struct err err;

    (void)unused;
    assert_int_equal(list_pages(&pages, &found, &requests, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_contains(err.text, "t1");
    assert_true(requests < 5);
}

/* What it leaves out would be taken for lost. */
static void a_list_that_is_cut_and_does_not_say_where_is_refused(void **unused)
{
    struct pages pages = {.texts = {CONTENTS("a/1") "<IsTruncated>true</IsTruncated>"}, .count = 1};
    struct found found;
    unsigned requests;
    struct err err;

    (void)unused;
    assert_int_equal(list_pages(&pages, &found, &requests, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(requests, 1);
}

/* What is listed may be removed. */
static void what_is_not_below_the_prefix_is_passed_over(void **unused)
{
    struct pages pages = {
        .texts = {CONTENTS("b/1") CONTENTS("a") CONTENTS("a/1") CONTENTS("") CONTENTS("../a/2")},
        .count = 1};
    struct found found;
    unsigned requests;
    struct err err;

    (void)unused;
    assert_int_equal(list_pages(&pages, &found, &requests, &err), 0);
    assert_string_equal(found.keys, "a/1 ");
}

/* A proxy's page, a document that is cut, one that names files. */
static void what_is_no_list_is_refused(void **unused)
{
    static const char *const texts[] = {
        "<Contents><Key>a/1</Key>", "<a><a><a><a><a><a><a><a><a><a><a><a><a>", "&file;",
        "<Contents></Contents></Contents>", "<html>please log in</html></p>"};

    (void)unused;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct pages pages = {.texts = {texts[i]}, .count = 1};
        struct found found;
        unsigned requests;
        struct err err;

        assert_int_equal(list_pages(&pages, &found, &requests, &err), -1);
        assert_int_equal(err.code, ERR_IO);
    }
}

/* ---- the end of an upload ---- */

enum { WHOLE_BYTES = 20 << 20 };

/* What the store says to the end of an upload, and then of the object. */
struct ending {
    const char *answer, *head; /* a status; NULL: nobody asks */
    long length;
    int result;
    const char *said; /* in the error */
};

static void answer_ending(void *data, const struct lying_request *request, int fd)
{
    const struct ending *ending = data;

    if (strncmp(request->head, "POST ", 5) == 0) {
        lying_answer_text(fd, ending->answer);
        return;
    }
    assert_memory_equal(request->head, "HEAD /bucket/a/1 ", 17);
    assert_non_null(ending->head);
    lying_answer(fd, ending->head, &(struct lying_body){"", 0, ending->length});
}

#define WHOLE(etag)                                                                                \
    "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><Key>a/1</Key>" etag                    \
    "</CompleteMultipartUploadResult>"

/* A yes alone does not make an object: Ceph's has no ETag, and what lies in between may have no
 * body. */
static void an_upload_is_whole_when_the_store_names_or_has_the_object(void **unused)
{
    static const struct ending endings[] = {
        {.answer = WHOLE("<ETag>&quot;9b2cf5-2&quot;</ETag>")},
        {.answer = " \n \n" WHOLE("<ETag>&quot;9b2cf5-2&quot;</ETag>")},
        {.answer = WHOLE(""), .head = "200 OK", .length = WHOLE_BYTES},
        {.answer = WHOLE("<ETag></ETag>"), .head = "200 OK", .length = WHOLE_BYTES},
        {.answer = "", .head = "200 OK", .length = WHOLE_BYTES},
        {.answer = "", .head = "404 Not Found", .result = -1, .said = "has 0 of"},
        {.answer = "<html>welcome</html>",
         .head = "404 Not Found",
         .result = -1,
         .said = "has 0 of"},
        {.answer = WHOLE(""), .head = "404 Not Found", .result = -1, .said = "has 0 of 20971520"},
        {.answer = WHOLE(""), .head = "200 OK", .length = 5, .result = -1, .said = "has 5 of"},
        {.answer = WHOLE(""), .head = "403 Forbidden", .result = -1, .said = "status 403"},
        {.answer = "<Error><Code>EntityTooLarge</Code></Error>",
         .head = "404 Not Found",
         .result = -1,
         .said = "EntityTooLarge"},
        /* the first try has ended it, and its answer was lost; or somebody else did */
        {.answer = "<Error><Code>NoSuchUpload</Code></Error>",
         .head = "200 OK",
         .length = WHOLE_BYTES},
        {.answer = "<Error><Code>NoSuchUpload</Code></Error>",
         .head = "404 Not Found",
         .result = -1,
         .said = "ended by somebody else"},
        {.answer = "<Error><Code>EntityTooLarge</Code></Error>",
         .head = "200 OK",
         .length = WHOLE_BYTES},
    };
    static char etags[2][CALL_ETAG_BYTES] = {"\"1\"", "\"2\""};
    const struct object_whole whole = {"id", etags, 2, WHOLE_BYTES};

    (void)unused;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        struct lying_store *store = lying_store_open(answer_ending, (void *)&endings[i]);
        struct client *client = client_open(&(struct client_how){.patience_ms = 0}, NULL);
        struct err err = {0};

        assert_non_null(client);
        if (object_complete_upload(client, "bucket", "a/1", &whole, &err) != endings[i].result)
            fail_msg("%zu: %s", i, err.text);
        if (endings[i].result != 0) {
            assert_contains(err.text, endings[i].said);
            assert_int_not_equal(err.code, ERR_NOT_FOUND); /* of a put: its source is gone */
        }
        client_close(client);
        assert_int_equal(lying_store_close(store), endings[i].head == NULL ? 1 : 2);
    }
}

/* Of a removal: three uploads, the first in two parts, the second in none, the third has gone when
 * its parts are asked for. */
static void answer_uploads(void *data, const struct lying_request *request, int fd)
{
    char *aborted = data;
    const char *head = request->head;

    if (strncmp(head, "DELETE ", 7) == 0) {
        strcat(aborted, strstr(head, "uploadId=u1") != NULL   ? "u1 "
                        : strstr(head, "uploadId=u2") != NULL ? "u2 "
                        : strstr(head, "uploadId=u3") != NULL ? "u3 "
                                                              : "? ");
        lying_answer(fd, "204 No Content", &(struct lying_body){"", 0, 0});
    } else if (strstr(head, "uploads=") != NULL) {
        lying_answer_text(fd, "<ListMultipartUploadsResult>"
                              "<Upload><Key>a/big</Key><UploadId>u1</UploadId></Upload>"
                              "<Upload><Key>a/new</Key><UploadId>u2</UploadId></Upload>"
                              "<Upload><Key>a/old</Key><UploadId>u3</UploadId></Upload>"
                              "</ListMultipartUploadsResult>");
    } else if (strstr(head, "uploadId=u1") != NULL) {
        lying_answer_text(fd, "<ListPartsResult>"
                              "<Part><PartNumber>1</PartNumber><Size>16777216</Size></Part>"
                              "<Part><PartNumber>3</PartNumber><Size>5</Size></Part>"
                              "</ListPartsResult>");
    } else if (strstr(head, "uploadId=u2") != NULL) {
        lying_answer_text(fd, "<ListPartsResult></ListPartsResult>");
    } else if (strstr(head, "uploadId=u3") != NULL) {
        lying_answer(fd, "404 Not Found",
                     &(struct lying_body){"<Error><Code>NoSuchUpload</Code></Error>", 40, 40});
    } else {
        lying_answer_text(fd, "<ListBucketResult>" CONTENTS("a/1") "</ListBucketResult>");
    }
}

/* Of a list of three uploads in two pages: everything is encoded, as was asked, also where the next
 * page begins. A page that begins elsewhere has nothing. */
static void answer_encoded_uploads(void *data, const struct lying_request *request, int fd)
{
    char *aborted = data;
    const char *head = request->head;

    if (strncmp(head, "DELETE ", 7) == 0) {
        const char *id = strstr(head, "uploadId=");

        strncat(aborted, id == NULL ? "?" : id + strlen("uploadId="),
                id == NULL ? 1 : strcspn(id + strlen("uploadId="), " &"));
        strcat(aborted, " ");
        lying_answer(fd, "204 No Content", &(struct lying_body){"", 0, 0});
    } else if (strstr(head, "uploads=") == NULL) {
        lying_answer_text(fd, strstr(head, "uploadId=") != NULL
                                  ? "<ListPartsResult></ListPartsResult>"
                                  : "<ListBucketResult></ListBucketResult>");
    } else if (strstr(head, "key-marker=") == NULL) {
        lying_answer_text(fd, "<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                              "<IsTruncated>true</IsTruncated>"
                              "<NextKeyMarker>a/b%20c%2Fbig</NextKeyMarker>"
                              "<NextUploadIdMarker>2%7Eu+1</NextUploadIdMarker>"
                              "<Upload><Key>a/b%20c%2Fbig</Key><UploadId>2~u+1</UploadId></Upload>"
                              "</ListMultipartUploadsResult>");
    } else if (strstr(head, "key-marker=a%2Fb%20c%2Fbig&") != NULL &&
               strstr(head, "upload-id-marker=2~u%2B1") != NULL) {
        lying_answer_text(fd, "<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                              "<Upload><Key>a/b%20c%2Fbig</Key><UploadId>2~u2</UploadId></Upload>"
                              "<Upload><Key>a/b%20c%2Fold</Key><UploadId>2~u3</UploadId></Upload>"
                              "</ListMultipartUploadsResult>");
    } else {
        lying_answer_text(fd, "<ListMultipartUploadsResult></ListMultipartUploadsResult>");
    }
}

static void a_list_of_encoded_names_goes_on_where_the_page_before_ended(void **unused)
{
    char aborted[64] = "";
    struct lying_store *store = lying_store_open(answer_encoded_uploads, aborted);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    struct removed removed = {0};
    struct err err;

    (void)unused;
    assert_non_null(client);
    if (remove_below(
            client,
            &(struct removal_below){.bucket = "bucket", .prefix = "a/", .first = "MANIFEST"},
            &removed, &err) != 0)
        fail_msg("%s", err.text);
    client_close(client);
    (void)lying_store_close(store);
    assert_string_equal(aborted, "2~u%2B1 2~u2 2~u3 ");
    assert_int_equal(removed.upload_count, 3);
}

static void what_was_sent_in_parts_counts_when_it_is_removed(void **unused)
{
    char aborted[64] = "";
    struct lying_store *store = lying_store_open(answer_uploads, aborted);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    struct removed removed = {0};
    struct err err;

    (void)unused;
    assert_non_null(client);
    if (remove_below(
            client,
            &(struct removal_below){.bucket = "bucket", .prefix = "a/", .first = "MANIFEST"},
            &removed, &err) != 0)
        fail_msg("%s", err.text);
    client_close(client);
    (void)lying_store_close(store);
    assert_string_equal(aborted, "? u1 u2 u3 "); /* the object before them */
    assert_int_equal(removed.object_count, 1);
    assert_int_equal(removed.upload_count, 2);
    assert_int_equal(removed.size_bytes, 1 + (16 << 20) + 5);
    assert_int_equal(removed.with_bytes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_read_one_after_the_other),
        cmocka_unit_test(a_list_that_does_not_get_on_is_refused),
        cmocka_unit_test(a_list_that_is_cut_and_does_not_say_where_is_refused),
        cmocka_unit_test(what_is_not_below_the_prefix_is_passed_over),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(an_upload_is_whole_when_the_store_names_or_has_the_object),
        cmocka_unit_test(what_was_sent_in_parts_counts_when_it_is_removed),
        cmocka_unit_test(a_list_of_encoded_names_goes_on_where_the_page_before_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
