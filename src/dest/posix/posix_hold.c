/* hold: whether this cluster still has the target. See posix.h and ../mark.h.
 *
 * Flow     the note {prefix}/.cluster.{mark} is read; one of a later epoch refuses. Where the task
 *          takes the target, a lower epoch or no note is replaced: written beside, synced, renamed.
 * Shapes   two epochs that write at the same time may leave the lower one. The next probe of the
 *          higher one finds it and writes again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/tree.h"

/* Jobs' users read it, whatever the umask says. */
static int note_fill(int fd, const struct buf *text)
{
    return write(fd, text->bytes, text->length) == (ssize_t)text->length && fchmod(fd, 0644) == 0 &&
                   fsync(fd) == 0
               ? 0
               : -1;
}

/* Somebody who may not write here is no failure; what else goes wrong, the task itself will meet
 * and tell. */
static void note_put(int prefix, const struct destination_hold *hold)
{
    char name[sizeof(MARK_NAME) + MARK_BYTES], temporary[TREE_TEMPORARY_BYTES];
    struct buf text = {0};
    int fd, result;

    snprintf(name, sizeof(name), MARK_NAME "%s", hold->claim->mark);
    if (tree_temporary_name(name + 1, "tmp", temporary, NULL) != 0)
        return;
    fd = openat(prefix, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    mark_note_write(hold->claim, hold->cluster_id, &text);
    result = note_fill(fd, &text);
    buf_close(&text);
    if (close(fd) == 0 && result == 0 && renameat(prefix, temporary, prefix, name) == 0)
        (void)tree_sync(prefix, hold->prefix, NULL);
    else
        (void)unlinkat(prefix, temporary, 0);
}

int posix_hold(const struct destination_hold *hold, struct err *err)
{
    char where[MANIFEST_PATH_MAX_BYTES];
    struct mark_note note;
    int prefix = place_open_prefix(hold->prefix, err), result;

    if (prefix < 0)
        return -1;
    snprintf(where, sizeof(where), "%s/" MARK_NAME "%s", hold->prefix, hold->claim->mark);
    result = place_read_note(prefix, hold->claim->mark, &note, err);
    if (result == 0)
        result = mark_check(hold->claim, &note, where, err);
    if (result == 0 && hold->takes && note.epoch < hold->claim->epoch)
        note_put(prefix, hold);
    close(prefix);
    return result;
}
