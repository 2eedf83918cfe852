/* What the agent's lines change. Nothing here touches a socket or a file. See handle.h. */
#include <string.h>

#include "src/app/handle.h"

/* A folder below the work folder: no way leads out of it. */
static bool folder_is_inside(const char *folder)
{
    if (*folder == '/' || *folder == '\0')
        return false;
    for (const char *part = folder; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        size_t length = strcspn(part, "/");

        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
    }
    return true;
}

static int question_read(char *words[WORDS_MAX], struct ckptapp_question *ret_question)
{
    struct ckptapp_question question = {0};

    if (!ckptapp_label_valid(words[1]) ||
        ckptapp_copy(question.hint, sizeof(question.hint), words[1]) != 0 ||
        ckptapp_number(words[2], &question.deadline_ms) != 0 || question.deadline_ms == 0 ||
        ckptapp_number(words[3], &question.deferral_max_ms) != 0 ||
        ckptapp_word_decode(words[4]) != 0 || !folder_is_inside(words[4]) ||
        ckptapp_copy(question.folder, sizeof(question.folder), words[4]) != 0)
        return -1;
    *ret_question = question;
    return 0;
}

/* A question comes again on each new stream, perhaps with a later deadline. So one that is being
 * answered takes the deadline only, one that was answered is told so again, and another hint
 * makes what is being saved stale. */
static int take_ask(struct ckpt *ckpt, char *words[WORDS_MAX])
{
    struct ckptapp_question question;

    if (question_read(words, &question) != 0)
        return -1;
    if (ckpt->saving == SAVING_NOW && strcmp(question.hint, ckpt->saved.hint) == 0) {
        ckpt->saved.deadline_ms = question.deadline_ms;
        return 0;
    }
    if (strcmp(question.hint, ckpt->answered) == 0) {
        ckpt->say_done = true;
        return 0;
    }
    if (ckpt->saving == SAVING_NOW)
        ckpt->saving = SAVING_STALE;
    if (ckpt->asked != ASKED_HEARD && ckpt->asked != ASKED_TOLD && ckpt->asked != ASKED_DUE)
        ckpt->question.hint[0] = '\0';
    if (strcmp(question.hint, ckpt->question.hint) != 0) {
        ckpt->asked = ASKED_HEARD;
        ckpt->agreed_step = 0;
        ckpt->say_at = false;
    } else if (ckpt->asked == ASKED_TOLD) {
        ckpt->say_at = true; /* another stream: the agent may have forgotten it */
    }
    ckpt->question = question;
    return 0;
}

/* A step of a question that is not open any more is late, and dropped; a library of before takes
 * that of no question for one. */
static int take_step(struct ckpt *ckpt, char *words[WORDS_MAX])
{
    uint64_t step;

    if (!ckptapp_label_valid(words[1]) || ckptapp_number(words[2], &step) != 0 || step == 0)
        return -1;
    if (strcmp(words[1], NO_QUESTION) == 0)
        ckpt->takes_steps = true;
    else if (strcmp(words[1], ckpt->question.hint) == 0 &&
             (ckpt->asked == ASKED_HEARD || ckpt->asked == ASKED_TOLD ||
              ckpt->asked == ASKED_DUE)) {
        ckpt->asked = ASKED_DUE;
        ckpt->agreed_step = step;
        ckpt->say_at = false;
    }
    return 0;
}

static int take_withdrawn(struct ckpt *ckpt, const char *hint)
{
    if (!ckptapp_label_valid(hint))
        return -1;
    if (ckpt->asked != ASKED_NOTHING && strcmp(hint, ckpt->question.hint) == 0) {
        ckpt->asked = ASKED_NOTHING;
        ckpt->agreed_step = 0;
        ckpt->say_at = false;
    }
    if (ckpt->saving == SAVING_NOW && strcmp(hint, ckpt->saved.hint) == 0)
        ckpt->saving = SAVING_STALE;
    return 0;
}

static int take_ready(struct ckpt *ckpt, char *words[WORDS_MAX])
{
    uint64_t part, parts;

    if (strcmp(words[1], "1") != 0) {
        ckptapp_error_set(ckpt, "this library speaks version 1 of the agent's protocol, the agent ",
                          words[1]);
        return -1;
    }
    if (ckptapp_word_decode(words[2]) != 0 || ckptapp_number(words[3], &part) != 0 ||
        ckptapp_number(words[4], &parts) != 0 || part >= parts)
        return -1;
    ckpt->error[0] = '\0'; /* a refusal is over */
    return 0;
}

int ckptapp_line_take(struct ckpt *ckpt, char *line)
{
    char *words[WORDS_MAX];
    size_t count = ckptapp_words(line, words);
    int outcome = -1;

    ckpt->error[0] = '\0';
    if (count == 5 && strcmp(words[0], "ready") == 0)
        outcome = take_ready(ckpt, words);
    else if (count == 5 && strcmp(words[0], "ask") == 0)
        outcome = take_ask(ckpt, words);
    else if (count == 3 && strcmp(words[0], "step") == 0)
        outcome = take_step(ckpt, words);
    else if (count == 2 && strcmp(words[0], "withdrawn") == 0)
        outcome = take_withdrawn(ckpt, words[1]);
    else if (count == 2 && strcmp(words[0], "refused") == 0 && ckptapp_word_decode(words[1]) == 0)
        ckptapp_error_set(ckpt, "the agent refused: ", words[1]);
    if (outcome != 0 && ckpt->error[0] == '\0')
        ckptapp_error_set(ckpt, "the agent said what this library does not understand: ",
                          count > 0 ? words[0] : "");
    return outcome;
}

int ckptapp_bytes_take(struct ckpt *ckpt, const char *bytes, size_t length)
{
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t more = end == NULL ? length : (size_t)(end - bytes);

        if (ckpt->line_length + more >= LINE_BYTES || memchr(bytes, '\0', more) != NULL) {
            ckptapp_error_set(ckpt, "the agent said a line that is too long or holds a NUL", "");
            return -1;
        }
        memcpy(ckpt->line + ckpt->line_length, bytes, more);
        ckpt->line_length += more;
        if (end == NULL)
            return 0;
        ckpt->line[ckpt->line_length] = '\0';
        ckpt->line_length = 0;
        if (ckptapp_line_take(ckpt, ckpt->line) != 0)
            return -1;
        bytes = end + 1;
        length -= more + 1;
    }
    return 0;
}

void ckptapp_take(struct ckpt *ckpt)
{
    struct ckptapp_text directory = {ckpt->directory, sizeof(ckpt->directory), 0, false};

    ckpt->asked = ASKED_TAKEN;
    ckpt->agreed_step = 0;
    ckpt->saving = SAVING_NOW;
    ckpt->saved = ckpt->question;
    ckpt->saving_since_ns = ckptapp_now_ns();
    ckpt->sign_at_ns = 0;
    ckpt->saved_at_ms = 0;
    ckptapp_put(&directory, ckpt->work); /* ckpt_open() has seen that both fit */
    ckptapp_put(&directory, "/");
    ckptapp_put(&directory, ckpt->saved.folder);
}

void ckptapp_saving_end(struct ckpt *ckpt, bool answered)
{
    if (answered) {
        ckptapp_copy(ckpt->answered, sizeof(ckpt->answered), ckpt->saved.hint);
        ckpt->say_done = true;
    }
    if (ckpt->asked == ASKED_TAKEN)
        ckpt->asked = ASKED_NOTHING;
    ckpt->saving = SAVING_NOTHING;
    ckpt->directory[0] = '\0';
}

bool ckptapp_sound(const struct ckpt *ckpt)
{
    return (ckpt->asked == ASKED_DUE) == (ckpt->agreed_step != 0) &&
           (ckpt->asked == ASKED_NOTHING || ckptapp_label_valid(ckpt->question.hint)) &&
           (ckpt->asked == ASKED_NOTHING || folder_is_inside(ckpt->question.folder)) &&
           (ckpt->asked != ASKED_TAKEN || ckpt->saving == SAVING_NOW) &&
           (ckpt->saving == SAVING_NOTHING) == (ckpt->directory[0] == '\0') &&
           (!ckpt->say_at || ckpt->asked == ASKED_TOLD) && ckpt->line_length < LINE_BYTES &&
           memchr(ckpt->error, '\0', sizeof(ckpt->error)) != NULL;
}
