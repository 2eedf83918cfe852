/* What each request id came to, so that a retry gets the first outcome (K-004).
 *
 * Flow     oldest first in a list. Ones older than the policy's session_ttl_ms leave as commands are applied; when the table is full
 *          the oldest makes room, unless it is younger than FSM_SESSION_MIN_AGE_MS: then the new request is refused.
 * Shapes   at most FSM_SESSIONS_MAX. Refusals are remembered like successes, except SESSIONS_FULL.
 */
#include <malloc.h>

#include "fsm/state.h"

static bool session_equal(const void *item, const char *key)
{
    return strcmp(((const struct session *)item)->request_id, key) == 0;
}

struct session *fsm_session_find(const struct fsm *fsm, const char *request_id)
{
    return fsm_map_find(&fsm->session_map, fsm_hash_text(request_id), session_equal, request_id);
}

void fsm_session_free(struct session *session)
{
    free(session->victims);
    free(session);
}

static void session_drop_oldest(struct fsm *fsm)
{
    struct session *session = fsm->session_oldest;

    CHECK(session != NULL);
    CHECK(fsm->session_count > 0);
    fsm->session_oldest = session->next;
    if (fsm->session_oldest == NULL)
        fsm->session_newest = NULL;
    fsm->session_count--;
    fsm_map_remove(&fsm->session_map, session->hash, session);
    if (list_empty(fsm->snapshots) || !fsm_save_session(fsm, session))
        fsm_session_free(session);
}

void fsm_sessions_expire(struct fsm *fsm)
{
    for (int i = 0; i < FSM_SESSIONS_EVICTED_PER_COMMAND_MAX; i++) {
        if (fsm->session_oldest == NULL ||
            fsm_since(fsm, fsm->session_oldest->at_ms) < fsm->policy.session_ttl_ms)
            return;
        session_drop_oldest(fsm);
    }
}

enum fsm_status fsm_session_make_room(struct fsm *fsm, struct fsm_outcome *outcome)
{
    if (fsm->session_count < FSM_SESSIONS_MAX)
        return FSM_OK;
    if (fsm_since(fsm, fsm->session_oldest->at_ms) >= FSM_SESSION_MIN_AGE_MS) {
        session_drop_oldest(fsm);
        return FSM_OK;
    }
    outcome->current = fsm->session_count;
    outcome->limit = FSM_SESSIONS_MAX;
    return FSM_SESSIONS_FULL;
}

void fsm_session_add(struct fsm *fsm, const char *request_id, uint8_t command,
                     uint64_t content_hash, uint64_t at_ms, const struct fsm_outcome *outcome)
{
    size_t size = strlen(request_id) + 1;
    struct session *session = check_calloc(1, sizeof(*session) + size);

    CHECK(fsm->session_count < FSM_SESSIONS_MAX);
    CHECK(outcome->victim_count <= FSM_VICTIMS_MAX);
    memcpy(session->request_id, request_id, size);
    session->hash = fsm_hash_text(request_id);
    session->command = command;
    session->content_hash = content_hash;
    session->at_ms = at_ms;
    session->status = (uint16_t)outcome->status;
    session->index = outcome->index;
    session->checkpoint_id = outcome->checkpoint_id;
    session->preemption_id = outcome->preemption_id;
    session->current = outcome->current;
    session->limit = outcome->limit;
    session->victim_count = (uint8_t)outcome->victim_count;
    if (outcome->victim_count > 0) {
        session->victims = check_calloc(outcome->victim_count, sizeof(*session->victims));
        memcpy(session->victims, outcome->victims,
               outcome->victim_count * sizeof(*session->victims));
    }
    fsm_map_add(&fsm->session_map, session->hash, session);
    if (fsm->session_newest != NULL)
        fsm->session_newest->next = session;
    else
        fsm->session_oldest = session;
    fsm->session_newest = session;
    fsm->session_count++;
}

void fsm_session_outcome(const struct session *session, struct fsm_outcome *ret_outcome)
{
    ret_outcome->status = session->status;
    ret_outcome->repeated = true;
    ret_outcome->index = session->index;
    ret_outcome->checkpoint_id = session->checkpoint_id;
    ret_outcome->preemption_id = session->preemption_id;
    ret_outcome->current = session->current;
    ret_outcome->limit = session->limit;
    ret_outcome->victim_count = session->victim_count;
    if (session->victim_count > 0)
        memcpy(ret_outcome->victims, session->victims,
               session->victim_count * sizeof(*session->victims));
}

void fsm_sessions_free(struct fsm *fsm)
{
    while (fsm->session_oldest != NULL)
        session_drop_oldest(fsm);
}
