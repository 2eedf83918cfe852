/* Asking in shared memory: a region that ckpt-run has made for the application, a slot in it for
 * each rank, and in each slot a word that requests and a word that says done
 * (src/app/ckptshm.h). No signal is sent.
 *
 * Flow     preflight wants a slot of each rank; fire writes hint and folder into the region, and
 *          then raises each request word, which wakes who waits on it. While the question is open a
 *          timer looks at the region's count of answers; poll compares the words of the one rank.
 *          clear takes the request back.
 * Shapes   the region is the truth, also for an agent that restarts: it has the hint. A rank that
 *          has the library's stream instead of a slot is told on that, and answers in the folder.
 * Errors   whoever maps the region may write anything: no text of it is trusted to end, no number
 *          to be right. A wrong one fails the attempt as a wrong `done` file does.
 * Source   S1-034..S1-037.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/ckptshm.h"
#include "src/ask/folder.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

/* As often as a sixteenth of the time that has passed: a short save costs no wait, a long one no
 * work. */
enum { LOOK_FIRST_MS = 1, LOOK_MOST_MS = 100, LOOK_SHARE = 16 };

_Static_assert((int)CKPT_SHM_HINT_BYTES >= (int)HINT_TEXT_BYTES, "every hint fits");
_Static_assert((int)CKPT_SHM_LABEL_BYTES > (int)LABEL_MAX_BYTES + 1, "every label fits");
_Static_assert((int)CKPT_SHM_STATUS_BYTES > (int)SENTINEL_STATUS_MAX_BYTES + 1, "every status");
_Static_assert(sizeof(struct ckpt_shm_slot) == 512, "version 1 of the layout");
_Static_assert(offsetof(struct ckpt_shm, slot) == 8192, "version 1 of the layout");

static size_t offset_of(size_t slot, size_t field)
{
    CHECK(slot < CKPT_SHM_SLOTS);
    CHECK(field < sizeof(struct ckpt_shm_slot));
    return offsetof(struct ckpt_shm, slot) + slot * sizeof(struct ckpt_shm_slot) + field;
}

static int read_slot(const struct ask_target *target, size_t at, struct ckpt_shm_slot *ret_slot,
                     struct err *err)
{
    return target->node->region_read(target->context, offset_of(at, 0), ret_slot, sizeof(*ret_slot),
                                     err);
}

/* The slot of that rank, as ckpt_shm_open() takes it. CKPT_SHM_SLOTS: it has none, or, with a text
 * in err, the region cannot be read. */
static size_t find_slot(const struct ask_target *target, uint32_t number,
                        struct ckpt_shm_slot *ret_slot, struct err *err)
{
    for (size_t i = 0; i < CKPT_SHM_SLOTS; i++) {
        size_t at = (number + i) % CKPT_SHM_SLOTS;
        if (read_slot(target, at, ret_slot, err) != 0 || ret_slot->owner == 0)
            return CKPT_SHM_SLOTS;
        if (ret_slot->owner - 1 == number)
            return at;
    }
    return CKPT_SHM_SLOTS;
}

/* The ranks that are asked; where nothing numbers them, the one that calls itself 0. */
static size_t asked_count(const struct ask_target *target)
{
    size_t count = target->node->rank_count(target->context);

    return count == 0 ? 1 : count;
}

static struct ask_rank asked_rank(const struct ask_target *target, size_t i)
{
    struct ask_rank rank = {0};

    CHECK(i < asked_count(target));
    if (target->node->rank_count(target->context) > 0)
        target->node->rank(target->context, i, &rank);
    return rank;
}

/* ---- the question ---- */

/* How many have a slot, and the number of the first of them. */
static size_t count_taken(const struct ask_target *target, uint32_t *ret_first)
{
    struct ckpt_shm_slot *slots = check_calloc(CKPT_SHM_SLOTS, sizeof(*slots));
    struct err err = {0};
    size_t count = 0;

    if (target->node->region_read(target->context, offset_of(0, 0), slots,
                                  CKPT_SHM_SLOTS * sizeof(*slots), &err) == 0) {
        for (size_t i = 0; i < CKPT_SHM_SLOTS; i++) {
            if (slots[i].owner != 0 && count++ == 0)
                *ret_first = slots[i].owner - 1;
        }
    }
    free(slots);
    return count;
}

static bool shm_shown(const struct ask_target *target)
{
    struct err err = {0};
    uint32_t first;

    return target->node->region_read(target->context, 0, &first, sizeof(first), &err) == 0 &&
           count_taken(target, &first) > 0;
}

/* Where nothing numbers ranks, one process speaks for the whole job. */
static enum ask_ready preflight_alone(const struct ask_target *target, char *ret_detail,
                                      size_t size)
{
    uint32_t first = 0;
    size_t taken = count_taken(target, &first);

    if (taken > 1)
        snprintf(ret_detail, size,
                 "%zu processes have opened the shared memory as ranks of their own, and nothing "
                 "numbers them: start with --ranks %zu",
                 taken, taken);
    else if (taken == 1 && first != 0)
        snprintf(ret_detail, size,
                 "rank %" PRIu32 " has opened the shared memory, and nothing numbers ranks here: "
                 "open it as rank 0, or start with --ranks N",
                 first);
    else
        return ASK_READY;
    return ASK_NO_HANDLER;
}

static enum ask_ready preflight_rank(const struct ask_target *target, const struct ask_rank *rank,
                                     char *ret_detail, size_t size)
{
    struct ckpt_shm_slot slot;
    struct err err = {0};

    if (rank->tells || find_slot(target, rank->number, &slot, &err) != CKPT_SHM_SLOTS)
        return ASK_READY;
    if (err.text[0] != '\0')
        snprintf(ret_detail, size, "%s", err.text);
    else
        snprintf(ret_detail, size,
                 "rank %" PRIu32 " has not opened the shared memory of CKPT_SHM: call "
                 "ckpt_shm_open() (ckptshm.h), or start with another --profile",
                 rank->number);
    return ASK_NO_HANDLER;
}

static enum ask_ready shm_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                    char *ret_detail, size_t size)
{
    size_t count = target->node->rank_count(target->context);

    (void)ops;
    if (count == 0 && preflight_alone(target, ret_detail, size) != ASK_READY)
        return ASK_NO_HANDLER;
    for (size_t i = 0; i < asked_count(target); i++) {
        struct ask_rank rank = asked_rank(target, i);
        if (preflight_rank(target, &rank, ret_detail, size) != ASK_READY)
            return ASK_NO_HANDLER;
    }
    return ASK_READY;
}

/* All that a rank reads when it sees its request. */
static int write_question(const struct ask_target *target, const struct ask_request *request,
                          struct err *err)
{
    const size_t from = offsetof(struct ckpt_shm, deadline_ms);
    struct {
        uint64_t deadline_ms;
        char hint[CKPT_SHM_HINT_BYTES], directory[CKPT_SHM_DIRECTORY_BYTES];
    } question = {.deadline_ms = request->deadline_ms};

    _Static_assert(sizeof(question) ==
                       offsetof(struct ckpt_shm, left) - offsetof(struct ckpt_shm, deadline_ms),
                   "the same layout");
    if (strlen(request->directory) >= sizeof(question.directory))
        return err_set(err, ERR_INVALID, "the path of the folder has %zu bytes, at most %zu fit",
                       strlen(request->directory), sizeof(question.directory) - 1);
    snprintf(question.hint, sizeof(question.hint), "%s", request->hint);
    snprintf(question.directory, sizeof(question.directory), "%s", request->directory);
    return target->node->region_write(target->context, from, &question, sizeof(question), err);
}

/* The request words of those that have a slot; the others are told on their streams. */
static size_t words_of(const struct ask_target *target, size_t ret_offsets[CKPT_SHM_SLOTS])
{
    size_t count = 0;

    for (size_t i = 0; i < asked_count(target) && count < CKPT_SHM_SLOTS; i++) {
        struct ask_rank rank = asked_rank(target, i);
        struct ckpt_shm_slot slot;
        struct err err = {0};
        size_t at = rank.tells ? CKPT_SHM_SLOTS : find_slot(target, rank.number, &slot, &err);
        if (at != CKPT_SHM_SLOTS)
            ret_offsets[count++] = offset_of(at, offsetof(struct ckpt_shm_slot, request));
    }
    return count;
}

static int change_words(const struct ask_target *target, enum ask_region_change change,
                        struct err *err)
{
    size_t offsets[CKPT_SHM_SLOTS];
    size_t count = words_of(target, offsets);

    CHECK(count <= CKPT_SHM_SLOTS);
    return target->node->region_change(target->context, change, offsets, count, err);
}

/* ---- an open question ---- */

struct ask_call {
    struct ask_target target;
    struct ask_listener listener;
    uv_timer_t timer;
    uint64_t since_ms;
    uint32_t answers; /* as they were counted last */
};

static bool answers_counted(const struct ask_target *target, uint32_t *ret_answers)
{
    struct err err = {0};

    return target->node->region_read(target->context, offsetof(struct ckpt_shm, answers),
                                     ret_answers, sizeof(*ret_answers), &err) == 0;
}

static void call_look(uv_timer_t *timer)
{
    struct ask_call *call = timer->data;
    uint64_t next_ms = (uv_now(timer->loop) - call->since_ms) / LOOK_SHARE;
    uint32_t answers = call->answers;

    if (next_ms < LOOK_FIRST_MS)
        next_ms = LOOK_FIRST_MS;
    CHECK(uv_timer_start(timer, call_look, next_ms < LOOK_MOST_MS ? next_ms : LOOK_MOST_MS, 0) ==
          0);
    if (!answers_counted(&call->target, &answers) || answers == call->answers)
        return;
    call->answers = answers;
    call->listener.events->answered(call->listener.data); /* it may hang up */
}

static int shm_fire(const struct ask_ops *ops, const struct ask_target *target,
                    const struct ask_request *request, const struct ask_listener *listener,
                    struct ask_call **ret_call, struct err *err)
{
    size_t count = target->node->rank_count(target->context);
    struct ask_call *call;
    struct ask_rank rank;
    uint32_t answers = 0;

    (void)ops;
    *ret_call = NULL;
    (void)answers_counted(target, &answers);
    if (write_question(target, request, err) != 0 ||
        change_words(target, ASK_REGION_RAISE, err) != 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        target->node->rank(target->context, i, &rank);
        if (rank.tells)
            target->node->rank_tell(target->context, i, request);
    }
    call = check_calloc(1, sizeof(*call));
    call->target = *target;
    call->listener = *listener;
    call->answers = answers;
    CHECK(uv_timer_init(target->loop, &call->timer) == 0);
    call->timer.data = call;
    call->since_ms = uv_now(target->loop);
    CHECK(uv_timer_start(&call->timer, call_look, LOOK_FIRST_MS, 0) == 0);
    *ret_call = call;
    return 0;
}

static void call_free(uv_handle_t *timer)
{
    free(timer->data);
}

static void shm_hang_up(struct ask_call *call)
{
    if (call != NULL)
        uv_close((uv_handle_t *)&call->timer, call_free);
}

/* ---- what is there ---- */

static bool hint_stands(const struct ask_target *target, const char *hint)
{
    char found[CKPT_SHM_HINT_BYTES];
    struct err err = {0};

    if (target->node->region_read(target->context, offsetof(struct ckpt_shm, hint), found,
                                  sizeof(found), &err) != 0)
        return false;
    found[sizeof(found) - 1] = '\0';
    return strcmp(found, hint) == 0;
}

/* The hint is in the region before any word is raised. */
static bool shm_prepared(const struct ask_target *target, const char *hint)
{
    return ask_folder_prepared(target, hint) && hint_stands(target, hint);
}

static void text_take(const char *from, size_t from_size, char *ret_text, size_t size)
{
    size_t length = strnlen(from, from_size);

    CHECK(size > 0);
    if (length >= size)
        length = size - 1;
    memcpy(ret_text, from, length);
    ret_text[length] = '\0';
}

/* The words say done. */
static bool words_agree(const struct ckpt_shm_slot *slot)
{
    return slot->request != 0 && (slot->request & 1) == 0 && slot->done == (slot->request | 1);
}

static enum ask_answer take_answer(const struct ckpt_shm_slot *slot, const char *hint,
                                   struct sentinel *ret_sentinel, struct err *err)
{
    struct sentinel sentinel = {.bytes = slot->bytes, .saved_at_ms = slot->saved_at_ms};

    text_take(hint, HINT_TEXT_BYTES, sentinel.hint, sizeof(sentinel.hint));
    text_take(slot->label, sizeof(slot->label), sentinel.label, sizeof(sentinel.label));
    text_take(slot->status, sizeof(slot->status), sentinel.status, sizeof(sentinel.status));
    for (char *at = sentinel.status; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
    if (sentinel.status[0] == '\0') {
        (void)err_set(
            err, ERR_INVALID,
            "it says done in the shared memory without a status: write \"0\", or why not");
        return ASK_WRONG;
    }
    if (sentinel.label[0] != '\0' &&
        (!label_valid(sentinel.label) ||
         strnlen(slot->label, sizeof(slot->label)) > LABEL_MAX_BYTES)) {
        (void)err_set(err, ERR_INVALID,
                      "its label in the shared memory is not 1 to %d of A-Z a-z 0-9 . _ : -",
                      LABEL_MAX_BYTES);
        return ASK_WRONG;
    }
    *ret_sentinel = sentinel;
    return ASK_FINISHED;
}

/* A rank without a slot answers in the folder, by the library. */
static enum ask_answer shm_poll(const struct ask_target *target, const char *hint, size_t rank,
                                struct sentinel *ret_sentinel, struct err *err)
{
    const struct ask_rank asked = asked_rank(target, rank);
    struct ckpt_shm_slot slot;
    struct err why = {0};

    if (find_slot(target, asked.number, &slot, &why) == CKPT_SHM_SLOTS)
        return ask_folder_poll(target, hint, rank, ret_sentinel, err);
    if (!words_agree(&slot) || !hint_stands(target, hint))
        return ASK_NOTHING_YET;
    return take_answer(&slot, hint, ret_sentinel, err);
}

/* A rank that is still at it sees that it is not wanted any more. */
static void shm_clear(const struct ask_target *target)
{
    static const char none[CKPT_SHM_HINT_BYTES];
    struct err err = {0};

    ask_folder_clear(target);
    (void)change_words(target, ASK_REGION_CLEAR, &err);
    (void)target->node->region_write(target->context, offsetof(struct ckpt_shm, hint), none,
                                     sizeof(none), &err);
}

const struct ask_ops ask_shm = {.about = "words in shared memory, no signal",
                                .ranks = true,
                                .region = true,
                                .shown = shm_shown,
                                .preflight = shm_preflight,
                                .prepare = ask_folder_prepare,
                                .fire = shm_fire,
                                .hang_up = shm_hang_up,
                                .prepared = shm_prepared,
                                .poll = shm_poll,
                                .growth = ask_folder_growth,
                                .clear = shm_clear};
