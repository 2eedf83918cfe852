/* Duty of the leader: looks through the targets for checkpoints that no record knows: orphans. They
 * are shown, and an operator or the policy lets them go (fsm/job/orphans.c).
 *
 * Flow     at once at the beginning of a leadership and then each orphan_scan_interval of the
 *          policy, one target after the other: `ckpt-worker scan`, page by page. Where this member
 *          may not look into the folders, or does not reach the target, a node is asked by an order
 *          (ScanTarget), and its pages come by scanner_take_page(). What is found is compared with
 *          the state when it comes, and again when it is shown.
 *          Where the policy's orphan_rule is REMOVE, the leader then lets those go that were not
 *          used for orphan_remove_age, by the command that an operator would send.
 * Shapes   one target at a time, one worker at a time, with a rest between pages. At most
 *          ORPHANS_MAX orphans are kept, in memory alone: another leader looks anew.
 * Units    milliseconds; ends of scans by the state's clock.
 * Errors   a target that cannot be looked through says why, and is tried again after
 *          SCANNER_RETRY_MS. A node that tells nothing for SCANNER_SILENCE_MS is given up.
 */
#ifndef CKPT_BROKER_SCANNER_H
#define CKPT_BROKER_SCANNER_H

#include <stdbool.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/broker/keep/orphans.h"

struct broker;
struct scanner;

enum {
    SCANNER_TICK_MS = 5000,
    SCANNER_REST_MS = 100,
    SCANNER_DEADLINE_MS = 600000, /* of a page */
    SCANNER_RETRY_MS = 600000,
    SCANNER_SILENCE_MS = 900000
};

/* On every member, after broker->replica; rests until this member leads. */
struct scanner *scanner_new(struct broker *broker);
/* After the replica is closed; a worker may outlive it. */
void scanner_free(struct scanner *scanner);

/* From the stream of the node in this slot. What was not asked for is passed over. NULL: nobody
 * scans here. */
void scanner_take_page(struct scanner *scanner, uint32_t node_slot, const Ckpt__V1__ScanPage *page);
/* All targets are looked through anew, from now on. */
void scanner_scan_now(struct scanner *scanner);

/* What was found; the state may have got to know of some of it since. */
const struct orphan_list *scanner_known(const struct scanner *scanner);
/* The last scan of the target, and whether there is one at work. */
const struct orphan_scan *scanner_ended(const struct scanner *scanner, uint32_t target_slot,
                                        bool *ret_running);
/* Of those that the state still does not know; a NULL scanner has none. */
void scanner_count(const struct scanner *scanner, uint32_t target_slot, uint64_t *ret_count,
                   uint64_t *ret_bytes);

#endif
