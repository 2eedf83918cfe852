/* Drills as people read them: what a report says, once for its two forms.
 *
 * Flow     drill_facts() makes the lines of one drill; drill_text() prints them below each other,
 *          drill_html() as a page that needs nothing else.
 * Shapes   texts of members are made safe by whoever prints them.
 */
#ifndef CKPT_CLI_DRILL_H
#define CKPT_CLI_DRILL_H

#include "ckpt/v1/operator.pb-c.h"
#include "src/cli/cli.h"

enum { DRILL_FACTS_MAX = 16, DRILL_FACT_BYTES = 400 };

struct drill_facts {
    size_t count;
    struct drill_fact {
        const char *name;
        char text[DRILL_FACT_BYTES];
    } items[DRILL_FACTS_MAX];
};

/* "leader-kill" */
const char *drill_kind_word(Ckpt__V1__DrillKind kind, char text[64]);
/* "PASSED" */
const char *drill_state_word(Ckpt__V1__DrillState state, char text[64]);
bool drill_is_over(const Ckpt__V1__Drill *drill);
/* The name of a member that takes part; "member 4": it does not. */
const char *drill_member(const Ckpt__V1__Drill *drill, uint64_t member_id, char text[64]);
/* The measurements, each with its meaning. */
void drill_facts(const Ckpt__V1__DrillResult *result, struct drill_facts *ret_facts);
void drill_text(struct cli *cli, const Ckpt__V1__DrillResult *result);
/* The page, with the history below. 0, or -1 with errno. */
int drill_html(FILE *file, const Ckpt__V1__DrillResult *result,
               const Ckpt__V1__ListDrillsReply *history);

#endif
