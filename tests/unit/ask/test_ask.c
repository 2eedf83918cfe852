/* Ways of asking, and those that ask by a signal (S1-031, S1-032). */
#include <signal.h>

#include "fsm/profiles.h"
#include "src/base/check.h"
#include "tests/unit/ask/node.h"

/* What a registration may name is what a node can do, and each way can do all of it. */
static void each_profile_has_a_whole_row(void **state)
{
    static const char *const profiles[] = {
#define X(row, name, level) name,
        FSM_PROFILES(X)
#undef X
    };
    const struct ask_ops *ops;
    size_t count = 0;

    (void)state;
    for (; ask_profile_at(count, &ops) != NULL; count++) {
        assert_string_equal(ask_profile_at(count, &ops), profiles[count]);
        assert_ptr_equal(ask_find(profiles[count]), ops);
        assert_string_equal(ask_name(profiles[count]), profiles[count]);
        assert_true(ops->about != NULL && ops->preflight != NULL && ops->prepare != NULL);
        assert_true(ops->fire != NULL && ops->hang_up != NULL && ops->prepared != NULL);
        assert_true(ops->poll != NULL && ops->growth != NULL && ops->clear != NULL);
    }
    assert_uint_equal(count, sizeof(profiles) / sizeof(profiles[0]));
    assert_ptr_equal(ask_find(""), ask_find(profiles[0]));
    assert_string_equal(ask_name(""), profiles[0]);
    assert_null(ask_find("nosuch"));
}

/* Each profile with what it is, in order, and apart those whose applications register. */
static void messages_name_all_profiles_and_those_that_register(void **state)
{
    char expected[ASK_PROFILES_BYTES] = "", registering[ASK_PROFILES_BYTES] = "", name[128];
    char text[ASK_PROFILES_BYTES];
    const struct ask_ops *ops;
    const char *profile;

    (void)state;
    for (size_t i = 0; (profile = ask_profile_at(i, &ops)) != NULL; i++) {
        snprintf(name, sizeof(name), "%s%s (%s)", i == 0 ? "" : ", ", profile, ops->about);
        strncat(expected, name, sizeof(expected) - strlen(expected) - 1);
        snprintf(name, sizeof(name), "%s%s", registering[0] == '\0' ? "" : " or ", profile);
        if (ops->registers)
            strncat(registering, name, sizeof(registering) - strlen(registering) - 1);
    }
    assert_string_equal(ask_profiles(text), expected);
    assert_true(strlen(text) < ASK_PROFILES_BYTES - 1);
    assert_non_null(strstr(text, "signal (SIGUSR1), signal-usr2 (SIGUSR2)"));
    assert_string_equal(ask_profiles_registering(text), registering);
    assert_non_null(strstr(text, "grpc"));
}

/* Of whom nobody has said how it is asked: what it has taken decides, else the first way. */
static void an_application_shows_its_way(void **state)
{
    struct ckpt_shm *shm = check_calloc(1, sizeof(*shm));
    struct application application = {.endpoint = ASK_UNREGISTERED};
    struct ask_target target = target_of(&application);

    (void)state;
    assert_string_equal(ask_shown(&target), ask_name(""));
    application.region = shm;
    assert_string_equal(ask_shown(&target), ask_name(""));
    shm->slot[3].owner = 4;
    assert_string_equal(ask_shown(&target), "shm");
    application.endpoint = ASK_REGISTERED;
    assert_string_equal(ask_shown(&target), "grpc");
    application.endpoint = ASK_CLOSED; /* it was, and may be again */
    assert_string_equal(ask_shown(&target), "grpc");
    free(shm);
}

static const struct ask_request request = {.checkpoint_id = 42,
                                           .attempt = 1,
                                           .hint = "1-42-1",
                                           .directory = "/w/out/1-42-1",
                                           .deadline_ms = 1000};

static enum ask_answer poll(const struct ask_ops *ask, struct application *application,
                            struct sentinel *ret_sentinel)
{
    const struct ask_target target = target_of(application);
    struct err err = {0};

    return ask->poll(&target, "1-42-1", 0, ret_sentinel, &err);
}

/* By its profile's signal, or by the one that its user names. S4-003. */
static void signal_way_asks_once_and_hears_nothing(void **state)
{
    static const struct {
        const char *profile;
        int named, signal;
    } rows[] = {{"signal", 0, SIGUSR1},
                {"signal-usr2", 0, SIGUSR2},
                {"signal", SIGTSTP, SIGTSTP},
                {"signal-usr2", ASK_SIGNAL_MAX, ASK_SIGNAL_MAX}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct application application = {.catches = ASK_CATCHES};
        struct ask_target target = target_of(&application);
        const struct ask_ops *ask = ask_find(rows[i].profile);
        struct ask_call *call = NULL;
        struct heard heard = {0};
        const struct ask_listener listener = {&heard_events, &heard};
        struct err err = {0};
        char detail[200];

        target.signal = rows[i].named;
        assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
        assert_false(ask->prepared(&target, "1-42-1"));
        assert_int_equal(ask->prepare(&target, &request, &err), 0);
        assert_true(ask->prepared(&target, "1-42-1"));
        assert_int_equal(ask->fire(ask, &target, &request, &listener, &call, &err), 0);
        assert_null(call);
        ask->hang_up(call);
        assert_int_equal(application.signals, 1);
        assert_int_equal(application.last_signal, rows[i].signal);
        assert_false(heard.over);
        assert_null(ask->lost); /* an agent that restarts reads the folder */
    }
}

/* It lies at the destination: nothing is made there, and a link leads to it. */
static void what_lies_elsewhere_is_linked_and_not_made(void **state)
{
    struct application application = {.rank_count = 2, .ranks = {{.number = 4, .tells = true}}};
    const struct ask_target target = target_of(&application);
    struct ask_request elsewhere = request;
    struct err err = {0};

    (void)state;
    elsewhere.directory = "/scratch/1-42/.part-0000.tmp.0123456789abcdef";
    elsewhere.elsewhere = true;
    assert_int_equal(ask_find("signal")->prepare(&target, &elsewhere, &err), 0);
    assert_string_equal(file_of(&application, "out/1-42-1")->text, elsewhere.directory);
    assert_null(file_of(&application, "out/1-42-1/rank-00004"));
    assert_contains(file_of(&application, "request")->text, "directory=/scratch/1-42/.part");
}

/* Whichever way it was asked, what it leaves is read alike. */
static void every_way_finds_the_answer_in_the_folder(void **state)
{
    const struct ask_ops *ask;

    (void)state;
    for (size_t i = 0; ask_profile_at(i, &ask) != NULL; i++) {
        struct application application = {0};
        const struct ask_target target = target_of(&application);
        struct sentinel sentinel;
        struct err err = {0};
        uint64_t grown;

        file_put(&application, "done",
                 "hint=1-42-1\nbytes=7\nstatus=0\n"); /* of an earlier cluster */
        assert_int_equal(ask->prepare(&target, &request, &err), 0);
        assert_non_null(
            strstr(file_of(&application, "request")->text, "directory=/w/out/1-42-1\n"));
        assert_non_null(file_of(&application, "out/1-42-1"));
        assert_int_equal(poll(ask, &application, &sentinel), ASK_NOTHING_YET);
        grown = ask->growth(&target, "1-42-1");
        file_put(&application, "out/1-42-1/state", "1234");
        assert_true(ask->growth(&target, "1-42-1") != grown);
        file_put(&application, "done", "hint=1-42-0\nbytes=7\nstatus=0\n");
        assert_int_equal(poll(ask, &application, &sentinel), ASK_NOTHING_YET);
        file_put(&application, "done", ""); /* it may be written yet, for as long as others may */
        assert_int_equal(poll(ask, &application, &sentinel), ASK_UNFINISHED);
        file_put(&application, "done", "hint=1-42-1\nbytes=");
        assert_int_equal(poll(ask, &application, &sentinel), ASK_UNFINISHED);
        file_put(&application, "done", "hint=1-42-1\nbytes=much\nstatus=0\n");
        assert_int_equal(poll(ask, &application, &sentinel), ASK_WRONG);
        file_put(&application, "done", "hint=1-42-1\nbytes=7\nstatus=0\n");
        assert_int_equal(poll(ask, &application, &sentinel), ASK_FINISHED);
        assert_uint_equal(sentinel.bytes, 7);
        ask->clear(&target);
        assert_null(file_of(&application, "request"));
        assert_null(file_of(&application, "done"));
        assert_false(ask->prepared(&target, "1-42-1"));
    }
}

static void what_the_node_refuses_is_an_error(void **state)
{
    struct application application = {.group_gone = true};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal");
    struct ask_call *call = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(
        ask->fire(ask, &target, &request, &(struct ask_listener){&heard_events, NULL}, &call, &err),
        -1);
    assert_string_equal(err.text, "no such process");
    application.disk_full = true;
    assert_int_equal(ask->prepare(&target, &request, &err), -1);
    assert_string_equal(err.text, "no space left on device");
}

static void signal_way_says_who_would_die(void **state)
{
    struct application application = {.catches = ASK_WOULD_DIE};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal");
    char detail[200];

    (void)state;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_non_null(strstr(detail, "pid 77 (sleep) does not catch signal 10 (SIGUSR1)"));
    application.catches = ASK_NONE_CATCHES;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_non_null(strstr(detail, "no process of the job, whose group is 70, catches signal 10"));
}

/* Launcher and wrappers are not among them: nobody but these is signalled. */
static void each_rank_is_asked_and_answers_for_itself(void **state)
{
    struct application application = {
        .rank_count = 2,
        .ranks = {{.number = 3, .pid = 71, .catches_usr1 = true, .name = "solver"},
                  {.number = 11, .pid = 72, .name = "solver"}}};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal");
    struct sentinel sentinel;
    struct ask_call *call;
    struct err err = {0};
    char detail[200];

    (void)state;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_non_null(strstr(detail, "rank 11, pid 72 (solver), does not catch signal 10 (SIGUSR1)"));
    application.ranks[1].catches_usr1 = true;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
    file_put(&application, "done.11", "hint=1-42-1\nbytes=7\nstatus=0\n");
    assert_int_equal(ask->prepare(&target, &request, &err), 0);
    assert_null(file_of(&application, "done.11"));
    assert_non_null(strstr(file_of(&application, "request")->text, "\nranks=3,11\n"));
    assert_int_equal(
        ask->fire(ask, &target, &request, &(struct ask_listener){&heard_events, NULL}, &call, &err),
        0);
    assert_int_equal(application.signals, 0);
    assert_int_equal(application.rank_signals[0], 1);
    assert_int_equal(application.rank_signals[1], 1);
    file_put(&application, "done.3",
             "hint=1-42-1\nbytes=7\nstatus=0\nstep=127\nstall_ms=40\n"
             "saved_at=1700000000000\n");
    assert_int_equal(ask->poll(&target, "1-42-1", 0, &sentinel, &err), ASK_FINISHED);
    assert_string_equal(sentinel.label, "127");
    assert_uint_equal(sentinel.stall_ms, 40);
    assert_true(sentinel.saved_at_ms == 1700000000000);
    assert_int_equal(ask->poll(&target, "1-42-1", 1, &sentinel, &err), ASK_NOTHING_YET);
    file_put(&application, "done", "hint=1-42-1\nbytes=7\nstatus=0\n");
    assert_int_equal(ask->poll(&target, "1-42-1", 1, &sentinel, &err), ASK_WRONG);
    assert_string_equal(err.text, "`done` names no rank, and the job has ranks 3, 11 on this node: "
                                  "each writes done.RANK");
    file_of(&application, "done.3")->other = true;
    assert_int_equal(ask->poll(&target, "1-42-1", 0, &sentinel, &err), ASK_WRONG);
    assert_string_equal(err.text,
                        "`done.3` in the work folder is no regular file that can be read; "
                        "remove it, and write it under another name and rename it");
    ask->clear(&target);
    assert_null(file_of(&application, "done.3"));
    assert_null(file_of(&application, "done"));
}

/* Each must catch the signal that its user names, whatever others it catches. S4-003. */
static void ranks_are_asked_by_the_signal_that_is_named(void **state)
{
    struct application application = {
        .rank_count = 1,
        .ranks = {{.number = 3, .pid = 71, .catches_usr1 = true, .name = "solver"}}};
    struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal");
    char detail[200];

    (void)state;
    target.signal = SIGRTMIN + 3;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_contains(detail, "does not catch signal 37 (SIGRTMIN+3)");
    application.ranks[0].catches_asked = true;
    application.ranks[0].catches_usr1 = false;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
}

static void a_rank_that_is_alone_on_its_node_need_not_say_its_number(void **state)
{
    struct application application = {.rank_count = 1,
                                      .ranks = {{.number = 3, .pid = 71, .catches_usr1 = true}}};
    struct sentinel sentinel;

    (void)state;
    file_put(&application, "done", "hint=1-42-1\nbytes=7\nstatus=0\n");
    assert_int_equal(poll(ask_find("signal"), &application, &sentinel), ASK_FINISHED);
    file_put(&application, "done.3", "hint=1-42-1\nbytes=9\nstatus=0\n");
    assert_int_equal(poll(ask_find("signal"), &application, &sentinel), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 9);
}

/* A program that numbers what it writes begins with 0. S1-032. */
static void who_speaks_for_all_may_write_its_number(void **state)
{
    struct application application = {.catches = ASK_CATCHES};
    struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal");
    struct sentinel sentinel;
    struct err err = {0};

    (void)state;
    file_put(&application, "done.0", "hint=1-42-1\nbytes=7\nstatus=0\n");
    assert_int_equal(ask->poll(&target, "1-42-1", 0, &sentinel, &err), ASK_NOTHING_YET);
    target.speaks_for_all = true;
    assert_int_equal(ask->poll(&target, "1-42-1", 0, &sentinel, &err), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 7);
    file_put(&application, "done", "hint=1-42-1\nbytes=9\nstatus=0\n");
    assert_int_equal(ask->poll(&target, "1-42-1", 0, &sentinel, &err), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 9);
    assert_int_equal(ask->prepare(&target, &request, &err), 0);
    assert_null(file_of(&application, "done.0"));
    assert_null(file_of(&application, "done"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_has_a_whole_row),
        cmocka_unit_test(messages_name_all_profiles_and_those_that_register),
        cmocka_unit_test(an_application_shows_its_way),
        cmocka_unit_test(signal_way_asks_once_and_hears_nothing),
        cmocka_unit_test(what_lies_elsewhere_is_linked_and_not_made),
        cmocka_unit_test(every_way_finds_the_answer_in_the_folder),
        cmocka_unit_test(each_rank_is_asked_and_answers_for_itself),
        cmocka_unit_test(ranks_are_asked_by_the_signal_that_is_named),
        cmocka_unit_test(a_rank_that_is_alone_on_its_node_need_not_say_its_number),
        cmocka_unit_test(who_speaks_for_all_may_write_its_number),
        cmocka_unit_test(what_the_node_refuses_is_an_error),
        cmocka_unit_test(signal_way_says_who_would_die)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
