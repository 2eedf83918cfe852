/* Golden scenarios of a restore: tests/golden/restore/NAME.txt holds what happens ("> ...") and the
 * moves and effects of restore_step(), exactly.
 *
 * Flow     each file is replayed on a fresh restore of node-a's part. A worker that is to read a
 *          part is started at once.
 * Shapes   the facts from now on: see NAME VALUE, after MS. Events: the names in event_of(), with
 *          the end of a worker, and copy where it was given one, or why there is no answer.
 */
#include "tests/golden/transcript.h"
#include "tests/support/restore_names.h"

enum { WORDS = 4, NODES = 3, FIRST_RUN = 9, ANN = 1000, MANIFEST_BYTES = 65 };

struct golden_restore {
    struct transcript *out;
    struct restore restore;
    struct restore_facts facts;
    struct ledger_entry entry;
    Ckpt__V1__RestartPoint point;
    Ckpt__V1__AllocationPart part, ordered;
    Ckpt__V1__OrderSet orders;
    Ckpt__V1__BeginWithout without;
    Ckpt__V1__ShardInfo shard[NODES], *shards[NODES];
    Ckpt__V1__AllocationPart *parts[1];
    char node[NODES][8], *nodes[NODES], manifest[MANIFEST_BYTES], path[8], owner[8];
    uint64_t runs[NODES];
    bool starts; /* a worker is being started */
};

/* ---- what is seen ---- */

static void set_target(struct golden_restore *golden, uint64_t away)
{
    golden->point.discarded_ms = away != 0 ? 600000 : 0;
    golden->point.discard_at_ms = away;
    golden->point.max_discarded_ms = 3600000;
}

static void set_without(struct golden_restore *golden, int cause)
{
    golden->without.cause = (Ckpt__V1__BeginCause)cause;
    golden->without.checkpoint_id = golden->restore.brought.checkpoint_id;
    golden->without.repeated_ms = 600000;
    golden->point.without = &golden->without;
}

static void set_orders(struct golden_restore *golden, uint64_t checkpoint_id)
{
    golden->ordered = golden->part;
    golden->ordered.run = golden->runs[0];
    golden->ordered.restart_checkpoint_id = checkpoint_id;
    golden->parts[0] = &golden->ordered;
    golden->orders.n_parts = 1;
    golden->orders.parts = golden->parts;
    golden->facts.orders = &golden->orders;
}

static void set_copy(struct golden_restore *golden, uint64_t checkpoint_id)
{
    struct ledger_copy *copy = &golden->entry.copies[0];

    golden->entry.copy_count = checkpoint_id != 0;
    *copy = (struct ledger_copy){.checkpoint_id = checkpoint_id, .state = COPY_HERE, .uid = ANN};
    memcpy(copy->manifest_sha256, golden->manifest, sizeof(golden->manifest));
}

/* "RUNNING" of ALLOCATION_STATE_RUNNING. */
static int enum_of(const ProtobufCEnumDescriptor *type, const char *prefix, const char *word)
{
    const ProtobufCEnumValue *value;
    char name[64];

    snprintf(name, sizeof(name), "%s%s", prefix, word);
    value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    if (value == NULL) {
        fprintf(stderr, "what is %s?\n", name);
        abort();
    }
    return value->value;
}

/* True: it is one of the enumerations. */
static bool see_enum(struct golden_restore *golden, const char *what, const char *word)
{
    Ckpt__V1__RestartPoint *point = &golden->point;

    if (strcmp(what, "state") == 0)
        point->allocation_state = (Ckpt__V1__AllocationState)enum_of(
            &ckpt__v1__allocation_state__descriptor, "ALLOCATION_STATE_", word);
    else if (strcmp(what, "begin") == 0)
        golden->part.begin =
            (Ckpt__V1__BeginState)enum_of(&ckpt__v1__begin_state__descriptor, "BEGIN_STATE_", word);
    else if (strcmp(what, "read") == 0)
        golden->part.read =
            (Ckpt__V1__ReadState)enum_of(&ckpt__v1__read_state__descriptor, "READ_STATE_", word);
    else if (strcmp(what, "mode") == 0)
        point->restore = (Ckpt__V1__RestoreMode)enum_of(&ckpt__v1__restore_mode__descriptor,
                                                        "RESTORE_MODE_", word);
    else if (strcmp(what, "without") == 0)
        set_without(golden, enum_of(&ckpt__v1__begin_cause__descriptor, "BEGIN_CAUSE_", word));
    else
        return false;
    return true;
}

static void see(struct golden_restore *golden, const char *what, const char *value)
{
    Ckpt__V1__RestartPoint *point = &golden->point;
    const uint64_t number = strtoull(value, NULL, 10);

    if (see_enum(golden, what, value))
        return;
    if (strcmp(what, "checkpoint") == 0) {
        point->checkpoint_id = golden->part.restart_checkpoint_id = number;
        point->own_shard = number != 0;
    } else if (strcmp(what, "nodes") == 0) {
        point->n_node_ids = point->n_runs = point->n_shards = number;
    } else if (strcmp(what, "run") == 0) {
        golden->runs[0] = number;
    } else if (strcmp(what, "restarts") == 0) {
        point->restarts = number != 0;
    } else if (strcmp(what, "away") == 0) {
        set_target(golden, number);
    } else if (strcmp(what, "orders") == 0) {
        set_orders(golden, number);
    } else if (strcmp(what, "copy") == 0) {
        set_copy(golden, number);
    } else if (strcmp(what, "heard") == 0) {
        golden->facts.heard = number != 0;
    } else if (strcmp(what, "owner") == 0) {
        snprintf(golden->owner, sizeof(golden->owner), "%s", value);
        point->owner = golden->owner;
    } else if (strcmp(what, "prepares") == 0) {
        golden->restore.prepares = number != 0;
        point->checkpoints_path = golden->path;
    } else {
        fprintf(stderr, "what is \"see %s\"?\n", what);
        abort();
    }
}

/* ---- what happens ---- */

static void step(struct golden_restore *golden, const struct restore_event *event)
{
    enum restore_state from = golden->restore.state;
    struct restore_effects effects;
    char text[64];

    restore_step(&golden->restore, event, &golden->facts, &effects);
    if (golden->restore.state != from)
        say(golden->out, "  %s -> %s\n", restore_state_name(from),
            restore_state_name(golden->restore.state));
    if (effects.count > 0)
        say(golden->out, "  does");
    for (size_t i = 0; i < effects.count; i++) {
        restore_effect_text(&effects.effects[i], text, sizeof(text));
        say(golden->out, " %s", text);
        golden->starts = golden->starts || effects.effects[i].kind == RESTORE_DO_READ;
    }
    if (effects.count > 0)
        say(golden->out, "\n");
}

static enum restore_end end_of(const char *word)
{
    static const char *const names[] = {"well", "missing", "corrupt", "refused", "failed"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], word) == 0)
            return (enum restore_end)i;
    abort();
}

static struct restore_event event_of(struct golden_restore *golden, const char *name,
                                     const char *word)
{
    static const char *const events[] = {"timer",   "wake",      "point",  "unanswered",
                                         "started", "unstarted", "named",  "prepared",
                                         "read",    "look",      "looked", "swept"};
    struct restore_event event = {.kind = RESTORE_EVENT_COUNT,
                                  .uid = ANN,
                                  .look = &golden->point,
                                  .why = {CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE, "why"}};

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (strcmp(events[i], name) == 0)
            event.kind = (enum restore_event_kind)i;
    if (event.kind == RESTORE_EVENT_COUNT) {
        fprintf(stderr, "what is \"%s\"?\n", name);
        abort();
    }
    if (event.kind == RESTORE_UNANSWERED)
        event.silence = word[0] == 'l' ? RESTORE_LEADERLESS : RESTORE_UNREGISTERED;
    else if (word[0] != '\0')
        event.end = end_of(word);
    return event;
}

static void play_line(void *context, char *line)
{
    struct golden_restore *golden = context;
    const char *words[WORDS] = {"", "", "", ""};
    struct restore_event event;
    char *rest = line;

    for (size_t i = 0; i < WORDS && rest != NULL; i++)
        words[i] = strsep(&rest, " ");
    if (strcmp(words[0], "see") == 0) {
        see(golden, words[1], words[2]);
        return;
    }
    if (strcmp(words[0], "after") == 0) {
        golden->facts.now_us += 1000 * strtoull(words[1], NULL, 10);
        golden->facts.wall_ms += strtoull(words[1], NULL, 10);
        return;
    }
    event = event_of(golden, words[0], words[1]);
    if (strcmp(words[2], "copy") == 0)
        event.copy = event.end == RESTORE_WELL ? RESTORE_COPY_USED : RESTORE_COPY_FAILED;
    step(golden, &event);
    while (golden->starts) {
        golden->starts = false;
        step(golden, &(struct restore_event){.kind = RESTORE_STARTED});
    }
}

/* ---- the files ---- */

static void begin(struct golden_restore *golden)
{
    struct restore *restore = &golden->restore;

    ckpt__v1__restart_point__init(&golden->point);
    ckpt__v1__allocation_part__init(&golden->part);
    ckpt__v1__begin_without__init(&golden->without);
    ckpt__v1__order_set__init(&golden->orders);
    memset(golden->manifest, 'a', sizeof(golden->manifest) - 1);
    snprintf(golden->path, sizeof(golden->path), "/ckpt");
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(golden->node[i], sizeof(golden->node[i]), "node-%c", (char)('a' + i));
        golden->nodes[i] = golden->node[i];
        golden->runs[i] = FIRST_RUN;
        ckpt__v1__shard_info__init(&golden->shard[i]);
        golden->shard[i].part = i;
        golden->shard[i].node_id = golden->node[i];
        golden->shard[i].manifest_sha256 = golden->manifest;
        golden->shards[i] = &golden->shard[i];
    }
    golden->part.allocation_id = restore->asked.allocation_id;
    golden->part.begin = CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY;
    golden->point.allocation_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    golden->point.path = golden->path;
    golden->point.n_node_ids = golden->point.n_runs = golden->point.n_shards = 1;
    golden->point.node_ids = golden->nodes;
    golden->point.runs = golden->runs;
    golden->point.part = &golden->part;
    golden->point.shards = golden->shards;
    snprintf(restore->asked.allocation_id, sizeof(restore->asked.allocation_id), "job");
    snprintf(restore->asked.work_dir, sizeof(restore->asked.work_dir), "/work");
    restore->asked.uid = ANN;
    restore->owner.first = true;
    restore->owner.uid = ANN;
    golden->facts = (struct restore_facts){.wall_ms = 1000000,
                                           .node_id = "node-a",
                                           .entry = &golden->entry,
                                           .point = &golden->point,
                                           .profile_known = true,
                                           .profile = "signal"};
}

static void play(struct transcript *out, const char *source)
{
    struct golden_restore *golden = calloc(1, sizeof(*golden));

    if (golden == NULL)
        abort();
    golden->out = out;
    begin(golden);
    play_lines(out, source, play_line, golden);
    free(golden);
}

int main(int argc, char **argv)
{
    return transcripts_main("tests/golden/restore", play, argc, argv);
}
