/* Any bytes may be a log entry: nothing crashes, invariants hold, and what does not decode changes
 * nothing but the index. Seeds are the entries of a scripted life, so that mutations are close to
 * well-formed commands. */
#include "tests/unit/fsm/script.h"

enum { ENTRIES_PER_STATE = 512 };

static const char *const lines[] = {
    "init",
    "policy min_interval=1 backoff=1000",
    "register j1 nodes=n1,n2 gpus=8 class=2 walltime=4000000",
    "register j2 nodes=n3 gpus=8 class=2 strategy=none",
    "decide j1 j2 purpose=periodic after=continue",
    "grant 1-1 bytes=1000 timeout=60000",
    "node n1 ready boot=a machine=x86_64 os=debian-12",
    "report n1 started j1 ckpt=1-1 barrier",
    "report n1 barrier j1 ckpt=1-1 step=127",
    "target scratch down",
    "preempt class=8 need=1 forced",
    "target scratch up",
    "grant 1-1 bypass",
    "report n1 shard_verified j1 ckpt=1-1 attempt=2",
    "report n2 shard_verified j1 ckpt=1-1 attempt=2 label=step:127 ranks=2",
    "node n1 down",
    "update j1 nodes=n4,n5",
    "restart j1 nodes=n5 from_scratch",
    "report n5 restored j1 restored=1-1",
    "report n5 restart_damaged j1 restored=1-1 why=torn",
    "register j3 nodes=n6 restore=all",
    "migrate j1",
    "cancel 1-2",
    "end j1 failed",
    "queue hpc queued=5 waiting",
    "drain n3 urgent",
    "member 1",
    "leader 1",
    "put scratch prefix=/scratch",
    "collected 1-1 1-2",
    "tick",
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void violation(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "violated: %s\n", text);
    abort();
}

static void prepare(struct script *script)
{
    script_open(script);
    for (size_t i = 0; i < 8; i++)
        script_run(script, "%s", lines[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct script script;
    static unsigned count;
    struct fsm_summary before;
    struct fsm_summary after;

    if (count++ % ENTRIES_PER_STATE == 0) {
        script_close(&script);
        prepare(&script);
    }
    fsm_get_summary(script.fsm, &before);
    fsm_apply_entry(script.fsm, &(struct fsm_entry){++script.index, 1, bytes, length}, NULL, NULL);
    fsm_get_summary(script.fsm, &after);
    fsm_check(script.fsm, violation, NULL);
    if (after.malformed_entries > before.malformed_entries &&
        (after.command_count != before.command_count || after.now_ms != before.now_ms ||
         after.next_event_sequence != before.next_event_sequence ||
         after.past_request_count != before.past_request_count))
        abort();
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct script script;
    size_t length = 0;

    if (i >= sizeof(lines) / sizeof(lines[0]))
        return 0;
    script_open(&script);
    for (size_t line = 0; line <= i; line++)
        script_run(&script, "%s", lines[line]);
    if (script.entry_length <= size) {
        length = script.entry_length;
        memcpy(bytes, script.entry, length);
    }
    script_close(&script);
    return length;
}
