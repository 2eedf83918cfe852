/* A snapshot of one instant, written in slices while the state goes on changing.
 *
 * Flow     begin() notes where each table ends and packs what is small. next() packs records up to a number of bytes, in the order of
 *          fsm_snapshot_write and with the same bytes. A record that is about to change before its turn (state.h: whoever gets a
 *          record to change it, gets it through hold) is packed first and kept until its turn. end() forgets all.
 * Shapes   at most one at a time; memory: a packed record of each that changed meanwhile. Nodes, allocations, checkpoints and
 *          queues are known by their place in their table, where no other one takes it meanwhile (the registry of checkpoints is
 *          not compacted). Sessions and events never change, they only leave, the oldest first: sessions that left stay allocated,
 *          events are packed before they are overwritten.
 * Units    bytes; a slice also ends after TAKE_VISITS_MAX places, whatever they hold.
 */
#include <malloc.h>

#include "fsm/snapshot.h"

enum { TAKE_VISITS_MAX = 16384, TAKE_PAGE = 4096 };

enum take_table { TAKE_NODES, TAKE_ALLOCATIONS, TAKE_CHECKPOINTS, TAKE_QUEUES, TAKE_TABLES };

/* The first ones are the tables'. */
enum take_stage { TAKE_SESSIONS = TAKE_TABLES, TAKE_EVENTS, TAKE_FOOTER, TAKE_DONE };

struct take_saved {
    uint32_t length; /* 0: the place was empty */
    uint8_t bytes[];
};

struct take_places {
    struct take_saved ***pages;
    uint32_t end; /* what comes later is not part of the snapshot */
};

/* Packed events, the oldest first. */
struct take_events {
    uint8_t *bytes;
    size_t length, capacity, at;
};

struct fsm_taking {
    enum take_stage stage;
    uint32_t position; /* in the table */
    struct take_places places[TAKE_TABLES];
    uint8_t *prologue; /* NULL when written */
    size_t prologue_bytes;
    struct session *session; /* the next one */
    uint32_t sessions, sessions_written, sessions_dropped;
    uint64_t event_next, event_end;
    struct take_events events;
    uint64_t state_hash;
    struct snapshot_writer writer;
    struct snapshot_writer saver;
    struct take_saved *saved; /* by the saver */
    /* of the slice at work */
    int (*write)(void *context, const void *bytes, size_t length);
    void *context;
    size_t written_bytes;
};

/* ---- saving what is about to change ---- */

static int save_record(void *context, const void *bytes, size_t length)
{
    struct fsm_taking *taking = context;

    CHECK(taking->saved == NULL);
    taking->saved = check_alloc(sizeof(*taking->saved) + length);
    taking->saved->length = (uint32_t)length;
    memcpy(taking->saved->bytes, bytes, length);
    return 0;
}

static struct take_saved **place_at(const struct take_places *places, uint32_t i)
{
    struct take_saved **page = places->pages[i / TAKE_PAGE];

    return page == NULL ? NULL : &page[i % TAKE_PAGE];
}

/* Whether the place is part of the snapshot, not written yet and not saved yet. */
static bool place_wanted(const struct fsm_taking *taking, enum take_table table, uint32_t i)
{
    const struct take_places *places = &taking->places[table];
    struct take_saved **place;

    if (i >= places->end || (enum take_stage)table < taking->stage ||
        ((enum take_stage)table == taking->stage && i < taking->position))
        return false;
    place = place_at(places, i);
    return place == NULL || *place == NULL;
}

static void place_put(struct fsm_taking *taking, enum take_table table, uint32_t i,
                      struct take_saved *take_saved)
{
    struct take_saved ***page = &taking->places[table].pages[i / TAKE_PAGE];

    CHECK(take_saved != NULL);
    if (*page == NULL)
        *page = check_calloc(TAKE_PAGE, sizeof(**page));
    (*page)[i % TAKE_PAGE] = take_saved;
}

static void place_put_saved(struct fsm_taking *taking, enum take_table table, uint32_t i)
{
    place_put(taking, table, i, taking->saved);
    taking->saved = NULL;
}

void fsm_taking_node(struct fsm *fsm, const struct node *node)
{
    struct fsm_taking *taking = fsm->taking;

    if (!place_wanted(taking, TAKE_NODES, node->view.slot))
        return;
    fsm_write_node(&taking->saver, node);
    place_put_saved(taking, TAKE_NODES, node->view.slot);
}

void fsm_taking_allocation(struct fsm *fsm, const struct allocation *allocation)
{
    struct fsm_taking *taking = fsm->taking;

    if (!place_wanted(taking, TAKE_ALLOCATIONS, allocation->view.slot))
        return;
    fsm_write_allocation(&taking->saver, allocation);
    place_put_saved(taking, TAKE_ALLOCATIONS, allocation->view.slot);
}

void fsm_taking_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    struct fsm_taking *taking = fsm->taking;
    uint32_t i;

    if (taking->stage > (enum take_stage)TAKE_CHECKPOINTS)
        return;
    i = (uint32_t)fsm_registry_place(fsm, checkpoint->view.id);
    if (!place_wanted(taking, TAKE_CHECKPOINTS, i))
        return;
    fsm_write_checkpoint(&taking->saver, checkpoint);
    place_put_saved(taking, TAKE_CHECKPOINTS, i);
}

void fsm_taking_queue(struct fsm *fsm, size_t i)
{
    struct fsm_taking *taking = fsm->taking;

    if (!place_wanted(taking, TAKE_QUEUES, (uint32_t)i))
        return;
    fsm_write_queue(&taking->saver, &fsm->queues[i]);
    place_put_saved(taking, TAKE_QUEUES, (uint32_t)i);
}

/* Only allocations leave and give their slots to others. */
void fsm_taking_new_allocation(struct fsm *fsm, uint32_t slot)
{
    if (place_wanted(fsm->taking, TAKE_ALLOCATIONS, slot))
        place_put(fsm->taking, TAKE_ALLOCATIONS, slot, check_calloc(1, sizeof(struct take_saved)));
}

bool fsm_taking_session(struct fsm *fsm)
{
    struct fsm_taking *taking = fsm->taking;

    if (taking->sessions_dropped == taking->sessions)
        return false;
    return ++taking->sessions_dropped > taking->sessions_written;
}

static int save_event(void *context, const void *bytes, size_t length)
{
    struct take_events *events = &((struct fsm_taking *)context)->events;

    if (events->length + length > events->capacity) {
        events->capacity = 2 * (events->length + length);
        events->bytes = check_realloc(events->bytes, events->capacity, 1);
    }
    memcpy(events->bytes + events->length, bytes, length);
    events->length += length;
    return 0;
}

void fsm_taking_event(struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct fsm_taking *taking = fsm->taking;

    if (event->sequence < taking->event_next || event->sequence >= taking->event_end)
        return;
    taking->saver.write = save_event;
    fsm_write_event(&taking->saver, event);
    taking->saver.write = save_record;
}

/* ---- writing ---- */

static int slice_write(void *context, const void *bytes, size_t length)
{
    struct fsm_taking *taking = context;

    taking->written_bytes += length;
    return taking->write(taking->context, bytes, length);
}

static void write_live(struct fsm *fsm, struct fsm_taking *taking, uint32_t i)
{
    switch ((enum take_table)taking->stage) {
    case TAKE_NODES:
        if (fsm_node_look(fsm, i) != NULL)
            fsm_write_node(&taking->writer, fsm_node_look(fsm, i));
        break;
    case TAKE_ALLOCATIONS:
        if (fsm_allocation_look(fsm, i) != NULL)
            fsm_write_allocation(&taking->writer, fsm_allocation_look(fsm, i));
        break;
    case TAKE_CHECKPOINTS:
        if (fsm->checkpoints[i].checkpoint != NULL)
            fsm_write_checkpoint(&taking->writer, fsm->checkpoints[i].checkpoint);
        break;
    case TAKE_QUEUES:
        fsm_write_queue(&taking->writer, &fsm->queues[i]);
        break;
    case TAKE_TABLES:
        CHECK_UNREACHABLE("table");
    }
}

static void write_place(struct fsm *fsm, struct fsm_taking *taking)
{
    struct take_places *places = &taking->places[taking->stage];
    uint32_t i = taking->position;
    struct take_saved **place;

    if (i == places->end) {
        taking->stage++;
        taking->position = 0;
        return;
    }
    place = place_at(places, i);
    if (place == NULL || *place == NULL) {
        write_live(fsm, taking, i);
    } else {
        if ((*place)->length > 0)
            fsm_write_saved(&taking->writer, (*place)->bytes, (*place)->length);
        free(*place);
        *place = NULL;
    }
    taking->position++;
}

static void write_session(struct fsm_taking *taking)
{
    struct session *session = taking->session;

    if (taking->sessions_written == taking->sessions) {
        taking->stage++;
        return;
    }
    fsm_write_session(&taking->writer, session);
    taking->session = session->next;
    if (++taking->sessions_written <= taking->sessions_dropped)
        fsm_session_free(session);
}

static void write_event(struct fsm *fsm, struct fsm_taking *taking)
{
    struct take_events *events = &taking->events;
    size_t length = SNAPSHOT_LENGTH_BYTES;

    if (taking->event_next == taking->event_end) {
        taking->stage++;
        return;
    }
    if (events->at < events->length) {
        for (size_t i = 0; i < SNAPSHOT_LENGTH_BYTES; i++)
            length += (size_t)events->bytes[events->at + i] << (8 * i);
        fsm_write_saved(&taking->writer, events->bytes + events->at, length);
        events->at += length;
    } else {
        fsm_write_event(&taking->writer, fsm_event_at(fsm, taking->event_next));
    }
    taking->event_next++;
}

static void write_step(struct fsm *fsm, struct fsm_taking *taking)
{
    if (taking->stage < (enum take_stage)TAKE_TABLES) {
        write_place(fsm, taking);
    } else if (taking->stage == TAKE_SESSIONS) {
        write_session(taking);
    } else if (taking->stage == TAKE_EVENTS) {
        write_event(fsm, taking);
    } else {
        CHECK(taking->stage == TAKE_FOOTER);
        fsm_write_footer(&taking->writer, taking->state_hash);
        taking->stage++;
    }
}

static void write_prologue(struct fsm_taking *taking)
{
    if (taking->prologue == NULL)
        return;
    if (slice_write(taking, taking->prologue, taking->prologue_bytes) != 0)
        taking->writer.failed = true;
    free(taking->prologue);
    taking->prologue = NULL;
}

/* ---- life ---- */

struct take_sink {
    uint8_t *bytes;
    size_t length;
};

static int sink_write(void *context, const void *bytes, size_t length)
{
    struct take_sink *sink = context;

    sink->bytes = check_realloc(sink->bytes, sink->length + length, 1);
    memcpy(sink->bytes + sink->length, bytes, length);
    sink->length += length;
    return 0;
}

static void places_init(struct take_places *places, size_t end)
{
    CHECK(end <= UINT32_MAX);
    places->end = (uint32_t)end;
    places->pages = check_calloc(end / TAKE_PAGE + 1, sizeof(*places->pages));
}

void fsm_snapshot_begin(struct fsm *fsm)
{
    struct fsm_taking *taking = check_calloc(1, sizeof(*taking));
    struct take_sink sink = {NULL, 0};

    CHECK(fsm->taking == NULL);
    places_init(&taking->places[TAKE_NODES], fsm->nodes.slot_end);
    places_init(&taking->places[TAKE_ALLOCATIONS], fsm->allocations.slot_end);
    places_init(&taking->places[TAKE_CHECKPOINTS], fsm->checkpoint_refs);
    places_init(&taking->places[TAKE_QUEUES], fsm->queue_count);
    taking->writer.write = sink_write;
    taking->writer.context = &sink;
    fsm_write_prologue(&taking->writer, fsm);
    taking->prologue = sink.bytes;
    taking->prologue_bytes = sink.length;
    taking->writer.write = slice_write;
    taking->writer.context = taking;
    taking->saver.write = save_record;
    taking->saver.context = taking;
    taking->session = fsm->session_oldest;
    taking->sessions = fsm->session_count;
    taking->event_end = fsm->next_event_sequence;
    taking->event_next = fsm->next_event_sequence - fsm->event_count;
    taking->state_hash = fsm->state_hash;
    fsm->taking = taking;
}

int fsm_snapshot_next(struct fsm *fsm, size_t bytes,
                      int (*write)(void *context, const void *bytes, size_t length), void *context,
                      bool *ret_done)
{
    struct fsm_taking *taking = fsm->taking;

    CHECK(taking != NULL);
    CHECK(taking->stage != TAKE_DONE);
    taking->write = write;
    taking->context = context;
    taking->written_bytes = 0;
    write_prologue(taking);
    for (uint32_t visits = 0; visits < TAKE_VISITS_MAX && taking->written_bytes < bytes &&
                              taking->stage != TAKE_DONE && !taking->writer.failed;
         visits++)
        write_step(fsm, taking);
    if (taking->writer.failed)
        return -1;
    *ret_done = taking->stage == TAKE_DONE;
    return 0;
}

static void places_close(struct take_places *places)
{
    for (uint32_t page = 0; page <= places->end / TAKE_PAGE; page++) {
        for (uint32_t i = 0; places->pages[page] != NULL && i < TAKE_PAGE; i++)
            free(places->pages[page][i]);
        free(places->pages[page]);
    }
    free(places->pages);
}

void fsm_snapshot_end(struct fsm *fsm)
{
    struct fsm_taking *taking = fsm->taking;

    if (taking == NULL)
        return;
    for (; taking->sessions_written < taking->sessions_dropped; taking->sessions_written++) {
        struct session *session = taking->session;

        taking->session = session->next;
        fsm_session_free(session);
    }
    for (size_t table = 0; table < TAKE_TABLES; table++)
        places_close(&taking->places[table]);
    free(taking->prologue);
    free(taking->events.bytes);
    free(taking->writer.buffer);
    free(taking->saver.buffer);
    free(taking);
    fsm->taking = NULL;
}
