/* scan of an object store: what a list that fails half way had told is no checkpoint, and what was
 * begun and has no object yet is one (S2-016). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/buf.h"
#include "src/dest/destination.h"
#include "src/dest/s3/s3.h"
#include "src/dest/scan.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/lying_store.h"

static const char mark[] = "00000000000000a1";

static void answer_page(int fd, const char *key, const char *more)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "<ListBucketResult><IsTruncated>%s</IsTruncated>%s<Contents><Key>%s</Key><Size>100"
             "</Size><LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>"
             "</ListBucketResult>",
             more[0] == '\0' ? "false" : "true", more, key);
    lying_answer_text(fd, text);
}

/* Of the first bucket the second page is refused. */
static void answer(void *data, const struct lying_request *request, int fd)
{
    static const char denied[] = "<Error><Code>AccessDenied</Code></Error>";

    (void)data;
    if (strncmp(request->head, "GET / ", 6) == 0 || strncmp(request->head, "GET /?", 6) == 0)
        lying_answer_text(fd, "<ListAllMyBucketsResult><Buckets><Bucket><Name>aaa</Name></Bucket>"
                              "<Bucket><Name>bbb</Name></Bucket></Buckets>"
                              "</ListAllMyBucketsResult>");
    else if (strstr(request->head, "uploads=") != NULL)
        lying_answer_text(fd, "<ListMultipartUploadsResult></ListMultipartUploadsResult>");
    else if (strncmp(request->head, "GET /bbb", 8) == 0)
        answer_page(fd, "p/job/checkpoints/1-9/part-0000/00000000000000a1-0123456789abcdef/f", "");
    else if (strstr(request->head, "continuation-token=") != NULL)
        lying_answer(fd, "403 Forbidden",
                     &(struct lying_body){denied, strlen(denied), (long)strlen(denied)});
    else
        answer_page(fd, "p/job/checkpoints/1-7/part-0000/00000000000000a1-0123456789abcdef/f",
                    "<NextContinuationToken>more</NextContinuationToken>");
}

static void what_was_listed_half_way_is_not_told(void **state)
{
    struct folders *folders = *state;
    struct lying_store *store = lying_store_open(answer, NULL);

    assert_int_equal(verb(folders, "scan", "--prefix", "s3://", "--cluster", mark, NULL),
                     WORKER_EXIT_OK);
    lying_store_close(store);
    assert_null(strstr(folders->out, "aaa/p/job"));
    assert_contains(folders->out, " bbb/p/job/checkpoints/1-9\n");
    assert_value(folders, "looked", "1");
    assert_value(folders, "denied", "1");
}

/* ---- uploads ---- */

#define CHECKPOINTS "pre/t/p/job/checkpoints/"
enum { MANY = 1500 };

static void add_upload(struct buf *text, const char *checkpoint, const char *marked, time_t begun)
{
    char when[64];
    struct tm parts;

    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S.000Z", gmtime_r(&begun, &parts));
    buf_printf(text,
               "<Upload><Key>" CHECKPOINTS
               "%s/part-0000/%s-0123456789abcdef/f</Key><UploadId>1</UploadId>"
               "<Initiated>%s</Initiated></Upload>",
               checkpoint, marked, when);
}

/* data: NULL: some, else many. Of 1-1 there is an object; a list below another one is empty. */
static void answer_uploads(void *data, const struct lying_request *request, int fd)
{
    struct buf text = {0};
    char id[32];

    if (strstr(request->head, "uploads=") == NULL) {
        if (strstr(request->head, "1-1%2F") != NULL || strstr(request->head, "=pre%2F ") != NULL ||
            strstr(request->head, "=pre%2F&") != NULL)
            answer_page(fd, CHECKPOINTS "1-1/part-0000/00000000000000a1-0123456789abcdef/g", "");
        else
            lying_answer_text(fd, "<ListBucketResult></ListBucketResult>");
        return;
    }
    buf_printf(&text, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>");
    for (unsigned i = 0; data != NULL && i < MANY; i++) {
        snprintf(id, sizeof(id), "2-%u", 1000 + i);
        add_upload(&text, id, mark, 1600000000);
    }
    if (data == NULL) {
        add_upload(&text, "1-1", mark, 1600000000);
        add_upload(&text, "1-2", mark, 1600000000);
        add_upload(&text, "1-2", mark, 1600000001);
        add_upload(&text, "1-3", "00000000000000b2", 1600000000);
        add_upload(&text, "1-4", mark, 1600000000);
        add_upload(&text, "1-4", mark, time(NULL)); /* somebody may be at work */
        add_upload(&text, "notes", mark, 1600000000);
    }
    buf_printf(&text, "</ListMultipartUploadsResult>");
    buf_append(&text, "", 1);
    lying_answer_text(fd, (const char *)text.bytes);
    buf_close(&text);
}

static void what_was_begun_and_has_no_object_is_told(void **state)
{
    struct folders *folders = *state;
    struct lying_store *store = lying_store_open(answer_uploads, NULL);

    assert_int_equal(verb(folders, "scan", "--prefix", "s3://bkt/pre", "--cluster", mark,
                          "--min-age", "3600", NULL),
                     WORKER_EXIT_OK);
    assert_contains(folders->out, " - t/p/job/checkpoints/1-1\nfound=0 ");
    assert_contains(folders->out, " - t/p/job/checkpoints/1-2\nlooked=4\nforeign=1\n");
    assert_null(strstr(folders->out, "next="));
    assert_int_equal(verb(folders, "scan", "--prefix", "s3://bkt/pre", "--cluster", mark, "--after",
                          "~/t/p/job/checkpoints/1-20", NULL),
                     WORKER_EXIT_OK);
    lying_store_close(store);
    assert_null(strstr(folders->out, "checkpoints/1-1\n"));
    assert_null(strstr(folders->out, "checkpoints/1-2\n"));
    assert_contains(folders->out, " - t/p/job/checkpoints/1-4\nlooked=2\n");
}

static void uploads_come_in_pages_as_objects_do(void **state)
{
    static char text[SCAN_TEXT_BYTES];
    struct lying_store *store = lying_store_open(answer_uploads, text);
    struct scan_found *one = calloc(1, sizeof(*one));
    char after[512] = "";
    size_t pages = 0, count = 0;

    (void)state;
    assert_non_null(one);
    do {
        const struct destination_scan scan = {
            .prefix = "s3://bkt/pre", .mark = mark, .after = after[0] == '\0' ? NULL : after};
        FILE *out = fmemopen(text, sizeof(text), "w");
        struct err err;

        assert_int_equal(scan_run(&destination_s3, &scan, out, &err), 0);
        assert_int_equal(fclose(out), 0);
        for (const char *at = text; scan_read(&at, one);)
            count++;
        if (worker_output_get(text, "next", after, sizeof(after)) != 0)
            after[0] = '\0';
        assert_true(++pages < 10);
    } while (after[0] != '\0');
    lying_store_close(store);
    free(one);
    assert_uint_equal(count, MANY + 1);
    assert_true(pages > 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
    const struct CMUnitTest tests[] = {
        T(what_was_listed_half_way_is_not_told),
        T(what_was_begun_and_has_no_object_is_told),
        T(uploads_come_in_pages_as_objects_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
