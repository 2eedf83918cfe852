/* Why an allocation was, or was not, checkpointed: one evaluation in numbers and words.
 *
 * Flow     the request names an instant, a checkpoint or neither -> the leader's last row, or a
 *          decision of the log (recomputed from what was logged beside it) -> explain_reply.c makes
 *          an ExplainReply of it.
 * Shapes   the reply and its texts live during use() only. Decisions of the log are explained by
 *          every member.
 * Units    those of ExplainReply and DecisionTerms.
 * Errors   enum explain_found; explain_refusal() says it in a line.
 * Source   src/eval/README.md; S1-018.
 */
#ifndef CKPT_BROKER_EXPLAIN_H
#define CKPT_BROKER_EXPLAIN_H

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/fsm.h"
#include "fsm/hang.h"
#include "src/broker/decide/sources.h"
#include "src/eval/actions.h"
#include "src/eval/model.h"

struct broker;

enum explain_found {
    EXPLAIN_FOUND,
    EXPLAIN_NO_JOB,        /* no such allocation */
    EXPLAIN_NO_CHECKPOINT, /* no such checkpoint */
    EXPLAIN_NO_DECISION,   /* the checkpoint was asked for by somebody */
    EXPLAIN_NOT_EVALUATED, /* by this leader, and nothing is in the log */
    EXPLAIN_HUNG,          /* it is not evaluated now, because it hangs */
    EXPLAIN_TOO_OLD,       /* before everything that is known */
    EXPLAIN_FUTURE         /* after the state's clock */
};
/* Packs or prints the reply. Called at most once, before explain_request() returns. */
typedef void explain_use(void *context, const Ckpt__V1__ExplainReply *reply);

/* Calls use() when found. ret_oldest_ms: the earliest instant of the allocation that can be
 * explained; 0: none. */
enum explain_found explain_request(const struct broker *broker,
                                   const Ckpt__V1__ExplainRequest *request, explain_use *use,
                                   void *context, uint64_t *ret_oldest_ms);
/* Of anything but FOUND and NO_JOB; state: of the allocation. Returns text. */
const char *explain_refusal(enum explain_found found, const Ckpt__V1__ExplainRequest *request,
                            const char *state, uint64_t oldest_ms, char *text, size_t size);

/* One evaluation, between finding and telling. */
struct explained {
    const struct broker *broker;
    const struct fsm_allocation *allocation;
    const struct fsm_checkpoint *checkpoint; /* LOG: what it decided */
    Ckpt__V1__ExplainSource source; /* LAST: this leader's last row; LOG: a logged decision */
    Ckpt__V1__ExplainMatch match;   /* LOG: what computing it again came to */
    char match_detail[160];         /* which number differs, or what is of another version */
    bool has_inputs;                /* the row, its score and the policy are there */
    struct eval_policy policy;
    struct eval_view view; /* one row */
    struct eval_result result;
    bool has_payoffs;                /* LOG: payoffs of actions decided */
    struct eval_situation situation; /* what it weighed */
    struct eval_payoffs payoffs;
    enum eval_verdict verdict;       /* a guard beside the model may have overruled the result's */
    uint64_t evaluated_at_ms;        /* of the state's clock */
    uint64_t leader_id, term, index; /* who decided; index: of the log, 0 of a row that is not */
    uint32_t ages_ms[SOURCE_COUNT];  /* of what the row was made from, at the evaluation */
    bool aged[SOURCE_COUNT];         /* false: not known any more */
};

/* explain_reply.c */
void explain_reply(const struct explained *explained, uint64_t oldest_ms, explain_use *use,
                   void *context);

/* explain_words.c */
enum { EXPLAIN_GUARDS = 10, EXPLAIN_TEXT_BYTES = 256 };
/* Each rule beside the model in one line: its name, whether it lets a checkpoint pass, and the
 * numbers that it goes by. */
void explain_guards(const struct explained *explained,
                    char ret_texts[EXPLAIN_GUARDS][EXPLAIN_TEXT_BYTES]);
/* The smallest single change. from, to: decimal, exact. False: none flips it. */
struct explain_change {
    const char *input;
    char from[32], to[32];
    uint32_t cleared_flag;
    char cleared[32]; /* its name */
    uint64_t relative_ppm;
};
bool explain_change(const struct explained *explained, struct explain_change *ret_change);
void explain_flips(const struct explained *explained, char *ret_text, size_t size);
const char *explain_flags(uint32_t flags, char *text, size_t size); /* "sensitive, reclaimable" */
const char *explain_number(double number, char text[32]);           /* decimal, exact */

#endif
