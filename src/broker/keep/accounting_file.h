/* The accounting records of a member as files, which other programs follow.
 *
 * Flow     accounting_file_open(): reads what is there, and cuts off a line that a kill left
 *          unfinished; accounting_file_append() for each batch.
 * Shapes   {folder}/accounting.jsonl: a line a record, each an object of JSON that begins with its
 *          place (struct accounting_place). With ACCOUNTING_FILE_RECORDS lines it becomes
 *          accounting.jsonl.1, that one .2, and the one that was .2 goes: the last 100,000 records
 *          are always there. One thread at a time; calls block on the disk.
 * Errors   ERR_FULL and ERR_IO with what the system says; ERR_CORRUPT for what is no file of lines.
 *          After one that failed the file is as before, at the latest when the next batch comes.
 */
#ifndef CKPT_BROKER_ACCOUNTING_FILE_H
#define CKPT_BROKER_ACCOUNTING_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum {
    ACCOUNTING_BATCH_RECORDS = 10000, /* at most so many are appended at a time */
    ACCOUNTING_FILE_RECORDS = 60000,
    ACCOUNTING_KEPT_RECORDS = 100000, /* at least, once there were so many */
    ACCOUNTING_OLDER_FILES = 2,
    ACCOUNTING_LINE_BYTES = 8192 /* no line is longer */
};

/* Of a record: sequences grow within an epoch of the cluster, and begin again where a backup was
 * restored, which is another epoch. Zeros: none. */
struct accounting_place {
    uint64_t epoch, sequence;
};
/* What each line begins with, for printf and scanf. */
#define ACCOUNTING_PLACE "{\"epoch\": %llu, \"sequence\": %llu, "

struct accounting_file {
    int folder;                   /* of the system; -1: not open */
    struct accounting_place last; /* of all that is there */
    uint64_t record_count;        /* in the newest file */
    uint64_t removed_count;       /* with files that went, since the opening */
    off_t cut_to; /* what a batch that failed has left behind that is to go; -1: nothing */
};

/* Lines, without a terminator. */
struct accounting_lines {
    const void *bytes;
    size_t length;
    uint64_t record_count; /* up to ACCOUNTING_BATCH_RECORDS */
};

/* Makes the folder where there is none. Closed also after a failure. */
int accounting_file_open(const char *folder, struct accounting_file *ret_file, struct err *err);
void accounting_file_close(struct accounting_file *file);
int accounting_file_append(struct accounting_file *file, const struct accounting_lines *lines,
                           struct err *err);

#endif
