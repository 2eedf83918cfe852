/* See blank.h. */
#include "raft/log/blank.h"

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { BLANK_BYTES = 12 };

int blank_write(const struct folder *folder, uint64_t origin, struct err *err)
{
    uint8_t bytes[BLANK_BYTES];

    CHECK(origin >= BLANK_ORIGIN_FIRST);
    bytes_put(bytes, origin, 8);
    bytes_put(bytes + 8, crc32c(0, bytes, 8), 4);
    return folder_write_file(folder, FOLDER_BLANK_FILE, bytes,
                             origin == BLANK_ORIGIN_FIRST ? 0 : sizeof(bytes), err);
}

int blank_read(const struct folder *folder, uint64_t *ret_origin, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    uint8_t bytes[BLANK_BYTES];
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    size_t length;
    int status;

    *ret_origin = 0;
    folder_path(folder, FOLDER_BLANK_FILE, path);
    if (disk->open(disk->context, path, DISK_OPEN_READ, &file, err) != 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    status = disk->read(file, 0, bytes, sizeof(bytes), &length, err);
    disk->close(file);
    if (status != 0)
        return err_wrap(err, "%s offset 0", path);
    if (length == 0) {
        *ret_origin = BLANK_ORIGIN_FIRST;
        return 0;
    }
    if (length != sizeof(bytes) || crc32c(0, bytes, 8) != bytes_get(bytes + 8, 4))
        return err_set(err, ERR_CORRUPT,
                       "%s offset 0: it is damaged, and with it how much of the log was restored; "
                       "remove the member and add it under a new id with an empty folder",
                       path);
    *ret_origin = bytes_get(bytes, 8);
    return 0;
}
