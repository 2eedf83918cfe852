/* Whether a folder can be imported into a job, asked before anything is started.
 *
 * Errors   each returns -1 with a text that names the job or the file, and the next step.
 */
#ifndef CKPT_AGENT_RUN_IMPORT_CHECK_H
#define CKPT_AGENT_RUN_IMPORT_CHECK_H

#include <limits.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/dest/folder_copy.h"

int import_check_job(const Ckpt__V1__Allocation *job, struct err *err);
/* word: as it was typed; ret_folder: without links. Of a job of several parts, those that are there
 * are looked at, and ret_sum stays as it is. */
int import_check_folder(const char *word, uint32_t parts, char ret_folder[PATH_MAX],
                        struct folder_sum *ret_sum, struct err *err);

#endif
