/* The messages between a worker and the one who signs for it, and what is signed. See signer.h. */
#include "src/dest/s3/signer.h"

#include <string.h>

#include "src/base/check.h"
#include "src/dest/sha256.h"

void signer_format_store(const struct signer_store *store, struct buf *message)
{
    buf_printf(message, "endpoint=%s\nregion=%s\nstyle=%s\nca_file=%s\n", store->endpoint,
               store->region, store->by_host ? "host" : "path", store->ca_file);
}

void signer_format_request(const struct signer_request *request, struct buf *message)
{
    buf_printf(message, "sign\n%s\n%s\n%s\n%s\n%s\n", request->method, request->bucket,
               request->key, request->query, request->payload_sha256);
    for (size_t i = 0; i < request->header_count; i++)
        buf_printf(message, "%s:%s\n", request->headers[i].name, request->headers[i].value);
}

void signer_format_answer(const struct signer_answer *answer, struct buf *message)
{
    buf_printf(message, "date=%s\nauthorization=%s\ntoken=%s\n", answer->date,
               answer->authorization, answer->token);
}

void signer_format_refusal(const char *why, struct buf *message)
{
    buf_printf(message, "refused=");
    for (const char *c = why; *c != '\0'; c++)
        buf_append(message, *c == '\n' ? " " : c, 1);
    buf_printf(message, "\n");
}

/* Cuts the next line off. NULL: there is none that ends. */
static char *take_line(char **at)
{
    char *line = *at;
    char *end = strchr(line, '\n');

    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

/* The next line's value when it is of this key, else NULL. */
static char *take_value(char **at, const char *key)
{
    size_t length = strlen(key);
    char *line = take_line(at);

    return line != NULL && strncmp(line, key, length) == 0 && line[length] == '='
               ? line + length + 1
               : NULL;
}

/* In the place of any answer. */
static int check_refused(char *message, struct err *err)
{
    char *why;

    if (strncmp(message, "refused=", 8) != 0)
        return 0;
    why = take_value(&message, "refused");
    return err_set(err, ERR_AUTH, "%s", why != NULL ? why : "refused");
}

int signer_parse_store(char *message, struct signer_store *ret_store, struct err *err)
{
    const char *style;

    if (check_refused(message, err) != 0)
        return -1;
    ret_store->endpoint = take_value(&message, "endpoint");
    ret_store->region = ret_store->endpoint == NULL ? NULL : take_value(&message, "region");
    style = ret_store->region == NULL ? NULL : take_value(&message, "style");
    ret_store->ca_file = style == NULL ? NULL : take_value(&message, "ca_file");
    if (ret_store->ca_file == NULL || *message != '\0' ||
        (strcmp(style, "path") != 0 && strcmp(style, "host") != 0))
        return err_set(err, ERR_INVALID, "the description of the store is not understood");
    ret_store->by_host = strcmp(style, "host") == 0;
    return 0;
}

/* One order and one spelling, so that what is signed is what was looked at. */
static int parse_headers(char *at, struct signer_request *request, struct err *err)
{
    while (*at != '\0') {
        char *name = take_line(&at);
        char *colon = name == NULL ? NULL : strchr(name, ':');
        struct sigv4_header *header = &request->headers[request->header_count];

        if (colon == NULL || colon == name || request->header_count == SIGNER_HEADERS_MAX)
            return err_set(err, ERR_INVALID, "a header is no \"name:value\", or one of over %d",
                           SIGNER_HEADERS_MAX);
        *colon = '\0';
        *header = (struct sigv4_header){name, colon + 1};
        for (const char *c = name; *c != '\0'; c++) {
            if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-'))
                return err_set(err, ERR_INVALID, "the header %.64s is not in lower case", name);
        }
        if (request->header_count > 0 && strcmp(header[-1].name, name) >= 0)
            return err_set(err, ERR_INVALID, "the header %.64s is out of order", name);
        request->header_count++;
    }
    return 0;
}

/* Whatever a worker sends is from a process that may be the job's: it is cut into lines and
 * nothing else, and its meaning is for the caller to judge. */
int signer_parse_request(char *message, struct signer_request *ret_request, struct err *err)
{
    struct signer_request request = {0};
    const char **const lines[] = {&request.method, &request.bucket, &request.key, &request.query,
                                  &request.payload_sha256};
    uint8_t digest[SHA256_BYTES];
    const char *verb = take_line(&message);

    if (verb == NULL || strcmp(verb, "sign") != 0)
        return err_set(err, ERR_INVALID, "the request is none to sign");
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        *lines[i] = take_line(&message);
        if (*lines[i] == NULL)
            return err_set(err, ERR_INVALID, "the request has %zu lines instead of 6 or more",
                           i + 1);
    }
    if (strlen(request.payload_sha256) != SHA256_HEX_BYTES - 1 ||
        sha256_parse(request.payload_sha256, digest) != 0)
        return err_set(err, ERR_INVALID, "the payload's hash is no SHA-256 in hex");
    if (parse_headers(message, &request, err) != 0)
        return -1;
    *ret_request = request;
    return 0;
}

int signer_parse_answer(char *message, struct signer_answer *ret_answer, struct err *err)
{
    struct signer_answer answer;

    if (check_refused(message, err) != 0)
        return -1;
    answer.date = take_value(&message, "date");
    answer.authorization = answer.date == NULL ? NULL : take_value(&message, "authorization");
    answer.token = answer.authorization == NULL ? NULL : take_value(&message, "token");
    if (answer.token == NULL || *message != '\0' || strlen(answer.date) != SIGV4_DATE_BYTES - 1)
        return err_set(err, ERR_INVALID, "the signature is not understood");
    *ret_answer = answer;
    return 0;
}

/* A path, a query or a user in it would be sent but not signed, or signed but not sent. */
int signer_check_endpoint(const char *endpoint, struct err *err)
{
    const char *host = strstr(endpoint, "://");
    size_t length;

    if (host != NULL &&
        (strncmp(endpoint, "https://", 8) == 0 || strncmp(endpoint, "http://", 7) == 0)) {
        host += 3;
        length =
            strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]");
        if (length > 0 && host[length] == '\0')
            return 0;
    }
    return err_set(err, ERR_INVALID,
                   "the endpoint \"%.200s\" is not http[s]://HOST[:PORT] with nothing behind it",
                   endpoint);
}

void signer_locate(const struct signer_store *store, const char *bucket, const char *key,
                   struct buf *host, struct buf *path)
{
    const char *name = strstr(store->endpoint, "://");

    CHECK(name != NULL);
    if (store->by_host && *bucket != '\0')
        buf_printf(host, "%s.", bucket);
    buf_printf(host, "%s", name + 3);
    if (!store->by_host && *bucket != '\0')
        buf_printf(path, "/%s", bucket);
    buf_printf(path, "/%s", key);
}

/* What changes what a request does, or who may see what comes of it: a signed PUT of one's own key
 * with x-amz-copy-source, which nobody signed, fetches anybody's object. Sorted. */
static const char *const sealed_names[] = {
    "x-amz-acl",
    "x-amz-bypass-governance-retention",
    "x-amz-copy-source",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
};

/* Puts the names that are not there between those that are. */
static size_t seal_headers(const struct sigv4_header *headers, size_t count,
                           struct sigv4_header *ret_headers)
{
    size_t taken = 0, made = 0;

    for (size_t i = 0; i < ARRAY_COUNT(sealed_names); i++) {
        while (taken < count && strcmp(headers[taken].name, sealed_names[i]) < 0)
            ret_headers[made++] = headers[taken++];
        if (taken == count || strcmp(headers[taken].name, sealed_names[i]) != 0)
            ret_headers[made++] = (struct sigv4_header){sealed_names[i], NULL};
    }
    while (taken < count)
        ret_headers[made++] = headers[taken++];
    return made;
}

/* The own headers between those of the request, sorted. */
static size_t merge_headers(const struct signer_request *request, const char *host,
                            const char *date, const char *token, struct sigv4_header *ret_headers)
{
    const struct sigv4_header own[] = {{"host", host},
                                       {"x-amz-content-sha256", request->payload_sha256},
                                       {"x-amz-date", date},
                                       {"x-amz-security-token", token}};
    size_t own_count = *token == '\0' ? ARRAY_COUNT(own) - 1 : ARRAY_COUNT(own);
    size_t taken = 0, count = 0;

    for (size_t i = 0; i < own_count; i++) {
        while (taken < request->header_count &&
               strcmp(request->headers[taken].name, own[i].name) < 0)
            ret_headers[count++] = request->headers[taken++];
        ret_headers[count++] = own[i];
    }
    while (taken < request->header_count)
        ret_headers[count++] = request->headers[taken++];
    return count;
}

/* What the worker sends and what is signed here are made from the same texts by the same
 * functions; a difference of one byte is a refusal by the store. */
void signer_authorize(const struct signer_store *store, const struct signer_keys *keys,
                      const struct signer_request *request, const char *date,
                      struct buf *authorization)
{
    struct sigv4_header plain[SIGNER_HEADERS_MAX + 4];
    struct sigv4_header headers[ARRAY_COUNT(plain) + ARRAY_COUNT(sealed_names)];
    struct sigv4_request signed_request = {.method = request->method,
                                           .query = request->query,
                                           .headers = headers,
                                           .payload_sha256 = request->payload_sha256,
                                           .date = date,
                                           .region = store->region,
                                           .service = "s3"};
    struct buf host, path;

    buf_init(&host);
    buf_init(&path);
    signer_locate(store, request->bucket, request->key, &host, &path);
    buf_append(&host, "", 1);
    buf_append(&path, "", 1);
    signed_request.path = (const char *)path.bytes;
    signed_request.header_count =
        merge_headers(request, (const char *)host.bytes, date, keys->token, plain);
    if (store->sealed)
        signed_request.header_count = seal_headers(plain, signed_request.header_count, headers);
    else
        memcpy(headers, plain, sizeof(plain));
    sigv4_authorize(&keys->keys, &signed_request, authorization);
    buf_close(&host);
    buf_close(&path);
}

static bool is_upper_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* An encoded byte must be one that has to be encoded: "%2E" would be another spelling of a dot. */
static bool escape_needed(const char *escape)
{
    char byte[2] = {0};
    struct buf encoded;
    bool same;

    if (!is_upper_hex(escape[1]) || !is_upper_hex(escape[2]))
        return false;
    for (size_t i = 1; i <= 2; i++)
        byte[0] =
            (char)(byte[0] * 16 + (escape[i] <= '9' ? escape[i] - '0' : escape[i] - 'A' + 10));
    if (byte[0] == '\0')
        return false;
    buf_init(&encoded);
    sigv4_encode(&encoded, byte, true);
    same = encoded.length == 3 && memcmp(encoded.bytes, escape, 3) == 0;
    buf_close(&encoded);
    return same;
}

bool signer_key_plain(const char *key)
{
    const char *part = key;

    for (const char *c = key;; c++) {
        if (*c == '/' || *c == '\0') {
            size_t length = (size_t)(c - part);
            if (length == 0 || (length == 1 && part[0] == '.') ||
                (length == 2 && part[0] == '.' && part[1] == '.'))
                return false;
            if (*c == '\0')
                return true;
            part = c + 1;
        } else if (*c == '%') {
            if (!escape_needed(c))
                return false;
            c += 2;
        } else if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
                          *c) == NULL) {
            return false;
        }
    }
}
