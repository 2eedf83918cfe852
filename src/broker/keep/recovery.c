/* See recovery.h. */
#include "src/broker/keep/recovery.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fsm/fsm.h"
#include "raft/log/offline.h"
#include "raft/uv_io.h"
#include "src/base/check.h"
#include "src/rpc/uv_clock.h"

enum { HASH_BYTES = 17 };

/* What the operator asked for, and where the operator is talked to. */
struct recovery {
    const struct config *config;
    const struct recovery_options *options;
    FILE *in, *out;
};

/* Entries of one term, up to the next run. */
struct run {
    uint64_t first_index;
    uint64_t term;
};

/* One data folder, read without changing it: its log, its state, and the hash of that state. */
struct survivor {
    const char *path;
    struct fsm *fsm;
    struct offline_facts facts;
    struct fsm_summary summary;
    struct run *runs;
    size_t run_count;
    char hash[HASH_BYTES];
};

void recovery_consensus_config(const struct config *config, struct consensus_member *members,
                               struct disk_ops *disk, struct consensus_config *ret_consensus)
{
    for (size_t i = 0; i < config->member_count; i++) {
        members[i].id = config->members[i].id;
        snprintf(members[i].name, sizeof(members[i].name), "%s", config->members[i].name);
        snprintf(members[i].address, sizeof(members[i].address), "%s", config->members[i].raft);
    }
    disk_uv_ops(NULL, disk); /* the synchronous part needs no loop */
    *ret_consensus = (struct consensus_config){.member_id = config->self->id,
                                               .cluster_id = config->cluster_id,
                                               .data_dir = config->data_dir,
                                               .members = members,
                                               .member_count = config->member_count,
                                               .disk = disk};
}

/* ---- looking ---- */

static int survivor_read(void *context, void *bytes, size_t length)
{
    const struct consensus_reader *reader = context;
    struct err err;

    return reader->read(reader->context, bytes, length, &err);
}

static int survivor_snapshot(void *context, const struct consensus_reader *reader, struct err *err)
{
    struct survivor *survivor = context;
    char text[ERR_TEXT_BYTES / 2] = "";

    if (fsm_snapshot_read(survivor->fsm, survivor_read, (void *)(uintptr_t)reader, text,
                          sizeof(text)) != 0)
        return err_set(err, ERR_CORRUPT, "%s: %s", survivor->path, text);
    return 0;
}

static void survivor_apply(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                           size_t length)
{
    struct survivor *survivor = context;

    fsm_apply_entry(survivor->fsm, &(struct fsm_entry){index, term, bytes, length}, NULL, NULL);
}

/* Where each term begins in the log: enough to find where two logs part. */
static void survivor_record(void *context, uint64_t index, uint64_t term)
{
    struct survivor *survivor = context;

    if (survivor->run_count > 0 && survivor->runs[survivor->run_count - 1].term == term)
        return;
    survivor->runs = check_realloc(survivor->runs, survivor->run_count + 1, sizeof(struct run));
    survivor->runs[survivor->run_count++] = (struct run){index, term};
}

static void survivor_close(struct survivor *survivor)
{
    fsm_free(survivor->fsm);
    free(survivor->runs);
}

static int survivor_look(struct survivor *survivor, const struct consensus_config *consensus,
                         struct err *err)
{
    const struct offline_hooks hooks = {survivor, survivor_snapshot, survivor_apply,
                                        survivor_record};

    survivor->path = consensus->data_dir;
    survivor->fsm = fsm_new();
    if (offline_look(consensus, &hooks, &survivor->facts, err) != 0)
        return -1;
    fsm_get_summary(survivor->fsm, &survivor->summary);
    snprintf(survivor->hash, sizeof(survivor->hash), "%016" PRIx64, survivor->summary.state_hash);
    return 0;
}

/* 0: not in the log any more (the snapshot holds it). */
static uint64_t term_at(const struct survivor *survivor, uint64_t index)
{
    uint64_t term = 0;

    for (size_t i = 0; i < survivor->run_count && survivor->runs[i].first_index <= index; i++)
        term = survivor->runs[i].term;
    return index > survivor->facts.last_index ? 0 : term;
}

/* The last index up to which both say the same. What both have in snapshots was committed, and is
 * the same. */
static uint64_t common_index(const struct survivor *a, const struct survivor *b)
{
    uint64_t index =
        a->facts.last_index < b->facts.last_index ? a->facts.last_index : b->facts.last_index;
    uint64_t certain = a->facts.snapshot_index < b->facts.snapshot_index ? a->facts.snapshot_index
                                                                         : b->facts.snapshot_index;

    while (index > certain && term_at(a, index) != 0 && term_at(b, index) != 0 &&
           term_at(a, index) != term_at(b, index))
        index--;
    return index;
}

static const char *member_name(const struct config *config, uint64_t id)
{
    for (size_t i = 0; i < config->member_count; i++)
        if (config->members[i].id == id)
            return config->members[i].name;
    return "?";
}

/* What a person needs to decide which folder goes on. */
static void print_survivor(const struct config *config, const struct survivor *survivor, FILE *out)
{
    const struct offline_facts *facts = &survivor->facts;
    time_t seconds = (time_t)(survivor->summary.now_ms / 1000);
    struct tm tm;
    char clock[40];

    strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
    fprintf(
        out,
        "folder       %s\n"
        "member       %" PRIu64 " %s\n"
        "incarnation  %016" PRIx64 "%s\n"
        "term         %" PRIu64 ", voted for %" PRIu64 "\n"
        "last entry   index %" PRIu64 ", term %" PRIu64 "; the leader's clock said %s\n"
        "committed    up to %" PRIu64 " for certain (snapshot); later entries may or may not be\n"
        "state        epoch %" PRIu64 ", %" PRIu32 " allocations, %" PRIu32 " checkpoints\n"
        "members      ",
        survivor->path, facts->member_id, member_name(config, facts->member_id), facts->incarnation,
        facts->recovering ? ", a recovery of it was cut short" : "", facts->term, facts->voted_for,
        facts->last_index, facts->last_term, clock, facts->snapshot_index, survivor->summary.epoch,
        survivor->summary.allocation_count, survivor->summary.checkpoint_count);
    for (size_t i = 0; i < facts->member_count; i++)
        fprintf(out, "%s%" PRIu64 " %s%s", i == 0 ? "" : ", ", facts->member_ids[i],
                member_name(config, facts->member_ids[i]), facts->voters[i] ? "" : " (learner)");
    fprintf(out, "\nhash         %s\n\n", survivor->hash);
}

/* ---- comparing ---- */

static bool is_ahead(const struct survivor *other, const struct survivor *own)
{
    if (other->facts.last_term != own->facts.last_term)
        return other->facts.last_term > own->facts.last_term;
    return other->facts.last_index > own->facts.last_index;
}

/* I10: the same log makes the same state, so that one of them has been changed by something else,
 * and its log says nothing of that. */
static bool is_different(const struct survivor *other, const struct survivor *own)
{
    return other->facts.last_term == own->facts.last_term &&
           other->facts.last_index == own->facts.last_index && strcmp(other->hash, own->hash) != 0;
}

static int refuse_different(const struct survivor *own, const struct survivor *other,
                            bool accept_loss, FILE *out, struct err *err)
{
    fprintf(out, "DIFFERENT: %s and %s end with the same entry, but hash %s is not %s.\n",
            own->path, other->path, own->hash, other->hash);
    if (accept_loss)
        return 0;
    return err_set(err, ERR_REFUSED,
                   "%s (hash %s) and %s (hash %s) end with the same entry and hold different "
                   "states: one of them is wrong. Look at a third folder with --compare: the hash "
                   "that two have is the right one; recover one of those and leave the odd one "
                   "out, or restore a backup, or give --accept-loss",
                   own->path, own->hash, other->path, other->hash);
}

static int survivor_compare(const struct survivor *own, const struct survivor *other,
                            bool accept_loss, FILE *out, struct err *err)
{
    uint64_t common, last = other->facts.last_index;

    if (other->facts.incarnation != own->facts.incarnation)
        return err_set(err, ERR_REFUSED,
                       "%s is of incarnation %016" PRIx64 ", %s of %016" PRIx64
                       ": they do not belong to the same history; leave one out",
                       other->path, other->facts.incarnation, own->path, own->facts.incarnation);
    if (is_different(other, own))
        return refuse_different(own, other, accept_loss, out, err);
    common = common_index(own, other);
    if (common >= last)
        fprintf(out, "%s holds everything that %s holds.\n", own->path, other->path);
    else
        fprintf(out, "LOST if %s goes on: entries %" PRIu64 " to %" PRIu64 " of %s.\n", own->path,
                common + 1, last, other->path);
    if (is_ahead(other, own) && !accept_loss)
        return err_set(err, ERR_REFUSED,
                       "%s is ahead (term %" PRIu64 ", index %" PRIu64 ") of %s (term %" PRIu64
                       ", index %" PRIu64
                       "): recover the member it belongs to, or give --accept-loss",
                       other->path, other->facts.last_term, last, own->path, own->facts.last_term,
                       own->facts.last_index);
    return 0;
}

/* Said before the operator confirms, in words and not only in the manual. */
static void print_consequences(const struct config *config, const struct survivor *own,
                               uint64_t epoch, size_t other_count, FILE *out)
{
    fprintf(out,
            "After this %s is a cluster of its own with one voter, epoch %" PRIu64 ".\n"
            "Entries after %" PRIu64
            " that only other members held are lost, also when they were acknowledged; how\n"
            "many there were cannot be known from here%s.\n"
            "No former member can join it again with its folder: add new ones under new ids.\n",
            config->self->name, epoch, own->facts.last_index,
            other_count == 0 ? ", and no other folder was compared (--compare DIR)" : "");
}

/* ---- recovering ---- */

/* The hash of the state must be typed, or given as an option: nobody confirms the wrong folder by
 * habit. */
static int operator_confirms(const struct survivor *own, const struct recovery *recovery,
                             struct err *err)
{
    char typed[64] = "";
    const char *answer = recovery->options->confirm;

    if (answer == NULL) {
        fprintf(recovery->out, "\nType the hash of %s to go on: ", own->path);
        fflush(recovery->out);
        if (fgets(typed, sizeof(typed), recovery->in) == NULL)
            typed[0] = '\0';
        typed[strcspn(typed, "\n")] = '\0';
        answer = typed;
    }
    if (strcmp(answer, own->hash) != 0)
        return err_set(err, ERR_REFUSED,
                       "the hash \"%.40s\" is not %s's, which is %s: nothing was changed", answer,
                       own->path, own->hash);
    return 0;
}

/* Above any epoch that this folder has seen, and another one for each member of the last
 * configuration. */
static uint64_t epoch_of(const struct survivor *own)
{
    uint64_t place = 0;

    while (place < own->facts.member_count && own->facts.member_ids[place] != own->facts.member_id)
        place++;
    return (own->summary.epoch > own->facts.epoch_min ? own->summary.epoch : own->facts.epoch_min) +
           1 + place;
}

/* Drawn, not derived: no other folder can come to the same one. */
static uint64_t incarnation_draw(void)
{
    struct random_ops random;
    uint64_t incarnation;

    uv_random_ops(&random);
    random.fill(random.context, &incarnation, sizeof(incarnation));
    return incarnation | 1;
}

/* Compares the own folder with the others, asks the operator, and makes the folder a cluster of
 * its own. Nothing is written before the operator has confirmed. */
static int survivor_recover(const struct survivor *own, const struct survivor *others,
                            const struct recovery *recovery,
                            const struct consensus_config *consensus, struct err *err)
{
    const struct recovery_options *options = recovery->options;
    struct offline_origin origin = {.incarnation = incarnation_draw(), .epoch_min = epoch_of(own)};

    if (!own->summary.initialised)
        return err_set(err, ERR_REFUSED,
                       "%s holds no state yet: bootstrap the cluster again in empty folders",
                       own->path);
    for (size_t i = 0; i < options->other_count; i++)
        if (survivor_compare(own, &others[i], options->accept_loss, recovery->out, err) != 0)
            return -1;
    print_consequences(recovery->config, own, origin.epoch_min, options->other_count,
                       recovery->out);
    if (operator_confirms(own, recovery, err) != 0 ||
        offline_recover(consensus, &own->facts, &origin, err) != 0)
        return -1;
    fprintf(recovery->out,
            "recovered: %s, incarnation %016" PRIx64
            ". Start it without --recover; then add members under new ids.\n",
            own->path, origin.incarnation);
    return 0;
}

int recovery_run(const struct config *config, const struct recovery_options *options, FILE *in,
                 FILE *out, struct err *err)
{
    const struct recovery recovery = {config, options, in, out};
    struct survivor survivors[1 + RECOVERY_FOLDERS_MAX] = {0};
    struct consensus_member members[CONFIG_MEMBERS_MAX];
    struct consensus_config consensus;
    struct disk_ops disk;
    size_t looked = 0;
    int status = 0;

    CHECK(options->other_count <= RECOVERY_FOLDERS_MAX);
    recovery_consensus_config(config, members, &disk, &consensus);
    while (status == 0 && looked < 1 + options->other_count) {
        struct consensus_config one = consensus;
        if (looked > 0) {
            one.data_dir = options->others[looked - 1];
            one.member_id = 0;
        }
        status = survivor_look(&survivors[looked], &one, err);
        if (status == 0)
            print_survivor(config, &survivors[looked], out);
        looked++;
    }
    if (status == 0 && options->recover)
        status = survivor_recover(&survivors[0], survivors + 1, &recovery, &consensus, err);
    for (size_t i = 0; i < looked; i++)
        survivor_close(&survivors[i]);
    return status;
}
