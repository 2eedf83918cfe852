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

#endif
