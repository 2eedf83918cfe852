/* The inside of struct world, shared by the world_*.c files. See world.h.
 *
 * Flow     world.c: life and phases; world_member.c: a ckptd without its loop and signals;
 *          world_agents.c: compute nodes; world_load.c: schedulers; world_storage.c: destinations;
 *          world_faults.c: chaos and healing; world_raft.c, world_state.c: checks of replication
 *          and of the replicated state; world_history.c: what clients saw.
 */
#ifndef CKPT_TESTS_SIM_WORLD_INTERNAL_H
#define CKPT_TESTS_SIM_WORLD_INTERNAL_H

#include <raft.h>

#include "raft/core/consensus_internal.h"
#include "src/broker/broker.h"
#include "src/broker/drill/faults.h"
#include "src/client/client.h"
#include "src/net/cut_network.h"
#include "tests/sim/world.h"

enum { WORLD_AGE_STEPS = 1024 };
enum { SECOND_US = 1000000, WORLD_NODES = WORLD_SCHEDULER_NODE + WORLD_SCHEDULERS_MAX };
_Static_assert((int)WORLD_NODES <= (int)SIM_NODES_MAX, "every process has its node");

#define WORLD_DISK_FREE_BYTES (UINT64_C(1) << 40)

#define WORLD_TENANT       "tenant" /* of all jobs */
#define WORLD_SPARE_TARGET "spare"  /* an operator's own */

enum { WORLD_FLIP_HASHES = 64 };
struct world_flip {
    bool odd;                           /* a bit of its state is another one than the others have */
    uint64_t began_index;               /* its log's end when it began */
    uint64_t index;                     /* the last before the flip */
    uint64_t last_index;                /* applied with it */
    uint64_t adopted;                   /* states from others, by then */
    uint64_t at_us;                     /* 0: never */
    uint64_t hashes[WORLD_FLIP_HASHES]; /* by index, since */
};

enum world_phase { WORLD_STARTING, WORLD_CHAOS, WORLD_HEALED, WORLD_OVER };

struct world_member {
    struct world *world;
    unsigned number;
    struct config *config; /* kept over restarts */
    struct sim_loop loop;
    struct disk_ops disk;
    struct network_ops network;
    struct consensus_member members[WORLD_MEMBERS_MAX];
    Ckpt__Log__V1__ClusterInit initial;
    Ckpt__V1__TargetSpec *initial_targets[WORLD_TARGETS_MAX];
    Ckpt__Log__V1__MemberFacts facts;
    struct replica_observer observer;
    /* the replica's: what starts its first command and its batches can be withheld */
    struct clock_ops clock;
    struct {
        void (*fire)(void *data);
        void *data;
        bool withheld, due;
    } flush;
    struct broker broker;
    struct disk_watch *disk_watch;
    struct member_watch *member_watch;
    struct leader_watch *leader_watch;
    bool up;
    bool doomed;       /* fatal() was called */
    bool claimed;      /* its folder is begun: it starts without bootstrap from now on */
    bool founded;      /* of a founder: it was a member once */
    bool half_claimed; /* its last start with bootstrap ended with an error of its disk */
    bool rotten;       /* a file of it was damaged: it may refuse to start */
    bool lost;         /* it refused to: its data is not trusted any more */
    bool joins;        /* it came later: it waits for its first start until it is added */
    bool removed;      /* from the cluster: it does not come back */
    bool away;         /* down until there is a leader without it */
    struct err fatal;
    uint64_t starts, kills;
    /* Seen after the last event, by world_raft.c. */
    uint64_t seen_term, seen_vote, seen_last_index, seen_commit;
    bool seen_leads;
    uint64_t compared_index; /* its log was compared up to here */
    /* L5: since when it has been behind that index of that leader, which it had been connected to
     * in this run. */
    uint64_t lag_since_us, lag_index, lag_leader, lag_starts;
    struct world_flip flip; /* I10 */
    /* world_drills.c: what its drills reach, in this life */
    struct {
        struct cut_network cut; /* under Raft */
        uint64_t cut_until_us;
        struct fault_ops faults;
        uint64_t dies_in; /* of its starts */
        void (*restored)(void *data, const char *failure);
        void *restored_data;
    } drill;
};

struct world_agent {
    const struct world_agent_ops *ops;
    void *process; /* NULL: down */
    struct sim_loop loop;
    char name[16];
    int64_t drift_ppm; /* of its node's clocks */
};

enum overtake_stage { OVERTAKE_NONE, OVERTAKE_CUT, OVERTAKE_RIVAL, OVERTAKE_AGAIN, OVERTAKE_LAST };
struct world_overtake {
    enum overtake_stage stage;
    unsigned first, rival;
    bool returned;
    uint64_t index;    /* of the entry that nobody else has */
    uint64_t until_us; /* the attempt ends */
};

struct scheduler;
struct history;
struct raft_checks;
struct state_checks;
struct victim_checks;
struct end_checks;
struct walltime_checks;
struct grant_checks;
struct preemption_checks;
struct done_checks;
struct retention_checks;
struct release_checks;
struct shard_checks;
struct rank_checks;
struct part_checks;
struct comeback_checks;
struct hang_checks;
struct state_dumps;
struct destination_checks;

/* Cuts between members and nodes' addresses: world_witness.c. */
struct world_witness {
    uint64_t blind_until_us[WORLD_MEMBERS_MAX]; /* this member reaches no node */
    uint64_t cut_until_us[WORLD_AGENTS_MAX];    /* cut_member does not reach this node */
    unsigned cut_member[WORLD_AGENTS_MAX];
};

/* Of processes that the state does not know: world_alone.c. */
struct world_alone {
    uint32_t shared_nodes; /* bits: a sensitive job shared it before level 2 */
    /* the last run of a part on a node for which no agent had spoken, or that was removed */
    uint64_t unheard_runs[WORLD_JOBS_MAX][WORLD_AGENTS_MAX];
};

struct world {
    struct world_options options;
    struct sim *sim;
    enum world_phase phase;
    uint64_t began_us, healed_us;
    unsigned member_count; /* that there ever were */
    struct world_member members[WORLD_MEMBERS_MAX];
    struct world_agent agents[WORLD_AGENTS_MAX];
    struct world_witness witness;
    uint64_t agents_checked_us; /* all of them */
    struct sim_loop scheduler_loops[WORLD_SCHEDULERS_MAX];
    struct scheduler *schedulers[WORLD_SCHEDULERS_MAX];
    struct world_target targets[WORLD_TARGETS_MAX];
    struct sim_work_ops work;
    struct world_job jobs[WORLD_JOBS_MAX];
    unsigned job_count;
    /* As the entry leaves them that is being looked at (world_entries.c); NULL: there is none. */
    const struct fsm_allocation *found[WORLD_JOBS_MAX];
    uint64_t register_value; /* of the last write of any register */
    uint64_t burst_count;
    struct world_overtake overtake;
    struct {
        uint64_t leader, starts; /* number + 1 and life of who serves; 0: nobody */
        uint64_t cycle_ms, since_us;
        bool first;             /* none of its cycles has ended yet */
        struct world_row *rows; /* by allocation slot */
        uint32_t row_count;
    } cadence; /* L2 */
    struct {
        uint64_t leader, starts, round, since_us;
    } reading; /* L1: the round of reads that is out */
    struct {
        uint64_t step;                       /* of 0.1 s */
        uint64_t committed[WORLD_AGE_STEPS]; /* the highest index at each */
        uint64_t applied[WORLD_AGE_STEPS];   /* ... that changed a state: no configuration */
    } age;                                   /* I7 of stale reads */
    struct {
        uint64_t leader, starts, term,
            since_us; /* number + 1, life and term of who serves; 0: nobody */
        uint64_t next_us;
        uint64_t applied_index, moved_us; /* of the log of who serves, and when it got on last */
        uint64_t stood_us;                /* it last stood still then */
        /* the last that was found unavailable had begun then */
        uint64_t seen_us[WORLD_TARGETS_MAX];
    } outages; /* I35 */
    struct {
        struct world_member *member; /* of whose folder there is a copy; NULL: of nobody's */
        uint64_t last_index;         /* of its log, then */
    } older;                         /* I11 */
    char endpoints[512];
    struct member_changes *changes;
    struct world_operator *desk;
    struct cluster_pauses *cluster_pauses; /* NULL: there are none */
    struct world_drills *drills;
    struct world_operator *remover; /* likewise, of nodes */
    struct stale_reads *stale;
    struct world_streams *streams;
    struct history *history;
    struct raft_checks *raft;
    struct state_checks *state;
    struct victim_checks *victims;
    struct end_checks *ends;
    struct walltime_checks *walltimes;
    struct grant_checks *grants;
    struct preemption_checks *preemptions;
    struct done_checks *done;
    struct retention_checks *retention;
    struct release_checks *releases;
    struct shard_checks *shards;
    struct rank_checks *ranks;
    struct part_checks *parts;
    struct comeback_checks *comebacks;
    struct hang_checks *hangs;
    struct world_alone alone;
    struct state_dumps *dumps;
    struct destination_checks *destinations;
    struct orphan_checks *orphans;
    uint64_t interval_ms; /* of the evaluator, the longest that it ever had */
    /* What happened, for the summary. */
    struct {
        uint64_t crashes, dead_disks, disk_errors, partitions, resets, pauses, clock_steps, slow,
            full;
        uint64_t rots, flaps, agent_crashes, transfers, elected, overtaken, lost_members,
            lost_starts;
        uint64_t added, promoted, removed, grown_and_back, turned_away;
        uint64_t nodes_removed;
        uint64_t witnessed; /* nodes that were off by a witness */
        uint64_t elections, applied, snapshots_installed, asked, shards, terminated;
        uint64_t requests, acknowledged, refused, unknown, reads;
        uint64_t leader_us, equal_us, converge_us, failover_us, elected_us, lag_us;
        uint64_t standstills, stragglers, unready, unready_us;
        uint64_t evaluations, evaluation_us; /* seen of single jobs, and the longest wait for one */
        uint64_t epochs;
        uint64_t drills, drills_passed, drill_faults, drill_trials;
        uint64_t operated, cluster_pauses, stale_reads, watched, backups, undeleted;
        uint64_t removed_by_agents; /* folders */
        uint64_t held;              /* victims whose checkpoint was read before they were ended */
        uint64_t over_quota, let_go_early; /* refused for a tenant's limit, as told; gone for it */
        uint64_t read_again;               /* orders to read a part, as often as they were sent */
        uint64_t unforced_ends;            /* without a checkpoint: I58 */
        uint64_t forced, extended;         /* victims of an outage; attempts on nodes */
        uint64_t deferred;                 /* reports of model agents */
        uint64_t journal_bytes, kept_reports; /* the most of an agent, without any member */
        uint64_t commands[COMMAND_EVENTS];    /* saves from outside */
        uint64_t stood_still;                 /* complete, with which their jobs ended */
        uint64_t labelled, met; /* complete, of one label; of a step that was agreed */
        uint64_t late;          /* folders written after they were removed */
        uint64_t orphans_shown; /* as often as they were listed */
        uint64_t continued;     /* checkpoints that went over to another job */
        uint64_t hangs, hangs_told, hang_ends; /* of jobs; HUNG; runs that ended for it */
        uint64_t sensitive;                    /* jobs that were registered */
        uint64_t comebacks, spares; /* restarts by the broker; nodes new to the job in them */
        /* the latter with ranks that have streams; what those were told, faults meanwhile */
        uint64_t met_on_streams, told_steps, barrier_faults;
        uint64_t outages;           /* found out by probes, in time */
        uint64_t recomputed;        /* decisions, from what the log has of them */
        uint64_t older;             /* copies of folders put back at the end */
        uint64_t odd_samples;       /* lines of exporters */
        uint64_t flips, flips_told; /* of one bit, and of which the member said so */
    } counts;
};

/* world.c */
void world_step(struct world *world);
void world_run_until(struct world *world, uint64_t us);
/* A bit for each member that the last event may have changed. */
uint64_t world_touched_members(const struct world *world);

/* world_silence.c */
void silence_keep(struct world *world);

/* world_bounds.c */
/* The leader of a cluster that can do without it, with nothing slow under way; NULL: it cannot. */
struct world_member *bounds_calm_leader(struct world *world);
void bounds_failover(struct world *world);
void bounds_standstill(struct world *world);
void bounds_straggler(struct world *world);
void bounds_unready(struct world *world);
void bounds_lag(struct world *world);
void bounds_cadence(struct world *world);
void bounds_reads(struct world *world);
void bounds_close(struct world *world);
void bounds_age(struct world *world);
/* A member has answered that its state is that old, and of this index, then or later. */
void bounds_age_answered(struct world *world, unsigned member, uint64_t age_ms, uint64_t applied,
                         uint64_t at_us);

/* world_member.c */
void member_init(struct world *world, unsigned number);
void member_close(struct world_member *member);
/* Tries again later when it cannot start for a reason that passes. */
void member_start(struct world_member *member);
void member_kill(struct world_member *member);
/* Its application proposes nothing until it is let again, or the process ends: if it is elected it
 * does not come to serve. */
void member_withhold(struct world_member *member);
void member_release(struct world_member *member);
/* Kills and buries what failed since the last event. */
void members_bury(struct world *world);
/* It belongs to the cluster as its leader sees it, and is expected to work. */
bool member_counts(struct world *world, const struct world_member *member);
/* Is one of the beginning left, of whom alone schedulers and agents know? The others may have lost
 * their data. */
bool members_known(struct world *world);
/* The serving leader of the highest term, NULL: none. */
struct world_member *members_leader(struct world *world);
/* One that libraft calls the leader, serving or not, beside this one. */
const struct world_member *members_leader_but(const struct world *world,
                                              const struct world_member *other);
const struct fsm *member_fsm(const struct world_member *member);
struct consensus *member_consensus(const struct world_member *member);

/* world_agents.c */
void agents_init(struct world *world);
void agents_start(struct world *world);
void agent_kill(struct world *world, unsigned agent);
void agent_kill_for(struct world *world, unsigned agent, uint64_t away_us);
void agent_start(struct world *world, unsigned agent);
void agents_calm(struct world *world);
void agents_close(struct world *world);
void agents_check(struct world *world);
/* world_starts.c: empty, or which job runs and is not known to. */
const char *starts_unsettled(struct world *world);
struct world_job *job_find(struct world *world, const char *id);

/* world_storage.c */
void storage_init(struct world *world);
void storage_set(struct world *world, unsigned target, enum world_storage_state state);

/* world_outages.c */
void outages_check(struct world *world); /* after every event */
/* A paused checkpoint may end so: cancel_asked: somebody has asked for it. */
bool outage_ends_paused(const struct fsm *fsm, const Ckpt__V1__Event *event, bool cancel_asked);

/* world_overtake.c */
void overtake_begin(struct world *world);
void overtake_elected(struct world_member *member);
void overtake_step(struct world *world); /* after every event */

/* world_load.c */
void load_init(struct world *world);
void load_start(struct world *world);
void load_stop(struct world *world); /* no new requests; what is under way ends */
bool load_idle(const struct world *world);
void load_close(struct world *world);

/* world_places.c: what a job runs on */
/* The part of a registration, an update or a restart: a share per node of the mask. The texts are
 * the world's. */
struct node_shares {
    Ckpt__V1__NodeShare items[WORLD_AGENTS_MAX], *pointers[WORLD_AGENTS_MAX];
    size_t count;
};
void places_fill(struct world *world, uint32_t mask, bool borrowed, struct node_shares *ret_shares);
/* Another set than it has now, most of the time. */
uint32_t places_draw(struct world *world, struct world_job *job);
uint32_t places_mask(const Ckpt__V1__AllocationSpec *spec);
/* Its scheduler hears that these are its nodes, as of an applied index: applications start on those
 * that are new to it. */
void places_start(struct world *world, const struct world_job *job, uint32_t mask);
/* It runs there, nothing of it is started yet. */
void places_placed(struct world_job *job, uint32_t mask, uint64_t index);
void places_known(struct world *world, struct world_job *job,
                  const Ckpt__V1__Allocation *allocation);

/* world_operator.c */
void operator_start(struct world *world);
void operator_close(struct world *world);
/* world_cluster_pauses.c */
void cluster_pauses_start(struct world *world);
void cluster_pauses_close(struct world *world);
void cluster_pauses_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
/* world_drills.c */
void drills_init(struct world *world);
void drills_start(struct world *world);
void drills_stop(struct world *world);
void drills_close(struct world *world);
void drills_member_start(struct world_member *member);
void drills_member_end(struct world_member *member);
void drills_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
/* A drill is to fail the target's probes; else since when none does any more, 0: none ever did. */
bool drills_hold_target(const struct world *world, unsigned target, uint64_t *ret_released_us);
void drills_step(struct world *world);  /* after every event of a member */
void drills_look(struct world *world);  /* while all is well */
void drills_equal(struct world *world); /* when all members are equal */
void drills_trial(struct world *world);
const char *drills_unsettled(struct world *world);
/* One who reads of any member (world_stale.c). */
void stale_start(struct world *world);
void stale_close(struct world *world);

/* world_streams.c */
void streams_start(struct world *world);
void streams_close(struct world *world);

/* world_membership.c */
void changes_start(struct world *world);
void changes_close(struct world *world);

/* world_bursts.c */
void bursts_start(struct world *world);
void bursts_propose_large(struct world_member *member, size_t bytes);
bool bursts_go_on(const struct world *world);
void bursts_propose(struct world_member *member); /* a command that changes nothing */
/* All that was acknowledged is sent again, as far as it is kept: the outcome must be the same. Each
 * job is read once. */
void load_repeat(struct world *world);

/* world_faults.c */
void faults_start(struct world *world);
void faults_heal(struct world *world);
/* Those who stayed away come back. */
void faults_return(struct world *world);
/* What is left of it when `leaving` has gone keeps the data, also when the victim has lost its own
 * (WORLD_MEMBERS_MAX: nobody). */
bool faults_leave_majority(const struct world *world,
                           const struct raft_configuration *configuration, unsigned victim,
                           unsigned leaving);
/* A copy of its folder that was kept takes the place of what it has. */
void faults_put_back(struct world *world, struct world_member *member);
/* It has just become leader. */
void faults_elected(struct world_member *member);

/* world_flips.c */
void do_flip(struct world *world);
void flips_started(struct world_member *member);
/* It has applied the index; true: with another state than the others, that counts for nothing. */
bool flips_applied(struct world_member *member, uint64_t index, uint64_t hash);
bool flips_odd_at(const struct world_member *member, uint64_t index);
void flips_ended(struct world_member *member); /* it has failed, and is about to be buried */
void flips_step(struct world *world);
void flips_heal(struct world *world);

/* world_older.c */
void older_keep(struct world *world);
void older_put_back(struct world *world);

/* world_odd.c */
void odd_start(struct world *world);

/* world_raft.c */
void raft_checks_init(struct world *world);
void raft_checks_close(struct world *world);
void raft_checks_role(struct world_member *member, enum consensus_role role, uint64_t term);
void raft_checks_step(struct world *world);
uint64_t raft_checks_committed(const struct world *world); /* the highest index */
void raft_checks_started(struct world_member *member);
/* Its disk is gone, and what it remembered of terms and votes with it. */
void raft_checks_wiped(struct world_member *member);
void raft_checks_logs(struct world *world);
/* The change of members was acknowledged. */
void raft_checks_changed(struct world *world, const char *method, uint64_t id);

/* world_state.c */
void state_checks_init(struct world *world);
void state_checks_close(struct world *world);
/* It was complete in a committed state, whichever member had applied that; and the newest that was,
 * of the allocation. */
bool state_checks_completed(struct world *world, uint64_t checkpoint_id);
uint64_t state_checks_last_complete(struct world *world, const char *allocation_id);
/* It is the other job's from now on; false: it is none that could be. */
bool state_checks_goes_over(struct world *world, uint64_t id, const struct world_job *from,
                            const struct world_job *to);
/* The oldest of the allocation above the id; 0: none. */
uint64_t state_checks_next_complete(struct world *world, const char *allocation_id, uint64_t id);
/* What all members had at the index, as far as anybody applied it; what the event was when it was
 * first applied. */
bool state_checks_hash_is(const struct world *world, uint64_t index, uint64_t hash);
uint64_t streams_event_hash(const Ckpt__V1__Event *event, bool measures);
bool state_checks_event_is(const struct world *world, const Ckpt__V1__Event *event);
/* The last event that the state at `index` certainly has; 0: none. With options.streams only. */
uint64_t state_checks_events_by(const struct world *world, uint64_t index);
/* The last one that the allocation began; 0: none. */
uint64_t state_checks_newest(const struct world *world, const char *allocation_id);
/* I20: an order of that index for an attempt: in that state it was dispatched, and had not
 * ended. */
void state_checks_ordered(struct world *world, const Ckpt__V1__Order *order, uint64_t index);
/* Somebody asks for its end; it ended in the entry of that index. */
void state_checks_cancel(struct world *world, uint64_t checkpoint_id);
bool state_checks_ended_at(struct world *world, uint64_t checkpoint_id, uint64_t index);
/* ... by the state's clock. */
uint64_t state_checks_started_ms(const struct world *world, const struct world_job *job);
/* Of its part on the node, now or when it last had one; 0: it never had. */
uint64_t state_checks_run(const struct world *world, const struct world_job *job, unsigned agent);
/* The run is that of its part on the node now. */
bool state_checks_is_run(const struct world *world, const struct world_job *job, unsigned agent,
                         uint64_t run);
/* The node is one of the allocation's in the newest committed state. */
bool state_checks_has_node(const struct world *world, const char *allocation_id, unsigned agent);
/* ... and its part there is that of this run: the node has not left and joined again since, nor
 * the job been restarted. */
bool state_checks_has_part(const struct world *world, const char *allocation_id, unsigned agent,
                           uint64_t run);
/* Of an allocation in this state: its nodes are its own. */
static inline bool state_holds_nodes(uint32_t state)
{
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
}
/* When a job was registered or restarted last, and since which index it runs. */
struct job_times {
    uint64_t runs_index, began_index, began_us;
};
const struct job_times *state_checks_times(const struct world *world, const struct world_job *job);
void state_checks_applied(struct world_member *member);
void state_checks_whole(struct world *world); /* fsm_check() of one member, by turns */
void state_checks_equal(struct world *world); /* at the end: the same bytes everywhere */
/* It had ended for good, and its records have left the state. */
bool state_checks_gone(const struct world *world, unsigned job);
/* Empty when everything that must come to an end has; else what has not. */
const char *state_checks_settled(struct world *world, uint64_t *ret_stops_us);

/* Active ones of the target that wait for nothing. */
uint32_t state_checks_unpaused(const struct world *world, uint32_t target_slot);
/* I34: the timeout of an attempt, which begins on a node, or is longer than it was. extended: it
 * becomes no longer. */
void world_timeout(struct world *world, uint64_t checkpoint_id, uint32_t attempt, bool grew,
                   bool extended);

/* world_victims.c */
void victims_init(struct world *world);
void victims_close(struct world *world);
/* Of the first member that applies an entry: each event of it, before others note it; then the
 * entry. */
void victims_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
void victims_applied(struct world *world, const struct fsm *fsm, uint64_t index);
/* Up to which report the state has those of the node. */
uint64_t victims_known(const struct world *world, unsigned agent);
/* How often its node was removed: the state may count its reports from the first one again. */
unsigned victims_removals(const struct world *world, unsigned agent);
/* An operator has said that the machine is off, rightly or not. */
bool victims_off(const struct world *world, unsigned agent);
/* ... or was until a moment ago: its agent still ends the runs that the wrong word left there. */
bool victims_was_off(const struct world *world, unsigned agent);

/* world_witness.c: members try the addresses of nodes. */
void witness_start(struct world_member *member);
/* Where a node is tried, for its agent to tell; "off": nowhere. */
const char *witness_address(const struct world *world, unsigned agent);
/* A node is off by this NodeWitness: members must not have been wrong. */
void witness_check(struct world *world, unsigned agent, uint32_t who);
/* The entry that was just applied made it a victim; what it is one of forces, in an outage. */
bool victims_targets_moved(const struct world *world);
/* Of who was taken in this entry: its strategy may have been that one, and be another one by
 * now. */
bool victims_strategy(const struct world *world, const struct fsm_allocation *allocation,
                      Ckpt__V1__Strategy strategy);
bool victims_taken_now(const struct world *world, const char *allocation_id);
/* Its preemption forces it; _away: and nothing can be written of it. */
bool victims_forced(const struct fsm *fsm, const struct fsm_allocation *allocation);
bool victims_forced_away(const struct world *world, const struct fsm *fsm,
                         const struct fsm_allocation *allocation);

/* world_ends.c */
/* The allocation moved to another state in the entry of that index. */
bool ends_moved_at(const struct world *world, unsigned job, uint64_t index);
/* Whether an end that failed is told of a job that was stopped before, and whose policy asks for
 * another run: F-015. */
bool ends_repeats_at(const struct world *world, unsigned job, uint64_t index, bool node_failure);
void ends_event(struct world *world, const Ckpt__V1__Event *event, uint64_t index);
void ends_init(struct world *world);
void ends_close(struct world *world);
void ends_applied(struct world *world, const struct fsm *fsm, uint64_t index); /* before victims_ */
struct part_wanted {
    uint64_t run;
    bool ends;                      /* it is told to */
    uint64_t began_ms, walltime_ms; /* by the state's clock; walltime_ms 0: none */
};
/* Of the part of a job on a node, as of an index. False: there is none. */
bool ends_part(const struct world *world, unsigned job, unsigned agent, uint64_t index,
               struct part_wanted *ret_part);
/* False: that part never had this walltime. */
bool ends_has_had(const struct world *world, unsigned job, unsigned agent, uint64_t run,
                  uint64_t walltime_ms, uint64_t *ret_end_ms);
/* As of the last entry nothing of the job may run on, or it is told to end. */
bool ends_wanted(const struct world *world, unsigned job, unsigned agent);
/* As of that index, by the state or by an order, nothing of this run may run there. */
bool ends_unwanted(const struct world *world, unsigned job, unsigned agent, uint64_t index,
                   uint64_t run);

/* world_walltimes.c */
void walltimes_init(struct world *world);
void walltimes_close(struct world *world);
void walltimes_applied(struct world *world, const struct fsm *fsm, uint64_t index);
uint64_t walltimes_last_index(const struct world *world); /* that was applied */
void walltimes_ordered(struct world *world, unsigned agent, const Ckpt__V1__OrderSet *orders);

/* world_grants.c */
void grants_init(struct world *world);
void grants_close(struct world *world);
/* As for victims_. */
void grants_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
void grants_applied(struct world *world, const struct fsm *fsm);
/* The first member that applies an entry has done so, and all its events were told. */
void grants_leader_applied(struct world_member *member);
/* It may pass the bandwidth limit: it stops a victim, or is for the last safe slot before a
 * walltime (S1-094), whatever follows it now. */
bool grants_has_deadline(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);

/* world_preemptions.c */
void preemptions_init(struct world *world);
void preemptions_close(struct world *world);
void preemptions_event(struct world *world, const Ckpt__V1__Event *event);
void preemptions_applied(struct world *world, const struct fsm *fsm);

/* world_done.c */
void done_init(struct world *world);
void done_close(struct world *world);
void done_event(struct world *world, const Ckpt__V1__Event *event, uint64_t index);
void done_applied(struct world *world, const struct fsm *fsm, uint64_t index);
/* The request was acknowledged, for the first time. */
void done_check(struct world *world, const char *what, const ProtobufCMessage *request,
                const ProtobufCMessage *reply);

/* A linearizable read of the operator's, asked for when that was the highest acknowledged index. */
void done_read(struct world *world, const char *what, uint64_t known,
               const ProtobufCMessage *reply);

/* world_releases.c: applied before the others look at the entry. held_at: by the state of that
 * index, or the one before. ended_at: by that entry. */
void releases_init(struct world *world);
void releases_close(struct world *world);
void releases_applied(struct world *world, const struct fsm *fsm, uint64_t index);
bool releases_held_at(const struct world *world, uint64_t checkpoint_id, uint64_t index);
bool releases_ended_at(const struct world *world, uint64_t checkpoint_id, uint64_t index);

/* world_retention.c */
void retention_init(struct world *world);
void retention_close(struct world *world);
void retention_event(struct world *world, const Ckpt__V1__Event *event);
void retention_applied(struct world *world, const struct fsm *fsm);
/* The job in whose folder it lies, which has ended: who has it now may be another one. */
const char *retention_home(struct world *world, uint64_t checkpoint_id);
void retention_damaged(struct world *world, uint64_t checkpoint_id);
void retention_collected(struct world *world, uint64_t checkpoint_id, const char *path);
bool retention_let_go(const struct world *world, uint64_t checkpoint_id);
void retention_check_known(struct world *world, const struct fsm *fsm);

/* world_continues.c: a job that is to be registered goes on from one that has stopped. draw: which
 * one, and its own nodes; NULL: none. program: it reads what that one wrote. first: with whose
 * computation it goes on. */
const struct world_job *continues_draw(struct world *world, struct world_job *job);
void continues_program(const struct world_job *old, struct world_job *job);
const char *continues_first(struct world *world, const char *allocation_id);
void continues_event(struct world *world, const Ckpt__V1__Event *event);

/* world_comebacks.c: jobs that the broker restarts. */
void comebacks_init(struct world *world);
void comebacks_close(struct world *world);
/* A job is about to be registered: by whom it is restarted, and how often it may fail. */
void comebacks_draw(struct world *world, struct world_job *job, Ckpt__V1__AllocationSpec *spec);
void comebacks_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
void comebacks_applied(struct world *world, const struct fsm *fsm);
/* The run on that node began by the broker's choice, and is the job's. */
bool comebacks_is_run(const struct world *world, const struct world_job *job, unsigned agent,
                      uint64_t run);
/* When the broker restarted a job last, in the simulator's time; 0: it never did. */
uint64_t comebacks_last_us(const struct world *world);
/* Empty, or which job the broker has to restart and does not. */
const char *comebacks_unsettled(struct world *world);

/* world_hangs.c: jobs of which no rank steps any more. */
void hangs_init(struct world *world);
void hangs_close(struct world *world);
/* A job is about to be registered, after comebacks_draw(): what follows from its hangs. */
void hangs_draw(struct world *world, struct world_job *job, Ckpt__V1__AllocationSpec *spec);
/* A rank of that run has said a step; a program of the job begins; whether it hangs. */
bool hangs_stepped(struct world *world, const char *allocation_id, uint64_t run);
/* With that step, where the former says so: on all nodes, or on this one alone. */
void hangs_begin(struct world *world, const char *allocation_id, unsigned agent);
void hangs_started(struct world *world, const char *allocation_id);
bool hangs_now(struct world *world, const char *allocation_id, uint64_t run);
/* ... on that node, or on another one alone. */
bool hangs_there(struct world *world, const char *allocation_id, unsigned agent);
void hangs_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
/* Empty, or which job hangs and is to be restarted. */
const char *hangs_unsettled(struct world *world);

/* world_alone.c: beside sensitive jobs is nobody. */
void alone_draw(struct world *world, struct world_job *job); /* its nodes are drawn already */
void alone_applied(struct world *world, const struct fsm *fsm);
/* A program of the first job begins on the node, where one of that run of the other lives. */
void alone_begins(struct world *world, const char *allocation_id, const char *other_id,
                  uint64_t other_run, unsigned agent);
/* A part of that run is not the job's any more, and its node is no such one of the job. */
bool alone_left_unheard(const struct world *world, unsigned job, unsigned agent, uint64_t run);

/* world_shards.c */
void shards_init(struct world *world);
void shards_close(struct world *world);
void shards_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);

/* world_parts.c */
void parts_init(struct world *world);
void parts_close(struct world *world);
void parts_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
/* What that node wrote of the checkpoint is of a place that this one has in its job. */
bool parts_may_begin_from(const struct world *world, const struct world_job *job, unsigned agent,
                          uint64_t run, uint64_t checkpoint_id, unsigned writer);
/* It came to a run that had begun: it restores nothing. Also when it is of another run. */
bool parts_joined(const struct world *world, const struct world_job *job, unsigned agent,
                  uint64_t run);

/* An application of that run begins from it, 0: from scratch. */
void parts_began(struct world *world, const struct world_job *job, unsigned agent, uint64_t run,
                 uint64_t checkpoint_id);

/* world_ranks.c */
void rank_checks_init(struct world *world);
void rank_checks_close(struct world *world);
/* What ranks a job has, and what they call what they save. */
void rank_checks_draw(struct world *world, struct world_job *job);
void rank_checks_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);

/* world_barriers.c */
/* A rank on the node is at a moment of a barrier: at times the leader does not outlive it, or the
 * node's agent. */
void barriers_fault(struct world *world, unsigned agent);

/* world_entries.c */
void entries_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                   uint64_t index);
void entries_applied(struct world *world, const struct fsm *fsm, uint64_t index);

/* world_destinations.c */
void destinations_init(struct world *world);
/* What an agent is configured with at a start: "d0", "d1", or "" for none. */
const char *world_domain_draw(struct world *world);
/* In this entry what the job's destination follows from has become another. */
bool destinations_moved(const struct world *world, const struct fsm *fsm, unsigned job);
/* 1 + the slot of that of the job's youngest checkpoint; 0: it has none. */
unsigned destinations_last(const struct world *world, unsigned job);
void destinations_close(struct world *world);
/* As for victims_. */
void destinations_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event);
void destinations_applied(struct world *world, const struct fsm *fsm);
void retention_ordered(struct world *world, const Ckpt__V1__Order *order);
void retention_read_again(struct world *world, const Ckpt__V1__Order *order);

/* world_orphans.c */
void orphans_init(struct world *world);
void orphans_start(struct world *world);
void orphans_stop(struct world *world);
void orphans_close(struct world *world);
/* A checkpoint's folder has gone. */
void orphans_collected(struct world *world, const char *path);
/* What a scan of the prefix prints, behind that path. control: it is of a control node, which may
 * not look into every folder. */
void orphans_page(const char *prefix, const char *after, bool control, char *text, size_t size);
/* What of that has not gone again; "": nothing. */
const char *orphans_left(struct world *world);
bool retention_hides(const char *path);
const char *retention_rotten(struct world *world);
void destinations_ordered(struct world *world, unsigned job, const Ckpt__V1__Order *order);

/* world_dumps.c */
void dumps_init(struct world *world);
void dumps_close(struct world *world);
void dumps_applied(struct world_member *member, uint64_t index);
/* Of the same index: sessions and events as well. */
void dumps_compare(struct world_member *member, const struct world_member *other);

/* world_decisions.c */
void decisions_check(struct world_member *member, uint64_t checkpoint_id); /* it was just created */
void decisions_check_all(struct world_member *member);

/* world_history.c */
void history_init(struct world *world);
void history_close(struct world *world);
/* A register per job: written by registration and updates, with a value of its own each time.
 * Returns the operation. */
size_t history_begin(struct world *world, unsigned job, bool write, uint64_t value);
/* index: where it took effect (writes), or that of the state that was read. */
void history_end(struct world *world, size_t operation, uint64_t value, uint64_t index);
/* Any request that was made when the highest acknowledged index was `known`: where it took effect,
 * or the index of what was read. */
void history_answered(struct world *world, uint64_t known, uint64_t index, bool write,
                      const char *what);
/* It certainly had no effect. An operation without an end may have had one. */
void history_forget(struct world *world, size_t operation);
void history_check(struct world *world);
/* The highest index that was acknowledged to anyone so far. */
uint64_t history_acknowledged(const struct world *world);

#endif
