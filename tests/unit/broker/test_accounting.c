/* Accounting records from the events of the state: each complete checkpoint once, over restarts of
 * the member and days on which its disk takes nothing. D-007. */
#include "src/broker/keep/accounting.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/id.h"
#include "src/broker/daemon/metrics.h"
#include "tests/unit/broker/fake_replica.h"

static char root[64], folder[96], newest[128];
static unsigned requests;

static int setup(void **state)
{
    struct fake *fake = fake_new(NULL);

    snprintf(root, sizeof(root), "/tmp/ckpt-accounting-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof(folder), "%s/accounting", root);
    snprintf(newest, sizeof(newest), "%s/accounting.jsonl", folder);
    fake->broker.loop = check_calloc(1, sizeof(uv_loop_t));
    assert_int_equal(uv_loop_init(fake->broker.loop), 0);
    fake->broker.metrics = broker_metrics_new(&fake->broker);
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    *state = fake;
    return 0;
}

/* What the thread has done is told by the loop. */
static void work(struct fake *fake)
{
    uv_run(fake->broker.loop, UV_RUN_DEFAULT);
}

static void open_accounting(struct fake *fake)
{
    fake->broker.accounting = accounting_new(&fake->broker, folder);
    work(fake);
}

/* An observer is never unsubscribed, as its process ends: here it is the last one. */
static void close_accounting(struct fake *fake)
{
    struct list *last = fake->replica.observers.next;

    while (last->next != &fake->replica.observers)
        last = last->next;
    list_remove(last);
    accounting_free(fake->broker.accounting);
    fake->broker.accounting = NULL;
    work(fake);
    assert_int_equal(accounting_active(), 0);
}

static int teardown(void **state)
{
    struct fake *fake = *state;

    if (fake->broker.accounting != NULL)
        close_accounting(fake);
    fake_stop_serving(fake);
    metrics_free(fake->broker.metrics);
    assert_int_equal(uv_loop_close(fake->broker.loop), 0);
    free(fake->broker.loop);
    fake_free(fake);
    (void)unlink(newest);
    (void)rmdir(folder);
    return rmdir(root);
}

static uint64_t write_checkpoint(struct fake *fake)
{
    char name[32];
    uint64_t id;

    snprintf(name, sizeof(name), "r%u", ++requests);
    id = fake_request_checkpoint(fake, "job", name);
    fake_grant(fake, id, 1000000, 600000);
    fake_advance_ms(fake, 2000);
    fake_verify_part(fake, "job", id, 0);
    return id;
}

/* The next line of the file, from *at on. NULL: no more. */
static json_t *next_line(FILE *file)
{
    char line[1024];
    json_t *object;

    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        return NULL;
    object = json_loads(line, 0, NULL);
    assert_non_null(object);
    return object;
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static json_int_t number_of(const json_t *object, const char *name)
{
    assert_true(json_is_integer(json_object_get(object, name)));
    return json_integer_value(json_object_get(object, name));
}

static size_t count_lines(void)
{
    FILE *file = fopen(newest, "re");
    size_t count = 0;
    json_t *object;

    while ((object = next_line(file)) != NULL) {
        json_decref(object);
        count++;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

static bool rendered(struct fake *fake, const char *line)
{
    struct buf text = {0};
    bool found;

    metrics_render(fake->broker.metrics, &text);
    buf_append(&text, "", 1);
    found = strstr((const char *)text.bytes, line) != NULL;
    buf_close(&text);
    return found;
}

static void a_complete_checkpoint_is_a_record(void **state)
{
    struct fake *fake = *state;
    char expected[CHECKPOINT_ID_TEXT_BYTES];
    json_t *object;
    uint64_t id;
    FILE *file;

    open_accounting(fake);
    id = write_checkpoint(fake);
    work(fake);
    file = fopen(newest, "re");
    object = next_line(file);
    assert_non_null(object);
    assert_string_equal(text_of(object, "event"), "allocation.checkpointed");
    assert_string_equal(text_of(object, "allocation"), "job");
    assert_string_equal(text_of(object, "tenant"), "physics");
    assert_string_equal(text_of(object, "project"), "p1");
    assert_string_equal(text_of(object, "vcluster"), "hpc");
    assert_string_equal(text_of(object, "owner"), "alice");
    assert_string_equal(text_of(object, "target"), "scratch");
    assert_string_equal(text_of(object, "checkpoint"), checkpoint_id_format(id, expected));
    assert_int_equal(number_of(object, "size_bytes"), 1000);
    assert_int_equal(number_of(object, "duration_ms"), 2000);
    (void)number_of(object, "storage_micro_usd_per_month");
    assert_int_equal(number_of(object, "epoch"), 1);
    assert_true(number_of(object, "sequence") > 0);
    assert_true(number_of(object, "at_ms") > 0);
    json_decref(object);
    assert_null(next_line(file));
    fclose(file);
    assert_true(rendered(fake, "ckpt_accounting_records_total{result=\"written\"} 1\n"));
    assert_true(rendered(fake, "ckpt_accounting_records_total{result=\"lost\"} 0\n"));
    assert_true(rendered(fake, "ckpt_accounting_records_waiting 0\n"));
}

/* Also what was completed while it was not there, and nothing twice. */
static void a_member_that_starts_again_goes_on(void **state)
{
    struct fake *fake = *state;

    open_accounting(fake);
    write_checkpoint(fake);
    work(fake);
    close_accounting(fake);
    write_checkpoint(fake);
    open_accounting(fake);
    write_checkpoint(fake);
    fake_advance_ms(fake, ACCOUNTING_EVERY_MS);
    work(fake);
    fake_advance_ms(fake, ACCOUNTING_EVERY_MS);
    work(fake);
    assert_int_equal(count_lines(), 3);
    close_accounting(fake);
    open_accounting(fake);
    fake_advance_ms(fake, ACCOUNTING_EVERY_MS);
    work(fake);
    assert_int_equal(count_lines(), 3);
}

/* It ends while a batch is with the thread. */
static void a_member_may_stop_in_the_middle_of_a_batch(void **state)
{
    struct fake *fake = *state;

    open_accounting(fake);
    write_checkpoint(fake);
    close_accounting(fake);
    assert_int_equal(count_lines(), 1);
}

static void a_folder_that_cannot_be_made_is_tried_again(void **state)
{
    struct fake *fake = *state;
    int fd = open(folder, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* a file in its place */

    assert_true(fd >= 0);
    close(fd);
    open_accounting(fake);
    assert_true(accounting_counts(fake->broker.accounting).failing);
    write_checkpoint(fake);
    assert_int_equal(unlink(folder), 0);
    fake_advance_ms(fake, ACCOUNTING_AGAIN_MS);
    work(fake);
    assert_false(accounting_counts(fake->broker.accounting).failing);
    assert_int_equal(count_lines(), 1);
}

static void allow_files_of(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The lines of all files; of the records each has another checkpoint, and grows. */
static void read_all(size_t *ret_records, size_t *ret_losses)
{
    char older[144];
    json_int_t last = 0;

    *ret_records = *ret_losses = 0;
    for (int i = ACCOUNTING_OLDER_FILES; i >= 0; i--) {
        FILE *file;
        json_t *object;

        snprintf(older, sizeof(older), "%s.%d", newest, i);
        file = fopen(i == 0 ? newest : older, "re");
        while ((object = next_line(file)) != NULL) {
            bool is_loss = strcmp(text_of(object, "event"), "accounting.lost") == 0;

            *ret_losses += is_loss;
            *ret_records += !is_loss;
            assert_true(number_of(object, "sequence") > last);
            last = number_of(object, "sequence");
            json_decref(object);
        }
        if (file != NULL)
            fclose(file);
        (void)unlink(i == 0 ? newest : older);
    }
}

/* Until nothing waits. */
static void write_all_waiting(struct fake *fake)
{
    for (unsigned i = 0; i < 10; i++) {
        fake_advance_ms(fake, ACCOUNTING_AGAIN_MS);
        work(fake);
    }
    assert_int_equal(accounting_counts(fake->broker.accounting).waiting, 0);
}

/* Records wait, up to the limit, and what is behind them in the ring of events. */
static void what_a_full_disk_does_not_take_waits(void **state)
{
    enum { MORE = 500 };
    struct fake *fake = *state;
    struct accounting_counts counts;
    size_t records, losses;

    open_accounting(fake);
    write_checkpoint(fake);
    work(fake);
    fake_advance_ms(fake, ACCOUNTING_EVERY_MS);
    allow_files_of(10);
    write_checkpoint(fake);
    work(fake);
    assert_true(accounting_counts(fake->broker.accounting).failing);
    assert_true(rendered(fake, "ckpt_accounting_failing 1\n"));
    for (unsigned i = 0; i < ACCOUNTING_WAITING_MAX + MORE; i++)
        write_checkpoint(fake);
    work(fake);
    counts = accounting_counts(fake->broker.accounting);
    assert_true(counts.waiting <= ACCOUNTING_WAITING_MAX + 1);
    allow_files_of(RLIM_INFINITY);
    write_all_waiting(fake);
    read_all(&records, &losses);
    assert_int_equal(records, 2 + ACCOUNTING_WAITING_MAX + MORE);
    assert_int_equal(losses, 0);
    assert_true(rendered(fake, "ckpt_accounting_gaps_total 0\n"));
    assert_true(rendered(fake, "ckpt_accounting_failing 0\n"));
}

/* The ring holds 65,536 events of all kinds, here four to a checkpoint. */
static void what_the_ring_drops_is_counted_and_told(void **state)
{
    enum { MANY = 40000 };
    struct fake *fake = *state;
    struct accounting_counts counts;
    size_t records, losses;

    open_accounting(fake);
    write_checkpoint(fake);
    work(fake);
    fake_advance_ms(fake, ACCOUNTING_EVERY_MS);
    allow_files_of(10);
    for (unsigned i = 0; i < MANY; i++)
        write_checkpoint(fake);
    work(fake);
    allow_files_of(RLIM_INFINITY);
    write_all_waiting(fake);
    counts = accounting_counts(fake->broker.accounting);
    read_all(&records, &losses);
    assert_int_equal(losses, 1);
    assert_int_equal(counts.gaps, 1);
    assert_true(counts.lost > 0);
    assert_int_equal(records + counts.lost, 1 + MANY);
}

/* Faster than a batch and a rest would be: a member that catches up. */
static void nothing_is_lost_while_the_disk_is_well(void **state)
{
    enum { MANY = 24000 };
    struct fake *fake = *state;
    size_t records, losses;

    open_accounting(fake);
    for (unsigned i = 0; i < MANY; i++) {
        write_checkpoint(fake);
        if (i % 1000 == 0)
            uv_run(fake->broker.loop, UV_RUN_NOWAIT);
    }
    write_all_waiting(fake);
    read_all(&records, &losses);
    assert_int_equal(records, MANY);
    assert_int_equal(losses, 0);
}

/* The state was restored from a backup, beside files of the history before: what it holds is
 * written again, as an epoch of its own. */
static void a_later_epoch_begins_anew(void **state)
{
    static const char earlier[] = "{\"epoch\": 0, \"sequence\": 4000, \"event\": \"x\"}\n";
    struct fake *fake = *state;
    int fd;

    assert_int_equal(mkdir(folder, 0700), 0);
    fd = open(newest, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, earlier, strlen(earlier)), (ssize_t)strlen(earlier));
    close(fd);
    write_checkpoint(fake);
    open_accounting(fake);
    work(fake);
    assert_int_equal(count_lines(), 2);
}

/* As at a start, while the log is applied again. */
static void files_of_a_later_epoch_are_waited_for(void **state)
{
    static const char later[] = "{\"epoch\": 2, \"sequence\": 5, \"event\": \"x\"}\n";
    struct fake *fake = *state;
    int fd;

    assert_int_equal(mkdir(folder, 0700), 0);
    fd = open(newest, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, later, strlen(later)), (ssize_t)strlen(later));
    close(fd);
    open_accounting(fake);
    write_checkpoint(fake);
    work(fake);
    assert_int_equal(count_lines(), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_complete_checkpoint_is_a_record),
        T(a_member_that_starts_again_goes_on),
        T(a_member_may_stop_in_the_middle_of_a_batch),
        T(a_folder_that_cannot_be_made_is_tried_again),
        T(what_a_full_disk_does_not_take_waits),
        T(what_the_ring_drops_is_counted_and_told),
        T(nothing_is_lost_while_the_disk_is_well),
        T(a_later_epoch_begins_anew),
        T(files_of_a_later_epoch_are_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
