/* Attributes of a job that checkpoints itself, by the names that HTCondor has given them in its
 * releases. They say when a program has saved, by which signal it is told to, and in which files.
 *
 * Shapes   a line NAME=VALUE each. Names count in any case, also with "+" or "MY." before them.
 *          Values are numbers from 0 to 255, TRUE or FALSE, names of signals, or lists of files;
 *          double quotes around them are taken off.
 *
 *            checkpoint_exit_code, CheckpointExitCode, SuccessCheckpointExitCode          number
 *            CheckpointExitBySignal, SuccessCheckpointExitBySignal                        TRUE
 *            CheckpointExitSignal, SuccessCheckpointExitSignal                            signal
 *            WantFTOnCheckpoint     each such end is a save, whether it was asked or not  TRUE
 *            WantCheckpointSignal   it is told by a signal                                TRUE
 *            CheckpointSig          ... by this one; without: kill_sig, without that TERM
 *            kill_sig, KillSig      the signal by which it is told to end                 signal
 *            transfer_checkpoint_files, TransferCheckpoint,
 *            transfer_output_files, TransferOutput                                        files
 *            success_exit_code, JobSuccessExitCode    the status at the end of its work   number
 *            when_to_transfer_output, WhenToTransferOutput    without meaning here
 *
 * Errors   a name or a value that is none, a save that looks like the end of the work, attributes
 *          from which no save follows: a status each.
 * Absent   names of signals are looked at where they are sent: here their letters count alone. The
 *          functions need neither memory nor a state: agents use this file as well.
 * Source   S5-004, S5-005, S5-006, S5-010, S5-011, S5-013.
 */
#ifndef CKPT_FSM_ATTRIBUTES_H
#define CKPT_FSM_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsm/status.h"

enum {
    FSM_ATTRIBUTES_MAX_BYTES = 1024,
    FSM_ATTRIBUTE_SIGNAL_BYTES = 16,
    FSM_ATTRIBUTE_FILES_BYTES = FSM_ATTRIBUTES_MAX_BYTES
};

struct fsm_attributes {
    bool unasked;     /* each end as that of a save is one */
    bool want_signal; /* it is told */
    bool by_signal;   /* it ends by a signal when it has saved; else with a status */
    uint32_t code;    /* the status of a save */
    uint32_t final;   /* the status at the end of its work */
    char exit_signal[FSM_ATTRIBUTE_SIGNAL_BYTES];       /* as it is written; "": not given */
    char checkpoint_signal[FSM_ATTRIBUTE_SIGNAL_BYTES]; /* likewise */
    char kill_signal[FSM_ATTRIBUTE_SIGNAL_BYTES];       /* likewise */
    char files[FSM_ATTRIBUTE_FILES_BYTES];              /* with blanks between; "": not given */
};

/* Any status but FSM_OK: ret_found has what was found, and *ret_attributes is half read. */
enum fsm_status fsm_attributes_read(const char *text, struct fsm_attributes *ret_attributes,
                                    char ret_found[FSM_FOUND_BYTES]);

#endif
