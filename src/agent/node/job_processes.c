/* The living processes of a job. See job_processes.h. */
#include "src/agent/node/job_processes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/node/process_table.h"
#include "src/base/check.h"

enum {
    JOB_PROCESSES_IN_CGROUP_MAX = 65536,
    JOB_PROCESSES_DEPTH_MAX = 256,
    PROCESS_COMMAND_BYTES = 4096
};

void job_processes_init(struct job_processes *table)
{
    *table = (struct job_processes){.count = 0};
}

void job_processes_close(struct job_processes *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->items[i].environment);
        free(table->items[i].command);
    }
    free(table->items);
    job_processes_init(table);
}

void job_processes_add(struct job_processes *table, const struct job_process *process)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity == 0 ? 256 : 2 * table->capacity;
        table->items = check_realloc(table->items, table->capacity, sizeof(*table->items));
    }
    table->items[table->count++] = *process;
}

static int compare_pids(const void *a, const void *b)
{
    const struct job_process *left = a, *right = b;

    return (left->stat.pid > right->stat.pid) - (left->stat.pid < right->stat.pid);
}

struct job_process *job_processes_find(const struct job_processes *table, pid_t pid)
{
    const struct job_process key = {.stat.pid = pid};

    return table->count == 0
               ? NULL
               : bsearch(&key, table->items, table->count, sizeof(*table->items), compare_pids);
}

const char *job_process_variable(const struct job_process *process, const char *name)
{
    const size_t length = strlen(name);
    const char *at = process->environment;
    const char *end = at == NULL ? NULL : at + process->environment_bytes;

    while (at < end) {
        size_t bytes = strnlen(at, (size_t)(end - at));
        if (at + bytes == end)
            return NULL; /* cut */
        if (bytes > length && at[length] == '=' && memcmp(at, name, length) == 0)
            return at + length + 1;
        at += bytes + 1;
    }
    return NULL;
}

static bool variable_is(const struct job_process *process, const char *name, const char *value)
{
    const char *found = job_process_variable(process, name);

    return found != NULL && strcmp(found, value) == 0;
}

static bool by_environment(const struct job_process *process, const struct job_identity *job)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];

    return process->known && process->uid == job->stragglers.uid &&
           process->stat.start_ticks >= job->stragglers.start_ticks &&
           variable_is(process, "CKPT_ALLOCATION_ID", job->stragglers.allocation_id) &&
           variable_is(process, "CKPT_DIR", job->stragglers.work_dir) &&
           variable_is(process, "CKPT_RUN", checkpoint_id_format(job->stragglers.run, run));
}

/* The number of a group stays taken while any of it lives. Without its main process it may have
 * come again, as that of a daemon, whose group is a session of its own. */
static bool by_group(const struct job_process *process, const struct job_identity *job,
                     const struct job_process *main_process)
{
    if (process->stat.group != job->group)
        return false;
    if (main_process != NULL)
        return main_process->stat.start_ticks == job->stragglers.start_ticks;
    return process->stat.session != process->stat.group && process->known &&
           process->uid == job->stragglers.uid &&
           process->stat.start_ticks >= job->stragglers.start_ticks;
}

/* The number of a group and of a session stays taken while any of it lives; without the process
 * that began it, it may have come again. */
static bool begun_by(const struct job_processes *table, const struct job_process *process,
                     const struct process_id *known)
{
    const struct job_process *now = job_processes_find(table, known->pid);

    return process->stat.pid != known->pid &&
           (process->stat.group == known->pid || process->stat.session == known->pid) &&
           process->stat.start_ticks >= known->start_ticks &&
           (now == NULL || now->stat.start_ticks == known->start_ticks);
}

static bool by_knowledge(const struct job_processes *table, const struct job_process *process,
                         const struct job_identity *job)
{
    for (uint32_t i = 0; i < job->known_count; i++) {
        const struct process_id *known = &job->known[i];
        if ((process->stat.pid == known->pid && process->stat.start_ticks == known->start_ticks) ||
            (process->known && process->uid == job->stragglers.uid &&
             begun_by(table, process, known)))
            return true;
    }
    return false;
}

static bool by_itself(const struct job_process *process, const struct job_identity *job,
                      const struct job_process *main_process)
{
    return process->in_cgroup || by_group(process, job, main_process) ||
           by_environment(process, job);
}

static bool may_descend(const struct job_process *process, const struct job_identity *job)
{
    return process->known && (process->uid == job->stragglers.uid || job->stragglers.uid == 0) &&
           process->stat.start_ticks >= job->stragglers.start_ticks;
}

/* Also over one in between that does not belong, since it became another user. */
static bool by_descent(const struct job_processes *table, const struct job_process *process)
{
    size_t steps = 0;

    for (int at = process->parent; at != PROCESS_NO_PARENT; at = table->items[at].parent) {
        if (table->items[at].belongs)
            return true;
        if (++steps > table->count) /* a picture that was taken while it changed may hold a ring */
            return false;
    }
    return false;
}

static bool is_known(const struct job_identity *job, const struct job_process *process)
{
    for (uint32_t i = 0; i < job->known_count; i++)
        if (job->known[i].pid == process->stat.pid &&
            job->known[i].start_ticks == process->stat.start_ticks)
            return true;
    return false;
}

void job_processes_know(const struct job_processes *table, struct job_identity *job)
{
    for (size_t i = 0; i < table->count && job->known_count < JOB_PROCESSES_KNOWN_MAX; i++) {
        const struct job_process *process = &table->items[i];
        if (process->belongs && process->stray && !is_known(job, process))
            job->known[job->known_count++] =
                (struct process_id){process->stat.pid, process->stat.start_ticks};
    }
}

void job_processes_settle(struct job_processes *table, const struct job_identity *job)
{
    const struct job_process *main_process;

    CHECK(job->group > 1);
    CHECK(job->stragglers.start_ticks > 0);
    if (table->count > 0)
        qsort(table->items, table->count, sizeof(*table->items), compare_pids);
    main_process = job_processes_find(table, job->group);
    for (size_t i = 0; i < table->count; i++) {
        struct job_process *process = &table->items[i];
        const struct job_process *parent = job_processes_find(table, process->stat.parent);
        process->parent = parent == NULL ? PROCESS_NO_PARENT : (int)(parent - table->items);
        process->stray = !by_itself(process, job, main_process);
        process->belongs = !process->stray || by_knowledge(table, process, job);
    }
    for (size_t i = 0; i < table->count; i++) {
        struct job_process *process = &table->items[i];
        process->belongs =
            process->belongs || (may_descend(process, job) && by_descent(table, process));
    }
    for (size_t i = 0; i < table->count; i++) /* the dead have shown whose their children are */
        table->items[i].belongs = table->items[i].belongs && proc_living(&table->items[i].stat);
}

/* ---- /proc ---- */

static int compare_numbers(const void *a, const void *b)
{
    const pid_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* A look: what it reads from, and for whom. */
struct pass {
    struct job_processes *table;
    const struct proc_source *source;
    const struct job_identity *job;
    pid_t *inside; /* of the control group, by number */
    size_t inside_count;
};

static char *read_bytes(const struct pass *pass, struct job_process *process, const char *file,
                        size_t max, size_t *ret_bytes)
{
    int result;
    char *bytes = pass->source->bytes(pass->source->context, process->stat.pid, file, max,
                                      ret_bytes, &result);

    pass->table->unread = pass->table->unread || result > 0;
    return bytes;
}

/* ranks.c tells launchers by what these were told to do. */
static bool is_of_interest(const char *name)
{
    return strncmp(name, "python", 6) == 0 || strcmp(name, "orted") == 0;
}

/* The status and the texts of those that may belong. */
static int read_more(const struct pass *pass, struct job_process *process)
{
    const struct stragglers *stragglers = &pass->job->stragglers;
    struct proc_status status;
    int result;

    if (!process->in_cgroup && process->stat.group != pass->job->group &&
        process->stat.start_ticks < stragglers->start_ticks)
        return 0;
    result = pass->source->status(pass->source->context, process->stat.pid, &status);
    if (result != 0)
        return result;
    process->known = true;
    process->uid = status.uid;
    process->caught = status.caught;
    process->ignored = status.ignored;
    if (status.uid != stragglers->uid && stragglers->uid != 0 && !process->in_cgroup)
        return 0;
    process->environment = read_bytes(pass, process, "environ", PROCESS_ENVIRONMENT_BYTES,
                                      &process->environment_bytes);
    if (is_of_interest(process->stat.name))
        process->command =
            read_bytes(pass, process, "cmdline", PROCESS_COMMAND_BYTES, &process->command_bytes);
    return 0;
}

/* The place of the one that was added; NULL: none was. */
static struct job_process *read_process(const struct pass *pass, pid_t pid)
{
    struct job_process process = {.parent = PROCESS_NO_PARENT};
    int result = pass->source->stat(pass->source->context, pid, &process.stat);

    if (result == 0) {
        process.in_cgroup =
            bsearch(&pid, pass->inside, pass->inside_count, sizeof(pid), compare_numbers) != NULL;
        result = read_more(pass, &process);
    }
    if (result == 0)
        job_processes_add(pass->table, &process);
    pass->table->unread = pass->table->unread || result > 0;
    return result == 0 ? &pass->table->items[pass->table->count - 1] : NULL;
}

/* Whom the control group holds, for the passes that follow. */
static void pass_begin(struct pass *pass, struct job_processes *table,
                       const struct proc_source *source, const struct job_identity *job)
{
    *pass = (struct pass){.table = table, .source = source, .job = job};
    pass->inside = check_alloc(JOB_PROCESSES_IN_CGROUP_MAX * sizeof(*pass->inside));
    if (job->cgroup[0] != '\0')
        pass->inside_count = cgroup_pids(job->cgroup, pass->inside, JOB_PROCESSES_IN_CGROUP_MAX);
    qsort(pass->inside, pass->inside_count, sizeof(*pass->inside), compare_numbers);
}

static struct process_names names_of(const struct job_process *process)
{
    return (struct process_names){.allocation_id =
                                      job_process_variable(process, "CKPT_ALLOCATION_ID"),
                                  .work_dir = job_process_variable(process, "CKPT_DIR"),
                                  .run = job_process_variable(process, "CKPT_RUN")};
}

/* Strangers so far, of the job's user: whether their environment names it. */
static void read_names(const struct pass *pass, struct process_table *processes,
                       const struct process_found *found)
{
    for (size_t i = 0; i < found->unnamed_count; i++) {
        struct job_process process = {.stat = found->unnamed[i]};
        struct process_names names;
        int result;

        process.environment =
            pass->source->bytes(pass->source->context, process.stat.pid, "environ",
                                PROCESS_ENVIRONMENT_BYTES, &process.environment_bytes, &result);
        names = names_of(&process);
        if (result <= 0)
            process_table_name(processes, &process.stat, &names);
        pass->table->unread = pass->table->unread || result > 0;
        free(process.environment);
    }
}

static void read_found(const struct pass *pass, struct process_table *processes,
                       const struct process_found *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct job_process *process =
            found->pids[i] == getpid() ? NULL : read_process(pass, found->pids[i]);
        const struct process_names names =
            process == NULL ? (struct process_names){NULL, NULL, NULL} : names_of(process);
        if (process != NULL && process->known)
            process_table_take(processes, &process->stat, process->uid, &names);
    }
}

void job_processes_look_in(struct job_processes *table, const struct job_identity *job,
                           struct process_table *processes, enum process_look look)
{
    struct process_asker asker = {.job = job};
    struct process_found found;
    struct pass pass;

    pass_begin(&pass, table, process_table_source(processes), job);
    asker.inside = pass.inside;
    asker.inside_count = pass.inside_count;
    table->unread = !process_table_refresh(processes, &asker, look);
    process_table_find(processes, &asker, &found);
    if (found.unnamed_count > 0) {
        read_names(&pass, processes, &found);
        process_found_close(&found);
        process_table_find(processes, &asker, &found);
    }
    read_found(&pass, processes, &found);
    process_found_close(&found);
    free(pass.inside);
    job_processes_settle(table, job);
}

void job_processes_look(struct job_processes *table, const struct job_identity *job,
                        enum process_look look)
{
    job_processes_look_in(table, job, process_table_node(), look);
}

void job_processes_read_one(struct job_processes *table, const struct job_identity *job, pid_t pid)
{
    struct pass pass;
    bool main_read = false;

    pass_begin(&pass, table, proc_source_node(), job);
    table->unread = false;
    for (size_t depth = 0; pid > 1 && depth < JOB_PROCESSES_DEPTH_MAX; depth++) {
        const struct job_process *process = read_process(&pass, pid);

        main_read = main_read || pid == job->group;
        if (process == NULL)
            break;
        pid = process->stat.parent;
    }
    if (!main_read)
        (void)read_process(&pass, job->group);
    free(pass.inside);
    job_processes_settle(table, job);
}
