/* See node.h. */
#include "tests/unit/ask/node.h"

struct memory_file *file_of(struct application *application, const char *name)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (strcmp(application->files[i].name, name) == 0)
            return &application->files[i];
    }
    return NULL;
}

static enum ask_catches job_catches(void *context, int number, struct ask_process *ret_culprit)
{
    const struct application *application = context;

    (void)number;
    *ret_culprit = (struct ask_process){.pid = 77, .name = "sleep"};
    return application->catches;
}

static int job_signal(void *context, int number, struct err *err)
{
    struct application *application = context;

    if (application->group_gone)
        return err_set(err, ERR_IO, "no such process");
    application->signals++;
    application->last_signal = number;
    return 0;
}

static size_t rank_count(void *context)
{
    const struct application *application = context;

    return application->rank_count;
}

static void rank(void *context, size_t i, struct ask_rank *ret_rank)
{
    const struct application *application = context;

    assert_true(i < application->rank_count);
    *ret_rank = application->ranks[i];
}

static int rank_signal(void *context, size_t i, int number, struct err *err)
{
    struct application *application = context;

    assert_true(i < application->rank_count);
    if (application->group_gone)
        return err_set(err, ERR_NOT_FOUND, "no such process");
    application->rank_signals[i]++;
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

static const char *endpoint_address(void *context, char text[ASK_ADDRESS_BYTES])
{
    const struct application *application = context;

    snprintf(text, ASK_ADDRESS_BYTES, "%s", application->address);
    return text;
}

static int file_write(void *context, const char *name, const char *text, size_t length,
                      struct err *err)
{
    const struct application *application = context;
    struct memory_file *file = file_of(context, name);

    if (application->disk_full)
        return err_set(err, ERR_IO, "no space left on device");
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

    if (file != NULL && file->other)
        return ASK_FILE_OTHER;
    return file == NULL ? -1 : snprintf(text, size, "%s", file->text);
}

void file_put(struct application *application, const char *name, const char *text)
{
    struct err err;

    assert_int_equal(file_write(application, name, text, strlen(text), &err), 0);
}

static int link_make(void *context, const char *name, const char *to, struct err *err)
{
    return file_write(context, name, to, strlen(to), err);
}

/* Of all files below the folder. */
static uint64_t folder_sum(void *context, const char *name)
{
    const struct application *application = context;
    uint64_t sum = 0;

    for (size_t i = 0; i < FILES_MAX; i++) {
        if (strncmp(application->files[i].name, name, strlen(name)) == 0)
            sum += strlen(application->files[i].text) + 1;
    }
    return sum;
}

static void file_remove(void *context, const char *name)
{
    struct memory_file *file = file_of(context, name);

    if (file != NULL)
        *file = (struct memory_file){0};
}

static uint8_t *region_at(const struct application *application, size_t offset, size_t length,
                          struct err *err)
{
    assert_true(offset + length <= sizeof(*application->region));
    if (application->region != NULL)
        return (uint8_t *)application->region + offset;
    (void)err_set(err, ERR_NOT_FOUND, "there is no shared memory");
    return NULL;
}

static int region_read(void *context, size_t offset, void *ret_bytes, size_t length,
                       struct err *err)
{
    const uint8_t *from = region_at(context, offset, length, err);

    if (from == NULL)
        return -1;
    memcpy(ret_bytes, from, length);
    return 0;
}

static int region_write(void *context, size_t offset, const void *bytes, size_t length,
                        struct err *err)
{
    uint8_t *to = region_at(context, offset, length, err);

    if (to == NULL)
        return -1;
    memcpy(to, bytes, length);
    return 0;
}

static int region_change(void *context, enum ask_region_change change, const size_t *offsets,
                         size_t count, struct err *err)
{
    struct application *application = context;

    for (size_t i = 0; i < count; i++) {
        uint32_t *word = (uint32_t *)(void *)region_at(context, offsets[i], sizeof(*word), err);
        if (word == NULL)
            return -1;
        *word = (*word & ~UINT32_C(1)) + (change == ASK_REGION_RAISE ? 3 : 0);
        application->raised += change == ASK_REGION_RAISE;
        application->cleared += change == ASK_REGION_CLEAR;
    }
    return application->region == NULL && count == 0 ? -1 : 0;
}

static const struct ask_node node = {.job_catches = job_catches,
                                     .job_signal = job_signal,
                                     .rank_count = rank_count,
                                     .rank = rank,
                                     .rank_signal = rank_signal,
                                     .endpoint = endpoint,
                                     .endpoint_address = endpoint_address,
                                     .folder_make = folder_make,
                                     .link_make = link_make,
                                     .folder_sum = folder_sum,
                                     .file_read = file_read,
                                     .file_write = file_write,
                                     .file_remove = file_remove,
                                     .region_read = region_read,
                                     .region_write = region_write,
                                     .region_change = region_change};

struct ask_target target_of(struct application *application)
{
    return (struct ask_target){.node = &node, .context = application, .group = 70, .uid = 1000};
}

static void heard_alive(void *data)
{
    struct heard *heard = data;

    heard->alive++;
}

static void heard_estimate(void *data, uint64_t estimate_ms)
{
    struct heard *heard = data;

    heard->estimate_ms = estimate_ms;
}

static void heard_deferred(void *data, uint64_t defer_ms)
{
    struct heard *heard = data;

    heard->deferred++;
    heard->defer_ms = defer_ms;
    heard->over = true;
}

static void heard_answered(void *data)
{
    struct heard *heard = data;

    heard->answered++;
    heard->over = true;
}

static void heard_broken(void *data, Ckpt__V1__Reason reason, const char *text)
{
    struct heard *heard = data;

    heard->broken++;
    heard->reason = reason;
    snprintf(heard->text, sizeof(heard->text), "%s", text);
    heard->over = true;
}

const struct ask_events heard_events = {.alive = heard_alive,
                                        .estimate = heard_estimate,
                                        .deferred = heard_deferred,
                                        .answered = heard_answered,
                                        .broken = heard_broken};
