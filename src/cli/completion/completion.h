/* Completion scripts of shells, written from the table of commands.
 *
 * Flow     `ckptctl completion SHELL` finds the row of the shell, whose function prints the
 *          script. A new shell is a file here and a row in completion.c.
 * Shapes   each script finds the command among the words before the cursor: options and the values
 *          of global options are passed over. Ids are asked of the cluster when they are wanted.
 */
#ifndef CKPT_CLI_COMPLETION_COMPLETION_H
#define CKPT_CLI_COMPLETION_COMPLETION_H

#include "src/cli/cli.h"

/* The shell's script for the commands of the table. False: no such shell. */
bool completion_print(FILE *stream, const char *shell, const struct command *table);

void completion_print_bash(FILE *stream, const struct command *table);
void completion_print_fish(FILE *stream, const struct command *table);
void completion_print_zsh(FILE *stream, const struct command *table);

/* Whether the command's first word stands for the first time in the table; its length. */
bool completion_first_word(const struct command *table, const struct command *command,
                           int *ret_length);

/* Kinds of positional arguments. */
enum completion_argument {
    COMPLETION_NOTHING,
    COMPLETION_FILES,
    COMPLETION_SHELLS, /* completion_shells() */
    COMPLETION_IDS     /* `ckptctl PLURAL -o name -q` lists them */
};
/* ret_plural is set for COMPLETION_IDS. */
enum completion_argument completion_argument(const struct command *command,
                                             const char **ret_plural);
const char *completion_shells(void); /* "bash fish zsh" */

/* The words that an option takes, with blanks between them; "": others. */
void completion_print_words(FILE *stream, const struct option_spec *spec);
bool completion_has_words(const struct option_spec *spec);

/* The global options that take a value, each as --NAME and -LETTER, quoted, with the separator
 * between them. */
void completion_print_valued(FILE *stream, const char *separator);

/* The walks of completion_walk.c: each item is printed by the shell's own function. */
typedef void completion_option_fn(FILE *stream, const struct option_spec *spec);
/* word: within the command's name. */
typedef void completion_word_fn(FILE *stream, const struct command *command, const char *word,
                                size_t length);
/* A branch of a case statement: INDENT--NAME|-LETTER) BEFORE words BEHIND ;; */
struct completion_choice {
    const char *indent, *before, *behind;
};
void completion_each_option(FILE *stream, const struct option_spec *specs,
                            completion_option_fn *print);
/* Of the command, and the global ones; command NULL: these alone. */
void completion_options(FILE *stream, const struct command *command, completion_option_fn *print);
void completion_choices(FILE *stream, const struct command *command,
                        const struct completion_choice *choice);
void completion_first_words(FILE *stream, const struct command *table, completion_word_fn *print);
void completion_second_words(FILE *stream, const struct command *table, completion_word_fn *print);
/* A branch for each command of two words, which sets the variable `command`. */
void completion_two_words(FILE *stream, const struct command *table, char quote);

/* The text with each of the letters behind a backslash, on one line. */
void completion_print_escaped(FILE *stream, const char *text, const char *letters);

#endif
