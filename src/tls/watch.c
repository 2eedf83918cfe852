/* Looking at certificate files now and then. See watch.h. */
#include "src/tls/watch.h"

#include "src/base/check.h"

static void warn_of_expiry(const struct tls_watch *watch, const char *what, int64_t expiry_s)
{
    int64_t left_s = expiry_s - (int64_t)(watch->clock->wall_ms(watch->clock->context) / 1000);

    if (left_s < TLS_EXPIRY_WARN_S)
        watch->events.expiring(watch->events.data, what, left_s);
}

static void watch_dates(struct tls_watch *watch)
{
    uint64_t now_ms = watch->clock->monotonic_us(watch->clock->context) / 1000;

    if (watch->warned && now_ms - watch->warned_ms < TLS_EXPIRY_REPEAT_MS)
        return;
    watch->warned = true;
    watch->warned_ms = now_ms;
    warn_of_expiry(watch, "certificate", tls_context_expiry(watch->context));
    warn_of_expiry(watch, "CA", tls_context_ca_expiry(watch->context));
}

void tls_watch_reload(struct tls_watch *watch)
{
    struct err err;

    if (tls_context_reload(watch->context, &err) != 0) {
        watch->failing = true;
        watch->events.failed(watch->events.data, &err);
        return;
    }
    watch->failing = false;
    watch->warned = false; /* the new ones have dates of their own */
    watch->events.reloaded(watch->events.data);
    watch_dates(watch);
}

static void watch_fire(void *data)
{
    struct tls_watch *watch = data;

    if (tls_context_poll(watch->context))
        tls_watch_reload(watch);
    else
        watch_dates(watch);
    watch->clock->timer_start(watch->timer, UINT64_C(1000) * TLS_WATCH_MS);
}

void tls_watch_start(struct tls_watch *watch, struct tls_context *context,
                     const struct clock_ops *clock, const struct tls_watch_events *events)
{
    *watch = (struct tls_watch){.context = context, .clock = clock, .events = *events};
    watch->timer = clock->timer_new(clock->context, watch_fire, watch);
    watch_dates(watch);
    clock->timer_start(watch->timer, UINT64_C(1000) * TLS_WATCH_MS);
}

void tls_watch_stop(struct tls_watch *watch)
{
    if (watch->timer != NULL)
        watch->clock->timer_free(watch->timer);
    watch->timer = NULL;
}
