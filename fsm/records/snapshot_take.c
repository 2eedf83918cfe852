/* A snapshot of one instant, written in slices while the state goes on changing.
 *
 * Flow     begin() notes where each table ends and packs what is small. next() packs records up to
 *          a number of bytes, in the order of fsm_snapshot_write and with the same bytes. A record
 *          that is about to change before its turn (state.h: whoever gets a record to change it,
 *          gets it through hold) is packed first and kept until its turn. end() forgets all.
 * Shapes   any number at a time (an own snapshot, backups); memory of each: a packed record of each
 *          that changed meanwhile. Nodes, allocations, checkpoints, undeleted folders, queues and
 *          preemptions are known by their place in their table, where no other one takes it
 *          meanwhile (the registry of checkpoints is not compacted). Past requests and events
 *          never change, they only leave, the oldest first: requests that left stay, events and
 *          records of the audit trail are packed before they are overwritten.
 * Units    bytes; a slice also ends after TAKE_VISITS_MAX places, whatever they hold.
 */
#include <malloc.h>

#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/records/snapshot.h"

enum { TAKE_VISITS_MAX = 16384, TAKE_PAGE = 4096 };

enum take_table {
    TAKE_NODES,
    TAKE_ALLOCATIONS,
    TAKE_BASES,
    TAKE_CHECKPOINTS,
    TAKE_UNDELETED,
    TAKE_QUEUES,
    TAKE_PREEMPTIONS,
    TAKE_TABLES
};

/* The first ones are the tables'. */
enum take_stage {
    TAKE_PAST_REQUESTS = TAKE_TABLES,
    TAKE_EVENTS,
    TAKE_AUDIT,
    TAKE_FOOTER,
    TAKE_DONE
};

struct take_saved {
    uint32_t length; /* 0: the place was empty */
    uint8_t bytes[];
};

struct take_places {
    struct take_saved ***pages;
    uint32_t end; /* what comes later is not part of the snapshot */
};

/* Packed records of a ring, the oldest first. */
struct take_ring {
    uint8_t *bytes;
    size_t length, capacity, at;
};

struct fsm_snapshot {
    struct list node; /* in the state's list of those at work */
    struct fsm *fsm;  /* NULL: the state is gone */
    enum take_stage stage;
    uint32_t position; /* in the table */
    struct take_places places[TAKE_TABLES];
    uint8_t *prologue; /* NULL when written */
    size_t prologue_bytes;
    struct past_request *past_request; /* the next one */
    uint32_t past_requests, past_requests_written, past_requests_dropped;
    uint64_t event_next, event_end;
    struct take_ring events;
    uint64_t audit_next, audit_end; /* links */
    bool audit_begun;               /* its head is written */
    struct take_ring audit;         /* the head first; nothing: there is no record */
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
    struct fsm_snapshot *snapshot = context;

    CHECK(snapshot->saved == NULL);
    snapshot->saved = check_alloc(sizeof(*snapshot->saved) + length);
    snapshot->saved->length = (uint32_t)length;
    memcpy(snapshot->saved->bytes, bytes, length);
    return 0;
}

static struct take_saved **place_at(const struct take_places *places, uint32_t i)
{
    struct take_saved **page = places->pages[i / TAKE_PAGE];

    return page == NULL ? NULL : &page[i % TAKE_PAGE];
}

/* Whether the place is part of the snapshot, not written yet and not saved yet. */
static bool place_wanted(const struct fsm_snapshot *snapshot, enum take_table table, uint32_t i)
{
    const struct take_places *places = &snapshot->places[table];
    struct take_saved **place;

    CHECK(snapshot->node.next != NULL);
    if (i >= places->end || (enum take_stage)table < snapshot->stage ||
        ((enum take_stage)table == snapshot->stage && i < snapshot->position))
        return false;
    place = place_at(places, i);
    return place == NULL || *place == NULL;
}

static void place_put(struct fsm_snapshot *snapshot, enum take_table table, uint32_t i,
                      struct take_saved *take_saved)
{
    struct take_saved ***page = &snapshot->places[table].pages[i / TAKE_PAGE];

    CHECK(snapshot->node.next != NULL);
    CHECK(take_saved != NULL);
    if (*page == NULL)
        *page = check_calloc(TAKE_PAGE, sizeof(**page));
    (*page)[i % TAKE_PAGE] = take_saved;
}

static void place_put_saved(struct fsm_snapshot *snapshot, enum take_table table, uint32_t i)
{
    CHECK(snapshot->node.next != NULL);
    place_put(snapshot, table, i, snapshot->saved);
    snapshot->saved = NULL;
}

/* Each of those at work. */
#define FOR_EACH_SNAPSHOT(snapshot, fsm)                                                           \
    for (struct fsm_snapshot *snapshot =                                                           \
             LIST_ITEM((fsm)->snapshots->next, struct fsm_snapshot, node);                         \
         &snapshot->node != (fsm)->snapshots;                                                      \
         snapshot = LIST_ITEM(snapshot->node.next, struct fsm_snapshot, node))

static void save_empty(struct fsm *fsm, enum take_table table, uint32_t slot)
{
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (place_wanted(snapshot, table, slot))
            place_put(snapshot, table, slot, check_calloc(1, sizeof(struct take_saved)));
    }
}

void fsm_save_node(struct fsm *fsm, const struct node *node)
{
    CHECK(node->view.id != NULL);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_NODES, node->view.slot))
            continue;
        fsm_write_node(&snapshot->saver, node);
        place_put_saved(snapshot, TAKE_NODES, node->view.slot);
    }
}

void fsm_save_allocation(struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_ALLOCATIONS, allocation->view.slot))
            continue;
        fsm_write_allocation(&snapshot->saver, allocation);
        place_put_saved(snapshot, TAKE_ALLOCATIONS, allocation->view.slot);
    }
}

void fsm_save_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    uint32_t i = (uint32_t)fsm_registry_place(fsm, checkpoint->view.id);

    CHECK(checkpoint->view.id != 0);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_CHECKPOINTS, i))
            continue;
        fsm_write_checkpoint(&snapshot->saver, checkpoint);
        place_put_saved(snapshot, TAKE_CHECKPOINTS, i);
    }
}

void fsm_save_queue(struct fsm *fsm, size_t i)
{
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_QUEUES, (uint32_t)i))
            continue;
        fsm_write_queue(&snapshot->saver, &fsm->queues[i]);
        place_put_saved(snapshot, TAKE_QUEUES, (uint32_t)i);
    }
}

void fsm_save_undeleted(struct fsm *fsm, uint32_t place)
{
    if (fsm->undeleted[place] == NULL) {
        save_empty(fsm, TAKE_UNDELETED, place);
        return;
    }
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_UNDELETED, place))
            continue;
        fsm_write_undeleted(&snapshot->saver, fsm->undeleted[place]);
        place_put_saved(snapshot, TAKE_UNDELETED, place);
    }
}

void fsm_save_preemption(struct fsm *fsm, size_t i)
{
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_PREEMPTIONS, (uint32_t)i))
            continue;
        if (fsm->preemptions[i] == NULL) {
            place_put(snapshot, TAKE_PREEMPTIONS, (uint32_t)i,
                      check_calloc(1, sizeof(struct take_saved)));
            continue;
        }
        fsm_write_preemption(&snapshot->saver, fsm->preemptions[i]);
        place_put_saved(snapshot, TAKE_PREEMPTIONS, (uint32_t)i);
    }
}

/* It never changes, it only leaves. */
void fsm_save_basis(struct fsm *fsm, const struct basis *basis)
{
    CHECK(basis != NULL);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (!place_wanted(snapshot, TAKE_BASES, basis->view.slot))
            continue;
        fsm_write_basis(&snapshot->saver, basis);
        place_put_saved(snapshot, TAKE_BASES, basis->view.slot);
    }
}

/* Allocations, bases and removed nodes leave and give their slots to others. */
void fsm_save_empty_slot(struct fsm *fsm, uint32_t slot)
{
    save_empty(fsm, TAKE_ALLOCATIONS, slot);
}

void fsm_save_empty_basis(struct fsm *fsm, uint32_t slot)
{
    save_empty(fsm, TAKE_BASES, slot);
}

void fsm_save_empty_node(struct fsm *fsm, uint32_t slot)
{
    save_empty(fsm, TAKE_NODES, slot);
}

bool fsm_save_past_request(struct fsm *fsm, struct past_request *past)
{
    CHECK(past->held_by == 0);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (snapshot->past_requests_dropped == snapshot->past_requests)
            continue;
        if (++snapshot->past_requests_dropped > snapshot->past_requests_written)
            past->held_by++;
    }
    return past->held_by > 0;
}

static void past_request_let_go(struct past_request *past)
{
    CHECK(past->held_by > 0);
    if (--past->held_by == 0)
        fsm_past_request_free(past);
}

static int save_in_ring(struct take_ring *ring, const void *bytes, size_t length)
{
    if (ring->length + length > ring->capacity) {
        ring->capacity = 2 * (ring->length + length);
        ring->bytes = check_realloc(ring->bytes, ring->capacity, 1);
    }
    memcpy(ring->bytes + ring->length, bytes, length);
    ring->length += length;
    return 0;
}

static int save_event(void *context, const void *bytes, size_t length)
{
    return save_in_ring(&((struct fsm_snapshot *)context)->events, bytes, length);
}

static int save_audit(void *context, const void *bytes, size_t length)
{
    return save_in_ring(&((struct fsm_snapshot *)context)->audit, bytes, length);
}

void fsm_save_event(struct fsm *fsm, const Ckpt__V1__Event *event)
{
    CHECK(event != NULL);
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (event->sequence < snapshot->event_next || event->sequence >= snapshot->event_end)
            continue;
        snapshot->saver.write = save_event;
        fsm_write_event(&snapshot->saver, event);
        snapshot->saver.write = save_record;
    }
}

void fsm_save_audit(struct fsm *fsm, uint64_t link)
{
    FOR_EACH_SNAPSHOT(snapshot, fsm)
    {
        if (link < snapshot->audit_next || link >= snapshot->audit_end)
            continue;
        snapshot->saver.write = save_audit;
        fsm_write_audit(&snapshot->saver, fsm, link);
        snapshot->saver.write = save_record;
    }
}

/* ---- writing ---- */

static int slice_write(void *context, const void *bytes, size_t length)
{
    struct fsm_snapshot *snapshot = context;

    snapshot->written_bytes += length;
    return snapshot->write(snapshot->context, bytes, length);
}

static void write_live(struct fsm *fsm, struct fsm_snapshot *snapshot, uint32_t i)
{
    CHECK(snapshot->node.next != NULL);
    switch ((enum take_table)snapshot->stage) {
    case TAKE_NODES:
        if (node_find_slot(fsm, i) != NULL)
            fsm_write_node(&snapshot->writer, node_at(fsm, i));
        break;
    case TAKE_ALLOCATIONS:
        if (allocation_find_slot(fsm, i) != NULL)
            fsm_write_allocation(&snapshot->writer, allocation_at(fsm, i));
        break;
    case TAKE_BASES:
        if (basis_find_slot(fsm, i) != NULL)
            fsm_write_basis(&snapshot->writer, basis_at(fsm, i));
        break;
    case TAKE_CHECKPOINTS:
        if (fsm->checkpoints[i].checkpoint != NULL)
            fsm_write_checkpoint(&snapshot->writer, fsm->checkpoints[i].checkpoint);
        break;
    case TAKE_UNDELETED:
        if (fsm->undeleted[i] != NULL)
            fsm_write_undeleted(&snapshot->writer, fsm->undeleted[i]);
        break;
    case TAKE_QUEUES:
        fsm_write_queue(&snapshot->writer, &fsm->queues[i]);
        break;
    case TAKE_PREEMPTIONS:
        if (fsm->preemptions[i] != NULL)
            fsm_write_preemption(&snapshot->writer, fsm->preemptions[i]);
        break;
    case TAKE_TABLES:
        CHECK_UNREACHABLE("table");
    }
}

static void write_place(struct fsm *fsm, struct fsm_snapshot *snapshot)
{
    struct take_places *places = &snapshot->places[snapshot->stage];
    uint32_t i = snapshot->position;
    struct take_saved **place;

    CHECK(snapshot->node.next != NULL);
    if (i == places->end) {
        snapshot->stage++;
        snapshot->position = 0;
        return;
    }
    place = place_at(places, i);
    if (place == NULL || *place == NULL) {
        write_live(fsm, snapshot, i);
    } else {
        if ((*place)->length > 0)
            fsm_write_saved(&snapshot->writer, (*place)->bytes, (*place)->length);
        free(*place);
        *place = NULL;
    }
    snapshot->position++;
}

static void write_past_request(struct fsm_snapshot *snapshot)
{
    struct past_request *past = snapshot->past_request;

    CHECK(snapshot->node.next != NULL);
    if (snapshot->past_requests_written == snapshot->past_requests) {
        snapshot->stage++;
        return;
    }
    fsm_write_past_request(&snapshot->writer, past);
    snapshot->past_request = past->next;
    if (++snapshot->past_requests_written <= snapshot->past_requests_dropped)
        past_request_let_go(past);
}

/* The next packed record of a ring. */
static void write_from_ring(struct fsm_snapshot *snapshot, struct take_ring *ring)
{
    size_t length = SNAPSHOT_LENGTH_BYTES;

    CHECK(ring->at < ring->length);
    for (size_t i = 0; i < SNAPSHOT_LENGTH_BYTES; i++)
        length += (size_t)ring->bytes[ring->at + i] << (8 * i);
    fsm_write_saved(&snapshot->writer, ring->bytes + ring->at, length);
    ring->at += length;
}

static void write_audit(struct fsm *fsm, struct fsm_snapshot *snapshot)
{
    CHECK(snapshot->node.next != NULL);
    if (snapshot->audit.length == 0 ||
        (snapshot->audit_begun && snapshot->audit_next == snapshot->audit_end)) {
        snapshot->stage++;
        return;
    }
    if (snapshot->audit.at < snapshot->audit.length)
        write_from_ring(snapshot, &snapshot->audit);
    else
        fsm_write_audit(&snapshot->writer, fsm, snapshot->audit_next);
    if (snapshot->audit_begun)
        snapshot->audit_next++;
    snapshot->audit_begun = true;
}

static void write_event(struct fsm *fsm, struct fsm_snapshot *snapshot)
{
    struct take_ring *events = &snapshot->events;

    CHECK(snapshot->node.next != NULL);
    if (snapshot->event_next == snapshot->event_end) {
        snapshot->stage++;
        return;
    }
    if (events->at < events->length) {
        write_from_ring(snapshot, events);
    } else {
        fsm_write_event(&snapshot->writer, fsm_event_at(fsm, snapshot->event_next));
    }
    snapshot->event_next++;
}

static void write_step(struct fsm *fsm, struct fsm_snapshot *snapshot)
{
    if (snapshot->stage < (enum take_stage)TAKE_TABLES) {
        write_place(fsm, snapshot);
    } else if (snapshot->stage == TAKE_PAST_REQUESTS) {
        write_past_request(snapshot);
    } else if (snapshot->stage == TAKE_EVENTS) {
        write_event(fsm, snapshot);
    } else if (snapshot->stage == TAKE_AUDIT) {
        write_audit(fsm, snapshot);
    } else {
        CHECK(snapshot->stage == TAKE_FOOTER);
        fsm_write_footer(&snapshot->writer, snapshot->state_hash);
        snapshot->stage++;
    }
}

static void write_prologue(struct fsm_snapshot *snapshot)
{
    CHECK(snapshot->node.next != NULL);
    if (snapshot->prologue == NULL)
        return;
    if (slice_write(snapshot, snapshot->prologue, snapshot->prologue_bytes) != 0)
        snapshot->writer.failed = true;
    free(snapshot->prologue);
    snapshot->prologue = NULL;
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

struct fsm_snapshot *fsm_snapshot_begin(struct fsm *fsm)
{
    struct fsm_snapshot *snapshot = check_calloc(1, sizeof(*snapshot));
    struct take_sink sink = {NULL, 0};

    CHECK(fsm != NULL);
    places_init(&snapshot->places[TAKE_NODES], fsm->nodes.slot_end);
    places_init(&snapshot->places[TAKE_ALLOCATIONS], fsm->allocations.slot_end);
    places_init(&snapshot->places[TAKE_BASES], fsm->bases.slot_end);
    places_init(&snapshot->places[TAKE_CHECKPOINTS], fsm->checkpoint_refs);
    places_init(&snapshot->places[TAKE_UNDELETED], FSM_UNDELETED_MAX);
    places_init(&snapshot->places[TAKE_QUEUES], fsm->queue_count);
    places_init(&snapshot->places[TAKE_PREEMPTIONS], FSM_PREEMPTIONS_MAX);
    snapshot->writer.write = sink_write;
    snapshot->writer.context = &sink;
    fsm_write_prologue(&snapshot->writer, fsm);
    snapshot->prologue = sink.bytes;
    snapshot->prologue_bytes = sink.length;
    snapshot->writer.write = slice_write;
    snapshot->writer.context = snapshot;
    snapshot->saver.write = save_record;
    snapshot->saver.context = snapshot;
    snapshot->past_request = fsm->past_request_oldest;
    snapshot->past_requests = fsm->past_request_count;
    snapshot->event_end = fsm->next_event_sequence;
    snapshot->event_next = fsm->next_event_sequence - fsm->event_count;
    snapshot->saver.write = save_audit;
    fsm_write_audit_head(&snapshot->saver, fsm);
    snapshot->saver.write = save_record;
    snapshot->audit_end = fsm->audit->link + 1;
    snapshot->audit_next = snapshot->audit_end - fsm->audit->count;
    snapshot->state_hash = fsm->state_hash;
    snapshot->fsm = fsm;
    list_push_back(fsm->snapshots, &snapshot->node);
    return snapshot;
}

int fsm_snapshot_next(struct fsm_snapshot *snapshot, size_t bytes,
                      int (*write)(void *context, const void *bytes, size_t length), void *context,
                      bool *ret_done)
{
    CHECK(ret_done != NULL);
    CHECK(snapshot->stage != TAKE_DONE);
    if (snapshot->fsm == NULL)
        return -1;
    snapshot->write = write;
    snapshot->context = context;
    snapshot->written_bytes = 0;
    write_prologue(snapshot);
    for (uint32_t visits = 0; visits < TAKE_VISITS_MAX && snapshot->written_bytes < bytes &&
                              snapshot->stage != TAKE_DONE && !snapshot->writer.failed;
         visits++)
        write_step(snapshot->fsm, snapshot);
    if (snapshot->writer.failed)
        return -1;
    *ret_done = snapshot->stage == TAKE_DONE;
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

static void snapshot_leave(struct fsm_snapshot *snapshot)
{
    CHECK(snapshot->node.next != NULL);
    list_remove(&snapshot->node);
    snapshot->fsm = NULL;
    while (snapshot->past_requests_written < snapshot->past_requests_dropped) {
        struct past_request *past = snapshot->past_request;

        snapshot->past_request = past->next;
        snapshot->past_requests_written++;
        past_request_let_go(past);
    }
}

void fsm_snapshots_leave(struct fsm *fsm)
{
    while (!list_empty(fsm->snapshots))
        snapshot_leave(LIST_ITEM(fsm->snapshots->next, struct fsm_snapshot, node));
}

void fsm_snapshot_end(struct fsm_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    if (snapshot->fsm != NULL)
        snapshot_leave(snapshot);
    for (size_t table = 0; table < TAKE_TABLES; table++)
        places_close(&snapshot->places[table]);
    free(snapshot->prologue);
    free(snapshot->events.bytes);
    free(snapshot->audit.bytes);
    free(snapshot->writer.buffer);
    free(snapshot->saver.buffer);
    free(snapshot);
}
