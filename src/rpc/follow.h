/* A channel that follows the leader: one of several endpoints, chosen by the redirect, else by
 * turn.
 *
 * Flow     rpc_follow_channel() gives the current channel; the owner tells what each call ended
 *          with by rpc_follow_result(); UNAVAILABLE with a redirect moves to the endpoint that it
 *          names, without one or with an empty one to the next.
 * Shapes   owned by the client library and by the agent; at most RPC_FOLLOW_ENDPOINTS_MAX
 *          endpoints, redirects outside the list are taken too (a member that joined later) but at
 *          most one at a time.
 * Units    milliseconds.
 * Owners   endpoints and redirects are copied; a channel that was given belongs to this and may be
 *          gone after rpc_follow_result(), _move() or _free(): ask for it anew for each call.
 * Errors   rpc_follow_new: ERR_INVALID with the text that is no address. Later failures are the
 *          channel's.
 * Threads  the loop's alone.
 *
 * A caller's turn:
 *
 *     start a call on rpc_follow_channel(follow);
 *     on_end: again = rpc_follow_result(follow, end, &delay_ms);
 *             again ? the same call, with the same request id, after delay_ms : it is answered
 */
#ifndef CKPT_RPC_FOLLOW_H
#define CKPT_RPC_FOLLOW_H

#include "src/rpc/client.h"

enum { RPC_FOLLOW_ENDPOINTS_MAX = 16 };

/* One cluster as a client sees it: its endpoints, which one is asked now, and how many in a row
 * could not answer. */
struct rpc_follow;

/* endpoints: "host:port,host:port,...", also "unix:PATH", blanks around them allowed; the first one
 * is asked first. config NULL: the defaults of channels. Nothing is dialled before the first
 * rpc_follow_channel(). ERR_FULL for too many. */
int rpc_follow_new(uv_loop_t *loop, const char *endpoints, const struct rpc_channel_config *config,
                   struct rpc_follow **ret_follow, struct err *err);
/* Frees its channels, whose calls end before it returns. NULL allowed. */
void rpc_follow_free(struct rpc_follow *follow);
/* Of the current endpoint; dialled now when it is the first time. Never NULL. */
struct rpc_channel *rpc_follow_channel(struct rpc_follow *follow);
/* What a call on rpc_follow_channel() ended with. A call whose channel is no longer the current one
 * moves nothing, so that many calls that fail together move once. DEADLINE_EXCEEDED moves on as
 * well: a peer that does not answer in time is left; pass it only for attempts, not for what the
 * user's own deadline ended. RESOURCE_EXHAUSTED with a push-back stays where it is and waits. Every
 * other status is an answer, also a refusal, and begins the pauses anew.
 * true: worth another attempt at rpc_follow_channel() after *ret_delay_ms (0 = at once). */
bool rpc_follow_result(struct rpc_follow *follow, const struct rpc_end *end,
                       uint64_t *ret_delay_ms);
/* The caller itself found that the current endpoint is no good, e.g. it was told in a stream that
 * another one leads. redirect NULL or "": unknown. */
void rpc_follow_move(struct rpc_follow *follow, const char *redirect);
/* The list as it was given, without that of a redirect: for who asks every member. */
size_t rpc_follow_count(const struct rpc_follow *follow);
/* As it was given, without blanks; lives with the follower. */
const char *rpc_follow_endpoint(const struct rpc_follow *follow, size_t i);

#endif
