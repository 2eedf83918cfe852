/* A checkpoint that ckpt-run asks the cluster for. See run_wish.h. */
#include "src/agent/run/run_wish.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_owner.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/server.h"

enum wish_outcome { WISH_GRANTED, WISH_REFUSED, WISH_UNHEARD };

static struct {
    bool wanted;
    bool said; /* the refusal, to people */
    pid_t pid; /* of who asks; 0: nobody does */
    uint32_t number;
    uint64_t again_ms; /* from a refusal to the next question */
    uint64_t next_ms;  /* not before then */
} wish;

void wish_begin(void)
{
    wish.wanted = true;
    wish.said = false;
    wish.number++;
    wish.again_ms = WISH_AGAIN_MS;
}

void wish_end(void)
{
    wish.wanted = false;
}

bool wish_wanted(void)
{
    return wish.wanted || wish.pid != 0;
}

/* Another checkpoint of the job may be under way: this save is in the next one then. */
static bool is_under_way(const char *text)
{
    return strncmp(text, "CHECKPOINT_ACTIVE", 17) == 0 || strncmp(text, "CHECKPOINTING", 13) == 0;
}

__attribute__((noreturn)) static void ask_cluster(const char *socket, const char *allocation_id)
{
    const char *run = getenv("CKPT_RUN");
    char request_id[ID_MAX_BYTES + 1];
    struct run_owner_change change;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(request_id, sizeof(request_id), "exit-%.64s-%.24s-%d-%" PRIu32, allocation_id,
             run == NULL ? "" : run, (int)getppid(), wish.number);
    run_owner_checkpoint(socket, allocation_id, request_id, &change);
    if (change.answer.status == RPC_OK)
        _exit(WISH_GRANTED);
    if (!change.answer.sent || change.answer.status == RPC_UNAVAILABLE ||
        change.answer.status == RPC_DEADLINE_EXCEEDED || is_under_way(change.answer.text))
        _exit(WISH_UNHEARD);
    if (!wish.said)
        run_say("the program has saved by itself, and no checkpoint is made of it yet: %s",
                change.answer.text);
    _exit(WISH_REFUSED);
}

void wish_step(uint64_t now_ms)
{
    const char *socket = getenv("CKPT_AGENT_SOCKET");
    const char *allocation_id = getenv("CKPT_ALLOCATION_ID");

    if (!wish.wanted || wish.pid != 0 || now_ms < wish.next_ms || socket == NULL ||
        allocation_id == NULL)
        return;
    fflush(NULL);
    wish.pid = fork();
    if (wish.pid == 0)
        ask_cluster(socket, allocation_id);
    if (wish.pid < 0)
        wish.pid = 0;
    wish.next_ms = now_ms + wish.again_ms;
}

bool wish_ended(pid_t pid, int wait_status, uint64_t now_ms)
{
    int outcome = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : WISH_UNHEARD;

    if (wish.pid == 0 || pid != wish.pid)
        return false;
    CHECK(!WIFSTOPPED(wait_status));
    wish.pid = 0;
    wish.said = wish.said || outcome == WISH_REFUSED;
    wish.again_ms = 2 * wish.again_ms < WISH_AGAIN_MAX_MS ? 2 * wish.again_ms : WISH_AGAIN_MAX_MS;
    if (outcome == WISH_GRANTED) { /* the question follows, unless that checkpoint fails before */
        wish.number++;
        wish.again_ms = WISH_AGAIN_MAX_MS;
    }
    wish.next_ms = now_ms + wish.again_ms;
    return true;
}
