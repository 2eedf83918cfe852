/* Which attempts applications were asked for. See agent_asked.h. */
#include "tests/sim/agent_asked.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/ask/sentinel.h"
#include "src/base/check.h"

struct question {
    unsigned agent, rank; /* ALL_RANKS: how often it was put off */
    unsigned times;
    char hint[HINT_TEXT_BYTES];
};

struct agent_asked {
    struct question *questions;
    size_t count;
};

enum { ALL_RANKS = 1000 };

struct agent_asked *agent_asked_new(void)
{
    return check_calloc(1, sizeof(struct agent_asked));
}

void agent_asked_free(struct agent_asked *asked)
{
    free(asked->questions);
    free(asked);
}

static struct question *get(struct agent_asked *asked, unsigned agent, unsigned rank,
                            const char *hint)
{
    struct question *question;

    for (size_t i = 0; i < asked->count; i++)
        if (asked->questions[i].agent == agent && asked->questions[i].rank == rank &&
            strcmp(asked->questions[i].hint, hint) == 0)
            return &asked->questions[i];
    asked->questions = check_realloc(asked->questions, asked->count + 1, sizeof(*asked->questions));
    question = &asked->questions[asked->count++];
    *question = (struct question){.agent = agent, .rank = rank};
    snprintf(question->hint, sizeof(question->hint), "%s", hint);
    return question;
}

/* One that was on its way to a rank may arrive when another one has put it off. */
enum agent_question agent_asked_take(struct agent_asked *asked, unsigned agent, unsigned rank,
                                     const char *hint)
{
    unsigned put_off = get(asked, agent, ALL_RANKS, hint)->times;
    struct question *question = get(asked, agent, rank, hint);

    if (question->times++ == 0)
        return QUESTION_NEW;
    return question->times > put_off + 1 ? QUESTION_TWICE : QUESTION_AFTER_DEFERRAL;
}

bool agent_asked_before(const struct agent_asked *asked, unsigned agent, unsigned rank,
                        const char *hint)
{
    for (size_t i = 0; i < asked->count; i++)
        if (asked->questions[i].agent == agent && asked->questions[i].rank != rank &&
            asked->questions[i].rank != ALL_RANKS && strcmp(asked->questions[i].hint, hint) == 0)
            return true;
    return false;
}

void agent_asked_put_off(struct agent_asked *asked, unsigned agent, const char *hint)
{
    get(asked, agent, ALL_RANKS, hint)->times++;
}
