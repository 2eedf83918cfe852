/* See scope.h.
 *
 * Flow     scope_of() finds the task's row by the verb and makes its places of the path and the
 *          part. scope_allows() asks in this order: is it an operation of the table at all; is the
 *          payload hashed; is it the task's bucket; is the key spelt in the one way that counts; is
 *          it in a place of the task, and may that be done there; are the headers harmless.
 * Shapes   keys are compared as texts: signer_key_plain() lets one spelling of a key pass, so two
 *          keys are the same exactly when their texts are.
 *          What is not in a table is refused, so that an operation that S3 gets tomorrow is not
 *          signed because nobody thought of it.
 */
#include "src/dest/s3/scope.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/mark.h"

#define SCHEME "s3://"

enum { READ = 1, WRITE = 2, REMOVE = 4 };

/* ---- the task ---- */

struct task {
    const char *verb;
    unsigned may;
    /* where its own place is: the part's, the whole checkpoint's, the probe's, or all of it */
    enum { PART_PLACE, CHECKPOINT_PLACE, PROBE_PLACE, PREFIX_PLACE } place;
    bool reads_siblings;
    unsigned may_note; /* of its cluster's notes (mark.h) */
};

/* A verb that is not here has nothing signed. */
static const struct task tasks[] = {
    {"put", READ | WRITE | REMOVE, PART_PLACE, true, READ},
    {"abandon", READ | REMOVE, PART_PLACE, false, READ},
    {"verify", READ, PART_PLACE, false, 0},
    {"restore", READ, PART_PLACE, false, 0},
    {"get", READ, PART_PLACE, false, 0},
    {"collect", READ | REMOVE, CHECKPOINT_PLACE, false, READ | WRITE},
    {"probe", READ | WRITE | REMOVE, PROBE_PLACE, false, READ | WRITE},
    {"scan", READ, PREFIX_PLACE, false, 0},
};

static const char *argument_of(const char *const *arguments, const char *name)
{
    for (size_t i = 1; arguments[i] != NULL && arguments[i + 1] != NULL; i += 2) {
        if (strcmp(arguments[i], name) == 0)
            return arguments[i + 1];
    }
    return NULL;
}

/* "s3://bucket/key" without slashes at its end. The key may be empty. */
static int split_location(const char *location, char bucket[SCOPE_BUCKET_BYTES],
                          char key[SCOPE_KEY_BYTES], struct err *err)
{
    size_t scheme = strlen(SCHEME), length, key_length;
    const char *rest;

    if (location == NULL || strncmp(location, SCHEME, scheme) != 0)
        return err_set(err, ERR_REFUSED, "\"%.200s\" is no location of an object store",
                       location == NULL ? "" : location);
    length = strcspn(location + scheme, "/");
    rest = location + scheme + length;
    rest += *rest == '/';
    key_length = strlen(rest);
    while (key_length > 0 && rest[key_length - 1] == '/')
        key_length--;
    if (length >= SCOPE_BUCKET_BYTES || key_length >= SCOPE_KEY_BYTES)
        return err_set(err, ERR_REFUSED, "the location %.200s is too long", location);
    memcpy(bucket, location + scheme, length);
    bucket[length] = '\0';
    memcpy(key, rest, key_length);
    key[key_length] = '\0';
    if (key_length > 0 && !signer_key_plain(key))
        return err_set(err, ERR_REFUSED, "the location %.200s has a part that is empty, . or ..",
                       location);
    return 0;
}

/* An empty one is the beginning of all. */
static bool key_is_below(const char *key, const char *folder)
{
    size_t length = strlen(folder);

    return length == 0 || (strncmp(key, folder, length) == 0 && key[length] == '/');
}

static int check_prefix(const char *const *arguments, const struct scope *scope, const char *key,
                        struct err *err)
{
    const char *prefix = argument_of(arguments, "--prefix");
    char bucket[SCOPE_BUCKET_BYTES], folder[SCOPE_KEY_BYTES];

    if (prefix == NULL)
        return 0;
    if (split_location(prefix, bucket, folder, err) != 0)
        return -1;
    if ((bucket[0] == '\0' || strcmp(bucket, scope->bucket) == 0) && key_is_below(key, folder))
        return 0;
    return err_set(err, ERR_REFUSED, "the path is not below the prefix %.200s", prefix);
}

static int join_key(char ret_key[SCOPE_KEY_BYTES], const char *folder, const char *name,
                    const char *end, struct err *err)
{
    if (snprintf(ret_key, SCOPE_KEY_BYTES, "%s%s%s%s", folder, folder[0] == '\0' ? "" : "/", name,
                 end) >= SCOPE_KEY_BYTES)
        return err_set(err, ERR_REFUSED, "the key below %.200s is too long", folder);
    return 0;
}

static int find_places(const struct task *task, const char *const *arguments, struct scope *scope,
                       struct err *err)
{
    const char *part = argument_of(arguments, "--part");
    char key[SCOPE_KEY_BYTES], *slash;

    if (split_location(argument_of(arguments, "--path"), scope->bucket, key, err) != 0 ||
        check_prefix(arguments, scope, key, err) != 0)
        return -1;
    slash = strrchr(key, '/');
    if (scope->bucket[0] == '\0' || slash == NULL)
        return err_set(err, ERR_REFUSED, "the path is that of no checkpoint");
    if (task->place == CHECKPOINT_PLACE)
        return join_key(scope->own, key, "", "", err);
    if (part == NULL || !signer_key_plain(part) || strchr(part, '/') != NULL)
        return err_set(err, ERR_REFUSED, "the part's name \"%.64s\" is none",
                       part == NULL ? "" : part);
    if (join_key(scope->own, key, part, "/", err) != 0)
        return -1;
    slash[1] = '\0';
    if (task->reads_siblings)
        memcpy(scope->shared, key, strlen(key) + 1);
    return 0;
}

/* All of a target. It is no job's user who reads there: the daemon itself started it. Of all
 * tenants' buckets it sees names and sizes, and no object. */
static int find_prefix(const char *const *arguments, struct scope *scope, struct err *err)
{
    char key[SCOPE_KEY_BYTES];

    if (split_location(argument_of(arguments, "--prefix"), scope->bucket, key, err) != 0)
        return -1;
    scope->lists_all = scope->bucket[0] == '\0';
    return key[0] == '\0' ? 0 : join_key(scope->own, key, "", "", err);
}

/* As s3_hold.c names them. A task without a prefix or without a cluster has none to look at. */
static int find_notes(const struct task *task, const char *const *arguments, struct scope *scope,
                      struct err *err)
{
    const char *prefix = argument_of(arguments, "--prefix");
    const char *cluster = argument_of(arguments, "--cluster");
    char bucket[SCOPE_BUCKET_BYTES], folder[SCOPE_KEY_BYTES];
    char name[sizeof(MARK_NAME) + MARK_BYTES + 1];
    struct mark_claim claim;

    if (task->may_note == 0 || prefix == NULL || cluster == NULL || scope->bucket[0] == '\0')
        return 0;
    if (!mark_claim_parse(cluster, &claim))
        return err_set(err, ERR_REFUSED, "\"%.64s\" is no cluster's", cluster);
    if (split_location(prefix, bucket, folder, err) != 0)
        return -1;
    snprintf(name, sizeof(name), MARK_NAME "%s.", claim.mark);
    scope->may_note = task->may_note;
    return join_key(scope->notes, folder, name, "", err);
}

int scope_of(const char *const *arguments, struct scope *ret_scope, struct err *err)
{
    struct scope scope = {.bucket = ""};
    char key[SCOPE_KEY_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(tasks); i++) {
        if (strcmp(tasks[i].verb, arguments[0]) != 0)
            continue;
        scope.may = tasks[i].may;
        if (tasks[i].place == PREFIX_PLACE) {
            if (find_prefix(arguments, &scope, err) != 0)
                return -1;
        } else if (tasks[i].place != PROBE_PLACE) {
            if (find_places(&tasks[i], arguments, &scope, err) != 0)
                return -1;
        } else if (split_location(argument_of(arguments, "--prefix"), scope.bucket, key, err) !=
                       0 ||
                   join_key(scope.own, key, ".probe", "", err) != 0) {
            return -1;
        }
        if (find_notes(&tasks[i], arguments, &scope, err) != 0)
            return -1;
        *ret_scope = scope;
        return 0;
    }
    return err_set(err, ERR_REFUSED, "the task %.32s signs nothing", arguments[0]);
}

/* ---- one request ---- */

enum subject { OBJECT, LISTING, BUCKET, SERVICE };

/* What a task may do at all: the rest of S3 is refused. A query with another name than these is
 * another operation: `?acl` beside a key changes who may read it, `?versionId` reaches what was
 * removed. Names of the query that make the operation,
 * and those that it may have beside them. */
struct operation {
    const char *method;
    enum subject subject;
    unsigned needs;
    const char *must, *may;
};

static const struct operation operations[] = {
    {"GET", OBJECT, READ, "", ""},
    {"HEAD", OBJECT, READ, "", ""},
    {"GET", OBJECT, READ, "uploadId", "max-parts part-number-marker"},
    {"PUT", OBJECT, WRITE, "", ""},
    {"PUT", OBJECT, WRITE, "partNumber uploadId", ""},
    {"POST", OBJECT, WRITE, "uploads", ""},
    {"POST", OBJECT, WRITE, "uploadId", ""},
    {"DELETE", OBJECT, REMOVE, "", ""},
    {"DELETE", OBJECT, REMOVE, "uploadId", ""},
    {"GET", LISTING, READ, "list-type prefix",
     "continuation-token delimiter encoding-type fetch-owner max-keys start-after"},
    {"GET", LISTING, READ, "prefix uploads",
     "delimiter encoding-type key-marker max-uploads upload-id-marker"},
    {"HEAD", BUCKET, READ, "", ""},
    {"GET", SERVICE, READ, "", ""}, /* of a probe or a scan of all buckets alone */
};

/* Others change what is done: x-amz-acl and x-amz-grant-* let strangers read, x-amz-tagging and
 * x-amz-storage-class cost, x-amz-bypass-governance-retention removes what is held. Those that the
 * signature adds itself may not come from the worker. */
static const char *const headers_allowed[] = {
    "content-length",
    "content-md5",
    "content-type",
    "if-match",
    "if-none-match",
    "range",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-range",
};

/* Whether the words, with blanks between them, have this one. */
static bool has_word(const char *words, const char *word, size_t length)
{
    while (*words != '\0') {
        size_t size = strcspn(words, " ");

        if (size == length && strncmp(words, word, length) == 0)
            return true;
        words += size;
        words += strspn(words, " ");
    }
    return false;
}

static size_t count_words(const char *words)
{
    size_t count = words[0] != '\0';

    for (; *words != '\0'; words++)
        count += *words == ' ';
    return count;
}

/* Each name once, all of `must`, others of `may` only. */
static bool query_fits(const char *query, const struct operation *operation)
{
    const char *names[16];
    size_t lengths[16], count = 0, musts = 0;

    while (*query != '\0') {
        size_t length = strcspn(query, "&"), name = strcspn(query, "=&");

        if (count == ARRAY_COUNT(names) || name == 0)
            return false;
        for (size_t i = 0; i < count; i++) {
            if (lengths[i] == name && strncmp(names[i], query, name) == 0)
                return false;
        }
        names[count] = query;
        lengths[count++] = name;
        if (has_word(operation->must, query, name))
            musts++;
        else if (!has_word(operation->may, query, name))
            return false;
        query += length + (query[length] == '&');
    }
    return musts == count_words(operation->must);
}

static enum subject subject_of(const struct signer_request *request)
{
    if (request->bucket[0] == '\0')
        return SERVICE;
    if (request->key[0] != '\0')
        return OBJECT;
    return request->query[0] != '\0' ? LISTING : BUCKET;
}

static const struct operation *find_operation(const struct signer_request *request)
{
    enum subject subject = subject_of(request);

    for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
        if (operations[i].subject == subject &&
            strcmp(operations[i].method, request->method) == 0 &&
            query_fits(request->query, &operations[i]))
            return &operations[i];
    }
    return NULL;
}

static bool is_hex_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* A query's value as a key: its encoded slashes are slashes, all else stays encoded. False: it is
 * not encoded as sigv4_encode() does, or is too long. */
static bool key_of_value(const char *value, size_t length, char ret_key[SCOPE_KEY_BYTES])
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        if (used + 3 >= SCOPE_KEY_BYTES || value[i] == '/')
            return false;
        if (value[i] == '%' &&
            (i + 2 >= length || !is_hex_digit(value[i + 1]) || !is_hex_digit(value[i + 2])))
            return false;
        if (value[i] == '%' && value[i + 1] == '2' && value[i + 2] == 'F') {
            ret_key[used++] = '/';
            i += 2;
        } else {
            ret_key[used++] = value[i];
        }
    }
    ret_key[used] = '\0';
    return true;
}

/* The beginning of the keys that a listing shows: no part of it but the last may be left open. */
static bool beginning_plain(const char *key)
{
    char whole[SCOPE_KEY_BYTES + 1];

    return snprintf(whole, sizeof(whole), "%s%s", key,
                    key[0] == '\0' || key[strlen(key) - 1] == '/' ? "x" : "") <
               (int)sizeof(whole) &&
           signer_key_plain(whole);
}

static bool listing_beginning(const char *query, char ret_key[SCOPE_KEY_BYTES])
{
    static const char name[] = "prefix=";

    while (*query != '\0') {
        size_t length = strcspn(query, "&");

        if (strncmp(query, name, strlen(name)) == 0)
            return key_of_value(query + strlen(name), length - strlen(name), ret_key) &&
                   beginning_plain(ret_key);
        query += length + (query[length] == '&');
    }
    return false;
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* In which of the three places a key lies, and whether that may be done there. */
static bool place_allows(const struct scope *scope, const char *key, unsigned needs)
{
    if (begins_with(key, scope->own) && (scope->may & needs) != 0)
        return true;
    if (scope->notes[0] != '\0' && begins_with(key, scope->notes) && (scope->may_note & needs) != 0)
        return true;
    return needs == READ && scope->shared[0] != '\0' && begins_with(key, scope->shared);
}

/* "/bucket/key" or "bucket/key", encoded; without a version. */
static bool source_allowed(const struct scope *scope, const char *source)
{
    size_t length = strlen(scope->bucket);

    source += *source == '/';
    return strncmp(source, scope->bucket, length) == 0 && source[length] == '/' &&
           signer_key_plain(source + length + 1) && place_allows(scope, source + length + 1, READ);
}

static int check_headers(const struct scope *scope, const struct signer_request *request,
                         struct err *err)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct sigv4_header *header = &request->headers[i];
        bool known = false;

        for (size_t k = 0; k < ARRAY_COUNT(headers_allowed) && !known; k++)
            known = strcmp(header->name, headers_allowed[k]) == 0;
        if (!known)
            return err_set(err, ERR_REFUSED, "the header %.64s is not signed", header->name);
        if (i > 0 && strcmp(request->headers[i - 1].name, header->name) >= 0)
            return err_set(err, ERR_REFUSED, "the header %.64s is not in order", header->name);
        if (strcmp(header->name, "x-amz-copy-source") == 0 &&
            (strcmp(request->method, "PUT") != 0 || !source_allowed(scope, header->value)))
            return err_set(err, ERR_REFUSED, "a copy of %.200s is not of this task", header->value);
    }
    return 0;
}

static bool payload_hashed(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

int scope_allows(const struct scope *scope, const struct signer_request *request, struct err *err)
{
    const struct operation *operation = find_operation(request);
    char beginning[SCOPE_KEY_BYTES];
    const char *key = request->key;

    if (operation == NULL)
        return err_set(err, ERR_REFUSED, "%.16s with \"%.100s\" is not of this task",
                       request->method, request->query);
    if (!payload_hashed(request->payload_sha256))
        return err_set(err, ERR_REFUSED, "a payload is signed by its SHA-256 only, not by %.40s",
                       request->payload_sha256);
    if (strcmp(request->bucket, scope->bucket) != 0 &&
        !(scope->lists_all && operation->subject == LISTING))
        return err_set(err, ERR_REFUSED, "the bucket \"%.64s\" is not that of this task",
                       request->bucket);
    if (operation->subject == OBJECT && !signer_key_plain(key))
        return err_set(err, ERR_REFUSED,
                       "the key %.200s has a part that is empty, . or .., or is not encoded", key);
    if (operation->subject == LISTING) {
        if (!listing_beginning(request->query, beginning))
            return err_set(err, ERR_REFUSED, "the listing \"%.200s\" has no plain prefix",
                           request->query);
        key = beginning;
    }
    if ((operation->subject == OBJECT || operation->subject == LISTING) &&
        !place_allows(scope, key, operation->needs))
        return err_set(err, ERR_REFUSED, "%.16s of %.200s is not of this task", request->method,
                       key);
    return check_headers(scope, request, err);
}
