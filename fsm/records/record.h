/* How the rows of a record's table become code.
 *
 * A table is a macro that takes two others and calls one of them for each field of the record:
 *
 *     FIELD(type, name, highest)   a number, a bool or an enum; a snapshot has `highest` at most
 *     TEXT(name)                   a text that the state holds once and counts (core/intern.c);
 *                                  never NULL
 *
 * The table is read by the struct that holds the field, by the writer and the reader of snapshots,
 * and by the translation into messages of the API. Each of them passes the macros that say what
 * becomes of a row there: those below, or their own. The message has a field of the same name.
 *
 * To add a field: README.md, Recipe for a new field.
 * Enums need no bound of their own: a value that the enum does not have is refused before any row
 * is looked at.
 */
#ifndef CKPT_FSM_RECORDS_RECORD_H
#define CKPT_FSM_RECORDS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_ANY UINT64_MAX /* `highest` of what has no bound but its type */

/* Members of a struct. */
#define RECORD_MEMBER(type, name, highest) type name;
#define RECORD_MEMBER_TEXT(name)           const char *name;

/* Copies the rows of a table from one struct or message to another. Texts are borrowed; or held
 * anew, in place of those that were there. */
#define RECORD_COPY(table, from, to)                                                               \
    do {                                                                                           \
        __typeof__(from) row_from = (from);                                                        \
        __typeof__(to) row_to = (to);                                                              \
        table(ROW_COPY, ROW_COPY_TEXT)                                                             \
    } while (0)
#define RECORD_TAKE(table, fsm, from, to)                                                          \
    do {                                                                                           \
        __typeof__(from) row_from = (from);                                                        \
        __typeof__(to) row_to = (to);                                                              \
        table(ROW_COPY, ROW_INTERN_TEXT)                                                           \
    } while (0)
#define ROW_COPY(type, name, highest) row_to->name = (type)row_from->name;
#define ROW_COPY_TEXT(name)           row_to->name = record_text(row_from->name);
#define ROW_INTERN_TEXT(name)         fsm_intern_set(fsm, &row_to->name, row_from->name);

/* The texts of a record: all empty, or let go. */
#define RECORD_EMPTY_TEXTS(table, fsm, to)                                                         \
    do {                                                                                           \
        __typeof__(to) row_to = (to);                                                              \
        table(ROW_SKIP, ROW_EMPTY_TEXT)                                                            \
    } while (0)
#define RECORD_RELEASE_TEXTS(table, fsm, from)                                                     \
    do {                                                                                           \
        __typeof__(from) row_from = (from);                                                        \
        table(ROW_SKIP, ROW_RELEASE_TEXT)                                                          \
    } while (0)
#define ROW_SKIP(type, name, highest)
#define ROW_EMPTY_TEXT(name)   fsm_intern_set(fsm, &row_to->name, "");
#define ROW_RELEASE_TEXT(name) fsm_intern_release(fsm, row_from->name);

/* Clears the bool `within` unless all numbers of a message are within their bounds. Texts are
 * checked where they mean something. */
#define RECORD_CHECK(table, message)                                                               \
    do {                                                                                           \
        __typeof__(message) row_from = (message);                                                  \
        table(ROW_CHECK, ROW_SKIP_TEXT)                                                            \
    } while (0)
#define ROW_CHECK(type, name, highest)                                                             \
    within &= record_within((uint64_t)row_from->name, (highest), sizeof(type));
#define ROW_SKIP_TEXT(name)

static inline bool record_within(uint64_t value, uint64_t highest, size_t type_bytes)
{
    return value <= highest && (type_bytes > 1 || value <= UINT8_MAX);
}

/* protobuf-c wants char *, and only reads. */
static inline char *record_text(const char *constant)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {constant};

    return pointer.changing;
}

#endif
