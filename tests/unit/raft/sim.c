/* The event loop, clock and random tables of the simulated world. See sim.h. */
#include "tests/unit/raft/sim.h"

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

struct sim_node {
    struct sim *sim;
    unsigned number;
    uint64_t epoch;
    struct sim_disk *disk;
};

struct sim {
    uint64_t now_us;
    uint64_t state; /* of the generator */
    uint64_t trace;
    uint64_t sequence;
    struct sim_event **heap;
    size_t count, capacity;
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

/* ---- heap ---- */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void swap(struct sim_event **a, struct sim_event **b)
{
    struct sim_event *keep = *a;

    *a = *b;
    *b = keep;
}

struct sim_event *sim_schedule(struct sim *sim, unsigned owner, uint64_t delay_us,
                               void (*fire)(void *data), void *data)
{
    struct sim_event *event = check_calloc(1, sizeof(*event));
    size_t i = sim->count;

    *event = (struct sim_event){.at_us = sim->now_us + delay_us,
                                .sequence = sim->sequence++,
                                .owner = owner,
                                .epoch = sim->nodes[owner].epoch,
                                .fire = fire,
                                .data = data};
    if (sim->count == sim->capacity) {
        sim->capacity = sim->capacity == 0 ? 256 : sim->capacity * 2;
        sim->heap = check_realloc(sim->heap, sim->capacity, sizeof(struct sim_event *));
    }
    sim->heap[sim->count++] = event;
    for (; i > 0 && earlier(sim->heap[i], sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
    return event;
}

static struct sim_event *heap_pop(struct sim *sim)
{
    struct sim_event *top = sim->heap[0];
    size_t i = 0;

    sim->heap[0] = sim->heap[--sim->count];
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < sim->count && earlier(sim->heap[left], sim->heap[least]))
            least = left;
        if (right < sim->count && earlier(sim->heap[right], sim->heap[least]))
            least = right;
        if (least == i)
            return top;
        swap(&sim->heap[i], &sim->heap[least]);
        i = least;
    }
}

void sim_on_drop(struct sim_event *event, void (*drop)(void *data))
{
    event->drop = drop;
}

static void event_free(struct sim_event *event, bool fired)
{
    if (!fired && event->drop != NULL)
        event->drop(event->data);
    free(event);
}

void sim_cancel(struct sim_event *event)
{
    event->cancelled = true;
}

void sim_after(struct sim *sim, unsigned owner, uint64_t delay_us, void (*fire)(void *data),
               void *data)
{
    (void)sim_schedule(sim, owner, delay_us, fire, data);
}

bool sim_step(struct sim *sim)
{
    struct sim_event *event;
    bool live;

    if (sim->count == 0)
        return false;
    event = heap_pop(sim);
    live = !event->cancelled && event->epoch == sim->nodes[event->owner].epoch;
    if (live) {
        CHECK(event->at_us >= sim->now_us);
        sim->now_us = event->at_us;
        sim_trace_add(sim, event->at_us << 8 ^ event->owner);
        event->fire(event->data);
    }
    event_free(event, live);
    return true;
}

/* ---- clock and random ---- */

static uint64_t clock_monotonic(void *context)
{
    return ((struct sim_node *)context)->sim->now_us;
}

static uint64_t clock_wall(void *context)
{
    return UINT64_C(1700000000000) + ((struct sim_node *)context)->sim->now_us / 1000;
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
        sim_cancel(timer->event);
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
    timer->event = sim_schedule(timer->node->sim, timer->node->number, delay_us, timer_fire, timer);
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

    for (size_t i = 0; i < length; i++)
        at[i] = (uint8_t)draw(node->sim);
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
    sim->network = sim_network_new(sim);
    for (unsigned i = 0; i <= SIM_NODES_MAX; i++) {
        sim->nodes[i].sim = sim;
        sim->nodes[i].number = i;
    }
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        sim->nodes[i].disk = sim_disk_new(sim, i);
    return sim;
}

void sim_crash(struct sim *sim, unsigned node)
{
    sim->nodes[node].epoch++;
    sim_disk_crash(sim->nodes[node].disk);
    sim_network_crash(sim->network, node);
}

void sim_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->count; i++)
        event_free(sim->heap[i], false);
    free(sim->heap);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        sim_disk_free(sim->nodes[i].disk);
    sim_network_free(sim->network);
    free(sim);
}
