/* Requests to sign, by a worker that is its user's. Whatever is signed is of the task: its bucket,
 * its part for what changes something, its allocation's checkpoints for what reads; and no answer
 * has the secret key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/s3/sign_server.h"
#include "src/dest/s3/stores.h"

#define SECRET "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
#define EMPTY  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SHARED "a/acme/heat/j1/checkpoints/"
#define OWN    SHARED "1-7/part-0001/"

enum { VERBS = 4, ARGUMENTS = 9 };

static const char *const tasks[VERBS][ARGUMENTS] = {
    {"put", "--prefix", "s3://bkt/a", "--path", "s3://bkt/" SHARED "1-7", "--part", "part-0001"},
    {"restore", "--prefix", "s3://bkt/a", "--path", "s3://bkt/" SHARED "1-7", "--part",
     "part-0001"},
    {"abandon", "--prefix", "s3://bkt/a", "--path", "s3://bkt/" SHARED "1-7", "--part",
     "part-0001"},
    {"retain", "--prefix", "s3://bkt/a", "--path", "s3://bkt/" SHARED "1-7", "--part", "part-0001"},
};
static void *servers[VERBS];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void open_servers(void)
{
    static char name[] = "main", endpoint[] = "http://127.0.0.1:1", region[] = "us-east-1",
                style[] = "path", none[] = "", buckets[] = "*";
    const struct s3_store_item item = {name, endpoint, region,  style, none,
                                       none, none,     buckets, true};

    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    CHECK(s3_stores_open(&item, 1, NULL, NULL) == 0);
    for (size_t i = 0; i < VERBS; i++)
        servers[i] = s3_sign_server.open(tasks[i]);
}

/* The line of that number, without its end. */
static const char *line_of(const char *text, size_t number, char *ret_line, size_t size)
{
    while (number-- > 0)
        text += strcspn(text, "\n") + 1;
    snprintf(ret_line, size, "%.*s", (int)strcspn(text, "\n"), text);
    return ret_line;
}

static bool begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* By another way than the scope's own. */
static void check_signed(size_t verb, const char *request)
{
    char method[64], bucket[128], key[4096], query[4096];
    const char *prefix;

    line_of(request, 1, method, sizeof(method));
    line_of(request, 2, bucket, sizeof(bucket));
    line_of(request, 3, key, sizeof(key));
    line_of(request, 4, query, sizeof(query));
    CHECK(verb != 3); /* it has no business with a store */
    CHECK(strcmp(bucket, "bkt") == 0);
    CHECK(strstr(key, "/../") == NULL);
    CHECK(strstr(key, "//") == NULL);
    if (strcmp(method, "GET") == 0 && key[0] == '\0') {
        prefix = strstr(query, "prefix=");
        CHECK(prefix != NULL);
        CHECK(begins(prefix, "prefix=a%2Facme%2Fheat%2Fj1%2Fcheckpoints%2F"));
        CHECK(verb == 0 || begins(prefix, "prefix=a%2Facme%2Fheat%2Fj1%2Fcheckpoints%2F1-7%2Fpart-"
                                          "0001%2F"));
        return;
    }
    if (strcmp(method, "HEAD") == 0 && key[0] == '\0')
        return; /* whether the bucket is there */
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        CHECK(begins(key, verb == 0 ? SHARED : OWN));
        return;
    }
    CHECK(begins(key, OWN));
    CHECK(verb == 0 || (verb == 2 && strcmp(method, "DELETE") == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static char answer[SERVE_MESSAGE_BYTES + 1], request[SERVE_MESSAGE_BYTES + 1];
    size_t verb, said;

    if (servers[0] == NULL)
        open_servers();
    if (length == 0 || length > SERVE_MESSAGE_BYTES)
        return 0;
    verb = bytes[0] % VERBS;
    memcpy(request, bytes + 1, length - 1);
    request[length - 1] = '\0';
    said = s3_sign_server.answer(servers[verb], request, length - 1, answer);
    CHECK(said > 0 && said <= SERVE_MESSAGE_BYTES);
    answer[said] = '\0';
    CHECK(strlen(answer) == said);
    CHECK(answer[said - 1] == '\n');
    /* a refusal repeats what was asked, and a fuzzer finds the key where it is compared */
    CHECK(strstr(answer, SECRET) == NULL || strstr(request, SECRET) != NULL);
    if (begins(answer, "date="))
        check_signed(verb, request);
    else
        CHECK(begins(answer, "refused=") || begins(answer, "endpoint="));
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const requests[] = {
        "\0store\n",
        "\0sign\nPUT\nbkt\n" OWN "f/model.bin\n\n" EMPTY "\nif-none-match:*\n",
        "\0sign\nPUT\nbkt\n" OWN "f/model.bin\npartNumber=1&uploadId=x\n" EMPTY "\n",
        "\0sign\nPUT\nbkt\n" OWN "f/m\n\n" EMPTY "\nx-amz-copy-source:bkt/" SHARED "1-6/p/f/m\n",
        "\0sign\nGET\nbkt\n" SHARED "1-6/part-0001/f/model.bin\n\n" EMPTY "\nrange:bytes=0-7\n",
        "\0sign\nGET\nbkt\n\nlist-type=2&prefix=a%2Facme%2Fheat%2Fj1%2Fcheckpoints%2F1-7%2F"
        "part-0001%2F\n" EMPTY "\n",
        "\1sign\nGET\nbkt\n" OWN "f/model.bin\n\n" EMPTY "\n",
        "\1sign\nHEAD\nbkt\n\n\n" EMPTY "\n",
        "\2sign\nDELETE\nbkt\n" OWN "f/model.bin\n\n" EMPTY "\n",
        "\3sign\nGET\nbkt\n" OWN "f/model.bin\n\n" EMPTY "\n",
    };
    size_t length;

    if (i >= sizeof(requests) / sizeof(requests[0]))
        return 0;
    length = 1 + strlen(requests[i] + 1);
    CHECK(length <= size);
    memcpy(bytes, requests[i], length);
    return length;
}
