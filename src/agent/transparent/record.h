/* The file beside an image that says what the image needs when it is restored: how long the files
 * were that the application writes, its standard streams, its processes.
 *
 *   criu 40101            the release that wrote it
 *   pid 4711              each process; the first is the main one
 *   stream 1 pipe:[815]   of ckpt-run's start, by criu's name
 *   file 1048576 /a/b     a file that was written, and its length
 *
 * Flow     record_write() while the processes stand still; record_read(), record_prepare() before
 *          they are restored.
 * Errors   ERR_UNFIT: a file has become shorter, is gone, or the name of one cannot be recorded.
 *          ERR_BUSY: the number of one of its processes is another one's. ERR_CORRUPT: no record.
 */
#ifndef CKPT_AGENT_RECORD_H
#define CKPT_AGENT_RECORD_H

#include <stdint.h>
#include <sys/types.h>

#include "src/agent/transparent/criu_call.h"
#include "src/agent/transparent/process_tree.h"
#include "src/base/err.h"

#define RECORD_NAME "ckpt-criu.record" /* in the folder of the image */

enum { RECORD_FILES_MAX = 4096, RECORD_STREAMS = 3, RECORD_SYSTEM_BYTES = 66 };

struct record_file {
    uint64_t bytes;
    char *path;
};
struct record {
    uint32_t version; /* of criu */
    /* as uname() has them where it was taken; "": an image of before */
    char machine[RECORD_SYSTEM_BYTES], kernel[RECORD_SYSTEM_BYTES];
    char streams[RECORD_STREAMS][CRIU_KEY_BYTES]; /* criu's keys; "": restored as any other file */
    pid_t *pids;
    size_t pid_count;
    struct record_file *files;
    size_t file_count;
};

/* front: the process whose standard streams are ckpt-run's own. */
int record_take(pid_t front, pid_t root, uint32_t version, struct record *ret_record,
                struct err *err);
int record_write(const struct record *record, int folder, struct err *err);
int record_read(int folder, struct record *ret_record, struct err *err);
void record_free(struct record *record);
/* Refuses the image of another architecture. Waits until the numbers of its processes are free, and
 * gives its files the lengths that they had: the program writes again whatever it wrote since. */
int record_prepare(const struct record *record, uint64_t limit_ms, struct err *err);
/* Where criu has failed: err also says that another kernel, or another release of criu, took it. */
int record_wrap(const struct record *record, uint32_t version, struct err *err);
/* The streams of this process in the place of those; how many. */
size_t record_inherit(const struct record *record, struct criu_inherited ret[RECORD_STREAMS]);

#endif
