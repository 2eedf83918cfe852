/* The functions that the files of fsm/job give each other and the rest of the state machine:
 * allocations and checkpoints, their changes of state, the reports of their nodes.
 *
 * Flow     lifecycle.c alone moves states. checkpoint.c has a record from the request to its end,
 *          progress.c what nodes report of it, barrier.c how its ranks come to one step.
 *          allocation.c has the nodes and their parts, begin.c what they begin from, scale.c and
 *          terminate.c how they leave, read.c who reads what it begins from, retention.c,
 *          undeleted.c and removal.c what remains of them.
 * Shapes   a record is changed by whoever got it from x_edit() (fsm/core/registry.h), and only
 *          while a command is applied. Nothing here fails: the command was checked before.
 */
#ifndef CKPT_FSM_JOB_H
#define CKPT_FSM_JOB_H

#include "fsm/core/state.h"
#include "fsm/weight.h"

/* lifecycle.c: the only writers of the state fields. */
void fsm_checkpoint_move(struct fsm *fsm, struct checkpoint *checkpoint,
                         Ckpt__V1__CheckpointState to, Ckpt__V1__Reason reason);
void fsm_allocation_move(struct fsm *fsm, struct allocation *allocation,
                         Ckpt__V1__AllocationState to, Ckpt__V1__Reason reason);
/* Counts a restored record in its state, without an event. */
void fsm_checkpoint_adopt(struct fsm *fsm, const struct checkpoint *checkpoint);
void fsm_allocation_adopt(struct fsm *fsm, struct allocation *allocation);
void fsm_allocation_forget(struct fsm *fsm, const struct allocation *allocation);
void fsm_checkpoint_forget(struct fsm *fsm, const struct checkpoint *checkpoint);
/* RUNNING, or STARTING while a part of it is to start: of a new or restarted one, and of one that
 * is no longer to stop. */
void fsm_allocation_go_on(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason);
bool fsm_allocation_runs(
    const struct allocation
        *allocation); /* it holds nodes: STARTING, RUNNING, CHECKPOINTING_TO_STOP */
bool fsm_allocation_state_waits(Ckpt__V1__AllocationState state); /* REQUEUED, SUSPENDED; facts.c */
bool fsm_allocation_restartable(const struct allocation *allocation);
bool fsm_allocation_shrinks(const struct allocation *allocation); /* facts.c */
bool fsm_spec_sensitive(const Ckpt__V1__AllocationSpec *spec);    /* facts.c */
bool fsm_allocation_goes_on(const struct allocation *allocation); /* it has not ended */

/* allocation.c */
struct allocation *fsm_allocation_create(struct fsm *fsm, uint32_t slot, const char *id);
void fsm_allocation_remove(struct fsm *fsm, struct allocation *allocation);
/* In place of those that it has, all zero: the caller fills them, and then lets them name their
 * nodes. */
struct fsm_node_share *fsm_allocation_set_shares(struct fsm *fsm, struct allocation *allocation,
                                                 uint32_t count);
void fsm_allocation_name_nodes(struct fsm *fsm, struct allocation *allocation);
/* Counts it on its nodes as one that has not ended, or no more. */
void fsm_allocation_count_going(struct fsm *fsm, struct allocation *allocation, bool going);
void fsm_allocation_begin_runs(struct fsm *fsm, struct allocation *allocation, bool all);
/* The view's, to write. */
struct fsm_node_share *fsm_allocation_shares(struct allocation *allocation);
void fsm_allocation_sum_shares(struct allocation *allocation);
void fsm_allocation_estimate(struct allocation *allocation, uint32_t old_count);
void fsm_allocation_assign(struct fsm *fsm, struct allocation *allocation);
void fsm_allocation_release(struct fsm *fsm, struct allocation *allocation);
struct assignment *fsm_allocation_part(const struct allocation *allocation, uint32_t node_slot);
/* All of its parts are to start, from this checkpoint (0: none): what they had restored is
 * forgotten. */
void fsm_allocation_parts_start(struct fsm *fsm, struct allocation *allocation,
                                uint64_t checkpoint_id);
/* One part is to start again, or has started: the allocation is STARTING or RUNNING by that, unless
 * it is to stop. */
void fsm_allocation_part_starting(struct fsm *fsm, struct allocation *allocation,
                                  struct assignment *part, bool starting);
/* fsm/cluster/node_life.c, node_facts.c. emptied: a job has given it back. contact: what is heard
 * of it. live: it gets the state that this contact and what an operator wants of it mean; from
 * level 2 on. adopt: as the contact is, also of a node that was drained at level 1. */
void fsm_node_emptied(struct fsm *fsm, const struct node *node);
/* restart.c: a preemption of that class has freed it, for who is placed there next; a run begins
 * there. */
void fsm_node_freed(struct fsm *fsm, const struct node *node, uint8_t acting_class);
void fsm_node_taken(struct fsm *fsm, const struct node *node);
Ckpt__Log__V1__NodeState fsm_node_contact(const struct fsm_node *view);
/* fsm/cluster/apply_node.c: its allocations in the order of their slots, held for writing; where it
 * comes back, what was being ended there is ended again. */
struct sort_item;
size_t fsm_node_allocations(struct fsm *fsm, const struct node *node, struct sort_item **ret_items);
void fsm_node_move(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState state);
/* fsm/cluster/apply_drain.c: the deadline of the node's drain is over. */
void fsm_drain_due(struct fsm *fsm, struct node *node);
/* leave.c. passes: the job's part on the node leaves already, or the job ends. begin: the job
 * leaves all its nodes. takes: a checkpoint of it is complete, and it leaves a drained node with
 * that. */
bool fsm_leave_passes(const struct allocation *allocation, const struct node *node);
void fsm_leave_begin(struct fsm *fsm, struct allocation *allocation);
bool fsm_leave_takes(struct fsm *fsm, struct allocation *allocation);
/* fsm/cluster/node_facts.c: the broken rule of the record; NULL: none. */
const char *fsm_node_broken(const struct node *node);
void fsm_node_adopt(struct fsm *fsm, struct node *node);
void fsm_node_live(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState contact);
void fsm_allocation_changed(struct fsm *fsm, const struct allocation *allocation);
/* Of a job that has a walltime: when it ends, or that this is soon is to be told. */
uint64_t fsm_walltime_due_ms(const struct fsm *fsm, const struct fsm_allocation *view);
/* Tells that the walltime ends soon, once in a run; false: that is not due. */
bool fsm_walltime_warns(struct fsm *fsm, struct allocation *allocation);
void fsm_allocation_arm(struct fsm *fsm, struct allocation *allocation); /* due.c */
uint64_t fsm_allocation_grace_ms(const struct fsm *fsm, const struct allocation *allocation);
/* Of the stop that is under way. */
uint64_t fsm_stop_grace_ms(const struct fsm *fsm, const struct allocation *allocation);
uint64_t fsm_allocation_age_gpu_ms(const struct fsm *fsm, const struct allocation *allocation);

/* How a stop ends. */
struct fsm_plan {
    Ckpt__V1__Reason order_reason; /* in the terminate order */
    Ckpt__V1__AllocationState state;
    Ckpt__V1__Reason reason;
};

/* cause.c. exited: an application of the node ended first, with an error. lost: the part's node is
 * down, and the ends before may have been its consequence; plan: of that. open: a silent node may
 * yet turn out to be the cause. */
void fsm_cause_exited(struct fsm *fsm, struct allocation *allocation, const struct node *node,
                      uint32_t wait_status);
/* The words of its node about such an end stand in the history. */
void fsm_cause_told(struct fsm *fsm, const struct allocation *allocation, const struct node *node,
                    const Ckpt__V1__AgentReport *report);
/* Such words as they are kept: cut, and without bytes that nobody can read. */
void fsm_report_detail(const char *text, char detail[FSM_DETAIL_BYTES]);
void fsm_cause_lost(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                    struct fsm_plan plan);
bool fsm_cause_open(const struct fsm *fsm, const struct allocation *allocation);

/* terminate.c */
void fsm_terminate_begin(struct fsm *fsm, struct allocation *allocation, struct fsm_plan plan);
void fsm_terminate_part(struct fsm *fsm, struct allocation *allocation, struct assignment *part);
void fsm_terminate_mark(const struct fsm *fsm, struct allocation *allocation,
                        struct assignment *part);
void fsm_terminate_again(struct fsm *fsm, struct allocation *allocation, struct assignment *part);
void fsm_terminate_without(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                           struct fsm_plan plan);
bool fsm_terminate_finished(const struct allocation *allocation);
void fsm_terminate_settle(
    struct fsm *fsm, struct allocation *allocation); /* ends it when nothing is left to wait for */
void fsm_terminate_due(struct fsm *fsm, struct allocation *allocation);
void fsm_allocation_end(struct fsm *fsm, struct allocation *allocation,
                        Ckpt__V1__AllocationState state, Ckpt__V1__Reason reason);
/* Whether its policy asks for another run after such a failure, however many it had. */
bool fsm_requeue_wanted(const struct allocation *allocation, bool node_failure);
/* The job's state after a failure, by the requeue policy. */
struct fsm_plan fsm_plan_failure(const struct fsm *fsm, const struct allocation *allocation,
                                 Ckpt__V1__Reason reason, bool node_failure);
/* Likewise, when its application would be started again in place. */
struct fsm_plan fsm_plan_again(const struct fsm *fsm, const struct allocation *allocation);

/* scale.c: nodes leave an allocation when a checkpoint of the old set has ended. next is a heap
 * block. */
enum fsm_status fsm_scale_ask(struct fsm *fsm, struct allocation *allocation,
                              struct fsm_node_share *take_next, uint32_t count,
                              struct fsm_outcome *outcome);
void fsm_scale_now(struct fsm *fsm, struct allocation *allocation,
                   const struct fsm_node_share *next, uint32_t count, Ckpt__V1__Reason reason);
void fsm_scale_done(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason);
/* The cluster comes to level 2: all that level 1 leaves (apply_cluster.c), and of it this. */
void fsm_level_2_begins(struct fsm *fsm);
void fsm_scale_level_raised(struct fsm *fsm, struct allocation *allocation);
void fsm_scale_part(struct fsm *fsm, struct allocation *allocation,
                    struct assignment *part); /* a leaving one has ended */
void fsm_scale_ended(struct fsm *fsm, struct allocation *allocation);
void fsm_scale_due(struct fsm *fsm, struct allocation *allocation);
void fsm_scale_adopt(struct fsm *fsm, struct allocation *allocation); /* a restored one */
void fsm_scale_undo(struct fsm *fsm, struct allocation *allocation);
void fsm_scale_clear(struct fsm *fsm, struct allocation *allocation);
void fsm_scale_set_next(struct fsm *fsm, struct allocation *allocation,
                        const struct fsm_node_share *take_next, uint32_t count);
void fsm_scale_event(struct fsm *fsm, const struct allocation *allocation, Ckpt__V1__Reason reason);

/* checkpoint.c */
#define FSM_PRIORITY_WEIGHED_MAX (UINT64_MAX - 2) /* above: asked for, or with a deadline */
#define FSM_PRIORITY_URGENT      UINT64_MAX       /* with a deadline */
struct checkpoint_ask {
    Ckpt__V1__Purpose purpose;
    Ckpt__V1__AfterCheckpoint after;
    const Ckpt__V1__DecisionTerms *terms; /* NULL: not the evaluator's */
    uint64_t priority_gpu_ms_per_gb;
};
/* Creates one, or turns the active one into a stopping one (see checkpoint.c). OK, or why not;
 * outcome->checkpoint_id: which. */
enum fsm_status fsm_checkpoint_ask(struct fsm *fsm, struct allocation *allocation,
                                   const struct checkpoint_ask *ask, struct fsm_outcome *outcome);
/* The refusal of fsm_checkpoint_ask() now; FSM_OK: it would ask. */
enum fsm_status fsm_checkpoint_refusal(const struct fsm *fsm, const struct allocation *allocation,
                                       const struct checkpoint_ask *ask,
                                       struct fsm_outcome *outcome);
struct checkpoint *fsm_checkpoint_create(struct fsm *fsm, uint64_t id,
                                         struct allocation *allocation);
void fsm_checkpoint_free(struct fsm *fsm, struct checkpoint *checkpoint);
/* Or may have: an attempt was made. */
bool fsm_checkpoint_has_folder(const struct checkpoint *checkpoint);
/* An active one that goes on serves another purpose as well, and is granted as that; one that was
 * put off begins. */
void fsm_checkpoint_hurry(struct fsm *fsm, struct checkpoint *checkpoint,
                          const struct checkpoint_ask *ask);
/* In place of those that it has, all zero: the caller fills them, and then lets them name their
 * nodes. */
void fsm_checkpoint_set_shards(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t count);
void fsm_checkpoint_name_nodes(struct fsm *fsm, const struct checkpoint *checkpoint);
void fsm_checkpoint_dispatch(struct fsm *fsm, struct checkpoint *checkpoint,
                             const Ckpt__Log__V1__Grant *grant, bool bypass);
void fsm_checkpoint_started(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                            uint64_t age_ms);
void fsm_checkpoint_saved_before(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t age_ms,
                                 uint64_t before_ms);
/* deferral_ms: of one node in this attempt, in all. */
void fsm_checkpoint_defer(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t deferral_ms);
void fsm_checkpoint_complete(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_attempt_failed(struct fsm *fsm, struct checkpoint *checkpoint,
                                   Ckpt__V1__Reason reason);
/* told: its agent names who has not answered. */
void fsm_checkpoint_timed_out(struct fsm *fsm, struct checkpoint *checkpoint, bool told);
void fsm_checkpoint_responsive(struct fsm *fsm, struct checkpoint *checkpoint,
                               struct fsm_shard *shard, uint64_t stall_ms);
/* apply_restart.c: by a client's request, or the leader's choice. */
enum fsm_status fsm_restart_by(struct fsm *fsm, struct allocation *allocation,
                               const Ckpt__V1__RestartAllocationRequest *request,
                               struct fsm_outcome *outcome);
/* restart.c: the job has just ended; a checkpoint of it is complete. */
void fsm_restart_awaits(const struct fsm *fsm, struct allocation *allocation);
void fsm_restart_progress(const struct fsm *fsm, struct allocation *allocation);
/* hang.c: its state has changed, and is not counted. */
void fsm_hang_clear(struct fsm_allocation *view);
/* core/part_check.c: nobody knows that this part of a stopped job has ended. unended.c, begin: the
 * job has just stopped, or was read. clear: its parts are about to be others. ended, lives: by a
 * word of its node. rebooted: all that ran on the node has ended. told: its application has said
 * that it is done. */
bool fsm_part_unended(const struct assignment *part);
void fsm_unended_begin(struct fsm *fsm, struct allocation *allocation);
void fsm_unended_clear(struct fsm *fsm, struct allocation *allocation);
void fsm_unended_told(struct fsm *fsm, struct assignment *part);
void fsm_unended_ended(struct fsm *fsm, struct allocation *allocation, struct assignment *part);
void fsm_unended_lives(struct fsm *fsm, struct allocation *allocation, struct assignment *part);
void fsm_unended_rebooted(struct fsm *fsm, struct node *node);
bool fsm_report_ends(const Ckpt__V1__AgentReport *report); /* unended.c: nothing of its run lives */
/* departed.c: parts that left a job that goes on. note: those that are not in the set that comes
 * next. adopt: one of them, or of a snapshot. return: its nodes have it again. clear: the record
 * goes. reported: by a node that has no part of the job. broken: the rule that does not hold; NULL:
 * all hold. */
void fsm_departed_note(struct fsm *fsm, struct allocation *allocation,
                       const struct fsm_node_share *next, uint32_t count);
void fsm_departed_adopt(struct fsm *fsm, struct allocation *allocation, uint32_t node_slot,
                        uint64_t run);
void fsm_departed_return(struct fsm *fsm, struct allocation *allocation);
void fsm_departed_clear(struct fsm *fsm, struct allocation *allocation);
enum fsm_status fsm_departed_reported(struct fsm *fsm, struct allocation *allocation,
                                      const struct node *node, const Ckpt__V1__AgentReport *report);
void fsm_departed_rebooted(struct fsm *fsm, struct node *node);
const char *fsm_departed_broken(const struct fsm *fsm, const struct allocation *allocation);
/* silent.c: the first place from `from` on whose run may go on, so that none may begin beside it;
 * UINT32_MAX: there is none. Places are those of its parts, and behind them of what has left it.
 * node: of a place. refusal: NODE_SILENT or RUN_NOT_ENDED, with the node. */
uint32_t fsm_unended_place(const struct fsm *fsm, const struct allocation *allocation,
                           uint32_t from);
const struct node *fsm_unended_node(const struct fsm *fsm, const struct allocation *allocation,
                                    uint32_t place);
enum fsm_status fsm_unended_refusal(const struct fsm *fsm, const struct allocation *allocation,
                                    uint32_t place, struct fsm_outcome *outcome);
/* The stop is taken back: the job goes on, and the preemption looks for others. */
void fsm_checkpoint_spare(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason);
/* Decision 5: without the checkpoint that was to stop it. */
void fsm_checkpoint_stop_without(struct fsm *fsm, struct allocation *allocation,
                                 Ckpt__V1__Reason reason);
void fsm_checkpoint_due(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_pause(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_resume(struct fsm *fsm, struct checkpoint *checkpoint);
/* Ends an active one for good: releases its grant, frees the allocation for the next. Not for
 * COMPLETE. */
void fsm_checkpoint_end(struct fsm *fsm, struct checkpoint *checkpoint,
                        Ckpt__V1__CheckpointState state, Ckpt__V1__Reason reason);
void fsm_checkpoint_leave_active(struct fsm *fsm, struct checkpoint *checkpoint);
/* Ends it and asks for the same under a new id; a paused one goes on waiting. */
void fsm_checkpoint_renew(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_fail_over(struct fsm *fsm, struct checkpoint *checkpoint);
/* One that does not write is of the nodes that its job has now: under a new id when an attempt was
 * made. */
void fsm_checkpoint_follow_nodes(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_retry(struct fsm *fsm, struct checkpoint *checkpoint, Ckpt__V1__Reason reason,
                          uint64_t retry_at_ms);
void fsm_checkpoint_arm(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_give_until(struct fsm *fsm, struct checkpoint *checkpoint,
                               uint64_t deadline_ms);
void fsm_checkpoint_begin_stop(struct fsm *fsm, struct checkpoint *checkpoint,
                               uint64_t deadline_ms);
void fsm_checkpoint_stop_until(struct checkpoint *checkpoint, uint64_t deadline_ms);
void fsm_checkpoint_link(struct fsm *fsm, struct checkpoint *checkpoint); /* into the active list */
void fsm_checkpoint_clear_shards(struct fsm *fsm, struct checkpoint *checkpoint);
uint64_t fsm_checkpoint_timeout_ms(const struct fsm *fsm, const struct allocation *allocation);
/* Of a part that has this place among the job's, for whoever knows it: it is looked at first. */
struct fsm_shard *fsm_checkpoint_shard(const struct checkpoint *checkpoint, uint32_t place,
                                       uint32_t node_slot);
bool fsm_checkpoint_writes(const struct checkpoint *checkpoint); /* DISPATCHED or WRITING */
bool fsm_checkpoint_held(const struct fsm *fsm,
                         const struct checkpoint *checkpoint); /* is not granted meanwhile */

/* barrier.c: how the ranks of an attempt come to one step. started: the node's ranks were asked.
 * reported: they all know (step 0), or can all meet this step. review: whether the phase is over,
 * when a shard has become verified. */
void fsm_barrier_started(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                         bool barrier);
void fsm_barrier_deferred(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard);
void fsm_barrier_reported(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                          uint64_t step);
void fsm_barrier_review(struct fsm *fsm, struct checkpoint *checkpoint);
/* ranks.c: of verified shards, whether each rank that a launcher counts is in one of them; else
 * which is not (NULL allowed). */
bool fsm_ranks_whole(const struct checkpoint *checkpoint, char detail[FSM_DETAIL_BYTES]);
const char *fsm_ranks_broken(const struct checkpoint *checkpoint); /* the broken rule; NULL: none */

/* copies.c: where a verified part lies. verified: at the target. kept, dropped: as the agent of the
 * node says. review: those that are not wanted any more go, from what the nodes are to keep as
 * well. forget: of a checkpoint that has nothing any more. */
/* The part has just been verified, and lies at the target of its checkpoint alone. */
void fsm_copies_verified(const struct checkpoint *checkpoint, struct fsm_shard *shard);
void fsm_copies_kept(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part,
                     const struct node *node);
void fsm_copies_dropped(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part,
                        const struct node *node);
/* When the job's checkpoints, its nodes, or whether it can be restarted have changed. */
void fsm_copies_review(struct fsm *fsm, struct allocation *allocation);
/* Whether a job that restores each part at its own place may begin without the target: a node that
 * is there has a copy of each part. A job that is started on other nodes waits all the same. */
bool fsm_copies_serve(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);
/* Before its shards are cleared, exchanged or freed, and when its folder is gone. */
void fsm_copies_forget(struct fsm *fsm, struct checkpoint *checkpoint);
/* Of a snapshot: whether the places can be, and the lists of copies made from them. */
bool fsm_copies_valid(const struct fsm *fsm, uint32_t target_slot, const uint64_t *places,
                      size_t count);
/* From the places that the snapshot gave the shards: the lists are not in it. False: no state has
 * such copies. */
bool fsm_copies_restore(struct fsm *fsm, struct checkpoint *checkpoint);
/* The broken rule of a checkpoint's copies (NULL: none); true: a node's list is as long as its
 * count. */
const char *fsm_copies_broken(const struct fsm *fsm, const struct checkpoint *checkpoint);
bool fsm_copies_counted(const struct node *node);

/* facts.c: a restart may begin from it; its checkpoints are another job's by now. */
bool fsm_checkpoint_restorable(const struct checkpoint *checkpoint);
bool fsm_allocation_continued(const struct allocation *allocation);
/* continues.c. check: whether a job that is to be registered may go on from the one that it names;
 * point: what it begins from, NULL: it names none. take: that has been registered, and gets what
 * was checked. */
/* ask: the other job is the caller's at all; comes before everything that tells how that one is. */
enum fsm_status fsm_continue_ask(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec);
enum fsm_status fsm_continue_check(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec,
                                   const struct fsm_checkpoint **ret_point,
                                   struct fsm_outcome *outcome);
void fsm_continue_take(struct fsm *fsm, struct allocation *to);
/* The rule that does not hold; NULL: all hold. */
const char *fsm_continue_broken(const struct fsm *fsm, const struct checkpoint *checkpoint);

/* facts.c: what a run that starts now begins from; NULL: from scratch. discarded_ms: what it
 * repeats because the target of its last checkpoint is away; 0: nothing. discarded: says so
 * (fsm/cluster/destination.c). */
const struct fsm_checkpoint *fsm_begin_choose(const struct fsm *fsm,
                                              const struct fsm_allocation *view,
                                              uint64_t *ret_discarded_ms);
void fsm_destination_discarded(struct fsm *fsm, const struct allocation *allocation,
                               uint64_t discarded_ms);
uint32_t fsm_damaged_count(const struct allocation *allocation);  /* facts.c: its checkpoints */
struct fsm_part fsm_begin_part(const struct assignment *part);    /* facts.c */
bool fsm_begin_all_restored(const struct allocation *allocation); /* facts.c */
uint32_t fsm_begin_shard_at(const struct fsm_allocation *view, uint32_t place,
                            const struct fsm_checkpoint *point); /* facts.c */
/* begin.c: what a run begins from. restored: the part has what it needs of the checkpoint. damaged:
 * it found a shard of that so. */
void fsm_begin_restored(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                        uint64_t checkpoint_id, Ckpt__V1__RestoreMode mode);
void fsm_begin_damaged(struct fsm *fsm, struct allocation *allocation, uint64_t checkpoint_id);
/* Likewise, of any complete one: what is to begin from it begins from another one. */
void fsm_begin_found_damaged(struct fsm *fsm, struct allocation *allocation,
                             struct checkpoint *checkpoint);
/* Its parts are to begin from it, each by the copy of its node: the target is not read. */
bool fsm_begin_by_copies(const struct fsm *fsm, const struct allocation *allocation,
                         const struct checkpoint *checkpoint);
void fsm_begin_whole(struct allocation *allocation);
/* When a job that is to begin does so without the checkpoint that it cannot read; UINT64_MAX: that
 * is not so, or it waits. discard: does so if it is time; false: it is not. */
uint64_t fsm_begin_discard_at_ms(const struct fsm *fsm, const struct fsm_allocation *view);
bool fsm_begin_discard(struct fsm *fsm, struct allocation *allocation);
/* The rule that does not hold; NULL: all hold. */
const char *fsm_begin_broken(const struct fsm *fsm, const struct allocation *allocation);

/* read.c: who reads a checkpoint from its target. wanted, ended: as the part says. clear: of all
 * its parts. limits_changed: of the target. review: an outage, or the policy. due: time has
 * passed. */
void fsm_read_wanted(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                     uint64_t checkpoint_id);
void fsm_read_ended(struct fsm *fsm, struct allocation *allocation, struct assignment *part);
void fsm_read_clear(struct fsm *fsm, struct allocation *allocation);
void fsm_read_limits_changed(struct fsm *fsm, struct target *target);
void fsm_read_target_gone(struct fsm *fsm, struct target *target);
void fsm_read_review(struct fsm *fsm);
uint64_t fsm_read_due_ms(const struct fsm *fsm, const struct allocation *allocation);
void fsm_read_due(struct fsm *fsm, struct allocation *allocation);
bool fsm_read_concerns(const struct assignment *part); /* it is to begin: it may want to read */
/* Of a snapshot: sums and lists of one job; the lines, when all are there. False: no state's. */
bool fsm_read_restore(struct fsm *fsm, struct allocation *allocation);
void fsm_read_restore_lines(struct fsm *fsm);
/* The rule that does not hold; NULL: all hold. */
const char *fsm_read_broken(const struct fsm *fsm, const struct allocation *allocation);
const char *fsm_read_target_broken(const struct fsm *fsm, const struct target *target);

/* places.c: places of what is written to a target (max_writes, S2-032). fit: all its parts have
 * one now; who has more parts than there are places is written alone. excused: the limit was
 * lowered, or parts have left: `count` of those that are there pass it. broken: by what; NULL. */
bool fsm_writes_fit(const struct target *target, const struct checkpoint *checkpoint);
void fsm_writes_excused(struct target *target, uint32_t count);
const char *fsm_writes_broken(const struct target *target);

/* alone.c: whose nodes are asked for. job: NULL: a new one. before: the stopped one that it
 * continues; NULL: none. shared: another one is on the node, will be, or may run there still, and
 * one of the two is sensitive. */
struct holder {
    bool sensitive;
    const struct allocation *job, *before;
};
bool fsm_node_is_shared(const struct fsm *fsm, const struct node *node,
                        const struct holder *holder);

/* apply_allocation.c: what a request says of its nodes. check: there is room for those that are
 * named for the first time. fill: makes these. take: they are the job's then. */
enum fsm_status fsm_shares_check(struct fsm *fsm, size_t count, fsm_share_message **messages,
                                 const struct holder *holder, struct fsm_outcome *outcome);
void fsm_shares_fill(struct fsm *fsm, struct fsm_node_share *shares, size_t count,
                     fsm_share_message **messages);
void fsm_shares_take(struct fsm *fsm, struct allocation *allocation,
                     const struct fsm_node_share *shares, uint32_t count);

/* fsm/cluster/platform.c: of the nodes that wrote it; it is complete. */
void fsm_platform_note(struct fsm *fsm, struct checkpoint *checkpoint);

/* parts.c: puts nodes in the order of their parts. keep: who is among the old ones stays before
 * those that are behind it, and keeps its place when there are as many as before. settle: who wrote
 * a shard of the checkpoint gets the part of that, when there are as many. */
void fsm_parts_keep(struct fsm *fsm, struct fsm_node_share *shares, uint32_t count,
                    const uint32_t *old_slots, uint32_t old_count);
void fsm_parts_settle(struct fsm *fsm, struct fsm_node_share *shares, uint32_t count,
                      const struct fsm_checkpoint *point);

/* retention.c */
void fsm_retention_review(struct fsm *fsm, struct allocation *allocation);
void fsm_retention_due(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_retention_make_room(struct fsm *fsm, struct allocation *allocation);
/* A part found a shard of it damaged: nothing begins from it any more, nor is it kept for that. */
void fsm_retention_damaged(struct fsm *fsm, struct allocation *allocation,
                           struct checkpoint *checkpoint);
/* expire: before its time; false: it is still needed, or it expires already. */
bool fsm_retention_expire(struct fsm *fsm, uint64_t checkpoint_id);
/* Also of those that its job would keep, but not of the two newest: its tenant has too much. */
bool fsm_retention_may_leave_early(const struct fsm *fsm, const struct checkpoint *checkpoint);
bool fsm_retention_leave_early(struct fsm *fsm, struct checkpoint *checkpoint);
enum fsm_status fsm_retention_pin(struct fsm *fsm, uint64_t checkpoint_id, bool pinned,
                                  struct fsm_outcome *outcome);
/* bytes: as its remover counted them; 0: it did not. */
enum fsm_status fsm_retention_collected(struct fsm *fsm, uint64_t checkpoint_id, uint64_t bytes);
void fsm_retention_leave(struct fsm *fsm,
                         struct allocation *allocation); /* removes it when expired and collected */

/* fsm/books/quota.c: the bytes of a tenant. count: a record came into its state, or leaves it.
 * leaves: it has just expired. concerns: a checkpoint of this purpose may be refused. refused: one
 * was; fills the outcome's numbers. event: about the tenant. keep_complete, retention_ms: of this
 * job. */
void fsm_quota_count(struct fsm *fsm, const struct checkpoint *checkpoint, bool active, bool in);
void fsm_quota_leaves(struct fsm *fsm, const struct checkpoint *checkpoint);
bool fsm_quota_concerns(Ckpt__V1__Purpose purpose);
void fsm_quota_refused(struct fsm *fsm, const struct allocation *allocation,
                       struct fsm_outcome *outcome);
void fsm_quota_event(struct fsm *fsm, uint32_t tenant_slot, const struct fsm_event *of);
uint32_t fsm_keep_complete(const struct fsm *fsm, const struct allocation *allocation);
uint64_t fsm_retention_ms(const struct fsm *fsm, const struct allocation *allocation);
/* The end of its retention for what is kept since then. */
uint64_t fsm_kept_until_ms(const struct fsm *fsm, const struct allocation *allocation,
                           uint64_t since_ms);
/* Of the policy or of a tenant: all jobs that have ended are looked at again, by Ticks. */
void fsm_retention_changed(struct fsm *fsm);
void fsm_retention_pass(struct fsm *fsm);
/* over_quota.c: the sums of all tenants are those of their checkpoints. */
bool fsm_quota_counted(const struct fsm *fsm);

/* undeleted.c. failed: false when there was nothing to note; a job that waited for nothing else
 * leaves then. detach: the record is about to leave its job's list. gone: false when it was not
 * among them. */
bool fsm_undeleted_failed(struct fsm *fsm, uint64_t checkpoint_id, const char *reason,
                          bool elsewhere);
void fsm_undeleted_detach(struct fsm *fsm, struct checkpoint *checkpoint);
bool fsm_undeleted_gone(struct fsm *fsm, uint64_t checkpoint_id);
/* While a snapshot is read; the texts are the caller's to set. */
/* With a place that is free, or becomes so; its texts are the caller's to set. */
struct undeleted *fsm_undeleted_new_place(struct fsm *fsm, uint64_t checkpoint_id,
                                          uint32_t target_slot);
struct undeleted *fsm_undeleted_place(struct fsm *fsm, uint32_t place, uint64_t checkpoint_id,
                                      uint32_t target_slot);
void fsm_undeleted_attach(struct fsm *fsm, struct undeleted *undeleted,
                          struct checkpoint *checkpoint);
void fsm_undeleted_free(struct fsm *fsm, struct undeleted *undeleted);
void fsm_undeleted_close(struct fsm *fsm);
struct undeleted *fsm_undeleted_edit(struct fsm *fsm, uint64_t checkpoint_id); /* NULL: none */

/* verify.c: complete checkpoints that are read again. reported: by a node, of a part. due_now: its
 * node's time is over. node_lost: what it read is read by others. */
struct report_verify {
    const Ckpt__V1__AgentReport *message;
    struct node *node;
    const char *detail; /* printable, may be empty */
};
enum fsm_status fsm_verify_reported(struct fsm *fsm, struct checkpoint *checkpoint,
                                    const struct report_verify *report);
void fsm_verify_due_now(struct fsm *fsm, struct verification *verification);
void fsm_verify_node_lost(struct fsm *fsm, struct node *node);

/* release.c: before a victim's nodes are given away another node reads its last checkpoint. begin:
 * it is complete, and the job is to stop or to shrink: now, or when that is done. step: so many
 * parts are passed over each time. passed: all were read, or (unread) why they were not. damaged:
 * it is marked. */
void fsm_release_begin(struct fsm *fsm, struct checkpoint *checkpoint);
uint32_t fsm_release_step(const struct fsm *fsm, const struct checkpoint *checkpoint);
void fsm_release_passed(struct fsm *fsm, struct checkpoint *checkpoint, const char *unread);
void fsm_release_damaged(struct fsm *fsm, struct checkpoint *checkpoint);

/* verify_nodes.c: who reads which part. possible: it is complete, whole and kept. give: false when
 * no node can, or so many tried. take: its node reads it no more. end: likewise, nor is it asked
 * for. adopt: of a restored one; false: it cannot be. broken: which of its rules does not hold. */
void fsm_verify_ask(struct fsm *fsm, struct checkpoint *checkpoint); /* at once, and told */
bool fsm_verify_give(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part, uint32_t tries);
/* Likewise, and its job keeps its nodes meanwhile, until that instant at the latest; by no node
 * that wrote the part. held: the checkpoint for which the job keeps its nodes so; NULL: none.
 * let_go: it is to end anyway. */
bool fsm_verify_hold(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part, uint32_t tries,
                     uint64_t until_ms);
const struct checkpoint *fsm_verify_held(const struct fsm *fsm,
                                         const struct allocation *allocation);
void fsm_verify_let_go(struct fsm *fsm, const struct allocation *allocation);
void fsm_verify_take(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_verify_end(struct fsm *fsm, struct checkpoint *checkpoint);
/* Somebody says that its application cannot begin from it: as if it were found damaged. */
enum fsm_status fsm_verify_reject(struct fsm *fsm, uint64_t checkpoint_id);
bool fsm_verify_adopt(struct fsm *fsm, struct checkpoint *checkpoint,
                      const struct fsm_verification *view);
const char *fsm_verify_broken(const struct fsm *fsm, const struct checkpoint *checkpoint);

/* removal.c: who removes a folder that the control nodes may not. give: false when no node can take
 * it now. link: of a restored one; false: it cannot be. take: no node is to remove it any more. */
bool fsm_removal_give(struct fsm *fsm, struct undeleted *undeleted);
bool fsm_removal_link(struct fsm *fsm, struct undeleted *undeleted);
void fsm_removal_take(struct fsm *fsm, struct undeleted *undeleted);
void fsm_removal_node_lost(struct fsm *fsm, struct node *node);
void fsm_scan_node_lost(struct fsm *fsm, const struct node *node);

#endif
