/* From (prefix, path) to an open folder. See place.h. */
#include "src/store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/store/fault.h"
#include "src/store/tree.h"

enum { PLACE_PRIVATE_LEVELS = 3, PLACE_CREATE_TRIES = 3 };

int place_check_node(const char *node, struct err *err)
{
    if (!id_valid(node) || node[0] == '.')
        return err_set(err, ERR_INVALID,
                       "the node name \"%.140s\" is not an id: use [A-Za-z0-9._-]{1,128}, not "
                       "beginning with a dot",
                       node);
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

int place_open(const struct posix_place *place, struct err *err)
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

/* `shared`: several users put their own folders below it, so it is like /tmp, from the first moment: who is killed here leaves it open.
 * The chmod is for a parent whose default access list narrows what is made below it. */
static int create_folder(int parent, const char *path, const char *name, bool shared,
                         struct err *err)
{
    mode_t mask = umask(shared ? 0 : 077);
    int made = mkdirat(parent, name, shared ? 01777 : 0700);

    umask(mask);
    if (made != 0)
        return errno == EEXIST ? 0 : fault_set(err, "mkdir", path);
    if (shared && fchmodat(parent, name, 01777, 0) != 0)
        return fault_set(err, "chmod", path);
    return tree_sync(parent, path, err);
}

static unsigned count_levels(const char *relative)
{
    unsigned levels = 1;

    for (; *relative != '\0'; relative++)
        levels += *relative == '/';
    return levels;
}

/* Takes over `at`, the open prefix. */
static int create_below(int at, const char *path, const char *relative, struct err *err)
{
    char name[MANIFEST_NAME_MAX_BYTES + 1];

    for (unsigned left = count_levels(relative); left > 0; left--) {
        size_t length = strcspn(relative, "/");
        int next = -1;
        memcpy(name, relative, length);
        name[length] = '\0';
        if (create_folder(at, path, name, left > PLACE_PRIVATE_LEVELS, err) == 0) {
            next = tree_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0);
            if (next < 0)
                fault_set(err, "open folder", path);
        }
        close(at);
        if (next < 0)
            return -1;
        at = next;
        relative += length + 1;
    }
    return at;
}

int place_create(const struct posix_place *place, struct err *err)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    struct err local = {0};
    int fd = -1;

    CHECK(place->prefix != NULL);
    if (place_relative(place->prefix, place->path, relative, err) != 0)
        return -1;
    /* a collect of another checkpoint may remove an empty parent between our mkdir and our open: try again */
    for (int i = 0; i < PLACE_CREATE_TRIES && fd < 0; i++) {
        int prefix = place_open_prefix(place->prefix, &local);
        fd = prefix < 0 ? -1 : create_below(prefix, place->path, relative, &local);
        if (fd < 0 && local.code != ERR_NOT_FOUND)
            break;
    }
    if (fd < 0)
        return err_set(err, local.code, "%s", local.text);
    return fd;
}
