/* The backup file: what is written is read back; a file that lost, changed or gained a byte is
 * never whole. */
#include "src/backup/backup.h"
#include "src/base/buf.h"
#include "tests/support/test.h"

struct memory {
    struct buf buf;
    size_t at;
    size_t fail_after; /* the sink takes so many bytes */
};

static int memory_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct memory *memory = context;

    if (memory->buf.length + length > memory->fail_after)
        return err_set(err, ERR_FULL, "no room");
    buf_append(&memory->buf, bytes, length);
    return 0;
}

static int memory_read(void *context, void *bytes, size_t length, size_t *ret_length,
                       struct err *err)
{
    struct memory *memory = context;
    size_t left = memory->buf.length - memory->at;

    (void)err;
    *ret_length = length < left ? length : left;
    memcpy(bytes, memory->buf.bytes + memory->at, *ret_length);
    memory->at += *ret_length;
    return 0;
}

/* Half of it compresses, half does not. */
static uint8_t content_at(size_t i)
{
    uint64_t x = i * UINT64_C(0x9e3779b97f4a7c15);

    return i / 1000 % 2 == 0 ? (uint8_t)(i / 300000) : (uint8_t)(x >> 56 ^ x >> 21);
}

static int write_file(struct memory *memory, size_t length, struct err *err)
{
    const struct backup_sink sink = {memory, memory_write};
    struct backup_writer *writer = backup_writer_new(&sink);
    Ckpt__V1__BackupHeader header = CKPT__V1__BACKUP_HEADER__INIT;
    uint8_t *content = malloc(length + 1);
    int status;

    for (size_t i = 0; i < length; i++)
        content[i] = content_at(i);
    header.cluster_id = (char *)(uintptr_t) "c";
    header.index = 42;
    status = backup_writer_begin(writer, &header, err);
    /* pieces of all sizes, as the state machine gives them */
    for (size_t at = 0, n = 1; status == 0 && at < length; at += n, n = n % 70000 + 4093) {
        if (n > length - at)
            n = length - at;
        status = backup_writer_put(writer, content + at, n, err);
    }
    if (status == 0)
        status = backup_writer_end(writer, err);
    backup_writer_free(writer);
    free(content);
    return status;
}

static int read_file(struct memory *memory, size_t length, struct err *err)
{
    const struct backup_source source = {memory, "the file", memory_read};
    struct backup_reader *reader;
    int status;

    memory->at = 0;
    if (backup_reader_open(&source, &reader, err) != 0)
        return -1;
    status = 0;
    for (size_t at = 0, n = 3; status == 0 && at < length; at += n, n = n % 5000 + 977) {
        uint8_t piece[8192];
        if (n > length - at)
            n = length - at;
        status = backup_reader_read(reader, piece, n, err);
        for (size_t i = 0; status == 0 && i < n; i++)
            assert_int_equal(piece[i], content_at(at + i));
    }
    if (status == 0)
        status = backup_reader_finish(reader, err);
    if (status == 0) {
        assert_string_equal(backup_reader_header(reader)->cluster_id, "c");
        assert_uint_equal(backup_reader_header(reader)->index, 42);
        assert_uint_equal(backup_reader_content_bytes(reader), length);
        assert_uint_equal(backup_reader_file_bytes(reader), memory->buf.length);
    }
    backup_reader_free(reader);
    return status;
}

static void what_is_written_is_read_back(void **state)
{
    static const size_t lengths[] = {
        0, 1, 4096, BACKUP_CHUNK_BYTES - 1, BACKUP_CHUNK_BYTES, BACKUP_CHUNK_BYTES + 1, 3000001};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct memory memory = {.fail_after = SIZE_MAX};
        struct err err = {0};
        assert_int_equal(write_file(&memory, lengths[i], &err), 0);
        assert_int_equal(read_file(&memory, lengths[i], &err), 0);
        assert_true(memory.buf.length <= lengths[i] + lengths[i] / 1000 + 256);
        buf_close(&memory.buf);
    }
}

static void a_file_cut_anywhere_is_refused_with_the_offset(void **state)
{
    struct memory memory = {.fail_after = SIZE_MAX};
    struct err err;
    size_t whole;

    (void)state;
    assert_int_equal(write_file(&memory, 5000, &err), 0);
    whole = memory.buf.length;
    for (size_t length = 0; length < whole; length++) {
        char offset[32];
        memory.buf.length = length;
        assert_int_equal(read_file(&memory, 5000, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        snprintf(offset, sizeof(offset), "offset %zu:", length);
        assert_non_null(strstr(err.text, offset));
    }
    buf_close(&memory.buf);
}

static void a_bit_flipped_anywhere_is_found(void **state)
{
    struct memory memory = {.fail_after = SIZE_MAX};
    struct err err;

    (void)state;
    assert_int_equal(write_file(&memory, 3000, &err), 0);
    for (size_t i = 0; i < memory.buf.length; i++) {
        memory.buf.bytes[i] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(read_file(&memory, 3000, &err), -1);
        assert_true(err.code == ERR_CORRUPT || err.code == ERR_MISMATCH);
        assert_non_null(strstr(err.text, "the file"));
        memory.buf.bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(read_file(&memory, 3000, &err), 0);
    buf_append(&memory.buf, "x", 1);
    assert_int_equal(read_file(&memory, 3000, &err), -1);
    buf_close(&memory.buf);
}

static void a_reader_that_asks_for_more_than_there_is_is_told(void **state)
{
    struct memory memory = {.fail_after = SIZE_MAX};
    struct err err;

    (void)state;
    assert_int_equal(write_file(&memory, 100, &err), 0);
    assert_int_equal(read_file(&memory, 101, &err), -1);
    assert_non_null(strstr(err.text, "ends too early"));
    buf_close(&memory.buf);
}

static void a_sink_that_is_full_ends_the_writing_at_any_byte(void **state)
{
    struct memory whole = {.fail_after = SIZE_MAX};
    struct err err;

    (void)state;
    assert_int_equal(write_file(&whole, 2000, &err), 0);
    for (size_t room = 0; room < whole.buf.length; room += 7) {
        struct memory memory = {.fail_after = room};
        assert_int_equal(write_file(&memory, 2000, &err), -1);
        assert_int_equal(err.code, ERR_FULL);
        buf_close(&memory.buf);
    }
    buf_close(&whole.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_file_cut_anywhere_is_refused_with_the_offset),
        cmocka_unit_test(a_bit_flipped_anywhere_is_found),
        cmocka_unit_test(a_reader_that_asks_for_more_than_there_is_is_told),
        cmocka_unit_test(a_sink_that_is_full_ends_the_writing_at_any_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
