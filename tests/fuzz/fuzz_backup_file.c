/* The backup file's reader on arbitrary bytes, and on a right file with some bytes replaced: it
 * never reads outside, and what it calls whole is what a writer would have written.
 */
#include <stdlib.h>
#include <string.h>

#include "src/backup/backup.h"
#include "src/base/buf.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

struct memory {
    const uint8_t *bytes;
    size_t left;
};

static int memory_read(void *context, void *bytes, size_t length, size_t *ret_length,
                       struct err *err)
{
    struct memory *memory = context;

    (void)err;
    *ret_length = length < memory->left ? length : memory->left;
    memcpy(bytes, memory->bytes, *ret_length);
    memory->bytes += *ret_length;
    memory->left -= *ret_length;
    return 0;
}

static int buf_write(void *context, const void *bytes, size_t length, struct err *err)
{
    (void)err;
    buf_append(context, bytes, length);
    return 0;
}

static void read_all(const uint8_t *bytes, size_t length)
{
    struct memory memory = {bytes, length};
    const struct backup_source source = {&memory, "fuzz", memory_read};
    struct backup_reader *reader;
    struct err err = {0};
    uint8_t piece[777];
    int status;

    if (backup_reader_open(&source, &reader, &err) != 0) {
        CHECK(err.code != ERR_NONE && err.text[0] != '\0');
        return;
    }
    CHECK(backup_reader_header(reader) != NULL);
    for (int i = 0; i < 3; i++)
        if (backup_reader_read(reader, piece, sizeof(piece), &err) != 0)
            break;
    status = backup_reader_finish(reader, &err);
    CHECK(status == 0 || err.code != ERR_NONE);
    if (status == 0)
        CHECK(backup_reader_file_bytes(reader) == length);
    backup_reader_free(reader);
}

/* Checksums of header and chunks made right, so that what lies behind them is reached. */
static void seal(uint8_t *bytes, size_t length)
{
    size_t at = 16, header;

    if (length < 20)
        return;
    header = bytes_get(bytes + 12, 4);
    if (header > length - 20)
        return;
    bytes_put(bytes + 16 + header, crc32c(0, bytes, 16 + header), 4);
    at += header + 4;
    while (length - at >= 12) {
        size_t stored = bytes_get(bytes + at, 4);
        if (stored > length - at - 12)
            return;
        bytes_put(bytes + at + 8, crc32c(crc32c(0, bytes + at, 8), bytes + at + 12, stored), 4);
        at += 12 + stored;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint8_t *sealed = check_alloc(length + 1);

    read_all(bytes, length);
    memcpy(sealed, bytes, length);
    seal(sealed, length);
    read_all(sealed, length);
    free(sealed);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct buf buf = {0};
    const struct backup_sink sink = {&buf, buf_write};
    struct backup_writer *writer = backup_writer_new(&sink);
    Ckpt__V1__BackupHeader header = CKPT__V1__BACKUP_HEADER__INIT;
    size_t length = 0;

    header.cluster_id = (char *)(uintptr_t) "fuzz";
    header.index = i;
    CHECK(backup_writer_begin(writer, &header, NULL) == 0);
    for (size_t k = 0; k < i * 100; k++) {
        uint8_t byte = (uint8_t)(k % 3 == 0 ? k * k : i);
        CHECK(backup_writer_put(writer, &byte, 1, NULL) == 0);
    }
    CHECK(backup_writer_end(writer, NULL) == 0);
    backup_writer_free(writer);
    if (i < 12 && buf.length <= size) {
        length = buf.length;
        memcpy(bytes, buf.bytes, length);
    }
    buf_close(&buf);
    return length;
}
