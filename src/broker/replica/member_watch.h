/* Keeps the replicated list of members and Raft's own one telling the same.
 *
 * Flow     on every member: what the state says about addresses goes into Raft's address book. On
 *          the leader: each change that Raft has committed becomes a MemberRoleChange (an event for
 *          people, and the tombstone of an id); members without an entry in the address book, or
 *          found elsewhere, get MemberFacts. On every member: who shows up with another history is
 *          logged.
 * Shapes   level-triggered: whatever differs is proposed, again every MEMBER_WATCH_MS while it
 *          does, so that a leader that dies in between loses nothing.
 * Errors   a proposal that fails is made again by the next look; one that the state refuses is
 *          logged as member_record_refused.
 */
#ifndef CKPT_BROKER_MEMBER_WATCH_H
#define CKPT_BROKER_MEMBER_WATCH_H

struct broker;
struct member_watch;

enum { MEMBER_WATCH_MS = 1000 };

/* On every member, after the replica was opened. Freed after it was closed, when every proposal was
 * answered. */
struct member_watch *member_watch_new(struct broker *broker);
void member_watch_free(struct member_watch *watch);

#endif
