/* Memory that an agent shares with applications, on a simulated machine: the agent's side
 * (src/agent/node/region.h) over its files. See agent_machine.h.
 *
 * Shapes   an application is woken by an event of its node, and looks at the word for itself; one
 *          that stands still does so when it goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_machine.h"

enum { WAKE_US = 2000, STILL_US = 50000, RAISE_BY = 3 };

static uint8_t *map(struct agent_machine *machine, const struct machine_region *region,
                    size_t offset, size_t length, struct err *err)
{
    struct buf *content = agent_files_map(machine->files, region->path);

    if (content != NULL && offset + length <= content->length)
        return content->bytes + offset;
    (void)err_set(err, ERR_NOT_FOUND, "there is no shared memory at %s", region->path);
    return NULL;
}

static int read_own(void *context, const struct machine_region *region, size_t offset,
                    void *ret_bytes, size_t length, struct err *err)
{
    const uint8_t *from = map(context, region, offset, length, err);

    if (from == NULL)
        return -1;
    memcpy(ret_bytes, from, length);
    return 0;
}

static int write_own(void *context, const struct machine_region *region, size_t offset,
                     const void *bytes, size_t length, struct err *err)
{
    struct agent_machine *machine = context;
    uint8_t *to = map(machine, region, offset, length, err);

    if (to == NULL)
        return -1;
    if (!machine->dying)
        memcpy(to, bytes, length);
    return 0;
}

struct wake {
    struct agent_machine *machine;
    pid_t pid;
    uint64_t start_ticks;
};

static void wake_later(const struct wake *wake, uint64_t delay_us);

static void wake_fire(void *data)
{
    const struct wake wake = *(struct wake *)data;
    const struct machine_process *process = agent_machine_find(wake.machine, wake.pid);

    free(data);
    if (process == NULL || !process->living || process->start_ticks != wake.start_ticks)
        return;
    if (process->stopped || process->frozen)
        wake_later(&wake, STILL_US);
    else
        process->program.woken(process->program.data);
}

static void wake_later(const struct wake *wake, uint64_t delay_us)
{
    const struct agent_machine *machine = wake->machine;
    struct wake *own = check_calloc(1, sizeof(*own));

    *own = *wake;
    sim_on_drop(
        sim_schedule(machine->sim, machine->config.applications_node, delay_us, wake_fire, own),
        free);
}

static void wake_all(struct agent_machine *machine)
{
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = machine->processes[i];
        if (process == NULL || !process->living || process->program.woken == NULL)
            continue;
        wake_later(&(struct wake){machine, process->pid, process->start_ticks},
                   1 + sim_random(machine->sim, WAKE_US));
    }
}

static int change_own(void *context, const struct machine_region *region,
                      enum ask_region_change change, const size_t *offsets, size_t count,
                      struct err *err)
{
    struct agent_machine *machine = context;

    for (size_t i = 0; i < count; i++) {
        uint8_t *at = map(machine, region, offsets[i], sizeof(uint32_t), err);
        uint32_t word;
        if (at == NULL)
            return -1;
        memcpy(&word, at, sizeof(word));
        word = (word & ~UINT32_C(1)) + (change == ASK_REGION_RAISE ? RAISE_BY : 0);
        if (!machine->dying)
            memcpy(at, &word, sizeof(word));
    }
    if (count > 0 && !machine->dying)
        wake_all(machine);
    return 0;
}

/* One user has the whole machine. */
static int claim_own(void *context, const struct machine_region *region, struct err *err)
{
    (void)context, (void)region, (void)err;
    return 0;
}

static void remove_own(void *context, const struct machine_region *region)
{
    struct agent_machine *machine = context;

    if (!machine->dying)
        agent_files_remove(machine->files, region->path);
}

void agent_machine_fill_region(struct machine_ops *ops)
{
    ops->region_claim = claim_own;
    ops->region_read = read_own;
    ops->region_write = write_own;
    ops->region_change = change_own;
    ops->region_remove = remove_own;
}
