/* A restore of node-a's part of a job, the leader's answer, and the effects of a step as text. */
#ifndef CKPT_TESTS_RESTORE_WORLD_H
#define CKPT_TESTS_RESTORE_WORLD_H

#include "src/agent/job/restore_step.h"
#include "tests/support/restore_names.h"
#include "tests/support/test.h"

#define MODE(name)   CKPT__V1__RESTORE_MODE__RESTORE_MODE_##name
#define BEGIN(name)  CKPT__V1__BEGIN_STATE__BEGIN_STATE_##name
#define READ(name)   CKPT__V1__READ_STATE__READ_STATE_##name
#define WAIT(name)   CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_##name
#define STATE(name)  CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define RULE(name)   CKPT__V1__OWNER_RULE__OWNER_RULE_##name
#define REASON(name) CKPT__V1__REASON__REASON_##name

#define MANIFEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

enum { ANN = 7, BOB = 8, RUN = 9, NEWEST = 14, OLDER = 13, SHARDS = 3 };

/* The answer of the leader, the facts, and the restore. */
static struct {
    struct restore restore;
    struct restore_facts facts;
    struct restore_effects effects;
    struct ledger_entry entry;
    Ckpt__V1__RestartPoint point;
    Ckpt__V1__AllocationPart part, ordered;
    Ckpt__V1__OrderSet orders;
    Ckpt__V1__BeginWithout without;
    Ckpt__V1__ShardInfo shard[SHARDS], *shards[SHARDS];
    Ckpt__V1__AllocationPart *parts[1];
    char *nodes[SHARDS];
    uint64_t runs[SHARDS];
    char sha[72], node[SHARDS][8], path[8], label[8], owner[8], job[8], profile[8];
} world;

static void world_set_point(void)
{
    Ckpt__V1__RestartPoint *point = &world.point;

    ckpt__v1__restart_point__init(point);
    ckpt__v1__allocation_part__init(&world.part);
    ckpt__v1__begin_without__init(&world.without);
    strcpy(world.sha, MANIFEST);
    strcpy(world.path, "/ckpt");
    strcpy(world.job, "job");
    for (unsigned i = 0; i < SHARDS; i++) {
        snprintf(world.node[i], sizeof(world.node[i]), "node-%c", (char)('a' + i));
        world.nodes[i] = world.node[i];
        world.runs[i] = RUN;
        ckpt__v1__shard_info__init(&world.shard[i]);
        world.shard[i].part = i;
        world.shard[i].node_id = world.node[i];
        world.shard[i].manifest_sha256 = world.sha;
        world.shards[i] = &world.shard[i];
    }
    world.part.allocation_id = world.job;
    world.part.begin = BEGIN(MAY);
    point->allocation_state = STATE(RUNNING);
    point->path = world.path;
    point->n_node_ids = point->n_runs = 1;
    point->node_ids = world.nodes;
    point->runs = world.runs;
    point->part = &world.part;
    point->shards = world.shards;
}

/* It asks, for ANN, who came first; the leader says that the job begins from nothing. */
static inline void world_begin(void)
{
    struct restore *restore = &world.restore;

    memset(&world, 0, sizeof(world));
    world_set_point();
    strcpy(restore->asked.allocation_id, "job");
    strcpy(restore->asked.work_dir, "/work");
    restore->asked.uid = ANN;
    restore->asked.wait = WAIT(UNSPECIFIED);
    restore->owner.first = true;
    restore->owner.uid = ANN;
    restore->state = RESTORE_ASKING;
    world.facts = (struct restore_facts){.now_us = 500000,
                                         .wall_ms = 1000,
                                         .node_id = "node-a",
                                         .entry = &world.entry,
                                         .point = &world.point,
                                         .profile_known = true,
                                         .profile = "signal"};
}

/* The point names NEWEST, of which this part has the first of `shards`. */
static inline void world_name(size_t shards)
{
    world.point.checkpoint_id = NEWEST;
    world.point.n_shards = shards;
    world.point.own_shard = 1;
    world.part.restart_checkpoint_id = NEWEST;
}

/* The job has two parts. */
static inline void world_pair(void)
{
    world.point.n_node_ids = world.point.n_runs = 2;
}

/* NEWEST was brought, or is being. */
static inline void world_bring(enum restore_have have)
{
    struct restore_brought *brought = &world.restore.brought;

    if (world.point.checkpoint_id == 0)
        world_name(1);
    *brought = (struct restore_brought){.checkpoint_id = NEWEST,
                                        .have = have,
                                        .mode = MODE(OWN),
                                        .places = 1,
                                        .own_shard = 1,
                                        .parts = (uint32_t)world.point.n_shards,
                                        .part_count = 1,
                                        .part_next = have == RESTORE_HAS};
    strcpy(brought->folder, "/work/restore/0-14");
    strcpy(brought->damage, have == RESTORE_DAMAGED ? "part-0000: a file differs" : "");
    world.restore.run = RUN;
}

static inline void world_enter(enum restore_state state)
{
    world.restore.state = state;
    if (state == RESTORE_NAMING)
        strcpy(world.restore.owner.name, "ann");
    if (state == RESTORE_READING || state == RESTORE_DROPPING || state == RESTORE_SWEEPING)
        world_bring(RESTORE_LACKS);
}

/* "SAY:REFUSAL WAIT:500 -> PAUSED" */
static inline const char *world_step(const struct restore_event *event, char text[256])
{
    size_t length = 0;

    restore_step(&world.restore, event, &world.facts, &world.effects);
    for (size_t i = 0; i < world.effects.count; i++) {
        length += restore_effect_text(&world.effects.effects[i], text + length, 256 - length);
        length += (size_t)snprintf(text + length, 256 - length, " ");
        assert_true(length < 200);
    }
    snprintf(text + length, 256 - length, "-> %s", restore_state_name(world.restore.state));
    return text;
}

#endif
