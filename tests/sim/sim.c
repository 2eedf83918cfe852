/* The event loop, clock and random tables of the simulated world. See sim.h. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

struct sim_event {
    uint64_t at_us;
    uint64_t sequence;
    unsigned owner;
    uint64_t epoch;
    bool cancelled;
    void (*fire)(void *data);
    void (*drop)(void *data);
    void *data;
};

/* Keys beside the pointer: the heap is where the time goes. A key is the time, then the
 * sequence. */
struct heap_slot {
    uint64_t key;
    struct sim_event *event;
};

struct sim_node {
    struct sim *sim;
    unsigned number;
    uint64_t epoch;
    uint64_t paused_until_us;
    uint64_t paused_us;
    int64_t drift_ppm;
    int64_t wall_offset_ms;
    struct sim_disk *disk;
};

struct sim {
    uint64_t now_us;
    uint64_t state; /* of the generator */
    uint64_t trace;
    uint64_t sequence;
    uint64_t steps;
    unsigned current;       /* the node whose code runs */
    uint64_t touched;       /* by the last step: a bit per node */
    struct heap_slot *heap; /* four children each */
    size_t count, capacity;
    size_t cancelled;        /* of those: at most */
    struct sim_event *spare; /* linked by data */
    struct sim_node nodes[SIM_NODES_MAX + 1];
    struct sim_network *network;
};

struct clock_timer {
    struct sim_node *node;
    struct sim_event *event; /* NULL: not started */
    void (*fire)(void *data);
    void *data;
    bool freed;
    bool firing;
};

static uint64_t draw(struct sim *sim)
{
    uint64_t z = (sim->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sim_random(struct sim *sim, uint64_t below)
{
    CHECK(below > 0);
    return draw(sim) % below;
}

bool sim_chance(struct sim *sim, uint64_t in)
{
    return in > 0 && draw(sim) % in == 0;
}

uint64_t sim_now_us(const struct sim *sim)
{
    return sim->now_us;
}

uint64_t sim_trace(const struct sim *sim)
{
    return sim->trace;
}

void sim_trace_add(struct sim *sim, uint64_t value)
{
    sim->trace = (sim->trace ^ value) * UINT64_C(0x100000001b3);
}

uint64_t sim_node_epoch(const struct sim *sim, unsigned node)
{
    return sim->nodes[node].epoch;
}

struct sim_disk *sim_disk_of(struct sim *sim, unsigned node)
{
    return sim->nodes[node].disk;
}

struct sim_network *sim_network_of(struct sim *sim)
{
    return sim->network;
}

/* ---- whose code runs ---- */

static struct sim *current_sim;

struct sim *sim_current(void)
{
    return current_sim;
}

unsigned sim_current_node(void)
{
    return current_sim == NULL ? SIM_NODES_MAX : current_sim->current;
}

unsigned sim_enter(struct sim *sim, unsigned node)
{
    unsigned before = sim->current;

    current_sim = sim;
    sim->current = node;
    sim->touched |= UINT64_C(1) << node;
    return before;
}

void sim_leave(struct sim *sim, unsigned before)
{
    sim->current = before;
}

uint64_t sim_touched(const struct sim *sim)
{
    return sim->touched;
}

void sim_touches_who_it_enters(struct sim *sim)
{
    sim->touched = 0;
}

/* ---- heap ---- */

enum { HEAP_CHILDREN = 4, CANCELLED_MIN = 64, SEQUENCE_BITS = 22 };

/* Of 2^22 events that are scheduled in a row those of one microsecond keep their order; 50 days are
 * for ever. */
static struct heap_slot slot_of(struct sim_event *event)
{
    const uint64_t mask = (UINT64_C(1) << SEQUENCE_BITS) - 1, latest = UINT64_MAX >> SEQUENCE_BITS;
    uint64_t at_us = event->at_us < latest ? event->at_us : latest;

    return (struct heap_slot){at_us << SEQUENCE_BITS | (event->sequence & mask), event};
}

static void heap_push(struct sim *sim, struct sim_event *event)
{
    struct heap_slot slot = slot_of(event);
    size_t i = sim->count++;

    if (i == sim->capacity) {
        sim->capacity = sim->capacity == 0 ? 256 : sim->capacity * 2;
        sim->heap = check_realloc(sim->heap, sim->capacity, sizeof(*sim->heap));
    }
    for (; i > 0 && slot.key < sim->heap[(i - 1) / HEAP_CHILDREN].key; i = (i - 1) / HEAP_CHILDREN)
        sim->heap[i] = sim->heap[(i - 1) / HEAP_CHILDREN];
    sim->heap[i] = slot;
}

static size_t least_child(const struct sim *sim, size_t first)
{
    const struct heap_slot *at = &sim->heap[first];
    size_t left, right, least = 0;

    if (first + HEAP_CHILDREN <= sim->count) {
        left = at[1].key < at[0].key;
        right = 2 + (at[3].key < at[2].key);
        return first + (at[right].key < at[left].key ? right : left);
    }
    for (size_t child = 1; first + child < sim->count; child++)
        least = at[child].key < at[least].key ? child : least;
    return first + least;
}

static void heap_sink(struct sim *sim, size_t i, struct heap_slot slot)
{
    for (size_t first; (first = HEAP_CHILDREN * i + 1) < sim->count;) {
        size_t least = least_child(sim, first);
        if (slot.key < sim->heap[least].key)
            break;
        sim->heap[i] = sim->heap[least];
        i = least;
    }
    sim->heap[i] = slot;
}

static struct sim_event *heap_pop(struct sim *sim)
{
    struct sim_event *top = sim->heap[0].event;
    struct heap_slot last = sim->heap[--sim->count];

    if (sim->count > 0)
        heap_sink(sim, 0, last);
    return top;
}

static void event_free(struct sim *sim, struct sim_event *event, bool fired)
{
    if (!fired && event->drop != NULL)
        event->drop(event->data);
    event->data = sim->spare;
    sim->spare = event;
}

/* Deadlines are set for everything and hardly ever reached: without those that were cancelled the
 * heap is small. */
static void heap_sweep(struct sim *sim)
{
    struct sim_event *gone = NULL;
    size_t kept = 0;

    for (size_t i = 0; i < sim->count; i++) {
        struct sim_event *event = sim->heap[i].event;
        if (!event->cancelled) {
            sim->heap[kept++] = sim->heap[i];
            continue;
        }
        CHECK(event->drop == NULL); /* which might schedule */
        event->data = gone;
        gone = event;
    }
    sim->count = kept;
    sim->cancelled = 0;
    for (size_t i = kept / HEAP_CHILDREN + 1; i-- > 0;)
        if (i < kept)
            heap_sink(sim, i, sim->heap[i]);
    while (gone != NULL) {
        struct sim_event *event = gone;
        gone = event->data;
        event_free(sim, event, false);
    }
}

struct sim_event *sim_schedule(struct sim *sim, unsigned owner, uint64_t delay_us,
                               void (*fire)(void *data), void *data)
{
    struct sim_event *event = sim->spare;

    if (event == NULL)
        event = check_alloc(sizeof(*event));
    else
        sim->spare = event->data;
    *event = (struct sim_event){.at_us = sim->now_us + delay_us,
                                .sequence = sim->sequence++,
                                .owner = owner,
                                .epoch = sim->nodes[owner].epoch,
                                .fire = fire,
                                .data = data};
    heap_push(sim, event);
    return event;
}

void sim_on_drop(struct sim_event *event, void (*drop)(void *data))
{
    event->drop = drop;
}

/* Its pointer must not be used any more. */
void sim_cancel(struct sim *sim, struct sim_event *event)
{
    event->cancelled = true;
    if (++sim->cancelled > CANCELLED_MIN && sim->cancelled > sim->count / 2)
        heap_sweep(sim);
}

void sim_after(struct sim *sim, unsigned owner, uint64_t delay_us, void (*fire)(void *data),
               void *data)
{
    (void)sim_schedule(sim, owner, delay_us, fire, data);
}

/* What is due at a stopped process waits for it, in its order. */
static bool event_wait(struct sim *sim, struct sim_event *event)
{
    const struct sim_node *node = &sim->nodes[event->owner];

    if (node->paused_until_us <= event->at_us)
        return false;
    event->at_us = node->paused_until_us;
    heap_push(sim, event);
    return true;
}

static void event_fire(struct sim *sim, struct sim_event *event)
{
    CHECK(event->at_us >= sim->now_us);
    sim->now_us = event->at_us;
    sim->steps++;
    sim->touched = event->owner == SIM_NODES_MAX ? UINT64_MAX : UINT64_C(1) << event->owner;
    sim_trace_add(sim, event->at_us << 8 ^ event->owner);
    current_sim = sim;
    sim->current = event->owner;
    event->fire(event->data);
    sim->current = SIM_NODES_MAX;
}

bool sim_step(struct sim *sim)
{
    while (sim->count > 0) {
        struct sim_event *event = heap_pop(sim);
        bool live = !event->cancelled && event->epoch == sim->nodes[event->owner].epoch;

        if (live && event_wait(sim, event))
            continue;
        sim->cancelled -= event->cancelled && sim->cancelled > 0;
        if (live)
            event_fire(sim, event);
        event_free(sim, event, live);
        if (live)
            return true;
    }
    return false;
}

uint64_t sim_steps(const struct sim *sim)
{
    return sim->steps;
}

/* ---- clock and random ---- */

/* Never backwards: one division of the whole. */
static uint64_t node_us(const struct sim_node *node)
{
    uint64_t now = node->sim->now_us;

    CHECK(now < UINT64_C(1) << 43); /* the product fits */
    return node->drift_ppm == 0 ? now : now * (uint64_t)(1000000 + node->drift_ppm) / 1000000;
}

static uint64_t clock_monotonic(void *context)
{
    return node_us(context);
}

static uint64_t node_wall_ms(const struct sim_node *node)
{
    return (uint64_t)(INT64_C(1700000000000) + node->wall_offset_ms) + node_us(node) / 1000;
}

static uint64_t clock_wall(void *context)
{
    return node_wall_ms(context);
}

uint64_t sim_wall_ms(const struct sim *sim, unsigned node)
{
    return node_wall_ms(&sim->nodes[node]);
}

void sim_clock_set_drift(struct sim *sim, unsigned node, int64_t drift_ppm)
{
    sim->nodes[node].drift_ppm = drift_ppm;
}

void sim_clock_step(struct sim *sim, unsigned node, int64_t wall_ms)
{
    sim->nodes[node].wall_offset_ms += wall_ms;
}

/* In the world's time, and never early: a little more than the division says. */
static uint64_t node_delay_us(const struct sim_node *node, uint64_t delay_us)
{
    if (node->drift_ppm == 0 || delay_us == 0 || delay_us > UINT64_MAX / 4000000)
        return delay_us;
    return delay_us * 1000000 / (uint64_t)(1000000 + node->drift_ppm) + 50;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct clock_timer *timer = check_calloc(1, sizeof(*timer));

    timer->node = context;
    timer->fire = fire;
    timer->data = data;
    return timer;
}

static void timer_stop(struct clock_timer *timer)
{
    if (timer->event != NULL)
        sim_cancel(timer->node->sim, timer->event);
    timer->event = NULL;
}

static void timer_fire(void *data)
{
    struct clock_timer *timer = data;

    timer->event = NULL;
    timer->firing = true;
    timer->fire(timer->data);
    timer->firing = false;
    if (timer->freed)
        free(timer);
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    timer_stop(timer);
    if (delay_us > UINT64_MAX / 4)
        delay_us = UINT64_MAX / 4;
    timer->event = sim_schedule(timer->node->sim, timer->node->number,
                                node_delay_us(timer->node, delay_us), timer_fire, timer);
}

static void timer_free(struct clock_timer *timer)
{
    if (timer == NULL)
        return;
    timer_stop(timer);
    timer->freed = true;
    if (!timer->firing)
        free(timer);
}

void sim_node_clock(struct sim *sim, unsigned node, struct clock_ops *ret_ops)
{
    *ret_ops = (struct clock_ops){&sim->nodes[node], clock_monotonic, clock_wall, timer_new,
                                  timer_start,       timer_stop,      timer_free};
}

static void random_fill(void *context, void *bytes, size_t length)
{
    struct sim_node *node = context;
    uint8_t *at = bytes;

    for (size_t i = 0; i < length;) {
        uint64_t bits = draw(node->sim);
        size_t n = length - i < sizeof(bits) ? length - i : sizeof(bits);
        memcpy(at + i, &bits, n);
        i += n;
    }
}

void sim_node_random(struct sim *sim, unsigned node, struct random_ops *ret_ops)
{
    *ret_ops = (struct random_ops){&sim->nodes[node], random_fill};
}

/* ---- life ---- */

struct sim *sim_new(uint64_t seed)
{
    struct sim *sim = check_calloc(1, sizeof(*sim));

    sim->state = seed;
    sim->current = SIM_NODES_MAX;
    sim->network = sim_network_new(sim);
    for (unsigned i = 0; i <= SIM_NODES_MAX; i++) {
        sim->nodes[i].sim = sim;
        sim->nodes[i].number = i;
    }
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        sim->nodes[i].disk = sim_disk_new(sim, i);
    return sim;
}

void sim_pause(struct sim *sim, unsigned node, uint64_t us)
{
    uint64_t until_us = sim->now_us + us;

    /* what waits for the end of the first one is scheduled already */
    if (sim->nodes[node].paused_until_us >= until_us)
        return;
    sim->nodes[node].paused_us += us - sim_pause_left_us(sim, node);
    sim->nodes[node].paused_until_us = until_us;
}

uint64_t sim_paused_us(const struct sim *sim, unsigned node)
{
    return sim->nodes[node].paused_us;
}

bool sim_paused(const struct sim *sim, unsigned node)
{
    return sim->nodes[node].paused_until_us > sim->now_us;
}

uint64_t sim_paused_until_us(const struct sim *sim, unsigned node)
{
    return sim->nodes[node].paused_until_us;
}

uint64_t sim_pause_left_us(const struct sim *sim, unsigned node)
{
    return sim_paused(sim, node) ? sim->nodes[node].paused_until_us - sim->now_us : 0;
}

void sim_crash(struct sim *sim, unsigned node)
{
    sim->nodes[node].epoch++;
    if (sim_paused(sim, node))
        sim->nodes[node].paused_until_us = sim->now_us;
    sim_disk_crash(sim->nodes[node].disk);
    sim_network_crash(sim->network, node);
}

void sim_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->count; i++)
        event_free(sim, sim->heap[i].event, false);
    free(sim->heap);
    while (sim->spare != NULL) {
        struct sim_event *event = sim->spare;
        sim->spare = event->data;
        free(event);
    }
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        sim_disk_free(sim->nodes[i].disk);
    sim_network_free(sim->network);
    if (current_sim == sim)
        current_sim = NULL;
    free(sim);
}
