/* Whose the job is on this node: the user that its registered owner stands for, else who came
 * first. See restart_points.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/restore_internal.h"

enum { OWNER_DEADLINE_MS = 10000 }; /* of the directory of users */

static void owner_found(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    char uid[16];

    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    restore->owner_named = result->exit_code == WORKER_EXIT_OK &&
                           worker_output_get(result->output, "uid", uid, sizeof(uid)) == 0;
    if (restore->owner_named) {
        restore->owner_uid = (uid_t)strtoul(uid, NULL, 10);
    } else if (result->exit_code != WORKER_EXIT_NOT_FOUND) {
        log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"", restore->allocation_id,
                    restore->owner_name, result->error);
        restore_waits(restore,
                      "which user of this node the owner %s is cannot be found out: %.200s; it is "
                      "tried again",
                      restore->owner_name, result->error);
        restore->owner_name[0] = '\0'; /* it is asked again */
        restore_again(restore, RESTORE_RETRY_MS);
        return;
    }
    restore_again(restore, 0);
}

/* It is nobody's on this node, and the cluster leaves none to whoever comes. */
static void refuse_unowned(struct restore *restore, const char *owner)
{
    char text[OWNER_TEXT_BYTES], whose[2 * ID_MAX_BYTES + 64];

    if (owner[0] == '\0')
        snprintf(whose, sizeof(whose), "without an owner");
    else
        snprintf(whose, sizeof(whose), "for owner %.128s, which is no user of node %.128s", owner,
                 restore->agent->node_id);
    snprintf(text, sizeof(text),
             "allocation %s is registered %s; register one with --owner USER of this node, or let "
             "whoever comes first have such ones: ckptctl policy set owner_rule=first",
             restore->allocation_id, whose);
    restore_error(restore, text);
}

/* The cluster knows the user who came first when this agent has lost its journal: an application of
 * that user may run here. */
static void take_first(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(!restore->cancelled);
    if (restore->owner_named || restore->owner_first || point->user == 0 ||
        point->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST)
        return;
    restore->owner_first = true;
    restore->owner_uid = (uid_t)(point->user - 1);
}

bool restore_owner_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const char *const arguments[] = {"user", "--name", point->owner, NULL};
    const struct machine_ops *machine = &restore->agent->machine;
    bool registered = point->owner[0] != '\0' && id_valid(point->owner);
    char text[OWNER_TEXT_BYTES];
    struct err err = {0};

    if (registered && strcmp(restore->owner_name, point->owner) != 0) {
        snprintf(restore->owner_name, sizeof(restore->owner_name), "%s", point->owner);
        if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                                  OWNER_DEADLINE_MS, owner_found, restore, &restore->worker,
                                  &err) != 0) {
            restore->worker = NULL;
            restore->owner_name[0] = '\0';
            log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"",
                        restore->allocation_id, point->owner, err.text);
            restore_waits(restore,
                          "which user of this node the owner %s is cannot be found out: %.200s; it "
                          "is tried again",
                          point->owner, err.text);
            restore_again(restore, RESTORE_STORAGE_RETRY_MS);
        }
        return true;
    }
    restore->owner_named = registered && restore->owner_named;
    take_first(restore, point);
    if (restore->user.uid == 0)
        return false;
    if (!restore->owner_named && !restore->owner_first &&
        point->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST) {
        refuse_unowned(restore, point->owner);
        return true;
    }
    if ((!restore->owner_named && !restore->owner_first) || restore->user.uid == restore->owner_uid)
        return false;
    allocation_owner_text(restore->allocation_id, restore->owner_named ? restore->owner_name : "",
                          restore->owner_uid, restore->user.uid, text);
    restore_error(restore, text);
    return true;
}
