/* Folders walked by descriptor, so that nothing outside them can be reached: no path is ever
 * resolved through a symbolic link.
 *
 * Files of a job's user are walked here as that user or as root: names are the user's, so a link or
 * a device that was put there must lead nowhere.
 *
 * Flow     tree_open_beneath() opens one component after the other; list, remove and sync are built
 *          on it.
 * Errors   symbolic links, devices, sockets and FIFOs are ERR_REFUSED, or ERR_CORRUPT inside a
 *          finished shard.
 * Absent   nothing here blocks on a FIFO: files are opened O_NONBLOCK and must be regular.
 */
#ifndef CKPT_DEST_TREE_H
#define CKPT_DEST_TREE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "src/dest/manifest.h"

enum {
    TREE_TEMPORARY_DIGITS = 16,
    TREE_TEMPORARY_BYTES = 256,
    TREE_SETTLE_COUNT = 32 /* from so many on one syncfs(2) costs less than each one's fsync(2) */
};

/* Like openat(2), but refuses a symbolic link in every component: -1 with errno ELOOP. "" is base
 * itself. relative has no "..": its callers have checked it (manifest_path_problem()). The caller
 * closes the descriptor, which is close-on-exec. */
int tree_open_beneath(int base, const char *relative, int flags, mode_t mode);
/* A regular file for reading; anything else is refused without waiting for it. label: how errors
 * name base. */
int tree_open_file(int base, const char *relative, const char *label, struct err *err);

/* mkdirat(2) with exactly these bits, whatever the umask says. -1 with errno. */
int tree_mkdir(int parent, const char *name, mode_t mode);
/* For the own user, and for the parent's group as well when the parent hands it down
 * (set-group-id). */
int tree_mkdir_own(int parent, const char *name);
/* The same for base/relative; its parent must be there. */
int tree_make_folder(int base, const char *relative, struct err *err);
/* The manifest's links below base, whose folders are there. */
int tree_make_links(int base, const struct manifest *manifest, struct err *err);
/* Of an open folder; false where that cannot be told. */
bool tree_is_empty(int fd);

/* Another one when the file is written, renamed over or cut: by the kernel's clock of changes,
 * which ticks each 1 to 10 ms and which no program sets. A write through a mapping ticks when it is
 * written back. Of a folder it changes with its names. */
uint64_t tree_stamp(const struct stat *status);
/* Every file, folder and link below base, sorted; with mode, size, stamp and no hashes. in_shard:
 * skips the MANIFEST at the top and takes what does not belong into a shard as ERR_CORRUPT. The
 * caller closes ret_manifest, which is written on success only. Memory grows with the number of
 * names, up to MANIFEST_ENTRIES_MAX. */
int tree_list(int base, const char *label, bool in_shard, struct manifest *ret_manifest,
              struct err *err);

/* Of the files below a folder. Folders do not count, since each look reads them. Nor does a
 * MANIFEST at the top: a scan reads its end. */
struct tree_use {
    time_t newest;  /* latest access or change, or what the caller put here if that is later */
    uint64_t names; /* looked at */
};
/* Adds to *use; false: not all of it could be looked at. The access time is what the file system
 * keeps: with relatime up to a day old, with noatime that of the first write. */
bool tree_find_use(int base, struct tree_use *use);

/* All that a removal took away: files, and their bytes unless another name of them is left. */
struct tree_removed {
    uint64_t files, bytes;
    uint64_t wiped;   /* of these: overwritten before */
    uint64_t unwiped; /* of these: not overwritten, or not all of it: wipe.h */
};
/* From then on tree_remove() overwrites what it removes, where that can be (wipe.h); what an error
 * keeps from being overwritten stays. */
void tree_wipe(bool wipe);
bool tree_wipes(void);
/* tree_remove() adds to it from then on; NULL: no more. */
void tree_count_removed(struct tree_removed *removed);
/* Removes parent/name with all its contents, unwritable folders of the caller's too. An entry that
 * is already gone counts as removed; symbolic links are removed, not followed. One that cannot be
 * removed does not keep the rest. Of each folder the MANIFEST goes last: what a killed removal
 * leaves can be told. */
int tree_remove(int parent, const char *name, struct err *err);
/* From now on all removals together take so long at most, and then fail with ERR_BUSY, for the next
 * one to go on with what is left; 0: as long as they need. */
void tree_bound_removal(uint64_t most_us);
/* fsync(2) of a folder: what was created, renamed or removed in it is durable. */
int tree_sync(int directory, const char *label, struct err *err);
/* Whether one syncfs(2) makes all durable that was written below since `folder` was opened, and
 * tells of every failure: on local file systems of a kernel from 5.8 on, ext2 aside. */
bool tree_settles(int folder);
/* Whether stamps of what lies there are of this machine's clock: on local file systems. */
bool tree_is_local(int folder);
/* Whether a change of what was looked at there always has another stamp, also within a tick of the
 * clock: on local file systems from Linux 6.13 on. */
bool tree_stamps_each(int folder);
/* Whether large files are better written past the page cache (O_DIRECT) there: on local file
 * systems that write room taken beforehand by many threads at a time. */
bool tree_bypasses(int folder);
/* Calls that syncfs(2). It flushes what others wrote to the file system, too. */
int tree_settle(int folder, const char *label, struct err *err);
enum tree_sync_how {
    TREE_SYNC_OWN,    /* made since base was opened, so that one syncfs(2) tells of all failures */
    TREE_SYNC_OTHERS, /* older: a failure may have been told to others, and each has its own */
    TREE_SYNC_WITH_MODES /* after each got its mode, which may leave it without leave to enter it */
};
/* Every folder of the manifest bottom-up, base last, is durable. */
int tree_sync_folders(int base, const char *label, const struct manifest *manifest,
                      enum tree_sync_how how, struct err *err);

/* ".{name}.{kind}.{16 hex digits}". -1 when the name leaves no room for it in one path
 * component. */
int tree_temporary_name(const char *name, const char *kind, char ret_name[TREE_TEMPORARY_BYTES],
                        struct err *err);
/* Whether the entry has such a name. */
bool tree_is_temporary(const char *entry, const char *name, const char *kind);
/* Removes every entry of `parent` with such a name, whoever made it: the caller knows that nobody
 * else is at work on it. Stops at the first that cannot be removed. */
int tree_remove_temporaries(int parent, const char *name, const char *kind, struct err *err);
/* The same of several kinds, ended by NULL, in one walk. */
int tree_remove_all_temporaries(int parent, const char *name, const char *const *kinds,
                                struct err *err);

#endif
