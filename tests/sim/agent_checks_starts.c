/* What must hold when an application begins: what it begins from, beside whom, in which folder. See
 * agent_checks.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_checks_internal.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

void checks_attaches(void *data, struct agent_machine *machine, const char *allocation_id)
{
    struct agent_checks *checks = data;
    struct rank *rank = checks_rank(checks, checks_agent(machine), allocation_id);

    rank->complete_floor = state_checks_last_complete(checks->world, allocation_id);
    rank->verified_floor = rank->verified_id;
}

/* What a node still runs of a part that was taken away, or that has ended or joined again with
 * another run, is no more named, and ends. */
bool checks_of_job(const struct agent_checks *checks, const struct application *application)
{
    return state_checks_has_part(checks->world, application_allocation(application),
                                 checks_agent(application_machine(application)),
                                 application_part_run(application));
}

/* Others may have begun from the same shard: there are fewer of them than places. */
static bool shares_part(const struct application *application)
{
    const struct application_point *point = application_point_of(application);

    return point->parts > 0 && point->places > point->parts;
}

/* A part goes on with the shard that its node wrote, or takes its place over with the one of that
 * place; nobody else of the job lives from that. */
static void check_own_shard(struct agent_checks *checks, const struct application *application,
                            uint64_t checkpoint_id)
{
    const struct agent_machine *machine = application_machine(application);
    const char *writer = application_shard_of(application);
    bool counts = checks_of_job(checks, application);

    for (size_t i = 0; i < checks->rank_count && counts; i++) {
        const struct rank *other = checks->ranks[i];
        if (strcmp(other->allocation_id, application_allocation(application)) == 0 &&
            other->living != NULL && other->living != application &&
            other->from_id == checkpoint_id &&
            strcmp(application_shard_of(other->living), writer) == 0 && !shares_part(application) &&
            checks_of_job(checks, other->living))
            world_violation(checks->world, "I45", "%s starts on %s from the shard of %s, as on %s",
                            other->allocation_id, machine->name, writer,
                            application_machine(other->living)->name);
    }
    if (counts && strcmp(writer, machine->name) != 0 &&
        !parts_may_begin_from(checks->world,
                              job_find(checks->world, application_allocation(application)),
                              checks_agent(machine), application_part_run(application),
                              checkpoint_id, (unsigned)world_agent_number(writer)))
        world_violation(checks->world, "I45",
                        "%s starts on %s from the shard of %s, which is of another part",
                        application_allocation(application), machine->name, writer);
}

/* I61: a run that the broker begins by itself begins beside nothing of those before, wherever. A
 * part that began in the same run, and left the job before it was heard of, is no second copy. */
static void check_alone(struct agent_checks *checks, const struct application *application)
{
    const char *id = application_allocation(application);
    const struct world_job *job = job_find(checks->world, id);
    const unsigned at = (unsigned)(job - checks->world->jobs);
    uint64_t run = application_part_run(application);

    if (!comebacks_is_run(checks->world, job, checks_agent(application_machine(application)), run))
        return;
    for (size_t i = 0; i < checks->rank_count; i++) {
        const struct rank *other = checks->ranks[i];

        if (other->living == NULL || other->living == application ||
            strcmp(other->allocation_id, id) != 0 || checks_of_job(checks, other->living) ||
            application_part_run(other->living) >= run ||
            alone_left_unheard(checks->world, at, other->agent,
                               application_part_run(other->living)) ||
            victims_was_off(checks->world, other->agent))
            continue;
        world_violation(checks->world, "I61",
                        "%s was restarted by the broker, run %" PRIx64
                        " begins on %s, and run %" PRIx64 " of it lives on %s",
                        id, run, application_machine(application)->name,
                        application_part_run(other->living),
                        application_machine(other->living)->name);
    }
    for (unsigned agent = 0; agent < checks->world->options.agents; agent++)
        if (world_model_lives(agent, at, UINT64_MAX) && world_model_run(agent, at) < run &&
            !alone_left_unheard(checks->world, at, agent, world_model_run(agent, at)) &&
            !state_checks_has_node(checks->world, id, agent) && !victims_off(checks->world, agent))
            world_violation(checks->world, "I61",
                            "%s was restarted by the broker without %s, where it lives", id,
                            world_agent_name(agent));
}

/* I68 */
static void check_beside(struct agent_checks *checks, const struct rank *rank)
{
    for (size_t i = 0; i < checks->rank_count; i++) {
        const struct rank *other = checks->ranks[i];

        if (other != rank && other->agent == rank->agent && other->living != NULL)
            alone_begins(checks->world, rank->allocation_id, other->allocation_id,
                         application_part_run(other->living), rank->agent);
    }
}

/* S2-007: the state has said that this job begins from there because a target is away. */
static bool was_discarded(const struct world *world, const char *job, uint64_t from_id)
{
    for (unsigned i = 0; world->options.discards > 0 && i < WORLD_MEMBERS_MAX; i++) {
        const struct fsm *fsm =
            world->members[i].up ? replica_fsm(world->members[i].broker.replica) : NULL;
        const Ckpt__V1__Event *event = NULL;
        bool gap;

        while (fsm != NULL &&
               (event = fsm_event_after(fsm, event == NULL ? 0 : event->sequence, &gap)) != NULL)
            if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED &&
                event->checkpoint_id == from_id && strcmp(event->allocation_id, job) == 0)
                return true;
    }
    return false;
}

/* Whatever was complete when ckpt-run asked is what it starts from, or older than that; only a
 * spoiled one is passed over, and one that is waited for no more or had expired. */
static void check_nothing_lost(struct agent_checks *checks, const struct agent_machine *machine,
                               const struct rank *rank, uint64_t from_id)
{
    char text[CHECKPOINT_ID_TEXT_BYTES];
    char path_end[ID_MAX_BYTES + 64];
    uint64_t id = from_id;

    if (was_discarded(checks->world, rank->allocation_id, from_id))
        return;
    while ((id = state_checks_next_complete(checks->world, rank->allocation_id, id)) != 0 &&
           id <= rank->complete_floor) {
        snprintf(path_end, sizeof(path_end), "/%s/checkpoints/%s",
                 retention_home(checks->world, id), checkpoint_id_format(id, text));
        if (!agent_store_spoiled(checks->store, path_end) && !retention_let_go(checks->world, id))
            world_violation(checks->world, "I28",
                            "%s starts on %s from %" PRIx64 ", %s is complete", rank->allocation_id,
                            machine->name, from_id, text);
    }
}

/* Of the run before nothing is left in the folders for checkpoints and restores. */
static void check_work_folder(struct agent_checks *checks, const struct application *application,
                              uint64_t checkpoint_id)
{
    const struct agent_machine *machine = application_machine(application);
    const char *id = application_allocation(application);
    char folder[ID_MAX_BYTES + 64];
    char text[CHECKPOINT_ID_TEXT_BYTES];
    char own[ID_MAX_BYTES + 96];
    const struct agent_file *file;

    snprintf(folder, sizeof(folder), "/work/%s/out", id);
    if (agent_files_below(machine->files, folder, 0) != NULL)
        world_violation(checks->world, "SWEEP", "%s begins on %s with files in out/", id,
                        machine->name);
    snprintf(folder, sizeof(folder), "/work/%s/restore", id);
    snprintf(own, sizeof(own), "%s/%s/", folder, checkpoint_id_format(checkpoint_id, text));
    for (size_t i = 0; (file = agent_files_below(machine->files, folder, i)) != NULL; i++)
        if (strncmp(file->path, own, strlen(own)) != 0)
            world_violation(checks->world, "SWEEP", "%s begins on %s beside %s", id, machine->name,
                            file->path);
}

void checks_started(void *data, struct application *application, uint64_t checkpoint_id)
{
    struct agent_checks *checks = data;
    struct agent_machine *machine = application_machine(application);
    const char *id = application_allocation(application);
    struct rank *rank = checks_rank(checks, checks_agent(machine), id);

    checks->counters.starts++;
    if (rank->living != NULL)
        world_violation(checks->world, "ONE PROCESS",
                        "%s starts on %s as pid %d while pid %d of it lives there", id,
                        machine->name, (int)application_process(application)->pid,
                        (int)application_process(rank->living)->pid);
    hangs_started(checks->world, id);
    check_alone(checks, application);
    check_beside(checks, rank);
    rank->living = application;
    rank->told = false;
    rank->group = application_process(application)->pid;
    rank->group_start_ticks = application_process(application)->start_ticks;
    for (size_t i = 0; i < checks->rank_count; i++)
        if (checks->ranks[i] != rank && checks->ranks[i]->agent == rank->agent &&
            checks->ranks[i]->group == rank->group)
            checks->ranks[i]->group = 0;
    rank->from_id = checkpoint_id;
    if (checkpoint_id != 0) {
        checks->counters.restores++;
        checks->counters.whole += application_point_of(application)->parts > 0;
        checks->counters.spread +=
            application_point_of(application)->parts > 0 &&
            application_point_of(application)->parts != application_point_of(application)->places;
        if (!state_checks_completed(checks->world, checkpoint_id))
            world_violation(checks->world, "I27",
                            "%s starts on %s from a checkpoint that is not complete", id,
                            machine->name);
        check_own_shard(checks, application, checkpoint_id);
    }
    parts_began(checks->world, job_find(checks->world, id), checks_agent(machine),
                application_part_run(application), checkpoint_id);
    check_work_folder(checks, application, checkpoint_id);
    rank->passed_id = 0;
    if (application_from_scratch(application) ||
        (checkpoint_id == 0 &&
         (job_find(checks->world, id)->anew ||
          parts_joined(checks->world, job_find(checks->world, id), checks_agent(machine),
                       application_part_run(application)))))
        return;
    check_nothing_lost(checks, machine, rank, checkpoint_id);
    if (!was_discarded(checks->world, id, checkpoint_id))
        rank->passed_id = rank->verified_floor > checkpoint_id ? rank->verified_floor : 0;
}
