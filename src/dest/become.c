/* See become.h. */
#include "src/dest/become.h"

#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"

/* A number and what ends it; NULL: none. -1 as an id would mean "unchanged". */
static const char *parse_id(const char *text, char end, uint32_t *ret_id)
{
    char *after;
    unsigned long long id;

    if (*text < '0' || *text > '9')
        return NULL;
    id = strtoull(text, &after, 10);
    if (id >= UINT32_MAX || (*after != end && *after != '\0'))
        return NULL;
    *ret_id = (uint32_t)id;
    return after;
}

static bool parse_all(const char *text, struct become *become)
{
    uint32_t uid, gid, group;

    text = parse_id(text, ':', &uid);
    if (text == NULL || *text == '\0')
        return false;
    text = parse_id(text + 1, ':', &gid);
    if (text == NULL)
        return false;
    become->uid = uid;
    become->gid = gid;
    become->group_count = 0;
    while (*text != '\0') {
        text = parse_id(text + 1, ',', &group);
        if (text == NULL || become->group_count == BECOME_GROUPS_MAX)
            return false;
        become->groups[become->group_count++] = group;
    }
    return true;
}

int become_parse(const char *text, struct become *ret_become, struct err *err)
{
    if (!parse_all(text, ret_become))
        return err_set(err, ERR_INVALID,
                       "--as \"%.128s\" is not UID:GID or UID:GID:GROUP,GROUP,... in decimal, with "
                       "at most %d groups",
                       text, BECOME_GROUPS_MAX);
    return 0;
}

/* Real, effective and saved ids, so that nothing of the old ones can be taken back; that this is so
 * is tried at once. */
int become_user(const struct become *become, struct err *err)
{
    const gid_t *groups = become->groups;

    if (setgroups(become->group_count, groups) != 0 ||
        setresgid(become->gid, become->gid, become->gid) != 0 ||
        setresuid(become->uid, become->uid, become->uid) != 0)
        return err_set(err, ERR_REFUSED, "become user %u: %s; only root may", (unsigned)become->uid,
                       strerror(errno));
    CHECK(geteuid() == become->uid && getegid() == become->gid);
    CHECK(become->uid == 0 || setuid(0) != 0);
    return 0;
}
