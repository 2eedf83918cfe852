/* See http_guard.h. */
#include "src/serve/http_guard.h"

#include <sys/socket.h>

#include "src/base/check.h"

void http_guard_init(struct http_guard *guard)
{
    list_init(&guard->guests);
    guard->count = 0;
}

static struct http_guest *guard_first(struct http_guard *guard)
{
    return LIST_ITEM(guard->guests.next, struct http_guest, node);
}

void http_guard_leave(struct http_guard *guard, struct http_guest *guest)
{
    if (list_empty(&guest->node))
        return; /* it was shown out */
    CHECK(guard->count > 0);
    list_remove(&guest->node);
    guard->count--;
}

static void guard_show_out(struct http_guard *guard, struct http_guest *guest)
{
    http_guard_leave(guard, guest);
    (void)shutdown(guest->fd, SHUT_RDWR); /* one that is gone already is no matter */
}

void http_guard_enter(struct http_guard *guard, struct http_guest *guest, int fd, uint64_t now_ms)
{
    *guest = (struct http_guest){.since_ms = now_ms, .fd = fd};
    list_push_back(&guard->guests, &guest->node);
    guard->count++;
    if (guard->count > HTTP_GUARD_GUESTS_MAX)
        guard_show_out(guard, guard_first(guard));
}

void http_guard_step(struct http_guard *guard, struct http_guest *guest, uint64_t now_ms)
{
    if (list_empty(&guest->node))
        return;
    guest->since_ms = now_ms;
    list_remove(&guest->node);
    list_push_back(&guard->guests, &guest->node);
}

void http_guard_look(struct http_guard *guard, uint64_t now_ms)
{
    while (!list_empty(&guard->guests) &&
           now_ms - guard_first(guard)->since_ms >= HTTP_GUARD_STEP_MS)
        guard_show_out(guard, guard_first(guard));
}
