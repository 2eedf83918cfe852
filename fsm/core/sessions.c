/* What each request id came to, so that a retry gets the first outcome (K-004).
 *
 * Flow     oldest first in a list. Ones older than the policy's session_ttl_ms leave as commands
 *          are applied; when the table is full the oldest makes room, unless it is younger than
 *          FSM_SESSION_MIN_AGE_MS: then the new request is refused.
 * Shapes   at most FSM_SESSIONS_MAX, one behind the other in pages: a page is freed when the last
 *          of its sessions left. Refusals are remembered like successes, except SESSIONS_FULL.
 */
#include <malloc.h>

#include "fsm/core/state.h"

enum { SESSIONS_AHEAD = 16, SESSION_PAGE_HEAD = 16 };

_Static_assert(sizeof(struct session_page) <= SESSION_PAGE_HEAD, "the head fits");
_Static_assert(FSM_SESSION_PAGE_BYTES / FSM_SESSION_ALIGN <= UINT16_MAX, "a place fits its field");

static bool session_equal(const void *item, const char *key)
{
    return strcmp(((const struct session *)item)->request_id, key) == 0;
}

struct session *fsm_session_find(const struct fsm *fsm, const struct request *request)
{
    CHECK(request != NULL);
    return fsm_map_find(&fsm->session_map, request->hash, session_equal, request->id);
}

/* ---- pages ---- */

static void page_leave(struct session_page *page)
{
    if (!page->open && page->living == 0)
        free(page);
}

static void page_close(struct fsm *fsm)
{
    struct session_page *page = fsm->session_page;

    if (page == NULL)
        return;
    fsm->session_page = NULL;
    page->open = false;
    page_leave(page);
}

/* Cleared, for a request id of so many bytes. */
static struct session *session_alloc(struct fsm *fsm, size_t id_bytes)
{
    size_t size = (sizeof(struct session) + id_bytes + FSM_SESSION_ALIGN - 1) &
                  ~(size_t)(FSM_SESSION_ALIGN - 1);
    struct session_page *page = fsm->session_page;
    struct session *session;

    CHECK(id_bytes <= FSM_ID_BYTES);
    if (page == NULL || FSM_SESSION_PAGE_BYTES - page->used < size) {
        page_close(fsm);
        page = check_alloc(FSM_SESSION_PAGE_BYTES);
        *page = (struct session_page){.used = SESSION_PAGE_HEAD, .open = true};
        fsm->session_page = page;
    }
    session = memset((char *)page + page->used, 0, size);
    session->place = (uint16_t)(page->used / FSM_SESSION_ALIGN);
    page->used += (uint32_t)size;
    page->living++;
    return session;
}

void fsm_session_free(struct session *session)
{
    struct session_page *page =
        (struct session_page *)(void *)((char *)session -
                                        (size_t)session->place * FSM_SESSION_ALIGN);

    CHECK(session->request_id[0] != '\0');
    CHECK(page->living > 0);
    free(session->rest);
    page->living--;
    page_leave(page);
}

/* ---- leaving ---- */

/* Where the map will look for those that leave next: it would wait for memory for each
 * (ahead.c). */
static void sessions_look_ahead(struct fsm *fsm)
{
    while (fsm->session_ahead_count < SESSIONS_AHEAD) {
        struct session *next =
            fsm->session_ahead_count == 0 ? fsm->session_oldest : fsm->session_ahead->next;

        if (next == NULL)
            return;
        fsm_map_prefetch(&fsm->session_map, next->hash);
        fsm->session_ahead = next;
        fsm->session_ahead_count++;
    }
}

static void session_drop_oldest(struct fsm *fsm)
{
    struct session *session = fsm->session_oldest;

    CHECK(fsm->session_count > 0);
    sessions_look_ahead(fsm);
    fsm->session_ahead_count--;
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
    CHECK(outcome != NULL);
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

/* NULL when there is nothing to keep. */
static struct session_rest *rest_of(const struct fsm_outcome *outcome)
{
    size_t victims_size = outcome->victim_count * sizeof(outcome->victims[0]);
    struct session_rest *rest;

    if (outcome->checkpoint_id == 0 && outcome->preemption_id == 0 && outcome->current == 0 &&
        outcome->limit == 0 && outcome->victim_count == 0)
        return NULL;
    rest = check_alloc(sizeof(*rest) + victims_size);
    rest->checkpoint_id = outcome->checkpoint_id;
    rest->preemption_id = outcome->preemption_id;
    rest->current = outcome->current;
    rest->limit = outcome->limit;
    memcpy(rest->victims, outcome->victims, victims_size);
    return rest;
}

static void session_check(const struct fsm *fsm, const struct session *session)
{
    CHECK(session->request_id[0] != '\0');
    CHECK(session->next == NULL || session != fsm->session_newest);
    CHECK(session->at_ms <= fsm->now_ms);
    CHECK(session->index <= fsm->index);
    CHECK(session->command != 0);
    CHECK(session->victim_count <= FSM_VICTIMS_MAX);
    CHECK(session->victim_count == 0 || session->rest != NULL);
    CHECK(session->held_by == 0);
}

void fsm_session_add(struct fsm *fsm, const struct request *request, uint8_t command,
                     uint64_t at_ms, const struct fsm_outcome *outcome)
{
    size_t size = strlen(request->id) + 1;
    struct session *session = session_alloc(fsm, size);

    CHECK(fsm->session_count < FSM_SESSIONS_MAX);
    CHECK(outcome->victim_count <= FSM_VICTIMS_MAX);
    memcpy(session->request_id, request->id, size);
    session->hash = request->hash;
    session->command = command;
    session->content_hash = request->content_hash;
    session->at_ms = at_ms;
    session->status = (uint16_t)outcome->status;
    session->index = outcome->index;
    session->victim_count = (uint8_t)outcome->victim_count;
    session->rest = rest_of(outcome);
    fsm_map_add(&fsm->session_map, session->hash, session);
    if (fsm->session_newest != NULL)
        fsm->session_newest->next = session;
    else
        fsm->session_oldest = session;
    fsm->session_newest = session;
    fsm->session_count++;
    session_check(fsm, session);
}

void fsm_session_outcome(const struct session *session, struct fsm_outcome *ret_outcome)
{
    CHECK(session != NULL);
    ret_outcome->status = session->status;
    ret_outcome->repeated = true;
    ret_outcome->index = session->index;
    ret_outcome->victim_count = session->victim_count;
    if (session->rest == NULL)
        return;
    ret_outcome->checkpoint_id = session->rest->checkpoint_id;
    ret_outcome->preemption_id = session->rest->preemption_id;
    ret_outcome->current = session->rest->current;
    ret_outcome->limit = session->rest->limit;
    memcpy(ret_outcome->victims, session->rest->victims,
           session->victim_count * sizeof(ret_outcome->victims[0]));
}

bool fsm_request_find(const struct fsm *fsm, const char *request_id,
                      struct fsm_request *ret_request)
{
    const struct request request = {.id = request_id, .hash = fsm_hash_text(request_id)};
    const struct session *session = fsm_session_find(fsm, &request);

    CHECK(ret_request != NULL);
    CHECK(request_id[0] != '\0');
    if (session == NULL)
        return false;
    memset(ret_request, 0, sizeof(*ret_request));
    fsm_session_outcome(session, &ret_request->outcome);
    ret_request->command = session->command;
    ret_request->at_ms = session->at_ms;
    return true;
}

void fsm_sessions_free(struct fsm *fsm)
{
    while (fsm->session_oldest != NULL)
        session_drop_oldest(fsm);
    page_close(fsm);
}
