/* Whether a folder can be imported into a job. See run_import_check.h. */
#include "src/agent/run/run_import_check.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/run/run_get.h"
#include "src/agent/run/run_import_files.h"
#include "src/agent/run/words.h"
#include "src/ask/ask.h"
#include "src/base/id.h"

#define STATE(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

/* ---- the folder ---- */

/* How many part-NNNN it has; 0 when it has anything else. */
static uint32_t parts_in(const char *folder)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    uint32_t parts = 0;
    bool others = false;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (run_get_is_part(entry->d_name))
            parts++;
        else
            others = true;
    }
    if (entries != NULL)
        closedir(entries);
    return others ? 0 : parts;
}

/* Of several parts, those that this node has: which one it reads is known when the job runs. */
static int check_parts(const char *folder, uint32_t parts, struct err *err)
{
    char path[PATH_MAX];
    struct folder_sum sum;
    uint32_t found = 0;

    for (uint32_t part = 0; part < parts; part++) {
        import_part_folder(folder, part, parts, path);
        if (access(path, F_OK) != 0)
            continue;
        if (folder_copy_look(path, &sum, err) != 0)
            return -1;
        found++;
    }
    return found > 0 ? 0
                     : err_set(err, ERR_REFUSED,
                               "%s has none of part-0000 to part-%04u, and the job has %u nodes: "
                               "name a folder with a folder for each of them",
                               folder, (unsigned)parts - 1, (unsigned)parts);
}

int import_check_folder(const char *word, uint32_t parts, char ret_folder[PATH_MAX],
                        struct folder_sum *ret_sum, struct err *err)
{
    uint32_t found;

    if (realpath(word, ret_folder) == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s: %s; name a folder that you may read", word,
                       strerror(errno));
    found = parts_in(ret_folder);
    if (found > 1 && found != parts)
        return err_set(err, ERR_REFUSED,
                       "%s has %u parts, and the job has %u node%s: register one on %u nodes, or "
                       "name one part's folder",
                       ret_folder, (unsigned)found, (unsigned)parts, parts == 1 ? "" : "s",
                       (unsigned)found);
    if (parts > 1)
        return check_parts(ret_folder, parts, err);
    return folder_copy_look(ret_folder, ret_sum, err);
}

/* ---- the job ---- */

/* An application that is called answers in words of its own. */
static bool asked_by_call(const char *profile)
{
    const struct ask_ops *ask = profile[0] == '\0' ? NULL : ask_find(profile);

    return ask != NULL && ask->signal == 0;
}

int import_check_job(const Ckpt__V1__Allocation *job, struct err *err)
{
    const Ckpt__V1__AllocationSpec *spec = job->spec;
    uint64_t has = job->next_restart_checkpoint_id != 0 ? job->next_restart_checkpoint_id
                                                        : job->last_complete_checkpoint_id;
    bool waits = job->state == STATE(STARTING) || job->state == STATE(REQUEUED);
    bool restarts = job->state == STATE(SUSPENDED) || job->state == STATE(FAILED);
    char id[CHECKPOINT_ID_TEXT_BYTES], state[WORDS_BYTES];

    if (has != 0)
        return err_set(
            err, ERR_REFUSED,
            "job %s has checkpoint %s and goes on from that; import into a job of a new id "
            "(ckpt-run register)",
            spec->allocation_id, checkpoint_id_format(has, id));
    if (!waits)
        return err_set(
            err, ERR_REFUSED,
            "job %s is %s, and a checkpoint is imported before anything of it runs; import "
            "into a job of a new id (ckpt-run register)%s%s",
            spec->allocation_id,
            words_enum(&ckpt__v1__allocation_state__descriptor, (int)job->state, state),
            restarts ? ", or first ckpt-run restart " : "", restarts ? spec->allocation_id : "");
    if (spec->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return err_set(
            err, ERR_REFUSED,
            "job %s is registered with strategy NONE and has no checkpoints; register it "
            "with another one",
            spec->allocation_id);
    if (asked_by_call(spec->profile))
        return err_set(
            err, ERR_REFUSED,
            "job %s is registered with profile %s, by which a folder cannot be asked; import "
            "into a job of a new id that is registered without --profile, and start that one",
            spec->allocation_id, spec->profile);
    return 0;
}
