/* `ckpt-run import-files FOLDER LABEL`: the application that `ckpt-run import` runs as the job. Its
 * state is a folder.
 *
 * Flow     a checkpoint is asked for (SIGUSR1 or SIGUSR2) -> $CKPT_DIR/request -> the folder, or on
 *          one of several nodes its part of that name, is copied there -> $CKPT_DIR/done. It never
 *          ends by itself.
 * Errors   a copy that fails is the checkpoint's status: the job's output shows its text. A request
 *          that was withdrawn meanwhile gets no answer.
 */
#ifndef CKPT_AGENT_RUN_IMPORT_FILES_H
#define CKPT_AGENT_RUN_IMPORT_FILES_H

#include <limits.h>

#define IMPORT_FILES_VERB "import-files"
/* A file in the work folder: the job that runs here is this application. */
#define IMPORT_SIGN "ckpt-run.import"

int run_import_files(int argc, char **argv);
/* Where the files of a part lie: the folder of a job on one node, else its part-NNNN. */
void import_part_folder(const char *folder, unsigned part, unsigned parts, char ret_path[PATH_MAX]);

#endif
