/* The streams of a job's ranks. See ranks_stream.h. */
#include "src/agent/job/ranks_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "src/base/list.h"
#include "src/base/text.h"

enum { WHY_BYTES = 160, FOLDER_BYTES = HINT_TEXT_BYTES + 24 };

struct rank_place {
    struct rank_hello hello;
    uint64_t start_ticks;
    struct rank_stream *stream; /* NULL: it has none just now */
    char hint[HINT_TEXT_BYTES]; /* of which this is: "": nothing was said */
    bool at;
    uint64_t step, ns_per_step;
    bool missed;            /* `step` is beyond the agreed one */
    struct pace_rank *pace; /* NULL: it has said no step yet */
};

/* One that an earlier agent heard, until it comes here. */
struct rank_recalled {
    struct rank_pace rank;
    struct pace_rank *pace;
};

struct rank_places {
    size_t count;
    struct rank_place items[LEDGER_RANKS_MAX];
    size_t recalled_count;
    struct rank_recalled recalled[LEDGER_RANKS_MAX];
    struct list arrivals;
    struct pace pace;
    char why[WHY_BYTES]; /* of the last refusal */
};

/* One whose process is being looked at. */
struct rank_arrival {
    struct list node;
    struct allocation *allocation;
    struct rank_hello hello;
    uint64_t run;
    struct rank_stream *stream;
    struct job_process_look *look;
};

static struct rank_place *place_of(const struct allocation *allocation, uint32_t number)
{
    struct rank_places *places = allocation->executor.places;

    CHECK(places == NULL || places->count <= LEDGER_RANKS_MAX);
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        if (places->items[i].hello.number == number)
            return &places->items[i];
    }
    return NULL;
}

static bool is_alive(const struct allocation *allocation, const struct rank_place *place)
{
    return machine_alive(allocation_machine(allocation), place->hello.pid, place->start_ticks);
}

static void drop_dead(struct allocation *allocation)
{
    struct rank_places *places = allocation->executor.places;
    size_t kept = 0;

    for (size_t i = 0; places != NULL && i < places->count; i++) {
        if (places->items[i].stream != NULL || is_alive(allocation, &places->items[i]))
            places->items[kept++] = places->items[i];
        else
            free(places->items[i].pace);
    }
    if (places != NULL)
        places->count = kept;
    for (size_t i = 0; places != NULL && i < places->recalled_count;) {
        const struct rank_pace *rank = &places->recalled[i].rank;

        if (machine_alive(allocation_machine(allocation), rank->pid, rank->start_ticks)) {
            i++;
            continue;
        }
        free(places->recalled[i].pace);
        places->recalled[i] = places->recalled[--places->recalled_count];
    }
}

/* It is asked, and has not answered: an agent or a rank that came back hears it again. */
static bool question_stands(const struct allocation *allocation)
{
    return allocation->attempt.state == ATTEMPT_ASKED;
}

static const struct ledger_rank *asked_as(const struct allocation *allocation,
                                          const struct rank_place *place)
{
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];
        if (rank->number == place->hello.number)
            return rank->pid == (uint32_t)place->hello.pid ? rank : NULL;
    }
    return NULL;
}

static void ask_place(struct allocation *allocation, struct rank_place *place,
                      const struct ask_request *request)
{
    char folder[FOLDER_BYTES];

    CHECK(request->hint[0] != '\0');
    CHECK(place->stream != NULL);
    snprintf(folder, sizeof(folder), "out/%s/rank-%05" PRIu32, request->hint, place->hello.number);
    allocation->agent->rank_streams->ask(place->stream, request, folder);
}

static void tell_agreed(struct allocation *allocation, const struct rank_place *place)
{
    const struct attempt *attempt = &allocation->attempt;

    if (attempt->agreed_step != 0 && place->hello.way == RANK_BARRIER && place->stream != NULL)
        allocation->agent->rank_streams->step(place->stream, attempt->hint, attempt->agreed_step);
}

/* Again, for one that has come while the question stands. */
static void ask_again(struct allocation *allocation, struct rank_place *place)
{
    const struct ledger_rank *rank = asked_as(allocation, place);
    struct ask_request request;

    if (!question_stands(allocation) || rank == NULL || rank->state == RANK_DONE ||
        place->hello.way == RANK_OPENED)
        return;
    allocation->executor.hearing->question(allocation, &request);
    ask_place(allocation, place, &request);
    tell_agreed(allocation, place);
}

/* ---- what they say ---- */

static void arrival_free(struct rank_arrival *arrival)
{
    CHECK(arrival->stream != NULL);
    allocation_machine(arrival->allocation)->process_detach(arrival->look);
    list_remove(&arrival->node);
    free(arrival);
}

/* NULL: the number is free, or its own. */
static const char *number_taken(struct allocation *allocation, const struct rank_hello *hello)
{
    struct rank_places *places = allocation->executor.places;
    const struct rank_place *place;

    CHECK(places != NULL);
    drop_dead(allocation);
    place = place_of(allocation, hello->number);
    if (place == NULL)
        return places->count < LEDGER_RANKS_MAX
                   ? NULL
                   : "this node has as many ranks of the job as it can";
    if (place->hello.pid == hello->pid || !is_alive(allocation, place))
        return NULL;
    snprintf(places->why, WHY_BYTES,
             "process %d is rank %" PRIu32 " already; give each its own number "
             "(ckpt_open() takes it), or start them by a launcher",
             (int)place->hello.pid, hello->number);
    return places->why;
}

/* NULL: it is. */
static const char *why_no_process(const struct rank_arrival *arrival, enum process_verdict verdict)
{
    struct allocation *allocation = arrival->allocation;
    char *why = allocation->executor.places->why;
    const int pid = (int)arrival->hello.pid;

    CHECK(verdict <= VERDICT_UNREAD);
    if (verdict == VERDICT_STRANGER)
        snprintf(
            why, WHY_BYTES,
            "process %d is none of job %.40s; only what its ckpt-run has started can be a rank "
            "of it",
            pid, allocation->entry.allocation_id);
    else if (verdict == VERDICT_UNREAD)
        snprintf(why, WHY_BYTES, "process %d cannot be read just now; say hello again", pid);
    else if (verdict == VERDICT_ENDED)
        snprintf(why, WHY_BYTES, "process %d has ended", pid);
    else if (arrival->run != allocation->entry.run || allocation->process.state == PROCESS_ABSENT)
        snprintf(why, WHY_BYTES, "the run that process %d is of has ended", pid);
    else
        return number_taken(allocation, &arrival->hello);
    return why;
}

static struct rank_places *places_open(struct allocation *allocation)
{
    struct executor *executor = &allocation->executor;

    if (executor->places != NULL)
        return executor->places;
    executor->places = check_calloc(1, sizeof(*executor->places));
    list_init(&executor->places->arrivals);
    return executor->places;
}

void ranks_recall(struct allocation *allocation, const struct rank_pace *rank,
                  struct pace_rank *take_pace)
{
    struct rank_places *places = places_open(allocation);

    CHECK(places->recalled_count < LEDGER_RANKS_MAX);
    CHECK(take_pace->told);
    places->recalled[places->recalled_count++] = (struct rank_recalled){*rank, take_pace};
    places->pace.told = true;
    places->pace.step_us = places->pace.turn_us = agent_now_us(allocation->agent);
}

/* It has come, or another process has its number: nothing is recalled of that. */
static struct pace_rank *recalled_take(struct rank_places *places, const struct rank_hello *hello,
                                       uint64_t start_ticks)
{
    for (size_t i = 0; i < places->recalled_count; i++) {
        struct rank_recalled found = places->recalled[i];

        if (found.rank.number != hello->number)
            continue;
        places->recalled[i] = places->recalled[--places->recalled_count];
        if (found.rank.pid == hello->pid && found.rank.start_ticks == start_ticks)
            return found.pace;
        free(found.pace);
    }
    return NULL;
}

static void arrival_taken(const struct rank_arrival *arrival, uint64_t start_ticks)
{
    struct allocation *allocation = arrival->allocation;
    struct rank_places *places = allocation->executor.places;
    struct rank_place *place = place_of(allocation, arrival->hello.number);
    struct pace_rank *pace = place == NULL ? NULL : place->pace;

    CHECK(place != NULL || places->count < LEDGER_RANKS_MAX);
    if (place == NULL) {
        pace = recalled_take(places, &arrival->hello, start_ticks);
        place = &places->items[places->count++];
    } else if (place->hello.pid != arrival->hello.pid || place->start_ticks != start_ticks) {
        free(pace); /* of another process */
        pace = NULL;
    }
    *place = (struct rank_place){.hello = arrival->hello,
                                 .start_ticks = start_ticks,
                                 .stream = arrival->stream,
                                 .pace = pace};
    CHECK(place_of(allocation, arrival->hello.number) == place);
    if (!allocation->agent->rank_streams->take(arrival->stream))
        return;
    place = place_of(allocation, arrival->hello.number); /* others may have gone meanwhile */
    CHECK(place != NULL);
    ask_again(allocation, place);
}

static void arrival_looked(void *data, enum process_verdict verdict, uint64_t start_ticks)
{
    struct rank_arrival *arrival = data, arrived = *arrival;
    const char *why = why_no_process(arrival, verdict);

    CHECK(arrival->look != NULL);
    arrival->look = NULL;
    arrival_free(arrival);
    if (why != NULL)
        arrived.allocation->agent->rank_streams->refuse(arrived.stream, why);
    else
        arrival_taken(&arrived, start_ticks);
}

const char *ranks_registered(struct allocation *allocation, const struct rank_hello *hello,
                             struct rank_stream *stream)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct rank_places *places = places_open(allocation);
    const char *taken = number_taken(allocation, hello);
    struct rank_arrival *arrival;
    struct job_identity job;

    CHECK(stream != NULL);
    if (taken != NULL)
        return taken;
    arrival = check_calloc(1, sizeof(*arrival));
    *arrival = (struct rank_arrival){
        .allocation = allocation, .hello = *hello, .run = allocation->entry.run, .stream = stream};
    list_push_back(&places->arrivals, &arrival->node);
    allocation_identity(&allocation->entry, &job);
    arrival->look =
        machine->job_process_look(machine->context, &job, hello->pid, arrival_looked, arrival);
    return NULL;
}

/* Of the question that is open; NULL: it is about another one, which is over. */
static struct rank_place *said_by(struct allocation *allocation, uint32_t number, const char *hint)
{
    struct rank_place *place = place_of(allocation, number);

    if (place == NULL || !question_stands(allocation) ||
        strcmp(hint, allocation->attempt.hint) != 0 || asked_as(allocation, place) == NULL)
        return NULL;
    if (strcmp(place->hint, hint) != 0) {
        place->at = false;
        place->missed = false;
    }
    text_copy(place->hint, sizeof(place->hint), hint);
    return place;
}

static void rank_stepped(struct allocation *allocation, uint32_t rank, uint64_t step,
                         uint64_t ns_per_step)
{
    struct rank_place *place = place_of(allocation, rank);

    CHECK(allocation->agent != NULL);
    if (place == NULL)
        return;
    if (place->pace == NULL)
        place->pace = check_calloc(1, sizeof(*place->pace));
    pace_stepped(&allocation->executor.places->pace, place->pace, step, ns_per_step,
                 agent_now_us(allocation->agent), allocation_under_way(allocation));
}

void ranks_at(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t step,
              uint64_t ns_per_step)
{
    struct rank_place *place = said_by(allocation, rank, hint);

    rank_stepped(allocation, rank, step, ns_per_step);
    if (place == NULL)
        return;
    place->step = step;
    place->ns_per_step = ns_per_step;
    if (place->at)
        return; /* who wants to know looks: the next order, or the last rank that comes */
    place->at = true;
    allocation->executor.hearing->said(allocation, ATTEMPT_BARRIER, 0);
}

void ranks_missed(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t step)
{
    struct rank_place *place = said_by(allocation, rank, hint);

    if (place == NULL)
        return;
    place->missed = true;
    place->step = step;
    allocation->executor.hearing->said(allocation, ATTEMPT_BARRIER, 0);
}

void ranks_done(struct allocation *allocation, uint32_t rank, const char *hint)
{
    if (said_by(allocation, rank, hint) != NULL)
        allocation->executor.hearing->said(allocation, ATTEMPT_CHANGED, 0);
}

void ranks_defer(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t defer_ms)
{
    if (said_by(allocation, rank, hint) != NULL)
        allocation->executor.hearing->said(allocation, ATTEMPT_DEFER, defer_ms);
}

void ranks_alive(struct allocation *allocation, uint32_t rank, const char *hint)
{
    if (said_by(allocation, rank, hint) != NULL)
        allocation->executor.hearing->said(allocation, ATTEMPT_ALIVE, 0);
}

static struct rank_arrival *arrival_of(const struct rank_places *places,
                                       const struct rank_stream *stream)
{
    CHECK(stream != NULL);
    for (struct list *at = places->arrivals.next; at != &places->arrivals; at = at->next) {
        struct rank_arrival *arrival = LIST_ITEM(at, struct rank_arrival, node);
        if (arrival->stream == stream)
            return arrival;
    }
    return NULL;
}

void ranks_gone(struct allocation *allocation, struct rank_stream *stream)
{
    struct rank_places *places = allocation->executor.places;
    struct rank_arrival *arrival = places == NULL ? NULL : arrival_of(places, stream);

    CHECK(stream != NULL);
    if (arrival != NULL)
        arrival_free(arrival);
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        if (places->items[i].stream == stream)
            places->items[i].stream = NULL;
    }
}

/* ---- who they are ---- */

static int compare_seen(const void *a, const void *b)
{
    const struct rank_seen *left = a, *right = b;

    if (left->launcher != right->launcher)
        return left->launcher ? 1 : -1;
    return (left->number > right->number) - (left->number < right->number);
}

static uint32_t count_told(uint32_t hello, uint32_t seen)
{
    return hello == UINT32_MAX ? seen : hello;
}

/* A rank may have been taken for another one, or for a launcher. ret_dropped: what its launcher
 * counts, which a program that was given its number by its user does not know. */
static void drop_seen(struct ranks_seen *seen, const struct rank_place *place,
                      struct rank_seen *ret_dropped)
{
    size_t kept = 0;

    CHECK(seen->count <= ARRAY_COUNT(seen->items));
    *ret_dropped = (struct rank_seen){.local_count = 0};
    for (size_t i = 0; i < seen->count; i++) {
        const struct rank_seen *one = &seen->items[i];
        if (one->pid != place->hello.pid && (one->launcher || one->number != place->hello.number))
            seen->items[kept++] = *one;
        else if (!one->launcher)
            *ret_dropped = *one;
    }
    seen->count = kept;
}

void ranks_lay_over(struct allocation *allocation, struct ranks_seen *seen)
{
    struct rank_places *places = allocation->executor.places;

    drop_dead(allocation);
    if (allocation->entry.asks_started)
        return; /* none of these is asked */
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        const struct rank_place *place = &places->items[i];
        struct rank_seen *one, dropped;

        if (place->hello.way == RANK_OPENED)
            continue; /* it is as its launcher tells, until it says how it is to be asked */
        drop_seen(seen, place, &dropped);
        if (seen->count == ARRAY_COUNT(seen->items)) {
            snprintf(seen->why, sizeof(seen->why),
                     "the job has more ranks and launchers on this node than %zu",
                     ARRAY_COUNT(seen->items));
            break;
        }
        one = &seen->items[seen->count++];
        *one = (struct rank_seen){.number = place->hello.number,
                                  .local = RANK_NONE,
                                  .local_count =
                                      count_told(place->hello.local_ranks, dropped.local_count),
                                  .all_count = count_told(place->hello.ranks, dropped.all_count),
                                  .pid = place->hello.pid,
                                  .start_ticks = place->start_ticks,
                                  .registered = true,
                                  .barrier = place->hello.way == RANK_BARRIER};
        snprintf(one->name, sizeof(one->name), "registered");
    }
    qsort(seen->items, seen->count, sizeof(seen->items[0]), compare_seen);
}

bool ranks_opening(struct allocation *allocation, char ret_why[JOB_DETAIL_BYTES])
{
    const struct rank_places *places = allocation->executor.places;

    CHECK(ret_why != NULL);
    drop_dead(allocation);
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        const struct rank_place *place = &places->items[i];

        if (place->hello.way != RANK_OPENED || place->stream == NULL)
            continue;
        snprintf(ret_why, JOB_DETAIL_BYTES,
                 "rank %" PRIu32 ", pid %d, has opened ckptapp and not come to its first "
                 "ckpt_barrier() or ckpt_poll(): let it come there, or raise checkpoint_timeout",
                 place->hello.number, (int)place->hello.pid);
        return true;
    }
    return false;
}

/* ---- what they are told ---- */

static struct rank_place *place_of_rank(const struct allocation *allocation,
                                        const struct ledger_rank *rank)
{
    struct rank_place *place = place_of(allocation, rank->number);

    return place != NULL && (uint32_t)place->hello.pid == rank->pid && place->stream != NULL &&
                   place->hello.way != RANK_OPENED
               ? place
               : NULL;
}

bool ranks_stream_tells(void *allocation, const struct ledger_rank *rank)
{
    return place_of_rank(allocation, rank) != NULL;
}

void ranks_stream_tell(void *data, const struct ledger_rank *rank,
                       const struct ask_request *request)
{
    struct allocation *allocation = data;
    struct rank_place *place = place_of_rank(allocation, rank);

    CHECK(allocation->attempt.state == ATTEMPT_ASKING);
    CHECK(place != NULL);
    place->hint[0] = '\0';
    place->at = place->missed = false;
    ask_place(allocation, place, request);
    tell_agreed(allocation, place); /* it was put off then: the step is behind it, as it says */
}

void ranks_tell_step(struct allocation *allocation)
{
    struct rank_places *places = allocation->executor.places;

    for (size_t i = 0; places != NULL && i < places->count; i++) {
        if (asked_as(allocation, &places->items[i]) != NULL)
            tell_agreed(allocation, &places->items[i]);
    }
}

void ranks_withdraw(struct allocation *allocation)
{
    struct rank_places *places = allocation->executor.places;

    for (size_t i = 0; places != NULL && i < places->count; i++) {
        struct rank_place *place = &places->items[i];
        if (place->stream != NULL && asked_as(allocation, place) != NULL)
            allocation->agent->rank_streams->withdrawn(place->stream, allocation->attempt.hint);
        place->hint[0] = '\0';
        place->at = place->missed = false;
    }
}

void ranks_hang_up(struct allocation *allocation)
{
    struct rank_places *places = allocation->executor.places;

    CHECK(!allocation->executor.stepping);
    CHECK(allocation->executor.call == NULL);
    while (places != NULL && !list_empty(&places->arrivals)) {
        struct rank_arrival *arrival = LIST_ITEM(places->arrivals.next, struct rank_arrival, node);
        allocation->agent->rank_streams->close(arrival->stream);
        arrival_free(arrival);
    }
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        if (places->items[i].stream != NULL)
            allocation->agent->rank_streams->close(places->items[i].stream);
        free(places->items[i].pace);
    }
    for (size_t i = 0; places != NULL && i < places->recalled_count; i++)
        free(places->recalled[i].pace);
    free(places);
    allocation->executor.places = NULL;
}

/* ---- what is told of them ---- */

static const char *rank_state_text(enum rank_state state)
{
    switch (state) {
    case RANK_SEEN:
    case RANK_TOLD:
        break;
    case RANK_AWARE:
        return "has said its step";
    case RANK_DUE:
        return "saves";
    case RANK_DONE:
        return "is done";
    case RANK_GONE:
        return "has ended";
    case RANK_REFUSED:
        return "refused";
    case RANK_MISSED:
        return "missed the step";
    }
    return "is asked";
}

/* A label is a step where it is a number. */
static uint64_t label_step(const char *label)
{
    char *end;
    unsigned long long step = strtoull(label, &end, 10);

    CHECK(end >= label && strlen(label) <= LABEL_MAX_BYTES);
    return *label >= '0' && *label <= '9' && *end == '\0' ? step : 0;
}

static struct rank_word asked_word(const struct allocation *allocation,
                                   const struct ledger_rank *rank)
{
    const struct rank_place *place = place_of(allocation, rank->number);
    struct rank_word word = {.number = rank->number,
                             .pid = rank->pid,
                             .state = attempt_busy(&allocation->attempt)
                                          ? rank_state_text((enum rank_state)rank->state)
                                          : "runs",
                             .step = label_step(rank->label)};

    CHECK((rank->pid == 0) == (rank->by == RANK_BY_GROUP));
    if (place != NULL && place->at && place->step > word.step)
        word.step = place->step;
    return word;
}

static int compare_words(const void *a, const void *b)
{
    const struct rank_word *left = a, *right = b;

    return (left->number > right->number) - (left->number < right->number);
}

size_t ranks_told(const struct allocation *allocation, struct rank_word ret_words[LEDGER_RANKS_MAX])
{
    const struct rank_places *places = allocation->executor.places;
    const struct ledger_entry *entry = &allocation->entry;
    size_t count = 0;

    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];

        if (attempt_busy(&allocation->attempt) || rank->by == RANK_BY_GROUP ||
            machine_alive(allocation_machine(allocation), (pid_t)rank->pid, rank->start_ticks))
            ret_words[count++] = asked_word(allocation, rank);
    }
    for (size_t i = 0; places != NULL && i < places->count && count < LEDGER_RANKS_MAX; i++) {
        const struct rank_place *place = &places->items[i];
        bool listed = false;

        for (size_t k = 0; k < count && !listed; k++)
            listed = ret_words[k].number == place->hello.number;
        if (!listed && is_alive(allocation, place))
            ret_words[count++] = (struct rank_word){.number = place->hello.number,
                                                    .pid = (uint32_t)place->hello.pid,
                                                    .state = "runs",
                                                    .step = place->at ? place->step : 0};
    }
    CHECK(count <= LEDGER_RANKS_MAX);
    qsort(ret_words, count, sizeof(ret_words[0]), compare_words);
    return count;
}

size_t ranks_paces(struct allocation *allocation, struct rank_pace ret_paces[LEDGER_RANKS_MAX])
{
    struct rank_places *places = allocation->executor.places;
    size_t count = 0;

    drop_dead(allocation);
    for (size_t i = 0; places != NULL && i < places->count; i++) {
        const struct rank_place *place = &places->items[i];
        if (place->pace != NULL && is_alive(allocation, place))
            ret_paces[count++] = (struct rank_pace){place->hello.number, place->hello.pid,
                                                    place->start_ticks, place->pace};
    }
    for (size_t i = 0; places != NULL && i < places->recalled_count && count < LEDGER_RANKS_MAX;
         i++) {
        ret_paces[count] = places->recalled[i].rank;
        ret_paces[count++].pace = places->recalled[i].pace;
    }
    CHECK(count <= LEDGER_RANKS_MAX);
    return count;
}

struct pace *ranks_pace(const struct allocation *allocation)
{
    struct rank_places *places = allocation->executor.places;

    return places == NULL ? NULL : &places->pace;
}

/* ---- the barrier ---- */

static void add_awaited(const struct ledger_rank *rank, struct barrier_facts *facts)
{
    size_t length = strlen(facts->awaited);

    CHECK(length < sizeof(facts->awaited));
    if (length + 16 < sizeof(facts->awaited))
        snprintf(facts->awaited + length, sizeof(facts->awaited) - length, "%s%" PRIu32,
                 length == 0 ? "" : ", ", rank->number);
    else if (facts->awaited[length - 1] != '.')
        snprintf(facts->awaited + length, sizeof(facts->awaited) - length, ", ..");
}

/* After which it can be sure to have heard: the answer of the cluster takes less than that. */
static uint64_t lead_ns(const struct attempt *attempt)
{
    uint32_t doubled = attempt->attempt > 0 ? attempt->attempt - 1 : 0;

    return UINT64_C(200000000) << (doubled < 4 ? doubled : 4);
}

static uint64_t step_to_meet(const struct rank_place *place, const struct attempt *attempt)
{
    uint64_t ahead = place->ns_per_step == 0
                         ? 0
                         : (lead_ns(attempt) + place->ns_per_step - 1) / place->ns_per_step;

    CHECK(place->at);
    return place->step > UINT64_MAX - ahead - 1 ? UINT64_MAX : place->step + ahead + 1;
}

void ranks_see_barrier(const struct allocation *allocation, struct barrier_facts *ret_facts)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct attempt *attempt = &allocation->attempt;

    CHECK(attempt->state == ATTEMPT_ASKING || attempt->state == ATTEMPT_ASKED ||
          attempt->state == ATTEMPT_RESUMING);
    *ret_facts = (struct barrier_facts){.takes_part = false};
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];
        const struct rank_place *place = place_of(allocation, rank->number);
        bool known = place != NULL && asked_as(allocation, place) == rank;
        bool spoke = known && strcmp(place->hint, attempt->hint) == 0;

        if (!rank->barrier && (!known || place->hello.way != RANK_BARRIER))
            continue;
        ret_facts->takes_part = true;
        if (!spoke || !place->at)
            add_awaited(rank, ret_facts);
        else if (step_to_meet(place, attempt) > ret_facts->step)
            ret_facts->step = step_to_meet(place, attempt);
        if (spoke && place->missed && !ret_facts->missed) {
            ret_facts->missed = true;
            ret_facts->rank = rank->number;
            ret_facts->missed_step = place->step;
        }
    }
    ret_facts->aware = ret_facts->takes_part && ret_facts->awaited[0] == '\0';
}
