/* Memory that a simulated application shares with its agent. See application_region.h. */
#include "tests/sim/application_region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/ckptshm.h"
#include "src/ask/region.h"
#include "src/base/check.h"
#include "src/base/text.h"

void application_region_make(struct agent_machine *machine, const char *path)
{
    uint8_t *bytes;

    if (path[0] == '\0')
        return;
    CHECK(ask_region_name(path) != NULL);
    bytes = check_calloc(1, ASK_REGION_BYTES);
    ask_region_head(bytes);
    agent_files_make_folder(machine->files, "/dev"); /* or they are there */
    agent_files_make_folder(machine->files, ASK_REGION_FOLDER);
    CHECK(agent_files_write(machine->files, path, bytes, ASK_REGION_BYTES) == 0);
    free(bytes);
}

/* NULL: it was removed. */
static struct ckpt_shm *region_of(struct agent_machine *machine, const char *path)
{
    struct buf *content = agent_files_map(machine->files, path);

    CHECK(content == NULL || content->length == sizeof(struct ckpt_shm));
    return content == NULL ? NULL : (struct ckpt_shm *)(void *)content->bytes;
}

void application_region_open(struct agent_machine *machine, const char *path)
{
    struct ckpt_shm *shm = region_of(machine, path);

    if (shm != NULL)
        shm->slot[0].owner = 1;
}

uint32_t application_region_asked(struct agent_machine *machine, const char *path,
                                  struct application_request *ret_request)
{
    const struct ckpt_shm *shm = region_of(machine, path);
    uint32_t word = shm == NULL ? 0 : ckpt_shm_asked(&shm->slot[0]);

    if (word == 0)
        return 0;
    text_copy(ret_request->hint, sizeof(ret_request->hint), shm->hint);
    text_copy(ret_request->directory, sizeof(ret_request->directory), shm->directory);
    ret_request->deadline_ms = shm->deadline_ms;
    return word;
}

void application_region_done(struct agent_machine *machine, const char *path, uint32_t word,
                             const struct application_done *done)
{
    struct ckpt_shm *shm = region_of(machine, path);

    if (shm == NULL)
        return;
    shm->slot[0].bytes = done->bytes;
    (void)ckpt_shm_answer(shm, &shm->slot[0], word, done->label, done->status);
}

void application_region_stale(struct agent_machine *machine, const char *path, uint32_t word)
{
    struct ckpt_shm *shm = region_of(machine, path);

    if (shm != NULL)
        shm->slot[0].done = word;
}
