/* A channel that follows the leader: one of several endpoints, chosen by the leader hint, else by
 * turn.
 *
 * Flow     rpc_follow_channel() gives the current channel; the owner tells what each call ended
 *          with by rpc_follow_result(); UNAVAILABLE with a hint moves to the hinted endpoint,
 *          without one or with an empty one to the next.
 * Shapes   owned by the client library and by the agent; at most RPC_FOLLOW_ENDPOINTS_MAX
 *          endpoints, hints outside the list are taken too (a member that joined later) but at most
 *          one at a time.
 * Units    milliseconds.
 * Owners   endpoints and hints are copied; a channel that was given belongs to this and may be
 *          gone after rpc_follow_result(), _move() or _free(): ask for it anew for each call.
 * Errors   rpc_follow_new: ERR_INVALID with the text that is no address. Later failures are the
 *          channel's.
 * Threads  the loop's alone.
 */
#ifndef CKPT_RPC_FOLLOW_H
#define CKPT_RPC_FOLLOW_H

#include "src/rpc/client.h"

enum { RPC_FOLLOW_ENDPOINTS_MAX = 16 };
struct rpc_follow;

/* endpoints: "host:port,host:port,...", also "unix:PATH". */
int rpc_follow_new(uv_loop_t *loop, const char *endpoints, const struct rpc_channel_config *config,
                   struct rpc_follow **ret_follow, struct err *err);
void rpc_follow_free(struct rpc_follow *follow);
struct rpc_channel *rpc_follow_channel(struct rpc_follow *follow);
/* What a call on rpc_follow_channel() ended with. A call whose channel is no longer the current one
 * moves nothing, so that many calls that fail together move once. DEADLINE_EXCEEDED moves on as
 * well: a peer that does not answer in time is left; pass it only for attempts, not for what the
 * user's own deadline ended.
 * true: worth another attempt at rpc_follow_channel() after *ret_delay_ms (0 = at once). */
bool rpc_follow_result(struct rpc_follow *follow, const struct rpc_end *end,
                       uint64_t *ret_delay_ms);
/* The caller itself found that the current endpoint is no good, e.g. it was told in a stream that
 * another one leads. hint NULL or "": unknown. */
void rpc_follow_move(struct rpc_follow *follow, const char *hint);
size_t rpc_follow_count(const struct rpc_follow *follow);
const char *rpc_follow_endpoint(const struct rpc_follow *follow, size_t i);

#endif
