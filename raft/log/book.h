/* The address book of the members, and who was removed: the local copy, there before any entry is
 * applied.
 *
 * Flow     book_load() at open; core puts what members say of themselves and what the replicated
 *          book says; book_save() when something new came, at the next tick.
 * Shapes   file "members", one line per record: "member ID NAME ADDRESS" or "removed ID INDEX
 *          NAME", then "crc32c HEX". At most BOOK_RECORDS_MAX records; the removed one that is
 *          oldest gives way.
 * Errors   a file that is damaged is taken for absent: what it says is in the replicated state and
 *          in the members' hellos too.
 */
#ifndef CKPT_RAFT_BOOK_H
#define CKPT_RAFT_BOOK_H

#include "raft/core/consensus.h"
#include "raft/log/folder.h"

enum { BOOK_RECORDS_MAX = 64, BOOK_FILE_BYTES = BOOK_RECORDS_MAX * 512 };

struct book_record {
    struct consensus_member member; /* address "" when removed */
    bool removed;
    uint64_t removed_index;
};

struct book {
    struct book_record records[BOOK_RECORDS_MAX];
    size_t count;
    bool dirty;
};

void book_load(struct book *book, const struct folder *folder);
/* Synchronous, rare. A failure leaves the book dirty. */
void book_save(struct book *book, const struct folder *folder);
/* True: something changed. A removed one stays removed. */
bool book_put(struct book *book, const struct consensus_member *member);
void book_remove(struct book *book, uint64_t id, const char *name, uint64_t index);
const struct book_record *book_find(const struct book *book, uint64_t id);

#endif
