/* File access as the job's user. See user.h. */
#include "src/agent/user.h"

#include <sys/fsuid.h>
#include <unistd.h>

#include "src/base/check.h"

static bool user_entered;

void user_enter(uid_t uid, gid_t gid)
{
    CHECK(!user_entered);
    user_entered = true;
    if (geteuid() != 0)
        return;
    setfsgid(gid);
    setfsuid(uid);
    CHECK((uid_t)setfsuid((uid_t)-1) == uid); /* -1 changes nothing and tells the current one */
}

void user_leave(void)
{
    CHECK(user_entered);
    user_entered = false;
    if (geteuid() != 0)
        return;
    setfsuid(0);
    setfsgid(getegid());
}

uid_t user_worker_uid(uid_t uid)
{
    return geteuid() == 0 && uid != 0 ? uid : (uid_t)-1;
}

gid_t user_worker_gid(gid_t gid)
{
    return geteuid() == 0 && gid != 0 ? gid : (gid_t)-1;
}
