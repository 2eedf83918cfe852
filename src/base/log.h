/* Logs: one line per event on stderr, "event=name key=value ...", units in the keys; logfmt, or the
 * same as JSON (log_json.h).
 *
 * Flow     programs log, libraries return struct err. The state machine never logs.
 * Shapes   one process-wide level; lines over LOG_LINE_BYTES are cut.
 * Errors   writing a log line never fails the caller.
 * Absent   no secret is ever passed here; no file handling, the supervisor owns stderr. A file
 *          instead of it: log_file.h.
 */
#ifndef CKPT_BASE_LOG_H
#define CKPT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum { LOG_LINE_BYTES = 2048, LOG_KEPT_LINES = 64, LOG_KEPT_BYTES = 512 };
/* Ordered: a level shows itself and those behind it. */
enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* INFO until then. Lines below the level are kept for log_dump() all the same. */
void log_set_level(enum log_level level);
/* Accepts debug, info, warning, error; -1 for anything else. */
int log_parse_level(const char *text, enum log_level *ret_level);
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
/* LOGFMT until then. Lines that log_dump() keeps stay logfmt. */
void log_set_format(enum log_format format);
/* Accepts logfmt and json; -1 for anything else. */
int log_parse_format(const char *text, enum log_format *ret_format);
const char *log_format_name(enum log_format format);
/* Put on every line as program=... member=...; copied. */
void log_set_identity(const char *program, const char *name);

/* Before each line on stderr the priority that a journal takes off again and files it under, by
 * sd-daemon(3): "<4>" of a warning. Not until then, nor in log_dump(). */
void log_set_priorities(bool wanted);
/* A line on stderr as it stands, with its priority alone: of a start that is refused before the log
 * begins. The text has no end of line. */
__attribute__((format(printf, 2, 3))) void log_plain(enum log_level level, const char *format, ...);

/* Takes lines instead of stderr, which has those for which it says false; NULL: none does. */
typedef bool log_sink_fn(const char *line, size_t length);
void log_set_sink(log_sink_fn *sink);

/* A line as log_event() makes them, with its line feed; returns its length. */
__attribute__((format(printf, 4, 5))) size_t log_line(char ret_line[LOG_LINE_BYTES],
                                                      enum log_level level, const char *event,
                                                      const char *format, ...);
/* Format holds the key=value pairs after the event; quote values that are sentences: text=\"%s\".
 * Whatever a value holds, it stays one value (log_values.h). */
__attribute__((format(printf, 3, 4))) void log_event(enum log_level level, const char *event,
                                                     const char *format, ...);
/* Writes the last LOG_KEPT_LINES lines, those below the level included, to stderr: what a failed
 * CHECK wants told (check_set_hook). Does not allocate. */
void log_dump(void);

#define log_debug(...)   log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)    log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) log_event(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...)   log_event(LOG_LEVEL_ERROR, __VA_ARGS__)

#endif
