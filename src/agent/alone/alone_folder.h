/* The folder of a job without a cluster: its checkpoints, their notes, and its one writer.
 *
 * Flow     alone_folder_lock() by ckpt-run for its life, and alone_folder_claim();
 *          alone_folder_read() and alone_folder_tidy() once for each life of the agent below it;
 *          alone_note_write() beside each checkpoint that was verified, or found damaged.
 *
 *              {folder}/.ckpt-run.lock      locked by the ckpt-run that writes here: its pid,
 *                                           and where it has that number (alone_place.h)
 *              {folder}/.ckpt-run.line      the program's folder and command
 *              {folder}/.ckpt-run.program   its process (alone_program.h)
 *              {folder}/standalone/checkpoints/{id}/part-0000/   as of a job of a cluster
 *              {folder}/standalone/checkpoints/{id}/.standalone  its note: label and instant, and
 *                                                                that a start found it damaged
 *
 * Shapes   a checkpoint without its note is whole: it has no label, and is as old as its MANIFEST.
 *          The lock is the kernel's for a process (fcntl), so it goes with ckpt-run and not with
 *          what that has begun, and holds on NFS too.
 * Errors   ERR_LOCKED names the other ckpt-run. A checkpoint whose MANIFEST is missing or damaged,
 *          or whose note says so, comes back as damaged; one that had a MANIFEST is told as well.
 */
#ifndef CKPT_AGENT_ALONE_FOLDER_H
#define CKPT_AGENT_ALONE_FOLDER_H

#include "src/agent/alone/alone_step.h"
#include "src/base/err.h"

#define ALONE_LOCK ".ckpt-run.lock"
#define ALONE_NOTE ".standalone"
#define ALONE_LINE ".ckpt-run.line"

/* The open file holds the lock until it is closed, or this process ends. -1 with err. */
int alone_folder_lock(const char *folder, struct err *err);

/* The folder where a program runs, and its command up to NULL. */
struct alone_line {
    const char *folder;
    char *const *command;
};
/* The folder is this program's from here on. -1 with err: its checkpoints are of another one, and
 * it is not meant to go on from them; or the folder takes no note of this one. */
int alone_folder_claim(const char *folder, const struct alone_line *own, bool meant,
                       struct err *err);

typedef void alone_damaged_fn(void *data, const char *text);
/* The newest ALONE_CHECKPOINTS_MAX, by rising id. A folder with neither MANIFEST nor note is an
 * attempt that failed, and no checkpoint. A folder without any is none: 0. */
int alone_folder_read(const char *folder, struct alone_checkpoint *ret_checkpoints,
                      size_t *ret_count, alone_damaged_fn *damaged, void *data, struct err *err);

/* Removes the folders of attempts that failed in which nothing but the mark is left. Others may be
 * copies that somebody is bringing back. */
void alone_folder_tidy(const char *folder);

/* The highest epoch of all that lies there, also of attempts that failed. */
uint64_t alone_folder_epoch(const char *folder);
/* One above that and above `heard`, which the journal has. -1: there is none, since somebody has
 * made a folder of the last one: err names it. */
int alone_folder_next_epoch(const char *folder, uint64_t heard, uint64_t *ret_epoch,
                            struct err *err);

/* The folder of the only part of the newest that is whole as far as its MANIFEST tells. True: there
 * is one. */
bool alone_folder_newest(const char *folder, char ret_part[ALONE_PATH_BYTES],
                         char ret_label[LABEL_MAX_BYTES + 1]);

/* How many of them are whole as far as their MANIFEST tells, and how many are not. */
struct alone_count {
    size_t whole, damaged;
};
struct alone_count alone_folder_count(const char *folder);

/* Beside the checkpoint at `path`. It may wait for the file system. */
int alone_note_write(const char *path, const struct alone_checkpoint *checkpoint, struct err *err);

#endif
