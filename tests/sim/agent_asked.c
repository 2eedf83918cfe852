/* Which attempts applications were asked for. See agent_asked.h. */
#include "tests/sim/agent_asked.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/ask/sentinel.h"
#include "src/base/check.h"

struct question {
    unsigned agent, rank;
    bool put_off; /* it is asked once more */
    char hint[HINT_TEXT_BYTES];
};

struct agent_asked {
    struct question *questions;
    size_t count;
};

struct agent_asked *agent_asked_new(void)
{
    return check_calloc(1, sizeof(struct agent_asked));
}

void agent_asked_free(struct agent_asked *asked)
{
    free(asked->questions);
    free(asked);
}

static struct question *find(struct agent_asked *asked, unsigned agent, unsigned rank,
                             const char *hint)
{
    for (size_t i = 0; i < asked->count; i++)
        if (asked->questions[i].agent == agent && asked->questions[i].rank == rank &&
            strcmp(asked->questions[i].hint, hint) == 0)
            return &asked->questions[i];
    return NULL;
}

enum agent_question agent_asked_take(struct agent_asked *asked, unsigned agent, unsigned rank,
                                     const char *hint)
{
    struct question *question = find(asked, agent, rank, hint);

    if (question != NULL && !question->put_off)
        return QUESTION_TWICE;
    if (question != NULL) {
        question->put_off = false;
        return QUESTION_AFTER_DEFERRAL;
    }
    asked->questions = check_realloc(asked->questions, asked->count + 1, sizeof(*asked->questions));
    question = &asked->questions[asked->count++];
    *question = (struct question){.agent = agent, .rank = rank};
    snprintf(question->hint, sizeof(question->hint), "%s", hint);
    return QUESTION_NEW;
}

bool agent_asked_before(const struct agent_asked *asked, unsigned agent, unsigned rank,
                        const char *hint)
{
    for (size_t i = 0; i < asked->count; i++)
        if (asked->questions[i].agent == agent && asked->questions[i].rank != rank &&
            strcmp(asked->questions[i].hint, hint) == 0)
            return true;
    return false;
}

void agent_asked_put_off(struct agent_asked *asked, unsigned agent, unsigned rank, const char *hint)
{
    struct question *question = find(asked, agent, rank, hint);

    CHECK(question != NULL);
    question->put_off = true;
}
