/* See book.h. */
#include "raft/log/book.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/id.h"

#define BOOK_FILE "members"

const struct book_record *book_find(const struct book *book, uint64_t id)
{
    CHECK(book != NULL);
    for (size_t i = 0; i < book->count; i++)
        if (book->records[i].member.id == id)
            return &book->records[i];
    return NULL;
}

/* The record of this id, a new one if need be. Those of removed members give way first: without one
 * a late hello of that member has no clear answer, but without its record a member has no
 * address. */
static struct book_record *record_of(struct book *book, uint64_t id)
{
    struct book_record *record = (struct book_record *)(uintptr_t)book_find(book, id);

    if (record != NULL)
        return record;
    if (book->count == BOOK_RECORDS_MAX) {
        size_t oldest = 0;
        for (size_t i = 1; i < book->count; i++)
            if (book->records[i].removed &&
                (!book->records[oldest].removed ||
                 book->records[i].removed_index < book->records[oldest].removed_index))
                oldest = i;
        book->count--;
        memmove(&book->records[oldest], &book->records[oldest + 1],
                (book->count - oldest) * sizeof(book->records[0]));
    }
    record = &book->records[book->count++];
    memset(record, 0, sizeof(*record));
    record->member.id = id;
    return record;
}

bool book_put(struct book *book, const struct consensus_member *member)
{
    const struct book_record *known = book_find(book, member->id);
    struct book_record *record;

    CHECK(member->id != 0);
    if (known != NULL && (known->removed || (strcmp(known->member.name, member->name) == 0 &&
                                             strcmp(known->member.address, member->address) == 0)))
        return false;
    record = record_of(book, member->id);
    record->member = *member;
    book->dirty = true;
    return true;
}

void book_remove(struct book *book, uint64_t id, const char *name, uint64_t index)
{
    struct book_record *record = record_of(book, id);

    CHECK(name != NULL);
    record->removed = true;
    record->removed_index = index;
    snprintf(record->member.name, sizeof(record->member.name), "%s", name);
    record->member.address[0] = '\0';
    book->dirty = true;
}

/* ---- file ---- */

void book_save(struct book *book, const struct folder *folder)
{
    struct buf buf;

    CHECK(book != NULL);
    CHECK(folder != NULL);
    buf_init(&buf);
    for (size_t i = 0; i < book->count; i++) {
        const struct book_record *record = &book->records[i];
        if (record->removed)
            buf_printf(&buf, "removed %" PRIu64 " %" PRIu64 " %s\n", record->member.id,
                       record->removed_index, record->member.name);
        else
            buf_printf(&buf, "member %" PRIu64 " %s %s\n", record->member.id, record->member.name,
                       record->member.address);
    }
    buf_printf(&buf, "crc32c %08" PRIx32 "\n", crc32c(0, buf.bytes, buf.length));
    book->dirty = folder_write_file(folder, BOOK_FILE, buf.bytes, buf.length, NULL) != 0;
    buf_close(&buf);
}

/* The widths are those of the fields; what does not fit them, or is no name, is no record. */
static void line_take(struct book *book, const char *line)
{
    struct book_record record;
    char *name = record.member.name, *address = record.member.address;

    memset(&record, 0, sizeof(record));
    if (sscanf(line, "member %" SCNu64 " %128s %255s", &record.member.id, name, address) == 3 &&
        record.member.id != 0 && id_valid(name))
        (void)book_put(book, &record.member);
    else if (sscanf(line, "removed %" SCNu64 " %" SCNu64 " %128s", &record.member.id,
                    &record.removed_index, name) == 3 &&
             record.member.id != 0 && id_valid(name))
        book_remove(book, record.member.id, name, record.removed_index);
}

/* Without the right checksum nothing is taken, for half a book would send a member to an old
 * address. */
static void text_take(struct book *book, char *text)
{
    char *end = strstr(text, "crc32c "), *save = NULL;
    uint32_t crc;

    if (end == NULL || sscanf(end, "crc32c %" SCNx32, &crc) != 1 ||
        crc32c(0, text, (size_t)(end - text)) != crc)
        return;
    *end = '\0';
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        line_take(book, line);
}

void book_load(struct book *book, const struct folder *folder)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES], *text;
    struct disk_file *file;
    size_t length;

    CHECK(book != NULL);
    memset(book, 0, sizeof(*book));
    if (disk->open(disk->context, folder_path(folder, BOOK_FILE, path), DISK_OPEN_READ, &file,
                   NULL) != 0)
        return;
    text = check_alloc(BOOK_FILE_BYTES + 1);
    if (disk->read(file, 0, text, BOOK_FILE_BYTES, &length, NULL) == 0) {
        text[length] = '\0';
        text_take(book, text);
    }
    free(text);
    disk->close(file);
    book->dirty = false;
}
