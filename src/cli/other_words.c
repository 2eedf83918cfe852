/* Words of other systems. See other_words.h. */
#include "src/cli/other_words.h"

#include <string.h>

#include "src/base/check.h"

/* Those with a second word come before those without. */
static const struct {
    const char *first, *second; /* NULL: any, or none */
    const char *line;
} rows[] = {
    {"backup", "restore", "ckptd --config FILE --bootstrap --restore BACKUP (RUNBOOK, Restore)"},
    {"backup", "schedule",
     "backups: {directory: DIR, interval: 1h} in ckptd.yaml (RUNBOOK, Backup)"},
    {"cluster", "recover", "ckptd --config FILE --recover (RUNBOOK, Quorum lost)"},
    {"cluster", "upgrade", "ckptctl upgrade status"},
    {"cluster", "status", "ckptctl status"},
    {"config", "set", "ckptctl policy set KEY=VALUE"},
    {"config", "diff", "ckptctl audit list"},
    {"config", "history", "ckptctl audit list"},
    {"config", NULL, "ckptctl policy get"},
    {"settings", NULL, "ckptctl policy get"},
    {"destination", NULL, "ckptctl targets"},
    {"destinations", NULL, "ckptctl targets"},
    {"storage", NULL, "ckptctl targets"},
    {"stores", NULL, "ckptctl targets"},
    {"members", NULL, "ckptctl member list"},
    {"replicas", NULL, "ckptctl member list"},
    {"leader", NULL, "ckptctl status"},
    {"health", NULL, "ckptctl status"},
    {"info", NULL, "ckptctl status"},
    {"step-down", NULL, "ckptctl transfer"},
    {"failover", NULL, "ckptctl drill run leader-kill   or: ckptctl transfer"},
    {"replay", NULL, "ckptctl whatif --trace FILE"},
    {"simulate", NULL, "ckptctl whatif --scenario NAME"},
    {"usage", NULL, "ckptctl losses"},
    {"logs", NULL, "ckptctl events"},
    {"log", NULL, "ckptctl events"},
    {"list", NULL, "ckptctl jobs"},
    {"ls", NULL, "ckptctl jobs"},
    {"ps", NULL, "ckptctl jobs"},
    {"squeue", NULL, "ckptctl jobs"},
    {"bjobs", NULL, "ckptctl jobs"},
    {"show", NULL, "ckptctl job JOB"},
    {"describe", NULL, "ckptctl job JOB   or: ckptctl explain JOB"},
    {"submit", NULL, "ckptctl register"},
    {"kill", NULL, "ckptctl end JOB"},
    {"stop", NULL, "ckptctl end JOB   or: ckptctl preempt"},
    {"scancel", NULL, "ckptctl end JOB"},
    {"requeue", NULL, "ckptctl migrate JOB   or: ckptctl restart JOB"},
    {"resume", NULL, "ckptctl restart JOB   or: ckptctl cluster resume"},
    {"save", NULL, "ckptctl hint JOB --wait"},
    {"snapshot", NULL, "ckptctl hint JOB --wait"},
    {"bchkpnt", NULL, "ckptctl hint JOB   or: deploy/lsf/bchkpnt, which takes its options"},
    {"brestart", NULL, "ckptctl restart JOB"},
    {"bmig", NULL, "ckptctl migrate JOB"},
    {"bhist", NULL, "ckptctl events JOB"},
    {"compat", "bchkpnt", "ckptctl hint JOB   or: deploy/lsf/bchkpnt, which takes its options"},
    {"compat", "brestart", "ckptctl restart JOB"},
    {"compat", "bmig", "ckptctl migrate JOB"},
    {"compat", "bhist", "ckptctl events JOB"},
    {"cordon", NULL, "ckptctl node drain NODE"},
    {"uncordon", NULL, "ckptctl node undrain NODE"},
    {"drain", NULL, "ckptctl node drain NODE"},
    {"cert", NULL, "ckptctl tls show FILE"},
    {"certs", NULL, "ckptctl tls show FILE"},
};

const char *other_words_line(const char *const words[2])
{
    CHECK(words[0] != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (strcmp(rows[i].first, words[0]) == 0 &&
            (rows[i].second == NULL || (words[1] != NULL && strcmp(rows[i].second, words[1]) == 0)))
            return rows[i].line;
    return NULL;
}

const char *other_words_at(size_t i)
{
    return i < ARRAY_COUNT(rows) ? rows[i].line : NULL;
}
