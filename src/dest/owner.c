/* See owner.h. The file rights of Linux are a thread's own: with them go the capabilities over
 * files, which come back with root's. */
#include "src/dest/owner.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/become.h"
#include "src/dest/parent.h"

static struct {
    bool entered;
    int group_count;
    gid_t groups[BECOME_GROUPS_MAX];
} before;

int owner_check(const char *as, struct err *err)
{
    if (strcmp(as, "owner") == 0)
        return 0;
    return err_set(err, ERR_INVALID, "--as \"%.128s\" must be owner here: whose the folder is", as);
}

enum { GROUP_NONE = 65534, OWNER_DIGITS_MAX = 9 };

/* Those of the user, and never the folder's: that is the group of root, who made it, or the
 * service's, which reaches other jobs' files. A user who has no name here has none. The first one
 * is the user's own. */
static int groups_of(uid_t uid, gid_t groups[BECOME_GROUPS_MAX])
{
    const struct passwd *user = getpwuid(uid);
    int count = BECOME_GROUPS_MAX;

    groups[0] = GROUP_NONE;
    if (user == NULL)
        return 1;
    if (getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0)
        count = BECOME_GROUPS_MAX;
    return count;
}

/* Groups first, which a user may not set. The file rights come last: from then on nothing is done
 * as root but what owner_leave() does. The kernel forgets the bond to the parent with either
 * step. */
static int take_rights(uid_t uid, struct err *err)
{
    gid_t groups[BECOME_GROUPS_MAX];
    int count = groups_of(uid, groups);

    before.group_count = getgroups(BECOME_GROUPS_MAX, before.groups);
    if (before.group_count < 0 || setgroups((size_t)count, groups) != 0)
        return err_set(err, ERR_IO, "take the groups of user %u: %s", (unsigned)uid,
                       strerror(errno));
    setfsgid(groups[0]);
    setfsuid(uid);
    CHECK((uid_t)setfsuid((uid_t)-1) == uid); /* -1 changes nothing and tells the current one */
    before.entered = true;
    if (parent_bind(err) == 0)
        return 0;
    (void)owner_leave(); /* a caller that is told no has nothing to leave */
    return -1;
}

int owner_find(const char *name, uid_t *ret_uid, struct err *err)
{
    size_t digits = strspn(name, "0123456789");
    const struct passwd *user;

    errno = 0;
    user = getpwnam(name);
    if (user == NULL && errno != 0 && errno != ENOENT && errno != ESRCH)
        return err_set(err, ERR_IO, "user %.128s: %s", name, strerror(errno));
    if (user == NULL && (digits == 0 || digits > OWNER_DIGITS_MAX || name[digits] != '\0'))
        return err_set(err, ERR_NOT_FOUND, "this node has no user %.128s", name);
    *ret_uid = user != NULL ? user->pw_uid : (uid_t)strtoul(name, NULL, 10);
    return 0;
}

/* The registered owner, where root does not see the folder: a server that takes it for nobody. */
static int find_registered(const char *name, const struct err *why, uid_t *ret_uid, struct err *err)
{
    struct err unknown = {.text = "no owner is registered"};

    if (name != NULL && owner_find(name, ret_uid, &unknown) == 0)
        return 0;
    return err_set(err, ERR_IO, "%.300s; %.200s", why->text, unknown.text);
}

int owner_enter(const struct destination_ops *destination, const struct owner_place *place,
                struct err *err)
{
    struct err why = {0};
    uid_t uid;

    CHECK(!before.entered);
    if (destination->owner == NULL || geteuid() != 0)
        return 0;
    /* What says nothing of the owner leaves that to the name; what says that something is wrong
     * with the place itself does not. */
    if (destination->owner(place->prefix, place->path, &uid, &why) != 0) {
        if (why.code == ERR_NOT_FOUND)
            return 0;
        if (why.code == ERR_REFUSED || why.code == ERR_UNAVAILABLE) {
            *err = why;
            return -1;
        }
        if (find_registered(place->name, &why, &uid, err) != 0)
            return -1;
    }
    return uid == 0 ? 0 : take_rights(uid, err);
}

/* In the opposite order. A process that could not come back would be half a user: it must end. */
bool owner_leave(void)
{
    if (!before.entered)
        return false;
    before.entered = false;
    setfsuid(geteuid());
    setfsgid(getegid());
    CHECK((uid_t)setfsuid((uid_t)-1) == geteuid());
    CHECK(setgroups((size_t)before.group_count, before.groups) == 0);
    return parent_bind(NULL) == 0;
}
