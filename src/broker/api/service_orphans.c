/* ListOrphans: what lies at targets without a record (src/broker/keep/scanner.h). See methods.h. */
#include <inttypes.h>
#include <string.h>

#include "fsm/orphans.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/methods.h"
#include "src/broker/keep/scanner.h"

/* As destinations take it: `s3://` ends in its slashes already. */
static char *orphan_path(const struct fsm_target *target, const struct orphan *orphan,
                         struct scratch *scratch)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    size_t length = strlen(target->prefix);

    return scratch_printf(scratch, "%s%s%s/%s/%s/checkpoints/%s", target->prefix,
                          length > 0 && target->prefix[length - 1] == '/' ? "" : "/",
                          orphan->tenant, orphan->project, orphan->allocation_id,
                          checkpoint_id_format(orphan->checkpoint_id, id));
}

static Ckpt__V1__Orphan *translate_orphan(const struct fsm_target *target,
                                          const struct orphan *orphan, struct scratch *scratch)
{
    Ckpt__V1__Orphan *item = scratch_take(scratch, 1, sizeof(*item));

    orphan_to_message(orphan, target->id, item);
    item->path = orphan_path(target, orphan, scratch);
    return item;
}

static void translate_scan(const struct scanner *scanner, const struct fsm_target *target,
                           struct scratch *scratch, Ckpt__V1__ListOrphansReply *reply)
{
    Ckpt__V1__OrphanScan *item = scratch_take(scratch, 1, sizeof(*item));
    bool running;
    const struct orphan_scan *ended = scanner_ended(scanner, target->slot, &running);

    ckpt__v1__orphan_scan__init(item);
    item->target_id = text_message(target->id);
    item->running = running;
    item->ended_at_ms = ended->ended_at_ms;
    item->node_id = text_message(ended->node);
    item->looked = ended->looked;
    item->foreign = ended->foreign;
    item->denied = ended->denied;
    item->error = text_message(ended->error);
    reply->left_out += ended->left_out;
    reply->scans[reply->n_scans++] = item;
}

/* By places in the list, which changes when a scan ends: an operator who pages meanwhile may see
 * one twice or miss one, and removes nothing that was not shown. */
void orphans_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListOrphansRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    struct scanner *scanner = request->broker->scanner;
    Ckpt__V1__ListOrphansReply reply = CKPT__V1__LIST_ORPHANS_REPLY__INIT;
    const struct orphan_list *known = scanner_known(scanner);
    uint32_t size, place;
    size_t bytes = 0;

    if (!request_page_size(request, asked->page_size, &size) ||
        !request_slot_token(request, asked->page_token, &place))
        return;
    if (asked->scan)
        scanner_scan_now(scanner);
    reply.min_age_ms = fsm_policy(fsm)->orphan_age_ms;
    reply.rule = fsm_policy(fsm)->orphan_rule;
    reply.remove_age_ms = fsm_policy(fsm)->orphan_remove_age_ms;
    reply.scans = scratch_take(scratch, fsm_target_slots(fsm), sizeof(reply.scans[0]));
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++)
        if (fsm_target_find_slot(fsm, slot) != NULL)
            translate_scan(scanner, fsm_target_find_slot(fsm, slot), scratch, &reply);
    reply.orphans = scratch_take(scratch, size, sizeof(reply.orphans[0]));
    for (; place < known->count; place++) {
        const struct orphan *orphan = &known->items[place];
        const struct fsm_target *target = fsm_target_find_slot(fsm, orphan->target_slot);

        if (target == NULL || !fsm_is_orphan(fsm, orphan->checkpoint_id))
            continue;
        if (reply.n_orphans == size || bytes >= METHOD_PAGE_BYTES) {
            reply.next_page_token = scratch_printf(scratch, "%" PRIu32, place);
            break;
        }
        reply.orphans[reply.n_orphans] = translate_orphan(target, orphan, scratch);
        bytes += ckpt__v1__orphan__get_packed_size(reply.orphans[reply.n_orphans++]);
    }
    answer_reply(request->call, &reply.base);
}
