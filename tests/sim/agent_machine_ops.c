/* The agent's table of its machine (src/agent/node/machine.h) over a simulated one. See agent_machine.h.
 *
 * Shapes   callbacks are events of the agent's node: they die with it. An agent that is dying has no effect on anything.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_machine.h"

enum {
    WATCH_DELAY_US = 2000,
    REMOVE_DELAY_US = 20000,
    LOOK_DELAY_US = 10000,
    SLOW_LOOK_US = 3000000
};

/* ---- processes ---- */

static void fill_stat(const struct machine_process *process, struct proc_stat *ret_stat)
{
    *ret_stat = (struct proc_stat){.pid = process->pid,
                                   .state = !process->living   ? 'Z'
                                            : process->stopped ? 'T'
                                                               : 'S',
                                   .parent = 1,
                                   .group = process->group,
                                   .start_ticks = process->start_ticks};
    snprintf(ret_stat->name, sizeof(ret_stat->name), "%s", process->program.name);
}

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    const struct machine_process *process = agent_machine_find(context, pid);

    if (process == NULL)
        return -1;
    if (ret_stat != NULL)
        fill_stat(process, ret_stat);
    if (ret_status != NULL)
        *ret_status = (struct proc_status){.uid = MACHINE_USER,
                                           .gid = MACHINE_USER,
                                           .caught = process->living ? process->caught : 0,
                                           .ignored = process->living ? process->ignored : 0};
    return 0;
}

static void process_waits(void *context, pid_t pid, char ret_where[MACHINE_WAITS_BYTES])
{
    (void)context, (void)pid;
    snprintf(ret_where, MACHINE_WAITS_BYTES, "sim_wait");
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    struct agent_machine *machine = context;
    size_t count = 0;

    CHECK(group > 1);
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = machine->processes[i];
        struct proc_stat stat;
        if (process == NULL || !process->living || process->group != group)
            continue;
        fill_stat(process, &stat);
        count++;
        if (!each(data, &stat))
            break;
    }
    return count;
}

static int group_signal(void *context, pid_t group, int signal, struct err *err)
{
    struct agent_machine *machine = context;

    if (machine->dying)
        return 0;
    if (machine->events.signals != NULL)
        machine->events.signals(machine->events.data, machine, group, signal);
    return agent_machine_kill_group(machine, group, signal)
               ? 0
               : err_set(err, ERR_IO, "signal %d to group %d: no such process", signal, (int)group);
}

struct stragglers_look {
    struct list node;
    struct agent_machine *machine;
    struct job_identity job;
    bool kill;
    struct sim_event *event;
    void (*done)(void *data, size_t count);
    void *data;
};

static void look_free(struct stragglers_look *look)
{
    list_remove(&look->node);
    free(look);
}

static size_t look_count(const struct stragglers_look *look)
{
    struct agent_machine *machine = look->machine;
    size_t count = 0;

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX && !machine->dying; i++) {
        const struct machine_process *process = machine->processes[i];
        if (!agent_machine_belongs(process, &look->job))
            continue;
        count++;
        if (look->kill)
            agent_machine_kill(machine, process->pid, SIGKILL);
    }
    return count;
}

static void look_fire(void *data)
{
    struct stragglers_look *look = data;
    size_t count = look_count(look);

    if (look->done != NULL)
        look->done(look->data, count);
    look_free(look);
}

static struct stragglers_look *stragglers_find_own(void *context, const struct job_identity *job,
                                                   bool kill,
                                                   void (*done)(void *data, size_t count),
                                                   void *data)
{
    struct agent_machine *machine = context;
    struct stragglers_look *look;

    if (machine->dying)
        return NULL;
    look = check_calloc(1, sizeof(*look));
    look->machine = machine;
    look->job = *job;
    look->kill = kill;
    look->done = done;
    look->data = data;
    list_push_back(&machine->looks, &look->node);
    look->event = sim_schedule(machine->sim, machine->config.agent_node,
                               1 + sim_random(machine->sim, LOOK_DELAY_US), look_fire, look);
    return look;
}

static void stragglers_detach_own(struct stragglers_look *look)
{
    if (look != NULL)
        look->done = NULL;
}

struct pid_watch {
    struct list node;
    struct agent_machine *machine;
    pid_t pid;
    struct sim_event *event;
    void (*ended)(void *data);
    void *data;
};

static struct pid_watch *pid_watch(void *context, pid_t pid, void (*ended)(void *data), void *data)
{
    struct agent_machine *machine = context;
    const struct machine_process *process = agent_machine_find(machine, pid);
    struct pid_watch *watch;

    if (machine->dying || process == NULL || !process->living)
        return NULL;
    watch = check_calloc(1, sizeof(*watch));
    watch->machine = machine;
    watch->pid = pid;
    watch->ended = ended;
    watch->data = data;
    list_push_back(&machine->pid_watches, &watch->node);
    return watch;
}

static void pid_watch_free_own(struct pid_watch *watch)
{
    if (watch == NULL)
        return;
    if (watch->event != NULL)
        sim_cancel(watch->machine->sim, watch->event);
    list_remove(&watch->node);
    free(watch);
}

static void pid_fire(void *data)
{
    struct pid_watch *watch = data;

    watch->event = NULL;
    watch->ended(watch->data);
}

void agent_machine_tell_pid(struct agent_machine *machine, pid_t pid)
{
    for (struct list *at = machine->pid_watches.next; at != &machine->pid_watches; at = at->next) {
        struct pid_watch *watch = LIST_ITEM(at, struct pid_watch, node);
        if (watch->pid != pid)
            continue;
        watch->pid = 0; /* once */
        watch->event = sim_schedule(machine->sim, machine->config.agent_node,
                                    sim_random(machine->sim, WATCH_DELAY_US), pid_fire, watch);
    }
}

static uint32_t load_milli(void *context)
{
    (void)context;
    return 1000;
}

/* Simulated machines have no sensors: what is not measured is unknown. */
static struct sensors_reading *no_sensors(void *context, const char *root,
                                          void (*done)(void *data, const struct sensors *sensors),
                                          void *data)
{
    (void)context;
    (void)root;
    (void)done;
    (void)data;
    return NULL;
}

/* ---- folders ---- */

/* What a path leads to: these machines have one user and no mounts. */
struct opened_path {
    struct opened opened; /* the agent's view: must be first */
    char *path;
};

static const char *opened_path(const struct opened *opened)
{
    return ((const struct opened_path *)(const void *)opened)->path;
}

static void opened_close_own(struct opened *opened)
{
    struct opened_path *own = (struct opened_path *)(void *)opened;

    if (own == NULL)
        return;
    free(own->path);
    free(own);
}

static const char *opened_address_own(const struct opened *opened, char text[OPENED_ADDRESS_BYTES])
{
    snprintf(text, OPENED_ADDRESS_BYTES, "unix:%s", opened_path(opened));
    return text;
}

/* That of an application which has ended is still there, and nobody listens. */
static bool path_right(const struct agent_machine *machine, enum opened_kind kind, const char *path)
{
    const struct agent_file *file = agent_files_find(machine->files, path);
    size_t length = strlen(machine->name);

    if (kind == OPENED_FOLDER)
        return file != NULL && file->folder;
    return strncmp(path, "/run/", 5) == 0 && strncmp(path + 5, machine->name, length) == 0 &&
           strncmp(path + 5 + length, "-app-", 5) == 0;
}

struct path_open {
    struct list node;
    struct agent_machine *machine;
    enum opened_kind kind;
    char *path;
    struct sim_event *event;
    opened_done_fn *done;
    void *data;
};

static void path_open_free(struct path_open *open)
{
    list_remove(&open->node);
    free(open->path);
    free(open);
}

static void path_open_fire(void *data)
{
    struct path_open *open = data;
    struct opened_path *opened = NULL;

    if (path_right(open->machine, open->kind, open->path)) {
        opened = check_calloc(1, sizeof(*opened));
        opened->path = check_strdup(open->path);
    }
    open->done(open->data, opened == NULL ? NULL : &opened->opened,
               opened == NULL ? "there is nothing" : "");
    path_open_free(open);
}

static struct path_open *path_open_own(void *context, enum opened_kind kind, const char *path,
                                       uid_t uid, opened_done_fn *done, void *data)
{
    struct agent_machine *machine = context;
    struct path_open *open = check_calloc(1, sizeof(*open));

    CHECK(uid == MACHINE_USER);
    *open = (struct path_open){
        .machine = machine, .kind = kind, .path = check_strdup(path), .done = done, .data = data};
    list_push_back(&machine->path_opens, &open->node);
    open->event = sim_schedule(
        machine->sim, machine->config.agent_node,
        1 + sim_random(machine->sim, sim_chance(machine->sim, 32) ? SLOW_LOOK_US : LOOK_DELAY_US),
        path_open_fire, open);
    return open;
}

static void path_open_detach_own(struct path_open *open)
{
    if (open == NULL)
        return;
    sim_cancel(open->machine->sim, open->event);
    path_open_free(open);
}

static const char *file_path(const struct machine_file *file, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", opened_path(file->folder), file->name);
    return path;
}

static int folder_make(void *context, const struct machine_file *folder, bool may_exist,
                       struct err *err)
{
    struct agent_machine *machine = context;
    char path[PATH_MAX];
    int failure;

    if (folder->folder == NULL)
        return err_set(err, ERR_IO, "create %s: not open", folder->name);
    failure = machine->dying ? 0 : agent_files_make_folder(machine->files, file_path(folder, path));
    if (failure == 0 || (failure == EEXIST && may_exist))
        return 0;
    return err_set(err, ERR_IO, "create %s: %s", path, strerror(failure));
}

static int link_make(void *context, const struct machine_file *link, const char *to,
                     struct err *err)
{
    struct agent_machine *machine = context;
    char path[PATH_MAX];
    int failure;

    if (link->folder == NULL)
        return err_set(err, ERR_IO, "link %s: not open", link->name);
    failure = machine->dying ? 0 : agent_files_make_link(machine->files, file_path(link, path), to);
    return failure == 0 ? 0 : err_set(err, ERR_IO, "link %s: %s", path, strerror(failure));
}

static struct machine_growth folder_growth(void *context, const struct machine_file *folder)
{
    const struct agent_machine *machine = context;
    struct machine_growth growth = {0};
    const struct agent_file *file;
    char path[PATH_MAX];

    if (folder->folder == NULL)
        return growth;
    file_path(folder, path);
    while ((file = agent_files_below(machine->files, path, growth.files)) != NULL) {
        growth.files++;
        growth.sum = growth.sum * 1099511628211u + file->content.length + file->changes * 1000003u;
    }
    return growth;
}

struct cleanup {
    struct list node;
    struct agent_machine *machine;
    char *folders[MACHINE_FOLDERS_MAX];
    size_t folder_count;
    struct sim_event *event;
    void (*done)(void *data);
    void *data;
};

static void cleanup_free(struct cleanup *cleanup)
{
    list_remove(&cleanup->node);
    for (size_t i = 0; i < cleanup->folder_count; i++)
        free(cleanup->folders[i]);
    free(cleanup);
}

static void cleanup_fire(void *data)
{
    struct cleanup *cleanup = data;

    for (size_t i = 0; i < cleanup->folder_count && !cleanup->machine->dying; i++)
        agent_files_remove(cleanup->machine->files, cleanup->folders[i]);
    if (cleanup->done != NULL)
        cleanup->done(cleanup->data);
    cleanup_free(cleanup);
}

static struct cleanup *folders_remove(void *context, struct machine_user user,
                                      const struct machine_folders *folders,
                                      void (*done)(void *data), void *data)
{
    struct agent_machine *machine = context;
    struct cleanup *cleanup = check_calloc(1, sizeof(*cleanup));

    (void)user;
    CHECK(folders->count <= MACHINE_FOLDERS_MAX);
    cleanup->machine = machine;
    cleanup->folder_count = folders->count;
    for (size_t i = 0; i < folders->count; i++) {
        CHECK(strncmp(folders->paths[i], "/work/", 6) == 0 ||
              strncmp(folders->paths[i], AGENT_MEMORY_FOLDER "/", sizeof(AGENT_MEMORY_FOLDER)) ==
                  0);
        /* never outside of the jobs' folders */
        cleanup->folders[i] = check_strdup(folders->paths[i]);
    }
    cleanup->done = done;
    cleanup->data = data;
    list_push_back(&machine->cleanups, &cleanup->node);
    cleanup->event =
        sim_schedule(machine->sim, machine->config.agent_node,
                     1 + sim_random(machine->sim, REMOVE_DELAY_US), cleanup_fire, cleanup);
    return cleanup;
}

static void remove_detach(struct cleanup *cleanup)
{
    if (cleanup != NULL)
        cleanup->done = NULL;
}

struct folder_watch {
    struct list node;
    struct agent_machine *machine;
    char *folder;
    struct sim_event *event;
    void (*changed)(void *data);
    void *data;
};

static struct folder_watch *folder_watch(void *context, const struct opened *folder,
                                         void (*changed)(void *data), void *data)
{
    struct agent_machine *machine = context;
    struct folder_watch *watch;

    if (folder == NULL || machine->dying ||
        sim_chance(machine->sim, 4)) /* the kernel has none to give */
        return NULL;
    watch = check_calloc(1, sizeof(*watch));
    watch->machine = machine;
    watch->folder = check_strdup(opened_path(folder));
    watch->changed = changed;
    watch->data = data;
    list_push_back(&machine->folder_watches, &watch->node);
    return watch;
}

static void folder_watch_free(struct folder_watch *watch)
{
    if (watch == NULL)
        return;
    if (watch->event != NULL)
        sim_cancel(watch->machine->sim, watch->event);
    list_remove(&watch->node);
    free(watch->folder);
    free(watch);
}

static void folder_fire(void *data)
{
    struct folder_watch *watch = data;

    watch->event = NULL;
    watch->changed(watch->data);
}

void agent_machine_tell_folder(void *data, const char *path)
{
    struct agent_machine *machine = data;
    size_t length = (size_t)(strrchr(path, '/') - path);

    for (struct list *at = machine->folder_watches.next; at != &machine->folder_watches;
         at = at->next) {
        struct folder_watch *watch = LIST_ITEM(at, struct folder_watch, node);
        if (watch->event != NULL || strlen(watch->folder) != length ||
            strncmp(watch->folder, path, length) != 0)
            continue;
        watch->event =
            sim_schedule(machine->sim, machine->config.agent_node,
                         1 + sim_random(machine->sim, WATCH_DELAY_US), folder_fire, watch);
    }
}

/* ---- files ---- */

static ssize_t file_read(void *context, const struct machine_file *wanted, char *text, size_t size)
{
    const struct agent_machine *machine = context;
    const struct agent_file *file;
    char path[PATH_MAX];
    size_t length;

    if (wanted->folder == NULL)
        return -1;
    file = agent_files_find(machine->files, file_path(wanted, path));
    if (file == NULL || file->folder)
        return -1;
    length = file->content.length < size - 1 ? file->content.length : size - 1;
    if (length > 0)
        memcpy(text, file->content.bytes, length);
    text[length] = '\0';
    return (ssize_t)length;
}

static int file_write(void *context, const struct machine_file *file, const char *text,
                      size_t length, struct err *err)
{
    struct agent_machine *machine = context;
    char path[PATH_MAX];
    int failure;

    if (file->folder == NULL)
        return err_set(err, ERR_IO, "create %s: not open", file->name);
    failure =
        machine->dying ? 0 : agent_files_write(machine->files, file_path(file, path), text, length);
    return failure == 0 ? 0 : err_set(err, ERR_IO, "create %s: %s", path, strerror(failure));
}

static void file_remove(void *context, const struct machine_file *file)
{
    struct agent_machine *machine = context;
    char path[PATH_MAX];

    if (!machine->dying && file->folder != NULL)
        agent_files_remove(machine->files, file_path(file, path));
}

/* ---- workers ---- */

static int work_start(void *context, const char *const *arguments, struct machine_user user,
                      uint64_t deadline_ms, worker_done_fn *done, void *data,
                      struct worker **ret_worker, struct err *err)
{
    struct agent_machine *machine = context;

    (void)user; /* one user, who may do all */
    if (machine->dying)
        return err_set(err, ERR_IO, "dying");
    return worker_start(
        &machine->loop.uv,
        &(struct worker_task){
            .arguments = arguments, .deadline_ms = deadline_ms, .done = done, .data = data},
        ret_worker, err);
}

__attribute__((noreturn)) static void fail(void *context)
{
    (void)context;
    CHECK_UNREACHABLE("an agent whose journal cannot hold more");
}

void agent_machine_fill_ops(struct agent_machine *machine)
{
    machine->ops = (struct machine_ops){.context = machine,
                                        .process_read = process_read,
                                        .process_waits = process_waits,
                                        .group_each = group_each,
                                        .group_signal = group_signal,
                                        .stragglers_find = stragglers_find_own,
                                        .stragglers_detach = stragglers_detach_own,
                                        .pid_watch = pid_watch,
                                        .pid_watch_free = pid_watch_free_own,
                                        .load_milli = load_milli,
                                        .sensors_start = no_sensors,
                                        .sensors_detach = sensors_detach,
                                        .path_open = path_open_own,
                                        .path_open_detach = path_open_detach_own,
                                        .opened_close = opened_close_own,
                                        .opened_address = opened_address_own,
                                        .folder_make = folder_make,
                                        .link_make = link_make,
                                        .folder_growth = folder_growth,
                                        .folders_remove = folders_remove,
                                        .remove_detach = remove_detach,
                                        .folder_watch = folder_watch,
                                        .folder_watch_free = folder_watch_free,
                                        .file_read = file_read,
                                        .file_read_own = file_read,
                                        .file_write = file_write,
                                        .file_remove = file_remove,
                                        .worker_start = work_start,
                                        .worker_cancel = worker_cancel,
                                        .fail = fail};
    agent_machine_fill_jobs(&machine->ops);
    agent_machine_fill_region(&machine->ops);
}

/* The removals and looks that were under way stop where they are. */
void agent_machine_close_ops(struct agent_machine *machine)
{
    CHECK(list_empty(&machine->pid_watches) && list_empty(&machine->folder_watches));
    while (!list_empty(&machine->looks)) {
        struct stragglers_look *look = LIST_ITEM(machine->looks.next, struct stragglers_look, node);
        sim_cancel(machine->sim, look->event);
        look_free(look);
    }
    CHECK(list_empty(&machine->path_opens));
    agent_machine_close_jobs(machine);
    while (!list_empty(&machine->cleanups)) {
        struct cleanup *cleanup = LIST_ITEM(machine->cleanups.next, struct cleanup, node);
        sim_cancel(cleanup->machine->sim, cleanup->event);
        cleanup_free(cleanup);
    }
}
