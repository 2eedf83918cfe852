/* Finds files, symbols and services in the bytes of a FileDescriptorSet, without unpacking it.
 *
 * Flow     rpc_descriptors_open notes where each file lies; the finders walk its bytes.
 * Shapes   refers to the caller's bytes; at most RPC_DESCRIPTOR_FILES_MAX files. Nested types are
 *          walked in a loop, not by recursion.
 * Errors   -1 for bytes that are no descriptor set.
 * Source   google/protobuf/descriptor.proto.
 */
#ifndef CKPT_RPC_DESCRIPTORS_H
#define CKPT_RPC_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPC_DESCRIPTOR_FILES_MAX = 64 };

/* Bytes of somebody else's; NULL with length 0: none. */
struct rpc_span {
    const uint8_t *bytes;
    size_t length;
};

/* Where the files of a set lie in its bytes. */
struct rpc_descriptors {
    struct rpc_span files[RPC_DESCRIPTOR_FILES_MAX];
    size_t count;
};

/* Refers to the bytes from then on. 0; or -1 when they are no descriptor set or one of more than
 * RPC_DESCRIPTOR_FILES_MAX files. The bytes are the program's own, built in. */
int rpc_descriptors_open(struct rpc_descriptors *descriptors, const uint8_t *bytes, size_t length);
/* Index of a file by its path as protoc was given it ("ckpt/v1/broker.proto"); -1: none. */
int rpc_descriptors_find_file(const struct rpc_descriptors *descriptors, const char *name,
                              size_t length);
/* Index of the file that declares a symbol: a message, a field of one, an enum, a value, a service
 * or a method, with its package and with or without a dot before it; -1: none. */
int rpc_descriptors_find_symbol(const struct rpc_descriptors *descriptors, const char *symbol);
/* The file and all that it imports, each once; returns how many. */
size_t rpc_descriptors_closure(const struct rpc_descriptors *descriptors, int file,
                               int ret_files[RPC_DESCRIPTOR_FILES_MAX]);
/* Calls back with "package" and "Service" of each service, in the order of the files: what
 * reflection lists. */
void rpc_descriptors_services(const struct rpc_descriptors *descriptors,
                              void (*service)(void *data, struct rpc_span package,
                                              struct rpc_span name),
                              void *data);

#endif
