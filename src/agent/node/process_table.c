/* The processes of this node, as the looks of all its jobs share them. See process_table.h. */
#include "src/agent/node/process_table.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "src/base/check.h"

enum {
    TICKS_PER_S = 100,
    YOUNG_TICKS = 10 * TICKS_PER_S,
    WHOLE_TICKS = 600 * TICKS_PER_S, /* the dead are dropped at the latest after so long */
    ADDED_MAX = 1024                 /* ... or when so many have come */
};

struct entry {
    pid_t pid;
    pid_t parent;
    pid_t group;
    pid_t session;
    uint64_t folder;      /* its folder's number in /proc */
    uint64_t start_ticks; /* of a hidden one, when it was first seen */
    uint64_t image;
    uint64_t read_ticks;
    char *names; /* three texts: allocation, work folder, run; NULL: its environment names no job */
    uid_t uid;
    uint32_t pass; /* the refresh that has listed or read it last */
    uint32_t read_pass;
    bool hidden; /* nothing of it can be read */
    bool executed;
    bool named; /* its environment was read */
    bool gone;
};

/* The count of forks at some instant. */
struct mark {
    struct proc_forks forks;
    uint64_t ticks;
};

struct process_table {
    uv_mutex_t lock;
    const struct proc_source *source;
    struct entry *items; /* by pid, but for those that a listing under way has added */
    size_t count;
    size_t sorted;
    size_t capacity;
    uint32_t pass;
    uint64_t now_ticks; /* of the refresh */
    bool unread;        /* of the refresh */
    /* listings */
    bool whole; /* one of all was taken; who was unread then is missing else */
    uint64_t whole_ticks;
    size_t added;            /* since then */
    uint64_t forks_listed;   /* when the last listing of any kind began */
    struct mark old, recent; /* see span_needed(); ticks 0: there is none yet */
    pid_t turn;              /* of the strangers that are read again by turns, the last */
};

struct process_table *process_table_new(const struct proc_source *source)
{
    struct process_table *table = check_calloc(1, sizeof(*table));

    CHECK(uv_mutex_init(&table->lock) == 0);
    table->source = source;
    return table;
}

void process_table_free(struct process_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->count; i++)
        free(table->items[i].names);
    free(table->items);
    uv_mutex_destroy(&table->lock);
    free(table);
}

static struct process_table *node_table;

static void make_node_table(void)
{
    node_table = process_table_new(proc_source_node());
}

struct process_table *process_table_node(void)
{
    static uv_once_t once = UV_ONCE_INIT;

    uv_once(&once, make_node_table);
    return node_table;
}

const struct proc_source *process_table_source(const struct process_table *table)
{
    return table->source;
}

/* ---- entries ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

static struct entry *find_entry(const struct process_table *table, pid_t pid)
{
    const struct entry key = {.pid = pid};

    return table->sorted == 0
               ? NULL
               : bsearch(&key, table->items, table->sorted, sizeof(key), compare_entries);
}

static struct entry *add_entry(struct process_table *table, pid_t pid)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity == 0 ? 256 : 2 * table->capacity;
        table->items = check_realloc(table->items, table->capacity, sizeof(*table->items));
    }
    table->items[table->count] = (struct entry){.pid = pid};
    return &table->items[table->count++];
}

/* Another process, or another program of it: what its environment was says nothing any more. */
static void forget_names(struct entry *entry)
{
    free(entry->names);
    entry->names = NULL;
    entry->named = false;
}

static void take_stat(struct entry *entry, const struct proc_stat *stat, uid_t uid,
                      uint64_t now_ticks)
{
    if (entry->hidden || entry->start_ticks != stat->start_ticks || entry->image != stat->image)
        forget_names(entry);
    entry->parent = stat->parent;
    entry->group = stat->group;
    entry->session = stat->session;
    entry->start_ticks = stat->start_ticks;
    entry->image = stat->image;
    entry->executed = stat->executed;
    entry->uid = uid;
    entry->read_ticks = now_ticks;
    entry->hidden = false;
    entry->gone = false;
}

/* A process that was never read and cannot be is kept as hidden: it is not tried each time. */
static void hide_entry(struct entry *entry, uint64_t now_ticks)
{
    if (!entry->hidden) {
        forget_names(entry);
        *entry = (struct entry){.pid = entry->pid,
                                .folder = entry->folder,
                                .pass = entry->pass,
                                .read_pass = entry->pass,
                                .hidden = true,
                                .start_ticks = now_ticks};
    }
    entry->read_ticks = now_ticks;
}

/* The environment is read after it, by who needs it: an exec() between the two is seen as another
 * image the next time. */
static void read_entry(struct process_table *table, struct entry *entry, bool is_new)
{
    struct proc_stat stat;
    struct proc_status status;
    int result = table->source->stat(table->source->context, entry->pid, &stat);

    if (result == 0)
        result = table->source->status(table->source->context, entry->pid, &status);
    entry->pass = entry->read_pass = table->pass;
    if (result == 0)
        take_stat(entry, &stat, status.uid, table->now_ticks);
    else if (result < 0 && (is_new || entry->hidden))
        hide_entry(entry, table->now_ticks);
    else
        entry->gone = true; /* one that is unread is missing until the next whole listing */
    table->unread = table->unread || result > 0;
}

static void settle_entries(struct process_table *table)
{
    size_t kept = 0;
    bool rises = true;

    for (size_t i = 0; i < table->count; i++) {
        if (table->items[i].gone) {
            free(table->items[i].names);
            continue;
        }
        rises = rises && (kept == 0 || table->items[kept - 1].pid < table->items[i].pid);
        table->items[kept++] = table->items[i];
    }
    table->count = table->sorted = kept;
    if (!rises)
        qsort(table->items, kept, sizeof(*table->items), compare_entries);
}

/* ---- who is new ---- */

static void take_listed(void *data, pid_t pid, uint64_t folder)
{
    struct process_table *table = data;
    struct entry *entry = find_entry(table, pid);
    bool is_new = entry == NULL;

    if (pid <= 1)
        return;
    if (entry != NULL && entry->folder == folder) {
        entry->pass = table->pass;
        return;
    }
    if (entry == NULL) {
        entry = add_entry(table, pid);
        table->added++;
    }
    entry->folder = folder;
    forget_names(entry); /* it may even have been started in the same tick */
    read_entry(table, entry, is_new);
}

static struct proc_span all_of_it(void)
{
    return (struct proc_span){0, 0};
}

/* The processes that have appeared since the last listing. Numbers are given rising, so it lies
 * above the one that was the last when that listing began; but a process has its number some
 * time before it appears. So the span begins at a number that was the last a second or more
 * before the last listing but one. False: nothing has. */
static bool span_needed(const struct process_table *table, enum process_look look,
                        const struct proc_forks *forks, struct proc_span *ret_span)
{
    const struct proc_forks *old = &table->old.forks;

    *ret_span = all_of_it();
    if (look == PROCESS_ANEW || !table->whole || forks == NULL ||
        table->now_ticks - table->whole_ticks > WHOLE_TICKS || table->added > ADDED_MAX)
        return true;
    if (forks->count == table->forks_listed)
        return false;
    if (table->old.ticks == 0 || forks->last < old->last || forks->count < old->count ||
        forks->count - old->count > table->count ||
        forks->count - old->count + forks->tasks > forks->pid_max / 2)
        return true; /* the numbers may have begun anew, or there are as many as there were */
    *ret_span = (struct proc_span){old->last, forks->last};
    return true;
}

static void note_listing(struct process_table *table, const struct proc_forks *forks, bool all)
{
    if (all) {
        table->whole = true;
        table->whole_ticks = table->now_ticks;
        table->added = 0;
    }
    if (forks == NULL)
        return;
    table->forks_listed = forks->count;
    if (table->recent.ticks != 0 && table->now_ticks - table->recent.ticks < TICKS_PER_S)
        return;
    table->old = table->recent;
    table->recent = (struct mark){*forks, table->now_ticks};
}

static bool is_all(const struct proc_span *span)
{
    return span->until == 0;
}

static int list_span(struct process_table *table, struct proc_span span)
{
    const struct proc_source *source = table->source;
    int result = source->list(source->context, span, take_listed, table);

    for (size_t i = 0; i < table->sorted && is_all(&span) && result == 0; i++)
        table->items[i].gone = table->items[i].gone || table->items[i].pass != table->pass;
    settle_entries(table);
    return result;
}

static void list_new(struct process_table *table, enum process_look look)
{
    const struct proc_source *source = table->source;
    struct proc_forks told;
    const struct proc_forks *forks =
        source->forks(source->context, &told) == 0 ? &told : NULL; /* before it is listed */
    struct proc_span span;
    int result;

    if (!span_needed(table, look, forks, &span)) {
        note_listing(table, forks, false); /* it would show the same */
        return;
    }
    result = list_span(table, span);
    if (result != 0 && !is_all(&span)) {
        span = all_of_it();
        result = list_span(table, span);
    }
    table->unread = table->unread || result != 0;
    if (!table->unread)
        note_listing(table, forks, is_all(&span));
}

/* ---- who may have changed ---- */

/* An environment counts for nobody who is older than the job. */
static bool is_candidate(const struct entry *entry, const struct job_identity *job)
{
    return entry->hidden || entry->start_ticks >= job->stragglers.start_ticks;
}

static bool is_due(const struct entry *entry, uint64_t now_ticks)
{
    const uint64_t read_age =
        entry->read_ticks > entry->start_ticks ? entry->read_ticks - entry->start_ticks : 0;

    if (entry->executed && read_age >= YOUNG_TICKS)
        return false;
    return now_ticks - entry->start_ticks >= 2 * read_age;
}

static size_t first_above(const struct process_table *table, pid_t pid)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->items[middle].pid > pid)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void read_by_turns(struct process_table *table, const struct job_identity *job)
{
    const size_t first = first_above(table, table->turn);
    size_t turns = 0;

    for (size_t i = 0; i < table->count && turns < PROCESS_TURN; i++) {
        struct entry *entry = &table->items[(first + i) % table->count];
        if (!is_candidate(entry, job))
            continue;
        table->turn = entry->pid;
        turns++;
        read_entry(table, entry, false);
    }
}

static void read_changed(struct process_table *table, const struct job_identity *job,
                         enum process_look look)
{
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = &table->items[i];
        if (is_candidate(entry, job) && entry->read_pass != table->pass &&
            (look == PROCESS_ANEW || is_due(entry, table->now_ticks)))
            read_entry(table, entry, false);
    }
    if (look == PROCESS_KNOWN)
        read_by_turns(table, job);
    settle_entries(table);
    if (table->unread)
        table->whole = false; /* the next look finds what is missing now */
}

bool process_table_refresh(struct process_table *table, const struct process_asker *asker,
                           enum process_look look)
{
    bool unread;

    CHECK(asker->job->stragglers.start_ticks > 0);
    uv_mutex_lock(&table->lock);
    table->pass++;
    table->unread = false;
    table->now_ticks = table->source->now_ticks(table->source->context);
    list_new(table, look);
    read_changed(table, asker->job, look);
    CHECK(table->sorted == table->count);
    unread = table->unread;
    uv_mutex_unlock(&table->lock);
    return !unread;
}

/* ---- whom a job's look has to read ---- */

enum place { PLACE_OPEN, PLACE_INSIDE, PLACE_OUTSIDE };

struct finding {
    struct process_table *table;
    const struct process_asker *asker;
    pid_t *known; /* of the job, by number */
    size_t known_count;
    pid_t *sessions; /* in which its groups are, by number */
    size_t session_count;
    uint8_t *places; /* enum place, of each entry */
};

static int compare_pids(const void *a, const void *b)
{
    const pid_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static bool has_pid(const pid_t *pids, size_t count, pid_t pid)
{
    return count > 0 && bsearch(&pid, pids, count, sizeof(pid), compare_pids) != NULL;
}

static bool names_job(const struct entry *entry, const struct job_identity *job)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];
    const char *text = entry->names;

    if (text == NULL || strcmp(text, job->stragglers.allocation_id) != 0)
        return false;
    text += strlen(text) + 1;
    if (strcmp(text, job->stragglers.work_dir) != 0)
        return false;
    text += strlen(text) + 1;
    return strcmp(text, checkpoint_id_format(job->stragglers.run, run)) == 0;
}

/* Of a group of the job: its main process's, or one that a known process has begun. */
static bool is_grouped(const struct finding *finding, const struct entry *entry)
{
    const pid_t main = finding->asker->job->group;

    return entry->pid == main || entry->group == main ||
           has_pid(finding->known, finding->known_count, entry->pid) ||
           has_pid(finding->known, finding->known_count, entry->group) ||
           has_pid(finding->known, finding->known_count, entry->session);
}

static bool may_belong(const struct finding *finding, const struct entry *entry)
{
    const struct process_asker *asker = finding->asker;

    return is_grouped(finding, entry) || has_pid(asker->inside, asker->inside_count, entry->pid) ||
           names_job(entry, asker->job);
}

static void find_sessions(struct finding *finding)
{
    struct process_table *table = finding->table;

    for (size_t i = 0; i < table->count; i++)
        if (is_grouped(finding, &table->items[i]))
            finding->sessions[finding->session_count++] = table->items[i].session;
    qsort(finding->sessions, finding->session_count, sizeof(*finding->sessions), compare_pids);
}

/* A process changes its group only within its session, and its session only to one of its own. */
static void look_at_group(struct finding *finding, struct entry *entry)
{
    const struct proc_source *source = finding->table->source;
    pid_t group;

    if (!has_pid(finding->sessions, finding->session_count, entry->session))
        return;
    group = source->group(source->context, entry->pid);
    if (group > 0)
        entry->group = group;
}

static void find_roots(struct finding *finding)
{
    struct process_table *table = finding->table;

    find_sessions(finding);
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = &table->items[i];
        if (!may_belong(finding, entry))
            look_at_group(finding, entry);
        if (may_belong(finding, entry))
            finding->places[i] = PLACE_INSIDE;
    }
}

/* Upwards until a place is known; then all on the way have it. */
static void find_place(struct finding *finding, size_t from)
{
    const struct process_table *table = finding->table;
    uint8_t place = PLACE_OUTSIDE;
    size_t steps = 0;

    for (size_t at = from; steps <= table->count; steps++) { /* pictures that changed hold rings */
        const struct entry *parent;
        if (finding->places[at] != PLACE_OPEN) {
            place = finding->places[at];
            break;
        }
        parent = find_entry(table, table->items[at].parent);
        if (parent == NULL)
            break;
        at = (size_t)(parent - table->items);
    }
    for (size_t at = from; finding->places[at] == PLACE_OPEN;) {
        const struct entry *parent = find_entry(table, table->items[at].parent);
        finding->places[at] = place;
        if (parent == NULL)
            break;
        at = (size_t)(parent - table->items);
    }
}

static bool is_unnamed(const struct finding *finding, size_t i)
{
    const struct entry *entry = &finding->table->items[i];
    const struct stragglers *stragglers = &finding->asker->job->stragglers;

    return finding->places[i] != PLACE_INSIDE && !entry->named && !entry->hidden &&
           entry->uid == stragglers->uid && entry->start_ticks >= stragglers->start_ticks;
}

static void fill_found(const struct finding *finding, struct process_found *ret_found)
{
    const struct process_table *table = finding->table;

    *ret_found = (struct process_found){
        .pids = check_calloc(table->count + finding->asker->inside_count + 1, sizeof(pid_t))};
    for (size_t i = 0; i < table->count; i++) {
        const struct entry *entry = &table->items[i];
        if (finding->places[i] == PLACE_INSIDE)
            ret_found->pids[ret_found->count++] = entry->pid;
        if (!is_unnamed(finding, i))
            continue;
        ret_found->unnamed = check_realloc(ret_found->unnamed, ret_found->unnamed_count + 1,
                                           sizeof(*ret_found->unnamed));
        ret_found->unnamed[ret_found->unnamed_count++] = (struct proc_stat){
            .pid = entry->pid, .start_ticks = entry->start_ticks, .image = entry->image};
    }
}

/* The processes of its control group that are not in the table yet. */
static void add_inside(const struct finding *finding, struct process_found *found)
{
    const struct process_asker *asker = finding->asker;
    const size_t count = found->count;

    for (size_t i = 0; i < asker->inside_count; i++)
        if (!has_pid(found->pids, count, asker->inside[i]))
            found->pids[found->count++] = asker->inside[i];
    qsort(found->pids, found->count, sizeof(*found->pids), compare_pids);
}

void process_table_find(struct process_table *table, const struct process_asker *asker,
                        struct process_found *ret_found)
{
    const struct job_identity *job = asker->job;
    struct finding finding = {.table = table, .asker = asker, .known_count = job->known_count};

    finding.known = check_calloc(job->known_count + 1, sizeof(*finding.known));
    for (uint32_t i = 0; i < job->known_count; i++)
        finding.known[i] = job->known[i].pid;
    qsort(finding.known, finding.known_count, sizeof(*finding.known), compare_pids);
    uv_mutex_lock(&table->lock);
    CHECK(table->sorted == table->count);
    finding.sessions = check_calloc(table->count + 1, sizeof(*finding.sessions));
    finding.places = check_calloc(table->count + 1, sizeof(*finding.places));
    find_roots(&finding);
    for (size_t i = 0; i < table->count; i++)
        if (finding.places[i] == PLACE_OPEN && is_candidate(&table->items[i], job))
            find_place(&finding, i);
    fill_found(&finding, ret_found);
    uv_mutex_unlock(&table->lock);
    add_inside(&finding, ret_found);
    free(finding.known);
    free(finding.sessions);
    free(finding.places);
}

void process_found_close(struct process_found *found)
{
    free(found->pids);
    free(found->unnamed);
    *found = (struct process_found){.count = 0};
}

/* ---- what was read of them ---- */

static void take_names(struct entry *entry, const struct process_names *names)
{
    const char *const texts[] = {names->allocation_id, names->work_dir, names->run};
    size_t bytes = 0;
    char *at;

    forget_names(entry);
    entry->named = true;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (texts[i] == NULL)
            return;
        bytes += strlen(texts[i]) + 1;
    }
    entry->names = at = check_alloc(bytes);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        at = stpcpy(at, texts[i]) + 1;
}

void process_table_name(struct process_table *table, const struct proc_stat *stat,
                        const struct process_names *names)
{
    struct entry *entry;

    uv_mutex_lock(&table->lock);
    entry = find_entry(table, stat->pid);
    if (entry != NULL && !entry->hidden && entry->start_ticks == stat->start_ticks &&
        entry->image == stat->image)
        take_names(entry, names);
    uv_mutex_unlock(&table->lock);
}

void process_table_take(struct process_table *table, const struct proc_stat *stat, uid_t uid,
                        const struct process_names *names)
{
    struct entry *entry;

    uv_mutex_lock(&table->lock);
    entry = find_entry(table, stat->pid);
    if (entry != NULL) {
        take_stat(entry, stat, uid, table->source->now_ticks(table->source->context));
        take_names(entry, names);
    }
    uv_mutex_unlock(&table->lock);
}
