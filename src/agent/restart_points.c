/* Where an application starts from. See restart_points.h. */
#include "src/agent/restart_points.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/user.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/rpc/follow.h"
#include "src/store/worker.h"

#define RESTART_POINT_METHOD "/ckpt.v1.BrokerService/GetRestartPoint"

enum {
    CALL_TIMEOUT_MS = 5000,
    RETRY_MS = 500,
    STORAGE_RETRY_MS = 2000,
    RESTORE_DEADLINE_MS = 24 * 3600 * 1000, /* a hung mount; ckpt-run may give up earlier */
    NOT_FOUND_MAX = 10 /* a job may be started a moment before it is registered */
};

struct restart_points {
    struct agent *agent;
    struct rpc_follow *follow;
};

struct restore {
    struct agent *agent;
    struct restart_points *points; /* may be gone when a cancelled worker ends */
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    char folder[PATH_MAX];
    char path[LEDGER_PATH_BYTES];
    char shard[ID_MAX_BYTES + 1]; /* whose part of the checkpoint comes here */
    char manifest_sha256[72];
    uid_t uid;
    gid_t gid;
    uint64_t before_id; /* 0: the newest */
    uint64_t checkpoint_id;
    unsigned not_found;
    struct clock_timer *timer;
    struct rpc_client_call *call;
    struct worker *worker;
    bool cancelled; /* the worker still runs; freed when it ends */
    restore_done_fn *done;
    void *data;
};

static void restore_ask(void *data);

static void restore_free(struct restore *restore)
{
    CHECK(restore->call == NULL && restore->worker == NULL);
    restore->agent->clock.timer_free(restore->timer);
    free(restore);
}

static void restore_finish(struct restore *restore, const struct restore_result *result)
{
    restore_done_fn *done = restore->done;
    void *data = restore->data;

    log_info("restart_point", "allocation=%s checkpoint=%" PRIu64 " folder=\"%s\" error=\"%s\"",
             restore->allocation_id, result->checkpoint_id, result->folder, result->error);
    done(data, result);
    restore_free(restore);
}

static void restore_again(struct restore *restore, uint64_t delay_ms)
{
    restore->agent->clock.timer_start(restore->timer, delay_ms * 1000);
}

/* ---- bringing the files ---- */

static void restore_worker_done(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    const struct restore_result ready = {restore->checkpoint_id, restore->folder, ""};

    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    if (result->exit_code == WORKER_EXIT_OK) {
        restore_finish(restore, &ready);
        return;
    }
    log_warning("restore_failed", "allocation=%s checkpoint=%" PRIu64 " exit_code=%d text=\"%s\"",
                restore->allocation_id, restore->checkpoint_id, result->exit_code, result->error);
    if (result->exit_code == WORKER_EXIT_CORRUPT || result->exit_code == WORKER_EXIT_NOT_FOUND) {
        restore->before_id = restore->checkpoint_id;
        restore_again(restore, 0);
    } else {
        restore_again(restore, STORAGE_RETRY_MS);
    }
}

static int make_restore_folder(const struct restore *restore)
{
    char folder[PATH_MAX];
    int result;

    snprintf(folder, sizeof(folder), "%s/restore", restore->work_dir);
    user_enter(restore->uid, restore->gid);
    result = mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -1;
    user_leave();
    return result;
}

static void restore_fetch(struct restore *restore)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    struct err err = {0};
    const char *arguments[12] = {"restore",      "--path", restore->path,  "--node",
                                 restore->shard, "--to",   restore->folder};

    if (restore->manifest_sha256[0] != '\0') {
        arguments[7] = "--manifest-sha256";
        arguments[8] = restore->manifest_sha256;
    }
    snprintf(restore->folder, sizeof(restore->folder), "%s/restore/%s", restore->work_dir,
             checkpoint_id_format(restore->checkpoint_id, id));
    if (make_restore_folder(restore) != 0 ||
        worker_start(restore->agent->loop, arguments, user_worker_uid(restore->uid),
                     user_worker_gid(restore->gid), RESTORE_DEADLINE_MS, restore_worker_done,
                     restore, &restore->worker, &err) != 0) {
        restore->worker = NULL;
        log_warning("restore_failed", "allocation=%s checkpoint=%" PRIu64 " text=\"%s\"",
                    restore->allocation_id, restore->checkpoint_id,
                    err.text[0] != '\0' ? err.text : "cannot create the restore folder");
        restore_again(restore, STORAGE_RETRY_MS);
    }
}

/* ---- asking the leader ---- */

/* This node's own shard; of a job on one node, the only one, wherever it was written. Which of several shards a new node should
 * take over is not known here. A broker that lists none leaves it to the folder. */
static bool choose_shard(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const char *node_id = restore->agent->node_id;
    const Ckpt__V1__ShardInfo *chosen = point->n_shards == 1 ? point->shards[0] : NULL;

    for (size_t i = 0; i < point->n_shards; i++) {
        if (strcmp(point->shards[i]->node_id, node_id) == 0)
            chosen = point->shards[i];
    }
    snprintf(restore->shard, sizeof(restore->shard), "%s",
             chosen != NULL ? chosen->node_id : node_id);
    snprintf(restore->manifest_sha256, sizeof(restore->manifest_sha256), "%s",
             chosen != NULL ? chosen->manifest_sha256 : "");
    return chosen != NULL || point->n_shards == 0;
}

static void take_point(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const struct restore_result scratch = {0, "", ""};
    const struct restore_result lost = {
        0, "", "no complete checkpoint of this allocation verifies any more; see the agent's log"};
    const struct restore_result elsewhere = {
        0, "",
        "this node has no shard in the last checkpoint, which several other nodes wrote; restart "
        "the allocation on its old nodes"};

    if (point->checkpoint_id == 0) {
        restore_finish(restore, restore->before_id == 0 ? &scratch : &lost);
        return;
    }
    restore->checkpoint_id = point->checkpoint_id;
    snprintf(restore->path, sizeof(restore->path), "%s", point->path);
    if (!choose_shard(restore, point)) {
        restore_finish(restore, &elsewhere);
        return;
    }
    restore_fetch(restore);
}

static void point_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                          size_t length)
{
    struct restore *restore = data;
    Ckpt__V1__RestartPoint *point = ckpt__v1__restart_point__unpack(NULL, length, bytes);

    rpc_client_call_cancel(call);
    restore->call = NULL;
    if (point == NULL) {
        restore_again(restore, RETRY_MS);
        return;
    }
    take_point(restore, point);
    ckpt__v1__restart_point__free_unpacked(point, NULL);
}

static void point_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restore *restore = data;
    const struct restore_result unknown = {
        0, "",
        "the broker does not know this allocation; register it first (ckptctl jobs lists them)"};
    uint64_t delay_ms = RETRY_MS;

    (void)call;
    restore->call = NULL;
    if (end->status == RPC_NOT_FOUND && ++restore->not_found >= NOT_FOUND_MAX) {
        restore_finish(restore, &unknown);
        return;
    }
    if (end->status != RPC_NOT_FOUND)
        log_info("restart_point_waits", "allocation=%s status=%s text=\"%s\"",
                 restore->allocation_id, rpc_status_name(end->status), end->message);
    rpc_follow_result(restore->points->follow, end, &delay_ms);
    restore_again(restore, delay_ms < RETRY_MS ? RETRY_MS : delay_ms);
}

static void restore_ask(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = point_message,
                                                        .on_end = point_end};
    struct restore *restore = data;
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    struct buf bytes;

    CHECK(restore->call == NULL && restore->worker == NULL);
    request.allocation_id = restore->allocation_id;
    request.before_checkpoint_id = restore->before_id;
    buf_init(&bytes);
    ckpt__v1__get_restart_point_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__get_restart_point_request__get_packed_size(&request)));
    restore->call =
        rpc_channel_unary(rpc_follow_channel(restore->points->follow), RESTART_POINT_METHOD,
                          bytes.bytes, bytes.length, CALL_TIMEOUT_MS, false, &handlers, restore);
    buf_close(&bytes);
}

/* ---- life ---- */

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err)
{
    struct restart_points *points = check_calloc(1, sizeof(*points));

    points->agent = agent;
    if (rpc_follow_new(agent->loop, brokers, NULL, &points->follow, err) != 0) {
        free(points);
        return -1;
    }
    *ret_points = points;
    return 0;
}

void restart_points_free(struct restart_points *points)
{
    if (points == NULL)
        return;
    rpc_follow_free(points->follow);
    free(points);
}

struct restore *restore_start(struct restart_points *points, const char *allocation_id,
                              const char *work_dir, uid_t uid, gid_t gid, restore_done_fn *done,
                              void *data)
{
    struct restore *restore = check_calloc(1, sizeof(*restore));
    const struct clock_ops *clock = &points->agent->clock;

    restore->agent = points->agent;
    restore->points = points;
    snprintf(restore->allocation_id, sizeof(restore->allocation_id), "%s", allocation_id);
    snprintf(restore->work_dir, sizeof(restore->work_dir), "%s", work_dir);
    restore->uid = uid;
    restore->gid = gid;
    restore->done = done;
    restore->data = data;
    restore->timer = clock->timer_new(clock->context, restore_ask, restore);
    restore_again(restore, 0);
    return restore;
}

void restore_cancel(struct restore *restore)
{
    if (restore == NULL)
        return;
    restore->agent->clock.timer_stop(restore->timer);
    if (restore->call != NULL)
        rpc_client_call_cancel(restore->call);
    restore->call = NULL;
    if (restore->worker == NULL) {
        restore_free(restore);
        return;
    }
    restore->cancelled = true;
    worker_cancel(restore->worker);
}
