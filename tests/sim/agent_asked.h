/* Which attempts the ranks of applications were asked for: each once (I22), and once more for each
 * time that it was put off.
 *
 * Flow     agent_asked_take() per question, agent_asked_put_off() per deferral.
 */
#ifndef CKPT_TESTS_SIM_AGENT_ASKED_H
#define CKPT_TESTS_SIM_AGENT_ASKED_H

#include <stdbool.h>

struct agent_asked;

enum agent_question { QUESTION_NEW, QUESTION_AFTER_DEFERRAL, QUESTION_TWICE };

struct agent_asked *agent_asked_new(void);
void agent_asked_free(struct agent_asked *asked);

enum agent_question agent_asked_take(struct agent_asked *asked, unsigned agent, unsigned rank,
                                     const char *hint);
/* Another rank was asked for it. */
bool agent_asked_before(const struct agent_asked *asked, unsigned agent, unsigned rank,
                        const char *hint);
/* Of a question that was taken: all ranks of the node may be asked it again. */
void agent_asked_put_off(struct agent_asked *asked, unsigned agent, const char *hint);

#endif
