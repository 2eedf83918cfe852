/* The build that this program is of, as status, logs, backups and hellos tell it.
 *
 * Flow     the Makefile writes the commit and its date, and links them into programs. Tests are
 *          linked without: what they are made of does not change with each commit.
 */
#ifndef CKPT_BASE_BUILD_H
#define CKPT_BASE_BUILD_H

/* "0.2.0 (123456789abc, 2026-11-29)": version, commit (with + where files were changed) and date of
 * the commit; the version alone where the folder was no checkout. At most 95 bytes. */
extern const char build_text[];

/* Releases, X(level, version), as the file RELEASES has them (the lint compares): the feature
 * levels of builds that do not tell them. */
#define BUILD_RELEASES(X) X(1, "0.1.0")

#endif
