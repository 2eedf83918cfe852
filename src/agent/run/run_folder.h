/* The job's work folder on this node, made before anything else is done.
 *
 * Errors   ERR_INVALID: it cannot be made, or is not its user's alone; the text says what to do.
 */
#ifndef CKPT_AGENT_RUN_FOLDER_H
#define CKPT_AGENT_RUN_FOLDER_H

#include <limits.h>

#include "src/base/err.h"

/* wanted: as --work-dir says; NULL: a default below TMPDIR. The path comes back absolute, without
 * links. */
int run_folder_make(const char *wanted, const char *allocation_id, char ret_path[PATH_MAX],
                    struct err *err);

#endif
