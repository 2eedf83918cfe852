/* Whose turn it is to make an answer. See server_internal.h.
 *
 * Flow     rpc_call_want_writable() or a send() that found no room → the call waits in its
 *          connection → the connection, when it has room, in its owner → the owner in the server,
 *          whose idle handle gives turns: one call of the next connection of the next owner, until
 *          the time of this round is over. The call's on_writable makes the answer, or a part of
 *          it.
 * Shapes   a call that waits is in one of two lists of its connection: `waiting` in the order of
 *          arrival, or `shut` until its stream's window opens and most of what it has sent is
 *          taken. A connection that has no room comes back when all that it was offered is sent
 *          (rpc_connection_sent); an owner or a server that is full, when something of theirs is
 *          taken, or when the relief has closed one of those who take nothing.
 * Room     of a connection: less than RPC_TURN_OFFERED_BYTES were offered to it since it was last
 *          idle, its window is open, and its answers that wait, those of its owner and those of all
 *          are below their limits. So a reader that takes what it asked for costs the memory of one
 *          answer at a time, however many it asked for.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/server_internal.h"

static void turns_run(uv_idle_t *idle);
static void turns_relief(struct rpc_timer *timer);

static struct rpc_connection *connection_of_turn(struct list *node)
{
    return LIST_ITEM(node, struct rpc_connection, turn_node);
}

static bool server_has_room(const struct rpc_server *server)
{
    return server->stats.bytes_buffered <= RPC_SERVER_BUFFERED_MAX_BYTES;
}

static bool owner_has_room(const struct rpc_owner *owner)
{
    return owner->buffered_bytes <= RPC_OWNER_BUFFERED_MAX_BYTES;
}

static bool connection_is_open(const struct rpc_connection *connection)
{
    return !connection->h2.closing && connection->h2.offered_bytes < RPC_TURN_OFFERED_BYTES &&
           connection->buffered_bytes <= RPC_CONNECTION_BUFFERED_MAX_BYTES &&
           nghttp2_session_get_remote_window_size(connection->h2.session) > 0;
}

static bool call_is_open(const struct rpc_call *call)
{
    const struct rpc_connection *connection = call->connection;
    size_t resume_bytes = connection->server->config.write_buffer_bytes / 2;

    return rpc_outbox_length(&call->outbox) <= resume_bytes &&
           nghttp2_session_get_stream_remote_window_size(connection->h2.session, call->stream_id) >
               0;
}

/* ---- who waits where ---- */

static void turns_wait_for_relief(struct rpc_server *server)
{
    if (server->turns.relief.position == 0)
        rpc_timer_start(&server->timers, &server->turns.relief,
                        uv_now(server->loop) + RPC_RELIEF_MS);
}

static void owner_consider(struct rpc_server *server, struct rpc_owner *owner)
{
    if (list_empty(&owner->connections_waiting) || server->freeing)
        return;
    if (list_empty(&owner->turn_node) && owner_has_room(owner))
        list_push_back(&server->turns.owners, &owner->turn_node);
    if (!list_empty(&owner->turn_node) && server_has_room(server))
        uv_idle_start(&server->turns.idle, turns_run);
    else
        turns_wait_for_relief(server);
}

static void connection_consider(struct rpc_connection *connection)
{
    if (list_empty(&connection->waiting) || !list_empty(&connection->turn_node) ||
        !connection_is_open(connection))
        return;
    list_push_back(&connection->owner->connections_waiting, &connection->turn_node);
    owner_consider(connection->server, connection->owner);
}

static void call_wait(struct rpc_call *call)
{
    CHECK(!call->ended && call->turn == RPC_TURN_NONE);
    rpc_connection_took(call->connection, 0); /* nothing waited: its time begins */
    call->turn = RPC_TURN_WAITING;
    list_push_back(&call->connection->waiting, &call->turn_node);
    rpc_call_count_waiting(call);
    connection_consider(call->connection);
}

void rpc_turns_end(struct rpc_call *call)
{
    if (call->turn == RPC_TURN_NONE)
        return;
    list_remove(&call->turn_node);
    call->turn = RPC_TURN_NONE;
    rpc_call_count_waiting(call);
}

void rpc_turns_reopened(struct rpc_call *call)
{
    if (call->turn != RPC_TURN_SHUT || !call_is_open(call))
        return;
    list_remove(&call->turn_node);
    call->turn = RPC_TURN_WAITING;
    list_push_back(&call->connection->waiting, &call->turn_node);
}

void rpc_turns_reopened_all(struct rpc_connection *connection)
{
    struct list *next;

    for (struct list *node = connection->shut.next; node != &connection->shut; node = next) {
        next = node->next;
        rpc_turns_reopened(LIST_ITEM(node, struct rpc_call, turn_node));
    }
}

void rpc_turns_sent(struct rpc_connection *connection)
{
    connection_consider(connection);
}

void rpc_turns_taken(struct rpc_connection *connection)
{
    struct rpc_server *server = connection->server;

    owner_consider(server, connection->owner);
    if (!list_empty(&server->turns.owners) && server_has_room(server) && !server->freeing)
        uv_idle_start(&server->turns.idle, turns_run);
}

void rpc_turns_leave(struct rpc_connection *connection)
{
    struct rpc_owner *owner = connection->owner;

    list_remove(&connection->turn_node);
    if (owner != NULL && list_empty(&owner->connections_waiting))
        list_remove(&owner->turn_node);
}

bool rpc_turns_blocked_by_peer(const struct rpc_connection *connection)
{
    return !list_empty(&connection->shut) ||
           (!list_empty(&connection->waiting) &&
            nghttp2_session_get_remote_window_size(connection->h2.session) <= 0);
}

/* ---- turns ---- */

/* The first that can write; NULL: none. Those before it wait apart. */
static struct rpc_call *connection_next_call(struct rpc_connection *connection)
{
    while (!list_empty(&connection->waiting)) {
        struct rpc_call *call = LIST_ITEM(connection->waiting.next, struct rpc_call, turn_node);

        if (call_is_open(call))
            return call;
        rpc_connection_took(connection, 0); /* nothing waited for the peer: its time begins */
        list_remove(&call->turn_node);
        call->turn = RPC_TURN_SHUT;
        list_push_back(&connection->shut, &call->turn_node);
    }
    return NULL;
}

static void connection_turn(struct rpc_connection *connection)
{
    struct rpc_call *call;

    list_remove(&connection->turn_node);
    call = connection_is_open(connection) ? connection_next_call(connection) : NULL;
    if (call == NULL)
        return;
    rpc_turns_end(call);
    rpc_call_writable(call);
    connection_consider(connection);
}

/* The handlers may end connections, but libuv gives those and their owners back only after this. */
static void owner_turn(struct rpc_server *server, struct rpc_owner *owner)
{
    CHECK(!list_empty(&owner->connections_waiting));
    list_remove(&owner->turn_node);
    connection_turn(connection_of_turn(owner->connections_waiting.next));
    owner_consider(server, owner);
}

static void turns_run(uv_idle_t *idle)
{
    struct rpc_server *server = idle->data;
    struct rpc_turns *turns = &server->turns;
    uint64_t begin_ns = uv_hrtime();

    while (!server->freeing && !list_empty(&turns->owners) && server_has_room(server) &&
           uv_hrtime() - begin_ns < RPC_TURN_ROUND_US * UINT64_C(1000))
        owner_turn(server, LIST_ITEM(turns->owners.next, struct rpc_owner, turn_node));
    if (server->freeing)
        return;
    if (list_empty(&turns->owners) || !server_has_room(server))
        uv_idle_stop(idle);
    if (!list_empty(&turns->owners) && !server_has_room(server))
        turns_wait_for_relief(server);
}

/* Somebody waits because too much is not read: one of those who do not read it goes. */
static void turns_relief(struct rpc_timer *timer)
{
    struct rpc_server *server = LIST_ITEM(timer, struct rpc_server, turns.relief);
    char text[ERR_TEXT_BYTES];
    bool blocked = false;

    for (struct list *node = server->connections.next; node != &server->connections && !blocked;
         node = node->next) {
        struct rpc_connection *connection = LIST_ITEM(node, struct rpc_connection, node);

        blocked = !connection->h2.closing && !list_empty(&connection->turn_node) &&
                  !(server_has_room(server) && owner_has_room(connection->owner));
        if (blocked)
            rpc_server_relieve(server, connection, text, sizeof(text));
    }
    if (blocked)
        turns_wait_for_relief(server);
}

/* ---- what handlers call ---- */

void rpc_call_want_writable(struct rpc_call *call)
{
    CHECK(!call->ended);
    if (call->turn == RPC_TURN_NONE)
        call_wait(call);
}

/* A stream that is read does not wait for those that are not. */
static bool connection_may_send(const struct rpc_connection *connection)
{
    return connection->buffered_bytes <= RPC_RESERVED_BYTES ||
           (owner_has_room(connection->owner) && server_has_room(connection->server));
}

bool rpc_turns_go_on(struct rpc_call *call)
{
    const struct rpc_connection *connection = call->connection;

    if (call->turn == RPC_TURN_NONE &&
        rpc_outbox_length(&call->outbox) <= connection->server->config.write_buffer_bytes &&
        connection->h2.offered_bytes < RPC_TURN_OFFERED_BYTES &&
        connection->buffered_bytes <= RPC_CONNECTION_BUFFERED_MAX_BYTES &&
        connection_may_send(connection))
        return true;
    rpc_call_want_writable(call);
    return false;
}

/* ---- life ---- */

void rpc_turns_init(struct rpc_server *server)
{
    CHECK(uv_idle_init(server->loop, &server->turns.idle) == 0);
    server->turns.idle.data = server;
    list_init(&server->turns.owners);
    rpc_timer_init(&server->turns.relief, turns_relief);
}

static void turns_closed(uv_handle_t *handle)
{
    rpc_server_handle_closed(handle->data);
}

void rpc_turns_close(struct rpc_server *server)
{
    uv_close((uv_handle_t *)&server->turns.idle, turns_closed);
}
