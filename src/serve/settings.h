/* The configuration of a daemon: a table of keys, a YAML file, flags.
 *
 * Flow     settings_init() gives every key its default; settings_load() or settings_parse() walk
 *          the YAML and hand each scalar to its row's kind; settings_set_flag() overrides. The
 *          owner checks rules over several keys, and reports by settings_complain().
 *          settings_print() shows every value with its source.
 * Shapes   a section is a mapping below its name, or a list of mappings that fill the items of an
 *          array in the owner's struct. A row's value lies at its offset in that struct, or in the
 *          item. Texts are owned here: settings_close() frees them.
 * Units    a key with a unit at the end of its name (src/base/number.h) may be written without it,
 *          and then the value says the unit: min_interval_ms: 300, but min_interval: 5m.
 * Errors   ERR_INVALID with "FILE, line N: ..." naming the key, the value, the limit, and for an
 *          unknown key the nearest known one.
 * Absent   libcyaml: its log knows the line of a key it rejects, but not the line of a value that
 *          is out of range, and that line is promised. libyaml, which libcyaml itself stands on,
 *          gives it for both. Aliases and several documents are refused. Reading again while the
 *          daemon runs: a value that may change there is replicated policy.
 */
#ifndef CKPT_SERVE_SETTINGS_H
#define CKPT_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/err.h"

enum { SETTINGS_FILE_MAX_BYTES = 1 << 20, SETTINGS_SECTIONS_MAX = 16 };

struct settings_row;

/* The form of a value. Kinds for every daemon are below; a daemon adds its own beside its table. A
 * kind is static and shared by rows. */
struct settings_kind {
    /* in_unit: the key was written with its unit, so a whole number is in this unit. -1 with one
     * line that names value and limit, and reads on behind the key's name. */
    int (*set)(const struct settings_row *row, void *place, bool in_unit, const char *value,
               struct err *err);
    /* The value as --print-config and complaints show it; cut when it does not fit. */
    void (*show)(const void *place, char *text, size_t size);
    bool owned; /* the place is a char * of the heap, or NULL */
    /* Checks a text that is not empty and has an allowed length; NULL: any text is allowed. Errors
     * as of set(). */
    int (*check)(const char *value, struct err *err);
};

extern const struct settings_kind settings_id;         /* id_valid() */
extern const struct settings_kind settings_address;    /* host:port */
extern const struct settings_kind settings_folder;     /* absolute, without ".." */
extern const struct settings_kind settings_path;       /* any text or none */
extern const struct settings_kind settings_url;        /* http:// or https:// */
extern const struct settings_kind settings_count;      /* uint64_t, in the unit of the key's name */
extern const struct settings_kind settings_count32;    /* uint32_t, likewise */
extern const struct settings_kind settings_yes_no;     /* bool */
extern const struct settings_kind settings_switch;     /* int, as messages have it */
extern const struct settings_kind settings_level;      /* enum log_level */
extern const struct settings_kind settings_log_format; /* enum log_format */

/* A key. */
struct settings_row {
    unsigned section; /* its position in the table's sections */
    const struct settings_kind *kind;
    const char *name;  /* as in the file, with its unit at the end */
    size_t offset;     /* in the owner's struct, or in the list's item */
    uint64_t min, max; /* of a number; of the length of a text */
    /* the default as in a file, in the unit of the name. NULL: required where its section or item
     * is given; at the root the owner asks settings_given() */
    const char *initial;
};

/* A section of keys. */
struct settings_section {
    const char *name; /* "" for the first one: the root */
    /* For a list: the most items, the size of one, and the offsets of the array and its count in
     * the owner's struct. All 0: a mapping. */
    size_t items_max, item_bytes, items_offset, count_offset; /* the count is a size_t */
    void (*init)(void *item);                                 /* NULL: an item begins as zeros */
    bool secret; /* values are not shown in complaints: a URL may hold a password */
};

/* All keys of a configuration. Static; outlives every struct settings. */
struct settings_table {
    const struct settings_section *sections;
    size_t section_count;
    const struct settings_row *rows;
    size_t row_count;
    bool may_be_empty; /* an empty file means the defaults */
};

/* One configuration, while it is read and afterwards. */
struct settings {
    const struct settings_table *table;
    void *values; /* the owner's struct, zeros at first */
    char *path;   /* of the file, for messages */
    struct settings_source *sources;
    size_t items_max; /* of all lists */
};

/* Gives every key outside of lists its default and remembers the path for messages. values is all
 * zeros before and lives until settings_close(). A default that its own row refuses is a bug. */
void settings_init(struct settings *settings, const struct settings_table *table, void *values,
                   const char *path);
/* Reads the file, once, at most SETTINGS_FILE_MAX_BYTES of it. 0; or -1 with err at the first wrong
 * key: the values are then half read, and only settings_close() may follow. */
int settings_load(struct settings *settings, struct err *err);
/* The same from memory. */
int settings_parse(struct settings *settings, const char *text, size_t length, struct err *err);
/* Sets a key of the root from a flag, over the file's value; value NULL: the flag is not given.
 * name is the key's; flag is the typed text ("--listen"), for the message. A whole number is in the
 * unit of the key's name. */
int settings_set_flag(struct settings *settings, const char *name, const char *flag,
                      const char *value, struct err *err);
/* Adds an item to a list that has room, with the defaults of its keys, for an item that is not in
 * the file's list. Returns its position. */
size_t settings_add_item(struct settings *settings, unsigned section);
/* True: the file or a flag gives the key (of a list: in the first item). The value alone does not
 * tell when the default means "not given". */
bool settings_given(const struct settings *settings, unsigned section, const char *name);
/* Reports a broken rule over several keys: -1 with the file, the line and the value of the key, and
 * text, which reads on behind the value ("is not among the members"). item is 0 outside of lists. A
 * key that is not in the file is named without a line and a value, a key of a secret section
 * without a value. */
int settings_complain(const struct settings *settings, unsigned section, const char *name,
                      size_t item, struct err *err, const char *text);
/* One line per value: key, value, source (default, file, flag). */
void settings_print(const struct settings *settings, FILE *stream);
/* Tells of each key whose value differs in the two, which have the same table: of a list that has
 * become longer or shorter, of those that one of them lacks as well. */
typedef void settings_changed_fn(void *data, unsigned section, const char *key, const char *path);
void settings_compare(const struct settings *before, const struct settings *after,
                      settings_changed_fn *changed, void *data);
/* Also for a struct of zeros. */
void settings_close(struct settings *settings);

#endif
