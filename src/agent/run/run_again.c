/* The line of a ckpt-run that was started again while its application runs. See run_again.h. */
#include "src/agent/run/run_again.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/agent/run/run_input.h"
#include "src/agent/run/run_output.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/run_started.h"
#include "src/agent/run/words.h"
#include "src/base/id.h"

enum { ENDER_BYTES = ID_MAX_BYTES + 32 };

/* The command that ends it. A job without a cluster has no agent while its ckpt-run is away. */
static const char *name_ender(const struct run_options *options, const struct keeper_reply *reply,
                              char text[ENDER_BYTES])
{
    if (options->alone.wanted)
        snprintf(text, ENDER_BYTES, "kill -- -%" PRIu32, reply->card.pid);
    else
        snprintf(text, ENDER_BYTES, "ckpt-run end %s", reply->allocation_id);
    return text;
}

bool run_again_find(const char *work_dir, const struct run_options *options,
                    struct keeper_card *ret_card, int *ret_fd)
{
    char clock[WORDS_BYTES], ago[WORDS_BYTES], folder[PATH_MAX], ender[ENDER_BYTES];
    struct keeper_reply reply;
    const char *emptied;
    uint64_t now = run_wall_ms();
    int fd;

    *ret_fd = -1;
    run_keeper_folder(folder);
    fd = run_keeper_call(work_dir,
                         &(struct keeper_call){.request = KEEPER_ATTACH,
                                               .line = {options->allocation_id, options->command,
                                                        folder, run_input_mark()}},
                         &reply);
    if (fd < 0 || reply.answer == KEEPER_ATTENDED)
        return true; /* the agent refuses a second one */
    if (reply.answer == KEEPER_UNSEEN) {
        run_say_error("the application of %s runs in another PID namespace (a container), with its "
                      "work folder %s: go on with it or end it there, or remove that container",
                      options->allocation_id, work_dir);
        return false;
    }
    words_clock(reply.card.started_at_ms, clock);
    words_duration(now > reply.card.started_at_ms ? now - reply.card.started_at_ms : 0, ago);
    if (reply.answer == KEEPER_OTHER) {
        run_say_error("pid %" PRIu32 " of allocation %s runs in %s since %s (%s ago), by another "
                      "command: %s; `%s` ends it, and --replace starts this command in its place",
                      reply.card.pid, reply.allocation_id, work_dir, clock, ago, reply.command,
                      name_ender(options, &reply, ender));
        return false;
    }
    if (reply.answer == KEEPER_ELSEWHERE) {
        run_say_error(
            "pid %" PRIu32 " of allocation %s runs since %s (%s ago), by this command but "
            "started in %s, where its file names begin; start it there, or `%s` ends it, and "
            "--replace starts this command here in its place",
            reply.card.pid, reply.allocation_id, clock, ago, reply.folder,
            name_ender(options, &reply, ender));
        return false;
    }
    run_say("goes on with pid %" PRIu32 ", which was started at %s (%s ago) and whose ckpt-run has "
            "gone; its output goes where it went",
            reply.card.pid, clock, ago);
    run_input_goes_on(reply.other_input);
    emptied = run_output_meet((pid_t)reply.card.pid);
    if (emptied != NULL)
        run_say("the file of its %s was emptied when this line was started (> FILE), and what the "
                "application had written there is gone; >> FILE keeps it",
                emptied);
    *ret_card = reply.card;
    *ret_fd = fd;
    return true;
}
