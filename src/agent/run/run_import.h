/* `ckpt-run import JOB DIR`: a folder becomes the first checkpoint of a job, without a key.
 *
 * Flow     The folder and the job are looked at. A child goes on as the ckpt-run of the job, for
 *          one run, with run_import_files.h as its application. Once that runs on all nodes, the
 *          cluster is asked to move the job: the checkpoint of the folder is written and verified
 *          as any other one, and the job stops with it. Then the job is restarted, and its next
 *          ckpt-run begins from there.
 * Shapes   a job of several nodes is imported by the same line on each of them, with a folder for
 *          each part (part-0000), as `ckpt-run get` brings them. Whoever of them asks first also
 *          restarts the job.
 * Errors   nothing is started for a folder or a job that cannot be taken; what fails later is said
 *          by the child and here, and the job waits for another try.
 * Source   V-014.
 */
#ifndef CKPT_AGENT_RUN_IMPORT_H
#define CKPT_AGENT_RUN_IMPORT_H

#include <stdbool.h>

#include "src/agent/run/run_options.h"

/* True: the verb is done, with *ret_code as the program's. False: this is the child, which runs
 * *ret_options. */
bool run_import(int argc, char **argv, struct run_options *ret_options, int *ret_code);

#endif
