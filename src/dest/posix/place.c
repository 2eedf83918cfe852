/* From (prefix, path) to an open folder. See place.h. */
#include "src/dest/posix/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/fault.h"
#include "src/dest/mark.h"
#include "src/dest/tree.h"

/* ALLOCATION/checkpoints/CHECKPOINT, and the folder of all of them */
enum { PLACE_JOBS_LEVELS = 3, PLACE_JOBS_ALL_LEVELS = 2, PLACE_TRIES = 3 };

int place_check_part(const char *part, struct err *err)
{
    if (!id_valid(part) || part[0] == '.')
        return err_set(err, ERR_INVALID,
                       "the part's name \"%.140s\" is not an id: use [A-Za-z0-9._-]{1,128}, not "
                       "beginning with a dot",
                       part);
    return 0;
}

int place_open_prefix(const char *prefix, struct err *err)
{
    int fd;

    if (prefix[0] != '/')
        return err_set(err, ERR_INVALID, "the prefix \"%s\" is not an absolute path", prefix);
    fd = open(prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == ENOENT || errno == ENOTDIR)
        return err_set(err, ERR_UNAVAILABLE,
                       "the prefix %s is missing: %s; mount the file system or create the folder, "
                       "it is never created here",
                       prefix, strerror(errno));
    return fault_set(err, "open prefix", prefix);
}

int place_relative(const char *prefix, const char *path, char ret_relative[MANIFEST_PATH_MAX_BYTES],
                   struct err *err)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    size_t prefix_length = strlen(prefix), length;
    const char *problem;

    while (prefix_length > 0 && prefix[prefix_length - 1] == '/')
        prefix_length--;
    if (strncmp(path, prefix, prefix_length) != 0 || path[prefix_length] != '/')
        return err_set(err, ERR_REFUSED, "%s is not below the prefix %s", path, prefix);
    path += prefix_length + 1;
    length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    if (length >= sizeof(relative))
        return err_set(err, ERR_REFUSED, "the path is over %d bytes", MANIFEST_PATH_MAX_BYTES - 1);
    memcpy(relative, path, length);
    relative[length] = '\0';
    problem = manifest_path_problem(relative);
    if (problem != NULL)
        return err_set(err, ERR_REFUSED, "the path \"%s\" below %s %s", relative, prefix, problem);
    memcpy(ret_relative, relative, length + 1);
    return 0;
}

int place_open(const struct destination_place *place, struct err *err)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    int prefix, fd;

    if (place->prefix == NULL) {
        fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 ? fd : fault_set(err, "open checkpoint", place->path);
    }
    if (place_relative(place->prefix, place->path, relative, err) != 0)
        return -1;
    prefix = place_open_prefix(place->prefix, err);
    if (prefix < 0)
        return -1;
    fd = tree_open_beneath(prefix, relative, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        fault_set(err, "open checkpoint", place->path);
    close(prefix);
    return fd;
}

bool place_is_bare(const struct destination_place *place)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    struct stat status;
    int prefix;
    bool bare;

    if (place->prefix == NULL || place_relative(place->prefix, place->path, relative, NULL) != 0)
        return false;
    relative[strcspn(relative, "/")] = '\0';
    prefix = place_open_prefix(place->prefix, NULL);
    if (prefix < 0)
        return false;
    bare = fstatat(prefix, relative, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    close(prefix);
    return bare;
}

/* ---- folders made on the way ---- */

/* {prefix}/{tenant}/{project} are everybody's and nobody's: the service's. {allocation} and what is
 * in it are the job's. */
enum level { LEVEL_ABOVE, LEVEL_ALLOCATION, LEVEL_INSIDE };

/* On the way down from the prefix. */
struct climb {
    const struct destination_place *place;
    const char *relative; /* of place->path */
    struct stat prefix;
    uid_t owner; /* whose job it is */
    /* takes the folders above levels that were there already; NULL: these are made durable, too */
    struct place_pending *pending;
    bool pends;                         /* the folder above what is being entered goes there */
    bool last;                          /* the checkpoint's own is being entered */
    char path[MANIFEST_PATH_MAX_BYTES]; /* of what is being entered */
};

/* A prefix with the set-group-id bit names the group that may remove what jobs wrote: everything
 * below gets it. */
static bool climb_shared(const struct climb *climb)
{
    return (climb->prefix.st_mode & S_ISGID) != 0;
}

/* Of a folder that is made, before share_folder() adds the bit that hands the group down. */
static mode_t level_mode(enum level level, bool shared)
{
    mode_t mode = level == LEVEL_ABOVE ? 0755 : 0700;

    return shared ? mode | S_IRWXG : mode;
}

/* A folder that was just made gets what the parent did not hand down to it, as far as this process
 * may: without the group nobody but its owner removes what is in it. */
static void share_folder(const struct climb *climb, int fd, enum level level)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return;
    if (!climb_shared(climb)) {
        if ((status.st_mode & S_ISGID) != 0) /* of somebody's own scheme: it is not to open ours */
            (void)fchmod(fd, level_mode(level, false));
        return;
    }
    if (status.st_gid == climb->prefix.st_gid && (status.st_mode & S_ISGID) != 0)
        return;
    if (fchown(fd, (uid_t)-1, climb->prefix.st_gid) == 0)
        (void)fchmod(fd, level_mode(level, true) | S_ISGID);
}

/* Durable, whether it was made or is there: who made it may have been killed before it was synced,
 * and another node's that is at it now may be so yet. The existence of a folder may be proven so,
 * except that of the checkpoint's own. */
static int sync_level(struct climb *climb, int parent, bool made, struct err *err)
{
    climb->pends = climb->pending != NULL && !made && !climb->last &&
                   climb->pending->count < PLACE_PENDING_MAX;
    return climb->pends ? 0 : tree_sync(parent, climb->path, err);
}

/* 1: made; 0: it was there. */
static int make_level(struct climb *climb, int parent, const char *name, enum level level,
                      struct err *err)
{
    struct stat status;
    bool handed_down, made;
    int number;

    if (fstat(parent, &status) != 0)
        return fault_set(err, "stat the folder of", climb->path);
    handed_down = climb_shared(climb) && (status.st_mode & S_ISGID) != 0 &&
                  status.st_gid == climb->prefix.st_gid;
    made = tree_mkdir(parent, name, level_mode(level, handed_down)) == 0;
    number = made ? 0 : errno;
    if (made || number == EEXIST)
        return sync_level(climb, parent, made, err) == 0 ? made : -1;
    if (level == LEVEL_INSIDE || (number != EACCES && number != EPERM))
        return fault_set(err, "mkdir", climb->path);
    return err_set(err, ERR_AUTH,
                   "mkdir %s: %s; this folder is made by the agent, as root: where its root is "
                   "nobody (root_squash), make the one above it as deploy/README.md says, \"The "
                   "folder of a target\"",
                   climb->path, strerror(number));
}

/* With an access control list the group's bits are what all users and groups of the list may do at
 * most. */
static bool has_acl(int fd)
{
    return fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0;
}

/* Who may write into a folder, or own it, may move what is in it away and put something else in its
 * place. */
static int check_above(const struct climb *climb, int fd, const struct stat *status,
                       struct err *err)
{
    bool trusted = status->st_uid == 0 || status->st_uid == geteuid() ||
                   status->st_uid == climb->prefix.st_uid;
    mode_t others = status->st_mode & (S_IWGRP | S_IWOTH);

    if (!trusted)
        return err_set(err, ERR_REFUSED,
                       "%s belongs to user %u, who could move the checkpoints of others away: as "
                       "root, chown it to root and look at what is in it",
                       climb->path, (unsigned)status->st_uid);
    if (climb_shared(climb) && status->st_gid == climb->prefix.st_gid && !has_acl(fd))
        others &= ~(mode_t)S_IWGRP; /* the service's group */
    if (others != 0 && (status->st_mode & S_ISVTX) == 0)
        return err_set(err, ERR_REFUSED,
                       "%s may be written by others (mode %04o), who could move checkpoints away: "
                       "as root, %s",
                       climb->path, (unsigned)(status->st_mode & 07777),
                       has_acl(fd) ? "setfacl -b on it, and setfacl -k on the prefix"
                                   : "chmod 0755");
    return 0;
}

/* As the server has it: on NFS this node may still have it as it was. */
static int owner_of(int fd, struct statx *ret_status)
{
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_UID | STATX_MODE, ret_status);
}

/* Made by this process, or by one before it that was killed here: it is given to the job's user.
 * Another node of the job may do so and put something into it between any two steps here, so whose
 * it is counts after whether something is in it. */
static int check_allocation(const struct climb *climb, int fd, struct err *err)
{
    bool empty = geteuid() == 0 && tree_is_empty(fd);
    struct statx status;

    if (owner_of(fd, &status) != 0)
        return fault_set(err, "stat folder", climb->path);
    if (status.stx_uid == climb->owner)
        return 0;
    if (status.stx_uid == 0 && empty) {
        if (fchown(fd, climb->owner, (gid_t)-1) == 0)
            return 0;
        return err_set(err, ERR_AUTH, "chown %s to user %u: %s", climb->path,
                       (unsigned)climb->owner, strerror(errno));
    }
    return err_set(err, ERR_REFUSED,
                   "%s belongs to user %u and not to user %u, whose job this is (mode %04o): look "
                   "at who made it, then move it away as root, or register the job under another "
                   "id",
                   climb->path, (unsigned)status.stx_uid, (unsigned)climb->owner,
                   (unsigned)(status.stx_mode & 07777));
}

/* The folder `name` below `parent`, made where it is missing. */
static int enter_level(struct climb *climb, int parent, const char *name, enum level level,
                       struct err *err)
{
    int made = make_level(climb, parent, name, level, err);
    int fd, result = 0;
    struct stat status;

    if (made < 0)
        return -1;
    fd = tree_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fault_set(err, "open folder", climb->path);
    if (made > 0 && level != LEVEL_INSIDE)
        share_folder(climb, fd, level);
    if (fstat(fd, &status) != 0)
        result = fault_set(err, "stat folder", climb->path);
    else if (level == LEVEL_ABOVE)
        result = check_above(climb, fd, &status, err);
    else if (level == LEVEL_ALLOCATION)
        result = check_allocation(climb, fd, err);
    if (result == 0)
        return fd;
    close(fd);
    if (made > 0 && level == LEVEL_ALLOCATION)
        (void)unlinkat(parent, name, AT_REMOVEDIR); /* the next one is not to find it unclaimed */
    return -1;
}

/* The last ones of a path; what lies above them is the site's scheme. */
static unsigned job_levels(const struct destination_place *place)
{
    return place->all_checkpoints ? PLACE_JOBS_ALL_LEVELS : PLACE_JOBS_LEVELS;
}

static bool ends_as_job(const struct destination_place *place, const char *relative)
{
    const char *slash = strrchr(relative, '/');

    return !place->all_checkpoints || (slash != NULL && strcmp(slash + 1, PLACE_CHECKPOINTS) == 0);
}

static unsigned count_levels(const char *relative)
{
    unsigned levels = 1;

    for (; *relative != '\0'; relative++)
        levels += *relative == '/';
    return levels;
}

/* Takes over `at`, the open prefix; down to the folder that has `leave` more below it on the
 * way. */
static int climb_down(struct climb *climb, int at, unsigned leave, struct err *err)
{
    char name[MANIFEST_NAME_MAX_BYTES + 1];
    const char *rest = climb->relative;
    const unsigned own = job_levels(climb->place);

    snprintf(climb->path, sizeof(climb->path), "%s", climb->place->prefix);
    for (unsigned left = count_levels(rest); left > leave; left--) {
        enum level level = left > own ? LEVEL_ABOVE : left == own ? LEVEL_ALLOCATION : LEVEL_INSIDE;
        size_t length = strcspn(rest, "/"), used = strlen(climb->path);
        int next;

        memcpy(name, rest, length);
        name[length] = '\0';
        snprintf(climb->path + used, sizeof(climb->path) - used, "/%s", name);
        climb->last = left == 1;
        climb->pends = false;
        next = enter_level(climb, at, name, level, err);
        if (climb->pends)
            climb->pending->folders[climb->pending->count++] = at;
        else
            close(at);
        if (next < 0)
            return -1;
        at = next;
        rest += length + 1;
    }
    return at;
}

/* The prefix is opened anew for each try, and its owner and mode are what all levels are judged
 * by. */
static int climb_begin(const struct destination_place *place, uid_t owner,
                       char relative[MANIFEST_PATH_MAX_BYTES], struct climb *ret_climb,
                       struct err *err)
{
    struct place_pending *pending = ret_climb->pending;
    int prefix;

    CHECK(place->prefix != NULL);
    *ret_climb =
        (struct climb){.place = place, .relative = relative, .owner = owner, .pending = pending};
    place_forget(pending);
    if (place_relative(place->prefix, place->path, relative, err) != 0)
        return -1;
    if (count_levels(relative) < job_levels(place) || !ends_as_job(place, relative))
        return err_set(err, ERR_REFUSED,
                       "%s is not the folder of %s: it ends in ALLOCATION/checkpoints%s",
                       place->path, place->all_checkpoints ? "a job's checkpoints" : "a checkpoint",
                       place->all_checkpoints ? "" : "/CHECKPOINT");
    if (place->beside != NULL &&
        place_is_bare(&(struct destination_place){.prefix = place->prefix, .path = place->beside}))
        return err_set(err, ERR_UNAVAILABLE,
                       "nothing on the way to %s, which was written before, is below the prefix "
                       "%s; mount the file system that belongs there",
                       place->beside, place->prefix);
    prefix = place_open_prefix(place->prefix, err);
    if (prefix < 0)
        return -1;
    if (fstat(prefix, &ret_climb->prefix) != 0)
        fault_set(err, "stat prefix", place->prefix);
    else if ((ret_climb->prefix.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
        err_set(err, ERR_REFUSED,
                "the prefix %s may be written by everybody (mode %04o), who could move checkpoints "
                "away: chmod o-w, or +t",
                place->prefix, (unsigned)(ret_climb->prefix.st_mode & 07777));
    else
        return prefix;
    close(prefix);
    return -1;
}

/* Down to the folder that has `leave` more below it. A collect of another checkpoint may remove an
 * empty one between our mkdir and our open: try again. */
static int climb_to(const struct destination_place *place, uid_t owner, unsigned leave,
                    struct climb *climb, struct err *err)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    struct err local = {0};
    int fd = -1;

    for (int i = 0; i < PLACE_TRIES && fd < 0; i++) {
        fd = climb_begin(place, owner, relative, climb, &local);
        if (fd >= 0)
            fd = climb_down(climb, fd, leave, &local);
        if (fd < 0 && local.code != ERR_NOT_FOUND)
            break;
    }
    climb->relative = NULL; /* it was walked */
    if (fd < 0)
        return err_set(err, local.code, "%s", local.text);
    return fd;
}

/* For folders from before the prefix had its bit: else the service could remove nothing of a job
 * that had begun before. Whoever owns a folder loses nothing by it. */
static void share_old(const struct climb *climb, int fd)
{
    struct stat status;

    if (climb_shared(climb) && fstat(fd, &status) == 0 && status.st_uid == climb->owner)
        share_folder(climb, fd, LEVEL_ALLOCATION);
}

int place_claim(const struct destination_place *place, uid_t owner, struct err *err)
{
    struct place_pending pending = {.count = 0}; /* for place_create(), which follows */
    struct climb climb = {.pending = &pending};
    int fd = climb_to(place, owner, job_levels(place) - 1, &climb, err);
    int inside;

    place_forget(&pending);
    if (fd < 0)
        return -1;
    share_old(&climb, fd);
    inside = tree_open_beneath(fd, PLACE_CHECKPOINTS, O_RDONLY | O_DIRECTORY, 0);
    if (inside >= 0) {
        share_old(&climb, inside);
        close(inside);
    }
    close(fd);
    return 0;
}

/* The folder lacks the group of the prefix, or does not hand it on: share_old() gives it. */
static bool wants_sharing(const struct stat *prefix, int folder)
{
    struct stat status;

    return (prefix->st_mode & S_ISGID) != 0 && fstat(folder, &status) == 0 &&
           (status.st_gid != prefix->st_gid || (status.st_mode & S_ISGID) == 0);
}

/* The allocation's folder, and that of its checkpoints where there is one. */
static bool is_claimed_below(int prefix, const char *relative)
{
    int fd = tree_open_beneath(prefix, relative, O_PATH | O_DIRECTORY, 0), inside;
    struct stat status;
    bool claimed;

    if (fd < 0)
        return false;
    inside = tree_open_beneath(fd, PLACE_CHECKPOINTS, O_PATH | O_DIRECTORY, 0);
    claimed = fstat(prefix, &status) == 0 && !wants_sharing(&status, fd) &&
              (inside < 0 || !wants_sharing(&status, inside));
    if (inside >= 0)
        close(inside);
    close(fd);
    return claimed;
}

bool place_is_claimed(const struct destination_place *place)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    bool claimed;
    int prefix;

    if (place_relative(place->prefix, place->path, relative, NULL) != 0 ||
        count_levels(relative) < job_levels(place))
        return true; /* place_create() says what is wrong */
    for (unsigned i = 1; i < job_levels(place); i++)
        *strrchr(relative, '/') = '\0';
    prefix = place_open_prefix(place->prefix, NULL);
    if (prefix < 0)
        return true;
    claimed = is_claimed_below(prefix, relative);
    close(prefix);
    return claimed;
}

int place_create(const struct destination_place *place, struct err *err)
{
    struct climb climb = {.pending = NULL};

    return climb_to(place, geteuid(), 0, &climb, err);
}

int place_create_pending(const struct destination_place *place, struct place_pending *ret_pending,
                         struct err *err)
{
    struct climb climb = {.pending = ret_pending};

    return climb_to(place, geteuid(), 0, &climb, err);
}

int place_settle(struct place_pending *pending, struct err *err)
{
    for (size_t i = 0; i < pending->count; i++) {
        if (tree_sync(pending->folders[i], "of checkpoints", err) != 0)
            return -1;
    }
    place_forget(pending);
    return 0;
}

void place_forget(struct place_pending *pending)
{
    while (pending != NULL && pending->count > 0)
        close(pending->folders[--pending->count]);
}

/* ---- marks ---- */

/* Anybody may make files below a prefix with the sticky bit: there only those count who could move
 * all that is below it away. */
static bool note_is_trusted(int prefix, const struct stat *note)
{
    struct stat status;

    if (!S_ISREG(note->st_mode) || fstat(prefix, &status) != 0)
        return false;
    return (status.st_mode & S_ISVTX) == 0 || note->st_uid == 0 || note->st_uid == geteuid() ||
           note->st_uid == status.st_uid;
}

int place_read_note(int prefix, const char *mark, struct mark_note *ret_note, struct err *err)
{
    char name[sizeof(MARK_NAME) + MARK_BYTES], text[MARK_NOTE_MAX_BYTES];
    struct stat status;
    ssize_t length = 0;
    int fd, result = 0;

    *ret_note = (struct mark_note){.epoch = 0};
    snprintf(name, sizeof(name), MARK_NAME "%s", mark);
    fd = openat(prefix, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : fault_set(err, "open the target's note", name);
    if (fstat(fd, &status) != 0 ||
        (note_is_trusted(prefix, &status) && (length = read(fd, text, sizeof(text))) < 0))
        result = fault_set(err, "read the target's note", name);
    else
        mark_note_read(text, (size_t)length, ret_note);
    close(fd);
    return result;
}

/* The other one's note is for people: there may be none. */
static int refuse_foreign(const struct destination_place *place, const char *others,
                          struct err *err)
{
    struct mark_note note = {.epoch = 0};
    int prefix = place->prefix == NULL ? -1 : place_open_prefix(place->prefix, NULL);

    if (prefix >= 0) {
        (void)place_read_note(prefix, others, &note, NULL);
        close(prefix);
    }
    return mark_refuse(place->mark, others, &note, place->path, err);
}

int place_check_mark(int checkpoint, const struct destination_place *place, struct err *err)
{
    static const size_t length = sizeof(MARK_NAME) - 1;
    int fd = openat(checkpoint, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int result = 0;

    CHECK(place->mark == NULL || mark_valid(place->mark));
    if (directory == NULL) {
        fault_set(err, "list", place->path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    while (place->mark != NULL && result == 0 && (entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, MARK_NAME, length) == 0 && mark_valid(entry->d_name + length) &&
            strcmp(entry->d_name + length, place->mark) != 0)
            result = refuse_foreign(place, entry->d_name + length, err);
    }
    closedir(directory);
    return result;
}

/* Where the own mark is there already, others were looked for when it was made. */
int place_mark(int checkpoint, const struct destination_place *place, struct err *err)
{
    char name[sizeof(MARK_NAME) + MARK_BYTES];
    int fd;

    if (place->mark == NULL)
        return 0;
    CHECK(mark_valid(place->mark));
    snprintf(name, sizeof(name), MARK_NAME "%s", place->mark);
    fd = openat(checkpoint, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST || faccessat(checkpoint, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0
                   ? 0 /* of another user of the job's, who may remove it as well */
                   : fault_set(err, "create the mark in", place->path);
    close(fd);
    if (place_check_mark(checkpoint, place, err) == 0)
        return 0;
    (void)unlinkat(checkpoint, name, 0);
    return -1;
}
