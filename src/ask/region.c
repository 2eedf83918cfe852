/* The region's name and its first bytes. See region.h. */
#include "src/ask/region.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/app/ckptshm.h"
#include "src/base/check.h"
#include "src/base/id.h"

#define REGION_NAME_FIRST "ckpt-"

_Static_assert(ASK_REGION_BYTES == sizeof(struct ckpt_shm), "version 1 of the layout");
_Static_assert(ASK_REGION_HEAD_BYTES == offsetof(struct ckpt_shm, answers) + 4, "likewise");
_Static_assert(sizeof(ASK_REGION_FOLDER) + 32 + ID_MAX_BYTES + 20 < ASK_REGION_PATH_BYTES,
               "every id fits");

void ask_region_path(uid_t uid, const char *allocation_id, const char *work_dir,
                     char ret_path[ASK_REGION_PATH_BYTES])
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    CHECK(strlen(allocation_id) <= ID_MAX_BYTES);
    for (const char *at = work_dir; *at != '\0'; at++)
        sum = (sum ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    CHECK(snprintf(ret_path, ASK_REGION_PATH_BYTES,
                   ASK_REGION_FOLDER "/" REGION_NAME_FIRST "%u-%s-%016" PRIx64, (unsigned)uid,
                   allocation_id, sum) < ASK_REGION_PATH_BYTES);
}

const char *ask_region_name(const char *path)
{
    static const char before[] = ASK_REGION_FOLDER "/" REGION_NAME_FIRST;
    const char *name = path + sizeof(ASK_REGION_FOLDER);

    return strncmp(path, before, strlen(before)) == 0 && strchr(name, '/') == NULL ? name : NULL;
}

void ask_region_head(uint8_t ret_head[ASK_REGION_HEAD_BYTES])
{
    static const uint32_t words[] = {CKPT_SHM_VERSION, ASK_REGION_BYTES, CKPT_SHM_SLOTS, 0};

    _Static_assert(offsetof(struct ckpt_shm, version) + sizeof(words) == ASK_REGION_HEAD_BYTES,
                   "version, size, slots, answers");
    memcpy(ret_head, CKPT_SHM_MAGIC, offsetof(struct ckpt_shm, version));
    memcpy(ret_head + offsetof(struct ckpt_shm, version), words, sizeof(words));
}
