/* The ledger's changes as records of the journal (proto/ckpt/agent/v1/journal.proto), and back.
 *
 * Flow     ledger.c fills a JournalRecord per change; ledger_record_append() packs it, and
 *          ledger_record_unpack() gives it back at the next start. An entry goes through
 *          ledger_entry_message() and ledger_entry_take(), which have one table of its fields.
 * Errors   ERR_CORRUPT for whatever the agent would not have written: a record that does not
 *          decode, a field that it does not know, a text too long for its field, an entry that
 *          ledger_entry_wrong() names.
 * Absent   checksums and truncation: journal.h has cut a torn record before it comes here. All the
 *          same each proper prefix of a record is refused.
 */
#ifndef CKPT_AGENT_LEDGER_RECORD_H
#define CKPT_AGENT_LEDGER_RECORD_H

#include "ckpt/agent/v1/journal.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/base/buf.h"

void ledger_record_append(struct buf *record, const Ckpt__Agent__V1__JournalRecord *message);
/* The caller frees the message by ckpt__agent__v1__journal_record__free_unpacked(). */
int ledger_record_unpack(const uint8_t *bytes, size_t length,
                         Ckpt__Agent__V1__JournalRecord **ret_message, struct err *err);

/* An entry as a message, with those of its ranks. It does not move: they are found by pointers. */
struct ledger_message {
    Ckpt__Agent__V1__JournalEntry entry;
    Ckpt__Agent__V1__JournalRank ranks[LEDGER_RANKS_MAX];
    Ckpt__Agent__V1__JournalRank *rank_pointers[LEDGER_RANKS_MAX];
    Ckpt__Agent__V1__JournalStray strays[LEDGER_STRAYS_MAX];
    Ckpt__Agent__V1__JournalStray *stray_pointers[LEDGER_STRAYS_MAX];
    Ckpt__Agent__V1__JournalCopy copies[LEDGER_COPIES_MAX];
    Ckpt__Agent__V1__JournalCopy *copy_pointers[LEDGER_COPIES_MAX];
    Ckpt__Agent__V1__JournalPace paces[LEDGER_RANKS_MAX];
    Ckpt__Agent__V1__JournalPace *pace_pointers[LEDGER_RANKS_MAX];
};

/* The message's texts are those of the entry, which has to stay. */
void ledger_entry_message(struct ledger_entry *entry, struct ledger_message *ret_message);
int ledger_entry_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *ret_entry,
                      struct err *err);
/* NULL: its fields go together. Else which of them do not, for a text. */
const char *ledger_entry_wrong(const struct ledger_entry *entry);

#endif
