/* The profiles by which an application may be asked for a checkpoint: the one list of their
 * names. A registration that names another one is refused, and a node asks by the row of src/ask
 * that stands before the name: X(row, name). */
#ifndef CKPT_FSM_PROFILES_H
#define CKPT_FSM_PROFILES_H

/* The first one is what an empty name stands for. */
#define FSM_PROFILES(X)                                                                            \
    X(signal_usr1, "signal")                                                                       \
    X(signal_usr2, "signal-usr2")                                                                  \
    X(grpc, "grpc")

#endif
