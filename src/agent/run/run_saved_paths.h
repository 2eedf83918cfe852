/* Paths of files that are saved, below the folder of the program: those that are left out, and the
 * folders above one.
 *
 * Shapes   up to 8 are left out, by what they are and not by their names.
 */
#ifndef CKPT_AGENT_RUN_SAVED_PATHS_H
#define CKPT_AGENT_RUN_SAVED_PATHS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Neither that file nor anything of that folder is found or brought back, whatever the patterns
 * say. */
void saved_path_leave_out(int descriptor);
bool saved_path_leaves_out(const struct stat *stat);
/* The file, or a folder that its name leads through. */
bool saved_path_lies_left_out(const char *path);
/* The folders above the last name of a path. -1 with errno. */
int saved_path_make_parents(const char *path);

#endif
