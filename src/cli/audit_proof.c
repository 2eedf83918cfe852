/* See audit_proof.h. */
#include "src/cli/audit_proof.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"

void audit_proof_close(struct audit_proof *proof)
{
    for (size_t i = 0; i < proof->count; i++)
        free(proof->heads[i].file);
    free(proof->heads);
    *proof = (struct audit_proof){.heads = NULL};
}

void audit_proof_add(struct audit_proof *proof, const struct signed_head *head, const char *file)
{
    if (proof->count == proof->capacity) {
        proof->capacity = proof->capacity == 0 ? 8 : 2 * proof->capacity;
        proof->heads = check_realloc(proof->heads, proof->capacity, sizeof(*proof->heads));
    }
    proof->heads[proof->count++] =
        (struct audit_proof_head){.head = *head, .file = check_strdup(file)};
}

/* ---- reading ---- */

static bool take_text(const json_t *object, const char *name, char *text, size_t size)
{
    const char *value = json_string_value(json_object_get(object, name));

    if (value == NULL || strlen(value) >= size)
        return false;
    snprintf(text, size, "%s", value);
    return true;
}

static bool take_number(const json_t *object, const char *name, uint64_t *ret_value)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *ret_value = (uint64_t)json_integer_value(value);
    return true;
}

static bool take_head(const json_t *object, struct signed_head *head)
{
    uint64_t records;

    return take_text(object, "cluster", head->cluster, sizeof(head->cluster)) &&
           take_text(object, "member", head->member, sizeof(head->member)) &&
           take_text(object, "key", head->key_id, sizeof(head->key_id)) &&
           take_text(object, "hash", head->hash, sizeof(head->hash)) &&
           take_text(object, "signature", head->signature, sizeof(head->signature)) &&
           take_number(object, "epoch", &head->epoch) &&
           take_number(object, "first", &head->first) && take_number(object, "last", &head->last) &&
           take_number(object, "at_ms", &head->at_ms) && take_number(object, "records", &records) &&
           id_valid(head->cluster) && id_valid(head->member) && head->first > 0 &&
           head->first <= head->last && records == head->last + 1 - head->first;
}

int audit_proof_read(struct audit_proof *proof, const char *path, struct err *err)
{
    struct signed_head head = {.first = 0};
    struct buf name = {0};
    json_t *object;
    json_error_t fault;
    FILE *file;
    int status = 0;

    buf_printf(&name, "%s" SIGNED_HEAD_SUFFIX, path);
    buf_append(&name, "", 1);
    file = fopen((const char *)name.bytes, "re");
    if (file == NULL) {
        if (errno != ENOENT)
            status = err_set(err, ERR_IO, "cannot read %s: %s", name.bytes, strerror(errno));
        buf_close(&name);
        return status;
    }
    object = json_loadf(file, JSON_REJECT_DUPLICATES, &fault);
    fclose(file);
    if (take_head(object, &head))
        audit_proof_add(proof, &head, (const char *)name.bytes);
    else
        status = err_set(err, ERR_INVALID, "%s: is no signed head of the audit trail", name.bytes);
    json_decref(object);
    buf_close(&name);
    return status;
}

/* ---- checking ---- */

/* The place of the head's last link, or SIZE_MAX. */
static size_t find_place(const struct audit_chain *chain, const struct signed_head *head)
{
    char hash[BLAKE2B_TEXT_BYTES];

    for (size_t i = chain->count; i-- > 0;)
        if (chain->places[i].last == head->last &&
            strcmp(blake2b_text(chain->places[i].hash, hash), head->hash) == 0)
            return i;
    return SIZE_MAX;
}

/* The head alone; its records are looked for afterwards. */
static bool head_is_good(const struct audit_proof_head *item, struct audit_chain *chain,
                         const struct sign_public *keys)
{
    const struct signed_head *head = &item->head;

    if (!sign_public_has(keys, head->key_id))
        audit_chain_tell(chain,
                         "%s: is signed by key %s of member %s, which is not among the public keys",
                         item->file, head->key_id, head->member);
    else if (!signed_head_holds(head, keys))
        audit_chain_tell(chain, "%s: the signature by key %s does not hold: the head was changed",
                         item->file, head->key_id);
    else
        return true;
    return false;
}

/* Marks the link of the head; of another cluster's nothing is believed. */
static bool head_is_met(const struct audit_proof_head *item, struct audit_chain *chain,
                        bool *proved)
{
    const struct signed_head *head = &item->head;
    size_t place = find_place(chain, head);

    if (place == SIZE_MAX) {
        audit_chain_tell(chain,
                         "%s: member %s has signed records %" PRIu64 " to %" PRIu64
                         " with hash %.64s, and no link has it: they were changed or cut off",
                         item->file, head->member, head->first, head->last, head->hash);
        return false;
    }
    proved[place] = true;
    if (chain->places[0].first <= head->first)
        return true;
    audit_chain_tell(chain,
                     "%s: member %s has signed records from %" PRIu64
                     " on, and the first one here is %" PRIu64 ": the others were cut off, or lie "
                     "in a file that is not here",
                     item->file, head->member, head->first, chain->places[0].first);
    return false;
}

/* The link before, by its hash; SIZE_MAX: it is not here. */
static size_t place_before(const struct audit_chain *chain, size_t i)
{
    const struct audit_place *place = &chain->places[i];

    for (size_t k = i; k-- > 0;)
        if (chain->places[k].last + 1 == place->first &&
            memcmp(chain->places[k].hash, place->previous, BLAKE2B_BYTES) == 0)
            return k;
        else if (chain->places[k].epoch == place->epoch)
            break; /* it would be the one */
    return SIZE_MAX;
}

/* A link that is proved proves all before it. */
static void tell_unproved(struct audit_chain *chain, bool *proved)
{
    size_t count = 0, first = SIZE_MAX;

    for (size_t i = chain->count; i-- > 0;) {
        size_t before = proved[i] ? place_before(chain, i) : SIZE_MAX;

        if (before != SIZE_MAX)
            proved[before] = true;
        if (!proved[i]) {
            count++;
            first = i;
        }
    }
    if (count > 0)
        audit_chain_tell(chain,
                         "%s:%" PRIu64 ": no signed head proves %zu links, the first with record "
                         "%" PRIu64 ": they were added, or written a moment ago: copy FILE.sig "
                         "again, before FILE",
                         chain->places[first].file, chain->places[first].number, count,
                         chain->places[first].first);
}

static void tell_clusters(const struct audit_proof *proof, struct audit_chain *chain)
{
    for (size_t i = 1; i < proof->count; i++)
        if (strcmp(proof->heads[i].head.cluster, proof->heads[0].head.cluster) != 0) {
            audit_chain_tell(chain, "%s is of cluster %s, and %s of cluster %s: verify each alone",
                             proof->heads[0].file, proof->heads[0].head.cluster,
                             proof->heads[i].file, proof->heads[i].head.cluster);
            return;
        }
}

const struct signed_head *audit_proof_check(const struct audit_proof *proof,
                                            struct audit_chain *chain,
                                            const struct sign_public *keys, uint64_t since_ms)
{
    bool *proved = check_calloc(chain->count + 1, sizeof(*proved));
    const struct signed_head *newest = NULL;

    for (size_t i = 0; i < proof->count && chain->count > 0; i++) {
        const struct audit_proof_head *item = &proof->heads[i];

        if (head_is_good(item, chain, keys) && head_is_met(item, chain, proved) &&
            (newest == NULL || item->head.at_ms > newest->at_ms))
            newest = &item->head;
    }
    tell_clusters(proof, chain);
    tell_unproved(chain, proved);
    if (newest != NULL && newest->at_ms < since_ms)
        audit_chain_tell(chain,
                         "the newest head was signed at %" PRIu64 " ms since 1970, before --since: "
                         "these files are an earlier copy, or nothing has been signed since",
                         newest->at_ms);
    free(proved);
    return newest;
}
