/* The address book of the members, and who was removed: the local copy, there before any entry is
 * applied.
 *
 * Flow     book_load() at open; core puts what members say of themselves and what the replicated
 *          book says; book_save() when something new came, at the next tick.
 * Shapes   file "members", one line per record: "member ID NAME ADDRESS" or "removed ID INDEX
 *          NAME", then "crc32c HEX". At most BOOK_RECORDS_MAX records; the removed one that is
 *          oldest gives way.
 * Errors   a file that is damaged is taken for absent: what it says is in the replicated state and
 *          in the members' hellos too. A line that makes no sense is passed over.
 * Absent   the list of members: the configuration of the log has it. The book only has addresses
 *          and the ids that are used up.
 */
#ifndef CKPT_RAFT_BOOK_H
#define CKPT_RAFT_BOOK_H

#include "raft/core/consensus.h"
#include "raft/log/folder.h"

/* Members and removed ones together; a record is a line of less than 512 bytes. */
enum { BOOK_RECORDS_MAX = 64, BOOK_FILE_BYTES = BOOK_RECORDS_MAX * 512 };

struct book_record {
    struct consensus_member member; /* address "" when removed */
    bool removed;
    uint64_t removed_index; /* of the committed configuration without it */
};

struct book {
    struct book_record records[BOOK_RECORDS_MAX];
    size_t count;
    bool dirty; /* something is not in the file yet */
};

/* Takes what the file says; an empty book when there is none. Never fails. */
void book_load(struct book *book, const struct folder *folder);
/* Replaces the file, in the calling thread and with a sync: rare, a few hundred bytes. A failure
 * leaves the book dirty, and the caller tries again later. */
void book_save(struct book *book, const struct folder *folder);
/* Enters a member under its id (not 0), or its newer name and address. True: something changed. A
 * removed one stays removed, for its id is never used again. */
bool book_put(struct book *book, const struct consensus_member *member);
/* Enters that the member of this id was removed at that index, known before or not. With all
 * records taken the one that was removed first gives way. */
void book_remove(struct book *book, uint64_t id, const char *name, uint64_t index);
/* NULL: the id is not known. Valid until the book is changed. */
const struct book_record *book_find(const struct book *book, uint64_t id);

#endif
