/* What ranks say on their streams, and what comes of it: who is one, the two rounds of the barrier,
 * a step that lies behind. */
#include "src/agent/job/ranks_stream.h"

#include "src/agent/job/pace.h"

#include <inttypes.h>

#include "tests/unit/agent/still_agent.h"

enum { RUN = 7, MAIN = 100, FIRST = 201, SECOND = 202, START_TICKS = 5000, CHECKPOINT = 42 };
enum { AT_ONCE = 8 }; /* looks, before they are spread out */

static struct allocation *job;
static char told[1024]; /* to the streams, in order */
static pid_t dead;      /* 0: none */
static pid_t held;      /* stopped by a signal; 0: none */
static unsigned reads;  /* of the work folder */
static bool first_done; /* its file is there */
static char first_stream, second_stream;
static enum process_verdict verdict; /* on whom comes */
static struct {
    process_done_fn *done; /* NULL: nobody is being looked at */
    void *data;
    pid_t pid;
} look;
static char refusal[256];

static void tell(const struct rank_stream *stream, const char *what)
{
    size_t length = strlen(told);

    snprintf(told + length, sizeof(told) - length, "%s%d: %s", length == 0 ? "" : "; ",
             stream == (const void *)&first_stream ? 0 : 1, what);
}

static bool takes(struct rank_stream *stream)
{
    (void)stream;
    return true;
}

static void refuses(struct rank_stream *stream, const char *text)
{
    (void)stream;
    snprintf(refusal, sizeof(refusal), "%s", text);
}

static void hears_ask(struct rank_stream *stream, const struct ask_request *request,
                      const char *folder)
{
    (void)request;
    tell(stream, folder);
}

static void hears_step(struct rank_stream *stream, const char *hint, uint64_t step)
{
    char text[64];

    assert_string_equal(hint, job->attempt.hint);
    snprintf(text, sizeof(text), "step %" PRIu64, step);
    tell(stream, text);
}

static void hears_withdrawn(struct rank_stream *stream, const char *hint)
{
    (void)hint;
    /* an agent that is killed after this does not ask it again */
    assert_true(job->entry.phase == PHASE_ENDED || job->entry.phase == PHASE_DEFERRED);
    tell(stream, "withdrawn");
}

static void closes(struct rank_stream *stream)
{
    (void)stream;
}

static const struct rank_stream_ops streams = {.take = takes,
                                               .ask = hears_ask,
                                               .step = hears_step,
                                               .withdrawn = hears_withdrawn,
                                               .close = closes,
                                               .refuse = refuses};

static struct job_process_look *job_process_look(void *context, const struct job_identity *identity,
                                                 pid_t pid, process_done_fn *done, void *data)
{
    (void)context;
    assert_int_equal(identity->group, MAIN);
    look.done = done;
    look.data = data;
    look.pid = pid;
    return (struct job_process_look *)(void *)&look;
}

static void process_detach(struct job_process_look *detached)
{
    if (detached != NULL)
        look.done = NULL;
}

/* NULL: it is taken. */
static const char *looked(void)
{
    process_done_fn *done = look.done;

    assert_non_null(done);
    look.done = NULL;
    refusal[0] = '\0';
    done(look.data, look.pid == dead ? VERDICT_ENDED : verdict, START_TICKS);
    return refusal[0] == '\0' ? NULL : refusal;
}

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context, (void)ret_status;
    if (pid == dead)
        return -1;
    if (ret_stat != NULL)
        *ret_stat = (struct proc_stat){.pid = pid,
                                       .group = MAIN,
                                       .state = pid == held ? 'T' : 'S',
                                       .start_ticks = START_TICKS};
    return 0;
}

static void process_waits(void *context, pid_t pid, char ret_where[MACHINE_WAITS_BYTES])
{
    (void)context;
    snprintf(ret_where, MACHINE_WAITS_BYTES, "%s", pid == FIRST ? "pipe_read" : "");
}

static struct cleanup *folders_remove(void *context, struct machine_user user,
                                      const struct machine_folders *folders,
                                      void (*done)(void *data), void *data)
{
    (void)context, (void)user, (void)folders;
    done(data);
    return NULL;
}

static ssize_t file_read(void *context, const struct machine_file *file, char *text, size_t size)
{
    (void)context;
    reads++;
    if (strcmp(file->name, "request") == 0)
        return snprintf(text, size, "hint=%s\n", job->attempt.hint);
    if (!first_done || strcmp(file->name, "done.0") != 0)
        return -1;
    return snprintf(text, size, "hint=%s\nbytes=1\nstatus=0\n", job->attempt.hint);
}

static void file_remove(void *context, const struct machine_file *file)
{
    (void)context, (void)file;
}

static void folder_watch_free(struct folder_watch *watch)
{
    (void)watch;
}

/* Two ranks are asked. */
static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    told[0] = '\0';
    dead = held = 0;
    verdict = VERDICT_BELONGS;
    look.done = NULL;
    first_done = false;
    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.process_waits = process_waits;
    machine.job_process_look = job_process_look;
    machine.process_detach = process_detach;
    machine.folders_remove = folders_remove;
    machine.file_read = file_read;
    machine.file_remove = file_remove;
    machine.folder_watch_free = folder_watch_free;
    still_agent_open(&machine);
    agent.rank_streams = &streams;
    job = agent_get(&agent, "job");
    job->entry.run = RUN;
    process_attached(job, &(struct process_identity){.pid = MAIN, .start_ticks = START_TICKS}, 0,
                     false);
    job->entry.checkpoint_id = CHECKPOINT;
    job->entry.attempt = 1;
    job->entry.phase = PHASE_ASKED;
    job->entry.timeout_ms = 60000;
    job->entry.asked_at_us = still_now_us;
    job->entry.max_deferral_ms = 60000;
    job->entry.rank_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        job->entry.ranks[i] = (struct ledger_rank){.number = i,
                                                   .pid = FIRST + i,
                                                   .by = RANK_BY_STREAM,
                                                   .state = RANK_TOLD,
                                                   .start_ticks = START_TICKS};
    job->attempt = (struct attempt){.state = ATTEMPT_ASKED,
                                    .checkpoint_id = CHECKPOINT,
                                    .attempt = 1,
                                    .run = RUN,
                                    .timeout_ms = 60000};
    hint_format(CHECKPOINT, 1, job->attempt.hint);
    return 0;
}

static struct rank_stream *stream_of(uint32_t number)
{
    return (void *)(number == 0 ? &first_stream : &second_stream);
}

/* NULL: it is taken. */
static const char *says_hello(const struct rank_hello *hello)
{
    const char *why = ranks_registered(job, hello, stream_of(hello->number));

    return why != NULL ? why : looked();
}

static const char *comes(uint32_t number, pid_t pid, bool barrier)
{
    const struct rank_hello hello = {.number = number,
                                     .local = number,
                                     .ranks = 2,
                                     .local_ranks = 2,
                                     .way = barrier ? RANK_BARRIER : RANK_PLAIN,
                                     .pid = pid};

    return says_hello(&hello);
}

static void expect_told(const char *text)
{
    assert_string_equal(told, text);
    told[0] = '\0';
}

/* The last report; NULL: there is none after `sequence`. */
static Ckpt__V1__AgentReport *last_report(uint64_t *sequence)
{
    const struct ledger_report *kept = NULL, *next;

    while ((next = ledger_report_after(agent.ledger, *sequence)) != NULL) {
        kept = next;
        *sequence = next->sequence;
    }
    return kept == NULL ? NULL : ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
}

static void expect_barrier(uint64_t *sequence, uint64_t step)
{
    Ckpt__V1__AgentReport *report = last_report(sequence);

    assert_non_null(report);
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_BARRIER);
    assert_uint_equal(report->step, step);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void expect_failed(uint64_t *sequence, Ckpt__V1__Reason reason, const char *detail)
{
    Ckpt__V1__AgentReport *report = last_report(sequence);

    assert_non_null(report);
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED);
    assert_int_equal(report->reason, reason);
    assert_string_equal(report->detail, detail);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_NONE);
}

/* It has the library and comes to its loop later: it is not asked, and is waited for. */
static void who_has_opened_the_library_is_waited_for(void **state)
{
    struct rank_hello hello = {
        .number = 1, .local = 1, .ranks = 2, .local_ranks = 2, .way = RANK_OPENED, .pid = SECOND};
    char why[JOB_DETAIL_BYTES] = "";
    struct ranks_seen seen = {.count = 0};

    (void)state;
    assert_false(ranks_opening(job, why));
    assert_null(says_hello(&hello));
    expect_told("");
    assert_true(ranks_opening(job, why));
    assert_contains(why, "rank 1, pid ");
    ranks_lay_over(job, &seen);
    assert_int_equal(seen.count, 0);
    assert_false(ranks_stream_tells(job, &job->entry.ranks[1]));
    hello.way = RANK_BARRIER;
    ranks_gone(job, (void *)&second_stream);
    assert_false(ranks_opening(job, why)); /* without its stream it says nothing later */
    assert_null(says_hello(&hello));
    expect_told("1: out/0-42-1/rank-00001");
    assert_false(ranks_opening(job, why));
}

static void expect_word(const Ckpt__V1__StepsWord *word, uint64_t quiet_s, size_t behind)
{
    assert_non_null(word);
    assert_uint_equal(word->quiet_ms, quiet_s * 1000);
    assert_int_equal(word->n_behind, behind);
}

/* V-030: the heartbeat says since when no rank steps, and of those with the lowest steps what their
 * processes wait for; nothing of it while something is under way. */
static void a_heartbeat_says_since_when_no_rank_steps_and_what_they_wait_for(void **state)
{
    Ckpt__V1__StepsWord *word;

    (void)state;
    assert_null(pace_word_new(job));
    assert_null(comes(0, FIRST, true));
    assert_null(comes(1, SECOND, true));
    assert_null(pace_word_new(job));                     /* they have said no step */
    ranks_at(job, 0, job->attempt.hint, 90, 1000000000); /* a step as well */
    still_now_us += 60 * SECOND_US;
    pace_turns(job);
    word = pace_word_new(job);
    expect_word(word, 0, 0);
    assert_true(word->under_way);
    assert_int_equal(word->rank_count, 1);
    pace_word_free(word);
    job->attempt.state = ATTEMPT_NONE; /* it is over */
    ranks_at(job, 0, "-", 91, 1000000000);
    ranks_at(job, 1, "-", 93, 1000000000);
    still_now_us += 2 * SECOND_US;
    ranks_at(job, 1, "-", 95, 1000000000);
    for (unsigned i = 0; i < 4; i++) {
        still_now_us += 10 * SECOND_US;
        pace_turns(job);
    }
    pace_turns(job);
    held = SECOND;
    word = pace_word_new(job);
    expect_word(word, 40, 2);
    assert_false(word->under_way);
    assert_int_equal((word->gap_p99_ms + 500) / 1000, 2); /* the one of the attempt is none */
    assert_uint_equal(word->highest_step, 95);
    assert_true(word->stepped_ms >= 40000);
    assert_int_equal(word->behind[0]->number, 0);
    assert_int_equal(word->behind[0]->pid, FIRST);
    assert_uint_equal(word->behind[0]->step, 91);
    assert_uint_equal(word->behind[0]->step_most, 92);
    assert_string_equal(word->behind[0]->state, "waits in pipe_read (S)");
    assert_string_equal(word->behind[1]->state, "is stopped by a signal (T)");
    pace_word_free(word);
    ranks_at(job, 1, "-", 96, 1000000000);
    word = pace_word_new(job);
    expect_word(word, 0, 0);
    pace_word_free(word);
    job->attempt.state = ATTEMPT_ASKED; /* as tear_down has it */
}

static void order_barrier(Ckpt__V1__BarrierPhase phase, uint64_t agreed_step)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.barrier = phase;
    order.agreed_step = agreed_step;
    attempt_post(job, ATTEMPT_BARRIER, &order);
}

#define GATHERING CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_GATHERING
#define STEPPING  CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING
#define AGREED    CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED

static void ranks_meet_in_two_rounds_and_one_that_is_beyond_fails_it(void **state)
{
    const char *hint = job->attempt.hint;
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(0, FIRST, true));
    assert_null(comes(1, SECOND, true));
    expect_told("0: out/0-42-1/rank-00000; 1: out/0-42-1/rank-00001");
    ranks_at(job, 0, hint, 90, 1000000);
    ranks_at(job, 0, "0-41-1", 990, 1000000); /* of a question that is over */
    assert_null(last_report(&sequence));
    ranks_at(job, 1, hint, 120, 2000000);
    expect_barrier(&sequence, 0);
    ranks_at(job, 0, hint, 100, 1000000); /* meanwhile */
    assert_null(last_report(&sequence));
    order_barrier(STEPPING, 0);
    expect_told("");
    expect_barrier(&sequence, 301); /* 200 ms from 100, at a millisecond each */
    order_barrier(AGREED, 310);
    expect_told("0: step 310; 1: step 310");
    ranks_gone(job, (void *)&second_stream);
    assert_null(comes(1, SECOND, true));
    expect_told("1: out/0-42-1/rank-00001; 1: step 310");
    ranks_missed(job, 1, hint, 315);
    expect_told("0: withdrawn; 1: withdrawn");
    expect_failed(&sequence, CKPT__V1__REASON__REASON_STEP_MISSED,
                  "rank 1 is at step 315, 310 was agreed");
}

/* It says its step once more, and its ranks, which know that they are asked, hear another one. */
static void a_node_meets_anew_when_another_was_put_off(void **state)
{
    const char *hint = job->attempt.hint;
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(0, FIRST, true));
    assert_null(comes(1, SECOND, true));
    ranks_at(job, 0, hint, 100, 1000000);
    ranks_at(job, 1, hint, 100, 1000000);
    expect_barrier(&sequence, 0);
    order_barrier(STEPPING, 0);
    expect_barrier(&sequence, 301);
    order_barrier(AGREED, 900);
    ranks_at(job, 1, hint, 400, 1000000);
    assert_null(last_report(&sequence));
    order_barrier(GATHERING, 0);
    assert_null(last_report(&sequence));
    ranks_at(job, 0, hint, 410, 1000000);
    order_barrier(STEPPING, 0);
    expect_barrier(&sequence, 611);
    order_barrier(AGREED, 950);
    assert_uint_equal(job->attempt.agreed_step, 950);
}

/* Its ranks dial anew only later, and the others would agree on a step without them. */
static void an_agent_that_restarts_knows_that_its_ranks_meet_the_others(void **state)
{
    uint64_t sequence = 0;
    Ckpt__V1__AgentReport *report;

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        job->entry.ranks[i].barrier = true;
    job->entry.phase = PHASE_ASKING;
    job->attempt.state = ATTEMPT_RESUMING;
    job->executor.ask = ask_find("signal");
    attempt_post(job, ATTEMPT_LOOKED, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_ASKED);
    report = last_report(&sequence);
    assert_non_null(report);
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED);
    assert_true(report->barrier);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_null(comes(0, FIRST, true));
    ranks_at(job, 0, job->attempt.hint, 90, 1000000);
    assert_null(last_report(&sequence));
    assert_null(comes(1, SECOND, true));
    ranks_at(job, 1, job->attempt.hint, 120, 2000000);
    expect_barrier(&sequence, 0);
}

static void who_does_not_come_to_a_step_is_named(void **state)
{
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(0, FIRST, true));
    assert_null(comes(1, SECOND, true));
    ranks_at(job, 0, job->attempt.hint, 90, 0);
    still_now_us += 61 * (uint64_t)SECOND_US;
    attempt_post(job, ATTEMPT_TICK, NULL);
    expect_failed(&sequence, CKPT__V1__REASON__REASON_CHECKPOINT_TIMEOUT,
                  "of 2 ranks on this node these have not come to a step: 1");
}

static void a_node_whose_ranks_wait_for_others_blames_none_of_them(void **state)
{
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(0, FIRST, true));
    assert_null(comes(1, SECOND, true));
    ranks_at(job, 0, job->attempt.hint, 90, 0);
    ranks_at(job, 1, job->attempt.hint, 90, 0);
    expect_barrier(&sequence, 0);
    still_now_us += 61 * (uint64_t)SECOND_US;
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_ASKED);
}

static void a_number_is_one_living_process_s(void **state)
{
    (void)state;
    assert_null(comes(0, FIRST, true));
    assert_string_equal(comes(0, SECOND, true),
                        "process 201 is rank 0 already; give each its own number (ckpt_open() "
                        "takes it), or start them by a launcher");
    dead = FIRST;
    assert_null(comes(0, SECOND, true));
    assert_string_equal(comes(1, FIRST, true), "process 201 has ended");
}

/* Another job of the same user may know the socket, and what its ranks say would be this job's. */
static void only_processes_of_the_job_are_ranks_of_it(void **state)
{
    const struct rank_hello hello = {.number = 1, .pid = SECOND, .way = RANK_BARRIER};

    (void)state;
    verdict = VERDICT_STRANGER;
    assert_string_equal(comes(1, SECOND, true),
                        "process 202 is none of job job; only what its ckpt-run has started can be "
                        "a rank of it");
    verdict = VERDICT_UNREAD;
    assert_string_equal(comes(1, SECOND, true),
                        "process 202 cannot be read just now; say hello again");
    verdict = VERDICT_BELONGS;
    assert_null(ranks_registered(job, &hello, stream_of(1)));
    job->entry.run++;
    assert_string_equal(looked(), "the run that process 202 is of has ended");
    job->entry.run--;
    ranks_at(job, 1, job->attempt.hint, 120, 2000000); /* nobody's */
    expect_told("");
}

/* The one that is seen first has it. */
static void of_two_that_come_with_one_number_the_second_is_refused(void **state)
{
    const struct rank_hello hello = {.number = 1, .pid = SECOND, .way = RANK_BARRIER};

    (void)state;
    assert_null(ranks_registered(job, &hello, stream_of(1)));
    struct {
        process_done_fn *done;
        void *data;
    } first = {look.done, look.data};
    const struct rank_hello other = {.number = 1, .pid = SECOND + 1, .way = RANK_BARRIER};
    assert_null(ranks_registered(job, &other, stream_of(0)));
    assert_null(looked());
    first.done(first.data, VERDICT_BELONGS, START_TICKS);
    assert_contains(refusal, "process 203 is rank 1 already");
}

static void who_hangs_up_while_it_is_looked_at_is_forgotten(void **state)
{
    const struct rank_hello hello = {.number = 1, .pid = SECOND, .way = RANK_BARRIER};

    (void)state;
    assert_null(ranks_registered(job, &hello, stream_of(1)));
    ranks_gone(job, stream_of(1));
    assert_null(look.done);
    assert_null(ranks_registered(job, &hello, stream_of(1)));
    ranks_hang_up(job);
    assert_null(look.done);
}

static void a_rank_puts_the_question_off_for_all(void **state)
{
    (void)state;
    assert_null(comes(0, FIRST, false));
    assert_null(comes(1, SECOND, false));
    told[0] = '\0';
    ranks_defer(job, 1, job->attempt.hint, 5000);
    assert_int_equal(job->attempt.state, ATTEMPT_DEFERRED);
    expect_told("0: withdrawn; 1: withdrawn");
}

/* It answers that this step is behind it, and the attempt is retried; else it would wait for one
 * until its time is over, and the job would count as one that does not answer. */
static void a_rank_that_is_asked_again_after_the_agreed_step_hears_that_step(void **state)
{
    const struct ask_request request = {.hint = job->attempt.hint, .deadline_ms = 1};

    (void)state;
    assert_null(comes(0, FIRST, true));
    told[0] = '\0';
    job->attempt.agreed_step = 310;
    job->attempt.state = ATTEMPT_ASKING;
    ranks_stream_tell(job, &job->entry.ranks[0], &request);
    expect_told("0: out/0-42-1/rank-00000; 0: step 310");
    job->attempt.agreed_step = 0;
    ranks_stream_tell(job, &job->entry.ranks[0], &request);
    expect_told("0: out/0-42-1/rank-00000");
    job->attempt.state = ATTEMPT_ASKED;
}

static void nobody_puts_it_off_when_another_is_done(void **state)
{
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(1, SECOND, false));
    job->entry.ranks[0].state = RANK_DONE;
    ranks_defer(job, 1, job->attempt.hint, 5000);
    expect_failed(&sequence, CKPT__V1__REASON__REASON_APPLICATION_REFUSED,
                  "a rank asked to be deferred after rank 0 was done");
}

/* It would hear the same question twice, and write over what it has written for the first. */
static void nobody_puts_it_off_for_a_rank_that_is_asked_by_a_signal(void **state)
{
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(0, FIRST, false));
    job->entry.ranks[1].by = RANK_BY_ENVIRONMENT;
    ranks_defer(job, 0, job->attempt.hint, 5000);
    expect_failed(&sequence, CKPT__V1__REASON__REASON_APPLICATION_REFUSED,
                  "a rank asked to be deferred, and rank 1 was asked by a signal and does not hear "
                  "of it: let all ranks use the library, or none defer");
}

static void nobody_puts_it_off_when_another_has_just_written(void **state)
{
    uint64_t sequence = 0;

    (void)state;
    assert_null(comes(1, SECOND, false));
    ranks_done(job, 1, job->attempt.hint);
    first_done = true;
    ranks_defer(job, 1, job->attempt.hint, 5000);
    expect_failed(&sequence, CKPT__V1__REASON__REASON_APPLICATION_REFUSED,
                  "a rank asked to be deferred after rank 0 was done");
}

static void who_has_registered_stands_for_what_was_seen(void **state)
{
    static struct ranks_seen seen;

    (void)state;
    seen = (struct ranks_seen){.count = 3};
    seen.items[0] = (struct rank_seen){.number = 1, .pid = 150}; /* its wrapper script */
    seen.items[1] = (struct rank_seen){.number = 2, .pid = 203, .twin = 204};
    seen.items[2] = (struct rank_seen){.pid = MAIN, .launcher = true};
    assert_null(comes(1, SECOND, true));
    assert_null(comes(0, FIRST, true));
    ranks_lay_over(job, &seen);
    assert_int_equal(seen.count, 4);
    assert_int_equal(seen.items[0].pid, FIRST);
    assert_int_equal(seen.items[1].pid, SECOND);
    assert_true(seen.items[1].registered && seen.items[1].local_count == 2);
    assert_true(seen.items[1].barrier && !seen.items[2].barrier);
    assert_int_equal(seen.items[2].pid, 203);
    assert_true(seen.items[3].launcher);
}

/* Several are done within a few ms: nobody of them waits for the look after the next. */
static void ranks_that_are_done_side_by_side_are_looked_at_at_once(void **state)
{
    (void)state;
    assert_null(comes(1, SECOND, false));
    reads = 0;
    for (unsigned i = 1; i <= AT_ONCE; i++) {
        unsigned before = reads;

        still_now_us += 1000;
        ranks_done(job, 1, job->attempt.hint);
        assert_true(reads > before);
    }
}

/* The agent serves the whole node, and one look reads a file of each rank. */
static void a_rank_that_says_done_without_end_is_looked_at_now_and_then(void **state)
{
    unsigned once;

    (void)state;
    assert_null(comes(1, SECOND, false));
    reads = 0;
    ranks_done(job, 1, job->attempt.hint);
    once = reads;
    assert_true(once > 0);
    for (unsigned i = 0; i < 1000; i++)
        ranks_done(job, 1, job->attempt.hint);
    assert_int_equal(reads, AT_ONCE * once);
    for (unsigned i = 1; i <= 10; i++) {
        still_now_us += 20000;
        ranks_done(job, 1, job->attempt.hint);
        ranks_done(job, 1, job->attempt.hint);
        assert_int_equal(reads, (AT_ONCE + i) * once);
    }
}

/* Its number is its user's, so it does not say how many there are; its launcher does. */
static void a_rank_that_does_not_count_is_counted_by_its_launcher(void **state)
{
    static struct ranks_seen seen;
    const struct rank_hello hello = {.number = 0,
                                     .local = UINT32_MAX,
                                     .ranks = UINT32_MAX,
                                     .local_ranks = UINT32_MAX,
                                     .pid = FIRST};

    (void)state;
    seen = (struct ranks_seen){.count = 1};
    seen.items[0] = (struct rank_seen){.number = 0, .pid = FIRST, .local_count = 2, .all_count = 4};
    assert_null(says_hello(&hello));
    ranks_lay_over(job, &seen);
    assert_int_equal(seen.count, 1);
    assert_true(seen.items[0].registered);
    assert_int_equal(seen.items[0].local_count, 2);
    assert_int_equal(seen.items[0].all_count, 4);
}

/* Its launcher counts no node's ranks, but there is one node. */
static void a_rank_that_is_missing_on_the_only_node_is_missed(void **state)
{
    const struct rank_hello hello = {
        .number = 1, .local = UINT32_MAX, .ranks = 2, .local_ranks = UINT32_MAX, .pid = SECOND};
    const struct ranks_table *table;
    char why[JOB_DETAIL_BYTES];

    (void)state;
    job->executor.ask = ask_find("signal");
    assert_null(says_hello(&hello));
    job->entry.parts = 2;
    assert_true(ranks_see(job, &table, why));
    job->entry.parts = 1;
    assert_false(ranks_see(job, &table, why));
    assert_string_equal(why, "1 of 2 ranks are there on this node: 1");
    ranks_forget(job);
}

/* What its user starts may be more than there is room for; all of it stays in order. */
static void registered_ranks_without_room_are_said(void **state)
{
    static struct ranks_seen seen;
    const size_t room = sizeof(seen.items) / sizeof(seen.items[0]);

    (void)state;
    seen = (struct ranks_seen){.count = room};
    for (uint32_t i = 0; i < room; i++)
        seen.items[i] = (struct rank_seen){
            .number = 1000 + i, .pid = (pid_t)(1000 + i), .launcher = i >= LEDGER_RANKS_MAX};
    assert_null(comes(1, SECOND, true));
    ranks_lay_over(job, &seen);
    assert_string_equal(seen.why, "the job has more ranks and launchers on this node than 288");
    assert_int_equal(seen.count, room);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(who_has_opened_the_library_is_waited_for),
        T(a_heartbeat_says_since_when_no_rank_steps_and_what_they_wait_for),
        T(ranks_meet_in_two_rounds_and_one_that_is_beyond_fails_it),
        T(a_node_meets_anew_when_another_was_put_off),
        T(an_agent_that_restarts_knows_that_its_ranks_meet_the_others),
        T(who_does_not_come_to_a_step_is_named),
        T(a_node_whose_ranks_wait_for_others_blames_none_of_them),
        T(a_number_is_one_living_process_s),
        T(only_processes_of_the_job_are_ranks_of_it),
        T(of_two_that_come_with_one_number_the_second_is_refused),
        T(who_hangs_up_while_it_is_looked_at_is_forgotten),
        T(a_rank_puts_the_question_off_for_all),
        T(a_rank_that_is_asked_again_after_the_agreed_step_hears_that_step),
        T(nobody_puts_it_off_when_another_is_done),
        T(nobody_puts_it_off_for_a_rank_that_is_asked_by_a_signal),
        T(nobody_puts_it_off_when_another_has_just_written),
        T(who_has_registered_stands_for_what_was_seen),
        T(ranks_that_are_done_side_by_side_are_looked_at_at_once),
        T(a_rank_that_says_done_without_end_is_looked_at_now_and_then),
        T(a_rank_that_is_missing_on_the_only_node_is_missed),
        T(registered_ranks_without_room_are_said),
        T(a_rank_that_does_not_count_is_counted_by_its_launcher),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
