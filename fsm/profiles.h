/* The profiles by which an application may be asked for a checkpoint: the one list of their names.
 * A registration that names another one is refused, and a node asks by the row of src/ask that
 * stands before the name: X(row, name).
 *
 * Order    a new way of asking is a row here and one in src/ask. No job is registered with it
 *          before every member knows the name: an older one would refuse in apply what a newer one
 *          takes, and their states would part.
 */
#ifndef CKPT_FSM_PROFILES_H
#define CKPT_FSM_PROFILES_H

/* What an empty name stands for: the first one. */
#define FSM_PROFILE_DEFAULT "signal"
#define FSM_PROFILES(X)                                                                            \
    X(signal_usr1, FSM_PROFILE_DEFAULT)                                                            \
    X(signal_usr2, "signal-usr2")                                                                  \
    X(grpc, "grpc")

/* The names in a text, each followed by ", ". */
#define FSM_PROFILE_IN_TEXT(row, name) name ", "
#define FSM_PROFILES_TEXT              FSM_PROFILES(FSM_PROFILE_IN_TEXT)

#endif
