/* Who takes long over a request is shown out, and the slowest when there are many. */
#include "src/serve/http_guard.h"

#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { MANY = HTTP_GUARD_GUESTS_MAX + 10 };

struct visitor {
    struct http_guest guest;
    int own, theirs; /* ends of a connection */
};

static void come(struct http_guard *guard, struct visitor *visitor, uint64_t now_ms)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    visitor->own = ends[0];
    visitor->theirs = ends[1];
    http_guard_enter(guard, &visitor->guest, visitor->own, now_ms);
}

static bool shown_out(const struct visitor *visitor)
{
    char byte;

    return recv(visitor->theirs, &byte, 1, MSG_DONTWAIT) == 0;
}

static void go(struct http_guard *guard, struct visitor *visitor)
{
    http_guard_leave(guard, &visitor->guest);
    close(visitor->own);
    close(visitor->theirs);
}

static void a_step_has_its_time(void **state)
{
    struct http_guard guard;
    struct visitor slow, quick;

    (void)state;
    http_guard_init(&guard);
    come(&guard, &slow, 1000);
    come(&guard, &quick, 1000);
    http_guard_look(&guard, 1000 + HTTP_GUARD_STEP_MS - 1);
    assert_false(shown_out(&slow));
    http_guard_step(&guard, &quick.guest, 4000);
    http_guard_look(&guard, 1000 + HTTP_GUARD_STEP_MS);
    assert_true(shown_out(&slow));
    assert_false(shown_out(&quick));
    http_guard_step(&guard, &slow.guest, 7000); /* too late, and harmless */
    http_guard_look(&guard, 4000 + HTTP_GUARD_STEP_MS);
    assert_true(shown_out(&quick));
    assert_uint_equal(guard.count, 0);
    go(&guard, &slow);
    go(&guard, &quick);
}

static void the_slowest_makes_way(void **state)
{
    static struct visitor visitors[MANY];
    struct http_guard guard;

    (void)state;
    http_guard_init(&guard);
    for (size_t i = 0; i < MANY; i++) {
        come(&guard, &visitors[i], 1000 + i);
        if (i == 100)
            http_guard_step(&guard, &visitors[0].guest, 1000 + i); /* the first gets on */
    }
    assert_uint_equal(guard.count, HTTP_GUARD_GUESTS_MAX);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(shown_out(&visitors[i]), i >= 1 && i <= MANY - HTTP_GUARD_GUESTS_MAX);
    for (size_t i = 0; i < MANY; i++)
        go(&guard, &visitors[i]);
    assert_uint_equal(guard.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_its_time),
        cmocka_unit_test(the_slowest_makes_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
