/* A small agent that speaks ckpt.v1.AgentService and misbehaves: reports come twice, late, or with numbers that skip; acknowledgements
 * are lost; two streams of one node exist at once; nodes boot anew. What it may never do is to claim what did not happen.
 *
 * Flow     orders → attempts and terminations, as src/agent does them in principle → reports, kept until acknowledged.
 * Shapes   struct model is what the node has durably, struct process what a crash takes away.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "tests/sim/agent_model.h"

enum {
    TICK_US = 100000,
    RETRY_US = 100000,
    WELCOME_WAIT_US = 5000000,
    SCAN_AGAIN_US = 1000000,
    MISCHIEF_IN = 60,  /* one step in so many goes wrong */
    LOST_START_IN = 12 /* one start in so many is never reported */
};
static struct model *models[WORLD_AGENTS_MAX];

bool model_mischief(const struct process *process)
{
    return !process->model->calm && sim_chance(process->world->sim, MISCHIEF_IN);
}

/* ---- the stream ---- */

static void message_send(struct rpc_client_call *call, const Ckpt__V1__AgentUp *up)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_up__pack(up, buf_extend(&bytes, ckpt__v1__agent_up__get_packed_size(up)));
    (void)rpc_client_call_send(call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static size_t running_list(struct process *process, Ckpt__V1__RunningAllocation *items,
                           Ckpt__V1__RunningAllocation **list)
{
    size_t count = 0;

    for (unsigned job = 0; job < process->world->job_count; job++)
        if (process->model->parts[job].runs) {
            ckpt__v1__running_allocation__init(&items[count]);
            items[count].allocation_id = process->world->jobs[job].id;
            items[count].pid = 1000 + job;
            items[count].run = process->model->parts[job].run;
            list[count] = &items[count];
            count++;
        }
    return count;
}

static void hello_send(struct process *process, struct rpc_client_call *call)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHello hello = CKPT__V1__AGENT_HELLO__INIT;
    char boot[24], version[] = "model";

    snprintf(boot, sizeof(boot), "boot-%u", process->model->boots);
    hello.node_id = process->world->agents[process->number].name;
    hello.boot_id = boot;
    hello.version = version;
    hello.highest_epoch = process->model->epoch;
    hello.highest_term = process->model->term;
    hello.last_report_sequence = process->model->sequence;
    hello.domain = (char *)(uintptr_t)world_domain_draw(process->world);
    up.body_case = CKPT__V1__AGENT_UP__BODY_HELLO;
    up.hello = &hello;
    message_send(call, &up);
}

/* Its counters of memory errors rise, or it gets hot: the leader's alarms, and urgent drains. */
static void alarm_draw(struct process *process, Ckpt__V1__AgentHeartbeat *beat)
{
    struct model *model = process->model;
    struct world *world = process->world;

    if (world->options.alarms == 0)
        return;
    beat->ecc_measured = true;
    beat->temperature_limit_milli_celsius = 90000;
    beat->temperature_milli_celsius = 40000;
    if (!model->calm && sim_chance(world->sim, world->options.alarms)) {
        model->ecc_correctable += 1 + sim_random(world->sim, 1000);
        model->ecc_uncorrectable += sim_random(world->sim, 2);
        beat->temperature_milli_celsius = 40000 + (uint32_t)sim_random(world->sim, 60000);
    }
    beat->ecc_correctable_count = model->ecc_correctable;
    beat->ecc_uncorrectable_count = model->ecc_uncorrectable;
}

/* Nothing that it measures makes sense; what raises alarms only with those. */
static void beat_odd(struct sim *sim, Ckpt__V1__AgentHeartbeat *beat)
{
    beat->load_milli = (uint32_t)odd_number(sim);
    beat->gpu_count = (uint32_t)odd_number(sim);
    beat->temperature_limit_milli_celsius = (uint32_t)odd_number(sim);
    beat->ecc_correctable_risen_ms = odd_number(sim);
    beat->ecc_uncorrectable_risen_ms = odd_number(sim);
    if (!beat->ecc_measured)
        return;
    beat->ecc_correctable_count = odd_number(sim);
    beat->ecc_uncorrectable_count = odd_number(sim);
    beat->temperature_milli_celsius = (uint32_t)odd_number(sim);
}

static void heartbeat_send(struct process *process)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHeartbeat beat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    Ckpt__V1__RunningAllocation items[WORLD_JOBS_MAX], *list[WORLD_JOBS_MAX];

    beat.sequence = ++process->beats;
    beat.last_report_sequence = process->model->sequence;
    beat.running = list;
    beat.n_running = running_list(process, items, list);
    alarm_draw(process, &beat);
    if (!process->model->calm && odd_draw(process->world))
        beat_odd(process->world->sim, &beat);
    up.body_case = CKPT__V1__AGENT_UP__BODY_HEARTBEAT;
    beat.node_probe = (char *)(uintptr_t)witness_address(process->world, process->number);
    up.heartbeat = &beat;
    message_send(process->call, &up);
}

static void stream_ended(struct process *process, const struct rpc_end *end)
{
    uint64_t delay_ms = 0;

    process->call = NULL;
    process->welcomed = false;
    (void)rpc_follow_result(process->follow, end, &delay_ms);
    process->retry_us = sim_now_us(process->world->sim) + RETRY_US + delay_ms * 1000;
}

static void stream_leave(struct process *process)
{
    const struct rpc_end end = {.status = RPC_UNAVAILABLE, .message = "", .sent = true};

    rpc_client_call_cancel(process->call);
    stream_ended(process, &end);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct process *process = data;

    if (call == process->twin)
        process->twin = NULL;
    else
        stream_ended(process, end);
}

/* ---- orders ---- */

/* Its application asks to be asked later, once or twice; now and then it takes more than there is, which nobody may grant. */
static void attempt_defer(struct process *process, unsigned job, uint64_t max_ms)
{
    struct model_part *part = &process->model->parts[job];
    struct sim *sim = process->world->sim;

    part->deferral_ms = 0;
    if (process->world->options.deferrals == 0 || process->model->calm || max_ms == 0)
        return;
    while (part->deferral_ms < max_ms && sim_chance(sim, process->world->options.deferrals)) {
        part->deferral_ms += 1 + sim_random(sim, 2 * max_ms);
        model_report(process, REPORT(DEFERRED), job, CKPT__V1__REASON__REASON_NONE);
        process->world->counts.deferred++;
    }
    *(part->barrier ? &part->aware_us : &part->done_us) +=
        (part->deferral_ms < max_ms ? part->deferral_ms : max_ms) * 1000;
}

static void attempt_begin(struct process *process, unsigned job, const Ckpt__V1__Order *order,
                          uint64_t epoch, uint64_t term)
{
    struct model_part *part = &process->model->parts[job];
    struct sim *sim = process->world->sim;
    uint64_t now = sim_now_us(sim);

    part->checkpoint_id = order->checkpoint_id;
    part->attempt = order->attempt;
    part->attempt_run = order->run;
    if (!part->runs || part->run < order->run) {
        model_report(process, REPORT(CHECKPOINT_FAILED), job,
                     CKPT__V1__REASON__REASON_NOT_ATTACHED);
        return;
    }
    world_asked(process->world, process->number, order->allocation_id, order->checkpoint_id,
                order->attempt, epoch, term);
    CHECK(strlen(order->path) < sizeof(part->path));
    snprintf(part->path, sizeof(part->path), "%s", order->path);
    part->place = order->part;
    part->busy = true;
    part->cancelled = false;
    part->done_us = now + 20000 + sim_random(sim, 1200000);
    if (!process->model->calm && sim_chance(sim, 8))
        part->done_us += sim_random(sim, 10000000); /* about the timeout, or far beyond */
    model_ranks_asked(process, job);
    model_report(process, REPORT(STARTED), job, CKPT__V1__REASON__REASON_NONE);
    attempt_defer(process, job, order->max_deferral_ms);
}

static bool ordered(const Ckpt__V1__OrderSet *orders, const char *allocation_id,
                    const struct model_part *part)
{
    for (size_t i = 0; i < orders->n_orders; i++) {
        const Ckpt__V1__Order *order = orders->orders[i];
        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT &&
            strcmp(order->allocation_id, allocation_id) == 0 &&
            order->checkpoint_id == part->checkpoint_id && order->attempt == part->attempt)
            return true;
    }
    return false;
}

/* One that runs here ends within its grace. That nothing runs is answered once for each run, as nobody may have started the latest, and
 * in each epoch, as an earlier answer may be lost in it. */
static void terminate_take(struct process *process, unsigned job, const Ckpt__V1__Order *order,
                           const Ckpt__V1__OrderSet *orders)
{
    struct model_part *part = &process->model->parts[job];
    bool answered =
        part->terminated && order->run <= part->stop_run && orders->epoch <= part->stop_epoch;

    if (part->runs ? part->stop_us != 0 || order->run < part->run : answered)
        return;
    part->stop_run = order->run;
    part->stop_epoch = orders->epoch;
    if (part->runs) {
        part->stop_us = sim_now_us(process->world->sim) + 1 +
                        sim_random(process->world->sim, order->grace_ms * 1000 + 1);
        return;
    }
    part->terminated = true;
    model_report(process, REPORT(TERMINATED), job, order->reason);
}

static void order_take(struct process *process, const Ckpt__V1__Order *order,
                       const Ckpt__V1__OrderSet *orders)
{
    const struct model_part *part;
    unsigned number;

    if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN)
        return; /* scans_tick() */
    number = (unsigned)(job_find(process->world, order->allocation_id) - process->world->jobs);
    part = &process->model->parts[number];
    if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT) {
        model_collect(process, order);
        return;
    }
    if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_VERIFY) {
        model_verify(process, order);
        return;
    }
    if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE) {
        terminate_take(process, number, order, orders);
        return;
    }
    if (part->busy || part->checkpoint_id > order->checkpoint_id ||
        (part->checkpoint_id == order->checkpoint_id && part->attempt >= order->attempt))
        return;
    attempt_begin(process, number, order, orders->epoch, orders->term);
}

/* Whatever the set does not name, of the runs that had begun in its state. */
static void unwanted_end(struct process *process, unsigned job)
{
    struct model_part *part = &process->model->parts[job];
    const Ckpt__V1__OrderSet *orders = process->orders;

    if (orders == NULL || !part->runs || part->stop_us != 0 || part->run > orders->runs_until)
        return;
    for (size_t i = 0; i < orders->n_parts; i++)
        if (strcmp(orders->parts[i]->allocation_id, process->world->jobs[job].id) == 0 &&
            orders->parts[i]->run == part->run)
            return;
    part->stop_run = part->run;
    part->stop_us = sim_now_us(process->world->sim) + 1 +
                    sim_random(process->world->sim, part->grace_ms * 1000 + 1);
}

static void deadlines_take(struct process *process, const Ckpt__V1__OrderSet *orders)
{
    for (size_t i = 0; i < orders->n_parts; i++) {
        const Ckpt__V1__AllocationPart *named = orders->parts[i];
        struct world_job *job = job_find(process->world, named->allocation_id);
        struct model_part *part = &process->model->parts[job - process->world->jobs];

        if (named->walltime_ms == 0)
            part->wall_us = 0;
        else if (part->wall_us == 0 || named->run > part->wall_run)
            part->wall_us = sim_now_us(process->world->sim) + named->remaining_ms * 1000 + 1;
        part->wall_run = named->run;
        part->grace_ms = named->grace_ms;
    }
}

static void orders_take(struct process *process, Ckpt__V1__OrderSet *take_orders)
{
    const Ckpt__V1__OrderSet *orders = take_orders;
    struct model *model = process->model;

    if (orders->epoch < model->epoch ||
        (orders->epoch == model->epoch && orders->term < model->term)) {
        ckpt__v1__order_set__free_unpacked(take_orders, NULL);
        stream_leave(process);
        return;
    }
    ckpt__v1__order_set__free_unpacked(process->orders, NULL);
    process->orders = take_orders;
    model->epoch = orders->epoch;
    model->term = orders->term;
    world_ordered(process->world, process->number, orders);
    for (unsigned job = 0; job < process->world->job_count; job++) {
        struct model_part *part = &model->parts[job];
        if (part->busy && !part->cancelled &&
            !ordered(orders, process->world->jobs[job].id, part)) {
            part->cancelled = true;
            part->done_us =
                sim_now_us(process->world->sim) + sim_random(process->world->sim, 300000);
        }
    }
    for (size_t i = 0; i < orders->n_orders; i++)
        order_take(process, orders->orders[i], orders);
    deadlines_take(process, orders);
    for (unsigned job = 0; job < process->world->job_count; job++)
        unwanted_end(process, job);
    model_reports_send(process);
}

static void welcome_take(struct process *process, const Ckpt__V1__AgentWelcome *welcome)
{
    struct model *model = process->model;

    if (welcome->epoch < model->epoch ||
        (welcome->epoch == model->epoch && welcome->term < model->term)) {
        stream_leave(process);
        return;
    }
    if (victims_removals(process->world, process->number) > 0)
        model_reports_align(model, welcome->acknowledged_report_sequence);
    if (welcome->acknowledged_report_sequence > model->sequence)
        world_violation(process->world, "I6", "%s is told of report %" PRIu64 ", it wrote %" PRIu64,
                        world_agent_name(process->number), welcome->acknowledged_report_sequence,
                        model->sequence);
    if (model->report_count > 0 &&
        welcome->acknowledged_report_sequence + 1 < model->reports[0].sequence)
        world_violation(process->world, "I6",
                        "%s: reports up to %" PRIu64
                        " were acknowledged, the leader knows %" PRIu64,
                        world_agent_name(process->number), model->reports[0].sequence - 1,
                        welcome->acknowledged_report_sequence);
    model_reports_drop(model, welcome->acknowledged_report_sequence);
    process->welcomed = true;
    process->sent = welcome->acknowledged_report_sequence;
    process->interval_us = welcome->heartbeat_interval_ms * 1000;
    process->beat_us = sim_now_us(process->world->sim);
    model_reports_send(process);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct process *process = data;
    Ckpt__V1__AgentDown *down;

    if (call != process->call)
        return; /* the twin hears nothing */
    down = ckpt__v1__agent_down__unpack(NULL, length, bytes);
    CHECK(down != NULL);
    if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_WELCOME)
        welcome_take(process, down->welcome);
    else if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_ORDERS && process->welcomed) {
        orders_take(process, down->orders);
        down->orders = NULL;
        down->body_case = CKPT__V1__AGENT_DOWN__BODY__NOT_SET;
    } else if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_ACK && !model_mischief(process))
        model_reports_drop(process->model, down->ack->sequence);
    ckpt__v1__agent_down__free_unpacked(down, NULL);
}

static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};

static struct rpc_client_call *stream_open(struct process *process)
{
    return rpc_channel_open(rpc_follow_channel(process->follow), "/ckpt.v1.AgentService/Session", 0,
                            false, &handlers, process);
}

/* ---- time ---- */

static void attempt_done(struct process *process, unsigned job)
{
    struct model_part *part = &process->model->parts[job];
    const struct world_target *target = world_target_of_path(process->world, part->path);

    if (part->cancelled) {
        part->busy = false;
        model_report(process, REPORT(STOPPED_WRITING), job, CKPT__V1__REASON__REASON_NONE);
        return;
    }
    CHECK(target != NULL);
    if (target->state == WORLD_STORAGE_HANGING)
        return;
    part->busy = false;
    if (target->state == WORLD_STORAGE_DOWN || !part->runs ||
        (!process->model->calm && sim_chance(process->world->sim, 10))) {
        model_report(process, REPORT(CHECKPOINT_FAILED), job,
                     CKPT__V1__REASON__REASON_WRITE_FAILED);
        return;
    }
    for (unsigned rank = 0, ranks = world_ranks_of(&process->world->jobs[job]);
         rank < ranks - part->gone; rank++)
        world_rank_said(process->world, &(struct world_rank){process->number, rank, ranks},
                        part->checkpoint_id, part->attempt, part->label);
    world_shard_written(process->world, process->number, process->world->jobs[job].id,
                        part->checkpoint_id, part->attempt);
    world_shipping_publish(process->world, process->number, process->world->jobs[job].id,
                           &(struct world_place){part->path, part->place}, part->checkpoint_id,
                           part->attempt, part->manifest);
    model_report(process, REPORT(SHARD_VERIFIED), job, CKPT__V1__REASON__REASON_NONE);
}

static void application_ends(struct process *process, unsigned job, Ckpt__V1__ReportKind kind)
{
    struct model_part *part = &process->model->parts[job];

    part->runs = false;
    part->stop_us = 0;
    part->wall_us = 0;
    part->terminated = true;
    model_report(process, kind, job, CKPT__V1__REASON__REASON_NONE);
}

static void application_tick(struct process *process, unsigned job, uint64_t now)
{
    struct model_part *part = &process->model->parts[job];

    model_ranks_tick(process, job, now);
    if (part->busy && now >= part->done_us)
        attempt_done(process, job);
    if (!part->runs)
        return;
    if (part->stop_us != 0 && now >= part->stop_us) {
        world_terminated(process->world, process->number, process->world->jobs[job].id);
        application_ends(process, job, REPORT(TERMINATED));
    } else if (part->wall_us != 0 && now >= part->wall_us + part->grace_ms * 1000) {
        application_ends(process, job, REPORT(WALLTIME_KILLED));
    }
}

/* All of its pages at once. A lost one, a doubled one, and those of an attempt that was never
 * ordered, are the leader's trouble; it tells all of them again later. */
static void scan_tell(struct process *process, const Ckpt__V1__Order *order)
{
    struct world *world = process->world;
    const struct world_target *target = world_target_of_path(world, order->target_prefix);
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__ScanPage page = CKPT__V1__SCAN_PAGE__INIT;
    char text[1024], after[512] = "", next[512];

    up.body_case = CKPT__V1__AGENT_UP__BODY_SCAN_PAGE;
    up.scan_page = &page;
    page.target_prefix = order->target_prefix;
    page.output = text;
    do {
        if (target == NULL || target->state == WORLD_STORAGE_DOWN ||
            target->state == WORLD_STORAGE_HANGING)
            return;
        orphans_page(order->target_prefix, after, false, text, sizeof(text));
        page.last = worker_output_get(text, "next", next, sizeof(next)) != 0;
        page.page++;
        page.attempt = order->attempt + model_mischief(process);
        for (unsigned times = model_mischief(process) ? (unsigned)sim_random(world->sim, 3) : 1;
             times > 0 && process->call != NULL; times--)
            message_send(process->call, &up);
        memcpy(after, next, sizeof(after));
    } while (!page.last);
}

static void scans_tick(struct process *process, uint64_t now)
{
    if (now < process->scan_us)
        return;
    process->scan_us = now + SCAN_AGAIN_US;
    for (size_t i = 0; process->orders != NULL && i < process->orders->n_orders; i++)
        if (process->orders->orders[i]->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN)
            scan_tell(process, process->orders->orders[i]);
}

static void stream_tick(struct process *process, uint64_t now)
{
    if (process->call == NULL && now >= process->retry_us) {
        process->began_us = now;
        process->beats = 0;
        process->call = stream_open(process);
        hello_send(process, process->call);
    } else if (process->call != NULL && !process->welcomed &&
               now - process->began_us > WELCOME_WAIT_US) {
        stream_leave(process);
    } else if (process->welcomed) {
        if (now >= process->beat_us) {
            process->beat_us = now + process->interval_us;
            heartbeat_send(process);
        }
        model_reports_send(process);
        scans_tick(process, now);
        if (model_mischief(process) && model_mischief(process) && process->twin == NULL) {
            process->twin = stream_open(process); /* the leader will end the first one */
            hello_send(process, process->twin);
        }
        if (model_mischief(process) && model_mischief(process) && process->call != NULL)
            hello_send(process, process->call); /* is refused */
    }
}

static void on_timer(void *data)
{
    struct process *process = data;
    uint64_t now = sim_now_us(process->world->sim);

    process->clock.timer_start(process->timer, TICK_US);
    for (unsigned job = 0; job < process->world->job_count; job++)
        application_tick(process, job, now);
    stream_tick(process, now);
}

/* ---- struct world_agent_ops ---- */

/* Attempts that a crash cut short are over; one time in eight the whole node went down and its applications with it. */
static void recover(struct process *process)
{
    struct model *model = process->model;
    bool booted = !model->calm && sim_chance(process->world->sim, 8);

    model->boots += booted;
    for (unsigned job = 0; job < process->world->job_count; job++) {
        struct model_part *part = &model->parts[job];
        if (part->busy)
            model_report(process, REPORT(CHECKPOINT_FAILED), job,
                         CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT);
        part->busy = false;
        if (booted && part->runs) {
            part->runs = false;
            part->stop_us = part->wall_us = 0;
        }
    }
}

static void *model_start(struct world *world, unsigned number)
{
    const struct rpc_channel_config config = {.message_max_bytes = 4 << 20};
    struct process *process = check_calloc(1, sizeof(*process));
    struct err err;

    if (models[number] == NULL)
        models[number] = check_calloc(1, sizeof(*models[number]));
    process->world = world;
    process->number = number;
    process->model = models[number];
    sim_node_clock(world->sim, WORLD_AGENT_NODE + number, &process->clock);
    process->timer = process->clock.timer_new(process->clock.context, on_timer, process);
    CHECK(rpc_follow_new(&world->agents[number].loop.uv, world->endpoints, &config,
                         &process->follow, &err) == 0);
    recover(process);
    process->clock.timer_start(process->timer, sim_random(world->sim, TICK_US));
    return process;
}

static void model_crash(struct world *world, unsigned number, void *data)
{
    struct process *process = data;

    (void)world;
    (void)number;
    if (process->call != NULL)
        rpc_client_call_cancel(process->call);
    if (process->twin != NULL)
        rpc_client_call_cancel(process->twin);
    process->call = process->twin = NULL;
    process->clock.timer_free(process->timer);
    rpc_follow_free(process->follow);
    ckpt__v1__order_set__free_unpacked(process->orders, NULL);
    free(process);
}

static void application_killed(struct world *world, unsigned number, const struct world_job *job,
                               int exit_status)
{
    struct model *model = models[number];
    struct model_part *part = &model->parts[job - world->jobs];
    Ckpt__V1__AgentReport exited = CKPT__V1__AGENT_REPORT__INIT;

    part->runs = false;
    part->stop_us = part->wall_us = 0;
    exited.kind = REPORT(APPLICATION_EXITED);
    exited.allocation_id = (char *)(uintptr_t)job->id;
    exited.exit_status = exit_status;
    exited.run = part->run;
    model_report_add(model, world, number, &exited);
}

static void model_job_started(struct world *world, unsigned number, void *data,
                              const struct world_job *job)
{
    struct model *model = models[number];
    struct model_part *part = &model->parts[job - world->jobs];
    Ckpt__V1__AgentReport started = CKPT__V1__AGENT_REPORT__INIT;
    uint64_t run = state_checks_run(world, job, number);

    if (part->runs && part->run >= run)
        return;
    if (part->terminated && run <= part->stop_run)
        return; /* it has said that nothing of that run lives here */
    if (part->runs)
        application_killed(world, number, job, 9);
    part->runs = true;
    part->run = run;
    part->terminated = false;
    part->stop_us = part->wall_us = 0;
    if (!model->calm && sim_chance(world->sim, LOST_START_IN)) {
        /* its report, with the agent's journal, before anybody heard of it */
        part->began_sequence = UINT64_MAX;
        world->counts.lost_starts++;
    } else {
        started.kind = REPORT(APPLICATION_STARTED);
        started.allocation_id = (char *)(uintptr_t)job->id;
        started.run = run;
        model_report_add(model, world, number, &started);
        part->began_sequence = model->sequence;
    }
    if (data != NULL)
        unwanted_end(data, (unsigned)(job - world->jobs));
}

bool world_model_lives(unsigned agent, unsigned job, uint64_t known)
{
    const struct model_part *part = models[agent] == NULL ? NULL : &models[agent]->parts[job];

    return part != NULL && part->runs && part->began_sequence <= known;
}

uint64_t world_model_run(unsigned agent, unsigned job)
{
    const struct model_part *part = models[agent] == NULL ? NULL : &models[agent]->parts[job];

    return part != NULL && part->runs ? part->run : 0;
}

static void model_job_exited(struct world *world, unsigned number, void *process,
                             const struct world_job *job, int exit_status)
{
    (void)process;
    if (models[number]->parts[job - world->jobs].runs)
        application_killed(world, number, job, exit_status);
}

static void model_calm(struct world *world, unsigned number, void *process)
{
    (void)world;
    (void)process;
    models[number]->calm = true;
}

static void model_close(struct world *world, unsigned number)
{
    (void)world;
    if (models[number] != NULL)
        model_reports_drop(models[number], UINT64_MAX);
    if (models[number] != NULL)
        free(models[number]->reports);
    free(models[number]);
    models[number] = NULL;
}

const struct world_agent_ops world_agent_model = {
    .name = "model",
    .start = model_start,
    .crash = model_crash,
    .job_started = model_job_started,
    .job_exited = model_job_exited,
    .calm = model_calm,
    .close = model_close,
};
