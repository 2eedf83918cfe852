/* The small agent that misbehaves, shared by the agent_model*.c files. See agent_model.c. */
#ifndef CKPT_TESTS_SIM_AGENT_MODEL_H
#define CKPT_TESTS_SIM_AGENT_MODEL_H

#include "ckpt/v1/agent.pb-c.h"
#include "src/rpc/follow.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum { MODEL_PATH_BYTES = 128 };
#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

struct report {
    uint64_t sequence;
    uint8_t *bytes;
    size_t length;
};

struct model_part {
    bool runs;
    bool terminated;               /* the end was reported */
    uint64_t began_sequence;       /* of the report that it began */
    uint64_t stop_run, stop_epoch; /* the run that the last order ended, and the order's epoch */
    uint64_t run;                  /* that it was started for */
    uint64_t attempt_run;          /* of the order */
    uint64_t checkpoint_id;        /* the highest (id, attempt) that was taken */
    uint32_t attempt;
    bool busy; /* with it; of the process */
    bool cancelled;
    bool barrier;                    /* its ranks agree on a step with those of other parts */
    uint32_t told;                   /* ... what was said of it, see agent_model_barrier.c */
    uint64_t aware_us;               /* all of them know of the attempt then */
    uint64_t step;                   /* of what is said of the barrier */
    char label[LABEL_MAX_BYTES + 1]; /* of what they save */
    unsigned gone;                   /* of them, before they were asked: the last one, or none */
    bool busy_at_crash;
    uint64_t done_us;
    uint64_t deferral_ms; /* that it reported of this attempt */
    uint64_t stop_us;     /* 0: not told to end */
    uint64_t wall_us;     /* its walltime ends; 0: none */
    uint64_t wall_run;    /* ... of this run */
    uint64_t grace_ms;
    char path[MODEL_PATH_BYTES]; /* of the checkpoint's folder */
    uint32_t place;              /* its part of it */
    char manifest[AGENT_STORE_MANIFEST_BYTES];
};

struct model {
    struct model_part parts[WORLD_JOBS_MAX];
    uint64_t epoch, term;   /* the fence */
    uint64_t sequence;      /* of the last report */
    struct report *reports; /* not acknowledged */
    size_t report_count;
    unsigned boots;
    uint64_t ecc_correctable, ecc_uncorrectable; /* errors counted */
    struct {
        uint64_t id;
        uint32_t attempt;
    } collects[64]; /* the last folders that it was to remove */
    unsigned collect_count;
    struct {
        uint64_t id;
        uint32_t attempt;
    } reads[64]; /* the last parts that it was to read again */
    unsigned read_count;
    bool calm;
};

struct process {
    struct world *world;
    unsigned number;
    struct model *model;
    struct clock_ops clock;
    struct clock_timer *timer;
    struct rpc_follow *follow;
    struct rpc_client_call *call, *twin;
    bool welcomed;
    uint64_t began_us, retry_us, beat_us, scan_us;
    uint64_t interval_us;
    uint64_t sent;              /* reports up to here, on this stream */
    Ckpt__V1__OrderSet *orders; /* the last ones; NULL: none yet */
    uint64_t beats;
};

/* One step in so many goes wrong, until it is calm. */
bool model_mischief(const struct process *process);

/* ---- agent_model_reports.c ---- */
void model_reports_drop(struct model *model, uint64_t upto);
void model_report_add(struct model *model, struct world *world, unsigned number,
                      Ckpt__V1__AgentReport *report);
/* The node was removed: the state counts its reports from the first one again. */
void model_reports_align(struct model *model, uint64_t acknowledged);
void model_report(struct process *process, Ckpt__V1__ReportKind kind, unsigned job,
                  Ckpt__V1__Reason reason);
void model_collect(struct process *process, const Ckpt__V1__Order *order);
void model_verify(struct process *process, const Ckpt__V1__Order *order);
void model_reports_send(struct process *process);

/* ---- agent_model_barrier.c ---- */
void model_ranks_asked(struct process *process, unsigned job);
void model_ranks_tick(struct process *process, unsigned job, uint64_t now);

#endif
