/* A job under a new id goes on from the checkpoints of one that has stopped: S3-007, S3-008,
 * S3-049, I57. */
#include "fsm/begin.h"
#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "tests/unit/fsm/expect.h"

/* j1 has two complete checkpoints, 1-1 and 1-2, and has stopped. */
static void start_stopped(struct script *script)
{
    script_start(script);
    expect_ok(script, "policy min_interval=1 keep=2");
    expect_ok(script, "register j1 nodes=n1 gpus=4");
    expect_complete(script, "j1", 1);
    expect_ok(script, "after 5000");
    expect_complete(script, "j1", 2);
    expect_ok(script, "end j1 failed node_failure");
    expect_job(script, "j1", REQUEUED);
}

static void expect_path(const struct script *script, uint64_t sequence, const char *path)
{
    char text[256];

    assert_true(
        fsm_checkpoint_path(script->fsm, checkpoint_of(script, sequence), text, sizeof(text)) > 0);
    assert_string_equal(text, path);
}

static const struct fsm_allocation *owner_of(const struct script *script, uint64_t sequence)
{
    return fsm_allocation_at(script->fsm, checkpoint_of(script, sequence)->allocation_slot);
}

static size_t events_of(const struct script *script, Ckpt__V1__EventKind kind,
                        const Ckpt__V1__Event **ret_last)
{
    const Ckpt__V1__Event *event;
    uint64_t after = 0;
    size_t count = 0;
    bool gap;

    *ret_last = NULL;
    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        if (event->kind != kind)
            continue;
        *ret_last = event;
        count++;
    }
    return count;
}

/* S3-007: nothing is copied, renamed or written: the records say whose they are. */
static void complete_checkpoints_go_over_and_lie_where_they_lay(void **unused)
{
    const Ckpt__V1__Event *event;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n5 gpus=4 continues=j1 starting");
    assert_uint_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 2));
    for (uint64_t i = 1; i <= 2; i++) {
        assert_string_equal(owner_of(&script, i)->id, "j2");
        assert_string_equal(checkpoint_of(&script, i)->home, "j1");
    }
    expect_path(&script, 1, "/scratch/physics/climate/j1/checkpoints/1-1");
    expect_path(&script, 2, "/scratch/physics/climate/j1/checkpoints/1-2");
    assert_int_equal(events_of(&script, CKPT__V1__EVENT_KIND__EVENT_KIND_CONTINUED, &event), 2);
    assert_string_equal(event->allocation_id, "j2");
    assert_string_equal(event->subject, "j1");
    assert_uint_equal(event->checkpoint_id, checkpoint_id_make(1, 2));
    assert_uint_equal(event->number, checkpoint_of(&script, 2)->size_bytes);
    assert_uint_equal(job_of(&script, "j2")->restart_id, checkpoint_id_make(1, 2));
    assert_uint_equal(job_of(&script, "j2")->last_complete_id, checkpoint_id_make(1, 2));
    assert_uint_equal(job_of(&script, "j2")->previous_complete_id, checkpoint_id_make(1, 1));
    script_restore(&script);
    assert_string_equal(owner_of(&script, 1)->id, "j2");
    expect_path(&script, 1, "/scratch/physics/climate/j1/checkpoints/1-1");
    assert_string_equal(job_of(&script, "j2")->continues, "j1");
    script_close(&script);
}

/* S3-008: its own checkpoints lie in its own folder, beside whatever lies there. */
static void what_it_writes_lies_in_its_own_folder(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 continues=j1");
    expect_job(&script, "j2", RUNNING);
    expect_complete(&script, "j2", 3);
    expect_path(&script, 3, "/scratch/physics/climate/j2/checkpoints/1-3");
    assert_string_equal(checkpoint_of(&script, 3)->home, "");
    assert_uint_equal(job_of(&script, "j2")->previous_complete_id, checkpoint_id_make(1, 2));
    /* it keeps two: the eldest goes by its retention, from the folder of the one before */
    expect_ok(&script, "after 604800001");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1 1-2");
    assert_int_equal(script.outcome.current, 1);
    expect_checkpoint(&script, 1, COLLECTED);
    expect_checkpoint(&script, 2, COMPLETE);
    script_close(&script);
}

/* I28: what cannot be removed stays known by the folder in which it lies. */
static void a_folder_that_cannot_be_removed_is_known_by_its_home(void **unused)
{
    const struct fsm_undeleted *undeleted;
    char path[256];
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 continues=j1");
    expect_complete(&script, "j2", 3);
    expect_ok(&script, "end j2");
    expect_ok(&script, "after 604800001");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1 why=EACCES");
    expect_ok(&script, "collected 1-2 1-3"); /* both jobs leave */
    assert_null(fsm_allocation_find(script.fsm, "j2"));
    undeleted = fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1));
    assert_non_null(undeleted);
    assert_true(fsm_undeleted_path(script.fsm, undeleted, path, sizeof(path)) > 0);
    assert_string_equal(path, "/scratch/physics/climate/j1/checkpoints/1-1");
    script_close(&script);
}

/* It stays as it is, and says where its checkpoints are. */
static void the_old_job_has_nothing_to_begin_from(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    expect_job(&script, "j1", REQUEUED);
    assert_string_equal(job_of(&script, "j1")->continued_by, "j2");
    assert_uint_equal(job_of(&script, "j1")->last_complete_id, 0);
    expect_status(&script, CONTINUED, "restart j1");
    expect_status(&script, CONTINUED, "register j3 nodes=n6 continues=j1");
    script_restore(&script);
    expect_status(&script, CONTINUED, "restart j1");
    assert_string_equal(job_of(&script, "j1")->continued_by, "j2");
    expect_ok(&script, "after 604800001");
    expect_ok(&script, "tick");
    assert_string_equal(owner_of(&script, 2)->id, "j2"); /* the old one's retention is over */
    expect_ok(&script, "restart j1 nodes=n1 from_scratch");
    script_close(&script);
}

/* From what it saves then, somebody may go on once more. */
static void a_job_that_was_continued_can_be_so_again(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    expect_ok(&script, "restart j1 nodes=n1 from_scratch");
    expect_ok(&script, "report n1 application_started j1");
    expect_complete(&script, "j1", 3);
    expect_ok(&script, "end j1");
    expect_ok(&script, "register j3 nodes=n6 continues=j1");
    assert_string_equal(owner_of(&script, 3)->id, "j3");
    assert_string_equal(owner_of(&script, 2)->id, "j2");
    assert_string_equal(job_of(&script, "j1")->continued_by, "j3");
    script_close(&script);
}

/* A chain of ids: each checkpoint stays where it was written, by whomever. */
static void the_third_job_has_what_the_first_wrote(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 gpus=4 continues=j1");
    expect_ok(&script, "after 3000");
    expect_complete(&script, "j2", 3);
    expect_ok(&script, "end j2");
    expect_ok(&script, "register j3 nodes=n1 gpus=4 continues=j2");
    for (uint64_t i = 1; i <= 3; i++)
        assert_string_equal(owner_of(&script, i)->id, "j3");
    expect_path(&script, 2, "/scratch/physics/climate/j1/checkpoints/1-2");
    expect_path(&script, 3, "/scratch/physics/climate/j2/checkpoints/1-3");
    /* what is repeated without the newest is counted over all three */
    assert_true(checkpoint_of(&script, 3)->useful_gpu_ms >=
                checkpoint_of(&script, 2)->useful_gpu_ms + 3000 * 4);
    script_restore(&script);
    expect_path(&script, 3, "/scratch/physics/climate/j2/checkpoints/1-3");
    script_close(&script);
}

/* An id that is free again is another job's, whose folder has the same name. */
static void it_lies_at_home_again_under_the_first_id(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 continues=j1");
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 604800001");
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    expect_path(&script, 2, "/scratch/physics/climate/j1/checkpoints/1-2");
    expect_ok(&script, "end j2 failed node_failure");
    expect_ok(&script, "register j1 nodes=n1 continues=j2");
    assert_string_equal(checkpoint_of(&script, 2)->home, "");
    expect_path(&script, 2, "/scratch/physics/climate/j1/checkpoints/1-2");
    script_close(&script);
}

/* Nobody reads another's data, nor learns how the other's job stands. */
static void a_stranger_is_refused(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_status(&script, CONTINUES_NOT_FOUND, "register j2 nodes=n5 continues=j9");
    expect_status(&script, CONTINUES_NOT_FOUND, "register j2 nodes=n5 continues=j2");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 owner=bob");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 owner=");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 tenant=biology");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 project=other");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 sensitive");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 kind=sensitive");
    expect_status(&script, INVALID_ID, "register j2 nodes=n5 continues=../j1");
    assert_null(fsm_allocation_find(script.fsm, "j2"));
    assert_string_equal(owner_of(&script, 2)->id, "j1");
    script_close(&script);
}

/* Whether the flag or the kind of the vCluster says so, on either side. */
static void a_sensitive_job_is_continued_by_a_sensitive_one(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register s1 nodes=n1 gpus=4 kind=sensitive");
    expect_complete(&script, "s1", 1);
    expect_ok(&script, "end s1 failed node_failure");
    expect_status(&script, CONTINUES_OTHERS, "register s2 nodes=n5 continues=s1");
    expect_ok(&script, "register s2 nodes=n5 continues=s1 kind=sensitive");
    expect_ok(&script, "end s2 failed node_failure");
    expect_ok(&script, "register s3 nodes=n5 continues=s2 sensitive");
    assert_string_equal(owner_of(&script, 1)->id, "s3");
    script_close(&script);
}

static void a_job_that_holds_nodes_is_not_continued(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "restart j1 nodes=n1");
    expect_status(&script, CONTINUES_RUNS, "register j2 nodes=n5 continues=j1");
    expect_ok(&script, "report n1 application_started j1 restored=1-2");
    expect_status(&script, CONTINUES_RUNS, "register j2 nodes=n5 continues=j1");
    expect_status(&script, CONTINUES_OTHERS, "register j2 nodes=n5 continues=j1 owner=bob");
    expect_ok(&script, "end j1");
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    script_close(&script);
}

/* S3-049 */
static void a_checkpoint_that_can_be_restored_is_required(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "end j1 failed node_failure");
    expect_status(&script, CONTINUES_NOTHING, "register j2 nodes=n5 continues=j1");
    expect_ok(&script, "register j3 nodes=n1");
    expect_complete(&script, "j3", 2);
    expect_ok(&script, "end j3");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick"); /* it has expired */
    expect_status(&script, CONTINUES_NOTHING, "register j2 nodes=n5 continues=j3");
    assert_uint_equal(script.outcome.current, 1);
    script_close(&script);
}

static void what_is_damaged_or_failed_stays_with_the_old_job(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "verified 1-2 damaged why=part-0000");
    expect_ok(&script, "register j2 nodes=n5 continues=j1 starting");
    assert_string_equal(owner_of(&script, 2)->id, "j1");
    assert_string_equal(owner_of(&script, 1)->id, "j2");
    assert_uint_equal(job_of(&script, "j2")->restart_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* What its nodes could never begin from is refused at once, not found out when they try. */
static void a_job_that_could_not_begin_is_refused(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1");
    expect_ok(&script, "node n1 ready boot=a machine=x86_64 domain=d0");
    expect_ok(&script, "node n2 ready boot=a machine=x86_64 domain=d0");
    expect_ok(&script, "node n3 ready boot=a machine=aarch64 domain=d0");
    expect_ok(&script, "node n4 ready boot=a machine=x86_64 domain=d1");
    expect_ok(&script, "put scratch domain=d0 unsaid keep write=1000");
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "end j1");
    expect_status(&script, PARTS_DIFFER, "register j2 nodes=n1 continues=j1");
    assert_uint_equal(script.outcome.current, 1);
    assert_uint_equal(script.outcome.limit, 2);
    expect_status(&script, PARTS_DIFFER, "register j2 nodes=n1 continues=j1 restore=own");
    expect_status(&script, NODE_UNLIKE, "register j2 nodes=n1,n3 continues=j1");
    assert_uint_equal(script.outcome.current, 2);
    expect_status(&script, NODE_OUTSIDE_DOMAIN,
                  "register j2 nodes=n1,n4 continues=j1 domain_rule=required");
    assert_string_equal(owner_of(&script, 1)->id, "j1");
    expect_status(&script, RUN_NOT_ENDED, "register j2 nodes=n4 continues=j1 restore=all");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "register j2 nodes=n4 continues=j1 restore=all starting");
    assert_string_equal(owner_of(&script, 1)->id, "j2");
    script_close(&script);
}

/* The rule of a job that says nothing is the policy's, as at any registration. */
static void the_policys_rule_for_domains_binds_who_goes_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 domain_rule=required");
    expect_ok(&script, "node n1 ready domain=d0");
    expect_ok(&script, "node n2 ready domain=d0");
    expect_ok(&script, "node n4 ready domain=d1");
    expect_ok(&script, "put scratch domain=d0 unsaid keep write=1000");
    expect_ok(&script, "register j1 nodes=n1 domain_rule=any");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "end j1");
    expect_status(&script, NODE_OUTSIDE_DOMAIN, "register j2 nodes=n4 continues=j1");
    assert_uint_equal(script.outcome.current, 1);
    assert_uint_equal(script.outcome.limit, 1);
    assert_null(fsm_allocation_find(script.fsm, "j2"));
    assert_string_equal(owner_of(&script, 1)->id, "j1");
    expect_ok(&script, "register j2 nodes=n2 continues=j1");
    assert_int_equal(job_of(&script, "j2")->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED);
    expect_ok(&script, "end j2");
    expect_ok(&script, "register j3 nodes=n4 continues=j2 domain_rule=any starting");
    assert_string_equal(owner_of(&script, 1)->id, "j3");
    expect_ok(&script, "end j3");
    expect_ok(&script, "policy domain_rule=preferred");
    expect_ok(&script, "register j4 nodes=n4 continues=j3 starting");
    assert_string_equal(owner_of(&script, 1)->id, "j4");
    script_close(&script);
}

/* Who wrote a part restores it: the file system of its node may still have it. */
static void a_node_that_wrote_a_part_gets_it_again(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "end j1");
    expect_ok(&script, "register j2 nodes=n2,n5 continues=j1 starting");
    assert_string_equal(fsm_node_name(script.fsm, job_of(&script, "j2")->nodes[1].node_slot), "n2");
    expect_ok(&script, "report n2 restored j2 restored=1-1");
    expect_job(&script, "j2", STARTING);
    expect_ok(&script, "report n5 restored j2 restored=1-1");
    expect_ok(&script, "report n2 application_started j2 restored=1-1");
    expect_ok(&script, "report n5 application_started j2 restored=1-1");
    expect_job(&script, "j2", RUNNING);
    script_close(&script);
}

/* Under the same request id it is one registration, under another one it exists. */
static void it_goes_over_once(void **unused)
{
    const Ckpt__V1__Event *event;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n5 continues=j1 id=r1");
    expect_ok(&script, "register j2 nodes=n5 continues=j1 id=r1");
    assert_true(script.outcome.repeated);
    assert_uint_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 2));
    expect_status(&script, ALLOCATION_EXISTS, "register j2 nodes=n5 continues=j1 id=r2");
    assert_int_equal(events_of(&script, CKPT__V1__EVENT_KIND__EVENT_KIND_CONTINUED, &event), 2);
    script_close(&script);
}

/* Agents keep copies with the job that wrote: nobody would find them under the new id. */
static void copies_on_nodes_do_not_go_over(void **unused)
{
    struct fsm_copy copy;
    struct script script;
    uint32_t slot;

    (void)unused;
    start_stopped(&script);
    slot = fsm_node_find(script.fsm, "n1")->slot;
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-2 part=0");
    assert_int_equal(fsm_copies_on_node(script.fsm, slot, &copy, 1), 1);
    expect_ok(&script, "register j2 nodes=n1 continues=j1 starting");
    assert_int_equal(fsm_copies_on_node(script.fsm, slot, &copy, 1), 0);
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-2 part=0"); /* it comes late */
    assert_int_equal(fsm_copies_on_node(script.fsm, slot, &copy, 1), 0);
    assert_int_equal(checkpoint_of(&script, 2)->shards[0].place_count, 1);
    script_close(&script);
}

/* I42: what the old job's agent says late of its pause is no loss of the new one. */
static void late_reports_of_the_old_job_change_nothing(void **unused)
{
    struct fsm_account account;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 gpus=4 continues=j1");
    expect_ok(&script, "after 9000");
    expect_ok(&script, "report n1 stopped_writing j1 ckpt=1-2 stall=4000");
    fsm_allocation_account(script.fsm, job_of(&script, "j2"), 0, &account);
    assert_uint_equal(account.held_gpu_ms, 36000);
    assert_uint_equal(account.lost_gpu_ms[FSM_LOSS_CHECKPOINT], 0);
    script_close(&script);
}

/* I42: the new job's account begins with nothing, and loses no more than it had. */
static void the_account_of_the_new_job_is_its_own(void **unused)
{
    struct fsm_account account;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 gpus=4 continues=j1");
    expect_ok(&script, "after 7000");
    expect_complete(&script, "j2", 3);
    fsm_allocation_account(script.fsm, job_of(&script, "j2"), 0, &account);
    assert_uint_equal(account.useful_gpu_ms, 28000);
    expect_ok(&script, "verified 1-3 damaged why=part-0000");
    expect_ok(&script, "end j2 failed node_failure");
    expect_ok(&script, "restart j2 nodes=n1");
    expect_ok(&script, "report n1 application_started j2 restored=1-2");
    fsm_allocation_account(script.fsm, job_of(&script, "j2"), 0, &account);
    assert_uint_equal(account.useful_gpu_ms, 0);
    assert_uint_equal(account.lost_gpu_ms[FSM_LOSS_FAILURE], 28000);
    script_close(&script);
}

/* S2-007: what the job before computed is not thrown away for a short outage. */
static void an_outage_is_waited_for_as_long_as_the_old_job_computed(void **unused)
{
    struct fsm_discard discard;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 discarded=3600000");
    expect_ok(&script, "register j1 nodes=n1 gpus=4");
    expect_ok(&script, "after 50000");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "register j2 nodes=n5 gpus=4 continues=j1 starting target=other");
    fsm_begin_discards(script.fsm, job_of(&script, "j2"), &discard);
    assert_uint_equal(discard.discarded_ms, 50000);
    script_close(&script);
}

/* Of a job without GPUs: since the first of them was submitted. */
static void without_gpus_it_is_waited_for_since_the_first_job(void **unused)
{
    struct fsm_discard discard;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 discarded=3600000");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "after 50000");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "register j2 nodes=n5 gpus=0 continues=j1 starting target=other");
    fsm_begin_discards(script.fsm, job_of(&script, "j2"), &discard);
    assert_uint_equal(discard.discarded_ms, 50000);
    assert_true(discard.at_ms > 0);
    script_close(&script);
}

/* I56, I12, and what is pinned stays so. */
static void pins_and_bytes_of_the_tenant_stay(void **unused)
{
    struct fsm_quota before, after;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "pin 1-1");
    assert_non_null(fsm_tenant_quota(script.fsm, 0, &before));
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    assert_non_null(fsm_tenant_quota(script.fsm, 0, &after));
    assert_memory_equal(&before, &after, sizeof(before));
    assert_true(checkpoint_of(&script, 1)->pinned);
    script_restore(&script);
    assert_non_null(fsm_tenant_quota(script.fsm, 0, &after));
    assert_uint_equal(after.stored_bytes, before.stored_bytes);
    script_close(&script);
}

/* It stayed for its pinned checkpoint alone. */
static void an_old_job_whose_time_is_over_leaves(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "pin 1-1");
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10001");
    expect_ok(&script, "tick");
    expect_job(&script, "j1", COMPLETED);
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    expect_path(&script, 1, "/scratch/physics/climate/j1/checkpoints/1-1");
    script_restore(&script);
    expect_path(&script, 1, "/scratch/physics/climate/j1/checkpoints/1-1");
    script_close(&script);
}

/* A reading that is under way goes on: the bytes are the same. */
static void what_is_read_again_is_read_on(void **unused)
{
    const struct fsm_verification *read;
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "node n7 ready boot=a");
    expect_ok(&script, "verify 1-2");
    expect_ok(&script, "verified 1-2 elsewhere");
    assert_uint_equal(fsm_verification_count(script.fsm), 1);
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    assert_uint_equal(fsm_verification_count(script.fsm), 1);
    assert_int_equal(
        fsm_verifications_on_node(script.fsm, fsm_node_find(script.fsm, "n7")->slot, &read, 1), 1);
    expect_ok(&script, "report n7 verified j1 ckpt=1-2 attempt=%u part=0",
              fsm_verify_attempt(script.fsm, read));
    assert_true(checkpoint_of(&script, 2)->verified_at_ms > 0);
    script_close(&script);
}

/* I26: an id is given once, also after a restore from a backup. */
static void a_new_epoch_gives_no_id_that_lies_in_either_folder(void **unused)
{
    struct script script;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n1 continues=j1");
    expect_ok(&script, "request j2");
    expect_ok(&script, "epoch 2");
    assert_uint_equal(job_of(&script, "j2")->active_checkpoint_id, checkpoint_id_make(2, 4));
    expect_path(&script, 2, "/scratch/physics/climate/j1/checkpoints/1-2");
    script_close(&script);
}

/* I57: a snapshot that says otherwise is refused. */
static void check_finds_what_came_from_nowhere(void **unused)
{
    struct script script;
    struct allocation *job;

    (void)unused;
    start_stopped(&script);
    expect_ok(&script, "register j2 nodes=n5 continues=j1");
    job = allocation_edit(script.fsm, allocation_find(script.fsm, "j2"));
    assert_null(
        fsm_continue_broken(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 2))));
    fsm_intern_set(script.fsm, &job->view.continues, "");
    assert_non_null(
        fsm_continue_broken(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 2))));
    fsm_intern_set(script.fsm, &job->view.continues, "j1");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_checkpoints_go_over_and_lie_where_they_lay),
        cmocka_unit_test(what_it_writes_lies_in_its_own_folder),
        cmocka_unit_test(a_folder_that_cannot_be_removed_is_known_by_its_home),
        cmocka_unit_test(the_old_job_has_nothing_to_begin_from),
        cmocka_unit_test(a_job_that_was_continued_can_be_so_again),
        cmocka_unit_test(the_third_job_has_what_the_first_wrote),
        cmocka_unit_test(it_lies_at_home_again_under_the_first_id),
        cmocka_unit_test(a_stranger_is_refused),
        cmocka_unit_test(a_sensitive_job_is_continued_by_a_sensitive_one),
        cmocka_unit_test(a_job_that_holds_nodes_is_not_continued),
        cmocka_unit_test(a_checkpoint_that_can_be_restored_is_required),
        cmocka_unit_test(what_is_damaged_or_failed_stays_with_the_old_job),
        cmocka_unit_test(a_job_that_could_not_begin_is_refused),
        cmocka_unit_test(the_policys_rule_for_domains_binds_who_goes_on),
        cmocka_unit_test(a_node_that_wrote_a_part_gets_it_again),
        cmocka_unit_test(it_goes_over_once),
        cmocka_unit_test(copies_on_nodes_do_not_go_over),
        cmocka_unit_test(late_reports_of_the_old_job_change_nothing),
        cmocka_unit_test(the_account_of_the_new_job_is_its_own),
        cmocka_unit_test(an_outage_is_waited_for_as_long_as_the_old_job_computed),
        cmocka_unit_test(without_gpus_it_is_waited_for_since_the_first_job),
        cmocka_unit_test(pins_and_bytes_of_the_tenant_stay),
        cmocka_unit_test(an_old_job_whose_time_is_over_leaves),
        cmocka_unit_test(what_is_read_again_is_read_on),
        cmocka_unit_test(a_new_epoch_gives_no_id_that_lies_in_either_folder),
        cmocka_unit_test(check_finds_what_came_from_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
