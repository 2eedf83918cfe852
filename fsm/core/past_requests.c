/* What each request id came to, so that a retry gets the first outcome (K-004).
 *
 * Flow     oldest first in a list. Ones older than the policy's session_ttl_ms leave as commands
 *          are applied; when the table is full the oldest makes room, unless it is younger than
 *          FSM_PAST_REQUEST_MIN_AGE_MS: then the new request is refused.
 * Shapes   at most FSM_PAST_REQUESTS_MAX, one behind the other in pages: a page is freed when the
 *          last of it left. Refusals are remembered like successes, except SESSIONS_FULL.
 */
#include <malloc.h>

#include "fsm/core/request_fields.h"
#include "fsm/core/state.h"

enum { PAST_REQUESTS_AHEAD = 16, PAST_REQUEST_PAGE_HEAD = 16 };

_Static_assert(sizeof(struct past_request_page) <= PAST_REQUEST_PAGE_HEAD, "the head fits");
_Static_assert(FSM_PAST_REQUEST_PAGE_BYTES / FSM_PAST_REQUEST_ALIGN <= UINT16_MAX,
               "a place fits its field");

static bool past_request_equal(const void *item, const char *key)
{
    return strcmp(((const struct past_request *)item)->request_id, key) == 0;
}

struct past_request *fsm_past_request_find(const struct fsm *fsm, const struct request *request)
{
    CHECK(request != NULL);
    return fsm_map_find(&fsm->past_request_map, request->hash, past_request_equal, request->id);
}

/* ---- pages ---- */

static void page_leave(struct past_request_page *page)
{
    if (!page->open && page->living == 0)
        free(page);
}

static void page_close(struct fsm *fsm)
{
    struct past_request_page *page = fsm->past_request_page;

    if (page == NULL)
        return;
    fsm->past_request_page = NULL;
    page->open = false;
    page_leave(page);
}

/* Cleared, with so many bytes for the request id and the prints behind it. */
static struct past_request *past_request_alloc(struct fsm *fsm, size_t more_bytes)
{
    size_t size = (sizeof(struct past_request) + more_bytes + FSM_PAST_REQUEST_ALIGN - 1) &
                  ~(size_t)(FSM_PAST_REQUEST_ALIGN - 1);
    struct past_request_page *page = fsm->past_request_page;
    struct past_request *past;

    CHECK(more_bytes <= FSM_ID_BYTES + FSM_REQUEST_FIELDS_MAX * REQUEST_FIELD_BYTES);
    if (page == NULL || FSM_PAST_REQUEST_PAGE_BYTES - page->used < size) {
        page_close(fsm);
        page = check_alloc(FSM_PAST_REQUEST_PAGE_BYTES);
        *page = (struct past_request_page){.used = PAST_REQUEST_PAGE_HEAD, .open = true};
        fsm->past_request_page = page;
    }
    past = memset((char *)page + page->used, 0, size);
    past->place = (uint16_t)(page->used / FSM_PAST_REQUEST_ALIGN);
    page->used += (uint32_t)size;
    page->living++;
    return past;
}

void fsm_past_request_free(struct past_request *past)
{
    struct past_request_page *page =
        (struct past_request_page *)(void *)((char *)past -
                                             (size_t)past->place * FSM_PAST_REQUEST_ALIGN);

    CHECK(past->request_id[0] != '\0');
    CHECK(page->living > 0);
    free(past->rest);
    page->living--;
    page_leave(page);
}

/* ---- leaving ---- */

/* Where the map will look for those that leave next: it would wait for memory for each
 * (ahead.c). */
static void past_requests_look_ahead(struct fsm *fsm)
{
    while (fsm->past_request_ahead_count < PAST_REQUESTS_AHEAD) {
        struct past_request *next = fsm->past_request_ahead_count == 0
                                        ? fsm->past_request_oldest
                                        : fsm->past_request_ahead->next;

        if (next == NULL)
            return;
        fsm_map_prefetch(&fsm->past_request_map, next->hash);
        fsm->past_request_ahead = next;
        fsm->past_request_ahead_count++;
    }
}

static void past_request_drop_oldest(struct fsm *fsm)
{
    struct past_request *past = fsm->past_request_oldest;

    CHECK(fsm->past_request_count > 0);
    past_requests_look_ahead(fsm);
    fsm->past_request_ahead_count--;
    fsm->past_request_oldest = past->next;
    if (fsm->past_request_oldest == NULL)
        fsm->past_request_newest = NULL;
    fsm->past_request_count--;
    fsm_map_remove(&fsm->past_request_map, past->hash, past);
    if (list_empty(fsm->snapshots) || !fsm_save_past_request(fsm, past))
        fsm_past_request_free(past);
}

void fsm_past_requests_expire(struct fsm *fsm)
{
    for (int i = 0; i < FSM_PAST_REQUESTS_EVICTED_PER_COMMAND_MAX; i++) {
        if (fsm->past_request_oldest == NULL ||
            fsm_since(fsm, fsm->past_request_oldest->at_ms) < fsm->policy.session_ttl_ms)
            return;
        past_request_drop_oldest(fsm);
    }
}

enum fsm_status fsm_past_request_make_room(struct fsm *fsm, struct fsm_outcome *outcome)
{
    CHECK(outcome != NULL);
    if (fsm->past_request_count < FSM_PAST_REQUESTS_MAX)
        return FSM_OK;
    if (fsm_since(fsm, fsm->past_request_oldest->at_ms) >= FSM_PAST_REQUEST_MIN_AGE_MS) {
        past_request_drop_oldest(fsm);
        return FSM_OK;
    }
    outcome->current = fsm->past_request_count;
    outcome->limit = FSM_PAST_REQUESTS_MAX;
    return FSM_SESSIONS_FULL;
}

/* NULL when there is nothing to keep. */
static struct past_request_rest *rest_of(const struct fsm_outcome *outcome)
{
    size_t victims_size = outcome->victim_count * sizeof(outcome->victims[0]);
    struct past_request_rest *rest;

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

static void past_request_check(const struct fsm *fsm, const struct past_request *past)
{
    CHECK(past->request_id[0] != '\0');
    CHECK(past->next == NULL || past != fsm->past_request_newest);
    CHECK(past->at_ms <= fsm->now_ms);
    CHECK(past->index <= fsm->index);
    CHECK(past->command != 0);
    CHECK(past->victim_count <= FSM_VICTIMS_MAX);
    CHECK(past->victim_count == 0 || past->rest != NULL);
    CHECK(past->held_by == 0);
    CHECK(past->field_count <= FSM_REQUEST_FIELDS_MAX);
}

void fsm_past_request_add(struct fsm *fsm, const struct request *request, uint8_t command,
                          uint64_t at_ms, const struct fsm_outcome *outcome)
{
    size_t size = strlen(request->id) + 1;
    size_t prints =
        request->fields == NULL ? 0 : (size_t)request->fields->count * REQUEST_FIELD_BYTES;
    struct past_request *past = past_request_alloc(fsm, size + prints);

    CHECK(fsm->past_request_count < FSM_PAST_REQUESTS_MAX);
    CHECK(outcome->victim_count <= FSM_VICTIMS_MAX);
    memcpy(past->request_id, request->id, size);
    if (prints > 0)
        memcpy(past->request_id + size, request->fields->prints, prints);
    past->field_count = (uint8_t)(prints / REQUEST_FIELD_BYTES);
    past->hash = request->hash;
    past->command = command;
    past->content_hash = request->content_hash;
    past->at_ms = at_ms;
    past->status = (uint16_t)outcome->status;
    past->index = outcome->index;
    past->victim_count = (uint8_t)outcome->victim_count;
    past->rest = rest_of(outcome);
    fsm_map_add(&fsm->past_request_map, past->hash, past);
    if (fsm->past_request_newest != NULL)
        fsm->past_request_newest->next = past;
    else
        fsm->past_request_oldest = past;
    fsm->past_request_newest = past;
    fsm->past_request_count++;
    past_request_check(fsm, past);
}

void fsm_past_request_outcome(const struct past_request *past, struct fsm_outcome *ret_outcome)
{
    CHECK(past != NULL);
    ret_outcome->status = past->status;
    ret_outcome->repeated = true;
    ret_outcome->index = past->index;
    ret_outcome->victim_count = past->victim_count;
    if (past->rest == NULL)
        return;
    ret_outcome->checkpoint_id = past->rest->checkpoint_id;
    ret_outcome->preemption_id = past->rest->preemption_id;
    ret_outcome->current = past->rest->current;
    ret_outcome->limit = past->rest->limit;
    memcpy(ret_outcome->victims, past->rest->victims,
           past->victim_count * sizeof(ret_outcome->victims[0]));
}

bool fsm_request_find(const struct fsm *fsm, const char *request_id,
                      struct fsm_request *ret_request)
{
    const struct request request = {.id = request_id, .hash = fsm_hash_text(request_id)};
    const struct past_request *past = fsm_past_request_find(fsm, &request);

    CHECK(ret_request != NULL);
    CHECK(request_id[0] != '\0');
    if (past == NULL)
        return false;
    memset(ret_request, 0, sizeof(*ret_request));
    fsm_past_request_outcome(past, &ret_request->outcome);
    ret_request->command = past->command;
    ret_request->at_ms = past->at_ms;
    return true;
}

void fsm_past_requests_free(struct fsm *fsm)
{
    while (fsm->past_request_oldest != NULL)
        past_request_drop_oldest(fsm);
    page_close(fsm);
}
