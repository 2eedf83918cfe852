/* The living processes of a job. See members.h. */
#include "src/agent/node/members.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/node/process_table.h"
#include "src/base/check.h"

enum { MEMBERS_IN_CGROUP_MAX = 65536, MEMBERS_DEPTH_MAX = 256, MEMBER_COMMAND_BYTES = 4096 };

void members_init(struct member_table *table)
{
    *table = (struct member_table){.count = 0};
}

void members_close(struct member_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->items[i].environment);
        free(table->items[i].command);
    }
    free(table->items);
    members_init(table);
}

void members_add(struct member_table *table, const struct member *member)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity == 0 ? 256 : 2 * table->capacity;
        table->items = check_realloc(table->items, table->capacity, sizeof(*table->items));
    }
    table->items[table->count++] = *member;
}

static int compare_pids(const void *a, const void *b)
{
    const struct member *left = a, *right = b;

    return (left->stat.pid > right->stat.pid) - (left->stat.pid < right->stat.pid);
}

struct member *members_find(const struct member_table *table, pid_t pid)
{
    const struct member key = {.stat.pid = pid};

    return table->count == 0
               ? NULL
               : bsearch(&key, table->items, table->count, sizeof(*table->items), compare_pids);
}

const char *member_variable(const struct member *member, const char *name)
{
    const size_t length = strlen(name);
    const char *at = member->environment;
    const char *end = at == NULL ? NULL : at + member->environment_bytes;

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

static bool variable_is(const struct member *member, const char *name, const char *value)
{
    const char *found = member_variable(member, name);

    return found != NULL && strcmp(found, value) == 0;
}

static bool by_environment(const struct member *member, const struct job_members *job)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];

    return member->known && member->uid == job->stragglers.uid &&
           member->stat.start_ticks >= job->stragglers.start_ticks &&
           variable_is(member, "CKPT_ALLOCATION_ID", job->stragglers.allocation_id) &&
           variable_is(member, "CKPT_DIR", job->stragglers.work_dir) &&
           variable_is(member, "CKPT_RUN", checkpoint_id_format(job->stragglers.run, run));
}

/* The number of a group stays taken while any of it lives. Without its leader it may have come
 * again, as that of a daemon, whose group is a session of its own. */
static bool by_group(const struct member *member, const struct job_members *job,
                     const struct member *leader)
{
    if (member->stat.group != job->group)
        return false;
    if (leader != NULL)
        return leader->stat.start_ticks == job->stragglers.start_ticks;
    return member->stat.session != member->stat.group && member->known &&
           member->uid == job->stragglers.uid &&
           member->stat.start_ticks >= job->stragglers.start_ticks;
}

/* The number of a group and of a session stays taken while any of it lives; without the process
 * that began it, it may have come again. */
static bool begun_by(const struct member_table *table, const struct member *member,
                     const struct member_id *known)
{
    const struct member *now = members_find(table, known->pid);

    return member->stat.pid != known->pid &&
           (member->stat.group == known->pid || member->stat.session == known->pid) &&
           member->stat.start_ticks >= known->start_ticks &&
           (now == NULL || now->stat.start_ticks == known->start_ticks);
}

static bool by_knowledge(const struct member_table *table, const struct member *member,
                         const struct job_members *job)
{
    for (uint32_t i = 0; i < job->known_count; i++) {
        const struct member_id *known = &job->known[i];
        if ((member->stat.pid == known->pid && member->stat.start_ticks == known->start_ticks) ||
            (member->known && member->uid == job->stragglers.uid && begun_by(table, member, known)))
            return true;
    }
    return false;
}

static bool by_itself(const struct member *member, const struct job_members *job,
                      const struct member *leader)
{
    return member->in_cgroup || by_group(member, job, leader) || by_environment(member, job);
}

static bool may_descend(const struct member *member, const struct job_members *job)
{
    return member->known && (member->uid == job->stragglers.uid || job->stragglers.uid == 0) &&
           member->stat.start_ticks >= job->stragglers.start_ticks;
}

/* Also over one in between that does not belong, since it became another user. */
static bool by_descent(const struct member_table *table, const struct member *member)
{
    size_t steps = 0;

    for (int at = member->parent; at != MEMBER_NO_PARENT; at = table->items[at].parent) {
        if (table->items[at].belongs)
            return true;
        if (++steps > table->count) /* a picture that was taken while it changed may hold a ring */
            return false;
    }
    return false;
}

static bool is_known(const struct job_members *job, const struct member *member)
{
    for (uint32_t i = 0; i < job->known_count; i++)
        if (job->known[i].pid == member->stat.pid &&
            job->known[i].start_ticks == member->stat.start_ticks)
            return true;
    return false;
}

void members_know(const struct member_table *table, struct job_members *job)
{
    for (size_t i = 0; i < table->count && job->known_count < MEMBERS_KNOWN_MAX; i++) {
        const struct member *member = &table->items[i];
        if (member->belongs && member->stray && !is_known(job, member))
            job->known[job->known_count++] =
                (struct member_id){member->stat.pid, member->stat.start_ticks};
    }
}

void members_settle(struct member_table *table, const struct job_members *job)
{
    const struct member *leader;

    CHECK(job->group > 1);
    CHECK(job->stragglers.start_ticks > 0);
    if (table->count > 0)
        qsort(table->items, table->count, sizeof(*table->items), compare_pids);
    leader = members_find(table, job->group);
    for (size_t i = 0; i < table->count; i++) {
        struct member *member = &table->items[i];
        const struct member *parent = members_find(table, member->stat.parent);
        member->parent = parent == NULL ? MEMBER_NO_PARENT : (int)(parent - table->items);
        member->stray = !by_itself(member, job, leader);
        member->belongs = !member->stray || by_knowledge(table, member, job);
    }
    for (size_t i = 0; i < table->count; i++) {
        struct member *member = &table->items[i];
        member->belongs =
            member->belongs || (may_descend(member, job) && by_descent(table, member));
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
    struct member_table *table;
    const struct proc_source *source;
    const struct job_members *job;
    pid_t *inside; /* of the control group, by number */
    size_t inside_count;
};

static char *read_bytes(const struct pass *pass, struct member *member, const char *file,
                        size_t max, size_t *ret_bytes)
{
    int result;
    char *bytes =
        pass->source->bytes(pass->source->context, member->stat.pid, file, max, ret_bytes, &result);

    pass->table->unread = pass->table->unread || result > 0;
    return bytes;
}

/* The status and the texts of those that may belong. */
static int read_more(const struct pass *pass, struct member *member)
{
    const struct stragglers *stragglers = &pass->job->stragglers;
    struct proc_status status;
    int result;

    if (!member->in_cgroup && member->stat.group != pass->job->group &&
        member->stat.start_ticks < stragglers->start_ticks)
        return 0;
    result = pass->source->status(pass->source->context, member->stat.pid, &status);
    if (result != 0)
        return result;
    member->known = true;
    member->uid = status.uid;
    member->caught = status.caught;
    member->ignored = status.ignored;
    if (status.uid != stragglers->uid && stragglers->uid != 0 && !member->in_cgroup)
        return 0;
    member->environment =
        read_bytes(pass, member, "environ", MEMBER_ENVIRONMENT_BYTES, &member->environment_bytes);
    if (strncmp(member->stat.name, "python", 6) == 0)
        member->command =
            read_bytes(pass, member, "cmdline", MEMBER_COMMAND_BYTES, &member->command_bytes);
    return 0;
}

/* The place of the one that was added; NULL: none was. */
static struct member *read_member(const struct pass *pass, pid_t pid)
{
    struct member member = {.parent = MEMBER_NO_PARENT};
    int result = pass->source->stat(pass->source->context, pid, &member.stat);

    if (result == 0) {
        member.in_cgroup =
            bsearch(&pid, pass->inside, pass->inside_count, sizeof(pid), compare_numbers) != NULL;
        result = read_more(pass, &member);
    }
    if (result == 0)
        members_add(pass->table, &member);
    pass->table->unread = pass->table->unread || result > 0;
    return result == 0 ? &pass->table->items[pass->table->count - 1] : NULL;
}

/* Whom the control group holds, for the passes that follow. */
static void pass_begin(struct pass *pass, struct member_table *table,
                       const struct proc_source *source, const struct job_members *job)
{
    *pass = (struct pass){.table = table, .source = source, .job = job};
    pass->inside = check_alloc(MEMBERS_IN_CGROUP_MAX * sizeof(*pass->inside));
    if (job->cgroup[0] != '\0')
        pass->inside_count = cgroup_pids(job->cgroup, pass->inside, MEMBERS_IN_CGROUP_MAX);
    qsort(pass->inside, pass->inside_count, sizeof(*pass->inside), compare_numbers);
}

static struct process_names names_of(const struct member *member)
{
    return (struct process_names){.allocation_id = member_variable(member, "CKPT_ALLOCATION_ID"),
                                  .work_dir = member_variable(member, "CKPT_DIR"),
                                  .run = member_variable(member, "CKPT_RUN")};
}

/* Strangers so far, of the job's user: whether their environment names it. */
static void read_names(const struct pass *pass, struct process_table *processes,
                       const struct process_found *found)
{
    for (size_t i = 0; i < found->unnamed_count; i++) {
        struct member member = {.stat = found->unnamed[i]};
        struct process_names names;
        int result;

        member.environment =
            pass->source->bytes(pass->source->context, member.stat.pid, "environ",
                                MEMBER_ENVIRONMENT_BYTES, &member.environment_bytes, &result);
        names = names_of(&member);
        if (result <= 0)
            process_table_name(processes, &member.stat, &names);
        pass->table->unread = pass->table->unread || result > 0;
        free(member.environment);
    }
}

static void read_found(const struct pass *pass, struct process_table *processes,
                       const struct process_found *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct member *member =
            found->pids[i] == getpid() ? NULL : read_member(pass, found->pids[i]);
        const struct process_names names =
            member == NULL ? (struct process_names){NULL, NULL, NULL} : names_of(member);
        if (member != NULL && member->known)
            process_table_take(processes, &member->stat, member->uid, &names);
    }
}

void members_look_in(struct member_table *table, const struct job_members *job,
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
    members_settle(table, job);
}

void members_look(struct member_table *table, const struct job_members *job, enum process_look look)
{
    members_look_in(table, job, process_table_node(), look);
}

void members_read_one(struct member_table *table, const struct job_members *job, pid_t pid)
{
    struct pass pass;
    bool leader_read = false;

    pass_begin(&pass, table, proc_source_node(), job);
    table->unread = false;
    for (size_t depth = 0; pid > 1 && depth < MEMBERS_DEPTH_MAX; depth++) {
        const struct member *member = read_member(&pass, pid);

        leader_read = leader_read || pid == job->group;
        if (member == NULL)
            break;
        pid = member->stat.parent;
    }
    if (!leader_read)
        (void)read_member(&pass, job->group);
    free(pass.inside);
    members_settle(table, job);
}
