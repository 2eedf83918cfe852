/* The calls of libckptapp. The manual is ckptapp.h, the drawing of its states handle.h. */
#include "src/app/ckptapp.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/app/handle.h"

/* Its address names the thread. Initial-exec: reading it allocates nothing, in a handler too. */
static _Thread_local char this_thread __attribute__((tls_model("initial-exec")));

/* ---- turns ---- */
enum entry { ENTERED, NO_HANDLE, OF_PARENT, OWN_THREAD_INSIDE };

static enum entry ckptapp_enter(struct ckpt *ckpt, bool wait)
{
    static const struct timespec moment = {0, 20000};
    uintptr_t self = (uintptr_t)&this_thread;

    if (ckpt == NULL)
        return NO_HANDLE;
    if (ckpt->pid != getpid())
        return OF_PARENT;
    for (;;) {
        uintptr_t inside = 0;

        if (atomic_compare_exchange_strong(&ckpt->lock, &inside, self))
            return ENTERED;
        /* a handler that waited for the thread that it interrupted would wait for ever */
        if (inside == self || !wait)
            return OWN_THREAD_INSIDE;
        nanosleep(&moment, NULL); /* and no spinning: the other one may have a lower priority */
    }
}

static void ckptapp_leave(struct ckpt *ckpt)
{
    atomic_store(&ckpt->lock, 0);
}

/* For calls that end or feed a saving. True: inside, to be left with saving_leave(); *ret_failed is
 * 0 when something is being saved. */
static bool saving_enter(struct ckpt *ckpt, int *ret_failed)
{
    switch (ckptapp_enter(ckpt, true)) {
    case ENTERED:
        break;
    case NO_HANDLE:
        *ret_failed = 0;
        return false;
    case OF_PARENT:
        *ret_failed = ECHILD;
        return false;
    case OWN_THREAD_INSIDE:
        *ret_failed = EAGAIN;
        return false;
    }
    ckptapp_stream_turn(ckpt, false); /* it may have been withdrawn just now */
    switch (ckpt->saving) {
    case SAVING_NOW:
        *ret_failed = 0;
        break;
    case SAVING_STALE:
        ckptapp_error_set(ckpt, "what was asked for was withdrawn: ", ckpt->saved.hint);
        *ret_failed = ESTALE;
        break;
    case SAVING_NOTHING:
        ckptapp_error_set(ckpt, "nothing is being saved", "");
        *ret_failed = EINVAL;
        break;
    }
    return true;
}

/* What the call returns, with errno; that of the caller stays when it succeeded. */
static int saving_leave(struct ckpt *ckpt, bool inside, int failed, int caller_errno)
{
    if (inside)
        ckptapp_leave(ckpt);
    errno = failed != 0 ? failed : caller_errno;
    return failed != 0 ? -1 : 0;
}

/* ---- open and close ---- */
static int environment_copy(char *to, size_t size, const char *name)
{
    const char *text = getenv(name);

    return text == NULL ? 0 : ckptapp_copy(to, size, text);
}

/* Whole: it is there and is a number; else it stays as it is. */
static int environment_number(const char *name, uint64_t max, uint64_t *number)
{
    const char *text = getenv(name);

    if (text == NULL || *text == '\0')
        return 0;
    return ckptapp_number(text, number) == 0 && *number <= max ? 0 : -1;
}

/* "EPOCH-NUMBER" as one number, of 24 and 40 bits. */
static int environment_run(uint64_t *run)
{
    const char *text = getenv("CKPT_RUN");
    const char *second = text == NULL ? NULL : strchr(text, '-');
    char first[24];
    uint64_t epoch, number;

    if (second == NULL)
        return environment_number("CKPT_RUN", UINT64_MAX, run);
    if ((size_t)(second - text) >= sizeof(first))
        return -1;
    memcpy(first, text, (size_t)(second - text));
    first[second - text] = '\0';
    if (ckptapp_number(first, &epoch) != 0 || ckptapp_number(second + 1, &number) != 0 ||
        epoch >= UINT64_C(1) << 24 || number >= UINT64_C(1) << 40)
        return -1;
    *run = epoch << 40 | number;
    return 0;
}

static int environment_read(struct ckpt *ckpt)
{
    uint64_t part = 0, parts = 1, restore_parts = 0;
    const char *takes;

    if (environment_copy(ckpt->socket, sizeof(ckpt->socket), "CKPT_APP_SOCKET") != 0 ||
        environment_copy(ckpt->work, sizeof(ckpt->work) - FOLDER_BYTES, "CKPT_DIR") != 0 ||
        environment_copy(ckpt->job, sizeof(ckpt->job), "CKPT_ALLOCATION_ID") != 0 ||
        environment_copy(ckpt->restore_directory, PATH_BYTES, "CKPT_RESTORE_DIR") != 0 ||
        environment_copy(ckpt->restore_uri, PATH_BYTES, "CKPT_RESTORE_URI") != 0 ||
        environment_copy(ckpt->restore_label, LABEL_BYTES, "CKPT_RESTORE_LABEL") != 0)
        return ENAMETOOLONG;
    if (ckpt->job[0] == '\0' || ckpt->work[0] != '/' || environment_run(&ckpt->run) != 0 ||
        environment_number("CKPT_PART", UINT32_MAX, &part) != 0 ||
        environment_number("CKPT_PARTS", UINT32_MAX, &parts) != 0 || part >= parts ||
        environment_number("CKPT_RESTORE_PARTS", UINT32_MAX, &restore_parts) != 0)
        return EINVAL;
    takes = getenv("CKPT_APP_TAKES");
    ckpt->requests = takes != NULL && strcmp(takes, "request") == 0;
    ckpt->part = (uint32_t)part;
    ckpt->parts = (uint32_t)parts;
    ckpt->restore_parts = (uint32_t)restore_parts;
    return 0;
}

/* Without a handle: a checkpoint that somebody has brought home, or any other files of this form.
 * NULL: under ckpt-run, or none is named. */
static const char *outside_restore(const char *name)
{
    const char *socket_path = getenv("CKPT_APP_SOCKET"), *text = getenv(name);

    if ((socket_path != NULL && *socket_path != '\0') || text == NULL || *text == '\0')
        return NULL;
    return text;
}

/* Once, by who opens: nobody asks this program for checkpoints. */
static void outside_say(void)
{
    const char *directory = outside_restore("CKPT_RESTORE_DIR");
    char bytes[PATH_BYTES + 128];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};

    if (directory == NULL)
        return;
    ckptapp_put(&line, "ckptapp: not under ckpt-run: begins from CKPT_RESTORE_DIR=");
    ckptapp_put(&line, directory);
    ckptapp_put(&line, ", and no checkpoint is asked for\n");
    if (write(STDERR_FILENO, bytes, line.length) < 0)
        errno = 0;
}

struct ckpt *ckpt_open(const struct ckpt_options *options)
{
    const char *socket_path = getenv("CKPT_APP_SOCKET");
    struct ckpt *ckpt;
    int failed;

    errno = 0;
    if (socket_path == NULL || *socket_path == '\0') {
        outside_say();
        errno = 0;
        return NULL;
    }
    if (options != NULL && options->size != sizeof(*options)) {
        errno = EINVAL;
        return NULL;
    }
    ckpt = mmap(NULL, sizeof(*ckpt), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ckpt == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    ckpt->descriptor = -1;
    ckpt->pid = getpid();
    failed = environment_read(ckpt);
    if (failed == 0 && ckptapp_rank_find(options, &ckpt->rank) != 0)
        failed = EINVAL;
    if (failed != 0) {
        munmap(ckpt, sizeof(*ckpt));
        errno = failed;
        return NULL;
    }
    ckptapp_answer_reserve(ckpt);
    ckptapp_stream_turn(ckpt, true); /* the agent waits for the first poll or barrier */
    if (ckpt->descriptor < 0)
        ckpt->dial_at_ns = 0; /* which dials at once where it was not there */
    errno = 0;
    return ckpt;
}

void ckpt_close(struct ckpt *ckpt)
{
    if (ckpt == NULL)
        return;
    if (ckpt->pid == getpid())
        ckptapp_stream_close(ckpt);
    else if (ckpt->descriptor >= 0)
        close(ckpt->descriptor); /* the stream itself is the parent's */
    munmap(ckpt, sizeof(*ckpt));
}

/* ---- is a checkpoint wanted ---- */
/* The folder of this rank is its own to make: it may have come after the question. One that cannot
 * be made is found by who writes there. */
static void begin_saving(struct ckpt *ckpt)
{
    ckptapp_take(ckpt);
    (void)mkdir(ckpt->directory, 0700);
    ckptapp_answer_reserve(ckpt);
}

static int poll_outcome(struct ckpt *ckpt)
{
    switch (ckpt->asked) {
    case ASKED_NOTHING:
    case ASKED_TAKEN:
        return CKPT_GO_ON;
    case ASKED_HEARD:
    case ASKED_TOLD:
    case ASKED_DUE:
        break;
    }
    if (ckpt->barrier || ckpt->saving != SAVING_NOTHING)
        return CKPT_LATER;
    begin_saving(ckpt);
    return CKPT_NOW;
}

int ckpt_poll(struct ckpt *ckpt)
{
    int kept = errno, outcome;

    if (ckptapp_enter(ckpt, false) != ENTERED)
        return CKPT_GO_ON;
    ckpt->plain = true;
    ckptapp_stream_turn(ckpt, true);
    outcome = poll_outcome(ckpt);
    ckptapp_leave(ckpt);
    errno = kept;
    return outcome;
}

static void pace_learn(struct ckpt *ckpt, uint64_t step, uint64_t now_ns)
{
    if (ckpt->stepped && step > ckpt->step && now_ns > ckpt->step_ns) {
        uint64_t pace_ns = (now_ns - ckpt->step_ns) / (step - ckpt->step);

        ckpt->paces[ckpt->pace_next] = pace_ns > 0 ? pace_ns : 1;
        ckpt->pace_next = (ckpt->pace_next + 1) % PACES;
    }
    ckpt->stepped = true;
    ckpt->step = step;
    ckpt->step_ns = now_ns;
}

static int barrier_due(struct ckpt *ckpt, bool stepped, uint64_t before, uint64_t step)
{
    if (step < ckpt->agreed_step)
        return CKPT_LATER;
    if ((!stepped || before < ckpt->agreed_step) && ckpt->saving == SAVING_NOTHING) {
        begin_saving(ckpt);
        return CKPT_NOW;
    }
    ckptapp_copy(ckpt->missed_hint, sizeof(ckpt->missed_hint), ckpt->question.hint);
    ckpt->missed_step = step;
    ckpt->say_missed = true;
    ckpt->asked = ASKED_NOTHING;
    ckpt->agreed_step = 0;
    ckptapp_stream_turn(ckpt, false);
    return CKPT_GO_ON;
}

static int barrier_outcome(struct ckpt *ckpt, bool stepped, uint64_t before)
{
    switch (ckpt->asked) {
    case ASKED_NOTHING:
    case ASKED_TAKEN:
        return CKPT_GO_ON;
    case ASKED_HEARD:
    case ASKED_TOLD:
        if (ckpt->greeted &&
            (ckpt->asked == ASKED_HEARD || ckpt->step_ns - ckpt->told_ns >= AT_EVERY_NS) &&
            ckptapp_stream_at(ckpt) == 0) {
            ckpt->asked = ASKED_TOLD;
            ckpt->told_ns = ckpt->step_ns;
            ckpt->say_at = false;
        }
        return CKPT_LATER;
    case ASKED_DUE:
        return barrier_due(ckpt, stepped, before, ckpt->step);
    }
    return CKPT_GO_ON;
}

/* Tried once a second at most, whatever comes of it: an agent that stands still costs no more. */
static void step_tell(struct ckpt *ckpt, uint64_t step, uint64_t now_ns)
{
    if (!ckpt->takes_steps || now_ns - ckpt->said_ns < STEP_EVERY_NS ||
        (ckpt->said_ns != 0 && step == ckpt->said_step))
        return;
    ckpt->said_ns = now_ns;
    if (ckptapp_stream_step(ckpt, step) == 0)
        ckpt->said_step = step;
}

/* Some nanoseconds; a few milliseconds behind the clock of the turns. */
static bool step_is_due(const struct ckpt *ckpt)
{
    struct timespec now;
    int64_t passed_ns;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    passed_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)ckpt->said_ns;
    return passed_ns >= (int64_t)STEP_EVERY_NS;
}

/* Without a turn most often: a loop may call it millions of times a second. */
void ckpt_step(struct ckpt *ckpt, uint64_t step)
{
    int kept = errno;

    if (ckpt == NULL || !step_is_due(ckpt) || ckptapp_enter(ckpt, false) != ENTERED)
        return;
    ckptapp_stream_turn(ckpt, true);
    step_tell(ckpt, step, ckptapp_now_ns());
    ckpt->said_ns = ckptapp_now_ns(); /* also where there is no agent, or none that wants to hear */
    ckptapp_leave(ckpt);
    errno = kept;
}

int ckpt_barrier(struct ckpt *ckpt, uint64_t step)
{
    int kept = errno, outcome;

    if (ckptapp_enter(ckpt, true) != ENTERED)
        return CKPT_GO_ON;
    if (!ckpt->barrier) {
        ckpt->barrier = true;
        if (ckpt->greeted) { /* the agent must hear it */
            ckptapp_stream_close(ckpt);
            ckpt->dial_at_ns = 0;
        }
    }
    bool stepped = ckpt->stepped;
    uint64_t before = ckpt->step;
    pace_learn(ckpt, step, ckptapp_now_ns());
    ckptapp_stream_turn(ckpt, true);
    outcome = barrier_outcome(ckpt, stepped, before);
    step_tell(ckpt, step, ckpt->step_ns);
    ckptapp_leave(ckpt);
    errno = kept;
    return outcome;
}

/* ---- the end of a saving ---- */
/* This rank knows that others save too; the agent may know of more. */
static bool lacks_label(const struct ckpt *ckpt, const char *status, const char *label)
{
    const struct ckptapp_rank *rank = &ckpt->rank;

    return strcmp(status, "0") == 0 && *label == '\0' &&
           (rank->rank > 0 || rank->ranks > 1 || rank->local_ranks > 1 || ckpt->parts > 1);
}

static int saving_answer(struct ckpt *ckpt, const char *status, const char *label, uint64_t bytes)
{
    int caller_errno = errno, failed;
    bool inside = saving_enter(ckpt, &failed);

    if (inside && failed == ESTALE) {
        ckptapp_saving_end(ckpt, false);
    } else if (inside && failed == 0 && lacks_label(ckpt, status, label)) {
        ckptapp_error_set(ckpt,
                          "each of several ranks names the step that it saved: ckpt_done(), or "
                          "ckpt_done_label() with \"unordered\"",
                          "");
        failed = EINVAL;
    } else if (inside && failed == 0) {
        if (ckptapp_answer_write(ckpt, status, label, bytes) != 0) {
            failed = errno;
            ckptapp_error_set(ckpt, "the done file cannot be written in ", ckpt->work);
            if (strcmp(status, "0") != 0)
                ckptapp_saving_end(ckpt, false); /* it saves again when it is asked again */
        } else {
            ckptapp_saving_end(ckpt, true);
            ckptapp_stream_turn(ckpt, false);
        }
    }
    return saving_leave(ckpt, inside, failed, caller_errno);
}

int ckpt_done_label(struct ckpt *ckpt, const char *label, uint64_t bytes)
{
    if (label == NULL)
        label = "";
    if ((*label != '\0' && !ckptapp_label_valid(label)) || bytes > INT64_MAX) {
        errno = EINVAL;
        return -1;
    }
    return saving_answer(ckpt, "0", label, bytes);
}

int ckpt_done(struct ckpt *ckpt, uint64_t step, uint64_t bytes)
{
    char label[LABEL_BYTES];
    struct ckptapp_text text = {label, sizeof(label), 0, false};

    ckptapp_put_number(&text, step);
    return ckpt_done_label(ckpt, label, bytes);
}

int ckpt_failed(struct ckpt *ckpt, const char *text)
{
    char status[STATUS_BYTES];
    struct ckptapp_text line = {status, sizeof(status), 0, false};

    status[0] = '\0';
    if (text == NULL || *text == '\0')
        text = "the application did not say why";
    if (strcmp(text, "0") == 0) /* which would say that all went well */
        ckptapp_put(&line, "failed: ");
    ckptapp_put(&line, text);
    for (char *byte = status; *byte != '\0'; byte++)
        if ((unsigned char)*byte < ' ' || *byte == 0x7f)
            *byte = ' ';
    return saving_answer(ckpt, status, "", 0);
}

int ckpt_saved_at(struct ckpt *ckpt, uint64_t at_ms)
{
    int caller_errno = errno, failed;

    if (at_ms == 0 || at_ms > INT64_MAX) {
        errno = EINVAL;
        return -1;
    }
    bool inside = saving_enter(ckpt, &failed);
    if (inside && failed == 0)
        ckpt->saved_at_ms = at_ms;
    return saving_leave(ckpt, inside, failed, caller_errno);
}

static int say_about(struct ckpt *ckpt, const char *verb, uint64_t number)
{
    char bytes[LINE_BYTES];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};

    if (!ckpt->greeted)
        return -1;
    ckptapp_put(&line, verb);
    ckptapp_put(&line, ckpt->saved.hint);
    ckptapp_put(&line, " ");
    ckptapp_put_number(&line, number);
    ckptapp_put(&line, "\n");
    return ckptapp_stream_say(ckpt, &line);
}

static int saving_defer(struct ckpt *ckpt, uint64_t ms)
{
    if (ms == 0 || ms > ckpt->saved.deferral_max_ms) {
        ckptapp_error_set(ckpt, "it can not be deferred by so much (or by nothing)", "");
        return ERANGE;
    }
    if (say_about(ckpt, "defer ", ms) != 0) {
        ckptapp_error_set(ckpt, "the agent is away: save now, nothing can be deferred", "");
        return ENOTCONN;
    }
    ckptapp_saving_end(ckpt, false);
    return 0;
}

int ckpt_defer(struct ckpt *ckpt, uint64_t ms)
{
    int caller_errno = errno, failed;
    bool inside = saving_enter(ckpt, &failed);

    if (inside && failed == ESTALE)
        ckptapp_saving_end(ckpt, false);
    else if (inside && failed == 0)
        failed = saving_defer(ckpt, ms);
    return saving_leave(ckpt, inside, failed, caller_errno);
}

int ckpt_progress(struct ckpt *ckpt, uint32_t ppm)
{
    int caller_errno = errno, failed;

    if (ppm > 1000000) {
        errno = EINVAL;
        return -1;
    }
    bool inside = saving_enter(ckpt, &failed);
    uint64_t now_ns = ckptapp_now_ns();
    if (inside && failed == 0 && now_ns >= ckpt->sign_at_ns) {
        say_about(ckpt, "progress ", ppm); /* one that is lost does no harm */
        ckpt->sign_at_ns = now_ns + SIGN_EVERY_NS;
    }
    return saving_leave(ckpt, inside, failed, caller_errno);
}

/* ---- a checkpoint that the program asks for ---- */
static int request_say(struct ckpt *ckpt)
{
    char bytes[LINE_BYTES];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};

    ckptapp_stream_turn(ckpt, true);
    if (!ckpt->requests) {
        ckptapp_error_set(ckpt, "this agent takes no requests of the program", "");
        return ENOTSUP;
    }
    ckptapp_put(&line, "request ");
    ckptapp_put_number(&line, ckpt->stepped ? ckpt->step : 0);
    ckptapp_put(&line, "\n");
    if (ckpt->greeted && ckptapp_stream_say(ckpt, &line) == 0)
        return 0;
    ckptapp_error_set(ckpt,
                      "the agent is away, or ckpt_barrier() or ckpt_poll() was not called "
                      "yet: ask again later",
                      "");
    return ENOTCONN;
}

int ckpt_request(struct ckpt *ckpt)
{
    int caller_errno = errno, failed = 0;
    enum entry entry = ckptapp_enter(ckpt, true);

    if (entry == ENTERED)
        failed = request_say(ckpt);
    else if (entry != NO_HANDLE)
        failed = entry == OF_PARENT ? ECHILD : EAGAIN;
    return saving_leave(ckpt, entry == ENTERED, failed, caller_errno);
}

/* ---- what is known ---- */
const char *ckpt_directory(const struct ckpt *ckpt)
{
    return ckpt == NULL || ckpt->saving == SAVING_NOTHING ? NULL : ckpt->directory;
}

const char *ckpt_hint(const struct ckpt *ckpt)
{
    return ckpt == NULL || ckpt->saving == SAVING_NOTHING ? NULL : ckpt->saved.hint;
}

uint64_t ckpt_deadline_ms(const struct ckpt *ckpt)
{
    return ckpt == NULL || ckpt->saving != SAVING_NOW ? 0 : ckpt->saved.deadline_ms;
}

uint32_t ckpt_part(const struct ckpt *ckpt)
{
    return ckpt == NULL ? 0 : ckpt->part;
}

uint32_t ckpt_parts(const struct ckpt *ckpt)
{
    return ckpt == NULL ? 1 : ckpt->parts;
}

int64_t ckpt_rank(const struct ckpt *ckpt)
{
    return ckpt == NULL ? -1 : ckpt->rank.rank;
}

static const char *text_known(const char *text)
{
    return *text == '\0' ? NULL : text;
}

const char *ckpt_restore_directory(const struct ckpt *ckpt)
{
    return ckpt == NULL ? outside_restore("CKPT_RESTORE_DIR") : text_known(ckpt->restore_directory);
}

const char *ckpt_restore_uri(const struct ckpt *ckpt)
{
    return ckpt == NULL ? NULL : text_known(ckpt->restore_uri);
}

uint32_t ckpt_restore_parts(const struct ckpt *ckpt)
{
    return ckpt == NULL ? 0 : ckpt->restore_parts;
}

const char *ckpt_restore_label(const struct ckpt *ckpt)
{
    return ckpt == NULL ? outside_restore("CKPT_RESTORE_LABEL") : text_known(ckpt->restore_label);
}

const char *ckpt_error(const struct ckpt *ckpt)
{
    if (ckpt == NULL)
        return "";
    return ckpt->pid == getpid() ? ckpt->error : "the handle is another process's: open one";
}
