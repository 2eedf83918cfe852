/* The profiles by which an application may be asked for a checkpoint: the one list of their names.
 * A registration with another name is refused. A node asks by a row of src/ask: X(row, name,
 * level).
 *
 * Order    a new way of asking is a row here, with the feature level that it came with, and one in
 *          src/ask. No job is registered with the new name before the cluster has that level
 *          (fsm/level.h). An older member would refuse in apply a command that a newer one accepts,
 *          and their states would part.
 */
#ifndef CKPT_FSM_PROFILES_H
#define CKPT_FSM_PROFILES_H

/* An empty name means the first profile. */
#define FSM_PROFILE_DEFAULT "signal"
/* ... and that of one that looks for the question itself, or has a stand-in that does. */
#define FSM_PROFILE_FILE "file"
#define FSM_PROFILES(X)                                                                            \
    X(signal_usr1, FSM_PROFILE_DEFAULT, 1)                                                         \
    X(signal_usr2, "signal-usr2", 1)                                                               \
    X(grpc, "grpc", 1)                                                                             \
    X(shm, "shm", 2)                                                                               \
    X(file, FSM_PROFILE_FILE, 2)                                                                   \
    X(exec, "exec", 2)                                                                             \
    X(criu, "criu", 2)                                                                             \
    X(dmtcp, "dmtcp", 2)

/* Those that save the processes of one node: a job of several parts is refused. */
#define FSM_PROFILES_OF_ONE_PART "criu", "dmtcp"

/* The names in a text, each followed by ", ". */
#define FSM_PROFILE_IN_TEXT(row, name, level) name ", "
#define FSM_PROFILES_TEXT                     FSM_PROFILES(FSM_PROFILE_IN_TEXT)

#endif
