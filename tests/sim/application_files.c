/* What simulated applications read and write in their folders. See application_files.h. */
#include "tests/sim/application_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"

enum { TEXT_BYTES = 2 * APPLICATION_STATE_BYTES };

void application_state_text(const struct application_owner *owner, const char *hint,
                            struct application_state state, char text[APPLICATION_STATE_BYTES])
{
    CHECK(snprintf(text, APPLICATION_STATE_BYTES,
                   "allocation=%s\nnode=%s\nrank=%s\nhint=%s\niteration=%" PRIu64
                   "\nvalue=%016" PRIx64 "\n",
                   owner->allocation_id, owner->node_id, owner->identity, hint, state.iteration,
                   state.value) < APPLICATION_STATE_BYTES);
}

void application_state_write(struct agent_machine *machine, const char *path,
                             const struct application_owner *owner, const char *hint,
                             struct application_state state)
{
    char text[APPLICATION_STATE_BYTES];

    application_state_text(owner, hint, state, text);
    agent_files_write(machine->files, path, text, strlen(text)); /* or it is gone */
}

static bool file_line(const char *text, const char *key, char *ret_value, size_t size)
{
    const char *at = strstr(text, key);
    size_t length;

    if (at == NULL)
        return false;
    at += strlen(key);
    length = strcspn(at, "\n");
    if (length >= size)
        return false;
    memcpy(ret_value, at, length);
    ret_value[length] = '\0';
    return true;
}

/* Where the path lies on a destination; NULL: it is of this machine. */
static const char *stored_path(const char *path)
{
    static const char scheme[] = "file://";

    return strncmp(path, scheme, strlen(scheme)) == 0 ? path + strlen(scheme) : NULL;
}

static bool file_text(const struct agent_machine *machine, const char *path, char text[TEXT_BYTES])
{
    const char *stored = stored_path(path);
    const struct agent_file *file = agent_files_find(machine->files, path);
    const struct buf *content = stored != NULL ? agent_store_file(machine->store, stored, false)
                                : file != NULL ? &file->content
                                               : NULL;

    if (content == NULL || content->length >= TEXT_BYTES)
        return false;
    memcpy(text, content->bytes, content->length);
    text[content->length] = '\0';
    return true;
}

bool application_folder_there(const struct agent_machine *machine, const char *path)
{
    const char *stored = stored_path(path);

    return stored != NULL ? agent_store_file(machine->store, stored, true) != NULL
                          : agent_files_find(machine->files, path) != NULL;
}

int application_state_read(const struct agent_machine *machine, const char *path,
                           const char *allocation_id, uint64_t checkpoint_id,
                           struct application_restored *ret_restored)
{
    char text[TEXT_BYTES], head[TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];
    unsigned attempt;

    if (!file_text(machine, path, text) ||
        !file_line(text, "\nnode=", ret_restored->writer, sizeof(ret_restored->writer)) ||
        !file_line(text, "\nrank=", ret_restored->identity, sizeof(ret_restored->identity)))
        return -1;
    snprintf(head, sizeof(head), "allocation=%s\nnode=%s\nrank=%s\nhint=%s-", allocation_id,
             ret_restored->writer, ret_restored->identity, checkpoint_id_format(checkpoint_id, id));
    if (strncmp(text, head, strlen(head)) != 0)
        return -1;
    return sscanf(text + strlen(head), "%u\niteration=%" SCNu64 "\nvalue=%" SCNx64 "\n", &attempt,
                  &ret_restored->state.iteration, &ret_restored->state.value) == 3
               ? 0
               : -1;
}

bool application_request_read(const struct agent_machine *machine, const char *work_dir,
                              struct application_request *ret_request)
{
    char path[APPLICATION_PATH_BYTES + 16], text[TEXT_BYTES], number[32];

    snprintf(path, sizeof(path), "%s/request", work_dir);
    if (!file_text(machine, path, text) ||
        !file_line(text, "hint=", ret_request->hint, sizeof(ret_request->hint)) ||
        !file_line(text, "directory=", ret_request->directory, sizeof(ret_request->directory)) ||
        !file_line(text, "deadline_ms=", number, sizeof(number)))
        return false;
    ret_request->deadline_ms = strtoull(number, NULL, 10);
    return true;
}

void application_done_write(const struct agent_machine *machine, const char *work_dir,
                            const char *name, const struct application_done *done)
{
    struct agent_files *files = machine->files;
    char from[APPLICATION_PATH_BYTES + 32], to[APPLICATION_PATH_BYTES + 32], text[TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "hint=%s\nbytes=%" PRIu64 "\nstatus=%s\n", done->hint,
                          done->bytes, done->status);

    if (done->label[0] != '\0')
        length += snprintf(text + length, sizeof(text) - (size_t)length, "step=%s\n", done->label);
    snprintf(from, sizeof(from), "%s/.%s", work_dir, name);
    snprintf(to, sizeof(to), "%s/%s", work_dir, name);
    if (agent_files_write(files, from, text, (size_t)length) == 0)
        CHECK(agent_files_rename(files, from, to) == 0);
}

static bool ends_so(const char *path, const char *end)
{
    size_t length = strlen(path), wanted = strlen(end);

    return length >= wanted && strcmp(path + length - wanted, end) == 0;
}

uint64_t application_bytes_written(const struct agent_machine *machine, const char *directory,
                                   const char *end)
{
    const struct agent_file *file;
    uint64_t bytes = 0;

    for (size_t i = 0; (file = agent_files_below(machine->files, directory, i)) != NULL; i++)
        bytes += ends_so(file->path, end) ? file->content.length : 0;
    return bytes;
}
