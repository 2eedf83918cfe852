/* The daemon's side of signing: stores and their keys, answers, the socket of a worker, and workers
 * that do not behave. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/s3/sign_server.h"
#include "src/dest/s3/stores.h"
#include "src/dest/worker_serve.h"
#include "tests/support/test.h"

#define PATH   "s3://bkt/a/acme/heat/j1/checkpoints/1-7"
#define KEY    "a/acme/heat/j1/checkpoints/1-7/part-0001/f/model.bin"
#define EMPTY  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

static const char *const put[] = {"put",    "--prefix",  "s3://bkt/a", "--path",    PATH,
                                  "--part", "part-0001", "--source",   "/work/out", NULL};

static char folder[64], keys_path[96];
static struct err err;
static char told_store[64], told_text[512];
static unsigned told_count;

static void told(const char *store, const struct err *failed)
{
    snprintf(told_store, sizeof(told_store), "%s", store);
    snprintf(told_text, sizeof(told_text), "%s", failed == NULL ? "" : failed->text);
    told_count++;
}

static void write_keys(const char *text, mode_t mode)
{
    char other[112];
    int fd;

    snprintf(other, sizeof(other), "%s.new", keys_path);
    fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    assert_int_equal(rename(other, keys_path), 0);
}

static struct s3_store_item item_of(void)
{
    static char name[] = "main", endpoint[] = "http://127.0.0.1:7480", region[] = "us-east-1",
                style[] = "path", none[] = "", profile[] = "default", buckets[] = "bkt, bkt-two";

    return (struct s3_store_item){name,      endpoint, region,  style, none,
                                  keys_path, profile,  buckets, false};
}

static int open_stores(void)
{
    const struct s3_store_item item = item_of();

    told_count = 0;
    return s3_stores_open(&item, 1, told, &err);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ckpt-sign-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(keys_path, sizeof(keys_path), "%s/keys", folder);
    write_keys("[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = " SECRET "\n",
               0600);
    assert_int_equal(open_stores(), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    s3_stores_close();
    (void)unlink(keys_path);
    return rmdir(folder);
}

/* ---- answers ---- */

static char said[SERVE_MESSAGE_BYTES + 1];

static const char *answer_to(const char *const *arguments, const char *request, size_t length)
{
    void *state = s3_sign_server.open(arguments);
    size_t got = s3_sign_server.answer(state, request, length, said);

    said[got] = '\0';
    s3_sign_server.close(state);
    assert_null(strstr(said, SECRET));
    return said;
}

static const char *ask(const char *request)
{
    return answer_to(put, request, strlen(request));
}

static void a_worker_learns_where_its_store_is(void **state)
{
    (void)state;
    assert_string_equal(ask("store\n"), "endpoint=http://127.0.0.1:7480\nregion=us-east-1\n"
                                        "style=path\nca_file=\n");
}

/* Of the section `s3`, as a site with an authority of its own and buckets in host names has
 * it. */
static void a_worker_learns_the_style_and_the_authority_of_its_store(void **state)
{
    static char host[] = "host", endpoint[] = "https://s3.example:7443";
    struct s3_store_item item = item_of();
    char authority[128], expected[300];
    int fd;

    (void)state;
    snprintf(authority, sizeof(authority), "%s/ca.pem", folder);
    item.style = host;
    item.endpoint = endpoint;
    item.ca_file = authority;
    assert_int_equal(s3_stores_open(&item, 1, told, &err), -1);
    assert_contains(err.text, "/ca.pem: No such file");
    fd = open(authority, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(s3_stores_open(&item, 1, told, &err), -1);
    assert_contains(err.text, "all users may read (mode 600): chmod 644");
    assert_int_equal(fchmod(fd, 0644), 0);
    close(fd);
    assert_int_equal(s3_stores_open(&item, 1, told, &err), 0);
    snprintf(expected, sizeof(expected), "endpoint=%s\nregion=us-east-1\nstyle=host\nca_file=%s\n",
             endpoint, authority);
    assert_string_equal(ask("store\n"), expected);
    assert_int_equal(unlink(authority), 0);
}

static void a_request_of_the_task_is_signed(void **state)
{
    (void)state;
    ask("sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nif-none-match:*\n");
    assert_int_equal(strncmp(said, "date=20", 7), 0);
    assert_contains(said, "\nauthorization=AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/");
    assert_contains(said, "SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date,");
    assert_contains(said, "\ntoken=\n");
}

/* Ceph takes headers that nobody signed: a copy of anybody's object into one's own. */
static void headers_that_would_change_what_is_done_are_sealed(void **state)
{
    struct s3_store_item item = item_of();

    (void)state;
    item.seal_headers = true;
    assert_int_equal(s3_stores_open(&item, 1, told, &err), 0);
    ask("sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nrange:x\n");
    assert_contains(said, "SignedHeaders=host;range;x-amz-acl;x-amz-bypass-governance-retention;"
                          "x-amz-content-sha256;x-amz-copy-source;x-amz-date;x-amz-grant-");
    ask("sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nx-amz-copy-source:bkt/" KEY "\n");
    assert_contains(said, ";x-amz-content-sha256;x-amz-copy-source;x-amz-date;");
}

static void what_is_no_request_of_the_task_is_refused(void **state)
{
    static const char *const requests[] = {
        "",
        "\n",
        "store",
        "store\nstore\n",
        "sign",
        "sign\n",
        "sign\nPUT\nbkt\n",
        "sign\nPUT\nbkt\na/other\n\n" EMPTY "\n",
        "sign\nPUT\nother\n" KEY "\n\n" EMPTY "\n",
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY,
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nx-amz-acl:public-read\n",
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nnocolon\n",
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nrange:a\nrange:b\n",
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\nrange:a\nif-match:b\n",
        "sign\nPUT\nbkt\n" KEY "\n\nUNSIGNED-PAYLOAD\n",
        "sign\nPUT\nbkt\n" KEY "\n\n" EMPTY "\na:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\nh:1\ni:1\nj:1\n"
        "k:1\nl:1\nm:1\nn:1\n",
    };
    static const char with_zero[] = "sign\nPUT\nbkt\n" KEY "\0evil\n\n" EMPTY "\n";
    static char large[SERVE_MESSAGE_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        if (strncmp(ask(requests[i]), "refused=", 8) != 0 || strlen(said) < 12 ||
            strchr(said, '\n') != said + strlen(said) - 1)
            fail_msg("request %zu: %s", i, said);
    }
    assert_int_equal(strncmp(answer_to(put, with_zero, sizeof(with_zero) - 1), "refused=", 8), 0);
    memset(large, 'x', sizeof(large));
    assert_int_equal(strncmp(answer_to(put, large, 100000), "refused=", 8), 0);
    assert_contains(said, "100000 bytes, at most 8192");
}

/* No bytes of anybody stop the daemon. */
static void garbage_is_refused(void **state)
{
    static const char pieces[][20] = {
        "sign\n", "PUT\n", "bkt\n",   "a/b\n", "e3b0\n",  "range:x\n", "\n",
        "=",      "%2F",   "prefix=", "&",     "store\n", "../",       "x-amz-acl:p\n"};
    uint64_t seed = test_seed();

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        char text[512];
        size_t length = 0;

        while (length < 400 && test_random(&seed) % 12 != 0) {
            const char *piece = pieces[test_random(&seed) % ARRAY_COUNT(pieces)];

            memcpy(text + length, piece, strlen(piece));
            length += strlen(piece);
            if (test_random(&seed) % 4 == 0)
                text[length++] = (char)test_random(&seed);
        }
        if (strncmp(answer_to(put, text, length), "refused=", 8) != 0 &&
            (length != 6 || memcmp(text, "store\n", 6) != 0))
            fail_msg("signed: %.*s", (int)length, text);
    }
}

static void a_task_without_a_scope_is_told_so(void **state)
{
    static const char *const none[] = {"sweep", "--path", PATH, NULL};
    static const char *const elsewhere[] = {"verify", "--path", "s3://other/a/b/c/checkpoints/1-1",
                                            "--part", "p",      NULL};

    (void)state;
    answer_to(none, "store\n", 6);
    assert_contains(said, "refused=the task sweep signs nothing");
    answer_to(elsewhere, "store\n", 6);
    assert_contains(said, "refused=no store of the section s3");
    assert_contains(said, "\"other\"; add it to the buckets of one");
}

/* ---- keys ---- */

static void keys_are_read_again_when_their_file_changes(void **state)
{
    (void)state;
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDEXAMPLE/");
    write_keys("access_key=AKIDNEW\nsecret_key=s2\nsession_token=tok/en==\n", 0600);
    usleep(1100000);
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDNEW/");
    assert_contains(said, "x-amz-security-token,");
    assert_contains(said, "\ntoken=tok/en==\n");
    assert_int_equal(told_count, 1);
    assert_string_equal(told_store, "main");
    assert_string_equal(told_text, "");
}

static void keys_that_cannot_be_read_leave_those_of_before(void **state)
{
    (void)state;
    write_keys("access_key=AKIDOPEN\nsecret_key=s2\n", 0644);
    usleep(1100000);
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDEXAMPLE/");
    assert_int_equal(told_count, 1);
    assert_contains(told_text, "may be read by others (mode 644): chmod 600");
    s3_stores_reload();
    assert_int_equal(told_count, 2);
    (void)unlink(keys_path);
    usleep(1100000);
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDEXAMPLE/");
    assert_int_equal(told_count, 2);
    write_keys("access_key=AKIDBACK\nsecret_key=s2\n", 0600);
    s3_stores_reload();
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDBACK/");
}

static void a_file_of_keys_that_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *problem;
    } files[] = {
        {"access_key=a\nsecret_key=b\n", 0640, "may be read by others (mode 640): chmod 600"},
        {"access_key=a\n", 0600, "has no aws_secret_access_key for profile default"},
        {"[other]\naccess_key=a\nsecret_key=b\n", 0600, "has no aws_access_key_id for profile"},
        {"[default\n", 0600, "line 1: a section has no end"},
        {"\n# x\naccess_key\n", 0600, "line 3: \"name = value\" is expected"},
        {"access_key=a b\n", 0600, "line 1: access_key must be at most 255 printable"},
        {"access_key=a\nsecret_key=b\rx-evil: 1\n", 0600, "line 2: secret_key must be"},
        {"", 0600, "has no aws_access_key_id"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        write_keys(files[i].text, files[i].mode);
        assert_int_equal(open_stores(), -1);
        assert_int_equal(strncmp(err.text, "s3: store main: ", 16), 0);
        assert_contains(err.text, files[i].problem);
        assert_contains(err.text, keys_path);
    }
    ask("store\n"); /* those of before */
    assert_contains(said, "endpoint=");
}

static void keys_may_come_from_the_environment(void **state)
{
    struct s3_store_item item = item_of();
    static char none[] = "";

    (void)state;
    item.credentials_file = none;
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_int_equal(s3_stores_open(&item, 1, told, &err), -1);
    assert_contains(err.text, "the environment has no AWS_ACCESS_KEY_ID");
    setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "x", 1);
    assert_int_equal(s3_stores_open(&item, 1, told, &err), 0);
    ask("sign\nGET\nbkt\n" KEY "\n\n" EMPTY "\n");
    assert_contains(said, "Credential=AKIDENV/");
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

static void stores_that_do_not_go_together_are_named(void **state)
{
    static char star[] = "*", bad[] = "Bkt", empty[] = " ,", two[] = "two", virtual[] = "virtual",
                path[] = "http://h/x", user[] = "http://u:p@h";
    struct s3_store_item items[2] = {item_of(), item_of()};
    struct s3_mistake mistake;

    (void)state;
    assert_int_equal(s3_stores_check(items, 1, &mistake, &err), 0);
    assert_int_equal(s3_stores_check(items, 2, &mistake, &err), -1);
    assert_string_equal(mistake.key, "name");
    assert_int_equal(mistake.item, 1);
    items[1].name = two;
    assert_int_equal(s3_stores_check(items, 2, &mistake, &err), -1);
    assert_string_equal(mistake.key, "buckets");
    assert_contains(err.text, "has bkt, which store main has already");
    items[1].buckets = star;
    assert_int_equal(s3_stores_check(items, 2, &mistake, &err), 0);
    items[1].buckets = bad;
    assert_int_equal(s3_stores_check(items, 2, &mistake, &err), -1);
    assert_contains(err.text, "has the bucket 'Bkt': names have 3 to 63");
    items[1].buckets = empty;
    assert_int_equal(s3_stores_check(items, 2, &mistake, &err), -1);
    items[0].style = virtual;
    assert_int_equal(s3_stores_check(items, 1, &mistake, &err), -1);
    assert_string_equal(mistake.key, "style");
    items[0] = item_of();
    items[0].endpoint = path;
    assert_int_equal(s3_stores_check(items, 1, &mistake, &err), -1);
    assert_string_equal(mistake.key, "endpoint");
    items[0].endpoint = user;
    assert_int_equal(s3_stores_check(items, 1, &mistake, &err), -1);
}

/* ---- the socket ---- */

struct flood {
    uv_loop_t loop;
    struct serving *serving;
    int fd;
    unsigned asked, answered, wanted;
    uint64_t began_ms;
    unsigned turns;
};

static void flood_turn(uv_idle_t *idle)
{
    struct flood *flood = idle->data;
    char text[SERVE_MESSAGE_BYTES];

    flood->turns++;
    while (flood->asked < flood->wanted &&
           send(flood->fd, "store\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL) == 6)
        flood->asked++;
    while (recv(flood->fd, text, sizeof(text), MSG_DONTWAIT) > 0)
        flood->answered++;
    if (flood->answered < flood->wanted && uv_now(&flood->loop) - flood->began_ms < 20000)
        return;
    uv_close((uv_handle_t *)idle, NULL);
    serving_close(flood->serving);
}

static void open_flood(struct flood *flood, unsigned wanted)
{
    *flood = (struct flood){.wanted = wanted};
    assert_int_equal(uv_loop_init(&flood->loop), 0);
    assert_int_equal(
        serving_open(&flood->loop, &s3_sign_server, put, &flood->serving, &flood->fd, &err), 0);
    serving_begin(flood->serving);
    flood->began_ms = uv_now(&flood->loop);
}

/* What is above the rate waits; the loop goes on meanwhile. */
static void a_flood_of_requests_is_slowed_down(void **state)
{
    struct flood flood;
    uv_idle_t idle;
    uint64_t took_ms;

    (void)state;
    open_flood(&flood, 3 * SERVING_PER_S);
    assert_int_equal(uv_idle_init(&flood.loop, &idle), 0);
    idle.data = &flood;
    assert_int_equal(uv_idle_start(&idle, flood_turn), 0);
    uv_run(&flood.loop, UV_RUN_DEFAULT);
    took_ms = uv_now(&flood.loop) - flood.began_ms;
    print_message("answered %u in %llu ms, %u turns\n", flood.answered, (unsigned long long)took_ms,
                  flood.turns);
    assert_int_equal(flood.answered, flood.wanted);
    assert_true(took_ms >= 1500);
    assert_true(flood.turns >= flood.wanted / SERVING_TURN);
    close(flood.fd);
    assert_int_equal(uv_loop_close(&flood.loop), 0);
}

/* Nobody reads the answers: the daemon neither waits nor keeps them. */
static void a_worker_that_takes_no_answers_is_served_no_more(void **state)
{
    struct flood flood;
    unsigned sent = 0;

    (void)state;
    open_flood(&flood, 0);
    for (unsigned i = 0; i < 200; i++) {
        while (send(flood.fd, "store\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL) == 6)
            sent++;
        uv_run(&flood.loop, UV_RUN_NOWAIT);
    }
    assert_true(sent > 0 && sent < SERVING_PER_S);
    assert_false(uv_loop_alive(&flood.loop));
    serving_close(flood.serving);
    uv_run(&flood.loop, UV_RUN_DEFAULT);
    close(flood.fd);
    assert_int_equal(uv_loop_close(&flood.loop), 0);
}

static void a_worker_that_has_ended_leaves_nothing(void **state)
{
    struct flood flood;

    (void)state;
    open_flood(&flood, 0);
    close(flood.fd);
    uv_run(&flood.loop, UV_RUN_DEFAULT);
    serving_close(flood.serving);
    uv_run(&flood.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&flood.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_worker_learns_where_its_store_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_learns_the_style_and_the_authority_of_its_store,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_of_the_task_is_signed, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_that_would_change_what_is_done_are_sealed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_no_request_of_the_task_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_without_a_scope_is_told_so, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_read_again_when_their_file_changes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(keys_that_cannot_be_read_leave_those_of_before, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_file_of_keys_that_is_wrong_is_named_with_its_line, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(keys_may_come_from_the_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(stores_that_do_not_go_together_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_of_requests_is_slowed_down, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_takes_no_answers_is_served_no_more, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_has_ended_leaves_nothing, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
