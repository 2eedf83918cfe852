/* What a worker of an object store may have signed, asked by one that wants more, as whoever takes
 * it over would. */
#include "src/dest/s3/scope.h"

#include "src/base/check.h"
#include "tests/support/test.h"

#define BASE   "ckpt/acme/heat/j1/checkpoints/1-7"
#define PATH   "s3://bkt/" BASE
#define EMPTY  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define FOLDER "prefix=ckpt%2Facme%2Fheat%2Fj1%2Fcheckpoints%2F"

static const char *const put[] = {"put",       "--prefix", "s3://bkt/ckpt", "--path",
                                  PATH,        "--part",   "part-0001",     "--source",
                                  "/work/out", "--as",     "1000:1000",     NULL};
static const char *const verify[] = {"verify", "--path", PATH, "--part", "part-0001", NULL};
static const char *const restore[] = {
    "restore",  "--path",        PATH,   "--part",        "part-0001",
    "--prefix", "s3://bkt/ckpt", "--to", "/work/restore", NULL};
static const char *const collect[] = {"collect", "--prefix", "s3://bkt/ckpt", "--path", PATH, NULL};
static const char *const abandon[] = {"abandon", "--prefix", "s3://bkt/ckpt", "--path",
                                      PATH,      "--part",   "part-0001",     NULL};
static const char *const probe[] = {"probe", "--prefix", "s3://bkt/ckpt", NULL};
static const char *const scan[] = {
    "scan", "--prefix", "s3://bkt/ckpt", "--cluster", "00..01ab", "--after", "x", NULL};
static const char *const scan_all[] = {"scan", "--prefix", "s3://", "--cluster", "00..01ab", NULL};
static const char *const probe_all[] = {"probe", "--prefix", "s3://", NULL};

static struct err err;

struct ask {
    const char *method, *key, *query;
};

static bool allows_request(const char *const *arguments, const struct signer_request *request)
{
    struct scope scope;

    assert_int_equal(scope_of(arguments, &scope, &err), 0);
    err = (struct err){.code = ERR_NONE};
    if (scope_allows(&scope, request, &err) == 0)
        return true;
    assert_int_equal(err.code, ERR_REFUSED);
    return false;
}

static bool allows(const char *const *arguments, const char *method, const char *key,
                   const char *query)
{
    const struct signer_request request = {
        .method = method, .bucket = "bkt", .key = key, .query = query, .payload_sha256 = EMPTY};

    return allows_request(arguments, &request);
}

static void a_put_gets_what_it_needs(void **state)
{
    static const struct ask asks[] = {
        {"PUT", BASE "/part-0001/0123456789abcdef/model.bin", ""},
        {"PUT", BASE "/part-0001/a%20b%25", "partNumber=1&uploadId=x~y"},
        /* how many parts the store takes */
        {"POST", BASE "/part-0001/0123456789abcdef-0000000000000000/MANIFEST", "uploads="},
        {"PUT", BASE "/part-0001/0123456789abcdef-0000000000000000/MANIFEST",
         "partNumber=10000&uploadId=x"},
        {"DELETE", BASE "/part-0001/0123456789abcdef-0000000000000000/MANIFEST", "uploadId=x"},
        {"POST", BASE "/part-0001/a", "uploads="},
        {"POST", BASE "/part-0001/a", "uploadId=x"},
        {"GET", BASE "/part-0001/a", "uploadId=x"},
        {"GET", BASE "/part-0001/a", "max-parts=10&part-number-marker=1&uploadId=x"},
        {"HEAD", BASE "/part-0001/a", ""},
        {"DELETE", BASE "/part-0001/a", ""},
        {"DELETE", BASE "/part-0001/a", "uploadId=x"},
        {"GET", "", "delimiter=%2F&list-type=2&" FOLDER "1-7%2Fpart-0001%2F"},
        {"GET", "", FOLDER "1-7%2Fpart-0001%2F&uploads="},
        /* what has not changed since an earlier checkpoint of the allocation */
        {"GET", "ckpt/acme/heat/j1/checkpoints/1-6/part-0001/f/MANIFEST", ""},
        {"GET", "", "list-type=2&" FOLDER},
        {"HEAD", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(asks); i++) {
        if (!allows(put, asks[i].method, asks[i].key, asks[i].query))
            fail_msg("%s %s?%s: %s", asks[i].method, asks[i].key, asks[i].query, err.text);
    }
}

static void expect_refused(const struct ask *asks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (allows(put, asks[i].method, asks[i].key, asks[i].query))
            fail_msg("%s %s?%s was allowed", asks[i].method, asks[i].key, asks[i].query);
        assert_true(strlen(err.text) > 10);
    }
}

static void a_put_gets_no_keys_of_others(void **state)
{
    static const struct ask asks[] = {
        /* others' keys */
        {"GET", "ckpt/acme/heat/j2/checkpoints/1-7/part-0001/a", ""},
        {"PUT", "ckpt/acme/heat/j1/checkpoints/1-6/part-0001/a", ""},
        {"DELETE", "ckpt/acme/heat/j1/checkpoints/1-6/part-0001/a", ""},
        {"PUT", BASE "/part-0002/a", ""},
        {"PUT", BASE "/part-00010/a", ""},
        {"PUT", BASE "/part-0001", ""},
        {"PUT", BASE "/MANIFEST", ""},
        {"PUT", "other", ""},
        {"GET", "ckpt/acme/heat/j1/checkpointsx/1-6/a", ""},
        /* ways around */
        {"PUT", BASE "/part-0001/../part-0002/a", ""},
        {"PUT", BASE "/part-0001/./a", ""},
        {"PUT", BASE "/part-0001//a", ""},
        {"PUT", BASE "/part-0001/", ""},
        {"PUT", BASE "/part-0001/..", ""},
        {"PUT", BASE "/part-0001/%2E%2E/a", ""},
        {"PUT", BASE "/part-0001/%2e%2e/a", ""},
        {"PUT", BASE "/part-0001/..%2Fpart-0002%2Fa", ""},
        {"PUT", BASE "/part-0001%2Fa", ""},
        {"PUT", BASE "/part-0001/a%2Fb", ""},
        {"PUT", BASE "/part-0001/a%00", ""},
        {"PUT", BASE "/part-0001/a%", ""},
        {"PUT", BASE "/part-0001/a?acl", ""},
        {"PUT", BASE "/part-0001/a b", ""},
        {"PUT", "/" BASE "/part-0001/a", ""},
    };

    (void)state;
    expect_refused(asks, ARRAY_COUNT(asks));
}

static void a_put_gets_no_other_operations(void **state)
{
    static const struct ask asks[] = {
        {"PUT", BASE "/part-0001/a", "acl="},
        {"PUT", BASE "/part-0001/a", "acl"},
        {"PUT", BASE "/part-0001/a", "tagging="},
        {"PUT", BASE "/part-0001/a", "retention="},
        {"PUT", BASE "/part-0001/a", "partNumber=1"},
        {"PUT", BASE "/part-0001/a", "partNumber=1&uploadId=x&uploadId=y"},
        {"PUT", BASE "/part-0001/a", "acl=&partNumber=1&uploadId=x"},
        {"PUT", BASE "/part-0001/a", "&"},
        {"PUT", BASE "/part-0001/a", "=x"},
        {"POST", BASE "/part-0001/a", ""},
        {"POST", BASE "/part-0001/a", "restore="},
        {"POST", BASE "/part-0001/a", "select=&select-type=2"},
        {"GET", BASE "/part-0001/a", "acl="},
        {"GET", BASE "/part-0001/a", "versionId=x"},
        {"DELETE", BASE "/part-0001/a", "versionId=x"},
        {"PATCH", BASE "/part-0001/a", ""},
        {"OPTIONS", BASE "/part-0001/a", ""},
        {"put", BASE "/part-0001/a", ""},
        {"", BASE "/part-0001/a", ""},
        /* the bucket */
        {"PUT", "", ""},
        {"DELETE", "", ""},
        {"GET", "", ""},
        {"POST", "", "delete="},
        {"GET", "", "policy="},
        {"PUT", "", "policy="},
        {"PUT", "", "lifecycle="},
        {"GET", "", "versions="},
        {"GET", "", "list-type=2"},
        {"GET", "", "list-type=2&prefix="},
        {"GET", "", "list-type=2&prefix=ckpt%2Facme%2F"},
        {"GET", "", "list-type=2&prefix=ckpt%2Facme%2Fheat%2Fj1%2Fcheckpoints"},
        {"GET", "", "list-type=2&" FOLDER "..%2F..%2Fj2%2F"},
        {"GET", "", "list-type=2&prefix=ckpt/acme/heat/j1/checkpoints/1-7/"},
        {"GET", "", FOLDER "&list-type=2&prefix=x"},
        {"GET", "", "list-type=2&prefix=%2"},
        {"GET", "", "prefix=&uploads="},
    };

    (void)state;
    expect_refused(asks, ARRAY_COUNT(asks));
}

static void each_task_gets_its_own(void **state)
{
    static const char key[] = BASE "/part-0001/f/a";
    static const char listing[] = "list-type=2&" FOLDER "1-7%2Fpart-0001%2F";

    (void)state;
    assert_true(allows(verify, "GET", key, ""));
    assert_true(allows(restore, "GET", key, ""));
    assert_true(allows(restore, "GET", "", listing));
    assert_false(allows(verify, "PUT", key, ""));
    assert_false(allows(restore, "PUT", key, ""));
    assert_false(allows(restore, "DELETE", key, ""));
    assert_false(allows(restore, "POST", key, "uploads="));
    assert_false(allows(restore, "GET", "ckpt/acme/heat/j1/checkpoints/1-6/part-0001/a", ""));
    assert_true(allows(abandon, "DELETE", key, ""));
    assert_true(allows(abandon, "DELETE", key, "uploadId=x"));
    assert_false(allows(abandon, "PUT", key, ""));
    assert_true(allows(collect, "DELETE", key, ""));
    assert_true(allows(collect, "DELETE", BASE "/part-0002/a", ""));
    assert_true(allows(collect, "GET", "", "list-type=2&" FOLDER "1-7%2F"));
    assert_false(allows(collect, "GET", "", "list-type=2&" FOLDER "1-7"));
    assert_false(allows(collect, "DELETE", "ckpt/acme/heat/j1/checkpoints/1-70/part-0001/a", ""));
    assert_false(allows(collect, "PUT", key, ""));
    assert_true(allows(probe, "PUT", "ckpt/.probe.0123", ""));
    assert_true(allows(probe, "DELETE", "ckpt/.probe.0123", ""));
    assert_true(allows(probe, "GET", "", "list-type=2&prefix=ckpt%2F.probe"));
    assert_false(allows(probe, "GET", "", "list-type=2&prefix=ckpt%2F"));
    assert_false(allows(probe, "PUT", "ckpt/acme/x", ""));
    assert_false(allows(probe, "GET", key, ""));
}

static void another_bucket_is_refused(void **state)
{
    static const char *const buckets[] = {"bkt2", "bk", "", "BKT", "bkt/ckpt", "bkt.evil"};
    struct signer_request request = {
        .method = "PUT", .key = BASE "/part-0001/a", .query = "", .payload_sha256 = EMPTY};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(buckets); i++) {
        request.bucket = buckets[i];
        assert_false(allows_request(put, &request));
    }
    request = (struct signer_request){
        .method = "GET", .bucket = "", .key = "", .query = "", .payload_sha256 = EMPTY};
    assert_false(allows_request(put, &request)); /* all buckets' names */
    assert_false(allows_request(probe, &request));
    assert_true(allows_request(probe_all, &request));
    request.bucket = "bkt";
    assert_false(allows_request(probe_all, &request));
}

/* What lies there is listed, by whom the daemon itself has started. */
static void a_scan_lists_and_of_all_buckets_does_no_more(void **state)
{
    static const char all[] = "encoding-type=url&list-type=2&prefix=";
    struct signer_request request = {
        .method = "GET", .bucket = "bkt", .key = "", .query = all, .payload_sha256 = EMPTY};

    (void)state;
    assert_true(allows(scan, "GET", "", "list-type=2&prefix=ckpt%2F"));
    assert_true(allows(scan, "GET", "", "list-type=2&prefix=ckpt%2F&start-after=ckpt%2Fa0"));
    assert_false(allows_request(scan, &request)); /* beside its prefix */
    assert_false(allows(scan, "PUT", BASE "/part-0001/a", ""));
    assert_false(allows(scan, "DELETE", BASE "/part-0001/a", ""));
    request.bucket = "other";
    assert_false(allows_request(scan, &request));
    assert_true(allows_request(scan_all, &request));
    request.query = "";
    request.key = "a/b";
    assert_false(allows_request(scan_all, &request));
    request.method = "DELETE";
    assert_false(allows_request(scan_all, &request));
    request = (struct signer_request){
        .method = "GET", .bucket = "", .key = "", .query = "", .payload_sha256 = EMPTY};
    assert_true(allows_request(scan_all, &request)); /* the buckets' names */
    assert_false(allows_request(scan, &request));
}

static bool allows_header(const char *name, const char *value)
{
    const struct signer_request request = {.method = "PUT",
                                           .bucket = "bkt",
                                           .key = BASE "/part-0001/a",
                                           .query = "",
                                           .payload_sha256 = EMPTY,
                                           .headers = {{name, value}},
                                           .header_count = 1};

    return allows_request(put, &request);
}

static void headers_are_those_of_a_copy_at_most(void **state)
{
    static const char *const refused[] = {"x-amz-acl",
                                          "x-amz-grant-read",
                                          "x-amz-tagging",
                                          "x-amz-website-redirect-location",
                                          "x-amz-security-token",
                                          "x-amz-date",
                                          "x-amz-content-sha256",
                                          "host",
                                          "authorization",
                                          "x-amz-server-side-encryption-customer-key",
                                          "x-amz-bypass-governance-retention",
                                          "x-forwarded-host",
                                          ""};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++)
        assert_false(allows_header(refused[i], "x"));
    assert_true(allows_header("if-none-match", "*"));
    assert_true(allows_header("range", "bytes=0-1"));
    assert_true(allows_header("x-amz-copy-source", "/bkt/" BASE "/part-0001/a"));
    assert_true(
        allows_header("x-amz-copy-source", "bkt/ckpt/acme/heat/j1/checkpoints/1-6/part-0001/f/a"));
    assert_false(
        allows_header("x-amz-copy-source", "/bkt/ckpt/acme/heat/j2/checkpoints/1-6/part-0001/f/a"));
    assert_false(allows_header("x-amz-copy-source", "/bkt2/" BASE "/part-0001/a"));
    assert_false(allows_header("x-amz-copy-source", "/bkt/" BASE "/../../../j2/a"));
    assert_false(allows_header("x-amz-copy-source", "/bkt/" BASE "/%2E%2E/%2E%2E/j2/a"));
    assert_false(allows_header("x-amz-copy-source", "/bkt/" BASE "%2F..%2F..%2Fj2/a"));
    assert_false(allows_header("x-amz-copy-source", "/bkt/" BASE "/part-0001/a?versionId=x"));
    assert_false(allows_header("x-amz-copy-source", "//bkt/" BASE "/part-0001/a"));
    assert_false(allows_header("x-amz-copy-source", ""));
}

static void headers_come_in_order(void **state)
{
    struct signer_request request = {.method = "PUT",
                                     .bucket = "bkt",
                                     .key = BASE "/part-0001/a",
                                     .query = "",
                                     .payload_sha256 = EMPTY,
                                     .headers = {{"range", "x"}, {"if-match", "y"}},
                                     .header_count = 2};

    (void)state;
    assert_false(allows_request(put, &request));
    request.headers[1] = request.headers[0];
    assert_false(allows_request(put, &request));
}

static void a_payload_is_signed_by_its_hash(void **state)
{
    static const char *const payloads[] = {"UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
                                           "", "e3b0", EMPTY "0"};
    struct signer_request request = {
        .method = "PUT", .bucket = "bkt", .key = BASE "/part-0001/a", .query = ""};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(payloads); i++) {
        request.payload_sha256 = payloads[i];
        assert_false(allows_request(put, &request));
    }
}

static void a_task_that_is_none_has_no_scope(void **state)
{
    static const char *const none[][8] = {
        {"sweep", "--path", PATH, NULL},
        {"look", "--path", PATH, NULL},
        {"put", "--path", "/posix/x", "--part", "p", NULL},
        {"put", "--path", PATH, NULL},
        {"put", "--path", PATH, "--part", "..", NULL},
        {"put", "--path", PATH, "--part", "a/b", NULL},
        {"put", "--path", PATH, "--part", "", NULL},
        {"put", "--path", "s3://bkt/a/../b", "--part", "p", NULL},
        {"put", "--path", "s3://bkt/ckpt", "--part", "p", NULL},
        {"put", "--path", "s3:///a/b", "--part", "p", NULL},
        {"collect", "--prefix", "s3://bkt/other", "--path", PATH, NULL},
        {"collect", "--prefix", "s3://bk/ckpt", "--path", PATH, NULL},
        {"collect", "--prefix", "s3://bkt/ck", "--path", PATH, NULL},
        {"probe", NULL},
    };
    struct scope scope;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        if (scope_of(none[i], &scope, &err) == 0)
            fail_msg("task %zu has a scope", i);
        assert_int_equal(err.code, ERR_REFUSED);
    }
}

/* A tenant's bucket is the first part of the path. */
static void with_a_bucket_for_each_tenant_the_path_has_it(void **state)
{
    static const char *const own[] = {
        "put",    "--prefix",  "s3://", "--path", "s3://acme/heat/j1/checkpoints/1-7",
        "--part", "part-0001", NULL};
    struct signer_request request = {.method = "PUT",
                                     .bucket = "acme",
                                     .key = "heat/j1/checkpoints/1-7/part-0001/a",
                                     .query = "",
                                     .payload_sha256 = EMPTY};

    (void)state;
    assert_true(allows_request(own, &request));
    request.bucket = "other";
    assert_false(allows_request(own, &request));
}

/* A note that somebody else wrote would keep the cluster from its target. */
static void notes_of_the_own_cluster_are_read_and_written_by_the_leader_alone(void **state)
{
#define NOTE "ckpt/.cluster.00000000000000a1.00000000000000000007"
    static const char *const claimed[][10] = {
        {"put", "--prefix", "s3://bkt/ckpt", "--path", PATH, "--part", "part-0001", "--cluster",
         "00000000000000a1@6", NULL},
        {"abandon", "--prefix", "s3://bkt/ckpt", "--path", PATH, "--part", "part-0001", "--cluster",
         "00000000000000a1@6", NULL},
        {"collect", "--prefix", "s3://bkt/ckpt", "--path", PATH, "--cluster", "00000000000000a1@6",
         NULL},
        {"probe", "--prefix", "s3://bkt/ckpt", "--cluster", "00000000000000a1@6", NULL},
    };
    static const char *const wrong[] = {"probe",     "--prefix", "s3://bkt/ckpt",
                                        "--cluster", "a1",       NULL};
    struct scope scope;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(claimed); i++) {
        assert_true(allows(claimed[i], "GET", NOTE, ""));
        assert_true(
            allows(claimed[i], "GET", "", "list-type=2&prefix=ckpt%2F.cluster.00000000000000a1."));
        assert_int_equal(allows(claimed[i], "PUT", NOTE, ""), i >= 2);
        assert_false(allows(claimed[i], "DELETE", NOTE, ""));
        assert_false(allows(claimed[i], "GET", "ckpt/.cluster.00000000000000b2.1", ""));
        assert_false(allows(claimed[i], "GET", "", "list-type=2&prefix=ckpt%2F.cluster."));
        assert_false(allows(claimed[i], "GET", "other/.cluster.00000000000000a1.1", ""));
    }
    assert_false(allows(put, "GET", NOTE, ""));
    assert_false(allows(probe, "GET", NOTE, ""));
    assert_int_equal(scope_of(wrong, &scope, &err), -1);
#undef NOTE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_gets_what_it_needs),
        cmocka_unit_test(a_put_gets_no_keys_of_others),
        cmocka_unit_test(a_put_gets_no_other_operations),
        cmocka_unit_test(each_task_gets_its_own),
        cmocka_unit_test(another_bucket_is_refused),
        cmocka_unit_test(a_scan_lists_and_of_all_buckets_does_no_more),
        cmocka_unit_test(headers_are_those_of_a_copy_at_most),
        cmocka_unit_test(headers_come_in_order),
        cmocka_unit_test(a_payload_is_signed_by_its_hash),
        cmocka_unit_test(a_task_that_is_none_has_no_scope),
        cmocka_unit_test(with_a_bucket_for_each_tenant_the_path_has_it),
        cmocka_unit_test(notes_of_the_own_cluster_are_read_and_written_by_the_leader_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
