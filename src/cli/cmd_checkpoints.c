/* ckptctl checkpoints, checkpoint, restart-point, cancel. */
#include <inttypes.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/call.h"
#include "src/cli/checkpoints.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { PLACES_BYTES = 320 }; /* of a shard */

static const struct output_column columns[] = {
    {"CHECKPOINT", OUTPUT_LEFT},
    {"JOB", OUTPUT_LEFT},
    {"STATE", OUTPUT_LEFT},
    {"SINCE", OUTPUT_LEFT},
    {"PURPOSE", OUTPUT_LEFT},
    {"REASON", OUTPUT_LEFT},
    {"ATTEMPT", OUTPUT_RIGHT},
    {"SHARDS", OUTPUT_RIGHT},
    {"SIZE", OUTPUT_RIGHT},
    {"TARGET", OUTPUT_LEFT},
    {"PLACE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"WAVE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"STARTS", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"AFTER", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"PAUSED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"RESUMED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"GRANT", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"SAVES GPU-S", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"CREATED", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"PATH", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
};

static size_t verified_count(const Ckpt__V1__Checkpoint *checkpoint)
{
    size_t count = 0;

    for (size_t i = 0; i < checkpoint->n_shards; i++)
        count += checkpoint->shards[i]->verified ? 1 : 0;
    return count;
}

static const char *reason_text(Ckpt__V1__Reason reason, char text[HUMAN_BYTES])
{
    return reason == CKPT__V1__REASON__REASON_NONE
               ? "-"
               : human_enum(&ckpt__v1__reason__descriptor, (int)reason, text);
}

/* No complete one is empty: the size of a sensitive job's is told to its owner alone. */
static const char *size_text(const Ckpt__V1__Checkpoint *c, char text[HUMAN_BYTES])
{
    return c->size_bytes == 0 && c->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE
               ? "hidden"
               : human_size(c->size_bytes, text);
}

/* Where it stands among those that wait for bandwidth. */
static void waiting_cells(struct output_table *table, const Ckpt__V1__Checkpoint *c)
{
    char text[HUMAN_BYTES];

    if (c->queue_position == 0) {
        for (int i = 0; i < 3; i++)
            output_cell(table, "-");
        return;
    }
    output_cell(table, "%u", c->queue_position);
    output_cell(table, "%u", c->wave);
    output_cell(table, "%s", human_clock(c->expected_start_ms, text));
}

static void checkpoint_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Checkpoint *c = (const Ckpt__V1__Checkpoint *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", human_checkpoint(c->checkpoint_id, text));
    output_cell(table, "%s", c->allocation_id);
    /* that it is complete says nothing any more */
    output_state(table, c->damaged ? "DAMAGED"
                                   : human_enum(&ckpt__v1__checkpoint_state__descriptor,
                                                (int)c->state, text));
    output_cell(table, "%s", human_clock(c->state_since_ms, text));
    output_cell(table, "%s", human_enum(&ckpt__v1__purpose__descriptor, (int)c->purpose, text));
    output_cell(table, "%s", reason_text(c->reason, text));
    output_cell(table, "%u", c->attempt);
    output_cell(table, "%zu/%zu", verified_count(c), c->n_shards);
    output_cell(table, "%s", size_text(c, text));
    output_cell(table, "%s", c->target_id);
    waiting_cells(table, c);
    output_cell(table, "%s",
                human_enum(&ckpt__v1__after_checkpoint__descriptor, (int)c->after, text));
    output_cell(table, "%u", c->paused_count);
    output_cell(table, "%u", c->resumed_count);
    output_cell(table, "%s", human_rate(c->granted_bytes_per_s, text));
    output_cell(table, "%" PRIu64, c->recompute_saved_gpu_ms / 1000);
    output_cell(table, "%s", human_instant(c->created_at_ms, text));
    output_cell(table, "%s", c->path);
}

static const char *checkpoint_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    return human_checkpoint(((const Ckpt__V1__Checkpoint *)item)->checkpoint_id, text);
}

static const struct output_kind checkpoints_kind = {
    "checkpoints", "checkpoint", columns, ARRAY_COUNT(columns), checkpoint_row, checkpoint_name};

enum cli_exit checkpoint_argument(struct cli *cli, size_t position, uint64_t *ret_id)
{
    const char *text = cli_argument(cli, position);
    char shown[HUMAN_BYTES];

    if (checkpoint_id_parse(text, ret_id) == 0 && *ret_id != 0)
        return CLI_OK;
    return cli_fail(cli, CLI_USAGE, "ckptctl checkpoints",
                    "\"%s\" is not a checkpoint id: the form is EPOCH-SEQUENCE, for example 1-42",
                    human_safe(text, shown, sizeof(shown)));
}

enum cli_exit command_checkpoints(struct cli *cli)
{
    Ckpt__V1__ListCheckpointsRequest request = CKPT__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    struct output_list list;
    uint64_t undeleted = 0;
    enum cli_exit code;

    if (cli->argument_count > 0)
        request.allocation_id = cli_argument(cli, 0);
    request.state = (Ckpt__V1__CheckpointState)cli_number(cli, "state", 0);
    request.stale = cli_flag(cli, "stale");
    output_list_begin(&list, cli, &checkpoints_kind);
    do {
        ProtobufCMessage *message;

        code = call_read(cli, "list checkpoints", "BrokerService/ListCheckpoints", &request.base,
                         &ckpt__v1__list_checkpoints_reply__descriptor, &message);
        if (code != CLI_OK)
            break;
        const Ckpt__V1__ListCheckpointsReply *reply =
            (const Ckpt__V1__ListCheckpointsReply *)message;

        for (size_t i = 0; i < reply->n_checkpoints; i++)
            output_list_add(&list, &reply->checkpoints[i]->base);
        request.after_checkpoint_id = reply->next_after_checkpoint_id;
        undeleted = reply->undeleted_count;
        call_free(message);
    } while (request.after_checkpoint_id != 0);
    output_list_end(&list, code == CLI_OK);
    if (code == CLI_OK && undeleted > 0)
        cli_note(cli,
                 "%" PRIu64
                 " expired ones could not be deleted; new ones are written all the same: "
                 "ckptctl undeleted",
                 undeleted);
    return code;
}

enum cli_exit checkpoint_fetch(struct cli *cli, uint64_t id, bool stale,
                               ProtobufCMessage **ret_reply)
{
    Ckpt__V1__ListCheckpointsRequest request = CKPT__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    char text[HUMAN_BYTES], what[128];
    ProtobufCMessage *message;
    enum cli_exit code;

    request.checkpoint_id = id;
    request.stale = stale;
    snprintf(what, sizeof(what), "show checkpoint %s", human_checkpoint(id, text));
    code = call_read(cli, what, "BrokerService/ListCheckpoints", &request.base,
                     &ckpt__v1__list_checkpoints_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    if (((const Ckpt__V1__ListCheckpointsReply *)message)->n_checkpoints == 0) {
        call_free(message);
        return cli_fail(cli, CLI_NOT_FOUND, "ckptctl checkpoints", "cannot %s: no such checkpoint",
                        what);
    }
    *ret_reply = message;
    return CLI_OK;
}

/* "home, node n1": the target's name first. */
static const char *places_text(const Ckpt__V1__ShardInfo *shard, char text[PLACES_BYTES])
{
    size_t used = 0;
    char name[129];

    snprintf(text, PLACES_BYTES, "-");
    for (size_t i = 0; i < shard->n_places && used < PLACES_BYTES; i++) {
        const Ckpt__V1__ShardPlace *place = shard->places[i];
        bool node = place->node_id[0] != '\0';

        used += (size_t)snprintf(
            text + used, PLACES_BYTES - used, "%s%s%s", i > 0 ? ", " : "", node ? "node " : "",
            human_safe(node ? place->node_id : place->target_id, name, sizeof(name)));
    }
    return text;
}

void shards_print(struct cli *cli, Ckpt__V1__ShardInfo *const *shards, size_t count)
{
    static const struct output_column shard_columns[] = {
        {"PART", OUTPUT_RIGHT},  {"NODE", OUTPUT_LEFT},    {"STATE", OUTPUT_LEFT},
        {"RANKS", OUTPUT_RIGHT}, {"SIZE", OUTPUT_RIGHT},   {"WRITTEN", OUTPUT_RIGHT},
        {"STAGED", OUTPUT_LEFT}, {"LIES AT", OUTPUT_LEFT}, {"MANIFEST SHA-256", OUTPUT_LEFT}};
    struct output_table table;
    char text[HUMAN_BYTES], places[PLACES_BYTES];

    output_table_init(&table, cli, shard_columns, ARRAY_COUNT(shard_columns));
    for (size_t i = 0; i < count; i++) {
        output_row(&table);
        output_cell(&table, "%u", shards[i]->part);
        output_cell(&table, "%s", shards[i]->node_id);
        output_state(&table, shards[i]->verified  ? "verified"
                             : shards[i]->started ? "writing"
                                                  : "asked");
        if (shards[i]->ranks == 0)
            output_cell(&table, "-");
        else
            output_cell(&table, "%u", shards[i]->ranks);
        output_cell(&table, "%s", human_size(shards[i]->size_bytes, text));
        output_cell(&table, "%s", human_size(shards[i]->written_bytes, text));
        output_cell(
            &table, "%s",
            shards[i]->staging == CKPT__V1__STAGING__STAGING_UNSPECIFIED
                ? "-"
                : human_enum(&ckpt__v1__staging__descriptor, (int)shards[i]->staging, text));
        output_cell(&table, "%s", places_text(shards[i], places));
        output_cell(&table, "%s", shards[i]->manifest_sha256);
    }
    output_table_print(&table);
}

static void print_times(struct cli *cli, const Ckpt__V1__Checkpoint *c)
{
    char text[HUMAN_BYTES], at[HUMAN_BYTES];

    cli_out(cli, " created %s", human_clock(c->created_at_ms, text));
    cli_out(cli, "  dispatched %s", human_clock(c->dispatched_at_ms, text));
    cli_out(cli, "  completed %s", human_clock(c->completed_at_ms, text));
    cli_out(cli, "  deadline %s%s", human_clock(c->deadline_ms, text),
            c->extended ? " (extended once)" : "");
    if (c->deferred_ms > 0)
        cli_out(cli, " (the application put it off by %s)", human_duration(c->deferred_ms, text));
    cli_out(cli, "\n");
    if (c->told_write_ms != 0)
        cli_out(cli, " written by %s, after %s, by its application's word\n",
                human_clock(c->told_end_at_ms, at), human_duration(c->told_write_ms, text));
}

/* What its ranks saved, as they call it, and at which step they were to. */
static void print_ranks(struct cli *cli, const Ckpt__V1__Checkpoint *c)
{
    char text[HUMAN_BYTES], machine[129], os[129];
    uint64_t ranks = 0;

    for (size_t i = 0; i < c->n_shards; i++)
        ranks += c->shards[i]->ranks;
    cli_out(cli, " label %s  %" PRIu64 " ranks in %zu parts",
            c->label[0] == '\0' ? "-" : human_safe(c->label, text, sizeof(text)), ranks,
            c->n_shards);
    if (c->barrier != CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_NONE)
        cli_out(cli, "  barrier %s",
                human_enum_words(&ckpt__v1__barrier_phase__descriptor, (int)c->barrier, text));
    if (c->agreed_step != 0)
        cli_out(cli, " at step %" PRIu64, c->agreed_step);
    fputc('\n', cli->out);
    if (c->machine[0] != '\0' || c->os[0] != '\0')
        cli_out(cli, " written on %s %s\n", human_safe(c->machine, machine, sizeof(machine)),
                human_safe(c->os, os, sizeof(os)));
    if (c->pinned)
        cli_out(cli, " pinned: it stays until ckptctl checkpoint unpin\n");
    if (c->verified_at_ms != 0)
        cli_out(cli, " read again and whole %s\n", human_clock(c->verified_at_ms, text));
    if (c->damaged)
        cli_out(cli, " DAMAGED: a part of it does not verify; nothing begins from it\n");
}

/* Of the verified parts: what was written for them, and what an earlier checkpoint had already. */
static void print_size(struct cli *cli, const Ckpt__V1__Checkpoint *c)
{
    uint64_t written_bytes = 0, parts_bytes = 0;
    char a[HUMAN_BYTES], b[HUMAN_BYTES], d[HUMAN_BYTES];

    for (size_t i = 0; i < c->n_shards; i++) {
        parts_bytes += c->shards[i]->size_bytes;
        written_bytes += c->shards[i]->written_bytes;
    }
    cli_out(cli, " size %s", size_text(c, a));
    if (parts_bytes > 0)
        cli_out(cli, " (written %s, saved %s)", human_size(written_bytes, b),
                human_size(parts_bytes - written_bytes, d));
    cli_out(cli, "  granted %s  saves %" PRIu64 " GPU-s of recomputation\n",
            human_rate(c->granted_bytes_per_s, b), c->recompute_saved_gpu_ms / 1000);
}

static void print_checkpoint(struct cli *cli, const Ckpt__V1__Checkpoint *c)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES], d[HUMAN_BYTES];
    char job[129], target[129], path[1024], detail[256];

    cli_out(cli, "CHECKPOINT %s of job %s  %s since %s", human_checkpoint(c->checkpoint_id, a),
            human_safe(c->allocation_id, job, sizeof(job)),
            human_enum(&ckpt__v1__checkpoint_state__descriptor, (int)c->state, b),
            human_clock(c->state_since_ms, d));
    if (c->reason != CKPT__V1__REASON__REASON_NONE) {
        cli_out(cli, "  (%s)", human_enum_words(&ckpt__v1__reason__descriptor, (int)c->reason, a));
    }
    if (c->detail[0] != '\0')
        cli_out(cli, "\n why: %s", human_safe(c->detail, detail, sizeof(detail)));
    cli_out(cli, "\n purpose %s  then %s  attempt %u  paused %u  resumed %u\n",
            human_enum_words(&ckpt__v1__purpose__descriptor, (int)c->purpose, a),
            human_enum_words(&ckpt__v1__after_checkpoint__descriptor, (int)c->after, b), c->attempt,
            c->paused_count, c->resumed_count);
    print_ranks(cli, c);
    print_times(cli, c);
    if (c->queue_position > 0)
        cli_out(cli, " waits for its turn: place %u, wave %u, expected to start %s\n",
                c->queue_position, c->wave, human_clock(c->expected_start_ms, a));
    print_size(cli, c);
    cli_out(cli, " target %s  path %s\n", human_safe(c->target_id, target, sizeof(target)),
            human_safe(c->path, path, sizeof(path)));
    if (c->home[0] != '\0')
        cli_out(cli, " in the folder of job %s, which wrote it\n",
                human_safe(c->home, job, sizeof(job)));
    fputc('\n', cli->out);
    shards_print(cli, c->shards, c->n_shards);
}

enum cli_exit command_checkpoint(struct cli *cli)
{
    ProtobufCMessage *message;
    uint64_t id;
    char name[HUMAN_BYTES];
    enum cli_exit code = checkpoint_argument(cli, 0, &id);

    if (code == CLI_OK)
        code = checkpoint_fetch(cli, id, cli_flag(cli, "stale"), &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__Checkpoint *c =
        ((const Ckpt__V1__ListCheckpointsReply *)message)->checkpoints[0];

    if (cli->format == OUTPUT_NAME)
        cli_out(cli, "%s\n", checkpoint_name(&c->base, name));
    else if (!output_json_message(cli, "checkpoint", &c->base))
        print_checkpoint(cli, c);
    call_free(message);
    return CLI_OK;
}

enum cli_exit command_restart_point(struct cli *cli)
{
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    ProtobufCMessage *message;
    char what[160], id[HUMAN_BYTES], at[HUMAN_BYTES], path[1024];
    enum cli_exit code;

    request.allocation_id = cli_argument(cli, 0);
    snprintf(what, sizeof(what), "find the restart point of %.128s", request.allocation_id);
    code = call_read(cli, what, "BrokerService/GetRestartPoint", &request.base,
                     &ckpt__v1__restart_point__descriptor, &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__RestartPoint *point = (const Ckpt__V1__RestartPoint *)message;

    human_checkpoint(point->checkpoint_id, id);
    if (cli->format == OUTPUT_NAME) {
        if (point->checkpoint_id != 0)
            output_name(cli, id);
    } else if (output_json_message(cli, "restart_point", message)) {
        /* printed */
    } else if (point->checkpoint_id == 0) {
        cli_out(cli, "no complete checkpoint: the job starts from scratch\n");
    } else {
        cli_out(cli, "CHECKPOINT %s  work up to %s  path %s\n\n", id,
                human_clock(point->snapshot_at_ms, at),
                human_safe(point->path, path, sizeof(path)));
        shards_print(cli, point->shards, point->n_shards);
    }
    call_free(message);
    return CLI_OK;
}

enum cli_exit command_cancel(struct cli *cli)
{
    Ckpt__V1__CancelCheckpointRequest request = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;
    char what[128], text[HUMAN_BYTES];
    enum cli_exit code = checkpoint_argument(cli, 0, &request.checkpoint_id);

    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "cancel checkpoint %s",
             human_checkpoint(request.checkpoint_id, text));
    return call_mutate_simple(cli, what, "BrokerService/CancelCheckpoint", &request.base);
}
