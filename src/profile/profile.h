/* Profiles as files: how a program that knows nothing of this project is asked for a checkpoint,
 * and by what it is seen to have saved (deploy/profiles/README.md).
 *
 * Flow     profile_open() finds a name or a path and reads it; profile_close().
 *          profile_source_find() gives the text alone; profile_names() lists all;
 *          profile_of_command() is the one that knows a command.
 * Shapes   a profile is the caller's and does not move while it is open: it owns its texts. A name
 *          is a file NAME.yaml of the site's folder ($CKPT_PROFILES, else PROFILE_FOLDER), else one
 *          that is built in from deploy/profiles. At most PROFILES_MAX names, and
 *          PROFILE_FILE_BYTES in a file.
 * Errors   ERR_INVALID with the file, the line, and of an unknown key the nearest one;
 *          ERR_NOT_FOUND with the nearest name.
 * Absent   the name of a way of asking (src/ask) is no file's: `--profile` takes both.
 * Source   S1-030.
 */
#ifndef CKPT_PROFILE_PROFILE_H
#define CKPT_PROFILE_PROFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/id.h"
#include "src/serve/settings.h"

#define PROFILE_FOLDER "/etc/ckpt/profiles"
#define PROFILE_AUTO   "auto" /* ckpt-run finds one by itself */

enum { PROFILES_MAX = 256, PROFILE_FILE_BYTES = 64 << 10, PROFILE_TEXT_BYTES = 4096 };

/* As the file says; a text that it does not give is "". */
struct profile {
    struct settings settings; /* owns the texts */
    char *about;
    char *programs;    /* names of executables, patterns with blanks between */
    char *subcommands; /* likewise: the program or the word behind it is one of these; "": any */
    char *unless;      /* words of a command with which it does not go: patterns */
    char *versions;    /* of the programs, likewise: it is for these alone */
    char *files;       /* patterns of those with the saved state (patterns.h) */
    char *outputs;     /* ... and of those to which it appends */
    char *way_given;
    const char *way; /* a row of src/ask: as given, or as other keys say */
    char *file;      /* for which the program looks, */
    char *text;      /* ... and the line in it */
    char *command;   /* saves it from outside */
    char *echkpnt;   /* ... or programs for LSF do, as `ckpt-run -k` has them */
    char *signal;    /* tells it to save: TERM, RTMIN+3 */
    char *whom;      /* gets the signal: each, group, started, rank=N or shell; "": the default */
    uint32_t ranks;  /* 0: as many as are found */
    uint32_t exit_status;
    char *exit;     /* it ends so whenever it has saved, asked or not: a status, or a signal */
    char *done_if;  /* a file that is there when its work is complete */
    char *go_on_if; /* ... or while it is not */
    char *line;     /* in what it prints when it has saved */
    char *tracker;  /* a file that is newer then, with the step in it */
    uint64_t quiet_ms;
    char *then; /* exits, goes-on or requeues */
    char *restart_command;
};

struct profile_source {
    char path[PATH_MAX]; /* of the file, or "NAME (built in)" */
    char *text;          /* of the heap */
    size_t length;
};

struct profile_name {
    char name[ID_MAX_BYTES + 1];
    bool built_in; /* false: a file of the site */
};

/* A word with a slash, or that ends in .yaml, is a path. */
int profile_source_find(const char *word, struct profile_source *ret_source, struct err *err);
void profile_source_free(struct profile_source *source);
/* After any outcome profile_close() follows. path is for messages. */
int profile_parse(struct profile *profile, const char *path, const char *text, size_t length,
                  struct err *err);
int profile_open(struct profile *profile, const char *word, struct err *err);
/* The word of the command with which the profile does not go; NULL: there is none. */
const char *profile_unfit(const struct profile *profile, char *const *command);
/* Also for a struct of zeros. */
void profile_close(struct profile *profile);
/* The way of asking for which a registration's word stands: its own name, or that of the profile;
 * "": none is named. The word itself where neither is known here: a cluster may know more. -1: the
 * profile is wrong. */
int profile_way(const char *word, char ret_way[ID_MAX_BYTES + 1], struct err *err);
/* It asks by a file for which the program looks; else by its command, or as its way says alone. */
bool profile_has_file(const struct profile *profile);
/* Somebody stands in for it: tells it by that file or by a signal, or sees that it ends. */
bool profile_stands_in(const struct profile *profile);
bool profile_goes_on(const struct profile *profile);

/* In order, each name once. */
size_t profile_names(struct profile_name ret_names[PROFILES_MAX]);
enum { PROFILE_VERSION_BYTES = 32 };
struct profile_known {
    char name[ID_MAX_BYTES + 1]; /* of the profile */
    const char *program;         /* of the command, whose text it is */
    char version[PROFILE_VERSION_BYTES];
};
/* Opens the first profile that names the command's program: its first word, or one behind a
 * launcher. One that names the program's version too comes before all others. A file of the site
 * that is wrong is passed over. */
bool profile_of_command(char *const *command, struct profile *profile,
                        struct profile_known *ret_known);
/* "6.4.2" of a program that lies in .../vasp/6.4.2/bin, by the last name on its path that has one;
 * "": none has. The program itself is not asked. Returns ret_version. */
const char *profile_version(const char *program, char ret_version[PROFILE_VERSION_BYTES]);

#endif
