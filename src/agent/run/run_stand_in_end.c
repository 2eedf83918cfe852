/* Whether the end of a program is that of its work. See run_stand_in.h.
 *
 * Shapes   status 0 counts as a save when the program was told to save, or a file says that its
 *          work is not complete. Another status, or a signal, counts when it was told; unasked only
 *          where it was named for all ends. All else ends the job.
 * Source   S5-002 to S5-006.
 */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_stand_in.h"
#include "src/base/check.h"

/* It ended as one that has saved. */
static bool ended_as_saved(const struct stand_in *stand_in, int wait_status)
{
    if (stand_in->end_signal != 0)
        return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == stand_in->end_signal;
    return WIFEXITED(wait_status) &&
           WEXITSTATUS(wait_status) == (stand_in->goes_on ? 0 : stand_in->status);
}

bool stand_in_goes_on(const struct stand_in *stand_in, const struct stand_in_end *end)
{
    CHECK(WIFEXITED(end->wait_status) || WIFSIGNALED(end->wait_status));
    if (end->wait_status == 0 && (stand_in->complete != NULL || stand_in->more != NULL))
        return !end->complete;
    if (!end->told && (!stand_in->unasked || end->wait_status == 0))
        return false;
    return ended_as_saved(stand_in, end->wait_status);
}

static bool instant_later(const struct timespec *instant, const struct timespec *than)
{
    return instant->tv_sec > than->tv_sec ||
           (instant->tv_sec == than->tv_sec && instant->tv_nsec > than->tv_nsec);
}

/* A file that was renamed or copied with its times is newer as well. */
bool stand_in_complete(const struct stand_in *stand_in, const struct timespec *began)
{
    struct stat stat_of;

    if (stand_in->complete != NULL &&
        (stat(stand_in->complete, &stat_of) != 0 ||
         (!instant_later(&stat_of.st_mtim, began) && !instant_later(&stat_of.st_ctim, began))))
        return false;
    return stand_in->more == NULL || access(stand_in->more, F_OK) != 0;
}
