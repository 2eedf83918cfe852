/* Requests of S3 that are more than one call. See object.h.
 *
 * Flow     ask_store() is one call and its answer; lists go on from page to page until none
 *          follows.
 * Shapes   what a list says is handed on element by element, and not kept. Queries are written in
 *          the order of their names' bytes, which is what is signed.
 * Errors   what Ceph 16 and Swift 2.30 do differently is met here: no ETag in the answer to the
 *          end of an upload (HEAD tells then), If-None-Match refused with 501 or 400 (then without
 *          it), names in lists encoded or not (the list says so), errors without a message
 *          (answer.c).
 */
#include "src/dest/s3/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/dest/s3/xml.h"

/* Starts, waits, and gives the call with its answer; NULL: it failed. The caller frees it. */
static struct call *ask_store(struct client *client, const struct call_request *request,
                              struct err *err)
{
    struct call *call = call_new(client, request);

    if (call_run(client, call, err) == 0)
        return call;
    call_free(call);
    return NULL;
}

/* Where the answer says no more than yes. */
static int ask_only(struct client *client, const struct call_request *request, struct err *err)
{
    struct call *call = ask_store(client, request, err);

    call_free(call);
    return call == NULL ? -1 : 0;
}

/* ---- lists ---- */

/* A page of any of the lists. */
struct page {
    const char *prefix; /* of each key; "": of a list of parts, which have none */
    object_listed_fn *listed;
    struct buf *uploads; /* key, id, key, id ... */
    object_part_fn *part;
    void *data;
    struct err *err;
    /* of the element that is read */
    char key[3 * OBJECT_KEY_MAX_BYTES + 1];
    char id[OBJECT_UPLOAD_ID_BYTES];
    char etag[CALL_ETAG_BYTES];
    char modified[40];
    uint64_t number, size_bytes;
    /* of the page */
    bool is_list, is_cut, failed, keys_encoded;
    struct buf next, next_id;
};

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place. plus: the character that '+' stands for. */
static void decode_text(char *text, char plus)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        int high = *from == '%' ? hex_value(from[1]) : -1;
        int low = high < 0 ? -1 : hex_value(from[2]);

        if (low >= 0) {
            *to++ = (char)(high << 4 | low);
            from += 2;
        } else {
            *to++ = *from == '+' ? plus : *from;
        }
    }
    *to = '\0';
}

/* Some stores write a blank as '+', all write a plus as %2B. */
static void decode_key(char *key)
{
    decode_text(key, ' ');
}

/* Of an upload: stores that encode it have no blanks in it, and a plus of one that does not encode
 * it stays. */
static void decode_id(char *id)
{
    decode_text(id, '+');
}

/* decode NULL: the text is as it is meant. */
static void take_text(struct buf *to, const char *text, void (*decode)(char *text))
{
    buf_clear(to);
    buf_append(to, text, strlen(text) + 1);
    if (decode != NULL)
        decode((char *)to->bytes);
    to->length = strlen((const char *)to->bytes) + 1;
}

/* The last name of a path in the answer. */
static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* The fields that one of the lists has in its elements; those of owners and storage classes are
 * passed over, as are those that a store adds of its own. */
static void take_field(struct page *page, const char *name, const char *text)
{
    if (strcmp(name, "Key") == 0 || strcmp(name, "Prefix") == 0)
        snprintf(page->key, sizeof(page->key), "%s", text);
    else if (strcmp(name, "Size") == 0)
        page->size_bytes = strtoull(text, NULL, 10);
    else if (strcmp(name, "LastModified") == 0 || strcmp(name, "Initiated") == 0)
        snprintf(page->modified, sizeof(page->modified), "%s", text);
    else if (strcmp(name, "UploadId") == 0)
        snprintf(page->id, sizeof(page->id), "%s", text);
    else if (strcmp(name, "ETag") == 0)
        snprintf(page->etag, sizeof(page->etag), "%s", text);
    else if (strcmp(name, "PartNumber") == 0)
        page->number = strtoull(text, NULL, 10);
}

/* An element of the list is complete: whose list it is says who gets it. What was not asked for is
 * passed over, since what is listed may be removed. */
static int end_element(struct page *page, const char *name)
{
    struct object_listed listed = {page->key, page->size_bytes, page->modified,
                                   strcmp(name, "CommonPrefixes") == 0};

    if (page->keys_encoded) {
        decode_key(page->key);
        decode_id(page->id);
    }
    if (strncmp(page->key, page->prefix, strlen(page->prefix)) != 0)
        return 0;
    if (page->listed != NULL)
        return page->listed(page->data, &listed, page->err);
    if (page->uploads != NULL) {
        buf_append(page->uploads, page->key, strlen(page->key) + 1);
        buf_append(page->uploads, page->id, strlen(page->id) + 1);
        return 0;
    }
    if (page->number > 0 && page->number <= OBJECT_PARTS_MAX)
        page->part(page->data,
                   &(struct object_part){(unsigned)page->number, page->size_bytes, page->etag});
    return 0;
}

/* A page that something in between has made, of a login or of works, may be XML as well: it would
 * be an empty list. */
static bool is_list(const char *name)
{
    size_t length = strlen(name);

    return strncmp(name, "List", 4) == 0 && length > 10 && strcmp(name + length - 6, "Result") == 0;
}

/* Two levels deep are the list's own fields, three deep those of an element. */
static int read_element(void *data, const char *path, const char *text)
{
    struct page *page = data;
    const char *slash = strchr(path, '/');
    const char *name = last_name(path);

    if (slash == NULL) {
        page->is_list = is_list(name);
        return 0;
    }
    if (strchr(slash + 1, '/') != NULL) {
        take_field(page, name, text);
        return 0;
    }
    if (strcmp(name, "IsTruncated") == 0) {
        page->is_cut = strcmp(text, "true") == 0;
    } else if (strcmp(name, "NextContinuationToken") == 0 ||
               strcmp(name, "NextPartNumberMarker") == 0) {
        take_text(&page->next, text, NULL);
    } else if (strcmp(name, "NextKeyMarker") == 0) {
        take_text(&page->next, text, page->keys_encoded ? decode_key : NULL);
    } else if (strcmp(name, "NextUploadIdMarker") == 0) {
        take_text(&page->next_id, text, page->keys_encoded ? decode_id : NULL);
    } else if (strcmp(name, "Contents") == 0 || strcmp(name, "CommonPrefixes") == 0 ||
               strcmp(name, "Upload") == 0 || strcmp(name, "Part") == 0) {
        page->failed = end_element(page, name) != 0;
        page->key[0] = page->id[0] = page->etag[0] = page->modified[0] = '\0';
        page->number = page->size_bytes = 0;
        return page->failed ? -1 : 0;
    }
    return 0;
}

/* All pages. next_name: the query's name of what the page before ended with, which is the first in
 * the order of names. */
struct listing {
    const char *bucket, *key;
    const char *head, *next_name, *between, *next_id_name, *tail;
};

/* How the query of a list is put together: its names have to be in the order of bytes, since
 * they are signed in that order, and what goes on from the page before stands somewhere in the
 * middle. */
static void write_query(const struct listing *listing, const struct page *page, struct buf *query)
{
    buf_clear(query);
    buf_printf(query, "%s", listing->head);
    if (page->next.length > 1) {
        buf_printf(query, "%s%s=", query->length > 0 ? "&" : "", listing->next_name);
        sigv4_encode(query, (const char *)page->next.bytes, false);
    }
    buf_printf(query, "%s%s", query->length > 0 && *listing->between != '\0' ? "&" : "",
               listing->between);
    if (page->next_id.length > 1 && listing->next_id_name != NULL) {
        buf_printf(query, "&%s=", listing->next_id_name);
        sigv4_encode(query, (const char *)page->next_id.bytes, false);
    }
    if (*listing->tail != '\0')
        buf_printf(query, "%s%s", query->length > 0 ? "&" : "", listing->tail);
    buf_append(query, "", 1);
}

/* Not each store encodes in each list; in the text of a name the mark would be escaped. */
static int read_page(const struct call *call, struct page *page, struct err *err)
{
    static const char encoded[] = "<EncodingType>url</EncodingType>";
    const struct buf *answer = call_answer(call);
    struct err why = {0};

    page->is_list = page->is_cut = page->failed = false;
    page->keys_encoded = memmem(answer->bytes, answer->length, encoded, strlen(encoded)) != NULL;
    buf_clear(&page->next);
    buf_clear(&page->next_id);
    if (xml_read(answer->bytes, answer->length, read_element, page, &why) != 0)
        return page->failed ? -1 : err_set(err, why.code, "%s", why.text);
    if (!page->is_list)
        return err_set(err, ERR_IO,
                       "the answer is no list: something between here and the store has made it; "
                       "check the endpoint and its proxies");
    return 0;
}

/* Where the page after this one begins. */
static void take_place(const struct page *page, struct buf *ret_place)
{
    buf_clear(ret_place);
    buf_append(ret_place, page->next.bytes, page->next.length);
    buf_append(ret_place, page->next_id.bytes, page->next_id.length);
}

/* What a list leaves out would be taken for lost, and one that comes back to where it was has no
 * end. */
static int check_next(const struct page *page, const struct buf *before, struct err *err)
{
    struct buf place = {0};
    bool stands;

    if (!page->is_cut)
        return 0;
    if (page->next.length <= 1)
        return err_set(err, ERR_IO, "the store cuts a list and does not say where it goes on");
    take_place(page, &place);
    stands =
        place.length == before->length && memcmp(place.bytes, before->bytes, before->length) == 0;
    buf_close(&place);
    return stands ? err_set(err, ERR_IO,
                            "the store's list does not get on: what follows \"%.200s\" is said to "
                            "follow it once more",
                            (const char *)page->next.bytes)
                  : 0;
}

static int read_pages(struct client *client, const struct listing *listing, struct page *page,
                      struct err *err)
{
    struct buf query = {0}, before = {0};
    int result;

    page->err = err;
    do {
        struct call_request request = {
            .method = "GET", .bucket = listing->bucket, .key = listing->key};
        struct call *call;

        write_query(listing, page, &query);
        request.query = (const char *)query.bytes;
        take_place(page, &before);
        call = ask_store(client, &request, err);
        result = call == NULL ? -1 : read_page(call, page, err);
        call_free(call);
        if (result == 0)
            result = check_next(page, &before, err);
    } while (result == 0 && page->is_cut);
    buf_close(&query);
    buf_close(&before);
    buf_close(&page->next);
    buf_close(&page->next_id);
    return result;
}

/* The prefix is part of each page's query; it is encoded once. Freed by the caller. */
static char *encoded_prefix(const char *prefix, const char *after)
{
    struct buf text = {0};

    buf_printf(&text, "prefix=");
    sigv4_encode(&text, prefix, false);
    if (after != NULL) {
        buf_printf(&text, "&start-after=");
        sigv4_encode(&text, after, false);
    }
    buf_append(&text, "", 1);
    return (char *)buf_take(&text, NULL);
}

int object_list(struct client *client, const struct object_below *below, object_listed_fn *fn,
                void *data, struct err *err)
{
    struct page *page = check_calloc(1, sizeof(*page));
    char *tail = encoded_prefix(below->prefix, below->after);
    const struct listing listing = {.bucket = below->bucket,
                                    .key = "",
                                    .head = "",
                                    .next_name = "continuation-token",
                                    .between = below->folders ? "delimiter=%2F&encoding-type=url&"
                                                                "list-type=2"
                                                              : "encoding-type=url&list-type=2",
                                    .tail = tail};
    int result;

    page->prefix = below->prefix;
    page->listed = fn;
    page->data = data;
    result = read_pages(client, &listing, page, err);
    free(tail);
    free(page);
    return result;
}

struct bucket_reader {
    object_bucket_fn *fn;
    void *data;
    struct err *err;
    bool failed;
};

static int read_bucket(void *data, const char *path, const char *text)
{
    struct bucket_reader *reader = data;

    if (strcmp(path, "ListAllMyBucketsResult/Buckets/Bucket/Name") != 0)
        return 0;
    reader->failed = reader->fn(reader->data, text, reader->err) != 0;
    return reader->failed ? -1 : 0;
}

/* One answer has them all. */
int object_list_buckets(struct client *client, object_bucket_fn *fn, void *data, struct err *err)
{
    const struct call_request request = {.method = "GET", .bucket = "", .key = ""};
    struct call *call = ask_store(client, &request, err);
    struct bucket_reader reader = {fn, data, err, false};
    struct err why = {0};
    int result = -1;

    if (call == NULL)
        return -1;
    if (xml_read(call_answer(call)->bytes, call_answer(call)->length, read_bucket, &reader, &why) ==
        0)
        result = 0;
    else if (!reader.failed)
        err_set(err, why.code, "%s", why.text);
    call_free(call);
    return result;
}

/* One of the two is told of each. */
static int list_uploads(struct client *client, const struct object_below *below,
                        struct buf *uploads, object_listed_fn *listed, void *data, struct err *err)
{
    struct page *page = check_calloc(1, sizeof(*page));
    char *between = encoded_prefix(below->prefix, NULL);
    const struct listing listing = {.bucket = below->bucket,
                                    .key = "",
                                    .head = "encoding-type=url",
                                    .next_name = "key-marker",
                                    .between = between,
                                    .next_id_name = "upload-id-marker",
                                    .tail = "uploads="};
    int result;

    CHECK((uploads == NULL) != (listed == NULL));
    page->prefix = below->prefix;
    page->uploads = uploads;
    page->listed = listed;
    page->data = data;
    result = read_pages(client, &listing, page, err);
    free(between);
    free(page);
    return result;
}

int object_list_uploads(struct client *client, const char *bucket, const char *prefix,
                        struct buf *uploads, struct err *err)
{
    return list_uploads(client, &(struct object_below){.bucket = bucket, .prefix = prefix}, uploads,
                        NULL, NULL, err);
}

int object_list_begun(struct client *client, const char *bucket, const char *prefix,
                      object_listed_fn *fn, void *data, struct err *err)
{
    return list_uploads(client, &(struct object_below){.bucket = bucket, .prefix = prefix}, NULL,
                        fn, data, err);
}

int object_list_parts(struct client *client, const struct object_upload *upload, object_part_fn *fn,
                      void *data, struct err *err)
{
    struct page *page = check_calloc(1, sizeof(*page));
    struct buf tail = {0};
    struct listing listing = {.bucket = upload->bucket,
                              .key = upload->key,
                              .head = "",
                              .next_name = "part-number-marker",
                              .between = ""};
    int result;

    buf_printf(&tail, "uploadId=");
    sigv4_encode(&tail, upload->id, false);
    buf_append(&tail, "", 1);
    listing.tail = (const char *)tail.bytes;
    page->prefix = "";
    page->part = fn;
    page->data = data;
    result = read_pages(client, &listing, page, err);
    buf_close(&tail);
    free(page);
    return result;
}

/* ---- uploads in parts ---- */

static int read_upload_id(void *data, const char *path, const char *text)
{
    char *upload_id = data;

    if (strcmp(last_name(path), "UploadId") == 0)
        snprintf(upload_id, OBJECT_UPLOAD_ID_BYTES, "%s", text);
    return 0;
}

int object_create_upload(struct client *client, const char *bucket, const char *key,
                         char ret_upload_id[OBJECT_UPLOAD_ID_BYTES], struct err *err)
{
    const struct call_request request = {
        .method = "POST", .bucket = bucket, .key = key, .query = "uploads="};
    struct call *call = ask_store(client, &request, err);
    int result;

    if (call == NULL)
        return -1;
    ret_upload_id[0] = '\0';
    result = xml_read(call_answer(call)->bytes, call_answer(call)->length, read_upload_id,
                      ret_upload_id, err);
    if (result == 0 && ret_upload_id[0] == '\0')
        result = err_set(err, ERR_IO, "the store gave an upload no id");
    call_free(call);
    return result;
}

void object_part_query(struct buf *query, unsigned number, const char *upload_id)
{
    buf_printf(query, "partNumber=%u&uploadId=", number);
    sigv4_encode(query, upload_id, false);
    buf_append(query, "", 1);
}

/* An ETag is shown as it came, with its quotes: Amazon takes it without, others do not. What
 * could end the element is left out, since it would be no ETag. */
static void write_parts(const struct object_whole *whole, struct buf *body)
{
    buf_printf(body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < whole->part_count; i++) {
        buf_printf(body, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
        for (const char *c = whole->etags[i]; *c != '\0'; c++) {
            if (*c == '"')
                buf_printf(body, "&quot;");
            else if (*c != '<' && *c != '&' && *c != '>')
                buf_append(body, c, 1);
        }
        buf_printf(body, "</ETag></Part>");
    }
    buf_printf(body, "</CompleteMultipartUpload>");
}

/* Of the answer to the end of an upload. */
static int take_whole(void *data, const char *path, const char *text)
{
    bool *is_whole = data;

    if (strcmp(path, "CompleteMultipartUploadResult/ETag") == 0 && text[0] != '\0')
        *is_whole = true;
    return 0;
}

/* True: the store has said yes, and of which object. Ceph's yes has no ETag, and that of something
 * in between may have nothing at all. */
static bool ask_whole(struct client *client, const struct call_request *request, struct err *err)
{
    struct call *call = ask_store(client, request, err);
    bool is_whole = false;
    const struct buf *answer;

    if (call == NULL)
        return false;
    answer = call_answer(call);
    if (xml_read(answer->bytes, answer->length, take_whole, &is_whole, NULL) != 0)
        is_whole = false;
    call_free(call);
    return is_whole;
}

/* Whether the object is there with all its bytes. That it is not is the store's failure, since
 * whoever puts looks for nothing. said: how the upload's end failed; ERR_NONE: it did not. */
static int find_whole(struct client *client, const struct call_request *ended, uint64_t size_bytes,
                      const struct err *said, struct err *err)
{
    struct err why = {0};
    uint64_t length = 0;
    int result = object_head(client, ended->bucket, ended->key, &length, &why);

    if (result == 0 && length == size_bytes)
        return 0;
    if (said->code != ERR_NONE)
        return err_set(err, said->code == ERR_NOT_FOUND ? ERR_IO : said->code, "%s", said->text);
    if (result != 0 && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    return err_set(err, ERR_IO,
                   "s3://%.63s/%.500s has %" PRIu64 " of %" PRIu64
                   " bytes after its upload was ended; check the store, then retry",
                   ended->bucket, ended->key, length, size_bytes);
}

/* The answer may take minutes, as a store may copy all parts together; meanwhile nothing moves. A
 * try whose answer was lost has ended the upload: where the answer does not tell, the object
 * does. */
int object_complete_upload(struct client *client, const char *bucket, const char *key,
                           const struct object_whole *whole, struct err *err)
{
    struct call_request request = {
        .method = "POST", .bucket = bucket, .key = key, .stall_ms = OBJECT_LONG_MS};
    struct buf body = {0}, query = {0};
    struct err why = {0};
    bool is_whole;

    write_parts(whole, &body);
    buf_printf(&query, "uploadId=");
    sigv4_encode(&query, whole->upload_id, false);
    buf_append(&query, "", 1);
    request.query = (const char *)query.bytes;
    request.body = body.bytes;
    request.body_bytes = body.length;
    is_whole = ask_whole(client, &request, &why);
    buf_close(&body);
    buf_close(&query);
    return is_whole ? 0 : find_whole(client, &request, whole->size_bytes, &why, err);
}

int object_abort_upload(struct client *client, const char *bucket, const char *key,
                        const char *upload_id, struct err *err)
{
    struct buf query = {0};
    struct err why = {0};
    int result;

    buf_printf(&query, "uploadId=");
    sigv4_encode(&query, upload_id, false);
    buf_append(&query, "", 1);
    result = ask_only(client,
                      &(struct call_request){.method = "DELETE",
                                             .bucket = bucket,
                                             .key = key,
                                             .query = (const char *)query.bytes,
                                             .stall_ms = OBJECT_LONG_MS},
                      &why);
    buf_close(&query);
    return result == 0 || why.code == ERR_NOT_FOUND ? 0 : err_set(err, why.code, "%s", why.text);
}

/* ---- objects ---- */

int object_head(struct client *client, const char *bucket, const char *key,
                uint64_t *ret_size_bytes, struct err *err)
{
    struct call *call = ask_store(
        client, &(struct call_request){.method = "HEAD", .bucket = bucket, .key = key}, err);

    if (call == NULL)
        return -1;
    if (ret_size_bytes != NULL)
        *ret_size_bytes = call_result(call)->length;
    call_free(call);
    return 0;
}

int object_get(struct client *client, const char *bucket, const char *key, struct buf *ret_bytes,
               struct err *err)
{
    struct call *call = ask_store(
        client, &(struct call_request){.method = "GET", .bucket = bucket, .key = key}, err);

    if (call == NULL)
        return -1;
    buf_clear(ret_bytes);
    buf_append(ret_bytes, call_answer(call)->bytes, call_answer(call)->length);
    call_free(call);
    return 0;
}

/* What lies there may be of a try of ours whose answer was lost. refused: how the store has said
 * that something does; it counts where nothing lies there. */
static int compare_object(struct client *client, const struct call_request *put,
                          const struct err *refused, struct err *err)
{
    const char *bucket = put->bucket, *key = put->key;
    struct buf there = {0};
    struct err why = {0};
    int result = object_get(client, bucket, key, &there, &why);

    if (result != 0)
        result = why.code == ERR_NOT_FOUND ? err_set(err, refused->code, "%s", refused->text)
                                           : err_set(err, why.code, "%s", why.text);
    else if (there.length != put->body_bytes || memcmp(there.bytes, put->body, there.length) != 0)
        result = err_set(err, ERR_REFUSED,
                         "s3://%s/%s is there already with other contents; look at who else "
                         "writes there",
                         bucket, key);
    buf_close(&there);
    return result;
}

/* Stores say so with either status: Swift with 501, others take an unknown condition for a mistake
 * of the request. */
static bool knows_no_condition(const struct call_result *result)
{
    return result->status == 501 || (result->status == 400 && !result->passing);
}

/* 409: the other request that was at the same key is over by now. */
int object_put_once(struct client *client, const char *bucket, const char *key,
                    const struct buf *bytes, struct err *err)
{
    struct call_request request = {.method = "PUT",
                                   .bucket = bucket,
                                   .key = key,
                                   .headers = {{"if-none-match", "*"}},
                                   .body = bytes->bytes,
                                   .body_bytes = bytes->length};
    struct call *call = call_new(client, &request);
    struct call_result result;

    (void)call_run(client, call, err);
    result = *call_result(call);
    call_free(call);
    if (result.outcome == 0)
        return 0;
    if (result.status == 412 || result.status == 409)
        return compare_object(client, &request, &result.err, err);
    if (!knows_no_condition(&result))
        return -1;
    request.headers[0] = (struct sigv4_header){NULL, NULL};
    return ask_only(client, &request, err);
}

int object_delete(struct client *client, const char *bucket, const char *key, struct err *err)
{
    const struct call_request request = {
        .method = "DELETE", .bucket = bucket, .key = key, .stall_ms = OBJECT_LONG_MS};

    return ask_only(client, &request, err);
}
