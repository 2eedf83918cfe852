/* A pause of the whole cluster: who wanted it, why, and until when. See fsm/pause.h.
 *
 * Flow     command.c says which commands wait for the end of a pause; handlers that take only a
 *          part of theirs ask fsm_pause_refusal(). Nothing else in the state depends on a pause, so
 *          its end needs no work: the leader's duties find what has waited.
 */
#include "fsm/pause.h"

#include <malloc.h>

#include "fsm/core/state.h"

const struct fsm_pause *fsm_pause(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    if (fsm->pause == NULL)
        return NULL;
    CHECK(fsm->pause->view.since_ms != 0);
    /* the Tick that ends it is still on its way */
    if (fsm->pause->view.until_ms != 0 && fsm->now_ms >= fsm->pause->view.until_ms)
        return NULL;
    return &fsm->pause->view;
}

bool fsm_pause_holds(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    CHECK(allocation->id != NULL);
    return fsm_pause(fsm) != NULL && allocation->reason != CKPT__V1__REASON__REASON_MIGRATED;
}

/* Puts the texts one behind the other, as far as there is room. */
static void join_texts(char *line, size_t size, const char *const *texts, size_t count)
{
    size_t used = 0;

    CHECK(size > 0);
    for (size_t i = 0; i < count; i++) {
        size_t length = fsm_min(strlen(texts[i]), size - 1 - used);

        memcpy(line + used, texts[i], length);
        used += length;
    }
    line[used] = '\0';
}

enum fsm_status fsm_pause_refusal(const struct fsm *fsm, struct fsm_outcome *outcome)
{
    const struct fsm_pause *pause = fsm_pause(fsm);
    char text[FSM_FOUND_BYTES];

    CHECK(outcome != NULL);
    if (pause == NULL)
        return FSM_OK;
    join_texts(text, sizeof(text), (const char *const[]){", by ", pause->by, ": ", pause->reason},
               4);
    fsm_outcome_found(outcome, text);
    outcome->current = fsm_since(fsm, pause->since_ms) / 1000;
    return FSM_CLUSTER_PAUSED;
}

/* Its own timer is out of the heap by then. */
void fsm_pause_free(struct pause *pause)
{
    free(pause);
}

static void pause_drop(struct fsm *fsm)
{
    CHECK(fsm->pause != NULL);
    fsm_timer_set(&fsm->timers, &fsm->pause->timer, 0);
    fsm_pause_free(fsm->pause);
    fsm->pause = NULL;
}

/* by: "": by itself. */
static void pause_end(struct fsm *fsm, const char *by)
{
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_RESUMED,
                                    .subject = by,
                                    .number = fsm_since(fsm, fsm->pause->view.since_ms)};

    CHECK(by != NULL);
    fsm_event_emit(fsm, &event);
    pause_drop(fsm);
}

void fsm_pause_due(struct fsm *fsm)
{
    CHECK(fsm->pause != NULL);
    pause_end(fsm, "");
}

/* Of a snapshot as well, whose texts and instants are checked here. */
bool fsm_pause_restore(struct fsm *fsm, const Ckpt__V1__ClusterPause *message)
{
    struct pause *pause;

    CHECK(message != NULL);
    if (fsm->pause != NULL || message->since_ms == 0 || message->since_ms > FSM_TIME_MAX_MS ||
        message->until_ms > FSM_TIME_MAX_MS || strlen(message->by) >= FSM_PAUSE_BY_BYTES ||
        strlen(message->reason) >= FSM_DETAIL_BYTES ||
        (message->until_ms != 0 && message->until_ms <= message->since_ms))
        return false;
    pause = check_calloc(1, sizeof(*pause));
    pause->view.since_ms = message->since_ms;
    pause->view.until_ms = message->until_ms;
    memcpy(pause->view.by, message->by, strlen(message->by) + 1);
    memcpy(pause->view.reason, message->reason, strlen(message->reason) + 1);
    pause->timer.kind = TIMER_PAUSE;
    fsm->pause = pause;
    fsm_timer_set(&fsm->timers, &pause->timer, pause->view.until_ms);
    return true;
}

static void pause_tell(struct fsm *fsm)
{
    const struct fsm_pause *pause = &fsm->pause->view;
    char text[FSM_PAUSE_BY_BYTES + FSM_DETAIL_BYTES];
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_PAUSED,
                                    .subject = text,
                                    .number =
                                        pause->until_ms == 0 ? 0 : pause->until_ms - fsm->now_ms};

    CHECK(pause->until_ms == 0 || pause->until_ms > fsm->now_ms);
    join_texts(text, sizeof(text), (const char *const[]){pause->by, ": ", pause->reason}, 3);
    fsm_event_emit(fsm, &event);
}

/* People read it on one line. */
static bool text_fits(const char *text, size_t size)
{
    size_t length = strlen(text);

    CHECK(size > 1);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '\177')
            return false;
    return length > 0 && length < size;
}

enum fsm_status fsm_pause_check(const Ckpt__Log__V1__PauseCluster *asked,
                                struct fsm_outcome *outcome)
{
    const struct {
        const char *name, *text;
        size_t size;
    } texts[] = {{"by", asked->by, FSM_PAUSE_BY_BYTES},
                 {"reason", asked->resume ? "none" : asked->reason, FSM_DETAIL_BYTES}};

    CHECK(outcome->status == FSM_OK);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (text_fits(texts[i].text, texts[i].size))
            continue;
        outcome->subject = texts[i].name;
        outcome->current = strlen(texts[i].text);
        outcome->limit = texts[i].size - 1;
        return FSM_INVALID_ARGUMENT;
    }
    if (asked->duration_ms <= FSM_DRAIN_MAX_MS)
        return FSM_OK;
    outcome->subject = "duration_ms";
    outcome->current = asked->duration_ms;
    outcome->limit = FSM_DRAIN_MAX_MS;
    return FSM_INVALID_ARGUMENT;
}

/* A pause of a paused cluster gives it another end and another reason; it has lasted since the
 * first one. The end of none is no error: it may be a retry. outcome: current 1 when it was paused
 * before. */
enum fsm_status fsm_apply_pause_cluster(struct fsm *fsm, const fsm_command *command,
                                        struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__PauseCluster *asked = command->pause_cluster;
    Ckpt__V1__ClusterPause message = CKPT__V1__CLUSTER_PAUSE__INIT;
    const struct fsm_pause *before = fsm_pause(fsm);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_PAUSE_CLUSTER);
    CHECK(outcome != NULL);
    outcome->current = before != NULL;
    message.since_ms = before != NULL ? before->since_ms : fsm_max(fsm->now_ms, 1);
    if (asked->resume) {
        if (fsm->pause != NULL)
            pause_end(fsm, asked->by);
        return FSM_OK;
    }
    if (fsm->pause != NULL && before == NULL) /* it was over, and nobody had said so yet */
        pause_end(fsm, "");
    else if (before != NULL)
        pause_drop(fsm);
    if (asked->duration_ms != 0) /* also of a leader whose clock is at the end of the numbers */
        message.until_ms = fsm_min(fsm_add(fsm->now_ms, asked->duration_ms), FSM_TIME_MAX_MS);
    message.by = asked->by;
    message.reason = asked->reason;
    CHECK(fsm_pause_restore(fsm, &message)); /* validated */
    pause_tell(fsm);
    return FSM_OK;
}
