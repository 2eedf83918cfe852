/* The verbs of ckpt-run, which run no application. See run_verbs.h. */
#include "src/agent/run/run_verbs.h"

#include <string.h>

#include "src/agent/run/run_end.h"
#include "src/agent/run/run_register.h"
#include "src/agent/run/run_status.h"
#include "src/base/check.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {{"status", run_status}, {"end", run_end}, {"register", run_register}};

bool run_verb(int argc, char **argv, int *ret_code)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            *ret_code = verbs[i].run(argc - 1, argv + 1);
            return true;
        }
    }
    return false;
}
