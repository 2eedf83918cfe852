/* What all methods do alike with a request. See request.h. */
#include "src/broker/api/request.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void request_end(struct request *request)
{
    if (request->message != NULL)
        protobuf_c_message_free_unpacked(request->message, NULL);
    spare_give(request->spare, request);
}

/* ---- how old it is ---- */

uint64_t request_applied_index(const struct request *request)
{
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(request->broker->replica), &summary);
    return summary.applied_index;
}

uint64_t request_data_age_ms(const struct request *request)
{
    struct consensus_status status;

    if (!request->stale)
        return 0;
    replica_get_status(request->broker->replica, &status);
    return status.state_age_ms;
}

const char *request_age(struct request *request, char text[REQUEST_AGE_BYTES])
{
    char age_ms[24], index[24];

    text[0] = '\0';
    if (!request->stale)
        return text;
    snprintf(age_ms, sizeof(age_ms), "%" PRIu64, request_data_age_ms(request));
    snprintf(index, sizeof(index), "%" PRIu64, request_applied_index(request));
    rpc_call_trailer(request->call, "ckpt-data-age-ms", age_ms);
    rpc_call_trailer(request->call, "ckpt-applied-index", index);
    if (request_data_age_ms(request) == UINT64_MAX) /* no leader's commits were ever all applied */
        snprintf(text, REQUEST_AGE_BYTES, "stale answer of unknown age, applied index %s", index);
    else
        snprintf(text, REQUEST_AGE_BYTES, "stale answer, up to %s ms old, applied index %s", age_ms,
                 index);
    return text;
}

void request_refuse(struct request *request, enum fsm_status status, uint64_t current,
                    uint64_t limit)
{
    struct fsm_outcome outcome;
    char age[REQUEST_AGE_BYTES];

    memset(&outcome, 0, sizeof(outcome));
    outcome.status = status;
    outcome.current = current;
    outcome.limit = limit;
    if (request->stale)
        outcome.subject = request_age(request, age);
    answer_outcome(request->call, &outcome);
}

void request_refuse_id(struct request *request, const char *field, const char *text)
{
    struct fsm_outcome outcome;

    memset(&outcome, 0, offsetof(struct fsm_outcome, victims));
    outcome.status = FSM_INVALID_ID;
    outcome.subject = field;
    fsm_outcome_found(&outcome, text);
    answer_outcome(request->call, &outcome);
}

/* ---- pages ---- */

bool request_page_size(struct request *request, uint32_t asked, uint32_t *ret_size)
{
    if (asked > METHOD_PAGE_MAX) {
        answer_status(request->call, FSM_INVALID_ARGUMENT, asked, METHOD_PAGE_MAX);
        return false;
    }
    *ret_size = asked == 0 ? METHOD_PAGE_DEFAULT : asked;
    return true;
}

bool request_slot_token(struct request *request, const char *token, uint32_t *ret_slot)
{
    char *end;
    unsigned long slot = strtoul(token, &end, 10);

    if (strspn(token, "0123456789") != strlen(token) || slot > FSM_ALLOCATIONS_MAX) {
        answer_status(request->call, FSM_INVALID_ARGUMENT, slot, FSM_ALLOCATIONS_MAX);
        return false;
    }
    *ret_slot = (uint32_t)slot;
    return true;
}
