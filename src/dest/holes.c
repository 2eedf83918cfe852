/* Holes for zeros. See holes.h. */
#include "src/dest/holes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/manifest.h"
#include "src/dest/tree.h"

bool holes_are_zero(const uint8_t *bytes, size_t length)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Whole pieces only: the end of a file stays as it is. */
static void dig_file(int fd, uint8_t piece[HOLE_BYTES])
{
    off_t at = 0;

    while (pread(fd, piece, HOLE_BYTES, at) == HOLE_BYTES) {
        if (holes_are_zero(piece, HOLE_BYTES) &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, HOLE_BYTES) != 0)
            return;
        at += HOLE_BYTES;
    }
}

void holes_dig(const char *folder)
{
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint8_t *piece = check_alloc(HOLE_BYTES);
    struct manifest files;
    struct err err;

    if (top >= 0 && tree_list(top, folder, false, &files, &err) == 0) {
        for (size_t i = 0; i < files.count; i++) {
            int fd = files.entries[i].is_directory || files.entries[i].size_bytes < HOLE_BYTES
                         ? -1
                         : tree_open_beneath(top, files.entries[i].path, O_RDWR, 0);

            if (fd < 0)
                continue;
            dig_file(fd, piece);
            close(fd);
        }
        manifest_close(&files);
    }
    if (top >= 0)
        close(top);
    free(piece);
}
