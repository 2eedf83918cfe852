/* The record of a founding. See founding.h. */
#include "raft/log/founding.h"

#include <string.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum {
    FOUNDER_BYTES = 16,
    FOUNDING_BYTES_MAX = 5 * 8 + 1 + CONSENSUS_MEMBERS_MAX * FOUNDER_BYTES + 4,
};

int founding_write(const struct folder *folder, const struct founding_record *record,
                   struct err *err)
{
    struct buf buf;
    int status;

    CHECK(folder != NULL);
    CHECK(record->number != 0);
    CHECK(record->founders.count <= CONSENSUS_MEMBERS_MAX);
    buf_init(&buf);
    buf_put(&buf, record->number, 8);
    buf_put(&buf, record->origin, 8);
    buf_put(&buf, record->epoch_min, 8);
    buf_put(&buf, record->basis, 8);
    buf_put(&buf, record->incarnation, 8);
    buf_put(&buf, record->founders.count, 1);
    for (size_t i = 0; i < record->founders.count; i++) {
        buf_put(&buf, record->founders.list[i].id, 8);
        buf_put(&buf, record->founders.list[i].number, 8);
    }
    buf_put(&buf, crc32c(0, buf.bytes, buf.length), 4);
    status = folder_write_file(folder, FOLDER_FOUNDING_FILE, buf.bytes, buf.length, err);
    buf_close(&buf);
    return status;
}

static bool record_decode(const uint8_t *bytes, size_t length, struct founding_record *record)
{
    struct bytes_reader reader = {bytes, length, false};
    size_t covered;

    record->number = reader_get(&reader, 8);
    record->origin = reader_get(&reader, 8);
    record->epoch_min = reader_get(&reader, 8);
    record->basis = reader_get(&reader, 8);
    record->incarnation = reader_get(&reader, 8);
    record->founders.count = reader_get(&reader, 1);
    if (record->founders.count > CONSENSUS_MEMBERS_MAX)
        return false;
    for (size_t i = 0; i < record->founders.count; i++) {
        record->founders.list[i].id = reader_get(&reader, 8);
        record->founders.list[i].number = reader_get(&reader, 8);
    }
    covered = length - reader.left;
    return reader_get(&reader, 4) == crc32c(0, bytes, covered) && !reader.failed &&
           reader.left == 0 && record->number != 0;
}

int founding_read(const struct folder *folder, struct founding_record *ret_record, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    uint8_t bytes[FOUNDING_BYTES_MAX + 1];
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    size_t length;
    int status;

    memset(ret_record, 0, sizeof(*ret_record));
    folder_path(folder, FOLDER_FOUNDING_FILE, path);
    if (disk->open(disk->context, path, DISK_OPEN_READ, &file, err) != 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    status = disk->read(file, 0, bytes, sizeof(bytes), &length, err);
    disk->close(file);
    if (status != 0)
        return err_wrap(err, "%s", path);
    if (record_decode(bytes, length, ret_record))
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "%s is damaged. Does %s/identity exist? Then remove the damaged file and start "
                   "again: it was needed for the first start only. Else empty the folder and give "
                   "the command of the first start again",
                   path, folder->path);
}

/* Written before anybody is told of it, so that a founder that is started again is the same folder
 * to the others. */
int founding_begin(const struct folder *folder, const struct random_ops *random,
                   struct founding_record *record, struct err *err)
{
    CHECK(folder != NULL);
    CHECK(random != NULL);
    CHECK(record->number == 0);
    random->fill(random->context, &record->number, sizeof(record->number));
    record->number |= 1; /* 0: there is no record */
    return founding_write(folder, record, err);
}

/* FNV-1a: it finds configurations that differ by mistake, and nobody gains by forging one. */
static uint64_t digest_add(uint64_t digest, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Each text goes in with its zero, so that two lists never run together into the same bytes. */
uint64_t founding_basis(const struct founding_record *record, const char *cluster_id,
                        const struct consensus_member *members, size_t member_count)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    uint8_t number[8];

    CHECK(record != NULL);
    CHECK(cluster_id != NULL);
    CHECK(members != NULL);
    CHECK(member_count <= CONSENSUS_MEMBERS_MAX);
    bytes_put(number, record->origin, 8);
    digest = digest_add(digest, number, sizeof(number));
    digest = digest_add(digest, cluster_id, strlen(cluster_id) + 1);
    for (size_t i = 0; i < member_count; i++) {
        bytes_put(number, members[i].id, 8);
        digest = digest_add(digest, number, sizeof(number));
        digest = digest_add(digest, members[i].name, strlen(members[i].name) + 1);
    }
    return digest == 0 ? 1 : digest;
}

uint64_t founding_number(const struct founding_record *record, uint64_t id)
{
    CHECK(record != NULL);
    for (size_t i = 0; i < record->founders.count; i++)
        if (record->founders.list[i].id == id)
            return record->founders.list[i].number;
    return 0;
}
