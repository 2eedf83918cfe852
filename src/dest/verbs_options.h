/* Shared by verbs.c and verbs_options.c only: what a verb is asked, taken from its arguments.
 *
 * Shapes   each option is given once, with a value; one that a verb does not take is an error, so
 *          that a misspelt --rate never means unlimited.
 * Errors   ERR_INVALID alone.
 */
#ifndef CKPT_DEST_VERBS_OPTIONS_H
#define CKPT_DEST_VERBS_OPTIONS_H

#include "src/dest/destination.h"

enum option {
    PREFIX,
    PATH,
    PART,
    SOURCE,
    TO,
    RATE,
    MANIFEST_SHA256,
    NAME,
    SERIES,
    KEEP,
    KEEP_BYTES,
    AS,
    UID,
    THREADS,
    READ_BACK,
    GENERATIONS,
    OWNER,
    COPY,
    MANIFEST,
    MANIFEST_TO,
    KEEP_FREE,
    FROM,
    COMPRESS,
    CLUSTER,
    AFTER,
    MIN_AGE,
    WIPE,
    BYTES,
    BESIDE,
    CLUSTER_ID,
    DOWNLOADED,
    MOST,
    OPTION_COUNT
};
#define BIT(option) (1u << (option))

struct request {
    /* Of --prefix, or of --path without one. NULL: the verb is not about a destination. */
    const struct destination_ops *destination;
    const char *values[OPTION_COUNT];
    struct destination_how how;
    struct mark_claim claim; /* of --cluster */
    /* of --keep: the newest, of days, of weeks, of months */
    uint64_t keep[4];
    uint64_t keep_bytes, keep_free, generations, min_age, bytes, most;
};

/* Sets of options, by their bits. */
struct options_taken {
    const char *verb;
    unsigned required;
    unsigned allowed; /* beside the required ones */
};

/* The text of `ckpt-worker --help`. */
extern const char verbs_usage[];

/* The arguments behind the verb. --wipe holds from then on (tree.h). */
int options_read(int argc, char *const *argv, const struct options_taken *taken,
                 struct request *ret_request, struct err *err);

#endif
