/* Any bytes may be a snapshot: refused without a trace, or restored into a state whose invariants
 * hold and that goes on working, whatever commands come. */
#include "tests/fuzz/restored.h"

static const char *const lines[] = {
    "init",
    "node n1 ready boot=a machine=x86_64 os=debian-12",
    "register j1 nodes=n1,n2 gpus=8 class=2 walltime=4000000 restore=path",
    "request j1",
    "grant 1-1 bytes=1000 timeout=60000",
    "report n1 started j1 ckpt=1-1 barrier",
    "report n1 barrier j1 ckpt=1-1 step=127",
    "report n1 shard_verified j1 ckpt=1-1 ranks=4",
    "report n2 shard_verified j1 ckpt=1-1",
    "preempt class=8 need=1",
    "target scratch down",
    "queue hpc queued=5 waiting",
    "member 1",
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

struct input {
    const uint8_t *bytes;
    size_t length;
};

static int read_input(void *context, void *bytes, size_t length)
{
    struct input *input = context;

    if (length > input->length)
        return -1;
    memcpy(bytes, input->bytes, length);
    input->bytes += length;
    input->length -= length;
    return 0;
}

static uint64_t hash_of(const struct fsm *fsm)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    return summary.state_hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct input input = {bytes, length};
    struct script script;
    char text[256];
    uint64_t hash;

    script_start(&script);
    hash = hash_of(script.fsm);
    if (fsm_snapshot_read(script.fsm, read_input, &input, text, sizeof(text)) == 0)
        restored_goes_on(&script, length);
    else if (hash != hash_of(script.fsm))
        abort();
    script_close(&script);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct script script;
    struct script_bytes snapshot = {NULL, 0, 0, 0};
    size_t length = 0;

    if (i >= sizeof(lines) / sizeof(lines[0]))
        return 0;
    script_open(&script);
    for (size_t line = 0; line <= i; line++)
        script_run(&script, "%s", lines[line]);
    fsm_snapshot_write(script.fsm, script_write, &snapshot);
    if (snapshot.length <= size) {
        length = snapshot.length;
        memcpy(bytes, snapshot.bytes, length);
    }
    free(snapshot.bytes);
    script_close(&script);
    return length;
}
