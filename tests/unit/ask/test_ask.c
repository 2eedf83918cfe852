/* Ways of asking on a node of memory: no agent, no process, no file (S1-031, S1-032, S1-038). */
#include <signal.h>
#include <stdio.h>

#include "fsm/profiles.h"
#include "src/ask/ask.h"
#include "tests/support/test.h"

enum { FILES_MAX = 8, TEXT_BYTES = 512 };

struct memory_file {
    char name[64];
    char text[TEXT_BYTES];
};

/* An application as a way of asking sees it. */
struct application {
    enum ask_catches catches;
    enum ask_endpoint endpoint;
    int signals, last_signal;
    struct memory_file files[FILES_MAX];
};

/* The first free one has the name "". NULL: there is none. */
static struct memory_file *file_of(struct application *application, const char *name)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (strcmp(application->files[i].name, name) == 0)
            return &application->files[i];
    }
    return NULL;
}

static enum ask_catches group_catches(void *context, int number, struct ask_process *ret_culprit)
{
    const struct application *application = context;

    (void)number;
    *ret_culprit = (struct ask_process){.pid = 77, .name = "sleep"};
    return application->catches;
}

static int group_signal(void *context, int number, struct err *err)
{
    struct application *application = context;

    (void)err;
    application->signals++;
    application->last_signal = number;
    return 0;
}

static enum ask_endpoint endpoint(void *context, char *ret_why, size_t size)
{
    const struct application *application = context;

    if (application->endpoint == ASK_CLOSED)
        snprintf(ret_why, size, "nobody listens there");
    return application->endpoint;
}

static int file_write(void *context, const char *name, const char *text, size_t length,
                      struct err *err)
{
    struct memory_file *file = file_of(context, name);

    (void)err;
    if (file == NULL)
        file = file_of(context, "");
    if (file == NULL || length >= TEXT_BYTES)
        return -1;
    snprintf(file->name, sizeof(file->name), "%s", name);
    memcpy(file->text, text, length);
    file->text[length] = '\0';
    return 0;
}

static int folder_make(void *context, const char *name, bool may_exist, struct err *err)
{
    (void)may_exist;
    return file_write(context, name, "", 0, err);
}

static ssize_t file_read(void *context, const char *name, char *text, size_t size)
{
    const struct memory_file *file = file_of(context, name);

    return file == NULL ? -1 : snprintf(text, size, "%s", file->text);
}

static void file_remove(void *context, const char *name)
{
    struct memory_file *file = file_of(context, name);

    if (file != NULL)
        *file = (struct memory_file){0};
}

static const struct ask_node node = {.group_catches = group_catches,
                                     .group_signal = group_signal,
                                     .endpoint = endpoint,
                                     .folder_make = folder_make,
                                     .file_read = file_read,
                                     .file_write = file_write,
                                     .file_remove = file_remove};

static struct ask_target target_of(struct application *application)
{
    return (struct ask_target){.node = &node, .context = application, .group = 70, .uid = 1000};
}

/* What a registration may name is what a node can do, and each way can do all of it. */
static void each_profile_has_a_whole_row(void **state)
{
    static const char *const profiles[] = {
#define X(row, name) name,
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
    assert_memory_equal(ask_profiles(text), expected, strlen(expected));
    assert_non_null(strstr(text, "signal (SIGUSR1), signal-usr2 (SIGUSR2)"));
    assert_non_null(strstr(text, "; shm, exec, criu and dmtcp are UNIMPLEMENTED in this version"));
    assert_string_equal(ask_profiles_registering(text), registering);
    assert_non_null(strstr(text, "grpc"));
}

static void signal_way_asks_once_and_reads_the_answer_in_the_folder(void **state)
{
    struct application application = {.catches = ASK_CATCHES};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("signal-usr2");
    const struct ask_request request = {
        .hint = "1-42-1", .directory = "/w/out/1-42-1", .deadline_ms = 1000};
    const char done[] = "hint=1-42-1\nbytes=7\nstatus=0\n";
    struct ask_call *call = NULL;
    struct sentinel sentinel;
    struct err err = {0};
    char detail[200];

    (void)state;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
    assert_false(ask->prepared(&target, "1-42-1"));
    assert_int_equal(ask->prepare(&target, &request, &err), 0);
    assert_true(ask->prepared(&target, "1-42-1"));
    assert_non_null(file_of(&application, "out/1-42-1"));
    assert_int_equal(ask->fire(ask, &target, &request, NULL, NULL, &call, &err), 0);
    assert_null(call);
    assert_int_equal(application.signals, 1);
    assert_int_equal(application.last_signal, SIGUSR2);
    assert_int_equal(ask->poll(&target, "1-42-1", &sentinel, &err), ASK_NOTHING_YET);
    assert_int_equal(file_write(&application, "done", done, strlen(done), &err), 0);
    assert_int_equal(ask->poll(&target, "1-42-2", &sentinel, &err), ASK_NOTHING_YET);
    assert_int_equal(ask->poll(&target, "1-42-1", &sentinel, &err), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 7);
    ask->clear(&target);
    assert_null(file_of(&application, "request"));
    assert_null(file_of(&application, "done"));
    assert_null(ask->lost); /* an agent that restarts reads the folder */
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
    assert_non_null(strstr(detail, "no process of group 70 catches signal 10"));
}

static void calling_way_needs_what_the_application_registered(void **state)
{
    struct application application = {.endpoint = ASK_UNREGISTERED};
    const struct ask_target target = target_of(&application);
    const struct ask_ops *ask = ask_find("grpc");
    char detail[200];

    (void)state;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_non_null(strstr(detail, "AppService.Register"));
    application.endpoint = ASK_CLOSED;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_NO_HANDLER);
    assert_string_equal(detail, "nobody listens there");
    application.endpoint = ASK_REGISTERED;
    assert_int_equal(ask->preflight(ask, &target, detail, sizeof(detail)), ASK_READY);
    assert_non_null(ask->lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_has_a_whole_row),
        cmocka_unit_test(messages_name_all_profiles_and_those_that_register),
        cmocka_unit_test(signal_way_asks_once_and_reads_the_answer_in_the_folder),
        cmocka_unit_test(signal_way_says_who_would_die),
        cmocka_unit_test(calling_way_needs_what_the_application_registered)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
