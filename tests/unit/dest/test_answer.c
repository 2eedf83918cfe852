/* What the answers of stores mean: measured ones of Ceph 16 and Swift 2.30, and those of Amazon's
 * documents. */
#include <stdio.h>
#include <string.h>

#include "src/dest/s3/answer.h"
#include "tests/support/test.h"

#define ERROR(code, message)                                                                       \
    "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>" message "</Message></Error>"

static const struct {
    long status;
    const char *body;
    enum err_code code; /* ERR_NONE: it says yes */
    bool passing;
    const char *said;
} answers[] = {
    {200, "", ERR_NONE, false, NULL},
    {204, "", ERR_NONE, false, NULL},
    {200, "<ListBucketResult/>", ERR_NONE, false, NULL},
    /* the end of a long upload: the status was sent before */
    {200, ERROR("InternalError", "again"), ERR_IO, true, "InternalError: again"},
    {200, ERROR("SlowDown", ""), ERR_BUSY, true, "SlowDown; the store asks"},
    /* blanks, by which a store says that it is still at it */
    {200, "  \n\r\n" ERROR("InternalError", ""), ERR_IO, true, "InternalError"},
    {200, " \n ", ERR_NONE, false, NULL},
    /* a hash that is missing or wrong: Ceph, then Swift */
    {403, ERROR("XAmzContentSHA256Mismatch", ""), ERR_IO, true, "damaged on the way"},
    {400, ERROR("XAmzContentSHA256Mismatch", ""), ERR_IO, true, "damaged on the way"},
    {400, ERROR("BadDigest", "The Content-MD5 you specified"), ERR_IO, true, "BadDigest: The"},
    /* a key that is not known: Ceph without a message, then Swift */
    {403, ERROR("InvalidAccessKeyId", ""), ERR_AUTH, false, "InvalidAccessKeyId; the store knows"},
    {403, ERROR("SignatureDoesNotMatch", "wrong"), ERR_AUTH, false, "check the secret key"},
    {403, "", ERR_AUTH, false, "status 403; check the store's credentials"},
    {403, ERROR("UserSuspended", ""), ERR_AUTH, false, "is suspended"},
    {400, ERROR("ExpiredToken", "old"), ERR_AUTH, true, "renew the session"},
    {403, ERROR("RequestTimeTooSkewed", ""), ERR_AUTH, true, "clocks"},
    {403, ERROR("QuotaExceeded", ""), ERR_QUOTA, false, "raise the quota"},
    {507, "", ERR_FULL, false, "free space"},
    {507, ERROR("InsufficientStorage", ""), ERR_FULL, false, "free space"},
    {404, ERROR("NoSuchBucket", ""), ERR_UNAVAILABLE, false, "create the bucket"},
    /* another writer of the same key, or a change of the bucket: the next try finds it over */
    {409, ERROR("ConditionalRequestConflict", "busy"), ERR_BUSY, true, "another request"},
    {409, ERROR("OperationAborted", ""), ERR_BUSY, true, "another request"},
    {409, ERROR("ConcurrentModification", ""), ERR_BUSY, true, "another request"},
    {409, "", ERR_BUSY, true, "another request"},
    {409, ERROR("InvalidBucketState", ""), ERR_IO, false, "bucket"},
    {400, ERROR("IncompleteBody", "fewer bytes"), ERR_IO, true, "lost on the way"},
    {404, ERROR("NoSuchUpload", ""), ERR_NOT_FOUND, false, "ended by somebody else"},
    {404, "", ERR_NOT_FOUND, false, "status 404"},
    {412, ERROR("PreconditionFailed", ""), ERR_REFUSED, false, "412"},
    {501, ERROR("NotImplemented", ""), ERR_IO, false, "501"},
    {301, ERROR("PermanentRedirect", ""), ERR_UNAVAILABLE, false, "redirects are not followed"},
    {503, "<html>no</html>", ERR_IO, true, "status 503; check the store"},
    {429, "", ERR_BUSY, true, "fewer requests"},
    {400, "<Error><Code>Bro", ERR_IO, false, "is it an S3 store?"},
    /* what is shown to people has no control characters */
    {500, ERROR("Odd", "a\x1b[2Jb"), ERR_IO, true, "Odd"},
};

static void each_answer_means_what_its_store_means_by_it(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct buf body = {0};
        struct err err = {0};
        bool passing = false;
        int result;

        buf_append(&body, answers[i].body, strlen(answers[i].body));
        result = answer_judge(answers[i].status, &body, "PUT s3://b/k", &passing, &err);
        buf_close(&body);
        if (result != (answers[i].code == ERR_NONE ? 0 : -1) || err.code != answers[i].code ||
            passing != answers[i].passing)
            fail_msg("%zu: %ld %s: %s, passing %d", i, answers[i].status, answers[i].body, err.text,
                     passing);
        assert_null(strchr(err.text, '\x1b'));
        if (answers[i].said != NULL)
            assert_contains(err.text, answers[i].said);
    }
}

/* Of Object Lock: Amazon, MinIO, and what is something else. */
static void a_demand_for_a_checksum_is_told_from_other_refusals(void **unused)
{
    static const struct {
        long status;
        const char *body;
        bool wants;
    } cases[] = {
        {400,
         ERROR("InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put "
                                 "Object requests with Object Lock parameters"),
         true},
        {400, ERROR("MissingContentMD5", ""), true},
        {400, ERROR("InvalidRequest", "Missing required header: content-md5"), true},
        {400, ERROR("InvalidRequest", "no such thing"), false},
        {400, ERROR("BadDigest", "The Content-MD5 you specified did not match"), false},
        {403, ERROR("AccessDenied", "Content-MD5"), false},
        {400, "", false},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf body = {0};

        buf_append(&body, cases[i].body, strlen(cases[i].body));
        if (answer_wants_md5(cases[i].status, &body) != cases[i].wants)
            fail_msg("%zu: %s", i, cases[i].body);
        buf_close(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_means_what_its_store_means_by_it),
        cmocka_unit_test(a_demand_for_a_checksum_is_told_from_other_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
