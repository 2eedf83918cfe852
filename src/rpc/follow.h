/* A channel that follows the leader: one of several endpoints, chosen by the redirect, else by
 * turn.
 *
 * Flow     rpc_follow_channel() gives the current channel; the owner gives the end of each call to
 *          rpc_follow_result(). UNAVAILABLE with a redirect moves to the named endpoint; without
 *          one, or with an empty one, it moves to the next endpoint.
 * Shapes   the client library and the agent own followers. A follower has at most
 *          RPC_FOLLOW_ENDPOINTS_MAX endpoints. It also takes a redirect outside of the list (a
 *          member that joined later), one at a time.
 * Units    milliseconds.
 * Owners   endpoints and redirects are copied. The channel belongs to the follower and may be gone
 *          after rpc_follow_result(), _move() or _free(): ask for it anew for each call.
 * Errors   rpc_follow_new: ERR_INVALID with the wrong address. Later failures are the channel's.
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

/* One cluster as a client sees it: its endpoints, the present one, and the count of endpoints in a
 * row that could not answer. */
struct rpc_follow;

/* endpoints: "host:port,host:port,...", also "unix:PATH", blanks around them allowed; the first one
 * is asked first. config NULL: the defaults of channels. Nothing is dialled before the first
 * rpc_follow_channel(). ERR_FULL for too many. */
int rpc_follow_new(uv_loop_t *loop, const char *endpoints, const struct rpc_channel_config *config,
                   struct rpc_follow **ret_follow, struct err *err);
/* Frees its channels, whose calls end before it returns. NULL allowed. */
void rpc_follow_free(struct rpc_follow *follow);
/* The channel of the current endpoint; the first call dials. Never NULL. */
struct rpc_channel *rpc_follow_channel(struct rpc_follow *follow);
/* Takes the end of a call on rpc_follow_channel(). A call whose channel is no longer the current
 * one moves nothing, so many calls that fail together move once. DEADLINE_EXCEEDED moves on as
 * well: a peer that does not answer in time is left. Pass it only for attempts, not for a call that
 * the user's own deadline ended. RESOURCE_EXHAUSTED with a push-back stays at the endpoint and
 * waits. Every other status is an answer, also a refusal, and begins the pauses anew. true: make
 * another attempt at rpc_follow_channel() after *ret_delay_ms (0 = at once). */
bool rpc_follow_result(struct rpc_follow *follow, const struct rpc_end *end,
                       uint64_t *ret_delay_ms);
/* Moves on because the caller itself has found the current endpoint wrong, e.g. a stream said that
 * another member leads. redirect NULL or "": unknown. */
void rpc_follow_move(struct rpc_follow *follow, const char *redirect);
/* rpc_channel_recheck() of each of its channels. */
void rpc_follow_recheck(struct rpc_follow *follow);
/* How long a dial of the next channel may take. With connect_timeout_max_ms it doubles after each
 * one that took too long, until rpc_follow_reached(). Thousands that come at once are greeted one
 * after the other: a client that gives up and comes again would be the last once more. */
uint64_t rpc_follow_dial_ms(const struct rpc_follow *follow);
void rpc_follow_reached(struct rpc_follow *follow); /* the current one serves the caller */
/* The count of configured endpoints, without a redirect's: for a caller that asks every
 * member. */
size_t rpc_follow_count(const struct rpc_follow *follow);
/* A configured endpoint, without blanks; lives with the follower. */
const char *rpc_follow_endpoint(const struct rpc_follow *follow, size_t i);

#endif
