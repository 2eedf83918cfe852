/* How many frames without use a peer may send: an account per connection, from the headers of the
 * frames in its bytes.
 *
 * Flow     rpc_police_bytes for all that comes, before HTTP/2 sees it; rpc_police_of_use for each
 *          frame that brought a call on, or rpc_police_control for one that was a bother;
 *          rpc_police_sent for each DATA frame of ours, which may be answered by two WINDOW_UPDATEs
 *          and a PING. rpc_police_allows says whether the peer has kept to its accounts.
 * Shapes   embedded in the connection. Two accounts: what no peer sends often (PING, SETTINGS,
 *          PRIORITY, empty DATA, invalid frames, frames of unknown type), and what comes with calls
 *          but brings none on (WINDOW_UPDATE, frames of streams that are over).
 * Units    thousandths of a frame, milliseconds.
 * Absent   RST_STREAM, which nghttp2 counts, and CONTINUATION, of which it takes few for one
 *          HEADERS.
 * Source   RFC 9113, 10.5; CVE-2019-9512 to 9518.
 */
#ifndef CKPT_RPC_POLICE_H
#define CKPT_RPC_POLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RPC_POLICE_CONTROL_BURST = 200,
    RPC_POLICE_CONTROL_PER_SECOND = 20,
    RPC_POLICE_LOOSE_BURST = 1024, /* what a peer begins with and gets back in time ... */
    RPC_POLICE_LOOSE_PER_SECOND = 200,
    RPC_POLICE_LOOSE_MOST = 16384, /* ... and what it may have earned by calls */
    RPC_POLICE_HEADER_BYTES = 9
};

/* All of it is police.c's. */
struct rpc_police {
    uint64_t control, loose; /* what is left */
    uint64_t refilled_ms;    /* up to when time has been credited */
    bool exceeded;           /* an account was empty when a frame came; stays so */
    uint32_t magic_left;     /* of the client's preface */
    uint32_t payload_left;   /* of the frame that is being read */
    uint8_t header[RPC_POLICE_HEADER_BYTES];
    uint8_t header_used;
};

/* Both accounts are full. */
void rpc_police_init(struct rpc_police *police, uint64_t now_ms);
/* The bytes begin with a client's preface of so many. */
void rpc_police_expect_magic(struct rpc_police *police, uint32_t length);
/* Takes a frame from an account for each header among the bytes, wherever they are cut. */
void rpc_police_bytes(struct rpc_police *police, uint64_t now_ms, const uint8_t *bytes,
                      size_t length);
/* A frame of the first account that HTTP/2 has told of. */
void rpc_police_control(struct rpc_police *police, uint64_t now_ms);
/* HEADERS or DATA. Who sends something of use may also measure the path with a PING. */
void rpc_police_of_use(struct rpc_police *police, bool headers);
/* DATA of ours: who gets it may measure the path as well; grpc-go does it on and on while a stream
 * lasts. */
void rpc_police_sent(struct rpc_police *police);
/* False: the owner ends the connection with ENHANCE_YOUR_CALM. */
static inline bool rpc_police_allows(const struct rpc_police *police)
{
    return !police->exceeded;
}

#endif
