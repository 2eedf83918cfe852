/* ListUndeleted: folders of expired checkpoints that could not be removed (fsm/job/undeleted.c).
 * See methods.h. */
#include <inttypes.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/methods.h"

enum { UNDELETED_PATH_BYTES = 4096 };

/* "" means of all allocations. */
static bool undeleted_of(const struct fsm_undeleted *undeleted, const char *allocation_id)
{
    return allocation_id[0] == '\0' || strcmp(undeleted->allocation_id, allocation_id) == 0;
}

static Ckpt__V1__Undeleted *translate_undeleted(const struct fsm *fsm,
                                                const struct fsm_undeleted *undeleted,
                                                struct scratch *scratch)
{
    Ckpt__V1__Undeleted *item = scratch_take(scratch, 1, sizeof(*item));
    char path[UNDELETED_PATH_BYTES];

    CHECK(fsm_undeleted_path(fsm, undeleted, path, sizeof(path)) > 0);
    ckpt__v1__undeleted__init(item);
    RECORD_COPY(FSM_UNDELETED, undeleted, item);
    item->checkpoint_id = undeleted->checkpoint_id;
    item->next_try_ms = fsm_undeleted_due_ms(undeleted);
    item->listed = undeleted->listed;
    if (undeleted->given)
        item->node_id = translate_text(fsm_node_find_slot(fsm, undeleted->node_slot)->id);
    item->target_id = translate_text(fsm_target_at(fsm, undeleted->target_slot)->id);
    item->path = scratch_printf(scratch, "%s", path);
    return item;
}

/* Those that were tried at least once and are still there. */
uint64_t undeleted_count(const struct fsm *fsm, const char *allocation_id)
{
    const struct fsm_undeleted *at;
    uint64_t count = 0;

    for (uint32_t place = 0; (at = fsm_undeleted_next(fsm, place)) != NULL; place = at->place + 1)
        count += at->attempts > 0 && undeleted_of(at, allocation_id);
    return count;
}

/* By places in the state's list; the sums are of all, whatever is asked for. */
void undeleted_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListUndeletedRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__ListUndeletedReply reply = CKPT__V1__LIST_UNDELETED_REPLY__INIT;
    const struct fsm_undeleted *at;
    struct fsm_undeleted_sum sum;
    uint32_t size, place;
    size_t bytes = 0;

    if (!request_page_size(request, asked->page_size, &size) ||
        !request_slot_token(request, asked->page_token, &place))
        return;
    fsm_undeleted_sum(fsm, &sum);
    reply.count = sum.count;
    reply.size_bytes = sum.bytes;
    reply.forgotten = sum.forgotten;
    reply.forgotten_bytes = sum.forgotten_bytes;
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    reply.undeleted = scratch_take(scratch, size, sizeof(reply.undeleted[0]));
    for (; (at = fsm_undeleted_next(fsm, place)) != NULL; place = at->place + 1) {
        if (!undeleted_of(at, asked->allocation_id))
            continue;
        if (reply.n_undeleted == size || bytes >= METHOD_PAGE_BYTES) {
            reply.next_page_token = scratch_printf(scratch, "%" PRIu32, at->place);
            break;
        }
        reply.undeleted[reply.n_undeleted] = translate_undeleted(fsm, at, scratch);
        bytes += ckpt__v1__undeleted__get_packed_size(reply.undeleted[reply.n_undeleted++]);
    }
    answer_reply(request->call, &reply.base);
}
