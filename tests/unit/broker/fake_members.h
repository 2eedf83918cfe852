/* A scripted consensus takes every change of its members at once. Included once per test
 * program. */
#ifndef CKPT_TESTS_UNIT_BROKER_FAKE_MEMBERS_H
#define CKPT_TESTS_UNIT_BROKER_FAKE_MEMBERS_H

#include <stdio.h>

#include "raft/core/consensus.h"

void consensus_member_probe(struct consensus *consensus, const struct consensus_member *member,
                            consensus_change_fn *done, void *data)
{
    (void)consensus;
    (void)member;
    done(data, 0, NULL);
}

void consensus_member_add(struct consensus *consensus, const struct consensus_member *member,
                          consensus_change_fn *done, void *data)
{
    consensus_member_probe(consensus, member, done, data);
}

void consensus_member_promote(struct consensus *consensus, uint64_t member_id,
                              consensus_change_fn *done, void *data)
{
    (void)member_id;
    consensus_member_probe(consensus, NULL, done, data);
}

void consensus_member_remove(struct consensus *consensus, uint64_t member_id,
                             consensus_change_fn *done, void *data)
{
    consensus_member_promote(consensus, member_id, done, data);
}

void consensus_member_put(struct consensus *consensus, const struct consensus_member *member)
{
    (void)consensus;
    (void)member;
}

const char *consensus_member_contact(const struct consensus *consensus, uint64_t member_id)
{
    (void)consensus;
    (void)member_id;
    return "";
}

/* Of all members but the first; a test sets it. */
static uint32_t fake_level = 1;

bool consensus_member_build(const struct consensus *consensus, uint64_t member_id,
                            struct consensus_build *ret_build)
{
    (void)consensus;
    *ret_build = (struct consensus_build){.level = member_id == 1 ? 1000 : fake_level};
    snprintf(ret_build->text, sizeof(ret_build->text), "0.1.%u", (unsigned)fake_level);
    return true;
}

#endif
