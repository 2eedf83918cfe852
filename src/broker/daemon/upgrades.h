/* This member's own program: its supervisor, which starts it again when it ends, and a watch over a
 * new build (canary.h).
 *
 * Flow     upgrades_new() reads what ckptd-start left in the environment, and takes up a watch that
 *          a former process of this build began. upgrades_restart() and a watch that fails call
 *          end(), which hands leadership over and ends the process with DAEMON_EXIT_AGAIN.
 * Files    in the folder of ckptd-start (CKPT_START_STATE; deploy/ckptd-start has their form):
 *          `build`, what it counts starts of, and `put-back`, which has the build before started.
 * Errors   a file that cannot be written is logged; the watch cannot begin without it.
 * When     upgrades_free() after the replica is closed.
 */
#ifndef CKPT_BROKER_UPGRADES_H
#define CKPT_BROKER_UPGRADES_H

#include "ckpt/v1/operator.pb-c.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/canary.h"

enum {
    UPGRADES_TEXT_BYTES = 512,
    UPGRADES_WATCH_MIN_MS = 60000,
    UPGRADES_WATCH_MAX_MS = 86400000,
    UPGRADES_TOLD_MS = 3000 /* a verdict can be read for so long before the process ends */
};

struct upgrades;

typedef void upgrades_end_fn(void *context);
struct upgrades *upgrades_new(struct broker *broker, upgrades_end_fn *end, void *context);
void upgrades_free(struct upgrades *upgrades);

/* The supervisor that starts this process again; "": none is known. `configured`: supervised of the
 * configuration. */
const char *upgrades_supervisor(bool configured);

/* Ends the process in a moment, when answers are on their way. */
void upgrades_restart(struct upgrades *upgrades);
/* ERR_REFUSED: nobody could put this build back; ERR_IO: the file of the watch. */
int upgrades_watch(struct upgrades *upgrades, uint64_t duration_ms, struct err *err);
void upgrades_watch_end(struct upgrades *upgrades);
/* The process ends by a fault: true when a watch is under way, and the build before will start. */
bool upgrades_failed(struct upgrades *upgrades, const char *why);

/* For Status. Texts live as long as the part. */
void upgrades_fill_start(const struct upgrades *upgrades, Ckpt__V1__MemberStart *ret_start);
/* NULL: no watch was begun; ret_results as canary_look() has them, those of the last look. */
struct upgrades_watch {
    const char *state; /* watching, passed, failed */
    uint64_t begun_ms, until_ms;
    struct canary_result results[CANARY_CHECK_COUNT];
};
const struct upgrades_watch *upgrades_watched(const struct upgrades *upgrades);

#endif
