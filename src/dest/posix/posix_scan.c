/* scan: which checkpoints lie below a prefix. See posix.h.
 *
 * Flow     walk() goes down {tenant}/{project}/{allocation}/checkpoints/{checkpoint}, the names of
 *          each folder in the order of bytes, and begins behind scan->after. Below the
 *          allocation's folder it reads with the rights of that one's owner, where it is root: the
 *          folders are the job's, and root is nobody on some servers.
 * Shapes   one folder's names in memory at a time and level, NAMES_MAX at most. A page ends when
 *          the sink has enough, or after NAMES_PER_PAGE names of whatever kind: who waits for it
 *          has a deadline. `next` is the last one that was looked at, or where it is on the way to
 *          checkpoints, a name behind all that can be below it. What a killed collect has left, a
 *          folder .{checkpoint}.gone.{16 digits}, is told as its checkpoint.
 *          A name that changes while it is being looked at is told as it was, or not at all: the
 *          next scan sees it.
 * Errors   a folder that this user may not open, or that holds too many names, is counted, and the
 *          walk goes on behind it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/fault.h"
#include "src/dest/line.h"
#include "src/dest/mark.h"
#include "src/dest/names.h"
#include "src/dest/owner.h"
#include "src/dest/posix/place.h"
#include "src/dest/tree.h"

enum { LEVEL_ALLOCATION = 2, LEVEL_CHECKPOINTS = 3, LEVEL_CHECKPOINT = 4, LEVELS = 5 };
enum { TAIL_BYTES = 512 }; /* of a MANIFEST: its last two lines and more */
enum { NAMES_MAX = MANIFEST_ENTRIES_MAX, NAMES_PER_PAGE = 10000 };
#define BEHIND_ALL "/~" /* no id and no checkpoint's folder has a name that comes behind it */

struct walk {
    const struct destination_scan *scan;
    const struct destination_sink *sink;
    struct destination_scanned *scanned;
    char after[MANIFEST_PATH_MAX_BYTES]; /* the names on the way to it, each with a terminator */
    const char *begin[LEVELS];           /* into `after`; NULL: this level is read from its start */
    char path[MANIFEST_PATH_MAX_BYTES];  /* of what is being looked at, below the prefix */
    time_t now;
    uid_t uid; /* of the allocation */
    char owner[64];
    uint64_t name_count; /* of this page */
    bool full;
};

/* Of one folder, sorted. Takes over fd. -1 with errno; EOVERFLOW: there are too many. */
static int read_names(int fd, struct names *ret_names)
{
    struct names names = {0};
    const struct dirent *entry;
    DIR *directory = fdopendir(fd);

    if (directory == NULL) {
        close(fd);
        return -1;
    }
    for (errno = 0; (entry = readdir(directory)) != NULL; errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (names.count == NAMES_MAX) {
            errno = EOVERFLOW;
            break;
        }
        names_add(&names, entry->d_name);
    }
    if (errno != 0) {
        int number = errno;

        names_free(&names);
        closedir(directory);
        errno = number;
        return -1;
    }
    closedir(directory);
    names_sort(&names);
    *ret_names = names;
    return 0;
}

/* What went while it was being looked at is no trouble. */
static void note_denied(struct walk *walk, const char *operation)
{
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return;
    if (walk->scanned->denied++ > 0)
        return;
    if (errno == EOVERFLOW)
        err_set(&walk->scanned->denied_error, ERR_REFUSED,
                "%s/%s holds over %d names, and is not looked at: remove what does not belong "
                "there",
                walk->scan->prefix, walk->path, NAMES_MAX);
    else
        fault_set(&walk->scanned->denied_error, operation, walk->path);
}

/* ---- one checkpoint ---- */

/* "1-20", and what a killed removal of it has left. */
static bool checkpoint_of(const char *name, char ret_name[MANIFEST_NAME_MAX_BYTES + 1])
{
    uint64_t id;
    const char *gone = strstr(name, ".gone.");

    if (checkpoint_id_parse(name, &id) == 0) {
        snprintf(ret_name, MANIFEST_NAME_MAX_BYTES + 1, "%s", name);
        return true;
    }
    if (name[0] != '.' || gone == NULL)
        return false;
    snprintf(ret_name, MANIFEST_NAME_MAX_BYTES + 1, "%.*s", (int)(gone - name - 1), name + 1);
    return checkpoint_id_parse(ret_name, &id) == 0 && tree_is_temporary(name, ret_name, "gone");
}

/* As its MANIFEST says, without reading the files' hashes. False: it has none. */
static bool shard_size(int shard, uint64_t *ret_bytes)
{
    static const char key[] = "\n# total files=", bytes[] = " bytes=";
    char tail[TAIL_BYTES + 1];
    struct stat status;
    const char *at = NULL;
    ssize_t got = -1;
    int fd = tree_open_file(shard, MANIFEST_NAME, "", NULL);

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0)
        got = pread(fd, tail, TAIL_BYTES,
                    status.st_size > TAIL_BYTES ? status.st_size - TAIL_BYTES : 0);
    close(fd);
    if (got > 0) {
        tail[got] = '\0';
        at = strstr(tail, key);
    }
    if (at != NULL)
        at = strstr(at, bytes);
    if (at == NULL)
        return false;
    *ret_bytes = strtoull(at + strlen(bytes), NULL, 10);
    return true;
}

/* Of what was never finished, file by file. */
static uint64_t folder_size(struct walk *walk, int checkpoint, const char *name)
{
    struct manifest found;
    uint64_t bytes = 0;
    int fd = tree_open_beneath(checkpoint, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return 0;
    if (!shard_size(fd, &bytes) && tree_list(fd, "", false, &found, NULL) == 0) {
        for (size_t i = 0; i < found.count; i++)
            bytes += found.entries[i].size_bytes;
        walk->name_count += found.count;
        manifest_close(&found);
    }
    close(fd);
    return bytes;
}

/* Another mark beside it makes it nobody's: then a person has to look. */
static bool is_ours(const struct walk *walk, const struct names *names)
{
    static const size_t length = sizeof(MARK_NAME) - 1;
    bool ours = false;

    for (size_t i = 0; i < names->count; i++) {
        if (strncmp(names->items[i], MARK_NAME, length) != 0)
            continue;
        if (strcmp(names->items[i] + length, walk->scan->mark) != 0)
            return false;
        ours = true;
    }
    return ours;
}

/* The latest change of the folder and of what lies directly in it. */
static time_t newest_change(int checkpoint, const struct names *names)
{
    struct stat status;
    time_t newest = 0;

    if (fstat(checkpoint, &status) == 0)
        newest = status.st_mtim.tv_sec;
    for (size_t i = 0; i < names->count; i++)
        if (fstatat(checkpoint, names->items[i], &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_mtim.tv_sec > newest)
            newest = status.st_mtim.tv_sec;
    return newest;
}

/* S2-017: when anything of it was read or changed, at least `newest`. A file that cannot be looked
 * at counts as used now. */
static time_t newest_use(struct walk *walk, int checkpoint, const struct names *names,
                         time_t newest)
{
    struct tree_use use = {.newest = newest};

    for (size_t i = 0; i < names->count; i++) {
        int fd = tree_open_beneath(checkpoint, names->items[i], O_RDONLY | O_DIRECTORY, 0);

        if (fd < 0)
            continue;
        if (!tree_find_use(fd, &use))
            use.newest = walk->now;
        close(fd);
    }
    walk->name_count += use.names;
    return use.newest;
}

static uint64_t age_of(const struct walk *walk, time_t newest)
{
    return newest < walk->now ? (uint64_t)(walk->now - newest) : 0;
}

/* Its age first: nothing of a young one is summed up. */
static void tell_checkpoint(struct walk *walk, int checkpoint, const struct names *names)
{
    struct destination_found found = {.path = walk->path, .owner = walk->owner};
    time_t newest = newest_change(checkpoint, names);

    if (age_of(walk, newest) < walk->scan->min_age_s)
        return;
    found.age_s = age_of(walk, newest_use(walk, checkpoint, names, newest));
    if (found.age_s < walk->scan->min_age_s)
        return;
    for (size_t i = 0; i < names->count; i++)
        found.size_bytes += folder_size(walk, checkpoint, names->items[i]);
    walk->full = !walk->sink->found(walk->sink->data, &found);
}

/* One entry of a job's folder of checkpoints; what is none is passed over. */
static void look_checkpoint(struct walk *walk, int parent, const char *name)
{
    char id[MANIFEST_NAME_MAX_BYTES + 1];
    struct names names;
    int fd, again;

    if (!checkpoint_of(name, id))
        return;
    walk->name_count++;
    fd = tree_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
    again = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || again < 0 || read_names(again, &names) != 0) {
        note_denied(walk, "open");
        if (fd >= 0)
            close(fd);
        return;
    }
    walk->scanned->looked++;
    walk->name_count += names.count;
    if (is_ours(walk, &names)) {
        size_t length = strlen(walk->path) - strlen(name);

        memcpy(walk->path + length, id, strlen(id) + 1);
        tell_checkpoint(walk, fd, &names);
        memcpy(walk->path + length, name, strlen(name) + 1);
    } else {
        walk->scanned->foreign++;
    }
    names_free(&names);
    close(fd);
}

/* ---- the way there ---- */

/* The directory of users is asked once for the jobs of one user that follow each other. */
static void name_owner(struct walk *walk, uid_t uid)
{
    const struct passwd *user;

    if (walk->owner[0] != '\0' && walk->uid == uid)
        return;
    user = getpwuid(uid);
    walk->uid = uid;
    if (user != NULL && strlen(user->pw_name) < sizeof(walk->owner))
        snprintf(walk->owner, sizeof(walk->owner), "%s", user->pw_name);
    else
        snprintf(walk->owner, sizeof(walk->owner), "%u", (unsigned)uid);
}

/* What the job's folder holds is read as whom it belongs to. False: that user cannot be taken. */
static bool enter_owner(struct walk *walk, int parent, const char *name)
{
    char path[MANIFEST_PATH_MAX_BYTES + 64];
    struct err why = {0};
    struct stat status;

    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode))
        return false;
    name_owner(walk, status.st_uid);
    if (snprintf(path, sizeof(path), "%s/%s/" PLACE_CHECKPOINTS "/x", walk->scan->prefix,
                 walk->path) >= MANIFEST_PATH_MAX_BYTES)
        return false;
    if (owner_enter(&destination_posix, &(struct owner_place){walk->scan->prefix, path, NULL},
                    &why) == 0)
        return true;
    if (walk->scanned->denied++ == 0)
        walk->scanned->denied_error = why;
    return false;
}

/* The name is one that the level may have. */
static bool name_fits(unsigned level, const char *name)
{
    if (level == LEVEL_CHECKPOINTS)
        return strcmp(name, PLACE_CHECKPOINTS) == 0;
    return level == LEVEL_CHECKPOINT || (name[0] != '.' && id_valid(name));
}

static void walk_into(struct walk *walk, int parent, const char *name, unsigned level);

/* Behind what was looked at last, where that can be said in a line. */
static void end_page(struct walk *walk, unsigned level)
{
    char *next = walk->scanned->next;
    size_t size = sizeof(walk->scanned->next);
    size_t length = (size_t)snprintf(next, size, "%s", walk->path);

    for (unsigned below = level + 1; below < LEVELS && length < size; below++)
        length += (size_t)snprintf(next + length, size - length, BEHIND_ALL);
    walk->full = length < size && line_is_word(next);
    if (!walk->full)
        next[0] = '\0';
}

/* Takes over fd, the folder whose names are of this level. */
static void walk_level(struct walk *walk, int fd, unsigned level)
{
    size_t length = strlen(walk->path);
    int again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct names names;

    if (again < 0 || read_names(again, &names) != 0) {
        note_denied(walk, "read");
        close(fd);
        return;
    }
    for (size_t i = 0; i < names.count && !walk->full; i++) {
        const char *begin = walk->begin[level], *name = names.items[i];
        int order = begin == NULL ? 1 : strcmp(name, begin);

        if (order < 0 || (order == 0 && level == LEVEL_CHECKPOINT) || !name_fits(level, name))
            continue;
        if (order > 0) /* behind it everything is new, on all levels below */
            for (unsigned below = level; below < LEVELS; below++)
                walk->begin[below] = NULL;
        if (length + strlen(name) + 2 > sizeof(walk->path))
            continue;
        snprintf(walk->path + length, sizeof(walk->path) - length, "%s%s", length == 0 ? "" : "/",
                 name);
        walk_into(walk, fd, name, level);
        if (walk->scanned->next[0] == '\0' && (walk->full || walk->name_count >= NAMES_PER_PAGE))
            end_page(walk, level);
        walk->path[length] = '\0';
    }
    names_free(&names);
    close(fd);
}

/* One name: a checkpoint, or a folder on the way to some. */
static void walk_into(struct walk *walk, int parent, const char *name, unsigned level)
{
    bool entered = false;
    int fd;

    if (level == LEVEL_CHECKPOINT) {
        look_checkpoint(walk, parent, name);
        return;
    }
    walk->name_count++;
    if (level == LEVEL_ALLOCATION) {
        entered = enter_owner(walk, parent, name);
        if (!entered)
            return;
    }
    fd = tree_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0)
        walk_level(walk, fd, level + 1);
    else
        note_denied(walk, "open");
    if (entered)
        (void)owner_leave();
}

/* The names of scan->after, one for each level. */
static int walk_begin(struct walk *walk, struct err *err)
{
    char *at = walk->after;

    if (walk->scan->after == NULL)
        return 0;
    if (strlen(walk->scan->after) >= sizeof(walk->after))
        return err_set(err, ERR_INVALID, "--after is over %d bytes", MANIFEST_PATH_MAX_BYTES - 1);
    memcpy(walk->after, walk->scan->after, strlen(walk->scan->after) + 1);
    for (unsigned level = 0; level < LEVELS; level++) {
        walk->begin[level] = at;
        at = strchr(at, '/');
        if ((at == NULL) != (level + 1 == LEVELS))
            return err_set(err, ERR_INVALID,
                           "--after \"%.200s\" is no TENANT/PROJECT/ALLOCATION/" PLACE_CHECKPOINTS
                           "/CHECKPOINT",
                           walk->scan->after);
        if (at != NULL)
            *at++ = '\0';
    }
    return 0;
}

int posix_scan(const struct destination_scan *scan, const struct destination_sink *sink,
               struct destination_scanned *ret_scanned, struct err *err)
{
    struct destination_scanned scanned = {0};
    struct walk *walk = check_calloc(1, sizeof(*walk));
    int prefix, result;

    walk->scan = scan;
    walk->sink = sink;
    walk->scanned = &scanned;
    walk->now = time(NULL);
    result = walk_begin(walk, err);
    prefix = result != 0 ? -1 : place_open_prefix(scan->prefix, err);
    if (prefix >= 0) {
        walk_level(walk, prefix, 0);
        scanned.more = walk->full;
        *ret_scanned = scanned;
    }
    free(walk);
    return prefix < 0 ? -1 : 0;
}
