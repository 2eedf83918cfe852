/* Asks the leader from where an application starts. See restart_points.h. */
#include "src/agent/job/restart_points.h"

#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/daemon/agent.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/rpc/follow.h"

#define RESTART_POINT_METHOD "/ckpt.v1.BrokerService/GetRestartPoint"

enum { CALL_TIMEOUT_MS = 5000 };

struct restart_points {
    struct agent *agent;
    struct rpc_follow *follow;
};

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err)
{
    const struct rpc_channel_config config = {.tls = agent->tls};
    struct restart_points *points = check_calloc(1, sizeof(*points));

    points->agent = agent;
    if (rpc_follow_new(agent->loop, brokers, &config, &points->follow, err) != 0) {
        free(points);
        return -1;
    }
    *ret_points = points;
    return 0;
}

void restart_points_free(struct restart_points *points)
{
    if (points == NULL)
        return;
    rpc_follow_free(points->follow);
    free(points);
}

void restart_points_recheck(struct restart_points *points)
{
    if (points != NULL)
        rpc_follow_recheck(points->follow);
}

struct agent *restart_points_agent(const struct restart_points *points)
{
    return points->agent;
}

struct rpc_client_call *restart_points_ask(struct restart_points *points, const char *allocation_id,
                                           const struct rpc_client_handlers *handlers, void *data)
{
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    struct rpc_client_call *call;
    char id[ID_MAX_BYTES + 1], node_id[ID_MAX_BYTES + 1];
    struct buf bytes;

    CHECK(allocation_id[0] != '\0');
    snprintf(id, sizeof(id), "%s", allocation_id);
    snprintf(node_id, sizeof(node_id), "%s", points->agent->node_id);
    request.allocation_id = id;
    request.node_id = node_id;
    buf_init(&bytes);
    ckpt__v1__get_restart_point_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__get_restart_point_request__get_packed_size(&request)));
    call = rpc_channel_unary(rpc_follow_channel(points->follow),
                             &(struct rpc_request){.path = RESTART_POINT_METHOD,
                                                   .bytes = bytes.bytes,
                                                   .length = bytes.length,
                                                   .timeout_ms = CALL_TIMEOUT_MS},
                             handlers, data);
    buf_close(&bytes);
    return call;
}

uint64_t restart_points_end(struct restart_points *points, const struct rpc_end *end)
{
    struct rpc_follow *follow = points->follow;
    uint64_t delay_ms = 0;

    if (!rpc_follow_result(follow, end, &delay_ms) && end->status != RPC_NOT_FOUND &&
        end->channel == rpc_follow_channel(follow))
        rpc_follow_move(follow, NULL); /* no broker, or one that cannot: another may */
    return delay_ms;
}
