/* Certificates that the cluster has revoked, as this agent knows them: a member that shows one of
 * them is refused.
 *
 * Flow     revoked_kept_open() at the start, before anybody is dialled: the file's certificates are
 *          refused from then on. revoked_kept_take() for each list of the leader: into the file,
 *          into the TLS context, and to changed(), from a timer, which looks at open connections.
 * Shapes   {state_dir}/revoked: a line with the list's hash, then one for each serial number. A
 *          whole file takes the place of the one before.
 * Errors   a file that cannot be read, or is none, is told and counts as an empty list: the leader
 *          sends it again. One that cannot be written is told; the list then counts until the next
 *          start.
 * Source   K-009.
 */
#ifndef CKPT_AGENT_REVOKED_KEPT_H
#define CKPT_AGENT_REVOKED_KEPT_H

#include "ckpt/v1/agent.pb-c.h"
#include "src/base/ops.h"
#include "src/tls/context.h"

struct revoked_kept;

/* context: outlives it. NULL: no TLS, and nothing is kept; the others accept NULL. */
struct revoked_kept *revoked_kept_open(const char *state_dir, struct tls_context *context,
                                       const struct clock_ops *clock, void (*changed)(void *data),
                                       void *data);
void revoked_kept_free(struct revoked_kept *kept);
/* Of the list in use; 0: an empty one. */
uint64_t revoked_kept_hash(const struct revoked_kept *kept);
void revoked_kept_take(struct revoked_kept *kept, const Ckpt__V1__RevokedSerials *list);

#endif
