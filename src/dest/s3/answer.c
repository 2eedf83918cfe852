/* Status and error code of an answer as one line for people. See answer.h. */
#include "src/dest/s3/answer.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/dest/s3/xml.h"

struct meaning {
    const char *code; /* of the error's document */
    enum err_code err;
    bool passing;
    const char *next_step;
};

/* Ahead of what the status alone says. What a code means to who decides about another try (the
 * error's code), whether waiting may help, and what people can do. */
static const struct meaning meanings[] = {
    {"NoSuchBucket", ERR_UNAVAILABLE, false, "create the bucket: that is never done here"},
    {"InvalidBucketName", ERR_UNAVAILABLE, false,
     "give the target a prefix with a bucket, such as s3://BUCKET/PREFIX"},
    {"NoSuchKey", ERR_NOT_FOUND, false, "check that the path is right"},
    {"NoSuchUpload", ERR_NOT_FOUND, false, "the upload was ended by somebody else"},
    {"QuotaExceeded", ERR_QUOTA, false, "raise the quota or free space, then retry"},
    {"InsufficientStorage", ERR_FULL, false, "free space in the store, then retry"},
    {"XMinioStorageFull", ERR_FULL, false, "free space in the store, then retry"},
    {"EntityTooLarge", ERR_FULL, false, "raise the store's limit of an object's size"},
    {"InvalidAccessKeyId", ERR_AUTH, false, "the store knows no such key: check its credentials"},
    {"SignatureDoesNotMatch", ERR_AUTH, false,
     "check the secret key and the region of the store's credentials"},
    {"ExpiredToken", ERR_AUTH, true, "renew the session of the store's credentials"},
    {"InvalidToken", ERR_AUTH, true, "renew the session of the store's credentials"},
    {"TokenRefreshRequired", ERR_AUTH, true, "renew the session of the store's credentials"},
    {"RequestTimeTooSkewed", ERR_AUTH, true, "set the clocks of this node and of the store"},
    {"UserSuspended", ERR_AUTH, false, "the store's user is suspended: enable it again"},
    {"AuthorizationHeaderMalformed", ERR_AUTH, false, "check the region of the store"},
    {"SlowDown", ERR_BUSY, true, "the store asks for fewer requests"},
    {"RequestTimeout", ERR_TIMEOUT, true, "check the network to the store"},
    {"ConditionalRequestConflict", ERR_BUSY, true,
     "another request writes or removes the same key: retry"},
    {"OperationAborted", ERR_BUSY, true, "another request changes the same thing: retry"},
    {"ConcurrentModification", ERR_BUSY, true, "another request changes the same thing: retry"},
    {"InvalidBucketState", ERR_IO, false, "look at the state of the bucket"},
    {"IncompleteBody", ERR_IO, true, "bytes were lost on the way"},
    {"XAmzContentSHA256Mismatch", ERR_IO, true, "bytes were damaged on the way"},
    {"BadDigest", ERR_IO, true, "bytes were damaged on the way"},
};

/* For answers without a code that is known here: HEAD has no body, some stores leave the message
 * out, and a proxy in between knows nothing of S3 at all. */
static struct meaning meaning_of_status(long status)
{
    if (status >= 500 && status != 501 && status != 507)
        return (struct meaning){"", ERR_IO, true, "check the store, then retry"};
    switch (status) {
    case 401:
    case 403:
        return (struct meaning){"", ERR_AUTH, false,
                                "check the store's credentials and what they may do there"};
    case 404:
        return (struct meaning){"", ERR_NOT_FOUND, false, "check that the path is right"};
    case 412:
        return (struct meaning){"", ERR_REFUSED, false, "look at what lies there"};
    case 301:
    case 302:
    case 307:
    case 308:
        return (struct meaning){"", ERR_UNAVAILABLE, false,
                                "redirects are not followed: give the endpoint and the region of "
                                "the bucket"};
    case 507:
        return (struct meaning){"", ERR_FULL, false, "free space in the store, then retry"};
    case 409:
        return (struct meaning){"", ERR_BUSY, true, "another request is at the same thing: retry"};
    case 408:
    case 429:
        return (struct meaning){"", ERR_BUSY, true, "the store asks for fewer requests"};
    default:
        return (struct meaning){"", ERR_IO, false, "check the endpoint: is it an S3 store?"};
    }
}

/* An error's document is short. */
enum { ERROR_MAX_BYTES = 65536 };

/* Of <Error>. */
struct said {
    char code[64], message[200];
};

/* Both texts are the store's, and are shown to people: without control characters, and cut. */
static int take_said(void *data, const char *path, const char *text)
{
    struct said *said = data;

    if (strcmp(path, "Error/Code") == 0)
        text_shown(text, said->code, sizeof(said->code));
    else if (strcmp(path, "Error/Message") == 0)
        text_shown(text, said->message, sizeof(said->message));
    return 0;
}

/* The end of a long upload may be told after its status was sent: 200, and an error in the body. */
static bool is_yes(long status, const struct said *said)
{
    return status >= 200 && status < 300 && said->code[0] == '\0';
}

/* Nothing where it is no error's document. */
static void read_said(const struct buf *body, struct said *ret_said)
{
    *ret_said = (struct said){"", ""};
    if (body->length < ERROR_MAX_BYTES)
        (void)xml_read(body->bytes, body->length, take_said, ret_said, NULL);
}

int answer_judge(long status, const struct buf *body, const char *what, bool *ret_passing,
                 struct err *err)
{
    struct meaning meaning = meaning_of_status(status);
    struct said said;

    read_said(body, &said);
    if (is_yes(status, &said))
        return 0;
    if (status < 300)
        meaning = meaning_of_status(500);
    for (size_t i = 0; i < ARRAY_COUNT(meanings); i++) {
        if (strcmp(meanings[i].code, said.code) == 0)
            meaning = meanings[i];
    }
    *ret_passing = meaning.passing;
    return err_set(err, meaning.err, "%.200s: status %ld%s%s%s%s; %s", what, status,
                   said.code[0] == '\0' ? "" : " ", said.code, said.message[0] == '\0' ? "" : ": ",
                   said.message, meaning.next_step);
}

bool answer_wants_md5(long status, const struct buf *body)
{
    struct said said;

    if (status != 400)
        return false;
    read_said(body, &said);
    return strcmp(said.code, "MissingContentMD5") == 0 ||
           (strcmp(said.code, "InvalidRequest") == 0 &&
            strcasestr(said.message, "content-md5") != NULL);
}

int answer_missing(int code, const char *text, const char *what, bool *ret_passing, struct err *err)
{
    *ret_passing = true;
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        *ret_passing = false;
        return err_set(err, ERR_AUTH,
                       "%.200s: TLS: %.150s; check the store's certificate and ca_file", what,
                       text);
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(err, ERR_TIMEOUT, "%.200s: %.150s; check the network and the store", what,
                       text);
    default:
        return err_set(err, ERR_UNAVAILABLE, "%.200s: %.150s; check the endpoint and the store",
                       what, text);
    }
}
