/* A restore driven with random answers, ends of workers and wakes (I27). restore_check() holds
 * after each step. There is one worker, one call or one timer at a time. No part is read from a
 * target without a place in its line. An application begins from a checkpoint only when each of
 * its shards was read well for the one that the leader names now, and from nothing only when none
 * is named. When everybody answers, the restore ends in bounded time.
 */
#include "tests/unit/agent/restore_world.h"

enum { RUNS = 3000, STEPS = 120, SETTLE_STEPS = 400, NAMED_MAX = 3 };

static struct {
    uint64_t random;
    bool calm; /* all faults are over */
    bool timer, call, worker, sweep;
    uint64_t bringing;          /* the checkpoint of which parts are read */
    uint32_t place, places;     /* as when that began */
    bool read[SHARDS];          /* these were read well */
    unsigned restored, scratch; /* how many runs came to that */
} driven;

static uint64_t draw(uint64_t below)
{
    return test_random(&driven.random) % below;
}

static bool chance(uint64_t in)
{
    return draw(in) == 0;
}

/* ---- what the leader says ---- */

static void name_checkpoint(void)
{
    const struct restore_brought *brought = &world.restore.brought;
    const bool spoiled = brought->have == RESTORE_DAMAGED && brought->checkpoint_id == NEWEST;
    const uint64_t whole = spoiled ? OLDER : NEWEST;
    const uint64_t id = driven.calm || chance(3) ? whole : draw(NAMED_MAX) * NEWEST / 2;
    Ckpt__V1__RestartPoint *point = &world.point;

    point->checkpoint_id = world.part.restart_checkpoint_id = id;
    point->n_shards = SHARDS;
    point->own_shard = 1 + (uint32_t)draw(SHARDS);
    if (!driven.calm && chance(20))
        point->own_shard = 0;
    world.part.joined = !driven.calm && chance(30);
}

static void answer(void)
{
    Ckpt__V1__RestartPoint *point = &world.point;
    const uint32_t place = (uint32_t)draw(2);

    world_set_point();
    point->n_node_ids = point->n_runs = 2;
    world.nodes[place] = world.node[0];
    world.nodes[1 - place] = world.node[1];
    world.runs[0] = world.runs[1] = driven.calm || !chance(10) ? RUN : RUN + 1;
    name_checkpoint();
    world.part.begin = driven.calm ? BEGIN(MAY) : (Ckpt__V1__BeginState)(1 + draw(4));
    world.part.read = driven.calm ? READ(MAY) : (Ckpt__V1__ReadState)draw(4);
    if (!driven.calm && chance(12))
        point->allocation_state = STATE(REQUEUED);
    point->restarts = chance(2);
    if (!driven.calm && chance(6)) {
        point->discarded_ms = 600000;
        point->discard_at_ms = 1 + draw(2);
    }
    world.facts.heard = chance(2);
    world.entry.copy_count = chance(2);
    world.entry.copies[0] = (struct ledger_copy){
        .checkpoint_id = NEWEST, .part = (uint32_t)draw(SHARDS), .state = COPY_HERE, .uid = ANN};
    strcpy(world.entry.copies[0].manifest_sha256, MANIFEST);
}

/* ---- what is done ---- */

static void begin_part(void)
{
    const struct restore_brought *brought = &world.restore.brought;
    const Ckpt__V1__ShardInfo *shard =
        restore_shard(&world.restore, &world.point, brought->part_next);

    assert_false(driven.worker || driven.call || driven.timer || driven.sweep);
    assert_true(world.part.read != READ(WAITS));
    if (world.part.read == READ(ASK)) {
        assert_true(brought->by_copy);
        assert_non_null(restore_copy_of(&world.restore, &world.entry, shard));
    }
    if (brought->part_next == 0)
        memset(driven.read, 0, sizeof(driven.read));
    driven.bringing = brought->checkpoint_id;
    driven.worker = true;
}

static void end_restored(void)
{
    const struct restore_brought *brought = &world.restore.brought;

    assert_uint_equal(world.point.checkpoint_id, brought->checkpoint_id);
    assert_int_equal(world.part.begin, BEGIN(MAY));
    assert_false(world.part.joined);
    if (brought->part_count > 0)
        assert_uint_equal(driven.bringing, brought->checkpoint_id);
    for (size_t i = 0; i < brought->part_count; i++)
        assert_true(driven.read[i]);
    driven.restored++;
}

static void carry_out(const struct restore_effect *effect)
{
    switch ((int)effect->kind) {
    case RESTORE_DO_WAIT: /* HELD: the timer is set anew */
        assert_false(driven.call || driven.worker || driven.sweep);
        driven.timer = true;
        return;
    case RESTORE_DO_ASK:
        assert_false(driven.timer || driven.call || driven.worker || driven.sweep);
        driven.call = true;
        return;
    case RESTORE_DO_READ:
        begin_part();
        return;
    case RESTORE_DO_DROP:
        assert_true(driven.worker);
        return;
    case RESTORE_DO_SWEEP:
        assert_false(driven.timer || driven.call || driven.worker || driven.sweep);
        driven.sweep = true;
        return;
    case RESTORE_DO_WANT:
        assert_int_equal(world.part.read, READ(ASK));
        assert_uint_equal(effect->number, world.point.checkpoint_id);
        return;
    case RESTORE_DO_LEAVE:
        assert_int_not_equal(effect->number, 0);
        return;
    case RESTORE_DO_OVER:
        if (effect->over == OVER_RESTORED)
            end_restored();
        if (effect->over == OVER_SCRATCH)
            assert_uint_equal(world.point.checkpoint_id, 0);
        driven.scratch += effect->over == OVER_SCRATCH;
        return;
    default:
        return;
    }
}

static void take(const struct restore_event *event)
{
    bool reads = false;

    restore_step(&world.restore, event, &world.facts, &world.effects);
    for (size_t i = 0; i < world.effects.count; i++) {
        carry_out(&world.effects.effects[i]);
        reads = reads || world.effects.effects[i].kind == RESTORE_DO_READ;
    }
    if (!reads || world.restore.state == RESTORE_OVER)
        return;
    driven.worker = driven.calm || !chance(10);
    take(&(struct restore_event){.kind = driven.worker ? RESTORE_STARTED : RESTORE_UNSTARTED,
                                 .why = {REASON(STORAGE_UNAVAILABLE), "no worker"}});
}

/* ---- what happens ---- */

static void end_worker(void)
{
    struct restore_event event = {.kind = RESTORE_READ,
                                  .end = driven.calm ? RESTORE_WELL : (enum restore_end)draw(5),
                                  .copy = (enum restore_copy)draw(3),
                                  .why = {REASON(STORAGE_UNAVAILABLE), "away"}};

    driven.worker = false;
    if (event.end == RESTORE_WELL && world.restore.state == RESTORE_READING)
        driven.read[world.restore.brought.part_next] = true;
    take(&event);
}

static void wake(void)
{
    world.ordered = world.part;
    world.ordered.run = world.runs[0];
    world.ordered.restart_checkpoint_id = chance(2) ? NEWEST : OLDER;
    ckpt__v1__order_set__init(&world.orders);
    world.parts[0] = &world.ordered;
    world.orders.n_parts = 1;
    world.orders.parts = world.parts;
    world.facts.orders = driven.calm ? NULL : &world.orders;
    take(&(struct restore_event){.kind = RESTORE_WAKE});
}

static void something_happens(void)
{
    world.facts.now_us += draw(2000000);
    world.facts.wall_ms = 1000 + world.facts.now_us / 1000;
    if (chance(5)) {
        wake();
    } else if (driven.worker && chance(3)) {
        take(&(struct restore_event){.kind = chance(2) ? RESTORE_LOOK : RESTORE_LOOKED,
                                     .look = chance(2) ? &world.point : NULL});
    } else if (driven.worker) {
        end_worker();
    } else if (driven.sweep) {
        driven.sweep = false;
        take(&(struct restore_event){.kind = RESTORE_SWEPT});
    } else if (driven.timer) {
        driven.timer = false;
        take(&(struct restore_event){.kind = RESTORE_TIMER});
    } else if (driven.calm || !chance(5)) {
        driven.call = false;
        answer();
        take(&(struct restore_event){.kind = RESTORE_POINT});
    } else {
        driven.call = false;
        take(&(struct restore_event){.kind = RESTORE_UNANSWERED, .silence = RESTORE_LEADERLESS});
    }
    if (world.restore.state == RESTORE_HELD && driven.calm)
        wake();
}

static void begin(void)
{
    static const Ckpt__V1__RestoreMode modes[] = {MODE(UNSPECIFIED), MODE(OWN), MODE(ALL),
                                                  MODE(PATH)};

    world_begin();
    world.restore.state = RESTORE_PAUSED;
    world.restore.asked.override = modes[draw(4)];
    world.restore.asked.wait = chance(2) ? WAIT(ANY) : WAIT(UNSPECIFIED);
    driven.timer = true;
    driven.calm = driven.call = driven.worker = driven.sweep = false;
    driven.bringing = 0;
}

static void a_restore_begins_from_what_the_leader_names_or_not_at_all(void **state)
{
    bool seen[RESTORE_STATE_COUNT] = {false};

    (void)state;
    driven.random = test_seed();
    for (unsigned run = 0; run < RUNS; run++) {
        begin();
        for (unsigned i = 0; i < STEPS && world.restore.state != RESTORE_OVER; i++) {
            something_happens();
            seen[world.restore.state] = true;
        }
        driven.calm = true;
        for (unsigned i = 0; i < SETTLE_STEPS && world.restore.state != RESTORE_OVER; i++)
            something_happens();
        assert_int_equal(world.restore.state, RESTORE_OVER);
    }
    for (int at = 0; at < RESTORE_STATE_COUNT; at++)
        if (at != RESTORE_NAMING && at != RESTORE_PREPARING)
            assert_true(seen[at]);
    print_message("restored %u, from nothing %u\n", driven.restored, driven.scratch);
    assert_true(driven.restored > RUNS / 10);
    assert_true(driven.scratch > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restore_begins_from_what_the_leader_names_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
