/* Keeps a program's certificates up to date: looks at the files once a second, reloads changed
 * files, warns before the certificates end.
 *
 * Flow     tls_watch_start -> every TLS_WATCH_MS: changed? reload -> reloaded() or failed(); near
 *          the end? expiring().
 * Shapes   embedded in its owner; the context outlives it. Looking is three stat(2) on local files:
 *          a folder on a mount that can hang is no place for keys.
 * Units    seconds left; negative: over.
 * Errors   failed() tells each broken set of files once; the old ones stay in use.
 * Absent   inotify: it misses files behind replaced links, which is how configuration is rolled out
 *          to many machines.
 */
#ifndef CKPT_TLS_WATCH_H
#define CKPT_TLS_WATCH_H

#include "src/base/ops.h"
#include "src/tls/context.h"

enum {
    TLS_WATCH_MS = 1000,
    TLS_EXPIRY_WARN_S = 30 * 86400,
    TLS_EXPIRY_REPEAT_MS = 86400000 /* between two warnings */
};

/* The owner's callbacks, on the loop thread, during tls_watch_start(), tls_watch_reload() or the
 * timer. None may stop the watch. */
struct tls_watch_events {
    void *data;
    /* the context holds the new files: time to look at open connections again */
    void (*reloaded)(void *data);
    /* the files on disk cannot be used; err is the caller's to copy */
    void (*failed)(void *data, const struct err *err);
    /* what: "certificate" or "CA"; below TLS_EXPIRY_WARN_S left, once a day until it is renewed */
    void (*expiring)(void *data, const char *what, int64_t left_s);
};

/* The owner's storage; the fields are watch.c's, except that others may read `failing`. */
struct tls_watch {
    struct tls_context *context;
    const struct clock_ops *clock;
    struct tls_watch_events events;
    struct clock_timer *timer;
    bool failing; /* the files on disk cannot be used */
    bool warned;
    uint64_t warned_ms; /* monotonic */
};

/* Begins to look. It looks at the dates at once, so expiring() may be called before this returns.
 * The events are copied; the clock stays the caller's and outlives the watch. */
void tls_watch_start(struct tls_watch *watch, struct tls_context *context,
                     const struct clock_ops *clock, const struct tls_watch_events *events);
/* Loads the files now, changed or not, for a signal or a command. reloaded() or failed() comes
 * before this returns. */
void tls_watch_reload(struct tls_watch *watch);
void tls_watch_stop(struct tls_watch *watch); /* also when it was never started */

#endif
