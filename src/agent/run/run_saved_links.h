/* Symbolic links among the files that a program saves its state in. None is followed: each comes
 * back as a link with the same text, in the same folder, and so leads where it led.
 *
 * Flow     saved_links_judge() before files are saved; saved_links_copy() with them, and
 *          saved_links_bring_back() when they come back.
 * Shapes   one that stays within the folder is a link in the checkpoint as well. A checkpoint holds
 *          no link that leads out of it (src/dest/manifest.h): an absolute one, and one that climbs
 *          out, is a record of the file SAVED_LINKS_NAME, its name and its text, each with its NUL.
 *          No checkpoint has the files behind such a link. So a save is none when one of these has
 *          changed since the program was told, or begun: it would come back to older files beside
 *          newer ones.
 * Errors   a text names the link, where it leads and the next step.
 * Source   V-017.
 */
#ifndef CKPT_AGENT_RUN_SAVED_LINKS_H
#define CKPT_AGENT_RUN_SAVED_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "src/agent/run/run_saved_files.h"
#include "src/base/err.h"

#define SAVED_LINKS_NAME ".ckpt-run.links"
/* Files behind one link that are looked at: beyond, nobody is taken to write there. */
enum { SAVED_LINKS_LOOKED_MAX = 10000 };

/* ret_why "": they can be saved as links. A file that is left out is so behind a link as well. The
 * first of those that lead out is said, once for all saves of this process. */
void saved_links_judge(const struct saved_files *files, const struct timespec *newer_than,
                       char *ret_why, size_t size);
int saved_links_copy(const struct saved_files *files, const char *folder, struct err *err);
/* One link of the checkpoint at `path`, as `name` here; of SAVED_LINKS_NAME all of its records. */
int saved_link_bring_back(const char *path, const char *name, struct err *err);
int saved_links_bring_back(const char *path, struct err *err);

#endif
