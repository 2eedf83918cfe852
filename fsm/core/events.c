/* The bounded history that watches read: a ring of the last FSM_EVENTS_MAX events, numbered without
 * gaps.
 *
 * Flow     whoever changes something that people follow emits an event; the broker's watches read
 *          them by number (fsm_event_after) and see by a gap that they were too slow. The ring is
 *          part of the state, so a new leader has the same history.
 * Shapes   pages are made at their first event, so a small cluster does not pay for the ring. Texts
 *          are interned, and NULL and "" are one empty text, which nobody counts.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/core/state.h"

enum { EVENTS_AHEAD = 8 };

static char empty_text[] = "";

/* An interned text; NULL: none. */
static char *event_text(const char *text)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {text};

    return text == NULL ? empty_text : pointer.changing;
}

/* Subjects repeat (targets, members, nodes), so they are held once. */
static const char *event_subject(struct fsm *fsm, const char *subject)
{
    return subject == NULL || subject[0] == '\0' ? NULL : fsm_intern(fsm, subject);
}

/* Of an allocation that may have left. */
static const char *event_allocation(struct fsm *fsm, const char *id)
{
    const struct allocation *allocation = id == NULL ? NULL : allocation_find(fsm, id);

    return allocation == NULL ? event_subject(fsm, id) : fsm_intern_again(allocation->view.id);
}

/* An event that is overwritten gives its texts back; the job may have left long ago. */
static void event_clear(struct fsm *fsm, Ckpt__V1__Event *event)
{
    if (event->allocation_id != empty_text) /* the text itself is not read: it is far away */
        fsm_intern_release(fsm, event->allocation_id);
    if (event->subject != empty_text)
        fsm_intern_release(fsm, event->subject);
    if (event->caller != empty_text)
        fsm_intern_release(fsm, event->caller);
    event->allocation_id = empty_text;
    event->subject = empty_text;
    event->caller = empty_text;
}

static size_t event_page(uint64_t sequence)
{
    return sequence % FSM_EVENTS_MAX / FSM_EVENTS_PER_PAGE;
}

/* A page is filled with empty events, so that clearing one needs no case for the first time. */
Ckpt__V1__Event *fsm_event_edit(struct fsm *fsm, uint64_t sequence)
{
    Ckpt__V1__Event **page = &fsm->event_pages[event_page(sequence)];

    if (*page == NULL) {
        *page = check_calloc(FSM_EVENTS_PER_PAGE, sizeof(**page));
        for (size_t i = 0; i < FSM_EVENTS_PER_PAGE; i++) {
            ckpt__v1__event__init(&(*page)[i]);
            (*page)[i].allocation_id = empty_text;
            (*page)[i].subject = empty_text;
            (*page)[i].caller = empty_text;
        }
    }
    return &(*page)[sequence % FSM_EVENTS_PER_PAGE];
}

const Ckpt__V1__Event *fsm_event_at(const struct fsm *fsm, uint64_t sequence)
{
    const Ckpt__V1__Event *page = fsm->event_pages[event_page(sequence)];

    CHECK(page[sequence % FSM_EVENTS_PER_PAGE].sequence == sequence);
    return &page[sequence % FSM_EVENTS_PER_PAGE];
}

/* From a snapshot, over whatever stood there. A job that still exists lends the text of its id. */
void fsm_event_fill(struct fsm *fsm, Ckpt__V1__Event *event, const Ckpt__V1__Event *source)
{
    CHECK(event != NULL);
    CHECK(source != NULL);
    event_clear(fsm, event);
    *event = *source;
    event->allocation_id = event_text(event_allocation(fsm, source->allocation_id));
    event->subject = event_text(event_subject(fsm, source->subject));
    event->caller = event_text(event_subject(fsm, source->caller));
    event->path = empty_text; /* a watch gives it to what it sends */
    event->current = false;
}

/* The ids of events that will be overwritten soon were not touched for a while (ahead.c). */
static void event_look_ahead(const struct fsm *fsm)
{
    uint64_t sequence = fsm->next_event_sequence + EVENTS_AHEAD;
    const Ckpt__V1__Event *page = fsm->event_pages[event_page(sequence)];

    if (page != NULL)
        fsm_prefetch(page[sequence % FSM_EVENTS_PER_PAGE].allocation_id);
}

/* The event goes into the state's hash: members that tell another history have diverged. */
void fsm_event_emit(struct fsm *fsm, const struct fsm_event *source)
{
    Ckpt__V1__Event *event = fsm_event_edit(fsm, fsm->next_event_sequence);

    CHECK(source != NULL);
    if (!list_empty(fsm->snapshots))
        fsm_save_event(fsm, event);
    event_look_ahead(fsm);
    event_clear(fsm, event);
    event->sequence = fsm->next_event_sequence++;
    event->index = fsm->index;
    event->term = fsm->term;
    event->at_ms = fsm->now_ms;
    event->kind = source->kind;
    event->allocation_id =
        event_text(source->allocation_id == NULL ? NULL : fsm_intern_again(source->allocation_id));
    event->checkpoint_id = source->checkpoint_id;
    event->old_state = source->old_state;
    event->new_state = source->new_state;
    event->reason = source->reason;
    event->subject = event_text(event_subject(fsm, source->subject));
    event->caller =
        event_text(event_subject(fsm, fsm->caller == NULL ? NULL : fsm->caller->identity));
    event->number = source->number;
    event->size_bytes = source->size_bytes;
    event->duration_ms = source->duration_ms;
    event->storage_micro_usd_per_month = source->storage_micro_usd_per_month;
    if (fsm->event_count < FSM_EVENTS_MAX)
        fsm->event_count++;
    fsm->state_hash =
        fsm_hash_mix(fsm->state_hash, (uint64_t)source->kind << 32 | source->new_state);
    fsm->state_hash = fsm_hash_mix(fsm->state_hash, source->checkpoint_id ^ source->number);
}

/* UINT64_MAX is after all there will ever be; a watcher that is new asks for 0 and gets the
 * oldest. */
const Ckpt__V1__Event *fsm_event_after(const struct fsm *fsm, uint64_t after, bool *ret_gap)
{
    uint64_t oldest = fsm->next_event_sequence - fsm->event_count;
    uint64_t wanted = after == UINT64_MAX ? UINT64_MAX : after + 1;

    CHECK(ret_gap != NULL);
    *ret_gap = fsm->event_count > 0 && wanted < oldest;
    if (wanted < oldest)
        wanted = oldest;
    if (wanted >= fsm->next_event_sequence || fsm->event_count == 0)
        return NULL;
    return fsm_event_at(fsm, wanted);
}

void fsm_events_free(struct fsm *fsm)
{
    for (size_t page = 0; page < FSM_EVENT_PAGES; page++) {
        for (size_t i = 0; fsm->event_pages[page] != NULL && i < FSM_EVENTS_PER_PAGE; i++)
            event_clear(fsm, &fsm->event_pages[page][i]);
        free(fsm->event_pages[page]);
        fsm->event_pages[page] = NULL;
    }
}
