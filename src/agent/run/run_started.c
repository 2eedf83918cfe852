/* The lines by which ckpt-run tells of a start of its application. See run_started.h. */
#include "src/agent/run/run_started.h"

#include <sys/wait.h>
#include <time.h>

#include "src/agent/run/run_names.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/words.h"

uint64_t run_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The work of the last run that is computed again: what went before that run was lost, and told, at
 * an earlier start. */
static void say_lost(const Ckpt__V1__AttachReady *ready, const struct run_started *started)
{
    char lost[WORDS_BYTES];

    if (ready->snapshot_at_ms == 0 || started->last.ended_at_ms <= ready->snapshot_at_ms)
        return;
    if (started->last.started_at_ms <= ready->snapshot_at_ms)
        run_say("lost: %s of work, between that checkpoint and the end of the application",
                words_duration(started->last.ended_at_ms - ready->snapshot_at_ms, lost));
    else
        run_say("lost: %s of work, between the last start of the application and its end%s",
                words_duration(started->last.ended_at_ms - started->last.started_at_ms, lost),
                started->last.began_from != ready->checkpoint_id
                    ? ", and what the checkpoint that it had gone on from has beside this one"
                    : "");
}

static uint32_t parts; /* of the last start */

void run_say_restart(uint32_t number, uint32_t most, int wait_status)
{
    if (parts > 1)
        return;
    if (WIFEXITED(wait_status))
        run_say("restart %u of %u: the application ended with status %d", number, most,
                WEXITSTATUS(wait_status));
    else
        run_say("restart %u of %u", number, most);
}

void run_say_started(const Ckpt__V1__AttachReady *ready, const struct run_started *started)
{
    char id[RUN_NAME_BYTES], taken[WORDS_BYTES], ago[WORDS_BYTES], part[RUN_NAME_BYTES];
    uint64_t now = run_wall_ms();

    parts = ready->parts;
    if (ready->checkpoint_id == 0) {
        run_say("started pid %d%s from scratch%s%s", (int)started->pid, run_part_name(ready, part),
                ready->scratch[0] != '\0' ? ": "
                : started->wants_restore  ? ""
                                          : ", as --from-scratch says",
                ready->scratch);
        return;
    }
    run_say("started pid %d%s from checkpoint %s (%s), taken at %s, %s ago, and kept at %s",
            (int)started->pid, run_part_name(ready, part),
            ready->restore_dir[0] != '\0' ? ready->restore_dir : ready->restore_uri,
            run_checkpoint_name(ready, id), words_clock(ready->snapshot_at_ms, taken),
            words_duration(now > ready->snapshot_at_ms ? now - ready->snapshot_at_ms : 0, ago),
            ready->path);
    say_lost(ready, started);
}
