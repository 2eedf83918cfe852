/* The common part of ways that ask by a call: AppCheckpointService.Checkpoint
 * (proto/ckpt/v1/app.proto) at the address that the node knows.
 *
 * Flow     fire dials it and calls; done_bytes and failed become <work>/done, as if the application
 *          had written it, and then answered() is told; defer_ms is deferred(). A call that ends
 *          without any is broken().
 * Shapes   one connection per call. The kernel tells, before anything is sent, that the
 *          listener is the job's user: a path that leads elsewhere reaches nobody. No keepalive: an
 *          application may write its checkpoint without serving the connection meanwhile, and one
 *          that ends closes it.
 * Errors   nobody listens, or the connection breaks: NOT_ATTACHED, which is tried again. Another
 *          status: APPLICATION_REFUSED.
 */
#ifndef CKPT_ASK_CALL_H
#define CKPT_ASK_CALL_H

#include "src/ask/folder.h"

/* unregistered: for people, where the node knows of no address. */
enum ask_ready ask_call_preflight(const struct ask_target *target, const char *unregistered,
                                  char *ret_detail, size_t size);
int ask_call_fire(const struct ask_ops *ops, const struct ask_target *target,
                  const struct ask_request *request, const struct ask_listener *listener,
                  struct ask_call **ret_call, struct err *err);
void ask_call_hang_up(struct ask_call *call);

/* For rows. */
#define ASK_CALL_OPS                                                                               \
    .lost = "the agent ended while the application was to answer its call", .fire = ask_call_fire, \
    .hang_up = ask_call_hang_up, ASK_FOLDER_OPS

#endif
