/* The job's work folder on this node, made before anything else is done.
 *
 * Shapes   a start empties out/ and restore/ in it, and removes more. So the first one leaves a
 *          mark. A folder that --work-dir names, with such entries and without a mark, is
 *          somebody's own. The default folder is ckpt-run's by its name, also where release 0.1.0
 *          made it.
 * Errors   ERR_INVALID: it cannot be made, is not its user's alone, or has entries that no ckpt-run
 *          has made; the text says what to do. A folder that does not take the mark is used all the
 *          same: it may be full.
 */
#ifndef CKPT_AGENT_RUN_FOLDER_H
#define CKPT_AGENT_RUN_FOLDER_H

#include <limits.h>

#include "src/base/err.h"

#define RUN_FOLDER_MARK   "ckpt-run.folder"
#define RUN_FOLDER_PARENT "/var/tmp" /* of the default folder, RUN_FOLDER_PARENT/ckpt-UID/ID */

/* wanted: as --work-dir says; NULL: the default. The path comes back absolute, without links. */
int run_folder_make(const char *wanted, const char *allocation_id, char ret_path[PATH_MAX],
                    struct err *err);
/* Makes the folder again where somebody has removed it: the job begins from its last checkpoint,
 * which lies elsewhere. */
int run_folder_keep(const char *wanted, const char *allocation_id, const char *path,
                    struct err *err);

#endif
