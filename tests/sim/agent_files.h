/* The local files of a simulated machine: job folders with requests, sentinels, shards.
 *
 * Flow     applications, the agent's table and workers read and write here at once; who watches is
 *          told of each change.
 * Shapes   a flat list of absolute paths, a few dozen; a folder exists by its own entry. Everything
 *          belongs to one user.
 * Errors   0, ENOENT or EEXIST.
 *          A symbolic link leads to another absolute path; the last name of a path is not
 *          followed, as the product does not.
 * Absent   links of links, modes, loss at a power cut: applications do not sync their work folders,
 *          and nothing is read from them after one.
 */
#ifndef CKPT_TESTS_SIM_AGENT_FILES_H
#define CKPT_TESTS_SIM_AGENT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

struct agent_files;

struct agent_file {
    char *path;
    bool folder;
    bool link; /* to what `content` names */
    struct buf content;
    uint64_t changes; /* number of the change that touched it last */
};

/* changed() for each path that appears or is replaced; NULL: nobody. */
struct agent_files *agent_files_new(void (*changed)(void *data, const char *path), void *data);
void agent_files_free(struct agent_files *files);

const struct agent_file *agent_files_find(const struct agent_files *files, const char *path);
/* The i-th file below the folder, at any depth, in the order of creation; NULL: no more. */
const struct agent_file *agent_files_below(const struct agent_files *files, const char *folder,
                                           size_t i);
int agent_files_make_folder(struct agent_files *files, const char *path);
int agent_files_make_link(struct agent_files *files, const char *path, const char *to);
/* The path of a link to there; NULL: there is none. */
const char *agent_files_link_to(const struct agent_files *files, const char *to);
/* Creates or replaces. */
int agent_files_write(struct agent_files *files, const char *path, const void *bytes,
                      size_t length);
/* The content, to be changed where it lies, as through a mapping: nobody is told. NULL: there is no
 * such file. */
struct buf *agent_files_map(struct agent_files *files, const char *path);
int agent_files_rename(struct agent_files *files, const char *from, const char *to);
/* With all below it. */
void agent_files_remove(struct agent_files *files, const char *path);

#endif
