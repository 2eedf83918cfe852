/* The words of ckpt-run to the agent. See run_up.h. */
#include "src/agent/run/run_up.h"

#include "src/agent/run/run_command.h"
#include "src/agent/run/run_transparent.h"
#include "src/base/buf.h"
#include "src/base/check.h"

/* While its application runs it waits for nothing of its agent, and sees the end of a connection on
 * the same node at once. So hundreds of jobs on a node do not ask each 2 s whether it lives. */
enum { RUNS_KEEPALIVE_MS = 60000 };

static void send_up(struct rpc_client_call *call, const Ckpt__V1__AttachUp *up)
{
    struct buf bytes;

    CHECK(call != NULL);
    buf_init(&bytes);
    ckpt__v1__attach_up__pack(up, buf_extend(&bytes, ckpt__v1__attach_up__get_packed_size(up)));
    rpc_client_call_send(call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

void run_up_hello(struct rpc_client_call *call, const struct run_options *options,
                  const struct run_up_hello *facts)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachHello hello = CKPT__V1__ATTACH_HELLO__INIT;

    CHECK(options->allocation_id != NULL);
    CHECK(!facts->held || facts->running);
    hello.allocation_id = (char *)(uintptr_t)options->allocation_id;
    hello.profile = (char *)(uintptr_t)options->profile;
    hello.work_dir = (char *)(uintptr_t)facts->work_dir;
    hello.running = facts->running;
    hello.held = facts->held;
    hello.pid = (uint32_t)facts->pid;
    hello.start_time_ticks = facts->start_ticks;
    hello.run = facts->run_number;
    hello.want_restore = facts->want_restore;
    hello.restart_count = facts->restart_count;
    hello.ranks = options->ranks;
    hello.asks_group = options->asks_group;
    hello.asks_started = options->asks_started;
    hello.ask_signal = (uint32_t)options->ask_signal;
    hello.restore = options->restore;
    hello.finds_way = options->way != RUN_WAY_SAID;
    hello.imports = options->imports;
    hello.replace = options->replace;
    hello.wait = facts->wait;
    hello.outside = (char *)(uintptr_t)run_transparent_at_hand();
    if (hello.outside[0] != '\0')
        hello.outside_endpoint = (char *)(uintptr_t)run_command_endpoint();
    else
        hello.endpoint = (char *)(uintptr_t)run_command_endpoint();
    up.body_case = CKPT__V1__ATTACH_UP__BODY_HELLO;
    up.hello = &hello;
    send_up(call, &up);
    rpc_client_call_keepalive(call, facts->running ? RUNS_KEEPALIVE_MS : 0);
}

void run_up_started(struct rpc_client_call *call, pid_t pid, uint64_t start_ticks,
                    uint64_t restored_id)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachStarted started = CKPT__V1__ATTACH_STARTED__INIT;

    CHECK(pid > 1);
    started.pid = (uint32_t)pid;
    started.start_time_ticks = start_ticks;
    started.restored_checkpoint_id = restored_id;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_STARTED;
    up.started = &started;
    send_up(call, &up);
    rpc_client_call_keepalive(call, RUNS_KEEPALIVE_MS);
}

void run_up_ended(struct rpc_client_call *call, const char *note)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachEnded ended = CKPT__V1__ATTACH_ENDED__INIT;

    CHECK(note != NULL);
    ended.note = (char *)(uintptr_t)note;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_ENDED;
    up.ended = &ended;
    send_up(call, &up);
    rpc_client_call_keepalive(call, 0);
    rpc_client_call_half_close(call);
}
