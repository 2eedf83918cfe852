/* A drill's report as one page of HTML, with the history. See drill.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "src/cli/drill.h"
#include "src/cli/human.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name

static const char style[] =
    "body{font:15px/1.5 sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:1.6em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25em .6em;"
    "border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right}"
    ".PASSED,.ok{color:#176b2c}.FAILED,.ABORTED{color:#a3181d}b.v{font-size:1.2em}"
    "@media print{body{margin:0}}";

/* Names come from members, and mean nothing to a browser. */
static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else
            fputc(*text, file);
    }
}

static void put_facts(FILE *file, const Ckpt__V1__DrillResult *result)
{
    struct drill_facts facts;

    drill_facts(result, &facts);
    fputs("<h2>What was measured</h2>\n<table>\n", file);
    for (size_t i = 0; i < facts.count; i++) {
        fprintf(file, "<tr><th>%s</th><td>", facts.items[i].name);
        put_escaped(file, facts.items[i].text);
        fputs("</td></tr>\n", file);
    }
    fputs("</table>\n", file);
}

static void put_checks(FILE *file, const Ckpt__V1__DrillResult *result)
{
    fputs("<h2>What it had to show</h2>\n<table>\n"
          "<tr><th>check</th><th>found</th><th>at most</th><th></th></tr>\n",
          file);
    for (size_t i = 0; i < result->n_checks; i++) {
        const Ckpt__V1__DrillCheck *check = result->checks[i];

        fputs("<tr><td>", file);
        put_escaped(file, check->name);
        fprintf(file,
                "</td><td class=n>%" PRIu64 "</td><td class=n>%" PRIu64
                "</td><td class=%s>%s</td></tr>\n",
                check->value, check->limit, check->failed ? "FAILED" : "ok",
                check->failed ? "FAILED" : "ok");
    }
    fputs("</table>\n", file);
}

static void put_history(FILE *file, const Ckpt__V1__ListDrillsReply *history)
{
    fputs(
        "<h2>All drills</h2>\n<table>\n"
        "<tr><th>drill</th><th>kind</th><th>begun</th><th>result</th><th>away at most</th></tr>\n",
        file);
    for (size_t i = 0; i < history->n_drills; i++) {
        const Ckpt__V1__Drill *drill = history->drills[i]->drill;
        char kind[64], state[64], at[HUMAN_BYTES];

        drill_state_word(drill->state, state);
        fprintf(file,
                "<tr><td class=n>%" PRIu64 "</td><td>%s</td><td>%s</td><td class=%s>%s</td>"
                "<td class=n>%" PRIu64 " ms</td></tr>\n",
                drill->drill_id, drill_kind_word(drill->kind, kind),
                human_instant(drill->begun_ms, at), state, state, history->drills[i]->away_max_ms);
    }
    fputs("</table>\n", file);
}

static void put_head(FILE *file, const Ckpt__V1__DrillResult *result,
                     const Ckpt__V1__ListDrillsReply *history)
{
    const Ckpt__V1__Drill *drill = result->drill;
    char kind[64], state[64], at[HUMAN_BYTES];

    drill_kind_word(drill->kind, kind);
    drill_state_word(drill->state, state);
    fprintf(file,
            "<!doctype html>\n<html lang=en><meta charset=utf-8>\n<title>Drill %" PRIu64
            ": %s, %s</title>\n<style>%s</style>\n<h1>Drill %" PRIu64 ": %s</h1>\n<p>Cluster ",
            drill->drill_id, kind, state, style, drill->drill_id, kind);
    put_escaped(file, history->cluster_id);
    fprintf(file, ", %s. <b class=\"v %s\">%s</b></p>\n", human_instant(drill->begun_ms, at), state,
            state);
    if (drill->state == STATE(ABORTED))
        fputs("<p>It ended before the fault: nothing was failed, and nothing is proven.</p>\n",
              file);
}

int drill_html(FILE *file, const Ckpt__V1__DrillResult *result,
               const Ckpt__V1__ListDrillsReply *history)
{
    put_head(file, result, history);
    put_facts(file, result);
    if (drill_is_over(result->drill))
        put_checks(file, result);
    put_history(file, history);
    fputs("</html>\n", file);
    return fflush(file) == 0 && !ferror(file) ? 0 : -1;
}
