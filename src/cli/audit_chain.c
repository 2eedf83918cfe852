/* The chain of the audit trail. See audit_chain.h. */
#include "src/cli/audit_chain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/audit.h"
#include "src/base/bytes.h"
#include "src/base/check.h"

enum { FOUND_BYTES = 512 };

void audit_chain_tell(struct audit_chain *chain, const char *format, ...)
{
    char text[FOUND_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    chain->found_count++;
    chain->found(chain->context, text);
}

void audit_chain_close(struct audit_chain *chain)
{
    free(chain->places);
    *chain = (struct audit_chain){.places = NULL};
}

bool audit_link_next(const uint8_t **bytes, size_t *length, const uint8_t **ret_link,
                     size_t *ret_length)
{
    uint64_t link;

    CHECK(*bytes != NULL || *length == 0);
    if (*length < FSM_AUDIT_LENGTH_BYTES)
        return false;
    link = bytes_get(*bytes, FSM_AUDIT_LENGTH_BYTES);
    if (link > FSM_AUDIT_LINK_MAX_BYTES || link > *length - FSM_AUDIT_LENGTH_BYTES)
        return false;
    *ret_link = *bytes + FSM_AUDIT_LENGTH_BYTES;
    *ret_length = link;
    *bytes += FSM_AUDIT_LENGTH_BYTES + link;
    *length -= FSM_AUDIT_LENGTH_BYTES + link;
    return true;
}

static void add_place(struct audit_chain *chain, const struct audit_place *place)
{
    if (chain->count == chain->capacity) {
        chain->capacity = chain->capacity == 0 ? 1024 : 2 * chain->capacity;
        chain->places = check_realloc(chain->places, chain->capacity, sizeof(*chain->places));
    }
    chain->places[chain->count++] = *place;
}

void audit_chain_add(struct audit_chain *chain, const uint8_t *bytes, size_t length,
                     const char *file)
{
    struct audit_place place = {.file = file, .number = 1};
    const uint8_t *link;
    size_t link_length;
    bool whole = true;

    CHECK(chain->found != NULL);
    for (; audit_link_next(&bytes, &length, &link, &link_length); place.number++) {
        struct fsm_audit_place known;

        whole = fsm_audit_place(link, link_length, &known);
        if (!whole)
            break;
        place.epoch = known.epoch;
        place.first = known.first;
        place.last = known.last;
        memcpy(place.previous, known.previous, BLAKE2B_BYTES);
        blake2b(link, link_length, place.hash);
        add_place(chain, &place);
    }
    if (!whole || length > 0)
        audit_chain_tell(chain, "%s:%" PRIu64 ": this is no link of the audit trail", file,
                         place.number);
}

static int by_place(const void *left, const void *right)
{
    const struct audit_place *a = left, *b = right;

    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return memcmp(a->hash, b->hash, sizeof(a->hash));
}

/* Equal links of several files count once; two of the same records that differ are a finding. */
static void join_equal(struct audit_chain *chain)
{
    size_t kept = 0;

    for (size_t i = 0; i < chain->count; i++) {
        const struct audit_place *place = &chain->places[i];
        const struct audit_place *last = kept == 0 ? NULL : &chain->places[kept - 1];

        if (last != NULL && last->epoch == place->epoch && last->last >= place->first) {
            if (memcmp(last->hash, place->hash, sizeof(last->hash)) != 0)
                audit_chain_tell(chain,
                                 "%s:%" PRIu64 " and %s:%" PRIu64 ": both have record %" PRIu64
                                 " of epoch %" PRIu64 " and differ: one of them was changed",
                                 last->file, last->number, place->file, place->number, place->first,
                                 place->epoch);
            continue;
        }
        chain->places[kept++] = *place;
    }
    chain->count = kept;
}

/* Of an earlier epoch, the newest first: the link behind which another epoch goes on. */
static bool follows_earlier(const struct audit_chain *chain, size_t i)
{
    for (size_t k = i; k-- > 0;)
        if (chain->places[k].last + 1 == chain->places[i].first &&
            memcmp(chain->places[k].hash, chain->places[i].previous, BLAKE2B_BYTES) == 0)
            return true;
    return false;
}

static void look_at_pair(struct audit_chain *chain, size_t i)
{
    const struct audit_place *before = &chain->places[i - 1], *place = &chain->places[i];

    if (before->epoch != place->epoch) {
        if (!follows_earlier(chain, i))
            audit_chain_tell(
                chain,
                "%s:%" PRIu64 ": record %" PRIu64 " of epoch %" PRIu64
                " follows none of an earlier epoch: records before it are missing, or were "
                "changed",
                place->file, place->number, place->first, place->epoch);
        return;
    }
    if (before->last + 1 != place->first) {
        audit_chain_tell(chain,
                         "%s:%" PRIu64 ": records %" PRIu64 " to %" PRIu64
                         " are missing before it (the one "
                         "before them is %s:%" PRIu64 ")",
                         place->file, place->number, before->last + 1, place->first - 1,
                         before->file, before->number);
        return;
    }
    if (memcmp(before->hash, place->previous, BLAKE2B_BYTES) != 0)
        audit_chain_tell(chain,
                         "%s:%" PRIu64 ": records %" PRIu64 " to %" PRIu64 " of epoch %" PRIu64
                         " were changed: the link behind them (%s:%" PRIu64
                         ") holds another hash of them",
                         before->file, before->number, before->first, before->last, before->epoch,
                         place->file, place->number);
}

/* The first of all can be told from a later one. */
static void look_at_first(struct audit_chain *chain)
{
    static const uint8_t none[BLAKE2B_BYTES];
    const struct audit_place *first = &chain->places[0];

    if (first->first == 1 && memcmp(first->previous, none, sizeof(none)) != 0)
        audit_chain_tell(chain, "%s:%" PRIu64 ": record 1 follows another one", first->file,
                         first->number);
}

size_t audit_chain_verify(struct audit_chain *chain, const char *head)
{
    char hash[BLAKE2B_TEXT_BYTES];
    bool has_head = head == NULL;

    if (chain->count > 0) {
        qsort(chain->places, chain->count, sizeof(*chain->places), by_place);
        join_equal(chain);
        look_at_first(chain);
    }
    for (size_t i = 0; i < chain->count; i++) {
        if (i > 0)
            look_at_pair(chain, i);
        if (!has_head && strcmp(blake2b_text(chain->places[i].hash, hash), head) == 0)
            has_head = true;
    }
    if (!has_head)
        audit_chain_tell(
            chain, "no link has the hash %.64s: what that head proves was changed, or is missing",
            head);
    return chain->found_count;
}
