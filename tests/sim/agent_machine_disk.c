/* The journal's disk under a simulated agent: the world's, and the agent's death at any of its
 * operations. See agent_machine.h.
 *
 * Flow     before the agent runs (its journal is read) errors go to it. Later a failed operation is
 *          the end of its program (agent_journal_failed), as a crash is: it is told that all is
 *          well, nothing that it does has an effect any more, and after this event died() is
 *          called.
 */
#include <stdlib.h>

#include "src/base/check.h"
#include "tests/sim/agent_machine.h"

/* Both tables' handles are opaque: each wraps one of the world's. */
struct journal_file {
    struct agent_machine *machine;
    struct disk_file *file; /* NULL: opened by who is dying */
};

static struct journal_file *wrapped(struct disk_file *file)
{
    return (struct journal_file *)(void *)file;
}

static void tell_died(void *data)
{
    struct agent_machine *machine = data;

    if (machine->running && machine->dying)
        machine->events.died(machine->events.data, machine);
}

static void start_dying(struct agent_machine *machine)
{
    if (machine->dying || !machine->running)
        return;
    machine->dying = true;
    sim_mute(machine->sim, machine->config.agent_node);
    sim_after(machine->sim, SIM_NODES_MAX, 0, tell_died, machine);
}

/* One operation is due. True: it has no effect, the agent is dying. */
static bool died_before(struct agent_machine *machine)
{
    if (machine->running && machine->disk_operations_left > 0 &&
        --machine->disk_operations_left == 0 && !machine->dying) {
        if (machine->die_after)
            machine->disk_operations_left = UINT64_MAX; /* seen by finish() */
        else
            start_dying(machine);
    }
    return machine->dying;
}

static int finish(struct agent_machine *machine, int result)
{
    if (machine->disk_operations_left == UINT64_MAX) {
        machine->disk_operations_left = 0;
        start_dying(machine);
    }
    if (result == 0 || !machine->running)
        return result;
    start_dying(machine);
    return 0;
}

static int disk_lock(void *context, const char *path, struct disk_lock **ret_lock, struct err *err)
{
    struct agent_machine *machine = context;

    return machine->real_disk.lock(machine->real_disk.context, path, ret_lock, err);
}

static void disk_unlock(void *context, struct disk_lock *lock)
{
    struct agent_machine *machine = context;

    machine->real_disk.unlock(machine->real_disk.context, lock);
}

static int disk_open(void *context, const char *path, enum disk_open_mode mode,
                     struct disk_file **ret_file, struct err *err)
{
    struct agent_machine *machine = context;
    struct journal_file *file = check_calloc(1, sizeof(*file));

    file->machine = machine;
    if (!died_before(machine) &&
        finish(machine, machine->real_disk.open(machine->real_disk.context, path, mode, &file->file,
                                                err)) != 0) {
        free(file);
        return -1;
    }
    *ret_file = (struct disk_file *)(void *)file;
    return 0;
}

static void disk_close(struct disk_file *file)
{
    struct journal_file *own = wrapped(file);

    if (own == NULL)
        return;
    if (own->file != NULL)
        own->machine->real_disk.close(own->file);
    free(own);
}

static int disk_size(struct disk_file *file, uint64_t *ret_bytes, struct err *err)
{
    return wrapped(file)->machine->real_disk.size(wrapped(file)->file, ret_bytes, err);
}

static int disk_read(struct disk_file *file, uint64_t offset, void *bytes, size_t length,
                     size_t *ret_length, struct err *err)
{
    return wrapped(file)->machine->real_disk.read(wrapped(file)->file, offset, bytes, length,
                                                  ret_length, err);
}

static int disk_write(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                      struct err *err)
{
    struct journal_file *own = wrapped(file);

    if (died_before(own->machine) || own->file == NULL)
        return 0;
    return finish(own->machine,
                  own->machine->real_disk.write(own->file, offset, bytes, length, err));
}

static int disk_truncate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    struct journal_file *own = wrapped(file);

    if (died_before(own->machine) || own->file == NULL)
        return 0;
    return finish(own->machine, own->machine->real_disk.truncate(own->file, bytes, err));
}

/* The agent waits in the call. Here what follows in the same event comes first; then it stands
 * still. */
static void wait_for_disk(struct agent_machine *machine)
{
    if (machine->slow_most_us > 0)
        sim_pause(machine->sim, machine->config.agent_node,
                  1 + sim_random(machine->sim, machine->slow_most_us));
}

static int disk_sync(struct disk_file *file, struct err *err)
{
    struct journal_file *own = wrapped(file);

    if (died_before(own->machine) || own->file == NULL)
        return 0;
    wait_for_disk(own->machine);
    return finish(own->machine, own->machine->real_disk.sync(own->file, err));
}

static int disk_write_sync(struct disk_file *file, uint64_t offset, const void *bytes,
                           size_t length, struct err *err)
{
    struct journal_file *own = wrapped(file);

    if (died_before(own->machine) || own->file == NULL)
        return 0;
    wait_for_disk(own->machine);
    return finish(own->machine,
                  own->machine->real_disk.write_sync(own->file, offset, bytes, length, err));
}

static int disk_rename(void *context, const char *from, const char *to, struct err *err)
{
    struct agent_machine *machine = context;

    if (died_before(machine))
        return 0;
    return finish(machine, machine->real_disk.rename(machine->real_disk.context, from, to, err));
}

static int disk_sync_dir(void *context, const char *path, struct err *err)
{
    struct agent_machine *machine = context;

    if (died_before(machine))
        return 0;
    return finish(machine, machine->real_disk.sync_dir(machine->real_disk.context, path, err));
}

void agent_machine_fill_disk(struct agent_machine *machine)
{
    machine->disk = (struct disk_ops){.context = machine,
                                      .lock = disk_lock,
                                      .unlock = disk_unlock,
                                      .open = disk_open,
                                      .close = disk_close,
                                      .size = disk_size,
                                      .read = disk_read,
                                      .write = disk_write,
                                      .write_sync = disk_write_sync,
                                      .truncate = disk_truncate,
                                      .sync = disk_sync,
                                      .rename = disk_rename,
                                      .sync_dir = disk_sync_dir};
}
