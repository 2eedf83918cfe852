/* The table of src/ask/ask.h over the machine's. See asked.h. */
#include "src/agent/node/asked.h"

#include <stdio.h>

#include "src/base/check.h"
#include "src/base/log.h"

_Static_assert((int)ASK_ADDRESS_BYTES >= (int)OPENED_ADDRESS_BYTES, "every address fits");

static struct machine_file file_of(const struct asked *asked, const char *name)
{
    return (struct machine_file){asked->folder, asked->user, name};
}

static enum ask_catches node_job_catches(void *context, int signal, struct ask_process *ret_culprit)
{
    const struct asked *asked = context;
    const struct ranks_seen *seen = asked->seen;

    (void)signal; /* the one that they were looked at with */
    CHECK(seen != NULL);
    switch (seen->catches) {
    case PROC_CATCHES:
        return ASK_CATCHES;
    case PROC_WOULD_DIE:
        ret_culprit->pid = seen->group.culprit;
        snprintf(ret_culprit->name, sizeof(ret_culprit->name), "%s", seen->group.culprit_name);
        return ASK_WOULD_DIE;
    case PROC_NONE_CATCHES:
        return ASK_NONE_CATCHES;
    case PROC_UNREAD:
        return ASK_UNREAD;
    }
    CHECK_UNREACHABLE("proc_catches");
}

/* It may have executed another program since it was looked at, which would die of the signal. */
static int signal_hearer(const struct asked *asked, const struct process_id *hearer, int signal,
                         struct err *err)
{
    const struct machine_ops *machine = asked->machine;
    struct proc_status status;

    if (machine->process_read(machine->context, hearer->pid, NULL, &status) == 0 &&
        (status.caught >> (signal - 1) & 1) == 0)
        return err_set(err, ERR_NOT_FOUND, "process %d does not catch signal %d any more",
                       (int)hearer->pid, signal);
    return machine->process_signal(machine->context, hearer->pid, hearer->start_ticks, signal, err);
}

static int node_job_signal(void *context, int signal, struct err *err)
{
    const struct asked *asked = context;
    const struct ranks_seen *seen = asked->seen;
    size_t told = 0;

    CHECK(seen != NULL);
    CHECK(signal >= 1 && signal <= 64);
    if (seen->asks_group)
        return asked->machine->group_signal(asked->machine->context, asked->group, signal, err);
    CHECK(seen->hearer_count > 0);
    for (size_t i = 0; i < seen->hearer_count; i++) {
        if (signal_hearer(asked, &seen->hearers[i], signal, err) != 0)
            continue;
        log_info("asked", "group=%d pid=%d signal=%d", (int)asked->group, (int)seen->hearers[i].pid,
                 signal);
        told++;
    }
    return told > 0 ? 0 : -1;
}

static size_t node_rank_count(void *context)
{
    const struct asked *asked = context;

    return asked->rank_count;
}

/* As it was just seen; NULL: it was not. */
static const struct rank_seen *rank_seen(const struct asked *asked, const struct ledger_rank *rank)
{
    for (size_t i = 0; asked->seen != NULL && i < asked->seen->count; i++) {
        const struct rank_seen *seen = &asked->seen->items[i];
        if (!seen->launcher && (uint32_t)seen->pid == rank->pid &&
            seen->start_ticks == rank->start_ticks)
            return seen;
    }
    return NULL;
}

static void node_rank(void *context, size_t i, struct ask_rank *ret_rank)
{
    const struct asked *asked = context;
    const struct ledger_rank *rank = &asked->ranks[i];
    const struct rank_seen *seen = rank_seen(asked, rank);

    CHECK(i < asked->rank_count);
    *ret_rank = (struct ask_rank){.number = rank->number,
                                  .pid = (pid_t)rank->pid,
                                  .tells = asked->tells(asked->teller, rank)};
    if (seen == NULL)
        return;
    ret_rank->catches_usr1 = seen->catches_usr1;
    ret_rank->catches_usr2 = seen->catches_usr2;
    ret_rank->catches_asked = seen->catches_asked;
    snprintf(ret_rank->name, sizeof(ret_rank->name), "%s", seen->name);
}

static int node_rank_signal(void *context, size_t i, int signal, struct err *err)
{
    const struct asked *asked = context;
    const struct ledger_rank *rank = &asked->ranks[i];

    CHECK(i < asked->rank_count);
    return asked->machine->process_signal(asked->machine->context, (pid_t)rank->pid,
                                          rank->start_ticks, signal, err);
}

static void node_rank_tell(void *context, size_t i, const struct ask_request *request)
{
    const struct asked *asked = context;

    CHECK(i < asked->rank_count);
    asked->tell(asked->teller, &asked->ranks[i], request);
}

static enum ask_endpoint node_endpoint(void *context, char *ret_why, size_t size)
{
    const struct asked *asked = context;

    if (!asked->registered)
        return ASK_UNREGISTERED;
    if (asked->socket != NULL)
        return ASK_REGISTERED;
    snprintf(ret_why, size, "%s", asked->why);
    return ASK_CLOSED;
}

static const char *node_endpoint_address(void *context, char text[ASK_ADDRESS_BYTES])
{
    const struct asked *asked = context;

    CHECK(asked->socket != NULL); /* node_endpoint() */
    return asked->machine->opened_address(asked->socket, text);
}

static int node_folder_make(void *context, const char *name, bool may_exist, struct err *err)
{
    const struct asked *asked = context;
    const struct machine_file folder = file_of(asked, name);

    return asked->machine->folder_make(asked->machine->context, &folder, may_exist, err);
}

static int node_link_make(void *context, const char *name, const char *to, struct err *err)
{
    const struct asked *asked = context;
    const struct machine_file link = file_of(asked, name);

    return asked->machine->link_make(asked->machine->context, &link, to, err);
}

static uint64_t node_folder_sum(void *context, const char *name)
{
    const struct asked *asked = context;
    const struct machine_file folder = file_of(asked, name);

    return asked->machine->folder_growth(asked->machine->context, &folder).sum;
}

static ssize_t node_file_read(void *context, const char *name, char *text, size_t size)
{
    const struct asked *asked = context;
    const struct machine_file file = file_of(asked, name);

    return asked->machine->file_read(asked->machine->context, &file, text, size);
}

static int node_file_write(void *context, const char *name, const char *text, size_t length,
                           struct err *err)
{
    const struct asked *asked = context;
    const struct machine_file file = file_of(asked, name);

    return asked->machine->file_write(asked->machine->context, &file, text, length, err);
}

static void node_file_remove(void *context, const char *name)
{
    const struct asked *asked = context;
    const struct machine_file file = file_of(asked, name);

    asked->machine->file_remove(asked->machine->context, &file);
}

/* Another ckpt-run may have come with another way, while the question of the one before is cleared
 * away. */
static int region_of(const struct asked *asked, struct machine_region *ret_region, struct err *err)
{
    *ret_region = (struct machine_region){asked->region, asked->user};
    return asked->region[0] != '\0'
               ? 0
               : err_set(err, ERR_NOT_FOUND, "the job is not asked in shared memory any more");
}

static int node_region_read(void *context, size_t offset, void *ret_bytes, size_t length,
                            struct err *err)
{
    const struct asked *asked = context;
    struct machine_region region;

    if (region_of(asked, &region, err) != 0)
        return -1;
    return asked->machine->region_read(asked->machine->context, &region, offset, ret_bytes, length,
                                       err);
}

static int node_region_write(void *context, size_t offset, const void *bytes, size_t length,
                             struct err *err)
{
    const struct asked *asked = context;
    struct machine_region region;

    if (region_of(asked, &region, err) != 0)
        return -1;
    return asked->machine->region_write(asked->machine->context, &region, offset, bytes, length,
                                        err);
}

static int node_region_change(void *context, enum ask_region_change change, const size_t *offsets,
                              size_t count, struct err *err)
{
    const struct asked *asked = context;
    struct machine_region region;

    if (region_of(asked, &region, err) != 0)
        return -1;
    return asked->machine->region_change(asked->machine->context, &region, change, offsets, count,
                                         err);
}

const struct ask_node asked_node = {.job_catches = node_job_catches,
                                    .job_signal = node_job_signal,
                                    .rank_count = node_rank_count,
                                    .rank = node_rank,
                                    .rank_signal = node_rank_signal,
                                    .rank_tell = node_rank_tell,
                                    .endpoint = node_endpoint,
                                    .endpoint_address = node_endpoint_address,
                                    .folder_make = node_folder_make,
                                    .link_make = node_link_make,
                                    .folder_sum = node_folder_sum,
                                    .file_read = node_file_read,
                                    .file_write = node_file_write,
                                    .file_remove = node_file_remove,
                                    .region_read = node_region_read,
                                    .region_write = node_region_write,
                                    .region_change = node_region_change};
