/* AWS's published examples of Signature Version 4, and the messages by which a worker gets them. */
#include <string.h>

#include "src/base/check.h"
#include "src/dest/s3/signer.h"
#include "tests/support/test.h"

#define EMPTY   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define WELCOME "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
#define HOST    "examplebucket.s3.amazonaws.com"

/* S3 API reference, "Authenticating requests: using the Authorization header", the four examples:
 * of 2013-05-24, in us-east-1. */
struct vector {
    const char *method, *key, *query, *payload;
    struct sigv4_header headers[3];
    const char *signed_names, *signature;
};

static const struct vector s3_vectors[] = {
    {"GET",
     "test.txt",
     "",
     EMPTY,
     {{"range", "bytes=0-9"}},
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT",
     "test$file.text",
     "",
     WELCOME,
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET",
     "",
     "lifecycle=",
     EMPTY,
     {{0}},
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET",
     "",
     "max-keys=2&prefix=J",
     EMPTY,
     {{0}},
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static const struct signer_store amazon = {"https://s3.amazonaws.com", "us-east-1", true, "",
                                           false};
static const struct signer_keys example = {
    {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, ""};

static void the_published_requests_to_s3_are_signed_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(s3_vectors); i++) {
        const struct vector *vector = &s3_vectors[i];
        struct signer_request request = {.method = vector->method,
                                         .bucket = "examplebucket",
                                         .query = vector->query,
                                         .payload_sha256 = vector->payload};
        struct buf key = {0}, got = {0}, expected = {0};

        sigv4_encode(&key, vector->key, true);
        buf_append(&key, "", 1);
        request.key = (const char *)key.bytes;
        for (; vector->headers[request.header_count].name != NULL; request.header_count++)
            request.headers[request.header_count] = vector->headers[request.header_count];
        signer_authorize(&amazon, &example, &request, "20130524T000000Z", &got);
        buf_append(&got, "", 1);
        buf_printf(&expected,
                   "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                   "aws4_request, SignedHeaders=%s, Signature=%s",
                   vector->signed_names, vector->signature);
        buf_append(&expected, "", 1);
        assert_string_equal((const char *)got.bytes, (const char *)expected.bytes);
        buf_close(&key);
        buf_close(&got);
        buf_close(&expected);
    }
}

/* "Signature Version 4 test suite": get-vanilla, get-vanilla-query-order-key-case,
 * get-vanilla-query-unreserved, post-header-key-sort, post-sts-header-before. */
static void the_published_test_suite_is_signed_as_published(void **state)
{
    static const struct sigv4_header vanilla[] = {{"host", "example.amazonaws.com"},
                                                  {"x-amz-date", "20150830T123600Z"}};
    static const struct sigv4_header sorted[] = {{"host", "example.amazonaws.com"},
                                                 {"my-header1", "value1"},
                                                 {"x-amz-date", "20150830T123600Z"}};
    static const struct {
        const char *method, *query;
        const struct sigv4_header *headers;
        size_t header_count;
        const char *signature;
    } vectors[] = {
        {"GET", "", vanilla, 2, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
        {"GET", "Param1=value1&Param2=value2", vanilla, 2,
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
        {"POST", "", vanilla, 2,
         "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
        {"POST", "", sorted, 3, "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    };
    static const struct sigv4_keys keys = {"AKIDEXAMPLE",
                                           "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        const struct sigv4_request request = {.method = vectors[i].method,
                                              .path = "/",
                                              .query = vectors[i].query,
                                              .headers = vectors[i].headers,
                                              .header_count = vectors[i].header_count,
                                              .payload_sha256 = EMPTY,
                                              .date = "20150830T123600Z",
                                              .region = "us-east-1",
                                              .service = "service"};
        struct buf got = {0};

        sigv4_authorize(&keys, &request, &got);
        buf_append(&got, "", 1);
        assert_contains((const char *)got.bytes, vectors[i].signature);
        buf_close(&got);
    }
}

static void a_session_token_is_signed_with_the_request(void **state)
{
    struct signer_keys keys = example;
    const struct signer_request request = {
        .method = "GET", .bucket = "b", .key = "k", .query = "", .payload_sha256 = EMPTY};
    struct buf got = {0};

    (void)state;
    keys.token = "of-a-session";
    signer_authorize(&amazon, &keys, &request, "20130524T000000Z", &got);
    buf_append(&got, "", 1);
    assert_contains((const char *)got.bytes,
                    "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,");
    buf_close(&got);
}

static void a_date_and_a_name_are_written_as_signed(void **state)
{
    char date[SIGV4_DATE_BYTES];
    struct buf got = {0};

    (void)state;
    sigv4_date(1369353600, date);
    assert_string_equal(date, "20130524T000000Z");
    sigv4_encode(&got, "a b/c+d\n\xC3\xA9~", true);
    sigv4_encode(&got, "/", false);
    buf_append(&got, "", 1);
    assert_string_equal((const char *)got.bytes, "a%20b/c%2Bd%0A%C3%A9~%2F");
    buf_close(&got);
}

static void a_store_by_its_path_and_by_its_host(void **state)
{
    const struct signer_store path = {"http://127.0.0.1:8000", "us-east-1", false, "", false};
    struct buf host = {0}, line = {0};

    (void)state;
    signer_locate(&path, "b", "a/k", &host, &line);
    signer_locate(&amazon, "b", "a/k", &host, &line);
    signer_locate(&path, "", "", &host, &line);
    buf_append(&host, "", 1);
    buf_append(&line, "", 1);
    assert_string_equal((const char *)host.bytes, "127.0.0.1:8000b.s3.amazonaws.com127.0.0.1:8000");
    assert_string_equal((const char *)line.bytes, "/b/a/k/a/k/");
    buf_close(&host);
    buf_close(&line);
}

static void messages_are_read_as_they_were_written(void **state)
{
    const struct signer_request request = {.method = "PUT",
                                           .bucket = "b",
                                           .key = "a/k%0A",
                                           .query = "partNumber=1&uploadId=u",
                                           .payload_sha256 = WELCOME,
                                           .headers = {{"if-none-match", "*"}},
                                           .header_count = 1};
    const struct signer_answer answer = {"20130524T000000Z", "AWS4-HMAC-SHA256 x", "t"};
    struct signer_request request_read;
    struct signer_answer answer_read;
    struct signer_store store_read;
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    signer_format_request(&request, &text);
    buf_append(&text, "", 1);
    assert_int_equal(signer_parse_request((char *)text.bytes, &request_read, &err), 0);
    assert_string_equal(request_read.key, "a/k%0A");
    assert_string_equal(request_read.query, "partNumber=1&uploadId=u");
    assert_int_equal(request_read.header_count, 1);
    assert_string_equal(request_read.headers[0].value, "*");
    buf_clear(&text);
    signer_format_answer(&answer, &text);
    buf_append(&text, "", 1);
    assert_int_equal(signer_parse_answer((char *)text.bytes, &answer_read, &err), 0);
    assert_string_equal(answer_read.authorization, "AWS4-HMAC-SHA256 x");
    assert_string_equal(answer_read.token, "t");
    buf_clear(&text);
    signer_format_store(&amazon, &text);
    buf_append(&text, "", 1);
    assert_int_equal(signer_parse_store((char *)text.bytes, &store_read, &err), 0);
    assert_string_equal(store_read.endpoint, amazon.endpoint);
    assert_true(store_read.by_host);
    buf_clear(&text);
    signer_format_refusal("not\nyours", &text);
    buf_append(&text, "", 1);
    assert_int_equal(signer_parse_answer((char *)text.bytes, &answer_read, &err), -1);
    assert_int_equal(err.code, ERR_AUTH);
    assert_string_equal(err.text, "not yours");
    buf_close(&text);
}

static void messages_that_are_none_are_refused(void **state)
{
    static const char *const requests[] = {
        "",
        "store\n",
        "sign\n",
        "sign\nPUT\nb\nk\n\n",
        "sign\nPUT\nb\nk\n\n" WELCOME,
        "sign\nPUT\nb\nk\n\nUNSIGNED-PAYLOAD\n",
        "sign\nPUT\nb\nk\n\n" WELCOME "\nname\n",
        "sign\nPUT\nb\nk\n\n" WELCOME "\nB:1\n",
        "sign\nPUT\nb\nk\n\n" WELCOME "\nb:1\na:1\n",
        "sign\nPUT\nb\nk\n\n" WELCOME "\na:1\na:1\n",
    };
    struct signer_request request;
    char text[256];
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        snprintf(text, sizeof(text), "%s", requests[i]);
        assert_int_equal(signer_parse_request(text, &request, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void a_key_has_one_spelling(void **state)
{
    static const char *const plain[] = {"a", "a/b.c", "..a/.b", "a%20b", "%C3%A9", "a~/%0A"};
    static const char *const other[] = {"",    "/a",  "a/",  "a//b", "a/./b", "../a", "a/..",
                                        "a b", "%2e", "%2E", "%2F",  "%41",   "%0a",  "%",
                                        "a%2", "%00", "a?b", "a#b",  "a+b",   "%7E"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++)
        assert_true(signer_key_plain(plain[i]));
    for (size_t i = 0; i < ARRAY_COUNT(other); i++)
        assert_false(signer_key_plain(other[i]));
}

static void an_endpoint_is_a_host_and_nothing_behind_it(void **state)
{
    static const char *const right[] = {"https://s3.example", "http://127.0.0.1:9000",
                                        "https://[::1]:9000"};
    static const char *const wrong[] = {"",           "s3.example",  "ftp://a",     "https://",
                                        "https://a/", "https://a/b", "https://u@h", "https://a?b"};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(right); i++)
        assert_int_equal(signer_check_endpoint(right[i], &err), 0);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(signer_check_endpoint(wrong[i], &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_requests_to_s3_are_signed_as_published),
        cmocka_unit_test(the_published_test_suite_is_signed_as_published),
        cmocka_unit_test(a_session_token_is_signed_with_the_request),
        cmocka_unit_test(a_date_and_a_name_are_written_as_signed),
        cmocka_unit_test(a_store_by_its_path_and_by_its_host),
        cmocka_unit_test(messages_are_read_as_they_were_written),
        cmocka_unit_test(messages_that_are_none_are_refused),
        cmocka_unit_test(a_key_has_one_spelling),
        cmocka_unit_test(an_endpoint_is_a_host_and_nothing_behind_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
