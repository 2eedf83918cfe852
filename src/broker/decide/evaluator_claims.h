/* Nodes for sensitive jobs that wait in a deep queue: the evaluator asks for them itself, as a
 * scheduler would by RequestPreemption.
 *
 * Flow     evaluator_claims_begin() each cycle; evaluator_claims_look() per running allocation;
 *          when the cycle's decisions are made evaluator_claims_count() until it is done, then
 *          evaluator_claims_end() claims what the most urgent one lacks. Whom that takes (who of
 *          lower classes is cheapest to stop), and whether that one writes a checkpoint first, the
 *          state machine decides: a sensitive claim has no price (fsm/RULES.md).
 * When     backlog pressure over a half, as wherever the model counts backlog; a fresh queue report
 *          names the job, as sensitive; what stands idle does not suffice; the allocations that may
 *          be victims do. Only somebody who asks may have work killed: a job whose own destination
 *          is down is no victim of ours, and while any is down the claim names who may be. Never
 *          for a job that runs meanwhile: by its name, or because a sensitive allocation of its
 *          vCluster started after the report, which then does not count until the next one. One
 *          claim per cycle, and one per job and EVALUATOR_CLAIM_AGAIN_MS, its scheduler's own ones
 *          counted.
 * Refused  what is there is counted more coarsely than the state machine chooses: a job whose claim
 *          it refused is passed over for EVALUATOR_CLAIM_REFUSED_MS, so that the others have their
 *          turn. The next leader does not know, and asks once more.
 * Turns    nodes are counted EVALUATOR_CLAIM_NODES_PER_TURN at a time; what else a turn does has a
 *          limit here.
 * Units    GPUs. An idle node counts as many as its agent told; one that told of none, be it that
 *          the agent does not know their maker, counts what a node of running allocations has on
 *          average: taking too much from others is worse than a claim that waits.
 * Absent   which nodes fit the job: a scheduler that knows better asks itself, and leaves
 *          `sensitive` out of its queue report.
 * Source   S1-021, P-006.
 */
#ifndef CKPT_BROKER_EVALUATOR_CLAIMS_H
#define CKPT_BROKER_EVALUATOR_CLAIMS_H

#include "fsm/fsm.h"
#include "src/broker/decide/evaluator_view.h"

struct broker;

#define EVALUATOR_DEEP_QUEUE 0.5 /* pressure above it */

enum {
    EVALUATOR_CLAIM_AGAIN_MS = 3600000,
    EVALUATOR_CLAIM_REFUSED_MS = 300000,
    EVALUATOR_CLAIM_REFUSED_MAX = 8,  /* jobs; one more takes the place of the oldest */
    EVALUATOR_CLAIM_STARTS_MAX = 256, /* sensitive ones that started lately; beyond, no claims */
    /* sensitive ones looked at; each is looked for among the preemptions */
    EVALUATOR_CLAIM_JOBS_MAX = 256,
    EVALUATOR_CLAIM_NODES_PER_TURN = 4096 /* 0.1 ms (65,000 idle ones at once: 0.9 ms) */
};

struct evaluator_claims_refused {
    char job_id[FSM_ID_BYTES];
    uint64_t until_ms; /* 0: none */
};

struct evaluator_claims {
    bool wanted;                       /* some sensitive job waits, and the queues are deep */
    uint32_t largest[FSM_VICTIMS_MAX]; /* GPUs of those that may be victims, falling */
    uint32_t slots[FSM_VICTIMS_MAX];   /* ... and who they are */
    uint64_t gpus, nodes;              /* of all running allocations */
    uint64_t idle_gpus;                /* of nodes that told */
    uint64_t idle_nodes;               /* the others */
    uint32_t next_node;                /* slot to be counted */
    uint64_t cycle_ms;
    size_t start_count;
    uint32_t starts[EVALUATOR_CLAIM_STARTS_MAX]; /* slots of sensitive ones that run since lately */
    /* from one cycle to the next */
    bool in_flight;
    uint64_t count;                                                       /* by this process */
    struct evaluator_claims_refused asked;                                /* last */
    struct evaluator_claims_refused refused[EVALUATOR_CLAIM_REFUSED_MAX]; /* a ring */
    size_t refused_count;                                                 /* that ever were */
};

void evaluator_claims_begin(struct evaluator_claims *claims, const struct fsm *fsm,
                            const struct evaluator_cycle *cycle);
void evaluator_claims_look(struct evaluator_claims *claims, const struct fsm *fsm,
                           const struct fsm_allocation *allocation);
/* Looks at some nodes; true: at all of them. */
bool evaluator_claims_count(struct evaluator_claims *claims, const struct fsm *fsm,
                            const struct nodes *nodes, const struct evaluator_cycle *cycle);
/* Proposes at most one claim. */
void evaluator_claims_end(struct evaluator_claims *claims, const struct broker *broker,
                          const struct evaluator_cycle *cycle);

#endif
