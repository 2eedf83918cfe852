/* scan of an object store: what a list that fails half way had told is no checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        what_was_listed_half_way_is_not_told, folders_setup, folders_teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
