/* Where a process of a note runs. See alone_place.h. */
#include "src/agent/alone/alone_place.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/node/platform.h"
#include "src/base/check.h"

#define BOOT_UNKNOWN "unknown"

void alone_place_own(struct alone_place *ret_place)
{
    struct stat status;

    *ret_place = (struct alone_place){0};
    if (gethostname(ret_place->host, sizeof(ret_place->host) - 1) != 0 ||
        ret_place->host[0] == '\0')
        ret_place->host[0] = '-'; /* a note has one */
    platform_boot_id(ret_place->boot_id, sizeof(ret_place->boot_id));
    if (strcmp(ret_place->boot_id, BOOT_UNKNOWN) == 0)
        ret_place->boot_id[0] = '\0';
    if (stat("/proc/self/ns/pid", &status) == 0)
        ret_place->pid_namespace = status.st_ino;
}

void alone_place_format(const struct alone_place *place, char ret_text[ALONE_PLACE_BYTES])
{
    int length =
        snprintf(ret_text, ALONE_PLACE_BYTES, "boot=%s\nnamespace=%" PRIu64 "\n",
                 place->boot_id[0] != '\0' ? place->boot_id : BOOT_UNKNOWN, place->pid_namespace);

    CHECK(length > 0 && length < ALONE_PLACE_BYTES);
}

void alone_place_parse(const char *text, struct alone_place *place)
{
    place->boot_id[0] = '\0';
    place->pid_namespace = 0;
    (void)sscanf(text, "boot=%63[^\n]\nnamespace=%" SCNu64, place->boot_id, &place->pid_namespace);
    if (strcmp(place->boot_id, BOOT_UNKNOWN) == 0)
        place->boot_id[0] = '\0';
}

static bool same_machine(const struct alone_place *noted, const struct alone_place *own)
{
    if (noted->boot_id[0] != '\0' && own->boot_id[0] != '\0')
        return strcmp(noted->boot_id, own->boot_id) == 0;
    return strcmp(noted->host, own->host) == 0;
}

enum alone_distance alone_place_distance(const struct alone_place *noted,
                                         const struct alone_place *own)
{
    if (!same_machine(noted, own))
        return ALONE_ELSEWHERE;
    if (noted->pid_namespace != 0 && own->pid_namespace != 0 &&
        noted->pid_namespace != own->pid_namespace)
        return ALONE_UNSEEN;
    return ALONE_HERE;
}
