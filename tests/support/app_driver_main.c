/* Calls libckptapp as its standard input says, one call a line, and says what came of it: the same
 * words as tests/support/app_driver.py says of the Python module. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/ckptapp.h"

static const char *outcome_name(int outcome)
{
    return outcome == CKPT_NOW ? "now" : "go on"; /* Python has no LATER */
}

static const char *error_name(void)
{
    return errno == ESTALE                      ? "withdrawn"
           : errno == ENOTCONN                  ? "away"
           : errno == EINVAL || errno == ERANGE ? "wrong"
                                                : "failed";
}

static const char *result_name(int result)
{
    return result == 0 ? "said" : error_name();
}

static void tell(struct ckpt *ckpt)
{
    const char *directory = ckpt_directory(ckpt), *hint = ckpt_hint(ckpt);

    printf("%s %s %" PRIu64 " part %" PRIu32 " of %" PRIu32 " rank %" PRId64 "\n",
           hint == NULL ? "-" : hint, directory == NULL ? "-" : directory, ckpt_deadline_ms(ckpt),
           ckpt_part(ckpt), ckpt_parts(ckpt), ckpt_rank(ckpt));
}

int main(void)
{
    char line[512], verb[32], word[400];
    struct ckpt *ckpt = ckpt_open(NULL);

    printf("%s\n", ckpt == NULL ? errno == 0 ? "null" : "wrong" : "open");
    while (fflush(stdout) == 0 && fgets(line, sizeof(line), stdin) != NULL) {
        uint64_t number, second;

        word[0] = '\0';
        if (sscanf(line, "%31s %399[^\n]", verb, word) < 1)
            continue;
        number = strtoull(word, NULL, 10);
        second = strchr(word, ' ') == NULL ? 0 : strtoull(strchr(word, ' ') + 1, NULL, 10);
        if (strcmp(verb, "poll") == 0)
            printf("%s\n", outcome_name(ckpt_poll(ckpt)));
        else if (strcmp(verb, "barrier") == 0)
            printf("%s\n", outcome_name(ckpt_barrier(ckpt, number)));
        else if (strcmp(verb, "step") == 0) {
            ckpt_step(ckpt, number);
            printf("said\n");
        } else if (strcmp(verb, "done") == 0)
            printf("%s\n", result_name(ckpt_done(ckpt, number, second)));
        else if (strcmp(verb, "label") == 0)
            printf("%s\n", result_name(ckpt_done_label(ckpt, word, 77)));
        else if (strcmp(verb, "failed") == 0)
            printf("%s\n", result_name(ckpt_failed(ckpt, word)));
        else if (strcmp(verb, "defer") == 0)
            printf("%s\n", result_name(ckpt_defer(ckpt, number)));
        else if (strcmp(verb, "progress") == 0)
            printf("%s\n", result_name(ckpt_progress(ckpt, (uint32_t)number)));
        else if (strcmp(verb, "saved_at") == 0)
            printf("%s\n", result_name(ckpt_saved_at(ckpt, number)));
        else if (strcmp(verb, "request") == 0)
            printf("%s\n", ckpt != NULL && ckpt_request(ckpt) == 0 ? "said" : "unheard");
        else if (strcmp(verb, "restore") == 0)
            printf("%s %s\n",
                   ckpt_restore_directory(ckpt) == NULL ? "-" : ckpt_restore_directory(ckpt),
                   ckpt_restore_label(ckpt) == NULL ? "-" : ckpt_restore_label(ckpt));
        else if (strcmp(verb, "tell") == 0)
            tell(ckpt);
        else if (strcmp(verb, "error") == 0)
            printf("%s\n", ckpt_error(ckpt));
        else
            printf("%s is no call\n", verb);
    }
    ckpt_close(ckpt);
    return 0;
}
