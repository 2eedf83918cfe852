/* Random commands: all invariants hold after each entry, two instances agree, and a restored
 * snapshot is the state itself. */
#include "tests/support/test.h"

#include "tests/unit/fsm/random_line.h"
#include "tests/unit/fsm/snapshot_level.h"

enum { RUNS = 16, LINES = 2500, SNAPSHOT_EVERY = 97 };

static uint64_t hash_of(const struct fsm *fsm)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    return summary.state_hash;
}

static struct script_bytes snapshot_of(const struct fsm *fsm)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};

    assert_int_equal(fsm_snapshot_write(fsm, script_write, &bytes), 0);
    return bytes;
}

static struct fsm *restored(const struct fsm *fsm)
{
    struct script_bytes bytes = snapshot_of(fsm);
    struct fsm *copy = fsm_new();
    char text[256] = "";

    if (fsm_level(fsm) == FSM_LEVEL_FIRST)
        assert_of_level_1(&bytes); /* V-013 */
    if (fsm_snapshot_read(copy, script_read, &bytes, text, sizeof(text)) != 0)
        fail_msg("%s", text);
    assert_int_equal(bytes.at, bytes.length);
    free(bytes.bytes);
    return copy;
}

static void assert_same_state(const struct fsm *a, const struct fsm *b)
{
    struct script_bytes left = snapshot_of(a);
    struct script_bytes right = snapshot_of(b);

    assert_int_equal(left.length, right.length);
    assert_memory_equal(left.bytes, right.bytes, left.length);
    free(left.bytes);
    free(right.bytes);
}

/* GPUs that are held now. */
static uint64_t held_gpus(const struct fsm *fsm)
{
    uint64_t gpus = 0;

    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);

        if (job != NULL &&
            (job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
             job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
             job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP))
            gpus += job->gpu_count > job->node_count * job->node_gpus
                        ? job->gpu_count
                        : job->node_count * job->node_gpus; /* V-006 */
    }
    return gpus;
}

static size_t copies_of(const struct fsm *fsm)
{
    size_t count = 0;

    for (uint32_t slot = 0; slot < RANDOM_NODES; slot++)
        if (fsm_node_find_slot(fsm, slot) != NULL)
            count += fsm_copies_on_node(fsm, slot, NULL, 0);
    return count;
}

static uint64_t now_of(const struct fsm *fsm)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    return summary.now_ms;
}

/* I42: what the cluster's account holds is what nodes were held, summed up here from outside; no
 * allocation is needed any more. */
static void assert_gpu_time(const struct fsm *fsm, uint64_t held_gpu_ms, struct fsm_account *last)
{
    struct fsm_account account;

    fsm_cluster_account(fsm, 0, &account);
    if (account.held_gpu_ms != held_gpu_ms)
        fail_msg("held %" PRIu64 " GPU-ms, the account says %" PRIu64, held_gpu_ms,
                 account.held_gpu_ms);
    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++)
        assert_true(account.lost_gpu_ms[cause] >=
                    last->lost_gpu_ms[cause]); /* nothing comes back */
    *last = account;
}

/* What the walk has to come by. */
struct seen {
    uint64_t removed;   /* nodes */
    uint64_t copies;    /* in snapshots */
    uint64_t continued; /* jobs under a new id */
    uint64_t restarted; /* ... that were restarted from what came to them */
};

/* A run of it begins from what lies in another job's folder. */
static uint64_t begins_from_another(const struct fsm *fsm)
{
    uint64_t count = 0;

    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);
        const struct fsm_checkpoint *point =
            job == NULL ? NULL : fsm_checkpoint_find(fsm, job->restart_id);

        count += point != NULL && point->allocation_slot == slot && point->home[0] != '\0' &&
                 job->waited_ms > 0;
    }
    return count;
}

static void run_once(uint64_t seed, uint64_t totals[16], struct fsm_account *account,
                     struct seen *seen)
{
    uint64_t held_gpu_ms = 0;
    struct fsm_account last = {0};
    struct script script;
    struct fsm *twin = fsm_new();
    uint64_t state = seed;
    char line[512];
    struct fsm_summary summary;

    script_open(&script);
    script.as_proposed = true;
    for (int i = 0; i < LINES; i++) {
        uint64_t index = script.index;
        uint64_t gpus = held_gpus(script.fsm);
        uint64_t now_ms = now_of(script.fsm);

        if (random_draw(&state, 700) == 0) { /* as from a backup */
            fsm_begin_passive(script.fsm);
            fsm_begin_passive(twin);
        }
        if (i == 0) /* also as an earlier build began, until all have this one */
            strcpy(line, seed % 3 == 0 ? "init level=1" : "init");
        else if (random_draw(&state, 900) == 0)
            strcpy(line, "policy level=2");
        else if (i == 1)
            strcpy(line, "policy min_interval=1 backoff=1000 retention=50000 timeout=30000");
        else if (random_draw(&state, 1500) == 0) /* over all deadlines, as without a leader */
            snprintf(line, sizeof(line), "after %" PRIu64, random_draw(&state, 5000000));
        else
            random_line(&script, &state, line, sizeof(line));
        script_run(&script, "%s", line);
        if (script.index == index)
            continue;
        seen->removed += strncmp(line, "remove_node", 11) == 0 && script.outcome.status == FSM_OK;
        seen->continued += strstr(line, " continues=") != NULL && script.outcome.status == FSM_OK;
        held_gpu_ms += (now_of(script.fsm) - now_ms) * gpus;
        assert_gpu_time(script.fsm, held_gpu_ms, &last);
        fsm_apply_entry(
            twin, &(struct fsm_entry){script.index, script.term, script.entry, script.entry_length},
            NULL, NULL);
        if (hash_of(script.fsm) != hash_of(twin))
            fail_msg("seed %" PRIu64 " line %d: %s", seed, i, line);
        if (i % SNAPSHOT_EVERY == 0) {
            struct fsm *copy = restored(twin);

            assert_same_state(twin, copy);
            assert_int_equal(copies_of(copy), copies_of(twin));
            seen->copies += copies_of(copy);
            seen->restarted += begins_from_another(copy);
            fsm_free(twin);
            twin = copy;
        }
    }
    assert_same_state(script.fsm, twin);
    fsm_get_summary(script.fsm, &summary);
    for (size_t i = 0; i < 16; i++)
        totals[i] += summary.checkpoints_total[i];
    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++)
        account->lost_gpu_ms[cause] += last.lost_gpu_ms[cause];
    account->useful_gpu_ms += last.useful_gpu_ms;
    fsm_free(twin);
    script_close(&script);
}

/* I5, I12, I21, I23, I24, I26-I36, I42 */
static void random_commands_keep_all_invariants_and_equal_members(void **unused)
{
    uint64_t seed = test_seed();
    uint64_t totals[16] = {0};
    struct fsm_account account = {0};
    struct seen seen = {0};

    (void)unused;
    for (uint64_t run = 0; run < test_often(RUNS / 2, RUNS); run++)
        run_once(seed + run, totals, &account, &seen);
    print_message("nodes removed %" PRIu64 ", copies in snapshots %" PRIu64 "\n", seen.removed,
                  seen.copies);
    print_message("jobs under a new id %" PRIu64 ", restarted in snapshots %" PRIu64 "\n",
                  seen.continued, seen.restarted);
    assert_true(seen.removed > 0);
    assert_true(seen.copies > 0);
    assert_true(seen.continued > 0);
    assert_true(seen.restarted > 0);
    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++) {
        print_message("lost to %s %" PRIu64 " GPU-ms\n", fsm_loss_name((enum fsm_loss)cause),
                      account.lost_gpu_ms[cause]);
        assert_true(account.lost_gpu_ms[cause] > 0); /* the walk reaches every cause */
    }
    assert_true(account.useful_gpu_ms > 0);
    for (int state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED;
         state <= CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED; state++) {
        print_message("%s %" PRIu64 "\n",
                      fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)state), totals[state]);
        assert_true(totals[state] > 0); /* the walk reaches every state */
    }
}

static void a_cut_snapshot_is_refused_and_changes_nothing(void **unused)
{
    struct script script;
    struct script_bytes bytes;
    char text[256];
    uint64_t hash;

    (void)unused;
    script_start(&script);
    script_run(&script, "register j1 nodes=n1");
    script_run(&script, "request j1");
    bytes = snapshot_of(script.fsm);
    hash = hash_of(script.fsm);
    for (size_t length = 0; length < bytes.length; length++) {
        struct script_bytes cut = {bytes.bytes, length, 0, 0};

        assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &cut, text, sizeof(text)), -1);
        assert_int_equal(hash_of(script.fsm), hash);
    }
    free(bytes.bytes);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_keep_all_invariants_and_equal_members),
        cmocka_unit_test(a_cut_snapshot_is_refused_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
