/* See police.h. */
#include "src/rpc/police.h"

#include <string.h>

#include "src/base/check.h"

enum { FRAME = 1000, WINDOW_UPDATES_PER_DATA = 2 };
enum { TYPE_DATA = 0, TYPE_HEADERS = 1, TYPE_WINDOW_UPDATE = 8, TYPE_LAST_KNOWN = 9 };

static uint64_t lesser_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void rpc_police_init(struct rpc_police *police, uint64_t now_ms)
{
    *police = (struct rpc_police){.control = (uint64_t)RPC_POLICE_CONTROL_BURST * FRAME,
                                  .loose = (uint64_t)RPC_POLICE_LOOSE_BURST * FRAME,
                                  .refilled_ms = now_ms};
}

void rpc_police_expect_magic(struct rpc_police *police, uint32_t length)
{
    CHECK(police->header_used == 0 && police->payload_left == 0);
    police->magic_left = length;
}

/* Time fills an account up to its burst; more than that was earned and stays. */
static void police_refill(struct rpc_police *police, uint64_t now_ms)
{
    const uint64_t passed_ms = now_ms - police->refilled_ms;
    const uint64_t control_max = (uint64_t)RPC_POLICE_CONTROL_BURST * FRAME;
    const uint64_t loose_max = (uint64_t)RPC_POLICE_LOOSE_BURST * FRAME;

    police->refilled_ms = now_ms;
    police->control =
        lesser_of(control_max, police->control + passed_ms * RPC_POLICE_CONTROL_PER_SECOND);
    if (police->loose < loose_max)
        police->loose =
            lesser_of(loose_max, police->loose + passed_ms * RPC_POLICE_LOOSE_PER_SECOND);
}

static void police_take(struct rpc_police *police, uint64_t *account)
{
    if (*account < FRAME)
        police->exceeded = true;
    else
        *account -= FRAME;
}

static void police_earn(struct rpc_police *police, unsigned frames)
{
    police->loose = lesser_of((uint64_t)RPC_POLICE_LOOSE_MOST * FRAME,
                              police->loose + (uint64_t)frames * FRAME);
}

void rpc_police_control(struct rpc_police *police, uint64_t now_ms)
{
    police_refill(police, now_ms);
    police_take(police, &police->control);
}

static void police_earn_control(struct rpc_police *police)
{
    police->control =
        lesser_of((uint64_t)RPC_POLICE_CONTROL_BURST * FRAME, police->control + FRAME);
}

void rpc_police_of_use(struct rpc_police *police, bool headers)
{
    police_earn_control(police);
    police_earn(police, headers ? 1 + WINDOW_UPDATES_PER_DATA : 1); /* the 1 was taken before */
}

void rpc_police_sent(struct rpc_police *police)
{
    police_earn_control(police);
    police_earn(police, WINDOW_UPDATES_PER_DATA);
}

static void police_frame(struct rpc_police *police)
{
    const uint8_t *header = police->header;
    const uint8_t type = header[3];

    police->payload_left = (uint32_t)header[0] << 16 | (uint32_t)header[1] << 8 | header[2];
    police->header_used = 0;
    if (type > TYPE_LAST_KNOWN)
        police_take(police, &police->control);
    else if (type == TYPE_DATA || type == TYPE_HEADERS || type == TYPE_WINDOW_UPDATE)
        police_take(police, &police->loose);
}

void rpc_police_bytes(struct rpc_police *police, uint64_t now_ms, const uint8_t *bytes,
                      size_t length)
{
    police_refill(police, now_ms);
    while (length > 0) {
        uint32_t *left = police->magic_left > 0 ? &police->magic_left : &police->payload_left;
        size_t used = 1;

        if (*left > 0) {
            used = length < *left ? length : *left;
            *left -= (uint32_t)used;
        } else {
            police->header[police->header_used++] = *bytes;
            if (police->header_used == RPC_POLICE_HEADER_BYTES)
                police_frame(police);
        }
        bytes += used;
        length -= used;
    }
}
