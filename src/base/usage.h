/* Words of a command line that a program does not take: the error, alone, and where to read more.
 *
 * Flow     usage_option() in the place of getopt_long(). Its refusals, and the program's own, go
 *          through usage_refuse().
 * Shapes   the usage itself is printed for --help only: behind a whole page nobody sees the error.
 * Errors   err has one line: the word, and the nearest option to it.
 */
#ifndef CKPT_BASE_USAGE_H
#define CKPT_BASE_USAGE_H

#include <getopt.h>

struct err;

/* As getopt_long(3). '?': err says which word is no option, or lacks its value. */
int usage_option(int argc, char **argv, const char *letters, const struct option *table,
                 struct err *err);
/* "ckpt-run: TEXT", and "  see: ckpt-run VERB --help" below it; verb "": of the program. */
void usage_refuse(const char *program, const char *verb, const char *text);

#endif
