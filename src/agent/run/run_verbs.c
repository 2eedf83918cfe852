/* The verbs of ckpt-run, which run no application. See run_verbs.h. */
#include "src/agent/run/run_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/alone/alone_agent.h"
#include "src/agent/run/run_end.h"
#include "src/agent/run/run_get.h"
#include "src/agent/run/run_import.h"
#include "src/agent/run/run_import_files.h"
#include "src/agent/run/run_owner.h"
#include "src/agent/run/run_profile.h"
#include "src/agent/run/run_register.h"
#include "src/agent/run/run_status.h"
#include "src/agent/run/run_try.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/base/usage.h"
#include "src/cli/owner.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {{"status", run_status},
             {"end", run_end},
             {"register", run_register},
             {"get", run_get},
             {"try", run_try},
             {IMPORT_FILES_VERB, run_import_files}, /* these last two no user types */
             {ALONE_VERB, alone_agent}};

enum { OWN_VERBS = ARRAY_COUNT(verbs) - 2, VERB_SHOWN_BYTES = 65 };

/* The verbs of this file, then the owner's. */
static const char *next_verb(const void *context, size_t i)
{
    static const char import[] = "import";

    (void)context;
    if (i < OWN_VERBS)
        return verbs[i].name;
    return i == OWN_VERBS ? import : owner_verb_name(i - OWN_VERBS - 1);
}

/* A first word that is no option, and no verb. */
static void refuse_verb(const char *word)
{
    const char *near = text_nearest(word, next_verb, NULL);
    char shown[VERB_SHOWN_BYTES], text[2 * VERB_SHOWN_BYTES + 128];

    text_shown(word, shown, sizeof(shown));
    if (near != NULL)
        snprintf(text, sizeof(text), "unknown verb \"%s\"; the nearest is ckpt-run %s", shown,
                 near);
    else
        snprintf(text, sizeof(text),
                 "unknown verb \"%s\"; a command stands behind the job: ckpt-run --alloc ID -- %s",
                 shown, shown);
    usage_refuse("ckpt-run", "", text);
}

bool run_answered(int argc, char **argv, struct run_options *ret_options, int *ret_code)
{
    struct err err;

    for (size_t i = 0; argc > 1 && i < ARRAY_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            *ret_code = verbs[i].run(argc - 1, argv + 1);
            return true;
        }
    }
    if (argc > 1 && strcmp(argv[1], "import") == 0)
        return run_import(argc - 1, argv + 1, ret_options, ret_code);
    if (argc > 1 && owner_verb(argv[1]) != NULL) {
        *ret_code = run_owner(argc - 1, argv + 1);
        return true;
    }
    *ret_code = RUN_EXIT_SELF;
    if (argc > 1 && argv[1][0] != '-') {
        refuse_verb(argv[1]);
        return true;
    }
    if (run_options_parse(argc, argv, ret_options, &err) != 0) {
        usage_refuse("ckpt-run", "", err.text);
        return true;
    }
    if (ret_options->help)
        run_usage(stdout);
    else if (ret_options->version)
        printf("ckpt-run %s\n", build_text);
    else if (!ret_options->quiet)
        run_profile_say();
    *ret_code = EXIT_SUCCESS;
    return ret_options->help || ret_options->version;
}
