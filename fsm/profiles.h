/* The profiles by which an application may be asked for a checkpoint, by name. A registration that names another one is refused, and
 * the agent's table of ways of asking has a row for each (src/agent/ask/ask.c; a test holds them together).
 */
#ifndef CKPT_FSM_PROFILES_H
#define CKPT_FSM_PROFILES_H

/* The first one is what an empty name stands for. */
#define FSM_PROFILES(X)                                                                            \
    X("signal")                                                                                    \
    X("signal-usr2")                                                                               \
    X("grpc")

#endif
