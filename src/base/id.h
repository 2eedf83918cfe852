/* Ids and checkpoint ids as text: the one place that knows their form.
 *
 * Shapes   ids are texts of the outside world (allocations, nodes, targets, tenants), at most
 *          ID_MAX_BYTES without the terminator. Checkpoint ids are numbers that the cluster gives.
 * Errors   false or -1; the caller names the field and the value in its own error, but for
 *          id_check(), whose sentence is the one of all programs.
 */
#ifndef CKPT_BASE_ID_H
#define CKPT_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ID_MAX_BYTES = 128,
    LABEL_MAX_BYTES = 64,
    CHECKPOINT_ID_TEXT_BYTES = 32,
    PART_NAME_BYTES = 16
};

/* [A-Za-z0-9._-]{1,128} and neither "." nor "..": such a text can be a file name but never a
 * path. */
bool id_valid(const char *text);
/* ... for people. */
#define ID_FORM "1 to 128 characters of A-Z a-z 0-9 . _ -"
/* -1: ERR_INVALID, in the words of the status INVALID_ID: `WHAT: "TEXT" is not 1 to 128 ...`. */
struct err;
int id_check(const char *what, const char *text, struct err *err);
/* [A-Za-z0-9._:-]{1,64}: what the ranks of a job call the step that they save. */
bool label_valid(const char *text);
/* Of digits only: where a name and a number can be given it reads as the number. */
bool id_is_number(const char *text);

/* 64-bit checkpoint id: epoch << 40 | sequence, printed "epoch-sequence". */
#define CHECKPOINT_SEQUENCE_BITS 40
#define CHECKPOINT_EPOCH_MAX     (UINT64_MAX >> CHECKPOINT_SEQUENCE_BITS)
static inline uint64_t checkpoint_id_make(uint64_t epoch, uint64_t sequence)
{
    return epoch << CHECKPOINT_SEQUENCE_BITS | sequence;
}
/* It has a text: both of its numbers begin at 1. */
static inline bool checkpoint_id_valid(uint64_t id)
{
    return id >> CHECKPOINT_SEQUENCE_BITS != 0 && id << (64 - CHECKPOINT_SEQUENCE_BITS) != 0;
}
/* A run of an allocation's part on a node (proto/ckpt/v1/agent.proto), from the number of the
 * command with which it began (one entry of the log may hold many). 0: not known. */
static inline uint64_t run_make(uint64_t epoch, uint64_t command)
{
    return checkpoint_id_make(epoch, command);
}
static inline uint64_t run_epoch(uint64_t run)
{
    return run >> CHECKPOINT_SEQUENCE_BITS;
}
/* Writes at most CHECKPOINT_ID_TEXT_BYTES and returns text. */
char *checkpoint_id_format(uint64_t id, char text[CHECKPOINT_ID_TEXT_BYTES]);
/* -1 when the text is not exactly "epoch-sequence" with both in range. */
int checkpoint_id_parse(const char *text, uint64_t *ret_id);

/* A rank's number, mixed: the sum of these modulo 2^64 stands for a set of numbers. Two different
 * sets of as many have not the same sum, but for one chance in 2^64, or for who searches for it. */
static inline uint64_t rank_print(uint32_t number)
{
    uint64_t mixed = (number + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}

/* The folder of a part's shard below that of its checkpoint: "part-0003". Returns text. */
char *part_name_format(uint32_t part, char text[PART_NAME_BYTES]);

#endif
