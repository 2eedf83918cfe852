/* What is sent to a store: how much is on its way at a time, and by which hashes. */
#include "src/dest/s3/send.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/s3/receive.h"
#include "src/dest/s3/upload.h"
#include "src/dest/source.h"
#include "tests/support/test.h"
#include "tests/unit/dest/lying_store.h"

enum { CHUNK = MANIFEST_CHUNK_BYTES, SECOND_US = 1000000 };

static uint64_t after(uint64_t bytes, unsigned answers, uint64_t took_us)
{
    for (unsigned i = 0; i < answers; i++)
        bytes = send_window(bytes, took_us);
    return bytes;
}

static void quick_answers_widen_the_window_and_slow_ones_narrow_it(void **unused)
{
    uint64_t bytes = send_window(0, 0);

    (void)unused;
    assert_int_equal(bytes, 4 * CHUNK);
    assert_int_equal(after(bytes, 1, SECOND_US), 5 * CHUNK);
    bytes = after(bytes, 100, SECOND_US / 2);
    assert_int_equal(bytes, SEND_BYTES_MAX);
    assert_int_equal(bytes, 8 * CHUNK);
    assert_int_equal(after(bytes, 1, 5 * SECOND_US), 7 * CHUNK);
    assert_int_equal(after(bytes, 100, 3 * SECOND_US), 8 * CHUNK);
    /* two are hashed together */
    assert_int_equal(after(bytes, 100, 20 * SECOND_US), 2 * CHUNK);
    assert_int_equal(after(2 * CHUNK, 1, SECOND_US), 3 * CHUNK);
}

/* ---- a file that was cut ---- */

/* Six chunks of 16 MiB, of which two parts are made: 64 MiB and what is left. */
enum { PARTS = 2, PART = 4 * CHUNK, LEFT = CHUNK + 12345, SIZE = PART + LEFT };

/* Of one file, in memory. */
struct memory {
    uint8_t *bytes;
    char hashes[PARTS][SHA256_HEX_BYTES]; /* by which its parts were signed; "": none came */
    unsigned puts, gets, copies, completed;
    unsigned damaged_gets; /* so many answers have a wrong byte */
    unsigned refused_puts; /* so many are refused */
};

static void take_part(struct memory *memory, const struct lying_request *request, int fd)
{
    const char *number = strstr(request->head, "partNumber=");
    const char *hash = strcasestr(request->head, "\nx-amz-content-sha256: ");
    size_t part = number == NULL ? 0 : strtoul(number + 11, NULL, 10) - 1;
    char status[64];

    assert_non_null(hash);
    assert_true(part < PARTS && memory->hashes[part][0] == '\0');
    assert_int_equal(request->body_bytes, part == 0 ? PART : LEFT);
    snprintf(memory->hashes[part], SHA256_HEX_BYTES, "%.64s", hash + 23);
    memcpy(memory->bytes + part * PART, request->body, request->body_bytes);
    memory->puts++;
    snprintf(status, sizeof(status), "200 OK\r\nETag: \"e%zu\"", part);
    lying_answer(fd, status, &(struct lying_body){"", 0, 0});
}

static void answer_range(struct memory *memory, const char *range, int fd)
{
    bool damaged = memory->gets++ < memory->damaged_gets;
    size_t from = 0, to = 0;

    assert_int_equal(sscanf(range, "\nrange: bytes=%zu-%zu", &from, &to), 2);
    assert_true(from <= to && to < SIZE && to - from < CHUNK);
    memory->bytes[to] ^= damaged;
    lying_answer(fd, "206 Partial Content",
                 &(struct lying_body){memory->bytes + from, to + 1 - from, (long)(to + 1 - from)});
    memory->bytes[to] ^= damaged;
}

static void answer_memory(void *data, const struct lying_request *request, int fd)
{
    struct memory *memory = data;
    const char *head = request->head, *range = strcasestr(head, "\nrange: ");

    if (strcasestr(head, "\nx-amz-copy-source: ") != NULL) {
        memory->copies++;
        lying_answer(fd, "501 Not Implemented", &(struct lying_body){"", 0, 0});
    } else if (strncmp(head, "PUT ", 4) == 0 && memory->refused_puts > 0) {
        memory->refused_puts--;
        lying_answer(fd, "403 Forbidden", &(struct lying_body){"", 0, 0});
    } else if (strncmp(head, "PUT ", 4) == 0) {
        take_part(memory, request, fd);
    } else if (range != NULL) {
        answer_range(memory, range, fd);
    } else if (strncmp(head, "GET ", 4) == 0) {
        lying_answer_text(fd, "<ListBucketResult></ListBucketResult>");
    } else if (strstr(head, "uploads=") != NULL) {
        lying_answer_text(fd, "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                              "</InitiateMultipartUploadResult>");
    } else {
        memory->completed++;
        lying_answer_text(fd, "<CompleteMultipartUploadResult><ETag>\"whole-2\"</ETag>"
                              "</CompleteMultipartUploadResult>");
    }
}

/* A folder with the file "f", and its list, cut. */
static int make_source(char folder[32], struct manifest *ret_manifest)
{
    char path[64];
    uint8_t *bytes = malloc(SIZE);
    uint64_t dice = 7;
    struct err err = {0};
    int fd, source;

    assert_non_null(bytes);
    for (size_t i = 0; i + 8 <= SIZE; i += 8) {
        uint64_t word = test_random(&dice);

        memcpy(bytes + i, &word, sizeof(word));
    }
    snprintf(folder, 32, "/tmp/ckpt-send-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/f", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, SIZE) == SIZE);
    close(fd);
    free(bytes);
    source = source_open(folder, ret_manifest, &err);
    if (source < 0)
        fail_msg("%s", err.text);
    assert_int_equal(upload_cut(ret_manifest, PARTS, &err), 0);
    assert_int_equal(ret_manifest->entries[0].chunk_count, PARTS);
    return source;
}

static void remove_source(const char *folder)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/f", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static const struct shard_at at = {.part = {.bucket = "bucket", .key = "a/"}, .folder = "b/"};

/* Sends it and reads it back. */
static void send_and_receive(struct memory *memory, const struct previous *previous,
                             const char *folder, int source, struct manifest *manifest)
{
    struct lying_store *store = lying_store_open(answer_memory, memory);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    const struct send_request request = {client, &at, source, folder, previous};
    struct send_result result;
    struct err err = {0};

    assert_non_null(client);
    if (send_files(&request, manifest, &result, &err) != 0 ||
        receive_files(
            &(struct receive_request){
                .client = client, .at = &at, .manifest = manifest, .threads = 2},
            &err) != 0)
        fail_msg("%s", err.text);
    client_close(client);
    (void)lying_store_close(store);
}

/* The hash that signs a part is that of the manifest. */
static void check_parts(const struct memory *memory, const struct manifest *manifest)
{
    char hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];

    assert_int_equal(memory->puts, PARTS);
    assert_int_equal(memory->completed, 1);
    for (size_t i = 0; i < PARTS; i++) {
        assert_string_equal(memory->hashes[i],
                            sha256_format(manifest_chunk_hash(&manifest->entries[0], i), hex));
        sha256_of(memory->bytes + i * PART, i == 0 ? PART : LEFT, digest);
        assert_string_equal(memory->hashes[i], sha256_format(digest, hex));
    }
}

static void the_parts_of_a_large_file_are_signed_by_the_hashes_of_its_manifest(void **unused)
{
    struct memory memory = {.bytes = check_calloc(1, SIZE)};
    const struct previous none = {0};
    struct manifest manifest;
    char folder[32];
    int source = make_source(folder, &manifest);

    (void)unused;
    send_and_receive(&memory, &none, folder, source, &manifest);
    check_parts(&memory, &manifest);
    close(source);
    remove_source(folder);
    manifest_close(&manifest);
    free(memory.bytes);
}

/* The second try goes by the hashes that the first one has found, and takes those that it has not:
 * one is made wrong between them. */
static void a_second_try_hashes_what_the_first_has_not(void **unused)
{
    struct memory memory = {.bytes = check_calloc(1, SIZE), .refused_puts = 1};
    struct lying_store *store = lying_store_open(answer_memory, &memory);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    const struct previous none = {0};
    struct send_result result;
    struct manifest manifest;
    char folder[32], hex[SHA256_HEX_BYTES];
    int source = make_source(folder, &manifest);
    const struct send_request request = {client, &at, source, folder, &none};
    uint8_t fake[SHA256_BYTES];
    struct err err = {0};

    (void)unused;
    assert_non_null(client);
    assert_int_equal(send_files(&request, &manifest, &result, &err), -1);
    assert_int_equal(manifest.entries[0].known_hashes, PARTS);
    memset(fake, 'a', sizeof(fake));
    manifest_chunk_set(&manifest.entries[0], 0, fake);
    manifest.entries[0].known_hashes = 1;
    memory = (struct memory){.bytes = memory.bytes};
    assert_int_equal(send_files(&request, &manifest, &result, &err), 0);
    assert_string_equal(memory.hashes[0], sha256_format(fake, hex));
    assert_string_equal(memory.hashes[1],
                        sha256_format(manifest_chunk_hash(&manifest.entries[0], 1), hex));
    assert_int_equal(manifest.entries[0].known_hashes, PARTS);
    client_close(client);
    (void)lying_store_close(store);
    close(source);
    remove_source(folder);
    manifest_close(&manifest);
    free(memory.bytes);
}

/* A chunk comes in ranges; one of them that was damaged on its way is asked for again with all. */
static void a_large_chunk_comes_in_ranges_and_again_when_one_is_wrong(void **unused)
{
    struct memory memory = {.bytes = check_calloc(1, SIZE), .damaged_gets = 1};
    const struct previous none = {0};
    struct manifest manifest;
    char folder[32];
    int source = make_source(folder, &manifest);

    (void)unused;
    send_and_receive(&memory, &none, folder, source, &manifest);
    assert_true(memory.gets == 6 + 4 || memory.gets == 6 + 2); /* of the one chunk or the other */
    close(source);
    remove_source(folder);
    manifest_close(&manifest);
    free(memory.bytes);
}

/* Nothing has changed, but the store copies nothing: all is read again, and sent by the hashes that
 * the first reading had found. */
static void what_could_not_be_copied_is_sent_by_the_hash_that_it_has(void **unused)
{
    struct memory memory = {.bytes = check_calloc(1, SIZE)};
    struct previous previous = {.at = {.part = {.bucket = "bucket", .key = "a/"}, .folder = "c/"},
                                .generations_max = 9};
    struct manifest manifest;
    char folder[32];
    int source = make_source(folder, &manifest);
    struct manifest_entry *before;

    (void)unused;
    send_and_receive(&memory, &previous, folder, source, &manifest);
    manifest_init(&previous.manifest);
    manifest_add(&previous.manifest, "f", false)->size_bytes = SIZE;
    assert_int_equal(manifest_finish(&previous.manifest, NULL), 0);
    before = &previous.manifest.entries[0];
    manifest_cut(before, PART);
    for (size_t i = 0; i < PARTS; i++)
        manifest_chunk_set(before, i, manifest_chunk_hash(&manifest.entries[0], i));
    previous.is_there = true;
    memset(memory.bytes, 0, SIZE);
    memory = (struct memory){.bytes = memory.bytes};
    send_and_receive(&memory, &previous, folder, source, &manifest);
    assert_int_equal(memory.copies, 1);
    check_parts(&memory, &manifest);
    close(source);
    remove_source(folder);
    manifest_close(&previous.manifest);
    manifest_close(&manifest);
    free(memory.bytes);
}

/* Hashes that the source does not have: none was taken again. */
static void what_was_hashed_before_is_not_hashed_again(void **unused)
{
    struct memory memory = {.bytes = check_calloc(1, SIZE)};
    struct lying_store *store = lying_store_open(answer_memory, &memory);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    const struct previous none = {0};
    struct send_result result;
    struct manifest manifest;
    char folder[32], hex[SHA256_HEX_BYTES];
    int source = make_source(folder, &manifest);
    const struct send_request request = {client, &at, source, folder, &none};
    struct err err = {0};

    (void)unused;
    assert_non_null(client);
    for (uint8_t i = 0; i < PARTS; i++) {
        uint8_t digest[SHA256_BYTES];

        memset(digest, 'a' + i, sizeof(digest));
        manifest_chunk_set(&manifest.entries[0], i, digest);
    }
    manifest.entries[0].known_hashes = PARTS;
    assert_int_equal(send_files(&request, &manifest, &result, &err), 0);
    assert_int_equal(memory.puts, PARTS);
    for (size_t i = 0; i < PARTS; i++)
        assert_string_equal(memory.hashes[i],
                            sha256_format(manifest_chunk_hash(&manifest.entries[0], i), hex));
    client_close(client);
    (void)lying_store_close(store);
    close(source);
    remove_source(folder);
    manifest_close(&manifest);
    free(memory.bytes);
}

/* ---- a source that changes ---- */

/* At the first part that comes the application writes to its file once more. */
struct changing {
    struct memory memory;
    const char *folder;
    bool changed;
};

static void answer_and_change(void *data, const struct lying_request *request, int fd)
{
    struct changing *changing = data;
    char path[64];
    int file;

    if (strncmp(request->head, "PUT ", 4) != 0) {
        answer_memory(&changing->memory, request, fd);
        return;
    }
    if (!changing->changed) {
        snprintf(path, sizeof(path), "%s/f", changing->folder);
        file = open(path, O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(file, "x", 1, SIZE - 1), 1);
        close(file);
        changing->changed = true;
    }
    lying_answer(fd, "200 OK\r\nETag: \"e\"", &(struct lying_body){"", 0, 0});
}

/* It was hashed before, so that the store would refuse its bytes, and be blamed. */
static void a_source_that_changes_after_it_was_hashed_is_named(void **unused)
{
    struct changing changing = {.changed = false};
    struct lying_store *store = lying_store_open(answer_and_change, &changing);
    struct client *client = client_open(&(struct client_how){0}, NULL);
    const struct previous none = {0};
    struct send_result result;
    struct manifest manifest;
    char folder[32];
    int source = make_source(folder, &manifest);
    const struct send_request request = {client, &at, source, folder, &none};
    struct err err = {0};

    (void)unused;
    assert_non_null(client);
    changing.folder = folder;
    assert_int_equal(upload_cut(&manifest, 1000, &err), 0);
    manifest.entries[0].known_hashes = manifest.entries[0].chunk_count;
    assert_int_equal(send_files(&request, &manifest, &result, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_contains(err.text, "was written after the application had said done");
    client_close(client);
    (void)lying_store_close(store);
    close(source);
    remove_source(folder);
    manifest_close(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_answers_widen_the_window_and_slow_ones_narrow_it),
        cmocka_unit_test(the_parts_of_a_large_file_are_signed_by_the_hashes_of_its_manifest),
        cmocka_unit_test(what_could_not_be_copied_is_sent_by_the_hash_that_it_has),
        cmocka_unit_test(what_was_hashed_before_is_not_hashed_again),
        cmocka_unit_test(a_second_try_hashes_what_the_first_has_not),
        cmocka_unit_test(a_large_chunk_comes_in_ranges_and_again_when_one_is_wrong),
        cmocka_unit_test(a_source_that_changes_after_it_was_hashed_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
