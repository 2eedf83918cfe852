/* See verbs_options.h. */
#include "src/dest/verbs_options.h"

#include <stdlib.h>
#include <string.h>

#include "src/dest/manifest.h"
#include "src/dest/mark.h"
#include "src/dest/pool.h"
#include "src/dest/tree.h"

static const char *const option_names[OPTION_COUNT] = {"--prefix",
                                                       "--path",
                                                       "--part",
                                                       "--source",
                                                       "--to",
                                                       "--rate",
                                                       "--manifest-sha256",
                                                       "--name",
                                                       "--series",
                                                       "--keep",
                                                       "--keep-bytes",
                                                       "--as",
                                                       "--uid",
                                                       "--threads",
                                                       "--read-back",
                                                       "--generations",
                                                       "--owner",
                                                       "--copy",
                                                       "--manifest",
                                                       "--manifest-to",
                                                       "--keep-free",
                                                       "--from",
                                                       "--compress",
                                                       "--cluster",
                                                       "--after",
                                                       "--min-age",
                                                       "--wipe",
                                                       "--bytes",
                                                       "--beside",
                                                       "--cluster-id",
                                                       "--downloaded",
                                                       "--most"};

const char verbs_usage[] =
    "usage: ckpt-worker probe   --prefix P\n"
    "       ckpt-worker prepare --prefix P --path ALLOCATION/checkpoints [--beside DIR]\n"
    "       ckpt-worker put     --prefix P --path DIR --part NAME --source DIR [--rate "
    "BYTES_PER_S]\n"
    "                           [--read-back never|sampled|always] [--generations N] "
    "[--manifest-to FILE]\n"
    "                           [--compress none|lz4]\n"
    "       ckpt-worker stage   --prefix P --path DIR --part NAME\n"
    "       ckpt-worker publish --prefix P --path DIR --part NAME --name FOLDER [--read-back "
    "WORD]\n"
    "       ckpt-worker verify  FOLDER [--downloaded yes]: a checkpoint or a part of one, all of "
    "it, "
    "by hand\n"
    "       ckpt-worker verify  --path DIR --part NAME [--prefix P] [--manifest-sha256 HEX]\n"
    "                           [--rate BYTES_PER_S] [--read-back sampled|always] [--as owner "
    "[--owner NAME]]\n"
    "       ckpt-worker restore --path DIR --part NAME --to DIR [--prefix P] [--manifest-sha256 "
    "HEX]\n"
    "                           [--rate BYTES_PER_S] [--copy DIR [--from copy]]\n"
    "       ckpt-worker get     as restore, without --copy: files have holes for their zeros\n"
    "       ckpt-worker retain  --source DIR --manifest FILE --path COPY_DIR --part NAME "
    "[--keep-free BYTES]\n"
    "       ckpt-worker space   --path DIR\n"
    "       ckpt-worker reserve --path DIR --name NAME [--bytes N] [--most N]\n"
    "       ckpt-worker collect --prefix P --path DIR [--as owner [--owner NAME]] [--wipe yes]\n"
    "       ckpt-worker scan    --prefix P --cluster MARK [--after PATH] [--min-age SECONDS]\n"
    "       ckpt-worker abandon --path DIR --part NAME [--prefix P]\n"
    "       ckpt-worker keep    --source FILE --to DIR --name NAME --series PREFIX\n"
    "                           --keep N[,DAYS,WEEKS,MONTHS] [--keep-bytes B]\n"
    "       ckpt-worker user    --name NAME\n"
    "       ckpt-worker name    --uid UID\n"
    "       ckpt-worker look    --path PATH\n"
    "       ckpt-worker sweep   --path DIR\n"
    "prepare, put, stage, publish, verify, restore, get, abandon, retain, space, reserve and sweep "
    "take "
    "--as "
    "UID:GID[:GROUP,...]:\nas that user, when started by root.\n"
    "put, publish, verify, restore and get take --threads N: 1 to 8, else two for each processor "
    "that "
    "may "
    "be "
    "used.\n"
    "collect and verify take --as owner: as whom the job's folder belongs to, or NAME where that "
    "cannot be "
    "seen.\n"
    "probe, prepare, put, stage, publish, collect and abandon take --cluster MARK[@EPOCH] "
    "[--cluster-id ID]:\nwhat another cluster wrote is refused, and all when a later epoch of this "
    "one has the target.\n"
    "put, stage, publish, collect, abandon and sweep take --wipe yes: files are overwritten before "
    "they are removed.\n"
    "One blocking job on a destination; started by ckptd and ckpt-agentd, and good by hand. --path "
    "is\n"
    "the checkpoint's folder, --prefix the destination that holds it.\n"
    "exit codes: 0 done, 2 usage, 3 not found, 4 corrupt, 5 unavailable (retry), 6 empty, 7 "
    "refused\n";

/* Plain digits: workers are started by daemons, which have read units already. */
static int parse_number(const char *name, const char *text, uint64_t *ret_number, struct err *err)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return err_set(err, ERR_INVALID, "%s \"%.64s\" is not a whole number%s", name, text,
                       strcmp(name, "--rate") == 0 ? " of bytes per second; 0 is unlimited" : "");
    *ret_number = strtoull(text, NULL, 10);
    return 0;
}

/* "N", or "N,DAYS,WEEKS,MONTHS" */
static int parse_keep(const char *text, uint64_t ret_numbers[4], struct err *err)
{
    char words[80], *rest = words, *word;
    size_t count = 0;

    snprintf(words, sizeof(words), "%s", text);
    for (; (word = strsep(&rest, ",")) != NULL; count++) {
        if (count == 4)
            break;
        if (parse_number("--keep", word, &ret_numbers[count], err) != 0)
            return -1;
    }
    return count == 1 || (count == 4 && word == NULL)
               ? 0
               : err_set(err, ERR_INVALID, "--keep \"%.64s\" is neither N nor N,DAYS,WEEKS,MONTHS",
                         text);
}

static int parse_threads(const char *text, unsigned *ret_threads, struct err *err)
{
    uint64_t threads;

    if (parse_number("--threads", text, &threads, err) != 0)
        return -1;
    if (threads < 1 || threads > POOL_THREADS_MAX)
        return err_set(err, ERR_INVALID, "--threads %.64s is not 1 to %d", text, POOL_THREADS_MAX);
    *ret_threads = (unsigned)threads;
    return 0;
}

/* Those that are no texts. */
static int parse_value(enum option option, const char *value, struct request *request,
                       struct err *err)
{
    uint8_t digest[SHA256_BYTES];

    switch ((int)option) {
    case RATE:
        return parse_number("--rate", value, &request->how.rate_bytes_per_s, err);
    case KEEP:
        return parse_keep(value, request->keep, err);
    case KEEP_BYTES:
        return parse_number("--keep-bytes", value, &request->keep_bytes, err);
    case KEEP_FREE:
        return parse_number("--keep-free", value, &request->keep_free, err);
    case MIN_AGE:
        return parse_number("--min-age", value, &request->min_age, err);
    case CLUSTER:
        if (!mark_claim_parse(value, &request->claim))
            return err_set(
                err, ERR_INVALID,
                "--cluster \"%.64s\" is not the mark of a cluster, 16 digits of 0-9 a-f, "
                "or MARK@EPOCH",
                value);
        return 0;
    case MOST:
        return parse_number("--most", value, &request->most, err);
    case BYTES:
        return parse_number("--bytes", value, &request->bytes, err);
    case THREADS:
        return parse_threads(value, &request->how.threads, err);
    case GENERATIONS:
        if (parse_number("--generations", value, &request->generations, err) != 0)
            return -1;
        if (request->generations > MANIFEST_GENERATION_MAX)
            return err_set(err, ERR_INVALID, "--generations %.64s is over %d", value,
                           MANIFEST_GENERATION_MAX);
        return 0;
    case MANIFEST_SHA256:
        if (strlen(value) == SHA256_HEX_BYTES - 1 && sha256_parse(value, digest) == 0)
            return 0;
        return err_set(err, ERR_INVALID,
                       "--manifest-sha256 \"%.80s\" is not the 64 lower-case digits that sha256sum "
                       "MANIFEST prints",
                       value);
    case READ_BACK:
        if (!sample_parse(value, &request->how.read_back))
            return err_set(err, ERR_INVALID,
                           "--read-back \"%.64s\" is not never, sampled or always", value);
        return 0;
    case COMPRESS:
        request->how.compresses = strcmp(value, "lz4") == 0;
        if (!request->how.compresses && strcmp(value, "none") != 0)
            return err_set(err, ERR_INVALID, "--compress \"%.64s\" is not none or lz4", value);
        return 0;
    case WIPE:
        if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
            return err_set(err, ERR_INVALID, "--wipe \"%.64s\" is neither yes nor no", value);
        tree_wipe(value[0] == 'y');
        return 0;
    case DOWNLOADED:
        if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
            return err_set(err, ERR_INVALID, "--downloaded \"%.64s\" is neither yes nor no", value);
        return 0;
    case FROM:
        if (strcmp(value, "copy") != 0)
            return err_set(err, ERR_INVALID, "--from \"%.64s\" is not copy", value);
        return 0;
    default:
        return 0;
    }
}

static int parse_option(const char *name, const char *value, unsigned allowed,
                        struct request *request, struct err *err)
{
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(option_names[i], name) != 0 || (allowed & BIT(i)) == 0)
            continue;
        if (value == NULL || *value == '\0')
            return err_set(err, ERR_INVALID, "%s needs a value", name);
        if (request->values[i] != NULL)
            return err_set(err, ERR_INVALID, "%s is given twice", name);
        request->values[i] = value;
        return parse_value((enum option)i, value, request, err);
    }
    return err_set(err, ERR_INVALID, "this verb has no argument \"%.64s\"", name);
}

int options_read(int argc, char *const *argv, const struct options_taken *taken,
                 struct request *ret_request, struct err *err)
{
    struct request request = {0};

    for (int i = 0; i < argc; i += 2) {
        if (parse_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL,
                         taken->required | taken->allowed, &request, err) != 0)
            return -1;
    }
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if ((taken->required & BIT(i)) != 0 && request.values[i] == NULL)
            return err_set(err, ERR_INVALID, "%s needs %s", taken->verb, option_names[i]);
    }
    *ret_request = request;
    return 0;
}
