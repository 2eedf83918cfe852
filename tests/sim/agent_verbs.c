/* The verbs of ckpt-worker over the shards of agent_store.c. See agent_store.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_store_internal.h"

struct verb {
    struct agent_store *store;
    struct agent_files *files; /* of the node that runs it; NULL: it has none */
    const struct sim_work *work;
    const char *path, *part;
    struct sim_work_end *end;
    bool away;          /* the destination is */
    bool manifest_left; /* of a put */
    const char *copy;   /* of a restore: what became of the node's own; NULL: it was not given */
};

static int fails(struct verb *verb, int exit_code, const char *error)
{
    verb->end->exit_code = exit_code;
    snprintf(verb->end->error, sizeof(verb->end->error), "%s", error);
    verb->store->counters.failed++;
    return -1;
}

static void tells(struct verb *verb, const struct store_shard *shard, bool reused)
{
    snprintf(verb->end->output, sizeof(verb->end->output),
             "%s%s%smanifest_left=%d\nsize_bytes=%" PRIu64
             "\nfiles=%zu\nmanifest_sha256=%s\nreused=%d\nwritten_bytes=%" PRIu64 "\n",
             verb->copy == NULL ? "" : "copy=", verb->copy == NULL ? "" : verb->copy,
             verb->copy == NULL ? "" : "\n", verb->manifest_left,
             store_content_size(&shard->content), shard->content.count, shard->manifest, reused,
             reused ? 0 : store_content_size(&shard->content));
}

/* ---- put ---- */

static void copy_file(const struct agent_file *from, struct store_file *to)
{
    buf_append(&to->bytes, from->content.bytes, from->content.length);
    to->pending = false;
}

/* The files are listed now; every second one is copied as it is now, the others as they are at the
 * end: nobody may change them in between. */
/* Of checkpoints' folders: below one folder. */
static bool same_allocation(const char *a, const char *b)
{
    size_t length = (size_t)(strrchr(a, '/') - a);

    return length == (size_t)(strrchr(b, '/') - b) && strncmp(a, b, length) == 0;
}

/* Of a put that was killed, also for another checkpoint: should it still hang somewhere, it cannot
 * publish any more. */
static void drop_others(struct verb *verb)
{
    for (size_t i = verb->store->shard_count; i-- > 0;) {
        struct store_shard *shard = &verb->store->shards[i];
        if (shard->temporary && strcmp(shard->part, verb->part) == 0 &&
            same_allocation(shard->path, verb->path))
            store_shard_drop(verb->store, shard);
    }
}

static void put_begins(struct verb *verb)
{
    const char *source = sim_work_argument(verb->work, "--source");
    struct store_shard *shard;
    const struct agent_file *file;

    drop_others(verb);
    shard = store_shard_add(verb->store, verb->path, verb->part, true);
    shard->put = verb->work->arguments;
    for (size_t i = 0; (file = agent_files_below(verb->files, source, i)) != NULL; i++) {
        struct store_file *copy =
            store_content_add(&shard->content, file->path + strlen(source) + 1);
        copy->pending = true;
        if (i % 2 == 0)
            copy_file(file, copy);
    }
}

static int put_copies(struct verb *verb, struct store_shard *shard)
{
    char path[2 * STORE_PATH_BYTES];

    for (size_t i = 0; i < shard->content.count; i++) {
        struct store_file *copy = &shard->content.files[i];
        const struct agent_file *file;
        snprintf(path, sizeof(path), "%s/%s", sim_work_argument(verb->work, "--source"),
                 copy->name);
        file = agent_files_find(verb->files, path);
        if (copy->pending && file == NULL)
            return fails(verb, WORKER_EXIT_UNAVAILABLE, "a file of the source has gone");
        if (copy->pending)
            copy_file(file, copy);
    }
    return store_content_size(&shard->content) > 0
               ? 0
               : fails(verb, WORKER_EXIT_EMPTY, "the source holds no bytes");
}

/* Beside the files, for the node's own copy of them. */
static void leave_manifest(struct verb *verb, const struct store_shard *shard)
{
    const char *path = sim_work_argument(verb->work, "--manifest-to");

    verb->manifest_left = path != NULL && agent_files_write(verb->files, path, shard->manifest,
                                                            strlen(shard->manifest)) == 0;
}

static void put_ends(struct verb *verb)
{
    struct agent_store *store = verb->store;
    struct store_shard *shard = store_shard_find(store, verb->path, verb->part, true);
    struct store_shard *old;

    if (shard == NULL || shard->put != verb->work->arguments) {
        fails(verb, WORKER_EXIT_UNAVAILABLE, "its temporary folder was removed");
        return;
    }
    if (put_copies(verb, shard) != 0)
        return;
    store_content_manifest(&shard->content, shard->manifest);
    store->written(store->data, verb->work->node, sim_work_argument(verb->work, "--source"));
    leave_manifest(verb, shard);
    old = store_shard_find(store, verb->path, verb->part, false);
    if (old != NULL && !old->damaged && strcmp(old->manifest, shard->manifest) == 0) {
        store->counters.reused++;
        tells(verb, old, true);
        store_shard_drop(store, shard);
        return;
    }
    store->counters.puts++;
    tells(verb, shard, false);
    shard->temporary = false;
    if (old != NULL)
        store_shard_drop(store, old);
}

/* ---- in place ---- */

/* Those between the folder and the file. */
static void make_folders(struct agent_files *files, char *path, size_t from)
{
    for (char *end = strchr(path + from, '/'); end != NULL; end = strchr(end + 1, '/')) {
        *end = '\0';
        agent_files_make_folder(files, path); /* or it is there */
        *end = '/';
    }
}

/* Its files are the node's that writes them, until they are published. */
static void stage_ends(struct verb *verb)
{
    struct store_shard *shard;
    char folder[STORE_STAGED_BYTES];

    drop_others(verb);
    shard = store_shard_add(verb->store, verb->path, verb->part, true);
    shard->node = verb->work->node;
    snprintf(shard->staged, sizeof(shard->staged), ".%s.tmp.%016" PRIx64, verb->part,
             ++verb->store->staged_count);
    store_staged_path(shard, folder);
    make_folders(verb->files, folder, 1);
    CHECK(agent_files_make_folder(verb->files, folder) == 0);
    snprintf(verb->end->output, sizeof(verb->end->output), "name=%s\n", shard->staged);
}

static struct store_shard *staged_find(struct verb *verb, bool temporary)
{
    struct store_shard *shard = store_shard_find(verb->store, verb->path, verb->part, temporary);

    return shard != NULL && strcmp(shard->staged, sim_work_argument(verb->work, "--name")) == 0
               ? shard
               : NULL;
}

static void publish_begins(struct verb *verb)
{
    struct store_shard *shard = staged_find(verb, true);
    char folder[STORE_STAGED_BYTES];
    const struct agent_file *file;

    if (shard == NULL)
        return;
    shard->put = verb->work->arguments;
    store_content_close(&shard->content); /* of a publish that was killed */
    store_staged_path(shard, folder);
    for (size_t i = 0; (file = agent_files_below(verb->files, folder, i)) != NULL; i++)
        copy_file(file, store_content_add(&shard->content, file->path + strlen(folder) + 1));
}

/* Nobody has written there since it was hashed. */
static bool in_place_still(const struct verb *verb, const struct store_shard *shard)
{
    char folder[STORE_STAGED_BYTES], path[2 * STORE_STAGED_BYTES];
    size_t count = 0;

    store_staged_path(shard, folder);
    while (agent_files_below(verb->files, folder, count) != NULL)
        count++;
    for (size_t i = 0; i < shard->content.count; i++) {
        const struct store_file *was = &shard->content.files[i];
        const struct agent_file *is;

        snprintf(path, sizeof(path), "%s/%s", folder, was->name);
        is = agent_files_find(verb->files, path);
        if (is == NULL || is->content.length != was->bytes.length ||
            memcmp(is->content.bytes, was->bytes.bytes, was->bytes.length) != 0)
            return false;
    }
    return count == shard->content.count;
}

/* One whose predecessor was killed after it had published finds what that one did. */
static void publish_ends(struct verb *verb)
{
    struct agent_store *store = verb->store;
    struct store_shard *shard = staged_find(verb, true), *old = staged_find(verb, false);
    char folder[STORE_STAGED_BYTES];
    const char *link;

    if (old != NULL && !old->damaged) {
        tells(verb, old, false);
        return;
    }
    if (shard == NULL || shard->put != verb->work->arguments) {
        fails(verb, WORKER_EXIT_NOT_FOUND, "the folder is gone, as of one that was given up");
        return;
    }
    if (store_content_size(&shard->content) == 0) {
        fails(verb, WORKER_EXIT_EMPTY, "the folder holds no bytes");
        return;
    }
    if (!in_place_still(verb, shard)) {
        fails(verb, WORKER_EXIT_CORRUPT, "a file was written after the application had said done");
        return;
    }
    store_content_manifest(&shard->content, shard->manifest);
    store_staged_path(shard, folder);
    link = agent_files_link_to(verb->files, folder);
    if (link != NULL) /* else its attempt has ended, and nobody hears of it */
        store->written(store->data, verb->work->node, link);
    agent_files_remove(verb->files, folder);
    store->counters.published++;
    tells(verb, shard, false);
    old = store_shard_find(store, verb->path, verb->part, false);
    shard->temporary = false;
    if (old != NULL)
        store_shard_drop(store, old);
}

/* ---- reading ---- */

static struct store_shard *shard_verified(struct verb *verb)
{
    const char *manifest = sim_work_argument(verb->work, "--manifest-sha256");
    struct store_shard *shard = store_shard_find(verb->store, verb->path, verb->part, false);

    if (shard == NULL)
        fails(verb, WORKER_EXIT_NOT_FOUND, "no such shard");
    else if (shard->damaged)
        fails(verb, WORKER_EXIT_CORRUPT, "a file is not what the manifest says");
    else if (manifest != NULL && strcmp(manifest, shard->manifest) != 0)
        fails(verb, WORKER_EXIT_CORRUPT, "another manifest than the one recorded");
    else
        return shard;
    return NULL;
}

static void verify_ends(struct verb *verb)
{
    struct store_shard *shard = shard_verified(verb);

    if (shard == NULL)
        return;
    verb->store->counters.verifies++;
    tells(verb, shard, false);
    verb->store->read(verb->store->data, verb->path, verb->part);
}

static bool folder_holds(const struct agent_files *files, const char *folder,
                         const struct store_content *content)
{
    char path[2 * STORE_PATH_BYTES];
    size_t count = 0;

    while (agent_files_below(files, folder, count) != NULL)
        count++;
    if (count != content->count)
        return false;
    for (size_t i = 0; i < content->count; i++) {
        const struct store_file *file = &content->files[i];
        const struct agent_file *there;
        snprintf(path, sizeof(path), "%s/%s", folder, file->name);
        there = agent_files_find(files, path);
        if (there == NULL || there->content.length != file->bytes.length ||
            memcmp(there->content.bytes, file->bytes.bytes, file->bytes.length) != 0)
            return false;
    }
    return true;
}

/* What the node keeps of it, when that is what the manifest says, as a shard; the caller closes its
 * content. */
static bool copy_verified(struct verb *verb, struct store_shard *ret_shard)
{
    const char *manifest = sim_work_argument(verb->work, "--manifest-sha256");
    char folder[2 * STORE_PATH_BYTES];
    const struct agent_file *file;
    char told[AGENT_STORE_MANIFEST_BYTES] = "";

    CHECK(manifest != NULL);
    *ret_shard = (struct store_shard){.temporary = false};
    snprintf(folder, sizeof(folder), "%s/%s", sim_work_argument(verb->work, "--copy"), verb->part);
    for (size_t i = 0; (file = agent_files_below(verb->files, folder, i)) != NULL; i++) {
        const char *name = file->path + strlen(folder) + 1;

        if (strcmp(name, "MANIFEST") == 0)
            snprintf(told, sizeof(told), "%.*s", (int)file->content.length,
                     (const char *)file->content.bytes);
        else
            copy_file(file, store_content_add(&ret_shard->content, name));
    }
    if (ret_shard->content.count > 0)
        store_content_manifest(&ret_shard->content, ret_shard->manifest);
    return strcmp(told, manifest) == 0 && strcmp(ret_shard->manifest, manifest) == 0;
}

static void restore_from(struct verb *verb, const struct store_shard *shard)
{
    const char *to = sim_work_argument(verb->work, "--to");
    char path[2 * STORE_PATH_BYTES];
    bool there = agent_files_find(verb->files, to) != NULL;

    if (there && !folder_holds(verb->files, to, &shard->content)) {
        fails(verb, WORKER_EXIT_REFUSED, "the folder holds something else");
        return;
    }
    if (!there && agent_files_make_folder(verb->files, to) != 0) {
        fails(verb, WORKER_EXIT_UNAVAILABLE, "the folder's parent is not there");
        return;
    }
    for (size_t i = 0; !there && i < shard->content.count; i++) {
        const struct store_file *file = &shard->content.files[i];
        snprintf(path, sizeof(path), "%s/%s", to, file->name);
        make_folders(verb->files, path, strlen(to) + 1);
        CHECK(agent_files_write(verb->files, path, file->bytes.bytes, file->bytes.length) == 0);
    }
    verb->store->counters.restores++;
    tells(verb, shard, there);
    verb->store->read(verb->store->data, verb->path, verb->part);
}

/* The node's own copy first: the destination may be away then. */
static void restore_ends(struct verb *verb)
{
    struct store_shard copy, *shard;

    if (sim_work_argument(verb->work, "--copy") != NULL) {
        bool usable = copy_verified(verb, &copy);

        verb->copy = usable ? "used" : "lost";
        verb->store->counters.copies_used += usable;
        verb->store->counters.copies_passed += !usable;
        shard = store_shard_find(verb->store, verb->path, verb->part, false);
        CHECK(!usable || shard == NULL || shard->damaged ||
              strcmp(shard->manifest, copy.manifest) == 0); /* it is the committed one */
        if (usable)
            restore_from(verb, &copy);
        store_content_close(&copy.content);
        if (usable)
            return;
        snprintf(verb->end->output, sizeof(verb->end->output), "copy=lost\n");
        if (sim_work_argument(verb->work, "--from") != NULL) {
            fails(verb, WORKER_EXIT_NOT_FOUND, "the copy is gone");
            return;
        }
    }
    if (verb->away) {
        fails(verb, WORKER_EXIT_UNAVAILABLE, "Input/output error");
        return;
    }
    shard = shard_verified(verb);
    if (shard != NULL)
        restore_from(verb, shard);
}

/* The files go where the copies are, with the manifest that a put has left beside them. */
static void retain_ends(struct verb *verb)
{
    const char *source = sim_work_argument(verb->work, "--source");
    const char *manifest = sim_work_argument(verb->work, "--manifest");
    char to[2 * STORE_PATH_BYTES], inside[4 * STORE_PATH_BYTES], path[2 * STORE_PATH_BYTES];
    const struct agent_file *file;

    snprintf(to, sizeof(to), "%s/%s", verb->path, verb->part);
    snprintf(inside, sizeof(inside), "%s/MANIFEST", source);
    if (agent_files_find(verb->files, to) != NULL)
        return;
    if (agent_files_find(verb->files, source) == NULL ||
        (agent_files_find(verb->files, manifest) != NULL
             ? agent_files_rename(verb->files, manifest, inside) != 0
             : agent_files_find(verb->files, inside) == NULL)) {
        fails(verb, WORKER_EXIT_NOT_FOUND, "the files are gone");
        return;
    }
    while ((file = agent_files_below(verb->files, source, 0)) != NULL) {
        snprintf(path, sizeof(path), "%s", file->path);
        snprintf(inside, sizeof(inside), "%s%s", to, path + strlen(source));
        make_folders(verb->files, inside, 1);
        CHECK(agent_files_rename(verb->files, path, inside) == 0);
    }
    agent_files_remove(verb->files, source);
    verb->store->counters.copies_kept++;
}

/* ---- in the node's memory ---- */

static void reserve_ends(struct verb *verb)
{
    char folder[STORE_STAGED_BYTES];

    snprintf(folder, sizeof(folder), "%s/out/%s", verb->path,
             sim_work_argument(verb->work, "--name"));
    make_folders(verb->files, folder, 1);
    agent_files_remove(verb->files, folder);
    CHECK(agent_files_make_folder(verb->files, folder) == 0);
}

/* What lay in the memory has gone when the machine lost its power. */
static void space_ends(struct verb *verb)
{
    if (agent_files_find(verb->files, verb->path) == NULL)
        fails(verb, WORKER_EXIT_NOT_FOUND, "No such file or directory");
    else
        snprintf(verb->end->output, sizeof(verb->end->output), "free_bytes=%d\n", AGENT_FREE_BYTES);
}

/* ---- removing ---- */

static void collect_ends(struct verb *verb)
{
    verb->store->counters.collects++;
    snprintf(verb->end->output, sizeof(verb->end->output), "removed=%d\n",
             agent_store_remove(verb->store, verb->path));
}

static void abandon_ends(struct verb *verb)
{
    struct store_shard *shard = store_shard_find(verb->store, verb->path, verb->part, true);

    if (shard != NULL)
        store_shard_drop(verb->store, shard);
    verb->store->counters.abandons++;
}

/* ---- the two ends ---- */

static struct verb verb_of(struct agent_store *store, const struct sim_work *work,
                           struct sim_work_end *end)
{
    return (struct verb){.store = store,
                         .files = store->mounts[work->node],
                         .work = work,
                         .path = sim_work_argument(work, "--path"),
                         .part = sim_work_argument(work, "--part"),
                         .end = end};
}

void agent_store_begin(struct agent_store *store, const struct sim_work *work)
{
    struct verb verb = verb_of(store, work, NULL);

    if (strcmp(work->arguments[0], "put") == 0 && verb.files != NULL)
        put_begins(&verb);
    else if (strcmp(work->arguments[0], "publish") == 0 && verb.files != NULL)
        publish_begins(&verb);
}

void agent_store_end(struct agent_store *store, const struct sim_work *work, bool away,
                     struct sim_work_end *ret_end)
{
    struct verb verb = verb_of(store, work, ret_end);
    const char *name = work->arguments[0];

    ret_end->exit_code = WORKER_EXIT_OK;
    verb.away = away;
    if (strcmp(name, "collect") == 0)
        collect_ends(&verb);
    else if (strcmp(name, "prepare") == 0)
        store->counters.prepared++; /* there are no folders but of shards, and one user */
    else if (strcmp(name, "abandon") == 0)
        abandon_ends(&verb);
    else if (strcmp(name, "verify") == 0)
        verify_ends(&verb);
    else if (strcmp(name, "put") == 0 && verb.files != NULL)
        put_ends(&verb);
    else if (strcmp(name, "stage") == 0 && verb.files != NULL)
        stage_ends(&verb);
    else if (strcmp(name, "publish") == 0 && verb.files != NULL)
        publish_ends(&verb);
    else if (strcmp(name, "restore") == 0 && verb.files != NULL)
        restore_ends(&verb);
    else if (strcmp(name, "retain") == 0 && verb.files != NULL)
        retain_ends(&verb);
    else if (strcmp(name, "space") == 0 && verb.files != NULL)
        space_ends(&verb);
    else if (strcmp(name, "reserve") == 0 && verb.files != NULL)
        reserve_ends(&verb);
    else
        fails(&verb, WORKER_EXIT_UNAVAILABLE, "the machine is gone");
}
